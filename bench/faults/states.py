"""What a namespace holds, so that two runs of the same work can be compared.

Left out is what differs by right between any two runs: the run's name in `run_id` and wherever a text holds it, the
identifiers of decisions and proposals, which are made of it, the tables `commits` and `runs`, which tell the history,
how long a model took to answer, what the doctor and each run that forgets notes of itself, and how recall stood at a
gate, whose questions each run draws by its name. Times are compared: they are those of the run, which is given one.
Profiles follow from the facts and are renewed after them: see `trial`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from slowwave.common.errors import SlowwaveError
from storage.rows import empty_frame
from storage.snapshots import Snapshot
from storage.store import Store
from storage.tables import Role, tables_of

Frames = Mapping[str, pl.DataFrame]
Known = dict[tuple[str, int], pl.DataFrame]
State = Mapping[str, str]
"""A digest of each table's content."""

TOLD_APART = ("commits", "runs")
RUN_NAME = re.compile(r"[a-z]+-\d{8}-\d{6}-[0-9a-f]{8}")
PROPOSAL = re.compile(r"p_[0-9a-f]{11}_[0-9a-f]{16}")
GATE = re.compile(r'"gate":\{[^{}]*\}')
OF_RUNS = ("decisions", "proposals")  # whose identifiers are made of the run's name
TOLD_BY_EACH = ("repair", "forget")  # decisions that every run writes again: what the doctor found, that one forgot
LOGGED = {"llm_calls": ["id", "response", "error"]}
FACTS = ("facts", "facts_archive")


def opened(place: Path, namespace: str = "default") -> Store | None:
    """The namespace, or None where there is none."""
    try:
        return Store.attach(str(place), namespace)
    except SlowwaveError:
        return None


def contents(store: Store | None, known: Known | None = None) -> Frames:
    """Rows of every table of the newest state, in an order that follows from what they say.

    `known` holds tables that this process has read before, by name and version; those are not read again.
    """
    if store is None:
        return {}
    known = known if known is not None else {}
    snapshot = store.snapshot()
    frames = {}
    for name in tables_of(Role.STATE, Role.HISTORY):
        if name not in TOLD_APART:
            key = name, snapshot.versions.get(name, 1)
            if key not in known:
                known[key] = comparable(name, _rows(snapshot, name))
            frames[name] = known[key]
    return frames


def _rows(snapshot: Snapshot, name: str) -> pl.DataFrame:
    if snapshot.is_blank(name):
        return empty_frame(name, snapshot.dims)
    return pl.DataFrame(pl.from_arrow(snapshot.handle(name).to_arrow()))


def logs(store: Store | None) -> Frames:
    """What the logs hold; they stay outside of commits."""
    if store is None:
        return {}
    return {name: comparable(name, store.log(name).select(columns)) for name, columns in LOGGED.items()}


def comparable(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without what two runs may differ in, sorted."""
    if name == "decisions":
        frame = frame.filter(~pl.col("action").is_in(TOLD_BY_EACH))
        frame = frame.with_columns(pl.col("measures").str.replace_all(GATE.pattern, '"gate":{}'))
    dropped = ["run_id", *(["id"] if name in OF_RUNS else [])]
    element = pl.element().str.replace_all(RUN_NAME.pattern, "RUN").str.replace_all(PROPOSAL.pattern, "PROPOSAL")
    kept = frame.drop(dropped, strict=False).with_columns(
        pl.col(pl.String).str.replace_all(RUN_NAME.pattern, "RUN").str.replace_all(PROPOSAL.pattern, "PROPOSAL"),
        pl.col(pl.List(pl.String)).list.eval(element),
    )
    keys = [name for name, kind in kept.schema.items() if not kind.is_nested()]
    return kept.sort(keys, nulls_last=True, maintain_order=True)


def digests(frames: Frames) -> State:
    """One short text for each table."""
    return {name: hashlib.sha256(frame.write_json().encode()).hexdigest()[:16] for name, frame in frames.items()}


def known_facts(store: Store | None) -> set[str]:
    """Ids of all facts that can be found, live or archived."""
    if store is None:
        return set()
    snapshot = store.snapshot()
    return {key for name in FACTS for key in snapshot.frame(name, columns=["id"])["id"]}


def differences(expected: Frames, found: Frames) -> list[str]:
    """One line for each table that is not the same: rows more or fewer, or the columns that differ."""
    lines = [f"{name} is there in one of both" for name in sorted(expected.keys() ^ found.keys())]
    for name in sorted(expected.keys() & found.keys()):
        lines += _difference(name, expected[name], found[name])
    return lines


def _difference(name: str, expected: pl.DataFrame, found: pl.DataFrame) -> list[str]:
    if expected.equals(found):
        return []
    if len(expected) != len(found):
        return [f"{name}: {len(found)} rows instead of {len(expected)}"]
    columns = [c for c in expected.columns if not expected[c].equals(found[c], null_equal=True)]
    told = [f"{c}: {_first(expected[c], found[c])}" for c in columns[:3]]
    return [f"{name} differs in {'; '.join(told)}"]


def _first(expected: pl.Series, found: pl.Series) -> str:
    pairs = ((a, b) for a, b in zip(expected.to_list(), found.to_list(), strict=True) if a != b)
    return " instead of ".join(repr(value)[:60] for value in reversed(next(pairs, ("?", "?"))))
