"""A server on loopback that speaks the Messages API, and chat completions, and misbehaves on demand."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

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


class MessagesApi:
    """The server: plays `script` in order, then `otherwise` for ever; remembers what it was asked."""

    def __init__(self, otherwise: Behaviour, *script: Behaviour) -> None:
        self.otherwise = otherwise
        self.script = deque(script)
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
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

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        reply = self.server.api.arrive(request, {name.lower(): value for name, value in self.headers.items()})
        try:
            self._send(reply)
        except OSError:  # the client hung up first
            self.close_connection = True
        finally:
            self.server.api.leave()

    def _send(self, reply: Reply) -> None:
        time.sleep(reply.delay_s)
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
