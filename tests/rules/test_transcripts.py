"""What the parsers make of every conversation format, good and bad."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.common.timestamps import parse_time
from slowwave.reading.ingestion.conversations import Conversations
from slowwave.reading.ingestion.formats import Note, load_lines, load_values
from slowwave.reading.ingestion.transcripts import Message, Origin, parse_chatgpt, parse_claude_code, parse_message

ORIGIN = Origin("file", "global")
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NINE = 1_772_442_000_000_000


def said(**fields: Any) -> dict[str, Any]:
    return {"conversation_id": "c", "role": "user", "content": "I live in Faro.", "occurred_at": NINE // 10**6} | fields


def message(found: Iterable[Message | Note]) -> Message:
    [only] = [one for one in found if isinstance(one, Message)]
    return only


def notes(found: Iterable[Message | Note], kind: str = "unreadable") -> list[str]:
    return [one.reason for one in found if isinstance(one, Note) and one.kind == kind]


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("2026-03-02T09:00:00Z", NINE),
        ("Mon, 02 Mar 2026 09:00:00 GMT", NINE),
        (1772442000.25, NINE + 250_000),
        (1772442000000, NINE),
        (NINE, NINE),
        ("20260302", NINE - 9 * 3600 * 10**6),
        (0, 0),
        ("", None),
        (None, None),
    ],
)
def test_a_time_is_read_in_every_usual_notation(written: object, micros: int | None) -> None:
    assert parse_time(written) == micros


@pytest.mark.parametrize(
    "written", ["tomorrow-ish", True, [], {}, float("nan"), float("inf"), 10**400, -(10**400), "2026-13-40", "9" * 400]
)
def test_what_is_no_time_is_a_value_error(written: object) -> None:
    with pytest.raises(ValueError, match="a time"):
        parse_time(written)


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC)))
def test_a_time_survives_iso_notation_exactly(moment: datetime) -> None:
    assert parse_time(moment.isoformat()) == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("fields", "role", "speaker"),
    [
        ({"role": "human"}, "user", "user"),
        ({"role": "model", "name": "Gemma"}, "assistant", "Gemma"),
        ({"role": "Nora Quist"}, "user", "Nora Quist"),
        ({"role": None, "speaker": "Nora"}, "user", "Nora"),
        ({"role": None, "speaker": "Assistant"}, "assistant", "assistant"),
        ({"role": {"role": "user", "name": "Nora"}}, "user", "Nora"),
        ({"role": "user", "speaker": "  Nora \n Quist\u202e"}, "user", "Nora Quist"),
    ],
)
def test_roles_and_speakers_have_one_form(fields: dict[str, Any], role: str, speaker: str) -> None:
    found = message(parse_message(said(**fields), ORIGIN))
    assert (found.role, found.speaker) == (role, speaker)


def test_a_list_of_content_parts_becomes_one_text_and_its_tools_messages_of_their_own() -> None:
    parts = [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "tool_use", "name": "Read", "input": {"path": "a"}},
        {"type": "text", "text": "Done."},
    ]
    found = [one for one in parse_message(said(content=parts, message_id="m"), ORIGIN) if isinstance(one, Message)]
    assert [(one.message_id, one.role, one.content) for one in found] == [
        ("m", "user", "Look.\n\nDone."),
        ("m/1", "tool", 'Read {"path":"a"}'),
    ]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (None, "nothing instead of an object"),
        ({"role": "user"}, "neither content nor text"),
        (said(content=42), "content is a number"),
        (said(conversation_id={}), "conversation_id is an object"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(item: object, reason: str) -> None:
    assert notes(parse_message(item, ORIGIN)) == [reason]


def test_a_time_that_cannot_be_read_costs_the_time_and_not_the_message() -> None:
    found = list(parse_message(said(occurred_at="yesterday-ish"), ORIGIN))
    assert message(found).at is None
    assert notes(found, "adjusted") == ["the time is not one that can be read"]


def claude(content: object, **fields: Any) -> dict[str, Any]:
    role = fields.pop("type", "user")
    return {
        "type": role, "sessionId": "s", "uuid": "u", "cwd": "/home/nora/harbour", "timestamp": "2026-03-02T09:00:00Z",
        "message": {"role": role, "content": content},
    } | fields  # fmt: skip


def test_a_project_folder_is_found_in_a_windows_path() -> None:
    assert message(parse_claude_code(claude("Hi", cwd="C:\\src\\harbour"), ORIGIN)).scope == "harbour"


@pytest.mark.parametrize(
    "line",
    [
        {"type": "summary", "summary": "Boats", "leafUuid": "x"},
        claude("Caveat: …", isMeta=True),
        claude("<command-name>/model</command-name>"),
        claude([{"type": "thinking", "thinking": "hm"}]),
        claude("<system-reminder>be nice</system-reminder>"),
    ],
)
def test_what_claude_code_writes_for_itself_is_skipped_and_counted(line: dict[str, Any]) -> None:
    found = list(parse_claude_code(line, ORIGIN))
    assert len(notes(found, "skipped")) == len(found) == 1


def test_what_a_subagent_is_told_is_not_what_the_user_says() -> None:
    found = message(parse_claude_code(claude("Find every boat.", isSidechain=True), ORIGIN))
    assert (found.role, found.speaker) == ("tool", "subagent")


def node(key: str, parent: str | None, role: str, *parts: object, **fields: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": list(parts)}
    body = {"id": key, "author": {"role": role}, "content": content, "create_time": NINE / 10**6, "metadata": {}}
    return {"id": key, "parent": parent, "children": [], "message": body | fields}


def export(*nodes: dict[str, Any], current: object) -> dict[str, Any]:
    mapping = {one["id"]: one for one in nodes}
    for one in nodes:
        if one["parent"] in mapping:
            mapping[one["parent"]]["children"].append(one["id"])
    return {"conversation_id": "g", "title": "Boats", "mapping": mapping, "current_node": current}


def test_only_the_branch_that_leads_to_the_current_node_is_read() -> None:
    root: dict[str, Any] = {"id": "r", "parent": None, "children": [], "message": None}
    tree = export(
        root, node("a", "r", "user", "Terceira?"), node("b", "a", "assistant", "No."), node("c", "r", "user", "Faro?"),
        node("d", "c", "assistant", {"content_type": "image_asset_pointer"}, "Yes."), current="d",
    )  # fmt: skip
    found = [one for one in parse_chatgpt(tree, ORIGIN) if isinstance(one, Message)]
    assert [(one.message_id, one.content) for one in found] == [("c", "Faro?"), ("d", "Yes.")]
    assert {one.title for one in found} == {"Boats"}


def test_without_a_current_node_the_latest_leaf_is_taken_and_a_circle_ends() -> None:
    late = node("b", "a", "user", "later", create_time=NINE / 10**6 + 5)
    tree = export(node("a", "b", "user", "first"), node("c", "a", "user", "early"), late, current="gone")
    late["children"].clear()
    found = [one.content for one in parse_chatgpt(tree, ORIGIN) if isinstance(one, Message)]
    assert found == ["first", "later"]


def test_hidden_system_and_reasoning_messages_are_skipped_and_tools_marked() -> None:
    hidden = {"is_visually_hidden_from_conversation": True}
    tree = export(
        node("a", None, "system", "x"), node("b", "a", "user", "profile", metadata=hidden),
        node("c", "b", "assistant", content={"content_type": "thoughts", "thoughts": []}),
        node("d", "c", "assistant", content={"content_type": "code", "text": "search()"}, recipient="web"),
        node("e", "d", "user", "Thanks"), current="e",
    )  # fmt: skip
    found = list(parse_chatgpt(tree, ORIGIN))
    assert [(one.role, one.content) for one in found if isinstance(one, Message)] == [
        ("tool", "search()"),
        ("user", "Thanks"),
    ]
    assert len(notes(found, "skipped")) == 3


def test_a_broken_item_of_an_array_hides_none_of_its_neighbours() -> None:
    good = [said(content=f"boat {number}") for number in range(4)]
    parts = [json.dumps(one) for one in good]
    broken = "[\n" + parts[0] + ",\n" + parts[1][:30] + ",\n" + ",\n".join(parts[2:]) + "\n]"
    loaded = list(load_values(broken))
    assert [value for _, value, note in loaded if note is None] == [good[0], good[2], good[3]]
    assert [number for number, _, note in loaded if note] == [2]


@given(st.lists(st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5).map(lambda v: {"v": v})),
       st.sampled_from([None, 1]))  # fmt: skip
def test_an_array_is_read_item_by_item(items: list[object], indent: int | None) -> None:
    assert [value for _, value, _ in load_values(json.dumps(items, indent=indent))] == items


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_nesting_beyond_measure_is_a_note_and_no_crash(opening: str) -> None:
    deep = opening * 200_000
    assert all(note for _, _, note in load_values(deep))
    [(_, _, note)] = load_lines([deep.encode()])
    assert note is not None
    assert note.kind == "unreadable"


def gather(*items: Message, limit: int = 50_000) -> tuple[Any, list[str]]:
    gathered = Conversations(NOW, limit)
    found = [note.reason for item in items for note in gathered.add_all([item])[0]]
    return gathered.take(NOW), found


def spoken(content: str, at: int | None = NINE, conversation: str = "c", message_id: str = "") -> Message:
    return Message(conversation, message_id, "user", "Nora", content, at, "global")


def test_each_conversation_is_in_order_of_time_and_numbered_from_zero() -> None:
    frame, _ = gather(spoken("b", NINE + 2), spoken("x", NINE, "d"), spoken("a", NINE + 1), spoken("c", NINE + 2))
    assert frame.select("conversation_id", "ordinal", "content").rows() == [
        ("c", 0, "a"),
        ("c", 1, "b"),
        ("c", 2, "c"),
        ("d", 0, "x"),
    ]


def test_a_later_part_of_a_conversation_goes_on_counting() -> None:
    gathered = Conversations(NOW, 50_000)
    gathered.add_all([spoken("one")])
    gathered.take(NOW)
    gathered.begin("second")
    gathered.add_all([spoken("two", NINE + 1)])
    assert gathered.take(NOW)["ordinal"].to_list() == [1]


def test_a_message_without_a_time_follows_the_one_before_it() -> None:
    frame, found = gather(spoken("early", None), spoken("a", NINE), spoken("b", None), spoken("c", None))
    micros = frame["occurred_at"].dt.timestamp("us").to_list()
    assert frame["content"].to_list() == ["early", "a", "b", "c"]
    assert micros == [NINE, NINE, NINE + 1, NINE + 2]
    assert len(found) == 3


def test_the_future_is_set_to_now_and_the_far_past_kept() -> None:
    frame, found = gather(spoken("b", 4_102_444_799_000_000), spoken("a", 0), spoken("today", NINE))
    assert frame["occurred_at"].dt.timestamp("us").to_list() == [0, NINE, round(NOW.timestamp() * 10**6)]
    assert found == ["a time in the future was set to now (`--now TIME` keeps it)", "a time before 1990 was kept"]


def test_a_repeated_identifier_counts_once_unless_the_text_differs() -> None:
    frame, found = gather(
        spoken("a", message_id="m"), spoken("a", message_id="m"), spoken("b", message_id="m"),
        spoken("b", message_id="m"), spoken("a", conversation="d", message_id="m"),
    )  # fmt: skip
    assert frame["content"].to_list() == ["a", "b", "a"]
    assert frame["id"].is_unique().all()
    assert found.count("a message that was read before") == 2


def test_messages_without_identifiers_are_told_apart_and_named_alike_on_every_reading() -> None:
    first, _ = gather(spoken("ok"), spoken("ok"), spoken("no"))
    again, _ = gather(spoken("ok"), spoken("ok"), spoken("no"))
    assert first["content"].to_list() == ["ok", "ok", "no"]
    assert first["id"].to_list() == again["id"].to_list()


def test_thinking_and_what_nobody_can_see_is_taken_out_and_long_text_cut_at_a_line() -> None:
    hidden, long = "<think>secret</think>I li\u202eve\x00 in\ud800 Faro.", "a" * 700 + "\n" + "b" * 700
    frame, found = gather(spoken(hidden), spoken(long, NINE + 1), limit=1000)
    assert frame["content"].to_list() == ["I live in? Faro.", "a" * 700]
    assert found == ["a message longer than the limit was cut"]


def test_a_message_of_nothing_but_thinking_or_blanks_is_skipped() -> None:
    frame, found = gather(spoken("<think>hm"), spoken(" \t "), spoken("\u200b"))
    assert frame.is_empty()
    assert found == ["a message without text"] * 3
