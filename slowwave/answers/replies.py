"""What a model answers to a question from what is remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slowwave.records import Usage

from .facts import Passage, RecalledFact

UNKNOWN = "Not known."


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in words, and the facts and passages that it rests on, in the order in which the model read them.

    Where memory does not hold the answer `text` is "Not known.", and it rests on nothing. `notes` say what of the
    model's answer was left out. `usage` is what this reply cost: nothing where nobody was asked, or where the same
    question about the same lines had been paid for.
    """

    question: str
    text: str = UNKNOWN
    is_known: bool = False
    facts: tuple[RecalledFact, ...] = ()
    passages: tuple[Passage, ...] = ()
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The contract of `ask --json`; facts and passages are as those of `recall --json`."""
        paid = self.usage
        return {
            "question": self.question,
            "answer": self.text,
            "known": self.is_known,
            "facts": [fact.as_json() for fact in self.facts],
            "passages": [passage.as_json() for passage in self.passages],
            "model": self.model,
            "llm": {
                "calls": paid.calls, "tokens_in": paid.tokens_in, "tokens_out": paid.tokens_out, "usd": paid.usd,
            },
            "notes": list(self.notes),
            "took_ms": round(self.took_ms, 2),
        }  # fmt: skip
