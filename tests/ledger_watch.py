"""Watches every commit of every test: no fact becomes active without a row of the ledger in the same commit.

What is watched is the table, not the code, so that a road to an active fact that nobody has thought of is seen as soon
as any test goes along it. What a test writes into a store by itself is its scene, and no road.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import polars as pl
import pytest

from storage.transactions import Transaction

ROOT = Path(__file__).parents[1]
SCENES = (ROOT / "tests", ROOT / "bench")
MACHINERY = {Path(__file__), Path(contextlib.__file__), ROOT / "storage" / "store.py", ROOT / "storage" / "drafts.py"}


def made_active(tx: Transaction) -> pl.Series:
    """The ids of facts that are active after this commit and were not before."""
    now = tx.frame("facts", "status = 'active'", ["id"])["id"]
    return now.filter(~now.is_in(_before(tx, "facts", "status = 'active'").implode()))


def unexplained(tx: Transaction, made: pl.Series) -> pl.Series:
    """Those of these facts that no decision of this commit answers for."""
    if "decisions" not in tx.before:
        return made
    where = f"run_id = '{tx.run_id}'"
    rows = tx.frame("decisions", where, ["id", "action", "subject_id", "ids_out", "measures"])
    fresh = rows.filter(~pl.col("id").is_in(_before(tx, "decisions", where).implode()))
    is_undo = pl.col("action") == "undo"  # what it takes back was decided when it was made
    is_salvage = (pl.col("action") == "repair") & (pl.col("subject_id") == "facts")  # an earlier state of the table
    if len(fresh.filter(is_undo | is_salvage)):
        return made.clear()
    vouched = fresh.filter((pl.col("action") == "import") & (pl.col("subject_id") == tx.run_id))["measures"]
    if any(json.loads(told)["active facts"] == len(made) for told in vouched):
        return made.clear()
    named = pl.concat([fresh["subject_id"], fresh["ids_out"].explode()]).drop_nulls().unique()
    return made.filter(~made.is_in(named.implode()))


def _before(tx: Transaction, name: str, where: str) -> pl.Series:
    """The ids of rows before this commit; none where they cannot be read, so that all rows count as new."""
    ids: list[str] = []
    if version := tx.before[name]:  # 0: the table was not there
        with contextlib.suppress(ValueError, RuntimeError, OSError):
            earlier = tx.open_again(name)
            earlier.checkout(version)
            ids = earlier.search().where(where).select(["id"]).limit(None).to_arrow()["id"].to_pylist()
    return pl.Series("id", ids, dtype=pl.String)


def _is_scene(frame: FrameType | None) -> bool:
    """Whether a test commits this by itself: whose is the first code above the machinery of commits."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path not in MACHINERY:
            return any(place in path.parents for place in SCENES)
        frame = frame.f_back
    return False


@contextlib.contextmanager
def watched() -> Iterator[Counter[str]]:
    """Inside, a commit that makes a fact active without a decision fails; counts the facts by kind of commit."""
    publish, made_by = Transaction.publish, Counter[str]()

    def watching(tx: Transaction, kind: str) -> int:
        if "facts" in tx.before and not _is_scene(sys._getframe(1)):
            made = made_active(tx)
            if len(lost := unexplained(tx, made) if len(made) else made):
                raise AssertionError(
                    f"{kind}: no decision answers for {len(lost)} facts that it makes active: {lost[0]}"
                )
            made_by[kind] += len(made)
        return publish(tx, kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "publish", watching)
        yield made_by
