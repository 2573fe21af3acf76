"""Sessions: conversations that are due for a summary, and the input of the summary (S4-23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import polars as pl

from slowwave.common.decisions import decision, decision_frame
from slowwave.common.records import SessionQuestion, Turn
from slowwave.common.text import one_line
from slowwave.graph.community_plan import SignedSummary

TALKS = ("user", "assistant")
"""Roles of questions and answers."""
TURNS_SHOWN = 200
"""The newest turns of a conversation; packing decides how many of them fit into a prompt."""
TURN_CHARS = 1000
"""Limit of one turn; longer turns are mostly listings."""
SUMMARY_COLUMNS = ("summary", "summarised_by", "prompt_version", "summarised_pairs")
"""The columns of an episode that a summary fills."""
MESSAGES_PER_PAIR = 2
FIRST_PAIRS, EVERY_PAIRS = 3, 5


def pairs_in(turns: Iterable[tuple[str, str | None]]) -> int:
    """The number of answered questions, from the role and the speaker of each message in order.

    A turn of anybody but the assistant is a question; the next turn of another speaker is its answer. A turn is in at
    most one pair. Several messages of one speaker in a row are one turn.
    """
    pairs, is_open = 0, False
    before: tuple[bool, str | None] | None = None
    for role, speaker in turns:
        who = (True, None) if role == "assistant" else (False, speaker)
        if who == before:
            continue
        pairs += is_open
        is_open = not is_open and role != "assistant"
        before = who
    return pairs


def count_pairs(messages: pl.DataFrame) -> pl.DataFrame:
    """(conversation_id, pairs) of these messages (conversation_id, ordinal, id, role, speaker)."""
    talks = messages.sort("conversation_id", "ordinal", "id").group_by("conversation_id", maintain_order=True)
    counted = [(talk, pairs_in(zip(*each, strict=True))) for talk, *each in talks.agg("role", "speaker").iter_rows()]
    return pl.DataFrame(counted, schema={"conversation_id": pl.String, "pairs": pl.Int64}, orient="row")


def may_be_due(episodes: pl.DataFrame) -> pl.DataFrame:
    """The episodes with enough messages to be due, so that the others need not be read."""
    summarised, every = pl.col("summarised_pairs"), EVERY_PAIRS
    wanted = pl.when(summarised.is_not_null()).then((summarised // every + 1) * every).otherwise(FIRST_PAIRS)
    return episodes.filter(pl.col("messages") >= MESSAGES_PER_PAIR * wanted)


def plan_due(episodes: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """The due episodes (id, conversation_id and SUMMARY_COLUMNS) with `pairs` of `count_pairs`, in order of ids.

    The first summary is due from FIRST_PAIRS on, the next ones at each multiple of EVERY_PAIRS.
    """
    summarised, every = pl.col("summarised_pairs"), EVERY_PAIRS
    has_passed = pl.col("pairs") // every > summarised // every
    both = episodes.join(pairs, on="conversation_id").filter(pl.col("pairs") >= FIRST_PAIRS)
    return both.filter(has_passed.fill_null(True)).sort("id")


def questions_of(due: pl.DataFrame, messages: pl.DataFrame) -> tuple[SessionQuestion, ...]:
    """The questions about these episodes, in their order, numbered from 1.

    `messages` are the newest of each (conversation_id, ordinal, id, role, speaker, content, occurred_at); `turns` of
    `due` is the number of all of them.
    """
    ordered = messages.sort("conversation_id", "ordinal", "id")
    talks = {rows["conversation_id"][0]: rows for rows in ordered.partition_by("conversation_id", maintain_order=True)}
    columns = ("conversation_id", "summary", "turns")
    return tuple(
        SessionQuestion(number, _turns(talks[talk]), one_line(summary or ""), total - len(talks[talk]))
        for number, (talk, summary, total) in enumerate(due.select(columns).iter_rows(), 1)
    )


def _turns(rows: pl.DataFrame) -> tuple[Turn, ...]:
    shown = rows.select("speaker", "role", "content", "occurred_at")
    turns = []
    for n, (speaker, role, content, at) in enumerate(shown.iter_rows()):
        text = content or ""
        text = text if len(text) <= TURN_CHARS else f"{text[: TURN_CHARS - 1].rstrip()}…"
        turns.append(Turn(n, speaker or role, role, text, at))
    return tuple(turns)


def with_summaries(rows: pl.DataFrame, due: pl.DataFrame, summaries: Mapping[str, SignedSummary]) -> pl.DataFrame:
    """The episodes (full rows) that have not changed since `due`, with their new summaries."""
    texts = [(id_, each.text, each.by, each.prompt_version or None) for id_, each in summaries.items()]
    fresh = pl.DataFrame(texts, schema=dict.fromkeys(("id", *SUMMARY_COLUMNS[:3]), pl.String), orient="row")
    same = rows.join(due, on=["id", "summary", "summarised_pairs"], how="semi", nulls_equal=True, maintain_order="left")
    both = same.drop(SUMMARY_COLUMNS).join(fresh, on="id", maintain_order="left")
    counted = both.join(due.select("id", summarised_pairs="pairs"), on="id", maintain_order="left")
    return counted.select(rows.columns)


def decisions_about(
    written: pl.DataFrame, due: pl.DataFrame, summaries: Mapping[str, SignedSummary], now: datetime
) -> pl.DataFrame:
    """DECISIONS: one for each episode with a new summary."""
    known = dict(due.select("id", "summarised_pairs").iter_rows())
    rows = []
    for id_, pairs in written.select("id", "summarised_pairs").iter_rows():
        before, summary = known[id_], summaries[id_]
        since = "it had no summary" if before is None else f"there were {before} when it was summarised last"
        why = f"{pairs} questions were answered in it; {since}."
        seen = {"pairs": pairs, "pairs before": before, "summarised_by": summary.by}
        model = f"{summary.model} {summary.prompt_version}".strip()
        key = (pairs, summary.by)
        rows.append(decision("summarise", id_, [], [id_], why, now, seen, decided_by=summary.by, model=model, key=key))
    return decision_frame(rows)
