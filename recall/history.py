"""The past of what is known: versions (S2-38), chains of replacements (S2-55), the archive, and stories of any row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl

from slowwave.common.errors import UnknownName
from slowwave.common.lexicon.labels import canonical_relation
from slowwave.common.records import REDUNDANT
from slowwave.common.text import short_id
from slowwave.common.types import Chain, Decided, Entity, Mention, Provenance, Story, Version
from slowwave.common.types.stories import MOST, clipped
from slowwave.common.validity import Moment, as_known, oldest_first
from storage.rows import quoted
from storage.snapshots import Snapshot
from storage.undo import FOR_GOOD

from .facts import ALL, EVIDENCE, LEARNED, SHOWN, ends_of, shown, sources_of, speakers_of, stored, texts_of
from .groups import summarised_communities

_BELIEVED = "status NOT IN ('candidate', 'rejected') AND (kind IS NULL OR kind NOT IN ('structural', 'similarity'))"
_DECIDED = (*LEARNED, "reason", "ids_in", "ids_out")
_ENDINGS = ("supersede", "retract", "close", "archive", "prune", "evict")
_NEWEST = ("valid_from", "created_at", "id")


def history_of(
    snapshot: Snapshot, entity: Entity, words: str | None, relation: str | None, moment: Moment, limit: int
) -> tuple[Version, ...]:
    """All versions of what was known about a subject, the latest first, at most `limit`.

    `words` stand literally, in any case, in the statement or the canonical predicate, `relation` is that predicate
    (C8).
    """
    rows = stored(snapshot, ALL, [entity.id], ("subject_id",), SHOWN, _BELIEVED)
    if words:
        relations = (_says("predicate", each) for each in {words, canonical_relation(words)})
        rows = rows.filter(pl.any_horizontal(_says("statement", words), *relations))
    if relation is not None:
        rows = rows.filter(pl.col("predicate") == canonical_relation(relation))
    if moment.known_as_of is not None:
        rows = _known(snapshot, rows, moment.known_as_of)
    rows = rows.sort(_NEWEST, descending=True, nulls_last=True).head(limit)
    return _versions(snapshot, rows, moment)


def chain_of(snapshot: Snapshot, fact_id: str, moment: Moment) -> Chain:
    """The chain of replacements that a fact belongs to, oldest first: at most 64 facts, each once (T35)."""
    order = oldest_first(fact_id, [step[:2] for step in _lineage(snapshot, [fact_id])])
    rows = stored(snapshot, ALL, order.ids, columns=SHOWN)
    if fact_id not in rows["id"]:
        raise UnknownName("fact", fact_id, [])
    rows = pl.DataFrame({"id": order.ids}).join(rows, on="id", how="inner", maintain_order="left")
    return Chain(_versions(snapshot, rows, moment), order.has_circle, order.is_cut)


def _says(column: str, words: str) -> pl.Expr:
    return pl.col(column).str.to_lowercase().str.contains(words.lower(), literal=True).fill_null(False)


def _known(snapshot: Snapshot, rows: pl.DataFrame, t: datetime) -> pl.DataFrame:
    """The rows as they were known at `t`; whatever replaced them is looked up, for when it began."""
    winners = stored(snapshot, ALL, rows["replaced_by"].drop_nulls(), columns=SHOWN)
    wide = pl.concat([rows, winners]).unique("id", keep="first", maintain_order=True)
    closed = snapshot.by_ids("decisions", rows["id"], LEARNED, key="subject_id")
    return as_known(wide, t, ends_of(closed)).join(rows.select("id"), on="id", how="semi", maintain_order="left")


def _versions(snapshot: Snapshot, rows: pl.DataFrame, moment: Moment) -> tuple[Version, ...]:
    """The rows with why and by what each of them ended."""
    decided = _endings(snapshot, rows, moment)
    by = {row["id"]: row["replaced_by"] or decided.get(row["id"], ("", None))[1] for row in rows.to_dicts()}
    others = stored(snapshot, ALL, sorted({name for name in by.values() if name}), columns=("id", "statement"))
    named = {name: Mention(name, words) for name, words in others.iter_rows()}
    return tuple(
        Version(
            fact,
            row["created_at"],
            row["expired_at"],
            decided.get(fact.id, ("", None))[0] or _reason(row),
            named.get(by[fact.id]),
        )
        for fact, row in zip(shown(snapshot, rows, moment), rows.to_dicts(), strict=True)
    )


def _endings(snapshot: Snapshot, rows: pl.DataFrame, moment: Moment) -> dict[str, tuple[str, str | None]]:
    """Of facts that are over: the reason of the last decision that ended them, and the other fact it speaks of."""
    over = rows.filter((pl.col("status") != "active") | pl.col("valid_to").is_not_null())
    about = pl.concat([over["id"], over["replaced_by"]]).drop_nulls()
    decisions = snapshot.by_ids("decisions", about, _DECIDED, key="subject_id").sort("at")
    if moment.known_as_of is not None:
        decisions = decisions.filter(pl.col("at") <= moment.known_as_of)
    found: dict[str, tuple[str, str | None]] = {}
    for row in decisions.iter_rows(named=True):
        subject, reason = row["subject_id"], row["reason"] or row["action"]
        others = [name for name in (*(row["ids_out"] or ()), *(row["ids_in"] or ())) if name != subject]
        if row["action"] == "absorb":
            found |= dict.fromkeys((name for name in row["ids_out"] or () if name != subject), (reason, subject))
        elif row["action"] in _ENDINGS:
            found[subject] = (reason, others[0] if others else None)
    return {name: why for name, why in found.items() if name in set(over["id"])}


def _reason(row: dict[str, Any]) -> str:
    """What the fact itself says, if no decision does."""
    return "" if row["status"] == "active" and row["valid_to"] is None else row["status_reason"] or ""


# The archive: what faded, was evicted or retired, and can be restored.


ARCHIVED = "status = 'archived'"
_READ = ("id", "statement", "status_reason", "expired_at")


def archived(snapshot: Snapshot, limit: int = 50) -> tuple[int, list[dict[str, Any]]]:
    """How many facts are archived, and those that left last: id, statement, reason, at."""
    parts = [snapshot.frame(name, ARCHIVED, _READ) for name in ALL]
    rows = pl.concat(parts).unique("id", keep="first", maintain_order=True)
    newest = rows.sort("expired_at", "id", descending=True, nulls_last=True).head(limit)
    return len(rows), newest.rename({"status_reason": "reason", "expired_at": "at"}).to_dicts()


# The story of one row: its content, sources and decisions, and the rows before and after it.


_TITLES = {
    "facts": "statement",
    "entities": "name",
    "messages": "content",
    "artifacts": "title",
    "communities": "name",
    "episodes": "conversation_id",
    "runs": "id",
    "patch_batches": "id",
    "proposals": "title",
}
_OWN_NAMES = {"messages": "message_id", "episodes": "conversation_id"}
_SHORT = re.compile(r"[0-9a-f]{6,16}")
_SEVERAL = 6  # rows that an error names
_WHERE_IDS_ARE = "`slowwave facts NAME`, `history NAME` and `runs` show ids; the eight letters there are enough."
_HIDDEN = (
    "created_at",
    "updated_at",
    "search_text",
    "search_terms",
    "statement_hash",
    "embed_text_hash",
    "changes",
    "otherwise",
    "basis",
)


def story_of(snapshot: Snapshot, name: str, now: datetime | None = None) -> Story:
    """The story of the row whose id is, or alone begins with, `name`; a community is as it is shown at `now`."""
    kind, row = _find(snapshot, name)
    if kind == "communities":
        row |= summarised_communities(snapshot, [row["id"]], now or datetime.now(UTC)).drop("member_ids").to_dicts()[0]
    facts = [row["id"]] if kind == "facts" else []
    stated = _facts_of(snapshot, row["id"]) if kind == "messages" else ()
    lineage = _lineage(snapshot, facts)
    concerned = sorted({row["id"], *(fact for step in lineage for fact in step[:2]), *(fact[0] for fact in stated)})
    pairs = _pairs(snapshot, facts)
    evidence = _evidence(snapshot, facts, row)
    absorbed = tuple(s for s in _evidence(snapshot, _absorbed(row["id"], lineage), {}) if s not in evidence)
    decisions = _decisions(snapshot, concerned, beside=[row["id"]] if kind == "messages" else facts)
    if kind == "runs":  # what it decided, and what was decided about it: that it was undone, and why
        decisions = tuple(dict.fromkeys([*_decisions(snapshot, [row["id"]], key="run_id"), *decisions]))
    named = {name for each in _first_of_each_kind(decisions) for name in (each.about, *each.beside)}
    others = [row["similar_to_id"], *(pair["other_id"] for pair in pairs)] if facts else []
    return Story(
        id=row["id"],
        kind=kind,
        title=str(row[_TITLES[kind]]),
        columns={key: value for key, value in row.items() if value not in (None, "", []) and key not in _HIDDEN},
        evidence=evidence,
        lineage=tuple(lineage),
        decisions=decisions,
        absorbed=absorbed,
        pairs=pairs,
        artifacts=_artifacts(snapshot, facts),
        statements=texts_of(snapshot, {*concerned, *named, *filter(None, others)}),
        heard=stated,
        speakers=speakers_of(snapshot, [*evidence, *absorbed]),
    )


def fact_named(snapshot: Snapshot, name: str) -> str:
    """The id of the fact whose id is, or alone begins with, `name`."""
    return str(_find(snapshot, name, ["facts"])[1]["id"])


def run_named(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """The row of the run whose id is, or alone begins with, `name`."""
    return _find(snapshot, name, ["runs"])[1]


def run_to_undo(snapshot: Snapshot, name: str) -> str:
    """The id of the run that wrote whose id is, or alone begins with, `name`, or its short form; else `name`.

    Raises `UnknownName` where several begin like that.
    """
    wrote = snapshot.frame("commits", columns=["run_id", "kind"]).filter(~pl.col("kind").is_in(FOR_GOOD))
    known = wrote["run_id"].unique().sort().to_list()
    if name in known:
        return name
    is_short = _SHORT.fullmatch(name) is not None
    meant = [run for run in known if name and (run.startswith(name) or (is_short and name in run))]
    if len(meant) > 1:
        raise UnknownName("run (several begin like that)", name, meant)
    return meant[0] if meant else name


def _find(snapshot: Snapshot, name: str, kinds: Iterable[str] = _TITLES) -> tuple[str, dict[str, Any]]:
    """The row of that id, of an id that begins so or has that short form; some also by their own name."""
    meant = f"id = {quoted(name)} OR starts_with(id, {quoted(name)})"
    if _SHORT.fullmatch(name):
        meant += f" OR id LIKE {quoted(f'%_{name}%')}"
    for kind in kinds:
        where = f"{meant} OR {_OWN_NAMES[kind]} = {quoted(name)}" if kind in _OWN_NAMES else meant
        places = ALL if kind == "facts" else (kind,)
        rows = pl.concat([snapshot.frame(table, where, limit=_SEVERAL + 1) for table in places])
        exact = rows.filter(pl.col("id") == name)
        if len(exact) or len(rows):
            return kind, _the_one(kind, name, exact if len(exact) else rows)
    raise UnknownName("id", name, (), _WHERE_IDS_ARE)


def _the_one(kind: str, name: str, rows: pl.DataFrame) -> dict[str, Any]:
    """The only row; of several an error that says what each is, and by which letters it is named."""
    if len(rows) == 1:
        return rows.to_dicts()[0]
    meant = "; ".join(
        f"{row['id'] if kind == 'runs' else short_id(row['id'])} (“{clipped(str(row[_TITLES[kind]] or ''), 40)}”)"
        for row in rows.head(_SEVERAL).iter_rows(named=True)
    )
    more = ", or another one" if len(rows) > _SEVERAL else ""
    raise UnknownName(
        "id (several begin like that)", name, rows["id"], f"Give the letters of the one you mean: {meant}{more}."
    )


def _facts_of(snapshot: Snapshot, message: str) -> tuple[tuple[str, str, str, str], ...]:
    """The facts that a message says, whatever became of them."""
    columns = ["id", "statement", "status", "status_reason"]
    own = stored(snapshot, ALL, [message], ("message_id",), columns)
    others = snapshot.by_ids("fact_evidence", [message], ["fact_id"], key="message_id")["fact_id"]
    both = pl.concat([own, stored(snapshot, ALL, others, columns=columns)]).unique("id").sort("id")
    return tuple(both.with_columns(pl.col("status_reason").fill_null("")).iter_rows())


def _first_of_each_kind(decisions: Sequence[Decided]) -> list[Decided]:
    """Of decisions of one action for one reason, as a run may have thousands of, those that are told."""
    kinds: dict[tuple[str, str], list[Decided]] = {}
    for each in decisions:
        kinds.setdefault((each.action, each.reason), []).append(each)
    return [each for alike in kinds.values() for each in alike[:MOST]]


def _absorbed(fact: str, lineage: Sequence[tuple[str, str, str]]) -> list[str]:
    """The facts whose words it took the place of, through any number of steps."""
    found: set[str] = set()
    fresh = {fact}
    while fresh:
        fresh = {old for old, new, reason in lineage if new in fresh and reason in REDUNDANT} - found - {fact}
        found |= fresh
    return sorted(found)


def _pairs(snapshot: Snapshot, facts: list[str]) -> tuple[dict[str, Any], ...]:
    """What was decided about the fact beside another one, latest first."""
    rows = pl.concat([snapshot.by_ids("pair_decisions", facts, key=end) for end in ("a_id", "b_id")])
    other = pl.when(pl.col("a_id").is_in(facts)).then("b_id").otherwise("a_id").alias("other_id")
    words = pl.col("kind", "outcome", "guard", "decided_by").fill_null("")
    latest = rows.sort("at", "a_id", "b_id", descending=True)
    return tuple(latest.select(other, words, "cosine", "at").iter_rows(named=True))


def _artifacts(snapshot: Snapshot, facts: list[str]) -> tuple[tuple[str, str], ...]:
    """Id and title of the documents that the fact was read from."""
    wanted = " OR ".join(f"array_has(linked_fact_ids, {quoted(fact)})" for fact in facts)
    if not wanted:
        return ()
    return tuple(snapshot.frame("artifacts", wanted, ["id", "title"]).sort("id").iter_rows())


def _evidence(snapshot: Snapshot, facts: list[str], row: Mapping[str, Any]) -> tuple[Provenance, ...]:
    """Who said the facts, in order of time; of one that was never taken up, which has no evidence, its own `row`."""
    evidence = snapshot.by_ids("fact_evidence", facts, EVIDENCE, key="fact_id").with_columns(fact_id=pl.lit(""))
    if facts and evidence.is_empty() and row.get("message_id"):
        own = {"fact_id": "", "message_id": row["message_id"], "quote": row["quote"]}
        evidence = pl.DataFrame([own], schema=dict.fromkeys(EVIDENCE, pl.String))
    return tuple(source for _, source in sources_of(snapshot, evidence).get("", ()))


def _lineage(snapshot: Snapshot, facts: Sequence[str]) -> list[tuple[str, str, str]]:
    """(old, new, reason) of all steps of replacement to or from the facts, to the end of each chain.

    A step that only the pointers of facts tell has no reason.
    """
    steps: dict[tuple[str, str], str] = {}
    seen: set[str] = set()
    while fresh := sorted({*facts, *(fact for step in steps for fact in step)} - seen):
        seen |= {*fresh}
        keys = ("id", "replaced_by", "supersedes_id")
        rows = stored(snapshot, ALL, fresh, keys, keys)
        pointers = [rows.select("id", "replaced_by"), rows.select("supersedes_id", "id")]
        steps |= dict.fromkeys((pair for part in pointers for pair in part.drop_nulls().iter_rows()), "")
        for key in ("old_id", "new_id"):
            found = snapshot.by_ids("lineage", fresh, ("old_id", "new_id", "reason"), key=key)
            steps |= {(old, new): reason for old, new, reason in found.iter_rows()}
    return sorted((*step, reason) for step, reason in steps.items())


def _decisions(
    snapshot: Snapshot, ids: Sequence[str], key: str = "subject_id", beside: Sequence[str] = ()
) -> tuple[Decided, ...]:
    """The decisions about these rows, or of these runs, and those that name a row of `beside` as another one."""
    named = " OR ".join(f"array_has({column}, {quoted(name)})" for name in beside for column in ("ids_in", "ids_out"))
    others = [snapshot.frame("decisions", named)] if named else []
    rows = pl.concat([snapshot.by_ids("decisions", ids, key=key), *others]).unique("id").sort("at", "created_at", "id")
    by = pl.when(pl.col("action").is_in(["approve", "reject"])).then("approved_by").otherwise("decided_by")
    both = pl.concat_list(pl.col("ids_in", "ids_out").fill_null([])).list.unique(maintain_order=True)
    shown = rows.with_columns(pl.col("reason", "approved_by").fill_null(""), decided_by=by.fill_null(""), beside=both)
    columns = ("at", "action", "decided_by", "reason", "run_id", "subject_id", "beside", "approved_by")
    return tuple(
        Decided(at, action, who, why, run, about, tuple(name for name in others if name != about), person)
        for at, action, who, why, run, about, others, person in shown.select(columns).iter_rows()
    )
