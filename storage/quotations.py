"""Quotations: what nobody has read yet, and the rows that were made of it.

Without a model, sentences are kept as they were said. A model that reads the messages later must read them as if it
were the first: a quotation is no known fact, and an entity that only quotations name is not known yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowwave.common.validity import ENDS

from .changes import FACT_TABLES
from .rows import quoted
from .snapshots import Reading

QUOTES = "quotes"
"""Who read a message, and where a patch comes from, where nobody read it yet."""
UNREAD = f"read_by = '{QUOTES}'"
KEPT_AS_SAID = f"{UNREAD} AND graph_state IN ('done', 'skipped_durability')"
"""The messages that a model may read later."""
OF_QUOTATIONS = f"origin = '{QUOTES}'"
OF_A_RUN = ("entity_aliases", "episode_entities")
"""Tables of which a row is written by the run that finds it first."""


def count_quoted(reading: Reading) -> int:
    """How many messages are kept as quotations until a model reads them."""
    return reading.count("messages", KEPT_AS_SAID)


@dataclass(frozen=True, slots=True)
class Keeping:
    """The patches of quotations, and the runs that kept them: `over` are those whose messages were all read since."""

    patches: pl.Series
    runs: pl.Series
    over: pl.Series


def keeping(reading: Reading) -> Keeping:
    """What was kept as quotations, and by which runs; a run that read with a model is none of them."""
    patches = reading.frame("patch_batches", OF_QUOTATIONS, ["id", "run_id"])
    readers = reading.frame("messages", "read_by IS NOT NULL", ["run_id", "read_by"]).unique()
    is_unread = pl.col("read_by") == QUOTES
    unread, models = (readers.filter(is_)["run_id"] for is_ in (is_unread, ~is_unread))
    runs = pl.concat([patches["run_id"], unread]).unique()
    runs = runs.filter(~runs.is_in(models.implode()))
    return Keeping(patches["id"], runs, runs.filter(~runs.is_in(unread.implode())))


def made_by_nobody(reading: Reading) -> dict[str, str]:
    """Conditions, by table, of the quotations and of what the runs that kept them wrote last.

    A pinned quotation is knowledge, as is an entity that any other fact names.
    """
    kept = keeping(reading)
    if kept.runs.is_empty() and kept.patches.is_empty():
        return {}
    by_them = run_in(kept.runs)
    quotations = f"patch_batch_id IN ({_listed(kept.patches)}) AND pinned IS NOT TRUE AND status != 'candidate'"
    named = [reading.frame(name, f"({quotations}) IS NOT TRUE", ENDS) for name in FACT_TABLES]
    known = pl.concat([part[end].rename("id") for part in named for end in ENDS]).drop_nulls().unique()
    theirs = reading.frame("entities", by_them, ["id"])["id"]
    stay = theirs.filter(theirs.is_in(known.implode()))
    hidden = dict.fromkeys(FACT_TABLES, quotations) | dict.fromkeys((*OF_A_RUN, "fact_evidence"), by_them)
    return hidden | {"entities": f"{by_them} AND id NOT IN ({_listed(stay)})"}


def run_in(runs: pl.Series) -> str:
    """The rows that one of these runs wrote last."""
    return f"run_id IN ({_listed(runs)})"


def _listed(ids: pl.Series) -> str:
    return ", ".join(map(quoted, ids.drop_nulls().sort())) or "''"
