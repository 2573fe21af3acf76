"""Executing a split: a person says yes to the one that waits, or brings a plan and says yes to that (S0-14, T49)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recall.entities import exact_row
from recall.proposals import Proposal, list_proposals, proposal_named
from slowwave.errors import Refused, UnusableInput
from slowwave.review.proposing import Person
from slowwave.settings import SplitSettings
from slowwave.splitting.split_plan import WAY_OUT, Split, plan_hash, splits_of
from storage.rows import quoted
from storage.snapshots import Reading

from .own_runs import as_run, existing_store
from .review import OPEN, approve
from .runs import Run, store_of
from .splitting import SplitDone, observed_sql, plan_of, propose_split

Plan = Mapping[str, Any] | Sequence[Any]
"""What `splits_of` understands, perhaps with the `plan_hash` that it was made for."""
_LIST = "`slowwave review list --action split` shows what waits."


def preview(run: Run, name: str, *, proposal: str | None = None, plan: Plan | None = None) -> SplitDone:
    """What `execute` would do with the same arguments; raises where it cannot be done. Nothing is written."""
    snapshot = existing_store(run).snapshot()
    parent = exact_row(snapshot, name)
    asked = waiting_split(snapshot, parent, proposal).ask if plan is None else plan
    return plan_of(run, snapshot, parent["id"], splits_ofplan_of(run, snapshot, parent, asked)).done


def execute(
    run: Run,
    name: str,
    person: Person,
    settings: SplitSettings,
    *,
    proposal: str | None = None,
    plan: Plan | None = None,
) -> SplitDone:
    """Carry out the split of an entity that waits, or that a person brings as a plan, as a run of its own.

    Who executes says yes by it. `plan` is what `splits_of` understands, perhaps with the `plan_hash` that it was made
    for. Raises as `split_entity`, and `Refused` where nothing waits or where what waits has grown stale (T49).
    """
    snapshot = existing_store(run).snapshot()
    parent = exact_row(snapshot, name)
    if plan is None:
        waiting = waiting_split(snapshot, parent, proposal)
        told = {"entity": name, "proposal": waiting.id}
        return as_run(run, told, lambda: _carry_out(run, waiting.id, person), _counts)
    splits = splits_ofplan_of(run, snapshot, parent, plan)

    def work() -> SplitDone:
        made = propose_split(run, parent["id"], settings, splits, proposed_by="person")
        return _carry_out(run, made.proposal_id, person)

    return as_run(run, {"entity": name, "splits": [each.name for each in splits]}, work, _counts)


def waiting_split(reading: Reading, parent: Mapping[str, Any], asked: str | None = None) -> Proposal:
    """The split of an entity that waits, or was approved for later; of several the one whose id is `asked` for."""
    if asked is not None:
        found = proposal_named(reading, asked)
        if found.action != "split" or found.subject_id != parent["id"]:
            raise UnusableInput(f"{found.id} is not a split of {parent['name']!r}: {found.title}.", _LIST)
        return found
    open_ones = [each for state in OPEN for each in list_proposals(reading, state, action="split", entity=parent["id"])]
    if len(open_ones) > 1:
        told = "; ".join(f"{each.id}: {each.title}" for each in open_ones)
        raise UnusableInput(f"Several splits of {parent['name']!r} wait: {told}.", "Say which with --proposal ID.")
    if not open_ones:
        raise Refused(
            f"No split of {parent['name']!r} waits for a person.",
            f"`slowwave split propose {parent['id']}` makes one; or bring your own with --plan FILE.json.",
        )
    return open_ones[0]


def splits_ofplan_of(run: Run, reading: Reading, parent: Mapping[str, Any], plan: Plan) -> tuple[Split, ...]:
    """The splits of a plan that can be carried out; `Refused` where it was made for something else (S0-13, T49)."""
    splits = splits_of(plan)
    whole = plan if isinstance(plan, Mapping) else {}
    inner = whole["proposal"] if isinstance(whole.get("proposal"), Mapping) else whole
    ids = reading.by_ids("facts", [parent["id"]], ["id"], key="owner_entity_id", where=observed_sql(run))["id"]
    if inner.get("plan_hash") not in (None, plan_hash(parent, ids)):
        raise Refused(
            f"Nothing was split: something else is known of {parent['name']!r} since the plan was made.", WAY_OUT
        )
    return plan_of(run, reading, parent["id"], splits).splits


def _carry_out(run: Run, proposal_id: str, person: Person) -> SplitDone:
    decided = approve(run, [proposal_id], person)[0]
    if decided.state != "applied":
        raise Refused(f"Nothing was split. {decided.outcome}", WAY_OUT)
    reading = store_of(run).snapshot()
    return split_done(reading, run, proposal_named(reading, decided.id))


def split_done(reading: Reading, run: Run, proposal: Proposal) -> SplitDone:
    """What a split that was carried out has come to."""
    new = [each for each in proposal.changes if each.table == "entities" and each.is_new]
    parts = tuple((each.id, str((each.after or {})["name"])) for each in new)
    moved = sum(len(each.observations) for each in splits_of(proposal.ask))
    left = reading.count("facts", f"owner_entity_id = {quoted(proposal.subject_id)} AND {observed_sql(run)}")
    return SplitDone(proposal.subject, proposal.subject_id, parts, moved, left)


def _counts(done: SplitDone) -> dict[str, int]:
    return {"new entities": len(done.new_entities), "observations moved": done.moved_observations}
