"""Audit: how good another memory is, by the rules of this one; nothing is changed or stored."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from slowwave.comparison.similarity import Vectors
from slowwave.filters.durability import prose_of, refusal_of, without_question
from slowwave.filters.injection import injection_reasons
from slowwave.filters.noise import ContentScorer, plan_gates
from slowwave.filters.redaction import redact_all
from slowwave.foreign.audit_pairs import Audit, AuditFinding, Example, Items, compare
from slowwave.foreign.records import Foreign
from slowwave.settings import EvaluateSettings, MergeSettings, NoiseSettings
from slowwave.text import normalise_name, statement_hash

EXAMPLE_CHARS = 160
_ALONE = ("too short to tell anything",)  # an item stands beside what it is about
_GATES = ("pre_filter", "length", "content")


def audit(
    foreign: Foreign,
    vectors: Vectors,
    scorer: ContentScorer | None,
    now: datetime,
    path: str = "",
    *,
    stale_days: int = 365,
    examples: int = 3,
    resolve: float = 0.6,
    merge: MergeSettings | None = None,
    evaluate: EvaluateSettings | None = None,
    noise: NoiseSettings | None = None,
) -> Audit:
    """Look at everything that an export holds; `vectors` are unit rows of its claims, zero where there is none.

    `resolve` is the cosine from which two statements may be about one matter. Counts are of items, and of pairs the
    later item counts, so that no rate is above 1.
    """
    items = Items(_with_marks(foreign, now), vectors, now, examples)
    merge, evaluate = merge or MergeSettings(), evaluate or EvaluateSettings()
    exact, near, opposed = compare(items, foreign, merge, evaluate, resolve)
    findings = (
        exact,
        near,
        opposed,
        _stale(items, stale_days),
        _over(items),
        *_orphans(items, foreign),
        _secrets(items),
        _orders(items),
        _dull(items, scorer, noise or NoiseSettings()),
        _broken(items, foreign),
    )
    entities = pl.concat([foreign.entities["name"], foreign.claims["subject"], foreign.claims["object"]])
    named = [normalise_name(name) for name in entities.drop_nulls().unique()]
    return Audit(path, foreign.format, len(items.rows), len(set(named)), stale_days, findings)


def _with_marks(foreign: Foreign, now: datetime) -> pl.DataFrame:
    """The claims numbered by row, with the subject in normal form, what may be shown, and whether they hold."""
    names = {name: normalise_name(name) for name in foreign.claims["subject"].unique()}
    clean, kinds = redact_all(foreign.claims["statement"])
    hashes = {text: statement_hash(text) for text in foreign.claims["statement"].unique()}
    return foreign.claims.with_row_index("row").with_columns(
        about=pl.col("subject").replace_strict(names, default="", return_dtype=pl.String),
        shown=clean.str.slice(0, EXAMPLE_CHARS),
        has_secret=kinds.list.len() > 0,
        words=pl.col("statement").replace_strict(hashes, default="", return_dtype=pl.String),
        target=pl.col("object").fill_null("").str.to_lowercase(),
        holds=(pl.col("valid_to") > now).fill_null(True),
    )


def _stale(items: Items, days: int) -> AuditFinding:
    timed = items.rows.filter("holds").with_columns(at=pl.coalesce("stated_at", "valid_from")).drop_nulls("at")
    old = timed.filter(pl.col("at") < items.now - timedelta(days=days)).sort("at", "row")
    notes = [f"{at:%Y-%m-%d}" for at in old["at"].head(items.examples)]
    title = f"Last told more than {days} days ago"
    return items.finding("stale", title, old["row"], "items that hold and have a time", len(timed), notes)


def _over(items: Items) -> AuditFinding:
    """Items that are over and stand in the export beside what holds."""
    over = items.rows.filter(~pl.col("holds"))
    notes = [f"until {at:%Y-%m-%d}" for at in over["valid_to"].head(items.examples)]
    return items.finding("over", "Over, and still listed", over["row"], "items", len(items.rows), notes)


def _orphans(items: Items, foreign: Foreign) -> tuple[AuditFinding, AuditFinding]:
    """Entities without a statement, and relations with an end that is not listed."""
    forms = {name: normalise_name(name) for name in foreign.entities["name"].unique()}
    form = pl.col("name").replace_strict(forms, default="", return_dtype=pl.String)
    listed = foreign.entities.with_columns(form=form, shown=redact_all(foreign.entities["name"])[0])
    ends = pl.concat([items.rows["subject"], items.rows["object"]]).drop_nulls().unique()
    mentioned = {normalise_name(name) for name in ends}
    alone = listed.filter(~pl.col("form").is_in(list(mentioned))).unique("form", keep="first", maintain_order=True)
    shown = [Example(place, name) for place, name in alone.select("place", "shown").head(items.examples).iter_rows()]
    total = listed["form"].n_unique()
    lost = [Example(each.place, each.reason) for each in foreign.skipped if each.loss == "endless"]
    related = items.rows.filter(pl.col("kind") == "relation")
    if foreign.lists_entities:
        lost += _unlisted(related, {*forms.values()})
    entities = AuditFinding(
        "orphan_entities", "Entities without a statement", len(alone), total, "entities listed", tuple(shown)
    )
    count = len(related) + sum(each.loss == "endless" for each in foreign.skipped)
    relations = AuditFinding(
        "lost_ends",
        "Relations of which an end is missing",
        len(lost),
        count,
        "relations",
        tuple(lost[: items.examples]),
    )
    return entities, relations


def _unlisted(related: pl.DataFrame, listed: set[str]) -> list[Example]:
    rows = related.select("place", "shown", "subject", "object").iter_rows()
    return [
        Example(place, text)
        for place, text, *ends in rows
        if any(end is not None and normalise_name(end) not in listed for end in ends)
    ]


def _secrets(items: Items) -> AuditFinding:
    found = items.rows.filter("has_secret")["row"]
    return items.finding("secrets", "Holds what looks like a secret", found, "items", len(items.rows))


def _orders(items: Items) -> AuditFinding:
    reasons = injection_reasons(items.rows["statement"])
    found = items.rows.with_columns(reason=reasons).drop_nulls("reason")
    return items.finding("orders", "Tries to give its reader orders", found["row"], "items", len(items.rows))


def _dull(items: Items, scorer: ContentScorer | None, settings: NoiseSettings) -> AuditFinding:
    """Items that the rules of durability and the gates of noise refuse; only assistants by score (S0-27, S4-16)."""
    rows = items.rows.select(
        "place", "statement", id=pl.col("row").cast(pl.String), conversation_id=pl.col("row").cast(pl.String),
        ordinal=pl.lit(0, dtype=pl.Int64), role=pl.col("role").fill_null("user"), speaker="subject",
        content="statement", occurred_at="stated_at", scope=pl.lit("global"), has_injection=pl.lit(False),
    )  # fmt: skip
    alone = settings.model_copy(update={"exchange_window": 0})
    gated = plan_gates(rows, items.vectors, items.vectors[:0], rows.clear(), scorer, alone)
    texts = {text: _durability(text) for text in rows["statement"].unique()}
    own = rows["statement"].replace_strict(texts, default="", return_dtype=pl.String)
    reason = pl.when(pl.col("gate").is_in(_GATES)).then("reason").when(own != "").then(own)
    found = gated.with_row_index("row").with_columns(why=reason).drop_nulls("why")
    title = "Nothing that will matter later"
    notes = found["why"].head(items.examples).to_list()
    return items.finding("noise", title, found["row"], "items", len(items.rows), notes)


def _durability(statement: str) -> str:
    """Why a statement is not worth keeping; empty where it is."""
    prose = prose_of(statement, "user")
    if prose.refused:
        return prose.refused
    text = without_question(prose.text)
    reason = refusal_of(text) if text else "question"
    return "" if reason in _ALONE else reason


def _broken(items: Items, foreign: Foreign) -> AuditFinding:
    broken = [Example(each.place, each.reason) for each in foreign.skipped if each.loss == "broken"]
    total = len(items.rows) + len(broken)
    return AuditFinding("broken", "Cannot be read", len(broken), total, "items found", tuple(broken[: items.examples]))
