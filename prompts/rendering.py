"""Templates to prompts: stored text enters as delimited data and cannot leave its delimiters (T38).

Questions are packed: as many into one prompt as its limit in bytes, and the room for its answer, hold (S2-48, S4-23).
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from pydantic import BaseModel

from slowwave.common.lexicon.languages import ENGLISH, NAMES, language_of
from slowwave.common.records import (
    CommunityQuestion,
    Prompt,
    SessionQuestion,
    Window,
)
from slowwave.common.settings import ExtractSettings
from slowwave.common.text import as_json, digest
from slowwave.common.timestamps import WEEKDAY_NAMES
from slowwave.facts.revision.predicates import DEFAULT as KNOWN_RELATIONS

from .responses import (
    CommunitySummaries,
    NameResolution,
    QuestionAnswer,
    Reconciliation,
    RelationNames,
    SessionSummaries,
    WindowExtraction,
)

FOLDER = Path(__file__).parent
RESPONSES: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "extract_facts": WindowExtraction,
        "resolve_names": NameResolution,
        "reconcile_facts": Reconciliation,
        "name_relations": RelationNames,
        "summarize_communities": CommunitySummaries,
        "summarize_sessions": SessionSummaries,
        "answer_question": QuestionAnswer,
    }
)
URGENT = frozenset({"resolve_names", "name_relations", "answer_question"})
"""Prompts whose answers the next step of a batch, or a caller, waits for."""
LIST_RELATIONS = frozenset({"extract_facts", "name_relations"})
"""Prompts that list the known relations."""


class _Inert(str):
    """Text that went through `as_data` or `as_attribute` and is printed as it is."""

    __slots__ = ()


class _Visible(dict[int, str]):
    """A translation table, filled as characters come up: markup signs escaped, invisible characters dropped."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = kept = self._kept(char)
        return kept

    @staticmethod
    def _kept(char: str) -> str:
        escaped = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(unicodedata.normalize("NFKC", char))
        if escaped is not None:
            return escaped
        if char in "\n\t":
            return char
        if char in "\r\u2028\u2029":
            return "\n"
        # Format, control, surrogate, private-use and unassigned characters, and variation selectors, can smuggle text.
        is_hidden = unicodedata.category(char)[0] == "C" or "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0000"
        return "" if is_hidden else char


_VISIBLE = _Visible()


def as_data(text: str) -> str:
    """The text as content of an element: nothing in it can open or close a tag, or hide from a reader."""
    return _Inert(text.replace("\r\n", "\n").translate(_VISIBLE))


def as_attribute(text: str) -> str:
    """The text as a quoted attribute: also on one line and without quotation marks."""
    return _Inert(" ".join(as_data(text).split()).replace('"', "&quot;"))


def _printed(value: object) -> str:
    """Whatever a template prints without the `data` filter is made fit for an attribute; no value goes in raw."""
    return value if isinstance(value, _Inert) else as_attribute(str(value))


def _stamp(pattern: str) -> Callable[[datetime], str]:
    return lambda moment: (moment.astimezone(UTC) if moment.tzinfo else moment).strftime(pattern)


@cache
def _environment() -> Environment:
    made = Environment(loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, autoescape=False, finalize=_printed)
    made.filters |= {"data": as_data, "day": _stamp("%Y-%m-%d"), "minute": _stamp("%Y-%m-%d %H:%M")}
    made.filters["weekday"] = lambda moment: WEEKDAY_NAMES[int(_stamp("%w")(moment)) - 1]
    return made


@cache
def _template(name: str) -> Template:
    return _environment().get_template(f"{name}.md")


def _block(name: str, block: str, values: Mapping[str, Any]) -> str:
    template = _template(name)
    return "".join(template.blocks[block](template.new_context(dict(values)))).strip() + "\n"


@cache
def prompt_version(name: str) -> str:
    """Hash of what makes the prompt: the template, the schema of its response model, the relations that it lists."""
    schema = as_json(RESPONSES[name].model_json_schema())
    listed = KNOWN_RELATIONS if name in LIST_RELATIONS else ()
    relations = [(each.name, each.meaning, each.cardinality) for each in listed]
    return digest((FOLDER / f"{name}.md").read_text(encoding="utf-8"), schema, *relations)


@cache
def _extraction_system(max_entities: int, max_facts: int, max_outline: int) -> str:
    relations = [relation for relation in KNOWN_RELATIONS if relation.meaning]
    limits = {"max_entities": max_entities, "max_facts": max_facts, "max_outline": max_outline}
    return _block("extract_facts", "system", {"relations": relations, **limits})


@cache
def _system(name: str) -> str:
    """The system part of a prompt that takes no setting."""
    return _block(name, "system", {"known": tuple(sorted(relation.name for relation in KNOWN_RELATIONS))})


def _asking(name: str, what: str, values: tuple[Any, ...], **more: Any) -> Prompt:
    """A prompt about several numbered things, which the rules find in the context under the same name."""
    return Prompt(
        name=name,
        head=lambda: _system(name),
        body=lambda: _block(name, "text", {what: values, **more}),
        context=MappingProxyType({what: values}),
        is_urgent=name in URGENT,
    )


def render_extraction(window: Window, settings: ExtractSettings | None = None) -> Prompt:
    """The prompt that is answered with a `WindowExtraction`; `context["window"]` is the window itself."""
    limits = settings or ExtractSettings()
    days = [turn.occurred_at.date() for turn in window.turns]
    values = {
        "roster": window.roster,
        "known": window.known,
        "turns": [(turn, n == 0 or days[n - 1] != days[n]) for n, turn in enumerate(window.turns)],
        "scope": window.scope,
    }
    return Prompt(
        name="extract_facts",
        head=lambda: _extraction_system(
            limits.max_entities_per_message, limits.max_facts_per_message, limits.max_outline_lines
        ),
        body=lambda: _block("extract_facts", "text", {**values, **_languages(window, limits.language)}),
        context=MappingProxyType({"window": window}),
    )


def _languages(window: Window, chosen: str) -> dict[str, str]:
    """The languages of the messages, of the statements, and the others in which these are looked for.

    Where all is English `others` is empty, and the prompt says nothing of languages.
    """
    messages = language_of(turn.text for turn in window.turns if not turn.is_context)
    statements = NAMES.get(chosen, messages)
    others = (name for name in dict.fromkeys((ENGLISH, messages)) if name != statements)
    return {"messages": messages, "statements": statements, "others": " and ".join(others)}


render_resolution = partial(_asking, "resolve_names", "questions")
render_pairs = partial(_asking, "reconcile_facts", "pairs")
render_relations = partial(_asking, "name_relations", "questions")
render_communities = partial(_asking, "summarize_communities", "communities")
render_sessions = partial(_asking, "summarize_sessions", "conversations")
"""Prompts about a tuple of the questions of `slowwave.common.records`, each answered as RESPONSES says (S2-07, S1-05,
S2-59, S2-61, S2-48, S4-23); `pack_communities` and `pack_sessions` say how many of these two fit into one."""


def render_question(question: str, lines: Sequence[str], today: datetime, as_of: datetime | None = None) -> Prompt:
    """The prompt that is answered with a `QuestionAnswer`; lines are numbered from 1, as the answer names them."""
    return _asking("answer_question", "lines", tuple(lines), question=question, today=today, as_of=as_of)


CUT = "..."

Pack = tuple[CommunityQuestion, ...]
Question = TypeVar("Question", CommunityQuestion, SessionQuestion)


def pack_communities(questions: Sequence[CommunityQuestion], max_bytes: int, most: int) -> Iterator[Pack]:
    """The questions in their order, at most `most` to a pack, whose prompt has at most `max_bytes` of UTF-8.

    They are numbered from 1 in each pack. One that is longer by itself is cut; what was cut ends in "...". A limit that
    has no room even for that is as the smallest that has.
    """
    return _packed(questions, max_bytes, most, _bytes, _cut)


def pack_sessions(
    questions: Sequence[SessionQuestion], max_bytes: int, most: int
) -> Iterator[tuple[SessionQuestion, ...]]:
    """As `pack_communities`; of a conversation that is too long the oldest turns are left out."""
    return _packed(questions, max_bytes, most, _session_bytes, _cut_session)


def _packed(
    questions: Sequence[Question],
    max_bytes: int,
    most: int,
    bytes_of: Callable[[tuple[Question, ...]], int],
    cut: Callable[[Question, int], Question],
) -> Iterator[tuple[Question, ...]]:
    frame = bytes_of(())
    pack: list[Question] = []
    room = max_bytes - frame
    for each in questions:
        question = replace(each, number=len(pack) + 1)
        size = bytes_of((question,)) - frame
        if pack and (size > room or len(pack) >= most):
            yield tuple(pack)
            pack, room, question = [], max_bytes - frame, replace(each, number=1)
            size = bytes_of((question,)) - frame
        if size > room:
            question, size = cut(question, max_bytes), room
        pack.append(question)
        room -= size
    if pack:
        yield tuple(pack)


def _cut(question: CommunityQuestion, max_bytes: int) -> CommunityQuestion:
    """The question with as many of its names and facts as fit; names have half of the room, or what facts leave."""
    room = max_bytes - _bytes((replace(question, names=(), facts=()),))
    names = _first(question.names, max(room // 2, room - sum(map(_line, question.facts))))
    return replace(question, names=names, facts=_first(question.facts, room - sum(map(_line, names))))


def _first(texts: Sequence[str], room: int) -> tuple[str, ...]:
    """The first texts, each on its line, that fit into so many bytes; the first that does not is cut, and the last."""
    kept: list[str] = []
    for n, text in enumerate(texts, 1):
        size = _line(text)
        if size + (_line(CUT) if n < len(texts) else 0) > room:
            chars = bisect_right(range(len(text)), room, key=lambda length: _line(text[:length] + CUT)) - 1
            return (*kept, text[: max(chars, 0)] + CUT)
        kept.append(text)
        room -= size
    return tuple(kept)


def _line(text: str) -> int:
    return len(as_data(text).encode()) + 1


def _bytes(pack: Pack) -> int:
    return len(render_communities(pack).text.encode())


def _cut_session(question: SessionQuestion, max_bytes: int) -> SessionQuestion:
    """The question with as many of its newest turns as fit, at least one: a turn is much shorter than a prompt."""
    total = len(question.turns)

    def last(count: int) -> SessionQuestion:
        left_out = question.left_out + total - count
        return replace(question, turns=question.turns[total - count :], left_out=left_out)

    return last(bisect_right(range(2, total + 1), max_bytes, key=lambda n: _session_bytes((last(n),))) + 1)


def _session_bytes(pack: tuple[SessionQuestion, ...]) -> int:
    return len(render_sessions(pack).text.encode())
