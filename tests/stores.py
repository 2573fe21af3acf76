"""Stores that hold given facts, made without reading any conversation."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from talk import NOW, START

from inference.embedding import open_embedder
from slowwave.common.settings import RecallSettings
from slowwave.common.text import statement_hash
from slowwave.integrations.python_api import OpenMemory
from storage import row_steps, snapshots
from storage.store import Store

Row = dict[str, Any]


def as_another_process(patch: pytest.MonkeyPatch) -> None:
    """What is written from here on is handed to nobody in this process."""
    patch.setattr(row_steps, "_steps", {})
    patch.setattr(row_steps, "_sizes", Counter())
    patch.setattr(row_steps, "_seen", {})
    snapshots.IN_MEMORY.clear()


@contextmanager
def another_process() -> Iterator[None]:
    """What is written inside, this process finds only on the disk."""
    readers = dict(snapshots.IN_MEMORY)
    with pytest.MonkeyPatch.context() as patch:
        as_another_process(patch)
        yield
    snapshots.IN_MEMORY.update(readers)


def fact(name: str, statement: str, /, **more: Any) -> Row:
    """An active fact said by a message of its own."""
    return {
        "id": name, "statement": statement, "subject_id": "e_marta", "predicate": "noted", "status": "active",
        "confidence": 0.9, "valid_from": EPOCH, "message_id": f"m_{name}", "evidence_count": 1, "scope": "global",
        "quote": statement, **more,
    }  # fmt: skip


def observation(name: str, statement: str, at: datetime = EPOCH, about: str = "e_ana", /, **more: Any) -> Row:
    """A live observation from that time on, with the columns that rules read."""
    return fact(
        name, statement, **{
            "kind": "observation", "statement_hash": statement_hash(statement), "subject_id": about,
            "owner_entity_id": about, "predicate": "", "polarity": "affirmed", "status_reason": "applied",
            "valid_from": at, "created_at": at, "confidence": 0.8, "entrenchment": "user_stated", "pinned": False,
            "similarity_flag": False, **more,
        },
    )  # fmt: skip


def entity(key: str, /, **more: Any) -> Row:
    """A person, by default, whose id is made of the name."""
    return {
        "id": f"e_{key}", "canonical_name": key, "name": key.title(), "entity_type": "person", "status": "active",
        **more,
    }  # fmt: skip


def keeper(empty: Path, folder: Path) -> Callable[..., Path]:
    """What makes copies of the store `empty` in a folder, with rows by table."""
    made = count()

    def keep(**tables: Sequence[Row]) -> Path:
        uri = folder / f"store{next(made)}"
        shutil.copytree(empty, uri)
        with Store.open(str(uri)).commit("made", "made", EPOCH) as tx:
            for name, rows in tables.items():
                tx.upsert(name, pl.DataFrame(rows, infer_schema_length=None))
        return uri

    return keep


def remembered(
    uri: Path,
    facts: Sequence[Row],
    extra: Sequence[tuple[str, str]] = (),
    archived: Sequence[Row] = (),
    more: Mapping[str, Sequence[Row]] | None = None,
) -> Path:
    """A store that holds these facts, each with its message, and further evidence (fact, text of another message).

    `archived` facts lie in the archive; `more` are rows of other tables.
    """
    seat = open_embedder()
    store = Store.create(str(uri), "default", (seat.name, seat.dims))
    hot, facts = len(facts), [*facts, *archived]
    told = [(row["message_id"], row["statement"], row["scope"]) for row in facts]
    told += [(f"x_{n}", text, "global") for n, (_, text) in enumerate(extra)]
    vectors = seat.embed([text for _, text, _ in told])
    messages = pl.DataFrame(
        [
            {"id": name, "message_id": name, "conversation_id": "c", "ordinal": n, "role": "user", "speaker": "Marta",
             "content": text, "search_text": text, "occurred_at": START + timedelta(minutes=n), "scope": scope,
             "graph_state": "done"}
            for n, (name, text, scope) in enumerate(told)
        ]
    ).with_columns(vector=pl.Series(vectors, dtype=pl.Array(pl.Float32, seat.dims)))  # fmt: skip
    messages = messages.unique("id", keep="first", maintain_order=True)
    evidence = [(row["id"], row["message_id"], row["quote"]) for row in facts]
    evidence += [(name, f"x_{n}", text) for n, (name, text) in enumerate(extra)]
    rows = pl.DataFrame(
        [{"id": f"{f}-{m}", "fact_id": f, "message_id": m, "quote": q, "occurred_at": START} for f, m, q in evidence]
    )
    frame = pl.DataFrame(facts, infer_schema_length=None)
    frame = frame.with_columns(vector=pl.Series(vectors[: len(facts)], dtype=pl.Array(pl.Float32, seat.dims)))
    with store.commit("made", "made", EPOCH) as tx:
        tx.upsert("entities", pl.DataFrame([{"id": "e_marta", "canonical_name": "marta", "name": "Marta"}]))
        tx.upsert("messages", messages)
        tx.upsert("facts", frame.head(hot))
        tx.upsert("facts_archive", frame.tail(-hot))
        tx.upsert("fact_evidence", rows)
        for table, given in (more or {}).items():
            tx.upsert(table, pl.DataFrame(given, infer_schema_length=None))
    return uri


def recalled(uri: Path, query: str, settings: RecallSettings | None = None, **how: Any) -> list[str]:
    with OpenMemory.open(str(uri), settings=settings or RecallSettings()) as memory:
        return [found.id for found in memory.recall(query, now=NOW, **how).facts]


CLOSED = {
    "candidate": {"status": "candidate"},
    "rejected": {"status": "rejected"},
    "superseded": {"status": "superseded", "valid_to": NOW - timedelta(days=1)},
    "redundant": {"status": "superseded"},
    "retracted": {"status": "retracted"},
    "archived": {"status": "archived"},
    "expired": {"expired_at": NOW - timedelta(days=1)},
    "over": {"valid_to": NOW - timedelta(days=1)},
}
