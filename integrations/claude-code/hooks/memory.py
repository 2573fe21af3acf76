"""The hooks and commands of the plugin. Standard library only, any Python from 3.9 on.

Without arguments it is a hook: one event of Claude Code as JSON on standard input, an answer as JSON or nothing on
standard output. It never fails and never takes longer than PATIENCE_S: what is slow is done by `background.py`, in a
process of its own, with the Python that slowwave is installed in. With arguments it is a slash command: `memory.py ask
QUESTION`; a last argument `-` stands for the text on standard input. Where slowwave is not installed a hook does
nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

PATIENCE_S = 0.25
"""A hook ends after this time, whatever it was doing; the start of Python comes on top."""
SESSION_TOKENS = 600
"""Most tokens of the block at the start of a session; of what a prompt adds, a third of it."""
LEAST_WORDS, LONGEST_PROMPT = 3, 4000
"""Prompts of fewer words ("go on") ask for nothing; of longer ones, in characters, the beginning counts."""
CALLS_A_DAY = 40
"""Calls of a model a day, where a person said yes to one; `max_calls_per_day` in the settings."""
RETRY_S = 60.0
"""So long after a server was started no other one is."""
PRIVATE = 0o077
"""The umask of the plugin: all folders and files that it makes, and its socket, are their owner's alone."""
SOCKET = "socket"
REPOSITORY = os.path.join(".git", "worktrees")
HERE = os.path.dirname(os.path.abspath(__file__))


# Places


def home(*parts: str) -> str:
    """A path below SLOWWAVE_HOME, else ~/.slowwave."""
    return os.path.join(os.environ.get("SLOWWAVE_HOME") or os.path.expanduser("~/.slowwave"), *parts)


def work(*parts: str) -> str:
    """A path below the plugin's own folder: what waits to be read, the blocks, where the server listens."""
    return home("claude-code", *parts)


def store() -> str:
    """SLOWWAVE_STORE, else the folder `memory` at home; never a folder of the project."""
    given = os.environ.get("SLOWWAVE_STORE", "")
    return given if "://" in given else home(given or "memory")


def tokens() -> int:
    """SLOWWAVE_CLAUDE_TOKENS, else the constant."""
    given = os.environ.get("SLOWWAVE_CLAUDE_TOKENS", "")
    return int(given) if given.isdigit() else SESSION_TOKENS


def find_command() -> str:
    """The command `slowwave`: SLOWWAVE_COMMAND, else the first on the PATH; empty where there is none."""
    given = os.environ.get("SLOWWAVE_COMMAND")
    folders = os.environ.get("PATH", "").split(os.pathsep)
    for path in [given] if given else [os.path.join(folder, "slowwave") for folder in folders if folder]:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def find_python(command: str) -> str:
    """The Python beside the command, which can import slowwave; empty where there is none."""
    path = os.path.join(os.path.dirname(os.path.realpath(command)), "python3")
    return path if command and os.access(path, os.X_OK) else ""


def project_of(folder: str) -> str:
    """The project of a folder, which is its scope: the name of the repository around it, else its own.

    A worktree is its repository. A repository that is the whole home folder does not count.
    """
    start = at = os.path.abspath(folder)
    while at != os.path.dirname(at) and (at == start or at != os.path.expanduser("~")):
        git = os.path.join(at, ".git")
        if os.path.isdir(git):
            return _name(at)
        if os.path.isfile(git):
            with open(git, encoding="utf-8", errors="replace") as file:
                main, _, worktree = file.read(4096).strip().partition(os.sep + REPOSITORY + os.sep)
            return _name(main.removeprefix("gitdir:").strip() if worktree else at)
        at = os.path.dirname(at)
    return _name(start)


def _name(folder: str) -> str:
    return " ".join(os.path.basename(folder).split()) or "global"


def block_file(project: str) -> str:
    """Where the block of a project is; its name is that of a folder, and so may be that of a file."""
    return work("blocks", project + ".txt")


def environment() -> dict[str, str]:
    """The environment of every command of slowwave: it works on the store of the plugin."""
    return {"COLUMNS": "200", **os.environ, "SLOWWAVE_STORE": store()}


def write_whole(path: str, text: str) -> None:
    """Write a file that only its owner may read; nobody sees a part of it."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    part = os.path.join(os.path.dirname(path), f".{os.getpid()}.part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def lock(name: str, *, is_waiting: bool = True) -> IO[str] | None:
    """Hold a lock of the plugin until the file is closed; None where it is another's and nobody waits for it."""
    import fcntl

    os.makedirs(work(), exist_ok=True)
    file = open(work(name), "w")  # noqa: SIM115 (whoever holds it closes it)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if is_waiting else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        return None
    return file


# Events


def hook() -> None:
    """Answer one event; nothing at all where anything is amiss, or slowwave is not there."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, float(os.environ.get("SLOWWAVE_CLAUDE_PATIENCE", PATIENCE_S)))
    command = find_command()
    python = find_python(command)
    is_reader = "SLOWWAVE_READER" in os.environ  # Claude Code itself reads for slowwave
    if not python or is_reader or os.environ.get("SLOWWAVE_CLAUDE_CODE") == "off":
        return
    os.umask(PRIVATE)
    event = json.loads(sys.stdin.buffer.read())
    project = project_of(os.environ.get("CLAUDE_PROJECT_DIR") or event["cwd"])
    event = {**event, "session": str(event["session_id"]), "project": project}
    EVENTS[event["hook_event_name"]](event, python)


def session_start(event: dict, python: str) -> None:
    """Add the block that was written last, and wake the server; read what an earlier session left."""
    if tokens():
        block = _text_of(block_file(event["project"]))
        _add(event, block)
        _tell({"session": event["session"], "project": event["project"], "lines": block.splitlines()}, python)
    if waiting("notes", ".json") or waiting("inbox", ".jsonl"):
        start(python, "read")


def prompt(event: dict, python: str) -> None:
    """Add what the server knows about the prompt; where no server answers, one is started for the next prompt."""
    text = event["prompt"][:LONGEST_PROMPT]
    if tokens() and len(text.split()) >= LEAST_WORDS and not text.startswith(("/", "!", "#")):
        _add(event, _tell({"session": event["session"], "project": event["project"], "prompt": text}, python))


def hand_over(event: dict, python: str) -> None:
    """Note where the transcript is, and start to read it. What is noted is read later, should that fail."""
    transcript = os.path.expanduser(event["transcript_path"])
    if os.path.isfile(transcript):
        name = "".join(each for each in event["session"] if each.isalnum() or each == "-")[:80]
        note = {"transcript": os.path.abspath(transcript), "project": event["project"]}
        write_whole(work("notes", (name or "session") + ".json"), json.dumps(note))
        start(python, "read")


EVENTS = {"SessionStart": session_start, "UserPromptSubmit": prompt, "PreCompact": hand_over, "SessionEnd": hand_over}


def _add(event: dict, text: str) -> None:
    if text:
        added = {"hookEventName": event["hook_event_name"], "additionalContext": text}
        print(json.dumps({"hookSpecificOutput": added}), flush=True)


def _tell(request: dict, python: str) -> str:
    """The answer of the server; empty where there is none yet, and then one is started that knows of the session."""
    try:
        return _ask_background(request)["text"]
    except (OSError, ValueError):
        if _may_start():
            start(python, "serve", request=json.dumps({**request, "prompt": ""}))
        return ""


def _ask_background(request: dict) -> dict:
    """What the server answers, or an OSError or ValueError."""
    import socket

    os.chdir(work())  # the path of a socket may have a hundred characters
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(SOCKET)
        line.sendall(json.dumps(request).encode() + b"\n")
        with line.makefile("rb") as answer:
            return json.loads(answer.readline())


def _may_start() -> bool:
    """Whether a server would find a memory, and none was tried a moment ago."""
    import time

    try:
        tried_at = os.stat(work("serve.log")).st_mtime
    except FileNotFoundError:
        tried_at = 0.0
    return ("://" in store() or os.path.isdir(store())) and time.time() - tried_at > RETRY_S


def start(python: str, *arguments: str, request: str = "") -> None:
    """Start `background.py` in a process that outlives this one and writes to a log of its own."""
    import subprocess

    os.makedirs(work(), mode=0o700, exist_ok=True)
    log = os.open(work(arguments[0] + ".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    started = subprocess.Popen(
        [python, os.path.join(HERE, "background.py"), *arguments], cwd=home(), env=environment(),
        stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    started.stdin.write(request.encode())  # what was asked stays out of the list of processes
    started.stdin.close()


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def waiting(place: str, ending: str) -> list[str]:
    """The names of the files that wait in a folder, in order."""
    names = os.listdir(work(place)) if os.path.isdir(work(place)) else []
    return sorted(name for name in names if name.endswith(ending) and not name.startswith("."))


# Commands


def command(verb: str, words: list[str]) -> int:
    """Run a slash command; the exit code is that of slowwave."""
    program = find_command()
    if not program:
        print("slowwave is not installed: there is no command `slowwave` on the PATH. See docs/claude-code.md.")
        return 1
    os.umask(PRIVATE)
    os.makedirs(home(), exist_ok=True)
    project = project_of(os.getcwd())
    if words[-1:] == ["-"]:  # a shell would run code in a text between double quotes
        words = [*words[:-1], sys.stdin.buffer.read().decode(errors="replace").strip()]
    text = " ".join(words)
    commands = {
        "ask": lambda: run(program, "context", "--tokens", "2000", "--scope", project, "--", text),
        "find": lambda: run(program, "recall", "--full", "--k", "5", "--scope", project, "--", text),
        "why": lambda: run(program, "why", "--", text),
        "review": lambda: review(program, words),
        "remember": lambda: remember(program, project, text),
        "forget": lambda: forget(program, words),
        "setup": lambda: setup(program, words),
    }
    if verb in commands:
        return commands[verb]()
    print(f"There is no command {verb!r}. Use {', '.join(commands)}.")
    return 2


def run(program: str, *arguments: str) -> int:
    """Run slowwave at home, so that no `slowwave.toml` of a project counts."""
    import subprocess

    return subprocess.call([program, *arguments], cwd=home(), env=environment())


def review(program: str, words: list[str]) -> int:
    """Show what waits for a person: all, or one; and how a person decides in this store."""
    code = run(program, "review", *(["show", "--", *words[1:]] if words[:1] == ["show"] else ["list"]))
    print(f"A person decides with: ! {_line(program, 'review', 'approve', '--store', store(), 'ID')} (or reject)")
    return code


def _line(*words: str) -> str:
    """A command as a person types it."""
    import shlex

    return " ".join(map(shlex.quote, words))


def remember(program: str, project: str, text: str) -> int:
    """Ingest a message of the user, said now about the project."""
    import contextlib
    import subprocess
    import uuid
    from datetime import datetime, timezone

    if not text.strip():
        print("There is nothing to remember.")
        return 2
    message = {
        "conversation_id": "remembered-" + project, "message_id": str(uuid.uuid4()), "role": "user", "speaker": "user",
        "content": "Remember: " + text, "occurred_at": datetime.now(timezone.utc).isoformat(),  # noqa: UP017 (Python 3.9)
        "scope": project,
    }  # fmt: skip
    path = work("remember", message["message_id"] + ".jsonl")
    write_whole(path, json.dumps(message) + "\n")
    try:
        done = subprocess.run(
            [program, "ingest", path, "--json", *rules()], cwd=home(), env=environment(), stdout=subprocess.PIPE
        )
    finally:
        with contextlib.suppress(FileNotFoundError):  # an erasure removed it
            os.remove(path)
    if done.returncode:
        return done.returncode
    summary = json.loads(done.stdout)
    if summary.get("refused"):
        print("Not kept; refused by: " + ", ".join(summary["refused"]) + ". Say it as a statement, with its subject.")
        return 4
    facts = summary["counts"].get("facts learned", 0)
    undo = _line(program, "undo", "--store", store(), summary["run"])
    print(f"Kept for {project}; new facts: {facts}. It is taken back with: {undo}")
    if python := find_python(program):
        start(python, "blocks", project)
    return 0


def setup(program: str, words: list[str]) -> int:
    """Show who could read the sessions, or keep the choice in the settings, with a limit of calls a day."""
    import subprocess

    if not words:
        python = find_python(program)
        return subprocess.call([python, os.path.join(HERE, "background.py"), "readers"], cwd=home(), env=environment())
    code = run(program, "init", "--graph", "--owner", "", "--model", words[0])
    path = home("slowwave.toml")
    if not code and words[0] != "quotes":
        settings = _text_of(path).replace("[ingest.llm]\n", f"[ingest.llm]\nmax_calls_per_day = {CALLS_A_DAY}\n")
        write_whole(path, settings)
        print(f"{words[0]} reads after each session, with at most {CALLS_A_DAY} calls a day. {path} has both.")
    return code


def rules() -> list[str]:
    """The options by which no model is called, unless somebody wrote settings for this memory."""
    has_settings = "SLOWWAVE_CONFIG" in os.environ or os.path.isfile(home("slowwave.toml"))
    return [] if has_settings else ["--llm", "quotes"]


def forget(program: str, words: list[str]) -> int:
    """Show what an erasure would remove; with --yes, which a person types, erase it here too."""
    import shutil

    if "--yes" not in words:
        code = run(program, "forget", "--dry-run", "--", " ".join(words))
        line = _line("python3", os.path.join(HERE, "memory.py"), "forget", "--yes", *words)
        print(f"Nothing is erased yet. A person erases it with: ! {line}")
        return code
    projects = {project_of(os.getcwd())}
    with _stopped_server(), lock("read.lock"):
        projects.update(name[: -len(".txt")] for name in waiting("blocks", ".txt"))
        code = run(program, "forget", "--yes", "--", " ".join(word for word in words if word != "--yes"))
        if not code:
            for place in ("blocks", "inbox", "remember"):  # a note is but a path
                shutil.rmtree(work(place), ignore_errors=True)
            for name in os.listdir(work()):
                if name.endswith(".log"):
                    os.remove(work(name))
    if python := find_python(program):
        start(python, "blocks", *sorted(projects))
    return code


def _stopped_server() -> IO[str]:
    """Stop the server, which knows what it gave; until the lock that is returned is closed, no other one starts."""
    import contextlib
    import time

    while True:
        with contextlib.suppress(OSError, ValueError):  # there is none, or it does not listen yet
            _ask_background({"stop": True})
        if locked := lock("server.lock", is_waiting=False):
            return locked
        time.sleep(0.05)


def main() -> None:
    if sys.argv[1:]:
        sys.exit(command(sys.argv[1], sys.argv[2:]))
    try:
        hook()
    except Exception as error:  # a hook that fails would be shown to somebody who has other things to do
        if os.environ.get("SLOWWAVE_DEBUG"):
            print(repr(error), file=sys.stderr)


if __name__ == "__main__":
    main()
