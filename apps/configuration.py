"""Where settings come from: `slowwave.toml`, then the environment, then flags."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from slowwave.errors import UnknownName, UnusableInput
from slowwave.seed_names import by_own_names, translated
from slowwave.settings import Group, LanguageSettings, Settings

from .setting_errors import plain_error

FILE = "slowwave.toml"
DEFAULT_STORE = "./memory"
VARIABLES = (
    "SLOWWAVE_STORE", "SLOWWAVE_CONFIG", "SLOWWAVE_DEBUG", "SLOWWAVE_MCP_TOKEN", "SLOWWAVE_PERSON", "SLOWWAVE_DATA",
    "SLOWWAVE_DATABASE_URL", "SLOWWAVE_PORT", "SLOWWAVE_SLACK_WEBHOOK",
)  # fmt: skip
ALMOST = 0.85  # likeness of names from which one is a slip of the pen


def store_uri(flag: str | None = None) -> str:
    """The store: the flag, or SLOWWAVE_STORE, or ./memory."""
    return flag or os.environ.get("SLOWWAVE_STORE") or DEFAULT_STORE


def load_settings(path: Path | None = None) -> Settings:
    """Settings from SLOWWAVE_CONFIG or ./slowwave.toml; defaults where there is no such file."""
    _check_variables()
    file = path or Path(os.environ.get("SLOWWAVE_CONFIG", FILE))
    if not file.exists():
        if path or "SLOWWAVE_CONFIG" in os.environ:
            raise UnusableInput(f"There is no settings file {str(file)!r}.", "Check SLOWWAVE_CONFIG.")
        return Settings()
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnusableInput(
            f"{file} cannot be read: {error.strerror or error}.", "It is a file of settings: see docs/settings.md."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnusableInput(f"{file} is not valid TOML: {error}.", "See docs/settings.md for its keys.") from error
    return parse_settings(values, str(file))


def _check_variables() -> None:
    """Raise for a variable that is nearly one of ours; others of that beginning belong to whoever set them."""
    for name in os.environ:
        if name.startswith("SLOWWAVE_") and name not in VARIABLES and get_close_matches(name, VARIABLES, 1, ALMOST):
            raise UnknownName("environment variable", name, VARIABLES)


def parse_settings(values: dict[str, Any], origin: str) -> Settings:
    """The settings, or an error that names the first wrong key with the known ones, or the range it must be in.

    Names of other systems are understood (docs/names.md).
    """
    try:
        return Settings.model_validate(translated(by_own_names(Settings, values)))
    except ValidationError as error:
        raise plain_error(values, error, origin) from error


def with_flags(section: str, settings: Group, llm: Mapping[str, Any], **others: Any) -> Settings:
    """Settings in which a section has what the flags say: `llm` of its language model, `others` of its own keys.

    A flag that was not given is None.
    """
    values = settings.model_dump()
    values["llm"] |= _given(llm)
    return parse_settings({section: values | _given(others)}, "the command line")


def answering(
    settings: Settings, model: str | None = None, *, max_usd: float | None = None, max_calls: int | None = None
) -> LanguageSettings:
    """Who answers questions and within which limits: as for reading, but for what is given here.

    Raises `UnusableInput` for a limit out of its range.
    """
    flags = {"model": model, "max_usd": max_usd, "max_calls": max_calls}
    llm = with_flags("ingest", settings.ingest, flags).ingest.llm
    return llm if model is None else llm.model_copy(update={"answer_model": ""})


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flags.items() if value is not None}


def write_settings(graph: bool, model: str, force: bool, owner: str = "") -> Path:
    """Write `slowwave.toml` with the choices that matter at the start; refuses to overwrite unless `force`."""
    path = Path(FILE)
    if path.exists() and not force:
        raise UnusableInput(f"{path} exists already.", "Edit it, or use --force.")
    extract = f"[ingest.extract]\nenabled = {str(graph).lower()}\n"
    person = f"[ingest]\nowner = {json.dumps(owner)}\n\n" if owner else ""
    text = f"# All keys: docs/settings.md\n{person}{extract}\n[ingest.llm]\nmodel = {json.dumps(model)}\n"
    parse_settings(tomllib.loads(text), str(path))
    path.write_text(text, encoding="utf-8")
    return path
