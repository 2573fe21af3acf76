"""A memory as GraphML: entities are nodes, live relations are edges; opens in Gephi, yEd, networkx, igraph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import polars as pl

from slowwave.text import readable
from slowwave.validity import live_sql
from storage.reembedding import batches
from storage.snapshots import Snapshot

_NODE = {"name": "string", "type": "string", "observations": "string", "first_seen": "string", "last_seen": "string"}
_EDGE = {
    "relation": "string", "statement": "string", "confidence": "double", "evidence": "long", "polarity": "string",
    "valid_from": "string", "valid_to": "string", "fact": "string",
}  # fmt: skip
_FACTS = (
    "id", "subject_id", "object_id", "predicate", "statement", "confidence", "evidence_count", "polarity", "valid_from",
    "valid_to",
)  # fmt: skip
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'


def write_graph(snapshot: Snapshot, now: datetime, path: Path) -> dict[str, int]:
    """Write the graph; returns how many nodes and edges. What is said of one entity alone is an attribute of it.

    `observations` counts what is told so.
    """
    told = Counter[str]()
    with path.open("w", encoding="utf-8") as file:
        file.write(_HEAD)
        for kind, columns in (("node", _NODE), ("edge", _EDGE)):
            file.writelines(
                f'<key id="{kind}_{name}" for="{kind}" attr.name="{name}" attr.type="{type_}"/>\n'
                for name, type_ in columns.items()
            )
        file.write('<graph id="memory" edgedefault="directed">\n')
        nodes = _put(file, _nodes(snapshot, now, told))
        edges = _put(file, _edges(snapshot, now))
        file.write("</graph>\n</graphml>\n")
    return {"entities": nodes, "facts": edges, "observations": told["observations"]}


def _put(file: Any, lines: Iterator[str]) -> int:
    count = 0
    for line in lines:
        file.write(line)
        count += 1
    return count


def _nodes(snapshot: Snapshot, now: datetime, told: Counter[str]) -> Iterator[str]:
    columns = ["id", "name", "entity_type", "first_seen_at", "last_seen_at"]
    for rows in batches(snapshot, "entities", columns):
        about = snapshot.by_ids(
            "facts",
            rows["id"],
            ["subject_id", "statement"],
            key="subject_id",
            where=f"{live_sql(now)} AND object_id IS NULL",
        )
        said = dict(about.group_by("subject_id").agg(pl.col("statement").sort()).iter_rows())
        for id_, name, type_, first, last in rows.select(columns).iter_rows():
            lines = said.get(id_, [])
            told["observations"] += len(lines)
            data = {"name": name, "type": type_, "observations": "\n".join(lines), "first_seen": first,
                    "last_seen": last}  # fmt: skip
            yield f"<node id={quoteattr(_plain(id_))}>{_data('node', data)}</node>\n"


def _edges(snapshot: Snapshot, now: datetime) -> Iterator[str]:
    where = f"{live_sql(now)} AND subject_id IS NOT NULL AND object_id IS NOT NULL"
    for rows in batches(snapshot, "facts", list(_FACTS), where):
        for fact in rows.iter_rows(named=True):
            told = {
                "relation": fact["predicate"],
                "statement": fact["statement"],
                "confidence": fact["confidence"],
                "evidence": fact["evidence_count"],
                "polarity": fact["polarity"],
                "valid_from": fact["valid_from"],
                "valid_to": fact["valid_to"],
                "fact": fact["id"],
            }
            ends = f"source={quoteattr(_plain(fact['subject_id']))} target={quoteattr(_plain(fact['object_id']))}"
            yield f"<edge id={quoteattr(_plain(fact['id']))} {ends}>{_data('edge', told)}</edge>\n"


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
