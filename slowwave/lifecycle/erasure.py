"""Erasure: which rows go with a subject that is to be forgotten, and what is struck in those that stay.

A row goes if it is about the subject: the entity and every entity whose name holds the name, facts and beliefs about
them or with the name in their words, what the subject said, learned texts with the name. With a row goes what cannot be
without it (a reference that may not be empty, counters under its id), and a fact or belief that rests only on messages
that go: nothing would tell where it came from. Everywhere else references to what went are emptied, and texts are
struck: the sentences that name the subject, and the words from which an erased fact was read.

Rules go by the columns of a table, not by a list of tables: text in a table that is added later is struck as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import polars as pl

from slowwave.common.text import FORGOTTEN, word_set
from slowwave.facts.revision.search_terms import COLUMN as GENERAL_WORDS
from slowwave.facts.searched_texts import search_texts

from .forgotten_names import NameMatcher

VOCABULARY = word_set(
    """role graph_state format state subject_kind gate entity_type status kind edge_type polarity entrenchment
    cardinality source outcome decided_by link type via slug aspect_slugs action flow provider model prompt_name
    prompt_version embed_model origin guard day summarised_by aspects
    risks proposed_by door"""
)
"""Columns of slowwave's own words: none of them is about anybody."""
LABELS = ("conversation_id", "scope", "uri", "source_key")
"""Columns that other rows are found by: only the name in them is struck, everywhere in the same way."""
LONG = word_set(
    """content search_text statement quote excerpt text response summary claim reason measures error parameters
    versions before query ask changes otherwise basis note outcome search_terms outline"""
)
"""Columns too long to hold an id, or of words that are none."""
ECHOES = ("entity_profiles", "entity_usage", "entity_scores", "fact_usage", "fact_scores")
"""Tables whose rows bear the id of the row that they are about: that one does not go because they do."""
REST_ON = (("facts", "fact_evidence", "fact_id"), ("facts_archive", "fact_evidence", "fact_id"),
           ("pending_beliefs", "belief_evidence", "belief_id"))  # fmt: skip

_SAYS = ("statement", "object_text", "quote", "predicate", "predicate_raw")
_TELLING: Mapping[str, tuple[str, ...]] = {
    "entities": ("name", "canonical_name"),
    "entity_aliases": ("alias_name",),
    "entity_profiles": ("text",),
    "facts": _SAYS,
    "facts_archive": _SAYS,
    "fact_directives": ("object",),
    "pending_beliefs": ("statement", "object_text", "predicate", "claim"),
    "predicates": ("alias", "canonical"),
    "scorer_state": ("text",),
    "conversation_state": ("recent_names",),
    "communities": ("name", "summary"),
    "proposals": ("title", "reason", "subject", "ask", "changes", "otherwise", "basis"),
}
_FACTS_IN_JSON = ("claim", "changes", "response")
_WORDS_IN_JSON = rf'"{GENERAL_WORDS}":\s*"(?:[^"\\]|\\.)*"'
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SUBJECTS = ("subject_id", "object_id", "owner_entity_id")
_TOUCHES = ("subject_id", "touches", "evidence")  # a proposal holds whole rows of what it touches, and goes with it
_NAMED_ROWS = ("runs", "commits")  # a name in their id would be one of a flow

Ids = Mapping[str, set[str]]
Keys = Mapping[str, pl.DataFrame]


def texts_of(frame: pl.DataFrame) -> list[str]:
    """Columns of a table that may contain a name."""
    kinds = (pl.String(), pl.List(pl.String))
    return [name for name, kind in frame.schema.items() if kind in kinds and name not in VOCABULARY]


def keys_of(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns that may hold ids or labels."""
    return frame.select(name for name in texts_of(frame) if name not in LONG)


def naming(frame: pl.DataFrame, names: NameMatcher, columns: Iterable[str] | None = None) -> pl.DataFrame:
    """The rows that name the subject in any of the columns, by default in any text."""
    wanted = list(texts_of(frame) if columns is None else columns)
    found = names.candidates(frame, wanted)
    hits = pl.repeat(False, len(found), dtype=pl.Boolean, eager=True)
    for column in wanted if len(found) else ():
        hits = hits | names.named(found[column])
    return found.filter(hits)


def with_words_of(frame: pl.DataFrame, names: NameMatcher) -> pl.Series:
    """Which rows have a word of a name among general words: of a fact, or of facts in JSON.

    A text of general words tells neither the order nor the form of a name: "Anne-Marie O'Neil" is "anne marie neil".
    """
    hits = pl.repeat(False, len(frame), dtype=pl.Boolean, eager=True)
    for column in {GENERAL_WORDS, *_FACTS_IN_JSON} & {*frame.columns}:
        texts = frame[column]
        if column != GENERAL_WORDS:
            texts = _words_in_json(texts)
        hits = hits | names.have_words_in(texts)
    return hits


def _words_in_json(texts: pl.Series) -> pl.Series:
    """The general words of all facts that each text of JSON holds, as one text; escapes stand for their letters."""
    found = texts.str.extract_all(_WORDS_IN_JSON).list.join(" ").str.replace_all(GENERAL_WORDS, "")
    escaped = found.str.contains("\\", literal=True).fill_null(False).arg_true()
    plain = [_ESCAPE.sub(_unescaped, text) for text in found.gather(escaped)]
    return found.scatter(escaped, pl.Series(plain, dtype=pl.String)) if plain else found


def _unescaped(escape: re.Match[str]) -> str:
    """The letter of an escape by its number; a blank for any other, none of which is a letter."""
    return chr(int(escape[1], 16)) if escape[1] and not 0xD800 <= int(escape[1], 16) < 0xE000 else " "


def telling(table: str, named: pl.DataFrame, names: NameMatcher, *, is_log: bool = False) -> set[str]:
    """Ids of the rows of one table that go for their own words; `named` are rows that name the subject."""
    if is_log:
        return {*named["id"]}
    found = {*naming(named, names, _TELLING.get(table, ()))["id"]} if table in _TELLING else set()
    if table == "messages":
        found |= {*naming(named.filter(pl.col("role").ne_missing("document")), names, ["speaker"])["id"]}
    if table == "proposals":
        found |= {*named.filter(with_words_of(named, names))["id"]}
    return found if table in _NAMED_ROWS else found | {*naming(named, names, ["id"])["id"]}


def _ids(gone: Ids) -> pl.Series:
    """The ids of deleted rows, as one list; a row that echoes another takes nothing with it."""
    found = (ids for name, ids in gone.items() if name not in ECHOES)
    return pl.Series(sorted(set().union(*found)), dtype=pl.String).implode()


def about(keys: Keys, entities: Collection[str]) -> dict[str, set[str]]:
    """Ids of the facts and beliefs about these entities, and of the entities that were merged into them."""
    theirs = pl.Series(sorted(entities), dtype=pl.String).implode()
    found = {"entities": {*keys["entities"].filter(pl.col("merged_into").is_in(theirs))["id"]}}
    for table in ("facts", "facts_archive", "pending_beliefs"):
        sides = [c for c in _SUBJECTS if c in keys[table].columns]
        found[table] = {*keys[table].filter(pl.any_horizontal(pl.col(c).is_in(theirs) for c in sides))["id"]}
    return found


def cascade(keys: Keys, seeds: Ids, required: Ids) -> dict[str, set[str]]:
    """All rows that go, by table: the seeds and what cannot be without them.

    `keys` are the tables as `keys_of` leaves them, `required` their columns that may not be empty.
    """
    gone = {name: set(seeds.get(name, ())) for name in keys}
    while True:
        ids = _ids(gone)
        more: dict[str, set[str]] = {
            name: {*_holding(frame, [c for c in frame.columns if c == "id" or c in required[name]], ids)["id"]}
            for name, frame in keys.items()
        }
        for table, evidence, key in REST_ON:
            own = [keys[table].select(pl.col("id").alias(key), "message_id")] if "message_id" in keys[table] else []
            support = pl.concat([keys[evidence].select(key, "message_id"), *own])
            more[table] |= _emptied(support.filter(pl.col(key).is_in(keys[table]["id"].implode())), gone["messages"])
        silent = _emptied(keys["messages"].select("conversation_id", "id"), gone["messages"])
        more["episodes"] |= {*keys["episodes"].filter(pl.col("conversation_id").is_in(silent))["id"]}
        facts = pl.concat([keys[name].select("patch_batch_id", "id") for name in ("facts", "facts_archive")])
        more["patch_batches"] |= _emptied(facts, gone["facts"] | gone["facts_archive"])
        more["communities"] |= _shaken(keys, gone)
        more["proposals"] |= {*_holding(keys["proposals"], _TOUCHES, ids)["id"]}
        for name, found in about(keys, gone["entities"]).items():
            more[name] |= found
        if all(more[name] <= gone[name] for name in keys):
            return gone
        gone = {name: gone[name] | more[name] for name in keys}


def _holding(frame: pl.DataFrame, columns: Sequence[str], ids: pl.Series) -> pl.DataFrame:
    """Rows with one of the ids in one of the columns."""
    found = [
        pl.col(c).list.eval(pl.element().is_in(ids)).list.any() if frame.schema[c] == pl.List else pl.col(c).is_in(ids)
        for c in columns
    ]
    return frame.filter(pl.any_horizontal(found).fill_null(False)) if found else frame.clear()


def _emptied(rows: pl.DataFrame, lost: Collection[str]) -> set[str]:
    """The groups (first column) of which every member (second column) goes."""
    group, member = rows.columns
    is_lost = pl.col(member).is_in(pl.Series(sorted(lost), dtype=pl.String).implode())
    return {*rows.drop_nulls().group_by(group).agg(is_lost.all()).filter(member)[group]}


def _shaken(keys: Keys, gone: Ids) -> set[str]:
    """Communities that lose a member of the last refresh, a relation within, or a fact of their summary.

    That includes facts that were deleted before.
    """
    members = keys["communities"].select("id", member="entity_ids").explode("member")
    lost = members.filter(pl.col("member").is_in(pl.Series(sorted(gone["entities"]), dtype=pl.String).implode()))
    facts = pl.Series(sorted(gone["facts"] | gone["facts_archive"]), dtype=pl.String).implode()
    both = pl.concat([keys[name].select("id", "subject_id", "object_id") for name in ("facts", "facts_archive")])
    ends = both.filter(pl.col("id").is_in(facts)).drop_nulls()
    starts = members.join(ends, left_on="member", right_on="subject_id", suffix="_fact")
    within = starts.join(members, left_on=["id", "object_id"], right_on=["id", "member"], how="semi")
    known = pl.concat([keys[name]["id"] for name in ("facts", "facts_archive")])
    left = known.filter(~known.is_in(facts))
    sources = keys["communities"].select("id", fact_id="told_fact_ids").explode("fact_id").drop_nulls()
    return {*lost["id"], *within["id"], *sources.filter(~pl.col("fact_id").is_in(left.implode()))["id"]}


def pointing(table: pl.DataFrame, gone: Ids) -> set[str]:
    """Rows of one table, by its keys, that point at something that goes."""
    ids = _ids(gone)
    return {*_holding(table, [c for c in table.columns if c != "id"], ids)["id"]}


def without_pointers(rows: pl.DataFrame, gone: Ids) -> pl.DataFrame:
    """The rows with references to what goes emptied.

    A fact whose successor goes is archived, never live again; one that looked like a fact that goes loses the flag.
    """
    ids = _ids(gone)
    columns = [name for name in texts_of(rows) if name != "id"]
    lists = [name for name in columns if rows.schema[name] == pl.List]
    cut = rows.with_columns(
        *(pl.when(~pl.col(c).is_in(ids)).then(c).alias(c) for c in columns if c not in lists),
        *(pl.col(c).list.eval(pl.element().filter(~pl.element().is_in(ids))) for c in lists),
    )
    if "similarity_flag" not in cut.columns:
        return cut
    orphaned = (pl.col("status") == "superseded") & pl.col("replaced_by").is_null()
    unlike = pl.col("similarity_flag").fill_null(False) & pl.col("similar_to_id").is_null()
    return cut.with_columns(
        status=pl.when(orphaned).then(pl.lit("archived")).otherwise("status"),
        status_reason=pl.when(orphaned).then(pl.lit("forgotten")).otherwise("status_reason"),
        similarity_flag=pl.when(unlike).then(False).otherwise("similarity_flag"),
        similarity_score=pl.when(~unlike).then("similarity_score"),
    )


def repeating(rows: pl.DataFrame, sentences: Sequence[str]) -> dict[str, list[str]]:
    """Which of these sentences each row holds in one of its texts, by id; the texts may be JSON."""
    forms = {json.dumps(each, ensure_ascii=False)[1:-1]: each for each in sentences}
    needles = [*{*forms, *sentences}]
    found: dict[str, list[str]] = {}
    for column in texts_of(rows):
        if rows.schema[column] == pl.String and column != "id" and needles:
            hits = rows.filter(pl.col(column).str.contains_any(needles))
            for id, text in hits.select("id", column).iter_rows():
                found.setdefault(id, []).extend(each for form, each in forms.items() if form in text or each in text)
    return found


def label_names(values: Iterable[str], names: NameMatcher) -> dict[str, str]:
    """For every label that names the subject a new one without the name; different ones stay different."""
    taken = {*values}
    new: dict[str, str] = {}
    for old in sorted(value for value in taken if names.are_in(value)):
        struck, number = names.without_name(old), 1
        while struck in taken:
            number += 1
            struck = f"{names.without_name(old)} {number}"
        taken.add(struck)
        new[old] = struck
    return new


def labels_in(table: str, columns: Iterable[str]) -> list[str]:
    """The labels of a table; a message's identifier is its own."""
    return [c for c in columns if c in LABELS or (table, c) == ("messages", "message_id")]


def struck(
    table: str, rows: pl.DataFrame, names: NameMatcher, labels: Mapping[str, str], quotes: Mapping[str, Sequence[str]]
) -> pl.DataFrame:
    """The rows without anything that names the subject; `quotes` are further words to strike, by row id.

    General words go as a whole: what gave them may be what went.
    """
    own = labels_in(table, rows.columns)
    columns = [c for c in texts_of(rows) if c != "id" and c not in own]
    phrases = [quotes.get(id, ()) for id in rows["id"]]
    cut = rows.with_columns(
        *(pl.col(c).replace(labels) for c in own if labels),
        *(_struck(rows[c], names, phrases) for c in columns),
    )
    if GENERAL_WORDS in cut.columns:
        cut = cut.with_columns(pl.lit(None, dtype=pl.String).alias(GENERAL_WORDS))
    if table == "pending_beliefs":
        cut = cut.with_columns(pl.col("claim").str.replace_all(_WORDS_IN_JSON, f'"{GENERAL_WORDS}":null'))
    return cut


def _struck(texts: pl.Series, names: NameMatcher, quotes: Sequence[Sequence[str]]) -> pl.Series:
    if texts.dtype == pl.List(pl.String):
        lists = [None if each is None else [names.without(text) for text in each] for each in texts.to_list()]
        return pl.Series(texts.name, lists, dtype=texts.dtype)
    cleaned = [names.without(text, more) for text, more in zip(texts, quotes, strict=True)]
    return pl.Series(texts.name, cleaned, dtype=pl.String)


def renewed_search_texts(before: pl.DataFrame, after: pl.DataFrame, gone: Collection[str]) -> pl.DataFrame:
    """(id, search_text) of the messages that are found under another text afterwards.

    Both are whole conversations, as they were and as they are struck, those that go among them: the turn after one of
    these has no turn before, rather than an earlier one that it does not answer.
    """
    is_gone = pl.col("id").is_in(pl.Series(sorted(gone), dtype=pl.String).implode())
    hidden = after.with_columns(
        content=pl.when(is_gone).then(pl.lit(FORGOTTEN)).otherwise("content"),
        speaker=pl.when(~is_gone).then("speaker"),
    )
    texts = search_texts(hidden).str.strip_prefix(f": {FORGOTTEN}\n").str.strip_suffix(f"\n: {FORGOTTEN}")
    found = after.select("id", search_text=texts)
    old = before.select("id", old=search_texts(before))
    both = found.join(old, on="id", maintain_order="left").filter(~is_gone)
    return both.filter(pl.col("search_text").ne_missing(pl.col("old"))).select("id", "search_text")
