"""The command line: a contract that scripts rely on, and manners that people do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import EPOCH
from console import Console as Run
from console import console
from messages_api import MessagesApi, message
from stores import fact as known_fact
from stores import remembered
from talk import CLAUDE, EXAMPLES, NOW, contents, rows, said, written
from test_why import (
    APRIL,
    MARCH,
    NEOVIM,
    VIM,
    place,  # noqa: F401 (a fixture)
)
from typer.testing import CliRunner

from apps import printing
from apps.cli import COMMANDS as LISTED_COMMANDS
from apps.cli import app, app_for, app_to_complete
from slowwave.__main__ import use_few_heaps
from storage.store import Store


def _declared(group: Any, *names: str) -> dict[tuple[str, ...], Any]:
    """Every command under the words that call it, those of groups included."""
    found: dict[tuple[str, ...], Any] = {}
    for name, command in group.commands.items():
        found |= _declared(command, *names, name) if hasattr(command, "commands") else {(*names, name): command}
    return found


DECLARED = _declared(typer.main.get_command(app))
COMMANDS = tuple(DECLARED)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command line in an empty folder, as the console script does."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("COLUMNS", "250")

    return console(monkeypatch, capsys)


@pytest.fixture
def store(learned: tuple[Path, dict[str, Any]]) -> Path:
    """The store of the examples, to be looked at."""
    return learned[0]


# Help


@pytest.mark.proof
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_and_every_option_explains_itself(run: Run, command: tuple[str, ...]) -> None:
    helped = run(*command, "--help")
    assert helped.code == 0
    declared = DECLARED[command]
    assert declared.help
    for parameter in declared.params:
        assert parameter.help, (command, parameter.name)
        assert parameter.name is not None
        names = (*parameter.opts, parameter.metavar or parameter.name)
        assert any(name.lower() in helped.out.lower() for name in names), parameter.name


def test_every_command_takes_the_common_options() -> None:
    for (name, *_), command in DECLARED.items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options or name == "mcp", name  # its standard output is the protocol's
        if name not in ("demo", "init", "down"):  # "down" stops what is on a port
            assert {"--store", "--namespace"} <= options, name


# Documents of --json


@pytest.mark.proof
def test_recall_gives_exactly_the_document_that_scripts_rely_on(run: Run, store: Path) -> None:
    found = run("recall", "Why Redis Streams?", "--k", 3, "--store", store, "--json")
    assert found.code == 0
    document = found.json
    assert list(document) == ["query", "facts", "took_ms", "passages"]
    assert document["query"] == "Why Redis Streams?"
    assert len(document["facts"]) == 3
    for fact in document["facts"]:
        assert list(fact) == [
            "id", "statement", "subject", "predicate", "object", "score", "confidence", "status", "valid_from",
            "valid_to", "aspects", "provenance", "polarity", "event_at", "event_precision",
            "conflicts_with", "replaces",
        ]  # fmt: skip
        assert fact["status"] == "active"
        assert isinstance(fact["aspects"], list)
        for source in fact["provenance"]:
            assert list(source) == ["conversation_id", "message_id", "quote", "occurred_at"]
    for passage in document["passages"]:
        assert list(passage) == [
            "conversation_id", "message_id", "role", "speaker", "text", "occurred_at", "score",
        ]  # fmt: skip
    assert document["facts"][0]["provenance"]


def test_stats_gives_exactly_the_document_that_scripts_rely_on(run: Run, store: Path) -> None:
    document = run("stats", "--store", store, "--json").json
    assert list(document) == ["messages", "quoted", "facts", "entities", "communities", "commits", "llm"]
    assert list(document["facts"]) == ["live", "candidate", "rejected", "superseded", "retracted", "archived"]
    assert list(document["llm"]) == ["calls", "tokens_in", "tokens_out", "usd"]
    assert document["messages"] == rows(store, "messages").height
    assert document["entities"] == rows(store, "entities").height
    by_status = dict(rows(store, "facts")["status"].value_counts().iter_rows())
    assert document["facts"]["superseded"] == by_status.get("superseded", 0)
    assert 0 < document["facts"]["live"] <= by_status["active"]
    assert document["llm"] == {"calls": 0, "tokens_in": 0, "tokens_out": 0, "usd": 0.0}


@pytest.mark.proof
@pytest.mark.parametrize(
    ("args", "keys"),
    [
        (("entities",), {"total", "entities"}),
        (("facts", "Devon Clarke"), {"entity", "facts"}),
        (("doctor",), {"mended", "findings"}),
        (
            ("quality",),
            {"messages", "gates", "refusals", "common_first_words", "learned_prototypes", "retrieval_events", "use"},
        ),
    ],
)
def test_reading_commands_print_one_document_or_a_table(
    run: Run, store: Path, args: tuple[str, ...], keys: set[str]
) -> None:
    told = run(*args, "--store", store, "--json")
    assert (told.code, told.err) == (0, "")
    assert set(told.json) == keys
    shown = run(*args, "--store", store)
    assert shown.code == 0
    assert len(shown.out) > 7
    with pytest.raises(json.JSONDecodeError):
        json.loads(shown.out)


def test_history_tells_when_each_version_held_why_it_ended_and_by_what(
    run: Run,
    place: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(printing.out, "_width", 240)  # in which no cell of a table is broken
    store = ("--store", place)
    document = run("history", "Marta", "USES", *store, "--json").json
    assert [(one["id"], one["valid_from"], one["valid_to"], one["known_from"]) for one in document["facts"]] == [
        ("f_1a_0e", MARCH.isoformat(), None, APRIL.isoformat()),
        (NEOVIM, MARCH.isoformat(), None, APRIL.isoformat()),
        (VIM, EPOCH.isoformat(), MARCH.isoformat(), EPOCH.isoformat()),
    ]
    old = document["facts"][-1]
    why = "A later message replaces it (temporal_change)."
    assert (old["why"], old["ended_by"], old["known_to"]) == (why, NEOVIM, APRIL.isoformat())
    shown = run("history", "Marta", "uses", *store).out
    for words in (
        "2026-01-01 → 2026-03-01 Marta uses vim. (no longer)", "replaced: A later message replaces it. →",
        "→ Marta uses neovim. 0b",
        "(disputed by “Marta never uses [red]neovim[/].”)",
    ):  # fmt: skip
        assert words in " ".join(shown.split())
    assert "negated" not in shown  # what denies says so itself
    for narrow in (("--limit", 1), ("--relation", "uses"), ("--known-as-of", "2026-03-31", "uses")):
        assert len(run("history", "Marta", *narrow, *store, "--json").json["facts"]) == 1
    nothing = run("history", "Marta", "emacs", *store)
    assert (nothing.code, "Nothing is known about Marta that says 'emacs'" in nothing.out) == (0, True)


def test_an_unknown_entity_or_id_names_what_is_like_it_and_nothing_else(run: Run, tmp_path: Path) -> None:
    store = ("--store", remembered(tmp_path / "m", [known_fact("f_0a", "Tomás rows.", subject_id="e_tomas")],
             more={"entities": [{"id": "e_tomas", "canonical_name": "tomás rey", "name": "Tomás Rey"}]}))  # fmt: skip
    for slip in ("Tomas", "tomas ray", "Reyy"):
        assert "Did you mean 'Tomás Rey'?" in run("facts", slip, *store).err
    for command, way in ((("facts", "Jonas"), "slowwave entities"), (("why", "nonsense"), "slowwave facts NAME")):
        ended = run(*command, *store)
        assert (ended.code, way in ended.err, "Tomás" in ended.err, "f_0a" in ended.err) == (2, True, False, False)


@pytest.mark.proof
@pytest.mark.parametrize(("good", "code"), [(True, 0), (False, 1)])
def test_lines_that_cannot_be_read_are_counted_and_end_with_one_if_all_are_such(
    run: Run, tmp_path: Path, good: bool, code: int
) -> None:
    line = json.dumps({"conversation_id": "c", "role": "user", "content": "I live in Porto."})
    lost = json.dumps({"conversation_id": "c", "role": "user"})
    (tmp_path / "talk").mkdir()
    (tmp_path / "talk" / "a.jsonl").write_text("\n".join([lost, lost, *([line] if good else [])]))
    for more in (("--store", tmp_path / "m"), ("--store", tmp_path / "j", "--json")):
        ended = run("ingest", tmp_path / "talk", "--llm", "quotes", *more)
        assert ended.code == code
        if "--json" in more:
            assert ended.json["counts"]["lines skipped"] == 2
        else:
            assert "neither content nor text" in ended.err
            assert all(f"a.jsonl, line {n}: " in ended.err for n in (1, 2))


def test_an_id_that_several_rows_begin_with_is_not_guessed(run: Run, store: Path) -> None:
    many = run("why", "f_", "--store", store)
    assert many.code == 2
    assert "several begin like that" in many.err


# Exit codes


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("ingest", "nowhere.jsonl"), 2, "There is no file or folder 'nowhere.jsonl'"),
        (("ingest",), 2, "Name files or folders"),
        (("ingest", EXAMPLES / "bad" / "not-a-format.bin"), 2, "claude-code"),
        (("ingest", EXAMPLES / "documents", "--format", "pdf"), 2, "Known: auto, chatgpt, claude-ai, claude-code"),
        (("ingest", EXAMPLES / "documents", "--llm", "anthropc/x"), 2, "Did you mean 'anthropic'?"),
        (("ingest", EXAMPLES / "documents", "--llm", CLAUDE), 2, "--llm quotes works without"),
        (("ingest", EXAMPLES / "documents", "--max-calls", -1), 2, "max_calls"),
        (("ingest", EXAMPLES / "documents", "--max-usd", "much"), 2, "--max-usd"),
        (("ingest", EXAMPLES / "documents", "--namespace", "../x"), 2, "cannot be a namespace"),
        (("recall", "x", "--k", 0), 2, "--k"),
        (("recall",), 2, "QUERY"),
        (("recall", "x", "--colour"), 2, "--colour"),
        (("remember",), 2, "remember"),
        (("stats",), 2, "slowwave ingest PATH"),
    ],
)
def test_unusable_arguments_end_with_two_and_a_sentence_and_make_nothing(
    run: Run, tmp_path: Path, args: tuple[object, ...], code: int, words: str
) -> None:
    ended = run(*args)
    assert ended.code == code
    assert words.lower() in " ".join(ended.err.replace("│", " ").split()).lower()
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.proof
def test_messages_that_could_not_be_extracted_end_with_one_and_are_tried_again(
    run: Run, tmp_path: Path, serve: Callable[..., MessagesApi]
) -> None:
    talk = written(tmp_path / "talk.jsonl", said())
    ingest = ("ingest", talk, "--store", tmp_path / "m", "--llm", CLAUDE, "--json")
    serve().script.append(message([], stop="max_tokens"))
    first, second = run(*ingest), run(*ingest)
    assert (first.code, first.json["state"]) == (1, "incomplete")
    assert "once more" in first.err
    assert (second.code, second.json["state"]) == (0, "completed")


def test_a_namespace_that_another_writer_holds_ends_with_four(
    run: Run, memory_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_RETRIES", "off")
    Path("slowwave.toml").write_text("[retention]\nlease_wait_s = 0.1\n")
    with Store.open(str(memory_copy)).commit("other", "test", NOW):
        ended = run("upkeep", "--store", memory_copy, "--json")
    assert ended.code == 4
    assert "is being written" in ended.json["error"]


def test_an_error_nobody_foresaw_is_one_sentence_with_the_exit_code_one(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **more: Any) -> Any:
        raise RuntimeError("disk on [fire]")

    monkeypatch.setattr("recall.overview.stats", broken)
    ended = run("stats", "--store", store, "--json")
    assert ended.code == 1
    assert ended.json["error"] == "disk on [fire]"
    assert "Unexpected RuntimeError: disk on [fire]" in ended.err
    monkeypatch.setenv("SLOWWAVE_DEBUG", "1")
    with pytest.raises(RuntimeError, match="fire"):
        run("stats", "--store", store)


# Where settings come from


def test_the_store_comes_from_the_flag_then_the_environment_then_the_folder(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_STORE", str(store))
    assert run("stats", "--json").json["messages"] > 0
    assert "elsewhere" in run("stats", "--store", tmp_path / "elsewhere").err
    monkeypatch.delenv("SLOWWAVE_STORE")
    assert "./memory" in run("stats").err


@pytest.mark.proof
def test_settings_come_from_the_file_of_the_folder_with_the_names_that_other_systems_use(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("slowwave.toml").write_text("[graph]\nrecall_limit = 2\n[pipeline]\ningest_min_len = 0\n")
    assert len(run("recall", "Why Redis Streams?", "--store", store, "--json").json["facts"]) == 2
    talk = written(tmp_path / "talk.jsonl", said())
    summary = run("ingest", talk, "--store", tmp_path / "m", "--llm", "quotes", "--json").json
    assert "length" not in summary["refused"]
    other = tmp_path / "other.toml"
    other.write_text("[recall]\nk = 3\n")
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(other))
    assert len(run("recall", "Why Redis Streams?", "--store", store, "--json").json["facts"]) == 3
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(tmp_path / "none.toml"))
    assert "none.toml" in run("stats", "--store", store).err
    other.write_text("[recall\n")
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(other))
    assert "not valid TOML" in " ".join(run("stats", "--store", store).err.split())
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(tmp_path))
    assert "cannot be read: Is a directory" in run("stats", "--store", store).err


def test_init_writes_settings_that_work_and_does_not_overwrite_them(run: Run, store: Path) -> None:
    assert run("init", "--no-graph", "--model", "quotes", "--json").json == {"written": "slowwave.toml"}
    assert "enabled = false" in Path("slowwave.toml").read_text()
    assert run("stats", "--store", store).code == 0
    assert run("init", "--graph", "--model", "auto").code == 2
    assert run("init", "--graph", "--model", "auto", "--force").code == 0
    assert run("init", "--graph", "--model", 'x"\n[recall]\nk = 1', "--force").code == 0
    assert run("stats", "--store", store).code == 0
    assert len(run("recall", "Why Redis Streams?", "--store", store, "--json").json["facts"]) == 10


# Keeping the house


@pytest.mark.proof
def test_a_run_can_be_looked_at_tried_and_taken_back(run: Run, memory_copy: Path, learned: Any) -> None:
    name = learned[1]["run"]
    [listed] = run("runs", "--store", memory_copy, "--json").json["runs"]
    assert (listed["id"], listed["state"], listed["flow"]) == (name, "completed", "ingest")
    assert name in run("runs", "--store", memory_copy).out
    before = contents(memory_copy)
    assert run("undo", name[:-3], "--dry-run", "--store", memory_copy, "--json").json["runs"] == [name]
    tried = run("undo", name, "--dry-run", "--store", memory_copy, "--json").json
    assert tried["dry_run"]
    assert tried["removed"]["facts"] == len(before["facts"])
    assert contents(memory_copy)["facts"].equals(before["facts"])
    assert run("undo", name, "--store", memory_copy).code == 0
    assert run("stats", "--store", memory_copy, "--json").json["messages"] == 0
    assert run("undo", name, "--store", memory_copy).code == 4
    assert {entry["state"] for entry in run("runs", "--store", memory_copy, "--json").json["runs"]} >= {"undone"}
    assert run("ingest", EXAMPLES / "documents", "--store", memory_copy).code == 0
    several = run("undo", "ingest-", "--store", memory_copy)
    assert (several.code, "several begin like that" in several.err) == (2, True)


# What a command line imports


def test_what_else_to_run_is_said_with_the_options_that_find_the_store(
    run: Run, memory_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("observe", "Ada", "Ada drinks rooibos.", "--create")
    given = run(*words, "--store", memory_copy)
    assert "Back with: slowwave undo " in given.out
    assert given.err.strip().splitlines()[-1] == f"Commands named here need --store {memory_copy} too."
    refused = run(*words[:2], "Ada keeps bees.", "Thanks!", "--store", memory_copy)
    assert refused.code
    assert refused.err.strip().splitlines()[-1] == given.err.strip().splitlines()[-1]
    monkeypatch.setenv("SLOWWAVE_STORE", str(memory_copy))
    assert "Commands named here" not in run(*words[:2], "Ada drinks mate.").err


def test_the_list_of_commands_is_that_of_all_modules() -> None:
    whole = CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app_for(["--help"]), ["--help"]).output == whole
    assert CliRunner().invoke(app_for([]), []).output == CliRunner().invoke(app, []).output
    assert {*typer.main.get_command(app).commands} == {*LISTED_COMMANDS}  # type: ignore[attr-defined]


def imported_by(commands: Sequence[Sequence[str]], names: Sequence[str]) -> list[str]:
    """Which of these modules a fresh interpreter has imported after these command lines."""
    code = f"""
import sys
from slowwave.__main__ import main
for words in {[list(words) for words in commands]}:
    sys.argv = ["slowwave", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
print("IMPORTED", *[name for name in {list(names)} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *found = done.stdout.splitlines()[-1].split()
    assert first == "IMPORTED"
    return found


@pytest.mark.parametrize(
    ("commands", "absent"),
    [
        ([["--help"], ["--version"]], ["lancedb", "polars", "prefect", "numpy"]),
        ([["recall", "--help"]], ["lancedb", "prefect", "anthropic", "hdbscan"]),
        (
            [
                [name, "--help"]
                for name in ("ingest", "stats", "pin", "undo", "doctor", "why", "facts", "forget", "export")
            ],
            ["lancedb", "polars", "prefect", "numpy"],
        ),
    ],
)
def test_help_imports_nothing_heavy(commands: list[list[str]], absent: list[str]) -> None:
    assert imported_by(commands, absent) == []


@pytest.mark.parametrize(("given", "heaps"), [({}, str(max(2, os.cpu_count() or 2))), ({"MALLOC_ARENA_MAX": "7"}, "7")])
def test_commands_and_what_they_start_have_few_heaps_unless_the_environment_says_how_many(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], heaps: str
) -> None:
    monkeypatch.setattr("os.environ", dict(given))
    use_few_heaps()
    assert os.environ["MALLOC_ARENA_MAX"] == heaps


@pytest.mark.proof
def test_reading_imports_no_prefect_no_model_and_nothing_of_how_messages_are_read(tmp_path: Path) -> None:
    remembered(tmp_path / "m", [known_fact("a", "Marta works at Ferrywise.")])
    absent = [
        "prefect", "anthropic", "instructor", "hdbscan", "model2vec", "huggingface_hub", "scipy", "opentelemetry",
        "tasks.runtime.engine", "slowwave.reading.extraction.dates", "slowwave.facts.revision.candidates",
        "lance_namespace_urllib3_client.api",
    ]  # fmt: skip
    reading = [[command, "Marta", "--json", "--store", str(tmp_path / "m")] for command in ("recall", "context")]
    assert imported_by(reading, absent) == []


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["up"], {"up", "upkeep", "recall"}),
        (["--version", "split"], {"split", "up", "upkeep"}),
        (["up", ""], {"up"}),
        ([], {"up", "upkeep", "recall"}),
    ],
)
def test_the_word_that_is_being_completed_chooses_no_module(words: list[str], offered: set[str]) -> None:
    line = ["slowwave", *words]
    in_bash = {"COMP_WORDS": "\n".join([*line, "down"]), "COMP_CWORD": str(len(line) - 1)}
    for environ in (in_bash, {"_TYPER_COMPLETE_ARGS": " ".join(line)}):
        made = app_to_complete(environ)
        names = {each.name for each in (*made.registered_commands, *made.registered_groups)}
        assert offered <= names
        assert ("recall" in names) == ("recall" in offered or "split" in offered)


def test_another_time_counts_as_now_where_messages_are_of_days_to_come(run: Run, tmp_path: Path) -> None:
    rows = [
        {"conversation_id": "c", "speaker": "Nora", "content": text, "occurred_at": at}
        for text, at in (("I moved to Kiel last week.", "2036-05-01"), ("My cat Mio caught a mouse.", "2036-06-02"))
    ]
    talk, store = written(tmp_path / "talk.jsonl", rows), ("--store", tmp_path / "m")
    assert "in the future was set to now" in run("ingest", talk, "--store", tmp_path / "other").err
    assert "in the future" not in run("ingest", talk, "--now", "2036-07-01", *store).err
    (fact,) = run("recall", "Kiel", "--now", "2036-07-01", "--k", "1", "--json", *store).json["facts"]
    assert fact["provenance"][0]["occurred_at"].startswith("2036-05-01")
    assert "Kiel" in run("context", "Kiel", "--now", "2036-07-01", *store).out
    assert run("sleep", "--now", "2036-07-01", "--no-gate", "--json", *store).json["errors"] == []
    assert run("recall", "Kiel", "--now", "soon", *store).code == 2
