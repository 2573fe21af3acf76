"""What is installed is pinned, fits what the project asks for, and is looked up in the list of vulnerabilities."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from datetime import date, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import audit
from scripts.audit import LOCK, permitted

ROOT = Path(__file__).parents[2]
INSTALLERS = {"pip", "setuptools"}  # whoever installs brings their own
TODAY = date(2026, 7, 1)


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


PERMIT = (
    '[[allowed]]\nid = "CVE-2026-1"\npackage = "example"\nreason = "Its server is never started."\nuntil = 2026-07-01\n'
)


def test_what_is_allowed_is_so_up_to_its_day() -> None:
    assert [*permitted(PERMIT, TODAY)] == ["CVE-2026-1"]
    assert [*permitted(PERMIT, TODAY + timedelta(days=1))] == []


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
    with pytest.raises(ValueError, match=r"reason|within a year"):
        list(permitted(f"[[allowed]]\n{row}\n", TODAY))


@pytest.mark.parametrize(
    ("answer", "arguments", "code", "told"),
    [
        ((1, "ConnectionError: HTTPSConnectionPool(host='pypi.org'): Max retries exceeded"), [], 0, "NOT AUDITED"),
        ((1, "timed out"), ["--strict"], 2, "NOT AUDITED"),
        ((1, "No module named pip_audit"), [], 1, "No module"),
        ((1, "example 1.0 CVE-2026-1 1.1"), [], 1, "Raise the pin"),
        ((0, "No known vulnerabilities found"), [], 0, "No known"),
    ],
)
def test_the_audit_fails_on_what_it_finds_and_says_where_it_could_not_look(
    answer: tuple[int, str], arguments: list[str], code: int, told: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(audit, "audit", lambda options: answer)
    assert audit.main(arguments) == code
    assert told in capsys.readouterr().out
