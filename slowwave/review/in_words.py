"""In words: what a change would do to what is remembered, a line for each thing, without columns and bookkeeping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .asks import Ask
from .changes import NOW, Change
from .telling import in_quotes

Words = Mapping[str, str]
EXAMPLES = 2
_HELD = ("facts", "facts_archive")
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


def in_words(changes: Sequence[Change], words: Words) -> tuple[str, ...]:
    """What would become of each fact, entity and document; `words` are statements and names by id.

    What only keeps account of the change (scores, lineage, flags, decisions) is left out.
    """
    told = {**_own_words(changes), **words}
    groups: dict[str, list[Change]] = {}
    for each in changes:
        if each.table not in _UNTOLD:
            groups.setdefault(each.id, []).append(each)
    lines = [line for group in groups.values() for line in _line(group, told)]
    return tuple(dict.fromkeys(lines))


def parts_in_words(ask: Ask, words: Words) -> tuple[str, ...]:
    """The parts of a split: what each is called, how much it gets, and a few examples."""
    lines = []
    for part in ask.get("splits", ()):
        held = part["observations"]
        examples = ", ".join(in_quotes(words.get(fact, fact)) for fact in held[:EXAMPLES])
        more = ", …" if len(held) > EXAMPLES else ""
        noun = "observation" if len(held) == 1 else "observations"
        lines.append(f"{part['name']}, {len(held)} {noun}: {examples}{more}")
    return tuple(lines)


def _own_words(changes: Sequence[Change]) -> dict[str, str]:
    rows = {each.id: {**(each.before or {}), **(each.after or {})} for each in changes}
    names = ("statement", "name", "alias_name", "title", "canonical_name")
    return {row: str(next(filter(None, map(cells.get, names)), "")) for row, cells in rows.items()}


def _line(group: Sequence[Change], words: Words) -> Iterator[str]:
    """The line of one row, whichever tables it moves between; none where only bookkeeping changes."""
    first = group[0]
    if told := tuple(_becomes(group, words)):
        line = f"{_kind(first)}{_quoted(first.id, words)} {'; '.join(told)}"
        yield line if line.endswith("”") else f"{line}."


def _kind(change: Change) -> str:
    if change.table in _HELD:
        return ""
    nouns = {"entity_aliases": "alias", "artifacts": "document", "artifacts_archive": "document", "edges": "relation"}
    return f"{'entity' if change.table in _ENTITIES else nouns.get(change.table, change.table)} ".capitalize()


def _becomes(group: Sequence[Change], words: Words) -> Iterator[str]:
    before = {name: cell for each in group for name, cell in (each.before or {}).items()}
    after = {name: cell for each in group for name, cell in (each.after or {}).items()}
    if all(each.is_removal for each in group):
        yield "is deleted for good"
        return
    status = after.get("status")
    if status != before.get("status") or all(each.is_new for each in group):
        heir = after.get("replaced_by") or after.get("merged_into")
        yield _state(before.get("status"), status, _quoted(str(heir), words) if heir else "", group[0].table)
        if group[0].table in _HELD and status != "active":
            return
    if all(each.is_new for each in group):
        return
    yield from _cells(before, after, words)


def _state(before: str | None, after: str | None, heir: str, table: str) -> str:
    """A status in words."""
    if heir and after in ("superseded", "archived", "merged"):
        return f"gives way to {heir}"
    if before is None and table not in _HELD:
        return "is new"
    if after == "active" and before not in (None, "candidate"):
        return "comes back into recall"
    return _BECOMES.get(after or "", f"is then {after}" if after else "is new")


def _cells(before: Mapping[str, Any], after: Mapping[str, Any], words: Words) -> Iterator[str]:
    for name, told in _COLUMNS.items():
        cell = after.get(name)
        if cell and cell != before.get(name):
            yield told.format("the time of approval" if cell == NOW else _named(str(cell), words, name))
    if "pinned" in after and bool(after["pinned"]) != bool(before.get("pinned")):
        yield "is pinned" if after["pinned"] else "is no longer pinned"


def _named(cell: str, words: Words, column: str) -> str:
    return in_quotes(words.get(cell, cell)) if column.endswith("_id") or column in ("statement", "name") else cell[:10]


def _quoted(row: str, words: Words) -> str:
    return in_quotes(words.get(row) or row)
