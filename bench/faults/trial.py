"""Trials: a run without a fault, a run that dies at a point, and the look at what is left, before and after another.

Each function is the whole life of a process of its own.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slowwave.common.errors import Refused, UnusableInput
from storage.disk import newest_on_disk
from storage.doctor import examine, repair
from storage.lease import is_surely_dead
from storage.store import Store
from tasks.entities.derived import refresh_profiles
from tasks.runtime.runs import existing_run, new_run

from .model import KEY
from .scenes import BEFORES, LATER, SCENES, Scene
from .states import Frames, Known, State, contents, differences, digests, known_facts, logs, opened
from .steps import Point, Step, Steps


@dataclass(frozen=True, slots=True)
class Reference:
    """A run without a fault: its steps, the states it published, what was there before and what in the end."""

    steps: list[Step]
    states: list[State]
    facts_before: set[str]
    final: Frames
    logged: Frames
    unseen: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong after a death and a second run; `is_published` says that the dead run had published something."""

    wrong: list[str]
    is_published: bool
    answers_kept: int


def prepare(name: str, place: Path) -> None:
    """The store that scenes begin with."""
    _quiet("")
    BEFORES[name](place)


def run_whole(name: str, place: Path, address: str, result: Path) -> None:
    """Run a scene to its end; the result is a `Reference`."""
    scene = _begin(name, address)
    seen = _Seen(place)
    steps = Steps(after=seen.after)
    steps.watch()
    scene.work(place)
    done = list(steps.done)
    wrong = [*seen.unseen, *_found_wrong(scene, place)]
    store = _settled(place)
    result.write_bytes(
        pickle.dumps(Reference(done, seen.states, seen.facts_before, contents(store), logs(store), wrong))
    )


def run_and_die(name: str, place: Path, address: str, point: Point) -> None:
    """Run a scene until it dies."""
    scene = _begin(name, address)
    Steps(dies_at=point).watch()
    scene.work(place)


def look_and_run_again(name: str, place: Path, address: str, reference: Path, result: Path) -> None:
    """What a reader finds after the death, then the same work again, and whether all is as it should be."""
    scene = _begin(name, address)
    expected: Reference = pickle.loads(reference.read_bytes())
    left = opened(place)
    read: Known = {}
    found, sequence = digests(contents(left, read)), left.head.sequence if left else -1
    answers = len(left.log("llm_calls", columns=["id"])) if left else 0
    wrong = _unreachable(scene, expected, left, found)
    try:
        scene.work(place)
    except (Refused, UnusableInput):
        pass  # there was nothing left to do: whether that is so is seen below
    except Exception as error:
        logging.getLogger("faults").exception("The second run failed.")
        wrong.append(f"the second run failed: {type(error).__name__}: {error}")
    if left and left.head.sequence == sequence:  # it wrote nothing, so the next commit clears up
        repair(left, new_run("doctor", str(place), "default", "").id, LATER)
    wrong += _found_wrong(scene, place)
    again = _settled(place)
    wrong += differences({**expected.final, **expected.logged}, {**contents(again, read), **logs(again)})
    result.write_bytes(pickle.dumps(Verdict(wrong, found != expected.states[0], answers)))


def _begin(name: str, address: str) -> Scene:
    _quiet(address)
    return SCENES[name]


def _quiet(address: str) -> None:
    """No key but that of the model on loopback, and no warnings."""
    import warnings

    warnings.simplefilter("ignore")
    os.environ.update(ANTHROPIC_BASE_URL=address, ANTHROPIC_API_KEY=KEY)
    logging.getLogger("slowwave").setLevel(logging.ERROR)


class _Seen:
    """The states that a run publishes, and a watch over tables that move without a step having been seen."""

    def __init__(self, place: Path) -> None:
        self._place = place
        store = opened(place)
        self._read: Known = {}
        self.states: list[State] = [digests(contents(store, self._read))]
        self.facts_before, self.unseen = known_facts(store), list[str]()
        self._sequence = store.head.sequence if store else -1

    def after(self, step: Step) -> None:
        """Look at the newest state if it is another one."""
        store = opened(self._place)
        if store and store.head.sequence != self._sequence:
            self._sequence = store.head.sequence
            self.states.append(digests(contents(store, self._read)))


def _unreachable(scene: Scene, expected: Reference, left: Store | None, found: State) -> list[str]:
    """Facts that a reader cannot find, and a state that is neither the one before nor one that the run published."""
    wrong = []
    if found not in expected.states:
        near = min(expected.states, key=lambda state: len(_apart(state, found)))
        wrong.append(f"after the death a reader saw half a commit: {', '.join(_apart(near, found))}")
    lost = expected.facts_before - known_facts(left)
    if lost and not scene.erases:
        wrong.append(f"after the death {len(lost)} facts could not be found")
    return wrong


def _apart(one: State, other: State) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _found_wrong(scene: Scene, place: Path) -> list[str]:
    """What the doctor finds, keys that occur twice, leases that are still held, and what the scene itself looks at."""
    store = opened(place)
    if store is None:
        return ["there is no store"]
    wrong = [f"doctor: {finding.check} in {finding.table}: {finding.detail}" for finding in examine(store)]
    wrong += [f"{name} holds a key twice" for name in _with_twins(store)]
    wrong += ["the lease is still held"] if not store.head.is_free() else []
    running = store.snapshot().frame("runs", "state = 'running'", ["id", "owner"])
    wrong += [f"run {name} is said to be going on" for name, owner in running.iter_rows() if not is_surely_dead(owner)]
    return wrong + scene.check(place)


def _settled(place: Path) -> Store | None:
    """The store once profiles are as the night leaves them: they follow from the facts, and are renewed after them."""
    refresh_profiles(existing_run("settle", str(place), "default", LATER))
    return opened(place)


def _with_twins(store: Store) -> list[str]:
    snapshot = store.snapshot()
    return [name for name in store.head.versions if snapshot.frame(name, columns=["id"])["id"].is_duplicated().any()]


def versions(place: Path) -> Mapping[str, int | None]:
    """The newest version of each table on disk."""
    store = opened(place)
    return {name: newest_on_disk(str(store.db.uri), name) for name in store.head.versions} if store else {}
