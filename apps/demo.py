"""The demo: the bundled conversations become a memory: people, what changed and since when, and four questions."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from datetime import UTC, datetime
from os.path import relpath
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from flows.ingest import ingest
from flows.maintenance import communities
from recall.overview import stats
from slowwave.common.errors import UnusableInput
from slowwave.common.installation import project_folder
from slowwave.common.lexicon.labels import NOTED, SAID
from slowwave.common.settings import CommunitySettings, IngestSettings, LanguageSettings
from slowwave.common.types import Community, RecalledFact
from slowwave.integrations.python_api import OpenMemory
from storage.connection import has_namespace
from storage.store import Store

from .options import Shown
from .printing import out, progress
from .recall_commands import fact_lines

QUESTIONS = (
    "Why did we choose Redis Streams instead of RabbitMQ?",
    "Where does Tomás live now?",
    "How many requests per minute may a client of Kestrel make?",
)
OVER_TWO_RELATIONS = "Where does Pixel's owner work?"
INPUTS = ("conversations", "documents")
RECORDED = project_folder() / "examples" / "recorded" / "answers.jsonl"
"""What a model answered about the bundled conversations; `make record` renews it."""
RECORDED_AT = datetime(2026, 11, 1, tzinfo=UTC)
"""The time that counts as now while answers are recorded or played: what is live then is shown in prompts."""
PEOPLE, CHANGES, GROUPS, ANSWERS = 4, 8, 3, 3
WIDEST, LINE = 100, 60


def run_demo(keep: Path | None, as_json: bool, llm: str | None = None) -> Shown:
    """Ingest the examples into a fresh store and show it, with the recorded answers of a model or with `llm`."""
    model = LanguageSettings(model=llm or f"replay/{RECORDED}")
    if keep is not None and has_namespace(str(keep), "default"):
        raise UnusableInput(f"There is a store in {keep} already.", "Name a new folder with --keep.")
    with _store(keep) as uri, progress(quiet=as_json):
        if not as_json:
            recorded = "Read by a model: its recorded answers are played back (provider replay)."
            who = recorded if llm is None else f"Read by {llm}."
            out.print("Nobody reads: words are kept as quotations." if llm == "quotes" else who)
        summary = asyncio.run(learn(uri, model, None if llm else RECORDED_AT))
        yield from _look(uri, summary)
    yield from _next_commands(keep)


async def learn(uri: str, model: LanguageSettings, now: datetime | None = None) -> dict[str, Any]:
    """Counts of the ingestion of the examples; communities are found afterwards, and errors of both are listed."""
    place = str(Path(uri).absolute())
    with chdir(project_folder() / "examples"):  # a document is known by its path: the same one on every machine
        summary = await ingest(list(INPUTS), store=place, settings=IngestSettings(llm=model), now=now)
        found = await communities(store=place, settings=CommunitySettings(llm=model), now=now)
    return {**summary, "errors": [*summary["errors"], *found.get("errors", ())]}


def _look(uri: str, summary: dict[str, Any]) -> Shown:
    """What was learned, and the answers to the questions."""
    counted = stats(Store.open(uri), datetime.now(UTC))
    with OpenMemory.open(uri) as memory:
        found = [*memory.recall_many(QUESTIONS, k=3), memory.recall(OVER_TWO_RELATIONS, k=8, graph="bfs")]
        _, groups = memory.communities(limit=GROUPS)
        newer = [fact for fact in memory.facts(None)[1] if fact.replaces and fact.valid_from]
        changed = sorted(newer, key=lambda fact: (fact.valid_from, fact.id), reverse=True)[:CHANGES]
        document = {"ingest": summary, "stats": counted, "changes": changed}
        yield {**document, "communities": groups, "recalls": found}
        yield from _lines(memory, summary, counted, changed, groups)
        speakers = memory.speakers([fact for each in found for fact in each.facts])
    for each in found:
        walked = [fact for fact in each.facts if "hops" in fact.parts and each.query == OVER_TWO_RELATIONS]
        yield fact_lines(each.query, (walked or each.facts)[:ANSWERS], speakers)


def _most_telling(known: tuple[RecalledFact, ...]) -> tuple[RecalledFact, ...]:
    """Two facts that show most: the shortest with a relation of their own, else quotations of a line."""

    def order(fact: RecalledFact) -> tuple[bool, int]:
        is_quoted = fact.predicate in (SAID, NOTED)
        return is_quoted, abs(len(fact.statement) - (LINE if is_quoted else 0))

    return tuple(sorted(known, key=order)[:2])


def _lines(
    memory: OpenMemory,
    summary: dict[str, Any],
    counted: dict[str, Any],
    changed: Sequence[RecalledFact],
    groups: Sequence[Community],
) -> Iterator[str]:
    counts, refused = summary["counts"], sum(summary["refused"].values())
    facts, entities = counted["facts"]["live"], counted["entities"]
    yield f"{counts['messages read']} messages and passages became {facts} facts about {entities} people and things."
    yield f"{refused} were refused: small talk, output of tools, orders to the reader."
    yield from (f"Not complete: {error}" for error in summary["errors"][:1])
    yield from _title("People")
    for person in memory.entities(limit=PEOPLE, type="person")[1]:
        yield f"{person.name}, {person.facts} facts"
        for fact in _most_telling(memory.facts_of(person.name)[1]):
            since = f"since {fact.valid_from:%Y-%m-%d}: " if fact.valid_from else ""
            yield _cut(f"  {since}{fact.statement}")
    if changed:
        yield from _title("What changed, and since when")
    for fact in changed:
        start = f"{fact.valid_from:%Y-%m-%d}  "
        yield from textwrap.wrap(
            fact.statement, _width(), initial_indent=start, subsequent_indent=" " * len(start), max_lines=2,
            placeholder="…",
        )  # fmt: skip
        yield _cut(f"    before: {fact.replaces[0].statement}")
    if groups:
        yield from _title("What belongs together")
    for group in groups:
        yield _cut(f"{group.name}: {', '.join(member.name for member in group.members[:6])}")
    yield from _title("Four questions, the last one over two relations")


def _width() -> int:
    return min(out.width, WIDEST)


def _title(words: str) -> Sequence[str]:
    return "", f"{words} {'─' * max(_width() - len(words) - 1, 5)}"


def _cut(words: str) -> str:
    """The words on one line."""
    return words if len(words) <= _width() else f"{words[: _width() - 1]}…"


@contextmanager
def _store(keep: Path | None) -> Iterator[str]:
    if keep is not None:
        yield str(keep)
        return
    with TemporaryDirectory(prefix="slowwave-demo-") as folder:
        yield str(Path(folder) / "memory")


def _next_commands(keep: Path | None) -> Iterator[str]:
    program = "slowwave" if which("slowwave") else relpath(sys.argv[0])
    place = f" --store {keep or './demo'}"
    first = () if keep else (f"{program} demo --keep ./demo     first: the next two look there",)
    more = (f'{program} recall "Who is Marta\'s manager?"{place}', f'{program} history "Marta Oliveira"{place}')
    own = f"{program} ingest ~/.claude/projects --store ./mine     your own conversations"
    yield from (*_title("Next"), *first, *more, f"{program} demo --llm quotes     without a model", own)
