"""What a run shows of itself: its decisions, its summary and charts on its page in the Prefect UI."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import polars as pl

from recall.aspects import Profile, aspects
from recall.communities import communities
from recall.overview import believed_over_time
from slowwave.deduplication.reconciliation_plan import ReconciliationPlan
from slowwave.lifecycle.run_counts import RunCount, effects, shown_counts
from slowwave.validity import live_sql
from storage.changes import FACT_TABLES
from storage.snapshots import Snapshot

from .engine import is_inline
from .runs import Run, store_of

SHOWN = 10
LISTED = 1000
"""Decisions that a dry run shows: its only purpose."""
INTO, BESIDE, ALSO = " ← ", " | ", " · "
"""In a decision about several facts: between the one that stays and those that it absorbs, between facts that were only
compared, and between the others."""


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """One decision as it is shown: what was done, about which statement beside which others, and why."""

    action: str
    statement: str
    reason: str
    others: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, str, str]:
        """Its three cells of a table, all statements in one."""
        sign = INTO if self.action == "absorb" else BESIDE
        return self.action, sign.join(filter(None, [self.statement, ALSO.join(self.others)])), self.reason


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task did: what it counted, the first of its decisions, and why something could not be done."""

    counts: Mapping[str, int] = field(default_factory=dict)
    decisions: tuple[DecisionSummary, ...] = ()
    errors: tuple[str, ...] = ()


def decisions_of(plan: ReconciliationPlan, facts: pl.DataFrame) -> tuple[DecisionSummary, ...]:
    """The most interesting decisions about these facts: a model's before a rule's, of unlike words before like ones."""
    statements = dict(
        pl.concat([part.select("id", "statement") for part in (facts, plan.reworded)], how="vertical").iter_rows()
    )
    order = {"fail": 0, "contradict": 1, "supersede": 1, "absorb": 1, "keep": 2}
    rows = plan.decisions.with_columns(
        kind=pl.col("action").replace_strict(order, default=3, return_dtype=pl.Int8),
        by_rule=pl.col("decided_by") == "rule",
        likeness=pl.col("measures").str.json_path_match("$.jaccard").cast(pl.Float64, strict=False).fill_null(0.0),
    )
    best = rows.sort("kind", "by_rule", "likeness", "subject_id").head(SHOWN)
    made = [
        DecisionSummary(
            action,
            statements.get(subject, subject),
            reason,
            tuple(statements.get(each, each) for each in ids_in if each != subject),
        )
        for action, subject, ids_in, reason in best.select("action", "subject_id", "ids_in", "reason").iter_rows()
    ]
    waiting = (
        plan.pairs.filter(kind="redundant", outcome="pending").sort(-pl.col("cosine"), "a_id").head(SHOWN - len(made))
    )
    left = [
        DecisionSummary(
            "wait",
            statements.get(a, a),
            f"Rules cannot tell ({guard}); a model or a person can.",
            (statements.get(b, b),),
        )
        for a, b, guard in waiting.select("a_id", "b_id", "guard").iter_rows()
    ]
    return (*made, *left)


# The page of a run: a summary, tables and pictures.


SHOWN_DECISIONS = 10
SHOWN_ISSUES = 50
SHOWN_COMMUNITIES = 50

_decisions_of_runs: ContextVar[dict[str, Sequence[DecisionSummary]] | None] = ContextVar(
    "decisions_of_runs", default=None
)

_SIGNS = re.compile(r"[\\`*_{}\[\]()#+!|~^$-]")


@contextmanager
def collecting_decisions(by_run: dict[str, Sequence[DecisionSummary]]) -> Iterator[None]:
    """Inside, runs put their decisions into `by_run`, by the id of the run; in summaries their facts share a cell."""
    token = _decisions_of_runs.set(by_run)
    try:
        yield
    finally:
        _decisions_of_runs.reset(token)


async def show_summary(
    run: Run, summary: Mapping[str, Any], decisions: Sequence[DecisionSummary], always: Sequence[RunCount]
) -> None:
    """Show a summary on the run's page: a Markdown artifact, and a table of outcomes and decisions."""
    if (by_run := _decisions_of_runs.get()) is not None:
        by_run[run.id] = decisions
    if is_inline():
        return
    from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact

    shown = decision_rows(decisions)
    await acreate_markdown_artifact(
        _markdown(run, summary, shown or _rarest_decisions(run)),
        key=f"{run.flow}-summary",
        description="What this run did",
    )
    await acreate_table_artifact(
        _outcome_rows(summary, always),
        key=f"{run.flow}-outcomes",
        description="Counts by outcome, and what it cost",
    )
    if shown:
        await acreate_table_artifact(
            plain_cells(shown),
            key=f"{run.flow}-decisions",
            description="The most interesting decisions and their reasons",
        )


def decision_rows(decisions: Sequence[DecisionSummary]) -> list[dict[str, str]]:
    """Decisions as rows of a page: each fact in a cell of its own, and a row for each fact that another is about.

    Rows have the keys decision, fact and reason; where any decision is about several facts, also `other fact`.
    """
    has_others = any(each.others for each in decisions)
    return [
        {"decision": each.action, "fact": each.statement, **({"other fact": other} if has_others else {}),
         "reason": each.reason}
        for each in decisions for other in each.others or ("",)
    ]  # fmt: skip


async def publish_charts(run: Run) -> None:
    """Show pictures of the store on the run's page."""
    if is_inline():
        return
    from prefect.artifacts import acreate_image_artifact

    for name, picture, description in pictures_of(run):
        await acreate_image_artifact(image_url=as_url(picture), key=f"{run.flow}-{name}", description=description)


async def publish_communities(run: Run) -> None:
    """Show the largest communities on the run's page, as a table."""
    if is_inline():
        return
    from prefect.artifacts import acreate_table_artifact

    _, listed = communities(store_of(run).snapshot(), run.now, SHOWN_COMMUNITIES)
    rows = [{"name": one.name, "members": one.size, "relations": one.facts, "about": one.summary} for one in listed]
    await acreate_table_artifact(
        plain_cells(rows), key="communities", description="What belongs together, the largest first"
    )


def _outcome_rows(summary: Mapping[str, Any], always: Sequence[RunCount]) -> list[dict[str, Any]]:
    """A row for each count, then the room it took and the cost; of what is zero only the counts `always`."""
    llm = summary["llm"]
    counts: dict[str, Any] = {**{count.label: 0 for count in always}, **shown_counts(summary["counts"])}
    counts |= {f"bytes on disk {when}": number for when, number in summary.get("bytes", {}).items()}
    counts |= {f"refused: {gate}": number for gate, number in summary.get("refused", {}).items()}
    cost = {"model calls": llm["calls"], "answers from the ledger": llm["from ledger"], "dollars": llm["usd"]}
    counts |= {what: number for what, number in cost.items() if number}
    return [{"outcome": what, "count": number} for what, number in (counts or {"nothing to count": 0}).items()]


def _markdown(run: Run, summary: Mapping[str, Any], decisions: Sequence[Mapping[str, str]]) -> str:
    place = f"--store {run.store} --namespace {run.namespace}"
    llm = summary["llm"]
    cost = (
        f"Model `{llm['model']}`: {llm['calls']} calls, {llm['from ledger']} answers from the ledger, "
        f"{llm['tokens_in']} tokens in, {llm['tokens_out']} out, {llm['usd']:.4f} dollars."
    )
    way_back = f"All of it: `slowwave why {run.id} {place}`. Take the run back: `slowwave undo {run.id} {place}`."
    lines = [
        f"# {summary['run']}: {summary['state']}",
        "",
        f"Store `{run.store}`, namespace `{run.namespace}`, commit {summary['commit']}.",
        "",
        *(f"{plain_text(note)}\n" for note in summary["notes"]),
        *([f"{size_line(summary)}\n"] if "bytes" in summary else ()),
        f"Changed: {plain_text(', '.join(effects(summary['counts'])) or 'nothing that is known')}.",
        "",
        *_counts_table("what", shown_counts(summary["counts"])),
        *_counts_table("refused by gate", summary.get("refused", {})),
        cost if llm["calls"] or llm["from ledger"] else "No model was asked.",
        "",
        *(["## Decisions", ""] if decisions else ()),
        *(markdown_table(tuple(decisions[0]), [tuple(row.values()) for row in decisions]) if decisions else ()),
        *(() if summary.get("dry_run") else (way_back, "")),
        *(f"- {plain_text(issue)}" for issue in [*summary["errors"], *summary["issues"]][:SHOWN_ISSUES]),
    ]
    return "\n".join(lines)


def _counts_table(head: str, counts: Mapping[str, int]) -> list[str]:
    return markdown_table((head, "count"), list(counts.items())) if counts else []


def size_line(summary: Mapping[str, Any]) -> str:
    """How much room the store took before and after, for people."""
    before, after = (f"{summary['bytes'][when] / 1e6:,.1f} MB" for when in ("before", "after"))
    return f"The store takes {after} on disk; before it took {before}."


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """The lines of a table whose cells say what they say, whatever signs are in them; a blank one ends it."""
    cells = [[plain_text(str(cell)) for cell in row] for row in [head, *rows]]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|---" * len(head) + "|", *lines[1:], ""]


def plain_cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a table artifact, whose texts the page would else read as Markdown."""
    return [{key: plain_text(cell) if isinstance(cell, str) else cell for key, cell in row.items()} for row in rows]


def plain_text(text: str) -> str:
    """Stored text on one line, none of whose signs are Markdown or HTML."""
    marked = _SIGNS.sub(r"\\\g<0>", html.escape(" ".join(text.split()), quote=False))
    return marked.replace("://", "&#58;//").replace("www.", "www&#46;")


def _rarest_decisions(run: Run) -> list[dict[str, str]]:
    """A few decisions of the run, the rarest kinds first: a merge or an end is of more interest than a new fact."""
    snapshot = store_of(run).snapshot()
    made = snapshot.frame("decisions", f"run_id = '{run.id}'", ["id", "action", "subject_id", "reason"])
    rarest = made.with_columns(times=pl.len().over("action")).sort("times", "action", "id").head(SHOWN_DECISIONS)
    facts = snapshot.by_ids("facts", rarest["subject_id"], ["id", "statement"])
    shown = rarest.join(facts, left_on="subject_id", right_on="id", how="left", maintain_order="left")
    named = shown.select(decision="action", fact=pl.col("statement").fill_null(""), reason="reason")
    return named.to_dicts()


# Charts of the store, and the numbers behind them.


BINS = 20


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
    chart = _chart("Bar", title="Scores of live facts", x_title="score", y_title="facts")
    chart.x_labels = [f"{edge:.2f}" for edge in bins["from_"]]
    chart.x_labels_major = [f"{edge:.2f}" for edge in bins["from_"].gather_every(5)]
    chart.add("live", bins["facts"].to_list())
    return _drawn(chart)


def facts_chart(snapshot: Snapshot, run: Run) -> bytes:
    """A line of how many facts were believed at each time, as SVG."""
    columns = ["created_at", "expired_at"]
    believed = "status NOT IN ('candidate', 'rejected')"
    facts = pl.concat([snapshot.frame(name, believed, columns) for name in FACT_TABLES])
    line = believed_over_time(facts, run.now)
    chart = _chart("Line", title="Facts believed", y_title="facts", fill=True, show_dots=False)
    times, step = line["at"].to_list(), -(-len(line) // MARKS)
    is_short = len(times) > 1 and times[-1] - times[0] < timedelta(days=MARKS)
    shown = "%d %b %H:%M" if is_short else "%Y-%m-%d"
    chart.x_labels = [at.strftime(shown) if n % step == 0 else "" for n, at in enumerate(times)]
    chart.x_labels_major = [label for label in chart.x_labels if label]
    chart.add("believed", line["believed"].to_list())
    return _drawn(chart)


def aspect_chart(known: Mapping[str, Profile]) -> bytes:
    """A radar plot of the fourteen aspects of each namespace, from 0 in the middle to 100, as SVG (S3-19)."""
    look = {**ROUND, "show_legend": len(known) > 1}
    chart = _chart("Radar", title="Aspects known", fill=True, range=(0, 100), **look)
    chart.y_labels = range(0, 101, 25)
    profiles = list(known.values())
    chart.x_labels = [row.aspect.display_name for row in profiles[0]]
    for namespace, profile in known.items():
        chart.add(namespace, [row.score for row in profile])
    return _drawn(chart)


def _chart(kind: Literal["Bar", "Line", "Radar"], **more: Any) -> Any:
    """An empty chart in our colours. Its library is imported only where a picture is drawn."""
    import pygal
    from pygal.style import Style

    look = {
        "width": WIDTH,
        "height": HEIGHT,
        "style": Style(background="white", plot_background="white", colors=_COLOURS, **_SIZES),
        "show_legend": False,
        "truncate_label": -1,
        "show_minor_x_labels": False,
        "js": (),  # a picture in a page runs no scripts
    }
    return getattr(pygal, kind)(**{**look, **more})


def _drawn(chart: Any) -> bytes:
    drawn: bytes = chart.render()
    return drawn
