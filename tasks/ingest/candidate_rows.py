"""Candidates: the statements of a batch become rows to store, for one state of the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import polars as pl

from inference.language import Language
from inference.request_batch import ModelAnswer
from prompts.rendering import prompt_version, render_relations
from prompts.responses import RelationNames, WindowExtraction
from slowwave.common import frames
from slowwave.common.decisions import decision, decision_frame
from slowwave.common.records import RelationQuestion
from slowwave.common.settings import ExtractSettings, IngestSettings, ReviseSettings
from slowwave.common.text import row_id
from slowwave.common.timestamps import in_utc
from slowwave.common.validity import live_sql, time_sql
from slowwave.entities.entity_resolution import Resolution
from slowwave.facts.revision.candidates import Candidates, build_candidates, quotes
from slowwave.facts.revision.extracted_claims import CollectedClaims, collect
from slowwave.facts.revision.pending_beliefs import BeliefContext, BeliefPlan, plan_beliefs
from slowwave.facts.revision.predicates import Cardinality, Names, canonicalise, learned_rows, settle_names
from slowwave.reading.extraction.outline import outline_of
from slowwave.reading.extraction.roster import Owner, owner_of, roster
from slowwave.reading.filters.noise import TEACHING_GATES
from slowwave.reading.ingestion.parsers import FORMATS
from slowwave.reading.ingestion.windows import PlannedWindow
from storage.changes import FACT_TABLES
from storage.quotations import KEPT_AS_SAID, QUOTES
from storage.rows import quoted
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.runtime.runs import Run, embed_rows

from .admission import EXCERPT, episode_id
from .identities import known_names, names_of
from .statements import CONVERSATION

DURABILITY = "durability"
INJECTION = "skipped_injection"
UNFINISHED = "graph_state IN ('pending', 'failed')"
AGAIN = f"graph_state IN ('pending', 'failed', 'done', 'skipped_{DURABILITY}', '{INJECTION}')"
CONVERSATIONS = f"format IN ({', '.join(map(quoted, FORMATS))})"


@dataclass(frozen=True, slots=True)
class AnsweredBatch:
    """The messages of a batch (full rows), the windows they were shown in, the answer to each window, and who gave
    it: the model, or `QUOTES` where nobody reads."""

    batch: pl.DataFrame
    planned: Sequence[PlannedWindow]
    answers: Sequence[ModelAnswer[WindowExtraction]]
    reader: str = QUOTES

    @property
    def by_model(self) -> bool:
        """Whether a model read the windows."""
        return self.reader != QUOTES

    def statements(self, settings: ExtractSettings, owners: Mapping[str, Owner]) -> CollectedClaims:
        """The statements of all answers, as frames."""
        answered = [(w, a.value) for w, a in zip(self.planned, self.answers, strict=True) if a.value is not None]
        if not self.by_model:  # rules take who speaks by name: the roster says who that is
            owned = ((each, owner_of(owners, each.window.scope)) for each, _ in answered)
            rosters = [roster(each.window.turns, owner, (), ()) for each, owner in owned]
            answered = [(w.knowing(w.window.known, r), a) for (w, a), r in zip(answered, rosters, strict=True)]
        return collect(answered, settings.max_entities_per_message, by_model=self.by_model)

    def outline(self, settings: ExtractSettings) -> pl.DataFrame:
        """The lines of the outline (OUTLINE) in all answers."""
        pairs = zip(self.planned, self.answers, strict=True)
        return outline_of(((w, a.value.outline) for w, a in pairs if a.value is not None), settings.max_outline_lines)

    def left(self) -> AnsweredBatch:
        """The same as if nothing had been asked: the answers are in the ledger, and cost nothing when they are used."""
        return replace(self, answers=[ModelAnswer(skipped=True)] * len(self.planned))

    def states(self) -> dict[str, str]:
        """The new state of each message, as far as answers decide it."""
        states: dict[str, str] = {}
        for each, answer in zip(self.planned, self.answers, strict=True):
            if answer.value is not None:
                states |= dict.fromkeys(each.new_ids, "done")
            elif not answer.is_unanswered:  # an outage is no fault of a message, and does not count as a try of it
                states |= dict.fromkeys(each.new_ids, "failed")
        return states


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The result of a batch: rows to store, those of `messages` in full with their new state.

    `candidates` go to the gate; the rest of what was claimed is in `beliefs`, None where nothing is held back.
    """

    resolution: Resolution
    ontology: Ontology
    candidates: Candidates
    beliefs: BeliefPlan | None
    entities: pl.DataFrame
    facts: pl.DataFrame
    episode_links: pl.DataFrame
    messages: pl.DataFrame
    refusals: pl.DataFrame
    overruled: Sequence[str] = ()
    """Refusals of messages that were found worth reading after all."""


def to_extract(reading: Reading, settings: ExtractSettings) -> str:
    """The messages that a run is about, as a filter: those that wait and were said in its window (S2-22, S2-25).

    Under `reread` also those that are kept as quotations. Under `force` also those that were extracted, given up, or
    skipped for what they tell a model to do; not what people and other systems stated, which never was a conversation.
    """
    waiting = f"({UNFINISHED} OR {KEPT_AS_SAID})" if settings.reread else UNFINISHED
    parts = [AGAIN, spoken(reading)] if settings.force else [waiting, f"attempts < {settings.max_attempts}"]
    if settings.since is not None:
        parts.append(f"occurred_at >= {time_sql(in_utc(settings.since))}")
    if settings.until is not None:
        parts.append(f"occurred_at < {time_sql(in_utc(settings.until))}")
    return " AND ".join(parts)


def spoken(reading: Reading) -> str:
    """The messages of conversations and documents, as a filter."""
    adopted = reading.frame("sources", f"NOT ({CONVERSATIONS})", ["id"])["id"]
    listed = ", ".join(map(quoted, sorted(adopted)))
    is_conversation = f"conversation_id != {quoted(CONVERSATION)}"
    return f"{is_conversation} AND (source_id IS NULL OR source_id NOT IN ({listed}))" if listed else is_conversation


def still_waiting(tx: Reading, answered: AnsweredBatch, settings: ExtractSettings) -> AnsweredBatch:
    """The part that still waits: messages that another run extracted or took back meanwhile stay as they are."""
    batch = tx.by_ids("messages", answered.batch["id"], where=to_extract(tx, settings), with_vector=True)
    order = answered.batch.select("id")
    waiting = set(batch["id"])
    kept = [
        pair for pair in zip(answered.planned, answered.answers, strict=True) if not waiting.isdisjoint(pair[0].new_ids)
    ]
    waiting_rows = order.join(batch, on="id", maintain_order="left")
    return replace(answered, batch=waiting_rows, planned=[w for w, _ in kept], answers=[a for _, a in kept])


def find_candidates(
    run: Run,
    reading: Reading,
    answered: AnsweredBatch,
    statements: CollectedClaims,
    resolution: Resolution,
    named: RelationForms,
    settings: IngestSettings,
) -> BatchRows:
    """Candidate facts with their vectors, what is held back, and the state in which each message ends."""
    episodes = [episode_id(name) for name in answered.batch["conversation_id"]]
    messages = answered.batch.with_columns(episode_id=pl.Series(episodes, dtype=pl.String))
    known = ontology(reading, named, run.now)
    names = known_names(resolution.names, statements.in_play)
    called = names_of(reading, names, resolution.aliases)
    claimed = build_candidates(
        statements.claims,
        messages,
        names,
        known.predicates,
        settings.extract,
        run.now,
        called,
        "ingest" if answered.by_model else QUOTES,
    )
    beliefs = None  # which candidates are held back
    if settings.beliefs.enabled and len(claimed.facts):
        beliefs = plan_beliefs(claimed, messages, _stored(reading, claimed.facts, run.now), settings.beliefs, run.now)
    candidates = claimed if beliefs is None else replace(beliefs.candidates, support=claimed.support)
    facts = embed_rows(run, candidates.facts, candidates.facts.select("id", text="statement"))
    states, refusals = _message_states(answered, statements, claimed, settings.extract)
    refused = answered.batch.filter(pl.col("graph_state") == f"skipped_{DURABILITY}")
    worth = refused.join(states.filter(pl.col("graph_state") == "done"), on="id", how="semi")["id"]
    return BatchRows(
        resolution,
        known,
        candidates,
        beliefs,
        embed_rows(run, resolution.entities, resolution.to_embed),
        facts.with_columns(embed_model=pl.lit(run.embedder)),
        episode_links(claimed.facts),
        states,
        refusals,
        [row_id("x", message, DURABILITY) for message in worth],
    )


def write(tx: Transaction, found: BatchRows) -> None:
    """Store the rows of a batch; `found` was made of the same state as `tx`."""
    # A fact of a batch that failed before may be decided, and moved to the archive, by now.
    decided = pl.concat([tx.by_ids(name, found.facts["id"], ["id"])["id"] for name in FACT_TABLES])
    facts = found.facts.filter(~pl.col("id").is_in(decided.implode()))
    ids = pl.Series("id", [row_id("fd", *row) for row in found.candidates.directives.iter_rows()], dtype=pl.String)
    directives = found.candidates.directives.with_columns(ids).unique("id", keep="first", maintain_order=True)
    batches = facts["patch_batch_id"].unique().to_list()
    tx.upsert("entities", _with_kept_vectors(tx, found.entities))
    tx.upsert("entity_aliases", found.resolution.aliases)
    tx.upsert("facts", facts)
    support = found.candidates.support.filter(pl.col("fact_id").is_in(facts["id"].implode()))
    tx.upsert("fact_evidence", _quoted(tx, support))
    tx.upsert("fact_directives", directives.filter(pl.col("candidate_id").is_in(facts["id"].to_list())))
    tx.upsert("patch_batches", found.candidates.batches.filter(pl.col("id").is_in(batches)))
    tx.upsert("predicates", found.ontology.new)
    tx.upsert("episode_entities", found.episode_links)
    tx.upsert("refusals", found.refusals)
    tx.delete("refusals", found.overruled)
    decisions = [found.resolution.decisions, found.ontology.decisions]
    if found.beliefs is not None:
        write_beliefs(tx, found.beliefs)
        tx.upsert("facts", _with_more_hints(tx, found.beliefs))
        decisions.append(found.beliefs.decisions)
    tx.upsert("decisions", pl.concat(decisions))
    tx.upsert("messages", found.messages)


def _with_more_hints(tx: Reading, beliefs: BeliefPlan) -> pl.DataFrame:
    """Candidates that beliefs became earlier and that still wait, with the messages that hint at them now."""
    new = beliefs.candidates.facts["id"].to_list()
    more = beliefs.support.filter(~pl.col("fact_id").is_in(new)).group_by(id="fact_id").agg(more=pl.len())
    facts = tx.by_ids("facts", more["id"], with_vector=True).join(more, on="id", maintain_order="left")
    return facts.with_columns(evidence_count=pl.col("evidence_count") + pl.col("more").cast(pl.Int64)).drop("more")


def _message_states(
    answered: AnsweredBatch, statements: CollectedClaims, candidates: Candidates, settings: ExtractSettings
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Full message rows with their new state, and refusals for those that were judged not durable (S2-25)."""
    productive = candidates.facts["message_id"].unique().to_list()
    here = pl.col("message_id").is_in(answered.batch["id"].to_list())
    dull = statements.judgements.filter(~pl.col("durable") & here & ~pl.col("message_id").is_in(productive))
    states = answered.states() | dict.fromkeys(dull["message_id"], f"skipped_{DURABILITY}")
    kept = answered.batch.filter(pl.col("graph_state") == INJECTION)["id"]  # one that failed waits to be forced again
    states |= {message: INJECTION for message in kept if states.get(message) == "failed"}
    state = pl.Series("state", [states.get(row) for row in answered.batch["id"]], dtype=pl.String)
    has_failed = pl.col("state") == "failed"
    lines = answered.outline(settings).rename({"outline": "line"})
    rows = (
        answered.batch.with_columns(state)
        .filter(pl.col("state").is_not_null())
        .join(lines, left_on="id", right_on="message_id", how="left", maintain_order="left")
        .with_columns(
            graph_state="state",
            attempts=pl.col("attempts") + has_failed.cast(pl.Int64),
            read_by=pl.when(has_failed).then("read_by").otherwise(pl.lit(answered.reader)),
            outline=pl.when(has_failed).then("outline").otherwise("line"),
        )
    )
    return rows.drop("state", "line"), _not_durable(dull, answered.batch)


def _not_durable(dull: pl.DataFrame, batch: pl.DataFrame) -> pl.DataFrame:
    rows = dull.join(batch.select("id", "content", "vector"), left_on="message_id", right_on="id")
    ids = [row_id("x", message, DURABILITY) for message in rows["message_id"]]
    return rows.select(
        pl.Series("id", ids, dtype=pl.String),
        subject_id="message_id",
        subject_kind=pl.lit("message"),
        gate=pl.lit(DURABILITY),
        reason=pl.col("reason").replace("", "Nothing in it will matter later."),
        teaches=pl.lit(DURABILITY in TEACHING_GATES),
        excerpt=pl.col("content").str.slice(0, EXCERPT),
        vector="vector",
    )


def _with_kept_vectors(tx: Reading, entities: pl.DataFrame) -> pl.DataFrame:
    """Entities whose meaning did not change keep their vector."""
    kept = tx.by_ids("entities", entities.filter(pl.col("vector").is_null())["id"], ["id", "vector"])
    both = entities.join(kept, on="id", how="left", suffix="_kept", maintain_order="left")
    return both.with_columns(vector=pl.coalesce("vector", "vector_kept")).drop("vector_kept")


def episode_links(facts: pl.DataFrame) -> pl.DataFrame:
    """Which entities each conversation is about, from facts with episode_id and both ends (S2-74)."""
    ends = [facts.select("episode_id", entity_id=end) for end in ("subject_id", "object_id")]
    named = facts.select("episode_id", entity_id="mentions").explode("entity_id")
    pairs = pl.concat([*ends, named]).drop_nulls().unique(maintain_order=True)
    ids = [row_id("ee", *pair) for pair in pairs.iter_rows()]
    return pairs.with_columns(pl.Series("id", ids, dtype=pl.String))


# The ontology: relations that no table knows are asked about once, many to a call, and never again (S2-61).

RELATIONS_PER_CALL = 40


@dataclass(frozen=True, slots=True)
class RelationForms:
    """A model's names for the relations of a batch, the model, and why some questions have no answer."""

    names: Names = field(default_factory=dict)
    model: str = ""
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ontology:
    """All that is known about relations (PREDICATES), the part of it that is new, and the decisions about that."""

    predicates: pl.DataFrame
    new: pl.DataFrame
    decisions: pl.DataFrame


async def name_relations(
    language: Language, reading: Reading, claims: pl.DataFrame, settings: ReviseSettings
) -> RelationForms:
    """The canonical forms of the relations between two things that no table knows; nothing is asked without a key.

    A call that fails leaves its relations as they are, and a later run asks again. One that is answered is answered for
    all of its relations: those that the model left out mean themselves.
    """
    if language.is_keyless("judge") or language.budget_reached:
        return RelationForms()
    learned = reading.frame("predicates")
    questions = _questions(claims, learned)
    groups = [questions[n : n + RELATIONS_PER_CALL] for n in range(0, len(questions), RELATIONS_PER_CALL)]
    answers = await language.ask_many([render_relations(group) for group in groups], RelationNames, "judge")
    pairs = zip(groups, answers, strict=True)
    forms = {name: form for group, answer in pairs for name, form in _forms(group, answer)}
    errors = tuple(sorted({answer.error for answer in answers if answer.error}))
    return RelationForms(
        settle_names(forms, learned), f"{language.model('judge')} {prompt_version('name_relations')}", errors
    )


def ontology(reading: Reading, named: RelationForms, now: datetime) -> Ontology:
    """The new names beside the stored ones, which win: another run may have asked meanwhile."""
    stored = reading.frame("predicates", columns=list(frames.PREDICATES))
    new = learned_rows(named.names).join(stored, on="alias", how="anti", maintain_order="left")
    return Ontology(pl.concat([stored, new.select(stored.columns)]), new, _decisions(new, named, now))


def _questions(claims: pl.DataFrame, learned: pl.DataFrame) -> tuple[RelationQuestion, ...]:
    """Each unknown relation once, with the first statement that it was read from; observations have no second thing."""
    between = claims.filter((pl.col("kind") == "relation") & (pl.col("object").fill_null("").str.strip_chars() != ""))
    forms = canonicalise(between["relation"], learned).filter((pl.col("source") == "raw") & (pl.col("canonical") != ""))
    first = (
        between.join(forms.select("canonical", relation="raw"), on="relation", maintain_order="left")
        .unique("canonical", keep="first", maintain_order=True)
        .select("canonical", "statement")
    )
    return tuple(RelationQuestion(n, name, example or "") for n, (name, example) in enumerate(first.iter_rows(), 1))


def _forms(
    group: Sequence[RelationQuestion], answer: ModelAnswer[RelationNames]
) -> Iterable[tuple[str, tuple[str, Cardinality]]]:
    """The answer to each question of a group, the first of several; only its number is trusted (T37)."""
    if answer.value is None:
        return
    forms = {each.question: (each.canonical, each.cardinality) for each in reversed(answer.value.answers)}
    for question in group:
        yield question.relation, forms.get(question.number, (question.relation, "n"))


def _decisions(new: pl.DataFrame, named: RelationForms, now: datetime) -> pl.DataFrame:
    rows = [
        decision(
            "name_relation",
            row["id"],
            [],
            [row["id"]],
            f"{row['alias']} means {row['canonical']}."
            if row["alias"] != row["canonical"]
            else f"{row['alias']} means what none of the known relations means.",
            now,
            {name: row[name] for name in ("alias", "canonical", "cardinality")},
            decided_by="model",
            model=named.model,
            key=(),
        )
        for row in new.iter_rows(named=True)
    ]
    return decision_frame(rows)


# Beliefs: what one message hints at is kept until enough messages do.

PENDING = "promoted_at IS NULL"


def write_beliefs(tx: Transaction, plan: BeliefPlan) -> None:
    """Store changed beliefs; the candidates that some of them became are stored with all candidates."""
    stamps = tx.by_ids("pending_beliefs", plan.beliefs["id"], ["id", "created_at"])
    lost = tx.by_ids("belief_evidence", plan.evicted, ["id"], key="belief_id")
    tx.upsert("pending_beliefs", plan.beliefs.join(stamps, on="id", how="left", maintain_order="left"))
    tx.upsert("belief_evidence", plan.evidence)
    tx.delete("pending_beliefs", plan.evicted)
    tx.delete("belief_evidence", lost["id"])
    tx.upsert("fact_evidence", _quoted(tx, plan.support))


def _stored(reading: Reading, facts: pl.DataFrame, now: datetime) -> BeliefContext:
    """What memory holds near the candidates."""
    columns = list(frames.PENDING_BELIEFS)
    near = reading.by_ids("pending_beliefs", facts["subject_id"], columns, key="subject_id")
    pending = reading.frame("pending_beliefs", PENDING, columns)
    became = reading.by_ids("facts", near["promoted_id"], ["id"], where="status = 'candidate'")
    live = reading.by_ids("facts", facts["subject_id"], list(frames.FACTS), key="subject_id", where=live_sql(now))
    return BeliefContext(
        pl.concat([near, pending]).unique("id", keep="first", maintain_order=True).sort("id"),
        reading.by_ids("belief_evidence", near["id"], list(frames.BELIEF_EVIDENCE), key="belief_id"),
        live,
        frozenset(became["id"]),
    )


def _quoted(reading: Reading, support: pl.DataFrame) -> pl.DataFrame:
    """Rows of `fact_evidence` with the words of each message that come nearest to the statement."""
    messages = reading.by_ids("messages", support["message_id"], ["id", "content"]).rename({"id": "message_id"})
    rows = support.join(messages, on="message_id", how="left", maintain_order="left")
    return rows.with_columns(quotes(rows)).select(*frames.FACT_EVIDENCE)
