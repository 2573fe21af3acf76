"""Asking: questions to a model about facts that may say the same, and its answers (S1-05, S1-08, S1-14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from inference.language import Language
from prompts.rendering import render_consolidation
from prompts.responses import ClusterVerdict, Consolidation
from slowwave.merging.questions import plan_clusters, plan_pairs
from slowwave.merging.verdicts import Cluster, Judged, Verdict, check_verdicts
from slowwave.settings import MergeSettings

from .comparison import View, resolve_of
from .engine import report_progress
from .runs import Run

MAX_ROUNDS = 50
PROMPT = "consolidate_facts"

Questions = Callable[[Sequence[Judged]], tuple[Cluster, ...]]


@dataclass(slots=True)
class Asked:
    """What became of all questions, those among them that were not asked for want of budget."""

    judged: list[Judged] = field(default_factory=list)
    errors: set[str] = field(default_factory=set)

    @property
    def left(self) -> frozenset[str]:
        """Facts of questions that nobody was asked."""
        unasked = [each for each in self.judged if each.verdict is None and not each.error]
        return frozenset(fact for each in unasked for fact in each.cluster.ids())


def rounds(view: View, settings: MergeSettings, run: Run, *, by_pairs: bool) -> Questions:
    """What is to be asked next, given what was answered so far: pair after pair, or all clusters at once (S1-14)."""
    resolve = resolve_of(run, settings)
    if by_pairs:
        return lambda judged: plan_pairs(view.pool, view.merges, settings, judged, resolve)
    return lambda judged: () if judged else plan_clusters(view.pool, view.merges, view.vectors, settings, resolve)


async def judge(language: Language, ask: Questions, view: View, settings: MergeSettings) -> Asked:
    """The model's verdicts, several clusters to a call; one that cannot be used is asked for once more, alone."""
    asked = Asked()
    for number in range(MAX_ROUNDS):
        clusters = ask(asked.judged)
        if not clusters or language.budget_reached:
            asked.judged += [Judged(cluster) for cluster in clusters]
            return asked
        earlier = _earlier_failures(clusters, view)
        first = await _verdicts(language, clusters, settings.per_call, view, asked, earlier)
        wrong = {each.cluster: each.error for each in first if each.error}
        notes = {each.number: f"{earlier.get(each.number, '')} {error}".strip() for each, error in wrong.items()}
        again = {each.cluster.ids(): each for each in await _verdicts(language, list(wrong), 1, view, asked, notes)}
        asked.judged += [again.get(each.cluster.ids(), each) for each in first]
        await report_progress("rounds of questions", number + 1)
    return asked


def _earlier_failures(clusters: Sequence[Cluster], view: View) -> dict[int, str]:
    """Of clusters that an earlier run asked about in vain, how often: the ledger must not give that answer again."""
    tried = view.pool.facts.filter(pl.col("consolidation_attempts") > 0).select("id", "consolidation_attempts")
    times = dict(tried.iter_rows())
    most = {cluster.number: max(times.get(fact, 0) for fact in cluster.ids()) for cluster in clusters}
    return {number: f"it was asked {count} times in vain." for number, count in most.items() if count}


async def _verdicts(
    language: Language,
    clusters: Sequence[Cluster],
    per_call: int,
    view: View,
    asked: Asked,
    notes: Mapping[int, str],
) -> list[Judged]:
    """What was answered about each cluster, in their order; `notes` tell the model what was wrong before."""
    groups = [tuple(clusters[start : start + per_call]) for start in range(0, len(clusters), per_call)]
    prompts = [
        render_consolidation(group, {each.number: notes[each.number] for each in group if each.number in notes})
        for group in groups
    ]
    answers = await language.ask_many(prompts, Consolidation, "consolidate") if prompts else []
    told: list[Judged] = []
    for group, answer in zip(groups, answers, strict=True):
        asked.errors |= {answer.error} if answer.error else set()
        said = {each.cluster: each for each in answer.value.verdicts} if answer.value else {}
        silence = "" if answer.is_unheard else answer.error or "The model gave no verdict about it."
        told += [
            Judged(cluster, _verdict(said[cluster.number]))
            if cluster.number in said
            else Judged(cluster, None, silence)
            for cluster in group
        ]
    usable = [(each.cluster, each.verdict) for each in told if each.verdict is not None]
    wrong = iter(check_verdicts(usable, view.pool.facts))
    return [each if each.verdict is None else _checked(each, next(wrong)) for each in told]


def _verdict(said: ClusterVerdict) -> Verdict:
    return Verdict(said.cluster, said.outcome, said.survivor, tuple(said.absorbed), said.reworded or None, said.reason)


def _checked(judged: Judged, wrong: str) -> Judged:
    return Judged(judged.cluster, None, wrong) if wrong else judged
