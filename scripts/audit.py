"""Looks up every pinned package in the public list of known vulnerabilities; run by `make audit`, and in CI.

What is found fails the audit, unless `.ci/audit-allowed.toml` says why it does no harm here, and until when. Where the
list cannot be reached nothing was looked up, which is said and does not fail: a machine without a network can still
test a change. `--strict` fails there too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK, ALLOWED = ROOT / "requirements-dev.lock", ROOT / ".ci" / "audit-allowed.toml"
TIMEOUT_S = 20  # for one answer of the list
LONGEST_S = 600  # for all of them
_LONGEST_GRACE_DAYS = 366
_UNREACHABLE = (
    "connectionerror", "connection error", "connecttimeout", "readtimeout", "timed out", "max retries exceeded",
    "name resolution", "network is unreachable", "proxyerror", "service unavailable", "failed to connect",
)  # fmt: skip


class UnusableList(ValueError):
    """The list of allowed findings cannot be read."""


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """A known weakness of a pinned package, under all names that it goes by."""

    package: str
    version: str
    names: frozenset[str]
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        way_out = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "not fixed yet"
        return f"{self.package} {self.version}: {', '.join(sorted(self.names))} ({way_out})"


@dataclass(frozen=True, slots=True)
class Allowed:
    """A weakness that does no harm here, for a reason, up to and with a day."""

    id: str
    package: str
    reason: str
    until: date


@dataclass(frozen=True, slots=True)
class Judged:
    """The findings that fail the audit, the allowed ones, and permissions that are no longer needed."""

    wrong: tuple[Vulnerability, ...]
    allowed: tuple[Vulnerability, ...]
    idle: tuple[Allowed, ...]


def read_allowed(text: str, today: date) -> tuple[Allowed, ...]:
    """The permissions of a file; raises `UnusableList` for one without id, package, reason or an end within a year."""
    rows = tomllib.loads(text).get("allowed", [])
    found = []
    for row in rows:
        if set(row) != {"id", "package", "reason", "until"} or not str(row["reason"]).strip():
            raise UnusableList(f"{row}: each [[allowed]] has an id, a package, a reason and until.")
        if not isinstance(row["until"], date) or (row["until"] - today).days > _LONGEST_GRACE_DAYS:
            raise UnusableList(f"{row['id']}: until is a day within a year, such as {today.isoformat()}.")
        found.append(Allowed(row["id"], row["package"], row["reason"], row["until"]))
    return tuple(found)


def read_found(report: str) -> tuple[Vulnerability, ...]:
    """The findings of pip-audit, from its JSON."""
    packages: Sequence[dict[str, Any]] = json.loads(report)["dependencies"]
    return tuple(
        Vulnerability(
            each["name"], each["version"], frozenset({one["id"], *one.get("aliases", [])}),
            tuple(one.get("fix_versions", [])),
        )
        for each in packages
        for one in each.get("vulns", [])
    )  # fmt: skip


def read_skipped(report: str) -> tuple[list[str], int]:
    """The packages that the list does not know at all, and how many it was asked about: a mirror may know none."""
    packages: Sequence[dict[str, Any]] = json.loads(report)["dependencies"]
    return [each["name"] for each in packages if "skip_reason" in each], len(packages)


def judge(found: Iterable[Vulnerability], allowed: Iterable[Allowed], today: date) -> Judged:
    """A permission counts for its package and only until its day."""
    known, permits = tuple(found), tuple(allowed)
    valid = [each for each in permits if each.until >= today]

    def permit(one: Vulnerability) -> bool:
        return any(each.id in one.names and each.package == one.package for each in valid)

    idle = tuple(p for p in permits if not any(p.id in v.names and p.package == v.package for v in known))
    return Judged(
        tuple(one for one in known if not permit(one)), tuple(one for one in known if permit(one)), idle
    )  # fmt: skip


def is_unreachable(errors: str) -> bool:
    """Whether the errors of pip-audit mean that its server did not answer."""
    text = errors.lower()
    return any(words in text for words in _UNREACHABLE)


def _audit() -> tuple[str, str]:
    """Output and errors of pip-audit; every pin is looked up as it stands, nothing is installed."""
    command = [sys.executable, "-m", "pip_audit", "-r", str(LOCK), "--disable-pip", "--no-deps", "-f", "json",
               "--progress-spinner", "off", "--timeout", str(TIMEOUT_S)]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return "", "timed out"
    return done.stdout, done.stderr


def main(arguments: Sequence[str] | None = None) -> int:
    """0: nothing that fails; 1: a weakness, or a list that cannot be read; 2: nothing was looked up, with --strict."""
    parser = argparse.ArgumentParser(description="Look up the pinned packages in the list of known vulnerabilities.")
    parser.add_argument("--strict", action="store_true", help="fail where the list cannot be reached")
    is_strict: bool = parser.parse_args(arguments).strict
    today = datetime.now(UTC).date()
    try:
        allowed = read_allowed(ALLOWED.read_text(encoding="utf-8"), today)
    except (UnusableList, tomllib.TOMLDecodeError) as error:
        print(f"{ALLOWED.name} cannot be used: {error}")
        return 1
    report, errors = _audit()
    if not report.strip():
        return _unanswered(errors, is_strict)
    skipped, count = read_skipped(report)
    if skipped and len(skipped) == count:
        return _unaudited(f"it knows none of the {count} packages", is_strict)
    if skipped:
        print(f"not looked up, the list does not know them: {', '.join(skipped)}")
    return _print_judged(judge(read_found(report), allowed, today)) or (2 if skipped and is_strict else 0)


def _unanswered(errors: str, is_strict: bool) -> int:
    last = errors.strip().splitlines()[-1:] or ["it said nothing"]
    if not is_unreachable(errors):
        print(f"pip-audit failed: {last[0]}. `make install` installs it.")
        return 1
    return _unaudited(last[0][:200], is_strict)


def _unaudited(why: str, is_strict: bool) -> int:
    print(f"NOT AUDITED: the list of vulnerabilities cannot be reached from here ({why}).")
    return 2 if is_strict else 0


def _print_judged(judged: Judged) -> int:
    for each in judged.wrong:
        print(f"VULNERABLE {each}")
    for each in judged.allowed:
        print(f"allowed    {each}")
    for permit in judged.idle:
        print(f"no longer needed in {ALLOWED.name}: {permit.id} of {permit.package}")
    if judged.wrong:
        print(f"Raise the pin (`make lock`), or say in {ALLOWED.name} why it does no harm here, and until when.")
        return 1
    print("No known vulnerability in requirements-dev.lock.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
