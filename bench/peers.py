"""How fast one question is answered beside mem0 and BM25: the same texts and questions on one machine in one run.

mem0 keeps the texts as they are (`infer=False`) in its local Qdrant on disk, embedded by slowwave's own embedder; BM25
is bm25s over the texts in memory. Slowwave answers with facts and passages, that is from the words and the meaning of
facts and of messages; the peers search one list of texts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple

from inference.embedding import Embedder, open_embedder
from slowwave.integrations.python_api import OpenMemory

from . import synthetic
from .big_store import write_store
from .figures import Figure, Options, in_fresh_process, measured
from .metrics import mean

SEED = 23
K = 10
WARM_UP, QUESTIONS = 20, 100
SIZES = (500, 10_000, 100_000)
MEM0_MOST = 10_000  # adding 100,000 texts takes a quarter of an hour; Qdrant advises against more than 20,000 in a file
PACKAGES = {"mem0": "mem0ai", "bm25s": "bm25s"}  # by the module that is imported

Search = Callable[[str], list[str]]


class Speed(NamedTuple):
    """Milliseconds that a question takes, by the clock (the median) and of the processor, and the share answered."""

    wall_ms: float
    cpu_ms: float
    found: float


def run(options: Options) -> Iterable[Figure]:
    """Milliseconds of slowwave, then of each peer that is installed, as times that of slowwave."""
    installed = [name for name in PACKAGES if find_spec(name)]
    for name in PACKAGES:
        if name not in installed:
            note = f"not measured: pip install {PACKAGES[name]}, or -e .[bench]"
            yield Figure("peers", f"beside {name}", float("nan"), note=note)
    for size in SIZES[:2] if options.is_quick else SIZES:
        facts = list(islice(synthetic.facts(size, SEED), size))
        place = options.place / str(size)
        write_store(str(place / "slowwave"), facts, SEED)
        peers = [name for name in installed if name != "mem0" or size <= MEM0_MOST]
        speeds = in_fresh_process(speeds_of, ["slowwave", *peers], place, facts)
        yield from _figures(f"{size:,} texts", speeds)


def _figures(name: str, speeds: Mapping[str, Speed]) -> Iterable[Figure]:
    """Of slowwave in milliseconds, of the others in times that, with what each finds beside it."""
    for who, speed in speeds.items():
        ours, shown = speeds["slowwave"], f"{speed.wall_ms:.2f} ms, processor {speed.cpu_ms:.2f} ms"
        if who == "slowwave":
            yield Figure("peers", f"{name}: slowwave", speed.wall_ms, "ms", note=shown)
        else:
            yield Figure("peers", f"{name}: {who}", speed.wall_ms / ours.wall_ms, "× slowwave", note=shown)
            yield Figure("peers", f"{name}: {who}, processor", speed.cpu_ms / ours.cpu_ms, "× slowwave")
        yield Figure("peers", f"{name}: {who} finds", speed.found, "", note=f"the fact among the first {K}")


def speeds_of(names: Sequence[str], place: Path, facts: Sequence[synthetic.FactText]) -> dict[str, Speed]:
    """How fast each of these answers questions, all asked in turn, so that what else runs slows all of them.

    The first questions warm up. One counts as answered where its own fact is among the `K` texts that come back.
    """
    chosen = Random(SEED).sample(facts, min(WARM_UP + QUESTIONS, len(facts)))
    with ExitStack() as stack:
        texts = [fact.statement for fact in facts]
        searches = {name: stack.enter_context(OPENED[name](place / name, texts)) for name in names}
        asked = [{name: _asked(search, fact) for name, search in searches.items()} for fact in chosen][WARM_UP:]
    by_name = {name: [each[name] for each in asked] for name in names}
    return {
        name: Speed(median(row[0] for row in rows), mean(row[1] for row in rows), mean(row[2] for row in rows))
        for name, rows in by_name.items()
    }


def _asked(search: Search, fact: synthetic.FactText) -> tuple[float, float, bool]:
    with measured() as cost:
        texts = search(fact.question)
    return 1000 * cost.wall_s, 1000 * cost.cpu_s, fact.statement in texts


@contextmanager
def by_slowwave(place: Path, texts: Sequence[str]) -> Iterator[Search]:
    """The facts of a store that was written before."""
    with OpenMemory.open(str(place)) as memory:
        yield lambda question: [fact.statement for fact in memory.recall(question, K).facts]


@contextmanager
def by_bm25s(place: Path, texts: Sequence[str]) -> Iterator[Search]:
    """An index of words in memory, with the stop words of English left out as its examples do."""
    import bm25s

    index = bm25s.BM25()
    index.index(_words(texts), show_progress=False)

    def search(question: str) -> list[str]:
        places, _ = index.retrieve(_words([question]), k=K, show_progress=False)
        return [texts[place] for place in places[0]]

    yield search


def _words(texts: Sequence[str]) -> Any:
    import bm25s

    return bm25s.tokenize(list(texts), stopwords="en", show_progress=False)


@contextmanager
def by_mem0(place: Path, texts: Sequence[str]) -> Iterator[Search]:
    """mem0 with these texts."""
    with mem0_of(place, texts) as memory:
        yield lambda question: [
            row["memory"] for row in memory.search(question, top_k=K, filters={"user_id": "ada"})["results"]
        ]


@contextmanager
def mem0_of(place: Path, texts: Sequence[str]) -> Iterator[Any]:
    """mem0 as `pip install mem0ai` gives it; it sends nothing, and neither a model nor a network is asked."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(place / "home")}  # both are read when it is imported
    logging.disable(logging.WARNING)  # it says which extras are missing
    from mem0 import Memory as Mem0

    seat = open_embedder()
    memory = Mem0.from_config(_mem0_settings(place, seat))
    memory.embedding_model = _SameEmbedder(seat)
    for text in texts:
        memory.add(text, user_id="ada", infer=False)
    try:
        yield memory
    finally:
        memory.vector_store.client.close()
        memory.close()


def _mem0_settings(place: Path, seat: Embedder) -> dict[str, Any]:
    """Everything in files below `place`; the clients of a model that it makes have no key and are never asked."""
    qdrant = {"path": str(place / "qdrant"), "on_disk": True, "embedding_model_dims": seat.dims}
    unused = {"provider": "openai", "config": {"api_key": "unused"}}
    return {
        "vector_store": {"provider": "qdrant", "config": qdrant}, "history_db_path": str(place / "history.db"),
        "llm": unused, "embedder": unused,
    }  # fmt: skip


class _SameEmbedder:
    """The embedder of slowwave as mem0 asks one."""

    def __init__(self, seat: Embedder) -> None:
        self._seat = seat

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """The vector of one text."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        """The vectors of texts."""
        vectors: list[list[float]] = self._seat.embed(texts).tolist()
        return vectors


OPENED: Mapping[str, Callable[[Path, Sequence[str]], Any]] = {
    "slowwave": by_slowwave, "mem0": by_mem0, "bm25s": by_bm25s,
}  # fmt: skip
