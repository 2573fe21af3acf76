"""Builders for tests of application: what is claimed, and a memory in frames that takes it in without a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from slowwave.common import frames
from slowwave.common.settings import EvaluateSettings, ExtractSettings, ReviseSettings
from slowwave.common.validity import is_live, valid_facts
from slowwave.facts.revision.application import ApplicationPlan, Surroundings, plan_application
from slowwave.facts.revision.candidates import CLAIMS, DIRECTIVES, MESSAGES, Candidates, build_candidates
from slowwave.facts.revision.evaluation import EvaluationPlan, evaluate
from slowwave.facts.revision.repetition import NEIGHBOURS

T0 = datetime(2026, 1, 1, 9, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
NO_PREDICATES = frames.empty(frames.PREDICATES)
TYPES = {
    "anna": "person",
    "ben": "person",
    "carl": "person",
    "acme": "organization",
    "globex": "organization",
    "initech": "organization",
    "oslo": "place",
    "bergen": "place",
    "porto": "place",
    "vim": "tool",
    "neovim": "tool",
}


def day(n: float) -> datetime:
    return T0 + timedelta(days=n)


def claim(
    statement: str, subject: str = "Anna", relation: str = "uses", obj: str | None = None, **more: Any
) -> dict[str, Any]:
    """One claim; `at` is the day of its message, `said` its text, `by` its role, `to` its scope."""
    return {"statement": statement, "subject": subject, "relation": relation, "object": obj, **more}


class Memory:
    """What a store would hold, and the road from claims to facts over it."""

    def __init__(self, now: datetime = NOW, revise: Mapping[str, Any] | None = None, **evaluate: Any) -> None:
        self.now, self.settings = now, EvaluateSettings(**evaluate)
        self.revise = ReviseSettings(**(revise or {}))
        self.predicates = NO_PREDICATES
        self.pairs = frames.empty(frames.PAIR_DECISIONS)
        self.directives = frames.empty(DIRECTIVES)
        self.facts, self.evidence = frames.empty(frames.FACTS), frames.empty(frames.FACT_EVIDENCE)
        self.lineage, self.decisions = frames.empty(frames.LINEAGE), frames.empty(frames.DECISIONS)
        self.aspects = frames.empty(frames.FACT_ASPECTS)
        self.aliases = frames.empty(frames.ALIASES)
        self.messages = frames.conform(pl.DataFrame(), MESSAGES)

    def candidates(self, claims: Sequence[dict[str, Any]]) -> Candidates:
        said = [
            {
                "id": c.get("message", f"m{c.get('at', 0)}/{c.get('said', c['statement'])}"),
                "conversation_id": c.get("conversation", "c"),
                "role": c.get("by", "user"),
                "speaker": c.get("speaker", "Anna"),
                "content": c.get("said", c["statement"]),
                "occurred_at": day(c.get("at", 0)),
                "scope": c.get("to", "global"),
                "content_score": c.get("worth"),
            }
            for c in claims
        ]
        messages = frames.conform(pl.DataFrame(said, infer_schema_length=None), MESSAGES).unique(
            "id", maintain_order=True
        )
        self.messages = pl.concat([self.messages, messages]).unique("id", keep="last")
        rows = [
            {**{k: v for k, v in c.items() if k in CLAIMS}, "window": 0, "message_id": m["id"]}
            for c, m in zip(claims, said, strict=True)
        ]
        frame = frames.conform(
            pl.DataFrame(rows, schema_overrides=dict(CLAIMS), infer_schema_length=None).select(
                [k for k in CLAIMS if any(k in row for row in rows)]
            ),
            CLAIMS,
        )
        return build_candidates(frame, messages, self.names(), self.predicates, ExtractSettings(), self.now)

    def names(self) -> pl.DataFrame:
        rows = [(0, name, f"e_{name}", kind) for name, kind in TYPES.items()]
        return pl.DataFrame(
            rows,
            schema=["window", "canonical_name", "entity_id", "entity_type"],
            orient="row",
            schema_overrides={"window": pl.Int64},
        )

    def entities(self) -> pl.DataFrame:
        rows = self.names().select(
            id="entity_id", canonical_name="canonical_name", name="canonical_name", entity_type="entity_type"
        )
        return frames.conform(rows, frames.ENTITIES)

    def judge(self, candidates: Candidates, **more: Any) -> EvaluationPlan:
        gate = {"content_gate": 0.35, **more}
        return evaluate(candidates.facts, self.messages, candidates.batches, self.settings, **gate)

    def plan(self, candidates: Candidates, cosines: dict[tuple[str, str], float] | None = None) -> ApplicationPlan:
        verdict = self.judge(candidates)
        everyone = dict(pl.concat([candidates.facts, self.facts], how="diagonal").select("statement", "id").iter_rows())
        near = [(everyone[a], everyone[b], cosine) for (a, b), cosine in (cosines or {}).items()]
        around = Surroundings(
            self.facts,
            self.evidence,
            pl.DataFrame(near, schema=NEIGHBOURS, orient="row"),
            self.entities(),
            self.aliases,
            self.predicates,
            self.directives,
            self.pairs,
        )
        return plan_application(
            verdict.passed,
            candidates.directives,
            self.messages,
            verdict.batches,
            around,
            self.settings,
            self.now,
            revise=self.revise,
        )

    def tell(self, *claims: dict[str, Any], cosines: dict[tuple[str, str], float] | None = None) -> ApplicationPlan:
        built = self.candidates(claims)
        plan = self.plan(built, cosines)
        self.keep(plan)
        self.directives = pl.concat([self.directives, built.directives]).unique(maintain_order=True)
        return plan

    def keep(self, plan: ApplicationPlan) -> None:
        for name in ("facts", "evidence", "lineage", "decisions", "aspects", "pairs"):
            merged = pl.concat([getattr(self, name), getattr(plan, name)], how="diagonal")
            setattr(self, name, merged.unique("id", keep="last", maintain_order=True))

    def fact(self, statement: str, at: float | None = None) -> dict[str, Any]:
        rows = self.facts.filter(pl.col("statement") == statement)
        if at is not None:
            rows = rows.filter(pl.col("message_id").str.starts_with(f"m{at}/"))
        return rows.row(0, named=True)

    def live(self) -> list[str]:
        return self.facts.filter(is_live(self.now)).sort("valid_from", "statement")["statement"].to_list()

    def valid(self, n: float) -> list[str]:
        return sorted(valid_facts(self.facts, day(n))["statement"])
