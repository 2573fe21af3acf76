"""The Message Batches of one Anthropic account, as this project needs them: handed over, found, looked at, read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inference.failures import Failure, failure_of, failure_of_item
from slowwave.text import as_json

PROVIDER = "anthropic"
MOST_BYTES = 200_000_000  # of 256 MB that a batch may have
CREATE_TIMEOUT_S = 600.0
GONE = 404


@dataclass(frozen=True, slots=True)
class Listed:
    """One batch of the account: when it came, how many prompts it has, and whether all of them have ended."""

    id: str
    created_at: datetime
    total: int
    has_ended: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one prompt: a `message`, or a `failure`, or neither where nobody got to it (expired, canceled)."""

    message: Any = None
    failure: Failure | None = None


class BatchFailure(Exception):
    """What went wrong with a request about a batch, and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class BatchApi:
    """Every method raises `BatchFailure` and nothing else, and tries once."""

    def __init__(self, sdk: Any, timeout_s: float) -> None:
        self._batches, self._timeout_s = sdk.messages.batches, timeout_s

    async def create(self, requests: Sequence[Mapping[str, Any]]) -> Listed:
        """Hand these over together; each is `custom_id` and `params`."""
        try:
            return _listed(
                await self._batches.create(requests=requests, timeout=max(self._timeout_s, CREATE_TIMEOUT_S))
            )
        except Exception as error:
            raise _failure(error) from error

    async def look(self, batch_id: str) -> Listed:
        """How far it is."""
        try:
            return _listed(await self._batches.retrieve(batch_id))
        except Exception as error:
            raise _failure(error) from error

    async def results(self, batch_id: str) -> dict[str, Result]:
        """What became of each prompt, by its custom id; the batch must have ended."""
        try:
            stream = await self._batches.results(batch_id)
            return {item.custom_id: _result(item.result) async for item in stream}
        except Exception as error:
            raise _failure(error) from error

    async def since(self, moment: datetime) -> list[Listed]:
        """The batches of the account that were handed over since then, oldest first."""
        found: list[Listed] = []
        try:
            async for batch in self._batches.list(limit=100):
                if batch.created_at < moment:
                    break
                found.append(_listed(batch))
        except Exception as error:
            raise _failure(error) from error
        return found[::-1]


def parts_of(requests: Sequence[dict[str, Any]], most: int) -> Iterator[slice]:
    """Where to cut so that no batch has more requests than `most`, or is larger than a batch may be."""
    start = size = 0
    for number, request in enumerate(requests):
        length = len(as_json(request).encode())
        if number > start and (number - start == most or size + length > MOST_BYTES):
            yield slice(start, number)
            start, size = number, 0
        size += length
    if start < len(requests):
        yield slice(start, len(requests))


def _listed(batch: Any) -> Listed:
    counts = batch.request_counts
    total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
    return Listed(batch.id, batch.created_at, total, batch.processing_status == "ended")


def _result(result: Any) -> Result:
    if result.type == "succeeded":
        return Result(result.message)
    if result.type == "errored":
        error = result.error.error
        return Result(failure=failure_of_item(error.type, error.message))
    return Result()


def _failure(error: Exception) -> BatchFailure:
    return BatchFailure(failure_of(error, "", is_answered=False, is_empty=False))
