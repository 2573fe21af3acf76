"""Exports for people and other programs: the graph of a memory, and a page for each entity. They cannot be imported."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import polars as pl

from slowwave.common.text import in_markdown, readable
from slowwave.common.validity import live_sql
from storage.snapshots import Snapshot, batches

from .entities import with_last_seen
from .facts import ALL

# A memory as GraphML: entities are nodes, live relations are edges; opens in Gephi, yEd, networkx, igraph.


_NODE = dict.fromkeys(("name", "type", "observations", "first_seen", "last_seen"), "string")
_EDGE = {
    "relation": ("string", "predicate"),
    "statement": ("string", "statement"),
    "confidence": ("double", "confidence"),
    "evidence": ("long", "evidence_count"),
    "polarity": ("string", "polarity"),
    "valid_from": ("string", "valid_from"),
    "valid_to": ("string", "valid_to"),
    "fact": ("string", "id"),
}
"""The attributes of an edge: the type of each, and the column of a fact that it has."""
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'


def write_graph(snapshot: Snapshot, now: datetime, path: Path) -> dict[str, int]:
    """Write the graph; returns how many nodes, edges, and `observations`: facts about one entity alone, in its node."""
    counts = Counter[str]()
    with path.open("w", encoding="utf-8") as file:
        file.write(_HEAD)
        for kind, columns in (("node", _NODE), ("edge", {name: type_ for name, (type_, _) in _EDGE.items()})):
            file.writelines(
                f'<key id="{kind}_{name}" for="{kind}" attr.name="{name}" attr.type="{type_}"/>\n'
                for name, type_ in columns.items()
            )
        file.write('<graph id="memory" edgedefault="directed">\n')
        nodes = sum(file.write(line) > 0 for line in _nodes(snapshot, now, counts))
        edges = sum(file.write(line) > 0 for line in _edges(snapshot, now))
        file.write("</graph>\n</graphml>\n")
    return {"entities": nodes, "facts": edges, "observations": counts["observations"]}


def _nodes(snapshot: Snapshot, now: datetime, counts: Counter[str]) -> Iterator[str]:
    columns = ["id", "name", "entity_type", "first_seen_at", "last_seen_at"]
    where = f"{live_sql(now)} AND object_id IS NULL"
    for part in batches(snapshot, "entities", columns):
        rows = with_last_seen(snapshot, part, part["id"].to_list())
        about = snapshot.by_ids("facts", rows["id"], ["subject_id", "statement"], key="subject_id", where=where)
        statements = dict(about.group_by("subject_id").agg(pl.col("statement").sort()).iter_rows())
        for id_, name, type_, first, last in rows.select(columns).iter_rows():
            lines = statements.get(id_, [])
            counts["observations"] += len(lines)
            data = {"name": name, "type": type_, "observations": "\n".join(lines), "first_seen": first,
                    "last_seen": last}  # fmt: skip
            yield f"<node id={quoteattr(_plain(id_))}>{_data('node', data)}</node>\n"


def _edges(snapshot: Snapshot, now: datetime) -> Iterator[str]:
    where = f"{live_sql(now)} AND subject_id IS NOT NULL AND object_id IS NOT NULL"
    columns = [column for _, column in _EDGE.values()]
    for rows in batches(snapshot, "facts", [*columns, "subject_id", "object_id"], where):
        for fact in rows.iter_rows(named=True):
            values = {name: fact[column] for name, (_, column) in _EDGE.items()}
            name, source, target = (quoteattr(_plain(fact[end])) for end in ("id", "subject_id", "object_id"))
            yield f"<edge id={name} source={source} target={target}>{_data('edge', values)}</edge>\n"


def _data(kind: str, values: Mapping[str, Any]) -> str:
    return "".join(
        f'<data key="{kind}_{name}">{escape(_plain(value))}</data>'
        for name, value in values.items()
        if value not in (None, "")
    )


def _plain(value: Any) -> str:
    """A value as XML can hold it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return "".join(sign if sign >= " " or sign in "\t\n" else " " for sign in readable(str(value)))


# A memory as a folder of Markdown: a page for each entity with its facts and where they come from, and an index. The
# pages link each other by name, as in an Obsidian vault. Stored text is shown as text: nothing in it is markup.


PAGES = "entities"
INDEX = "index.md"
_NAME_BYTES = 120
_UNSAFE = re.compile(r"[\x00-\x1f\x7f<>:\"/\\|?*#^\[\]%`]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_PAGE_FACTS = (
    "id", "subject_id", "object_id", "statement", "status", "valid_from", "valid_to", "confidence", "message_id",
)  # fmt: skip
_LEARNED = "status NOT IN ('candidate', 'rejected')"


def write_pages(snapshot: Snapshot, now: datetime, folder: Path) -> dict[str, int]:
    """Write the pages; returns how many pages, and how many facts are on them."""
    (folder / PAGES).mkdir()
    files = page_names(snapshot.frame("entities", columns=["id", "name"]))
    live = set(snapshot.frame("facts", live_sql(now), ["id"])["id"])
    count = 0
    for rows in batches(snapshot, "entities", ["id", "name", "entity_type", "summary"]):
        for entity, facts, names in _with_facts(snapshot, rows):
            count += len(facts)
            page = _page(entity, facts, names, files, live)
            (folder / PAGES / f"{files[entity['id']]}.md").write_text(page, encoding="utf-8")
    (folder / INDEX).write_text(_index(snapshot, files, now), encoding="utf-8")
    return {"entities": len(files), "facts": count}


def page_names(entities: pl.DataFrame) -> dict[str, str]:
    """The file name of each entity (id, name), without its ending: safe on every system, and unlike all others."""
    taken: dict[str, str] = {}
    found: dict[str, str] = {}
    for id_, name in entities.sort("id").iter_rows():
        safe = safe_name(name or "")
        if safe.casefold() in taken or not safe:
            safe = f"{safe or 'entity'} ({id_})"
        taken[safe.casefold()] = id_
        found[id_] = safe
    return found


def safe_name(name: str) -> str:
    """A name that may be a file: no path, no sign that a system or a link gives a meaning, not too long."""
    plain = " ".join(_UNSAFE.sub(" ", readable(name)).split()).strip(". ")
    short = plain.encode()[:_NAME_BYTES].decode(errors="ignore").strip(". ")
    return f"{short}_" if _RESERVED.fullmatch(short) else short


def _with_facts(
    snapshot: Snapshot, entities: pl.DataFrame
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]], list[str]]]:
    """Each entity with its facts, the newest first, each with its source; and its other names."""
    parts = [snapshot.by_ids(name, entities["id"], _PAGE_FACTS, key="subject_id", where=_LEARNED) for name in ALL]
    facts = pl.concat(parts)
    messages = snapshot.by_ids("messages", facts["message_id"].drop_nulls(), ["id", "conversation_id", "occurred_at"])
    whole = facts.join(messages.rename({"id": "message_id"}), on="message_id", how="left")
    newest = whole.sort("valid_from", "id", descending=[True, False], nulls_last=True)
    by_entity = {str(key): rows.to_dicts() for (key,), rows in newest.group_by("subject_id", maintain_order=True)}
    aliases = snapshot.by_ids("entity_aliases", entities["id"], ["entity_id", "alias_name"], key="entity_id")
    names = dict(aliases.group_by("entity_id").agg(pl.col("alias_name").unique().sort()).iter_rows())
    for entity in entities.to_dicts():
        others = [name for name in names.get(entity["id"], ()) if name != entity["name"]]
        yield entity, by_entity.get(entity["id"], []), others


def _page(
    entity: Mapping[str, Any],
    facts: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    files: Mapping[str, str],
    live: set[str],
) -> str:
    lines = ["---", f"type: {json.dumps(entity['entity_type'] or '', ensure_ascii=False)}"]
    lines += [f"aliases: {json.dumps(list(names), ensure_ascii=False)}", f"id: {json.dumps(entity['id'])}", "---", ""]
    lines += [f"# {in_markdown(entity['name'] or '')}", ""]
    lines += [in_markdown(entity["summary"]), ""] if entity["summary"] else []
    for title, is_live in (("What holds", True), ("What held", False)):
        shown = [fact for fact in facts if (fact["id"] in live) is is_live]
        lines += [f"## {title}", "", *(_line(fact, files) for fact in shown), ""] if shown else []
    return "\n".join(lines)


def _line(fact: Mapping[str, Any], files: Mapping[str, str]) -> str:
    marks = [_validity(fact)]
    marks += [fact["status"]] if fact["status"] != "active" else []
    if fact["conversation_id"]:
        day = f"{fact['occurred_at']:%Y-%m-%d}" if fact["occurred_at"] else ""
        marks.append(f"said in {in_markdown(fact['conversation_id'])} {day}".strip())
    link = f" → [[{files[fact['object_id']]}]]" if fact["object_id"] in files else ""
    return (
        f"- {in_markdown(fact['statement'] or '')}{link} ({', '.join(mark for mark in marks if mark)}) `{fact['id']}`"
    )


def _validity(fact: Mapping[str, Any]) -> str:
    start, end = fact["valid_from"], fact["valid_to"]
    if end is not None:
        return f"{start:%Y-%m-%d} to {end:%Y-%m-%d}" if start else f"until {end:%Y-%m-%d}"
    return f"since {start:%Y-%m-%d}" if start else ""


def _index(snapshot: Snapshot, files: Mapping[str, str], now: datetime) -> str:
    lines = ["# Memory", "", f"As of {now:%Y-%m-%d}, commit {snapshot.sequence}.", ""]
    entities = snapshot.frame("entities", columns=["id", "name", "entity_type"]).sort("entity_type", "name", "id")
    for (kind,), rows in entities.group_by("entity_type", maintain_order=True):
        lines += [f"## {in_markdown(str(kind or 'other'))}", ""]
        lines += [f"- [[{files[id_]}]]" for id_ in rows["id"]] + [""]
    return "\n".join(lines)
