"""The commonest Spanish sentences about people, homes and tastes; the relations are in English (S2-19)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from slowwave.text import word_set

from .names import type_of
from .relations import LIKELY, Triple

_MARKERS = word_set(
    """el la los las de del que y en un una es no me mi mis su se con por para desde hace pero muy también
    porque vive vivo trabajo trabaja soy estoy tengo tiene gusta gustan prefiero uso como nos al lo ya
    así"""
)
_NAME = r"[A-ZÀ-Þ][\w'’-]{2,30}(?:\s[A-ZÀ-Þ][\w'’-]{1,30}){0,2}"
_ROLES = {
    "hermana": "sister", "hermano": "brother", "madre": "mother", "padre": "father", "hija": "daughter",
    "hijo": "son", "mujer": "wife",
    "esposa": "wife", "marido": "husband", "esposo": "husband", "novia": "girlfriend", "novio": "boyfriend",
    "pareja": "partner",
    "amiga": "friend", "amigo": "friend", "jefa": "manager", "jefe": "manager", "prima": "cousin",
    "primo": "cousin", "tía": "aunt",
    "tío": "uncle", "abuela": "grandmother", "abuelo": "grandfather", "perro": "dog", "perra": "dog",
    "gato": "cat", "gata": "cat",
}  # fmt: skip
_WHO = (
    rf"(?:(?:[Mm]i\s(?P<role>{'|'.join(_ROLES)})(?:,?\s(?P<name>{_NAME}))?)|(?P<named>{_NAME})"
    rf"|(?P<ella>[ÉEé]l|[Ee]lla)),?\s(?:(?:también|ahora|ya|todavía|aún)\s)?"
)
_THIRD: tuple[tuple[re.Pattern[str], str, str, str], ...] = tuple(
    (re.compile(rf"{_WHO}(?P<no>no\s)?{then}\s(?P<o>\S.*)"), relation, kind, denied)
    for then, relation, kind, denied in (
        (r"vive\sen", "lives_in", "place", "does_not_live_in"),
        (r"trabaja\s(?:en|para)", "works_at", "organization", "does_not_work_at"),
        (r"se\sllama", "called", "person", ""),
        (r"prefiere", "prefers", "", "does_not_prefer"),
        (r"usa", "uses", "", "does_not_use"),
        (r"es\s(?:un|una)", "is_a", "", "is_not"),
    )
)
_FIRST: tuple[tuple[re.Pattern[str], str, str, str], ...] = tuple(
    (re.compile(rf"\b(?P<no>no\s)?{then}\s(?P<o>\S.*)", re.IGNORECASE), relation, kind, denied)
    for then, relation, kind, denied in (
        (r"(?<!se\s)vivo\sen", "lives_in", "place", "does_not_live_in"),
        (r"trabajo\s(?:en|para)(?!\s(?:casa|esto|eso))", "works_at", "organization", "does_not_work_at"),
        (r"me\sgusta(?:n)?(?:\smucho)?", "likes", "", "dislikes"),
        (r"me\sencanta(?:n)?", "likes", "", "dislikes"),
        (r"prefiero", "prefers", "", "does_not_prefer"),
        (r"odio", "dislikes", "", ""),
        (r"soy\salérgic[oa]\sa", "allergic_to", "", "not_allergic_to"),
        (r"uso", "uses", "", "does_not_use"),
        (r"bebo", "drinks", "", "does_not_drink"),
    )
)
_DO_NOT_EAT = re.compile(r"\bno\scomo\s(?P<o>(?!si\b|para\b|que\b)\S.*)", re.IGNORECASE)
_SHE_IS = re.compile(r"(?:(?:[ÉEé]l|[Ee]lla)\s)?[Ee]s\s(?P<un>una?\s)?(?P<o>[a-zà-þ]{4,}.*)")
_MOVED = re.compile(rf"\b[Mm]e\smudé\s(?:de\s(?P<old>{_NAME})\s)?a\s(?P<o>{_NAME})")
_NAMED_ROLE = re.compile(rf"\b[Mm]i\s(?P<role>{'|'.join(_ROLES)}),?\s(?:se\sllama\s)?(?P<o>{_NAME})")
_STOP = re.compile(
    r"[,;.!?()]|\s(?:y|e|pero|porque|desde|así|con|sin|que|cuando|donde|para|hace|en|ahora|ya|como|ni|o|hoy|ayer)\s",
    re.IGNORECASE,
)
_RATHER_THAN = re.compile(r"\s(?:al?|antes\sque|sobre)\s", re.IGNORECASE)
_INFINITIVE = re.compile(r"\w{2,}[aei]r\b|ir\b", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:el|la|los|las|un|una|unos|unas|mi|su)\s", re.IGNORECASE)


@lru_cache(maxsize=64)
def is_spanish(sentence: str) -> bool:
    """Whether a sentence has the small words of Spanish."""
    words = sentence[:300].lower().split()
    return len(words) > 2 and sum(word.strip("¿¡,.;:!?") in _MARKERS for word in words) * 4 >= len(words)


def relate(sentence: str, speaker: str, last_person: str) -> Iterator[Triple]:
    """The relations of a Spanish sentence, each with its subject: the verb alone may name it."""
    for named in _NAMED_ROLE.finditer(sentence):
        role = _ROLES[named["role"].lower()]
        kind = "concept" if role in ("dog", "cat") else "person"
        yield Triple(f"has_{role}", named["o"], kind, subject=speaker, subject_type="person")
    if moved := _MOVED.search(sentence):
        yield Triple(
            "lives_in",
            moved["o"],
            "place",
            subject=speaker,
            subject_type="person",
            replaced=moved["old"] or "",
            confidence=LIKELY,
        )
    if last_person and (described := _SHE_IS.match(sentence)):
        yield from _triple(described["o"], "is_a" if described["un"] else "is", "", last_person)
    if refused := _DO_NOT_EAT.search(sentence):
        yield from _triple(refused["o"], "does_not_eat", "", speaker)
    for pattern, relation, kind, denied in _THIRD:
        if (match := pattern.search(sentence)) and not (relation == "called" and match["role"]):
            owned = f"{speaker}'s {_ROLES[match['role'].lower()]}" if match["role"] else last_person
            who = match["name"] or match["named"] or owned
            if who:
                yield from _triple(match["o"], denied if match["no"] else relation, kind, who)
    for pattern, relation, kind, denied in _FIRST:
        if found := pattern.search(sentence):
            yield from _triple(found["o"], denied if found["no"] else relation, kind, speaker)


def _triple(rest: str, relation: str, kind: str, who: str) -> Iterator[Triple]:
    if "prefer" in relation and not _INFINITIVE.match(rest):
        rest = _RATHER_THAN.split(rest, maxsplit=1)[0]
    stop = _STOP.search(rest)
    thing = _ARTICLE.sub("", (rest[: stop.start()] if stop else rest).strip())[:80]
    if relation and len(thing) > 1 and not (kind in ("place", "organization", "person") and not thing[0].isupper()):
        known = kind if kind and thing[0].isupper() else type_of(thing, "")
        yield Triple(relation, thing, known, subject=who, subject_type="person", confidence=LIKELY)
