"""What has ended brings what took its place, and never stands as if it held."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import EPOCH
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stores import Row, fact, recalled, remembered
from talk import NOW

from recall.context import block_of
from slowwave.common.settings import RecallSettings
from slowwave.common.types import Recollection
from slowwave.common.validity import successors
from slowwave.integrations.python_api import OpenMemory

WHERE = pytest.mark.parametrize("held_mb", [RecallSettings().held_mb, 0], ids=["in memory", "by queries"])
VIOLIN = "Marta plays the violin in an orchestra of amateurs, every Monday evening in the hall behind the old station"
QUESTION = "Does Marta play the violin in an orchestra?"
DAY = timedelta(days=1)


def ended(name: str, statement: str, by: str | None, days: int = 9, **more: Any) -> Row:
    """A fact that was true until so many days ago, and what took its place."""
    over = {"status": "superseded", "valid_to": NOW - days * DAY, "expired_at": NOW - days * DAY, "replaced_by": by}
    return fact(name, statement, **{"valid_from": EPOCH, **over, **more})


def asked(uri: Any, question: str = QUESTION, held_mb: int = RecallSettings().held_mb, **how: Any) -> Recollection:
    with OpenMemory.open(str(uri), is_logged=False, settings=RecallSettings(held_mb=held_mb)) as memory:
        return memory.recall(question, now=NOW, **how)


@WHERE
def test_what_took_the_place_of_a_match_answers_and_shows_the_whole_of_it(tmp_path: Path, held_mb: int) -> None:
    rest = [fact(f"r{n}", f"Somebody bakes bread in yard {n}.") for n in range(5)]
    chain = [
        ended("old", f"{VIOLIN}.", "mid", 9),
        ended("mid", "Marta learns the drums.", "new", 5),
        fact("new", "Her evenings belong to a choir now.", supersedes_id="mid"),
    ]
    uri = remembered(tmp_path / "m", [*chain, *rest])
    found = asked(uri, held_mb=held_mb)
    assert found.facts[0].id == "new"
    assert [one.id for one in found.facts].count("new") == 1
    assert [other.id for other in found.facts[0].replaces] == ["old", "mid"]
    assert not {"old", "mid"} & {one.id for one in found.facts}
    lines = [line.text for line in block_of(found, 400).lines if line.source is found.facts[0]]
    assert len(lines) == 1
    assert lines[0].index("choir now") < lines[0].index(f"before: {VIOLIN}; before: Marta learns the drums")


@WHERE
@pytest.mark.parametrize(
    "after",
    [
        {"status": "retracted", "expired_at": NOW - DAY},
        {"status": "archived", "expired_at": NOW - DAY},
        {"valid_to": NOW - DAY},
        {"scope": "kestrel"},
    ],
    ids=str,
)
def test_what_was_replaced_by_something_that_may_not_answer_brings_nothing(
    tmp_path: Path, after: dict[str, Any], held_mb: int
) -> None:
    rows = [ended("old", VIOLIN, "new"), fact("new", "A choir.", **after), fact("other", "Bread is baked.")]
    uri = remembered(tmp_path / "m", rows)
    assert recalled(uri, QUESTION, RecallSettings(held_mb=held_mb), scope="global") == ["other"]


@pytest.mark.parametrize(
    "was",
    [
        {"status": "retracted"},
        {"status": "archived"},
        {"status": "rejected"},
        {"valid_from": NOW - 9 * DAY},
        {"scope": "kestrel"},
    ],
    ids=str,
)
def test_what_was_never_true_or_is_put_away_is_not_found_by_its_words(tmp_path: Path, was: dict[str, Any]) -> None:
    uri = remembered(tmp_path / "m", [ended("old", VIOLIN, "new", **was), fact("new", "A choir.", supersedes_id="old")])
    for one in asked(uri, scope="global").facts:
        assert "former" not in one.parts


def test_a_question_about_the_past_is_answered_as_before(tmp_path: Path) -> None:
    uri = remembered(tmp_path / "m", [ended("old", VIOLIN, "new"), fact("new", "A choir.", valid_from=NOW - 9 * DAY)])
    then = asked(uri, as_of=NOW - 20 * DAY)
    assert [one.id for one in then.facts] == ["old"]
    assert "former" not in then.facts[0].parts


STATUSES = ("active", "superseded", "retracted", "archived")


@pytest.mark.proof
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chain=st.lists(st.tuples(st.sampled_from(STATUSES), st.booleans(), st.integers(0, 7)), min_size=2, max_size=7),
)
def test_only_live_facts_come_each_once_and_name_only_what_they_followed(
    tmp_path_factory: pytest.TempPathFactory, chain: list[tuple[str, bool, int]]
) -> None:
    """Any statuses and any replacements, also in circles: in memory and by queries."""
    rows = []
    for n, (status, is_over, by) in enumerate(chain):
        over = {"valid_to": NOW - DAY} if is_over or status == "superseded" else {}
        gone = {} if status == "active" else {"expired_at": NOW - DAY}
        more = {"replaced_by": f"f{by}"} if status == "superseded" else {}
        text = f"Marta plays the violin {n}." if n % 2 else f"There is bread {n}."
        rows.append(fact(f"f{n}", text, valid_from=EPOCH, status=status, **over, **gone, **more))
    uri = remembered(tmp_path_factory.mktemp("ended") / "m", rows)
    steps = {row["id"]: row["replaced_by"] for row in rows if row.get("replaced_by")}
    live = {row["id"] for row in rows if row["status"] == "active" and not row.get("valid_to")}
    held, queried = asked(uri), asked(uri, held_mb=0)
    assert [(one.id, one.replaces) for one in held.facts] == [(one.id, one.replaces) for one in queried.facts]
    ids = [one.id for one in held.facts]
    assert {*ids} <= live
    assert len({*ids}) == len(ids)
    for one in held.facts:
        for other in one.replaces:
            assert one.id in successors(other.id, steps)
