"""Telling a change: its title and reason in words, and what remains to be done where a person says no."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from slowwave.text import row_id

from .changes import NOW, Change
from .proposing import Proposing

Facts = Mapping[str, Mapping[str, Any]]
_QUOTED = 90
_ONE = ("dedup", "consolidated")  # reasons of lineage that make one fact of several
_CROWD = 40
REJECTED = "a person said no"


@dataclass(frozen=True, slots=True)
class Words:
    """What a change is called, why it is proposed, and what it is about."""

    title: str
    reason: str
    subject_id: str
    subject: str


def told(what: Proposing, changes: Sequence[Change], facts: Facts) -> Words:
    """The words of a change; `facts` are the facts that it names, as they are."""
    reasons = [(each.after or {}).get("reason") for each in changes if each.table == "decisions"]
    reason = what.reason or next((text for text in reasons if text), "")
    first = _main_fact(changes, facts)
    subject = what.subject or _statement(first, facts)
    owner = first.get("subject_id") or first.get("owner_entity_id") or ""
    return Words(what.title or _title(what.action, changes, facts), reason, what.subject_id or owner, subject)


def _fact_changes(changes: Sequence[Change]) -> list[Change]:
    return [each for each in changes if each.table in ("facts", "facts_archive")]


def _each_once(changes: Sequence[Change]) -> list[Change]:
    """One change for each fact; of one that moves to another table, the row that it becomes."""
    last = {each.id: each for each in sorted(changes, key=lambda each: not each.is_removal)}
    return [each for each in changes if last[each.id] is each]


def _whole(each: Change, facts: Facts) -> dict[str, Any]:
    return {**facts.get(each.id, {}), **(each.after or {})}


def _main_fact(changes: Sequence[Change], facts: Facts) -> Mapping[str, Any]:
    rows = [_whole(each, facts) for each in _fact_changes(changes)]
    return next((row for row in rows if row.get("status") == "active"), rows[0] if rows else {})


def _statement(fact: Mapping[str, Any], facts: Facts) -> str:
    return str(fact.get("statement") or facts.get(str(fact.get("id")), {}).get("statement") or "")


def _title(action: str, changes: Sequence[Change], facts: Facts) -> str:
    """One line, in the order of what weighs most: learned, replaced, retired, moved, everything else."""
    rows = [(facts.get(each.id, {}), _whole(each, facts), each) for each in _each_once(_fact_changes(changes))]
    learned = [now for was, now, _ in rows if now.get("status") == "active" and was.get("status") != "active"]
    gone = [now for was, now, each in rows if was.get("status") == "active" and _leaves(now, each)]
    if learned and gone:
        return f"Learn {_quote(learned)} in place of {_quote(gone)}"
    if learned:
        return f"Learn {_quote(learned)}"
    if replaced := [row for row in gone if row.get("replaced_by")]:
        kept = facts.get(str(replaced[0]["replaced_by"]), {})
        return f"Merge {_quote(replaced)} into {_quote([kept])}" if kept else f"Replace {_quote(replaced)}"
    if gone:
        return f"Let {_quote(gone)} go"
    if erased := [was for was, _, each in rows if each.is_removal]:
        return f"Delete for good: {_quote(erased)}"
    if confirmed := [row for _, row, _ in rows if row.get("status") == "active"]:
        return f"Confirm {_quote(confirmed)}" if action == "patch" else f"Change {_quote(confirmed)}"
    if moved := [now for _, now, each in rows if each.is_new]:
        return f"Move {_quote(moved)}"
    if rows:
        return f"{'Confirm' if action == 'patch' else 'Change'} {_quote([now for _, now, _ in rows])}"
    return _other_title(action, changes, facts)


def _leaves(now: Mapping[str, Any], each: Change) -> bool:
    return each.after is None or now.get("status") != "active"


def _other_title(action: str, changes: Sequence[Change], known: Facts) -> str:
    """Of a change without facts: entities, documents, relations."""
    if erased := [each.before or {} for each in changes if each.table == "entities" and each.is_removal]:
        return f"Delete for good: {_quote([{'statement': row.get('name')} for row in erased])}"
    for table, verb in (("entities", "Change the entity"), ("artifacts", "Link the document")):
        for each in changes:
            if each.table == table:
                row = {**known.get(each.id, {}), **(each.before or {}), **(each.after or {})}
                verb = "Archive the entity" if row.get("status") == "archived" else verb
                return f"{verb} {row.get('name') or row.get('canonical_name') or row.get('title') or each.id}"
    return f"{action}: {len(changes)} rows of {', '.join(sorted({each.table for each in changes}))}"


def _quote(rows: Sequence[Mapping[str, Any]]) -> str:
    texts = [str(row.get("statement") or row.get("id") or "") for row in rows]
    first = in_quotes(texts[0])
    return first if len(texts) == 1 else f"{first} and {len(texts) - 1} more"


def in_quotes(text: str) -> str:
    """A statement as titles quote it: its beginning, if it is long."""
    return f"“{text if len(text) <= _QUOTED else f'{text[: _QUOTED - 1].rstrip()}…'}”"


def otherwise_of(changes: Sequence[Change]) -> list[Change]:
    """What a rejection writes: candidates are rejected, and pairs that were to be merged are kept apart for good.

    Of what would become one every two are such a pair, in whatever way the rules know them.
    """
    rest = []
    for each in changes:
        before, after = each.before or {}, each.after or {}
        if each.table == "facts" and before.get("status") == "candidate":
            no = {"status": "rejected", "status_reason": REJECTED}
            rest.append(Change("facts", each.id, {name: before.get(name) for name in no}, no))
        if each.table == "pair_decisions" and after.get("outcome") == "supersede":
            rest.append(
                Change(each.table, each.id, each.before, {**after, "outcome": "keep_all", "decided_by": "person"})
            )
    known = {each.id for each in rest}
    return rest + [each for each in _kept_apart(changes) if each.id not in known]


def _kept_apart(changes: Sequence[Change]) -> Iterator[Change]:
    """Rows of `pair_decisions` for what would become one fact; of very many only those with the one that goes on."""
    steps = [each.after or {} for each in changes if each.table == "lineage"]
    made = {each.id for each in changes if each.table == "facts" and each.is_new}
    groups: dict[str, list[str]] = {}
    for step in steps:
        if step.get("reason") in _ONE:
            groups.setdefault(str(step["new_id"]), []).append(str(step["old_id"]))
    for heir, old in groups.items():
        ids = sorted({*old} if heir in made else {*old, heir})
        pairs = combinations(ids, 2) if len(ids) <= _CROWD else ((min(one, heir), max(one, heir)) for one in old)
        for a, b in pairs:
            row = {"a_id": a, "b_id": b, "kind": "redundant", "outcome": "keep_all", "decided_by": "person", "at": NOW}
            yield Change("pair_decisions", row_id("pd", a, b, "redundant"), None, {**row, "prompt_version": ""})
