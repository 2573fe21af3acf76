"""The demo: the bundled conversations through ingestion, what was learned and refused, what belongs together, and four
questions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import RenderableType

from flows.communities import communities
from flows.ingest import ingest
from recall.memory import Memory
from recall.overview import changes, quality, repeated, stats
from slowwave.answers import Community, Entity, RecalledFact, Recollection
from slowwave.launcher import project_folder
from slowwave.settings import CommunitySettings, IngestSettings, LanguageSettings
from storage.store import Store

from .community_commands import community_table
from .printing import out, print_json, progress, table, validity
from .read_commands import entity_table
from .recall_tables import recall_table, source_names
from .write_commands import count_table

QUESTIONS = (
    "Why did we choose Redis Streams instead of RabbitMQ?",
    "Where does Tomás live now?",
    "What is the rate limit of Kestrel?",
)
OVER_TWO_RELATIONS = "Where does Pixel's owner work?"
PERSON = "Marta Oliveira"


@dataclass(frozen=True)
class _Shown:
    """Everything that the demo shows."""

    summary: dict[str, Any]
    stats: dict[str, Any]
    quality: dict[str, Any]
    changes: list[dict[str, Any]]
    repeated: list[dict[str, Any]]
    entities: list[Entity]
    known: tuple[RecalledFact, ...]
    communities: tuple[Community, ...]
    found: list[Recollection]
    walked: Recollection


def run_demo(keep: Path | None, as_json: bool) -> None:
    """Ingest the examples into a fresh store and show it."""
    with _store(keep) as uri, progress(quiet=as_json):
        shown = _look(uri, asyncio.run(_learn(uri)))
    if as_json:
        recalls = [each.as_json() for each in (*shown.found, shown.walked)]
        told = {"ingest": shown.summary, "stats": shown.stats, "changes": shown.changes, "repeated": shown.repeated}
        told["communities"] = [one.as_json() for one in shown.communities]
        print_json({**told, "recalls": recalls})
        return
    for title, tables in _sections(shown):
        out.rule(f"[bold]{title}", align="left")
        for each in tables:
            out.print(each)
    _next_commands(keep)


async def _learn(uri: str) -> dict[str, Any]:
    """What ingestion counted; communities are found after it."""
    keyless = LanguageSettings(model="rules")
    summary = await ingest(_inputs(), store=uri, settings=IngestSettings(llm=keyless))
    await communities(store=uri, settings=CommunitySettings(llm=keyless))
    return summary


def _look(uri: str, summary: dict[str, Any]) -> _Shown:
    with Memory.open(uri) as memory:
        found = [memory.recall(question, k=3) for question in QUESTIONS]
        walked = memory.recall(OVER_TWO_RELATIONS, k=4, graph="bfs")
        _, together = memory.communities(limit=3)
        _, entities = memory.entities(limit=12)
        _, known = memory.facts_of(PERSON)
        changed, again = changes(memory.snapshot), repeated(memory.snapshot)
    store = Store.open(uri)
    counted = stats(store, datetime.now(UTC))
    return _Shown(summary, counted, quality(store), changed, again, entities, known, together, found, walked)


def _sections(shown: _Shown) -> Iterator[tuple[str, list[RenderableType]]]:
    yield "What was read", [count_table(shown.summary)]
    yield "Who and what is known", [entity_table(shown.entities)]
    about = [(f.statement, validity(f.valid_from, f.valid_to), source_names(f)) for f in _telling(shown.known)]
    yield "Facts, since when, and who said so", [table(f"About {PERSON}", ("fact", "valid", "said in"), about)]
    changed = [(c["before"], c["now"] or "", validity(c["valid_from"], c["valid_to"])) for c in shown.changes]
    yield "What stopped being true", [table("", ("before", "now", "held"), changed)]
    again = [(r["statement"], ", ".join(r["said_in"])) for r in shown.repeated]
    yield "One fact for what was said several times", [table("", ("fact", "said in"), again)]
    gates = shown.quality["gates"]
    rows = [(g["gate"], g["refused"], (g["example"] or "").replace("\n", " ")[:60], g["reason"]) for g in gates]
    yield "What was refused, and why", [table("", ("gate", "count", "for example", "why"), rows)]
    yield "What belongs together", [community_table(shown.communities)]
    yield "Three questions", [recall_table(each) for each in shown.found]
    yield "A question over two relations: whose cat Pixel is, and where he works", [recall_table(shown.walked)]


def _telling(known: tuple[RecalledFact, ...]) -> list[RecalledFact]:
    """A dozen facts that show most: those with a relation of their own first, then the newest."""
    return sorted(known, key=lambda fact: fact.predicate in ("said", "noted"))[:12]


def _inputs() -> list[str]:
    folder = project_folder() / "examples"
    return [str(folder / name) for name in ("conversations", "documents")]


@contextmanager
def _store(keep: Path | None) -> Iterator[str]:
    if keep is not None:
        yield str(keep)
        return
    with TemporaryDirectory(prefix="slowwave-demo-") as folder:
        yield str(Path(folder) / "memory")


def _next_commands(keep: Path | None) -> None:
    out.rule("[bold]Next", align="left")
    place = f" --store {keep}" if keep else ""
    if keep is None:
        out.print("slowwave demo --keep ./memory          keep this store and look around in it", markup=False)
    out.print(f'slowwave recall "Who is Marta\'s manager?"{place}', markup=False)
    out.print(f'slowwave path "Marta Oliveira" Lisbon{place}       how two of them are related', markup=False)
    out.print(f"slowwave facts Kestrel{place}", markup=False)
    out.print(f'slowwave history "Marta Oliveira"{place}', markup=False)
    out.print(f"slowwave atlas{place}          all of it as one page", markup=False)
    out.print(f"slowwave report{place}         what wants a person's eye", markup=False)
    out.print(f"slowwave mcp{place}            serve agents", markup=False)
    out.print("slowwave ingest ~/.claude/projects --store ./mine      your own conversations", markup=False)
