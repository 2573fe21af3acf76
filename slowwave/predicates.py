"""Predicates: the normal form of a relation, the table of canonical forms, how many objects each allows (S2-61)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from slowwave import frames
from slowwave.text import cut_bytes, row_id

MAX_RELATION_BYTES = 256
Cardinality = Literal["1", "n"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A canonical relation: its other forms, and the domain within which one object takes another's place."""

    name: str
    aliases: str = ""
    cardinality: Cardinality = "n"
    domain: str = ""

    @property
    def forms(self) -> tuple[str, ...]:
        """The name and every alias."""
        return (self.name, *self.aliases.split())


DEFAULT: tuple[Predicate, ...] = (
    Predicate("works_at", "employed_by job_at works_for work_at work_for", "1", "work"),
    Predicate("lives_in", "resides_in based_in live_in living_in", "1", "home"),
    Predicate("moved_to", "relocated_to", "n", "home"),
    Predicate("born_in", "birthplace born_at", "1"),
    Predicate("joined", "", "n", "work"),
    Predicate("has_role", "works_as role job_title employed_as", "n", "role"),
    Predicate("married_to", "spouse_of husband_of wife_of", "1", "partner"),
    Predicate("engaged_to", "fiance_of fiancee_of", "1", "partner"),
    Predicate("dating", "partner_of in_relationship_with girlfriend_of boyfriend_of", "n", "partner"),
    Predicate("manages", "manages_team leads supervises manage lead", "n", "responsibility"),
    Predicate("reports_to", "managed_by supervised_by", "n", "responsibility"),
    Predicate("member_of", "is_member_of", "n", "membership"),
    Predicate("owns", "has have possesses own", "n", "use"),
    Predicate("uses", "use using utilizes utilises runs_on", "n", "use"),
    Predicate("prefers", "prefer preferred likes like favors favours", "n", "use"),
    Predicate("replaces", "replaced switched_to switch_to migrated_to", "n", "use"),
    Predicate("drinks", "drink", "n", "use"),
    Predicate("eats", "eat", "n", "use"),
    Predicate("dislikes", "dislike hates hate"),
    Predicate("depends_on", "requires needs depend_on", "n", "use"),
    Predicate("knows", "know met"),
    Predicate("works_on", "working_on work_on", "n", "task"),
    Predicate("studies_at", "studied_at enrolled_at", "n", "study"),
    Predicate("studies", "study studied majors_in", "n", "study"),
    Predicate("decided", "decided_to decided_on chose chooses"),
    Predicate("created", "wrote built made developed"),
    Predicate("fixed", "fixes resolved"),
    Predicate("caused_by", "due_to because_of"),
    Predicate("contains", "contiene"),
    Predicate("part_of", "parte_de", "1"),
    Predicate("similar_to"),
)
_TABLE = pl.DataFrame(
    [(form, p.name, p.cardinality, "default") for p in DEFAULT for form in p.forms],
    schema=["alias", "canonical", "cardinality", "source"],
    orient="row",
)
_DOMAINS: Mapping[str, str] = {p.name: p.domain for p in DEFAULT if p.domain}
_CANONICAL: Mapping[str, str] = {form: p.name for p in DEFAULT for form in p.forms}
_DENIAL = re.compile(r"^(?:(?:does|do|did|is|was|has)_not|not|no_longer|stopped)_")
_RANK = {"file": 0, "default": 1, "llm": 2}


def normal_form(raw: str) -> pl.Expr:
    """Column `raw` in snake case: NFKC, lower, letters and digits joined by `_`, at most 256 bytes (S2-12)."""
    joined = (
        pl.col(raw)
        .str.normalize("NFKC")
        .str.replace_all(r"(\p{Ll})(\p{Lu})", "${1}_${2}")
        .str.to_lowercase()
        .str.replace_all(r"['’]", "")
        .str.replace_all(r"[^\p{L}\p{M}\p{N}]+", "_")
        .str.strip_chars("_")
    )
    cut = joined.map_elements(lambda form: cut_bytes(form, MAX_RELATION_BYTES), return_dtype=pl.String)
    return pl.when(joined.str.len_bytes() > MAX_RELATION_BYTES).then(cut).otherwise(joined)


def canonicalise(raw: pl.Series, learned: pl.DataFrame) -> pl.DataFrame:
    """Distinct relations as (raw, canonical, cardinality, source); unknown ones stay as they are, n, source `raw`.

    `learned` holds rows of the `predicates` table; a row from a file outranks the default table, a model's does not.
    """
    said = pl.DataFrame({"raw": raw.cast(pl.String).unique(maintain_order=True).drop_nulls()})
    said = said.with_columns(alias=normal_form("raw"))
    return (
        said.join(_table(learned), on="alias", how="left", maintain_order="left")
        .with_columns(
            canonical=pl.coalesce("canonical", "alias"),
            cardinality=pl.col("cardinality").fill_null("n"),
            source=pl.col("source").fill_null("raw"),
        )
        .select("raw", "canonical", "cardinality", "source")
    )


def unmapped(canonical: pl.DataFrame) -> list[str]:
    """The canonical forms that no table knows, in order: what a model may be asked about (S2-61)."""
    return canonical.filter(pl.col("source") == "raw")["canonical"].unique(maintain_order=True).to_list()


def learned_rows(answers: Mapping[str, tuple[str, Cardinality]]) -> pl.DataFrame:
    """Rows of `predicates` for a model's answers, alias to canonical form, so that nobody asks again (S2-61)."""
    rows = [
        {"id": row_id("pr", alias), "alias": alias, "canonical": name, "cardinality": cardinality, "source": "llm"}
        for alias, (name, cardinality) in answers.items()
    ]
    return frames.conform(pl.DataFrame(rows), frames.PREDICATES) if rows else frames.empty(frames.PREDICATES)


def domain_of(canonical: str) -> str:
    """The domain in which facts of this predicate or its denial succeed each other; empty for events, unknown ones."""
    affirmed = _DENIAL.sub("", canonical)
    return _DOMAINS.get(_CANONICAL.get(affirmed, affirmed), "")


def _table(learned: pl.DataFrame) -> pl.DataFrame:
    """One row per alias: file over default over model."""
    columns = ["alias", "canonical", "cardinality", "source"]
    known = pl.concat([frames.conform(learned, frames.PREDICATES).select(columns), _TABLE])
    return known.sort(
        pl.col("source").replace_strict(_RANK, default=3, return_dtype=pl.Int8), maintain_order=True
    ).unique("alias", keep="first", maintain_order=True)
