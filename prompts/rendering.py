"""Templates to prompts: stored text enters as delimited data and cannot leave its delimiters (T38)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from pydantic import BaseModel

from slowwave.lexicon.languages import ENGLISH, NAMES, language_of
from slowwave.records import (
    ArtifactQuestion,
    CommunityQuestion,
    NameQuestion,
    PairQuestion,
    Prompt,
    RelationQuestion,
    SessionQuestion,
    Window,
)
from slowwave.revision.predicates import DEFAULT as KNOWN_RELATIONS
from slowwave.settings import ExtractSettings
from slowwave.text import as_json, digest

from .responses import (
    ArtifactLinks,
    CommunitySummaries,
    NameResolution,
    QuestionAnswer,
    Reconciliation,
    RelationNames,
    SessionSummaries,
    WindowExtraction,
    Wordings,
)

FOLDER = Path(__file__).parent
RESPONSES: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "extract_facts": WindowExtraction,
        "resolve_names": NameResolution,
        "reconcile_facts": Reconciliation,
        "name_relations": RelationNames,
        "link_artifacts": ArtifactLinks,
        "summarize_communities": CommunitySummaries,
        "summarize_sessions": SessionSummaries,
        "rewrite_question": Wordings,
        "answer_question": QuestionAnswer,
    }
)
URGENT = frozenset({"resolve_names", "name_relations", "rewrite_question", "answer_question"})
"""Prompts whose answers the next step of a batch, or a caller, waits for."""


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
    return made


@cache
def _template(name: str) -> Template:
    return _environment().get_template(f"{name}.md")


def _block(name: str, block: str, values: Mapping[str, Any]) -> str:
    template = _template(name)
    return "".join(template.blocks[block](template.new_context(dict(values)))).strip() + "\n"


@cache
def prompt_version(name: str) -> str:
    """Hash of the template's text and of the JSON schema of its response model: either changes, the prompt changes."""
    schema = as_json(RESPONSES[name].model_json_schema())
    return digest((FOLDER / f"{name}.md").read_text(encoding="utf-8"), schema)


@cache
def _extraction_system(max_entities: int, max_facts: int) -> str:
    relations = [relation for relation in KNOWN_RELATIONS if relation.meaning]
    limits = {"max_entities": max_entities, "max_facts": max_facts}
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
        head=lambda: _extraction_system(limits.max_entities_per_message, limits.max_facts_per_message),
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


def render_resolution(questions: tuple[NameQuestion, ...]) -> Prompt:
    """The prompt that is answered with a `NameResolution`; `context["questions"]` are the questions themselves."""
    return _asking("resolve_names", "questions", questions)


def render_pairs(pairs: tuple[PairQuestion, ...]) -> Prompt:
    """The prompt that is answered with a `Reconciliation` (S1-05, S2-59, S2-62)."""
    return _asking("reconcile_facts", "pairs", pairs)


def render_relations(questions: tuple[RelationQuestion, ...]) -> Prompt:
    """The prompt that is answered with `RelationNames` (S2-61)."""
    return _asking("name_relations", "questions", questions)


def render_artifact_links(questions: tuple[ArtifactQuestion, ...]) -> Prompt:
    """The prompt that is answered with `ArtifactLinks` (S1-18)."""
    return _asking("link_artifacts", "questions", questions)


def render_communities(communities: tuple[CommunityQuestion, ...]) -> Prompt:
    """The prompt that is answered with `CommunitySummaries` (S2-48); `prompts.packing` says how many fit into one."""
    return _asking("summarize_communities", "communities", communities)


def render_sessions(conversations: tuple[SessionQuestion, ...]) -> Prompt:
    """The prompt that is answered with `SessionSummaries` (S4-23); `prompts.packing` says how many fit into one."""
    return _asking("summarize_sessions", "conversations", conversations)


def render_rewriting(question: str) -> Prompt:
    """The prompt that is answered with `Wordings` of a question."""
    return _asking("rewrite_question", "questions", (question,), question=question)


def render_question(question: str, lines: Sequence[str], today: datetime, as_of: datetime | None = None) -> Prompt:
    """The prompt that is answered with a `QuestionAnswer`; lines are numbered from 1, as the answer names them."""
    return _asking("answer_question", "lines", tuple(lines), question=question, today=today, as_of=as_of)
