"""The story of one row: its content, sources and decisions, and the rows before and after it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl

from slowwave.errors import UnknownName
from slowwave.types import Decided, Pair, Provenance, Story
from storage.rows import quoted
from storage.snapshots import Snapshot
from storage.undo import FOR_GOOD

from .communities import summarised_communities
from .facts import ALL, speakers_of, stored

_KINDS = (
    "facts",
    "facts_archive",
    "entities",
    "messages",
    "artifacts",
    "communities",
    "episodes",
    "runs",
    "patch_batches",
    "proposals",
)
_TITLES = {
    "facts": "statement",
    "entities": "name",
    "messages": "content",
    "artifacts": "title",
    "communities": "name",
    "episodes": "conversation_id",
    "runs": "id",
    "patch_batches": "id",
    "proposals": "title",
}
_OWN_NAMES = {"messages": "message_id", "episodes": "conversation_id"}
_REDUNDANT = ("dedup", "consolidated")  # reasons of lineage by which a fact says what the other said
_UNNAMED = ("create", "reassert", "repeat")  # actions about a fact alone, of which a run has one for each fact
_PAIR = ("a_id", "b_id", "kind", "outcome", "guard", "decided_by", "cosine", "at")
_SHORT = re.compile(r"[0-9a-f]{6,16}")
_WHERE_IDS_ARE = "`slowwave facts NAME`, `history NAME` and `runs` show ids; the eight letters there are enough."
_HIDDEN = (
    "created_at",
    "updated_at",
    "search_text",
    "search_terms",
    "statement_hash",
    "embed_text_hash",
    "changes",
    "otherwise",
    "basis",
)


def story_of(snapshot: Snapshot, name: str, now: datetime | None = None) -> Story:
    """The story of the row whose id is, or alone begins with, `name`; a community is as it is shown at `now`."""
    kind, row = _find(snapshot, name)
    if kind == "communities":
        row |= summarised_communities(snapshot, [row["id"]], now or datetime.now(UTC)).drop("member_ids").to_dicts()[0]
    facts = [row["id"]] if kind == "facts" else []
    stated = _facts_of(snapshot, row["id"]) if kind == "messages" else ()
    lineage = _lineage(snapshot, facts)
    concerned = sorted({row["id"], *(fact for step in lineage for fact in step[:2]), *(fact[0] for fact in stated)})
    pairs = _pairs(snapshot, facts)
    evidence = _evidence(snapshot, facts) or _own_words(snapshot, row if facts else {})
    absorbed = tuple(s for s in _evidence(snapshot, _absorbed(row["id"], lineage)) if s not in evidence)
    is_run = kind == "runs"
    decisions = _decisions_of_run(snapshot, row["id"]) if is_run else _decisions(snapshot, concerned, beside=facts)
    shown = [each for each in decisions if not is_run or each.action not in _UNNAMED]
    named = {name for each in shown for name in (each.about, *each.beside)}
    others = [row["suspect_of"], row["similar_to_id"], *(pair.other_id for pair in pairs)] if facts else []
    return Story(
        id=row["id"],
        kind=kind,
        title=str(row[_TITLES[kind]]),
        columns=_shown(row),
        evidence=evidence,
        lineage=tuple(lineage),
        decisions=decisions,
        absorbed=absorbed,
        pairs=pairs,
        artifacts=_artifacts(snapshot, facts),
        statements=_statements(snapshot, {*concerned, *named, *filter(None, others)}),
        heard=stated,
        speakers=speakers_of(snapshot, [*evidence, *absorbed]),
    )


def fact_named(snapshot: Snapshot, name: str) -> str:
    """The id of the fact whose id is, or alone begins with, `name`."""
    return str(_find(snapshot, name, ALL)[1]["id"])


def run_named(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """The row of the run whose id is, or alone begins with, `name`."""
    return _find(snapshot, name, ("runs",))[1]


def run_to_undo(snapshot: Snapshot, name: str) -> str:
    """The id of the run that wrote whose id is, or alone begins with, `name`, or has that short form.

    What none begins with is returned as it is. Raises `UnknownName` where several begin like that.
    """
    wrote = snapshot.frame("commits", columns=["run_id", "kind"]).filter(~pl.col("kind").is_in(FOR_GOOD))
    known = wrote["run_id"].unique().sort().to_list()
    if name in known:
        return name
    is_short = _SHORT.fullmatch(name) is not None
    meant = [run for run in known if name and (run.startswith(name) or (is_short and name in run))]
    if len(meant) > 1:
        raise UnknownName("run (several begin like that)", name, meant)
    return meant[0] if meant else name


def _find(snapshot: Snapshot, name: str, kinds: Sequence[str] = _KINDS) -> tuple[str, dict[str, Any]]:
    """The row of that id, or of an id that begins so, or whose short form is that.

    Messages and conversations also by their own name.
    """
    for kind in dict.fromkeys("facts" if table in ALL else table for table in kinds):
        names = [f"id = {quoted(name)}", f"starts_with(id, {quoted(name)})"]
        if _SHORT.fullmatch(name):
            names.append(f"id LIKE {quoted(f'%_{name}%')}")
        if kind in _OWN_NAMES:
            names.append(f"{_OWN_NAMES[kind]} = {quoted(name)}")
        places = ALL if kind == "facts" else (kind,)
        rows = pl.concat([snapshot.frame(table, " OR ".join(names), limit=6) for table in places])
        exact = rows.filter(pl.col("id") == name)
        if len(exact):
            return kind, exact.to_dicts()[0]
        if len(rows) == 1:
            return kind, rows.to_dicts()[0]
        if len(rows) > 1:
            raise UnknownName("id (several begin like that)", name, rows["id"])
    raise UnknownName("id", name, (), _WHERE_IDS_ARE)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value not in (None, "", []) and key not in _HIDDEN}


def _facts_of(snapshot: Snapshot, message: str) -> tuple[tuple[str, str, str, str], ...]:
    """The facts that a message says, whatever became of them."""
    columns = ["id", "statement", "status", "status_reason"]
    own = stored(snapshot, ALL, [message], ("message_id",), columns)
    others = snapshot.by_ids("fact_evidence", [message], ["fact_id"], key="message_id")["fact_id"]
    both = pl.concat([own, stored(snapshot, ALL, others, columns=columns)]).unique("id").sort("id")
    return tuple(both.with_columns(pl.col("status_reason").fill_null("")).iter_rows())


def _statements(snapshot: Snapshot, ids: Collection[str]) -> dict[str, str]:
    return dict(stored(snapshot, ALL, sorted(ids), columns=("id", "statement")).iter_rows())


def _absorbed(fact: str, lineage: Sequence[tuple[str, str, str]]) -> list[str]:
    """The facts whose words it took the place of, through any number of steps."""
    found: set[str] = set()
    fresh = {fact}
    while fresh:
        fresh = {old for old, new, reason in lineage if new in fresh and reason in _REDUNDANT} - found - {fact}
        found |= fresh
    return sorted(found)


def _pairs(snapshot: Snapshot, facts: list[str]) -> tuple[Pair, ...]:
    """What was decided about the fact beside another one, latest first."""
    rows = pl.concat([snapshot.by_ids("pair_decisions", facts, _PAIR, key=end) for end in ("a_id", "b_id")])
    return tuple(
        Pair(b if a in facts else a, kind or "", outcome or "", guard or "", by or "", cosine, at)
        for a, b, kind, outcome, guard, by, cosine, at in rows.sort("at", "a_id", "b_id", descending=True).iter_rows()
    )


def _artifacts(snapshot: Snapshot, facts: list[str]) -> tuple[tuple[str, str], ...]:
    """Id and title of the documents and pasted texts that the fact was read from."""
    wanted = " OR ".join(f"array_has(linked_fact_ids, {quoted(fact)})" for fact in facts)
    if not wanted:
        return ()
    return tuple(snapshot.frame("artifacts", wanted, ["id", "title"]).sort("id").iter_rows())


def _evidence(snapshot: Snapshot, facts: list[str]) -> tuple[Provenance, ...]:
    rows = snapshot.by_ids("fact_evidence", facts, key="fact_id")
    messages = snapshot.by_ids("messages", rows["message_id"], ["id", "conversation_id", "message_id"])
    both = rows.join(messages, left_on="message_id", right_on="id", how="left", suffix="_said").sort(
        "occurred_at", "id"
    )
    return tuple(
        Provenance(
            r["conversation_id"] or "", r["message_id_said"] or r["message_id"], r["quote"] or "", r["occurred_at"]
        )
        for r in both.to_dicts()
    )


def _own_words(snapshot: Snapshot, fact: Mapping[str, Any]) -> tuple[Provenance, ...]:
    """The message of a fact that was never taken up: its evidence is that of the fact which it repeats, or none."""
    messages = snapshot.by_ids("messages", [fact["message_id"]] if fact.get("message_id") else [])
    return tuple(
        Provenance(m["conversation_id"] or "", m["message_id"] or m["id"], fact["quote"] or "", m["occurred_at"])
        for m in messages.to_dicts()
    )


def _lineage(snapshot: Snapshot, facts: list[str]) -> list[tuple[str, str, str]]:
    """All steps of replacement that lead to or from the facts, in both directions, to the end of each chain."""
    steps: dict[str, tuple[str, str, str]] = {}
    seen: set[str] = set()
    while fresh := sorted(set(facts) - seen):
        seen |= set(fresh)
        rows = pl.concat(
            [snapshot.by_ids("lineage", fresh, key="old_id"), snapshot.by_ids("lineage", fresh, key="new_id")]
        )
        for row in rows.to_dicts():
            steps[row["id"]] = (row["old_id"], row["new_id"], row["reason"])
        facts = [fact for step in steps.values() for fact in step[:2]]
    return sorted(steps.values())


def _decisions(
    snapshot: Snapshot, ids: Sequence[str], key: str = "subject_id", beside: Sequence[str] = ()
) -> tuple[Decided, ...]:
    """The decisions about these rows, or of these runs, and those that name a row of `beside` as another one."""
    named = " OR ".join(f"array_has({column}, {quoted(name)})" for name in beside for column in ("ids_in", "ids_out"))
    others = [snapshot.frame("decisions", named)] if named else []
    rows = pl.concat([snapshot.by_ids("decisions", ids, key=key), *others]).unique("id").sort("at", "created_at", "id")
    person = pl.col("approved_by")
    by = pl.when(person.is_null()).then("decided_by").otherwise(pl.format("{}, {} said yes", "decided_by", person))
    by = pl.when(pl.col("action").is_in(["approve", "reject"])).then(person).otherwise(by)
    both = pl.concat_list(pl.col("ids_in", "ids_out").fill_null([])).list.unique(maintain_order=True)
    shown = rows.with_columns(decided_by=by.fill_null(""), reason=pl.col("reason").fill_null(""), beside=both)
    columns = ("at", "action", "decided_by", "reason", "run_id", "subject_id", "beside")
    return tuple(
        Decided(at, action, who, why, run, about, tuple(name for name in others if name != about))
        for at, action, who, why, run, about, others in shown.select(columns).iter_rows()
    )


def _decisions_of_run(snapshot: Snapshot, run: str) -> tuple[Decided, ...]:
    """What a run decided, and what was decided about it: that it was undone, and why."""
    return tuple(dict.fromkeys([*_decisions(snapshot, [run], key="run_id"), *_decisions(snapshot, [run])]))
