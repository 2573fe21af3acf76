"""What forgetting a subject changes in one state of the store, table by table; nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from recall.ask import PROMPT as QUESTION
from slowwave.common.text import digest, row_id
from slowwave.facts.searched_texts import texts_of
from slowwave.lifecycle import erasure
from slowwave.lifecycle.erasure import Ids, Keys
from slowwave.lifecycle.forgotten_names import NameMatcher
from slowwave.reading.ingestion.sessions import SUMMARY_COLUMNS
from storage.changes import FACT_TABLES
from storage.snapshots import Reading
from storage.tables import TABLES, Role, tables_of
from tasks.ingest.sessions import PROMPT as SESSIONS
from tasks.nightly.groups import PROMPT as COMMUNITIES

IN_OWN_WORDS = (COMMUNITIES, SESSIONS, QUESTION)
LOGS = tuple(tables_of(Role.LOG))
REQUIRED = {name: {c for c, spec in table.columns.items() if not spec.nullable} for name, table in TABLES.items()}
LEAST_WORDS = 3  # of a statement that is looked for elsewhere
_SEARCHED = ("id", "conversation_id", "ordinal", "role", "speaker", "content", "has_injection")
_EMBEDDED = {"messages": ("speaker", "content"), "artifacts": ("title", "summary", "content"),
             "entities": ("summary",), "refusals": ("excerpt",)}  # fmt: skip

Quotes = Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(frozen=True, slots=True, eq=False)
class ErasurePlan:
    """What changes, by table: ids that go, rows that are struck, and the texts (id, text) of vectors to compute again.

    An empty text leaves a row without a vector. `entities` are the names of those that go; profiles of `owners` are
    renewed.
    """

    gone: Ids
    struck: Mapping[str, pl.DataFrame]
    texts: Mapping[str, pl.DataFrame]
    entities: tuple[str, ...]
    owners: tuple[str, ...]

    def removed(self) -> dict[str, int]:
        """Rows that go, by table."""
        return {name: len(ids) for name, ids in self.gone.items() if ids}

    def changed(self) -> dict[str, int]:
        """Rows that stay without a text or a reference, by table."""
        return {name: len(rows) for name, rows in self.struck.items() if len(rows)}


def plan_erasure(reading: Reading, entity_id: str, names: NameMatcher) -> ErasurePlan:
    """Everything that goes or is struck; logs only lose rows. `entity_id` is empty for a topic."""
    named: dict[str, pl.DataFrame] = {}
    keys: dict[str, pl.DataFrame] = {}
    for table in TABLES:
        frame = reading.frame(table)
        named[table] = pl.concat([erasure.naming(frame, names), frame.filter(erasure.with_words_of(frame, names))])
        kept = frame.filter(pl.col("action") != "forget") if table == "decisions" else frame
        keys[table] = erasure.keys_of(kept)
    gone = _gone(keys, named, entity_id, names)
    gone["llm_calls"] |= {*retold_among(reading.frame("llm_calls", columns=["id", "prompt_name"]))}
    return _Striking(reading, names, named, keys, gone).plan()


def retold_among(calls: pl.DataFrame) -> pl.Series:
    """Ids of calls (id, prompt_name) that tell in own words what was known, perhaps of the subject: all of them go."""
    return calls.filter(pl.col("prompt_name").is_in(IN_OWN_WORDS))["id"]


def _gone(keys: Keys, named: Keys, entity_id: str, names: NameMatcher) -> dict[str, set[str]]:
    seeds = {name: erasure.telling(name, rows, names, is_log=name in LOGS) for name, rows in named.items()}
    seeds["entities"] |= {entity_id} & {*keys["entities"]["id"]}
    return erasure.cascade(keys, seeds, REQUIRED)


class _Striking:
    """What becomes of the rows that stay."""

    def __init__(
        self, reading: Reading, names: NameMatcher, named: Keys, keys: Keys, gone: dict[str, set[str]]
    ) -> None:
        self._reading, self._names, self._named, self._keys, self._gone = reading, names, named, keys, gone
        self._quotes = {**self._quotes_of_what_goes(), **self._quotes_elsewhere()}
        values = [keys[table][column] for table in TABLES for column in erasure.labels_in(table, keys[table].columns)]
        self._labels = erasure.label_names(pl.concat([each.rename("label") for each in values]).drop_nulls(), names)

    def plan(self) -> ErasurePlan:
        struck = {table: self._struck(table) for table in TABLES if table not in LOGS}
        self._gone["conversation_state"] |= self._memories(struck["messages"])
        struck["conversation_state"] = _without(struck["conversation_state"], self._gone["conversation_state"])
        texts = {table: self._texts(table, rows) for table, rows in struck.items()}
        new = texts["entities"]["text"]  # which the new vectors stand for
        hashes = texts["entities"].select("id", fresh=pl.Series([digest(text) for text in new], dtype=pl.String))
        both = struck["entities"].join(hashes, on="id", how="left", maintain_order="left")
        struck["entities"] = both.with_columns(embed_text_hash=pl.coalesce("fresh", "embed_text_hash")).drop("fresh")
        if len(texts["refusals"]):  # what is struck teaches nothing any more
            is_struck = pl.col("id").is_in(texts["refusals"]["id"].implode())
            teaches = pl.when(~is_struck).then("teaches").otherwise(False).alias("teaches")
            struck["refusals"] = struck["refusals"].with_columns(teaches)
        struck["messages"] = self._found_again(struck["messages"])
        entities = self._reading.by_ids("entities", sorted(self._gone["entities"]), ["name"])["name"].to_list()
        listed = tuple(sorted(name or "" for name in entities))
        return ErasurePlan(self._gone, struck, texts, listed, self._owners())

    def _struck(self, table: str) -> pl.DataFrame:
        """The rows of one table that stay and change."""
        quotes, gone = self._quotes.get(table, {}), self._gone
        ids = {*self._named[table]["id"], *quotes, *erasure.pointing(self._keys[table], gone), *self._weakened(table)}
        before = self._reading.by_ids(table, sorted(ids - gone[table]))
        if before.is_empty():
            return before
        cut = self._supported(table, before, erasure.without_pointers(before, gone))
        after = erasure.struck(table, cut, self._names, self._labels, quotes)
        return after.join(before, on=before.columns, how="anti", nulls_equal=True, maintain_order="left")

    def _quotes_of_what_goes(self) -> Quotes:
        """The words that erased facts were read from, by message, and by artifact that came with the message."""
        facts = sorted(set().union(*(self._gone[name] for name in FACT_TABLES)))
        columns = ["message_id", "quote"]
        parts = [self._reading.by_ids("fact_evidence", facts, columns, key="fact_id")]
        parts += [self._reading.by_ids(name, sorted(self._gone[name]), columns) for name in FACT_TABLES]
        quotes = pl.concat(parts).drop_nulls().unique(maintain_order=True)
        places = self._keys["messages"].select("conversation_id", message_id="id")
        near = quotes.join(places, on="message_id")
        shelf = self._keys["artifacts"].select("id", "conversation_id", own="message_id")
        pasted = shelf.drop_nulls("own").join(near, left_on="own", right_on="message_id").select("id", "quote")
        filed = shelf.filter(pl.col("own").is_null()).join(near, on="conversation_id").select("id", "quote")
        return {
            "messages": _grouped(quotes.select("message_id", "quote")),
            "artifacts": _grouped(pl.concat([pasted, filed]).unique(maintain_order=True)),
        }

    def _quotes_elsewhere(self) -> Quotes:
        """Erased statements that do not name the subject, as runs and decisions tell them; answers with them go."""
        parts = [
            self._reading.by_ids(name, sorted(self._gone[name]), ["statement"])
            for name in (*FACT_TABLES, "pending_beliefs")
        ]
        listed = pl.concat(parts)["statement"].drop_nulls().unique(maintain_order=True)
        statements = [each for each in listed.filter(~self._names.named(listed)) if len(each.split()) >= LEAST_WORDS]
        if not statements:
            return {}
        for name in ("llm_calls", "proposals"):  # JSON, of which no sentence can be struck
            self._gone[name] |= {*erasure.repeating(self._reading.frame(name), statements)}
        return {name: erasure.repeating(self._reading.frame(name), statements) for name in ("runs", "decisions")}

    def _weakened(self, table: str) -> set[str]:
        """Rows that lose some of what they rest on, or count, or took general words over from what goes."""
        if table == "episodes":
            struck = {*self._named["messages"]["id"], *self._quotes["messages"]}
            affected = self._reading.by_ids("messages", sorted(self._gone["messages"] | struck), ["conversation_id"])
            about = _among(self._keys["episode_entities"], self._gone["episode_entities"])["episode_id"]
            return {*self._keys[table].join(affected, on="conversation_id", how="semi")["id"], *about}
        found: set[str] = set()
        if table in FACT_TABLES:
            left = [_among(self._keys[name], self._gone[name]) for name in FACT_TABLES]
            heirs = [rows[column] for rows in left for column in ("replaced_by", "similar_to_id")]
            found |= {*pl.concat([each.rename("id") for each in heirs]).drop_nulls()} & {*self._keys[table]["id"]}
        for rows, evidence, key in erasure.REST_ON:
            if rows == table:
                lost = self._keys[evidence].filter(pl.col("id").is_in(list(self._gone[evidence])))
                found |= {*lost[key]} & {*self._keys[rows]["id"]}
        return found

    def _supported(self, table: str, before: pl.DataFrame, cut: pl.DataFrame) -> pl.DataFrame:
        """The rows with what they count counted again, and with the earliest message that is left in place of one."""
        if table == "episodes":
            left = self._keys["messages"].filter(~pl.col("id").is_in(list(self._gone["messages"])))
            counts = left.group_by("conversation_id").agg(left=pl.len().cast(pl.Int64))
            # A summary of the conversation may speak of the subject.
            silent = before.clear().select(SUMMARY_COLUMNS).clear(len(cut))
            return cut.join(counts, on="conversation_id", how="left", maintain_order="left").with_columns(
                *silent, messages=pl.min_horizontal("messages", pl.col("left").fill_null(0))
            ).drop("left")  # fmt: skip
        for rows, evidence, key in erasure.REST_ON:
            if rows == table:
                lost = self._keys[evidence].filter(pl.col("id").is_in(list(self._gone[evidence])))
                counts = lost.group_by(pl.col(key).alias("id")).agg(lost=pl.len().cast(pl.Int64))
                cut = cut.join(counts, on="id", how="left", maintain_order="left").with_columns(
                    evidence_count=(pl.col("evidence_count") - pl.col("lost").fill_null(0)).clip(lower_bound=0)
                ).drop("lost")  # fmt: skip
        return self._moved(before, cut) if table in FACT_TABLES else cut

    def _moved(self, before: pl.DataFrame, cut: pl.DataFrame) -> pl.DataFrame:
        """Facts whose first message goes come from the next one that says them."""
        lost = before.filter(pl.col("message_id").is_in(list(self._gone["messages"])))["id"]
        columns = ["id", "fact_id", "message_id", "quote", "occurred_at"]
        evidence = self._reading.by_ids("fact_evidence", lost, columns, key="fact_id")
        left = _without(evidence, self._gone["fact_evidence"]).sort("occurred_at", "id")
        first = left.unique("fact_id", keep="first", maintain_order=True)
        messages = self._keys["messages"].select("conversation_id", message_id="id")
        met = self._keys["episodes"].select("conversation_id", next_episode="id")
        next_ = first.join(messages, on="message_id", how="left").join(met, on="conversation_id", how="left").select(
            id="fact_id", next_message="message_id", next_quote="quote", next_episode="next_episode"
        )  # fmt: skip
        is_lost = pl.col("id").is_in(lost.implode())
        return cut.join(next_, on="id", how="left", maintain_order="left").with_columns(
            message_id=pl.when(is_lost).then("next_message").otherwise("message_id"),
            quote=pl.when(is_lost).then("next_quote").otherwise("quote"),
            episode_id=pl.when(is_lost).then("next_episode").otherwise("episode_id"),
        ).drop("next_message", "next_quote", "next_episode")  # fmt: skip

    def _texts(self, table: str, struck: pl.DataFrame) -> pl.DataFrame:
        """What the vectors of struck rows stand for now."""
        none = pl.DataFrame(schema={"id": pl.String, "text": pl.String})
        keeps_text = table in FACT_TABLES  # a fact that stays keeps its statement
        if keeps_text or not TABLES[table].has_vector or struck.is_empty():
            return none
        read = _EMBEDDED.get(table) or tuple(c for c in struck.columns if c in erasure.LONG)
        before = self._reading.by_ids(table, struck["id"], ["id", *read])
        rows = struck.join(before, on=["id", *read], how="anti", nulls_equal=True, maintain_order="left")
        is_told = table in ("messages", "artifacts", "entities") and len(rows)
        text = texts_of(table, rows) if is_told else pl.Series([None] * len(rows), dtype=pl.String)
        return rows.select("id").with_columns(text.alias("text"))

    def _found_again(self, struck: pl.DataFrame) -> pl.DataFrame:
        """The struck messages, and those after a turn that went or was struck, with what they are found under.

        A conversation of which something went loses its outline: its lines tell of other messages, too.
        """
        ids = sorted(self._gone["messages"] | {*struck["id"]})
        talks = self._reading.by_ids("messages", ids, ["conversation_id"])["conversation_id"]
        before = self._reading.by_ids("messages", talks, _SEARCHED, key="conversation_id").sort("id")
        has_line = "outline IS NOT NULL"
        lines = self._reading.by_ids("messages", talks, ["id"], key="conversation_id", where=has_line)["id"]
        changed = struck.select("id", new_speaker="speaker", new_content="content", is_struck=pl.lit(True))
        both = before.join(changed, on="id", how="left", maintain_order="left")
        is_struck = pl.col("is_struck").fill_null(False)
        after = both.with_columns(
            speaker=pl.when(is_struck).then("new_speaker").otherwise("speaker"),
            content=pl.when(is_struck).then("new_content").otherwise("content"),
        ).select(before.columns)
        fresh = erasure.renewed_search_texts(before, after, self._gone["messages"])
        others = self._reading.by_ids("messages", sorted({*fresh["id"], *lines}.difference(ids)))
        rows = pl.concat([struck, erasure.struck("messages", others, self._names, self._labels, {})])
        found = rows.join(fresh.rename({"search_text": "found"}), on="id", how="left", maintain_order="left")
        return found.with_columns(
            search_text=pl.coalesce("found", "search_text"), outline=pl.lit(None, dtype=pl.String)
        ).drop("found")

    def _memories(self, struck: pl.DataFrame) -> set[str]:
        """What the surprise gate remembers of conversations that lose something: names and vectors of turns."""
        ids = sorted(self._gone["messages"] | {*struck["id"]})
        talks = self._reading.by_ids("messages", ids, ["conversation_id"])["conversation_id"].unique()
        return {row_id("cv", talk) for talk in talks} & {*self._keys["conversation_state"]["id"]}

    def _owners(self) -> tuple[str, ...]:
        facts = self._keys["facts"].filter(pl.col("id").is_in(list(self._gone["facts"])))["owner_entity_id"]
        described = {*facts} & {*self._keys["entity_profiles"]["id"]}
        found = (described | self._gone["entity_profiles"]) - self._gone["entities"]
        return tuple(sorted(found))


def _without(rows: pl.DataFrame, ids: set[str]) -> pl.DataFrame:
    return rows.filter(~pl.col("id").is_in(list(ids)))


def _among(rows: pl.DataFrame, ids: set[str]) -> pl.DataFrame:
    return rows.filter(pl.col("id").is_in(list(ids)))


def _grouped(rows: pl.DataFrame) -> dict[str, list[str]]:
    key, quote = rows.columns
    return dict(rows.group_by(key, maintain_order=True).agg(quote).iter_rows())
