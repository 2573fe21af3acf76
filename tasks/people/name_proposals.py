"""Name proposals: whom a name means that could mean several is put to a person (S2-05, §6.2).

For each whom "Anna" could mean there is a proposal to merge; a yes to one makes the others stale. What a person said
no to is not proposed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from slowwave.errors import Refused, UnusableInput
from slowwave.resolution.entity_resolution import UNCLEAR_NAME
from slowwave.resolution.mentions import kin_of
from slowwave.review.proposals import Proposing
from slowwave.settings import IngestSettings
from slowwave.validity import live_sql
from storage.snapshots import Reading
from tasks.entities.merges import plan_entity_merge, write_entity_merge
from tasks.entities.names import new_vector
from tasks.nightly.settling import withdraw_overtaken
from tasks.runtime.engine import task
from tasks.runtime.proposing import proposing, touched_by
from tasks.runtime.runs import Run, store_of

SAME = "entity_merge"
MOST = 20
"""Proposals of a run; what is left is proposed by the next one."""


@task("propose names")
def propose_names(run: Run, settings: IngestSettings) -> int:
    """Ask a person about each name that could mean several known entities. Returns how many proposals were made."""
    withdraw_overtaken(run, SAME)
    made = 0
    for loser, winner in _open(store_of(run).snapshot(), run):
        if made == MOST:
            break
        made += _propose(run, settings, loser, winner)
    return made


def _propose(run: Run, settings: IngestSettings, loser: str, winner: str) -> bool:
    """One commit that waits as a proposal; false where the two may not be merged, or are one by now."""
    beliefs = settings.beliefs if settings.beliefs.enabled else None
    try:
        plan = plan_entity_merge(run, store_of(run).snapshot(), loser, winner, False, beliefs)
    except (Refused, UnusableInput):
        return False
    if plan.rows is None:
        return False
    vector = new_vector(run, plan.rows.to_embed)
    what = Proposing(
        SAME,
        "all",
        together=True,
        title=f"Is {plan.merged.loser!r} the same as {plan.merged.winner!r}?",
        subject_id=winner,
        subject=plan.merged.winner,
        approval=settings.approval.model_copy(update={"low_risk": "person"}),
    )
    asking = proposing(run, what)
    with store_of(asking).commit(run.id, "name.propose", run.now) as tx:
        plan = plan_entity_merge(run, tx, loser, winner, False, beliefs)
        if plan.rows is not None:
            write_entity_merge(tx, plan.rows, plan.merged, vector)
    return True


def _open(reading: Reading, run: Run) -> Iterator[tuple[str, str]]:
    """(who goes, who stays) of each question that nobody was asked yet, where facts hang on the answer."""
    unclear = reading.frame("decisions", f"action = '{UNCLEAR_NAME}'", ["subject_id", "ids_out", "at", "id"])
    pairs = dict.fromkeys(
        (subject, other)
        for subject, others in unclear.sort("at", "id").select("subject_id", "ids_out").iter_rows()
        for other in others
        if other != subject
    )
    rows = reading.by_ids("entities", sorted({each for pair in pairs for each in pair}), where="merged_into IS NULL")
    names = dict(rows.select("id", "name").iter_rows())
    touched = touched_by(reading, SAME)
    for one, other in pairs:
        if one not in names or other not in names or any({one, other} <= ids for ids in touched):
            continue
        loser, winner = (other, one) if kin_of(names[other]) and not kin_of(names[one]) else (one, other)
        if len(reading.by_ids("facts", [loser], ["id"], key="owner_entity_id", where=live_sql(run.now))):
            yield loser, winner
