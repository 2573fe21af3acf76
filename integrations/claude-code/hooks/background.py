"""The slow part of the plugin, in a process of its own, with the Python that slowwave is installed in.

- `background.py read`: transcripts that were noted go to the inbox and are read; then the blocks are written.
- `background.py serve`: answers prompts from an open memory, until nobody has asked for half an hour. The first request
  is on standard input.
- `background.py blocks PROJECT…`: the blocks of these projects are written.
- `background.py readers`: who on this machine could read, and what each costs.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import memory as plugin

if TYPE_CHECKING:
    from recall.context import ContextBlock
    from slowwave import OpenMemory

ABOUT = "What was decided, what does the user prefer, and what is still to do?"
ALSO = ("rules, conventions and decisions of this project", "what to remember for next time")
"""What a block at the start of a session answers."""
STRONG = 1.5
"""Least match of a fact or passage, of 3, that a prompt adds: `recall` calls less than 1.1 weak."""
MOST_SENTENCES, MOST_FACTS = 8, 8
"""Of a prompt, each of so many sentences is a question; each of them has so many answers at most."""
IDLE_S, LOOK_S, LINE_S = 1800.0, 20.0, 2.0
MOST_SESSIONS = 50
NICE = 10
BUDGET_SPENT = 3
"""The exit code after which the rest of the messages is stored and waits."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


# Reading


def read() -> None:
    """Hand over all transcripts that were noted, read the inbox, and write the blocks; one process after another."""
    os.nice(NICE)
    with plugin.lock("read.lock"):
        projects = sorted(set(fill_inbox()))
        if plugin.waiting("inbox", ".jsonl"):
            look()
        if projects:
            write_blocks(projects)


def fill_inbox() -> Iterator[str]:
    """Copy each noted transcript into the inbox; the projects that they are of."""
    os.makedirs(plugin.work("inbox"), mode=0o700, exist_ok=True)
    for name in plugin.waiting("notes", ".json"):
        path = plugin.work("notes", name)
        noted_at = os.stat(path).st_mtime_ns
        try:
            with open(path, encoding="utf-8") as file:
                note = json.load(file)
            copy(note["transcript"], plugin.work("inbox", f"{name.removesuffix('.json')}.jsonl"), note["project"])
            yield note["project"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{path}: {error!r}")
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                continue  # it may be readable another time
        if os.stat(path).st_mtime_ns == noted_at:  # else more was said meanwhile
            os.remove(path)


def copy(transcript: str, target: str, project: str) -> None:
    """Copy the messages of a transcript, all of them as said in the folder of the project."""
    part = f"{target}.part"
    private = partial(os.open, mode=0o600)
    with open(transcript, "rb") as lines, open(part, "w", encoding="utf-8", opener=private) as copied:
        for line in lines:
            with suppress(ValueError, RecursionError):
                message = json.loads(line)
                if isinstance(message, dict) and message.get("type") in ("user", "assistant"):
                    message.pop("toolUseResult", None)  # the result of a tool once more, often a whole file
                    copied.write(json.dumps(message | {"cwd": f"/{project}"}) + "\n")
    if os.path.getsize(part):
        os.replace(part, target)
    else:
        os.remove(part)


def look() -> None:
    """Let slowwave read the inbox. What was stored is removed; after any other end it stays, for the next time."""
    names = plugin.waiting("inbox", ".jsonl")
    ended = plugin.run(plugin.find_command(), "ingest", plugin.work("inbox"), "--json", *plugin.rules())
    if ended in (0, BUDGET_SPENT):
        for name in names:
            os.remove(plugin.work("inbox", name))


# Blocks


def write_blocks(projects: Iterable[str]) -> None:
    """Write what is known of each project for the start of its next session, without counting it as use."""
    with open_memory(is_logged=False) as memory:
        from recall.order import UNLIKELY  # says that an answer may be lacking, but nobody has asked anything yet

        for project in projects:
            block = memory.context_for(ABOUT, plugin.tokens(), scope=project, also=ALSO).replace(f"{UNLIKELY}\n", "")
            if block:
                plugin.write_whole(plugin.block_file(project), block)
            else:
                with suppress(FileNotFoundError):
                    os.remove(plugin.block_file(project))


def open_memory(*, is_logged: bool) -> OpenMemory:
    """The memory of the plugin, with the settings at home."""
    from slowwave import open_memory

    return open_memory(plugin.store(), is_logged=is_logged)


# Answering


def serve(request: str) -> None:
    """Answer prompts until nobody has asked for a while. There is one server; a second one ends at once."""
    is_only = plugin.lock("server.lock", is_waiting=False)
    if is_only is None:
        return
    with is_only:
        first = json.loads(request)
        with open_memory(is_logged=True) as memory:
            memory.recall(ABOUT, 1, scope="")  # finds nothing, but reads all; raises where there is no memory yet
            server = Server(memory)
            server.answer(first)
            write_blocks({first["project"], *(name.removesuffix(".txt") for name in plugin.waiting("blocks", ".txt"))})
            with listening() as listener:
                server.listen(listener)


@contextmanager
def listening() -> Iterator[socket.socket]:
    """The socket of the server, which only its owner can reach; its file goes with it."""
    os.chdir(plugin.work())
    with suppress(FileNotFoundError):
        os.remove(plugin.SOCKET)  # of a server that was killed
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(plugin.SOCKET)
        listener.listen()
        yield listener
    os.remove(plugin.SOCKET)


class Server:
    """An open memory that answers requests, each a line of JSON."""

    def __init__(self, memory: OpenMemory) -> None:
        self._memory = memory
        self._shown: dict[str, set[tuple[str, str]]] = {}  # (day, line) that each session has seen, latest session last

    def listen(self, listener: socket.socket, idle_s: float = IDLE_S) -> None:
        """Answer one after another, until it is told to stop or nobody has asked for `idle_s` seconds."""
        listener.settimeout(LOOK_S)
        last_at = time.monotonic()
        is_over = False
        while not is_over and time.monotonic() - last_at < idle_s:
            try:
                line, _ = listener.accept()
            except TimeoutError:
                self._memory.close()  # writes which facts were recalled
                continue
            last_at = time.monotonic()
            with line:
                line.settimeout(LINE_S)
                try:
                    is_over = self._answer_line(line)
                except Exception as error:  # one request that fails is none of the others' business
                    print(repr(error), flush=True)

    def _answer_line(self, line: socket.socket) -> bool:
        """Answer one request; whether it was to stop."""
        with line.makefile("rb") as received:
            request = json.loads(received.readline())
        if request.get("stop"):
            return True
        lines = self.answer(request)
        line.sendall(json.dumps({"text": "\n".join(lines)}).encode() + b"\n")
        self._shown[request["session"]].update(dated(lines))  # not where the hook did not wait for them
        return False

    def answer(self, request: dict[str, Any]) -> list[str]:
        """What is strongly known about the prompt and not in the session yet; a request with lines says what is."""
        shown = self._shown.pop(request["session"], set())
        if "lines" in request:  # a session begins, or its context was emptied
            shown = set(dated(request["lines"]))
        self._shown[request["session"]] = shown
        for oldest in list(self._shown)[:-MOST_SESSIONS]:
            del self._shown[oldest]
        block = self._known(request.get("prompt", ""), request["project"])
        new = tuple(line for line in block.lines if (f"{line.day}:", f"- {line.text}") not in shown)
        return replace(block, lines=new).text.splitlines()

    def _known(self, prompt: str, project: str) -> ContextBlock:
        from recall.context import render_context

        questions = [part for part in _SENTENCE.split(prompt) if len(part.split()) >= plugin.LEAST_WORDS]
        answers = self._memory.recall_many(questions[:MOST_SENTENCES], MOST_FACTS, scope=project)
        facts = {one.id: one for answer in answers for one in answer.facts if (one.match or 0.0) >= STRONG}
        passages = {one.text: one for answer in answers for one in answer.passages if (one.match or 0.0) >= STRONG}
        return render_context([*facts.values()], plugin.tokens() // 3, [*passages.values()])


def dated(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each line of a block that tells something, with the line of its day: the same words of another day are new."""
    day = ""
    for line in lines:
        if line.startswith("- "):
            yield day, line
        else:
            day = line


def show_readers() -> None:
    """A line for each reader: the word that chooses it, what it is and costs, or what is missing."""
    from inference.providers import KEPT, QUOTES, find_readers

    for each in find_readers():
        print(f"{each.model}: {each.label}, {each.missing or each.cost}")
    print(f"{QUOTES}: {KEPT}")


def main() -> None:
    os.umask(plugin.PRIVATE)
    verb, words = sys.argv[1], sys.argv[2:]
    if verb == "read":
        read()
    elif verb == "serve":
        serve(sys.stdin.read())
    elif verb == "readers":
        show_readers()
    elif verb == "blocks":
        with plugin.lock("read.lock"):  # not while something is erased
            write_blocks(words)


if __name__ == "__main__":
    main()
