"""Other names: an entity is also found under a name that somebody, a fact or the front matter of its note gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from slowwave.common.decisions import decision, decision_frame
from slowwave.common.text import normalise_name
from slowwave.lifecycle.entity_merges import alias_rows
from slowwave.reading.extraction.quotes import UNNAMED_TYPES
from slowwave.reading.extraction.roster import is_same_person
from slowwave.reading.ingestion.documents import document_aliases
from storage.snapshots import Reading
from storage.transactions import Transaction
from tasks.entities.names_and_pins import names_in_use


def add_alias(tx: Transaction, entity: str, name: str, because: Sequence[str] = (), *, may_rename: bool) -> None:
    """One more name of an entity, unless another entity is called so; the decision says which.

    `because`: ids of the facts that give the name. `may_rename`: a fuller name becomes the one that is shown.
    """
    alias = normalise_name(name)
    in_use = names_in_use(tx, [alias])
    row = tx.by_ids("entities", [entity], with_vector=True)
    if row.is_empty() or not alias or (in_use["entity_id"] == entity).any():
        return
    if len(in_use):
        reason = f"It was called {name!r}, which is what another entity is called; merge them if they are one."
        _decide(tx, "refuse", entity, [entity, *in_use["entity_id"], *because], [entity], reason, name)
        return
    known = row["name"][0]
    is_fuller = "'s " in known or (is_same_person(name, known) and len(name) > len(known))
    if may_rename and is_fuller and not row["is_renamed"][0]:
        tx.upsert("entities", row.with_columns(name=pl.lit(name)))
    added = alias_rows(row.select(pl.lit(alias).alias("alias_name"), "entity_type"), entity)
    tx.upsert("entity_aliases", added)
    # Where facts wait for approval, the decision ties the name to its fact, so that one answer is for both.
    made = [entity, *added["id"]] if because else [entity]
    _decide(tx, "alias", entity, [entity, *because], made, f"{known} is also called {name}.", name)


def _decide(
    tx: Transaction, action: str, entity: str, ids: Sequence[str], made: Sequence[str], reason: str, name: str
) -> None:
    tx.upsert("decisions", decision_frame([decision(action, entity, ids, made, reason, tx.now, {"name": name})]))


def add_aliases_of_facts(tx: Transaction, facts: pl.DataFrame, messages: pl.DataFrame) -> None:
    """The names that active facts give ("known_as"), and those in the front matter of the notes that they come from.

    `facts`: full rows, written by the same commit; `messages`: full rows of those that were read. A name that was
    denied, or is over, gives no alias.
    """
    if not ((facts["predicate"] == "known_as").any() or (messages["role"] == "document").any()):
        return
    is_affirmed = (pl.col("polarity") != "negated").fill_null(True)
    active = facts.filter((pl.col("status") == "active") & pl.col("subject_id").is_not_null())
    called = active.filter((pl.col("predicate") == "known_as") & is_affirmed & pl.col("object_text").is_not_null())
    given = pl.concat(
        [called.select("subject_id", name="object_text", fact="id"), _names_of_notes(tx, active, messages)]
    )
    for entity, name, fact in given.unique(["subject_id", "name"], keep="first", maintain_order=True).iter_rows():
        add_alias(tx, entity, name, [fact], may_rename=False)


def _names_of_notes(reading: Reading, facts: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """(subject_id, name, fact) of the facts about the person or named thing that their note is titled after."""
    notes = messages.filter(pl.col("role") == "document").select("speaker", "conversation_id", message_id="id")
    rows = facts.select("subject_id", "message_id", fact="id").join(notes, on="message_id", maintain_order="left")
    aliases = aliases_of_notes(reading, rows["conversation_id"])
    owners = reading.by_ids("entities", rows["subject_id"], ["id", "canonical_name", "entity_type"])
    is_named = ~pl.col("entity_type").is_in(UNNAMED_TYPES)
    rows = rows.join(owners.filter(is_named), left_on="subject_id", right_on="id", maintain_order="left")
    columns = ("subject_id", "fact", "speaker", "canonical_name", "conversation_id")
    found = [
        (entity, name, fact)
        for entity, fact, title, called, note in rows.select(columns).iter_rows()
        if normalise_name(title) == called
        for name in aliases.get(note, ())
    ]
    return pl.DataFrame(found, dict.fromkeys(("subject_id", "name", "fact"), pl.String), orient="row")


def aliases_of_notes(reading: Reading, notes: Sequence[str] | pl.Series) -> Mapping[str, Sequence[str]]:
    """The other names in the front matter of notes, by the conversation id of the note.

    The whole text of a note is an artifact; a note that is none has no other names.
    """
    ids = pl.Series(notes, dtype=pl.String).drop_nulls().unique()
    columns = ["conversation_id", "content"]
    is_note = "type = 'markdown' AND message_id IS NULL"
    texts = reading.by_ids("artifacts", ids, columns, key="conversation_id", where=is_note)
    return {note: names for note, text in texts.sort(columns).iter_rows() if (names := document_aliases(text or ""))}
