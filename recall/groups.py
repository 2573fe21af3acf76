"""Groups of what is known: aspects of a life (S3-18), and communities of entities.

`stored_aspects` reads what runs wrote; `aspects` counts what is live now. The two may differ (S3-19).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.common.settings import AspectSettings
from slowwave.common.types import Community, Member
from slowwave.common.validity import live_sql
from slowwave.facts.aspects import BY_SLUG, COUNTED, TAGGED, score, score_aspects, shown
from slowwave.graph.community_detection import MIN_MEMBERS, member_lists
from slowwave.graph.community_plan import community_names
from storage.snapshots import Reading, Snapshot

from .entities import LISTED

USUAL = AspectSettings()


Profile = list[dict[str, Any]]
"""All fourteen aspects in the order of the taxonomy, as `--json` has them.

Each has the fields of `Aspect`, COUNTED (confidence is a mean in [0, 1], the score 0 to 100), `shown`, that score
rounded half up, and `scored_at`, None for a stored score that no run has written yet.
"""


def aspects(reading: Reading, now: datetime, settings: AspectSettings = USUAL) -> Profile:
    """All fourteen aspects, counted from the facts that are live at `now`."""
    return [
        {**BY_SLUG[row.pop("slug")].as_json(), **row, "shown": shown(row["score"]), "scored_at": now}
        for row in scored(reading, now, settings).select("slug", *COUNTED).iter_rows(named=True)
    ]


def stored_aspects(reading: Reading, settings: AspectSettings = USUAL) -> Profile:
    """All fourteen aspects as counted by the last run that changed them, scored by these settings."""
    columns = [name for name in COUNTED if name != "score"]
    stored = reading.frame("aspect_scores", columns=["id", *columns, "scored_at"]).rows_by_key(
        "id", named=True, unique=True
    )
    found = []
    for slug, aspect in BY_SLUG.items():
        row: dict[str, Any] = stored.get(slug) or {**dict.fromkeys(columns, 0), "scored_at": None}
        counts = {name: row[name] for name in columns}
        value = score(**counts, settings=settings) if slug in stored else 0.0
        more = {"score": value, "shown": shown(value), "scored_at": row["scored_at"]}
        found.append({**aspect.as_json(), **counts, **more})
    return found


def scored(reading: Reading, now: datetime, settings: AspectSettings = USUAL) -> pl.DataFrame:
    """Slug and COUNTED of all fourteen aspects, from the facts that are live at `now`."""
    tagged = reading.frame("fact_aspects", columns=["fact_id", "slug"])
    facts = reading.frame("facts", live_sql(now) if len(tagged) else "false", list(TAGGED))
    return score_aspects(facts, tagged, settings)


# Communities as they are shown: what belongs together, its name, and a summary of it (S2-46 … S2-49). Entities that are
# archived or merged since the refresh are left out; a summary is shown as long as all facts of its sources are valid.


MEMBERS = ("id", "entity_ids", "joined_ids", "refreshed_at")
"""The columns with the members of a community."""
_COLUMNS = [*MEMBERS, "summary", "summarised_by", "told_fact_ids", "facts", "aspects"]


def communities(snapshot: Snapshot, now: datetime, limit: int) -> tuple[int, tuple[Community, ...]]:
    """How many communities there are of which two or more members are left, and the largest."""
    stored = snapshot.frame("communities", columns=[*MEMBERS, "facts"])
    if stored.is_empty():
        return 0, ()
    there = member_lists(stored).join(snapshot.frame("entities", LISTED, ["id"]), on="id", how="semi").unique(
        ["id", "community_id"]
    )  # fmt: skip
    sizes = there.group_by(id="community_id").agg(size=pl.len()).filter(pl.col("size") >= MIN_MEMBERS)
    sized = sizes.join(stored.select("id", "facts"), on="id")
    first = sized.sort("size", "facts", "id", descending=[True, True, False], nulls_last=True).head(limit)
    return len(sized), _shown(snapshot, first["id"], now)


def summarised_communities(snapshot: Snapshot, ids: Sequence[str] | pl.Series, now: datetime) -> pl.DataFrame:
    """The communities of these ids, with their summaries at `now`, in no particular order.

    Columns: id, name, summary (null where there is none to show), summarised_by, is_outdated, facts, aspects, and the
    lists `member_ids` and `members` (names) of those that are listed.
    """
    rows = snapshot.by_ids("communities", ids, _COLUMNS)
    everyone = member_lists(rows).unique(["id", "community_id"], keep="first", maintain_order=True)
    names = snapshot.by_ids("entities", everyone["id"], ["id", "name"], where=LISTED)
    listed = everyone.join(names, on="id", maintain_order="left").group_by("community_id", maintain_order=True)
    members = listed.agg(entity_ids="id", members="name").rename({"community_id": "id"})
    sources = rows.select("id", fact_id="told_fact_ids").explode("fact_id").drop_nulls()
    live = snapshot.by_ids("facts", sources["fact_id"], ["id"], where=live_sql(now))["id"]
    outdated = sources.filter(~pl.col("fact_id").is_in(live.implode()))["id"]
    is_outdated = pl.col("summary").is_not_null() & pl.col("id").is_in(outdated.implode())
    named = rows.drop("entity_ids").join(members, on="id", how="left").join(
        community_names(members, names), on="id", how="left"
    )  # fmt: skip
    return named.select(
        "id", pl.col("name").fill_null(""), pl.when(~is_outdated).then("summary").alias("summary"), "summarised_by",
        is_outdated.alias("is_outdated"), "facts", "aspects", pl.col("entity_ids").fill_null([]).alias("member_ids"),
        pl.col("members").fill_null([]),
    )  # fmt: skip


def _shown(snapshot: Snapshot, ids: pl.Series, now: datetime) -> tuple[Community, ...]:
    """The communities with these ids, in their order."""
    found = ids.rename("id").to_frame().join(summarised_communities(snapshot, ids, now), on="id", maintain_order="left")
    made = []
    for row in found.iter_rows(named=True):
        members = tuple(Member(*pair) for pair in zip(row["member_ids"], row["members"], strict=True))
        texts = (row["name"], row["summary"] or "", row["summarised_by"] or "", row["is_outdated"])
        aspects = json.loads(row["aspects"] or "{}")
        made.append(Community(row["id"], *texts, len(members), row["facts"] or 0, aspects, members))
    return tuple(made)
