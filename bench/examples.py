"""The bundled examples: their questions, asked of a memory that read all of their folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slowwave.integrations.python_api import OpenMemory

from . import data
from .figures import Figure, Options
from .ingest import ingest_files
from .locomo import DEEP, Ranking, figures_of
from .metrics import named_messages

FOLDER = Path(__file__).resolve().parents[1] / "examples"
READ = ("conversations", "documents", "formats")


def run(options: Options) -> Iterable[Figure]:
    """Evidence recall over the questions that ship with the examples."""
    store = str(options.place / "examples")
    ingest_files([str(FOLDER / name) for name in READ], store)
    ranked: dict[str, list[Ranking]] = {"recall": [], "recall, exactly 10 facts": []}
    with OpenMemory.open(store) as memory:
        for asked in data.examples(FOLDER):
            ranked["recall"].append((asked, named_messages(memory.recall(asked.text, DEEP).facts)))
            ranked["recall, exactly 10 facts"].append((asked, named_messages(memory.recall(asked.text, 10).facts)))
    yield from figures_of("examples", ranked)
