"""LoCoMo: of the messages that hold an answer, how many does recall name after a keyless ingest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowwave.integrations.python_api import OpenMemory

from . import data
from .baselines import PlainSearch
from .figures import Figure, Options
from .ingest import ingest_files
from .metrics import evidence_recall, mean, named_messages

DEPTHS = (5, 10, 20)
DEEP = 60  # facts that name twenty distinct messages and more
BAR = 0.65

Ranking = tuple[data.Asked, list[str]]


def run(options: Options) -> Iterable[Figure]:
    """Evidence recall of the ingested memory beside words alone and vectors alone, whole and by kind of question."""
    ranked: dict[str, list[Ranking]] = {
        "recall": [],
        "recall, exactly 10 facts": [],
        "words alone": [],
        "vectors alone": [],
    }
    for talk in data.locomo(options.data):
        place = options.place / f"locomo-{talk.name}"
        source = data.write_messages(place / "messages.jsonl", talk.messages)
        ingest_files([str(source)], str(place / "store"))
        plain = PlainSearch(place, talk.messages)
        with OpenMemory.open(str(place / "store")) as memory:
            for asked in talk.questions:
                ranked["recall"].append((asked, named_messages(memory.recall(asked.text, DEEP).facts)))
                ranked["recall, exactly 10 facts"].append((asked, named_messages(memory.recall(asked.text, 10).facts)))
                ranked["words alone"].append((asked, plain.by_words(asked.text, DEPTHS[-1])))
                ranked["vectors alone"].append((asked, plain.by_meaning(asked.text, DEPTHS[-1])))
    yield from figures_of("locomo", ranked, BAR)


def figures_of(benchmark: str, ranked: dict[str, list[Ranking]], bar: float | None = None) -> Iterable[Figure]:
    """Evidence recall at each depth, then by kind at ten; only what is ours is held to the bar."""
    for system, rankings in ranked.items():
        for k in DEPTHS:
            limit = bar if k == 10 and system == "recall" else None
            note = f"{len(rankings)} questions" if k == DEPTHS[0] else ""
            yield Figure(benchmark, f"{system}: R@{k}", _recall(rankings, k), bar=limit, note=note)
    for kind in sorted({asked.kind for asked, _ in next(iter(ranked.values()))}):
        for system, rankings in ranked.items():
            some = [pair for pair in rankings if pair[0].kind == kind]
            yield Figure(benchmark, f"{system}: R@10 {kind}", _recall(some, 10), note=f"{len(some)} questions")


def _recall(rankings: Sequence[Ranking], k: int) -> float:
    return mean(evidence_recall(names, asked.evidence, k) for asked, names in rankings)
