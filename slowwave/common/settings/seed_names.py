"""Names of settings in the systems that slowwave unites, and what they are called here (SEMANTICS §6.7).

A file of settings may use them: `translated` puts each where ours is. Names without a counterpart are known too, each
with the reason why there is none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from slowwave.common.errors import UnusableInput


@dataclass(frozen=True, slots=True)
class SeedName:
    """A name of another system: the setting here that means the same, or `why` there is none.

    `as_ours` turns its value into ours, where the two are told differently; `how` says so. It takes values of these
    `kinds`; others are checked as they are.
    """

    ours: str = ""
    why: str = ""
    how: str = ""
    as_ours: Callable[[Any], Any] | None = None
    kinds: tuple[type, ...] = ()


def _of_measures(numbers: list[Any]) -> Any:
    names = ("facts", "entities", "predicates", "confidence")
    return dict(zip(names, numbers, strict=True)) if len(numbers) == len(names) else numbers


_ANY_KIND = (bool, int, float)
_CONVERSIONS: Mapping[str, tuple[str, Callable[[Any], Any], tuple[type, ...]]] = {
    "four numbers": ("a table, or a list: facts, entities, predicates, confidence", _of_measures, (list,)),
    "spread or bfs": ("true: `spread`; false: `bfs`", lambda on: "spread" if on else "bfs", _ANY_KIND),
    "1 less it": ("1 less it: 0.7 is a diversity of 0.3", lambda share: round(1.0 - share, 9), _ANY_KIND),
}


def _seed(value: Any) -> SeedName:
    """A row of `seed_names.toml`: ours, or a table."""
    table = value if isinstance(value, dict) else {"ours": value}
    how, as_ours, kinds = _CONVERSIONS.get(table.get("as", ""), ("", None, _ANY_KIND))
    return SeedName(table.get("ours", ""), table.get("why", ""), how, as_ours, kinds)


_TABLES = tomllib.loads(Path(__file__).with_name("seed_names.toml").read_text(encoding="utf-8"))
GROUPS: Mapping[str, str] = MappingProxyType(_TABLES.pop("groups"))
"""Tables of the united tree that lie elsewhere here (SEMANTICS §6.7); what is in them has our names, or theirs."""
GONE: Mapping[str, str] = MappingProxyType(_TABLES.pop("gone"))
"""Settings that slowwave had (decision 46), each with what there is instead."""
SYSTEMS: Mapping[str, Mapping[str, SeedName]] = MappingProxyType(
    {system: {name: _seed(value) for name, value in names.items()} for system, names in _TABLES.items()}
)
"""All names of each system, by their path in its file."""
SEED_NAMES: Mapping[str, SeedName] = MappingProxyType(
    {name: seed for names in SYSTEMS.values() for name, seed in names.items()}
)


def _spellings() -> Iterator[tuple[str, str]]:
    """Every path by which a name may be written, with the name."""
    for name in SEED_NAMES:
        room, _, rest = name.partition(".")
        yield name, name
        yield f"memory.{name}", name
        if room == "graph" and "." in rest:
            yield rest, name
        if room == "graph" and rest.startswith("spreading_activation."):
            yield f"recall.{rest}", name
        if room in ("limbic", "search"):
            yield f"recall.{name}", name


SPELLINGS: Mapping[str, str] = MappingProxyType(dict(_spellings()))


def translated(values: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a file with every name of another system put where ours is.

    What the file says by our own name goes before what it says by another. Raises `UnusableInput` for a name that has
    no counterpart or that is gone, with the reason, and for two names that say different things about one setting.
    """
    left: dict[str, Any] = {}
    placed: dict[str, tuple[str, Any]] = {}
    for path, value in _walk(values):
        target, converted = _target(path, value)
        if target in GONE:
            raise UnusableInput(f"There is no setting {path} any more: {GONE[target]}.", "Leave it out.")
        if target == path:
            _put(left, path, value)
        else:
            _place(placed, target, path, converted)
    for target, (_, value) in placed.items():
        if _get(left, target) is None:
            _put(left, target, value)
    return left


def paths_in(values: Mapping[str, Any]) -> list[str]:
    """Every path of a file."""
    return [path for path, _ in _walk(values)]


def _walk(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its path; tables without anything in them are values, so that none is lost."""
    for name, value in values.items():
        inside = f"{path}{name}"
        if isinstance(value, Mapping) and value and inside not in SPELLINGS:
            yield from _walk(value, f"{inside}.")
        else:
            yield inside, value


def _target(path: str, value: Any) -> tuple[str, Any]:
    """Where the value belongs and what it is there; where it stands, if the name is ours or nobody's."""
    if path in SPELLINGS:
        seed = SEED_NAMES[SPELLINGS[path]]
        if seed.why:
            raise UnusableInput(f"{path} has no counterpart in slowwave: {seed.why}.", "Leave it out (docs/names.md).")
        return seed.ours, seed.as_ours(value) if seed.as_ours and isinstance(value, seed.kinds) else value
    for group, place in GROUPS.items():
        if path.startswith(f"{group}."):
            return f"{place}{path[len(group) :]}", value
    return path, value


def _place(placed: dict[str, tuple[str, Any]], target: str, path: str, value: Any) -> None:
    """Note what a setting is to be; of the two places for the fading of links the outer one counts (S2-73)."""
    first, _ = placed.setdefault(target, (path, value))
    if placed[target][1] == value:
        return
    if target.startswith("decay.link_weight"):
        placed[target] = min(placed[target], (path, value), key=lambda each: each[0].count("."))
    else:
        raise UnusableInput(f"{first} and {path} say different things about {target}.", "Leave one of them out.")


def _get(values: Mapping[str, Any], path: str) -> Any:
    node: Any = values
    for name in path.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    *tables, last = path.split(".")
    node = values
    for name in tables:
        inner = node.setdefault(name, {})
        if not isinstance(inner, dict):
            raise UnusableInput(f"{name} is a value and a table of settings at once.", "Leave one of them out.")
        node = inner
    node[last] = value
