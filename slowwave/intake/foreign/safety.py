"""An export as it may be stored: without secrets in any text, and without names that are secrets or orders (T39)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import polars as pl

from slowwave.intake.cleaning import hidden_names
from slowwave.intake.foreign.records import Foreign, Skipped
from slowwave.intake.injection import injection_reasons
from slowwave.intake.redaction import redact_all

_TEXTS = (("entities", "summary"), ("claims", "statement"), ("claims", "search_terms"), ("episodes", "text"))
_KEYS = ("key", "group")
_SECRET = "its name holds what looks like a secret"
_ORDER = "its name tries to give its reader orders"


@dataclass(frozen=True, slots=True, eq=False)
class Safe:
    """The export that may be stored, and in how many texts something was taken out."""

    content: Foreign
    redacted: int


def without_secrets(foreign: Foreign) -> Safe:
    """Secrets are taken out of texts and keys; what is called by a secret or an order is left out and listed."""
    parts = {"entities": foreign.entities, "claims": foreign.claims, "episodes": foreign.episodes}
    redacted = 0
    for part, column in _TEXTS:
        clean, kinds = redact_all(parts[part][column])
        redacted += int((kinds.list.len() > 0).sum())
        parts[part] = parts[part].with_columns(clean.alias(column))
    for part in ("claims", "episodes"):
        parts[part] = parts[part].with_columns(_hidden(parts[part][column]) for column in _KEYS)
    is_order = injection_reasons(parts["claims"]["search_terms"]).is_not_null()
    terms = pl.when(~is_order).then("search_terms").alias("search_terms")
    parts["claims"] = parts["claims"].with_columns(terms)  # the fact itself is judged by what it says
    names = [parts["entities"]["name"], parts["claims"]["subject"], parts["claims"]["object"]]
    wrong = _wrong_names(pl.concat(names).drop_nulls().unique())
    ends = {"entities": ["name"], "claims": ["subject", "object"]}
    skipped = [each for part, columns in ends.items() for each in _skipped(parts[part], columns, wrong)]
    for part, columns in ends.items():
        parts[part] = parts[part].filter(~_is_called(columns, wrong))
    entities = parts["entities"].with_columns(_without(parts["entities"]["aliases"], wrong))
    content = replace(
        foreign, entities=entities, claims=parts["claims"], episodes=parts["episodes"],
        skipped=(*foreign.skipped, *skipped),
    )  # fmt: skip
    return Safe(content, redacted)


def _hidden(values: pl.Series) -> pl.Series:
    return values.replace(hidden_names(values.drop_nulls().unique().to_list()))


def _wrong_names(names: pl.Series) -> dict[str, str]:
    """Why each of these names is none that may be stored; only those that are not."""
    orders = names.filter(injection_reasons(names).is_not_null())
    return dict.fromkeys(orders, _ORDER) | dict.fromkeys(hidden_names(names.to_list()), _SECRET)


def _is_called(columns: Collection[str], wrong: Mapping[str, str]) -> pl.Expr:
    return pl.any_horizontal(pl.col(column).is_in(list(wrong)).fill_null(False) for column in columns)


def _skipped(rows: pl.DataFrame, columns: Collection[str], wrong: Mapping[str, str]) -> list[Skipped]:
    named = rows.filter(_is_called(columns, wrong)).select("place", *columns)
    return [Skipped(place, next(wrong[name] for name in names if name in wrong)) for place, *names in named.iter_rows()]


def _without(aliases: pl.Series, wrong: Mapping[str, str]) -> pl.Series:
    """The aliases without secrets; nobody is found under one."""
    known = aliases.explode().drop_nulls().unique()
    bad = {*wrong, *_wrong_names(known)}
    return aliases.list.eval(pl.element().filter(~pl.element().is_in(list(bad)))) if bad else aliases
