"""Exports and sessions that people have: who speaks, in which conversation, when, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import pytest

from slowwave.reading.ingestion.agent_sessions import gemini_sessions, parse_codex, parse_gemini
from slowwave.reading.ingestion.chat_exports import (
    day_order,
    names_of,
    parse_claude_ai,
    parse_cursor,
    parse_slack,
    parse_whatsapp,
)
from slowwave.reading.ingestion.formats import Note, sniff_format
from slowwave.reading.ingestion.mail_and_commits import own_words, parse_git_log, parse_mail
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
COMMIT = "commit 9f1c0d2a4b6e8f\nAuthor: Nora Quint <n@example.com>\nDate:   Mon Mar 2 10:00:00 2026 +0100\n\n"
MAIL = "From: Nora Quint <nora@example.com>\nDate: Mon, 2 Mar 2026 10:00:00 +0100\nMessage-ID: <a@example.com>\n"
CURSOR = "# Boats\n_Exported on 3/20/2026 at 10:00:00 PDT from Cursor (2.4.27)_\n\n---\n\n**User**\n\nWhen?\n"


@pytest.mark.parametrize("suffix", ["", ".txt", ".md", ".log", ".jsonl", ".json", ".mbox"])
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


@pytest.mark.parametrize("suffix", ["", ".txt", ".log", ".mbox"])
@pytest.mark.parametrize(
    ("head", "format"),
    [
        ("[02/03/2026, 21:15:32] Nora: Nine.\n[02/03/2026, 21:16:00] Ben: Ten.", "whatsapp"),
        ("02/03/2026, 21:15 - Nora: Nine.\r\n02/03/2026, 21:16 - Ben: Ten.", "whatsapp"),
        ('[02.03.26, 21:15:32] Ana "Nani" Ruiz: Nine.\n[02.03.26, 21:16:00] Ana "Nani" Ruiz: Ten.', "whatsapp"),
        (COMMIT + "    Use UTC\n", "git-log"),
        ("From nora@example.com Mon Mar  2 09:00:00 2026\n" + MAIL + "\nNine.\n", "mail"),
        (CURSOR, "cursor"),
    ],
)
def test_text_is_known_by_its_lines_under_any_name(head: str, suffix: str, format: str) -> None:
    assert sniff_format(head, suffix) == format


@pytest.mark.parametrize(
    ("head", "suffix", "format"),
    [
        ("2026-03-02 21:15:00 - INFO: started\n2026-03-02 21:16:00 - INFO: stopped", ".log", "text"),
        ("[12/05/2026 09:00:01] server: started\n[12/05/2026 09:00:02] server: stopped", ".log", "text"),
        ("Changes\n\n12/05/2026 10:00 - Version 2: new\n13/05/2026 10:00 - Version 3: newer", ".txt", "text"),
        (MAIL + "\nNine.\n", ".md", "markdown"),
        (MAIL.replace("Message-ID", "X-Id") + "\nNine.\n", ".eml", "mail"),
        ("# Boats\n\nA chat was _Exported on 3/2/2026 from Cursor_.\n", ".md", "markdown"),
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
        ("WhatsApp Chat - Nora/_chat.txt", "whatsapp", "WhatsApp Chat - Nora"),
        ("src/harbour/history.txt", "git-log", "harbour"),
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


@pytest.mark.parametrize(
    ("lines", "order"),
    [
        (["13/02/2026, 09:00 - N: x"], "dmy"),
        (["2/13/26, 9:00 AM - N: x"], "mdy"),
        (["11/2/26, 9:00 PM - N: x", "1/3/26, 9:00 PM - N: x"], "mdy"),
    ],
)
def test_a_number_above_twelve_or_the_clock_gives_the_order_of_day_and_month(lines: list[str], order: str) -> None:
    assert day_order(lines)[0] == order


def test_a_chat_of_whatsapp_is_one_conversation_and_later_lines_belong_to_their_message() -> None:
    chat = [
        "02/03/2026, 09:00 - Messages and calls are end-to-end encrypted.\n",
        "02/03/2026, 09:00 - Nora Quint: Nine?\n", "\n", "Or: ten.\n",
        "02/03/2026, 09:01 - ~ Ben: \u200e<This message was edited>\n",
        "02/03/2026, 09:01 - Ben: Ten. \u200e<This message was edited>\n",
        "02/03/2026, 09:02 - Ben: <Media omitted>\n", "02/03/2026, 09:02 - Ben: \u200eimage omitted\n",
        "02/03/2026, 09:02 - Ben: You deleted this message\n", "02/03/2026, 09:03 - Ben: 10:30 <-> 11:00\n",
        "29/02/2026, 09:04 - ~ Ben: Yes.\n",
    ]  # fmt: skip
    found = list(parse_whatsapp(chat, Origin("WhatsApp Chat with Crew")))
    assert [(line, one.speaker, one.content, one.at) for line, one in found if isinstance(one, Message)] == [
        (2, "Nora Quint", "Nine?\n\nOr: ten.", NINE),
        (6, "Ben", "Ten.", NINE + 60 * 10**6),
        (10, "Ben", "10:30 <-> 11:00", NINE + 180 * 10**6),
        (11, "Ben", "Yes.", None),
    ]
    assert {(one.conversation_id, one.title, one.role) for one in messages(found)} == {
        ("WhatsApp Chat with Crew", "Crew", "user")
    }
    assert len(notes(found)) == 5
    assert notes(found, "adjusted") == ["the time is not one that can be read"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Ada: \u200eIMG-1.jpg (file attached)\nWe decided on the blue boat", "We decided on the blue boat"),
        ("Ada: Dez. \u200e<whatever it says>", "Dez."),
        ('Ana "Nani" Ruiz: Nine.', "Nine."),
        ('Ada changed the subject to "Boats: all"', None),
        ("Ada: \u200eIMG-1.jpg (file attached)", None),
    ],
)
def test_of_a_message_of_whatsapp_only_what_the_program_wrote_is_left_out(line: str, words: str | None) -> None:
    found = list(parse_whatsapp(f"02/03/2026, 09:00 - {line}".splitlines(keepends=True), ORIGIN))
    assert [one.content for one in messages(found)] == ([words] if words else [])
    assert len(notes(found)) == (not words)


def test_a_chat_of_cursor_has_its_turns() -> None:
    text = CURSOR + "\n---\n\n**Cursor**\n\nAt nine.\n\n---\n\nOr **User**\n\n---\n\n**User**\n\nFine.\n"
    found = messages(parse_cursor(text.splitlines(keepends=True), ORIGIN))
    assert [(one.role, one.content) for one in found] == [
        ("user", "When?"),
        ("assistant", "At nine.\n\n---\n\nOr **User**"),
        ("user", "Fine."),
    ]
    assert {one.title for one in found} == {"Boats"}


LONG = "The boats leave at nine in summer and at ten in winter, as the"


def mails(*texts: str) -> list[str]:
    return "".join(f"From x@example.com Mon Mar  2 09:00:00 2026\n{text}\n" for text in texts).splitlines(keepends=True)


def mail(own: str, body: str = "Nine.", **headers: str) -> str:
    fields = {"From": "Nora Quint <nora@example.com>", "Date": "Mon, 2 Mar 2026 10:00:00 +0100",
              "Message-ID": f"<{own}@example.com>", "Subject": "Boats"}  # fmt: skip
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    return "".join(f"{name}: {value}\n" for name, value in fields.items()) + f"\n{body}\n"


def test_mails_of_one_thread_are_one_conversation() -> None:
    found = messages(parse_mail(mails(
        mail("a"), mail("b", References="<a@example.com>", Subject="Re: AW: Boats"),
        mail("c", In_Reply_To="<b@example.com>", From="=?utf-8?b?w4luZGU=?= <e@example.com>"), mail("d"),
        mail("e", References="<gone@example.com> <a@example.com>"), mail("f", In_Reply_To="<gone@example.com>"),
    ), ORIGIN))  # fmt: skip
    threads = [one.conversation_id for one in found]
    assert [threads.index(thread) for thread in threads] == [0, 0, 0, 3, 4, 4]
    assert len({one.message_id for one in found}) == 6
    assert [one.speaker for one in found[:3]] == ["Nora Quint", "Nora Quint", "Énde"]
    assert {(one.title, one.at, one.role) for one in found} == {("Boats", NINE, "user")}
    assert not any("@" in one.conversation_id + one.message_id for one in found)


@pytest.mark.parametrize(
    ("body", "own"),
    [
        ("Nine.\n\nOn Mon, 2 Mar 2026 at 10:12, Nora <n@x.org> wrote:\n> When?\n", "Nine."),
        ("> When?\nNine.\n> Where?\nHere.", "Nine.\nHere."),
        ("Nine.\n\n-----Original Message-----\nFrom: Nora\nWhen?", "Nine."),
        ("Nine.\n\nFrom: Nora <n@x.org>\nSent: Monday, March 2\nTo: Ben\n\nWhen?", "Nine."),
        ("Nine.\n\n____________________\n\nPart two: ten.", "Nine.\n\n____________________\n\nPart two: ten."),
        ("Nine.\n-- \nNora\nHarbour", "Nine."),
        (
            f"{LONG}\ncouncil said.\n\n- {LONG}\n- and more\nBye,\nNora",
            f"{LONG} council said.\n\n- {LONG}\n- and more\nBye,\nNora",
        ),
        ("--help shows more.\n--- a/x\nFrom: here: we go", "--help shows more.\n--- a/x\nFrom: here: we go"),
    ],
)
def test_of_a_mail_only_the_words_of_its_writer_are_kept(body: str, own: str) -> None:
    assert own_words(body) == own


def test_parts_and_encodings_of_mails_are_read_as_they_say() -> None:
    parts = (
        'Content-Type: text/html; charset="utf-8"\n\n<style>p {}</style><p>Nine &amp; ten</p>'
        '<div class="gmail_quote">On Monday, Ben wrote:<div>When?</div></div><p>Bye</p>'
    )
    html = mail("a", f"--b\n{parts}\n--b--", Content_Type='multipart/mixed; boundary="b"')
    quoted = mail(
        "b", "=C9vora", Content_Type='text/plain; charset="iso-8859-1"', Content_Transfer_Encoding="quoted-printable"
    )
    raw = mail("c", "\udcc9vora", Content_Type='text/plain; charset="nonsense"', Content_Transfer_Encoding="8bit")
    flowed = mail("d", "At nine \no'clock.\n-- \nNora", Content_Type="text/plain; format=flowed")
    escaped = mail("e", "Boats leave.\n\n>From nine on 2 March 2026.")
    found = messages(parse_mail(mails(html, quoted, raw, flowed, escaped), ORIGIN))
    assert [one.content for one in found] == [
        "Nine & ten\nBye",
        "Évora",
        "Évora",
        "At nine o'clock.",
        "Boats leave.\n\nFrom nine on 2 March 2026.",
    ]


@pytest.mark.parametrize(
    "piece", ["<a b='", "<a", "</a", "<!--", "<![CDATA[", "<", "<div>", "On a wrote", "\n \n", "`"]
)
def test_text_that_is_made_to_take_long_ends(piece: str) -> None:
    """Patterns that look back over all of it would take minutes here."""
    html = mail("a", piece * 30_000 + "<p>Nine.</p>", Content_Type="text/html")
    plain = mail("b", piece * 30_000 + "\nNine.")
    assert len(list(parse_mail(mails(html, plain), ORIGIN))) == 2


@pytest.mark.parametrize(
    "headers",
    [
        {"List_Unsubscribe": "<https://example.com>"},
        {"Auto_Submitted": "auto-replied"},
        {"X_Gmail_Labels": 'Unread, "Drafts"'},
    ],
)
def test_mails_that_nobody_wrote_or_wanted_are_skipped_and_counted(headers: dict[str, str]) -> None:
    found = list(parse_mail(mails(mail("a", **headers), mail("b")), ORIGIN))
    assert len(notes(found)) == len(messages(found)) == 1
    listed = mail("a", List_Unsubscribe="<https://example.com>", List_Post="<mailto:l@example.com>", Precedence="list")
    labelled = mail("b", X_Gmail_Labels="Inbox,Draft contracts")
    assert len(messages(parse_mail(mails(listed, labelled), ORIGIN))) == 2


@pytest.mark.parametrize(
    ("sender", "speaker"),
    [
        ("=?utf-8?q?M=C3=BCller=2C_Ada?= <a@x.org>", "Ada Müller"),
        ('"Quint, Nora" <n@x.org>', "Nora Quint"),
        ('"M\udcc3\udcbcller, J\udcc3\udcbcrgen" <j@x.org>', "Jürgen Müller"),
        ('"von der Leyen, Ursula" <u@x.org>', "Ursula von der Leyen"),
    ],
)
def test_the_speaker_of_a_mail_has_the_whole_name(sender: str, speaker: str) -> None:
    assert [one.speaker for one in messages(parse_mail(mails(mail("a", From=sender)), ORIGIN))] == [speaker]


def test_a_paragraph_that_begins_with_from_belongs_to_its_mail() -> None:
    body = "Boats leave.\n\nFrom nine on 2 March 2026 they stop."
    assert [one.content for one in messages(parse_mail(mails(mail("a", body), mail("b")), ORIGIN))] == [body, "Nine."]
    single = mail("a", "Boats leave.\n\nFrom x@example.com Mon Mar  2 09:00:00 2026\nis how a box begins.")
    for text in (single, "\n" + single):
        [found] = messages(parse_mail(text.splitlines(keepends=True), ORIGIN))
        assert found.content.endswith("is how a box begins.")


def test_one_mail_without_a_box_and_what_is_no_mail_have_their_lines() -> None:
    single = list(parse_mail(mail("a").splitlines(keepends=True), ORIGIN))
    assert [(line, type(one)) for line, one in single] == [(1, Message)]
    broken = list(parse_mail(mails(mail("a"), "no header at all\n", mail("c", Date="soonish")), ORIGIN))
    lost = [(line, one.kind) for line, one in broken if isinstance(one, Note)]
    assert lost == [(9, "unreadable"), (12, "adjusted")]
    assert [one.at for one in messages(broken)] == [NINE, None]


def commit(words: str, author: str = "Nora Quint", extra: str = "", sha: str = "9f1c0d2") -> str:
    body = "".join(f"    {line}\n" if line else "\n" for line in words.split("\n"))
    return f"commit {sha}\n{extra}Author: {author} <n@example.com>\nDate:   Mon Mar 2 10:00:00 2026 +0100\n\n{body}\n"


def test_a_commit_that_decides_something_is_what_its_author_wrote() -> None:
    words = "Keep times in UTC instead of local time\n\nIt moved"
    log = commit(f"{words}\n\nSigned-off-by: Nora <n@example.com>") + " a.py | 2 +-\n    1 file changed\n\n"
    log += commit("Use pnpm because of the lock file", sha="8e0b9c1")
    found = list(parse_git_log(log.splitlines(keepends=True), Origin("harbour")))
    assert [line for line, _ in found] == [1, 14]
    first, second = messages(found)
    assert first == Message("harbour-8e0b9c1", "9f1c0d2", "user", "Nora Quint", words, NINE, first.scope)
    assert (second.conversation_id, second.message_id) == ("harbour-8e0b9c1", "8e0b9c1")


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        (commit("Switch the cache from Redis to Valkey"), True),
        (commit("Drop support for Node 18"), True),
        (commit("feat: retry three times, as the API times out often"), True),
        (commit("Lines are no longer than 120"), False),
        (commit("Bump boat from 1.0 to 2.0"), False),
        (commit("Merge branch 'x' because of y", extra="Merge: 1234567 89abcde\n"), False),
        (commit("Use x instead of y", "renovate[bot]"), False),
    ],
)
def test_a_decision_is_a_choice_a_replacement_or_a_reason_and_the_rest_is_counted(text: str, decides: bool) -> None:
    found = list(parse_git_log(text.splitlines(), ORIGIN))
    assert (len(messages(found)), len(notes(found))) == ((1, 0) if decides else (0, 1))


def test_repositories_in_folders_of_one_name_are_conversations_of_their_own() -> None:
    first, second = (commit("Use x instead of y", sha=sha * 8) for sha in ("1a2b3", "4c5d6"))
    newer = commit("Drop z because of y", sha="0" * 40).replace("2026", "2027")

    def conversation(log: str) -> set[str]:
        return {one.conversation_id for one in messages(parse_git_log(log.splitlines(), Origin("harbour")))}

    assert conversation(first) == conversation(newer + first) == conversation(first + newer) == {"harbour-1a2b31a"}
    assert conversation(second) == {"harbour-4c5d64c"}
    undated = newer.replace("Date:", "Dated:")
    assert conversation(first + undated) == {"harbour-1a2b31a"}


@pytest.mark.parametrize(
    "date", ["Mon Mar 2 10:00:00 2026 +0100", "2026-03-02 10:00:00 +0100", "2026-03-02T10:00:00+01:00", "1772442000"]
)
def test_dates_of_git_are_read_in_its_usual_forms(date: str) -> None:
    text = commit("Use x instead of y").replace("Mon Mar 2 10:00:00 2026 +0100", date)
    assert messages(parse_git_log(text.splitlines(), ORIGIN))[0].at == NINE
    full = text.replace("Date:   ", "AuthorDate: ").replace(
        "\n\n", "\nCommit: Ben <b@x>\nCommitDate: 2027-01-01\n\n", 1
    )
    assert messages(parse_git_log(full.splitlines(), ORIGIN))[0].at == NINE
