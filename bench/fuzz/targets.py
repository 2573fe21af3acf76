"""A target for each parser: bytes go in; what comes out is nothing, or an error that says what is wrong.

Whatever else happens is a fault: any other exception, an answer that takes long, memory that grows out of proportion.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel, ValidationError

from apps.configuration import parse_settings
from apps.mcp.server import MODULES, parse_address
from inference.request_batch import RecordedAnswers
from prompts.rendering import RESPONSES, render_extraction
from slowwave.common.errors import SlowwaveError
from slowwave.common.lexicon.labels import canonical_relation, canonical_type
from slowwave.common.records import KnownFact, RosterEntry, Turn, Window
from slowwave.common.settings import IngestSettings
from slowwave.common.timestamps import parse_moment, parse_time
from slowwave.entities.mentions import name_to_store
from slowwave.facts.revision.extracted_claims import collect
from slowwave.integrations.foreign.records import adopt, without_secrets
from slowwave.reading.extraction.dates import find_hint, resolve_times
from slowwave.reading.extraction.quotes import extract_window
from slowwave.reading.filters.injection import injection_reason
from slowwave.reading.filters.redaction import redact, redact_lines, redact_values
from slowwave.reading.ingestion.conversations import Conversations
from slowwave.reading.ingestion.parsers import FORMATS
from slowwave.reading.ingestion.windows import PlannedWindow
from slowwave.review.proposals import ProposalQuestion
from storage.connection import check_namespace
from tasks.ingest.reading import read_source
from tasks.ingest.sources import find_sources
from tasks.people.reporting import form_of, verdicts_in
from tasks.transfer.imports import read_foreign

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
LARGEST_ANSWER = 64  # times the input, and a little more
Target = Callable[[bytes], None]


def attempt(target: Target, data: bytes) -> str:
    """What the target said to the input: empty, or its error; raises whatever is no error of ours."""
    try:
        target(data)
    except SlowwaveError as error:
        said = error.message
    else:
        return ""
    assert said.strip(), "an error that says nothing"
    return said


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return _text(data)


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="slowwave-fuzz-")


def _file(data: bytes, name: str) -> Path:
    path = Path(_folder().name, name)
    path.write_bytes(data)
    return path


def conversations(data: bytes) -> None:
    """Files of every format; the first byte says whether one is named, and which."""
    names = (*FORMATS, "auto", "auto")
    format, suffix = names[data[0] % len(names)] if data else "auto", (".jsonl", ".json", ".md", ".txt")
    path = _file(data[1:], f"input{suffix[len(data) % 4]}")
    size = 0
    for source in find_sources([path], format)[0]:
        for batch in read_source(source, Conversations(NOW, 50_000), IngestSettings()):
            size += int(batch.messages["content"].str.len_bytes().sum() or 0)
    assert size <= LARGEST_ANSWER * len(data) + 4096, f"{size} bytes of messages from {len(data)}"


def exports(data: bytes) -> None:
    """What other memories wrote, as far as it can be adopted."""
    found = read_foreign(_file(data, "export.json")).content
    adopt(without_secrets(found)[0], NOW)


def settings(data: bytes) -> None:
    """`slowwave.toml`."""
    try:
        values = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return
    parse_settings(values, "slowwave.toml")


def times(data: bytes) -> None:
    """Times of messages, of options, and in what people say."""
    text = _text(data)
    for value in (text, _loaded(data)):
        try:
            parse_time(value)
        except ValueError:
            continue
    resolve_times(find_hint(text[:700]), NOW)
    resolve_times(text, NOW, model_date=text)
    parse_moment(text)


def names(data: bytes) -> None:
    """Names of namespaces, entities, types and relations, and addresses to listen on."""
    text = _text(data)
    canonical_type(text), canonical_relation(text)
    for parse in (check_namespace, name_to_store, parse_address):
        try:
            parse(text)
        except SlowwaveError:
            continue
    checked = check_namespace(text)
    assert os.path.normpath(f"/store/{checked}") == f"/store/{checked}", "a namespace that leads elsewhere"


def secrets(data: bytes) -> None:
    """Redaction: in texts, in lines and in plain data; what is clean stays so."""
    text = _text(data)
    once = redact(text).text
    assert redact(once).text == once, "redacting again changes it"
    list(redact_lines(text.splitlines(keepends=True)))
    redact_values(_loaded(data))


def orders(data: bytes) -> None:
    """The look-out for instructions."""
    injection_reason(_text(data))


def talk(data: bytes) -> None:
    """Quotations, of what a person says and on a passage, and what becomes of its claims."""
    text = data.decode("utf-8", "replace")
    turns = (Turn(0, "Marta", "user", text, NOW), Turn(1, "notes", "document", text[: len(text) // 2], NOW))
    window = Window("c", "global", turns)
    answer = RESPONSES["extract_facts"].model_validate(extract_window(window))
    collect([(PlannedWindow(window, ("m0", "m1")), answer)], 10)
    assert render_extraction(window).text.count("</messages>") == 1


def answers(data: bytes) -> None:
    """What a model answers, to every prompt, and recordings of that."""
    value = _loaded(data)
    turns = tuple(Turn(n, "Marta", "user", "I moved from vim to neovim.", NOW, n == 0) for n in range(3))
    known, entries = KnownFact(0, "f0", "Marta uses vim.", NOW), RosterEntry(1, "Marta", "person", "e0", (), "user")
    planned = PlannedWindow(Window("c", "global", turns, (known,), (entries,)), ("m0", "m1", "m2"))
    for name, model in RESPONSES.items():
        try:
            answer = model.model_validate(value)
        except ValidationError:
            continue
        if name == "extract_facts":
            taken = collect([(planned, answer)], 10, by_model=True)
            assert set(taken.claims["message_id"]) <= {"m1", "m2"}
            assert set(taken.names["entity_id"]) <= {"e0"}
    RecordedAnswers.read(_file(data, "recording.jsonl"))


def calls(data: bytes) -> None:
    """Arguments of an agent's tools, valid ones and others."""
    value = _loaded(data)
    for tool in _tools():
        with suppress(ValidationError):
            tool(value)


@cache
def _tools() -> list[Callable[[Any], Any]]:
    from apps.mcp.tools import TOOLS, strict_tool

    assert MODULES
    return [strict_tool(name).fn_metadata.arg_model.model_validate for name in TOOLS]


def reviews(data: bytes) -> None:
    """What a person filled into a form."""
    value = _loaded(data)
    asked, form = _form()
    with suppress(ValidationError):
        given = form.model_validate(value).model_dump()
        verdicts_in(asked, given)


@cache
def _form() -> tuple[tuple[ProposalQuestion, ...], type[BaseModel]]:
    asked = (
        ProposalQuestion("p_1", "split", "Part House", False),
        ProposalQuestion("p_2", "delete", "Delete", True),
    )
    return asked, form_of(asked)


TARGETS: Mapping[str, Target] = {
    each.__name__: each
    for each in (conversations, exports, settings, times, names, secrets, orders, talk, answers, calls, reviews)
}
