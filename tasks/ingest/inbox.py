"""The inbox: files that arrived in a folder, which of them can be read, and where they go afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from slowwave.common.errors import NothingYet, SlowwaveError, UnusableInput
from slowwave.reading.ingestion.formats import DOCUMENT_SUFFIXES, JSON_SUFFIXES
from slowwave.reading.ingestion.parsers import DOCUMENTS
from storage.connection import check_namespace, namespaces
from storage.store import Store
from tasks.runtime.engine import task

from .sources import find_sources, walk

DONE, FAILED = "done", "failed"
PARTIAL = frozenset({".part", ".partial", ".tmp", ".crdownload", ".download", ".swp"})
LOOK_READABLE = (DOCUMENT_SUFFIXES | JSON_SUFFIXES) - {""}
"""How the names of conversations and documents end; what has another name in a folder of others is passed over."""
FileOutcome = Literal["waiting", "new", "known", "unusable", "passed over", "failed"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One file of the inbox: where it goes, how it looked when it was seen, and what can be done with it."""

    path: Path
    namespace: str
    mark: tuple[int, int]  # size, time of its last change in ns
    outcome: FileOutcome = "new"
    reason: str = ""
    content_hash: str = ""


@dataclass(slots=True)
class Rounds:
    """What became of the files of one look into the inbox."""

    arrivals: tuple[Arrival, ...]
    runs: list[str] = field(default_factory=list)
    issues: list[str] = field(default_factory=list)  # what runs could not take as it was, place by place
    stopped_by: str = ""
    has_rest: bool = False  # messages that wait: the next run of their namespace goes on with them

    def ran(self, summary: Mapping[str, Any]) -> None:
        """A run that read files."""
        self.runs += [summary["run"]] if summary["run"] else []
        self.issues += summary.get("issues", ())
        self.has_rest = self.has_rest or summary["state"] in ("incomplete", "stopped")
        self.stopped_by = self.stopped_by or summary.get("stopped_by") or ""

    def failed(self, arrivals: Sequence[Arrival], error: Exception, about: object) -> None:
        """Files that could not be read; an earlier error of a file stays."""
        reason = str(error) if str(about) in str(error) else f"{about}: {error}"
        paths = {each.path for each in arrivals}
        self.arrivals = tuple(
            replace(each, outcome="failed", reason=reason) if each.path in paths and each.outcome != "failed" else each
            for each in self.arrivals
        )

    @property
    def errors(self) -> list[str]:
        """Why files could not be read."""
        return [each.reason for each in self.arrivals if each.outcome == "failed"]

    def count(self, outcome: FileOutcome) -> int:
        """How many files have it."""
        return sum(each.outcome == outcome for each in self.arrivals)

    def summary(self) -> dict[str, Any]:
        """All of it as plain data."""
        is_incomplete = self.has_rest or self.count("unusable")
        counted: tuple[FileOutcome, ...] = ("known", "unusable", "waiting", "passed over")
        return {
            "state": "failed" if self.errors else "stopped" if self.stopped_by
            else "incomplete" if is_incomplete else "completed",
            "stopped_by": self.stopped_by,
            "read": self.count("new"),
            **{outcome: self.count(outcome) for outcome in counted},
            "runs": self.runs,
            "issues": self.issues,
            "files": [
                {
                    "file": str(each.path),
                    "namespace": each.namespace,
                    "outcome": "read" if each.outcome == "new" else each.outcome,
                    "reason": each.reason,
                }
                for each in self.arrivals
                if each.outcome != "waiting"
            ],
        }  # fmt: skip


def check_folder(folder: str) -> Path:
    """The inbox; raises `NothingYet` where there is no such folder."""
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise NothingYet(f"There is no folder {folder!r}.", "Make it, and put files there.")
    return root


def listed(folder: str, namespace: str, *, by_folder: bool) -> tuple[Arrival, ...]:
    """The files of the inbox, in order.

    Hidden files, those that something still downloads into, and links are passed over: a link would bring in what
    lies outside. With `by_folder` a folder at the top is the namespace of all below it.
    """
    root = check_folder(folder)
    return tuple(_arrival(path, _namespace(path.relative_to(root), namespace, by_folder)) for path in _files(root))


def _files(root: Path) -> Iterator[Path]:
    for path in walk(root):
        place = path.relative_to(root).parts
        is_ended = len(place) > 1 and place[0] in (DONE, FAILED)
        is_partial = path.name.startswith("~") or path.suffix.lower() in PARTIAL
        if not (is_ended or is_partial or path.is_symlink()):
            yield path


def _namespace(path: Path, namespace: str, by_folder: bool) -> str:
    return path.parts[0] if by_folder and len(path.parts) > 1 else namespace


def _arrival(path: Path, namespace: str) -> Arrival:
    status = path.stat()
    arrival = Arrival(path, namespace, (status.st_size, status.st_ctime_ns))
    try:
        check_namespace(namespace)
    except UnusableInput as error:
        return replace(arrival, outcome="unusable", reason=str(error))
    return arrival


@task("look into the inbox", about="{folder}")
def look_into(
    folder: str, store: str, namespace: str, now: datetime, settle_s: float, *, by_folder: bool, is_ours: bool
) -> tuple[Arrival, ...]:
    """What arrived and did not change for `settle_s` seconds before now, and whether it can be read and is new.

    In a folder that is not ours only what looks like a conversation or document is read, the rest passed over; in ours,
    all text is read.
    """
    border = (now.timestamp() - settle_s) * 1e9
    found = [
        _looked_at(each, is_ours) if each.mark[1] <= border else replace(each, outcome="waiting")
        for each in listed(folder, namespace, by_folder=by_folder)
    ]
    return tuple(_with_known(store, found))


def _looked_at(arrival: Arrival, is_ours: bool) -> Arrival:
    """Whether it can be read, by its first bytes, and its hash."""
    if arrival.outcome == "unusable":
        return arrival
    try:
        (source,) = find_sources([arrival.path])[0]
    except UnusableInput as error:
        is_meant = is_ours or arrival.path.suffix.lower() in LOOK_READABLE
        return replace(arrival, outcome="unusable" if is_meant else "passed over", reason=str(error))
    if not is_ours and source.format in DOCUMENTS and arrival.path.suffix.lower() not in DOCUMENT_SUFFIXES:
        return replace(arrival, outcome="passed over", reason="It does not look like a document.")
    return replace(arrival, content_hash=source.content_hash)


def _with_known(store: str, arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Those whose very bytes were read before are known: no run is begun for them.

    Where a namespace cannot be read all stay new: the run that is begun for them says what is wrong.
    """
    new = [each for each in arrivals if each.outcome == "new"]
    there = namespaces(store) if new else []
    known = set[tuple[str, str]]()
    for name in {each.namespace for each in new} & {*there}:
        hashes = sorted({each.content_hash for each in new if each.namespace == name})
        with suppress(SlowwaveError):
            read = Store.open(store, name).snapshot().by_ids(
                "sources", hashes, ["content_hash"], key="content_hash", where="state = 'completed'"
            )  # fmt: skip
            known |= {(name, hash_) for hash_ in read["content_hash"]}
    return [
        replace(each, outcome="known") if each.outcome == "new" and (each.namespace, each.content_hash) in known
        else each
        for each in arrivals
    ]  # fmt: skip


def by_namespace(arrivals: Sequence[Arrival]) -> Mapping[str, Sequence[Arrival]]:
    """The new ones, parted by where they go."""
    parts = defaultdict[str, list[Arrival]](list)
    for each in arrivals:
        if each.outcome == "new":
            parts[each.namespace].append(each)
    return parts


def put_away(folder: str, arrival: Arrival, reason: str = "") -> Path | None:
    """Move the file to `done`, or to `failed` with the reason beside it; None where it has changed since it was seen.

    What is there under its name stays: another file gets the beginning of its hash into its name.
    """
    root = Path(folder).expanduser()
    status = arrival.path.stat() if arrival.path.is_file() else None
    if status is None or (status.st_size, status.st_ctime_ns) != arrival.mark:
        return None
    target = root / (FAILED if reason else DONE) / arrival.path.relative_to(root)
    if target.exists():
        sign = arrival.content_hash[:8] or f"{arrival.mark[1]:x}"
        target = target.with_name(f"{target.stem}.{sign}{target.suffix}")
    target.parent.mkdir(parents=True, exist_ok=True)
    arrival.path.replace(target)
    if reason:
        target.with_name(f"{target.name}.reason.txt").write_text(f"{reason}\n", encoding="utf-8")
    return target
