"""Other times: what was true, what was believed, how it came about, and what is doubtful about what is shown."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import Row, fact, recalled, remembered
from talk import NOW

from flows.maintenance import consolidate
from slowwave.common import frames
from slowwave.common.settings import ConsolidateSettings, RecallSettings
from slowwave.common.text import statement_hash
from slowwave.common.validity import END_CHANGES, MAX_CHAIN, Moment, as_known, is_live, oldest_first, valid_facts
from slowwave.facts.deduplication.merged_facts import CONSOLIDATED, DEDUP
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store

TIMES = ("valid_from", "valid_to", "created_at", "expired_at")
TEXTS = ("id", "status", "replaced_by", "status_reason")
SCHEMA = dict.fromkeys(TIMES, frames.TIME) | dict.fromkeys(TEXTS, pl.String())


def day(number: float) -> datetime:
    """So many days after the first of January 2026."""
    return EPOCH + timedelta(days=number)


def frame(rows: list[Row]) -> pl.DataFrame:
    base = {"status": "active", "valid_from": EPOCH, "created_at": EPOCH}
    return pl.DataFrame([{**base, **row} for row in rows], schema=SCHEMA)


def superseded(by: str, at: datetime, end: datetime | None = None) -> Row:
    """What a fact gets when another takes its place: at a change in the world with an end, as redundant without."""
    return {
        "status": "superseded", "replaced_by": by, "expired_at": at, "valid_to": end,
        "status_reason": f"replaced by {by}",
    }  # fmt: skip


def decision(action: str, subject: str, at: datetime, reason: str, *others: str) -> Row:
    return {
        "id": f"d_{action}_{subject}", "action": action, "subject_id": subject, "ids_in": [subject, *others],
        "ids_out": [subject], "at": at, "reason": reason, "decided_by": "rule",
    }  # fmt: skip


JOB = "Marta works at Ferrywise."
VIM, NEOVIM = "Marta uses the editor vim.", "Marta uses the editor neovim."


def editors(tmp_path: Path, **places: Any) -> Path:
    """Vim from day 0, known on day 1; neovim from day 50, known on day 60."""
    vim = fact("f_a1", VIM, predicate="uses", created_at=day(1), **superseded("f_a2", day(60), day(50)))
    neovim = fact("f_a2", NEOVIM, predicate="uses", created_at=day(60), valid_from=day(50), supersedes_id="f_a1")
    more = {
        "lineage": [{"id": "l_1", "old_id": "f_a1", "new_id": "f_a2", "reason": "temporal_change"}],
        "decisions": [decision("supersede", "f_a1", day(60), "A later message replaces it.", "f_a2")],
    }
    if places.get("is_archived"):
        return remembered(tmp_path / "m", [neovim], archived=[vim], more=more)
    return remembered(tmp_path / "m", [vim, neovim], more=more)


def known_of(uri: Path, name: str = "Marta", **how: Any) -> list[str]:
    with OpenMemory.open(str(uri)) as memory:
        return [found.id for found in memory.facts_of(name, now=NOW, **how)[1]]


# What was true (S2-36)


@st.composite
def merged_chains(draw: st.DrawFn) -> tuple[list[Row], float, float | None]:
    """Wordings of one fact that absorb each other in any order; the last of them goes on, or ends, or is replaced."""
    starts = draw(st.lists(st.integers(0, 20), min_size=1, max_size=8))
    rows: list[Row] = [{"id": f"f{n}", "valid_from": day(start)} for n, start in enumerate(starts)]
    live = list(range(len(rows)))
    while len(live) > 1:
        loser = live.pop(draw(st.integers(0, len(live) - 1)))
        winner = rows[draw(st.sampled_from(live))]
        winner["valid_from"] = min(winner["valid_from"], rows[loser]["valid_from"])
        rows[loser] |= {"status": "superseded", "replaced_by": winner["id"], "expired_at": day(30)}
    last = rows[live[0]]
    how = draw(st.sampled_from(["goes on", "archived", "ends", "is replaced", "is retracted"]))
    end = float(draw(st.integers(21, 29))) if how in ("ends", "is replaced") else None
    last |= {"valid_to": day(end)} if end else {}
    if how == "is replaced":
        assert end
        last |= {"status": "superseded", "replaced_by": "other"}
        rows.append({"id": "other", "valid_from": day(end)})
    elif how in ("archived", "is retracted"):
        last |= {"status": how.removeprefix("is "), "expired_at": day(30)}
    return rows, float(min(starts)), 0.0 if how == "is retracted" else end


@settings(deadline=None)
@given(merged_chains(), st.integers(-1, 31))
def test_of_a_chain_of_consolidated_facts_exactly_one_is_shown_at_every_time_it_holds(
    made: tuple[list[Row], float, float | None], time: int
) -> None:
    rows, start, end = made
    shown = [name for name in valid_facts(frame(rows), day(time))["id"] if name != "other"]
    assert len(shown) == (start <= time and (end is None or time < end))


def test_of_facts_that_replace_each_other_in_a_circle_one_is_shown() -> None:
    circle = [{"id": "a", **superseded("b", day(5))}, {"id": "b", **superseded("a", day(5))}]
    assert valid_facts(frame(circle), day(9))["id"].to_list() == ["b"]
    circle[0] |= {"status": "active", "expired_at": None}
    assert valid_facts(frame(circle), day(9))["id"].to_list() == ["a"]


@pytest.mark.proof
@pytest.mark.parametrize("is_archived", [False, True])
def test_facts_of_an_entity_at_a_time_are_those_that_were_true_then(tmp_path: Path, is_archived: bool) -> None:
    uri = editors(tmp_path, is_archived=is_archived)
    assert known_of(uri) == ["f_a2"]
    assert known_of(uri, as_of=day(49)) == recalled(uri, "Which editor?", as_of=day(49)) == ["f_a1"]
    assert known_of(uri, as_of=day(50)) == recalled(uri, "Which editor?", as_of=day(50)) == ["f_a2"]
    assert known_of(uri, as_of=day(-1)) == []


def test_a_wording_that_was_absorbed_is_not_recalled_though_the_other_one_was_not_found(tmp_path: Path) -> None:
    wordings = [fact(f"f_{n}", f"Marta is fond of tea number {n}.") for n in range(40)]
    absorbed = fact("f_old", "Devon keeps bees.", **superseded("f_mid", day(9)))
    between = fact("f_mid", "Bee-keeping is done by Devon.", **superseded("f_new", day(9)))
    uri = remembered(tmp_path / "m", [*wordings, absorbed, fact("f_new", "Zebra.")], archived=[between])
    assert not {"f_old", "f_mid"} & {*recalled(uri, "Who keeps bees?", k=3, as_of=day(20))}
    assert recalled(uri, "Who keeps bees?", k=3, known_as_of=day(8))[0] == "f_old"


# What was believed


@st.composite
def lives_of_a_store(draw: st.DrawFn) -> tuple[list[pl.DataFrame], list[Row]]:
    """The state of a store after each day on which something happened to it, and what it learned of ends.

    That a fact had no end before it was replaced or retracted may go untold; an end that it had is told.
    """
    facts: dict[str, Row] = {}
    ends: list[Row] = []
    states = []

    def learned(now: int, start: datetime, **more: Any) -> Row:
        facts[f"f{now}"] = {"id": f"f{now}", "status": "active", "valid_from": start, "created_at": day(now), **more}
        return facts[f"f{now}"]

    def told(row: Row, now: int, *, always: bool = True, **more: Any) -> None:
        until = row.get("valid_to")
        if always or until is not None or draw(st.booleans()):
            ends.append({"id": row["id"], "end_known_at": day(now), "end_before": until, **more})

    def ended(row: Row, end: datetime) -> datetime:
        return min(max(end, row["valid_from"]), row.get("valid_to") or end + timedelta(days=99))

    for now in range(1, draw(st.integers(2, 14))):
        active = [row for row in facts.values() if row["status"] == "active"]
        over = [row for row in facts.values() if str(row.get("status_reason")).startswith("replaced by")]
        over = [row for row in over if row["valid_from"] < row["valid_to"]]
        what = draw(st.sampled_from(["learn", "replace", "absorb", "end", "retract", "archive", "shorten"]))
        chosen = draw(st.sampled_from(active)) if active else None
        if what == "shorten" and over:
            late = draw(st.sampled_from(over))
            learned(now, late["valid_from"], **superseded(late["replaced_by"], day(now), late["valid_to"]))
            told(late, now, replaced_before=late["replaced_by"])
            late |= {"valid_to": late["valid_from"], "replaced_by": f"f{now}"}
        elif chosen is None or what in ("learn", "shorten"):
            until = draw(st.none() | st.integers(now + 1, 30))
            learned(now, day(draw(st.integers(-20, now))), valid_to=None if until is None else day(until))
        elif what == "replace":
            start = learned(now, day(draw(st.integers(-20, now))))["valid_from"]
            told(chosen, now, always=False)
            chosen |= superseded(f"f{now}", day(now), ended(chosen, start))
        elif what == "absorb" and len(active) > 1:
            winner = draw(st.sampled_from([row for row in active if row is not chosen]))
            winner["valid_from"] = min(winner["valid_from"], chosen["valid_from"])
            chosen |= superseded(winner["id"], day(now), chosen.get("valid_to"))
            chosen["status_reason"] = f"{draw(st.sampled_from([DEDUP, CONSOLIDATED]))}: absorbed by {winner['id']}"
        elif what == "end":
            told(chosen, now)
            chosen |= {"valid_to": ended(chosen, day(now - 3)), "status_reason": "ended"}
        elif what == "retract":
            told(chosen, now, always=False)
            chosen |= {"status": "retracted", "expired_at": day(now), "valid_to": ended(chosen, day(now - 1))}
        elif what == "archive":
            chosen |= {"status": "archived", "expired_at": day(now)}
        states.append(frame(list(facts.values())))
    return states, ends


@pytest.mark.proof
@settings(deadline=None)
@given(lives_of_a_store())
def test_the_store_is_seen_as_it_was_on_every_day_of_its_life(made: tuple[list[pl.DataFrame], list[Row]]) -> None:
    states, ends = made
    columns = ["id", "status", "valid_to", "expired_at", "replaced_by"]
    for now, state in enumerate(states, 1):
        then = as_known(states[-1], day(now) + timedelta(hours=1), pl.DataFrame(ends, schema=dict(END_CHANGES)))
        assert then.select(columns).rows() == state.select(columns).rows()


@pytest.mark.proof
@settings(deadline=None)
@given(lives_of_a_store())
def test_what_is_known_today_is_what_holds_today(made: tuple[list[pl.DataFrame], list[Row]]) -> None:
    states, ends = made
    now = day(40)
    known = Moment(now, known_as_of=now).facts(states[-1], pl.DataFrame(ends, schema=dict(END_CHANGES)))
    assert known["id"].to_list() == states[-1].filter(is_live(now))["id"].to_list()
    assert known["id"].to_list() == Moment(now).facts(states[-1])["id"].to_list()


@pytest.mark.proof
@pytest.mark.parametrize("is_archived", [False, True])
def test_before_a_fact_was_retired_the_old_one_was_believed_and_after_it_the_new_one(
    tmp_path: Path, is_archived: bool
) -> None:
    uri = editors(tmp_path, is_archived=is_archived)
    for at, expected in ((day(0.5), []), (day(30), ["f_a1"]), (day(59), ["f_a1"]), (day(60), ["f_a2"])):
        assert known_of(uri, known_as_of=at) == recalled(uri, "Which editor?", known_as_of=at) == expected
    with OpenMemory.open(str(uri)) as memory:
        [then] = memory.recall("Which editor?", known_as_of=day(59), now=NOW).facts
        [version] = memory.history("Marta", known_as_of=day(59), now=NOW)[1]
    assert (then.status, then.valid_to) == (version.fact.status, version.fact.valid_to) == ("active", None)
    assert (version.known_to, version.why, version.ended_by) == (None, "", None)


@pytest.mark.proof
def test_what_was_known_then_is_the_same_before_and_after_consolidation(tmp_path: Path) -> None:
    tea = "Marta prefers strong green tea in the morning"
    wordings = [
        fact("f_a1", f"{tea}.", created_at=day(1), valid_to=day(30)),
        fact("f_a2", tea, created_at=day(2), valid_to=day(30)),
        fact("f_b1", "Devon keeps bees on the roof.", created_at=day(1)),
        fact("f_b2", "Devon keeps bees on the roof", created_at=day(3)),
    ]
    for row in wordings:
        row |= {"kind": "observation", "polarity": "affirmed", "entrenchment": "user_stated"}
        row["statement_hash"] = statement_hash(row["statement"])
    uri = remembered(tmp_path / "m", wordings)

    def told() -> list[list[tuple[str, datetime | None, str]]]:
        with OpenMemory.open(str(uri)) as memory:
            return [
                sorted((one.id, one.valid_to, one.status) for one in memory.facts_of("Marta", now=day(60), **how)[1])
                for known in (0.5, 1, 2, 3, 9)
                for how in (
                    {"known_as_of": day(known)},
                    *({"known_as_of": day(known), "as_of": day(n)} for n in (8, 40)),
                )
            ]

    before = told()
    chosen = ConsolidateSettings.model_validate({"llm": {"model": "quotes"}})
    done = asyncio.run(consolidate(store=str(uri), settings=chosen, now=day(10)))
    assert done["counts"]["facts merged"] == 2
    assert told() == before
    assert [name for name, *_ in before[-1]] == ["f_b1", "f_b2"]  # the tea was over, and that was known


# History (S2-38)


def test_a_history_has_every_version_but_candidates_and_rejected_ones_latest_first(tmp_path: Path) -> None:
    statuses = ("active", "superseded", "retracted", "archived", "candidate", "rejected")
    made = [fact(f"f_{n}", JOB, status=status, created_at=day(n)) for n, status in enumerate(statuses)]
    later = fact("f_z", JOB, valid_from=day(5), created_at=day(0))
    twin = fact("f_3b", JOB, status="archived", created_at=day(3))
    uri = remembered(tmp_path / "m", [*made[:2], later, made[4], made[5]], archived=[*made[2:4], twin])
    with OpenMemory.open(str(uri)) as memory:
        listed = [version.fact.id for version in memory.history("Marta", now=NOW)[1]]
        assert listed == ["f_z", "f_3b", "f_3", "f_2", "f_1", "f_0"]
        assert [version.fact.id for version in memory.history("Marta", limit=2, now=NOW)[1]] == listed[:2]
        assert (memory.why("f_3").kind, memory.why("f_3").title) == ("facts", JOB)
    assert set(known_of(uri)) == {"f_0", "f_z"}
    assert set(known_of(uri, everything=True)) == {*listed, "f_4", "f_5"}
    with OpenMemory.open(str(uri), settings=RecallSettings(history_limit=1)) as memory:
        assert [version.fact.id for version in memory.history("Marta", now=NOW)[1]] == listed[:1]


def test_a_wording_that_was_absorbed_ended_for_the_reason_of_the_one_that_stayed(tmp_path: Path) -> None:
    old = fact("f_a1", JOB, **superseded("f_a2", day(9)))
    kept = fact("f_a2", "Marta works at Ferrywise as a lead.", valid_to=day(20))
    why = [
        {**decision("absorb", "f_a2", day(9), "The same meaning.", "f_a1"), "ids_out": ["f_a2", "f_a1"]},
        decision("close", "f_a2", day(30), "A later message says that it is over.", "f_a3"),
    ]  # fmt: skip
    uri = remembered(tmp_path / "m", [old, kept], more={"decisions": why})
    with OpenMemory.open(str(uri)) as memory:
        versions = {v.fact.id: (v.why, v.ended_by and v.ended_by.id) for v in memory.history("Marta", now=NOW)[1]}
    assert versions == {"f_a1": ("The same meaning.", "f_a2"), "f_a2": ("A later message says that it is over.", None)}


def test_words_are_looked_for_literally_in_statement_and_relation(tmp_path: Path) -> None:
    others = [fact("f_b", "The flag is a_b."), fact("f_c", "A path has \\ in it.", predicate="works_at")]
    uri = remembered(tmp_path / "m", [fact("f_a", "Marta is 100% sure."), *others])
    with OpenMemory.open(str(uri)) as memory:
        for words, relation, found in (
            (None, None, {"f_a", "f_b", "f_c"}), ("100%", None, {"f_a"}), ("A_B", None, {"f_b"}), ("\\", None, {"f_c"}),
            ("WORKS", None, {"f_c"}), ("works.at", None, set()), (None, "works_at", {"f_c"}), (None, "works", set()),
        ):  # fmt: skip
            assert {version.fact.id for version in memory.history("marta", words, relation=relation)[1]} == found


# Chains (S2-55, T35)


def replaced(count: int) -> list[Row]:
    """So many facts of which each replaced the one before."""
    rows = [fact(f"f_{n:03d}", f"Version {n}.", valid_from=day(n)) for n in range(count)]
    for n, row in enumerate(rows[:-1]):
        row |= superseded(f"f_{n + 1:03d}", day(n + 1), day(n + 1))
    return rows


def test_a_chain_is_walked_from_any_of_its_facts_and_told_oldest_first(tmp_path: Path) -> None:
    rows = replaced(5)
    uri = remembered(tmp_path / "m", rows[3:], archived=rows[:3])
    with OpenMemory.open(str(uri)) as memory:
        for start in ("f_000", "f_002", "f_004"):
            chain = memory.chain(start, now=NOW)
            assert [version.fact.id for version in chain.versions] == [row["id"] for row in rows]
            assert (chain.has_circle, chain.is_cut) == (False, False)
        assert [v.ended_by and v.ended_by.id for v in chain.versions] == [*[row["id"] for row in rows[1:]], None]


@pytest.mark.proof
def test_a_chain_that_is_too_long_is_cut_at_64_and_says_so(tmp_path: Path) -> None:
    uri = remembered(tmp_path / "m", replaced(MAX_CHAIN + 6))
    with OpenMemory.open(str(uri)) as memory:
        chain = memory.chain("f_069", now=NOW)
    assert [v.fact.id for v in chain.versions] == [f"f_{n:03d}" for n in range(6, 70)]
    assert (chain.has_circle, chain.is_cut) == (False, True)


def test_a_circle_ends_and_is_reported(tmp_path: Path) -> None:
    rows = replaced(3)
    rows[2] |= superseded("f_000", day(9))
    uri = remembered(tmp_path / "m", rows)
    with OpenMemory.open(str(uri)) as memory:
        chain = memory.chain("f_001", now=NOW)
        assert sorted(v.fact.id for v in chain.versions) == ["f_000", "f_001", "f_002"]
        assert chain.has_circle
        assert len(memory.why("f_001").columns) > 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=25))
def test_the_order_of_a_chain_keeps_every_step_unless_there_is_a_circle(pairs: list[tuple[int, int]]) -> None:
    steps = [(f"f{a}", f"f{b}") for a, b in pairs if a != b]
    order = oldest_first("f0", steps)
    place = {name: n for n, name in enumerate(order.ids)}
    assert len(place) == len(order.ids)
    backwards = [(old, new) for old, new in steps if old in place and new in place and place[old] > place[new]]
    assert bool(backwards) == order.has_circle


# What is doubtful


def conflict(name: str, a: str, b: str, **more: Any) -> Row:
    return {
        "id": name, "a_id": a, "b_id": b, "kind": "implicit_conflict", "outcome": "pending", "at": day(5),
        "expires_at": NOW + timedelta(days=1), **more,
    }  # fmt: skip


def test_what_contradicts_a_fact_is_shown_with_it(tmp_path: Path) -> None:
    facts = [
        fact("f_a", "Marta trains staff for Ferrywise.", polarity="negated"),
        fact("f_b", "Marta dislikes Ferrywise."),
        fact("f_c", "Marta likes Ferrywise."),
        fact("f_d", "Marta despises Ferrywise.", **superseded("f_b", day(9))),
    ]
    pairs = [
        conflict("p_1", "f_b", "f_c"),
        conflict("p_2", "f_a", "f_b", outcome="keep_all"),
        conflict("p_3", "f_a", "f_c", expires_at=NOW),
        conflict("p_4", "f_c", "f_d"),
        conflict("p_5", "f_a", "f_b", kind="redundant"),
    ]
    uri = remembered(tmp_path / "m", facts, more={"pair_decisions": pairs})
    with OpenMemory.open(str(uri)) as memory:
        recalls = memory.recall("What about Ferrywise?", now=NOW).facts
        for told in (recalls, memory.facts_of("Marta", now=NOW)[1]):
            by_id = {found.id: found.as_json() for found in told}
            shown = [(name, one["conflicts_with"], one["polarity"]) for name, one in by_id.items()]
            assert sorted(shown) == [
                ("f_a", [], "negated"),
                ("f_b", ["f_c"], "affirmed"),
                ("f_c", ["f_b"], "affirmed"),
            ]
        before = {found.id: found for found in memory.recall("Ferrywise", known_as_of=day(4), now=NOW).facts}
    assert all(found.conflicts_with == () for found in before.values())


def test_a_conflict_is_seen_as_soon_as_it_is_committed_and_gone_when_it_is_decided(tmp_path: Path) -> None:
    uri = remembered(tmp_path / "m", [fact("f_a", "Marta likes tea."), fact("f_b", "Marta dislikes tea.")])
    with OpenMemory.open(str(uri)) as memory:

        def disputed() -> set[str]:
            return {found.id for found in memory.recall("tea", now=NOW).facts if found.conflicts_with}

        assert disputed() == set()
        for outcome, expected in (("pending", {"f_a", "f_b"}), ("supersede", set())):
            with Store.open(str(uri)).commit(outcome, "made", NOW) as tx:
                tx.upsert("pair_decisions", pl.DataFrame([conflict("p", "f_a", "f_b", outcome=outcome)]))
            assert disputed() == expected
