"""Files that are gone or broken: every road says which, the doctor finds them, and a repair puts back a whole state."""

from __future__ import annotations

import json
import pydoc
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH, TINY
from typer.testing import CliRunner

from apps.cli import app
from slowwave.common.errors import NoRoom, SlowwaveError, StoreMismatch, UndoRefused, UnusableInput
from storage import transactions
from storage.connection import add_all
from storage.disk import in_plain_words
from storage.doctor import REPORTED, Defect, examine, look, mend_head, repair
from storage.store import Store
from storage.transactions import Transaction
from storage.undo import undo


class Terminal:
    """A system in front of which somebody sits."""

    class stdin:  # noqa: N801
        @staticmethod
        def isatty() -> bool:
            return True


NewStore = Callable[[], Store]
NOW = EPOCH + timedelta(days=9)
UNIT = [0.5, 0.5, 0.5, 0.5]


def fact(key: str) -> dict[str, Any]:
    return {"id": key, "statement": f"says {key}", "status": "active", "vector": UNIT, "embed_model": TINY[0],
            "message_id": f"m-{key}"}  # fmt: skip


def message(key: str) -> dict[str, Any]:
    return {"id": f"m-{key}", "message_id": key, "conversation_id": "c", "search_text": f"says {key}", "vector": UNIT}


def learned(store: Store, run: str, *keys: str) -> None:
    """A run of two commits: its row, then messages, facts and decisions."""
    with store.commit(run, "run", EPOCH) as tx:
        tx.upsert("runs", pl.DataFrame({"id": [run], "flow": ["ingest"], "state": ["completed"], "owner": [""]}))
    with store.commit(run, "ingest.apply", EPOCH) as tx:
        tx.upsert("messages", pl.DataFrame([message(key) for key in keys]))
        tx.upsert("facts", pl.DataFrame([fact(key) for key in keys]))
        tx.upsert("decisions", pl.DataFrame({"id": [f"d-{run}"], "action": ["create"], "subject_id": [keys[0]]}))


@pytest.fixture(scope="module")
def told(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that each learned two facts, and access events of three appends."""
    place = Path(shutil.copytree(empty_store, tmp_path_factory.mktemp("told") / "store"))
    made = Store.open(str(place))
    learned(made, "first", "a", "b")
    learned(made, "second", "c", "d")
    for number in range(3):
        made.append("retrieval_events", pl.DataFrame({"id": [f"e{number}"], "fact_id": ["a"]}), EPOCH)
    return place


@pytest.fixture
def store(told: Path, tmp_path: Path) -> Store:
    """A copy of it, to be damaged; files are as old as they were."""
    return Store.open(str(shutil.copytree(told, tmp_path / "store")))


def folder(store: Store, table: str) -> Path:
    return Path(store.uri, "default", f"{table}.lance")


def newest_file(store: Store, table: str, kind: str) -> Path:
    """The data file that was written last, or the manifest of the newest version."""
    pattern, key = ("_versions/*.manifest", None) if kind == "manifest" else ("data/*.lance", _age)
    files = sorted(folder(store, table).glob(pattern), key=key)  # type: ignore[arg-type]
    return files[0] if kind == "manifest" else files[-1]


def _age(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name


def hurt(path: Path, how: str) -> None:
    """Delete a file, cut it short, or fill it with zeros."""
    whole = path.read_bytes()
    if how == "deleted":
        path.unlink()
    else:
        path.write_bytes(whole[: len(whole) // 3] if how == "truncated" else bytes(len(whole)))


def ids(store: Store, table: str) -> list[str]:
    return store.snapshot().frame(table, columns=["id"])["id"].sort().to_list()


def checks(findings: tuple[Defect, ...]) -> list[tuple[str, str, str]]:
    return [(each.check, each.table, each.row_id) for each in findings]


WAYS = [("data", "zeroed"), ("manifest", "deleted")]


@pytest.mark.proof
@pytest.mark.parametrize(("kind", "how"), WAYS)
def test_a_broken_file_is_named_on_every_road_and_the_newest_whole_state_is_put_back(
    store: Store, kind: str, how: str
) -> None:
    broken = newest_file(store, "facts", kind)
    hurt(broken, how)
    damaged = Store.attach(store.uri)
    with pytest.raises(StoreMismatch, match=r"facts.*slowwave doctor"):
        damaged.snapshot().frame("facts")
    with pytest.raises(StoreMismatch, match=r"facts.*slowwave doctor"), damaged.commit("w", "test") as tx:
        tx.upsert("facts", tx.by_ids("facts", ["a"], with_vector=True))
    assert checks(examine(damaged)) == [("unreadable table", "facts", "")]
    repaired = repair(damaged, "doctor-1", NOW)
    assert checks(repaired) == [("unreadable table", "facts", ""), ("lost run", "runs", "second")]
    assert all("2026-" in each.detail for each in repaired)
    again = Store.open(store.uri)
    assert examine(again) == ()
    assert (ids(again, "facts"), ids(again, "messages")) == (["a", "b"], ["m-a", "m-b"])
    assert ids(again, "decisions")[:2] == ["d-first", "d-second"]  # history stays
    states = dict(again.snapshot().frame("runs", columns=["id", "state"]).iter_rows())
    assert (states["first"], states["second"]) == ("completed", "interrupted")
    learned(again, "third", "c", "d")
    assert ids(again, "facts") == ["a", "b", "c", "d"]
    with pytest.raises(UndoRefused):
        undo(again, "second", "u", NOW)


@pytest.mark.parametrize(("kind", "how"), [("data", "truncated"), ("data", "deleted"), ("manifest", "zeroed")])
def test_the_error_names_the_file_and_no_line_of_a_foreign_source(store: Store, kind: str, how: str) -> None:
    hurt(broken := newest_file(store, "facts", kind), how)
    with pytest.raises(StoreMismatch) as caught:
        store.snapshot().frame("facts")
    assert f"facts.lance/{broken.parent.name}/{broken.name}" in caught.value.message
    assert ".rs" not in str(caught.value)


def test_what_tells_the_history_goes_back_alone(store: Store) -> None:
    hurt(newest_file(store, "decisions", "data"), "zeroed")
    assert checks(repair(store, "doctor-1", NOW)) == [("unreadable table", "decisions", "")]
    assert ids(store, "facts") == ["a", "b", "c", "d"]
    assert "d-second" not in ids(store, "decisions")
    assert "d-first" in ids(store, "decisions")


def test_the_list_of_commits_goes_back_and_the_state_stays(store: Store) -> None:
    before = store.head.sequence
    hurt(newest_file(store, "commits", "data"), "deleted")
    assert checks(repair(store, "doctor-1", NOW)) == [("unreadable table", "commits", "")]
    assert ids(store, "facts") == ["a", "b", "c", "d"]
    sequences = store.commits()["sequence"].to_list()
    assert sequences[-1] == before + 1
    assert before not in sequences
    assert examine(store) == ()


def counted_up_to(store: Store, version: int) -> None:
    with store.commit("count", "usage", EPOCH) as tx:
        tx.upsert("log_marks", pl.DataFrame({"id": ["retrieval_events"], "version": [version]}))


def test_of_a_log_what_can_be_read_stays_and_nothing_is_counted_twice(store: Store) -> None:
    counted = store.db.open_table("retrieval_events").version - 1  # the last event came afterwards
    counted_up_to(store, counted)
    hurt(sorted(folder(store, "retrieval_events").glob("data/*.lance"), key=_age)[1], "truncated")
    (found,) = repair(store, "doctor-1", NOW)
    assert "1 of its 3 rows are lost" in found.detail
    store.append("retrieval_events", pl.DataFrame({"id": ["later"], "fact_id": ["a"]}), EPOCH)
    uncounted, _ = store.log_since("retrieval_events", counted, ["id"])
    assert uncounted["id"].sort().to_list() == ["e2", "later"]
    assert store.log("retrieval_events")["id"].sort().to_list() == ["e0", "e2", "later"]
    assert examine(store) == ()


def test_an_index_that_cannot_be_read_is_made_anew_from_the_rows(store: Store) -> None:
    for path in folder(store, "facts").glob("_indices/*/*"):
        path.write_bytes(b"")
    assert checks(repair(store, "doctor-1", NOW)) == [("broken index", "facts", "")]
    found = store.snapshot().handle("facts").search("says", query_type="fts").limit(9).to_arrow()
    assert found.num_rows == 4


@pytest.mark.parametrize(("kind", "how"), [("data", "zeroed"), ("manifest", "truncated")])
def test_a_broken_head_is_made_anew_from_its_past_and_the_commits(store: Store, kind: str, how: str) -> None:
    before = store.head
    hurt(newest_file(store, "_head", kind), how)
    with pytest.raises(SlowwaveError, match=r"head.*slowwave doctor"):
        Store.open(store.uri)
    assert checks(look(store.uri, "default")) == [("head", "_head", "")]
    assert checks(mend_head(store.uri, "default")) == [("head", "_head", "")]
    assert mend_head(store.uri, "default") == ()
    again = Store.open(store.uri)
    assert (again.head.sequence, again.head.versions) == (before.sequence, before.versions)
    assert (again.head.embed_model, again.head.dims, again.head.owner) == (*TINY, "")
    learned(again, "third", "e")
    assert ids(again, "facts") == ["a", "b", "c", "d", "e"]


def test_a_commit_is_named_only_after_all_its_rows_are_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = add_all
    seen: list[int] = []

    def looked_after(additions: Any) -> Any:
        done = whole(additions)
        seen.append(store.db.open_table("commits").version)
        return done

    monkeypatch.setattr(transactions, "add_all", looked_after)
    before = store.head.versions["commits"]
    with store.commit("third", "more", EPOCH) as tx:
        tx.insert("entities", pl.DataFrame({"id": ["e"], "canonical_name": ["e"], "name": ["E"]}))
        tx.insert("decisions", pl.DataFrame({"id": ["d"], "action": ["create"], "subject_id": ["e"]}))
    assert seen == [before]
    assert store.head.versions["commits"] == before + 1


@pytest.mark.proof
def test_where_no_older_state_is_whole_the_rows_that_can_be_read_stay(new_store: NewStore) -> None:
    store = new_store()
    learned(store, "only", "a", "b")
    with store.commit("only", "more", EPOCH) as tx:
        tx.upsert("facts", pl.DataFrame([fact("c") | {"message_id": "m-a"}]))
    hurt(sorted(folder(store, "facts").glob("data/*.lance"), key=_age)[0], "deleted")
    repaired = repair(store, "doctor-1", NOW)
    assert checks(repaired) == [("unreadable table", "facts", "")], repaired
    assert "2 of its 3 rows are lost" in repaired[0].detail
    assert (ids(store, "facts"), ids(store, "messages")) == (["c"], ["m-a", "m-b"])
    assert examine(store) == ()


@pytest.mark.proof
def test_a_repair_shows_what_it_would_do_and_changes_nothing_before_somebody_said_yes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurt(newest_file(store, "facts", "data"), "deleted")
    before, command = store.head, ["doctor", "--repair", "--store", store.uri]
    looked = CliRunner().invoke(app, ["doctor", "--store", store.uri, "--json"])
    assert (looked.exit_code, len(json.loads(looked.stdout)["findings"])) == (1, 1)
    piped = CliRunner().invoke(app, command)
    assert isinstance(piped.exception, UnusableInput)
    assert "Say --yes, or look first with `slowwave doctor`." in str(piped.exception)
    monkeypatch.setattr("apps.printing.sys", Terminal)
    no = CliRunner().invoke(app, command, input="n\n")
    assert (no.exit_code, "Mend this?" in no.stderr, store.head) == (1, True, before)
    assert "What would be mended" in no.stdout
    assert "go back to an earlier state" in no.stdout
    yes = CliRunner().invoke(app, command, input="y\n")
    assert yes.exit_code == 0
    assert "slowwave runs second" in yes.stdout
    healthy = CliRunner().invoke(app, command)
    assert (healthy.exit_code, healthy.stdout) == (0, "Healthy.\n")


def test_an_error_that_has_nothing_to_do_with_files_stays_what_it_is(store: Store) -> None:
    assert in_plain_words(ValueError("Invalid input, No field named nobody."), str(store.db.uri), "facts") is None
    assert in_plain_words(KeyError("not found"), str(store.db.uri), "facts") is None
    with pytest.raises(RuntimeError, match="mine"), store.commit("w", "test"):
        raise RuntimeError("mine: not found")


def test_a_full_disk_is_said_in_plain_words() -> None:
    error = RuntimeError(
        "lance error: LanceError(IO): Generic LocalFileSystem error: No space left on device (os error 28)"
    )
    told = in_plain_words(error, "/memory/default")
    assert told is not None
    assert (told.exit_code, "Nothing is lost" in told.remedy, "--store" in told.remedy) == (1, True, True)


def told_of(repaired: tuple[Defect, ...]) -> list[tuple[str, str, str]]:
    return [each for each in checks(repaired) if each[0] in REPORTED]


class Died(BaseException):
    """The process ended here: nothing of it is put away."""


def dies_at(monkeypatch: pytest.MonkeyPatch, place: str, call: int) -> None:
    """From the end of a call on nothing is done any more, as after a kill."""
    owner, _, name = place.rpartition(".")
    real, seen = pydoc.locate(place), []

    def dying(*given: Any, **named: Any) -> Any:
        result = real(*given, **named)  # type: ignore[operator]
        seen.append(name)
        if len(seen) == call:
            raise Died
        return result

    monkeypatch.setattr(pydoc.locate(owner), name, dying)  # type: ignore[arg-type]
    monkeypatch.setattr(Transaction, "abandon", lambda _: None)


STEPS = [("manifest", "storage.doctor._salvaged", 1), ("missing", "storage.doctor._repair_tables", 1)]


@pytest.mark.proof
@pytest.mark.parametrize(("kind", "step", "call"), [*STEPS, ("manifest", "", 0)])
def test_a_repair_that_died_or_failed_at_any_step_is_taken_up_by_the_next_one(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, step: str, call: int
) -> None:
    if kind == "missing":
        shutil.rmtree(folder(store, "facts"))
    else:
        hurt(newest_file(store, "facts", kind), "truncated")
    undisturbed = Store.attach(str(shutil.copytree(store.uri, tmp_path / "undisturbed")))
    expected = repair(undisturbed, "doctor-1", NOW)
    with monkeypatch.context() as patch:
        if step:
            dies_at(patch, step, call)
        else:
            patch.setattr("storage.doctor._decisions", no_room_left)
        with pytest.raises(Died if step else NoRoom):
            repair(Store.attach(store.uri), "doctor-1", NOW)
    again = Store.attach(store.uri)
    assert again.head.is_free() != bool(step)
    if step:  # its lease is over
        again.db.open_table("_head").update(values={"owner": "", "lease_until": 0.0})
    assert "facts" in [each.table for each in examine(again)]
    repaired = repair(again, "doctor-2", NOW)
    if kind != "missing":
        assert told_of(repaired) == told_of(expected)
    for name in ("facts", "messages"):
        assert ids(again, name) == ids(undisturbed, name)
    assert examine(again) == ()


def no_room_left(*_: Any) -> None:
    raise OSError("No space left on device")
