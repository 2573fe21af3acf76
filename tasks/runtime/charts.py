"""Charts: pictures of the store on the page of a run in the Prefect UI, and the numbers behind them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pygal
from pygal.style import Style

from recall.aspects import Profile, aspects
from slowwave.validity import live_sql
from storage.snapshots import Snapshot

from .runs import Run, store_of

if TYPE_CHECKING:
    pass


POINTS = 60
BINS = 20


def believed_over_time(facts: pl.DataFrame, now: datetime, points: int = POINTS) -> pl.DataFrame:
    """How many facts the store believed at evenly spaced times from the first fact to `now`: columns at, believed.

    `facts` has created_at and expired_at of all facts that were ever active. A single time where everything is new.
    """
    began = facts.filter(pl.col("created_at") <= now)["created_at"].sort()
    ended = facts["expired_at"].drop_nulls().sort()
    if began.is_empty() or (start := began[0]) == now:
        return pl.DataFrame({"at": [now], "believed": [len(began)]})
    times = [start + (now - start) * step / (points - 1) for step in range(points)]
    at = pl.Series("at", times, dtype=began.dtype)
    believed = began.search_sorted(at, side="right") - ended.search_sorted(at, side="right")
    return pl.DataFrame({"at": at, "believed": believed.cast(pl.Int64)})


def score_bins(scores: pl.Series, bins: int = BINS) -> pl.DataFrame:
    """How many scores in [0, 1] lie in each of `bins` equal parts: columns from_, to, facts; nulls are left out."""
    counts, edges = np.histogram(scores.drop_nulls().to_numpy(), bins=bins, range=(0.0, 1.0))
    return pl.DataFrame({"from_": edges[:-1], "to": edges[1:], "facts": counts.astype(np.int64)})


WIDTH, HEIGHT = 640, 320
ROUND = {"width": 640, "height": 600, "show_minor_x_labels": True, "legend_at_bottom": True}
MARKS = 6
"""Labels on the axis of times: more would overlap."""
_SIZES = {
    "title_font_size": 15,
    "label_font_size": 11,
    "major_label_font_size": 11,
}
_COLOURS = ("#3b6fb6", "#c4622d", "#4c9a6a", "#8a5fb0", "#b0902f", "#5a6b7b")


def pictures_of(run: Run) -> Iterator[tuple[str, bytes, str]]:
    """How the scores lie, how many facts were believed over time, and how much is known: name, SVG, description."""
    snapshot = store_of(run).snapshot()
    yield "scores", score_chart(snapshot, run), "How many live facts have which score"
    yield "facts", facts_chart(snapshot, run), "Facts that the store believed, over time"
    known = {run.namespace: aspects(snapshot, run.now)}
    yield "aspects", aspect_chart(known), "How well each aspect of a life is known"


def as_url(svg: bytes) -> str:
    """The picture itself as an address, so that no file must be served."""
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"


def score_chart(snapshot: Snapshot, run: Run) -> bytes:
    """A histogram of the quality scores of live facts, as SVG."""
    live = snapshot.frame("facts", live_sql(run.now), ["id"])
    scores = snapshot.frame("fact_scores", columns=["id", "quality_score"]).join(live, on="id", how="semi")
    bins = score_bins(scores["quality_score"])
    chart = pygal.Bar(title="Scores of live facts", x_title="score", y_title="facts", **_look())
    chart.x_labels = [f"{edge:.2f}" for edge in bins["from_"]]
    chart.x_labels_major = [f"{edge:.2f}" for edge in bins["from_"].gather_every(5)]
    chart.add("live", bins["facts"].to_list())
    return _drawn(chart)


def facts_chart(snapshot: Snapshot, run: Run) -> bytes:
    """A line of how many facts were believed at each time, as SVG."""
    columns = ["created_at", "expired_at"]
    believed = "status NOT IN ('candidate', 'rejected')"
    facts = pl.concat([snapshot.frame(name, believed, columns) for name in ("facts", "facts_archive")])
    line = believed_over_time(facts, run.now)
    chart = pygal.Line(title="Facts believed", y_title="facts", fill=True, show_dots=False, **_look())
    chart.x_labels = [f"{at:%Y-%m-%d}" for at in line["at"]]
    chart.x_labels_major = chart.x_labels[:: max(1, len(line) // MARKS)]
    chart.add("believed", line["believed"].to_list())
    return _drawn(chart)


def aspect_chart(known: Mapping[str, Profile]) -> bytes:
    """A radar plot of the fourteen aspects of each namespace, from 0 in the middle to 100, as SVG (S3-19)."""
    look = {**_look(), **ROUND, "show_legend": len(known) > 1}
    chart = pygal.Radar(title="Aspects known", fill=True, range=(0, 100), **look)
    chart.y_labels = range(0, 101, 25)
    profiles = list(known.values())
    chart.x_labels = [row.aspect.display_name for row in profiles[0]]
    for namespace, profile in known.items():
        chart.add(namespace, [row.score for row in profile])
    return _drawn(chart)


def _look() -> dict[str, Any]:
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "style": Style(background="white", plot_background="white", colors=_COLOURS, **_SIZES),
        "show_legend": False,
        "truncate_label": -1,
        "show_minor_x_labels": False,
        "js": (),  # a picture in a page runs no scripts
    }


def _drawn(chart: pygal.graph.graph.Graph) -> bytes:
    drawn: bytes = chart.render()
    return drawn
