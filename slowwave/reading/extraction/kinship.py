"""People who are named by kin or role: "Evan's wife", "my older sister", "la esposa de Evan" (S2-03)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slowwave.common.lexicon import table_of, words_of
from slowwave.common.text import normalise_name, word_set

FIRST_PERSON = word_set("my our mi mis nuestro nuestra")
"""Possessive words of the speaker."""

KIN_MARK = r"['’]s? |^(?:my|our|mi|mis|nuestr[oa]) | (?:of|de) "
"""A pattern that every possible kin name has, in lower case."""

_OTHER_WORDS = {word: role for role, words in table_of("other_words_for_roles").items() for word in words.split()}
ROLES: Mapping[str, str] = {role: role for role in words_of("roles_of_people").split()} | _OTHER_WORDS
"""Each word for a role, English or Spanish, with its stored word."""
_MANY = word_set(words_of("roles_with_many_bearers"))
"""No identity without a word that picks one, as in "best friend"."""
_SEVERAL = _MANY | word_set(words_of("roles_with_several_bearers"))
_PICKS = word_set(words_of("words_that_pick_one"))
_GROUPS = word_set(words_of("words_for_groups_of_people"))
_POSSESSIVE = re.compile(r"^(?P<who>.+?)(?:'s|s')\s+(?P<rest>\S.*)$")
_OF = re.compile(r"^(?:the\s+|la\s+|el\s+)?(?P<rest>[\w\s-]+?)\s+(?:of|de)\s+(?P<who>.+)$")
_OWN = re.compile(rf"^(?P<who>{'|'.join(sorted(FIRST_PERSON))})\s+(?P<rest>\S.*)$", re.IGNORECASE)
_NAME = re.compile(r"[A-ZÀ-ÖØ-Þ][\w'’-]*(?:\s+[A-ZÀ-ÖØ-Þ][\w'’-]*)*$")


@dataclass(frozen=True, slots=True)
class Kin:
    """A person by relation: `possessor` as written ("Evan", "my"), the role, and a name if known."""

    possessor: str
    role: str
    name: str = ""

    @property
    def may_be_several(self) -> bool:
        """Whether people may have several of the role: two sisters, two sons."""
        return self.role.split()[-1] in _SEVERAL and " " not in self.role

    @property
    def is_own(self) -> bool:
        """Whether the possessor is the speaker."""
        return self.possessor.lower() in FIRST_PERSON

    def called(self, possessor: str | None = None) -> str:
        """The canonical name: "evan's wife"."""
        return normalise_name(f"{possessor or self.possessor}'s {self.role}")


def read_kin(name: str) -> Kin | None:
    """The person of a name like "Evan's wife", "my older sister", "la esposa de Evan", or "my wife Anna"; else None.

    Plurals ("Evan's kids") and roles with many bearers ("my friend") mean no one person.
    """
    plain = " ".join(name.replace("’", "'").split())
    for possessor, rest in _splits(plain):
        own = _NAME.search(rest)
        called = own.group() if own else ""
        words = (rest[: own.start()] if own else rest).strip(" ,").lower().split()
        role = _role(words)
        if role and (called or words[-1] not in _MANY or len(words) > 1):
            return Kin(possessor, role, called)
    return None


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """(possessor, rest) of the name; the last possessive counts: "Evan's wife's | sister"."""
    if own := _OWN.match(name):
        if "'s " not in own["rest"]:
            yield own["who"].lower(), own["rest"]
        return
    head, mark, rest = name.rpartition("'s ")
    if mark:
        yield head.strip(), rest
    elif found := _POSSESSIVE.match(name):
        yield f"{found['who']}s", found["rest"]
    elif (found := _OF.match(name)) and found["who"][:1].isupper():
        yield found["who"], found["rest"]


def _role(words: list[str]) -> str:
    """The role in these words, with the words that pick one: "older sister"."""
    if not words or len(words) > 3 or words[-1] not in ROLES or not _PICKS.issuperset(words[:-1]):
        return ""
    return " ".join([*words[:-1], ROLES[words[-1]]])


def is_role(word: str) -> bool:
    """Whether a word is a role or its plural: "manager", "kids", "friends"."""
    plain = word.lower()
    return plain in ROLES or plain.removesuffix("s") in ROLES or plain in _GROUPS
