"""The keyless seat: each prompt has a deterministic rule that reads its context and answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from slowwave.errors import Terminal
from slowwave.records import Prompt

Rule = Callable[[Mapping[str, Any]], dict[str, Any]]


def extract_facts(context: Mapping[str, Any]) -> dict[str, Any]:
    """What the keyless extractor finds in the window."""
    from slowwave.reading.rules_extraction import extract_window

    return extract_window(context["window"])


def resolve_names(context: Mapping[str, Any]) -> dict[str, Any]:
    """Without a model, an ambiguous pair stays two entities: a wrong join is harder to undo (S2-07)."""
    return {
        "answers": [
            {"question": question.number, "same_entity": False, "reason": "ambiguous, and no model was asked"}
            for question in context["questions"]
        ]
    }


RULES: Mapping[str, Rule] = MappingProxyType({"extract_facts": extract_facts, "resolve_names": resolve_names})


def answer_by_rule(prompt: Prompt) -> dict[str, Any]:
    """The rule's answer to a prompt; `Terminal` if no rule answers it."""
    rule = RULES.get(prompt.name)
    if rule is None:
        raise Terminal(f"No rule answers the prompt {prompt.name!r}.", "Choose a model with --llm provider/model.")
    return rule(prompt.context)
