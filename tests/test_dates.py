"""Words that tell when, and the stretch of time they mean at the time they were said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.reading.dates import resolve_hint
from slowwave.reading.hints import find_hint

SAID = datetime(2026, 4, 9, 17, 5, tzinfo=UTC)  # a Thursday


def span(words: str, statement: str = "") -> tuple[str, str | None] | None:
    found = resolve_hint(words, SAID, statement)
    return found and (found.start.date().isoformat(), found.end.date().isoformat() if found.end else None)


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("yesterday", "2026-04-08", "2026-04-09"),
        ("the day before yesterday", "2026-04-07", "2026-04-08"),
        ("today", "2026-04-09", "2026-04-10"),
        ("this morning", "2026-04-09", "2026-04-10"),
        ("last night", "2026-04-08", "2026-04-09"),
        ("last week", "2026-03-30", "2026-04-06"),
        ("next week", "2026-04-13", "2026-04-20"),
        ("last weekend", "2026-04-04", "2026-04-06"),
        ("last month", "2026-03-01", "2026-04-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("last Friday", "2026-04-03", "2026-04-04"),
        ("next Monday", "2026-04-13", "2026-04-14"),
        ("Monday the 13th", "2026-04-13", "2026-04-14"),
        ("last summer", "2025-06-01", "2025-09-01"),
        ("two months ago", "2026-02-01", "2026-03-01"),
        ("10 days ago", "2026-03-30", "2026-03-31"),
        ("a few years ago", "2023-01-01", "2024-01-01"),
        ("in two weeks", "2026-04-20", "2026-04-27"),
        ("2024-05-02", "2024-05-02", "2024-05-03"),
        ("on 5 May 2023", "2023-05-05", "2023-05-06"),
        ("May 5th, 2023", "2023-05-05", "2023-05-06"),
        ("in September 2024", "2024-09-01", "2024-10-01"),
        ("in 2016", "2016-01-01", "2017-01-01"),
        ("the first weekend of April", "2026-04-04", "2026-04-06"),
        ("early May 2025", "2025-05-01", "2025-05-11"),
        ("ayer", "2026-04-08", "2026-04-09"),
        ("la semana pasada", "2026-03-30", "2026-04-06"),
        ("hace dos años", "2024-01-01", "2025-01-01"),
        ("since 2021", "2021-01-01", None),
        ("since March", "2026-03-01", None),
        ("since the summer of 2022", "2022-06-01", None),
        ("since the 15th", "2026-03-15", None),
        ("for the past ten years", "2016-01-01", None),
        ("desde 2019", "2019-01-01", None),
    ],
)
def test_a_hint_means_a_stretch_of_time(words: str, start: str, end: str | None) -> None:
    assert span(words) == (start, end)


@pytest.mark.parametrize(
    ("words", "statement", "start"),
    [
        ("on Monday", "Ana starts at Acme on Monday.", "2026-04-13"),
        ("on Monday", "Ana met Bruno on Monday.", "2026-04-06"),
        ("in August", "Ana will move in August.", "2026-08-01"),
        ("in August", "Ana moved in August.", "2025-08-01"),
        ("on the 12th", "Ana is going to be there on the 12th.", "2026-04-12"),
        ("on 2 June", "The release is on 2 June.", "2026-06-02"),
        ("since Monday", "Ana plans to stay. She has been here since Monday.", "2026-04-06"),
    ],
)
def test_a_bare_date_lies_where_the_tense_of_its_sentence_points(words: str, statement: str, start: str) -> None:
    found = span(words, statement)
    assert found is not None
    assert found[0] == start


@pytest.mark.parametrize(
    "words",
    [
        "when I was ten",
        "until January",
        "before Christmas",
        "on 31 February",
        "in 9999 years",
        "3 May 1066",
        "soon",
        "",
        "yesterday next week",
        "the 45th",
    ],
)
def test_words_that_name_no_start_or_no_possible_one_mean_nothing(words: str) -> None:
    assert span(words) is None


@pytest.mark.parametrize(
    ("sentence", "hint"),
    [
        ("I joined Acme in September 2024, straight from school.", "in September 2024"),
        ("I left last week!", "last week"),
        ("My leave starts on Monday, the 15th of June, at noon.", "on Monday, the 15th of June"),
        ("It has been calm since yesterday.", "since yesterday"),
        ("We married in 2018 and it rained.", "in 2018"),
        ("Last Friday I went home.", "Last Friday"),
        ("Me mudé la semana pasada.", "la semana pasada"),
        ("It is due by April 5, 2024, they say.", "April 5, 2024"),
    ],
)
def test_the_words_are_copied_as_they_stand(sentence: str, hint: str) -> None:
    assert find_hint(sentence) == hint


@pytest.mark.parametrize(
    "sentence",
    ["I may go.", "We start at 7 and stop at 15.", "It took 2 days.", "Version 3.11 is fine.", "They march every day."],
)
def test_numbers_and_modals_are_not_dates(sentence: str) -> None:
    assert find_hint(sentence) == ""


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)),
    st.sampled_from(
        ["yesterday", "last week", "two years ago", "last Friday", "in March", "since 2021", "on the 31st"]
    ),
)
def test_an_interval_never_ends_before_it_starts(said: datetime, words: str) -> None:
    found = resolve_hint(words, said.replace(tzinfo=UTC), "Ana went there.")
    assert found is None or found.end is None or found.start < found.end


@given(st.text(max_size=80))
def test_any_text_is_survived(words: str) -> None:
    find_hint(words)
    resolve_hint(words, SAID)
