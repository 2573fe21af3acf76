"""Which messages are taken for known, what becomes of a used identifier, and where messages are placed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from talk import START, learn, overtaken, rows, said, states, written

LISBON = [("Ana", "I live in Lisbon with my two children.")]
PORTO = [("Ana", "I live in Porto with my two children.")]


def chat(folder: Path, speaker: str, text: str) -> Path:
    """A file whose name is its conversation, with one message whose identifier is 1."""
    folder.mkdir(exist_ok=True)
    line = {"id": "1", "role": "user", "speaker": speaker, "content": text, "timestamp": START.isoformat()}
    return written(folder / "chat.jsonl", [line])


def stored(store: Path) -> list[tuple[str, str]]:
    """Who said what."""
    return sorted(rows(store, "messages").select("speaker", "content").iter_rows())


def history(folder: Path, *shas: str) -> Path:
    """A log of Git in this folder, the newest commit first."""
    folder.mkdir(parents=True, exist_ok=True)
    author = "Author: Nora Quint <n@example.com>\nDate:   Mon Mar {} 10:00:00 2026 +0100\n\n"
    commits = [
        f"commit {sha * 8}\n{author.format(day)}    Use {sha} instead of y\n\n"
        for day, sha in enumerate(reversed(shas), 1)
    ]
    file = folder / "history.txt"
    file.write_text("".join(reversed(commits)))
    return file


@pytest.mark.proof
def test_no_commit_is_stored_twice_where_a_log_is_read_in_parts_or_in_two_places(tmp_path: Path) -> None:
    place, store = tmp_path / "harbour", tmp_path / "m"
    learn(history(place, "7e8f9"), store)
    parts = [history(place, "1a2b3"), history(tmp_path / "b" / "harbour", "0d0d0", "1a2b3")]
    learn(parts, store)
    whole = learn(history(place, "2e2e2", "0d0d0", "7e8f9", "1a2b3"), store)
    assert (whole["counts"]["messages known already"], whole["counts"]["messages stored"]) == (3, 1)
    assert len(rows(store, "messages")) == 4


@pytest.mark.proof
def test_two_people_with_one_identifier_in_two_runs_are_both_remembered(tmp_path: Path) -> None:
    learn(chat(tmp_path / "p1", "Ana", "I work at Ferrywise as a nurse."), tmp_path / "m")
    summary = learn(chat(tmp_path / "p2", "Ben", "My sister lives in Coimbra."), tmp_path / "m")
    assert [who for who, _ in stored(tmp_path / "m")] == ["Ana", "Ben"]
    assert summary["counts"]["messages with a used id"] == 1
    assert any("identifier of another text" in issue for issue in summary["issues"])


@pytest.mark.proof
def test_an_edited_message_has_the_same_name_whether_one_run_read_both_forms_or_two_did(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a.jsonl", said(LISBON)), written(tmp_path / "b.jsonl", said(PORTO))
    learn([first, second], tmp_path / "one")
    learn(first, tmp_path / "two")
    learn(second, tmp_path / "two")
    assert states(tmp_path / "one") == states(tmp_path / "two")


@pytest.mark.parametrize("secret", ["", " My password: hunter2horse!"])
@pytest.mark.proof
def test_what_was_renamed_is_known_the_next_time(tmp_path: Path, secret: str) -> None:
    talk = tmp_path / "talk.jsonl"
    learn(written(talk, said([(who, text + secret) for who, text in LISBON])), tmp_path / "m")
    edited = [(who, text + secret) for who, text in PORTO]
    learn(written(talk, said(edited)), tmp_path / "m")
    before = stored(tmp_path / "m")
    more = said([*edited, ("Ben", "My brother works as a carpenter in Braga.")])
    summary = learn(written(talk, more), tmp_path / "m")
    assert summary["counts"]["messages known already"] == 1
    assert "messages with a used id" not in summary["counts"]
    assert len(stored(tmp_path / "m")) == len(before) + 1 == 3


@pytest.mark.proof
def test_places_and_repetitions_take_note_of_what_another_run_stored_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = said([("Ana", "My car is a blue Fiat."), *LISBON], start=START + timedelta(hours=1))
    lines = [{**line, "message_id": f"later-{n}"} for n, line in enumerate(later)]
    first, second = written(tmp_path / "a.jsonl", said(LISBON)), written(tmp_path / "b.jsonl", lines)
    with overtaken(monkeypatch, "ingest.messages", lambda: learn(first, tmp_path / "m")):
        learn(second, tmp_path / "m")
    found = rows(tmp_path / "m", "messages").sort("occurred_at")
    assert found["ordinal"].to_list() == [0, 1, 2]
    assert found["graph_state"].to_list()[-1] == "skipped_repeat"
