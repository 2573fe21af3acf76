"""A campaign: for each scene a run without a fault, then as many deaths as asked for, chosen by a seed."""

from __future__ import annotations

import pickle
import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from signal import SIGKILL
from typing import Any

from . import trial
from .living_reader import LivingReader
from .model import Model
from .scenes import SCENES
from .steps import MOMENTS, Point, Step
from .trial import Reference, Verdict

LATEST = 0.9  # of the time a step took: the latest "during" it
UNREAD = 255
"""What multiprocessing gives where the fork server could not tell how a child ended (`popen_forkserver.poll`)."""
DONE = 0
"""It was done in fewer steps than the run without a fault: answers of a model that come together are kept together."""
PARALLEL = 2


@dataclass(frozen=True, slots=True)
class Death:
    """One point of one scene and what came of it.

    `asked_again` counts questions that were paid for twice, `in_flight` those whose answer the dead run had in hand
    but not yet in its ledger, which is the most that may be asked again.
    """

    scene: str
    step: str
    point: Point
    wrong: tuple[str, ...]
    is_published: bool
    asked_again: int
    in_flight: int


class Campaign:
    """Runs scenes in processes that are forked from one that has loaded everything and used nothing.

    LanceDB cannot be forked once it was used, and loading it costs ten times what most deaths take.
    """

    def __init__(self, place: Path, model: Model, seed: int = 0) -> None:
        self._place, self._model, self._seed = place, model, seed
        self._processes = get_context("forkserver")
        self._processes.set_forkserver_preload([f"{__package__}.loaded"])
        place.mkdir(parents=True, exist_ok=True)

    def steps(self, name: str) -> Sequence[Step]:
        """The steps of a scene that runs to its end; raises if that run left anything wrong."""
        place = self._fresh(name, "whole")
        self._life(trial.run_whole, name, place, self._address(name, "whole"), self._reference(name))
        reference: Reference = pickle.loads(self._reference(name).read_bytes())
        shutil.rmtree(place)
        if reference.unseen:
            raise AssertionError(f"{name} without a fault: {'; '.join(reference.unseen)}")
        return reference.steps

    def points(self, name: str, steps: Sequence[Step], most: int) -> list[Point]:
        """At most so many points, every kind of step among them, the same for the same seed."""
        chance = random.Random(f"{self._seed} {name}")
        every = [Point(n, moment) for n in range(len(steps)) for moment in MOMENTS]
        chosen = every if len(every) <= most else chance.sample(every, most)
        return sorted((self._timed(point, steps, chance) for point in chosen), key=lambda p: (p.step, p.moment))

    def _timed(self, point: Point, steps: Sequence[Step], chance: random.Random) -> Point:
        if point.moment != "during":
            return point
        return Point(point.step, "during", chance.uniform(0.0, LATEST) * steps[point.step].seconds)

    def deaths(self, name: str, steps: Sequence[Step], points: Iterable[Point]) -> Iterator[Death]:
        """Let the scene die at each point, and look."""
        with ThreadPoolExecutor(PARALLEL) as pool:
            yield from pool.map(lambda point: self._death(name, steps[point.step].what, point), points)

    def _death(self, name: str, step: str, point: Point, *, again: bool = False) -> Death:
        who = f"{point.step}-{point.moment}{'-again' if again else ''}"
        place, address = self._fresh(name, who), self._address(name, who)
        reader = LivingReader(place)
        code = self._lived(trial.run_and_die, name, place, address, point)
        if code in (UNREAD, DONE) and not again:
            return self._death(name, step, point, again=True)
        seen = reader.differences()
        asked = self._model.asked(self._who(name, who))
        result = place.with_suffix(".verdict")
        self._life(trial.look_and_run_again, name, place, address, self._reference(name), result)
        verdict: Verdict = pickle.loads(result.read_bytes())
        wrong = [
            *verdict.wrong,
            *seen,
            *reader.differences(),
            *([] if code == -SIGKILL else [f"it did not die but ended with {code}"]),
        ]
        reader.close()
        twice, in_flight = self._paid_twice(name, who, len(asked), verdict.answers_kept)
        if twice > in_flight:
            wrong.append(f"{twice} questions were paid for twice, {in_flight} were in flight")
        if not wrong:
            shutil.rmtree(place)
        return Death(name, step, point, tuple(wrong), verdict.is_published, twice, in_flight)

    def _paid_twice(self, name: str, who: str, asked_before: int, answers_kept: int) -> tuple[int, int]:
        """How many questions more than in a run without a fault, and how many answers the dead run had not kept."""
        once = len(self._model.asked(self._who(name, "whole")))
        return len(self._model.asked(self._who(name, who))) - once, max(0, asked_before - answers_kept)

    def _fresh(self, name: str, who: str) -> Path:
        """A copy of the store that the scene begins with."""
        before = SCENES[name].before.__name__
        made = self._place / f"before-{before}"
        if not made.exists() and before != "nothing":
            self._life(trial.prepare, before, made)
        place = self._place / self._who(name, who)
        if made.exists():
            shutil.copytree(made, place)
        return place

    def _life(self, work: Callable[..., None], *args: Any) -> None:
        if code := self._lived(work, *args):
            raise AssertionError(f"{work.__name__}{args[:2]} ended with {code}")

    def _lived(self, work: Callable[..., None], *args: Any) -> int | None:
        """How a process of its own ended that did this work; -9 if it was killed."""
        process = self._processes.Process(target=work, args=args)
        process.start()
        process.join()
        return process.exitcode

    def _who(self, name: str, who: str) -> str:
        return f"{name.replace(' ', '-')}-{who}"

    def _address(self, name: str, who: str) -> str:
        return self._model.address(self._who(name, who))

    def _reference(self, name: str) -> Path:
        return self._place / f"{self._who(name, 'whole')}.reference"


@dataclass(frozen=True, slots=True)
class Outcome:
    """All deaths of one scene."""

    scene: str
    steps: int
    deaths: tuple[Death, ...]
    seconds: float

    @property
    def failed(self) -> tuple[Death, ...]:
        """Those after which something was wrong."""
        return tuple(death for death in self.deaths if death.wrong)


def run_scene(campaign: Campaign, name: str, most: int) -> Outcome:
    """Let one scene die at so many points at most."""
    start = time.perf_counter()
    steps = campaign.steps(name)
    deaths = tuple(campaign.deaths(name, steps, campaign.points(name, steps, most)))
    return Outcome(name, len(steps), deaths, time.perf_counter() - start)
