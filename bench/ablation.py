"""What each family of rules brings: all of the keyless memory is measured with one family after the other switched off.

A family is replaced in the modules that use it, or switched off by a setting. Those that act at ingest need stores of
their own, the others ask those of the whole memory. Measured are the evidence among ten messages and in a block of
3,000 characters. The interval is that of the mean difference by question, from a paired bootstrap.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from recall.context import MOST_FACTS
from slowwave.common.settings import RecallSettings
from slowwave.common.words import _stems_of_short
from slowwave.integrations.python_api import OpenMemory
from slowwave.reading.filters.noise import _early_gates

from . import data, languages
from .figures import Figure, Options
from .guards import judged, sick
from .ingest import ingest_files
from .languages import block_of, named_in
from .metrics import evidence_recall, named_messages

CHARACTERS = 3000
RESAMPLED, SEED = 2000, 7


@dataclass(frozen=True)
class Family:
    """Rules that are switched off together: attributes (`module:name`) with what takes their place, and settings.

    `rows`: the rows of the specification that it serves. `at_ingest`: it acts before anything is asked.
    """

    name: str
    off: Mapping[str, Any] = field(default_factory=dict)
    recall: Mapping[str, Any] = field(default_factory=dict)
    rows: str = ""
    at_ingest: bool = False
    counted: tuple[str, ...] = ()
    """Further functions and tables (`module:name`) that only it uses."""

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        """Inside, nothing of the family acts."""
        with ExitStack() as stack:
            for place, instead in self.off.items():
                module, name = place.split(":")
                stack.enter_context(patch.object(import_module(module), name, instead))
            yield

    @property
    def lines(self) -> int:
        """Lines of the functions that are replaced, and of what only they use."""
        return sum(_lines(place) for place in {*self.off, *self.counted})


def _lines(place: str) -> int:
    name, _, part = place.partition(":")
    module = import_module(name)
    value = getattr(module, part) if part else module
    try:
        return len(inspect.getsource(value).splitlines())
    except (TypeError, OSError):
        return 0


def _nothing(value: Any) -> Callable[..., Any]:
    return lambda *given, **named: value


def _same(first: Any, *rest: Any, **named: Any) -> Any:
    return first


def _gates_that_stay_open(settings: Any) -> list[pl.Expr]:
    return [pl.when(pl.lit(False)).then(gate) for gate in _early_gates(settings)]


DURABILITY = "slowwave.reading.filters.durability"
QUOTES, NOISE = "slowwave.reading.extraction.quotes", "slowwave.reading.filters.noise"
FAMILIES = (
    Family("durability", {f"{DURABILITY}:refusal_of": _nothing("")}, rows="S0-27", at_ingest=True),
    Family("durability: small talk", {f"{DURABILITY}:_SMALL_TALK": re.compile("(?!)")}, rows="S0-27", at_ingest=True),
    Family("the question in a sentence", {f"{DURABILITY}:without_question": _same}, at_ingest=True),
    Family(
        "gates before words (role, length, phrases)",
        {f"{NOISE}:_early_gates": _gates_that_stay_open},
        rows="S4-12 to S4-18",
        at_ingest=True,
    ),
    Family("neighbouring sentences together", {f"{QUOTES}:JOIN_CHARS": 0}, at_ingest=True),
    Family("sentences about somebody before", {f"{QUOTES}:_leans": _nothing(False)}, at_ingest=True),
    Family("words of time", {f"{QUOTES}:find_hint": _nothing("")}, rows="S2-15", at_ingest=True),
    Family(
        "names in sentences", {"slowwave.reading.extraction.names:spot": _nothing([])}, rows="S2-02", at_ingest=True
    ),
    Family(
        "times in questions",
        {"recall.recaller:period_of": _nothing(None)},
        counted=("slowwave.reading.extraction.question_times",),
    ),
    Family("people of a question", recall={"others_weight": 1.0}),
    Family("general words", {"recall.search:_by_terms": None}),
    Family("neighbour messages", recall={"neighbours": 0.0}),
    Family("diversity", recall={"diversity": 0.0}, rows="S2-3x"),
    Family("walks", recall={"graph": "none"}, rows="S2-26 to S2-38"),
    Family("use of entities", recall={"limbic": False}, rows="S0-26"),
    Family(
        "question words of other languages",
        {"recall.search:without_asking": _same, "slowwave.common.words:without_asking": _same},
    ),
    Family("spread over messages", {"recall.order:SPREAD": 0.0}),
    Family("shared words of quotations", {"recall.search:QUOTED": 1.0}),
    Family("shared words of facts", {"recall.order:OVERLAP_WEIGHT": 0.0}),
    Family("people and walks", recall={"others_weight": 1.0, "graph": "none"}),
    Family("neighbours and joined sentences", {f"{QUOTES}:JOIN_CHARS": 0}, {"neighbours": 0.0}, at_ingest=True),
)


async def _no_terms(*given: Any) -> list[str]:
    return []


Score = tuple[str, str]
"""(corpus, measure)"""


def run(options: Options) -> Iterable[Figure]:
    """The loss of each family by corpus and measure, with its interval, and SICK's contradictions that would merge."""
    whole = _measure(options, Family("whole"), options.place / "whole")
    for corpus, measure in whole:
        yield Figure("ablation", f"whole: {corpus}, {measure}", float(np.mean(whole[corpus, measure])))
    for family in FAMILIES:
        place = options.place / (family.name.replace(" ", "-") if family.at_ingest else "whole")
        found = _measure(options, family, place)
        for key, values in found.items():
            gain, low, high = _interval(np.asarray(whole[key]) - np.asarray(values))
            corpus, measure = key
            note = f"[{low:+.3f}, {high:+.3f}] {family.lines} lines {family.rows}".rstrip()
            yield Figure("ablation", f"{family.name}: {corpus}, {measure}", gain, note=note)
    yield from _merged(options)


def _measure(options: Options, family: Family, place: Path) -> dict[Score, list[float]]:
    """The two measures of each question, by corpus."""
    found: dict[Score, list[float]] = {}
    off = {name: _no_terms if instead is None else instead for name, instead in family.off.items()}
    settings = RecallSettings.model_validate(dict(family.recall))
    with Family(family.name, off).switched_off():
        for corpus, paths, questions, now in _corpora(options):
            store = place / corpus.replace(" ", "-")
            if not store.exists():
                ingest_files(paths, str(store), now=now)
            _stems_of_short.cache_clear()
            with OpenMemory.open(str(store), settings=settings, is_logged=False) as memory:
                for question, evidence in questions:
                    recalled = memory.recall(question, MOST_FACTS, now=now)
                    block = named_in(block_of(recalled, CHARACTERS))
                    group = corpus.partition(" ")[0]
                    ten = evidence_recall(named_messages(recalled.facts), evidence, 10)
                    found.setdefault((group, "R@10"), []).append(ten)
                    found.setdefault((group, "block"), []).append(evidence_recall(block, evidence, len(block)))
    return found


Questions = list[tuple[str, tuple[str, ...]]]


def _corpora(options: Options) -> Iterator[tuple[str, list[str], Questions, datetime | None]]:
    """(name, files, questions with their evidence, the time that counts as now)."""
    for group, talks in (("LoCoMo", data.locomo(options.data)), ("BEAM", data.beam(options.data))):
        for talk in talks:
            file = data.write_messages(options.place / f"{group}-{talk.name}.jsonl", talk.messages)
            yield f"{group} {talk.name}", [str(file)], [(q.text, q.evidence) for q in talk.questions], None
    examples = Path(__file__).resolve().parents[1] / "examples"
    folders = [str(examples / name) for name in ("conversations", "documents", "formats")]
    yield "examples", folders, [(q.text, q.evidence) for q in data.examples(examples)], None
    for language in languages.LANGUAGES:
        asked: Questions = [(q.question, q.evidence) for q in languages.questions_of(language) if q.evidence]
        yield f"languages {language}", [str(languages.FOLDER / f"{language}.jsonl")], asked, languages.NOW


def _interval(differences: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float, float]:
    """The mean with the 2.5 % and 97.5 % quantiles of its bootstrap."""
    draws = np.random.default_rng(SEED).integers(0, len(differences), (RESAMPLED, len(differences)))
    low, high = np.quantile(differences[draws].mean(axis=1), [0.025, 0.975])
    return float(differences.mean()), float(low), float(high)


def _merged(options: Options) -> Iterator[Figure]:
    """Of SICK's contradictions and of its near-paraphrases the shares that each guard alone keeps apart."""
    pairs = judged(sick(options.data))
    for label in ("CONTRADICTION", "ENTAILMENT"):
        some = pairs.filter(pl.col("label") == label)
        counts = some["failed_guard"].drop_nulls().value_counts(sort=True)
        for guard, count in counts.iter_rows():
            yield Figure("ablation", f"guard {guard}: {label.lower()} pairs kept apart", count / len(some))
