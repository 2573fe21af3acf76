"""A language model on loopback that always gives the same answer to the same question, and counts every request."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Body = dict[str, Any]

KEY = "sk-ant-loopback-0000"
NAME = "anthropic/claude-haiku-4-5"
KNOWN = ("Ferrywise", "Brightwell", "Lisbon", "Porto", "Kestrel", "Redis", "Postgres", "Marta", "Priya", "Anna")
_MESSAGE = re.compile(r'<m n="(\d+)" by="([^"]*)"[^>]*?( context="[^"]*")?>(.*?)</m>', re.DOTALL)
_ENTRY = re.compile(r'<e n="(\d+)"[^>]*>(.*?)</e>', re.DOTALL)
_PAIR = re.compile(r"^#(\d+).*\n(1 \[.*\n2 \[.*)$", re.MULTILINE)
_COMMUNITY = re.compile(r'<community number="(\d+)"')


def answer(tool: str, text: str) -> Body:
    """What fills in the tool: something is learned, now and then something is merged."""
    makers = {"WindowExtraction": _extraction, "Reconciliation": _reconciliation, "CommunitySummaries": _summaries}
    return makers[tool](text) if tool in makers else {"answers": []}


def _extraction(text: str) -> Body:
    fresh = [(int(n), who, said) for n, who, context, said in _MESSAGE.findall(text) if not context]
    relations = [(n, who, name, said) for n, who, said in fresh for name in KNOWN if name in said and name not in who]
    number = {name: n for n, name in _ENTRY.findall(text)}
    facts = [
        {"m": n, "s": f"{who} talks of {name}.", "about": number.get(who, who), "rel": "knows",
         "obj": number.get(name, name), "c": 0.9}
        for n, who, name, _ in relations
    ]  # fmt: skip
    facts += [{"m": n, "s": f"{who}: {said[:90]}", "about": number.get(who, who), "c": 0.9} for n, who, said in fresh]
    names = sorted({who for _, who, _ in fresh} | {name for _, _, name, _ in relations})
    new = [{"name": name, "type": "person" if name not in KNOWN else "concept"} for name in names if name not in number]
    return {"new": new, "facts": facts}


def _reconciliation(text: str) -> Body:
    verdicts = []
    for number, body in _PAIR.findall(text):
        first, second = (frozenset(line.split(" || ")[1].lower().split()) for line in body.splitlines())
        verdicts.append({"n": int(number), "v": "same" if first == second else "unrelated"})
    return {"verdicts": verdicts}


def _summaries(text: str) -> Body:
    found = [{"community": int(n), "summary": f"Group {n} belongs together."} for n in _COMMUNITY.findall(text)]
    return {"summaries": found}


class Model:
    """The server. Whoever asks has an address of their own, under which their questions are counted."""

    def __init__(self) -> None:
        self._asked: dict[str, list[str]] = defaultdict(list)
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def address(self, who: str) -> str:
        """The base URL for the real client."""
        return f"http://127.0.0.1:{self._server.server_port}/{who}"

    def asked(self, who: str) -> list[str]:
        """A digest of every question that came from there, in order."""
        with self._lock:
            return list(self._asked[who])

    def reply(self, who: str, request: Body) -> Body:
        """Note the question and answer it."""
        content = request["messages"][0]["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        tool = request["tools"][0]["name"]
        with self._lock:
            self._asked[who].append(hashlib.sha256(f"{tool}\n{text}".encode()).hexdigest()[:16])
        used = [{"type": "tool_use", "id": "toolu_1", "name": tool, "input": answer(tool, text)}]
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "content": used,
            "stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 100, "output_tokens": 20},
        }  # fmt: skip

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
    model: Model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps(self.server.model.reply(self.path.split("/")[1], request)).encode()
        try:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # whoever asked is dead
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""
