"""What people install: one version, a wheel that is whole and needs no checkout, and the files of a release."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml

from apps.cli import COMPLETE, app
from apps.configuration import VARIABLES
from scripts.man_page import MORE_VARIABLES, man_page
from scripts.release import (
    FORMULA,
    OWNERLESS,
    PLUGIN,
    address,
    changes,
    formula,
    obstacles,
    registry_manifest,
    server_name,
)
from slowwave import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
SCHEMA = ROOT / "tests" / "data" / "mcp_registry" / "server.schema.json"
DIST_INFO = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE"}


# One version


def test_the_version_stands_in_one_place_and_its_copies_are_the_same() -> None:
    assert PROJECT["project"]["dynamic"] == ["version", "readme"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "slowwave/common/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert json.loads((ROOT / PLUGIN).read_text(encoding="utf-8"))["version"] == __version__
    manifest = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    assert [manifest["version"], manifest["packages"][0]["version"]] == [__version__] * 2


# What can be released


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that the checks of a release read, such that the present version can be released."""
    (tmp_path / PLUGIN).parent.mkdir(parents=True)
    shutil.copy(ROOT / PLUGIN, tmp_path / PLUGIN)
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "slowwave"\n[project.urls]\nRepository = "https://github.com/harbour/slowwave"\n'
    )
    log = [
        "# Changelog",
        "## Unreleased",
        "- next",
        f"## {__version__}, 2026-12-01",
        "- first",
        "- second",
        "## 0.0.1",
        "- old",
    ]
    (tmp_path / "CHANGELOG.md").write_text("\n\n".join(log) + "\n")
    return tmp_path


def test_a_tag_of_this_version_with_a_chapter_and_an_address_can_be_released(checkout: Path) -> None:
    assert list(obstacles(f"v{__version__}", checkout)) == []
    assert changes(__version__, checkout) == "- first\n\n- second"
    assert changes("0.0.1", checkout) == "- old"
    assert changes("0.0", checkout) == ""


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("CHANGELOG.md", f"## {__version__}, 2026-12-01", "## 9.9.9", "has no chapter"),
        ("CHANGELOG.md", "- first\n\n- second\n", "", "has no chapter"),
        ("pyproject.toml", "Repository", "Homepage", "no public address"),
        ("pyproject.toml", "[project.urls]", f"# {OWNERLESS}\n[project.urls]", "no public address"),
        (str(PLUGIN), __version__, "9.9.9", "another version"),
    ],
)
def test_each_obstacle_to_a_release_is_named(checkout: Path, file: str, old: str, new: str, named: str) -> None:
    path = checkout / file
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    [found] = obstacles(f"v{__version__}", checkout)
    assert named in found


@pytest.mark.parametrize("tag", [__version__, f"v{__version__}rc1", "v01.2.3", "v9.9.9", "release"])
def test_a_tag_that_is_not_this_version_is_an_obstacle(checkout: Path, tag: str) -> None:
    assert any("tag" in line for line in obstacles(tag, checkout))


# The registry of MCP servers


def test_the_manifest_is_what_the_registry_accepts_and_the_readme_proves_whose_it_is() -> None:
    manifest = json.loads(registry_manifest())
    validator = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert manifest["$schema"] == validator.schema["$id"]
    assert list(validator.iter_errors(manifest)) == []
    wrong = copy.deepcopy(manifest)
    wrong["packages"][0]["transport"] = {"type": "pipe"}
    assert list(validator.iter_errors(wrong))
    assert f"<!-- mcp-name: {manifest['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8")
    known = {*VARIABLES, *MORE_VARIABLES}
    assert {each["name"] for each in manifest["packages"][0]["environmentVariables"]} <= known
    assert server_name("https://github.com/harbour/slowwave") == "io.github.harbour/slowwave"


# Manual page and completions


def test_the_manual_page_has_every_command_option_and_variable() -> None:
    page = man_page().replace("\\-", "-")
    commands: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    for name, command in commands.items():
        assert f'.SS "slowwave {name}' in page
        for option in (opt for param in command.params for opt in param.opts if opt.startswith("-")):
            assert f"\\fB{option}\\fR" in page, (name, option)
    for name in (*VARIABLES, *MORE_VARIABLES):
        assert f"\\fB{name}\\fR" in page
    assert not re.search(r"^['.](?!(TH|SH|SS|TP|PP|B|nf|fi)\b)", page, re.MULTILINE)  # text that troff takes for macros


def test_a_shell_gets_the_options_of_a_command_without_anything_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from slowwave.__main__ import main\n"
        "try: main()\n"
        "finally: print(*{'polars', 'lancedb', 'numpy', 'prefect'} & {*sys.modules}, file=sys.stderr)"
    )
    asked = {COMPLETE: "complete_bash", "COMP_WORDS": "slowwave\nsleep\n--", "COMP_CWORD": "2"}
    environment = {**os.environ, **asked, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True,
                          check=True)  # fmt: skip
    found = set(done.stdout.split())
    assert {"--phase", "--dry-run", "--store"} <= found
    assert "--as-of" not in found
    assert done.stderr == "\n"


# Formula, workflow


def test_the_formula_of_a_release_has_its_address_version_and_checksum() -> None:
    committed = (ROOT / FORMULA).read_text(encoding="utf-8")
    released = formula(committed, "https://github.com/harbour/slowwave", "1.2.3", "ab" * 32)
    assert 'url "https://github.com/harbour/slowwave/releases/download/v1.2.3/slowwave-1.2.3.tar.gz"' in released
    assert f'sha256 "{"ab" * 32}"' in released
    assert "OWNER" not in released
    assert formula(released, OWNERLESS, "1.2.3", "ab" * 32).count("harbour") == 0
    installed = re.findall(r'install "([^"]+)"|--requirement", "([^"]+)"', committed)
    assert len(installed) == 5
    assert all((ROOT / (first or second)).is_file() for first, second in installed)
    if ruby := shutil.which("ruby"):
        assert subprocess.run([ruby, "-c", ROOT / FORMULA], capture_output=True, check=False).returncode == 0


def test_nothing_is_published_before_the_checks_and_tests_of_the_tag() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]

    def before(name: str) -> set[str]:
        needs = jobs[name].get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        return direct.union(*map(before, direct))

    publishing = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()} - {"build"}
    assert publishing == {"pypi", "image", "github", "registry"}
    assert all({"check", "tests", "build", "try"} <= before(name) for name in publishing)
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    assert "workflow_call" in yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))[True]
    assert all((ROOT / path).is_file() for path in re.findall(r"scripts/\w+\.py", text))
    assert all("@" in use or use.startswith("./") for use in re.findall(r"uses: (\S+)", text))


@pytest.mark.parametrize("case", ["right", "unset", "no checksum", "another file", "latest"])
def test_only_the_publisher_of_the_chosen_version_and_checksum_is_unpacked(tmp_path: Path, case: str) -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    [script] = [step["run"] for step in jobs["registry"]["steps"] if "MCP_PUBLISHER" in step.get("env", {})]
    assert text.count("curl") == 1
    (tmp_path / "mcp-publisher").write_text("#!/bin/sh\n")
    with tarfile.open(tmp_path / "made.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "mcp-publisher", "mcp-publisher")
    (tmp_path / "mcp-publisher").unlink()
    (tmp_path / "curl").write_text('#!/bin/sh\necho "$*" > asked; cp made.tar.gz mcp-publisher_linux_amd64.tar.gz\n')
    (tmp_path / "curl").chmod(0o755)
    right = hashlib.sha256((tmp_path / "made.tar.gz").read_bytes()).hexdigest()
    chosen = {"right": f"v1.2.3 {right}", "unset": "", "no checksum": "v1.2.3", "another file": f"v1.2.3 {'0' * 64}",
              "latest": f"latest {right}"}[case]  # fmt: skip
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "MCP_PUBLISHER": chosen, "RELEASES": "R"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]  # as GitHub runs it
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (case == "right")
    assert (tmp_path / "mcp-publisher").exists() == (case == "right")
    assert (tmp_path / "asked").exists() == (case in ("right", "another file"))
    if case == "right":
        assert (tmp_path / "asked").read_text().endswith("R/v1.2.3/mcp-publisher_linux_amd64.tar.gz\n")
    assert ("Set the repository variable MCP_PUBLISHER" in done.stdout) == (case not in ("right", "another file"))


def test_the_address_stands_in_one_place() -> None:
    named = re.compile(r"github\.com/(?!OWNER/)[\w-]+/slowwave")
    files = ["README.md", "server.json", str(FORMULA), "Dockerfile", ".github/workflows/release.yml"]
    if address() == OWNERLESS:
        assert [file for file in files if named.search((ROOT / file).read_text(encoding="utf-8"))] == []
    links = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    assert all(f"]({address()}/" in each["replacement"] for each in links)
    assert PROJECT["project"]["urls"] == ({} if address() == OWNERLESS else {"Repository": address()})


# The wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel that is built from it, and in `direct` the wheel of the tree."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pytest.skip("uv, which builds packages, is not installed")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([uv, "build", "--quiet", "--out-dir", folder, ROOT], check=True)
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", folder / "direct", ROOT], check=True)
    return folder


def expected_files() -> set[str]:
    """The names in the wheel that the tree and pyproject.toml ask for, `dist-info` apart."""
    data = f"slowwave-{__version__}.data/data"
    places = {name: WHEEL["sources"].get(name, name) for name in WHEEL["packages"]} | WHEEL["force-include"]
    places |= {source: f"{data}/{target}" for source, target in WHEEL["shared-data"].items()}
    files = {target for source, target in places.items() if (ROOT / source).is_file()}
    return files | {
        f"{target}/{path.relative_to(ROOT / source).as_posix()}"
        for source, target in places.items()
        for path in (ROOT / source).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.proof
def test_the_wheel_has_every_file_of_the_packages_and_no_other(built: Path) -> None:
    [wheel], [direct], [sdist] = built.glob("*.whl"), built.glob("direct/*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened, zipfile.ZipFile(direct) as other:
        names = set(opened.namelist())
        assert {each.filename: each.CRC for each in opened.infolist()} == {
            each.filename: each.CRC for each in other.infolist()
        }
        metadata = opened.read(f"slowwave-{__version__}.dist-info/METADATA").decode()
    assert names - expected_files() == {f"slowwave-{__version__}.dist-info/{name}" for name in DIST_INFO}
    assert expected_files() - names == set()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"slowwave"}
    assert wheel.stat().st_size < 10_000_000
    assert f"\nVersion: {__version__}\n" in metadata
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", metadata) == []  # on PyPI relative links lead nowhere
    with tarfile.open(sdist) as packed:
        kept = {name.partition("/")[2] for name in packed.getnames()}
    tested = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    assert tested | {"requirements.lock", "prefect.yaml", "Makefile"} <= kept


@pytest.mark.proof
def test_the_demo_runs_from_the_wheel_alone_without_a_key_and_leaves_nothing_behind(
    built: Path, tmp_path: Path
) -> None:
    [wheel] = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = f"""
import sys
from slowwave.__main__ import main
try: main()
finally:
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    ours = [file for file in files if file.startswith({str(ROOT)!r}) and "site-packages" not in file]
    print(ours, "prefect" in sys.modules, file=sys.stderr)
"""
    paths = [str(tmp_path / "site"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PREFECT_API_URL": ""}
    (tmp_path / "here").mkdir()
    environment["TMPDIR"] = str(tmp_path / "here")
    # -S: the checkout is installed by a .pth file, which is not read then
    done = subprocess.run([sys.executable, "-S", "-c", code, "demo", "--json"], cwd=tmp_path / "here", env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (0, "[] False")
    document = json.loads(done.stdout)
    assert document["stats"]["llm"]["calls"] == 0
    assert document["stats"]["facts"]["live"] > 100
    assert [len(each["facts"]) > 0 for each in document["recalls"]] == [True] * 4
    assert "Ferrywise" in " ".join(each["statement"] for each in document["recalls"][3]["facts"])
    assert [path.name for path in (tmp_path / "here").iterdir() if "slowwave" in path.name] == []
