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
    """The plan hash: equal as long as the rows behind the plan stay the same (S0-13).

    That a row which would be new does not exist yet says nothing of two plans for the same state.
    """
    return digest(as_json({key: value for key, value in basis.items() if value is not None}), size=16)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The keys under which two bases differ, sorted: what became stale."""
    return sorted(key for key in {*before, *now} if before.get(key) != now.get(key))


def repeat_key(action: str, changes: Iterable[RowChange]) -> str:
    """The same for two plans that would do the same to the same rows, whenever they are made (T41)."""
    keys = []
    for each in changes:
        after = each.after or {}
        names: tuple[str, ...]
        if each.is_new:
            names = ("statement_hash", "alias_name", "canonical_name", "title")
        else:
            names = ("status", "owner_entity_id", "replaced_by", "merged_into", "object_id", "subject_id")
        cells = {name: after[name] for name in names if after.get(name) is not None}
        if cells.get("replaced_by") and each.table.startswith("facts") and not each.is_new:
            cells["replaced_by"] = "another"
        is_named = each.table == "fact_evidence" or not each.is_new  # by the message, or because the row exists
        keys.append((each.table, each.id if is_named else "", each.is_removal, as_json(cells)))
    return digest(action, sorted(keys), size=16)


# Staleness: changes since a plan was made, in words.


SHOWN = 3
_ENTITY = ("name", "status", "merged into")


def changed_words(
    before: Mapping[str, Any], now: Mapping[str, Any], state: Sequence[str], words: Mapping[str, str]
) -> tuple[str, ...]:
    """One sentence for each thing that is no longer as it was, none where nothing changed (T49, T50).

    `before` and `now` are bases of one plan (`storage.changes`); `state` names the columns that a fact's list holds,
    `words` are the statements and names of ids.
    """
    keys = differences(before, now)
    facts = {key for key in keys if " " not in key}
    lines = []
    for key in keys:
        kind, _, row = key.rpartition(" ")
        if kind and row in facts:
            continue  # the fact itself has a line
        old, new = before.get(key), now.get(key)
        if kind.startswith("slot "):
            lines.append("Something that it did not know of holds in its place")
        elif kind == "filed under":
            lines.append(_filed(_named(row, words), old or [], new or [], words))
        else:
            columns = _ENTITY if kind == "entity" else state
            if not kind or kind == "entity":
                old, new = (cells and dict(zip(columns, cells, strict=False)) for cells in (old, new))
            name = _named(row or key, words)
            lines.append(_row(name if kind in ("", "entity") else f"{kind} {name}", old, new))
    return tuple(lines)


def in_brief(changed: Sequence[str]) -> str:
    """The first SHOWN changes, as one sentence."""
    more = f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return f"Changed since it was proposed: {'; '.join(changed[:SHOWN])}{more}."


def _named(row: str, words: Mapping[str, str]) -> str:
    return f"“{words[row]}”" if words.get(row) else row


def _row(name: str, old: Any, new: Any) -> str:
    if new is None:
        return f"{name} is gone"
    if old is None:
        return f"{name} exists by now"
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return f"{name} is another one"
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    first = "status" if "status" in changed else changed[0]
    return f"{name}: {first} {_cell(old.get(first))} → {_cell(new.get(first))}"


def _cell(value: str | None) -> str:
    return "nothing" if value in (None, "None", "") else str(value)


def _filed(name: str, old: Sequence[str], new: Sequence[str], words: Mapping[str, str]) -> str:
    parts = []
    for verb, ids in (("came to", sorted({*new} - {*old})), ("went from", sorted({*old} - {*new}))):
        if ids:
            more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
            parts.append(f"{_named(ids[0], words)}{more} {verb} {name}")
    return ", ".join(parts)


Facts = Mapping[str, Mapping[str, Any]]
_CROWD = 40
REJECTED = "a person said no"


@dataclass(frozen=True, slots=True)
class Words:
    """Title, reason and subject of a change."""

    title: str
    reason: str
    subject_id: str
    subject: str


def describe(what: Proposing, changes: Sequence[RowChange], facts: Facts) -> Words:
    """The words of a change; `facts` are the facts that it names, as they are."""
    reasons = [(each.after or {}).get("reason") for each in changes if each.table == "decisions"]
    reason = what.reason or next((text for text in reasons if text), "")
    first = _main_fact(changes, facts)
    subject = what.subject or str(first.get("statement") or facts.get(str(first.get("id")), {}).get("statement") or "")
    owner = first.get("subject_id") or first.get("owner_entity_id") or ""
    return Words(what.title or _title(what.action, changes, facts), reason, what.subject_id or owner, subject)


def _fact_changes(changes: Sequence[RowChange]) -> list[RowChange]:
    return [each for each in changes if each.table in ("facts", "facts_archive")]


def _each_once(changes: Sequence[RowChange]) -> list[RowChange]:
    """One change for each fact; of one that moves to another table, the row that it becomes."""
    last = {each.id: each for each in sorted(changes, key=lambda each: not each.is_removal)}
    return [each for each in changes if last[each.id] is each]


def _whole(each: RowChange, facts: Facts) -> dict[str, Any]:
    return {**facts.get(each.id, {}), **(each.after or {})}


def _main_fact(changes: Sequence[RowChange], facts: Facts) -> Mapping[str, Any]:
    rows = [_whole(each, facts) for each in _fact_changes(changes)]
    return next((row for row in rows if row.get("status") == "active"), rows[0] if rows else {})


def _title(action: str, changes: Sequence[RowChange], facts: Facts) -> str:
    """One line, in the order of what weighs most: learned, replaced, retired, moved, everything else."""
    rows = [(facts.get(each.id, {}), _whole(each, facts), each) for each in _each_once(_fact_changes(changes))]
    learned = [now for was, now, _ in rows if now.get("status") == "active" and was.get("status") != "active"]
    gone = [
        now
        for was, now, each in rows
        if was.get("status") == "active" and (each.after is None or now.get("status") != "active")
    ]
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


def _other_title(action: str, changes: Sequence[RowChange], known: Facts) -> str:
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
    """A statement as titles quote it: whole, for a person decides by its end, too."""
    return f"“{text}”"


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


ChangeText = Mapping[str, str]
EXAMPLES = 2
_FACT_TABLES = ("facts", "facts_archive")
_ENTITIES = ("entities", "entities_archive")
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
_UNTOLD = (
    "decisions", "patch_batches", "pair_decisions", "fact_scores", "fact_usage", "entity_scores", "entity_usage",
    "lineage", "fact_aspects", "fact_evidence", "aspect_scores", "aspect_parts", "pending_beliefs",
    "belief_evidence",
)  # fmt: skip


def in_words(changes: Sequence[RowChange], words: ChangeText) -> tuple[str, ...]:
    """The effect on each fact, entity and document; `words` are statements and names by id.

    Bookkeeping (scores, lineage, flags, decisions) is left out.
    """
    texts = {**_own_words(changes), **words}
    groups: dict[str, list[RowChange]] = {}
    for each in changes:
        if each.table not in _UNTOLD:
            groups.setdefault(each.id, []).append(each)
    lines = [line for group in groups.values() for line in _line(group, texts)]
    return tuple(dict.fromkeys(lines))


def parts_in_words(ask: Ask, words: ChangeText) -> tuple[str, ...]:
    """The parts of a split: what each is called, how much it gets, and a few examples."""
    lines = []
    for part in ask.get("splits", ()):
        observations = part["observations"]
        examples = ", ".join(in_quotes(words.get(fact, fact)) for fact in observations[:EXAMPLES])
        more = ", …" if len(observations) > EXAMPLES else ""
        noun = "observation" if len(observations) == 1 else "observations"
        lines.append(f"{part['name']}, {len(observations)} {noun}: {examples}{more}")
    return tuple(lines)


def _own_words(changes: Sequence[RowChange]) -> dict[str, str]:
    rows = {each.id: {**(each.before or {}), **(each.after or {})} for each in changes}
    names = ("statement", "name", "alias_name", "title", "canonical_name")
    return {row: str(next(filter(None, map(cells.get, names)), "")) for row, cells in rows.items()}


def _line(group: Sequence[RowChange], words: ChangeText) -> Iterator[str]:
    """The line of one row, also if it moves between tables; none if only bookkeeping changes."""
    first = group[0]
    if parts := tuple(_becomes(group, words)):
        line = f"{_kind(first)}{_quoted(first.id, words)} {'; '.join(parts)}"
        yield line if line.endswith("”") else f"{line}."


def _kind(change: RowChange) -> str:
    if change.table in _FACT_TABLES:
        return ""
    nouns = {"entity_aliases": "alias", "artifacts": "document", "artifacts_archive": "document", "edges": "relation"}
    return f"{'entity' if change.table in _ENTITIES else nouns.get(change.table, change.table)} ".capitalize()


def _becomes(group: Sequence[RowChange], words: ChangeText) -> Iterator[str]:
    before = {name: cell for each in group for name, cell in (each.before or {}).items()}
    after = {name: cell for each in group for name, cell in (each.after or {}).items()}
    if all(each.is_removal for each in group):
        yield "is deleted for good"
        return
    status = after.get("status")
    if status != before.get("status") or all(each.is_new for each in group):
        heir = after.get("replaced_by") or after.get("merged_into")
        yield _state(before.get("status"), status, _quoted(str(heir), words) if heir else "", group[0].table)
        if group[0].table in _FACT_TABLES and status != "active":
            return
    if all(each.is_new for each in group):
        return
    yield from _changed_cells(before, after, words)


def _state(before: str | None, after: str | None, heir: str, table: str) -> str:
    """A status in words."""
    if heir and after in ("superseded", "archived", "merged"):
        return f"gives way to {heir}"
    if before is None and table not in _FACT_TABLES:
        return "is new"
    if after == "active" and before not in (None, "candidate"):
        return "comes back into recall"
    return _BECOMES.get(after or "", f"is then {after}" if after else "is new")


def _changed_cells(before: Mapping[str, Any], after: Mapping[str, Any], words: ChangeText) -> Iterator[str]:
    for name, template in _COLUMNS.items():
        cell = after.get(name)
        if cell and cell != before.get(name):
            yield template.format("the time of approval" if cell == NOW else _named_cell(str(cell), words, name))
    if "pinned" in after and bool(after["pinned"]) != bool(before.get("pinned")):
        yield "is pinned" if after["pinned"] else "is no longer pinned"


def _named_cell(cell: str, words: ChangeText, column: str) -> str:
    return in_quotes(words.get(cell, cell)) if column.endswith("_id") or column in ("statement", "name") else cell[:10]


def _quoted(row: str, words: ChangeText) -> str:
    return in_quotes(words.get(row) or row)
