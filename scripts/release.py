"""What a release needs: the checks before it, its notes, the manifest of the MCP registry, and the Homebrew formula.

How to run it (docs/releasing.md):
  python scripts/release.py check v0.2.0      whether the tag can be released; exit code 1 and a line for each obstacle
  python scripts/release.py notes v0.2.0      the chapter of CHANGELOG.md
  python scripts/release.py formula FILE      write version, address and checksum of the sdist into the formula
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slowwave import __version__

ROOT = Path(__file__).parents[1]
OWNERLESS = "https://github.com/OWNER/slowwave"
"""Stands for the public address as long as there is none."""
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
FORMULA = Path("Formula") / "slowwave.rb"
PLUGIN = Path("integrations") / "claude-code" / ".claude-plugin" / "plugin.json"
ABOUT = "Long-term memory for agents: a temporal knowledge graph with sources, history and undo."
VARIABLES: tuple[dict[str, Any], ...] = (
    {
        "name": "SLOWWAVE_STORE",
        "description": "The folder of the memory. `uvx slowwave ingest PATH` makes one.",
        "format": "filepath",
        "isRequired": True,
    },
    {"name": "SLOWWAVE_CONFIG", "description": "A file of settings, slowwave.toml.", "format": "filepath"},
    {"name": "ANTHROPIC_API_KEY", "description": "For the tool `ask`. All other tools need no key.", "isSecret": True},
)


def address(root: Path = ROOT) -> str:
    """The public address, from `[project.urls]` in pyproject.toml; `OWNERLESS` where it is not set."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project.get("urls", {}).get("Repository", OWNERLESS)).rstrip("/")


def server_name(repository: str) -> str:
    """The name in the MCP registry, which belongs to the owner of the repository on GitHub."""
    owner, _, name = repository.removeprefix("https://github.com/").partition("/")
    return f"io.github.{owner}/{name}"


def registry_manifest() -> str:
    """`server.json`, by which the MCP registry lists the server."""
    repository = address()
    package = {
        "registryType": "pypi",
        "registryBaseUrl": "https://pypi.org",
        "identifier": "slowwave",
        "version": __version__,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "mcp"}],
        "environmentVariables": list(VARIABLES),
    }
    manifest = {
        "$schema": SCHEMA,
        "name": server_name(repository),
        "title": "slowwave",
        "description": ABOUT,
        "repository": {"url": repository, "source": "github"},
        "version": __version__,
        "packages": [package],
    }
    return json.dumps(manifest, indent=2) + "\n"


def obstacles(tag: str, root: Path = ROOT) -> Iterator[str]:
    """Why the tag cannot be released, a sentence each."""
    version = tag.removeprefix("v")
    if not tag.startswith("v") or not VERSION.fullmatch(version):
        yield f"The tag {tag!r} is not v and a version of three numbers, such as v0.2.0."
    if version != __version__:
        yield f"The tag is {tag}, and slowwave/common/__init__.py has the version {__version__}."
    if not changes(version, root):
        yield f"CHANGELOG.md has no chapter `## {version}` with text: rename `## Unreleased`."
    if json.loads((root / PLUGIN).read_text(encoding="utf-8"))["version"] != __version__:
        yield f"{PLUGIN} has another version than {__version__}."
    if address(root) == OWNERLESS or OWNERLESS in (root / "pyproject.toml").read_text(encoding="utf-8"):
        yield "pyproject.toml has no public address: set Repository, put the owner for OWNER, then `make docs`."


def changes(version: str, root: Path = ROOT) -> str:
    """The chapter of a version in CHANGELOG.md without its heading; empty where there is none."""
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(version)}(?![\w.])[^\n]*\n(.*?)(?=^## |\Z)", log, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def formula(text: str, repository: str, version: str, sha256: str) -> str:
    """The text of the formula for another release."""
    file = f"{repository}/releases/download/v{version}/slowwave-{version}.tar.gz"
    for name, value in {"homepage": repository, "url": file, "sha256": sha256}.items():
        text, count = re.subn(rf'^  {name} ".*"$', f'  {name} "{value}"', text, flags=re.MULTILINE)
        assert count == 1, name
    tap = server_name(repository).removeprefix("io.github.")
    return re.sub(
        r"^# brew tap .*$", f"# brew tap {tap} {repository} && brew install slowwave", text, flags=re.MULTILINE
    )


def main(arguments: list[str]) -> int:
    """Run one of the commands; the exit code."""
    match arguments:
        case ["check", tag]:
            found = list(obstacles(tag))
            print("\n".join(found) or f"{tag} can be released.")
            return bool(found)
        case ["notes", tag]:
            print(changes(tag.removeprefix("v")))
        case ["formula", file]:
            sha256 = hashlib.sha256(Path(file).read_bytes()).hexdigest()
            path = ROOT / FORMULA
            path.write_text(formula(path.read_text(encoding="utf-8"), address(), __version__, sha256), encoding="utf-8")
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
