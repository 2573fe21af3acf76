"""When communities are due: each time so many more messages were extracted (S2-24, S2-45)."""

from __future__ import annotations

import polars as pl

from slowwave.graph.communities import is_due
from storage.rows import quoted
from storage.snapshots import Reading

from .engine import task
from .events import REFRESH_DUE, announce
from .runs import Run, store_of
from .statements import CONVERSATION

EXTRACTION_COUNT = "extraction_count"  # as it was when communities were last said to be due
_EXTRACTED = f"graph_state IN ('done', 'skipped_durability') AND conversation_id != {quoted(CONVERSATION)}"


def extractions(reading: Reading) -> int:
    """How often a message reached the extractor, attempts that failed among them (S2-24).

    The messages themselves tell, so it is right after a kill, an undo and an undone undo.
    """
    failed = reading.frame("messages", "attempts > 0", ["attempts"])["attempts"].sum()
    return reading.count("messages", _EXTRACTED) + int(failed or 0)


@task("note whether communities are due")
def note_due(run: Run, interval: int) -> bool:
    """Say that communities are due where extractions went past a multiple of the interval since that was said (T17).

    Under Prefect as an event, upon which the deployment `communities` runs. How many there were is written down after
    it: a run that dies in between says it again, and one that died before leaves it to the next.
    """
    store = store_of(run)
    snapshot = store.snapshot()
    marks = snapshot.by_ids("metadata", [EXTRACTION_COUNT], ["number"])["number"].to_list()
    before, after = int(marks[0]) if marks else 0, extractions(snapshot)
    if not is_due(before, after, interval):
        return False
    announce(REFRESH_DUE, run, before=before, after=after, interval=interval)
    with store.commit(run.id, "communities.due", run.now) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": [EXTRACTION_COUNT], "number": [float(after)]}))
    return True
