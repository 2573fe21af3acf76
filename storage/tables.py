"""Every table of a namespace, once: columns with their meaning, keys, indexes, and how each takes part in history.

`docs/tables.md` is generated from here. A namespace is a directory, so no table has a namespace column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa

SCHEMA_VERSION = 10

TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.list_(pa.string())


class Role(StrEnum):
    """How a table takes part in the history of a store."""

    STATE = "state"  # pinned by every commit, reverted by undo
    HISTORY = "history"  # pinned by every commit, kept by undo: it tells what happened
    LOG = "log"  # append-only, outside commits: paid answers and access events survive any rollback


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type, whether it may be empty, and what it says."""

    type: pa.DataType
    meaning: str
    nullable: bool = True
    refers: str = ""  # the table whose id it holds
    is_derived: bool = False  # follows from other rows: a later refresh of it does not stand in the way of undo
    is_signal: bool = False  # a hint for readers: nobody has to approve it
    holds_vectors: bool = False  # vectors lie in it, or it names their model: a re-embedding writes it anew


@dataclass(frozen=True, slots=True)
class Table:
    """One table: what a row is, its key, its columns, and what is indexed."""

    name: str
    role: Role
    row: str
    columns: Mapping[str, Column]
    full_text: tuple[str, ...] = ()
    lookup: tuple[str, ...] = ()
    few_values: tuple[str, ...] = ()  # columns that are asked for by one of a handful of values
    has_vector: bool = False
    speaks: bool = False  # memory says what is in it: a change of it may have to wait for a person
    whole: str = ""  # undo takes all rows of all tables with this word back, or none: they say something only together

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which rows are looked up, or ranges of them are read: each has an index once that pays."""
        own = self.lookup if self.role is Role.LOG else ("id", *self.lookup)
        return tuple(dict.fromkeys(own))

    @property
    def refreshed(self) -> frozenset[str]:
        """Columns that a later run may refresh without building on the row: derived ones, and the stamps of writing."""
        derived = {name for name, column in self.columns.items() if column.is_derived}
        vector = {"vector"} if "embed_text_hash" in derived or self.is_rebuildable else set()
        return frozenset(derived | vector | set(STAMPS))

    @property
    def holding_vectors(self) -> tuple[str, ...]:
        """The columns that hold vectors, or name the model of one."""
        own = tuple(name for name, column in self.columns.items() if column.holds_vectors)
        return ("vector", *own) if self.has_vector else own

    @property
    def is_rebuildable(self) -> bool:
        """Whether all of it follows from other rows."""
        return all(column.is_derived for column in self.columns.values())

    def schema(self, dims: int) -> pa.Schema:
        """The Arrow schema, with vectors of `dims` float32."""
        fields = [pa.field("id", pa.string(), nullable=False)]
        fields += [pa.field(name, column.type, column.nullable) for name, column in self.columns.items()]
        if self.has_vector:
            fields.append(pa.field("vector", pa.list_(pa.float32(), dims)))
        fields += [pa.field(name, column.type, column.nullable) for name, column in STAMPS.items()]
        return pa.schema(fields)


def _text(meaning: str, *, required: bool = False, refers: str = "") -> Column:
    return Column(pa.string(), meaning, not required, refers)


def _time(meaning: str) -> Column:
    return Column(TIME, meaning)


def _derived(column: Column) -> Column:
    return replace(column, is_derived=True)


def _signal(column: Column) -> Column:
    return replace(column, is_signal=True)


def _vectors(column: Column) -> Column:
    return replace(column, holds_vectors=True)


def _count(meaning: str) -> Column:
    return Column(pa.int64(), meaning)


def _number(meaning: str) -> Column:
    return Column(pa.float64(), meaning)


def _flag(meaning: str) -> Column:
    return Column(pa.bool_(), meaning)


def _texts(meaning: str) -> Column:
    return Column(TEXTS, meaning)


STAMPS: Mapping[str, Column] = {
    "created_at": _time("When the row was first written."),
    "updated_at": _time("When the row was last written."),
    "run_id": _text("The run that last wrote it."),
}

_MESSAGES = Table(
    "messages",
    Role.STATE,
    "one message of a conversation, or one passage of a document (role `document`)",
    {
        "message_id": _text(
            "The identifier in the source; derived from the content where the source has none.", required=True
        ),
        "conversation_id": _text("The conversation or document it belongs to.", required=True),
        "ordinal": _count("Position in its conversation."),
        "role": _text("user, assistant, tool, system or document."),
        "speaker": _text("Who said it."),
        "content": _text("The text after redaction."),
        "search_text": _text("Speaker and text as they are searched."),
        "occurred_at": _time("When it was said."),
        "scope": _text("Project or artifact it belongs to; `global` otherwise."),
        "source_id": _text("The file it came from.", refers="sources"),
        "has_injection": _flag("It tries to give the reader orders; never extracted."),
        "graph_state": _text("pending, done, skipped_<gate> or failed."),
        "attempts": _count("Extractions that failed so far."),
        "content_score": _number("Worth against noise, 0 to 1."),
    },
    full_text=("search_text",),
    lookup=("id", "conversation_id", "message_id", "run_id"),
    has_vector=True,
)
_SOURCES = Table(
    "sources",
    Role.STATE,
    "one file or document that was read",
    {
        "uri": _text("Path or address as given.", required=True),
        "format": _text("messages, claude-code, chatgpt, markdown, text, mem0, graphiti, mcp-memory or slowwave."),
        "content_hash": _text("Hash of the bytes, so that the same input is known again."),
        "state": _text("running while it is being read, then completed."),
        "messages": _count("Messages read from it."),
        "unreadable": _count("Lines or items that could not be read."),
    },
    lookup=("id", "content_hash"),
)
_REFUSALS = Table(
    "refusals",
    Role.STATE,
    "one message or candidate that a gate refused",
    {
        "subject_kind": _text("message or fact."),
        "subject_id": _text("The refused row.", required=True),
        "gate": _text(
            "Which gate: role, injection, pre_filter, length, repeat, content, surprise, durability, evaluation."
        ),
        "reason": _text("One sentence."),
        "measure": _number("What the gate saw."),
        "threshold": _number("What it asked for."),
        "teaches": _flag("Whether it teaches the noise prototypes (S4-18)."),
        "excerpt": _text("First 500 characters after redaction."),
        "similar_to_id": _text("The row it repeats."),
    },
    lookup=("subject_id", "similar_to_id"),
    has_vector=True,
)
_SCORER_STATE = Table(
    "scorer_state",
    Role.STATE,
    "one learned noise prototype",
    {
        "text": _derived(_text("The refused text it was learned from.")),
        "teaching_count": _derived(_count("Teaching refusals seen when it was built.")),
    },
    has_vector=True,
)
_CONVERSATIONS = Table(
    "conversation_state",
    Role.STATE,
    "what the surprise gate remembers of one conversation",
    {
        "recent_names": _derived(_texts("Candidate names of the last 200 mentions, oldest first.")),
        "recent_turns": _vectors(_derived(Column(pa.list_(pa.float32()), "Vectors of the last ten turns, flattened."))),
        "consecutive_skips": _derived(_count("Messages skipped in a row.")),
    },
)
_EPISODES = Table(
    "episodes",
    Role.STATE,
    "one conversation as something that happened",
    {
        "conversation_id": _text("The conversation.", required=True),
        "scope": _text("Its scope."),
        "started_at": _derived(_time("First message.")),
        "ended_at": _derived(_time("Last message.")),
        "messages": _derived(_count("Messages so far.")),
        "summary": _text("What was talked about; empty: not summarised (S4-23)."),
        "summarised_by": _text("model or rule."),
        "prompt_version": _text("The prompt that a model answered."),
        "summarised_pairs": _count("Questions with an answer that it had when it was summarised."),
    },
)
_EPISODE_ENTITIES = Table(
    "episode_entities",
    Role.STATE,
    "one entity that a conversation is about",
    {
        "episode_id": _text("The episode.", required=True, refers="episodes"),
        "entity_id": _text("The entity.", required=True, refers="entities"),
    },
    lookup=("entity_id", "episode_id"),
)
_ENTITIES = Table(
    "entities",
    Role.STATE,
    "one named thing",
    {
        "canonical_name": _text("Normalised name; immutable; unique with the type.", required=True),
        "name": _derived(_text("The surface form seen most recently.")),
        "entity_type": _text(
            "person, tool, concept, project, language, file, config, organization, place, event, session."
        ),
        "status": _text("active, paused, completed or archived."),
        "summary": _text("What it is."),
        "first_seen_at": _derived(_time("First mention.")),
        "last_seen_at": _derived(_time("Latest mention.")),
        "pinned": _flag("Kept for ever, with all that is known of it."),
        "is_renamed": _flag("A person gave it its name: mentions no longer change it."),
        "merged_into": _text("The entity that took it over, if it was merged.", refers="entities"),
        "parent_entity_id": _text("The entity it was split from.", refers="entities"),
        "embed_text_hash": _derived(_text("Hash of the text its vector stands for.")),
    },
    full_text=("name",),
    lookup=("id", "canonical_name", "merged_into", "parent_entity_id"),
    has_vector=True,
    speaks=True,
)
_ALIASES = Table(
    "entity_aliases",
    Role.STATE,
    "one name under which an entity is known",
    {
        "alias_name": _text("Normalised name.", required=True),
        "entity_type": _text("Type under which it is looked up."),
        "entity_id": _text("The entity.", required=True, refers="entities"),
    },
    lookup=("alias_name", "entity_id"),
    speaks=True,
)
_PREDICATES = Table(
    "predicates",
    Role.STATE,
    "one predicate and its canonical form",
    {
        "alias": _text("As it was said.", required=True),
        "canonical": _text("The form that facts are compared by."),
        "cardinality": _text("1 or n: how many objects one subject may have at a time."),
        "source": _text("default, file or llm."),
    },
    speaks=True,
)
_FACT_COLUMNS: Mapping[str, Column] = {
    "kind": _text("relation, observation, note, structural or similarity."),
    "subject_id": _text("Entity it is about.", refers="entities"),
    "predicate_raw": _text("Relation as extracted."),
    "predicate": _text("Canonical relation."),
    "edge_type": _text("causal, temporal, semantic, co_occurrence or hierarchical."),
    "object_id": _text("Other entity, if the object is one.", refers="entities"),
    "object_text": _text("Object as said."),
    "statement": _text("The sentence that all of this means; immutable."),
    "statement_hash": _text("Hash of the normalised statement."),
    "search_terms": _text("General words, of no name and not in the statement, to ask for it with; never shown."),
    "owner_entity_id": _text("Entity under which it is filed; splits and merges move it.", refers="entities"),
    "scope": _text("Project or artifact; `global` otherwise."),
    "polarity": _text("affirmed or negated."),
    "status": _text("candidate, active, rejected, superseded, retracted or archived (SEMANTICS §6.3)."),
    "status_reason": _text("Why it has that status."),
    "valid_from": _time("When it became true in the world."),
    "valid_to": _time("When it stopped being true; empty while it holds."),
    "event_at": _time("When it happens: the beginning. What is planned is known earlier, from when it was said."),
    "event_until": _time("When that is over at the latest (excluded)."),
    "event_precision": _text(
        "How exactly the words tell `event_at`, or else `valid_from` or `valid_to`: day, week, month, season (three "
        "months), year or around; empty where they tell no time."
    ),
    "date_is_disputed": _flag("The model understood another date than the words say by rule; the model's is kept."),
    "expired_at": _time("When the store stopped believing it."),
    "replaced_by": _text("The fact that took its place.", refers="facts"),
    "supersedes_id": _text("The fact whose place it took most recently.", refers="facts"),
    "patch_batch_id": _text("The patch it came with.", refers="patch_batches"),
    "confidence": _number("0 to 1."),
    "evidence_count": _count("Messages that say it."),
    "entrenchment": _text("user_axiom, user_stated or system_inferred, strongest first."),
    "pinned": _flag("Never pruned or overridden automatically."),
    "message_id": _text("Row in `messages` that said it first.", refers="messages"),
    "episode_id": _text("Episode that said it first.", refers="episodes"),
    "quote": _text("The words it was taken from."),
    "similarity_flag": _signal(_flag("It looks like another live fact (S0-01).")),
    "similar_to_id": _signal(_text("The fact it looks like.")),
    "similarity_score": _signal(_number("Cosine to that fact.")),
    "related_id": _signal(_text("Nearest fact below the flag (S4-21).")),
    "consolidated_at": _derived(
        _time("When consolidation last looked at it; empty: it is still to be looked at (S1-08).")
    ),
    "consolidation_attempts": _derived(_count("How often a model failed to decide about it.")),
    "consolidation_error": _derived(_text("Why consolidation gave it up.")),
    "suspect_of": _text("A fact that no longer holds and that this one leans on: look at it again."),
    "content_score": _number("Worth of the message it came from, 0 to 1."),
    "aspect_slugs": _texts("Aspects staged at extraction."),
    "embed_model": _vectors(_text("Model of the vector.")),
}
_FACTS = Table(
    "facts",
    Role.STATE,
    "one statement with its validity, status and provenance",
    _FACT_COLUMNS,
    full_text=("statement",),
    lookup=(
        "id",
        "subject_id",
        "object_id",
        "owner_entity_id",
        "message_id",
        "episode_id",
        "patch_batch_id",
        "statement_hash",
        "replaced_by",
        "supersedes_id",
        "valid_from",
        "valid_to",
    ),
    few_values=("status",),
    has_vector=True,
    speaks=True,
)
_FACTS_ARCHIVE = replace(
    _FACTS, name="facts_archive", row="one fact that was moved out of the way; questions about the past still see it"
)
_FACT_EVIDENCE = Table(
    "fact_evidence",
    Role.STATE,
    "one message that supports a fact; the key is both ids, so a retry never counts twice",
    {
        "fact_id": _text("The fact.", required=True, refers="facts"),
        "message_id": _text("Row in `messages`.", required=True, refers="messages"),
        "confidence": _number("Confidence of this mention."),
        "quote": _text("The words."),
        "occurred_at": _time("When they were said."),
    },
    lookup=("fact_id", "message_id"),
)
_DIRECTIVES = Table(
    "fact_directives",
    Role.STATE,
    "what a candidate says of one earlier fact; carried out when the candidate is applied",
    {
        "candidate_id": _text("The candidate.", required=True, refers="facts"),
        "known_id": _text("The earlier fact, if the extractor pointed at one."),
        "object": _text("Or what was replaced or ended, in the message's words."),
        "action": _text("supersede, retract, contradict (both stay, flagged) or repeat."),
        "reason": _text("correction or temporal_change."),
    },
    lookup=("candidate_id", "known_id"),
)
_LINEAGE = Table(
    "lineage",
    Role.STATE,
    "one step from a fact to the one that replaced it",
    {
        "old_id": _text("The fact that was replaced.", required=True, refers="facts"),
        "new_id": _text("The fact that replaced it.", required=True, refers="facts"),
        "reason": _text("conflict, belief_revision, correction, temporal_change, dedup or consolidated."),
    },
    lookup=("old_id", "new_id"),
)
_PAIR_DECISIONS = Table(
    "pair_decisions",
    Role.STATE,
    "one pair of facts that was compared, so that nobody asks about it twice (S1-13)",
    {
        "a_id": _text("The fact whose id is smaller.", required=True, refers="facts"),
        "b_id": _text("The other one.", required=True, refers="facts"),
        "kind": _text("redundant: do they say the same; implicit_conflict: do their relations contradict (S2-75)."),
        "outcome": _text("pending, keep_all, supersede or failed; of an implicit conflict pending or settled."),
        "cosine": _number("Cosine of the two."),
        "jaccard": _number("Shared words over all words."),
        "guard": _text("The guard that kept them apart; of an implicit conflict `contradicts` if it was stated."),
        "decided_by": _text("rule, model or person."),
        "prompt_version": _text("Version of the prompt that decided; empty while nobody was asked."),
        "at": _time("When it was compared."),
        "expires_at": _time("When a pending implicit conflict is forgotten (S2-75)."),
    },
    lookup=("a_id", "b_id"),
)
_PENDING_BELIEFS = Table(
    "pending_beliefs",
    Role.STATE,
    "one statement that was not said surely enough yet to become a candidate (S2-63)",
    {
        "subject_id": _text("Entity it is about.", refers="entities"),
        "predicate": _text("Canonical relation."),
        "object_id": _text("Other entity, if the object is one.", refers="entities"),
        "object_text": _text("Object as said."),
        "edge_type": _text("causal, temporal, semantic, co_occurrence or hierarchical."),
        "scope": _text("Project or artifact; `global` otherwise."),
        "statement": _text("The sentence of its surest evidence."),
        "claim": _text("JSON: the candidate that it becomes, from its surest evidence."),
        "probability": _number("Noisy-or of its evidence at `last_at`, 0 to 1 (S2-65)."),
        "evidence_count": _count("Messages that hint at it."),
        "first_at": _time("First evidence."),
        "last_at": _time("Latest evidence."),
        "promoted_at": _time("When it became a candidate."),
        "promoted_id": _text("The candidate it became."),
    },
    lookup=("subject_id", "object_id"),
    speaks=True,
)
_BELIEF_EVIDENCE = Table(
    "belief_evidence",
    Role.STATE,
    "one message that hints at a pending belief; the key is both ids, so a retry never counts twice (S2-70)",
    {
        "belief_id": _text("The belief.", required=True, refers="pending_beliefs"),
        "message_id": _text("Row in `messages`.", required=True, refers="messages"),
        "episode_id": _text("Its conversation.", refers="episodes"),
        "prior": _number("Probability before, decayed to then."),
        "evidence": _number("Confidence of this mention."),
        "posterior": _number("Probability after."),
        "at": _time("When it was said."),
    },
    lookup=("belief_id", "message_id"),
)
_ARTIFACTS = Table(
    "artifacts",
    Role.STATE,
    "one document or pasted text as a whole, in a chain of versions (S1-15)",
    {
        "title": _text("Its heading or file name."),
        "type": _text("markdown, text, code or data."),
        "content": _text("The text after redaction."),
        "content_hash": _text("Hash of the text, so that the same one is known again."),
        "summary": _text("What it is about, in a sentence or two."),
        "group_id": _text("All versions of one artifact share it."),
        "version_no": _count("1, 2, 3 … within the group, oldest first."),
        "parent_id": _text("The version before.", refers="artifacts"),
        "link": _text("root, version, derivative or duplicate."),
        "derived_from": _text("The artifact that a derivative was made from.", refers="artifacts"),
        "is_head": _flag("The newest version of its group."),
        "linked_fact_ids": _texts("Facts that were read from it."),
        "status": _text("active or superseded; a duplicate is superseded by the artifact that it repeats."),
        "replaced_by": _text("The artifact that took its place.", refers="artifacts"),
        "seen_count": _count("How often the very same text came in."),
        "scope": _text("Project; `global` otherwise."),
        "conversation_id": _text("The document or conversation it came with."),
        "source_id": _text("The file it came from.", refers="sources"),
        "message_id": _text("The message it was pasted in.", refers="messages"),
        "made_at": _time("When it was written or pasted: the order of versions."),
        "confidence": _number("How sure its link is, 0 to 1 (S1-18)."),
        "consolidated_at": _time("When it was linked; empty: still to be linked."),
    },
    lookup=("content_hash", "group_id", "conversation_id"),
    has_vector=True,
    speaks=True,
)
_ENTITY_PROFILES = Table(
    "entity_profiles",
    Role.STATE,
    "what one entity is as a whole: its observations and relations as one text (S0-06); the id is the entity's",
    {
        "text": _derived(_text("The text that the vector stands for.")),
        "text_hash": _derived(_text("Its hash.")),
    },
    has_vector=True,
)
_FACT_USAGE = Table(
    "fact_usage",
    Role.STATE,
    "how often one fact was recalled; the id is the fact's",
    {
        "hit_count": _derived(_count("Recalls that returned it; never decays, and one protects from pruning (S4-07).")),
        "cosine_sum": _derived(_number("Sum of its cosines to the queries, where there was one (T6).")),
        "cosine_count": _derived(_count("How many cosines that is.")),
        "last_retrieved_at": _derived(_time("Latest recall.")),
        "link_count": _derived(_number("Recalls that fade: a factor per day without one (S2-73).")),
        "link_decayed_at": _derived(_time("Until when they have faded.")),
    },
    lookup=("id",),
    whole="use",
)
_FACT_SCORES = Table(
    "fact_scores",
    Role.STATE,
    "what the steward thinks of one fact; the id is the fact's",
    {
        "quality_score": _derived(_number("0 to 1 (S4-06); empty: never scored.")),
        "scored_at": _derived(_time("When this score was written; later ones that hardly differ are not.")),
        "compared_at": _derived(_time("When the steward last looked for its duplicates.")),
    },
    lookup=("id",),
)
_ENTITY_USAGE = Table(
    "entity_usage",
    Role.STATE,
    "how often one entity was read (S0-23); the id is the entity's",
    {
        "access_count": _derived(_count("Reads that touched it.")),
        "access_days": _derived(_count("Different days on which it was read.")),
        "last_access_at": _derived(_time("Latest read.")),
    },
    lookup=("id",),
    whole="use",
)
_ENTITY_DAYS = Table(
    "entity_days",
    Role.STATE,
    "reads of one entity on one day (S0-23)",
    {
        "entity_id": _derived(_text("The entity.", required=True)),
        "day": _derived(_text("UTC date.")),
        "access_count": _derived(_count("Reads.")),
    },
    lookup=("entity_id",),
    whole="use",
)
_CO_OCCURRENCES = Table(
    "co_occurrences",
    Role.STATE,
    "two entities that one read returned together (S0-26)",
    {
        "a_id": _derived(_text("The entity whose id is smaller.", required=True)),
        "b_id": _derived(_text("The other one.", required=True)),
        "count": _derived(_count("How often.")),
        "last_at": _derived(_time("Latest time.")),
    },
    lookup=("a_id", "b_id"),
    whole="use",
)
_LOG_MARKS = Table(
    "log_marks",
    Role.STATE,
    "how far one log was counted; the id is the log's name",
    {"version": _derived(_count("The version of the log up to which its rows are counted."))},
    whole="use",
)
_ENTITY_SCORES = Table(
    "entity_scores",
    Role.STATE,
    "what one entity weighs; the id is the entity's",
    {
        "degree": _derived(_count("Live relations in both directions.")),
        "importance": _derived(_number("0 to 1.38 (S0-24), maxima over the namespace.")),
        "temporal": _derived(_number("0.1 to 1: how recently it was read, or made (S0-25).")),
        "is_stale": _derived(_flag("A candidate for the archive: unimportant and long unread (S0-22).")),
        "scored_at": _derived(_time("When this was written.")),
    },
    lookup=("id",),
)
_ENTITY_LINKS = Table(
    "entity_links",
    Role.STATE,
    "two entities whose descriptions are alike; no knowledge, and no fact (S2-71)",
    {
        "a_id": _derived(_text("The entity whose id is smaller.", required=True)),
        "b_id": _derived(_text("The other one.", required=True)),
        "cosine": _derived(_number("Cosine of their descriptions, as measured last.")),
        "linked_at": _derived(_time("When that was.")),
    },
    lookup=("a_id", "b_id"),
)
_COMMUNITIES = Table(
    "communities",
    Role.STATE,
    "entities that are more related to each other than to others (S2-46)",
    {
        "name": _derived(_text("Its most connected members; not a key (S2-49).")),
        "summary": _derived(_text("What holds it together; empty: still to be summarised (S2-48).")),
        "summarised_by": _derived(_text("model or rule.")),
        "prompt_version": _derived(_text("The prompt that a model answered.")),
        "fingerprint": _derived(_text("Hash of its members and relations when it was summarised; empty: do so again.")),
        "told_fact_ids": _derived(_texts("The facts that the summary was told from.")),
        "entity_ids": _derived(_texts("Its members when it was refreshed last, most connected first.")),
        "joined_ids": _derived(_texts("Entities that joined since (S2-50).")),
        "facts": _derived(_count("Live relations within it.")),
        "aspects": _derived(_text("JSON: how many of its relations touch which aspect (C16).")),
        "refreshed_at": _derived(_time("When this was written.")),
    },
    lookup=("id",),
    whole="communities",
)
_ASPECT_SCORES = Table(
    "aspect_scores",
    Role.STATE,
    "how well one aspect of a life is known; the id is the aspect's slug (S3-18, S3-19)",
    {
        "score": _derived(_number("0 to 100.")),
        "facts": _derived(_count("Live facts that touch it.")),
        "entities": _derived(_count("Different subjects and objects among them.")),
        "predicates": _derived(_count("Different canonical relations among them.")),
        "confidence": _derived(_number("Their mean confidence, 0 to 1.")),
        "scored_at": _derived(_time("When this was written.")),
    },
)
_ASPECT_PARTS = Table(
    "aspect_parts",
    Role.STATE,
    "one number that the counts of an aspect are made of, so that they follow what changes",
    {
        "slug": _derived(_text("The aspect.", required=True)),
        "part": _derived(
            _text(
                "end, relation: how many live facts name the entity or relation `key`; entities, predicates: how many "
                "of these there are; facts; rated and confidence: how many have one, and their sum in billionths.",
                required=True,
            )
        ),
        "key": _derived(_text("The entity or canonical relation; empty for a total.", required=True)),
        "number": _derived(_count("How many.")),
    },
    lookup=("id",),
)
_PATCHES = Table(
    "patch_batches",
    Role.STATE,
    "one group of candidates that is decided together",
    {
        "origin": _text("ingest, belief, consolidate or import."),
        "source_key": _text("Conversation or document it was extracted from."),
        "state": _text("open, evaluating, approved, rejected, needs_review or applied."),
        "candidates": _count("Facts in it."),
        "passed": _count("Facts that passed evaluation."),
        "decided_by": _text("rule, model or person."),
    },
)
_FACT_ASPECTS = Table(
    "fact_aspects",
    Role.STATE,
    "one aspect of an applied fact",
    {
        "fact_id": _text("The fact.", required=True, refers="facts"),
        "slug": _text("The aspect.", required=True),
        "via": _text("regex or model."),
    },
    lookup=("fact_id",),
)
_METADATA = Table(
    "metadata",
    Role.STATE,
    "one named counter or mark",
    {"number": _derived(_number("Its number.")), "text": _derived(_text("Its text."))},
)
_DECISIONS = Table(
    "decisions",
    Role.HISTORY,
    "one decision that changed memory, or refused to",
    {
        "action": _text(
            "create, reassert, supersede, absorb, keep, contradict, fail, retract, close, archive, prune, restore, "
            "move, delete, revive, expire, pin, gate, import, undo …",
            required=True,
        ),
        "subject_id": _text("The row it is about.", required=True),
        "ids_in": _texts("Rows it looked at."),
        "ids_out": _texts("Rows it made or changed."),
        "measures": _text("JSON: the measures and thresholds it saw."),
        "decided_by": _text("rule, model or person."),
        "model": _text("Model and prompt version, if a model decided."),
        "reason": _text("One sentence."),
        "at": _time("When."),
        "approved_by": _text("The person who said yes or no to it, where it was proposed first."),
        "proposal_id": _text("The proposal that it came from."),
    },
    lookup=("subject_id", "run_id"),
)
_PROPOSALS = Table(
    "proposals",
    Role.STATE,
    "one change that waits for a person: what approval would write, to the byte",
    {
        "action": _text("split, delete, patch, merge, prune, decay, restore …: what it would do.", required=True),
        "title": _text("What it would do, in one line."),
        "reason": _text("Why it is proposed."),
        "subject_id": _text("The entity or fact that it is mostly about."),
        "subject": _text("Its name or statement."),
        "state": _text("pending, approved, rejected, applied, stale or replaced."),
        "risks": _texts("pinned, override, large, erasure, user_stated, cross_source; none: low risk."),
        "proposed_by": _text("rule, model, person or agent."),
        "ask": _text("JSON: what was asked for, where a person may modify it."),
        "changes": _vectors(_text("JSON: the rows that approval writes: table, id, before, after.")),
        "otherwise": _vectors(_text("JSON: the rows that a rejection writes.")),
        "basis": _text("JSON: the state of the rows that it rests on."),
        "plan_hash": _text("Hash of the basis: another one at approval makes the plan stale."),
        "repeat_key": _text("Hash of what it would do: what was rejected is not proposed again."),
        "touches": _texts("Ids of the rows that it changes or rests on."),
        "evidence": _texts("Messages that the facts it touches were said in."),
        "decider": _text("The person who decided."),
        "door": _text("terminal, prefect, mcp or python: where it was decided."),
        "decided_at": _time("When."),
        "note": _text("What the person said to it."),
        "outcome": _text("Why it became stale, or which proposal took its place."),
    },
    lookup=("id", "subject_id", "repeat_key"),
)
_COMMITS = Table(
    "commits",
    Role.HISTORY,
    "one published state of the namespace: the version of every table",
    {
        "sequence": _count("1, 2, 3 … without gaps."),
        "kind": _text("What kind of change."),
        "at": _time("When it was published."),
        "versions": _text("JSON: table to version."),
        "before": _text("JSON: table to version before the commit, for the tables it wrote."),
        "undoes": _texts("Runs that this commit took back."),
        "waited_s": _number("Seconds until it had the writer lease; empty in rows from before version 6."),
        "embed_model": _text("Model of the vectors of this state; empty in rows from before version 6."),
        "dims": _count("Length of its vectors."),
    },
)
_RUNS = Table(
    "runs",
    Role.HISTORY,
    "one run of a flow or command",
    {
        "flow": _text("Which flow."),
        "state": _text("running, completed, incomplete, stopped (budget), failed, interrupted or undone."),
        "owner": _text("The process that runs it; `imported` where it ran elsewhere and came with an export."),
        "parent_id": _text("The night or backfill that it is a part of; undo of the whole takes its parts back too."),
        "parameters": _text("JSON: what it was asked to do."),
        "summary": _text("JSON: what it did."),
        "started_at": _time("When it started."),
        "ended_at": _time("When it ended."),
        "calls": _count("Model calls paid."),
        "tokens_in": _count("Tokens read by the model."),
        "tokens_out": _count("Tokens written by the model."),
        "usd": _number("Dollars."),
    },
    lookup=("parent_id",),
)
_LLM_CALLS = Table(
    "llm_calls",
    Role.LOG,
    "one paid model answer; looked up before any call is made",
    {
        "provider": _text("Provider."),
        "model": _text("Model."),
        "role": _text("extract, resolve, consolidate, summarize, judge or answer."),
        "prompt_name": _text("Which prompt."),
        "prompt_hash": _text("Hash of the rendered prompt."),
        "schema_hash": _text("Hash of the response schema."),
        "response": _text("JSON: the validated answer; empty if the call failed for good."),
        "error": _text("Why it failed for good."),
        "tokens_in": _count("Tokens read."),
        "tokens_out": _count("Tokens written."),
        "usd": _number("Dollars."),
        "latency_s": _number("Seconds."),
        "attempts": _count("Tries it took."),
        "calls": _count("Paid answers it took; empty in rows from before version 6."),
    },
    lookup=("id",),
)
_LLM_BATCHES = Table(
    "llm_batches",
    Role.LOG,
    "prompts that were handed over together (Message Batches), as they were last; the newest row of an id holds",
    {
        "provider": _text("Provider."),
        "model": _text("Model."),
        "role": _text("extract, resolve, consolidate, summarize, judge or answer."),
        "schema_hash": _text("Hash of the response schema."),
        "state": _text("submitting, unsure, submitted, collected, lost or foreign.", required=True),
        "batch_id": _text("What the provider calls it; empty until it is known."),
        "keys": _texts("Ids that its answers will have in `llm_calls`."),
        "prompt_names": _texts("Which prompts, in the order of the keys."),
        "prompt_hashes": _texts("Hashes of the rendered prompts, in the order of the keys."),
        "tokens_in": _count("Tokens that it will probably read."),
        "tokens_out": _count("Tokens that it will probably write."),
        "usd": _number("Dollars that it will probably cost."),
        "owner": _text("Process that works at it."),
        "begun_at": _time("When it was about to be handed over."),
    },
)
_RETRIEVAL_EVENTS = Table(
    "retrieval_events",
    Role.LOG,
    "one fact returned by one recall (S4-01)",
    {
        "fact_id": _text("The fact.", required=True, refers="facts"),
        "cosine": _number("Cosine to the query, not the fused rank."),
        "rank": _count("Position, from 1."),
        "query_hash": _text("Hash of the query."),
        "at": _time("When."),
    },
)
_ENTITY_ACCESS = Table(
    "entity_access_log",
    Role.LOG,
    "one entity that a read touched (S0-23)",
    {
        "entity_id": _text("The entity.", required=True, refers="entities"),
        "day": _text("UTC date."),
        "query_hash": _text("Hash of the query."),
        "at": _time("When."),
    },
)
_RECALLED_QUERIES = Table(
    "recalled_queries",
    Role.LOG,
    "one recall as it was asked, so that maintenance can be tried on real questions",
    {
        "query": _text("The question after redaction."),
        "query_hash": _text("Hash of the query."),
        "k": _count("How many facts were asked for."),
        "at": _time("When."),
    },
)

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        _MESSAGES,
        _SOURCES,
        _REFUSALS,
        _SCORER_STATE,
        _CONVERSATIONS,
        _EPISODES,
        _EPISODE_ENTITIES,
        _ENTITIES,
        _ALIASES,
        _PREDICATES,
        _FACTS,
        _FACTS_ARCHIVE,
        _FACT_EVIDENCE,
        _DIRECTIVES,
        _LINEAGE,
        _PAIR_DECISIONS,
        _PENDING_BELIEFS,
        _BELIEF_EVIDENCE,
        _ARTIFACTS,
        _ENTITY_PROFILES,
        _FACT_USAGE,
        _FACT_SCORES,
        _ENTITY_USAGE,
        _ENTITY_DAYS,
        _CO_OCCURRENCES,
        _LOG_MARKS,
        _ENTITY_SCORES,
        _ENTITY_LINKS,
        _COMMUNITIES,
        _PATCHES,
        _FACT_ASPECTS,
        _ASPECT_SCORES,
        _ASPECT_PARTS,
        _METADATA,
        _PROPOSALS,
        _DECISIONS,
        _COMMITS,
        _RUNS,
        _LLM_CALLS,
        _LLM_BATCHES,
        _RETRIEVAL_EVENTS,
        _ENTITY_ACCESS,
        _RECALLED_QUERIES,
    )
}


WITH_VECTORS = tuple(name for name, table in TABLES.items() if table.has_vector)
HOLDING_VECTORS = tuple(name for name, table in TABLES.items() if table.holding_vectors)
"""The tables of `WITH_VECTORS`, and those that hold vectors in another column."""


def tables_of(*roles: Role) -> list[str]:
    """Names of the tables with one of these roles, in the order of `TABLES`."""
    return [name for name, table in TABLES.items() if table.role in roles]
