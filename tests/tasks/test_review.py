"""People decide: a proposal writes what it shows or nothing, what grew stale is refused; the terminal is a door."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
import pytest
from console import Console, console
from hypothesis import given, settings
from hypothesis import strategies as st
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow
from prefect.states import Pending
from pydantic import ValidationError
from stores import fact, remembered
from talk import STAMPS, assert_same, contents, rows

from flows.oversight import review
from recall.proposals import Proposal, list_proposals, proposal_named, story_of_proposal
from slowwave.common.errors import Refused, UnusableInput
from slowwave.integrations.python_api import open_memory
from slowwave.review.changes import NOW
from slowwave.review.proposals import (
    MAX_NAME,
    MAX_NOTE,
    Person,
    ProposalQuestion,
    Proposing,
    cleaned,
)
from storage.doctor import examine
from storage.store import Store
from storage.tables import TABLES
from storage.undo import undo
from tasks.people.forgetting import find_subject, forget
from tasks.people.observations import propose_deletion
from tasks.people.reporting import form_of, verdicts_in
from tasks.people.review import Choice, apply_verdicts, approve, decide, reject
from tasks.runtime.runs import Run, existing_run, store_of
from tasks.runtime.writing import proposing

T1 = datetime(2026, 7, 1, 12, tzinfo=UTC)
T2, T3 = T1 + timedelta(days=1), T1 + timedelta(days=2)
ANA = Person("Ana", "terminal")
SAID = ("drinks rooibos tea.", "runs the ferry timetable.", "met Zorblax Quint in Porto.", "sings alto.", "likes rain.")
IDS = tuple(f"f_00000000001_{n}{n}{n}{n}aaaa" for n in range(len(SAID)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with five observations of Marta, the last stated by herself, four of which may go; to be copied."""
    observations = [
        fact(row, f"Marta {text}", kind="observation", owner_entity_id="e_marta", entrenchment="system_inferred")
        for row, text in zip(IDS, SAID, strict=True)
    ]
    observations[-1]["entrenchment"] = "user_stated"
    store = remembered(tmp_path_factory.mktemp("made") / "memory", observations)
    for number in (0, 1, 3, 4):
        proposed(store, number, now=T1 + timedelta(seconds=number))
    return store


@pytest.fixture
def memory(made: Path, tmp_path: Path) -> Path:
    """A copy of that store, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "memory"))


def run_at(store: Path, now: datetime = T1, flow: str = "review") -> Run:
    return existing_run(flow, str(store), "default", now)


def proposed(store: Path, *numbers: int, now: datetime = T1, by: str = "rule") -> Proposal:
    """A proposal to let these observations go."""
    return propose_deletion(run_at(store, now, "retire"), "e_marta", [IDS[n] for n in numbers], by)


def waiting(store: Path, *numbers: int) -> tuple[Proposal, ...]:
    """The proposals, made with the store, to let each of these observations go."""
    made = list_proposals(Store.open(str(store)).snapshot())
    found = {tuple(each.ask.get("observations", ())): each for each in made}
    return tuple(found[(IDS[n],)] for n in numbers)


def drafted(store: Path, number: int, owners: Sequence[str] = (), action: str = "move", **cells: Any) -> Proposal:
    """A proposal to change cells of one observation; it rests on what is filed under `owners`, too."""
    what = Proposing(action, together=True, owners=tuple(owners), subject_id="e_marta", subject="Marta")
    run = proposing(run_at(store, T1, action), what)
    with store_of(run).commit(run.id, action, run.now) as tx:
        whole = tx.by_ids("facts", [IDS[number]], with_vector=True)
        tx.upsert("facts", whole.with_columns(**{name: pl.lit(value) for name, value in cells.items()}))
    return next(each for each in list_proposals(store_of(run).snapshot()) if each.run == run.id)


def one_of(store: Path, asked: str) -> Proposal:
    return proposal_named(Store.open(str(store)).snapshot(), asked)


def retired(store: Path, number: int, now: datetime = T2) -> None:
    """Somebody else lets an observation go meanwhile."""
    from tasks.people.observations import retire

    retire(run_at(store, now, "retire"), "e_marta", [IDS[number]])


def changed_rows(before: dict[str, pl.DataFrame], after: dict[str, pl.DataFrame]) -> set[tuple[str, str]]:
    """Every row of what cannot be derived, other than of proposals, that is new, gone, or another one."""
    found = set()
    for name, frame in after.items():
        if name != "proposals" and not TABLES[name].is_rebuildable:
            was, now = (part.drop(*STAMPS, strict=False) for part in (before[name], frame))
            same = was.join(now, on=was.columns, how="semi", nulls_equal=True)["id"].to_list()
            found |= {(name, row) for row in (*was["id"], *now["id"]) if row not in same}
    return found


# What approval and rejection write


@settings(max_examples=2, deadline=None)
@given(chosen=st.sets(st.integers(0, len(SAID) - 1), min_size=1, max_size=3))
@pytest.mark.proof
def test_approval_writes_exactly_the_rows_that_the_proposal_shows_and_undo_puts_every_byte_back(
    made: Path, tmp_path_factory: pytest.TempPathFactory, chosen: set[int]
) -> None:
    store = Path(shutil.copytree(made, tmp_path_factory.mktemp("law") / "memory"))
    empty = contents(store)
    waits = proposed(store, *chosen)
    before = contents(store)
    assert changed_rows(empty, before) == set()
    run = run_at(store, T3)
    assert approve(run, [waits.id], ANA)[0].state == "applied"
    after = contents(store)
    told = {(each.table, each.id): each for each in waits.changes if each.table != "decisions"}
    assert changed_rows(before, after) == set(told)
    for (name, row), change in told.items():
        held = after[name].filter(pl.col("id") == row)
        assert held.is_empty() == change.is_removal
        for column, value in (change.after or {}).items():
            assert held[column].item() == (run.now if value == NOW else value)
    undo(store_of(run), run.id, "undo-1", T3)
    assert_same(before, contents(store))


@pytest.mark.proof
def test_a_rejection_changes_nothing_that_is_known_and_no_rule_asks_the_same_again(memory: Path) -> None:
    waits = proposed(memory, 0, 1)
    before = contents(memory)
    assert reject(run_at(memory, T2), [waits.id], ANA, "I still drink it")[0].state == "rejected"
    assert changed_rows(before, contents(memory)) == set()
    with pytest.raises(Refused, match="Ana said no"):
        proposed(memory, 1, 0, now=T3)
    assert proposed(memory, 0, now=T3).state == "pending"
    assert proposed(memory, 0, 1, now=T3, by="person").state == "pending"


def test_the_ledger_tells_who_said_yes_or_no_to_what_through_which_door(memory: Path) -> None:
    yes, no = waiting(memory, 0, 1)
    approve(run_at(memory, T2), [yes.id], ANA, "cold by now")
    reject(run_at(memory, T2), [no.id], Person("Ben", "prefect"))
    ledger = rows(memory, "decisions", "proposal_id IS NOT NULL")
    told = {(row["action"], row["approved_by"], row["proposal_id"]) for row in ledger.to_dicts()}
    assert told == {("archive", "Ana", yes.id), ("approve", "Ana", yes.id), ("reject", "Ben", no.id)}
    [reason] = ledger.filter(pl.col("action") == "approve")["reason"]
    assert reason.startswith("Ana said yes to: “Marta drinks rooibos tea.” leaves recall")
    assert "cold by now" in reason
    decided = one_of(memory, yes.id)
    assert (decided.decider, decided.door, decided.decided_at) == ("Ana", "terminal", T2)
    [fact] = [change.id for change in yes.changes if change.table == "facts"]
    with open_memory(memory) as opened:
        [told] = [each for each in opened.why(fact).decisions if each.action == "archive"]
        text = opened.why(fact).text
    assert (told.decided_by, told.approved_by, told.at) == ("person", "Ana", T2)
    assert f"Ana approved it on {T2:%Y-%m-%d}." in " ".join(text.split())


# Stale plans


def delete_row(store: Path, number: int) -> None:
    run = run_at(store, T2, "damage")
    with store_of(run).commit(run.id, "damage", run.now) as tx:
        tx.delete("facts", [IDS[number]])


def file_another(store: Path) -> None:
    run = run_at(store, T2, "observe")
    with store_of(run).commit(run.id, "observe", run.now) as tx:
        whole = tx.by_ids("facts", [IDS[0]], with_vector=True)
        tx.upsert("facts", whole.with_columns(id=pl.lit("f_new_bbbb"), statement=pl.lit("Marta moved to Oslo.")))


@pytest.mark.proof
@pytest.mark.parametrize(
    ("meanwhile", "words"),
    [
        (lambda store: retired(store, 0), "“Marta drinks rooibos tea.” is not as it was"),
        (lambda store: delete_row(store, 0), f"{IDS[0]} is not as it was"),
        (file_another, "“Marta” is not as it was"),
    ],
    ids=["changed", "gone", "one more"],
)
def test_a_plan_whose_ground_has_changed_is_refused_with_what_changed(
    memory: Path, meanwhile: Callable[[Path], None], words: str
) -> None:
    waits = drafted(memory, 0, ["e_marta"], "split", owner_entity_id="e_other")
    snapshot = Store.open(str(memory)).snapshot()
    assert story_of_proposal(snapshot, waits, T2).stale == ()
    meanwhile(memory)
    before = contents(memory)
    assert any(words in each for each in story_of_proposal(Store.open(str(memory)).snapshot(), waits, T2).stale)
    run = run_at(memory, T3)
    [refused] = approve(run, [waits.id], ANA)
    assert refused.state == "stale"
    assert words in refused.outcome
    assert "slowwave split propose 'Marta'" in refused.outcome
    assert changed_rows(before, contents(memory)) == set()
    with pytest.raises(Refused, match="is stale"):
        approve(run_at(memory, T3), [waits.id], ANA)


def test_of_two_proposals_about_one_row_the_second_is_stale_and_the_rest_is_carried_out(memory: Path) -> None:
    (first, third), second = waiting(memory, 0, 3), proposed(memory, 0, 1)
    done = approve(run_at(memory, T2), [first.id, second.id, third.id], ANA)
    assert [each.state for each in done] == ["applied", "stale", "applied"]
    assert sorted(rows(memory, "facts", "status = 'active'")["id"]) == [IDS[1], IDS[2], IDS[4]]


# Verdicts of a form


SECRET = "AKIAIOSFODNN7EXAMPLE"
LOUD = f"be\x1b[2Jcause\u202e of\n{SECRET}\x07 \x9b1m"


@given(st.text(max_size=40), st.sampled_from(["", SECRET, "\x1b]0;x\x07", "\n", "é" * 2000]))
def test_what_a_person_says_is_stored_as_one_readable_line_without_secrets(words: str, more: str) -> None:
    line = cleaned(f"{words} {more}")
    assert len(line) <= MAX_NOTE
    assert all(char.isprintable() or char.isspace() for char in line if ord(char) < 256)
    assert "\n" not in line
    assert SECRET not in line
    assert len(Person(f"{words} {more}", "python").name) <= MAX_NAME


@pytest.mark.proof
def test_verdicts_are_carried_out_as_one_run_that_can_be_undone_and_a_second_time_does_no_harm(memory: Path) -> None:
    yes, no = waiting(memory, 0, 1)
    before = contents(memory)
    verdicts: dict[str, Choice] = {yes.id: "approve", no.id: "reject", "p_unknown": "approve"}
    run = run_at(memory, T2)
    done = apply_verdicts(run, verdicts, ANA)
    assert [each.state for each in done] == ["gone", "applied", "rejected"]
    again = apply_verdicts(run_at(memory, T3), verdicts, ANA)
    assert {each.id: each.state for each in again} == {"p_unknown": "gone", yes.id: "applied", no.id: "rejected"}
    undo(store_of(run), run.id, "undo-1", T3)
    assert_same(before, contents(memory))


# Erasure and the doctor


@pytest.mark.proof
def test_forgetting_erases_every_proposal_with_a_text_or_row_of_the_subject_and_proves_it(memory: Path) -> None:
    naming = proposed(memory, 0, 2)
    done = proposed(memory, 2)
    approve(run_at(memory, T2), [done.id], ANA)
    [refused, other] = waiting(memory, 3, 1)
    decide(run_at(memory, T2), [refused.id], "reject", Person("Zorblax Quint", "terminal"), "no")
    run = run_at(memory, T3, "forget")
    report = forget(run, find_subject(run, "Zorblax Quint"))
    assert report.left == ()
    left = {each.id: each for each in list_proposals(Store.open(str(memory)).snapshot(), None)}
    assert naming.id not in left
    assert done.id not in left
    assert left[other.id] == replace(other, proposed_at=left[other.id].proposed_at)
    assert left[refused.id].state == "rejected"
    assert "Zorblax" not in json.dumps(rows(memory, "proposals").to_dicts(), default=str)
    assert rows(memory, "decisions", f"proposal_id = '{done.id}'").is_empty()
    assert examine(Store.attach(str(memory), "default")) == ()


# The terminal


@pytest.fixture
def terminal(
    memory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Console:
    """Run a command line of 80 columns on that store, as Ana."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("SLOWWAVE_STORE", str(memory))
    monkeypatch.setenv("SLOWWAVE_PERSON", "Ana")

    return console(monkeypatch, capsys)


class Typed(io.StringIO):
    """What somebody types at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.proof
@pytest.mark.parametrize(
    ("typed", "options", "state", "asks"),
    [
        (Typed("n\n"), (), "pending", True),
        (Typed("y\n"), (), "applied", True),
        (Typed(), ("--yes",), "applied", False),
        (Typed(), ("--json",), "applied", False),
        (io.StringIO(), (), "applied", False),
    ],
    ids=["no", "yes", "told", "program", "pipe"],
)
def test_who_sits_at_a_terminal_is_asked_before_what_has_a_risk_is_carried_out(
    memory: Path,
    terminal: Console,
    monkeypatch: pytest.MonkeyPatch,
    typed: io.StringIO,
    options: tuple[str, ...],
    state: str,
    asks: bool,
) -> None:
    [waits] = waiting(memory, 4)
    monkeypatch.setattr(sys, "stdin", typed)
    done = terminal("review", "approve", waits.id, *options)
    assert one_of(memory, waits.id).state == state
    assert ("with a risk?" in done.out + done.err) == asks


@pytest.mark.proof
def test_all_leaves_what_is_risky(memory: Path, terminal: Console) -> None:
    *safe, risky = waiting(memory, 0, 1, 3, 4)
    done = terminal("review", "approve", "--all", "--by", "Ben", "--json").json
    assert {(each["id"], each["state"]) for each in done["decided"]} == {(each.id, "applied") for each in safe}
    assert one_of(memory, safe[0].id).decider == "Ben"
    assert "no risk" in terminal("review", "reject", "--all").out
    assert one_of(memory, risky.id).state == "pending"


@pytest.mark.proof
def test_names_notes_and_reasons_reach_neither_the_store_nor_a_terminal_as_they_were(
    memory: Path, terminal: Console
) -> None:
    who, (first, second) = Person(f"Bo{LOUD}", "python"), waiting(memory, 0, 1)
    reject(run_at(memory, T2), [first.id], who, LOUD)
    approve(run_at(memory, T2), [second.id], who, LOUD)
    propose_deletion(run_at(memory, T2, "retire"), "e_marta", [IDS[2]], "person", LOUD)
    document = terminal("review", "list", "--all", "--json").out
    shown = "".join(terminal("review", "show", each["id"]).out for each in json.loads(document)["proposals"])
    stored = str(rows(memory, "proposals").to_dicts()) + str(rows(memory, "decisions").to_dicts()) + document + shown
    assert "be[2Jcause of [redacted:aws_key] 1m" in stored
    assert SECRET not in stored
    assert "x1b" not in stored.replace("\x1b", "x1b")
    assert "\u202e" not in stored
    with pytest.raises(UnusableInput, match="Nobody's name"):
        approve(run_at(memory, T2), [waiting(memory, 3)[0].id], Person("\u200b\x1b", "python"))


# The form of the flow

EVIL = "Marta wrote <b>[click](http://evil.example)</b> | `x` \n# big"
SPLIT = ProposalQuestion(
    "p_1", "split", "Split Marta", True, ("High risk: large. Two topics.", *(f"~ facts {n}" for n in range(20)))
)
MERGE = ProposalQuestion("p_2", "merge", EVIL, False, ("Low risk.", f"~ facts “{EVIL}”"))


def answer(**more: Any) -> dict[str, Any]:
    return {"name": "Ana", **more}


def test_the_form_wants_a_name_and_one_decision_and_leaves_everything_waiting_by_default() -> None:
    form = form_of([SPLIT, MERGE])
    schema = form.model_json_schema()
    assert schema["required"] == ["name"]
    with pytest.raises(ValidationError):
        form(**{})
    assert verdicts_in([SPLIT, MERGE], form(**answer()).model_dump()) == {}
    filled = form(**answer(proposal_02={"decision": "reject"})).model_dump()
    assert verdicts_in([SPLIT, MERGE], filled) == {"p_2": "reject"}
    boxes = {name: box for name, box in schema["$defs"].items() if name.startswith("Proposal")}
    choices = {name: box["properties"]["decision"]["enum"] for name, box in boxes.items()}
    assert all(each == ["wait", "approve", "reject"] for each in choices.values())
    assert form_of([MERGE], "Ana").model_json_schema()["properties"]["name"]["default"] == "Ana"


def test_stored_text_is_only_text_on_the_page() -> None:
    description = str(form_of([SPLIT, MERGE])._description)
    assert "<b>" not in description
    assert "[click]" not in description
    assert "http://" not in description
    assert "\n# big" not in description


# Without Prefect


def test_without_prefect_the_flow_says_what_waits_and_where_to_decide(made: Path) -> None:
    told = asyncio.run(review(store=str(made), limit=2))
    assert told["state"] == "completed"
    assert [each["title"] for each in told["waiting"]] == [
        f"“Marta {SAID[n]}” leaves recall, kept in the archive." for n in (0, 1)
    ]
    assert "slowwave review list" in told["note"]
    assert asyncio.run(review(store=str(made), action="split"))["note"] == "Nothing waits."
    assert rows(made, "runs", "flow = 'review'").is_empty()


# Under Prefect


async def begun(client: PrefectClient, store: Path, **more: Any) -> UUID:
    """A flow run of a deployment, as a worker finds it."""
    flow = await client.create_flow(review)  # type: ignore[arg-type]
    deployment = await client.create_deployment(flow, name="review")
    parameters = {"store": str(store), **more}
    made = await client.create_flow_run_from_deployment(deployment, parameters=parameters, state=Pending())
    return made.id


async def executed(client: PrefectClient, run: UUID) -> Any:
    """Execute it from its first line, as a worker does in a new process; returns its state."""
    found = await client.read_flow_run(run)
    with suppress(Pause):
        return await run_flow(review, flow_run=found, parameters=found.parameters, return_type="state")  # type: ignore[arg-type]
    return (await client.read_flow_run(run)).state


def test_the_run_waits_for_a_person_and_carries_out_what_they_say(engine: None, memory: Path) -> None:
    async def told() -> None:
        async with get_client() as client:
            run = await begun(client, memory, person="Ana")
            state = await executed(client, run)
            assert (state.name, state.state_details.pause_key) == ("Suspended", "review")
            assert rows(memory, "runs", "flow = 'review'").is_empty()
            later = proposed(memory, 2)  # the form does not know it
            refused = await client.resume_flow_run(run, run_input={"name": ""})
            assert refused.status.value == "REJECT"
            retired(memory, 0)
            no = {f"proposal_{n:02d}": {"decision": "reject"} for n in (2, 3, 4)}
            right = answer(proposal_01={"decision": "approve"}, **no)
            assert (await client.resume_flow_run(run, run_input=right)).status.value == "ACCEPT"
            state = await executed(client, run)
            assert state.name == "Completed"
            done = await state.result()
            assert [each["state"] for each in done["decided"]] == ["stale", "rejected", "rejected", "rejected"]
            assert (done["by"], done["state"]) == ("Ana", "incomplete")
            assert one_of(memory, later.id).state == "pending"
            ended = rows(memory, "proposals", "state = 'rejected'")
            assert {*ended.select("decider", "door").iter_rows()} == {("Ana", "prefect")}
            mine = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
            pages = {page.key: str(page.data) for page in await client.read_artifacts(artifact_filter=mine)}
            assert "| stale |" in pages["review-summary"]
            assert "slowwave undo review-" in pages["review-summary"]

    asyncio.run(told())
