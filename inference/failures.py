"""What went wrong with a call, and whether asking again can help."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from slowwave.common.errors import MissingKey, SlowwaveError, UnusableInput
from slowwave.common.records import REFUSED

from .agents import AGENTS, LimitReached, NoReply
from .providers import KEYS, WITHOUT_KEY, Choice
from .secrets import without_secrets

CUT_STOPS = frozenset({"max_tokens", "length", "model_context_window_exceeded"})
REFUSED_STOPS = frozenset({"refusal", "content_filter"})
TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
ITEM_STATUS: Mapping[str, int] = MappingProxyType(
    {
        "invalid_request_error": 400,
        "authentication_error": 401,
        "billing_error": 402,
        "permission_error": 403,
        "not_found_error": 404,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "api_error": 500,
        "timeout_error": 504,
        "overloaded_error": 529,
    }
)
"""The HTTP status of each type of error."""
_CONNECTION_ERRORS = frozenset({"APIConnectionError", "TransportError", "APIResponseValidationError"})
MAX_REASON_CHARS = 400
LONGEST_RETRY_AFTER_S = 120.0
"""A server that asks for a longer pause is left to a later run."""


class Kind(Enum):
    """What to do after a failure."""

    TRANSIENT = auto()  # wait and try again
    EMPTY = auto()  # ask again, as often as an answer may be repaired
    UNFORCED = auto()  # ask again without demanding the tool: this model does not allow that
    TERMINAL = auto()  # give this prompt up
    FATAL = auto()  # every other prompt would fail the same way
    LIMIT = auto()  # a subscription is used up: the rest waits for a later run


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed call; `reason` holds no secret."""

    kind: Kind
    reason: str
    wait_s: float = 0.0
    status: int = 0

    def may_pass(self, failures: int, retries: int) -> bool:
        """Whether it is worth another try after so many failures in a row, of at most so many retries."""
        return self.kind is Kind.TRANSIENT and failures < retries and self.wait_s <= LONGEST_RETRY_AFTER_S


def failure_of(error: BaseException, stop: str, is_answered: bool, is_empty: bool) -> Failure:
    """The failure behind an exception, given how far the exchange came."""
    if stop in REFUSED_STOPS:
        return Failure(Kind.TERMINAL, f"{REFUSED}: the model declined to answer")
    if stop in CUT_STOPS:
        return Failure(Kind.TERMINAL, f"cut: the answer did not fit (stop reason {stop}); raise max_output_tokens")
    if is_empty:
        return Failure(Kind.EMPTY, "invalid: the answer was empty")
    cause = _cause(error)
    if isinstance(cause, LimitReached):
        return Failure(Kind.LIMIT, message_of(cause))
    if isinstance(cause, NoReply):
        return Failure(Kind.EMPTY, f"invalid: {message_of(cause)}")
    status = getattr(cause, "status_code", None)
    if isinstance(status, int):
        return _of_status(status, message_of(cause), cause)
    if isinstance(cause, TimeoutError):
        return Failure(Kind.TRANSIENT, "transient: no complete answer within the time-out")
    names = {base.__name__ for base in type(cause).__mro__}
    if isinstance(cause, OSError) or names & _CONNECTION_ERRORS:
        return Failure(Kind.TRANSIENT, f"transient: {message_of(cause)}")
    if not is_answered and isinstance(cause, ValueError):
        return Failure(Kind.TRANSIENT, "transient: the server's answer was not JSON")
    return Failure(Kind.TERMINAL, f"invalid: {message_of(cause)}")


def failure_of_item(kind: str, message: str) -> Failure:
    """The failure of one prompt of a batch, by the type of error that the provider names."""
    text = " ".join(without_secrets(message).split())[:MAX_REASON_CHARS]
    return _of_status(ITEM_STATUS.get(kind, 500), text, None)


def fatal_error(choice: Choice, failure: Failure) -> SlowwaveError:
    """What a run is stopped with."""
    if agent := AGENTS.get(choice.provider):
        return MissingKey(f"{agent.label} is not logged in.", f"Log in: {agent.login}. Or write --llm quotes.")
    if failure.status in {401, 403}:
        variable = KEYS.get(choice.provider, "its key")
        return MissingKey(f"{choice.provider} does not accept {variable} ({failure.reason}).", WITHOUT_KEY)
    return UnusableInput(f"{choice} cannot be used ({failure.reason}).", f"Check model and account; {WITHOUT_KEY}")


def _of_status(status: int, message: str, cause: Any) -> Failure:
    reason = f"HTTP {status}: {message}"
    if status in TRANSIENT_STATUS or status >= 500:
        return Failure(Kind.TRANSIENT, f"transient: {reason}", _retry_after(cause), status)
    if status == 400 and "tool_choice" in message:
        return Failure(Kind.UNFORCED, reason, status=status)
    if status in {401, 402, 403, 404} or "credit balance" in message:
        return Failure(Kind.FATAL, reason, status=status)
    return Failure(Kind.TERMINAL, f"rejected: {reason}", status=status)


def _retry_after(cause: Any) -> float:
    """Seconds that a `retry-after` header asks for, as a number or as a date."""
    value = getattr(getattr(cause, "response", None), "headers", {}).get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0


def _cause(error: BaseException) -> BaseException:
    """The exception that instructor wrapped."""
    inner = error.__cause__ if type(error).__name__ == "InstructorRetryException" else None
    return _cause(inner) if inner is not None else error


def message_of(cause: BaseException) -> str:
    """What an exception tells, on one line, without secrets and without echoing the input."""
    if isinstance(cause, ValidationError):
        text = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'answer'}: {item['msg']}"
            for item in cause.errors(include_input=False, include_url=False)
        )
    else:
        body = getattr(cause, "body", None)
        detail = body.get("error", body) if isinstance(body, dict) else None
        message = detail.get("message") if isinstance(detail, dict) else None
        text = str(message or cause) or type(cause).__name__
    return " ".join(without_secrets(text).split())[:MAX_REASON_CHARS]
