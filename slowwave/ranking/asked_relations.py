"""Asked relations: "where does Nora live?" asks for the relation lives_in, in whatever words a fact states it."""

from __future__ import annotations

import re
from functools import lru_cache

from slowwave.lexicon.verbs import DATED
from slowwave.revision.predicates import DEFAULT, known_relation
from slowwave.words import stems

_ASKING = tuple(
    (re.compile(rf"\b(?:{words})\b", re.IGNORECASE), re.compile(relations))
    for words, relations in (
        ("where|dónde|donde|wo|où|onde|dove", r"_(?:in|at|from|to|into)$"),  # lives_in and works_at, not works_on
        ("who|quién|quien|wer|qui|quem|chi", ""),
        ("when|cuándo|cuando|wann|quand|quando", rf"{DATED}|^birthday$|^born_in$"),
        (r"what(?:['’]s|\s(?:is|was|are|were))\s(?:\S+\s){0,3}?(?:\S+['’]s|my|your|his|her|their|our)", ""),
    )
)
"""Question words, and the relations that answer them; "when did she join?" asks for no relation, but for an event.
"What" asks for a relation by a noun: "what is Ana's job?"."""
_NOUNS = {"works_at": "profession occupation employer", "has_role": "profession occupation position"}
_FORMS = {predicate.name: predicate.forms for predicate in DEFAULT}


@lru_cache(maxsize=4096)
def asked_words(question: str, relation: str) -> str:
    """The words of a question that ask for a relation, also in another form of it; empty if it asks for another.

    A fact of that relation says them, whatever its words are: "Nora moved to Zwolle" says where she lives.
    """
    asking = next((answers for words, answers in _ASKING if words.search(question)), None)
    if asking is None or not asking.search(relation):
        return ""
    known = known_relation(relation) or relation
    forms = (*_FORMS.get(known, ()), *_NOUNS.get(known, "").split())
    named = {word for form in {relation, *forms} for word in stems(form.replace("_", " "))}
    return " ".join(word for word in question.split() if not named.isdisjoint(stems(word)))
