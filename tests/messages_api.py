"""A server on loopback that speaks the Messages API, its batches, and chat completions, and misbehaves on demand."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, Field

from inference.language import Language
from inference.request_batch import MemoryLedger, ModelAnswer
from slowwave.common.records import Prompt
from slowwave.common.settings import LanguageSettings

Body = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What the server sends: `delay_s` before the first byte, `drip_s` after each byte."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drip_s: float = 0.0


Behaviour = Reply | Callable[[Body], Reply]


def message(content: list[Body], stop: str = "tool_use", tokens_in: int = 100, tokens_out: int = 20) -> Reply:
    """A whole answer of the Messages API."""
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": tokens_in, "output_tokens": tokens_out},
    }
    return Reply(200, json.dumps(body).encode())


def filled(tool: str, values: Body, **how: Any) -> Reply:
    """An answer that fills in the tool."""
    return message([{"type": "tool_use", "id": "toolu_1", "name": tool, "input": values}], **how)


def fault(status: int, text: str = "no", kind: str = "error", **headers: str) -> Reply:
    """An error as the API reports it; `retry_after="1"` becomes a header."""
    body = {"type": "error", "error": {"type": kind, "message": text}}
    return Reply(status, json.dumps(body).encode(), {name.replace("_", "-"): value for name, value in headers.items()})


def chat_completion(values: Body) -> Callable[[Body], Reply]:
    """An answer of the chat-completions API that fills in whatever tool the request offers."""

    def reply(request: Body) -> Reply:
        call = {"name": request["tools"][0]["function"]["name"], "arguments": json.dumps(values)}
        said = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        }
        body = {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 70, "completion_tokens": 9, "total_tokens": 79},
        }
        return Reply(200, json.dumps(body).encode())

    return reply


HUNG_UP = Reply(0, b"")
"""The server closes the connection without a word."""


@dataclass
class Batch:
    """A batch that the server was given: it ends when it was looked at `looks` times."""

    id: str
    requests: list[Body]
    looks: int
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    results: list[Body] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether its results can be read."""
        return self.looks <= 0

    @property
    def keys(self) -> list[str]:
        """The custom ids of its requests, in the order in which they came."""
        return [each["custom_id"] for each in self.requests]


_NUMBERS = count(1)
Item = Callable[[Body], Body]
"""What becomes of one request of a batch: the `result` of its line."""


def as_item(reply: Reply) -> Body:
    """The result that a reply of the Messages API is in a batch."""
    body = json.loads(reply.body)
    return {"type": "succeeded", "message": body} if reply.status == 200 else {"type": "errored", "error": body}


@dataclass
class BatchesApi:
    """The batches of one account. `faults` are played first, by what is asked: create, look, results, list.

    A fault of `lost` is played after the batch was taken in: its answer is lost. Results come in reverse order.
    """

    item: Item
    looks: int = 0
    faults: dict[str, list[Reply]] = field(default_factory=dict)
    lost: list[Reply] = field(default_factory=list)
    batches: dict[str, Batch] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def keys(self) -> list[str]:
        """All custom ids that were ever submitted."""
        return [key for batch in self.batches.values() for key in batch.keys]

    def put(self, requests: list[Body], **how: Any) -> Batch:
        """Take a batch in."""
        with self._lock:
            batch = Batch(f"msgbatch_{next(_NUMBERS):04d}", requests, self.looks, **how)
            self.batches[batch.id] = batch
            return batch

    def reply(self, url: str, method: str, path: str, query: Body, body: Body) -> Reply:
        """The answer to one request."""
        id_, _, deed = path.removeprefix("/v1/messages/batches").strip("/").partition("/")
        what = deed or ("create" if method == "POST" else "look" if id_ else "list")
        with self._lock:
            self.asked.append(what)
            waiting = self.faults.get(what)
            if waiting:
                return waiting.pop(0)
            if what == "create":
                created = self._told(url, self.put(body["requests"]))
                return self.lost.pop(0) if self.lost else created
            if what == "list":
                return self._listed(url, query)
            if id_ not in self.batches:
                return fault(404, f"no batch {id_}", "not_found_error")
            batch = self.batches[id_]
            return self._results(batch) if deed == "results" else self._looked_at(url, batch)

    def _looked_at(self, url: str, batch: Batch) -> Reply:
        batch.looks = max(batch.looks - 1, 0)
        return self._told(url, batch)

    def _results(self, batch: Batch) -> Reply:
        lines = [{"custom_id": each["custom_id"], "result": self.item(each["params"])} for each in batch.requests[::-1]]
        return Reply(200, "".join(f"{json.dumps(line)}\n" for line in lines).encode())

    def _listed(self, url: str, query: Body) -> Reply:
        newest = sorted(self.batches.values(), key=lambda each: each.created_at, reverse=True)
        ids = [each.id for each in newest]
        start = ids.index(query["after_id"]) + 1 if "after_id" in query else 0
        page = newest[start : start + int(query.get("limit", 20))]
        body = {
            "data": [_batch(url, each) for each in page],
            "has_more": start + len(page) < len(newest),
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }
        return Reply(200, json.dumps(body).encode())

    def _told(self, url: str, batch: Batch) -> Reply:
        return Reply(200, json.dumps(_batch(url, batch)).encode())


def _batch(url: str, batch: Batch) -> Body:
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    counts["succeeded" if batch.has_ended else "processing"] = len(batch.requests)
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if batch.has_ended else "in_progress",
        "request_counts": counts,
        "created_at": batch.created_at.isoformat(),
        "expires_at": (batch.created_at + timedelta(days=1)).isoformat(),
        "ended_at": batch.created_at.isoformat() if batch.has_ended else None,
        "archived_at": None,
        "cancel_initiated_at": None,
        "results_url": f"{url}/v1/messages/batches/{batch.id}/results" if batch.has_ended else None,
    }


class MessagesApi:
    """The server: plays `script` in order, then `otherwise` for ever; remembers what it was asked."""

    def __init__(self, otherwise: Behaviour, *script: Behaviour) -> None:
        self.otherwise = otherwise
        self.script = deque(script)
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
        self.batches = BatchesApi(lambda request: as_item(self._choose(request)))
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def arrive(self, request: Body, headers: dict[str, str]) -> Reply:
        """Take a request in and choose the reply."""
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        return self._choose(request)

    def _choose(self, request: Body) -> Reply:
        with self._lock:
            behaviour = self.script.popleft() if self.script else self.otherwise
        return behaviour(request) if callable(behaviour) else behaviour

    def leave(self) -> None:
        """A reply is complete."""
        with self._lock:
            self.at_once -= 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    api: MessagesApi


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._batches({})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
        if "/messages/batches" in self.path:
            self._batches(request)
            return
        reply = self.server.api.arrive(request, {name.lower(): value for name, value in self.headers.items()})
        try:
            self._send(reply)
        except OSError:  # the client hung up first
            self.close_connection = True
        finally:
            self.server.api.leave()

    def _batches(self, request: Body) -> None:
        api, place = self.server.api, urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(place.query).items()}
        try:
            self._send(api.batches.reply(api.url, self.command, place.path, query, request))
        except OSError:  # the client hung up first
            self.close_connection = True

    def _send(self, reply: Reply) -> None:
        time.sleep(reply.delay_s)
        if not reply.status:
            self.close_connection = True
            return
        self.send_response(reply.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if not reply.drip_s:
            self.wfile.write(reply.body)
            return
        for byte in reply.body:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(reply.drip_s)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""


# A small question to test with, its form of answer, and simulated time.


class Verdict(BaseModel):
    """A small answer."""

    word: str
    score: float = Field(ge=0.0, le=1.0)


GOOD = filled("Verdict", {"word": "yes", "score": 0.5})


def question(text: str, name: str = "judge", **more: Any) -> Prompt:
    """A small question."""
    return Prompt(name, lambda: "You judge.", lambda: text, **more)


def many(count: int, first: int = 0) -> list[Prompt]:
    """So many different ones."""
    return [question(f"Question {number}?") for number in range(first, first + count)]


class Time:
    """A clock that only sleeping moves, and what happens at each sleep."""

    def __init__(self, *events: Callable[[], Any]) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._events = list(events)

    def clock(self) -> float:
        """Seconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        self.slept.append(seconds)
        self.now += seconds
        if self._events:
            self._events.pop(0)()
        await asyncio.sleep(0)


def asked(
    prompts: Sequence[Prompt], ledger: Any = None, time: Time | None = None, **chosen: Any
) -> tuple[list[ModelAnswer[Verdict]], Language]:
    """One whole run on simulated time: a language is made, asks everything, and is closed."""
    simulated, books = time or Time(), MemoryLedger() if ledger is None else ledger
    settings = LanguageSettings.model_validate({"model": "anthropic/claude-haiku-4-5", **chosen})

    async def go() -> tuple[list[ModelAnswer[Verdict]], Language]:
        async with Language(settings, books, clock=simulated.clock, sleep=simulated.sleep) as language:
            return await language.ask_many(prompts, Verdict, "judge"), language

    return asyncio.run(go())
