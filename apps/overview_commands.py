"""Commands about a memory as a whole: counts, refusals, aspects of a life, and a report."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from slowwave.common.lexicon.labels import Locale, shown_type
from slowwave.common.text import short_id

from .configuration import Place
from .maintain_commands import run_flow
from .options import JsonOption, Shown
from .printing import Aside, Whole, table

STATS = {
    "messages": "messages",
    "live": "facts that hold",
    "candidate": "facts that were not evaluated yet",
    "rejected": "facts rejected",
    "superseded": "facts replaced by newer ones",
    "retracted": "facts denied by a later message",
    "archived": "facts archived",
    "entities": "entities",
    "communities": "communities",
    "commits": "commits",
    "calls": "model calls",
    "tokens_in": "tokens read by models",
    "tokens_out": "tokens written by models",
    "usd": "dollars",
}
"""Labels of `stats`, in the order of its table."""
ALWAYS = ("messages", "live", "entities")
"""Counts of `stats` that say something where they are zero."""
MESSAGES = {"done": "searched for facts", "pending": "waiting for extraction", "failed": "failed"}
"""Labels of the states of messages; any other is that of a gate."""
USE = {
    "retrieval_events": "facts returned by recalls so far",
    "learning_events": "facts that recalls must return before unused facts are archived",
    "learning": "still waiting for that",
    "prune_threshold": "score below which unused facts are archived",
    "min_quality": "score below which recall hides facts",
    "facts_scored": "facts scored",
    "facts_below_min_quality": "facts that recall hides",
}
"""Labels of the use of a memory."""
LIMIT = 10


def stats(*, place: Place) -> Shown:
    """Show the size of the memory and the cost of the models."""
    from recall.overview import stats as count
    from slowwave.lifecycle.pruning_and_eviction import quoted_messages

    counted = count(place.store(), datetime.now(UTC))
    yield counted
    flat = {**counted, **counted["facts"], **counted["llm"]}
    rows = [(label, flat[key]) for key, label in STATS.items() if flat[key] or key in ALWAYS]
    yield table(f"Memory {place.namespace!r}", ("what", "count"), rows)
    if quoted := counted["quoted"]:
        yield Whole(f"{quoted_messages(quoted)}; slowwave ingest --reread reads them.")


def quality(
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many refused messages to show.")] = 20,
    *,
    place: Place,
) -> Shown:
    """Show which messages were refused, by which gate and why, and how recalls influence what is kept."""
    from recall.overview import quality as assess

    found = assess(place.store(), place.settings.steward, place.settings.recall.min_quality)
    yield found
    messages = Counter[str]()
    for state, count in found["messages"].items():
        messages[MESSAGES.get(state, "refused by a gate")] += count
    yield table("Messages", ("state", "count"), list(messages.items()))
    if gates := found["gates"]:
        rows = [(g["gate"], g["refused"], g["mean_length"], (g["example"] or "")[:80], g["reason"]) for g in gates]
        yield table("Gates", ("gate", "count", "mean length", "for example", "reason"), rows)
    else:
        yield "No gate has refused anything yet."
    use = {"retrieval_events": found["retrieval_events"], **found["use"]}
    yield table("Use", ("what", "count"), [(label, use[key]) for key, label in USE.items()])
    if use["top_facts"]:
        columns = ("statement", "hit_count", "avg_retrieval_score", "quality_score", "last_retrieved_at")
        rows = [(*(fact[name] for name in columns), short_id(fact["id"])) for fact in use["top_facts"]]
        yield table("Recalled most", ("fact", "count", "cosine", "score", "last", "id"), rows)
    if found["common_first_words"]:
        words = ", ".join(f"{word} ({times})" for word, times in found["common_first_words"].items())
        yield f"What is refused begins with: {words}"
    if shown := [(r["gate"], r["reason"], (r["excerpt"] or "")[:100]) for r in found["refusals"][:limit]]:
        yield table("Refused", ("gate", "reason", "text"), shown)
    if len(found["refusals"]) > len(shown):
        yield Aside(f"…and {len(found['refusals']) - len(shown)} more; --limit or --json shows them.")


def aspects(
    stored: Annotated[bool, typer.Option("--stored", help="Show the stored scores of the last run.")] = False,
    *,
    place: Place,
) -> Shown:
    """Show how much is known about each aspect of a life (0 to 100)."""
    from recall.groups import aspects as count
    from recall.groups import stored_aspects

    snapshot, settings = place.store().snapshot(), place.settings.recall.aspects
    known = stored_aspects(snapshot, settings) if stored else count(snapshot, datetime.now(UTC), settings)
    yield {"aspects": known}
    at = max((row["scored_at"] for row in known if row["scored_at"]), default=None)
    scored = f"scored at {at:%Y-%m-%d %H:%M}" if at else "never scored: a run that learns something does it"
    rows = [[row[name] for name in ("display_name", "category", "shown", "facts", "entities")] for row in known]
    yield table("What is known, of 100", ("aspect", "category", "score", "facts", "entities"), rows, scored)
    if not any(row["facts"] for row in known):
        yield Aside("No fact touches any aspect yet: slowwave ingest PATH learns some.")


def report(
    stale_days: Annotated[
        float | None, typer.Option("--stale-days", help="An entity is stale after this many days without a read.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="How many rows of each section to show; all are counted.")
    ] = LIMIT,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Report entities to split, duplicates and unread entities. Changes nothing."""
    from flows.oversight import report as flow
    from slowwave.review.report import counts, sections, verdict

    document = run_flow(flow, place, as_json, stale_days=stale_days, settings=place.settings.report)
    yield document
    yield table(f"Consolidation report, {document['generated_at'][:10]}", ("what", "count"), counts(document))
    said = set[str]()
    for section, found, more in sections(document, limit):
        rows = [
            [_cell(name, cell, place.locale) for name, cell in zip(section.columns, cells, strict=True)]
            for cells in found
        ]
        hidden = f"… and {more} more: --limit {more + len(rows)}\n" if more else ""
        following = [each for each in section.following if each not in said]
        said |= {*following}
        yield table(section.title, section.columns, rows, hidden + "\n".join(following))
    if line := verdict(document):
        yield line


def _cell(column: str, cell: Any, locale: Locale) -> Any:
    return short_id(cell) if column == "id" else shown_type(cell, locale) if column == "type" else cell
