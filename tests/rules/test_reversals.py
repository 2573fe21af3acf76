"""What is taken back is closed and nothing else is, without a model: more than a hundred little talks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.reversals import CLOSED_BAR, COUNTED, MORE, TALKS, read_talks, verdicts


@pytest.fixture(scope="module", params=[TALKS, MORE], ids=["before the code", "after it"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What came of every expectation, after one ingest of all talks."""
    return verdicts(read_talks(request.param), Path(tmp_path_factory.mktemp("reversals")))


def test_what_is_taken_back_is_closed(found: dict[str, list[str]]) -> None:
    closed, missed = found["closed"], found["not closed"]
    assert len(closed) >= CLOSED_BAR * (len(closed) + len(missed)), missed


def test_what_still_holds_stays(found: dict[str, list[str]]) -> None:
    kept, lost = found["kept"], found["not kept"]
    assert len(kept) >= CLOSED_BAR * (len(kept) + len(lost)), lost


@pytest.mark.parametrize("name", COUNTED)
def test_what_must_not_be_is_not(found: dict[str, list[str]], name: str) -> None:
    assert found[name] == []


def test_the_talks_are_a_hundred_or_more_of_twelve_kinds_and_no_two_are_one() -> None:
    talks = read_talks()
    assert len(talks) >= 100
    assert len({talk["kind"] for talk in talks}) == 12
    assert len({str(talk["messages"]) for talk in talks}) == len(talks)
