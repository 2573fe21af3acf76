"""All changes of a refresh of communities, as one plan: new, changed, gone, with summaries (S2-47 … S2-49).

Nothing here adds a word to what is known: without a model a summary is a few of the facts themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.decisions import Row, decision, decision_frame
from slowwave.common.records import CommunityQuestion
from slowwave.common.text import as_json, one_line, sentences

from .community_detection import Grouping

SENTENCES = 3
MAX_CHARS = 600
"""Of a summary; a model that tells more is cut at the end of a sentence."""
NAMES_SHOWN = 40
"""Members whose names a model gets, the most connected ones: names alone say little."""

_ENDS = (".", "!", "?", "…", "。", "！", "？")
_OUTER = " .!?…\t\n"


@dataclass(frozen=True, slots=True)
class SignedSummary:
    """The summary of a community and its author: `rule`, or `model` with the model and the version of the prompt."""

    text: str
    by: str
    model: str = ""
    prompt_version: str = ""


def strongest_facts(grouping: Grouping, facts: pl.DataFrame, limit: int) -> pl.DataFrame:
    """(community_id, fact_id, statement): at most `limit` facts of each community, strongest first, each sentence once.

    `facts` (id, statement, evidence_count) are those of the communities in the questions. What weighs most comes
    first, then what most messages say, then the smallest id.
    """
    stated = grouping.relations.join(facts, left_on="fact_id", right_on="id").drop_nulls("statement")
    ranked = stated.sort(
        "community_id", "weight", "evidence_count", "fact_id", descending=[False, True, True, False], nulls_last=True
    )
    wording = pl.col("statement").str.to_lowercase().str.strip_chars(_OUTER)
    once = ranked.with_columns(wording=wording).unique(["community_id", "wording"], keep="first", maintain_order=True)
    return once.group_by("community_id", maintain_order=True).head(limit).select("community_id", "fact_id", "statement")


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
    """A model's summary on one line, as many whole sentences as MAX_CHARS hold; empty if it has no word (T37).

    Its signs stay: the code that shows the text escapes it.
    """
    plain = one_line(text)
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


COMPARED = ("name", "summary", "summarised_by", "prompt_version", "told_fact_ids", "fingerprint", "entity_ids",
            "joined_ids", "facts", "aspects")  # fmt: skip
"""Columns by which a community is as it was, or not."""
SEEN = 3
"""Members that a decision names, the most connected ones."""


def beside(groups: pl.DataFrame, stored: pl.DataFrame) -> pl.DataFrame:
    """The groups, with the stored columns of their ids as `stored_…`."""
    before = stored.select("id", pl.col(*COMPARED).name.prefix("stored_"), is_stored=pl.lit(True))
    return groups.join(before, on="id", how="left", maintain_order="left")


def decisions_of(
    grouping: Grouping,
    fresh: pl.DataFrame,
    dropped: pl.DataFrame,
    stored: pl.DataFrame,
    summaries: Mapping[str, SignedSummary],
    now: datetime,
) -> pl.DataFrame:
    """DECISIONS about rows that are `fresh`, or `dropped` from the `stored` ones: one for each real change.

    That is a community that was found, changed, summarised or dissolved; none for one that only has another name.
    """
    hashes = grouping.groups.select("id", group_hash="fingerprint")
    rows = []
    for row in beside(fresh.join(hashes, on="id", maintain_order="left"), stored).iter_rows(named=True):
        has_joined, is_new = bool(row["stored_joined_ids"]), any(row[n] != row[f"stored_{n}"] for n in _SUMMARY[:2])
        is_other = row["stored_fingerprint"] not in (None, row["group_hash"]) or row["facts"] != row["stored_facts"]
        action = "gather" if not row["is_stored"] else "regroup" if has_joined or is_other else "summarise"
        summary = summaries.get(row["group_hash"]) if is_new else None
        if action != "summarise" or summary:
            rows.append(_decision(action, row, summary, now))
    return decision_frame([*rows, *_dissolved(grouping, dropped, now)])


def _decision(action: str, row: Mapping[str, Any], summary: SignedSummary | None, now: datetime) -> Row:
    entities, facts = row["entity_ids"], row["facts"]
    by = f"{len(entities)} entities, by {facts} relation{'' if facts == 1 else 's'} among them: {row['name']}."
    reason = {
        "gather": f"These belong together: {by}",
        "regroup": f"It has changed; now {by}",
        "summarise": f"It had no summary, or one without a model: {row['name']}.",
    }[action]
    seen = {"members": len(entities), "facts": facts} | ({"summarised_by": summary.by} if summary else {})
    is_by_model = action == "summarise" and summary is not None and summary.by == "model"
    return decision(
        action, row["id"], entities[:SEEN], [row["id"]], reason, now, seen,
        decided_by="model" if is_by_model else "rule",
        model=f"{summary.model} {summary.prompt_version}".strip() if summary else None,
        key=(as_json(seen), reason),
    )  # fmt: skip


def _dissolved(grouping: Grouping, dropped: pl.DataFrame, now: datetime) -> list[Row]:
    """A decision for each community that is no more, with where its members are now."""
    homes = dict(grouping.members.iter_rows()) if len(dropped) else {}
    rows = []
    for id_, name, members in dropped.select("id", "name", pl.col("entity_ids").fill_null([])).iter_rows():
        heirs = sorted({homes[each] for each in members if each in homes})
        reason = f"Its members {'belong to others' if heirs else 'no longer belong together'} now: {name}."
        seen = {"members": len(members), "heirs": len(heirs)}
        key = (as_json(seen), reason)
        rows.append(decision("dissolve", id_, members[:SEEN], heirs, reason, now, seen, key=key))
    return rows


NAMED = 3
_SUMMARY = ("summary", "summarised_by", "prompt_version", "told_fact_ids")
_ACTIONS = {"gather": "communities found", "regroup": "communities changed", "dissolve": "communities dissolved"}


@dataclass(frozen=True, slots=True, eq=False)
class CommunityPlan:
    """Rows to write and ids to remove.

    `communities` (COMMUNITIES) are those that are new or different, `dropped` ids of those that go. `decisions` have a
    row for each community that was found, changed, dissolved or summarised. `total` is how many there are then,
    `waiting` how many of them are still to be summarised.
    """

    communities: pl.DataFrame
    dropped: pl.Series
    decisions: pl.DataFrame
    total: int
    waiting: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return self.communities.is_empty() and self.dropped.is_empty()

    def summary(self) -> dict[str, int]:
        """The counts of the plan, by name."""
        made = dict(self.decisions["action"].value_counts().iter_rows())
        summaries = self.decisions["measures"].str.json_path_match("$.summarised_by").drop_nulls()
        return {
            "communities": self.total,
            **{what: made.get(action, 0) for action, what in _ACTIONS.items()},
            "communities summarised": len(summaries),
        }


def needs_summary(grouping: Grouping, stored: pl.DataFrame, *, has_model: bool) -> pl.DataFrame:
    """The groups that are new or changed, or have no summary; where a model is there, also those a rule spoke for.

    A model's summary stays as long as its community does, also when rules run. A summary is due
    once one of its facts no longer holds, because the relations and so the fingerprint changed.
    """
    both = beside(grouping.groups, stored)
    is_summarised = (pl.col("stored_fingerprint") == pl.col("fingerprint")) & pl.col("stored_summary").is_not_null()
    is_good = is_summarised & (pl.col("stored_summarised_by") != "rule") if has_model else is_summarised
    return both.filter(~is_good.fill_null(False)).select(grouping.groups.columns)


def summary_sources(grouping: Grouping, strongest: pl.DataFrame) -> dict[str, list[str]]:
    """By fingerprint the ids of the facts that summaries rest on: what `strongest_facts` gives."""
    marks = grouping.groups.select("fingerprint", community_id="id")
    listed = strongest.group_by("community_id", maintain_order=True).agg("fact_id").join(marks, on="community_id")
    return dict(listed.select("fingerprint", "fact_id").iter_rows())


def plan_communities(
    grouping: Grouping,
    stored: pl.DataFrame,
    names: pl.DataFrame,
    aspects: pl.DataFrame,
    summaries: Mapping[str, SignedSummary],
    sources: Mapping[str, Sequence[str]],
    now: datetime,
) -> CommunityPlan:
    """The plan that turns the `stored` COMMUNITIES into these groups.

    `names` are (id, name) of entities, `aspects` (fact_id, slug) of facts, `summaries` by fingerprint, and so are their
    `sources`: ids of the facts that they rest on. A group without a summary that changed since its last one gets
    none now, so that the model is asked again later (T14).
    """
    texts = [
        (fingerprint, each.text, each.by, each.prompt_version or None, list(sources.get(fingerprint, ())))
        for fingerprint, each in summaries.items()
    ]
    kinds = dict.fromkeys(("fingerprint", *_SUMMARY), pl.String()) | {"told_fact_ids": frames.TEXTS}
    rows = _rows(grouping, stored, names, aspects, pl.DataFrame(texts, schema=kinds, orient="row"))
    fresh = rows.join(
        stored.select("id", *COMPARED), on=["id", *COMPARED], how="anti", nulls_equal=True, maintain_order="left"
    )
    dropped = stored.join(rows, on="id", how="anti").sort("id")
    return CommunityPlan(
        frames.conform(fresh.with_columns(refreshed_at=pl.lit(now, dtype=frames.TIME)), frames.COMMUNITIES),
        dropped["id"],
        decisions_of(grouping, fresh, dropped, stored, summaries, now),
        len(rows),
        rows["summary"].null_count(),
    )


def community_names(groups: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """(id, name): the three most connected members of each, and how many there are beside them (S2-49).

    For people to tell communities apart by; two may be called the same, because nothing is found by it.
    """
    first = groups.select("id", entity_id=pl.col("entity_ids").list.head(NAMED)).explode("entity_id")
    called = first.join(names.rename({"id": "entity_id"}), on="entity_id", how="left", maintain_order="left")
    labelled = called.with_columns(pl.coalesce("name", "entity_id").map_elements(one_line, pl.String).alias("name"))
    joined = labelled.group_by("id", maintain_order=True).agg(pl.col("name").str.join(", "))
    more = groups.select("id", more=pl.col("entity_ids").list.len().cast(pl.Int64) - NAMED)
    both = joined.join(more, on="id", maintain_order="left")
    whole = pl.when(pl.col("more") > 0).then(pl.format("{} +{}", "name", "more")).otherwise("name")
    return both.select("id", name=whole)


def aspect_counts(grouping: Grouping, aspects: pl.DataFrame) -> pl.DataFrame:
    """(id, aspects): as JSON how many relations within each community touch which aspect, for those with any (C16)."""
    met = grouping.relations.join(aspects.unique(["fact_id", "slug"]), on="fact_id")
    counts = met.group_by("community_id", "slug").agg(count=pl.len()).sort("community_id", "slug")
    listed = counts.group_by("community_id", maintain_order=True).agg("slug", "count")
    texts = [as_json(dict(zip(slugs, numbers, strict=True))) for _, slugs, numbers in listed.iter_rows()]
    return listed.select(pl.Series("aspects", texts, dtype=pl.String), id="community_id").select("id", "aspects")


def _rows(
    grouping: Grouping,
    stored: pl.DataFrame,
    names: pl.DataFrame,
    aspects: pl.DataFrame,
    fresh_summaries: pl.DataFrame,
) -> pl.DataFrame:
    """id and the COMPARED columns of every group; `fresh_summaries` has fingerprint and the columns of a summary."""
    both = beside(grouping.groups, stored).join(fresh_summaries, on="fingerprint", how="left", maintain_order="left")
    is_fresh, is_same = pl.col("summary").is_not_null(), pl.col("stored_fingerprint") == pl.col("fingerprint")
    kept = [
        pl.when(is_fresh).then(name).when(is_same).then(f"stored_{name}").otherwise(None).alias(name)
        for name in _SUMMARY
    ]
    named = both.with_columns(kept).join(community_names(grouping.groups, names), on="id", maintain_order="left")
    whole = named.join(aspect_counts(grouping, aspects), on="id", how="left", maintain_order="left")
    return whole.select(
        "id",
        "name",
        *_SUMMARY,
        pl.when(pl.col("summary").is_not_null()).then("fingerprint").alias("fingerprint"),
        "entity_ids",
        "facts",
        pl.col("aspects").fill_null("{}"),
        joined_ids=pl.lit([], dtype=frames.TEXTS),
    )
