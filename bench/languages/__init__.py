"""Conversations in six languages: is the message that answers found, by questions in its language and in English?

`NN.jsonl` are invented conversations of two people and an assistant, `NN.questions.json` forty questions each, half of
them in English: facts, times, what has changed since, and four that nothing answers. `answers.jsonl`, where it exists,
are the answers of a model that read them (`python -m bench.languages record`); without it they are read by rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from recall.context import MOST_FACTS, ContextBlock
from recall.context import block_of as block
from slowwave.common.types import Recollection
from slowwave.integrations.python_api import OpenMemory
from storage.columns import WordIndex

from ..figures import Figure, Options
from ..ingest import ingest_files
from ..metrics import evidence_recall, mean, named_messages

FOLDER = Path(__file__).parent
ANSWERS = FOLDER / "answers.jsonl"
LANGUAGES = ("es", "de", "fr", "pt", "zh", "ja")
NOW = datetime(2026, 12, 1, tzinfo=UTC)
CHARACTERS = {"zh": 1200, "ja": 1200}
"""Of a block; elsewhere 3,000. A character of these scripts says as much as two or three letters."""
DEEP = 60


@dataclass(frozen=True, slots=True)
class Question:
    """A question in a language, its kind, its answer (None: nothing tells), and the messages that tell it."""

    id: str
    language: str
    kind: str
    question: str
    answer: str | None
    evidence: tuple[str, ...]


def messages_of(language: str) -> list[dict[str, Any]]:
    """The messages of a language, as `ingest` reads them."""
    return [json.loads(line) for line in (FOLDER / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()]


def questions_of(language: str) -> list[Question]:
    """The forty questions about these messages."""
    rows = json.loads((FOLDER / f"{language}.questions.json").read_text(encoding="utf-8"))
    return [Question(**{**row, "evidence": tuple(row["evidence"])}) for row in rows]


def read(language: str, store: str, model: str, **chosen: Any) -> dict[str, Any]:
    """Ingest the conversations of a language into a namespace of its own."""
    return ingest_files(
        [str(FOLDER / f"{language}.jsonl")], store, namespace=language, now=NOW, llm={"model": model, **chosen}
    )


def characters_of(language: str) -> int:
    """Of a block."""
    return CHARACTERS.get(language, 3000)


def block_of(found: Recollection, characters: int) -> ContextBlock:
    """The largest block of what was recalled that has at most so many characters."""
    least, most = 0, 2 * characters
    while least < most:
        tokens = (least + most + 1) // 2
        fits = len(block(found, tokens).text) <= characters
        least, most = (tokens, most) if fits else (least, tokens - 1)
    return block(found, least)


class PlainWords:
    """BM25 over the messages, nothing else: what a text search finds, also where a script has no spaces."""

    def __init__(self, messages: Sequence[dict[str, Any]]) -> None:
        self._names = [row["message_id"] for row in messages]
        self._lines = [f"- [{row['occurred_at'][:10]}] {row['speaker']}: {row['content']}" for row in messages]
        self._index = WordIndex(self._lines)

    def ranked(self, question: str) -> list[int]:
        """Places of the messages that share a word with the question, best first."""
        scores = self._index.scores(question)
        return [int(place) for place in np.argsort(-scores, kind="stable") if scores[place] > 0]

    def names(self, question: str) -> list[str]:
        """Their ids."""
        return [self._names[place] for place in self.ranked(question)]

    def block(self, question: str, characters: int) -> tuple[str, list[str]]:
        """As many whole lines as fit, best first, and the messages that they are of."""
        lines, names, left = [], [], characters
        for place in self.ranked(question):
            if len(self._lines[place]) < left:
                lines.append(self._lines[place])
                names.append(self._names[place])
                left -= len(self._lines[place]) + 1
        return "\n".join(lines), names


def named_in(block: ContextBlock) -> list[str]:
    """The messages that the facts and passages of a block are from."""
    return [*named_messages(block.facts), *(passage.message_id for passage in block.passages)]


def run(options: Options) -> Iterable[Figure]:
    """Evidence among ten messages and in the block, by language and by the language of the question.

    Each conversation is read twice: by rules, and with the answers that a model gave once (`answers.jsonl`).
    """
    for language in LANGUAGES:
        asked = [each for each in questions_of(language) if each.evidence]
        plain, size = PlainWords(messages_of(language)), characters_of(language)
        ways = {
            "words: R@10": (10, [plain.names(each.question) for each in asked]),
            "words: in the block": (None, [plain.block(each.question, size)[1] for each in asked]),
        }
        for reader, model in (("quotes", "quotes"), ("a model", f"replay/{ANSWERS}")):
            store = str(options.place / reader)
            read(language, store, model)
            with OpenMemory.open(store, language) as memory:
                found = [memory.recall(each.question, MOST_FACTS, now=NOW) for each in asked]
            blocks = [block_of(each, size) for each in found]
            ways[f"memory read by {reader}: R@10"] = (10, [named_messages(each.facts[:DEEP]) for each in found])
            ways[f"memory read by {reader}: in the block"] = (None, [named_in(each) for each in blocks])
        for of, kind in ((language, "own language"), ("en", "English")):
            for way, (k, ranked) in ways.items():
                shares = [
                    evidence_recall(names, each.evidence, k or len(names))
                    for each, names in zip(asked, ranked, strict=True)
                    if each.language == of
                ]
                yield Figure(
                    "languages", f"{language}, asked in {kind}, {way}", mean(shares), note=f"{len(shares)} questions"
                )
