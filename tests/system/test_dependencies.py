"""What is installed is pinned, fits what the project asks for, and is looked up in the list of vulnerabilities."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import audit
from scripts.audit import ALLOWED, LOCK, Allowed, Vulnerability, is_unreachable, judge, read_allowed, read_found

ROOT = Path(__file__).parents[2]
INSTALLERS = {"pip", "setuptools"}  # whoever installs brings their own
TODAY = date(2026, 7, 1)
WEAK = Vulnerability("example", "1.0", frozenset({"PYSEC-2026-1", "CVE-2026-1"}), ("1.1",))
REPORT = {
    "dependencies": [
        {"name": "example", "version": "1.0", "vulns": [
            {"id": "PYSEC-2026-1", "aliases": ["CVE-2026-1"], "fix_versions": ["1.1"], "description": "…"}]},
        {"name": "sound", "version": "2.0", "vulns": []},
        {"name": "odd", "skip_reason": "it is on no index"},
    ]
}  # fmt: skip


def pins(lock: Path = LOCK) -> dict[str, Requirement]:
    """The lines of a lock by the name of their package; hashes apart."""
    lines = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    named = [Requirement(line.split(" --hash")[0]) for line in lines if line.strip() and not line.startswith("#")]
    return {canonicalize_name(each.name): each for each in named}


def asked_for() -> Iterator[Requirement]:
    """What the project needs to run and to be tested."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for line in [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]:
        yield Requirement(line)


def test_every_package_is_pinned_to_one_version() -> None:
    known = pins()
    assert len(known) > 100
    for each in known.values():
        assert re.fullmatch(r"==[0-9][0-9A-Za-z.+!]*", str(each.specifier)), each
        assert each.url is None, each


def test_the_lock_has_what_the_project_asks_for() -> None:
    known = pins()
    for each in asked_for():
        pin = known.get(canonicalize_name(each.name))
        assert pin is not None, f"{each} is not in requirements-dev.lock: make lock"
        [chosen] = pin.specifier
        assert each.specifier.contains(chosen.version, prereleases=True), f"{pin} is not {each}: make lock"


def test_users_install_the_versions_that_are_tested_and_no_tools_of_developers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tested, used = pins(), pins(ROOT / "requirements.lock")
    assert {name: str(pin.specifier) for name, pin in used.items()} == {
        name: str(tested[name].specifier) for name in used
    }
    assert {canonicalize_name(Requirement(line).name) for line in project["project"]["dependencies"]} <= set(used)
    assert not {"pytest", "mypy", "ruff", "moto", "flask", "hypothesis"} & set(used)


def test_what_runs_here_is_what_is_pinned() -> None:
    """Otherwise the tests show nothing about what people install."""
    different = {}
    for name, pin in pins().items():
        if name in INSTALLERS or (pin.marker is not None and not pin.marker.evaluate()):
            continue
        try:
            installed = version(name)
        except PackageNotFoundError:
            installed = "not installed"
        if not pin.specifier.contains(installed if installed[0].isdigit() else "0", prereleases=True):
            different[str(pin)] = installed
    assert different == {}


# The audit


def test_what_is_found_fails_unless_it_is_allowed_for_this_package_and_still() -> None:
    [found] = read_found(json.dumps(REPORT))
    assert found == WEAK
    permit = Allowed("CVE-2026-1", "example", "Its server is never started.", TODAY)
    assert judge([found], [], TODAY).wrong == (WEAK,)
    assert judge([found], [permit], TODAY).wrong == ()
    assert judge([found], [permit], TODAY + timedelta(days=1)).wrong == (WEAK,)
    assert judge([found], [Allowed("CVE-2026-1", "other", "-", TODAY)], TODAY).wrong == (WEAK,)
    assert judge([], [permit], TODAY).idle == (permit,)


@pytest.mark.parametrize(
    "row",
    [
        'id = "CVE-1"\npackage = "a"\nuntil = 2026-08-01',
        'id = "CVE-1"\npackage = "a"\nreason = " "\nuntil = 2026-08-01',
        'id = "CVE-1"\npackage = "a"\nreason = "b"\nuntil = 2031-01-01',
        'id = "CVE-1"\npackage = "a"\nreason = "b"\nuntil = "soon"',
    ],
)
def test_a_permission_needs_a_reason_and_an_end_within_a_year(row: str) -> None:
    with pytest.raises(audit.UnusableList):
        read_allowed(f"[[allowed]]\n{row}\n", TODAY)


def test_the_permissions_of_this_project_can_be_read() -> None:
    today = datetime.now(UTC).date()
    assert all(each.until >= today for each in read_allowed(ALLOWED.read_text(encoding="utf-8"), today))


UNREACHABLE = "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='pypi.org'): Max retries exceeded"
MIRROR = {"dependencies": [{"name": name, "skip_reason": "Dependency not found on PyPI"} for name in ("a", "b")]}


@pytest.mark.parametrize(
    ("answer", "arguments", "code", "told"),
    [
        (("", UNREACHABLE), [], 0, "NOT AUDITED"),
        (("", UNREACHABLE), ["--strict"], 2, "NOT AUDITED"),
        (("", "No module named pip_audit"), [], 1, "make install"),
        ((json.dumps(REPORT), ""), [], 1, "VULNERABLE example 1.0: CVE-2026-1, PYSEC-2026-1 (fixed in 1.1)"),
        ((json.dumps(MIRROR), ""), [], 0, "NOT AUDITED: the list of vulnerabilities cannot be reached"),
        ((json.dumps(MIRROR), ""), ["--strict"], 2, "it knows none of the 2 packages"),
        ((json.dumps({"dependencies": REPORT["dependencies"][1:]}), ""), [], 0, "does not know them: odd"),
        ((json.dumps({"dependencies": REPORT["dependencies"][1:]}), ""), ["--strict"], 2, "No known vulnerability"),
    ],
)
def test_the_audit_fails_on_what_it_finds_and_says_where_it_could_not_look(
    answer: tuple[str, str], arguments: list[str], code: int, told: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def answered() -> Any:
        return answer

    monkeypatch.setattr(audit, "_audit", answered)
    assert audit.main(arguments) == code
    assert told in capsys.readouterr().out
    assert is_unreachable(UNREACHABLE)


def test_ci_audits() -> None:
    assert "make audit" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "scripts/audit.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
