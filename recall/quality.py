"""Quality: facts that the steward scored too low are not recalled once the learning period is over (S4-03)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from slowwave.maintenance.kept import ENDS, is_kept
from storage.warm import Tables

LEARNING = "steward.learning"
TABLES = ("fact_scores", "metadata")
_READ = ("id", "kind", "pinned", "entrenchment", *ENDS)


class Faded:
    """Ids of facts whose score is below a limit in [0, 1], kept once they were read as long as no commit changes them.

    Empty while the steward learns. Facts without a score are not among them; pinned ones and axioms never fade.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._low: frozenset[str] = frozenset()
        self._low_at: tuple[int, ...] = ()
        self._kept: dict[str, bool] = {}
        self._pinned: frozenset[str] = frozenset()
        self._kept_at = (0, 0)

    async def among(self, tables: Tables, ids: Sequence[str]) -> list[str]:
        """Those of these live facts that are not to be recalled."""
        if self._limit <= 0.0:
            return []
        below = await self._below(tables)
        low = [fact for fact in ids if fact in below]
        if not low:
            return []
        kept = await self._keeping(tables, low)
        return [fact for fact in low if not kept[fact]]

    async def _below(self, tables: Tables) -> frozenset[str]:
        """Facts below the limit; read again only where scores or the mark of learning may have changed."""
        versions = tuple(tables.versions[name] for name in TABLES)
        if versions != self._low_at:
            marks = await tables.fetch("metadata", "id", [LEARNING], ["number"])
            is_over = len(marks) > 0 and not marks["number"][0]
            rows = await _column(tables, "fact_scores", f"quality_score < {self._limit}") if is_over else []
            self._low, self._low_at = frozenset(rows), versions
        return self._low

    async def _keeping(self, tables: Tables, low: Sequence[str]) -> dict[str, bool]:
        """Whether each of these facts is kept all the same; asked once per fact and version."""
        versions = (tables.versions["facts"], tables.versions["entities"])
        if versions != self._kept_at:
            pinned = frozenset(await _column(tables, "entities", "pinned"))
            self._kept, self._pinned, self._kept_at = {}, pinned, versions
        kept, pinned = self._kept, self._pinned  # another question may begin new ones while this one reads
        missing = [fact for fact in low if fact not in kept]
        if missing:
            rows = await tables.fetch("facts", "id", missing, _READ)
            kept.update(rows.select("id", is_kept(pinned).alias("kept")).iter_rows())
        return kept


async def _column(tables: Tables, name: str, where: str) -> list[str]:
    rows = pl.from_arrow(await tables[name].query().where(where).select(["id"]).to_arrow())
    assert isinstance(rows, pl.DataFrame)
    return rows["id"].to_list()
