"""Looks up every pinned package in the public list of known vulnerabilities; run by `make audit`, and in CI.

What is found fails the audit, unless `.ci/audit-allowed.toml` says why it does no harm here, and until when. Where the
list cannot be reached nothing was looked up, which is said and does not fail: a machine without a network can still
test a change. `--strict` fails there too, and for packages that the list does not know.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK, ALLOWED = ROOT / "requirements-dev.lock", ROOT / ".ci" / "audit-allowed.toml"
LONGEST_S = 600
_LONGEST_GRACE_DAYS = 366
_UNREACHABLE = (
    "connectionerror", "connection error", "connecttimeout", "readtimeout", "timed out", "max retries exceeded",
    "name resolution", "network is unreachable", "proxyerror", "service unavailable", "failed to connect",
)  # fmt: skip


def permitted(text: str, today: date) -> Iterator[str]:
    """The ids that a file allows today; raises `ValueError` for one without package, reason or an end within a year."""
    for row in tomllib.loads(text).get("allowed", []):
        if set(row) != {"id", "package", "reason", "until"} or not str(row["reason"]).strip():
            raise ValueError(f"{row}: each [[allowed]] has an id, a package, a reason and until.")
        if not isinstance(row["until"], date) or (row["until"] - today).days > _LONGEST_GRACE_DAYS:
            raise ValueError(f"{row['id']}: until is a day within a year, such as {today.isoformat()}.")
        if row["until"] >= today:
            yield str(row["id"])


def audit(options: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of pip-audit; every pin is looked up as it stands, nothing is installed."""
    command = [sys.executable, "-m", "pip_audit", "-r", str(LOCK), "--disable-pip", "--no-deps",
               "--progress-spinner", "off", "--timeout", "20", *options]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return 1, "timed out"
    return done.returncode, done.stdout + done.stderr


def main(arguments: Sequence[str]) -> int:
    """0: nothing that fails; 1: a weakness, or a list that cannot be read; 2: nothing was looked up, with --strict."""
    strict = [each for each in arguments if each == "--strict"]
    try:
        allowed = [*permitted(ALLOWED.read_text(encoding="utf-8"), datetime.now(UTC).date())]
    except ValueError as error:
        print(f"{ALLOWED.name} cannot be used: {error}")
        return 1
    code, output = audit([*strict, *(word for id_ in allowed for word in ("--ignore-vuln", id_))])
    if code and any(words in output.lower() for words in _UNREACHABLE):
        print(
            f"NOT AUDITED: the list of vulnerabilities cannot be reached from here ({output.splitlines()[-1][:200]})."
        )
        return 2 if strict else 0
    print(output)
    if code:
        print(f"Raise the pin (`make lock`), or say in {ALLOWED.name} why it does no harm here, and until when.")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
