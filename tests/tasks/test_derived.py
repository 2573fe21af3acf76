"""Entities whose descriptions are alike are linked, and a link is no knowledge (S2-71, T33, T34)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import assert_same, contents, overtaken

from inference.embedding import open_embedder
from slowwave.common import frames
from slowwave.common.settings import DEFAULT_EMBEDDER, LinkSettings
from slowwave.graph.graph import LINK_ENDS, NEAR, plan_links
from storage.doctor import examine
from storage.store import Store
from tasks.entities import derived
from tasks.entities.derived import link_entities
from tasks.runtime.runs import Run, new_run

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
ON = LinkSettings(enabled=True)
SEAT = open_embedder(DEFAULT_EMBEDDER)

Link = tuple[str, str, float]


@pytest.fixture
def place(empty_memory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(empty_memory, tmp_path / "memory"))


def at(*degrees: float | None) -> pl.Series:
    """Vectors on a circle: the cosine of two is that of the angle between them; null where there is no angle."""
    rows: list[list[float] | None] = []
    for angle in degrees:
        turned = np.zeros(SEAT.dims)
        turned[:2] = np.cos(np.radians(angle or 0)), np.sin(np.radians(angle or 0))
        rows.append(None if angle is None else turned.tolist())
    return pl.Series("vector", rows, dtype=pl.Array(pl.Float32, SEAT.dims))


def put(place: Path, angles: dict[str, float | None], **more: Any) -> None:
    """Entities with the angles of their vectors; what else is said of them holds for all."""
    rows = pl.DataFrame(
        {
            "id": [*angles], "canonical_name": [*angles], "name": [*angles], "entity_type": "tool", "status": "active",
            "embed_text_hash": [f"{name} {angle}" for name, angle in angles.items()], "last_seen_at": NOW,
        }
    ).with_columns(at(*angles.values()), **{name: pl.lit(value) for name, value in more.items()})  # fmt: skip
    with Store.open(str(place)).commit("setup", "test", NOW) as tx:
        tx.upsert("entities", rows)


def a_run(place: Path, later: int = 0) -> Run:
    begun = new_run("ingest", str(place), "default", DEFAULT_EMBEDDER, NOW + timedelta(days=later))
    return replace(begun, id=f"ingest-{later}")


def link(place: Path, only: Sequence[str] | None = None, later: int = 0, **more: Any) -> int:
    return link_entities(a_run(place, later), ON.model_copy(update=more), only)


def links(place: Path) -> list[Link]:
    found = Store.open(str(place)).snapshot().frame("entity_links").sort("a_id", "b_id")
    return found.select("a_id", "b_id", pl.col("cosine").round(4)).rows()


def cosine(degrees: float) -> float:
    return round(float(np.cos(np.radians(degrees))), 4)


def test_t33_a_link_is_a_row_of_its_own_table_changes_no_other_and_is_written_once(place: Path) -> None:
    put(place, {"a": 0, "b": 1, "mute": None})
    before = contents(place, but=("entity_links",))
    assert link(place, enabled=False) == 0
    assert link(place) == 1
    assert_same(contents(place, but=("entity_links",)), before)
    assert links(place) == [("a", "b", cosine(1))]
    assert not examine(Store.open(str(place)))
    written = Store.open(str(place)).head.sequence
    assert link(place, later=1) == link(place, ["b"], later=2) == 0
    assert Store.open(str(place)).head.sequence == written


def test_t34_the_latest_cosine_replaces_the_one_before_and_the_link_stays_the_same_row(place: Path) -> None:
    put(place, {"a": 0, "b": 5})
    link(place)
    first = Store.open(str(place)).snapshot().frame("entity_links", columns=["id", "linked_at"]).row(0)
    put(place, {"b": 25})
    assert link(place, ["b"], later=3) == 1
    second = Store.open(str(place)).snapshot().frame("entity_links", columns=["id", "linked_at"]).row(0)
    assert links(place) == [("a", "b", cosine(25))]
    assert (second[0], second[1]) == (first[0], first[1] + timedelta(days=3))


def test_archived_and_merged_entities_have_no_links(place: Path) -> None:
    put(place, {"a": 0, "b": 5, "c": 20, "d": 8})
    link(place)
    put(place, {"b": 5}, status="archived")
    put(place, {"d": 8}, status="archived", merged_into="a")
    link(place, ["c"], later=1)
    link(place, later=2)
    assert links(place) == [("a", "c", cosine(20))]


def test_what_was_split_is_not_linked_with_what_it_was_split_from(place: Path) -> None:
    put(place, {"whole": 0})
    put(place, {"part": 1, "rest": 2}, parent_entity_id="whole")
    link(place)
    assert links(place) == [("part", "rest", cosine(1))]


@pytest.mark.proof
def test_s2_71_when_the_time_is_up_what_was_found_is_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "BATCH", 2)
    put(place, {name: 10.0 * n for n, name in enumerate("abcdefgh")})
    put(place, {"h": 70.0}, last_seen_at=NOW + timedelta(days=1))
    ticks = count(0.0, 2.0)
    changed = link_entities(a_run(place), ON.model_copy(update={"timeout_s": 6.5}), None, lambda: next(ticks))
    looked_at = {"h", "a", "b", "c"}  # two batches of two seconds each: the latest first
    pairs = {pair[:2] for pair in links(place)}
    assert changed == len(pairs)
    assert all(looked_at & set(pair) for pair in pairs)
    assert ("g", "h") in pairs
    assert ("c", "d") in pairs
    assert ("e", "f") not in pairs
    link(place, later=1)
    assert ("e", "f", cosine(10)) in links(place)


@pytest.mark.proof
def test_t40_what_another_run_changes_meanwhile_is_not_linked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(place, {"a": 0, "b": 5, "c": 20, "d": 30})

    def other() -> None:
        put(place, {"b": 5}, status="archived")
        put(place, {"d": 170})

    with overtaken(monkeypatch, "ingest.link", other):
        link(place)
    assert links(place) == [("a", "c", cosine(20))]


# The law: however a memory came to its vectors, a look at everything is all that counts


def nearest(angles: dict[str, float], asked: Iterable[str], k: int) -> pl.DataFrame:
    """NEAR of some entities by brute force."""
    rows = []
    for one in asked:
        others = sorted((-np.cos(np.radians(angles[one] - angles[other])), other) for other in angles)
        rows += [(one, other, -minus) for minus, other in others[: k + 1]]
    return pl.DataFrame(rows, schema=dict(NEAR), orient="row")


def passed(held: pl.DataFrame, angles: dict[str, float], asked: Sequence[str], chosen: LinkSettings) -> pl.DataFrame:
    """The links after a pass over some of the entities."""
    looked_at = pl.Series([name for name in asked if name in angles], dtype=pl.String)
    ends = frames.conform(pl.DataFrame({"id": [*angles]}, schema={"id": pl.String}), LINK_ENDS)
    plan = plan_links(held, nearest(angles, looked_at, chosen.top_k), looked_at, ends, chosen, NOW)
    kept = held.join(plan.links, on="id", how="anti").filter(~pl.col("id").is_in(plan.gone.implode()))
    return pl.concat([kept, plan.links]).sort("a_id", "b_id")


def linked(angles: dict[str, float], asked: Sequence[str], **more: Any) -> list[Link]:
    """The links that a pass over some finds where there were none."""
    found = passed(frames.empty(frames.ENTITY_LINKS), angles, asked, ON.model_copy(update=more))
    return found.select("a_id", "b_id", pl.col("cosine").round(4)).rows()


def test_s2_71_entities_from_the_threshold_are_linked_once_whichever_was_looked_at() -> None:
    angles = {"kafka": 0.0, "redis": 20.0, "tea": 90.0, "coffee": 100.0, "rain": 220.0}
    assert linked(angles, ["redis", "coffee"]) == [("coffee", "tea", cosine(10)), ("kafka", "redis", cosine(20))]
    enough, less = (float(np.degrees(np.arccos(number))) for number in (0.85, 0.8499))
    assert linked({"a": 0.0, "b": enough - 1e-9, "c": -less}, ["a"]) == [("a", "b", 0.85)]


def test_s2_71_each_entity_looks_for_no_more_than_its_nearest() -> None:
    angles = {"a": 0.0, "b": 1.0, "c": 3.0, "d": 7.0, "e": 15.0}
    assert linked(angles, ["a"], top_k=2) == [("a", "b", cosine(1)), ("a", "c", cosine(3))]
    pairs = [pair[:2] for pair in linked(angles, sorted(angles), top_k=1)]
    assert pairs == [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]


NAMES = st.sampled_from("abcdefghij")
MEMORIES = st.dictionaries(NAMES, st.integers(0, 90).map(float), min_size=1)


@given(st.lists(st.tuples(MEMORIES, st.sets(NAMES)), max_size=4), MEMORIES, st.integers(1, 4))
def test_t34_a_look_at_all_leaves_what_it_would_find_from_nothing(
    earlier: list[tuple[dict[str, float], set[str]]], last: dict[str, float], top_k: int
) -> None:
    chosen = ON.model_copy(update={"top_k": top_k})
    nothing = frames.empty(frames.ENTITY_LINKS)
    held = nothing
    for angles, asked in earlier:
        held = passed(held, angles, sorted(asked), chosen)
        assert held["id"].is_unique().all()
        assert (held["a_id"] < held["b_id"]).all()
    whole, afresh = (passed(rows, last, sorted(last), chosen) for rows in (held, nothing))
    assert whole.drop("cosine").equals(afresh.drop("cosine"))
    assert whole["cosine"].to_list() == pytest.approx(afresh["cosine"].to_list(), abs=1e-4)
    again = passed(whole, last, sorted(last), chosen)
    assert again.equals(whole)
