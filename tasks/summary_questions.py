"""Questions for summaries: several to a prompt, fewer where an answer is no use, alone what it left out.

Rows: S2-48, S4-23, T14, T37.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Generic

from inference.answers import Answer
from inference.language import Language
from prompts.packing import Question
from prompts.responses import Summaries
from slowwave.records import REFUSED, Prompt

ANSWER_TOKENS = 150
"""About what one summary takes in an answer."""
_UNUSABLE = ("cut", "invalid", REFUSED)
"""How errors begin that fewer questions in a prompt may help."""

_Group = tuple[int, ...]  # places of the questions that share a prompt


@dataclass(frozen=True, slots=True)
class Told:
    """What was answered about one thing: a text, or why there is none, or it was never asked about."""

    text: str = ""
    error: str = ""
    is_skipped: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether it was asked about, and nothing of use was answered."""
        return not (self.text or self.is_skipped)


@dataclass(frozen=True, slots=True)
class Asking(Generic[Question]):
    """How things of one kind are asked about; `silent` says that a model said nothing about one."""

    render: Callable[[tuple[Question, ...]], Prompt]
    response: type[Summaries]
    silent: str

    async def hear(self, language: Language, packs: Sequence[tuple[Question, ...]]) -> list[Told]:
        """What was answered about each question, in order, at the last time that it was put.

        Where an answer is no use they are put again in halves, and alone what one left out. An answer about one alone
        that says nothing is not kept: the next run asks again.
        """
        questions = [question for pack in packs for question in pack]
        told = [Told()] * len(questions)
        ends = accumulate(map(len, packs))
        groups = [tuple(range(end - len(pack), end)) for pack, end in zip(packs, ends, strict=True)]
        while groups:
            prompts = [self.render(_numbered(questions, group)) for group in groups]
            answers = await language.ask_many(prompts, self.response, "summarize")
            for group, answer in zip(groups, answers, strict=True):
                for n, heard in zip(group, _told_of(len(group), answer, self.silent), strict=True):
                    told[n] = heard
            groups = [part for group in groups for part in _again(group, told)]
        return told

    def errors(self, told: Sequence[Told]) -> tuple[str, ...]:
        """Why some have no summary, each reason once."""
        return tuple(sorted({each.error or self.silent for each in told if each.has_failed}))


def _numbered(questions: Sequence[Question], group: _Group) -> tuple[Question, ...]:
    return tuple(replace(questions[n], number=number) for number, n in enumerate(group, 1))


def _again(group: _Group, told: Sequence[Told]) -> tuple[_Group, ...]:
    """What is to be asked once more: both halves if the answer was no use, else each alone that it left out."""
    if len(group) == 1:
        return ()
    if all(told[n].error.startswith(_UNUSABLE) for n in group):
        half = len(group) // 2
        return group[:half], group[half:]
    return tuple((n,) for n in group if told[n] == Told())


def _told_of(count: int, answer: Answer[Summaries], silent: str) -> list[Told]:
    """Of one answer about so many: by number; where one was asked about alone, whatever says something (T37)."""
    if answer.value is None:
        return [Told(error="" if answer.skipped else answer.error or silent, is_skipped=answer.skipped)] * count
    by_number = {number: text for number, text in reversed(answer.value.told) if text}
    if count == 1:
        return [Told(by_number.get(1) or next(text for _, text in answer.value.told if text))]
    return [Told(by_number.get(number, "")) for number in range(1, count + 1)]
