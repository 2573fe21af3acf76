"""What is wrong with a setting, in plain words, by the name that was written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from pydantic import BaseModel, ValidationError

from slowwave.errors import SlowwaveError, UnknownSetting, UnusableInput
from slowwave.seed_names import SPELLINGS, written_as
from slowwave.settings import LISTED, Settings, nearest

PAGE = "See docs/settings.md."
SHOWN = 60  # characters of a value
_BOUNDS = {"less_than_equal": ("at most", "le"), "greater_than_equal": ("at least", "ge"),
           "less_than": ("less than", "lt"), "greater_than": ("more than", "gt")}  # fmt: skip
_KINDS = {"int": "a whole number", "float": "a number", "finite": "a finite number", "bool": "true or false",
          "string": "text", "tuple": "a list", "list": "a list", "dict": "a table", "model": "a table",
          "mapping": "a table", "datetime": "a time"}  # fmt: skip
"""What must be given, by the first word of pydantic's name for the error."""


def plain_error(values: Mapping[str, Any], wrong: ValidationError, origin: str) -> SlowwaveError:
    """The first thing that is wrong with the settings of a file, or of whatever else they come from."""
    first = wrong.errors()[0]
    path, told = [str(part) for part in first["loc"]], first.get("ctx", {})
    if first["type"] == "unknown_setting":
        return _unknown(values, path, str(told["unknown"]), origin)
    ours = ".".join(path)
    if first["type"] in ("value_error", "setting_given_twice", "replaced_setting"):
        said = str(told.get("error") or first["msg"]).rstrip(".")
        return UnusableInput(f"{origin}: {f'[{ours}] ' if ours else ''}{said}.", PAGE)
    written, given = written_as(values, ours)
    must = f"must be {_wanted(first['type'], told)}" if _wanted(first["type"], told) else first["msg"]
    if not isinstance(given, Mapping | list) and given != first["input"] and written != ours:
        here = f"{written} = {_shown(given)} means {ours} = {_shown(first['input'])} here, which {must}"
        return UnusableInput(f"{origin}: {here}.", PAGE)
    name = ours if _is_ours(written, ours) else f"{written} ({ours} here)"
    return UnusableInput(f"{origin}: {name} {must}, not {_shown(first['input'])}.", PAGE)


def _is_ours(written: str, ours: str) -> bool:
    """Whether the file says it by our name, or by that of the table or list that it is in."""
    return ours == written or ours.startswith(f"{written}.") or written.startswith(f"{ours}.")


def _wanted(kind: str, told: Mapping[str, Any]) -> str:
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"{words} {_shown(told[key])}"
    if kind == "literal_error":
        return f"one of {str(told['expected']).replace(' or ', ', ')}".replace("'", '"')
    return _KINDS.get(kind.partition("_")[0], "")


def _shown(value: Any) -> str:
    """A value as a file of settings has it."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:g}"
    told = json.dumps(value, default=str, ensure_ascii=False)
    return told if len(told) <= SHOWN else f"{told[:SHOWN]}…"


def _unknown(values: Mapping[str, Any], path: Sequence[str], name: str, origin: str) -> UnknownSetting:
    """The error about a name that nobody knows, with the nearest one: ours, or one of another system beside it."""
    inside = "".join(f"{part}." for part in path)
    whole, _ = written_as(values, f"{inside}{name}")
    table = _before(whole, name)
    known = [*_group(path).model_fields]
    place = f"those of [{inside[:-1]}]" if path else "all tables"
    names = f"docs/settings.md lists {place}."
    if path and len(known) <= LISTED:
        names = f"[{inside[:-1]}] has {', '.join(known)}."
    if not whole.endswith(name) and (theirs := _spelled(whole)):
        return UnknownSetting(whole, origin, theirs, names)
    found = [(near, f"{inside}{near}") for near in [nearest(name, known)] if near]
    found += [(near.rpartition(".")[2], near) for near in [_spelled(f"{table}.{name}" if table else name)] if near]
    near = max(found, key=lambda each: SequenceMatcher(None, name, each[0]).ratio())[1] if found else _elsewhere(name)
    return UnknownSetting(f"{table}.{name}" if table else name, origin, near, names)


def _spelled(written: str) -> str:
    """A name of another system that is nearly this one, in the same table."""
    table, _, name = written.rpartition(".")
    near = nearest(name, {each.rpartition(".")[2] for each in SPELLINGS if each.rpartition(".")[0] == table})
    return f"{table}.{near}" if near and table else near


def _before(written: str, name: str) -> str:
    """The table in which a name was written."""
    parts = written.split(".")
    return ".".join(parts[: parts.index(name)]) if name in parts else written.rpartition(".")[0]


def _elsewhere(name: str) -> str:
    """Where a setting of exactly this name is; empty where none is."""
    return next((path for path in _paths(Settings) if path.rpartition(".")[2] == name), "")


def _paths(model: type[BaseModel], inside: str = "") -> Iterator[str]:
    for field, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _paths(info.annotation, f"{inside}{field}.")
        else:
            yield f"{inside}{field}"


def _group(path: Sequence[str]) -> type[BaseModel]:
    model: Any = Settings
    for part in path:
        model = model.model_fields[part].annotation
    return model  # type: ignore[no-any-return]
