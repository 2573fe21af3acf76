"""What has ended: a question about the present may be about it, and is answered by what took its place.

Who asks "which database did we leave?" finds the fact that ended by its words, not the one that came after it. So facts
that have ended are compared as well; a match brings the live fact at the end of its replacements, which shows the
one that matched as what was before. None stands as if it held. Questions for an order, a development or a summary gain
nothing by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import polars as pl

from slowwave.common.validity import MAX_CHAIN, has_ended_sql, of_rows, successors
from storage.residents import MatchedRows, Row
from storage.warm import Tables

from .facts import ALL
from .order import RankedFact
from .question import Faded, Question

PASSED_ON = 0.95
"""Share of the score of a fact that has ended which the fact that took its place gets, where it is more than its own:
where both match alike, the one that holds comes first. Of .8, .9 and .95 blocks hold the same evidence."""


def holds(fact: Row, now: datetime) -> bool:
    """Whether a fact is live, by its row; the same as `validity.is_live`."""
    is_open = fact["valid_to"] is None or fact["valid_to"] > now
    return fact["status"] == "active" and fact["expired_at"] is None and is_open


async def live_successors(
    tables: Tables, question: Question, faded: Faded, ended: Sequence[Row], known: Mapping[str, Row]
) -> tuple[dict[str, str], MatchedRows]:
    """By fact that has ended the live one at the end of its replacements, where there is one that may answer.

    `known` are facts that may answer and were read before; beside it the rows of those that were not.
    """
    steps = {row["id"]: row["replaced_by"] for row in ended if row["replaced_by"] is not None}
    later = await _later_steps(tables, steps, known)
    last = {start: next(iter(reversed(successors(start, later))), start) for start in steps}
    missing = sorted({*last.values()} - {*known})
    read = await tables.with_vectors("facts", {"id": missing}, question.columns, question.condition)
    low = await faded.among(tables, [row["id"] for row in read.rows])
    allowed = {*known, *(row["id"] for row in read.rows)}.difference(low)
    return {start: end for start, end in last.items() if end in allowed}, read


async def _later_steps(tables: Tables, steps: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """The steps with those that come after them, wherever these facts lie; the `known` facts hold."""
    found, seen = dict(steps), {*known, *steps}
    for _ in range(MAX_CHAIN):
        missing = sorted({*found.values()} - seen)
        if not missing:
            break
        seen.update(missing)
        parts = await tables.together(*(tables.rows(name, "id", missing, ["id", "replaced_by"]) for name in ALL))
        found |= {row["id"]: row["replaced_by"] for part in parts for row in part if row["replaced_by"] is not None}
    return found


def raised_by_ended(
    live: Iterable[RankedFact], ended: Iterable[RankedFact], last: Mapping[str, str], rows: Mapping[str, Row]
) -> list[RankedFact]:
    """The live facts with those that took the place of what matches; sorted again.

    Each once, with PASSED_ON of the score of the best match that it replaced, where that is more than its own.
    """
    places = {place.fact_id: place for place in live}
    for match in ended:
        end = last.get(match.fact_id or "")
        if end is None:
            continue
        passed, own = match.score * PASSED_ON, places.get(end)
        if own is None or own.score < passed:
            sources = own.sources if own else (rows[end]["message_id"],)
            parts = {**match.parts, "former": passed, "search": passed}
            places[end] = replace(match, fact_id=end, sources=sources, score=passed, parts=parts, former=match.fact_id)
    return sorted(places.values(), key=lambda place: -place.score)


def near_and_ended(found: pl.DataFrame, question: Question) -> tuple[list[tuple[str, float]], list[str]]:
    """(message, cosine) of those that may answer, and the ids of those that have ended."""
    if not question.compares_ended:
        live = found if question.moment.is_past else found.filter(pl.col("status") == "active")
        return live.select("message_id", "cosine").rows(), []
    is_over = of_rows(has_ended_sql(question.moment.now)).fill_null(False)
    live = found.filter(~is_over, pl.col("status") == "active")
    return live.select("message_id", "cosine").rows(), found.filter(is_over)["id"].to_list()
