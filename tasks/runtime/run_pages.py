"""Summaries: what a run did, shown on its page in the Prefect UI."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from recall.communities import communities
from slowwave.lifecycle.run_effects import effects

from .engine import is_inline
from .runs import Run, newest_commit, store_of

if TYPE_CHECKING:
    from tasks.orchestration.tallies import Tally

SHOWN_DECISIONS = 10
SHOWN_ISSUES = 50
SHOWN_COMMUNITIES = 50

_SIGNS = re.compile(r"[\\`*_{}\[\]()#+!|~^$-]")


async def publish_summary(run: Run, tally: Tally) -> None:
    """Show the summary on the run's page: a Markdown artifact, and a table of outcomes and decisions."""
    tally.commit = newest_commit(run)
    if is_inline():
        return
    from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact

    summary = tally.summary()
    decisions = summary["decisions"]
    await acreate_markdown_artifact(
        _markdown(run, summary, [tuple(row.values()) for row in decisions] or _decisions(run)),
        key=f"{run.flow}-summary",
        description="What this run did",
    )
    await acreate_table_artifact(
        _outcomes(summary, tally.always), key=f"{run.flow}-outcomes", description="Counts by outcome, and what it cost"
    )
    if decisions:
        await acreate_table_artifact(
            plain_cells(decisions),
            key=f"{run.flow}-decisions",
            description="The most interesting decisions and their reasons",
        )


async def publish_charts(run: Run) -> None:
    """Show pictures of the store on the run's page."""
    if is_inline():
        return
    from prefect.artifacts import acreate_image_artifact

    from .charts import as_url, pictures_of

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


def _outcomes(summary: Mapping[str, Any], always: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each count, those of `always` also where they are nothing, then the room it took and the cost."""
    llm, counts = summary["llm"], {**dict.fromkeys(always, 0), **summary["counts"]}
    rows = [{"outcome": what, "count": number} for what, number in counts.items()]
    rows += [{"outcome": f"bytes {when}", "count": number} for when, number in summary.get("bytes", {}).items()]
    rows += [{"outcome": f"refused: {gate}", "count": number} for gate, number in summary.get("refused", {}).items()]
    cost = {"model calls": llm["calls"], "answers from the ledger": llm["from ledger"], "dollars": llm["usd"]}
    return rows + [{"outcome": what, "count": number} for what, number in cost.items()]


def _markdown(run: Run, summary: Mapping[str, Any], decisions: Sequence[tuple[str, ...]]) -> str:
    place = f"--store {run.store} --namespace {run.namespace}"
    llm = summary["llm"]
    lines = [
        f"# {summary['run']}: {summary['state']}",
        "",
        f"Store `{run.store}`, namespace `{run.namespace}`, commit {summary['commit']}.",
        "",
        *(f"{plain_text(note)}\n" for note in summary["notes"]),
        *([f"{size_line(summary)}\n"] if "bytes" in summary else ()),
        f"Changed: {plain_text(', '.join(effects(summary['counts'])) or 'nothing that is known')}.",
        "",
        *markdown_table(("what", "count"), list(summary["counts"].items())),
        *(_refused(summary["refused"]) if summary.get("refused") else ()),
        f"Model `{llm['model'] or 'none'}`: {llm['calls']} calls, {llm['from ledger']} answers from the ledger, "
        f"{llm['tokens_in']} tokens in, {llm['tokens_out']} out, {llm['usd']:.4f} dollars.",
        "",
        "## The ledger",
        "",
        *markdown_table(("decision", "fact", "reason"), decisions),
        f"All of it: `slowwave why {run.id} {place}`. Take the run back: `slowwave undo {run.id} {place}`.",
        "",
        *(f"- {plain_text(issue)}" for issue in [*summary["errors"], *summary["issues"]][:SHOWN_ISSUES]),
    ]
    return "\n".join(lines)


def _refused(counts: Mapping[str, int]) -> list[str]:
    return markdown_table(("refused by gate", "count"), list(counts.items()))


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


def _decisions(run: Run) -> list[tuple[str, ...]]:
    """A few decisions of the run, the rarest kinds first: a merge or an end is of more interest than a new fact."""
    snapshot = store_of(run).snapshot()
    made = snapshot.frame("decisions", f"run_id = '{run.id}'", ["id", "action", "subject_id", "reason"])
    rarest = made.with_columns(times=pl.len().over("action")).sort("times", "action", "id").head(SHOWN_DECISIONS)
    facts = snapshot.by_ids("facts", rarest["subject_id"], ["id", "statement"])
    shown = rarest.join(facts, left_on="subject_id", right_on="id", how="left", maintain_order="left")
    return list(shown.select("action", pl.col("statement").fill_null(""), "reason").iter_rows())
