"""Whether two names are one thing: labelled pairs of names of people, companies and organizations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from slowwave.entities.name_matching import is_one_name

from .figures import Absent, Figure, Options, measured

TYPES = {"Person": "person"}


def run(options: Options) -> Iterable[Figure]:
    """How many pairs entity resolution joins by their spelling, and how many of these are right."""
    pairs = labelled(options.data)
    with measured() as cost:
        same = pl.Series([is_one_name(*row) for row in pairs.select("a", "b", "kind").iter_rows()], dtype=pl.Boolean)
    is_match = pairs["is_match"]
    note = f"of {same.sum()} joined"
    yield Figure("names", "right among the joined ones", precision(same, is_match), "", 0.98, "higher", note=note)
    yield Figure("names", "joined of those that are one", recall(same, is_match), "", None, "higher")
    yield Figure("names", "pairs a second", len(pairs) / max(cost.wall_s, 1e-9), "1/s", None, "higher")


def labelled(folder: Path) -> pl.DataFrame:
    """The pairs: `a`, `b`, `kind` (a type of entity), `is_match`."""
    path = folder / "names" / "cases_dev.csv"
    if not path.exists():
        raise Absent(f"no pairs of names in {folder}: set SLOWWAVE_DATA to the folder that holds names/")
    rows = pl.read_csv(path)
    kind = pl.col("schema").replace_strict(TYPES, default="organization")
    return rows.select(a="name1", b="name2", kind=kind, is_match=pl.col("is_match"))


def precision(said: pl.Series, truth: pl.Series) -> float:
    """The share of what was said to be one that is."""
    return int((said & truth).sum()) / max(int(said.sum()), 1)


def recall(said: pl.Series, truth: pl.Series) -> float:
    """The share of what is one that was said to be."""
    return int((said & truth).sum()) / max(int(truth.sum()), 1)
