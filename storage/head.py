"""The head: one row that says which version of every table is the state of the namespace, and who may write.

It is moved by compare-and-swap only, which LanceDB gives on local disks and object stores alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from slowwave.errors import Fenced, LeaseBusy, UnusableInput

from .connection import HEAD
from .lease import holder, is_surely_dead, new_owner

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("versions", pa.string(), nullable=False),
        pa.field("schema_version", pa.int64(), nullable=False),
        pa.field("embed_model", pa.string(), nullable=False),
        pa.field("dims", pa.int64(), nullable=False),
        pa.field("lease_count", pa.int64(), nullable=False),
        pa.field("owner", pa.string(), nullable=False),
        pa.field("lease_until", pa.float64(), nullable=False),
    ]
)
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Head:
    """The one row: `sequence` counts commits, `lease_count` counts every change of the lease."""

    sequence: int
    versions: Mapping[str, int]
    schema_version: int
    embed_model: str
    dims: int
    lease_count: int
    owner: str
    lease_until: float

    @property
    def is_free(self) -> bool:
        """Whether a writer may take the lease now."""
        return not self.owner or self.lease_until < time.time() or is_surely_dead(self.owner)


def create_head(
    db: DBConnection, versions: Mapping[str, int], schema_version: int, embed_model: str, dims: int
) -> None:
    """Publish the first, empty state; of several processes that try, one wins and the others see its head."""
    row = [["head"], [0], [json.dumps(dict(versions))], [schema_version], [embed_model], [dims], [0], [""], [0.0]]
    try:
        db.create_table(HEAD, pa.table(row, schema=_SCHEMA))
    except (ValueError, RuntimeError, OSError) as error:
        if "already exists" not in str(error).lower() and HEAD not in db.list_tables().tables:
            raise


class HeadRow:
    """Reads and moves the head of one namespace."""

    def __init__(self, db: DBConnection) -> None:
        self._table: Table = db.open_table(HEAD)

    def read(self) -> Head:
        """The head as it is now."""
        rows = self._table.to_arrow().to_pylist()
        if len(rows) != 1:
            raise UnusableInput(f"The store's head has {len(rows)} rows instead of one.", "Run `slowwave doctor`.")
        row = rows[0]
        return Head(
            row["sequence"],
            json.loads(row["versions"]),
            row["schema_version"],
            row["embed_model"],
            row["dims"],
            row["lease_count"],
            row["owner"],
            row["lease_until"],
        )

    def acquire(self, run_id: str, lease_s: float, wait_s: float) -> Head:
        """Take the writer lease, waiting up to `wait_s` seconds; a dead holder's lease is taken over."""
        end = time.time() + wait_s
        owner = new_owner(run_id)
        while True:
            head, until = self.read(), time.time() + lease_s
            if head.is_free and self._swap(head, owner=owner, lease_until=until):
                return replace(head, lease_count=head.lease_count + 1, owner=owner, lease_until=until)
            if time.time() > end:
                raise LeaseBusy(
                    f"The namespace is being written by {holder(head.owner)}; waited {wait_s:g} s.",
                    "Wait for it to finish, or raise retention.lease_wait_s.",
                )
            time.sleep(_POLL_S)

    def renew(self, held: Head, lease_s: float) -> Head:
        """Extend the lease that `held` names; raises `Fenced` if it was lost."""
        until = time.time() + lease_s
        if not self._swap(held, owner=held.owner, lease_until=until):
            raise Fenced("Another writer took over the namespace while this one was silent.", "Run it again.")
        return replace(held, lease_count=held.lease_count + 1, lease_until=until)

    def is_held(self, held: Head) -> bool:
        """Whether the lease is still the one that `held` names."""
        return self.read().lease_count == held.lease_count

    def publish(self, held: Head, versions: Mapping[str, int], **more: int | str) -> None:
        """Make `versions` the state and free the lease, in one step; raises `Fenced` if the lease was lost."""
        body = {"sequence": held.sequence + 1, "versions": json.dumps(dict(versions)), **more}
        if not self._swap(held, owner="", lease_until=0.0, **body):
            raise Fenced("Another writer took over the namespace before this one could publish.", "Run it again.")

    def release(self, held: Head) -> bool:
        """Free the lease without publishing; False if it was lost already."""
        return self._swap(held, owner="", lease_until=0.0)

    def _swap(self, seen: Head, **values: int | float | str) -> bool:
        where = f"sequence = {seen.sequence} AND lease_count = {seen.lease_count}"
        try:
            result = self._table.update(where=where, values={"lease_count": seen.lease_count + 1, **values})
        except RuntimeError as error:
            if "conflict" in str(error).lower() or "concurrent" in str(error).lower():
                return False
            raise
        return int(result.rows_updated) == 1
