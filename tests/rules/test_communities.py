"""Communities: what they are known by, what they are called, who joins them, and when anybody is asked about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from prompts.rendering import CUT, pack_communities, render_communities
from slowwave.common import frames
from slowwave.common.records import CommunityQuestion
from slowwave.graph.community_detection import (
    Grouping,
    fingerprint,
    group_entities,
    is_due,
    places_of,
    plan_joining,
    waiting,
    without_members,
)
from slowwave.graph.community_plan import (
    MAX_CHARS,
    CommunityPlan,
    SignedSummary,
    community_names,
    needs_summary,
    plan_communities,
    strongest_facts,
    summary_by_rule,
)
from slowwave.graph.graph import Graph, build_graph

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
LETTERS = "abcdefgh"


def graph(*edges: str, alone: str = "", weights: Mapping[str, float] | None = None) -> Graph:
    """A graph of edges such as `ab`; the id of each is its letters, with its number where it repeats."""
    names = [edge if edges.index(edge) == n else f"{edge}{n}" for n, edge in enumerate(edges)]
    rows = [
        {"id": name, "subject_id": edge[0], "object_id": edge[1], "weight": (weights or {}).get(edge, 0.8)}
        for name, edge in zip(names, edges, strict=True)
    ]
    ends = pl.Series("id", sorted({*"".join(edges), *alone}), dtype=pl.String)
    return build_graph(ends, frames.conform(pl.DataFrame(rows, schema_overrides={"id": pl.String}), frames.EDGES))


def held(**groups: str) -> pl.DataFrame:
    """COMMUNITIES of these members, without anything else."""
    rows = [{"id": name, "entity_ids": list(members)} for name, members in groups.items()]
    return frames.conform(pl.DataFrame(rows, schema={"id": pl.String, "entity_ids": frames.TEXTS}), frames.COMMUNITIES)


def grouped(made: Graph, *groups: str, before: pl.DataFrame | None = None) -> Grouping:
    """The communities of these members."""
    labels = [next((n for n, group in enumerate(groups) if id_ in group), -1) for id_ in made.ids]
    return group_entities(made, np.array(labels, dtype=np.int32), held() if before is None else before)


def planned(
    grouping: Grouping,
    before: pl.DataFrame | None = None,
    summaries: Mapping[str, SignedSummary] | None = None,
    aspects: Sequence[tuple[str, str]] = (),
) -> CommunityPlan:
    """The plan of these groups, in which everything is called by its letter in upper case."""
    names = grouping.members.select("id", name=pl.col("id").str.to_uppercase())
    touched = pl.DataFrame(list(aspects), schema={"fact_id": pl.String, "slug": pl.String}, orient="row")
    then = held() if before is None else before
    return plan_communities(grouping, then, names, touched, summaries or {}, {}, NOW)


def told(grouping: Grouping, by: str = "model") -> dict[str, SignedSummary]:
    """A summary of each group."""
    return {mark: SignedSummary(f"About {mark[-4:]}.", by, "m", "v1") for mark in grouping.groups["fingerprint"]}


# What they are known by (S2-47)


ID_SETS = st.sets(st.text(alphabet='ab",[\x00', min_size=1, max_size=3), max_size=4)


@given(ID_SETS, ID_SETS, ID_SETS, ID_SETS)
def test_two_communities_share_a_fingerprint_only_if_they_are_the_same(
    a: set[str], b: set[str], c: set[str], d: set[str]
) -> None:
    assert (fingerprint(a, b) == fingerprint(c, d)) == ((a, b) == (c, d))


def test_only_relations_within_count_and_parallel_ones_each() -> None:
    grouping = grouped(graph("ab", "ab", "bc", "cd", alone="z"), "ab", "cd")
    marks = {"ab": fingerprint("ab", ["ab", "ab1"]), "cd": fingerprint("cd", ["cd"])}
    rows = grouping.groups.select(pl.col("entity_ids").list.join(""), "fingerprint", "facts").rows()
    assert sorted(rows) == [("ab", marks["ab"], 2), ("cd", marks["cd"], 1)]
    assert grouping.relations["fact_id"].to_list() == ["ab", "ab1", "cd"]
    assert "z" not in grouping.members["id"].to_list()


# Ids that last


@given(st.lists(st.integers(-1, 3), min_size=8, max_size=8), st.lists(st.integers(-1, 3), min_size=8, max_size=8))
def test_every_group_has_an_id_of_its_own_and_one_that_was_kept_has_most_of_who_was_there(
    then: list[int], now: list[int]
) -> None:
    made = graph("ab", "cd", "ef", "gh")
    before = {f"c_{n}": members for n in range(4) if (members := _members(then, n))}
    groups = [members for n in range(4) if (members := _members(now, n))]
    kept = grouped(made, *groups, before=held(**before)).groups
    found = dict(kept.select(pl.col("entity_ids").list.sort().list.join(""), "id").iter_rows())
    assert len(set(found.values())) == len(found) == len(groups)
    for members, id_ in found.items():
        claims = {name: len({*members} & {*were}) for name, were in before.items()}
        likely = {name: count for name, count in claims.items() if 2 * count > len(before[name])}
        assert id_ == min(likely, key=lambda name: (-likely[name], name)) if likely else id_ not in before


def _members(numbers: list[int], wanted: int) -> str:
    return "".join(letter for letter, number in zip(LETTERS, numbers, strict=True) if number == wanted)


# When they are due (S2-45)


@given(st.integers(0, 500), st.integers(0, 300), st.integers(0, 150))
def test_communities_are_due_when_a_multiple_is_crossed_even_if_it_is_jumped_over(
    before: int, more: int, interval: int
) -> None:
    crossed = interval > 0 and any(n % interval == 0 for n in range(before + 1, before + more + 1))
    assert is_due(before, before + more, interval) == crossed


# Names and aspects (S2-49, C16)


def test_a_name_is_of_the_three_most_connected_members() -> None:
    grouping = grouped(graph("ba", "bc", "bd", "cd", "de"), "abcde")
    names = pl.DataFrame({"id": [*"abcde"], "name": ["Anna", "Ben", "Carl\n Co", "Dora", "Eva"]})
    assert community_names(grouping.groups, names)["name"].to_list() == ["Ben, Dora, Carl Co +2"]
    small = grouped(graph("ab"), "ab")
    assert community_names(small.groups, names)["name"].to_list() == ["Anna, Ben"]


def test_a_community_tells_how_many_of_its_relations_touch_which_aspect() -> None:
    grouping = grouped(graph("ab", "bc", "cd"), "ab", "cd")
    touched = [("ab", "career"), ("ab", "music"), ("ab", "career"), ("bc", "music")]
    told = planned(grouping, aspects=touched).communities["aspects"]
    assert sorted(map(len, map(json.loads, told))) == [0, 2]
    assert '{"career":1,"music":1}' in told


# What is written


def after(plan: CommunityPlan, before: pl.DataFrame | None = None) -> pl.DataFrame:
    """COMMUNITIES once the plan is carried out."""
    kept = (held() if before is None else before).join(plan.communities, on="id", how="anti")
    return pl.concat([kept.filter(~pl.col("id").is_in(plan.dropped.implode())), plan.communities]).sort("id")


def test_only_what_changed_is_told_anew_and_loses_its_summary_if_nobody_tells_it() -> None:
    grouping = grouped(graph("ab", "bc", "de"), "abc", "de")
    first = planned(grouping, summaries=told(grouping))
    then = after(first)
    now = grouped(graph("ab", "ac", "bc", "de"), "abc", "de", before=then)
    due = needs_summary(now, then, has_model=False)
    assert due["entity_ids"].list.sort().to_list() == [["a", "b", "c"]]
    plan = planned(now, then)
    assert plan.communities["id"].to_list() == due["id"].to_list()
    assert plan.communities["summary"].to_list() == plan.communities["fingerprint"].to_list() == [None]
    assert plan.waiting == 1
    assert plan.decisions["action"].to_list() == ["regroup"]
    assert planned(now, after(plan, then)).is_empty  # and it is still due
    assert needs_summary(now, after(plan, then), has_model=False)["id"].to_list() == due["id"].to_list()


def test_a_model_speaks_for_what_rules_spoke_for_but_never_the_other_way() -> None:
    grouping = grouped(graph("ab", "cd"), "ab", "cd")
    by_rule = planned(grouping, summaries=told(grouping, "rule")).communities.sort("id")
    same = grouped(graph("ab", "cd"), "ab", "cd", before=by_rule)
    assert needs_summary(same, by_rule, has_model=False).is_empty()
    assert len(needs_summary(same, by_rule, has_model=True)) == 2
    kept = planned(same, by_rule)
    assert kept.is_empty  # a model that failed leaves what the rule said
    plan = planned(same, by_rule, told(same))
    assert set(plan.communities["summarised_by"]) == {"model"}
    assert plan.decisions["action"].to_list() == ["summarise"] * 2
    assert set(plan.decisions["decided_by"]) == {"model"}


# What rules say of them


def said(**statements: str | tuple[str, int]) -> pl.DataFrame:
    rows = [(id_, *(each if isinstance(each, tuple) else (each, 1))) for id_, each in statements.items()]
    return pl.DataFrame(rows, schema=["id", "statement", "evidence_count"], orient="row")


def test_the_strongest_facts_come_first_and_each_sentence_once() -> None:
    made = graph("ab", "ac", "bc", "cd", weights={"ab": 0.5, "ac": 0.9, "bc": 0.9, "cd": 0.9})
    facts = said(ab="Weak.", ac="Told once.", bc=("Told twice.", 2), cd=("told twice", 1))
    found = strongest_facts(grouped(made, "abcd"), facts, 3)
    assert found["statement"].to_list() == ["Told twice.", "Told once.", "Weak."]
    assert strongest_facts(grouped(made, "abcd"), facts, 1)["statement"].to_list() == ["Told twice."]


def test_a_rules_summary_is_about_three_of_the_sentences_and_nothing_else() -> None:
    assert summary_by_rule(["Anna works\n at Acme", "Ben sings!", "Eva runs.", "More."]) == (
        "Anna works at Acme. Ben sings! Eva runs."
    )
    assert summary_by_rule(["Short.", "x" * MAX_CHARS, "Also short."]) == "Short. Also short."
    assert summary_by_rule([]) == ""
    long = summary_by_rule(["y" * 2000])
    assert len(long) == MAX_CHARS
    assert long.endswith("…")


# What a model is shown (S2-48, T38)


TEXTS = st.text(alphabet="aé<&\U0001f600 ", min_size=1, max_size=12).map(lambda t: t.strip() or "x")
QUESTIONS = st.lists(
    st.builds(
        CommunityQuestion,
        number=st.integers(1, 99),
        members=st.integers(2, 9),
        names=st.lists(TEXTS, min_size=1, max_size=4).map(tuple),
        facts=st.lists(TEXTS, max_size=5).map(tuple),
    ),
    min_size=1,
    max_size=14,
)


@given(QUESTIONS, st.integers(180, 1500))
def test_communities_share_a_prompt_up_to_its_limit_and_only_one_that_is_too_long_is_cut(
    questions: list[CommunityQuestion], limit: int
) -> None:
    packs = list(pack_communities(questions, limit, 99))
    assert all(len(render_communities(pack).text.encode()) <= limit for pack in packs)
    assert [[each.number for each in pack] for pack in packs] == [[*range(1, len(pack) + 1)] for pack in packs]
    shown = [each for pack in packs for each in pack]
    assert len(shown) == len(questions)
    for asked, each in zip(questions, shown, strict=True):
        for texts, kept in ((asked.names, each.names), (asked.facts, each.facts)):
            if texts != kept:
                assert kept[-1].endswith(CUT)
                assert "\n".join(texts).startswith("\n".join(kept)[: -len(CUT)])
    for left, right in pairwise(packs):  # nothing is left out that would have fitted
        assert len(render_communities((*left, right[0])).text.encode()) + len(str(len(left) + 1)) > limit


# Who belongs where


def test_an_entity_is_of_one_community_even_where_several_name_it() -> None:
    rows = held(c_1="ab", c_2="bc", c_3="d").with_columns(
        joined_ids=pl.Series([["d", "e"], ["e"], []], dtype=frames.TEXTS),
        refreshed_at=pl.Series([NOW, NOW + timedelta(days=1), NOW], dtype=frames.TIME),
    )
    assert places_of(rows).rows() == [
        ("a", "c_1", True), ("b", "c_2", True), ("c", "c_2", True), ("d", "c_3", True), ("e", "c_2", False),
    ]  # fmt: skip


# Who joins (S2-50)


def test_who_is_no_more_leaves_a_community_which_goes_if_one_is_left() -> None:
    before = held(c_1="abc", c_2="ax", c_3="de", c_4="f").with_columns(
        fingerprint=pl.lit("b2:old"), joined_ids=pl.Series([None, [], ["x"], ["x", "y"]], dtype=frames.TEXTS)
    )
    left, dropped = without_members(before, ["x", "b"])
    rows = left.select("id", "entity_ids", "joined_ids", "fingerprint").rows()
    assert rows == [
        ("c_1", ["a", "c"], [], None), ("c_3", ["d", "e"], [], None), ("c_4", ["f"], ["y"], None),
    ]  # fmt: skip
    assert dropped.to_list() == ["c_2"]


def after_joining(before: pl.DataFrame, grown: pl.DataFrame) -> pl.DataFrame:
    """COMMUNITIES once the plan is carried out."""
    both = before.drop("joined_ids").join(grown, on="id", how="left", maintain_order="left")
    return frames.conform(both, frames.COMMUNITIES)


def joined(*edges: str, **groups: str) -> dict[str, str]:
    """The communities of those who joined, of everybody that the edges name."""
    before = held(**groups)
    ends = [(edge, edge[0], edge[1]) for edge in edges]
    relations = pl.DataFrame(ends, schema=["id", "subject_id", "object_id"], orient="row")
    new = pl.Series("id", sorted({*"".join(edges)}))
    plan = plan_joining(new, relations, before, NOW)
    then = after_joining(before, plan.grown)
    assert {*waiting(new, then)} == {*waiting(new, before)} - {*plan.members["id"]}
    assert plan_joining(new, relations, then, NOW).members.is_empty()
    return dict(plan.members.iter_rows())


def test_who_is_new_joins_the_community_of_most_of_its_relations_of_equals_the_smallest_id() -> None:
    assert joined("xa", "xc", "dx", c_1="ab", c_2="cd") == {"x": "c_2"}
    assert joined("xa", "xa", "xc", c_1="ab", c_2="cd") == {"x": "c_1"}
    assert joined("xa", "xc", c_2="ab", c_1="cd") == {"x": "c_1"}


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda e: e[0] != e[1]), min_size=1, max_size=14),
    st.lists(st.integers(-1, 2), min_size=8, max_size=8),
)
def test_joining_is_one_vote_of_everybody_for_communities_as_they_were(
    edges: list[tuple[int, int]], start: list[int]
) -> None:
    votes: dict[int, list[int]] = {}
    for a, b in [*edges, *((b, a) for a, b in edges)]:
        if start[a] < 0 <= start[b]:
            votes.setdefault(a, []).append(start[b])
    won = {node: min(set(cast), key=lambda each: (-cast.count(each), each)) for node, cast in votes.items()}
    groups = {f"c_{n}": members for n in range(3) if (members := _members(start, n))}
    found = joined(*(f"{LETTERS[a]}{LETTERS[b]}" for a, b in edges), **groups)
    assert found == {LETTERS[node]: f"c_{n}" for node, n in won.items()}
