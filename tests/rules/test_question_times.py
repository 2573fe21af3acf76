"""From when to when the time reaches that a question names."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall.question import Period, period_of
from slowwave.common.lexicon.statement_words import may_tell_when
from slowwave.reading.extraction.date_words import MONTHS, UNITS, WEEKDAYS
from slowwave.reading.extraction.question_times import time_in

NOW = datetime(2024, 11, 22, 16, 40, tzinfo=UTC)  # a Friday
SUNDAY = datetime(2024, 11, 24, 9, tzinfo=UTC)
MARCH = datetime(2024, 3, 15, tzinfo=UTC)


def day(text: str) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


def between(start: str, end: str) -> Period:
    return Period(day(start), day(end))


SPANS = [
    # a day of the week or a weekend is the last one, unless the question asks for what will be
    ("What did she do on Monday?", NOW, "2024-11-18", "2024-11-19"),
    ("What did they do at the weekend?", SUNDAY, "2024-11-23", "2024-11-25"),
    ("What will she do on Monday?", NOW, "2024-11-25", "2024-11-26"),
    # of a day in a week the week, of a distance what lies beyond
    ("What did she do two days after May 3, 2023?", NOW, "2023-05-04", ""),
    # ranges, whole
    ("What happened between March and May 2023?", NOW, "2023-03-01", "2023-06-01"),
    ("Where were they from 3 to 7 June 2024?", NOW, "2024-06-03", "2024-06-08"),
    ("Who stayed from May 28 to June 3, 2023?", NOW, "2023-05-28", "2023-06-04"),
    ("¿Quién vino del 3 al 7 de junio de 2023?", NOW, "2023-06-03", "2023-06-08"),
    ("Where did we go in the summer of last year?", NOW, "2023-06-01", "2023-09-01"),
    # before, after, since, until, by
    ("What did she do after March 2023?", NOW, "2023-04-01", ""),
    ("¿Qué hizo Ana después de marzo de 2023?", NOW, "2023-04-01", ""),
    ("What did she do after March?", MARCH, "2023-04-01", ""),
    ("Where did she live until June 2023?", NOW, "", "2023-07-01"),
    ("What did she buy before Christmas?", NOW, "", "2023-12-25"),
    ("Where does she work until June 2025?", NOW, "2024-11-22", "2025-07-01"),
    ("What do I have to send by Friday?", NOW, "2024-11-22", "2024-11-30"),
    ("After Christmas, what will she do?", NOW, "2024-12-26", ""),
    ("Where did he live a year and a half ago?", NOW, "2023-05-01", "2023-06-01"),
    # windows that end today
    ("What has she cooked in the past two weeks?", NOW, "2024-11-08", "2024-11-23"),
    ("How often did I swim over the past year?", NOW, "2023-11-22", "2024-11-23"),
]


@pytest.mark.parametrize(("question", "now", "start", "end"), SPANS)
def test_a_question_is_about_what_lies_from_start_to_end(question: str, now: datetime, start: str, end: str) -> None:
    assert period_of(question, now) == between(start, end)


@pytest.mark.parametrize(
    ("question", "period"),
    [
        ("What does she wear in the fall?", Period(months=(9, 10, 11))),
        ("What did she do on December 4?", Period(months=(12,), day=4)),
        ("What did she do from 3 to 7 June?", Period(months=(6,), day=3, last_day=7)),
        ("What did she do from May 28 to June 3?", Period(months=(5, 6), day=28, last_day=3)),
        ("Who came for Christmas?", Period(months=(12,), day=25)),
        ("What was in June's 2023 report?", Period(months=(6,))),
    ],
)
def test_without_a_year_it_is_of_any_year(question: str, period: Period) -> None:
    assert period_of(question, NOW) == period


@pytest.mark.parametrize(
    "question",
    [
        "May I ask what Anna said?",
        "He may march, but where?",
        "What did she finish in two weeks?",
        "What has she done until today?",
        "What did she do on 31 February 2023?",
        "What did she do two days after the Christmas party?",
        "What did Ben buy for April and June?",
        "What did she do in March or April?",
        "What did she do 9999 years ago, or in the past 999 decades?",
        "",
    ],
)
def test_what_only_looks_like_a_time_is_none(question: str) -> None:
    assert period_of(question, NOW) is None


FRESH = [
    ("Who visited us the weekend before last?", between("2024-11-09", "2024-11-11")),
    ("Which flights were cancelled from Tuesday to Thursday?", between("2024-11-19", "2024-11-22")),
    ("Which of the 12 may people smoke in?", None),
    ("What was the weather like the day before yesterday?", between("2024-11-20", "2024-11-21")),
    ("Which paintings did she sell in Q3 2023?", between("2023-07-01", "2023-10-01")),
    ("What did Nadia cook in the first week of March 2024?", between("2024-03-01", "2024-03-08")),
    ("Who called this morning?", between("2024-11-22", "2024-11-23")),
    ("What do we still have to pay by the end of the month?", between("2024-11-22", "2024-12-01")),
    ("What did the kids do on the 14th?", between("2024-11-14", "2024-11-15")),
]
"""Questions that were written before the rules were tried on any; no rule was made for them."""


@pytest.mark.parametrize(("question", "period"), FRESH)
def test_questions_that_were_written_before_the_rules(question: str, period: Period | None) -> None:
    assert period_of(question, NOW) == period


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("What did Anna do in October 2023?", "What did Anna do  ?"),
        ("What was decided in last week's meeting?", "What was decided   meeting?"),
        ("Last summer, who sang?", " , who sang?"),
    ],
)
def test_the_words_that_name_a_period_can_be_taken_out(question: str, rest: str) -> None:
    period = period_of(question, NOW)
    assert period is not None
    assert period.without_words(question) == rest
    assert period.without_words("Who sang?") == "Who sang?"


def test_nothing_slow_is_imported_for_a_question_that_names_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "slowwave.reading.extraction.question_times", None)  # to import it would fail
    assert period_of("Where does Anna live?", NOW) is None
    with pytest.raises(ImportError):
        period_of("What did Anna do in October?", NOW)


@pytest.mark.parametrize(
    "words",
    [
        *(f"in {month.capitalize()}" for month in MONTHS),
        *(f"on {weekday.capitalize()}" for weekday in WEEKDAYS),
        *(f"in the past two {unit}s" for unit in sorted(UNITS - {"second"})),
        *(f"two {unit}s ago" for unit in sorted(UNITS - {"second"})),
        *(f"last {season}" for season in ("spring", "summer", "autumn", "fall", "winter")),
        *("on Christmas", "on New Year's Eve", "on Halloween", "on Valentine's Day", "en Navidad", "en Nochebuena"),
        *("en Nochevieja", "in the fall", "during the summer", "over the weekend", "today", "tonight", "yesterday"),
        *("tomorrow", "the day after tomorrow", "the week before last", "earlier this month", "this morning"),
        *("early this year", "at the end of the month", "in mid March", "the first week of May", "the next few days"),
        *("from March onwards", "since Monday", "until Friday", "by June"),
        *(f"en {mes}" for mes in ("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto")),
        *(f"en {mes}" for mes in ("septiembre", "setiembre", "octubre", "noviembre", "diciembre")),
        *(f"el {dia}" for dia in ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo")),
        *("hoy", "ayer", "anoche", "anteayer", "esta mañana", "la semana pasada", "el mes pasado", "este año"),
        *("hace dos días", "el verano pasado", "la primavera pasada", "el otoño pasado", "el invierno pasado"),
    ],
)
def test_no_time_that_is_understood_is_passed_over(words: str) -> None:
    question = f"Who sang {words}?"
    assert time_in(question, NOW) is not None
    assert may_tell_when(question)


def test_in_two_hours_is_today() -> None:
    assert period_of("What will she do in two hours?", NOW) == between("2024-11-22", "2024-11-23")
    assert not may_tell_when("Who decorated the martyr's octopus in Marseille?")


@given(
    st.sampled_from([question for question, *_ in (*SPANS, *FRESH)]),
    st.datetimes(datetime(1950, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)),
)
def test_no_period_ends_before_it_begins(question: str, now: datetime) -> None:
    period = period_of(question, now)
    if period is not None:
        assert period.start is None or period.end is None or period.start < period.end
        assert period.words in question
        assert not period.months or all(1 <= month <= 12 for month in period.months)


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_survived(text: str) -> None:
    for question in (text, f"{text} after March 2023 {text}", f"between {text} and {text} 2023"):
        period_of(question, NOW)
