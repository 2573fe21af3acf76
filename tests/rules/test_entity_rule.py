"""What is an entity: names and identities; common nouns, values, groups and pronouns are not. And who is kin."""

from __future__ import annotations

import pytest

from slowwave.reading.extraction.kinship import Kin, read_kin
from slowwave.reading.extraction.names import has_value, how_it_stands, is_entity

TALK = (
    "Pottery keeps me calm. We did a pottery class in Ghent with Lotte Maes, and then I sent my cover letter. "
    "I run the backups with restic and Proxmox. Spring Gala was loud. met jo bell at the library. they moved to lyon."
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Lotte Maes", "person"),
        ("lyon", "place"),
        ("Lotte's husband", "person"),
        ("my manager", "person"),
        ("The Old Man and the Sea", "concept"),
    ],
)
def test_named_things_and_people_with_an_identity_are_entities(name: str, kind: str) -> None:
    assert is_entity(name, kind, [TALK])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Pottery", "concept"),
        ("Cover Letter", "file"),
        ("library", "place"),
        ("kids", "person"),
        ("3 April", "event"),
        ("ana@example.org", "person"),
    ],
)
def test_nouns_values_groups_and_pronouns_are_not(name: str, kind: str) -> None:
    assert not is_entity(name, kind, [TALK])


def test_a_title_in_an_answer_is_no_name_where_the_text_has_a_noun() -> None:
    assert how_it_stands("Weekly Review", ["I skip the weekly review again."]) == "noun"
    assert how_it_stands("Weekly Review", ["I read Weekly Review on Mondays."]) == "name"


def test_a_thing_whose_value_is_told_has_an_identity() -> None:
    assert has_value("rate limit", "100 requests", ["The rate limit is 100 requests."])
    assert not has_value("rate limit", "annoying", ["The rate limit is annoying."])
    assert not has_value("tea", "3 cups", ["I drink tea, 3 cups."])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Evan's wife", ("Evan", "wife")),
        ("Evan’s older sister", ("Evan", "older sister")),
        ("mi mamá", ("mi", "mother")),
        ("la esposa de Evan", ("Evan", "wife")),
        ("Evan's wife's brother", ("Evan's wife", "brother")),
        ("my best friend", ("my", "best friend")),
        ("my friend", None),
        ("Evan's kids", None),
        ("Evan", None),
    ],
)
def test_kin_and_roles_have_a_possessor(name: str, expected: tuple[str, str] | None) -> None:
    found = read_kin(name)
    assert (found and (found.possessor, found.role)) == expected


def test_a_name_behind_the_role_is_read_with_it() -> None:
    assert read_kin("my wife, Lotte Maes") == Kin("my", "wife", "Lotte Maes")
