"""Asking prompt by prompt: budget, then the call, then the ledger, a few at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from slowwave.errors import Terminal, UnusableInput
from slowwave.records import Prompt, Usage

from .ledger import prompt_hash
from .request_batch import PendingPrompt, RequestBatch, T

UNAVAILABLE_AFTER = 5


class LivePrompts(Generic[T]):
    """A fixed number of workers takes the prompts in order.

    After five prompts in a row whose retries were in vain, the provider counts as down and the rest is skipped; later
    questions of the run try one prompt before they give up, too.
    """

    def __init__(self, request_batch: RequestBatch[T]) -> None:
        self._request_batch, self._client = request_batch, request_batch.client
        self._stopped_by: Exception | None = None

    async def ask(self, pending: Iterable[PendingPrompt], workers: int) -> None:
        """Answer all; what stops the run is raised after the calls in flight ended."""
        self._client.failures_in_a_row = min(self._client.failures_in_a_row, UNAVAILABLE_AFTER - 1)
        queue = list(pending)
        prompts = iter(queue)
        await asyncio.gather(*(self._work(prompts) for _ in range(min(len(queue), workers))))
        if self._stopped_by is not None:
            raise self._stopped_by

    async def _work(self, prompts: Iterable[PendingPrompt]) -> None:
        for each in prompts:
            if self._stopped_by is not None:
                return
            try:
                await self._ask_one(each)
            except Exception as error:  # raised above, when no paid answer is under way any more
                self._stopped_by = self._stopped_by or error

    async def _ask_one(self, pending: PendingPrompt) -> None:
        request_batch, client = self._request_batch, self._client
        is_down = client.failures_in_a_row >= UNAVAILABLE_AFTER
        reservation = None if is_down else await request_batch.budget.reserve(request_batch.estimate(pending))
        if reservation is None:
            request_batch.skip(pending)
            return
        spent = Usage()
        try:
            outcome = await client.ask(pending.prompt, request_batch.model)
            spent = outcome.usage
        finally:
            request_batch.budget.settle(reservation, spent)
        client.failures_in_a_row = client.failures_in_a_row + 1 if outcome.is_transient else 0
        await request_batch.keep(pending, outcome)


# Recorded answers: written while a model is asked, played back without one.


WAY_OUT = "Record the answers with a model first, or use --llm rules."


@dataclass(frozen=True)
class RecordedAnswers:
    """Answers by prompt: JSON lines of `{prompt_name, prompt_hash, response}`."""

    path: Path
    answers: dict[tuple[str, str], dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> RecordedAnswers:
        """Read a recording; of two answers to one prompt the later one counts."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise UnusableInput(f"The recording {str(path)!r} cannot be read ({error.strerror}).", WAY_OUT) from None
        except UnicodeDecodeError:
            raise UnusableInput(f"The recording {str(path)!r} is no text in UTF-8.", WAY_OUT) from None
        return cls(path, dict(_parsed(path, number, line) for number, line in enumerate(lines, 1) if line.strip()))

    def answer(self, prompt: Prompt) -> dict[str, Any]:
        """The recorded answer; `Terminal` if the prompt was never recorded."""
        found = self.answers.get((prompt.name, prompt_hash(prompt)))
        if found is None:
            raise Terminal(
                f"{self.path.name} has no answer to this prompt ({prompt.name} {prompt_hash(prompt)}).", WAY_OUT
            )
        return found


def _parsed(path: Path, number: int, line: str) -> tuple[tuple[str, str], dict[str, Any]]:
    try:
        row = json.loads(line)
        return (row["prompt_name"], row["prompt_hash"]), dict(row["response"])
    except (ValueError, KeyError, TypeError):
        raise UnusableInput(
            f"Line {number} of {path.name} is not a recorded answer.",
            'Each line is {"prompt_name": …, "prompt_hash": …, "response": {…}}.',
        ) from None
