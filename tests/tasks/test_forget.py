"""What is forgotten is in no row, no version and no file any more; what others said is still there."""

from __future__ import annotations

import json
import shutil
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages_api import MessagesApi, filled
from talk import CLAUDE, NOW, learn, rows, said, started, written
from typer.testing import CliRunner

from apps.cli import app
from slowwave.common.errors import Refused, StoreMismatch, UndoRefused, UnknownName, UnusableInput
from slowwave.common.text import FORGOTTEN, as_json
from slowwave.integrations.python_api import OpenMemory
from slowwave.lifecycle.erasure import VOCABULARY, label_names
from slowwave.lifecycle.forgotten_names import NameMatcher
from storage.connection import LEFT
from storage.doctor import examine
from storage.lease import new_owner
from storage.snapshots import Snapshot
from storage.store import Store
from storage.tables import TABLES, Role, tables_of
from storage.undo import undo
from storage.upkeep import files_left, read_rows_naming
from tasks.entities.derived import refresh_profiles
from tasks.people.forgetting import Report, find_subject, forget, preview
from tasks.runtime.runs import existing_run

NAME = "Zorblax Quint"
TALK = (
    ("Marta", f"My friend {NAME} works at Ferrywise as a nurse. She sings alto. I live in Lisbon."),
    ("assistant", f"{NAME} sounds nice!"),
    (NAME, "I moved from Porto to Oslo in April 2026."),
    ("Devon", "I prefer rooibos tea and I do not drink coffee any more."),
    ("Devon", f"{NAME} uses Redis Streams. I use Postgres for the backend."),
    ("Devon", "The Port is closed on Sundays, so I drive to the market in Porto."),
)
ALTO = 'She sings "alto" in a choir.'  # about her, without her name
TEA = 'Devon: "I prefer rooibos tea and I do not drink coffee any more."'
NOTES = f"# About {NAME}\n\n{NAME} lives in Porto. The backend uses Kafka because the server is already there.\n"


WORDED = {"statement": "Devon goes hiking near Sintra.", "status": "active"}
GENERAL = ("outdoor hobby", "quint outdoor zorblax", "hobby zórblax", "quints hobby")  # but for the first, they go
LEAN = {"statement": "Devon likes tea very much.", "search_terms": "drink", "status": "active", "evidence_count": 2}
LEANING = (
    {"id": "f_two_kept"},
    {"id": "f_one_gone", "evidence_count": 1},
    {"id": "f_old_kept", "status": "superseded", "replaced_by": "f_alto", "expired_at": NOW, "message_id": None},
)


def data(store: Path) -> dict[str, bytes]:
    """Every file below the store."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def files_with(store: Path, word: str) -> list[str]:
    """Files that hold the word in any case."""
    return [name for name, body in data(store).items() if word.lower().encode() in body.lower()]


def sizes(store: Path) -> dict[str, int]:
    opened = Store.open(str(store))
    return {name: opened.snapshot().count(name) for name in TABLES}


def erased(store: Path, subject: str = NAME, **more: list[str]) -> Report:
    run = existing_run("forget", str(store), "default")
    return forget(run, find_subject(run, subject, **more))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files that name somebody, and a store that has read them, with an archive, logs and versions."""
    folder = tmp_path_factory.mktemp("told")
    written(folder / "zorblax-quint.jsonl", said(TALK))
    (folder / f"{NAME} notes.md").write_text(NOTES)
    learn([folder / "zorblax-quint.jsonl", folder / f"{NAME} notes.md"], folder / "memory")
    store = Store.open(str(folder / "memory"))
    snapshot = store.snapshot()
    facts = snapshot.by_ids("facts", snapshot.frame("facts")["id"], with_vector=True)
    old = facts.filter(pl.col("statement").str.contains("Redis"))
    assert len(old)
    entity = snapshot.frame("entities", f"name = '{NAME}'")["id"].item()
    said_in = dict(snapshot.frame("messages").select("message_id", "id").iter_rows())
    message, his, mine = (said_in[name] for name in ("c1-000", "c1-002", "c1-003"))
    alto = {"id": "f_alto", "subject_id": entity, "statement": ALTO, "status": "active", "message_id": message}
    reason = {"id": "d_alto", "action": "keep", "subject_id": old["patch_batch_id"][0], "reason": f"It says: {ALTO}"}
    with store.commit("evict", "evict", NOW) as tx:
        tx.upsert("facts", pl.DataFrame([{**alto, "quote": "She sings alto."}]))
        tx.upsert("decisions", pl.DataFrame([reason]))
        tx.upsert("facts", pl.DataFrame([{**LEAN, "message_id": his, **more} for more in LEANING]))
        worded = [{**WORDED, "id": f"f_worded_{n}", "search_terms": words} for n, words in enumerate(GENERAL)]
        tx.upsert("facts", pl.DataFrame(worded))
        claim = as_json({"fact": {"search_terms": "quint hobby", "statement": "Devon may hike."}, "directives": []})
        tx.upsert("pending_beliefs", pl.DataFrame([{"id": "b_worded", "claim": claim}]))
        told = [("e1", "f_two_kept", his), ("e2", "f_two_kept", mine), ("e3", "f_one_gone", his)]
        evidence = pl.DataFrame(told, schema=["id", "fact_id", "message_id"], orient="row")
        tx.upsert("fact_evidence", evidence.with_columns(quote=pl.lit("tea"), occurred_at=NOW))
        tx.put_back("facts_archive", old)
        tx.delete("facts", old["id"])
    answers = [json.dumps({"a": f"x\n{NAME}"}), json.dumps({"a": [ALTO]}), '{"a":"Devon"}']
    answers += ['{"search_terms":"\\"Quint\\" hobby"}', r'{"search_terms":"hobby\n\u005aorblax"}']
    call = {"id": ["l1", "l2", "l3", "l4", "l5"], "response": answers, "model": ["m"] * 5}
    store.append("llm_calls", pl.DataFrame(call), NOW)
    asked = pl.DataFrame({"id": ["q1", "q2"], "query": [f"what of {NAME.lower()}?", "tea?"]})
    store.append("recalled_queries", asked, NOW)
    seen = facts["id"].to_list()
    store.append("retrieval_events", pl.DataFrame({"id": [f"r{fact}" for fact in seen], "fact_id": seen}), NOW)
    return folder


@pytest.fixture
def store(told: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(told / "memory", tmp_path / "memory"))


KILL_WHILE_DROPPING = """
import os, sys, signal, storage.upkeep as erasure
from test_forget import erased, Path
optimize, left = erasure._optimize, list(range(8))
def dying(table, age, *, is_alone=False):
    if is_alone:
        if not left: os.kill(os.getpid(), signal.SIGKILL)
        left.pop()
    optimize(table, age, is_alone=is_alone)
erasure._optimize = dying
erased(Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def dying(told: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A store in which an erasure kills itself while versions are dropped."""
    store = Path(shutil.copytree(told / "memory", told / "dying"))
    process = started(KILL_WHILE_DROPPING, store)
    yield store, process
    process.kill()


@dataclass(frozen=True)
class Done:
    """An erasure: the store, its rows and files before, a snapshot from before, and the report."""

    store: Path
    sizes: dict[str, int]
    data: dict[str, bytes]
    old: Snapshot
    entity: str
    mark: int
    events: set[str]
    report: Report


@pytest.fixture(scope="module")
def done(told: Path) -> Done:
    store = Path(shutil.copytree(told / "memory", told / "done"))
    opened = Store.open(str(store))
    entity = rows(store, "entities", f"name = '{NAME}'")["id"].item()
    events, mark = opened.log_since("retrieval_events", 0, ["id"])
    before = (sizes(store), data(store), opened.snapshot())
    return Done(store, *before, entity, mark, {*events["id"]}, erased(store))


def test_after_it_no_file_of_the_store_holds_the_name_and_the_report_says_what_went(done: Done) -> None:
    named = {name for name, body in done.data.items() if NAME.lower().encode() in body.lower()}
    tables = {name.split("/")[1].removesuffix(".lance") for name in named}
    assert tables >= {
        "messages",
        "facts",
        "facts_archive",
        "artifacts",
        "sources",
        "llm_calls",
        "recalled_queries",
        LEFT,
    }
    report, before, after = done.report, done.sizes, sizes(done.store)
    assert report.left == ()
    assert files_with(done.store, NAME) == files_with(done.store, "quint") == []
    assert not [*done.store.rglob("_reembed*")]  # vectors that a re-embedding had staged
    assert {*report.rows_before} >= tables - {LEFT}
    assert not named & {name for name in data(done.store) if "/data/" in name or "/_indices/" in name}
    removed = report.plan.removed()
    added = Counter({"runs": 1, "decisions": 1, "commits": after["commits"] - before["commits"]})
    assert {name: before[name] - after[name] + added[name] for name in TABLES if name in removed} == removed
    assert all(after[name] == before[name] + added[name] for name in TABLES if name not in removed)
    assert removed["messages"] == removed["recalled_queries"] == 1
    assert removed["entities"] == 2  # the person, and the note about the person
    assert removed["facts_archive"] == 1
    assert removed["llm_calls"] == 4
    assert report.versions > 20


def test_what_is_known_of_somebody_without_the_name_goes_too_wherever_it_is_told(done: Done) -> None:
    assert any(b"in a choir" in body for body in done.data.values())
    assert files_with(done.store, "in a choir") == files_with(done.store, "sings") == []
    assert rows(done.store, "decisions", "id = 'd_alto'")["reason"].item() == f"It says: {FORGOTTEN}"
    assert Store.open(str(done.store)).log("llm_calls")["id"].to_list() == ["l3"]


def test_general_words_that_have_words_of_a_name_go_in_whatever_order_and_the_proof_looks_for_them(
    told: Path, done: Done
) -> None:
    kept = rows(done.store, "facts", "starts_with(id, 'f_worded')")
    assert kept["search_terms"].to_list() == ["outdoor hobby", None, None, None]
    assert set(kept["statement"]) == {WORDED["statement"]}
    (belief,) = rows(done.store, "pending_beliefs", "id = 'b_worded'")["claim"]
    assert json.loads(belief)["fact"] == {"search_terms": None, "statement": "Devon may hike."}
    names = NameMatcher.of([NAME])
    assert read_rows_naming(Store.open(str(done.store)), names).general == {}
    before = read_rows_naming(Store.open(str(told / "memory")), names, only_newest=True).general
    assert (before["facts"], before["pending_beliefs"], before["llm_calls"]) == (3, 1, 2)


@pytest.mark.parametrize(
    ("name", "words", "is_told"),
    [
        ("Anne-Marie O'Neil", "marie outdoor", True),
        ("Anne-Marie O'Neil", "neil anne", True),
        ("Anne-Marie O'Neil", "oneil", True),
        ("Anne-Marie O'Neil", "outdoor sport", False),
        ("José Will", "jose", True),
        ("Jose Will", "josé", True),
        ("José Will", "will", False),  # a word that everybody uses tells of nobody
        ("April Day", "day", True),  # unless the name has no other
        ("Ann", "planning", False),
        ("Ann", None, False),
    ],
)
def test_a_word_of_a_name_among_general_words_is_found_however_it_is_written(
    name: str, words: str | None, is_told: bool
) -> None:
    assert NameMatcher.of([name]).have_words_in(pl.Series([words], dtype=pl.String)).to_list() == [is_told]


def test_facts_that_leaned_on_what_went_are_moved_archived_or_erased(done: Done) -> None:
    planted = {row["id"]: row for row in rows(done.store, "facts", "ends_with(id, '_kept')").to_dicts()}
    said = dict(rows(done.store, "messages").select("message_id", "id").iter_rows())
    two = planted.pop("f_two_kept")  # said by the one who is forgotten, and by Devon
    assert (two["message_id"], two["quote"], two["evidence_count"]) == (said["c1-003"], "tea", 1)
    assert two["search_terms"] is None  # whoever is forgotten may have given them
    old = planted.pop("f_old_kept")  # replaced by a fact that went: not alive again
    assert (old["status"], old["status_reason"], old["replaced_by"]) == ("archived", "forgotten", None)
    assert planted == {}
    assert rows(done.store, "facts", "id = 'f_one_gone'").is_empty()  # nobody else said it


def test_what_others_said_is_kept_and_recalled_and_the_store_is_sound(done: Done) -> None:
    assert examine(Store.open(str(done.store))) == ()
    left = rows(done.store, "facts")["statement"].to_list()
    before = done.old.sequence
    assert before > 0
    assert {TEA, 'Marta: "I live in Lisbon."'} <= {*left}
    texts = dict(rows(done.store, "messages").select("message_id", "content").iter_rows())
    assert texts["c1-000"] == f"{FORGOTTEN} I live in Lisbon."
    assert "c1-002" not in texts
    found = rows(done.store, "messages").filter(pl.col("message_id") == "c1-003")["search_text"].item()
    assert found.startswith("Devon: I prefer")  # what it came after is gone
    with OpenMemory.open(str(done.store)) as memory:
        statements = [fact.statement for fact in memory.recall("Does Devon drink coffee or tea?").facts]
    assert TEA in statements
    assert not any("Quint" in each for each in statements)


@pytest.mark.proof
def test_after_it_no_answer_report_export_or_map_names_whoever_is_forgotten(
    done: Done, tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    store, api = str(done.store), serve(filled("QuestionAnswer", {"known": False, "answer": "", "lines": []}))
    asked = (f"What does {NAME} do in Porto?", "Who sings alto?", "tea or coffee")
    told = []
    with OpenMemory.open(store, is_logged=False) as memory:
        for question in asked:
            found = memory.recall(question, 50, graph="bfs")
            told += [str(found.facts), str(found.passages), memory.context_for(question, 4000)]
        memory.ask("Who sings alto, and who is the nurse?", 4000, model=CLAUDE)
        assert any("tea" in each for each in told)  # what others said is there
    told += [json.dumps(api.requests)]
    assert len(api.requests) == 1
    for command in (["report"], ["report", "--json"]):
        result = CliRunner().invoke(app, [*command, "--store", store])
        assert result.exit_code == 0, result.output
        told += [result.output]
    for form in ("jsonl", "graphml", "markdown"):
        assert (
            CliRunner().invoke(app, ["export", str(tmp_path / form), "--format", form, "--store", store]).exit_code == 0
        )
    told += [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*") if path.is_file()]
    assert len(told) > 15
    for word in ("zorblax", "quint", "alto in a choir"):
        assert [each[:80] for each in told if word in each.lower().replace('"', "")] == []


def test_the_same_files_are_known_and_not_read_again(done: Done, told: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(done.store, tmp_path / "memory"))
    again = learn([told / "zorblax-quint.jsonl", told / f"{NAME} notes.md"], store)
    assert again["counts"].get("messages stored", 0) == 0
    assert rows(store, "messages").drop("search_text").equals(rows(done.store, "messages").drop("search_text"))


def test_a_decision_records_it_without_the_name_and_nothing_before_it_can_be_undone(done: Done) -> None:
    (decision,) = rows(done.store, "decisions", "action = 'forget'").to_dicts()
    assert (decision["subject_id"], decision["decided_by"]) == (done.entity, "person")
    assert json.loads(decision["measures"])["removed"] == done.report.plan.removed()
    runs = rows(done.store, "runs")["id"].to_list()
    assert len(runs) == 2
    for each in runs:
        with pytest.raises(UndoRefused, match="never beyond a `slowwave forget`"):
            undo(Store.open(str(done.store)), each, "u", NOW)
    with pytest.raises(StoreMismatch, match="gone"):
        done.old.frame("facts")
    tables = Store.open(str(done.store)).db
    assert all(len(tables.open_table(name).list_versions()) <= 2 for name in tables_of(Role.STATE))


def test_logs_are_not_counted_twice_because_their_rows_were_written_anew(done: Done) -> None:
    opened = Store.open(str(done.store))
    fresh, _ = opened.log_since("retrieval_events", done.mark, ["id"])
    kept = {*opened.log("retrieval_events")["id"]} & done.events
    assert kept
    assert not kept & {*fresh["id"]}


def test_the_proof_names_every_file_of_rows_that_is_from_before() -> None:
    before = {"facts.lance/data/a.lance", "facts.lance/_indices/u/b.idx", "facts.lance/_versions/1.manifest"}
    before |= {"messages.lance/_deletions/c.arrow", "commits.lance/data/d.lance", "_head.lance/data/e.lance"}
    before |= {"_steps/7.arrow", "_steps/head.json"}
    left = [
        "_steps/7.arrow",
        "facts.lance/_indices/u/b.idx",
        "facts.lance/data/a.lance",
        "messages.lance/_deletions/c.arrow",
    ]
    assert files_left(frozenset(before), frozenset(before)) == left
    assert files_left(frozenset(before), frozenset({"facts.lance/data/new.lance"})) == []


@pytest.mark.proof
def test_who_is_only_described_with_the_name_stays(memory_copy: Path) -> None:
    refresh_profiles(existing_run("consolidate", str(memory_copy), "default"))
    before = set(rows(memory_copy, "entities")["name"])
    report = erased(memory_copy, "Redis")
    assert before - set(rows(memory_copy, "entities")["name"]) == {"Redis"} == set(report.plan.entities)
    assert set(rows(memory_copy, "facts", "status = 'active'")["subject_id"].drop_nulls()) <= set(
        rows(memory_copy, "entities")["id"]
    )
    assert examine(Store.open(str(memory_copy))) == ()


@pytest.mark.proof
def test_a_dry_run_changes_no_byte(store: Path) -> None:
    before = data(store)
    run = existing_run("forget", str(store), "default")
    report = preview(run, find_subject(run, NAME))
    assert data(store) == before
    assert report.plan.removed()["entities"] >= 1
    assert report.versions > 20


@pytest.mark.proof
def test_every_text_of_every_table_is_covered(store: Path) -> None:
    opened = Store.open(str(store))
    state = tables_of(Role.STATE, Role.HISTORY)
    with opened.commit("plant", "plant", NOW) as tx:
        for name in (each for each in state if each != "commits"):
            told = {c: s for c, s in TABLES[name].columns.items() if c not in VOCABULARY and not s.refers}
            row = {c: f"of zorblax_quint {name}" for c, s in told.items() if str(s.type) == "string"}
            lists = {c: [[f"{NAME} too"]] for c, s in told.items() if str(s.type).startswith("list<item: string")}
            needed = {c: "m_0" for c, s in TABLES[name].columns.items() if c not in told and not s.nullable}
            tx.upsert(name, pl.DataFrame({"id": [f"planted {name}"], **row, **lists, **needed}))
    for name in tables_of(Role.LOG):
        texts = [c for c, s in TABLES[name].columns.items() if str(s.type) == "string"]
        opened.append(name, pl.DataFrame({"id": [f"planted {name}"], **dict.fromkeys(texts, f"x {NAME}")}), NOW)
    assert erased(store).left == ()
    assert files_with(store, "quint") == []


def test_it_waits_for_runs_that_may_have_read_what_is_to_be_erased(store: Path) -> None:
    with Store.open(str(store)).commit("other", "run", NOW) as tx:
        tx.upsert("runs", pl.DataFrame({"id": ["other"], "state": ["running"], "owner": [new_owner("other")]}))
    with pytest.raises(Refused, match="other is still going on"):
        erased(store)


@pytest.mark.proof
def test_names_that_would_strike_too_much_are_refused_unless_they_are_named(store: Path) -> None:
    run = existing_run("forget", str(store), "default")
    for name in ("al", "will", "messages"):
        with pytest.raises(UnusableInput, match="--name"):
            find_subject(run, name)
    assert find_subject(run, NAME, only=["al"]).names.listed == ("al",)
    assert find_subject(run, NAME, also=["Zorb"]).names.listed == (NAME, "Zorb")
    with pytest.raises(UnknownName, match="entity or topic"):
        find_subject(run, "Xyzzyx")


@pytest.mark.proof
def test_the_command_says_what_goes_asks_and_proves(store: Path) -> None:
    def call(*arguments: str) -> tuple[int, str, Exception | None]:
        result = CliRunner().invoke(app, ["forget", *arguments, "--store", str(store)])
        return result.exit_code, result.stdout, result.exception

    code, shown, _ = call("Port", "--dry-run")
    assert code == 0
    assert "no run up to now can be undone" in " ".join(shown.split())
    *_, error = call("Port", "--json")
    assert isinstance(error, UnusableInput)
    code, shown, _ = call("Port", "--yes", "--json")
    document = json.loads(shown)
    assert (code, document["left"], document["dry_run"], document["subject_id"]) == (0, [], False, None)
    assert document["texts_before"]["messages"] > 0
    assert document["tables"]["messages"] == {"removed": 0, "struck": 1}
    assert any("Prefect" in note for note in document["notes"])
    assert document["longer_words"] == ["porto"]  # which has the name inside, and stays
    assert rows(store, "facts").filter(pl.col("statement").str.contains("Porto")).height


@pytest.mark.proof
def test_a_killed_erasure_leaves_a_readable_store_and_the_next_one_finishes(
    dying: tuple[Path, subprocess.Popen[str]],
) -> None:
    store, process = dying
    assert process.wait() == -9, process.stderr and process.stderr.read()
    assert (
        'Devon: "I prefer rooibos tea and I do not drink coffee any more."'
        in rows(store, "facts")["statement"].to_list()
    )
    assert files_with(store, NAME)
    assert rows(store, "entities", f"name = '{NAME}'").is_empty()
    assert erased(store).left == ()
    assert files_with(store, NAME) == []
    assert examine(Store.open(str(store))) == ()


WORDS = st.sampled_from(["Ann", "ann's", "planning", "ANN_2", "tea.", "Bob!", "José", "jose", "\n", "annual"])


@given(st.lists(WORDS, max_size=12).map(" ".join))
def test_a_struck_text_names_nobody_and_a_text_without_the_name_stays_as_it_is(text: str) -> None:
    names = NameMatcher.of(["Ann", "José"])
    for form in ("NFC", "NFD"):
        written = unicodedata.normalize(form, text)
        left = names.without_sentences(written)
        assert not names.are_in(left)
        assert names.without_sentences(left) == left
        assert (left == written) == (not names.are_in(written))
        assert json.loads(names.without(json.dumps({"a": written})) or "")["a"] == left


def test_labels_stay_different() -> None:
    new = label_names(["a/Ann.md", "a/ann.md", "b", FORGOTTEN], NameMatcher.of(["Ann"]))
    assert sorted(new.values()) == [f"a/{FORGOTTEN}.md", f"a/{FORGOTTEN}.md 2"]
