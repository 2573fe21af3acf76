"""Every table of a namespace, once: columns with their meaning, keys, indexes, and how each takes part in history.

`docs/tables.md` is generated from here. A namespace is a directory, so no table has a namespace column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from .schema import (
    ColumnSpec,
    Role,
    Table,
    count,
    derived,
    flag,
    number,
    signal,
    text,
    texts,
    time,
    vectors,
)

SCHEMA_VERSION = 13

_MESSAGES = Table(
    "messages",
    Role.STATE,
    "one message of a conversation, or one passage of a document (role `document`)",
    {
        "message_id": text(
            "The identifier in the source; derived from the content where the source has none.", required=True
        ),
        "conversation_id": text("The conversation or document it belongs to.", required=True),
        "ordinal": count("Position in its conversation."),
        "role": text("user, assistant, tool, system or document."),
        "speaker": text("Who said it."),
        "content": text("The text after redaction."),
        "search_text": text("Speaker and text as they are searched."),
        "occurred_at": time("When it was said."),
        "scope": text("Project or artifact it belongs to; `global` otherwise."),
        "source_id": text("The file it came from.", refers="sources"),
        "has_injection": flag("It tries to give the reader orders; never extracted."),
        "graph_state": text("pending, done, skipped_<gate> or failed."),
        "attempts": count("Extractions that failed so far."),
        "read_by": text(
            "The model that read it; `quotes`: nobody, and what it says is kept as it was said until a model reads it."
        ),
        "content_score": number("Worth against noise, 0 to 1."),
        "outline": text(
            "The topic, or the turn of one, that begins with it, in a line by the model that read it; empty: none."
        ),
    },
    full_text=("search_text",),
    lookup=("id", "conversation_id", "message_id", "run_id"),
    few_values=("graph_state", "attempts"),
    has_vector=True,
)
_SOURCES = Table(
    "sources",
    Role.STATE,
    "one file or document that was read",
    {
        "uri": text("Path or address as given.", required=True),
        "format": text(
            "The format of the file (claude-code, slack, markdown …), mem0, graphiti, mcp-memory or slowwave."
        ),
        "content_hash": text("Hash of the bytes, so that the same input is known again."),
        "state": text("running while it is being read, then completed."),
        "messages": count("Messages read from it."),
        "unreadable": count("Lines or items that could not be read."),
    },
    lookup=("id", "content_hash"),
)
_REFUSALS = Table(
    "refusals",
    Role.STATE,
    "one message or candidate that a gate refused",
    {
        "subject_kind": text("message or fact."),
        "subject_id": text("The refused row.", required=True),
        "gate": text(
            "Which gate: role, injection, pre_filter, length, repeat, content, surprise, durability, evaluation."
        ),
        "reason": text("One sentence."),
        "measure": number("What the gate saw."),
        "threshold": number("What it asked for."),
        "teaches": flag("Whether it teaches the noise prototypes (S4-18)."),
        "excerpt": text("First 500 characters after redaction."),
        "similar_to_id": text("The row it repeats."),
    },
    lookup=("subject_id", "similar_to_id"),
    has_vector=True,
)
_SCORER_STATE = Table(
    "scorer_state",
    Role.STATE,
    "one learned noise prototype",
    {
        "text": derived(text("The refused text it was learned from.")),
        "teaching_count": derived(count("Teaching refusals seen when it was built.")),
    },
    has_vector=True,
)
_CONVERSATIONS = Table(
    "conversation_state",
    Role.STATE,
    "what the surprise gate remembers of one conversation",
    {
        "recent_names": derived(texts("Candidate names of the last 200 mentions, oldest first.")),
        "recent_turns": vectors(
            derived(ColumnSpec(pa.list_(pa.float32()), "Vectors of the last ten turns, flattened."))
        ),
        "consecutive_skips": derived(count("Messages skipped in a row.")),
    },
)
_EPISODES = Table(
    "episodes",
    Role.STATE,
    "one conversation as something that happened",
    {
        "conversation_id": text("The conversation.", required=True),
        "scope": text("Its scope."),
        "started_at": derived(time("First message.")),
        "ended_at": derived(time("Last message.")),
        "messages": derived(count("Messages so far.")),
        "summary": text("What was talked about; empty: not summarised (S4-23)."),
        "summarised_by": text("model or rule."),
        "prompt_version": text("The prompt that a model answered."),
        "summarised_pairs": count("Questions with an answer that it had when it was summarised."),
    },
)
_EPISODE_ENTITIES = Table(
    "episode_entities",
    Role.STATE,
    "one entity that a conversation is about",
    {
        "episode_id": text("The episode.", required=True, refers="episodes"),
        "entity_id": text("The entity.", required=True, refers="entities"),
    },
    lookup=("entity_id", "episode_id"),
)
_ENTITIES = Table(
    "entities",
    Role.STATE,
    "one named thing",
    {
        "canonical_name": text("Normalised name; immutable; unique with the type.", required=True),
        "name": derived(text("The surface form seen most recently.")),
        "entity_type": text(
            "person, tool, concept, project, language, file, config, organization, place, event, session."
        ),
        "status": text("active, paused, completed or archived."),
        "summary": text("What it is."),
        "first_seen_at": derived(time("First mention.")),
        "last_seen_at": derived(time("Latest mention.")),
        "pinned": flag("Kept for ever, with all that is known of it."),
        "is_renamed": flag("A person gave it its name: mentions no longer change it."),
        "merged_into": text("The entity that took it over, if it was merged.", refers="entities"),
        "parent_entity_id": text("The entity it was split from.", refers="entities"),
        "embed_text_hash": derived(text("Hash of the text its vector stands for.")),
    },
    full_text=("name",),
    lookup=("id", "canonical_name", "merged_into", "parent_entity_id"),
    has_vector=True,
    needs_approval=True,
)
_ALIASES = Table(
    "entity_aliases",
    Role.STATE,
    "one name under which an entity is known",
    {
        "alias_name": text("Normalised name.", required=True),
        "entity_type": text("Type under which it is looked up."),
        "entity_id": text("The entity.", required=True, refers="entities"),
    },
    lookup=("alias_name", "entity_id"),
    needs_approval=True,
)
_PREDICATES = Table(
    "predicates",
    Role.STATE,
    "one predicate and its canonical form",
    {
        "alias": text("As it was said.", required=True),
        "canonical": text("The form that facts are compared by."),
        "cardinality": text("1 or n: how many objects one subject may have at a time."),
        "source": text("default, file or llm."),
    },
    needs_approval=True,
)
_FACT_COLUMNS: Mapping[str, ColumnSpec] = {
    "kind": text("relation, observation, note, structural or similarity."),
    "subject_id": text("Entity it is about.", refers="entities"),
    "predicate_raw": text("Relation as extracted."),
    "predicate": text("Canonical relation."),
    "edge_type": text("causal, temporal, semantic, co_occurrence or hierarchical."),
    "object_id": text("Other entity, if the object is one.", refers="entities"),
    "object_text": text("Object as said."),
    "statement": text("The sentence that all of this means; immutable."),
    "statement_hash": text("Hash of the normalised statement."),
    "search_terms": text("General words, of no name and not in the statement, to ask for it with; never shown."),
    "owner_entity_id": text("Entity under which it is filed; splits and merges move it.", refers="entities"),
    "scope": text("Project or artifact; `global` otherwise."),
    "polarity": text("affirmed or negated."),
    "status": text("candidate, active, rejected, superseded, retracted or archived (SEMANTICS §6.3)."),
    "status_reason": text("Why it has that status."),
    "valid_from": time("When it became true in the world."),
    "valid_to": time("When it stopped being true; empty while it holds."),
    "event_at": time("When it happens: the beginning. What is planned is known earlier, from when it was said."),
    "event_until": time("When that is over at the latest (excluded)."),
    "event_precision": text(
        "How exactly the words tell `event_at`, or else `valid_from` or `valid_to`: day, week, month, season (three "
        "months), year or around; empty where they tell no time."
    ),
    "date_is_disputed": flag("The model understood another date than the words say by rule; the model's is kept."),
    "expired_at": time("When the store stopped believing it."),
    "replaced_by": text("The fact that took its place.", refers="facts"),
    "supersedes_id": text("The fact whose place it took most recently.", refers="facts"),
    "patch_batch_id": text("The patch it came with.", refers="patch_batches"),
    "confidence": number("0 to 1."),
    "evidence_count": count("Messages that say it."),
    "entrenchment": text("user_axiom, user_stated or system_inferred, strongest first."),
    "pinned": flag("Never pruned or overridden automatically."),
    "message_id": text("Row in `messages` that said it first.", refers="messages"),
    "episode_id": text("Episode that said it first.", refers="episodes"),
    "quote": text("The words it was taken from."),
    "similarity_flag": signal(flag("It looks like another live fact (S0-01).")),
    "similar_to_id": signal(text("The fact it looks like.")),
    "similarity_score": signal(number("Cosine to that fact.")),
    "related_id": signal(text("Nearest fact below the flag (S4-21).")),
    "consolidated_at": derived(
        time("When consolidation last looked at it; empty: it is still to be looked at (S1-08).")
    ),
    "consolidation_attempts": derived(count("How often a model failed to decide about it.")),
    "consolidation_error": derived(text("Why consolidation gave it up.")),
    "suspect_of": text("A fact that no longer holds and that this one leans on: look at it again."),
    "content_score": number("Worth of the message it came from, 0 to 1."),
    "aspect_slugs": texts("Aspects staged at extraction."),
    "mentions": texts("Further entities that the statement names."),
    "embed_model": vectors(text("Model of the vector.")),
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
        "consolidated_at",
    ),
    few_values=("status",),
    has_vector=True,
    needs_approval=True,
)
_FACTS_ARCHIVE = replace(
    _FACTS, name="facts_archive", row="one fact that was moved out of the way; questions about the past still see it"
)
_FACT_EVIDENCE = Table(
    "fact_evidence",
    Role.STATE,
    "one message that supports a fact; the key is both ids, so a retry never counts twice",
    {
        "fact_id": text("The fact.", required=True, refers="facts"),
        "message_id": text("Row in `messages`.", required=True, refers="messages"),
        "confidence": number("Confidence of this mention."),
        "quote": text("The words."),
        "occurred_at": time("When they were said."),
    },
    lookup=("fact_id", "message_id"),
)
_DIRECTIVES = Table(
    "fact_directives",
    Role.STATE,
    "what a candidate says of one earlier fact; carried out when the candidate is applied",
    {
        "candidate_id": text("The candidate.", required=True, refers="facts"),
        "known_id": text("The earlier fact, if the extractor pointed at one."),
        "object": text("Or what was replaced or ended, in the message's words."),
        "action": text("supersede, retract, contradict (both stay, flagged) or repeat."),
        "reason": text("correction or temporal_change."),
    },
    lookup=("candidate_id", "known_id"),
)
_LINEAGE = Table(
    "lineage",
    Role.STATE,
    "one step from a fact to the one that replaced it",
    {
        "old_id": text("The fact that was replaced.", required=True, refers="facts"),
        "new_id": text("The fact that replaced it.", required=True, refers="facts"),
        "reason": text("conflict, belief_revision, correction, temporal_change, dedup or consolidated."),
    },
    lookup=("old_id", "new_id"),
)
_PAIR_DECISIONS = Table(
    "pair_decisions",
    Role.STATE,
    "one pair of facts that was compared, so that nobody asks about it twice (S1-13)",
    {
        "a_id": text("The fact whose id is smaller.", required=True, refers="facts"),
        "b_id": text("The other one.", required=True, refers="facts"),
        "kind": text("redundant: do they say the same; implicit_conflict: do their relations contradict (S2-75)."),
        "outcome": text("pending, keep_all, supersede or failed; of an implicit conflict pending or settled."),
        "cosine": number("Cosine of the two."),
        "jaccard": number("Shared words over all words."),
        "guard": text("The guard that kept them apart; of an implicit conflict `contradicts` if it was stated."),
        "decided_by": text("rule, model or person."),
        "prompt_version": text("Version of the prompt that decided; empty while nobody was asked."),
        "at": time("When it was compared."),
        "expires_at": time("When a pending implicit conflict is forgotten (S2-75)."),
    },
    lookup=("a_id", "b_id"),
)
_PENDING_BELIEFS = Table(
    "pending_beliefs",
    Role.STATE,
    "one statement that was not said surely enough yet to become a candidate (S2-63)",
    {
        "subject_id": text("Entity it is about.", refers="entities"),
        "predicate": text("Canonical relation."),
        "object_id": text("Other entity, if the object is one.", refers="entities"),
        "object_text": text("Object as said."),
        "edge_type": text("causal, temporal, semantic, co_occurrence or hierarchical."),
        "scope": text("Project or artifact; `global` otherwise."),
        "statement": text("The sentence of its surest evidence."),
        "claim": text("JSON: the candidate that it becomes, from its surest evidence."),
        "probability": number("Noisy-or of its evidence at `last_at`, 0 to 1 (S2-65)."),
        "evidence_count": count("Messages that hint at it."),
        "first_at": time("First evidence."),
        "last_at": time("Latest evidence."),
        "promoted_at": time("When it became a candidate."),
        "promoted_id": text("The candidate it became."),
    },
    lookup=("subject_id", "object_id"),
    needs_approval=True,
)
_BELIEF_EVIDENCE = Table(
    "belief_evidence",
    Role.STATE,
    "one message that hints at a pending belief; the key is both ids, so a retry never counts twice (S2-70)",
    {
        "belief_id": text("The belief.", required=True, refers="pending_beliefs"),
        "message_id": text("Row in `messages`.", required=True, refers="messages"),
        "episode_id": text("Its conversation.", refers="episodes"),
        "prior": number("Probability before, decayed to then."),
        "evidence": number("Confidence of this mention."),
        "posterior": number("Probability after."),
        "at": time("When it was said."),
    },
    lookup=("belief_id", "message_id"),
)
_ARTIFACTS = Table(
    "artifacts",
    Role.STATE,
    "one document as a whole, in a chain of versions (S1-15)",
    {
        "title": text("Its heading or file name."),
        "type": text("markdown or text."),
        "content": text("The text after redaction."),
        "content_hash": text("Hash of the text, so that the same one is known again."),
        "summary": text("What it is about, in a sentence or two."),
        "group_id": text("All versions of one artifact share it."),
        "version_no": count("1, 2, 3 … within the group, oldest first."),
        "parent_id": text("The version before.", refers="artifacts"),
        "link": text("root, version, derivative or duplicate."),
        "derived_from": text("The artifact that a derivative was made from.", refers="artifacts"),
        "is_head": flag("The newest version of its group."),
        "linked_fact_ids": texts("Facts that were read from it."),
        "status": text("active or superseded; a duplicate is superseded by the artifact that it repeats."),
        "replaced_by": text("The artifact that took its place.", refers="artifacts"),
        "seen_count": count("How often the very same text came in."),
        "scope": text("Project; `global` otherwise."),
        "conversation_id": text("The document or conversation it came with."),
        "source_id": text("The file it came from.", refers="sources"),
        "message_id": text("The message it was pasted in, of stores of earlier versions.", refers="messages"),
        "made_at": time("When it was written: the order of versions."),
        "confidence": number("How sure its link is, 0 to 1 (S1-18)."),
        "consolidated_at": time("When it was linked; empty: still to be linked."),
    },
    lookup=("content_hash", "group_id", "conversation_id"),
    has_vector=True,
    needs_approval=True,
)
_ENTITY_PROFILES = Table(
    "entity_profiles",
    Role.STATE,
    "what one entity is as a whole: its observations and relations as one text (S0-06); the id is the entity's",
    {
        "text": derived(text("The text that the vector stands for.")),
        "text_hash": derived(text("Its hash.")),
    },
    has_vector=True,
)
_FACT_USAGE = Table(
    "fact_usage",
    Role.STATE,
    "how often one fact was recalled; the id is the fact's",
    {
        "hit_count": derived(count("Recalls that returned it; never decays, and one protects from pruning (S4-07).")),
        "cosine_sum": derived(number("Sum of its cosines to the queries, where there was one (T6).")),
        "cosine_count": derived(count("How many cosines that is.")),
        "last_retrieved_at": derived(time("Latest recall.")),
        "link_count": derived(number("Recalls that fade: a factor per day without one (S2-73).")),
        "link_decayed_at": derived(time("Until when they have faded.")),
    },
    lookup=("id",),
    whole="use",
)
_FACT_SCORES = Table(
    "fact_scores",
    Role.STATE,
    "what the steward thinks of one fact; the id is the fact's",
    {
        "quality_score": derived(number("0 to 1 (S4-06); empty: never scored.")),
        "scored_at": derived(time("When this score was written; later ones that hardly differ are not.")),
        "compared_at": derived(time("When the steward last looked for its duplicates.")),
    },
    lookup=("id",),
)
_ENTITY_USAGE = Table(
    "entity_usage",
    Role.STATE,
    "how often one entity was read (S0-23); the id is the entity's",
    {
        "access_count": derived(count("Reads that touched it.")),
        "access_days": derived(count("Different days on which it was read.")),
        "last_access_at": derived(time("Latest read.")),
    },
    lookup=("id",),
    whole="use",
)
_ENTITY_DAYS = Table(
    "entity_days",
    Role.STATE,
    "reads of one entity on one day (S0-23)",
    {
        "entity_id": derived(text("The entity.", required=True)),
        "day": derived(text("UTC date.")),
        "access_count": derived(count("Reads.")),
    },
    lookup=("entity_id",),
    whole="use",
)
_CO_OCCURRENCES = Table(
    "co_occurrences",
    Role.STATE,
    "two entities that one read returned together (S0-26)",
    {
        "a_id": derived(text("The entity whose id is smaller.", required=True)),
        "b_id": derived(text("The other one.", required=True)),
        "count": derived(count("How often.")),
        "last_at": derived(time("Latest time.")),
    },
    lookup=("a_id", "b_id"),
    whole="use",
)
_LOG_MARKS = Table(
    "log_marks",
    Role.STATE,
    "how far one log was counted; the id is the log's name",
    {"version": derived(count("The version of the log up to which its rows are counted."))},
    whole="use",
)
_ENTITY_SCORES = Table(
    "entity_scores",
    Role.STATE,
    "what one entity weighs; the id is the entity's",
    {
        "degree": derived(count("Live relations in both directions.")),
        "importance": derived(number("0 to 1.38 (S0-24), maxima over the namespace.")),
        "temporal": derived(number("0.1 to 1: how recently it was read, or made (S0-25).")),
        "is_stale": derived(flag("A candidate for the archive: unimportant and long unread (S0-22).")),
        "scored_at": derived(time("When this was written.")),
    },
    lookup=("id",),
)
_ENTITY_LINKS = Table(
    "entity_links",
    Role.STATE,
    "two entities whose descriptions are alike; no knowledge, and no fact (S2-71)",
    {
        "a_id": derived(text("The entity whose id is smaller.", required=True)),
        "b_id": derived(text("The other one.", required=True)),
        "cosine": derived(number("Cosine of their descriptions, as measured last.")),
        "linked_at": derived(time("When that was.")),
    },
    lookup=("a_id", "b_id"),
)
_COMMUNITIES = Table(
    "communities",
    Role.STATE,
    "entities that are more related to each other than to others (S2-46)",
    {
        "name": derived(text("Its most connected members; not a key (S2-49).")),
        "summary": derived(text("What holds it together; empty: still to be summarised (S2-48).")),
        "summarised_by": derived(text("model or rule.")),
        "prompt_version": derived(text("The prompt that a model answered.")),
        "fingerprint": derived(text("Hash of its members and relations when it was summarised; empty: do so again.")),
        "told_fact_ids": derived(texts("The facts that the summary was told from.")),
        "entity_ids": derived(texts("Its members when it was refreshed last, most connected first.")),
        "joined_ids": derived(texts("Entities that joined since (S2-50).")),
        "facts": derived(count("Live relations within it.")),
        "aspects": derived(text("JSON: how many of its relations touch which aspect (C16).")),
        "refreshed_at": derived(time("When this was written.")),
    },
    lookup=("id",),
    whole="communities",
)
_ASPECT_SCORES = Table(
    "aspect_scores",
    Role.STATE,
    "how well one aspect of a life is known; the id is the aspect's slug (S3-18, S3-19)",
    {
        "score": derived(number("0 to 100.")),
        "facts": derived(count("Live facts that touch it.")),
        "entities": derived(count("Different subjects and objects among them.")),
        "predicates": derived(count("Different canonical relations among them.")),
        "confidence": derived(number("Their mean confidence, 0 to 1.")),
        "scored_at": derived(time("When this was written.")),
    },
)
_ASPECT_PARTS = Table(
    "aspect_parts",
    Role.STATE,
    "one number from which earlier versions counted aspects; nothing reads or writes it",
    {
        "slug": derived(text("The aspect.", required=True)),
        "part": derived(
            text(
                "end, relation: how many live facts name the entity or relation `key`; entities, predicates: how many "
                "of these there are; facts; rated and confidence: how many have one, and their sum in billionths.",
                required=True,
            )
        ),
        "key": derived(text("The entity or canonical relation; empty for a total.", required=True)),
        "number": derived(count("How many.")),
    },
    lookup=("id",),
)
_PATCHES = Table(
    "patch_batches",
    Role.STATE,
    "one group of candidates that is decided together",
    {
        "origin": text("ingest, quotes (sentences as they were said), belief, consolidate or import."),
        "source_key": text("Conversation or document it was extracted from."),
        "state": text("open, evaluating, approved, rejected, needs_review or applied."),
        "candidates": count("Facts in it."),
        "passed": count("Facts that passed evaluation."),
        "decided_by": text("rule, model or person."),
    },
)
_FACT_ASPECTS = Table(
    "fact_aspects",
    Role.STATE,
    "one aspect of an applied fact",
    {
        "fact_id": text("The fact.", required=True, refers="facts"),
        "slug": text("The aspect.", required=True),
        "via": text("regex or model."),
    },
    lookup=("fact_id",),
)
_METADATA = Table(
    "metadata",
    Role.STATE,
    "one named counter or mark",
    {"number": derived(number("Its number.")), "text": derived(text("Its text."))},
)
_DECISIONS = Table(
    "decisions",
    Role.HISTORY,
    "one decision that changed memory, or refused to",
    {
        "action": text(
            "create, reassert, supersede, absorb, keep, contradict, fail, retract, close, archive, prune, restore, "
            "move, delete, revive, expire, pin, gate, import, undo …",
            required=True,
        ),
        "subject_id": text("The row it is about.", required=True),
        "ids_in": texts("Rows it looked at."),
        "ids_out": texts("Rows it made or changed."),
        "measures": text("JSON: the measures and thresholds it saw."),
        "decided_by": text("rule, model or person."),
        "model": text("Model and prompt version, if a model decided."),
        "reason": text("One sentence."),
        "at": time("When."),
        "approved_by": text("The person who said yes or no to it, where it was proposed first."),
        "proposal_id": text("The proposal that it came from."),
    },
    lookup=("subject_id", "run_id"),
)
_PROPOSALS = Table(
    "proposals",
    Role.STATE,
    "one change that waits for a person: what approval would write, to the byte",
    {
        "action": text("split, delete, patch, merge, prune, decay, restore …: what it would do.", required=True),
        "title": text("What it would do, in one line."),
        "reason": text("Why it is proposed."),
        "subject_id": text("The entity or fact that it is mostly about."),
        "subject": text("Its name or statement."),
        "state": text("pending, approved, rejected, applied, stale or replaced."),
        "risks": texts("pinned, override, large, erasure, user_stated, cross_source; none: low risk."),
        "proposed_by": text("rule, model, person or agent."),
        "ask": text("JSON: what was asked for, where a person may modify it."),
        "changes": vectors(text("JSON: the rows that approval writes: table, id, before, after.")),
        "otherwise": vectors(text("JSON: the rows that a rejection writes.")),
        "basis": text("JSON: the state of the rows that it rests on."),
        "plan_hash": text("Hash of the basis: another one at approval makes the plan stale."),
        "repeat_key": text("Hash of what it would do: what was rejected is not proposed again."),
        "touches": texts("Ids of the rows that it changes or rests on."),
        "evidence": texts("Messages that the facts it touches were said in."),
        "decider": text("The person who decided."),
        "door": text("terminal, prefect, mcp, python or browser: where it was decided."),
        "decided_at": time("When."),
        "note": text("What the person said to it."),
        "outcome": text("Why it became stale, or which proposal took its place."),
    },
    lookup=("id", "subject_id", "repeat_key"),
)
_COMMITS = Table(
    "commits",
    Role.HISTORY,
    "one published state of the namespace: the version of every table",
    {
        "sequence": count("1, 2, 3 … without gaps."),
        "kind": text("What kind of change."),
        "at": time("When it was published."),
        "versions": text("JSON: table to version."),
        "before": text("JSON: table to version before the commit, for the tables it wrote."),
        "undoes": texts("Runs that this commit took back."),
        "waited_s": number("Seconds until it had the writer lease; empty in rows from before version 6."),
        "embed_model": text("Model of the vectors of this state; empty in rows from before version 6."),
        "dims": count("Length of its vectors."),
    },
)
_RUNS = Table(
    "runs",
    Role.HISTORY,
    "one run of a flow or command",
    {
        "flow": text("Which flow."),
        "state": text("running, completed, incomplete, stopped (budget), failed, interrupted or undone."),
        "owner": text("The process that runs it; `imported` where it ran elsewhere and came with an export."),
        "parent_id": text("The night or backfill that it is a part of; undo of the whole takes its parts back too."),
        "parameters": text("JSON: what it was asked to do."),
        "summary": text("JSON: what it did."),
        "started_at": time("When it started."),
        "ended_at": time("When it ended."),
        "calls": count("Model calls paid."),
        "tokens_in": count("Tokens read by the model."),
        "tokens_out": count("Tokens written by the model."),
        "usd": number("Dollars."),
    },
    lookup=("parent_id",),
)
_LLM_CALLS = Table(
    "llm_calls",
    Role.LOG,
    "one paid model answer; looked up before any call is made",
    {
        "provider": text("Provider."),
        "model": text("Model."),
        "role": text("extract, resolve, consolidate, summarize, judge or answer."),
        "prompt_name": text("Which prompt."),
        "prompt_hash": text("Hash of the rendered prompt."),
        "schema_hash": text("Hash of the response schema."),
        "response": text("JSON: the validated answer; empty if the call failed for good."),
        "error": text("Why it failed for good."),
        "tokens_in": count("Tokens read."),
        "tokens_out": count("Tokens written."),
        "usd": number("Dollars."),
        "latency_s": number("Seconds."),
        "attempts": count("Tries it took."),
        "calls": count("Paid answers it took; empty in rows from before version 6."),
    },
    lookup=("id",),
)
_LLM_BATCHES = Table(
    "llm_batches",
    Role.LOG,
    "prompts that were handed over together (Message Batches), as they were last; the newest row of an id holds",
    {
        "provider": text("Provider."),
        "model": text("Model."),
        "role": text("extract, resolve, consolidate, summarize, judge or answer."),
        "schema_hash": text("Hash of the response schema."),
        "state": text("submitting, unsure, submitted, collected or lost.", required=True),
        "batch_id": text("What the provider calls it; empty until it is known."),
        "keys": texts("Ids that its answers will have in `llm_calls`."),
        "prompt_names": texts("Which prompts, in the order of the keys."),
        "prompt_hashes": texts("Hashes of the rendered prompts, in the order of the keys."),
        "tokens_in": count("Tokens that it will probably read."),
        "tokens_out": count("Tokens that it will probably write."),
        "usd": number("Dollars that it will probably cost."),
        "owner": text("Process that works at it."),
        "begun_at": time("When it was about to be handed over."),
    },
)
_RETRIEVAL_EVENTS = Table(
    "retrieval_events",
    Role.LOG,
    "one fact returned by one recall (S4-01)",
    {
        "fact_id": text("The fact.", required=True, refers="facts"),
        "cosine": number("Cosine to the query, not the fused rank."),
        "rank": count("Position, from 1."),
        "query_hash": text("Hash of the query."),
        "at": time("When."),
    },
)
_ENTITY_ACCESS = Table(
    "entity_access_log",
    Role.LOG,
    "one entity that a read touched (S0-23)",
    {
        "entity_id": text("The entity.", required=True, refers="entities"),
        "day": text("UTC date."),
        "query_hash": text("Hash of the query."),
        "at": time("When."),
    },
)
_RECALLED_QUERIES = Table(
    "recalled_queries",
    Role.LOG,
    "one recall as it was asked, so that maintenance can be tried on real questions",
    {
        "query": text("The question after redaction."),
        "query_hash": text("Hash of the query."),
        "k": count("How many facts were asked for."),
        "at": time("When."),
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
