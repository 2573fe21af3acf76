"""Summaries of communities in a few sentences: from their strongest facts, or by a model (S2-48).

Nothing here adds a word to what is known: without a model a summary is a few of the facts themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape

import polars as pl

from slowwave.records import CommunityQuestion
from slowwave.text import readable, sentences

from .communities import Grouping

SENTENCES = 3
MAX_CHARS = 600
"""Of a summary; a model that tells more is cut at the end of a sentence."""
NAMES_SHOWN = 40
"""Members whose names a model gets, the most connected ones: names alone say little."""

_ENDS = (".", "!", "?", "…", "。", "！", "？")
_OUTER = " .!?…\t\n"
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TAG = re.compile(r"""</?[A-Za-z][\w-]*(?:\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+))*\s*/?>""")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=\S)([^*\n]+)(?<=\S)\1(?![\w*])")
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}|[-*+•])[ \t]+(?!\W*\d)", re.MULTILINE)
"""Of a list or a heading. Before a number the sign may be a minus, so it stays."""
_PLAIN_SIGN = re.compile(r"&(?:lt|gt|amp|quot|apos|#39);")


@dataclass(frozen=True, slots=True)
class CommunitySummary:
    """The summary of a community and its author: `rule`, or `model` with the model and the version of the prompt."""

    text: str
    by: str
    model: str = ""
    prompt_version: str = ""


def strongest_facts(grouping: Grouping, facts: pl.DataFrame, limit: int) -> pl.DataFrame:
    """(community_id, statement): at most `limit` facts of each community, strongest first, each sentence once.

    `facts` (id, statement, evidence_count) are those of the communities that are asked about. What weighs most comes
    first, then what most messages say, then the smallest id.
    """
    stated = grouping.relations.join(facts, left_on="fact_id", right_on="id").drop_nulls("statement")
    ranked = stated.sort(
        "community_id", "weight", "evidence_count", "fact_id", descending=[False, True, True, False], nulls_last=True
    )
    wording = pl.col("statement").str.to_lowercase().str.strip_chars(_OUTER)
    once = ranked.with_columns(wording=wording).unique(["community_id", "wording"], keep="first", maintain_order=True)
    return once.group_by("community_id", maintain_order=True).head(limit).select("community_id", "statement")


def summary_by_rule(statements: Sequence[str]) -> str:
    """About three of these sentences, in their order, at most MAX_CHARS; the first is cut where it alone is longer."""
    chosen: list[str] = []
    for each in filter(None, map(one_line, statements)):
        sentence = each if each.endswith(_ENDS) else f"{each}."
        if len(" ".join([*chosen, sentence])) <= MAX_CHARS:
            chosen.append(sentence)
        if len(chosen) == SENTENCES:
            break
    first = next(filter(None, map(one_line, statements)), "")
    return " ".join(chosen) if chosen or not first else f"{first[: MAX_CHARS - 1].rstrip()}…"


def cleaned_answer(text: str) -> str:
    """A model's summary without markup, as many whole sentences as MAX_CHARS hold; empty if no word is left (T37).

    Signs that compare or calculate stay: the code that shows the text escapes it.
    """
    plain = one_line(_without_markup(readable(text)))
    if not any(map(str.isalnum, plain)):
        return ""
    if len(plain) <= MAX_CHARS:
        return plain
    kept: list[str] = []
    for sentence in sentences(plain):
        if len(" ".join([*kept, sentence])) > MAX_CHARS:
            break
        kept.append(sentence)
    return " ".join(kept) or f"{plain[: MAX_CHARS - 1].rstrip()}…"


def _without_markup(text: str) -> str:
    """The text without tags, links, emphasis, and marks of lists and headings; lines are kept."""
    bare = _TAG.sub(" ", _LINK.sub(r"\1", text))
    for _ in range(2):  # emphasis within emphasis
        bare = _EMPHASIS.sub(r"\2", bare)
    bare = _LINE_MARK.sub("", bare.replace("`", ""))
    return _PLAIN_SIGN.sub(lambda sign: unescape(sign[0]), bare)


def questions_about(due: pl.DataFrame, names: pl.DataFrame, facts: pl.DataFrame) -> tuple[CommunityQuestion, ...]:
    """The questions for a model about these communities (id, entity_ids), in their order, numbered from 1.

    `names` (id, name) are those of their members, `facts` what `strongest_facts` gives.
    """
    first = due.select("id", entity_id=pl.col("entity_ids").list.head(NAMES_SHOWN)).explode("entity_id")
    called = first.join(names.rename({"id": "entity_id"}), on="entity_id", how="left", maintain_order="left")
    by_name = dict(called.drop_nulls("name").group_by("id", maintain_order=True).agg("name").iter_rows())
    by_fact = dict(facts.group_by("community_id", maintain_order=True).agg("statement").iter_rows())
    return tuple(
        CommunityQuestion(number, size, _lines(by_name.get(id_, ())), _lines(by_fact.get(id_, ())))
        for number, (id_, size) in enumerate(due.select("id", pl.col("entity_ids").list.len()).iter_rows(), 1)
    )


def _lines(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(filter(None, map(one_line, texts)))


def one_line(text: str) -> str:
    """The text on one line, single-spaced, without what cannot be seen."""
    return " ".join(readable(text).split())
