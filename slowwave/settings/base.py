"""What all settings share: groups that are frozen, know their names, and refuse what they do not know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

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

    @classmethod
    def as_field(cls, title: str, description: str, *names: str) -> Any:
        """A table of these settings inside another group; `names` as in `alias`, where others know it by another."""
        return Field(
            default_factory=cls, title=title, description=description, validation_alias=alias(*names) if names else None
        )

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
    by_field: dict[str, Any] = {}
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
        if field not in by_field:
            by_field[field] = value
        elif isinstance(by_field[field], dict) and isinstance(value, dict):
            by_field[field] = {**by_field[field], **value}
        elif by_field[field] != value:
            raise PydanticCustomError(
                "setting_given_twice", "{field} is given twice, once as {name}", {"field": field, "name": name}
            )
    return by_field


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


# How long the past is kept, what a person decides, and what maintenance may not make worse.


Risk = Literal["pinned", "override", "large", "erasure", "user_stated", "cross_source"]


class RetentionSettings(Group):
    """How long the past is kept."""

    undo_days: int = Field(
        30,
        ge=1,
        le=3650,
        title="Days of undo",
        description="Older versions are compacted away; undo and as-of-commit end there.",
    )
    mode: Literal["archive", "delete"] = Field(
        "archive",
        title="What eviction does",
        description="archive: what has been out of use long enough moves to the archive and can be restored. delete: "
        "it is removed for good (§6.1 C3).",
    )
    lease_s: float = Field(
        30.0, ge=1.0, le=3600.0, title="Writer lease", description="Seconds after which a silent writer is dead."
    )
    lease_wait_s: float = Field(
        60.0,
        ge=0.0,
        le=3600.0,
        title="Wait for the lease",
        description="Seconds that one try waits; a task of a flow has six.",
    )


class ApprovalSettings(Group):
    """What a person decides, beside what a flow was told to propose (SEMANTICS §6.6)."""

    mode: Literal["auto", "manual"] = Field(
        "auto",
        title="Approval",
        description="auto: what passes is written, but for what is always a person's. manual: all changes wait for a "
        "person, as proposals (S3-10).",
    )
    risky: tuple[Risk, ...] = Field(
        ("pinned", "override", "large", "erasure"),
        title="Always a person's",
        description="What a flow never does by itself, also where it may write. pinned: changes what is pinned. "
        "override: retires what a person stated in favour of what was inferred. large: retires many facts at once. "
        "erasure: removes for good, a person's whether listed or not. user_stated: retires what a person stated. "
        "cross_source: joins facts of several sources.",
    )
    large: int = Field(
        8, ge=2, le=10_000, title="Large", description="So many facts retired or moved at once are a large change."
    )
    low_risk: Literal["person", "auto"] = Field(
        "person",
        title="Proposals without risk",
        description="person: where approval is required, all waits. auto: what has no risk is written at once.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_a_word(cls, value: Any) -> Any:
        """`approval = "manual"` is short for its mode."""
        return {"mode": value} if isinstance(value, str) else value


class GateSettings(Group):
    """Maintenance may not make recall worse: questions are put before and after, and a run that lost is taken back."""

    enabled: bool = Field(
        False,
        title="Gate",
        description="Ask the same questions before and after, and take the run back if recall fell.",
    )
    probes: int = Field(
        200, ge=10, le=10_000, title="Questions", description="Made from stored facts and from logged recalls."
    )
    k: int = Field(10, ge=1, le=100, title="Places", description="A question is answered within so many facts.")
    tolerance: Ratio = Field(
        0.02, title="Tolerance", description="Share of the questions that may be answered worse than before."
    )


class NightGateSettings(GateSettings):
    """The gate of the night, which is closed unless somebody opens it."""

    enabled: bool = Field(
        True, title="Gate", description="Ask the same questions after each phase, and take it back if recall fell."
    )
