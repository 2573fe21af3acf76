"""The demo: the bundled conversations through ingestion, what was learned and refused, and three questions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flows.ingest import ingest
from recall.memory import Memory
from recall.overview import quality, stats
from slowwave.launcher import project_folder
from slowwave.settings import IngestSettings, LanguageSettings
from storage.store import Store

from .printing import out, print_json, progress, table, validity
from .read_commands import recall_table
from .write_commands import show_ingest

QUESTIONS = (
    "Why did we choose Redis Streams instead of RabbitMQ?",
    "Where does Tomás live now?",
    "What is the rate limit of Kestrel?",
)
PERSON = "Marta Oliveira"


def run_demo(keep: Path | None, as_json: bool) -> None:
    """Ingest the examples into a fresh store and show it."""
    with _store(keep) as uri, progress(quiet=as_json):
        summary = asyncio.run(
            ingest(_inputs(), store=uri, settings=IngestSettings(llm=LanguageSettings(model="rules")))
        )
        with Memory.open(uri) as memory:
            found = [memory.recall(question, k=3) for question in QUESTIONS]
            _, entities = memory.entities(limit=12)
            person, known = memory.facts_of(PERSON)
        store = Store.open(uri)
        counted, refused = stats(store, datetime.now(UTC)), quality(store)
    if as_json:
        print_json({"ingest": summary, "stats": counted, "recalls": [each.as_json() for each in found]})
        return
    out.rule("[bold]What was read")
    show_ingest(summary)
    out.rule("[bold]Who and what is known")
    out.print(
        table(
            "Entities",
            ("name", "type", "count", "also known as"),
            [(e.name, e.entity_type, e.facts, ", ".join(e.aliases)) for e in entities],
        )
    )
    out.rule("[bold]Facts, since when, and who said so")
    out.print(
        table(
            person.name,
            ("fact", "valid", "said in"),
            [(f.statement, validity(f.valid_from, f.valid_to), f.provenance[0].message_id) for f in _telling(known)],
        )
    )
    out.rule("[bold]What was refused, and why")
    out.print(
        table(
            "Refused",
            ("gate", "count", "for example", "why"),
            [
                (g["gate"], g["refused"], (g["example"] or "").replace("\n", " ")[:60], g["reason"])
                for g in refused["gates"]
            ],
        )
    )
    out.rule("[bold]Three questions")
    for each in found:
        out.print(recall_table(each))
    _next_commands(keep)


def _telling(known: Any) -> list[Any]:
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
    out.rule("[bold]Next")
    place = f" --store {keep}" if keep else ""
    if keep is None:
        out.print("slowwave demo --keep ./memory          keep this store and look around in it", markup=False)
    out.print(f'slowwave recall "Who is Marta\'s manager?"{place}', markup=False)
    out.print(f"slowwave facts Kestrel{place}", markup=False)
    out.print("slowwave ingest ~/.claude/projects --store ./mine      your own conversations", markup=False)
