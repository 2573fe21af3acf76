"""Whether Prefect can be the engine of this process, found out without importing it.

The answer may be yes where Prefect then finds no API after all; it is never no where Prefect would find one.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

API = "PREFECT_API"  # begins the names of settings that tell of an API
PROFILE = "PREFECT_PROFILE"  # names a profile: one of the file of profiles, or where there is none, of Prefect's own
ELSEWHERE = "profiles_path"  # the setting that says where the file of profiles lies


def may_be_prefect() -> bool:
    """True where Prefect is imported already, as in a run that it started, or where its settings may name an API."""
    return (
        "prefect" in sys.modules
        or _is_named_in(os.environ)
        or bool(os.environ.get(PROFILE))
        or _is_in_files(os.environ, Path())
    )


def _is_named_in(values: Mapping[str, Any]) -> bool:
    return any(name.upper().startswith(API) for name in values)


def _is_in_files(environ: Mapping[str, str], folder: Path) -> bool:
    """The files in which Prefect looks: two in the working folder for all settings, one for secrets, the profiles."""
    home = Path(environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    profiles = Path(environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    secrets = _text(folder / ".env").upper()
    try:
        own = _table(folder / "prefect.toml")
        shared = _table(folder / "pyproject.toml").get("tool", {}).get("prefect", {})
        kept = _table(profiles).get("profiles", {}).values()
    except (tomllib.TOMLDecodeError, AttributeError):
        return True  # Prefect says what is wrong with them
    return (
        API in secrets
        or f"PREFECT_{ELSEWHERE}".upper() in secrets
        or any(name in given for name in ("api", ELSEWHERE) for given in (own, shared))
        or any(_is_named_in(profile) for profile in kept)
    )


def _table(path: Path) -> dict[str, Any]:
    return tomllib.loads(_text(path))


def _text(path: Path) -> str:
    """What a file says; nothing where it cannot be read, by Prefect either."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
