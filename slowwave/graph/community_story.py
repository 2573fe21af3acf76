"""What the ledger tells of communities: which were found, changed, summarised or dissolved, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import polars as pl

from slowwave import frames
from slowwave.graph.communities import Grouping, changed_members
from slowwave.graph.community_summaries import Summary
from slowwave.text import as_json, timed_id

COMPARED = ("name", "summary", "summarised_by", "prompt_version", "told_fact_ids", "fingerprint", "entity_ids",
            "joined_ids", "facts", "aspects")  # fmt: skip
"""Columns by which a community is as it was, or not."""
SEEN = 3
"""Members that a decision names, the most connected ones."""

Row = dict[str, object]


def decisions_of(
    grouping: Grouping,
    fresh: pl.DataFrame,
    dropped: pl.DataFrame,
    held: pl.DataFrame,
    summaries: Mapping[str, Summary],
    now: datetime,
) -> pl.DataFrame:
    """DECISIONS about rows that are `fresh`, or `dropped` from those `held`: one for each that says something new."""
    rows = [*_told_of(grouping, fresh, held, summaries), *_dissolved(grouping, dropped)]
    for row in rows:
        row["id"] = timed_id("d", now, row["action"], row["subject_id"], row["measures"], row["reason"])
        row["at"] = now
    return pl.DataFrame(rows, schema=dict(frames.DECISIONS))


def beside(groups: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """The groups, and what is held under their ids as `held_…`."""
    before = held.select("id", pl.col(*COMPARED).name.prefix("held_"))
    return groups.join(before, on="id", how="left", maintain_order="left")


def _told_of(
    grouping: Grouping, fresh: pl.DataFrame, held: pl.DataFrame, summaries: Mapping[str, Summary]
) -> list[Row]:
    """A decision for each community that was found, changed or summarised; none for one that is only called anew."""
    moved = changed_members(grouping, held)
    now = fresh.select("id", "name", "entity_ids", "facts", "summary", "summarised_by").join(
        grouping.groups.select("id", told="fingerprint"), on="id", maintain_order="left"
    )
    both = beside(now, held).join(moved, on="id", how="left", maintain_order="left")
    known = set(held["id"])
    rows: list[Row] = []
    for row in both.with_columns(pl.col("joined", "left").fill_null(0)).iter_rows(named=True):
        is_other = row["held_fingerprint"] not in (None, row["told"]) or row["facts"] != row["held_facts"]
        action = "gather" if row["id"] not in known else "regroup" if row["joined"] or row["left"] or is_other else ""
        is_new = any(row[name] != row[f"held_{name}"] for name in ("summary", "summarised_by"))
        said = summaries.get(row["told"]) if is_new else None
        if action or said:
            rows.append(_decision(action or "summarise", row, said))
    return rows


def _decision(action: str, row: Row, said: Summary | None) -> Row:
    entities = row["entity_ids"]
    assert isinstance(entities, list)
    size = len(entities)
    measures = {"members": size, "facts": row["facts"], "joined": row["joined"], "left": row["left"]}
    by = f"{row['facts']} relation{'' if row['facts'] == 1 else 's'} among them"
    reason = {
        "gather": f"{size} entities belong together, by {by}: {row['name']}.",
        "regroup": f"{row['joined']} joined and {row['left']} left; now {size} entities, by {by}: {row['name']}.",
        "summarise": f"It had no summary, or one without a model: {row['name']}.",
    }
    return {
        "action": action,
        "subject_id": row["id"],
        "ids_in": entities[:SEEN],
        "ids_out": [row["id"]],
        "measures": as_json(measures | ({"summarised_by": said.by} if said else {})),
        "decided_by": "model" if action == "summarise" and said and said.by == "model" else "rule",
        "model": f"{said.model} {said.prompt_version}".strip() or None if said else None,
        "reason": reason[action],
    }


def _dissolved(grouping: Grouping, dropped: pl.DataFrame) -> list[Row]:
    """A decision for each community that is no more, with where its members are now."""
    before = dropped.select(gone="id", id="entity_ids").explode("id").drop_nulls()
    places = before.join(grouping.members, on="id").group_by("gone").agg(heirs=pl.col("community_id").unique().sort())
    both = dropped.select("id", "name", "entity_ids").join(
        places.rename({"gone": "id"}), on="id", how="left", maintain_order="left"
    )
    return [
        {
            "action": "dissolve",
            "subject_id": id_,
            "ids_in": members[:SEEN],
            "ids_out": heirs or [],
            "measures": as_json({"members": len(members), "heirs": len(heirs or [])}),
            "decided_by": "rule",
            "reason": f"Its members {'belong to others' if heirs else 'no longer belong together'} now: {name}.",
        }
        for id_, name, members, heirs in both.with_columns(pl.col("entity_ids").fill_null([])).iter_rows()
    ]
