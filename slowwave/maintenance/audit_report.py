"""What an audit tells: findings with their rates, as a table, as JSON or as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import polars as pl

from slowwave.similarity import Vectors


@dataclass(frozen=True, slots=True)
class Example:
    """Where something was found, and what it says, without secrets."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """How many of `total` things (`of` says which) have a fault, and the first of them; `kinds` parts the count."""

    name: str
    title: str
    count: int
    total: int
    of: str
    examples: tuple[Example, ...] = ()
    kinds: Mapping[str, int] | None = None

    @property
    def rate(self) -> float:
        """The share, 0 to 1; 0 where there is nothing."""
        return self.count / self.total if self.total else 0.0

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data, its rate included."""
        own = asdict(self)
        return {**own, "rate": round(self.rate, 4), "examples": list(own["examples"]), "kinds": dict(self.kinds or {})}


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything that was found about an export."""

    path: str
    system: str
    items: int
    entities: int
    stale_days: int
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        """What was looked at."""
        return f"{self.path}: {self.items} items about {self.entities} entities, an export of {self.system}"

    def as_json(self) -> dict[str, Any]:
        """The contract of `audit --json`."""
        head = {name: getattr(self, name) for name in ("path", "system", "items", "entities", "stale_days")}
        return {**head, "findings": {each.name: each.as_json() for each in self.findings}}

    def as_markdown(self) -> str:
        """The report as Markdown: a table, then the examples."""
        rows = [f"| {f.title} | {f.count} | {f.rate:.1%} | {f.total} {f.of} |" for f in self.findings]
        lines = ["# Audit of a memory", "", _escaped(self.title), "", "| finding | count | rate | of |"]
        lines += ["|---|---:|---:|---|", *rows, ""]
        for each in self.findings:
            if each.examples:
                lines += [f"## {each.title}", ""]
                lines += [f"- {_escaped(e.place)}: {_escaped(e.text)}" for e in each.examples] + [""]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Claims with what all checks need of them, and how many examples of each fault to show."""

    rows: pl.DataFrame
    vectors: Vectors
    now: datetime
    examples: int

    def finding(
        self, name: str, title: str, found: pl.Series, of: str, total: int, notes: Sequence[str] = (), **more: Any
    ) -> Finding:
        """What is wrong with the rows of these numbers; `notes` say more about each of the first."""
        shown = self.rows[found.head(self.examples)]
        texts = shown["shown"].to_list()
        told = [f"{text} ({note})" if note else text for text, note in _beside(texts, notes)]
        places = [Example(place, text) for place, text in zip(shown["place"], told, strict=True)]
        return Finding(name, title, len(found), total, of, tuple(places), **more)


def _beside(texts: Sequence[str], notes: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(texts, [*notes, *[""] * len(texts)][: len(texts)], strict=True))


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
