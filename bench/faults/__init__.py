"""Every flow is killed at its durable steps, as by `kill -9`, and run again: nothing is lost or paid for twice."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..figures import Figure, Options
from .campaign import Campaign, Outcome, run_scene
from .model import Model
from .scenes import ALL

SEED = 7
POINTS, QUICK = 16, 2  # for each scene
LEAST = 200
MEMORY = Path("/dev/shm")  # a store is hundreds of small files


def run(options: Options) -> Iterable[Figure]:
    """Deaths of each flow, and what was wrong after them."""
    root = tempfile.mkdtemp(prefix="slowwave-faults-", dir=MEMORY if os.access(MEMORY, os.W_OK) else options.place)
    try:
        with Model() as model:
            campaign = Campaign(Path(root), model, SEED)
            outcomes = [run_scene(campaign, scene.name, QUICK if options.is_quick else POINTS) for scene in ALL]
    finally:
        shutil.rmtree(root, ignore_errors=True)
    yield from _told(outcomes, options.is_quick)


def _told(outcomes: list[Outcome], is_quick: bool) -> Iterator[Figure]:
    for each in outcomes:
        wrong = "; ".join(f"{death.step} {death.point.moment}: {death.wrong[0]}" for death in each.failed[:3])
        note = f"{each.steps} durable steps, {each.seconds:.0f} s{'; ' if wrong else ''}{wrong}"
        name = f"{each.scene}: as without a fault"
        yield Figure("faults", name, len(each.deaths) - len(each.failed), "deaths", len(each.deaths), note=note)
    deaths = [death for each in outcomes for death in each.deaths]
    yield Figure("faults", "deaths", len(deaths), bar=None if is_quick else LEAST)
    yield Figure("faults", "of them after something was published", sum(death.is_published for death in deaths))
    again, flying = sum(d.asked_again for d in deaths), sum(d.in_flight for d in deaths)
    yield Figure("faults", "questions paid twice", again, bar=flying, better="lower", note=f"{flying} were in flight")
