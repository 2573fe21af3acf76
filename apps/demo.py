"""The demo: the bundled conversations become a memory: people, what changed and since when, and four questions."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os.path import relpath
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from flows.communities import communities
from flows.ingest import ingest
from recall.overview import changes, repeated, stats
from slowwave.api import OpenMemory
from slowwave.errors import UnusableInput
from slowwave.installation import project_folder
from slowwave.settings import CommunitySettings, IngestSettings, LanguageSettings
from slowwave.types import Community, Entity, RecalledFact, Recollection
from storage.connection import has_namespace
from storage.store import Store

from .printing import out, print_json, progress
from .tables import Speakers, fact_lines

QUESTIONS = (
    "Why did we choose Redis Streams instead of RabbitMQ?",
    "Where does Tomás live now?",
    "What is the rate limit of Kestrel?",
)
OVER_TWO_RELATIONS = "Where does Pixel's owner work?"
INPUTS = ("conversations", "documents")
RECORDED = project_folder() / "examples" / "recorded" / "answers.jsonl"
"""What a model answered about the bundled conversations; `make record` renews it."""
RECORDED_AT = datetime(2026, 11, 1, tzinfo=UTC)
"""The time that counts as now while answers are recorded or played: what is live then is shown in prompts."""
PEOPLE, CHANGES, REPEATED, GROUPS, ANSWERS = 4, 8, 4, 3, 2
WIDEST, LINE = 100, 60


@dataclass(frozen=True)
class _Shown:
    """Everything that the demo shows."""

    summary: dict[str, Any]
    stats: dict[str, Any]
    changes: list[dict[str, Any]]
    repeated: list[dict[str, Any]]
    people: tuple[tuple[Entity, tuple[RecalledFact, ...]], ...]
    communities: tuple[Community, ...]
    found: list[Recollection]
    speakers: Speakers


def run_demo(keep: Path | None, as_json: bool, llm: str | None = None) -> None:
    """Ingest the examples into a fresh store and show it, with the recorded answers of a model or with `llm`."""
    model = LanguageSettings(model=llm or f"replay/{RECORDED}")
    if keep is not None and has_namespace(str(keep), "default"):
        raise UnusableInput(f"There is a store in {keep} already.", "Name a new folder with --keep.")
    with _store(keep) as uri, progress(quiet=as_json):
        if not as_json:
            out.print(_who_reads(llm))
        shown = _look(uri, asyncio.run(learn(uri, model, None if llm else RECORDED_AT)))
    if as_json:
        document = {"ingest": shown.summary, "stats": shown.stats, "changes": shown.changes, "repeated": shown.repeated}
        document["communities"] = [one.as_json() for one in shown.communities]
        print_json({**document, "recalls": [each.as_json() for each in shown.found]})
        return
    for line in _lines(shown):
        out.print(line, markup=False, highlight=False)
    for each in shown.found:
        walked = [fact for fact in each.facts if "hops" in fact.parts and each.query == OVER_TWO_RELATIONS]
        out.print(fact_lines(each.query, (walked or each.facts)[:ANSWERS], shown.speakers))
    _next_commands(keep)


def _who_reads(llm: str | None) -> str:
    if llm is None:
        return "Read by a model: its recorded answers are played back (provider replay)."
    return "Nobody reads: words are kept as quotations." if llm == "quotes" else f"Read by {llm}."


async def learn(uri: str, model: LanguageSettings, now: datetime | None = None) -> dict[str, Any]:
    """Counts of the ingestion of the examples; communities are found afterwards, and errors of both are listed."""
    place = str(Path(uri).absolute())
    with chdir(project_folder() / "examples"):  # a document is known by its path: the same one on every machine
        summary = await ingest(list(INPUTS), store=place, settings=IngestSettings(llm=model), now=now)
        found = await communities(store=place, settings=CommunitySettings(llm=model), now=now)
    return {**summary, "errors": [*summary["errors"], *found.get("errors", ())]}


def _look(uri: str, summary: dict[str, Any]) -> _Shown:
    with OpenMemory.open(uri) as memory:
        found = [*memory.recall_many(QUESTIONS, k=3), memory.recall(OVER_TWO_RELATIONS, k=5, graph="bfs")]
        _, groups = memory.communities(limit=GROUPS)
        _, persons = memory.entities(limit=PEOPLE, type="person")
        people = tuple((person, _most_telling(memory.facts_of(person.name)[1])) for person in persons)
        changed = [change for change in changes(memory.snapshot) if change["now"]]
        again = repeated(memory.snapshot)
        speakers = memory.speakers([fact for each in found for fact in each.facts])
    counted = stats(Store.open(uri), datetime.now(UTC))
    return _Shown(summary, counted, changed, again, people, groups, found, speakers)


def _most_telling(known: tuple[RecalledFact, ...]) -> tuple[RecalledFact, ...]:
    """Two facts that show most: the shortest with a relation of their own, else quotations of a line."""

    def order(fact: RecalledFact) -> tuple[bool, int]:
        is_quoted = fact.predicate in ("said", "noted")
        return is_quoted, abs(len(fact.statement) - (LINE if is_quoted else 0))

    return tuple(sorted(known, key=order)[:2])


def _lines(shown: _Shown) -> Iterator[str]:
    counts, refused = shown.summary["counts"], sum(shown.summary["refused"].values())
    facts, entities = shown.stats["facts"]["live"], shown.stats["entities"]
    yield f"{counts['messages read']} messages and passages became {facts} facts about {entities} people and things."
    yield f"{refused} were refused: small talk, output of tools, orders to the reader."
    yield from _title("People")
    for person, known in shown.people:
        yield f"{person.name}, {person.facts} facts"
        yield from (_cut(f"  {_since(fact.valid_from)}{fact.statement}") for fact in known)
    if shown.changes:
        yield from _title("What changed, and since when")
    for change in shown.changes[:CHANGES]:
        yield from _wrapped(f"{change['valid_to']:%Y-%m-%d}  ", change["now"])
        yield _cut(f"    before: {change['before']}")
    if shown.repeated:
        yield from _title("Said several times, kept once")
    yield from (_cut(row["statement"], f"  [{', '.join(row['said_in'][:2])}]") for row in shown.repeated[:REPEATED])
    if shown.communities:
        yield from _title("What belongs together")
    for group in shown.communities:
        yield _cut(f"{group.name}: {', '.join(member.name for member in group.members[:6])}")
    yield from _title("Four questions, the last one over two relations")


def _width() -> int:
    return min(out.width, WIDEST)


def _title(words: str) -> Sequence[str]:
    return "", f"{words} {'─' * max(_width() - len(words) - 1, 5)}"


def _since(day: datetime | None) -> str:
    return f"since {day:%Y-%m-%d}: " if day else ""


def _cut(words: str, end: str = "") -> str:
    """The words and the end on one line."""
    room = _width() - len(end)
    return f"{words if len(words) <= room else f'{words[: room - 1]}…'}{end}"


def _wrapped(start: str, words: str) -> list[str]:
    """The words behind the start, on at most two lines."""
    return textwrap.wrap(
        words, _width(), initial_indent=start, subsequent_indent=" " * len(start), max_lines=2, placeholder="…"
    )


@contextmanager
def _store(keep: Path | None) -> Iterator[str]:
    if keep is not None:
        yield str(keep)
        return
    with TemporaryDirectory(prefix="slowwave-demo-") as folder:
        yield str(Path(folder) / "memory")


def _next_commands(keep: Path | None) -> None:
    program = "slowwave" if which("slowwave") else relpath(sys.argv[0])
    place = f" --store {keep or './demo'}"
    first = () if keep else (f"{program} demo --keep ./demo     first: the next two look there",)
    more = (f'{program} recall "Who is Marta\'s manager?"{place}', f'{program} history "Marta Oliveira"{place}')
    own = f"{program} ingest ~/.claude/projects --store ./mine     your own conversations"
    for line in (*_title("Next"), *first, *more, f"{program} demo --llm quotes     without a model", own):
        out.print(line, markup=False, highlight=False)
