"""A scripted reader for tests of what follows from relations: it knows a few plain sentences, and quotes all others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import inference.language
from slowwave.reading.extraction import quotes

NAME = r"[A-ZÀ-Þ][\w-]*(?: [A-ZÀ-Þ][\w-]*)*"
SENTENCES = (
    # pattern after the person · relation · form of the statement · type of the object
    (rf"(?:live|still live) in (?P<o>{NAME})", "lives_in", "lives in {o}", "place"),
    (rf"moved (?:from (?P<old>{NAME}) )?to (?P<o>{NAME})(?P<when> in \w+(?: \d{{4}})?)?", "lives_in",
     "moved to {o}", "place"),
    (rf"no longer works? at (?P<o>{NAME})", "works_at", "no longer works at {o}", "organization"),
    (rf"works? at (?P<o>{NAME})(?: as the (?P<role>[\w ]+))?", "works_at", "works at {o}", "organization"),
    (rf"use (?P<o>{NAME})", "uses", "uses {o}", "tool"),
    (rf"grew up in (?P<o>{NAME})", "grew_up_in", "grew up in {o}", "place"),
    (r"prefer (?P<o>[\w ]+)", "prefers", "prefers {o}", ""),
    (r"want to (?P<o>[\w ]+)", "wants_to", "wants to {o}", ""),
    (rf"(?<=I )trabajo en (?P<o>{NAME})", "works_at", "trabaja en {o}", "organization"),
)  # fmt: skip
_PERSON = rf"(?:I|(?P<who>{NAME})) "
_CLAUSES = re.compile(r"(?<=[.!?]) +|, (?:and )?| and (?=I\b)")


def read(context: Mapping[str, Any]) -> dict[str, Any]:
    """What the keyless reader gives for a window, with relations for the sentences that are known."""
    window = context["window"]
    answer = quotes.extract_window(window)
    quoted: dict[int, list[dict[str, Any]]] = {}
    for fact in answer["facts"]:
        quoted.setdefault(fact["message"], []).append(fact)
    entities = {each["name"]: each["type"] for each in answer["entities"]}
    facts: list[dict[str, Any]] = []
    for turn in window.turns:
        found = [] if turn.is_context or turn.role == "assistant" else [*_relations(turn, entities)]
        facts += found or quoted.get(turn.index, [])
        if found:
            entities.setdefault(quotes.speaker_name(turn), "person")
    listed = [{"name": name, "type": kind, "summary": None} for name, kind in entities.items()]
    judged = {fact["message"] for fact in facts}
    messages = [{**each, "durable": each["durable"] or each["message"] in judged} for each in answer["messages"]]
    return {**answer, "messages": messages, "entities": listed, "facts": facts}


def _relations(turn: Any, entities: dict[str, str]) -> Iterator[dict[str, Any]]:
    for clause in _CLAUSES.split(turn.text):
        found = _known(clause.replace("Trabajo", "I trabajo", 1))
        if found is None:
            continue
        said, relation, form, kind = found
        subject, object_, role = said["who"] or quotes.speaker_name(turn), said["o"].strip(), said.get("role")
        entities.setdefault(subject, "person")
        if kind:
            entities.setdefault(object_, kind)
        is_over = "no longer" in form
        ended = [(said.get("old"), "supersede"), (object_ if is_over else None, "retract")]
        claim = {
            "message": turn.index, "kind": "relation", "subject": subject, "relation": relation, "object": object_,
            "statement": f"{subject} {form.format(o=object_)}{f' as the {role}' if role else ''}.",
            "edge_type": "semantic", "confidence": 0.75, "temporal_hint": (said.get("when") or "").strip() or None,
            "ended": is_over, "aspects": [],
            "resolves": [
                {"known": None, "object": name, "action": action, "reason": "temporal_change"}
                for name, action in ended if name
            ],
        }  # fmt: skip
        yield claim
        if role:
            yield {**claim, "relation": "has_role", "object": role, "resolves": []}


def _known(clause: str) -> tuple[dict[str, Any], str, str, str] | None:
    for pattern, relation, form, kind in SENTENCES:
        if match := re.match(_PERSON + pattern, clause):
            return match.groupdict(), relation, form, kind
    return None


def install() -> Any:
    """Let this reader take the place of the keyless one in this process; what was there before."""
    before = inference.language.RULES
    inference.language.RULES = MappingProxyType({**before, "extract_facts": read})
    return before
