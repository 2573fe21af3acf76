"""The lock of creation: which process creates a namespace on object storage, where no folder can be moved into place.

The first version of a table is written by a conditional put, so of all processes that create a table at once exactly
one finds its own name in the first version. That one creates the namespace; the others wait until it is there. If the
creator is gone, they claim it under the next number.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from .lease import Clock, is_surely_dead, new_owner

if TYPE_CHECKING:
    from lancedb.db import DBConnection

_CLAIM = "_making"
_POLL_S = 0.2


def make_once(
    db: DBConnection, make: Callable[[], None], is_made: Callable[[], bool], lease_s: float, clock: Clock | None = None
) -> None:
    """Run `make` in one of the processes that ask for it at once; returns when `is_made` says so.

    A maker that adds no table for `lease_s` seconds is taken for dead.
    """
    owner, watch = new_owner("making"), clock or Clock()
    for number in count():
        if is_made():
            return
        winner = claimed(db, f"{_CLAIM}_{number}", owner)
        if winner == owner:
            if not is_made():  # a claim made after the namespace was
                make()
            return
        _wait(db, winner, is_made, lease_s, watch)


def claimed(db: DBConnection, name: str, owner: str) -> str:
    """Claim a name as a table with this one row; returns whose it is, or what was written into it first."""
    with suppress(ValueError, RuntimeError, OSError):  # it is there already, or two came at once
        db.create_table(name, pa.table({"owner": [owner]}))
    return first_claim(db, name)


def first_claim(db: DBConnection, name: str) -> str:
    """Whose a name is that was claimed; raises `ValueError` where nobody did."""
    table = db.open_table(name)
    table.checkout(1)
    return str(table.to_arrow()["owner"][0].as_py())


def _wait(db: DBConnection, maker: str, is_made: Callable[[], bool], lease_s: float, clock: Clock) -> None:
    """Until it is made, or its maker is gone or silent."""
    tables, changed_at = -1, clock.steady()
    while not is_made() and not is_surely_dead(maker):
        there = len(db.list_tables(limit=1000).tables)
        if there != tables:
            tables, changed_at = there, clock.steady()
        if clock.steady() - changed_at > lease_s:
            return
        clock.sleep(_POLL_S)
