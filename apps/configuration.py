"""Where settings come from: `slowwave.toml`, then the environment, then flags."""

from __future__ import annotations

import getpass
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from slowwave.common.errors import SlowwaveError, UnknownName, UnknownSetting, UnusableInput
from slowwave.common.lexicon.labels import Locale
from slowwave.common.settings import SHARED, LanguageSettings, Settings
from slowwave.common.settings.seed_names import paths_in, translated

if TYPE_CHECKING:
    from storage.store import Store
    from tasks.runtime.runs import Run

# Errors in settings in plain words.


PAGE = "See docs/settings.md."
SHOWN = 60  # characters of a value


def plain_error(wrong: ValidationError, origin: str) -> SlowwaveError:
    """The first error in the settings of a file or another source, by our names."""
    first = wrong.errors()[0]
    path, context = [str(part) for part in first["loc"]], first.get("ctx", {})
    if first["type"] == "unknown_setting":
        inside = "".join(f"{part}." for part in path)
        near = f"{inside}{context['near']}" if context["near"] else ""
        return UnknownSetting(f"{inside}{context['unknown']}", origin, near, f"{context['known']}.")
    ours = ".".join(path)
    if first["type"] == "value_error":
        reason = str(context.get("error") or first["msg"]).rstrip(".")
        return UnusableInput(f"{origin}: {f'[{ours}] ' if ours else ''}{reason}.", PAGE)
    must = "must be a table" if first["type"] == "model_type" else first["msg"].partition(", unable")[0]
    must = must.replace("Input should be", "must be")
    return UnusableInput(f"{origin}: {ours} {must}, not {_shown(first['input'])}.", PAGE)


def _shown(value: Any) -> str:
    """A value as a file of settings has it."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:g}"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _values(group: BaseModel, inside: str = "") -> dict[str, Any]:
    """What a file would say of a group and of those in it; each table once."""
    own = {name: value for name, value in group if f"{inside}{name}" not in SHARED}
    return {
        name: _values(value, f"{inside}{name}.") if isinstance(value, BaseModel) else value
        for name, value in own.items()
    }


FILE = "slowwave.toml"
DEFAULT_STORE = "./memory"
VARIABLES = (
    "SLOWWAVE_STORE", "SLOWWAVE_CONFIG", "SLOWWAVE_DEBUG", "SLOWWAVE_MCP_TOKEN", "SLOWWAVE_SERVE_TOKEN",
    "SLOWWAVE_PERSON", "SLOWWAVE_DATA", "SLOWWAVE_PORT",
)  # fmt: skip
ALMOST = 0.85  # similarity of names from which on one is a typing error


def load_settings(path: Path | None = None) -> Settings:
    """Settings from SLOWWAVE_CONFIG or ./slowwave.toml; defaults where there is no such file.

    Raises for a variable whose name is nearly one of ours.
    """
    for name in os.environ:  # other variables that begin so are ignored
        if name.startswith("SLOWWAVE_") and name not in VARIABLES and get_close_matches(name, VARIABLES, 1, ALMOST):
            raise UnknownName("environment variable", name, VARIABLES)
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


def parse_settings(values: dict[str, Any], origin: str) -> Settings:
    """The settings, names of other systems included (docs/names.md); an error names the first wrong key."""
    ours = translated(values)
    for path in paths_in(ours):
        if place := next((place for place in SHARED if f"{path}.".startswith(f"{place}.")), None):
            there = f"{SHARED[place]}{path[len(place) :]}"
            raise UnknownSetting(path, origin, there, "The file has each table once.")
    try:
        return Settings.model_validate(ours)
    except ValidationError as error:
        raise plain_error(error, origin) from error


def with_flags(settings: Settings, llm: Mapping[str, Any], **others: Any) -> Settings:
    """The settings with the flags for the language model, `llm`, and for [ingest]; None: not given."""
    values = _values(settings)
    values["ingest"] |= _given(others)
    values["ingest"]["llm"] |= _given(llm)
    return parse_settings(values, "the command line")


def answering(
    settings: Settings, model: str | None = None, *, max_usd: float | None = None, max_calls: int | None = None
) -> LanguageSettings:
    """Who answers questions within which limits: as for reading, but for what is given here."""
    flags = {"model": model, "max_usd": max_usd, "max_calls": max_calls}
    llm = with_flags(settings, flags).ingest.llm
    return llm if model is None else llm.model_copy(update={"answer_model": ""})


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flags.items() if value is not None}


def person_name(given: str | None = None) -> str:
    """Who decides: the given name, or SLOWWAVE_PERSON, or the user of this machine."""
    return given or os.environ.get("SLOWWAVE_PERSON") or getpass.getuser()


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace of a store with the settings that count there: where a command, a server or a program works."""

    uri: str
    namespace: str
    settings: Settings

    @classmethod
    def of(cls, store: str | None = None, namespace: str = "default", settings: Path | None = None) -> Place:
        """The place that these values, the environment and `slowwave.toml` name."""
        uri = store or os.environ.get("SLOWWAVE_STORE") or DEFAULT_STORE
        return cls(uri, namespace, load_settings(settings))

    @property
    def locale(self) -> Locale:
        """The language in which types and relations are shown (C8)."""
        return self.settings.labels.locale

    def store(self) -> Store:
        """The namespace, which must exist."""
        from storage.store import Store

        return Store.open(self.uri, self.namespace, retention=self.settings.retention)

    def attached(self) -> Store:
        """The namespace without a look at its state, which may be damaged."""
        from storage.store import Store

        return Store.attach(self.uri, self.namespace, retention=self.settings.retention)

    def run(self, flow: str, *, makes_store: bool = False, embedder: str | None = None) -> Run:
        """A new run that may write; unless it `makes_store`, the namespace must exist, and says which embedder.

        `embedder` names the model of the namespace where it is known already; then it is not looked up.
        """
        from tasks.runtime.runs import existing_run, new_run

        kept = self.settings.retention
        if makes_store or embedder is not None:
            return new_run(flow, self.uri, self.namespace, embedder or self.settings.embedder, retention=kept)
        return existing_run(flow, self.uri, self.namespace, retention=kept)


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
