"""Consolidation: planted repetitions and contradictions in a large store, and recall before and after on real talk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

import polars as pl

from flows.maintenance import consolidate
from inference.embedding import open_embedder
from slowwave.common.settings import ConsolidateSettings
from slowwave.common.text import statement_hash
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store

from . import data, paraphrases, synthetic
from .big_store import write_store
from .figures import Absent, Figure, Options, in_fresh_process, measured, peak_memory_mib
from .ingest import ingest_files
from .metrics import evidence_recall, mean, named_messages

SEED = 23
FACTS, QUICK = 100_000, 10_000
REPEATED, CONTRADICTED = 0.20, 0.05
REPEATS_PER_CLUSTER = 2
SEMHASH_THRESHOLD = 0.90  # its default
DEEP = 60
LIVE = "status = 'active' AND expired_at IS NULL AND valid_to IS NULL"


@dataclass(frozen=True, slots=True)
class Planted:
    """A store with what was planted in it: for each repetition its kind and cluster, by statement."""

    texts: tuple[synthetic.FactText, ...]
    cluster: Mapping[str, int]
    kind: Mapping[str, str]
    contradictions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Consolidated:
    """One run over the store in a process of its own."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    counts: Mapping[str, int]
    again_s: float
    again: Mapping[str, int]


def run(options: Options) -> Iterable[Figure]:
    """The planted store, beside SemHash on the same vectors; then LoCoMo with everything said twice."""
    planted = plant(QUICK if options.is_quick else FACTS, SEED)
    uri = str(options.place / "planted")
    write_store(uri, planted.texts, SEED)
    done = in_fresh_process(_consolidated, uri)
    yield from _cost(planted, done)
    merged = _merged(uri)
    yield from _quality("slowwave", planted, merged)
    yield from _semhash(planted, uri)
    try:
        yield from _locomo(options)
    except Absent as reason:
        yield Figure("consolidation", "LoCoMo", float("nan"), note=f"skipped: {reason}")


def plant(count: int, seed: int) -> Planted:
    """So many facts of distinct statements: a fifth repeat another one, a twentieth contradict one."""
    random = Random(seed)
    unique = _unique(seed)
    base = [next(unique) for _ in range(round(count * (1 - REPEATED * 2 / 3 - CONTRADICTED)))]
    clusters, kinds, texts = {}, {}, list(base)
    wanted = count - len(base) - round(count * CONTRADICTED)
    seen = {fact.statement for fact in base}
    for number, fact in enumerate(random.sample(base, len(base))):
        if wanted <= 0:
            break
        for kind, again in list(_repetitions(fact.statement, random))[:REPEATS_PER_CLUSTER]:
            if again not in seen and wanted > 0:
                seen.add(again)
                texts.append(replace(fact, statement=again))
                clusters[fact.statement] = clusters[again] = number
                kinds[again] = kind
                wanted -= 1
    contradictions: set[str] = set()
    for fact in random.sample(base, len(base)):
        if len(contradictions) >= round(count * CONTRADICTED):
            break
        other = paraphrases.renumbered(fact.statement, random) or paraphrases.denied(fact.statement)
        if other and other not in seen:
            seen.add(other)
            contradictions.add(other)
            texts.append(replace(fact, statement=other))
    random.shuffle(texts)
    return Planted(tuple(texts), clusters, kinds, frozenset(contradictions))


def _unique(seed: int) -> Iterator[synthetic.FactText]:
    seen: set[str] = set()
    for fact in synthetic.facts(10**9, seed):
        if fact.statement not in seen:
            seen.add(fact.statement)
            yield fact


def _repetitions(statement: str, random: Random) -> Iterator[tuple[str, str]]:
    """Ways in which one statement is heard again."""
    ways = [("respelt", paraphrases.respelt), ("framed", paraphrases.framed)]
    for name, way in random.sample(ways, len(ways)):
        yield name, way(statement, random)


def _consolidated(uri: str) -> Consolidated:
    settings = ConsolidateSettings.model_validate({"llm": {"model": "quotes"}, "artifacts": {"enabled": False}})
    with measured() as first:
        summary = asyncio.run(consolidate(store=uri, settings=settings))
    peak = peak_memory_mib()
    with measured() as second:
        again = asyncio.run(consolidate(store=uri, settings=settings))
    return Consolidated(first.wall_s, first.cpu_s, peak, summary["counts"], second.wall_s, again["counts"])


def _cost(planted: Planted, done: Consolidated) -> Iterator[Figure]:
    size = f"{len(planted.texts):,} facts"
    yield Figure("consolidation", "whole flow", done.wall_s, "s", note=f"{size}, {done.cpu_s:.0f} s of processor time")
    yield Figure("consolidation", "facts per second", len(planted.texts) / done.wall_s, "/s")
    yield Figure("consolidation", "peak memory", done.peak_mib, "MiB", bar=4096.0, better="lower")
    yield Figure("consolidation", "second run", done.again_s, "s", note=f"changed: {dict(done.again) or 'nothing'}")
    clusters = len(set(planted.cluster.values()))
    per_call = ConsolidateSettings().per_call
    pending = done.counts.get("pairs left undecided", 0)
    yield Figure("consolidation", "model calls per planted cluster", 0.0, note="keyless: rules decide")
    yield Figure(
        "consolidation", "calls a model would need per planted cluster", pending / per_call / clusters, better="lower",
        note=f"{pending} undecided pairs at {per_call} to a call",
    )  # fmt: skip


def _merged(uri: str) -> dict[str, str]:
    """Each statement with the one that speaks for it now."""
    facts = Store.open(uri).snapshot().frame("facts", columns=["id", "statement", "replaced_by", "status"])
    said = dict(facts.select("id", "statement").iter_rows())
    gone = facts.filter((pl.col("status") == "superseded") & pl.col("replaced_by").is_not_null())
    return {said[old]: said[new] for old, new in gone.select("id", "replaced_by").iter_rows()}


def _quality(system: str, planted: Planted, merged: Mapping[str, str]) -> Iterator[Figure]:
    """Precision of all merges, recall of the planted ones by kind, contradictions merged."""
    right = {a for a, b in merged.items() if a in planted.cluster and planted.cluster[a] == planted.cluster.get(b)}
    wrong = {a for a in merged if a not in right}
    lost = {a for a in wrong if a in planted.contradictions or merged[a] in planted.contradictions}
    found = len(right) / max(len(planted.kind), 1)
    yield Figure(
        "consolidation",
        f"{system}: precision of merges",
        len(right) / max(len(merged), 1),
        note=f"{len(merged)} merges",
    )
    yield Figure("consolidation", f"{system}: recall of repetitions", found, note=f"{len(planted.kind)} planted")
    yield Figure(
        "consolidation", f"{system}: contradictions merged", len(lost) / max(len(planted.contradictions), 1),
        better="lower", bar=0.01 if system == "slowwave" else None,
        note=f"{len(lost)} of {len(planted.contradictions)}",
    )  # fmt: skip


def _semhash(planted: Planted, uri: str) -> Iterator[Figure]:
    """SemHash's deduplication of the same texts with the same model."""
    try:
        from semhash import SemHash
    except ImportError:
        yield Figure("consolidation", "SemHash", float("nan"), note="skipped: pip install semhash")
        return
    seat = open_embedder()
    texts = [fact.statement for fact in planted.texts]

    class Seat:
        def encode(self, inputs: Any, **_: Any) -> Any:
            return seat.embed(list(inputs))

    with measured() as cost:
        result = SemHash.from_records(texts, model=Seat()).self_deduplicate(threshold=SEMHASH_THRESHOLD)
    merged = {row.record: row.duplicates[0][0] for row in result.filtered if row.duplicates}
    yield Figure(
        "consolidation", "SemHash: whole", cost.wall_s, "s", note=f"threshold {SEMHASH_THRESHOLD}, embedding included"
    )
    yield from _quality("SemHash", planted, merged)


def _locomo(options: Options) -> Iterator[Figure]:
    """Evidence recall and live facts before and after, where every other fact is there twice."""
    before: list[float] = []
    after: list[float] = []
    facts: list[tuple[int, int]] = []
    for talk in data.locomo(options.data):
        place = options.place / f"locomo-{talk.name}"
        uri = str(place / "store")
        ingest_files([str(data.write_messages(place / "messages.jsonl", talk.messages))], uri)
        _say_again(Store.open(uri))
        then = _live(uri)
        before += _recalls(uri, talk)
        asyncio.run(consolidate(store=uri, settings=ConsolidateSettings.model_validate({"llm": {"model": "quotes"}})))
        facts.append((then, _live(uri)))
        after += _recalls(uri, talk)
    shrunk = 1 - sum(now for _, now in facts) / sum(then for then, _ in facts)
    told = ", ".join(f"{then} → {now}" for then, now in facts)
    yield Figure("consolidation", "LoCoMo said twice: facts fewer by", shrunk, bar=0.20, note=told)
    yield Figure("consolidation", "LoCoMo said twice: R@10 before", mean(before), note=f"{len(before)} questions")
    yield Figure("consolidation", "LoCoMo said twice: R@10 after", mean(after), bar=mean(before))


def _say_again(store: Store) -> None:
    """Every other live fact once more, a year later and in another spelling or frame, by a message of its own."""
    random, seat = Random(SEED), open_embedder()
    snapshot = store.snapshot()
    facts = snapshot.frame("facts", LIVE).sort("id").gather_every(2)
    ways = [random.choice((paraphrases.respelt, paraphrases.framed)) for _ in range(len(facts))]
    texts = [way(text, random) for way, text in zip(ways, facts["statement"], strict=True)]
    later = pl.col("valid_from") + timedelta(days=365)
    again = facts.with_columns(
        id="f_again_" + pl.col("id"), message_id="m_again_" + pl.col("id"), statement=pl.Series(texts),
        valid_from=later,
        statement_hash=pl.Series([statement_hash(text) for text in texts]), evidence_count=pl.lit(1),
        consolidated_at=pl.lit(None, pl.Datetime("us", "UTC")),
        vector=pl.Series(seat.embed(texts), dtype=pl.Array(pl.Float32, seat.dims)),
    )  # fmt: skip
    said = dict(snapshot.frame("messages", columns=["id", "message_id"]).iter_rows())
    # A repetition counts as the message that it repeats, else it would push another one out of the first ten.
    names = facts["message_id"].replace_strict(said, return_dtype=pl.String)
    messages = again.select(
        "scope", "vector", names, id="message_id", conversation_id=pl.lit("again"),
        role=pl.lit("user"), content="statement", search_text="statement", occurred_at="valid_from",
        graph_state=pl.lit("done"), attempts=pl.lit(0),
    )  # fmt: skip
    evidence = again.select(
        "message_id", "confidence", id="v_" + pl.col("id"), fact_id="id", quote="statement", occurred_at="valid_from"
    )
    with store.commit("again", "bench") as tx:
        tx.upsert("messages", messages)
        tx.upsert("facts", again)
        tx.upsert("fact_evidence", evidence)


def _live(uri: str) -> int:
    return Store.open(uri).snapshot().count("facts", LIVE)


def _recalls(uri: str, talk: data.Talk) -> list[float]:
    with OpenMemory.open(uri) as memory:
        return [
            evidence_recall(named_messages(memory.recall(asked.text, DEEP).facts), asked.evidence, 10)
            for asked in talk.questions
        ]
