"""Changes: rows before and after, and how a person reads them: title, reason, sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import combinations
from typing import Any

from slowwave.common.records import REDUNDANT
from slowwave.common.text import as_json, digest, row_id

from .proposals import Ask, Proposing

NOW = "@now"
"""Stands for the time of approval wherever a plan wrote its own: a fact is believed until the approval."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row of a table: what changes, before and after; no `before` is a new row, no `after` one that goes."""

    table: str
    id: str
    before: Row | None
    after: Row | None

    @property
    def is_new(self) -> bool:
        """Whether the row does not exist yet."""
        return self.before is None

    @property
    def is_removal(self) -> bool:
        """Whether the row goes."""
        return self.after is None


def encoded(changes: Iterable[RowChange], now: datetime) -> str:
    """JSON; times that equal the plan's `now` follow the time of approval."""
    return as_json(
        [
            {"table": each.table, "id": each.id, "before": _plain(each.before), "after": _plain(each.after, now)}
            for each in changes
        ]
    )


def decoded(text: str | None) -> tuple[RowChange, ...]:
    """The changes of a stored proposal; times stay text."""
    return tuple(RowChange(row["table"], row["id"], row["before"], row["after"]) for row in json.loads(text or "[]"))


def _plain(row: Row | None, now: datetime | None = None) -> dict[str, Any] | None:
    return None if row is None else {name: _value(value, now) for name, value in row.items()}


def _value(value: Any, now: datetime | None) -> Any:
    if isinstance(value, datetime):
        return NOW if value == now else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def hash_of(basis: Mapping[str, Any]) -> str:
    """The plan hash: equal as long as the rows behind the plan stay the same; new rows do not count (S0-13)."""
    return digest(as_json({key: value for key, value in basis.items() if value is not None}), size=16)


def repeat_key(action: str, changes: Iterable[RowChange]) -> str:
    """The same for two plans that would do the same to the same rows, whenever they are made (T41)."""
    keys = []
    for each in changes:
        after = each.after or {}
        fresh = "statement_hash alias_name canonical_name title".split()
        known = "status owner_entity_id replaced_by merged_into object_id subject_id".split()
        cells = {name: after[name] for name in (fresh if each.is_new else known) if after.get(name) is not None}
        if cells.get("replaced_by") and each.table.startswith("facts") and not each.is_new:
            cells["replaced_by"] = "another"
        is_named = each.table == "fact_evidence" or not each.is_new  # by the message, or because the row exists
        keys.append((each.table, each.id if is_named else "", each.is_removal, as_json(cells)))
    return digest(action, sorted(keys), size=16)


# Staleness: changes since a plan was made, in words.


SHOWN = 3
Texts = Mapping[str, str]
"""Statements of facts and names of entities by id."""


def changed_words(before: Mapping[str, Any], now: Mapping[str, Any], words: Texts) -> tuple[str, ...]:
    """One sentence for each row that is no longer as it was, none where nothing changed (T49, T50).

    `before` and `now` are bases of one plan.
    """
    keys = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    rows = dict.fromkeys("" if key.startswith("slot ") else key.rpartition(" ")[2] for key in keys)
    named = (row and (in_quotes(words[row]) if words.get(row) else row) for row in rows)
    return tuple(f"{name} is not as it was" if name else "Something else holds in its place" for name in named)


def in_brief(changed: Sequence[str]) -> str:
    """The first SHOWN changes, as one sentence."""
    more = f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return f"Changed since it was proposed: {'; '.join(changed[:SHOWN])}{more}."


def in_quotes(text: str) -> str:
    """A statement as titles quote it: whole, for a person decides by its end, too."""
    return f"“{text}”"


# What a person who says no has written instead.


_CROWD = 40
REJECTED = "a person said no"


def otherwise_of(changes: Sequence[RowChange]) -> list[RowChange]:
    """The rows of a rejection: candidates are rejected, and pairs that were to be merged are kept apart for good.

    Of what would become one every two are such a pair, in whatever way the rules know them.
    """
    rest = []
    for each in changes:
        before, after = each.before or {}, each.after or {}
        if each.table == "facts" and before.get("status") == "candidate":
            no = {"status": "rejected", "status_reason": REJECTED}
            rest.append(RowChange("facts", each.id, {name: before.get(name) for name in no}, no))
        if each.table == "pair_decisions" and after.get("outcome") == "supersede":
            rest.append(
                RowChange(each.table, each.id, each.before, {**after, "outcome": "keep_all", "decided_by": "person"})
            )
    known = {each.id for each in rest}
    return rest + [each for each in _kept_apart(changes) if each.id not in known]


def _kept_apart(changes: Sequence[RowChange]) -> Iterator[RowChange]:
    """Rows of `pair_decisions` for what would become one fact; of very many only those with the one that goes on."""
    steps = [each.after or {} for each in changes if each.table == "lineage"]
    made = {each.id for each in changes if each.table == "facts" and each.is_new}
    groups: dict[str, list[str]] = {}
    for step in steps:
        if step.get("reason") in REDUNDANT:
            groups.setdefault(str(step["new_id"]), []).append(str(step["old_id"]))
    for heir, old in groups.items():
        ids = sorted({*old} if heir in made else {*old, heir})
        pairs = combinations(ids, 2) if len(ids) <= _CROWD else ((min(one, heir), max(one, heir)) for one in old)
        for a, b in pairs:
            row = {"a_id": a, "b_id": b, "kind": "redundant", "outcome": "keep_all", "decided_by": "person", "at": NOW}
            yield RowChange("pair_decisions", row_id("pd", a, b, "redundant"), None, {**row, "prompt_version": ""})


# The effect of a change in words: a line for each row, without columns and bookkeeping.


EXAMPLES = 2
_FACT_TABLES = ("facts", "facts_archive")
_BECOMES = {
    "active": "is learned",
    "archived": "leaves recall, kept in the archive",
    "superseded": "gives way to what replaces it",
    "retracted": "is taken back",
    "rejected": "is rejected",
    "candidate": "waits as a candidate",
}
_COLUMNS = {
    "owner_entity_id": "is filed under {}",
    "statement": "is worded anew: {}",
    "subject_id": "is then about {}",
    "object_id": "then names {}",
    "valid_to": "holds until {}",
    "valid_from": "holds since {}",
    "entrenchment": "is from then on {}",
    "name": "is then called {}",
    "entity_type": "is then of type {}",
    "parent_entity_id": "is then part of {}",
    "entity_id": "is then a name of {}",
}
_KINDS = {
    **dict.fromkeys(_FACT_TABLES, ""),
    **dict.fromkeys(("entities", "entities_archive"), "Entity "),
    **dict.fromkeys(("artifacts", "artifacts_archive"), "Document "),
    "entity_aliases": "Alias ",
    "edges": "Relation ",
}
_UNTOLD = (
    "decisions", "patch_batches", "pair_decisions", "fact_scores", "fact_usage", "entity_scores", "entity_usage",
    "lineage", "fact_aspects", "fact_evidence", "aspect_scores", "pending_beliefs", "belief_evidence",
)  # fmt: skip


def describe(what: Proposing, changes: Sequence[RowChange], rows: Mapping[str, Row]) -> dict[str, str]:
    """Title (the first sentence about its effect), reason and subject of a change; `rows` are those that it names."""
    facts = [{**rows.get(each.id, {}), **(each.after or {})} for each in changes if each.table in _FACT_TABLES]
    first = next((row for row in facts if row.get("status") == "active"), facts[0] if facts else {})
    lines = in_words(changes, {row: _label(cells) for row, cells in rows.items()})
    labels = (_label({**rows.get(each.id, {}), **(each.after or {})}) for each in changes)
    named = next(filter(None, labels), ", ".join(sorted({each.table for each in changes})))
    title = f"{what.action.capitalize()}: {in_quotes(named)}"  # where only records of the change itself are written
    if lines:
        title = lines[0] + (f" And {len(lines) - 1} more." if len(lines) > 1 else "")
    reasons = (str((each.after or {}).get("reason") or "") for each in changes if each.table == "decisions")
    return {
        "title": what.title or title,
        "reason": what.reason or next(filter(None, reasons), ""),
        "subject_id": what.subject_id or first.get("subject_id") or first.get("owner_entity_id") or "",
        "subject": what.subject or first.get("statement") or "",
    }


def in_words(changes: Sequence[RowChange], words: Texts) -> tuple[str, ...]:
    """The effect on each fact, entity and document without bookkeeping; `words` are statements and names by id."""
    places = {table: place for place, table in enumerate(_KINDS)}
    groups: dict[str, list[RowChange]] = {}
    for each in sorted(changes, key=lambda change: places.get(change.table, len(places))):
        if each.table not in _UNTOLD:
            groups.setdefault(each.id, []).append(each)
    texts = {each.id: _label({**(each.before or {}), **(each.after or {})}) for each in changes} | {**words}
    lines = [_line(group, texts) for group in groups.values()]
    return tuple(dict.fromkeys(sorted(filter(None, lines), key=lambda line: " gives way to " not in line)))


def parts_in_words(ask: Ask, words: Texts) -> tuple[str, ...]:
    """The parts of a split: what each is called, how much it gets, and a few examples."""
    lines = []
    for part in ask.get("splits", ()):
        observations = part["observations"]
        examples = ", ".join(in_quotes(words.get(fact, fact)) for fact in observations[:EXAMPLES])
        more = ", …" if len(observations) > EXAMPLES else ""
        noun = "observation" if len(observations) == 1 else "observations"
        lines.append(f"{part['name']}, {len(observations)} {noun}: {examples}{more}")
    return tuple(lines)


def _label(row: Row) -> str:
    names = ("statement", "name", "alias_name", "title", "canonical_name")
    return str(next(filter(None, map(row.get, names)), ""))


def _line(group: Sequence[RowChange], words: Texts) -> str:
    """The line of one row, also if it moves between tables; none if only bookkeeping changes."""
    table, row = group[0].table, group[0].id
    parts = "; ".join(_becomes(group, words))
    line = f"{_KINDS.get(table, f'{table.capitalize()} ')}{in_quotes(words.get(row) or row)} {parts}"
    return "" if not parts else line if line.endswith("”") else f"{line}."


def _becomes(group: Sequence[RowChange], words: Texts) -> Iterator[str]:
    before = {name: cell for each in group for name, cell in (each.before or {}).items()}
    after = {name: cell for each in group for name, cell in (each.after or {}).items()}
    is_fact, is_new, status = group[0].table in _FACT_TABLES, all(each.is_new for each in group), after.get("status")
    heir = after.get("replaced_by") or after.get("merged_into")
    if all(each.is_removal for each in group):
        yield "is deleted for good"
    elif heir and status in ("superseded", "archived", "merged"):
        yield f"gives way to {in_quotes(words.get(str(heir)) or str(heir))}"
    elif is_new and not is_fact:
        yield "is new"
    elif status != before.get("status") or is_new:
        comes_back = status == "active" and before.get("status") not in (None, "candidate")
        yield "comes back into recall" if comes_back else _BECOMES.get(status or "", f"is then {status or 'new'}")
    if is_new or not after or (is_fact and status not in (None, "active")):
        return
    for name, template in _COLUMNS.items():
        cell = after.get(name)
        if cell and cell != before.get(name):
            is_named = name.endswith("_id") or name in ("statement", "name")
            named = in_quotes(words.get(str(cell), str(cell))) if is_named else str(cell)[:10]
            yield template.format("the time of approval" if cell == NOW else named)
    if "pinned" in after and bool(after["pinned"]) != bool(before.get("pinned")):
        yield "is pinned" if after["pinned"] else "is no longer pinned"
