"""Questions about contradictions: which of two facts holds, and whether a new one revises an old one (S2-59, S2-62).

They are asked before the lease is taken, from a plan made without answers; what is decided under the lease uses the
answers by the ids of the facts, and the rule where there is none (T40).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import polars as pl

from inference.language import Language
from prompts.rendering import render_conflicts, render_revisions
from prompts.responses import ConflictVerdict, ConflictVerdicts, RevisionVerdicts
from slowwave.application.application import ApplicationPlan
from slowwave.application.conflicts import BOTH, NO_VERDICTS, Verdicts
from slowwave.records import ConflictQuestion, RevisionQuestion
from slowwave.settings import IngestSettings, ReviseSettings
from storage.snapshots import Reading

from .application import plan_patches
from .engine import task
from .runs import Run, language_of, store_of

QUESTIONS_PER_CALL = 20

Pair = tuple[str, str]
Doubt = tuple[str, str, float]
P = TypeVar("P")
Told = Mapping[str, Mapping[str, object]]


@task("judge conflicts")
async def judge_conflicts(run: Run, settings: IngestSettings) -> Verdicts:
    """What a model says about the conflicts in the open batches; nothing where rules decide or nobody can be asked.

    At most `calls_per_batch` calls, revisions after conflicts; what is left over is decided by rule.
    """
    language, revise = language_of(run, settings.llm), settings.revise
    if language.is_keyless("judge") or not _asks(revise) or language.budget_reached:
        return NO_VERDICTS
    snapshot = store_of(run).snapshot()
    plan = plan_patches(snapshot, settings, run)
    if plan is None or not (plan.disputes or plan.doubts):
        return NO_VERDICTS
    disputes = plan.disputes if revise.strategy == "llm" else ()
    doubts = plan.doubts if revise.verify_with_llm else ()
    pairs = [*disputes, *((new, known) for new, known, _ in doubts)]
    told = _told(snapshot, plan, [id_ for pair in pairs for id_ in pair])
    groups = _groups(disputes)[: revise.calls_per_batch]
    conflicts, reasons = await _settle(language, groups, told)
    left = _groups(doubts)[: revise.calls_per_batch - len(groups)]
    return Verdicts(conflicts, await _verify(language, left, told), reasons, language.model("judge"))


def _asks(revise: ReviseSettings) -> bool:
    by_model = revise.conflicts and revise.strategy == "llm"
    return revise.calls_per_batch > 0 and (by_model or (revise.belief_revision and revise.verify_with_llm))


def _groups(pairs: Sequence[P]) -> list[Sequence[P]]:
    return [pairs[n : n + QUESTIONS_PER_CALL] for n in range(0, len(pairs), QUESTIONS_PER_CALL)]


def _told(snapshot: Reading, plan: ApplicationPlan, ids: Sequence[str]) -> Told:
    """What a question shows of each fact; those that the plan changes are taken from the plan."""
    columns = ["id", "predicate", "statement", "valid_from", "confidence"]
    rows = pl.concat([plan.facts.select(columns), snapshot.by_ids("facts", ids, columns)])
    return {row["id"]: row for row in rows.filter(pl.col("id").is_in(ids)).unique("id").iter_rows(named=True)}


async def _settle(
    language: Language, groups: Sequence[Sequence[Pair]], told: Told
) -> tuple[dict[Pair, str], dict[Pair, str]]:
    """Of each pair the id of the fact that holds, empty if both can; and the reasons. Indices are checked (T37)."""
    prompts = [render_conflicts(tuple(_conflict(n, pair, told) for n, pair in enumerate(g, 1))) for g in groups]
    answers = await language.ask_many(prompts, ConflictVerdicts, "judge")
    conflicts: dict[Pair, str] = {}
    reasons: dict[Pair, str] = {}
    for group, answer in zip(groups, answers, strict=True):
        for each in answer.value.answers if answer.value is not None else ():
            if 1 <= each.question <= len(group) and each.winner in (None, 0, 1):
                pair = group[each.question - 1]
                conflicts[pair], reasons[pair] = _winner(pair, each), each.reason
    return conflicts, reasons


def _winner(pair: Pair, verdict: ConflictVerdict) -> str:
    """The facts are shown as known, new."""
    new, known = pair
    return BOTH if verdict.winner is None else (known, new)[verdict.winner]


def _conflict(number: int, pair: Pair, told: Told) -> ConflictQuestion:
    new, known = (told[id_] for id_ in pair)
    shown = tuple((row["statement"], row["valid_from"], row["confidence"]) for row in (known, new))
    return ConflictQuestion(number, str(new["predicate"]), shown)  # type: ignore[arg-type]


async def _verify(language: Language, groups: Sequence[Sequence[Doubt]], told: Told) -> dict[Pair, str]:
    """Of each pair whether the new statement contradicts or reinforces the known one, or is unrelated to it."""
    prompts = [render_revisions(tuple(_revision(n, doubt, told) for n, doubt in enumerate(g, 1))) for g in groups]
    answers = await language.ask_many(prompts, RevisionVerdicts, "judge")
    return {
        group[each.question - 1][:2]: each.verdict
        for group, answer in zip(groups, answers, strict=True)
        for each in (answer.value.answers if answer.value is not None else ())
        if 1 <= each.question <= len(group)
    }


def _revision(number: int, doubt: Doubt, told: Told) -> RevisionQuestion:
    new, known, cosine = doubt
    return RevisionQuestion(number, str(told[new]["statement"]), str(told[known]["statement"]), cosine)
