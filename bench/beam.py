"""BEAM: given the message with the later statement, is the earlier one that it contradicts or updates found.

Once with every message of a user as a statement, which measures the search for candidates apart from extraction, and
once through the facts of an ingested store. Two pairs of the five development chats name an earlier message that is
about something else by the look of it. There are 17 pairs in all: one moves a figure by .10 to .14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from inference.embedding import open_embedder
from slowwave.common.comparison.similarity import Vectors
from slowwave.common.text import prose
from slowwave.facts.revision.referenced_facts import claims_of, find_counterparts
from slowwave.integrations.python_api import OpenMemory
from storage.search import unit_matrix
from storage.store import Store

from . import data
from .baselines import PlainSearch
from .figures import Figure, Options
from .ingest import ingest_files
from .metrics import is_pair_found, mean, named_messages

DEPTHS = (10, 20)
DEEP = 200  # the message itself and all later ones are dropped from what is found
BAR = 0.90

Search = Callable[[data.Pair], list[list[str]]]
Hits = dict[tuple[str, str, int], list[bool]]


def run(options: Options) -> Iterable[Figure]:
    """Pair finding at ten and twenty candidates a statement, among the earlier messages of the user."""
    hits: Hits = {}
    reachable: list[bool] = []
    for talk in data.beam(options.data):
        messages = [row for row in talk.messages if row["role"] == "user"]
        place = options.place / f"beam-{talk.name}"
        source = data.write_messages(place / "messages.jsonl", messages)
        ingest_files([str(source)], str(place / "store"))
        facts, vectors = _facts(str(place / "store"))
        told = set(facts["message_id"])
        with OpenMemory.open(str(place / "store")) as memory:
            systems = _systems(messages, PlainSearch(place, messages), memory) | {
                "candidates of facts": lambda pair, facts=facts, vectors=vectors: _of_facts(pair, facts, vectors)
            }
            for pair in talk.pairs:
                reachable.append(pair.later in told and not told.isdisjoint(pair.earlier))
                _note(hits, systems, pair)
    for (system, kind, k), found in sorted(hits.items()):
        bar = BAR if system == "candidates, each claim" and k == DEPTHS[-1] else None
        yield Figure("beam", f"{system}: {kind} R@{k}", mean(map(float, found)), "", bar, note=f"{len(found)} pairs")
    yield Figure("beam", "pairs with a fact on both sides", mean(map(float, reachable)), note="of a keyless ingest")


def _note(hits: Hits, systems: Mapping[str, Search], pair: data.Pair) -> None:
    for system, search in systems.items():
        rankings = search(pair)
        for k in DEPTHS:
            found = any(is_pair_found(ranking, pair.earlier, k) for ranking in rankings)
            hits.setdefault((system, pair.kind, k), []).append(found)


def _systems(messages: Sequence[data.Row], plain: PlainSearch, memory: OpenMemory) -> dict[str, Search]:
    """Ways to look for the earlier statement: rankings of earlier messages, one or one for each claim."""
    texts = {row["message_id"]: row["content"] for row in messages}
    search = _Candidates(texts)
    return {
        "candidates": lambda pair: [search.of_message(pair.later)],
        "candidates, each claim": lambda pair: search.of_claims(pair.later),
        "candidates, each claim, of the whole chat": lambda pair: search.of_claims(pair.later, of_all=True),
        "recall": lambda pair: [_before(named_messages(memory.recall(texts[pair.later], DEEP).facts), pair.later)],
        "words alone": lambda pair: [_before(plain.by_words(texts[pair.later], DEEP), pair.later)],
        "vectors alone": lambda pair: [_before(plain.by_meaning(texts[pair.later], DEEP), pair.later)],
    }


class _Candidates:
    """The earlier messages that a message, or each of its claims, may contradict or update."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._embed, self._texts = open_embedder().embed, texts
        said = [prose(text) for text in texts.values()]
        self._pool = pl.DataFrame({"id": list(texts), "scope": "global", "statement": said})
        self._vectors = self._embed(said)

    def of_message(self, later: str) -> list[str]:
        """Twenty for the whole message, from its claims in turn."""
        return self._found(later, [later] * len(claims_of(self._texts[later])))[later]

    def of_claims(self, later: str, of_all: bool = False) -> list[list[str]]:
        """Twenty for each claim, as each fact has; `of_all`: what was said afterwards competes too."""
        names = [f"claim {place}" for place in range(len(claims_of(self._texts[later])))]
        return list(self._found(later, names, of_all).values())

    def _found(self, later: str, names: Sequence[str], of_all: bool = False) -> dict[str, list[str]]:
        claims = claims_of(self._texts[later])
        asked = pl.DataFrame({"id": names, "scope": "global", "statement": claims})
        is_in = np.array([name != later and (of_all or int(name) < int(later)) for name in self._pool["id"]])
        found = find_counterparts(
            asked, self._embed(claims), self._pool.filter(pl.Series(is_in)), self._vectors[is_in], DEPTHS[-1]
        )
        return {name: found.filter(pl.col("id") == name)["candidate_id"].to_list() for name in dict.fromkeys(names)}


def _facts(uri: str) -> tuple[pl.DataFrame, Vectors]:
    """All facts of a store that have a vector: id, scope, statement, the message's own id; and their vectors."""
    snapshot = Store.open(uri, "default").snapshot()
    named = snapshot.frame("messages", columns=["id", "message_id"]).rename({"id": "row_id", "message_id": "name"})
    facts = snapshot.frame("facts", "vector IS NOT NULL", ["id", "scope", "statement", "message_id", "vector"])
    told = facts.join(named, left_on="message_id", right_on="row_id", maintain_order="left")
    return told.select("id", "scope", "statement", message_id="name"), unit_matrix(told["vector"], snapshot.dims)


def _of_facts(pair: data.Pair, facts: pl.DataFrame, vectors: Vectors) -> list[list[str]]:
    """The messages of the candidates of each fact of the later message."""
    order = facts["message_id"].cast(pl.Int64)
    is_later, is_before = order == int(pair.later), order < int(pair.later)
    asked, pool = facts.filter(is_later), facts.filter(is_before)
    found = find_counterparts(asked, vectors[is_later.to_numpy()], pool, vectors[is_before.to_numpy()], DEPTHS[-1])
    named = found.join(facts.select(candidate_id="id", name="message_id"), on="candidate_id", maintain_order="left")
    return [part["name"].to_list() for part in named.partition_by("id", maintain_order=True)]


def _before(names: Sequence[str], later: str) -> list[str]:
    """Only what was said before: message ids of a chat count upwards."""
    return [name for name in names if int(name) < int(later)]
