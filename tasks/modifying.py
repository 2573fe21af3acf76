"""Modifying: the same proposal with a changed ask, planned again from what memory holds now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recall.proposals import Proposal, proposal_named
from slowwave.errors import UnusableInput

from .runs import Run, store_of


def propose_anew(run: Run, old: Proposal, ask: Mapping[str, Any]) -> Proposal:
    """A proposal of the same action with another ask; `UnusableInput` for one that cannot be modified."""
    makers = {"split": _split, "delete": _delete}
    if old.action not in makers:
        raise UnusableInput(
            f"A proposal to {old.action} can only be approved or rejected.", "Only split and delete can be modified."
        )
    return makers[old.action](run, old, ask)


def _split(run: Run, old: Proposal, ask: Mapping[str, Any]) -> Proposal:
    from slowwave.settings import SplitSettings
    from slowwave.splitting.split_plan import splits_of

    from .splitting import propose_split

    made = propose_split(run, old.subject_id, SplitSettings(), splits_of(ask), proposed_by="person")
    return proposal_named(store_of(run).snapshot(), made.proposal_id)


def _delete(run: Run, old: Proposal, ask: Mapping[str, Any]) -> Proposal:
    from .observations import propose_deletion

    chosen = ask.get("observations")
    if not isinstance(chosen, list) or not all(isinstance(each, str) for each in chosen):
        raise UnusableInput("There is no list of observations.", 'Give {"observations": ["f_…", …]}.')
    return propose_deletion(run, old.subject_id, chosen, proposed_by="person")
