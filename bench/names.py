"""Whether two names are one thing: labelled pairs of names of people, companies and organizations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl
from rapidfuzz.distance import JaroWinkler

from slowwave.entities.name_matching import match_names

from .figures import Absent, Figure, Options, measured

BAR = 0.85
JARO_WINKLER = 0.88
TYPES = {"Person": "person"}
_PEERS = "Jaro-Winkler .677, nomenklatura logic-v2 .790 on the same pairs"


def run(options: Options) -> Iterable[Figure]:
    """F1 of what entity resolution uses, of letters alone beside it, and how many it joins without a question."""
    pairs = labelled(options.data)
    with measured() as cost:
        matched = [match_names(a, b, kind) for a, b, kind in pairs.select("a", "b", "kind").iter_rows()]
    same = pl.Series([each.is_same for each in matched], dtype=pl.Boolean)
    sure = pl.Series([each.is_sure for each in matched], dtype=pl.Boolean)
    letters = _by(pairs, lambda a, b: JaroWinkler.similarity(a.lower(), b.lower()) >= JARO_WINKLER)
    is_match = pairs["is_match"]
    yield Figure("names", "F1, names that are one thing", f1(same, is_match), "", BAR, "higher", note=_PEERS)
    for kind in ("person", "organization"):
        own = pairs["kind"] == kind
        figure = f1(same.filter(own), is_match.filter(own))
        yield Figure("names", f"F1, {kind}", figure, "", None, "higher", note=f"{own.sum()} pairs")
    note = f"of {sure.sum()} joined without a question"
    yield Figure("names", "right among the sure ones", precision(sure, is_match), "", 0.98, "higher", note=note)
    yield Figure("names", f"F1, Jaro-Winkler ≥ {JARO_WINKLER}", f1(letters, is_match), "", None, "higher")
    yield Figure("names", "pairs a second", len(pairs) / max(cost.wall_s, 1e-9), "1/s", None, "higher")


def labelled(folder: Path) -> pl.DataFrame:
    """The pairs: `a`, `b`, `kind` (a type of entity), `is_match`."""
    path = folder / "names" / "cases_dev.csv"
    if not path.exists():
        raise Absent(f"no pairs of names in {folder}: set SLOWWAVE_DATA to the folder that holds names/")
    rows = pl.read_csv(path)
    kind = pl.col("schema").replace_strict(TYPES, default="organization")
    return rows.select(a="name1", b="name2", kind=kind, is_match=pl.col("is_match"))


def f1(said: pl.Series, truth: pl.Series) -> float:
    """The harmonic mean of precision and recall."""
    right = int((said & truth).sum())
    return 2 * right / max(int(said.sum()) + int(truth.sum()), 1)


def precision(said: pl.Series, truth: pl.Series) -> float:
    """The share of what was said to be one that is."""
    return int((said & truth).sum()) / max(int(said.sum()), 1)


def _by(pairs: pl.DataFrame, rule: Callable[[str, str], bool]) -> pl.Series:
    return pl.Series([rule(a, b) for a, b in pairs.select("a", "b").iter_rows()], dtype=pl.Boolean)
