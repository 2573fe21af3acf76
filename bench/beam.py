"""BEAM: given the message with the later statement, is the earlier one that it contradicts or updates found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from recall.memory import Memory

from . import data
from .baselines import PlainSearch
from .figures import Figure, Options
from .ingest import ingest_files
from .metrics import is_pair_found, mean, named_messages

K = 10
DEEP = 200  # the message itself and all later ones are dropped from what is found

Search = Callable[[str], list[str]]


def run(options: Options) -> Iterable[Figure]:
    """Pair finding at ten among the messages of users, and among all, over whole chats that were ingested."""
    for among in ("user messages", "all messages"):
        yield from _figures(options, among)


def _figures(options: Options, among: str) -> Iterable[Figure]:
    found: dict[tuple[str, str], list[bool]] = {}
    for talk in data.beam(options.data):
        messages = [row for row in talk.messages if row["role"] == "user" or among == "all messages"]
        place = options.place / f"beam-{talk.name}-{among.split()[0]}"
        source = data.write_messages(place / "messages.jsonl", messages)
        ingest_files([str(source)], str(place / "store"))
        plain = PlainSearch(place, messages)
        texts = {row["message_id"]: row["content"] for row in messages}
        with Memory.open(str(place / "store")) as memory:
            systems: dict[str, Search] = {
                "recall": lambda text, memory=memory: named_messages(memory.recall(text, DEEP).facts),  # type: ignore[misc]
                "words alone": lambda text, plain=plain: plain.by_words(text, DEEP),  # type: ignore[misc]
                "vectors alone": lambda text, plain=plain: plain.by_meaning(text, DEEP),  # type: ignore[misc]
            }
            for pair in talk.pairs:
                for system, search in systems.items():
                    earlier = _before(search(texts[pair.later]), pair.later)
                    found.setdefault((system, pair.kind), []).append(is_pair_found(earlier, pair.earlier, K))
    for (system, kind), hits in sorted(found.items()):
        yield Figure("beam", f"{system}, {among}: {kind} R@{K}", mean(map(float, hits)), note=f"{len(hits)} pairs")


def _before(names: Sequence[str], later: str) -> list[str]:
    """Only what was said before: message ids of a chat count upwards."""
    return [name for name in names if int(name) < int(later)]
