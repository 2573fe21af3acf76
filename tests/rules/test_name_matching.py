"""Whether two names are one: spellings, order, scripts, forms of company; and what tells them apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from slowwave.entities.name_matching import is_one_name, short_form


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ("José Núñez", "Jose Nunez", "person"),
        ("Weber, Ilse", "Ilse Weber", "person"),
        ("Ирина Петрова", "Irina Petrova", "person"),
        ("Margarethe Hofmannstal", "Margarethe Hofmannstahl", "person"),
        ("Northwind Ltd.", "Northwind Limited", "organization"),
        ("Kaffee & Kuchen GmbH", "Kaffee und Kuchen", "organization"),
        ("Node.js", "NodeJS", "tool"),
        ("田中さん", "田中", "person"),
        ("김철수 씨", "김철수", "person"),
        ("Müller", "Mueller", "person"),
        ("北京", "Beijing", "place"),
    ],
)
def test_spellings_of_one_name_are_surely_one(a: str, b: str, kind: str) -> None:
    assert is_one_name(a, b, kind)
    assert is_one_name(b, a, kind)


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ("Sprint 12", "Sprint 13", "project"),
        ("Python 3", "Python", "language"),
        ("C++", "C#", "language"),
        ("Anna (sister of Ben)", "Anna (nurse)", "person"),
        ("Omar bin Ahmad Said", "Ahmad bin Omar Said", "person"),
    ],
)
def test_numbers_signs_closing_words_and_fathers_tell_names_apart(a: str, b: str, kind: str) -> None:
    assert not is_one_name(a, b, kind)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Anna Keller", "Hanna Keller"),
        ("Anna Keller", "Anna Schmidt"),
        ("Anna", "Anna Keller"),
    ],
)
def test_what_may_be_two_people_is_never_sure(a: str, b: str) -> None:
    assert not is_one_name(a, b)


@pytest.mark.parametrize(
    ("short", "whole", "is_short"),
    [
        ("Anna", "Anna Keller", True),
        ("Anna K.", "Anna Keller", True),
        ("Ms Keller", "Anna Keller", True),
        ("Anna Keller", "Anna Maria Keller", True),
        ("Keller", "Anna Keller", False),
        ("Ann", "Anna Keller", False),
        ("Anna Keller", "Anna Keller", False),
        ("Anna 2", "Anna Keller", False),
        ("田中", "田中美咲", True),
        ("晓雯", "林晓雯", True),
        ("철수", "김철수", True),
        ("田中美咲", "田中", False),
        ("中美", "田中美咲", False),
        ("長谷川さん", "長谷川真理子", True),
        ("娜娜", "欧阳娜娜", True),
        ("晓雯", "晓雯父母", False),
        ("小林", "小林男朋友", False),
        ("成都", "成都听雨茶馆", False),
        ("田中", "田中の母", False),
        ("김철수", "김철수엄마", False),
        ("张伟", "张伟明", False),
        ("高明", "李高明", False),
    ],
)
def test_a_first_name_or_what_can_be_a_family_or_given_name_is_short_for_a_full_one(
    short: str, whole: str, is_short: bool
) -> None:
    assert short_form(short, whole) is is_short


@effort(deadline=None)
@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(["person", "organization", "tool"]))
def test_any_two_texts_are_compared_alike_from_both_sides(a: str, b: str, kind: str) -> None:
    assert is_one_name(a, a, kind)
    assert is_one_name(a, b, kind) == is_one_name(b, a, kind)


def test_names_in_han_that_only_sound_alike_are_not_surely_one() -> None:
    assert not is_one_name("王芳", "王方")
    assert is_one_name("王芳さん", "王芳")
