"""The inbox: what arrives is read once it has settled, and goes where it belongs; looking again begins nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from talk import rows, said, written

from flows.ingest import inbox
from slowwave.common.errors import NoStoreYet, NothingYet, SlowwaveError
from slowwave.common.settings import IngestSettings
from storage.store import Store
from tasks.ingest.inbox import Arrival, Rounds, look_into, put_away
from tasks.runtime.runs import existing_run, new_run

RULES = IngestSettings.model_validate({"llm": {"model": "quotes"}, "extract": {"enabled": False}})
LATER = timedelta(minutes=5)


def looked(folder: Path, place: Path, **parameters: Any) -> dict[str, Any]:
    """One look, five minutes from now: everything has settled by then."""
    given: dict[str, Any] = {"now": datetime.now(UTC) + LATER, "settings": RULES, **parameters}
    return asyncio.run(inbox(str(folder), store=str(place), **given))  # type: ignore[arg-type]


def outcomes(summary: dict[str, Any]) -> dict[str, str]:
    return {Path(each["file"]).name: each["outcome"] for each in summary["files"]}


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_files_go_to_the_memory_of_their_folder_and_then_to_done_or_failed(tmp_path: Path) -> None:
    folder, place = tmp_path / "in", tmp_path / "m"
    (folder / "work" / "deep").mkdir(parents=True)
    (folder / "no name").mkdir()
    written(folder / "talk.jsonl", said())
    written(folder / "work" / "deep" / "talk.jsonl", said(conversation="c2"))
    written(folder / "no name" / "talk.jsonl", said())
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (folder / "half.part").write_text("{")
    (folder / ".hidden").write_text("{")
    (folder / "link.md").symlink_to("/etc/hostname")
    summary = looked(folder, place)
    assert (summary["read"], summary["unusable"], len(summary["runs"])) == (2, 2, 2)
    assert len(rows(place, "messages")) > 0
    assert len(Store.open(str(place), "work").snapshot().frame("messages")) > 0
    assert names(folder) == {
        "done/talk.jsonl", "done/work/deep/talk.jsonl", "failed/picture.png", "failed/picture.png.reason.txt",
        "failed/no name/talk.jsonl", "failed/no name/talk.jsonl.reason.txt", "half.part", ".hidden", "link.md",
    }  # fmt: skip
    assert "is a picture" in (folder / "failed" / "picture.png.reason.txt").read_text()
    before = Store.open(str(place)).head.sequence
    assert looked(folder, place)["files"] == []
    written(folder / "again.jsonl", said())  # the same bytes under another name, as after a kill before the move
    assert outcomes(looked(folder, place)) == {"again.jsonl": "known"}
    assert Store.open(str(place)).head.sequence == before  # no run
    assert "done/again.jsonl" in names(folder)


def test_a_file_that_is_still_written_waits_and_one_that_changed_since_it_was_seen_is_not_moved(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = written(folder / "talk.jsonl", said())
    now = datetime.now(UTC)
    how = {"by_folder": True, "is_ours": True}
    [waiting] = look_into(str(folder), str(tmp_path / "m"), "default", now, 60.0, **how)
    assert waiting.outcome == "waiting"
    [settled] = look_into(str(folder), str(tmp_path / "m"), "default", now + LATER, 60.0, **how)
    assert settled.outcome == "new"
    path.write_text(path.read_text() + path.read_text())
    assert put_away(str(folder), settled) is None
    assert path.exists()


@pytest.mark.proof
def test_in_a_folder_that_is_not_ours_nothing_moves_and_only_what_looks_readable_is_read(tmp_path: Path) -> None:
    folder, place = tmp_path / "in", tmp_path / "m"
    folder.mkdir()
    written(folder / "talk.jsonl", said())
    (folder / "server.py").write_text("It is all fine.\n" * 5)
    was = names(folder)
    how = {"afterwards": "stay", "by_folder": False}
    summary = looked(folder, place, **how)
    assert outcomes(summary) == {"talk.jsonl": "read", "server.py": "passed over"}
    assert (summary["state"], summary["unusable"]) == ("completed", 0)
    assert outcomes(looked(folder, place, **how)) == {"talk.jsonl": "known", "server.py": "passed over"}
    written(folder / "talk.jsonl", [*said(), *said(conversation="c3")])
    assert outcomes(looked(folder, place, **how))["talk.jsonl"] == "read"
    assert names(folder) == was


def test_a_tenant_that_cannot_be_read_does_not_starve_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, place = tmp_path / "in", tmp_path / "m"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        written(folder / name / "talk.jsonl", said())

    def refused(store: str, namespace: str, *rest: Any) -> Any:
        if namespace == "a":
            raise SlowwaveError("somebody else writes")
        return new_run("ingest", store, namespace, *rest[:1])

    monkeypatch.setattr("flows.ingest.new_run", lambda flow, *rest: refused(*rest))
    with pytest.raises(SlowwaveError, match="1 files could not be read; they stay: a: somebody else writes"):
        looked(folder, place)
    assert names(folder) == {"a/talk.jsonl", "done/b/talk.jsonl"}


def test_what_was_read_is_done_also_where_the_budget_leaves_messages_to_a_later_run(tmp_path: Path) -> None:
    [arrival] = [Arrival(tmp_path / "talk.jsonl", "default", (1, 1))]
    done = Rounds((arrival,))
    done.ran({"run": "ingest-1", "state": "stopped", "stopped_by": "max_calls"})
    assert (done.summary()["state"], done.summary()["stopped_by"]) == ("stopped", "max_calls")
    assert [each.outcome for each in done.arrivals] == ["new"]


def test_without_a_folder_there_is_nothing_to_do_yet(tmp_path: Path) -> None:
    with pytest.raises(NothingYet, match="no folder"):
        looked(tmp_path / "nowhere", tmp_path / "m")
    with pytest.raises(NoStoreYet) as none:
        existing_run("steward", str(tmp_path / "m"), "default")
    assert (none.value.exit_code, none.value.brief) == (2, "no store yet")
    assert not (tmp_path / "m").exists()
