"""Where walks begin: which entities words name, and which of those are chosen."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_walks import edge, graph_of

from slowwave.common.settings import WalkSettings
from slowwave.graph.graph import Graph
from slowwave.graph.name_index import (
    NameIndex,
    choose_seeds,
    connectedness,
    index_names,
    query_words,
    structural_scores,
    with_more,
    words_of,
)

TOOLS = {
    "e_sqlite": ("SQLite", "An embedded database."),
    "e_graphql": ("GraphQL", "A query language for programming interfaces."),
    "e_redis": ("Redis Streams", "A log in memory, with consumer groups."),
    "e_log": ("Loki", "Keeps every log line; Redis is its cache."),
    "e_maria": ("María Muñoz", None),
}


def index(entities: dict[str, tuple[str, str | None]] = TOOLS, **aliases: str) -> NameIndex:
    rows = [{"id": id_, "name": name, "summary": summary} for id_, (name, summary) in entities.items()]
    own = [{"entity_id": id_, "alias_name": name.lower()} for id_, (name, _) in entities.items()]
    others = [{"entity_id": id_, "alias_name": alias} for id_, alias in aliases.items()]
    schema = {"id": pl.String, "name": pl.String, "summary": pl.String}
    known = pl.DataFrame([*own, *others], schema={"entity_id": pl.String, "alias_name": pl.String})
    return index_names(pl.DataFrame(rows, schema=schema), known)


def found(names: NameIndex, query: str, limit: int = 10) -> dict[str, float]:
    hits = names.find(query, limit)
    return dict(zip(names.ids.gather(hits.places), hits.scores.tolist(), strict=True))


# Words (S2-26)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sql", ["e_sqlite"]),  # a beginning, not a part: no GraphQL
        ("graph zzz", []),  # every word has to be there
        ("maria munoz", ["e_maria"]),
        ("redis", ["e_redis", "e_log"]),  # in the name before in the summary
    ],
)
def test_s2_26_each_word_of_the_query_begins_a_word_of_name_or_summary(query: str, expected: list[str]) -> None:
    assert list(found(index(), query)) == expected


def test_s2_26_another_name_is_found_by_any_part_of_it_beside_better_matches() -> None:
    known = index(e_redis="the message queue", e_log="squeue")
    assert found(known, "queue") == {"e_log": 1.0, "e_redis": 1.0}
    assert list(found(known, "MESSAGE  queue")) == ["e_redis"]
    both = found(index(e_maria="sql guru"), "sql")
    assert both["e_maria"] == pytest.approx(0.5 / _raw(index(e_maria="sql guru"), "sql", "e_sqlite"))


def _raw(names: NameIndex, word: str, entity: str) -> float:
    """BM25 by hand, for a word that one name holds once."""
    rows, place = len(names.ids), names.ids.to_list().index(entity)
    return float(np.log(1 + (rows - 1 + 0.5) / 1.5) * 10 * 2.2 / (10 + names.damping[place]))


def test_s2_26_only_the_first_512_bytes_of_a_query_count() -> None:
    assert list(found(index(), "redis" + " " * 507 + "z")) == ["e_redis", "e_log"]
    assert found(index(), "redis" + " " * 506 + "z") == {}


WORDS = ("red", "redis", "read", "stream", "streams", "log", "über", "Uber")


@given(
    st.lists(st.tuples(st.lists(st.sampled_from(WORDS), max_size=3), st.lists(st.sampled_from(WORDS), max_size=4)),
             max_size=6),
    st.lists(st.sampled_from([*WORDS, "re", "s", "u", "x"]), max_size=3),
)  # fmt: skip
def test_s2_26_exactly_those_are_found_of_which_every_word_is_a_beginning(
    texts: list[tuple[list[str], list[str]]], query: list[str]
) -> None:
    entities = {f"e_{n}": (" ".join(name), " ".join(summary) or None) for n, (name, summary) in enumerate(texts)}
    held = {
        id_: words_of(pl.Series([f"{name} {summary or ''}"]))[0].to_list() for id_, (name, summary) in entities.items()
    }
    asked = words_of(pl.Series([" ".join(query)]))[0].to_list()
    expected = {
        id_ for id_, own in held.items() if asked and all(any(one.startswith(word) for one in own) for word in asked)
    }
    assert {*found(index(entities), " ".join(query))} == expected


@given(
    st.lists(
        st.tuples(
            st.text("abé ", max_size=6),
            st.none() | st.text("abé ", max_size=9),
            st.text("ab ", max_size=4),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_an_index_with_more_entities_is_that_of_all(rows: list[tuple[str, str | None, str, bool]]) -> None:
    def of(chosen: list[int]) -> NameIndex:
        entities = {f"e_{n * 7 % 11}": rows[n][:2] for n in chosen}
        return index(entities, **{f"e_{n * 7 % 11}": rows[n][2] for n in chosen})

    known, new = ([n for n, row in enumerate(rows) if row[3] is is_new] for is_new in (False, True))
    joined, whole = with_more(of(known), of(new)), of([*known, *new])
    for name in ("listed", "words", "starts", "places", "counts", "lengths", "damping", "names", "lines", "owners"):
        one, other = np.array(getattr(joined, name)), np.array(getattr(whole, name))
        assert one.tolist() == other.tolist(), name


# Seeds (S2-27 … S2-29)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What does Marta use at Ferrywise?", ["Marta", "use", "Ferrywise"]),
        ("one two three four five six seven", ["one", "two", "three", "four", "five"]),
        ("who was that?", ["who was that?"]),
        ("Where is 東京?", ["東京"]),
    ],
)
def test_s2_27_the_first_five_words_that_may_be_names_are_looked_up(query: str, words: list[str]) -> None:
    assert query_words(query) == words


def test_s2_28_connectedness_is_degree_beside_the_largest_and_the_share_of_types() -> None:
    assert connectedness(np.array([3, 10]), np.array([2, 5])).tolist() == pytest.approx([0.34, 1.0])
    graph = star(3)
    assert structural_scores(graph, graph.places(["hub", "x0", "alone"])).tolist() == pytest.approx(
        [0.6 + 0.4 * 2 / 5, 0.6 / 3 + 0.4 / 5, 0.0]
    )


def star(leaves: int) -> Graph:
    kinds = ("semantic", "causal")
    return graph_of([edge(f"r{n}", "hub", f"x{n}", kind=kinds[n % 2]) for n in range(leaves)], [*"abcdef", "alone"])


def chosen(graph: Graph, scores: dict[str, float], groups: dict[str, int], **how: float) -> list[tuple[str, float]]:
    communities = np.array([groups.get(name, -1) for name in graph.ids], np.int32)
    seeds = choose_seeds(
        graph, graph.places(list(scores)), np.array(list(scores.values())), communities, WalkSettings(**how)
    )  # fmt: skip
    return list(zip(graph.ids.gather(seeds.nodes), seeds.scores.tolist(), strict=True))


def test_s2_28_words_count_sixty_per_cent_and_scores_are_never_below_a_tenth() -> None:
    graph = star(3)
    scores = chosen(graph, {"hub": 0.5, "a": 0.9, "b": 0.01}, {})
    assert scores == [("hub", pytest.approx(0.6 * 0.5 + 0.4 * 0.76)), ("a", pytest.approx(0.54)), ("b", 0.1)]
    assert chosen(graph, {"a": 0.2, "b": 0.9}, {}, seed_structural_weight=0.0) == [("b", 0.9), ("a", 0.2)]


def test_s2_29_at_most_three_of_a_community_begin_a_walk() -> None:
    graph = star(1)
    scores = {name: 0.9 - n / 100 for n, name in enumerate("abcdef")}
    groups = dict.fromkeys("abcd", 7)
    assert [name for name, _ in chosen(graph, scores, groups)] == ["a", "b", "c", "e", "f"]
    assert [name for name, _ in chosen(graph, scores, groups, seed_community_cap=1)] == ["a", "e", "f"]
    assert [name for name, _ in chosen(graph, scores, groups, seed_community_cap=0)] == [*"abcdef"]
    assert [name for name, _ in chosen(graph, scores, groups, seeds=2)] == ["a", "b"]
    assert [name for name, _ in chosen(graph, scores, {})] == [*"abcdef"]
    assert chosen(graph, {}, groups) == []
