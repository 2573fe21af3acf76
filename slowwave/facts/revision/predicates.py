"""Which relation do words mean, and does it allow one object? Normal forms, canonical forms, cardinality (S2-61)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from unicodedata import category, normalize

import polars as pl

from slowwave.common import frames
from slowwave.common.lexicon.labels import DATED, DENIAL, relation_forms
from slowwave.common.text import cut_bytes, row_id

MAX_RELATION_BYTES = 256
Cardinality = Literal["1", "n"]
Names = Mapping[str, tuple[str, Cardinality]]
"""Answers of a model about relations: normal form → canonical form and cardinality."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A canonical relation: its aliases, and the domain in which one fact may succeed another."""

    name: str
    aliases: str = ""
    cardinality: Cardinality = "n"
    domain: str = ""
    meaning: str = ""
    """Subject, object and tense, for the prompt; empty: not offered to a model."""
    takes_value: bool = False
    """Whether the object can be a number or a date."""

    @property
    def forms(self) -> tuple[str, ...]:
        """The name and every alias, those in Spanish among them (C8)."""
        return (self.name, *self.aliases.split(), *relation_forms(self.name))


DEFAULT: tuple[Predicate, ...] = (
    Predicate("works_at", "employed_by job_at works_for work_at work_for", "1", "work", "person → employer, now"),
    Predicate("has_role", "works_as role job_title employed_as", "n", "role", "person → position or profession"),
    Predicate("works_on", "working_on work_on", "n", "task", "person → project or task, now"),
    Predicate("joined", "", "n", "work", "person → organisation, event of joining"),
    Predicate("reports_to", "managed_by supervised_by", "n", "responsibility", "person → superior"),
    Predicate("has_manager", "", "1", "responsibility"),
    Predicate("has_boss", "", "1", "responsibility"),
    Predicate("manages", "manages_team leads supervises manage lead", "n", "responsibility", "person → team or person"),
    Predicate("member_of", "is_member_of", "n", "membership", "person → group or club"),
    Predicate("studies_at", "studied_at enrolled_at", "n", "study", "person → school"),
    Predicate("studies", "study studied majors_in", "n", "study", "person → subject or course"),
    Predicate("lives_in", "resides_in based_in live_in living_in", "1", "home", "person → place of the home, now"),
    Predicate("moved_to", "relocated_to", "n", "home", "person → place, event of moving"),
    Predicate("born_in", "birthplace born_at", "1", "", "person → place or year of birth", takes_value=True),
    Predicate("is_from", "comes_from", "n", "", "person → country or town of origin"),
    Predicate("age", "", "1", "", "person → years", takes_value=True),
    Predicate("married_to", "spouse_of husband_of wife_of", "1", "partner", "person → spouse, now"),
    Predicate("engaged_to", "fiance_of fiancee_of", "1", "partner", "person → fiancé, now"),
    Predicate(
        "dating", "partner_of in_relationship_with girlfriend_of boyfriend_of", "n", "partner", "person → partner"
    ),
    Predicate("parent_of", "father_of mother_of has_child has_son has_daughter", "n", "", "person → child"),
    Predicate("related_to", "sibling_of brother_of sister_of cousin_of relative_of", "n", "", "person → relative"),
    Predicate("knows", "know met friend_of friends_with", "n", "", "person → friend or acquaintance"),
    Predicate("has_pet", "pet_owner_of", "n", "", "person → pet"),
    Predicate("owns", "has have possesses own", "n", "use", "person or organisation → thing"),
    Predicate("uses", "use using utilizes utilises runs_on", "n", "use", "person or project → tool, now"),
    Predicate("prefers", "prefer preferred likes like favors favours", "n", "use", "person → liked or chosen thing"),
    Predicate("dislikes", "dislike hates hate", "n", "", "person → disliked thing"),
    Predicate("eats", "eat", "n", "use", "person → food, habit"),
    Predicate("drinks", "drink", "n", "use", "person → drink, habit"),
    Predicate("practices", "practises has_hobby hobby", "n", "", "person → hobby, sport or habit, now"),
    Predicate("skilled_in", "good_at has_skill", "n", "", "person → skill or language"),
    Predicate("has_condition", "suffers_from diagnosed_with", "n", "", "person → illness, injury or allergy"),
    Predicate("believes", "believes_in", "n", "", "person → opinion, value or faith"),
    Predicate("wants_to", "hopes_to wishes_to dreams_of", "n", "", "person → wish or goal"),
    Predicate("plans_to", "intends_to planning_to", "n", "", "person → planned act, with its date"),
    Predicate("decided", "decided_to decided_on chose chooses", "n", "", "person or project → choice"),
    Predicate("asked_for", "instructs", "n", "", "person → standing wish how to be answered"),
    Predicate("attended", "took_part_in participated_in", "n", "", "person → event, past"),
    Predicate("visited", "travelled_to traveled_to", "n", "", "person → place, past"),
    Predicate("bought", "purchased", "n", "", "person → thing, past"),
    Predicate("received", "was_given", "n", "", "person → thing or offer, past"),
    Predicate("achieved", "accomplished", "n", "", "person or project → result, past"),
    Predicate("created", "wrote built made developed", "n", "", "person → work, past"),
    Predicate("replaces", "replaced switched_to switch_to migrated_to", "n", "use", "new thing → old thing"),
    Predicate("depends_on", "requires needs depend_on", "n", "use", "thing → thing it needs"),
    Predicate("fixed", "fixes resolved", "n", "", "act or person → problem"),
    Predicate("caused_by", "due_to because_of", "n", "", "problem or event → cause"),
    Predicate("scheduled_for", "takes_place_on due_on", "1", "", "event, project or task → its date", takes_value=True),
    Predicate("located_in", "located_at", "1", "", "thing or organisation → place"),
    Predicate("part_of", "", "1", "", "thing → whole"),
    Predicate("contains"),
    Predicate("similar_to"),
)
"""The closed list for conversations; a claim that fits none of these is an observation."""
INTENTIONS = ("plans_to", "wants_to", "believes")
"""What somebody has in mind: there is much of it, and what happens seldom ends it."""
_TABLE: Mapping[str, tuple[str, str | None, str]] = {
    form: (p.name, p.cardinality, "default") for p in reversed(DEFAULT) for form in reversed(p.forms)
}
_DOMAINS: Mapping[str, str] = {p.name: p.domain for p in DEFAULT if p.domain}
_VALUED = frozenset(p.name for p in DEFAULT if p.takes_value)
_CANONICAL: Mapping[str, str] = {form: p.name for p in DEFAULT for form in p.forms}
EDGE_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("reports_to", "manages", "member_of", "part_of", "contains", "parent_of"), "hierarchical"),
    **dict.fromkeys(("caused_by", "fixed"), "causal"),
    **dict.fromkeys(("joined", "moved_to", "replaces", "scheduled_for"), "temporal"),
}
"""Relation → type of edge; all others are semantic (S2-11)."""
_COLUMNS = ["alias", "canonical", "cardinality", "source"]
_FORMS = {"raw": pl.String, "canonical": pl.String, "cardinality": pl.String, "source": pl.String}


def known_relation(raw: str) -> str:
    """The canonical relation of the closed list for these words; empty if there is none."""
    return _CANONICAL.get("_".join(re.findall(r"[^\W_]+", raw.lower())), "")


def takes_value(raw: str) -> bool:
    """Whether the object of a relation of the closed list can be a number or a date, not only an entity."""
    return known_relation(raw) in _VALUED


@lru_cache(maxsize=65_536)
def normal_form(raw: str) -> str:
    """A relation in snake case: NFKC, lower, letters and digits joined by `_`, at most 256 bytes (S2-12)."""
    plain = normalize("NFKC", raw)
    parted = (f"_{c}" if last.islower() and c.isupper() else c for last, c in zip(f" {plain}", plain, strict=False))
    lower = "".join(parted).lower().replace("'", "").replace("’", "")
    words = "".join(c if category(c)[0] in "LMN" else " " for c in lower).split()
    return cut_bytes("_".join(words), MAX_RELATION_BYTES)


def canonicalise(raw: pl.Series, learned: pl.DataFrame) -> pl.DataFrame:
    """Distinct relations as (raw, canonical, cardinality, source); unknown ones keep their form, n, source `raw`.

    `learned` holds rows of the `predicates` table, which the default table outranks.
    """
    return pl.DataFrame(forms_of(raw, learned), schema=_FORMS, orient="row")


def forms_of(raw: Iterable[str | None], learned: pl.DataFrame) -> list[tuple[str, str, str, str]]:
    """The rows of `canonicalise`."""
    known = _table(learned)
    rows = []
    for relation in dict.fromkeys(each for each in raw if each is not None):
        form = normal_form(relation)
        canonical, cardinality, source = known.get(form, (form, None, "raw"))
        rows.append((relation, canonical, cardinality or ("1" if re.search(DATED, form) else "n"), source))
    return rows


def unmapped(forms: Iterable[tuple[str, str, str, str]]) -> list[str]:
    """The canonical forms that are in no table, in order: questions for a model (S2-61)."""
    return list(dict.fromkeys(canonical for _, canonical, _, source in forms if source == "raw"))


def settle_names(answers: Mapping[str, tuple[str, Cardinality]], learned: pl.DataFrame) -> Names:
    """Canonical form and cardinality of each relation of a model's answers.

    `answers` has normal forms as keys, and unchecked canonical forms of the model (T37). An empty answer, or one that
    maps a denied relation to a plain one, leaves the relation as it is. Forms of the tables keep their cardinality.
    For other forms "1" makes facts retire each other, so it is accepted only for the relation itself. Chains of answers
    are followed to their end.
    """
    forms = canonicalise(pl.Series([name for name, _ in answers.values()], dtype=pl.String), learned)
    plain = dict(frames.rows_of(forms, "raw", "canonical"))
    known = dict(forms.filter(pl.col("source") != "raw").select("canonical", "cardinality").iter_rows())
    meanings = {alias: plain[name] if _may_mean(alias, plain[name]) else alias for alias, (name, _) in answers.items()}
    own: dict[str, Cardinality] = {a: c for a, (name, c) in answers.items() if plain[name] == a}
    settled: dict[str, tuple[str, Cardinality]] = {}
    for alias in answers:
        name = _end_of(alias, meanings)
        settled[alias] = (name, known.get(name, own.get(name, "n")))
    return settled


def _may_mean(alias: str, name: str) -> bool:
    """Whether a relation may have this canonical form: both or neither are denied."""
    return bool(name) and bool(DENIAL.match(alias)) == bool(DENIAL.match(name))


def _end_of(alias: str, meanings: Mapping[str, str]) -> str:
    """The end of a chain of answers; of a circle the first name in the alphabet."""
    chain = [alias]
    while (name := meanings.get(chain[-1], chain[-1])) != chain[-1]:
        if name in chain:
            return min(chain[chain.index(name) :])
        chain.append(name)
    return chain[-1]


def learned_rows(answers: Names) -> pl.DataFrame:
    """Rows of `predicates` for a model's answers, so that no question is asked twice (S2-61).

    One row for each alias, and one for each new canonical form, as its own alias.
    """
    forms = {name: (name, cardinality) for name, cardinality in answers.values() if name not in _CANONICAL}
    rows = [
        {"id": row_id("pr", alias), "alias": alias, "canonical": name, "cardinality": cardinality, "source": "llm"}
        for alias, (name, cardinality) in {**forms, **answers}.items()
    ]
    return frames.conform(pl.DataFrame(rows), frames.PREDICATES) if rows else frames.empty(frames.PREDICATES)


def domain_of(canonical: str) -> str:
    """The domain in which facts of this predicate or its denial succeed each other; empty for others."""
    affirmed = DENIAL.sub("", canonical)
    return _DOMAINS.get(_CANONICAL.get(affirmed, affirmed), "")


def _table(learned: pl.DataFrame) -> Mapping[str, tuple[str, str | None, str]]:
    """(canonical form, cardinality, source) by alias: the default table goes before what a model said."""
    if learned.is_empty():
        return _TABLE
    rows = learned.select(_COLUMNS).iter_rows()
    return {alias: (canonical or alias, *others) for alias, canonical, *others in rows} | {**_TABLE}
