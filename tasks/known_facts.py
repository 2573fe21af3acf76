"""Known facts: what an extractor is shown of what memory holds, so that it can say what is over, wrong or repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import polars as pl

from slowwave.application.counterparts import claims_of, find_counterparts
from slowwave.intake.windows import PlannedWindow
from slowwave.records import KnownFact
from slowwave.settings import ExtractSettings
from slowwave.validity import live_sql
from storage.search import near_ids, unit_matrix
from storage.snapshots import Snapshot

from .runs import Run, embedder_of

POOL_PER_CLAIM = 12
COLUMNS = ["id", "scope", "statement", "message_id", "subject_id", "predicate", "object_id", "object_text", "polarity"]
Known = list[tuple[KnownFact, tuple[str, ...]]]


def known_facts(
    run: Run, snapshot: Snapshot, planned: Sequence[PlannedWindow], settings: ExtractSettings
) -> list[Known]:
    """For each window the live facts that its messages may contradict, repeat or bring up to date, likeliest first.

    They are chosen claim by claim: what a long message says in one clause is a small part of its words. With each fact
    come the ids of the entities that it is about.
    """
    if not settings.known_facts:
        return [[] for _ in planned]
    asked = pl.DataFrame(
        list(_claims(planned)), schema={"id": pl.String, "scope": pl.String, "statement": pl.String}, orient="row"
    )
    vectors = embedder_of(run).embed(asked["statement"].to_list())
    near = asked.select("scope", pl.Series("vector", list(vectors), dtype=pl.List(pl.Float32)), text="statement")
    ids = near_ids(snapshot, "facts", near, POOL_PER_CLAIM, live_sql(run.now))
    facts = snapshot.by_ids("facts", ids, [*COLUMNS, "vector"]).filter(pl.col("vector").is_not_null())
    pool = facts.drop("vector")
    found = find_counterparts(asked, vectors, pool, unit_matrix(facts["vector"], snapshot.dims), settings.known_facts)
    rows = {row["id"]: row for row in pool.iter_rows(named=True)}
    names = _names(snapshot, pool)
    times = dict(snapshot.by_ids("messages", pool["message_id"].drop_nulls(), ["id", "occurred_at"]).iter_rows())
    best = dict(found.group_by("id", maintain_order=True).agg("candidate_id").iter_rows())
    return [
        [_known(n, rows[fact], names, times) for n, fact in enumerate(best.get(str(window), ()))]
        for window in range(len(planned))
    ]


def _claims(planned: Sequence[PlannedWindow]) -> Iterator[tuple[str, str, str]]:
    """(number of the window, scope, claim): what each window's people say was or is, clause by clause."""
    for number, each in enumerate(planned):
        for turn in each.window.turns:
            if not turn.is_context:
                yield from ((str(number), each.window.scope, claim) for claim in claims_of(turn.text))


def _names(snapshot: Snapshot, facts: pl.DataFrame) -> dict[str, str]:
    ids = pl.concat([facts["subject_id"], facts["object_id"]]).drop_nulls()
    return dict(snapshot.by_ids("entities", ids, ["id", "name"]).iter_rows())


def _known(
    number: int, row: dict[str, object], names: dict[str, str], times: dict[str, datetime]
) -> tuple[KnownFact, tuple[str, ...]]:
    subject, object_ = str(row["subject_id"] or ""), str(row["object_id"] or "")
    fact = KnownFact(
        number,
        str(row["id"]),
        str(row["statement"]),
        times.get(str(row["message_id"])),
        names.get(subject, ""),
        str(row["predicate"] or ""),
        names.get(object_, str(row["object_text"] or "")),
        is_over=row["polarity"] == "negated",
    )
    return fact, tuple(id_ for id_ in (subject, object_) if id_)
