"""Exports and sessions that people have: who speaks, in which conversation, when, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import pytest

from slowwave.reading.ingestion.agent_sessions import gemini_sessions, parse_codex, parse_gemini
from slowwave.reading.ingestion.chat_exports import names_of, parse_claude_ai, parse_slack
from slowwave.reading.ingestion.formats import Note, sniff_format
from slowwave.reading.ingestion.parsers import conversation_of
from slowwave.reading.ingestion.transcripts import Message, Origin

ORIGIN = Origin("file", "global")
NINE = 1_772_442_000_000_000  # 2 March 2026, 9:00 UTC


def messages(found: Iterable[Any]) -> list[Message]:
    return [one for one in (each if isinstance(each, Message | Note) else each[1] for each in found)
            if isinstance(one, Message)]  # fmt: skip


def notes(found: Iterable[Any], kind: str = "skipped") -> list[str]:
    values = [each if isinstance(each, Message | Note) else each[1] for each in found]
    return [one.reason for one in values if isinstance(one, Note) and one.kind == kind]


def day(*numbers: int) -> int:
    return round(datetime(*numbers, tzinfo=UTC).timestamp() * 10**6)  # type: ignore[misc,arg-type]


SLACK_DAY = '[\n  {"type": "message", "user": "U1", "text": "Nine.", "ts": "1772442000.000100"}\n]'
GEMINI = (
    '{"sessionId": "s", "projectHash": "h", "startTime": "x", "messages": [{"id": "1", "type": "user", "content": ""}]}'
)
CODEX = '{"timestamp":"2026-03-02T09:00:00Z","type":"session_meta","payload":{"id":"s","cwd":"/src/harbour"}}\n'


@pytest.mark.parametrize("suffix", ["", ".txt", ".md", ".log", ".jsonl", ".json"])
@pytest.mark.parametrize(
    ("head", "format"),
    [
        ('[{"uuid": "c", "name": "Boats", "account": {"uuid": "a"}, "chat_messages": [{"sender": "human"', "claude-ai"),
        (CODEX, "codex"),
        (GEMINI, "gemini-cli"),
        ('{"sessionId":"s","projectHash":"h","startTime":"x"}\n{"id":"1","type":"user","content":""}\n', "gemini-cli"),
        (SLACK_DAY, "slack"),
    ],
)
def test_json_is_known_by_its_keys_under_any_name(head: str, suffix: str, format: str) -> None:
    assert sniff_format(head, suffix) == format


@pytest.mark.parametrize(
    ("head", "suffix", "format"),
    [
        ('{"role": "user", "content": "{\\"type\\": \\"response_item\\", \\"payload\\": {}}"}\n', ".jsonl", "messages"),
    ],
)
def test_what_only_looks_like_another_format_is_read_as_before(head: str, suffix: str, format: str) -> None:
    assert sniff_format(head, suffix) == format


def claude(*listed: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"uuid": "c", "name": "Boats", "account": {"uuid": "a"}, "chat_messages": list(listed)} | fields


def turn(uuid: str, text: str, sender: str = "human", **fields: Any) -> dict[str, Any]:
    return {"uuid": uuid, "text": text, "sender": sender, "created_at": "2026-03-02T09:00:00Z", "content": []} | fields


ROOT = "00000000-0000-4000-8000-000000000000"


def test_of_a_conversation_of_claude_ai_only_the_branch_of_the_last_message_counts() -> None:
    item = claude(
        turn("1", "Nine?", parent_message_uuid=ROOT), turn("2", "No.", "assistant", parent_message_uuid="1"),
        turn("3", "Ten?", parent_message_uuid=ROOT), turn("4", "Yes.", "assistant", parent_message_uuid="3"),
    )  # fmt: skip
    found = list(parse_claude_ai(item, ORIGIN))
    assert [one.content for one in messages(found)] == ["Ten?", "Yes."]
    assert len(notes(found)) == 2


def test_blocks_of_claude_ai_come_before_its_plain_text_and_thoughts_and_files_are_left_out() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Nine."}]
    found = list(parse_claude_ai(claude(turn("1", "Nine.\n```\nblock not supported\n```", content=blocks,
                                             attachments=[{"extracted_content": "a list"}])), ORIGIN))  # fmt: skip
    assert [one.content for one in messages(found)] == ["Nine."]
    assert notes(found) == ["the text of an attached file"]


def slack(**fields: Any) -> dict[str, Any]:
    return {"type": "message", "user": "U1", "text": "Nine.", "ts": "1772442000.000100"} | fields


NORA = {"id": "U1", "name": "nora", "profile": {"real_name": "Nora Quint", "display_name": "nq"}}
CHANNEL = Origin("slack/harbour", "global", names_of([NORA, {"id": "U2", "name": "ben"}]))


def test_a_thread_of_slack_is_a_conversation_with_its_first_message_and_replies_of_other_days() -> None:
    items = [
        slack(thread_ts="1772442000.000100", reply_count=2),
        slack(ts="1772442001.000100", user="U2"),
        slack(ts="1772528400.000100", thread_ts="1772442000.000100", user="U3", user_profile={"real_name": "Ana"}),
    ]
    found = [one for item in items for one in messages(parse_slack(item, CHANNEL))]
    assert [(one.conversation_id, one.speaker, one.at, one.title) for one in found] == [
        ("slack/harbour/1772442000.000100", "Nora Quint", NINE + 100, "#harbour"),
        ("slack/harbour", "ben", NINE + 10**6 + 100, "#harbour"),
        ("slack/harbour/1772442000.000100", "Ana", NINE + 86_400 * 10**6 + 100, "#harbour"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@U1> &amp; <@U9>", "Nora Quint & U9"),
        ("<@U9|ana> in <#C1|quay> and <#C2>", "ana in #quay and #C2"),
        ("see <https://example.com/a|the list>", "see the list (https://example.com/a)"),
        ("2 &lt; 3 <", "2 < 3 <"),
    ],
)
def test_references_of_slack_are_read_as_they_are_shown(text: str, shown: str) -> None:
    assert messages(parse_slack(slack(text=text), CHANNEL))[0].content == shown


def test_bots_of_slack_are_tools_and_its_notices_no_messages() -> None:
    bot = messages(parse_slack(slack(subtype="bot_message", bot_id="B1", user=None, username="ci"), CHANNEL))[0]
    assert (bot.role, bot.speaker, bot.is_excerpt) == ("tool", "ci", True)
    for notice in (slack(subtype="channel_join"), slack(type="huddle"), slack(subtype=["x"])):
        assert len(notes(parse_slack(notice, CHANNEL))) == 1
    assert notes(parse_slack(slack(text=None), CHANNEL), "unreadable") == ["text is nothing"]
    assert notes(parse_slack(slack(ts="soon"), CHANNEL), "adjusted") == ["the time is not one that can be read"]


@pytest.mark.parametrize(
    ("path", "format", "name"),
    [
        ("export/harbour/2026-03-02.json", "slack", "slack/harbour"),
    ],
)
def test_a_conversation_has_the_name_that_tells_it_from_others(path: str, format: str, name: str) -> None:
    assert conversation_of(PurePath(path), format) == name


@pytest.mark.parametrize(
    "head",
    [
        '[{"id": "U1", "team_id": "T", "real_name": "Nora", "profile": {"display_name": "n"}}]',
        '[{"uuid": "a", "full_name": "Nora", "email_address": "x"}]',
        '[{"id": "C1", "name": "quay", "created": 1, "is_archived": false, "members": [], "topic": {}}]',
        '[{"uuid": "p", "name": "x", "prompt_template": "", "docs": [{"filename": "a", "content": "b"}]}]',
    ],
)
def test_lists_of_an_export_are_no_chats(head: str) -> None:
    assert sniff_format(head, ".json") == ""


def codex(kind: str = "response_item", **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-03-02T09:00:00Z", "type": kind, "payload": payload}


def spoken(words: str, role: str = "user") -> dict[str, Any]:
    return codex(type="message", role=role, content=[{"type": "input_text", "text": words}])


@pytest.mark.parametrize(
    "line",
    [
        codex("event_msg", type="user_message", message="Nine?"),
        spoken("<environment_context>\n<cwd>/x</cwd>"),
        spoken("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>"),
    ],
)
def test_what_codex_writes_for_itself_is_skipped_and_counted(line: dict[str, Any]) -> None:
    found = list(parse_codex(line, ORIGIN))
    assert len(notes(found)) == len(found) == 1


def test_of_a_request_from_an_editor_only_the_words_of_the_person_count() -> None:
    words = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nUse pnpm."
    assert messages(parse_codex(spoken(words), ORIGIN))[0].content == "Use pnpm."


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (codex(type="function_call", name="exec", arguments='{"cmd":"ls"}'), 'exec {"cmd":"ls"}'),
        (codex(type="custom_tool_call", name="apply_patch", input="*** Begin"), "apply_patch *** Begin"),
        (codex(type="function_call_output", output={"content": "a.py", "success": True}), "a.py"),
    ],
)
def test_calls_of_tools_in_codex_are_excerpts(line: dict[str, Any], words: str) -> None:
    [found] = messages(parse_codex(line, ORIGIN))
    assert (found.role, found.content, found.is_excerpt) == ("tool", words, True)


def test_a_session_of_gemini_in_lines_has_the_last_form_of_each_message_that_was_not_taken_back() -> None:
    header = {"sessionId": "s", "projectHash": "h", "startTime": "x", "lastUpdated": "x"}
    turns = [{"id": str(n), "type": "gemini" if n % 2 == 0 else "user", "content": f"turn {n}"} for n in range(1, 6)]
    lines = [
        header, turns[0], turns[1] | {"content": ""}, {"$set": {"lastUpdated": "y", "summary": "Boats"}},
        turns[1], turns[2], turns[3], {"$rewindTo": "3"}, {"$set": {"messages": [turns[1], turns[4]]}}, "x",
        turns[0] | {"id": None}, header | {"sessionId": "t"}, turns[0],
    ]  # fmt: skip
    loaded = [(number, line, None) for number, line in enumerate(lines, 1)]
    found = [
        (line, one) for line, value, note in gemini_sessions(loaded) if not note for one in parse_gemini(value, ORIGIN)
    ]
    assert [(line, one.conversation_id, one.content) for line, one in found if isinstance(one, Message)] == [
        (2, "s", "turn 1"),
        (9, "s", "turn 2"),
        (9, "s", "turn 5"),
        (11, "s", "turn 1"),
        (13, "t", "turn 1"),
    ]
    assert {one.title for one in messages(found)} == {"Boats", ""}
    assert [(line, one.kind) for line, one in found if isinstance(one, Note)] == [(10, "unreadable")]
    assert [(line, note.reason) for line, _, note in gemini_sessions(loaded) if note] == [
        (6, "a message that was taken back"),
        (7, "a message that was taken back"),
    ]
