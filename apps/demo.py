"""The demo: the bundled conversations through ingestion, what was learned and refused, what belongs together, and four
questions.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os.path import relpath
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import RenderableType

from flows.communities import communities
from flows.ingest import ingest
from recall.overview import changes, quality, repeated, stats
from slowwave.api import OpenMemory
from slowwave.launcher import project_folder
from slowwave.settings import CommunitySettings, IngestSettings, LanguageSettings
from slowwave.types import Community, Entity, RecalledFact, Recollection
from storage.store import Store

from .knowledge_commands import entity_table
from .maintain_commands import community_table
from .printing import count_table, out, print_json, progress, table, validity
from .tables import Speakers, fact_lines, source_names

QUESTIONS = (
    "Why did we choose Redis Streams instead of RabbitMQ?",
    "Where does Tomás live now?",
    "What is the rate limit of Kestrel?",
)
OVER_TWO_RELATIONS = "Where does Pixel's owner work?"
PERSON = "Marta Oliveira"
INPUTS = ("conversations", "documents")
RECORDED = project_folder() / "examples" / "recorded" / "answers.jsonl"
"""What a model answered about the bundled conversations; `make record` renews it."""
RECORDED_AT = datetime(2026, 11, 1, tzinfo=UTC)
"""The time that counts as now while answers are recorded or played: what is live then is shown in prompts."""


@dataclass(frozen=True)
class _Shown:
    """Everything that the demo shows."""

    summary: dict[str, Any]
    stats: dict[str, Any]
    quality: dict[str, Any]
    changes: list[dict[str, Any]]
    repeated: list[dict[str, Any]]
    entities: tuple[Entity, ...]
    known: tuple[RecalledFact, ...]
    communities: tuple[Community, ...]
    found: list[Recollection]
    walked: Recollection
    speakers: Speakers


def run_demo(keep: Path | None, as_json: bool, recorded: bool = False) -> None:
    """Ingest the examples into a fresh store and show it; `recorded` with the answers that a model gave."""
    model = LanguageSettings(model=f"replay/{RECORDED}" if recorded else "quotes")
    with _store(keep) as uri, progress(quiet=as_json):
        shown = _look(uri, asyncio.run(learn(uri, model, RECORDED_AT if recorded else None)))
    if as_json:
        recalls = [each.as_json() for each in (*shown.found, shown.walked)]
        document = {"ingest": shown.summary, "stats": shown.stats, "changes": shown.changes, "repeated": shown.repeated}
        document["communities"] = [one.as_json() for one in shown.communities]
        print_json({**document, "recalls": recalls})
        return
    if recorded:
        out.print("With the recorded answers of a model: what it read in these conversations once is played back.\n")
    for title, tables in _sections(shown):
        out.rule(f"[bold]{title}", align="left")
        for each in tables:
            out.print(each)
    _next_commands(keep)


async def learn(uri: str, model: LanguageSettings, now: datetime | None = None) -> dict[str, Any]:
    """Counts of the ingestion of the examples; communities are found afterwards, and errors of both are listed."""
    place = str(Path(uri).absolute())
    with chdir(project_folder() / "examples"):  # a document is known by its path: the same one on every machine
        summary = await ingest(list(INPUTS), store=place, settings=IngestSettings(llm=model), now=now)
        found = await communities(store=place, settings=CommunitySettings(llm=model), now=now)
    return {**summary, "errors": [*summary["errors"], *found.get("errors", ())]}


def _look(uri: str, summary: dict[str, Any]) -> _Shown:
    with OpenMemory.open(uri) as memory:
        found = memory.recall_many(QUESTIONS, k=3)
        walked = memory.recall(OVER_TWO_RELATIONS, k=4, graph="bfs")
        _, together = memory.communities(limit=3)
        _, entities = memory.entities(limit=12)
        _, known = memory.facts_of(PERSON)
        changed, again = changes(memory.snapshot), repeated(memory.snapshot)
        speakers = memory.speakers([fact for each in (*found, walked) for fact in each.facts])
    store = Store.open(uri)
    counted = stats(store, datetime.now(UTC))
    return _Shown(summary, counted, quality(store), changed, again, entities, known, together, found, walked, speakers)


def _sections(shown: _Shown) -> Iterator[tuple[str, list[RenderableType]]]:
    yield "What was read", [count_table(shown.summary)]
    yield "Who and what is known", [entity_table(shown.entities)]
    about = [(f.statement, validity(f.valid_from, f.valid_to), source_names(f)) for f in _most_telling(shown.known)]
    yield "Facts, since when, and who said so", [table(f"About {PERSON}", ("fact", "valid", "said in"), about)]
    changed = [
        (_with_count(c["before"], c["facts"]), c["now"] or "", validity(c["valid_from"], c["valid_to"]))
        for c in shown.changes
    ]
    yield "What stopped being true", [table("", ("before", "now", "valid"), changed)]
    again = [(r["statement"], ", ".join(r["said_in"])) for r in shown.repeated]
    yield "One fact for what was said several times", [table("", ("fact", "said in"), again)]
    gates = shown.quality["gates"]
    rows = [(g["gate"], g["refused"], (g["example"] or "").replace("\n", " ")[:60], g["reason"]) for g in gates]
    yield "What was refused, and why", [table("", ("gate", "count", "for example", "why"), rows)]
    yield "What belongs together", [community_table(shown.communities)]
    yield "Three questions", [fact_lines(each.query, each.facts, shown.speakers) for each in shown.found]
    walked = fact_lines(shown.walked.query, shown.walked.facts, shown.speakers)
    yield "A question over two relations: whose cat Pixel is, and where he works", [walked]


def _with_count(sentence: str, facts: int) -> str:
    """The sentence, with the number of its facts where it is more than one."""
    return sentence if facts == 1 else f"{sentence} ({facts} facts)"


def _most_telling(known: tuple[RecalledFact, ...]) -> list[RecalledFact]:
    """A dozen facts that show most: those with a relation of their own first, then the newest."""
    return sorted(known, key=lambda fact: fact.predicate in ("said", "noted"))[:12]


@contextmanager
def _store(keep: Path | None) -> Iterator[str]:
    if keep is not None:
        yield str(keep)
        return
    with TemporaryDirectory(prefix="slowwave-demo-") as folder:
        yield str(Path(folder) / "memory")


def _next_commands(keep: Path | None) -> None:
    out.rule("[bold]Next", align="left")
    program = "slowwave" if which("slowwave") else relpath(sys.argv[0])
    place = f" --store {keep}" if keep else ""
    if keep is None:
        out.print(f"{program} demo --keep ./memory     first: the others look there", markup=False)
    for command in (
        'recall "Who is Marta\'s manager?"',
        'path "Marta Oliveira" Lisbon',
        "facts Kestrel",
        'history "Marta Oliveira"',
        "atlas",
        "report",
        "mcp",
    ):
        out.print(f"{program} {command}{place}", markup=False)
    out.print(f"{program} ingest ~/.claude/projects --store ./mine", markup=False)
