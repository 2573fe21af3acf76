"""What all settings share: groups that are frozen, know their names, and refuse what they do not know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

DEFAULT_EMBEDDER = "slowwave/minilm-static-256"
DEFAULT_MODEL = "anthropic/claude-haiku-4-5"
NEAR = 0.75
"""Likeness of two names from which one may be meant by the other."""
LONG_WORD, LISTED = 4, 12
"""Letters of a word that says something by itself, and how many names are listed."""
Ratio = Annotated[float, Field(ge=0.0, le=1.0)]


def alias(name: str, *others: str) -> Any:
    """The field's own name first, then the names under which other systems know it."""
    return AliasChoices(name, *others)


class Group(BaseModel):
    """Base of all settings: frozen; an unknown key is an error that names the nearest known one."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    replaced: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Names of settings that lost their meaning, each with what took its place."""

    @model_validator(mode="before")
    @classmethod
    def _by_own_names(cls, value: Any) -> Any:
        """Each setting by its own name, whichever of its names it was given by."""
        return named(cls, value) if isinstance(value, dict) else value


def named(model: type[Group], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a group by the names of its fields.

    Raises `PydanticCustomError` for an unknown name, with the nearest, for one that was replaced, with what took its
    place, and where two names of one setting are given;
    two tables become one.
    """
    known = {name: field for field, info in model.model_fields.items() for name in names_of(field, info)}
    told: dict[str, Any] = {}
    for name, value in values.items():
        if name in model.replaced:
            raise PydanticCustomError(
                "replaced_setting",
                "{name} is no setting any more: {instead}",
                {"name": name, "instead": model.replaced[name]},
            )
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}? " if near else ""
            raise PydanticCustomError(
                "unknown_setting",
                "there is no setting {name}; {hint}{known}",
                {"name": repr(name), "hint": hint, "known": _listed(model.model_fields), "unknown": name},
            )
        field = known[name]
        if field not in told:
            told[field] = value
        elif isinstance(told[field], dict) and isinstance(value, dict):
            told[field] = {**told[field], **value}
        elif told[field] != value:
            raise PydanticCustomError(
                "setting_given_twice", "{field} is given twice, once as {name}", {"field": field, "name": name}
            )
    return told


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that is nearly this one, or the likeliest that shares a long word with it; empty where none is."""
    if near := get_close_matches(name, known, n=1, cutoff=NEAR):
        return near[0]
    words = _words(name)
    return next(iter(get_close_matches(name, [each for each in known if words & _words(each)], n=1, cutoff=0.0)), "")


def _words(name: str) -> set[str]:
    return {word for word in name.lower().split("_") if len(word) >= LONG_WORD}


def _listed(names: Collection[str]) -> str:
    """The names of a group, or where to look for them if they are many."""
    return f"known: {', '.join(names)}" if len(names) <= LISTED else "docs/settings.md lists those that there are"


def names_of(field: str, info: FieldInfo) -> list[str]:
    """Every name by which a setting may be given, its own first."""
    choices = info.validation_alias
    return [field, *(str(each) for each in choices.choices)] if isinstance(choices, AliasChoices) else [field]
