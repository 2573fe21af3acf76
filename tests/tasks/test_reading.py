"""Files and folders as people have them: every format, every kind of damage, sizes beyond memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slowwave.common.errors import SlowwaveError, UnusableInput
from slowwave.common.settings import IngestSettings
from slowwave.reading.ingestion.conversations import Conversations
from slowwave.reading.ingestion.parsers import FORMATS
from tasks.ingest.reading import ReadBatch, read_source
from tasks.ingest.sources import ReadIssue, find_sources
from tasks.runtime.run_pages import markdown_table

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
EXAMPLES = Path(__file__).parents[2] / "examples"


def said(number: int, content: str = "I live in Faro.", **fields: Any) -> dict[str, Any]:
    return {
        "conversation_id": "c", "message_id": f"m{number}", "role": "user", "content": content,
        "occurred_at": f"2026-03-02T09:{number // 60 % 60:02}:{number % 60:02}Z",
    } | fields  # fmt: skip


def lines(*items: object) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(*paths: Path | str, format: str = "auto", batch: int = 100) -> list[ReadBatch]:
    """All batches; the first one also has what was passed over."""
    how = IngestSettings.model_validate({"extract": {"batch_messages": batch}})
    conversations = Conversations(NOW, 50_000)
    sources, passed_over = find_sources(paths, format)
    batches = [each for source in sources for each in read_source(source, conversations, how)]
    return [replace(batches[0], issues=(*passed_over, *batches[0].issues)), *batches[1:]] if batches else []


def frame(batches: list[ReadBatch]) -> pl.DataFrame:
    return pl.concat([batch.messages for batch in batches])


def issues(batches: list[ReadBatch], kind: str = "unreadable") -> list[ReadIssue]:
    return [issue for batch in batches for issue in batch.issues if issue.kind == kind]


def test_batches_are_never_larger_than_asked_and_the_last_one_says_so(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", lines(*map(said, range(25)), "broken"))
    batches = read(file, batch=10)
    assert [len(batch.messages) for batch in batches] == [10, 10, 5]
    assert [batch.is_last for batch in batches] == [False, False, True]
    assert frame(batches)["ordinal"].to_list() == list(range(25))
    assert [issue.line for issue in issues(batches)] == [26]


@pytest.mark.parametrize("content", ["", "\n\n", " ", "\ufeff"])
@pytest.mark.parametrize("format", ["auto", *FORMATS])
def test_nothing_is_success_with_zero(tmp_path: Path, content: str, format: str) -> None:
    [batch] = read(write(tmp_path / "a.json", content), format=format)
    assert batch.messages.is_empty()
    assert batch.is_last
    assert batch.issues == ()


def test_a_file_that_is_wholly_unusable_fails_with_format_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=r"Nothing in .*a.txt can be read as messages: line 1, not JSON.*--format"):
        read(write(tmp_path / "a.txt", "Just words.\nMore words.\n"), format="messages")
    with pytest.raises(UnusableInput, match=r"b.json is none of the JSON formats.* \(its keys: id, kind\)"):
        read(write(tmp_path / "b.json", '{"id": 1, "kind": "x"}'))
    with pytest.raises(UnusableInput, match=r"c.gz is a gzip archive, not text.*unpack"):
        read(write(tmp_path / "c.gz", b"\x1f\x8b\x08\x00"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"a": 1,\n "b": "x', "line 2, unterminated string"),
        ('{"a": 1,\n "b" 2}', "line 2, expecting ':' delimiter"),
        ("words", "line 1, expecting value"),
    ],
)
def test_json_that_is_broken_is_told_from_json_of_another_kind(tmp_path: Path, content: str, words: str) -> None:
    for name in ("a.json", "a.jsonl"):
        with pytest.raises(UnusableInput, match=f"{name} is not valid JSON: {words}"):
            read(write(tmp_path / name, content))
    other = '[{"kind": 1},\n {"kind": 2}]\n{"kind":' + " " * 300_000  # cut where the first look ends
    with pytest.raises(UnusableInput, match="none of the JSON formats"):
        read(write(tmp_path / "c.json", other))


def test_a_folder_is_read_in_order_without_what_is_hidden_binary_or_installed(tmp_path: Path) -> None:
    write(tmp_path / "b.md", "# Boats\n\nNine.")
    write(tmp_path / "a/deep/notes.txt", "Ten.")
    write(tmp_path / "a/chat.jsonl", lines(said(1)))
    write(tmp_path / "photo.jpg", b"\xff\xd8\xff\x00\x01")
    write(tmp_path / "package.json", '{"name": "x", "version": "1"}')
    write(tmp_path / "code.py", "print(1)")
    for hidden in (
        ".git/config",
        "node_modules/x/README.md",
        ".secret.md",
        "a/.cache/x.txt",
        "memory/default/facts.lance/1.txt",
    ):
        write(tmp_path / hidden, "hidden")
    (tmp_path / "broken-link.md").symlink_to(tmp_path / "gone.md")
    batches = read(tmp_path)
    assert [Path(batch.source.uri).name for batch in batches] == ["b.md", "chat.jsonl", "notes.txt"]
    skipped = sorted(Path(issue.path).name for issue in issues(batches, "skipped"))
    assert skipped == ["code.py", "package.json", "photo.jpg"]


def test_a_damaged_file_in_a_folder_does_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", '{"role": "user", "content": \n{"role": "user", "con\n')
    write(tmp_path / "b.jsonl", lines(said(1)))
    batches = read(tmp_path)
    assert [len(batch.messages) for batch in batches] == [0, 1]
    assert [(issue.line, issue.path.endswith("a.jsonl")) for issue in issues(batches)] == [(1, True), (2, True)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.txt"])
def test_text_is_read_in_any_usual_encoding(tmp_path: Path, encoding: str, name: str) -> None:
    said_so = "João não come açúcar em Évora."
    item = json.dumps(said(1, said_so), ensure_ascii=False)
    content = {"a.jsonl": item, "a.json": f"[{item}]", "a.txt": said_so}[name]
    batches = read(write(tmp_path / name, content.encode(encoding)))
    assert frame(batches)["content"].to_list() == [said_so]
    assert bool(issues(batches, "adjusted")) == (encoding in ("latin-1", "cp1252"))


def test_one_damaged_line_does_not_change_how_the_others_are_read(tmp_path: Path) -> None:
    good = json.dumps(said(1, "Setúbal"), ensure_ascii=False).encode()
    bad = json.dumps(said(2, "Évora"), ensure_ascii=False).encode("latin-1")
    raw_nul = json.dumps(said(3, "a NUL")).replace("NUL", "\x00").encode()
    batches = read(write(tmp_path / "a.jsonl", b"\r\n".join([good, bad, raw_nul])))
    assert frame(batches)["content"].to_list() == ["Setúbal", "Évora", "a"]
    assert [(issue.line, issue.count) for issue in issues(batches, "adjusted")] == [(0, 1), (2, 2)]


def test_a_document_has_its_title_as_speaker_its_path_as_conversation_and_the_time_of_its_file(tmp_path: Path) -> None:
    file = write(tmp_path / "boats.md", "# Boats\n\nNine.\n\n# Prices\n\nFree.")
    os.utime(file, (1_772_442_000, 1_772_442_000))
    found = frame(read(file))
    start = datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert found.select("conversation_id", "ordinal", "role", "speaker", "content", "occurred_at", "scope").rows() == [
        (file.as_posix(), 0, "document", "Boats", "Boats\n\nNine.", start, "global"),
        (file.as_posix(), 1, "document", "Boats", "Prices\n\nFree.", start + timedelta(microseconds=1), "global"),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("kickoff.md", "# Kickoff, 8 September 2026\n\nWe start.\n\n## Goals\n\nTwo."),
        ("2026-09-08-kickoff.md", "# Kickoff\n\nWe start."),
        ("x.md", "---\ndate: September 8, 2026\n---\n# Kickoff of 2 May 2020\n\nWe start."),
    ],
)
def test_a_note_is_of_the_day_that_its_heading_or_file_name_tells(tmp_path: Path, name: str, content: str) -> None:
    days = frame(read(write(tmp_path / name, content)))["occurred_at"].dt.date().unique().to_list()
    assert days == [datetime(2026, 9, 8).date()]


def test_an_edited_document_keeps_the_rows_of_what_did_not_change(tmp_path: Path) -> None:
    file = write(tmp_path / "boats.md", "# Boats\n\nNine.\n\n# Prices\n\nFree.")
    before = frame(read(file))["id"].to_list()
    write(file, "# Harbours\n\nTwo.\n\n# Boats\n\nNine.\n\n# Prices\n\nOne euro.")
    speaker = f"---\ntitle: Boats\n---\n{file.read_text()}"
    after = frame(read(write(file, speaker)))["id"].to_list()
    assert [row in after for row in before] == [True, False]


def test_every_bundled_example_is_read() -> None:
    good = read(EXAMPLES / "conversations", EXAMPLES / "documents", EXAMPLES / "formats")
    assert issues(good) == []
    assert issues(good, "adjusted") == []
    assert {batch.source.format for batch in good} == {"messages", "claude-code", "chatgpt", "markdown"}
    found = frame(good)
    assert len(found) >= 150
    assert found["id"].is_unique().all()
    ordered = found.select(pl.col("occurred_at").is_sorted().over("conversation_id").all()).item()
    assert ordered


def test_every_bundled_source_is_known_by_its_content_and_read_without_loss() -> None:
    good = read(EXAMPLES / "sources")
    assert issues(good) == []
    counts = dict.fromkeys(FORMATS, 0)
    for batch in good:
        counts[batch.source.format] += len(batch.messages)
    read_elsewhere = {"messages", "claude-code", "chatgpt", "text"}
    assert {format for format, count in counts.items() if count} == set(FORMATS) - read_elsewhere
    assert counts == dict.fromkeys(read_elsewhere, 0) | {
        "claude-ai": 6, "codex": 5, "gemini-cli": 4, "slack": 4, "markdown": 2,
    }  # fmt: skip
    spoken = frame(good).filter(role="user")["speaker"].unique().sort().to_list()
    assert spoken == ["Ivo Matos", "Rita Sousa", "user"]


def test_a_slack_thread_goes_on_in_the_file_of_another_day_with_the_names_of_the_list_above() -> None:
    found = frame(read(EXAMPLES / "sources" / "slack")).filter(pl.col("conversation_id").str.contains("/17792641"))
    assert found.select("ordinal", "speaker", pl.col("occurred_at").dt.day()).rows() == [
        (0, "Rita Sousa", 20),
        (1, "Ivo Matos", 21),
    ]
    assert found["content"][0].startswith("Ivo Matos owns the tide display")


def test_the_lists_of_a_slack_export_are_no_unreadable_files(tmp_path: Path) -> None:
    export = tmp_path / "export"
    shutil.copytree(EXAMPLES / "sources" / "slack", export)
    sources, left = find_sources([str(export)], "auto")
    assert ({source.path.name for source in sources}, left) == ({"2026-05-20.json", "2026-05-21.json"}, [])
    (export / "users.json").unlink()
    assert [Path(issue.path).name for issue in find_sources([str(export)], "auto")[1]] == ["channels.json"]


@pytest.mark.parametrize("people", [None, "", "[broken", '{"id": 3}', "link"])
def test_without_a_list_of_people_slack_is_read_with_its_ids(tmp_path: Path, people: str | None) -> None:
    day = '[{"type": "message", "user": "U1", "text": "Nine.", "ts": "1772442000.000100"}]'
    file = write(tmp_path / "harbour" / "2026-03-02.json", day)
    if people == "link":
        elsewhere = write(tmp_path.parent / "elsewhere.json", '[{"id": "U1", "name": "Nora"}]')
        (tmp_path / "users.json").symlink_to(elsewhere)
    elif people is not None:
        write(tmp_path / "users.json", people)
    assert frame(read(file)).select("conversation_id", "speaker").rows() == [("slack/harbour", "U1")]


def test_one_message_of_a_megabyte_is_cut_as_any_other(tmp_path: Path) -> None:
    line = json.dumps({"conversation_id": "c", "speaker": "Ben", "text": "and more " * 110_000})
    batches = read(write(tmp_path / "huge.jsonl", line))
    assert frame(batches)["content"].str.len_chars().max() <= 50_000
    assert "a message longer than the limit was cut" in [issue.reason for issue in issues(batches, "adjusted")]


GARBAGE = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b"{", b"[{", b'{"a":', b"null", b"[]", b'"', b"\xff\xfe", b"```", b'{"role":[]}', b"\x00" * 9]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=GARBAGE | st.lists(GARBAGE, max_size=5).map(b"\n".join), format=st.sampled_from(["auto", *FORMATS]),
       suffix=st.sampled_from([".jsonl", ".json", ".txt", ".md", ""]))  # fmt: skip
def test_no_bytes_raise_anything_but_our_own_errors(tmp_path: Path, content: bytes, format: str, suffix: str) -> None:
    file = write(tmp_path / f"fuzz{suffix}", content)
    with suppress(SlowwaveError):
        assert read(file, format=format)[-1].is_last


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | GARBAGE.map(lambda raw: raw.replace(b"\n", b"")), min_size=1, max_size=12))
def test_no_good_line_is_lost_around_bad_ones(tmp_path: Path, plan: list[bytes | None]) -> None:
    raw = [json.dumps(said(number)).encode() if bad is None else bad for number, bad in enumerate(plan)]
    raw = [b"plain text to begin with", *raw, json.dumps(said(99)).encode()]
    file = write(tmp_path / "fuzz.jsonl", b"\n".join(raw))
    good = [f"m{number}" for number, bad in enumerate(plan) if bad is None] + ["m99"]
    for format in ("messages", "auto"):
        assert set(good) <= set(frame(read(file, format=format))["message_id"].to_list())


@pytest.mark.proof
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_file_of_200_mb_streams_within_one_gib(tmp_path: Path) -> None:
    words = "the board at harbour four shows yesterday's last boat until the service day ends at three o'clock " * 5
    file = tmp_path / "large.jsonl"
    with file.open("w") as target:
        for number in range(100_000):
            target.write(
                f'{{"conversation_id":"c{number // 40}","message_id":"m{number}","role":"user","speaker":"Nora",'
                f'"content":"{number} {words}","occurred_at":"2026-03-02T09:{number % 60:02}:00Z"}}\n'
            )
    script = (
        "import re, sys\nfrom datetime import datetime, UTC\nfrom slowwave.common.settings import IngestSettings\n"
        "from slowwave.reading.ingestion.conversations import Conversations\n"
        "from tasks.ingest.reading import read_source\nfrom tasks.ingest.sources import find_sources\n"
        "def peak(): return re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]\n"
        "start = peak()\n"
        "[source] = find_sources([sys.argv[1]])[0]\nhow = IngestSettings()\n"
        "talks = Conversations(datetime(2026, 11, 20, tzinfo=UTC), 50_000)\n"
        "count = sum(len(b.messages) for b in read_source(source, talks, how))\n"
        "print(count, start, peak())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    count, start, peak = map(int, done.stdout.split())
    assert count == 100_000
    share = file.stat().st_size / 200_000_000
    assert start + (peak - start) / share < 1_048_576


KEY = "\n".join(["-----BEGIN RSA " + "PRIVATE KEY-----", *["A1b2C3d4" * 8] * 40, "-----END RSA " + "PRIVATE KEY-----"])


@pytest.mark.parametrize("name", ["keys.md", "keys.txt"])
def test_no_part_of_a_key_is_left_when_a_document_is_cut_into_passages(tmp_path: Path, name: str) -> None:
    found = frame(read(write(tmp_path / name, f"# Server\n\nOur key:\n\n{KEY}\n\nThe boat leaves at nine.")))
    whole = "\n".join(found["content"])
    assert "A1b2" not in whole
    assert "[redacted:private_key]" in whole
    assert "The boat leaves at nine." in whole
    assert found["has_secret"].any()


def test_no_part_of_a_key_is_left_when_a_long_message_is_cut(tmp_path: Path) -> None:
    filler = "The boat leaves at nine. " * 1990
    found = frame(read(write(tmp_path / "a.jsonl", lines(said(1, f"{filler}\n{KEY}\nbye"), said(2)))))
    assert "A1b2" not in found["content"][0]
    assert found["has_secret"].to_list() == [True, False]


def test_no_part_of_a_secret_is_left_when_what_a_tool_says_is_cut(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    result = {"type": "tool_result", "content": "x " * 240 + token}
    found = frame(read(write(tmp_path / "a.jsonl", lines(said(1, content=[result])))))
    assert "ghp_" not in found["content"][0]
    assert found["content"].str.len_chars().max() == 500


def test_secrets_leave_names_identifiers_scopes_and_titles(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    nested = {"title": f"my {token}", "conversation_id": f"c {token}", "messages": [
        said(1, conversation_id=f"c {token}", message_id=f"m {token}", speaker=f"Nora {token}", scope=f"s {token}"),
    ]}  # fmt: skip
    batches = read(write(tmp_path / "a.jsonl", lines(nested)))
    kept = [*frame(batches).row(0), *batches[0].titles.items()]
    assert token not in str(kept)
    assert str(kept).count("[redacted:github_token]") == 6
    assert frame(batches)["has_secret"].to_list() == [True]


def test_identifiers_that_differ_only_in_an_address_stay_apart(tmp_path: Path) -> None:
    talk = [said(1, conversation_id=f"{name}@example.com", message_id=f"{name}@example.com") for name in ("ana", "bob")]
    found = frame(read(write(tmp_path / "a.jsonl", lines(*talk))))
    assert found["conversation_id"].n_unique() == found["message_id"].n_unique() == 2
    assert not found["conversation_id"].str.contains("@").any()


def test_a_path_with_an_address_in_it_is_not_stored(tmp_path: Path) -> None:
    batches = read(write(tmp_path / "bob@example.com" / "boats.md", "Nine boats."))
    assert "bob@example.com" not in str([batches[0].source.uri, *frame(batches).row(0)])


@pytest.mark.parametrize(
    ("speaker", "name"),
    [
        ("bob@example.com", "bob"),
        ("<bob+news@example.com>", "bob"),
        ("Bob Smith <bob@example.com>", "Bob Smith"),
        ('"Bob Smith" <bob@example.com>', "Bob Smith"),
        ("bob@example.com (Bob Smith)", "Bob Smith"),
        ("@bob", "@bob"),
        ("Bob", "Bob"),
    ],
)
def test_who_speaks_under_an_address_has_a_name(tmp_path: Path, speaker: str, name: str) -> None:
    found = frame(read(write(tmp_path / "a.jsonl", lines(said(1, speaker=speaker)))))
    assert found.select("speaker", "has_secret").rows() == [(name, False)]


def test_stored_text_is_no_markup_in_a_summary() -> None:
    shown = "\n".join(markdown_table(("fact",), [("<img src=x> [a](http://b.c) `d` | **e**\n# f",)]))
    assert r"&lt;img src=x&gt; \[a\]\(http&#58;//b.c\) \`d\` \| \*\*e\*\* \# f" in shown


def test_mail_is_refused_with_the_way_to_read_it(tmp_path: Path) -> None:
    box = write(tmp_path / "mail.mbox", "From n@x.org Mon Mar  2 09:00:00 2026\nFrom: n@x.org\n\nNine.\n")
    with pytest.raises(UnusableInput, match=r"mail, which slowwave does not read.*docs/start\.md"):
        read(box)
    assert frame(read(write(tmp_path / "lines.mbox", '{"role": "user", "content": "Nine."}\n')))["content"].to_list()
