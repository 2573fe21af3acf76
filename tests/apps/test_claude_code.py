"""The plugin of Claude Code: a driver that speaks the JSON of hooks, with a transcript of real shape."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from talk import EXAMPLES

from apps.cli import main as slowwave
from recall.order import UNLIKELY
from slowwave.integrations.python_api import OpenMemory

PLUGIN = Path(__file__).parents[2] / "integrations" / "claude-code"
sys.path.insert(0, str(PLUGIN / "hooks"))
import background  # noqa: E402
import memory as plugin  # noqa: E402

sys.path.remove(str(PLUGIN / "hooks"))

SESSION = "b0c45f64-c998-57f0-94e2-69f141965acf"
TRANSCRIPT = EXAMPLES / "formats" / "claude-code-session.jsonl"
"""With messages, calls of tools, summaries, snapshots, a subagent and lines that Claude Code wrote for itself."""
EVENTS: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "startup", "model": "claude-sonnet-4-5"},
    "UserPromptSubmit": {"prompt": "What do the commit messages look like?"},
    "PreCompact": {"trigger": "auto", "custom_instructions": ""},
    "SessionEnd": {"reason": "prompt_input_exit"},
}
"""The fields of each event beside those that all have."""
RECORDER = """#!{python}
import json, os, sys
asked = "" if sys.argv[1:2] == ["ingest"] else sys.stdin.read()
files = [open(path).read() for path in sys.argv[1:] if path.endswith(".jsonl")]
call = {{"argv": sys.argv[1:], "asked": asked, "cwd": os.getcwd(), "files": files}}
call["store"] = os.environ.get("SLOWWAVE_STORE")
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(call) + "\\n")
print(os.environ.get("SAYS", ""))
sys.exit(int(os.environ.get("CODE", 0)))
"""


class Claude:
    """Claude Code as hooks see it, in a project; slowwave is a program that records how it was called."""

    def __init__(self, root: Path) -> None:
        self.home, self.project, self.bin = root / "home", root / "work" / "kestrel-board", root / "bin"
        self.work, self._calls = self.home / "claude-code", root / "calls"
        self.ran: list[tuple[str, ...]] = []
        for folder in (self.home / "memory", self.project, self.bin):
            folder.mkdir(parents=True)
        for name in ("slowwave", "python3"):
            (self.bin / name).write_text(RECORDER.format(python=sys.executable, calls=str(self._calls)))
            (self.bin / name).chmod(0o755)
        self.environment = {
            "HOME": str(root), "PATH": str(self.bin), "SLOWWAVE_HOME": str(self.home), "SLOWWAVE_CLAUDE_PATIENCE": "60",
        }  # fmt: skip

    def event(self, name: str, **fields: Any) -> dict[str, Any]:
        """An event as the documentation of hooks says."""
        common = {"session_id": SESSION, "transcript_path": str(TRANSCRIPT), "cwd": str(self.project)}
        return common | {"permission_mode": "default", "hook_event_name": name} | EVENTS.get(name, {}) | fields

    def hook(self, text: str) -> str:
        """What the hook prints; it must end well and complain about nothing."""
        done = self.run((), text)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def says(self, name: str, **fields: Any) -> str:
        """The context that is added at an event; empty for none."""
        printed = self.hook(json.dumps(self.event(name, **fields)))
        if not printed:
            return ""
        (answer,) = json.loads(printed).values()
        assert answer.keys() == {"hookEventName", "additionalContext"}
        assert answer["hookEventName"] == name
        assert json.loads(printed).keys() == {"hookSpecificOutput"}
        return str(answer["additionalContext"])

    def run(self, words: Sequence[str], text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """The program of the plugin, as hooks.json calls it."""
        return subprocess.run(
            [sys.executable, "-I", "-S", PLUGIN / "hooks" / "memory.py", *words], input=text, capture_output=True,
            text=True, cwd=self.project, env=self.environment | environment, timeout=100, check=False, umask=0,
        )  # fmt: skip

    def calls(self, count: int = 1) -> list[dict[str, Any]]:
        """How slowwave and its Python were called, as soon as that was so many times."""
        for _ in range(1000):
            lines = self._calls.read_text().splitlines() if self._calls.exists() else []
            if len(lines) >= count:
                break
            time.sleep(0.02)
        return [json.loads(line) for line in lines]

    def started(self, count: int = 1) -> list[str]:
        """What was started in the background."""
        return [call["argv"][1] for call in self.calls(count)]

    @property
    def traces(self) -> list[str]:
        """All files of the plugin."""
        return sorted(str(path.relative_to(self.work)) for path in self.work.rglob("*") if path.is_file())


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    return Claude(tmp_path)


@pytest.fixture
def at_home(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> Claude:
    """The background of the plugin works in this process, with slowwave itself."""
    for name, value in (("SLOWWAVE_HOME", claude.home), ("SLOWWAVE_STORE", claude.home / "memory")):
        monkeypatch.setenv(name, str(value))
    (claude.home / "memory").rmdir()

    def run(program: str, *arguments: str) -> int:
        claude.ran.append(arguments)
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        try:
            slowwave()
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    monkeypatch.setattr(plugin, "run", run)
    monkeypatch.setattr(plugin, "find_command", lambda: "slowwave")
    monkeypatch.setattr(os, "nice", lambda _: 0)
    return claude


def note(claude: Claude, transcript: Path = TRANSCRIPT) -> None:
    plugin.write_whole(
        plugin.work("notes", f"{SESSION}.json"), json.dumps({"transcript": str(transcript), "project": "kestrel-board"})
    )


# The manifests


def test_the_manifests_name_one_plugin_whose_hooks_and_commands_are_there() -> None:
    manifest = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())
    market = json.loads((PLUGIN / ".claude-plugin" / "marketplace.json").read_text())
    hooks = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]
    (listed,) = market["plugins"]
    assert (manifest["name"], market["name"]) == (listed["name"], "slowwave")
    assert (PLUGIN / listed["source"] / ".claude-plugin" / "plugin.json").exists()
    assert hooks.keys() == plugin.EVENTS.keys() == EVENTS.keys()
    for ((hook,),) in ([group["hooks"] for group in groups] for groups in hooks.values()):
        (file,) = re.findall(r"\$\{CLAUDE_PLUGIN_ROOT}/(\S+)\"", hook["command"])
        assert (PLUGIN / file).exists()
        assert hook["type"] == "command"
        assert hook["timeout"] > plugin.PATIENCE_S


def test_every_command_describes_itself_and_calls_verbs_that_exist(claude: Claude) -> None:
    commands = {path.stem: path.read_text() for path in (PLUGIN / "commands").glob("*.md")}
    assert commands.keys() == {"ask", "remember", "forget", "why", "review", "setup"}
    for name, text in commands.items():
        _, head, body = text.split("---\n", 2)
        assert re.search(r"^description: \S", head, re.MULTILINE)
        assert "$ARGUMENTS" in body or name == "setup"
        assert "!`" not in body  # would be run by a shell before anybody reads it
        verbs = re.findall(r"memory\.py\" (\w+)", text)
        assert verbs
        for verb in verbs:
            assert "There is no command" not in claude.run([verb, "words"], SAYS='{"counts": {}, "run": "r"}').stdout


@pytest.mark.parametrize("name", ["ask", "remember", "forget", "why", "review"])
def test_no_shell_runs_code_of_the_text_that_a_command_takes(claude: Claude, name: str) -> None:
    text = "Run `echo a >ran` \"$(echo b >ran)\" 'before' each \\ release; $HOME"
    page = (PLUGIN / "commands" / f"{name}.md").read_text()
    lines = [line for line in re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "SLOWWAVE" in line]
    environment = claude.environment | {
        "PATH": os.environ["PATH"], "SLOWWAVE_COMMAND": str(claude.bin / "slowwave"), "CLAUDE_PLUGIN_ROOT": str(PLUGIN),
        "SAYS": '{"counts": {}, "run": "r"}',
    }  # fmt: skip
    assert lines
    for line in lines:
        typed, count = re.subn(r"^[A-Z ]+\n(?=SLOWWAVE)", lambda _: text + "\n", line, flags=re.MULTILINE)
        assert count == 1
        subprocess.run(["sh", "-c", typed], cwd=claude.project, env=environment, capture_output=True, check=True)
        assert not (claude.project / "ran").exists()
    calls = [call for call in claude.calls(len(lines)) if call["argv"][1:2] != ["blocks"]]
    for call in calls[: len(lines)]:
        given = json.loads(call["files"][0])["content"] if name == "remember" else call["argv"][-1]
        assert given.removeprefix("Remember: ") == text


# Hooks


def test_the_same_words_of_another_day_are_another_line() -> None:
    seen = [*background.dated(["head", "8 May:", "- Yes.", "9 May:", "- Yes.", "- No."])]
    assert seen == [("8 May:", "- Yes."), ("9 May:", "- Yes."), ("9 May:", "- No.")]


def test_a_session_begins_with_the_block_of_its_project(claude: Claude) -> None:
    for name, text in (("kestrel-board", "- Always use pnpm."), ("other", "- Always use npm.")):
        (claude.work / "blocks").mkdir(parents=True, exist_ok=True)
        (claude.work / "blocks" / f"{name}.txt").write_text(text)
    assert claude.says("SessionStart") == "- Always use pnpm."
    (call,) = claude.calls()
    assert call["argv"] == [str(PLUGIN / "hooks" / "background.py"), "serve"]
    assert call["store"] == str(claude.home / "memory")
    assert call["cwd"] == str(claude.home)  # a slowwave.toml of the project does not count
    asked = json.loads(call["asked"])
    assert asked == {"session": SESSION, "project": "kestrel-board", "lines": ["- Always use pnpm."], "prompt": ""}
    (claude.work / "serve.log").unlink()
    claude.environment["SLOWWAVE_CLAUDE_TOKENS"] = "0"
    assert claude.says("SessionStart") == ""
    assert not (claude.work / "serve.log").exists()


def test_a_server_is_started_once_in_a_while_and_only_for_a_memory(claude: Claude) -> None:
    (claude.home / "memory").rmdir()
    assert claude.says("SessionStart") == ""
    (claude.home / "memory").mkdir()
    for _ in range(3):
        assert claude.says("UserPromptSubmit") == ""
    assert claude.says("PreCompact") == ""
    assert sorted(claude.started(2)) == ["read", "serve"]


@pytest.mark.parametrize("name", ["PreCompact", "SessionEnd"])
def test_a_transcript_is_noted_and_read_in_the_background(claude: Claude, name: str) -> None:
    assert claude.says(name) == ""
    assert claude.started() == ["read"]
    (noted,) = (claude.work / "notes").iterdir()
    assert json.loads(noted.read_text()) == {"transcript": str(TRANSCRIPT), "project": "kestrel-board"}
    assert noted.stat().st_mode & 0o077 == 0


def test_all_that_the_plugin_makes_is_its_owners_alone(claude: Claude) -> None:
    said = {"SAYS": '{"counts": {"facts learned": 1}, "run": "ingest-1"}'}
    for act in (lambda: claude.says("SessionEnd"), lambda: claude.run(["remember", "The server is heron."], **said)):
        shutil.rmtree(claude.home)
        act()
        claude.calls()
        made = [claude.home, *claude.home.rglob("*")]
        assert len(made) > 3
        assert not [path for path in made if path.stat().st_mode & 0o077]


def test_the_background_works_for_its_owner_alone(at_home: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["background.py", "read"])
    monkeypatch.chdir(at_home.project)  # and back: to listen changes the folder
    before = os.umask(0)
    try:
        background.main()
        with background.listening():
            made = [at_home.work / name for name in ("read.lock", plugin.SOCKET)]
            assert not [path for path in made if path.stat().st_mode & 0o077]
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("change", [{"PATH": ""}, {"SLOWWAVE_CLAUDE_CODE": "off"}, {"SLOWWAVE_COMMAND": "/no/such"}])
def test_nothing_happens_where_slowwave_is_absent_or_switched_off(
    claude: Claude, name: str, change: dict[str, str]
) -> None:
    claude.environment |= change
    assert claude.says(name) == ""
    assert not claude.work.exists()
    assert claude.run(["ask", "why?"]).returncode == (0 if "SLOWWAVE_CLAUDE_CODE" in change else 1)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("SessionEnd", {"transcript_path": "/no/such/file.jsonl"}),
        ("SessionEnd", {"transcript_path": None}),
        ("SessionEnd", {"transcript_path": str(EXAMPLES)}),
        ("UserPromptSubmit", {"prompt": {"a": 1}}),
        ("UserPromptSubmit", {"prompt": "go on"}),
        ("UserPromptSubmit", {"prompt": "/memory:ask what is known about that?"}),
        ("SessionEnd", {"cwd": 7}),
        ("Notification", {"message": "Claude waits"}),
    ],
)
def test_odd_fields_and_other_events_do_no_harm(claude: Claude, name: str, fields: dict[str, Any]) -> None:
    assert claude.says(name, **fields) == ""
    assert claude.traces == []


def test_foreign_fields_are_passed_over_and_no_name_leads_out_of_the_folder(claude: Claude) -> None:
    fields = {
        "project": "../../x",
        "session": "../../y",
        "future": [{}],
        "session_id": "../../../etc/z",
        "agent_id": "a",
    }
    assert claude.says("SessionEnd", **fields) == ""
    claude.started()
    (noted,) = (claude.work / "notes").iterdir()
    assert noted.name == "etcz.json"
    assert json.loads(noted.read_text())["project"] == "kestrel-board"


def test_a_hook_ends_though_the_server_never_answers(
    claude: Claude, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude.work.mkdir()
    monkeypatch.chdir(claude.work)
    claude.environment["SLOWWAVE_CLAUDE_PATIENCE"] = "0.5"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(plugin.SOCKET)
        silent.listen()
        assert claude.says("UserPromptSubmit", prompt="What is known about the board? " * 200_000) == ""


def test_a_hook_imports_next_to_nothing() -> None:
    code = f"import sys; sys.path.append({str(PLUGIN / 'hooks')!r}); import memory; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    slow = {*"subprocess socket typing pathlib tempfile shutil threading asyncio slowwave lancedb".split()}
    assert "memory" in done.stdout.split()
    assert not slow & {name.partition(".")[0] for name in done.stdout.split()}


def test_a_project_is_its_repository_and_else_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()  # somebody keeps settings in a repository: it is no project of all that is below
    for folder in ("plain/sub", "repo/.git/worktrees/fix", "repo/src/deep", "trees/fix/src", "repo/lib", "two  words"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "trees/fix/.git").write_text(f"gitdir: {tmp_path}/repo/.git/worktrees/fix\n")
    (tmp_path / "repo/lib/.git").write_text("gitdir: ../.git/modules/lib\n")
    folders = ("plain/sub", "repo", "repo/src/deep", "trees/fix/src", "repo/lib", "two  words", "gone/away", "")
    projects = [plugin.project_of(str(tmp_path / folder)) for folder in folders]
    assert projects == ["sub", "repo", "repo", "repo", "lib", "two words", "away", tmp_path.name]
    assert plugin.project_of("/") == "global"


# Reading


def test_a_copy_has_the_messages_of_the_project_and_nothing_else(claude: Claude, tmp_path: Path) -> None:
    transcript, target = tmp_path / "t.jsonl", tmp_path / "copied.jsonl"
    big = json.dumps({"type": "user", "cwd": "/else", "toolUseResult": "x" * 5_000_000, "message": {"content": "Hi"}})
    transcript.write_bytes(
        TRANSCRIPT.read_bytes() + b'null\n[1]\n\xff{"\n' + f"{big}\n".encode() + b'{"type": "user", "mess'
    )
    background.copy(str(transcript), str(target), "kestrel-board")
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    own = [json.loads(line) for line in TRANSCRIPT.read_text().splitlines()]
    assert {line["cwd"] for line in lines} == {"/kestrel-board"}
    assert [line["message"] for line in lines[:-1]] == [line["message"] for line in own if "message" in line]
    assert lines[-1] == {"type": "user", "cwd": "/kestrel-board", "message": {"content": "Hi"}}
    assert target.stat().st_mode & 0o077 == 0
    transcript.write_text('{"type": "summary", "summary": "Nothing was said", "leafUuid": "x"}\n')
    background.copy(str(transcript), str(tmp_path / "none.jsonl"), "kestrel-board")
    assert not [*tmp_path.glob("none*")]


@pytest.mark.proof
def test_a_session_is_remembered_in_the_next_one_of_its_project_alone(at_home: Claude, tmp_path: Path) -> None:
    note(at_home)
    background.read()
    begun = at_home.says("SessionStart", session_id="another")
    assert "untrusted data" in begun
    assert UNLIKELY not in begun  # nobody has asked anything yet
    assert "always use pnpm, never npm" in begun
    assert "imperative and without emoji" in begun
    background.write_blocks(["elsewhere"])
    assert os.listdir(at_home.work / "blocks") == ["kestrel-board.txt"]
    assert at_home.says("SessionStart", cwd=str(tmp_path)) == ""
    assert at_home.ran[0][-2:] == ("--llm", "quotes")  # nobody pays without having asked for it
    assert not [name for name in at_home.traces if name.startswith(("notes", "inbox"))]  # no copy stays

    with OpenMemory.open(str(at_home.home / "memory")) as memory:
        before = memory.snapshot.count("messages")
        grown = tmp_path / "grown.jsonl"
        more = json.loads(TRANSCRIPT.read_text().splitlines()[-4]) | {"uuid": "new", "type": "user"}
        more["message"] = {"role": "user", "content": "We moved the kiosks to the server called heron last week."}
        grown.write_text(TRANSCRIPT.read_text() + json.dumps(more) + "\n")
        note(at_home, grown)
        background.read()
        assert memory.snapshot.count("messages") == before + 1
        assert "heron" in memory.context_for("Where do the kiosks run?", 500, scope="kestrel-board")
        _check_prompts(at_home, memory)


def _check_prompts(claude: Claude, memory: OpenMemory) -> None:
    """What a prompt adds, from a server that is there; once in a session, and nothing that is not strong."""
    server, here = background.Server(memory), Path.cwd()
    with background.listening() as listener:
        os.chdir(here)
        thread = threading.Thread(target=server.listen, args=(listener,), daemon=True)
        thread.start()
        try:
            said = claude.says("UserPromptSubmit")
            assert "imperative and without emoji" in said
            assert "untrusted data" in said
            assert "Node 22" not in said
            assert claude.says("UserPromptSubmit") == ""
            assert claude.says("UserPromptSubmit", prompt="Add a dark mode toggle to the settings page.") == ""
            assert claude.says("UserPromptSubmit", cwd="/", session_id="elsewhere") == ""
            mixed = "I changed the footer yesterday.\nWhich version of Node do the kiosks run? Please look."
            assert "Node 22" in claude.says("UserPromptSubmit", prompt=mixed)
            claude.says("SessionStart", source="compact")  # what the block says is in the session now
            assert claude.says("UserPromptSubmit") == ""
            (claude.work / "blocks" / "kestrel-board.txt").unlink()
            claude.says("SessionStart", source="clear")
            assert "imperative and without emoji" in claude.says("UserPromptSubmit")
            assert claude.run(["forget", "--yes", "Barreiro"]).returncode == 0
            thread.join(60)
            assert not thread.is_alive()
        finally:
            os.chdir(claude.work)
    os.chdir(here)


def test_a_transcript_that_cannot_be_read_stays_noted_and_holds_up_nothing(at_home: Claude) -> None:
    note(at_home, at_home.project)  # a folder: whoever is root may read all files
    gone = {"transcript": "/no/such/file.jsonl", "project": "kestrel-board"}
    plugin.write_whole(plugin.work("notes", "z.json"), json.dumps(gone))
    background.read()
    assert at_home.traces == [f"notes/{SESSION}.json", "read.lock"]


# Commands


def test_commands_ask_about_the_project_in_the_store_of_the_plugin(claude: Claude) -> None:
    asked: Callable[..., list[str]] = lambda *words: (claude.run(words), claude.calls()[-1]["argv"])[1]  # noqa: E731
    scope = ["--scope", "kestrel-board"]
    assert asked("ask", "who's --that?") == ["context", "--tokens", "2000", *scope, "--", "who's --that?"]
    assert asked("find", "pnpm") == ["recall", "--full", "--k", "5", *scope, "--", "pnpm"]
    assert asked("why", "f_1") == ["why", "--", "f_1"]
    assert asked("review") == ["review", "list"]
    assert asked("review", "show", "p_1") == ["review", "show", "--", "p_1"]
    assert asked("review", "approve", "p_1") == ["review", "list"]  # that is for persons
    assert {(call["store"], call["cwd"]) for call in claude.calls()} == {
        (str(claude.home / "memory"), str(claude.home))
    }
    assert claude.run(["dance"]).returncode == 2


def test_remember_ingests_a_message_of_the_project_without_a_model(claude: Claude) -> None:
    def ingested() -> dict[str, Any]:
        return [call for call in claude.calls() if call["argv"][0] == "ingest"][-1]

    said = {"SAYS": '{"counts": {"facts learned": 1}, "run": "ingest-1"}'}
    done = claude.run(["remember", "The", "server is heron."], **said)
    assert "ingest-1" in done.stdout
    assert ingested()["argv"][2:] == ["--json", "--llm", "quotes"]
    message = json.loads(ingested()["files"][0])
    assert (message["content"], message["scope"]) == ("Remember: The server is heron.", "kestrel-board")
    assert message["role"] == "user"
    assert not [*(claude.work / "remember").iterdir()]
    assert ["blocks", "kestrel-board"] in [call["argv"][1:] for call in claude.calls(2)]
    (claude.home / "slowwave.toml").write_text("")
    claude.run(["remember", "The server is heron."], **said)
    assert ingested()["argv"][2:] == ["--json"]  # as the settings say
    refused = claude.run(["remember", "ok"], SAYS='{"counts": {}, "run": "ingest-2", "refused": {"durability": 1}}')
    assert refused.returncode == 4
    assert "durability" in refused.stdout


def test_forget_shows_and_only_a_person_erases(claude: Claude) -> None:
    for name in ("blocks/other one.txt", "inbox/failed/a.jsonl", "notes/a.json"):
        (claude.work / name).parent.mkdir(parents=True, exist_ok=True)
        (claude.work / name).write_text("Anna")
    shown = claude.run(["forget", "Anna", "Lee's"])
    assert claude.calls()[-1]["argv"] == ["forget", "--dry-run", "--", "Anna Lee's"]
    assert shown.stdout.rstrip().endswith("forget --yes Anna 'Lee'\"'\"'s'")
    assert len(claude.traces) == 3
    claude.run(["forget", "--yes", "Anna"])
    calls = [call["argv"] for call in claude.calls(3)]
    assert ["forget", "--yes", "--", "Anna"] in calls
    assert calls[-1][1:] == ["blocks", "kestrel-board", "other one"]  # all that were there are written again
    assert [name for name in claude.traces if "lo" not in name] == ["notes/a.json"]  # beside a log, and locks


def test_an_erasure_that_fails_removes_nothing_here(claude: Claude) -> None:
    for name in ("blocks/kestrel-board.txt", "inbox/a.jsonl", "notes/a.json"):
        (claude.work / name).parent.mkdir(parents=True, exist_ok=True)
        (claude.work / name).write_text("Anna")
    before = claude.traces
    assert claude.run(["forget", "--yes", "Anna"], CODE="3").returncode == 3
    assert set(before) <= set(claude.traces)


def test_an_erasure_waits_until_what_is_read_has_been_read_and_no_server_runs(claude: Claude, at_home: Claude) -> None:
    for name in ("remember/a.jsonl", "read.log", "serve.log"):
        plugin.write_whole(str(claude.work / name), "Anna")
    for name in ("read.lock", "server.lock"):
        with ThreadPoolExecutor() as pool:
            with plugin.lock(name):
                erasing = pool.submit(claude.run, ["forget", "--yes", "Anna"])
                time.sleep(0.3)
                assert not [call for call in claude.calls(0) if call["argv"][0] == "forget"]
                assert (claude.work / "remember" / "a.jsonl").exists()
            assert erasing.result().returncode == 0
        assert claude.calls(2)[0]["argv"][0] == "forget"
        assert not {"remember/a.jsonl", "read.log", "serve.log"} & set(claude.traces)
        shutil.rmtree(claude.work)
        (claude.home.parent / "calls").unlink()
        plugin.write_whole(str(claude.work / "remember" / "a.jsonl"), "Anna")


# All of it


@pytest.fixture
def installed(claude: Claude) -> Iterator[Claude]:
    """With slowwave itself; what still runs in the background is stopped."""
    claude.environment["SLOWWAVE_COMMAND"] = str(Path(sys.executable).parent / "slowwave")
    claude.environment["PYTHONPATH"] = str(PLUGIN.parents[1])
    (claude.home / "memory").rmdir()
    yield claude
    claude.run(["forget", "--yes", "nobody at all"])


@pytest.mark.proof
def test_a_session_that_ends_is_in_the_next_one_by_real_processes(installed: Claude) -> None:
    def wait(says: Callable[[], str]) -> str:
        return next(text for _ in range(600) if (text := says()) or time.sleep(0.2))

    assert installed.says("SessionStart") == ""
    assert installed.says("SessionEnd") == ""
    assert "pnpm" in wait(lambda: installed.says("SessionStart", session_id="two"))
    prompt = {"session_id": "three", "prompt": "What do the commit messages look like?"}
    assert "without emoji" in wait(lambda: installed.says("UserPromptSubmit", **prompt))


def test_who_reads_is_chosen_once_and_has_a_limit_of_calls_a_day(claude: Claude) -> None:
    real = {"SLOWWAVE_COMMAND": str(Path(sys.executable).parent / "slowwave"), "PATH": os.environ["PATH"]}
    assert "quotes: nobody" in claude.run(["setup"], **real).stdout
    done = claude.run(["setup", "anthropic/claude-haiku-4-5"], **real)
    assert "at most 40 calls a day" in done.stdout
    kept = tomllib.loads((claude.home / "slowwave.toml").read_text())
    assert kept["ingest"]["llm"] == {"model": "anthropic/claude-haiku-4-5", "max_calls_per_day": 40}
    assert claude.run(["setup", "quotes"], **real).returncode == 2
    assert kept == tomllib.loads((claude.home / "slowwave.toml").read_text())


def test_where_claude_code_itself_reads_the_hooks_are_silent(claude: Claude) -> None:
    (claude.work / "blocks").mkdir(parents=True)
    (claude.work / "blocks" / f"{claude.project.name}.txt").write_text("Ana prefers tabs.")
    started = json.dumps(claude.event("SessionStart"))
    assert "tabs" in claude.run((), started).stdout
    assert claude.run((), started, SLOWWAVE_READER="1").stdout == ""
