"""Entities by the words of their names and summaries: every word of a query begins one of theirs (S2-26).

Words are sorted, so those with one beginning lie together, and so do the places where they occur: a prefix is a slice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from slowwave.common import frames
from slowwave.common.lexicon.statement_words import FUNCTION_WORDS
from slowwave.common.settings import WalkSettings
from slowwave.common.text import cut_bytes
from slowwave.common.words import folded

from .graph import EDGE_TYPES, Graph, Numbers, Offsets, Places
from .walks import Seeds

NAME_WEIGHT, SUMMARY_WEIGHT = 10.0, 1.0
ALIAS_SCORE = 0.5  # of another name that holds the query, beside the sums of BM25
LONGEST_QUERY = 512  # bytes
OPERATORS = frozenset({"AND", "OR", "NOT", "NEAR"})
_COLUMN_WEIGHTS = np.array([NAME_WEIGHT, SUMMARY_WEIGHT])
_K1, _B = 1.2, 0.75
_PLAIN_WORD = re.compile(r"[a-z0-9]+")
_WORD = r"[\p{L}\p{N}\p{M}]+"
_LAST = "\U0010ffff"
_DENSE = 50  # a sum over all entities is faster than sorting a fiftieth of them


@dataclass(frozen=True, slots=True)
class NameHits:
    """Places of entities that a query names, (f,), with scores in (0, 1]; best first, of equal ones the smaller id."""

    places: Places
    scores: Numbers


@dataclass(frozen=True)
class NameIndex:
    """n entities, ids sorted, and where each of w words occurs: `places[starts[j]:starts[j + 1]]`, with `counts`.

    A count is 10 for each time in the name and 1 for each in the summary; `lengths`, (n,), are the words of each.
    `names` are their other names, one a line, that begin at `lines` and are names of `owners`.
    """

    ids: pl.Series
    words: list[str]
    starts: Offsets
    places: Places
    counts: Numbers
    lengths: Offsets
    names: str
    lines: Offsets
    owners: Places

    @cached_property
    def listed(self) -> list[str]:
        """`ids` as a list."""
        return self.ids.to_list()

    @cached_property
    def damping(self) -> Numbers:
        """(n,) what BM25 holds against long texts."""
        usual = max(self.lengths.sum() / max(len(self.lengths), 1), 1.0)
        against: Numbers = (_K1 * (1.0 - _B + _B * self.lengths / usual)).astype(np.float64)
        return against

    def find(self, query: str, limit: int) -> NameHits:
        """At most `limit` entities: by words (BM25), or because one of their other names contains the whole query."""
        text = cut_bytes(query, LONGEST_QUERY)
        by_words = self._by_words([word for word in text.split() if word not in OPERATORS])
        by_names = np.unique(self._by_other_names(text))
        found = np.union1d(by_words.places, by_names) if len(by_names) else by_words.places
        raw = np.zeros(len(found))
        raw[np.searchsorted(found, by_words.places)] = by_words.scores
        named = np.searchsorted(found, by_names)
        raw[named] = np.maximum(raw[named], ALIAS_SCORE)
        best = np.lexsort((found, -raw))[:limit]
        scores = raw[best] / raw.max() if len(best) else raw
        return NameHits(found[best].astype(np.int32), scores)

    def called(self, text: str) -> dict[str, list[str]]:
        """By word of a text: the ids of the entities that have it in their names."""
        named: dict[str, list[str]] = {}
        for word in words_of(pl.Series([cut_bytes(text, LONGEST_QUERY)]))[0]:
            slot = bisect_left(self.words, word)
            if self.words[slot : slot + 1] == [word]:
                slots = slice(self.starts[slot], self.starts[slot + 1])
                own = self.places[slots][self.counts[slots] >= NAME_WEIGHT]
                named[word] = [self.listed[place] for place in own.tolist()]
        return named

    def _by_words(self, words: list[str]) -> NameHits:
        """The entities with words that begin with each word of the query, in order of place, with sums of scores."""
        met = NameHits(np.empty(0, np.int32), np.empty(0))
        wanted = dict.fromkeys(words_of(pl.Series([" ".join(words)]))[0].to_list())
        for number, word in enumerate(wanted):
            one = self._by_word(word)
            _, ours, theirs = np.intersect1d(met.places, one.places, assume_unique=True, return_indices=True)
            met = NameHits(met.places[ours], met.scores[ours] + one.scores[theirs]) if number else one
        return met

    def _by_word(self, word: str) -> NameHits:
        """The entities with a word that begins like this, in order of place (BM25)."""
        slots = slice(self.starts[bisect_left(self.words, word)], self.starts[bisect_left(self.words, word + _LAST)])
        places, counts = self.places[slots], self.counts[slots]
        if _DENSE * len(places) > len(self.ids):
            count = np.bincount(places, counts, len(self.ids))
            places = np.flatnonzero(count).astype(np.int32)
            count = count[places]
        else:
            places, group = np.unique(places, return_inverse=True)
            count = np.bincount(group, counts, len(places))
        rarity = float(np.log1p((len(self.ids) - len(places) + 0.5) / (len(places) + 0.5)))  # BM25, never negative
        scores = rarity * count * (_K1 + 1.0) / (count + self.damping[places])
        return NameHits(places, scores)

    def _by_other_names(self, text: str) -> Places:
        if not self.names:
            return self.owners
        part = " ".join((text.lower() if text.isascii() else str(folded(pl.Series([text]))[0])).split())
        hits = [hit.start() for hit in re.finditer(re.escape(part), self.names)] if part else []
        return self.owners[np.searchsorted(self.lines, hits, "right") - 1]


def index_names(entities: pl.DataFrame, aliases: pl.DataFrame) -> NameIndex:
    """The index of entities (id, name, summary) and of their other names (entity_id, alias_name).

    A name that is among the aliases too counts as the name alone: else "sql" would find GraphQL.
    """
    own = entities.sort("id")
    distinct, numbers, sizes = _numbered([words_of(own[column]) for column in ("name", "summary")])
    place = np.repeat(np.tile(np.arange(len(own)), 2), sizes.ravel())
    where = numbers * len(own) + place
    coded = np.sort(2 * where + np.repeat([0, 1], sizes.sum(1)))  # one sort, much faster than groups of pairs
    first = np.flatnonzero(np.diff(coded // 2, prepend=-1))
    words, places = np.divmod(coded[first] // 2, max(len(own), 1))
    counts = np.add.reduceat(_COLUMN_WEIGHTS[coded % 2], first) if len(first) else np.zeros(0)
    starts = np.concatenate(([0], np.cumsum(np.bincount(words, minlength=len(distinct)))))
    return NameIndex(own["id"], distinct, starts, places.astype(np.int32), counts, sizes.sum(0), *_other(own, aliases))


def _numbered(lists: list[pl.Series]) -> tuple[list[str], Offsets, Offsets]:
    """The distinct words of lists of words, sorted; the number of each word that is said; how many are in each list.

    Of few lists Python has them before Polars has begun.
    """
    if max(map(len, lists)) > frames.FEW:
        sizes = np.array([each.list.len().fill_null(0).to_numpy() for each in lists], np.int64)
        said = pl.concat([each.explode() for each in lists]).drop_nulls()
        distinct = said.unique().sort()
        return distinct.to_list(), distinct.search_sorted(said).to_numpy().astype(np.int64), sizes
    few = [[words or [] for words in each.to_list()] for each in lists]
    flat = [word for each in few for words in each for word in words]
    number = {word: place for place, word in enumerate(sorted({*flat}))}
    return (
        [*number],
        np.array([number[word] for word in flat], np.int64),
        np.array([[*map(len, each)] for each in few], np.int64),
    )


def with_more(known: NameIndex, new: NameIndex) -> NameIndex:
    """The index of the entities of both, of which none is in both: what `index_names` makes of all of them.

    Nothing is taken apart again, so that a few more cost little.
    """
    before = known.ids.search_sorted(new.ids).to_numpy().astype(np.int64)
    places = _moved(before, len(known.ids)), before + np.arange(len(before))  # by index: where its entities are now
    slots = np.array([bisect_left(known.words, word) for word in new.words], np.int64)
    is_new = np.array(
        [known.words[slot : slot + 1] != [word] for word, slot in zip(new.words, slots, strict=True)], bool
    )
    words = _moved(slots[is_new], len(known.words)), slots + np.cumsum(is_new) - is_new
    sizes = np.zeros(len(known.words) + int(is_new.sum()), np.int64)
    for index, numbers in zip((known, new), words, strict=True):
        sizes[numbers] += np.diff(index.starts)
    width = len(known.ids) + len(new.ids)
    mine, theirs = (
        np.repeat(numbers * width, np.diff(index.starts)) + own[index.places]
        for index, numbers, own in zip((known, new), words, places, strict=True)
    )
    at = np.searchsorted(mine, theirs)
    owners = [own[index.owners] for index, own in zip((known, new), places, strict=True)]
    lines = [np.array(index.names.split("\n") if len(index.owners) else [], object) for index in (known, new)]
    line = np.searchsorted(owners[0], owners[1])
    return NameIndex(
        pl.concat([known.ids, new.ids]).sort(),
        sorted([*known.words, *(word for word, fresh in zip(new.words, is_new, strict=True) if fresh)]),
        np.concatenate(([0], np.cumsum(sizes))),
        np.insert(places[0][known.places], at, places[1][new.places]).astype(np.int32),
        np.insert(known.counts, at, new.counts),
        np.insert(known.lengths, before, new.lengths),
        *_as_lines(np.insert(lines[0], line, lines[1]).tolist()),
        np.insert(owners[0], line, owners[1]).astype(np.int32),
    )


def _moved(before: Offsets, count: int) -> Offsets:
    """(count,) where rows are once others stand before those that `before` names, in order."""
    rows = np.arange(count)
    return rows + np.searchsorted(before, rows, "right")


def words_of(texts: pl.Series) -> pl.Series:
    """The words of each text, a list: runs of letters and digits. Of few plain texts Python finds them sooner."""
    few = texts.to_list() if len(texts) <= frames.FEW else None
    if few is None or any(text and not text.isascii() for text in few):
        return folded(texts).str.extract_all(_WORD)
    words = [None if text is None else _PLAIN_WORD.findall(text.lower()) for text in few]
    return pl.Series(words, dtype=pl.List(pl.String))


def _other(entities: pl.DataFrame, aliases: pl.DataFrame) -> tuple[str, Offsets, Places]:
    if _has_no_other(entities, aliases):
        return *_as_lines([]), np.zeros(0, np.int32)
    places = entities.select(pl.col("id"), own=folded(entities["name"])).with_row_index("place")
    named = aliases.select(id="entity_id", name=folded(aliases["alias_name"]).str.replace_all(r"\s+", " "))
    other = named.join(places, on="id").filter(pl.col("name") != pl.col("own")).unique(["id", "name"])
    other = other.sort("place", "name")
    return *_as_lines(other["name"].to_list()), other["place"].cast(pl.Int32).to_numpy()


def _has_no_other(entities: pl.DataFrame, aliases: pl.DataFrame) -> bool:
    """Whether a few entities have no other names, as most new ones; False where it takes a closer look."""
    if len(aliases) > frames.FEW or len(entities) > frames.FEW:
        return False
    names = dict(frames.rows_of(entities, "id", "name"))
    known = ((names.get(owner), alias) for owner, alias in frames.rows_of(aliases, "entity_id", "alias_name"))
    return all(own and alias and alias.isascii() and alias == " ".join(alias.split()) and alias.lower() == own.lower()
               for own, alias in known)  # fmt: skip


def _as_lines(names: list[str]) -> tuple[str, Offsets]:
    """The names, one a line, and where each begins."""
    ends = np.cumsum([len(name) + 1 for name in names], dtype=np.int64)
    return "\n".join(names), np.concatenate(([0], ends[:-1])).astype(np.int64)


# Seeds: the entities at which walks begin, by how well a query's words name them and how connected they are.


MOST_WORDS = 5
SHORTEST_WORD = 3
LEAST_SCORE = 0.1
NO_COMMUNITY = -1
_DEGREE_SHARE, _TYPES_SHARE = 0.6, 0.4
_QUERY_WORD = re.compile(r"[^\W_]+")


def query_words(query: str) -> list[str]:
    """The first five words of three or more characters by which entities are looked up, else the whole query (S2-27).

    One of two characters counts too if it looks like a name: it begins with a capital, or is of a script that needs no
    more.
    Words that hold a sentence together name nothing and never count.
    """
    words = [word for word in dict.fromkeys(_QUERY_WORD.findall(query)) if word.lower() not in FUNCTION_WORDS]
    naming = [
        word
        for word in words
        if len(word) >= SHORTEST_WORD or (len(word) == 2 and (word[0].isupper() or not word.isascii()))
    ]
    return naming[:MOST_WORDS] or [query]


def choose_seeds(graph: Graph, nodes: Places, scores: Numbers, communities: Places, settings: WalkSettings) -> Seeds:
    """At most `seeds` of these candidates, the best first (S2-28, S2-29).

    `scores`, (c,), say how well the query names each of `nodes`, 0 to 1; `communities`, (n,), is a number for each node
    of the graph, -1 for none. At most `seed_community_cap` of one community are taken. Scores of seeds are 0.1 to 1.
    """
    share = settings.seed_structural_weight
    hybrid = scores * (1.0 - share) + structural_scores(graph, nodes) * share
    order = np.lexsort((nodes, -hybrid))
    chosen = _capped(order, communities[nodes], settings.seed_community_cap)[: settings.seeds]
    return Seeds(nodes[chosen], np.clip(hybrid[chosen], LEAST_SCORE, 1.0))


def structural_scores(graph: Graph, nodes: Places) -> Numbers:
    """How connected each node is, 0 to 1: 0.6 × degree / largest degree + 0.4 × share of the five types it has (S2-28).

    The largest degree is that of these nodes: beside the hub of a whole store nobody would be connected at all.
    """
    return connectedness(graph.degree[nodes], graph.types[nodes])


def connectedness(degrees: Offsets, types: Offsets) -> Numbers:
    """`structural_scores` from degrees and numbers of distinct types."""
    largest = max(int(degrees.max(initial=0)), 1)
    connected: Numbers = _DEGREE_SHARE * degrees / largest + _TYPES_SHARE * np.minimum(types / len(EDGE_TYPES), 1.0)
    return connected


def _capped(order: Offsets, communities: Places, cap: int) -> Offsets:
    """In their order, those that are among the first `cap` of their community; 0, or none: all."""
    if cap == 0:
        return order
    met: Counter[int] = Counter()
    kept = []
    for place in order:
        community = int(communities[place])
        met[community] += 1
        if community == NO_COMMUNITY or met[community] <= cap:
            kept.append(place)
    return np.array(kept or order, order.dtype)
