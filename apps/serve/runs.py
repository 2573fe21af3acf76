"""What runs changed, in sentences, and their undo, which first says what it would put back, or what prevents it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from recall.history import run_to_undo, story_of
from recall.overview import list_runs, run_record
from recall.proposals import texts_of
from slowwave.common.errors import UndoRefused
from slowwave.common.types.stories import ACTIONS, Decided, plain_reason
from storage.snapshots import Snapshot
from tasks.people.reporting import take_back

from .bodies import Values, flag, text
from .site import Site

RUNS = 30
"""Runs on the page, a night with its phases counts as one."""
NIGHT, MOST = "sleep", 50


def listed(site: Site, request: Request, values: Values) -> Response:
    """The last night, what each of its phases did, and all runs, the newest first."""
    runs = list_runs(site.snapshot, RUNS)
    night = next((n for n, run in enumerate(runs) if run["flow"] == NIGHT and not run["depth"]), None)
    parts = [] if night is None else runs[night : night + 1 + _parts_after(runs, night)]
    done = [(run, changes_of_run(site.snapshot, run["id"])) for run in parts[1:] if run["commits"]]
    undone = text(values, "undone")
    if undone and run_record(site.snapshot, undone)["state"] != "undone":
        undone = ""
    return site.page(
        request, "runs.html", runs=runs, night=parts[0] if parts else None, phases=done, undone=undone,
    )  # fmt: skip


def _parts_after(runs: list[dict[str, Any]], place: int) -> int:
    """How many of the runs that follow are parts of this one."""
    return next((n for n, run in enumerate(runs[place + 1 :]) if not run["depth"]), len(runs) - place - 1)


def one(site: Site, request: Request, values: Values) -> Response:
    """One run: what it did and decided, what it cost."""
    run = run_record(site.snapshot, request.path_params["id"])
    parts = [run_record(site.snapshot, part) for part in run["phases"]]
    done = [(part, changes_of_run(site.snapshot, part["id"], MOST)) for part in (run, *parts) if part["commits"]]
    return site.page(request, "run.html", run=run, done=done, parts=len(parts))


def way_back(site: Site, request: Request, values: Values) -> Response:
    """What undo would put back, and the button; or the runs that stand in its way."""
    with_later = values.get("cascade") == "yes"
    return _look(site, request, run_to_undo(site.snapshot, request.path_params["id"]), with_later)


def _look(site: Site, request: Request, run: str, with_later: bool, refused: UndoRefused | None = None) -> Response:
    """The page before an undo; `refused` is why one was not carried out."""
    try:
        report, blocked = take_back(site.place.run("undo"), run, cascade=with_later, dry_run=True), None
    except UndoRefused as error:
        report, blocked = None, error
    return site.page(
        request, "undo.html", 409 if refused else 200, run=run, report=report, blocked=blocked, with_later=with_later,
        refused=refused,
    )  # fmt: skip


def undo_now(site: Site, request: Request, values: Values) -> Response:
    """Take back the runs that the page showed, fields `run`, and show all runs; where others go with it, look again."""
    run, with_later = run_to_undo(site.snapshot, request.path_params["id"]), values.get("cascade") == "yes"
    try:
        own = site.place.run("undo")
        take_back(own, run, cascade=with_later, dry_run=False, only=values.getlist("run"))
    except UndoRefused as error:
        return _look(site, request, run, with_later, error)
    return RedirectResponse(f"/runs?undone={run}", 303)


def undo_as_json(site: Site, request: Request, values: Values) -> dict[str, Any]:
    """Take back a run, `cascade` with later ones, or with `dry_run` only count; as `undo --json` prints it."""
    is_dry, cascade = flag(values, "dry_run"), flag(values, "cascade")
    report = take_back(site.place.run("undo"), request.path_params["id"], cascade=cascade, dry_run=is_dry)
    return {**asdict(report), "dry_run": is_dry}


def list_as_json(site: Site, request: Request, values: Values) -> Mapping[str, Any]:
    """As `runs --json` prints it."""
    return {"runs": list_runs(site.snapshot, RUNS)}


def one_as_json(site: Site, request: Request, values: Values) -> Mapping[str, Any]:
    """As `runs RUN --json` prints it."""
    return run_record(site.snapshot, request.path_params["id"])


WORDS: Mapping[str, str] = {
    **ACTIONS, "archive": "Archived", "prune": "Archived", "merge_entity": "Joined", "gather": "Grouped",
    "move": "Filed elsewhere", "delete": "Deleted", "pin": "Pinned", "undo": "Taken back",
}  # fmt: skip
_BESIDE = {"supersede": "now", "absorb": "also stands for", "contradict": "against", "dispute": "against"}
"""Decisions that are told with the other row, and what stands between the two."""
_MANY = ("create", "reassert", "repeat")
"""Decisions that differ in their reasons only, which are of no interest in a list."""


@dataclass(frozen=True, slots=True)
class RunChange:
    """Decisions of one kind: what was done, to which rows (id, words), how many rows, and why."""

    what: str
    rows: tuple[tuple[str, str], ...]
    count: int
    reason: str

    @property
    def is_short(self) -> bool:
        """Whether the rows are names, not sentences."""
        return all(len(words) <= 40 for _, words in self.rows)


def changes_of_run(snapshot: Snapshot, run: str, most: int = 12) -> list[RunChange]:
    """The changes of a run, those that only add last; of each kind at most so many rows are named."""
    decisions = story_of(snapshot, run).decisions
    words = texts_of(snapshot, {row for each in decisions for row in (each.about, *each.beside)})
    kinds: dict[tuple[bool, str, str], list[Decided]] = {}
    for each in decisions:
        is_routine = each.action in _MANY
        reason = "" if is_routine else plain_reason(each.reason, words)
        what = WORDS.get(each.action, each.action.replace("_", " ").capitalize())
        kinds.setdefault((is_routine, what, reason), []).append(each)
    return [
        RunChange(what, tuple(_row(each, words) for each in alike[:most] if each.about in words), len(alike), reason)
        for (_, what, reason), alike in sorted(kinds.items(), key=lambda kind: kind[0][0])
    ]


def _row(each: Decided, words: Mapping[str, str]) -> tuple[str, str]:
    others = [f"“{words[row]}”" for row in each.beside if row != each.about and row in words]
    between = _BESIDE.get(each.action)
    if not (between and others):
        return each.about, words[each.about]
    return each.about, f"“{words[each.about]}” – {between}: {', '.join(others)}"
