"""Names become entities: the order of the ladder, aliases, twins, questions (S2-01 … S2-09)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.embedding import open_embedder
from slowwave.common import frames
from slowwave.common.settings import DEFAULT_EMBEDDER, ResolveSettings
from slowwave.entities.entity_resolution import (
    COSINES,
    UNCLEAR_NAME,
    Resolution,
    exact_matches,
    finish,
    plan_resolution,
)
from slowwave.entities.mentions import RAW_MENTIONS, mentions_in, new_id
from slowwave.entities.name_joins import KNOWN, near_names, plan_joins
from slowwave.entities.name_matching import must_differ
from storage.store import Store
from storage.tables import STAMPS, TABLES
from tasks.ingest.identities import resolve_again
from tasks.runtime.runs import new_run

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BY_MEANING = ResolveSettings(use_embedding_resolution=True)


def raw(*names: str | tuple[Any, ...]) -> pl.DataFrame:
    """Mentions in order, a minute apart: a name, or (name, type, summary, window, minute)."""
    rows = []
    for i, given_name in enumerate(names):
        parts = (given_name,) if isinstance(given_name, str) else given_name
        name, kind, summary, window, minute = (*parts, *("", "tool", None, 0, i)[len(parts) :])
        rows.append((window, name, kind, summary, NOW + timedelta(minutes=minute)))
    return pl.DataFrame(rows, schema=RAW_MENTIONS, orient="row")


class Memory:
    """Entities and aliases as a store would keep them between batches."""

    def __init__(self) -> None:
        self.entities, self.aliases = frames.empty(frames.ENTITIES), frames.empty(frames.ALIASES)

    def take(
        self,
        mentions: pl.DataFrame,
        likeness: list[tuple[int, str, float]] = [],  # noqa: B006
        answers: dict[int, bool] | None = None,
        settings: ResolveSettings = BY_MEANING,
    ) -> Resolution:
        met = mentions_in(mentions, type_strict=settings.type_strict)
        near = pl.DataFrame(likeness, schema=COSINES, orient="row")
        exact = exact_matches(met, self.entities, self.aliases, settings)
        equal = dict(exact.drop_nulls("entity_id").select("mention", "entity_id").iter_rows())
        joined = plan_joins(met, equal, near_names(met, self._known()))
        plan = plan_resolution(met, self.entities, self.aliases, near, settings, joined)
        done = finish(plan, answers or {}, NOW)
        self.entities = pl.concat([self.entities, done.entities]).unique("id", keep="last", maintain_order=True)
        self.aliases = pl.concat([self.aliases, done.aliases]).unique("id", keep="last", maintain_order=True)
        return done

    def _known(self) -> pl.DataFrame:
        whole = self.entities.filter(pl.col("merged_into").is_null())
        parts = [whole.select("entity_type", entity_id="id", name=each) for each in ("canonical_name", "name")]
        parts.append(self.aliases.select("entity_type", "entity_id", name="alias_name"))
        return pl.concat(parts).select(*KNOWN)

    def entity(self, name: str, kind: str = "tool") -> dict[str, Any]:
        return self.entities.row(by_predicate=pl.col("id") == new_id(name, kind), named=True)


def meaning(done: Resolution) -> dict[str, str]:
    return dict(done.names.select("canonical_name", "entity_id").iter_rows())


def test_frames_have_the_columns_of_their_tables() -> None:
    for name, schema in {
        "entities": frames.ENTITIES,
        "entity_aliases": frames.ALIASES,
        "predicates": frames.PREDICATES,
        "facts": frames.FACTS,
        "fact_evidence": frames.FACT_EVIDENCE,
        "lineage": frames.LINEAGE,
        "patch_batches": frames.PATCH_BATCHES,
        "fact_aspects": frames.FACT_ASPECTS,
        "refusals": frames.REFUSALS,
        "decisions": frames.DECISIONS,
    }.items():
        stored = TABLES[name].schema(4)
        kept = [field for field in stored if field.name not in {*STAMPS, "vector"}]
        empty = pl.from_arrow(stored.empty_table().select([field.name for field in kept]))
        assert dict(frames.empty(schema).schema) == dict(empty.schema), name


def test_names_under_three_bytes_are_rejected() -> None:
    done = Memory().take(raw("C", "Go", "", "日", "Rust"))
    assert set(meaning(done)) == {"日", "rust"}


def test_an_unknown_type_is_a_concept_and_spanish_names_of_types_are_understood() -> None:
    done = Memory().take(raw(("alpha", "WIDGET "), ("beta", " Proyecto")))
    assert dict(done.entities.select("canonical_name", "entity_type").iter_rows()) == {
        "alpha": "concept",
        "beta": "project",
    }


def test_an_alias_comes_before_a_canonical_name_and_the_smallest_id_wins() -> None:
    memory = Memory()
    memory.take(raw("postgres", "postgresql"))
    ids = sorted([new_id("postgres", "tool"), new_id("postgresql", "tool")])
    rows = [("a1", "pg sql", "tool", ids[1]), ("a2", "pg sql", "tool", ids[0])]
    memory.aliases = pl.concat([memory.aliases, pl.DataFrame(rows, schema=memory.aliases.schema, orient="row")])
    assert meaning(memory.take(raw("PG SQL")))["pg sql"] == ids[0]
    assert memory.entities.height == 2
    own = pl.DataFrame([("a3", "sqlite", "tool", ids[0])], schema=memory.aliases.schema, orient="row")
    named = frames.conform(
        pl.DataFrame([{"id": "e", "canonical_name": "sqlite", "entity_type": "tool"}]), frames.ENTITIES
    )
    matched = exact_matches(mentions_in(raw("SQLite")), named, own, BY_MEANING)
    assert matched.select("entity_id", "how").rows() == [(ids[0], "alias")]


@pytest.mark.parametrize(
    "written",
    ["  Blue \t Heron\n", "Ｂｌｕｅ\u3000Ｈｅｒｏｎ", "blue\u00a0heron", "Blue He\u200bron", "\ufeffBlue Heron",
     "Blue \u202eHeron\u202c", "Blue\u2066 Heron\u2069", "Blue\u200f Heron", "Blue He\x00ron\x7f"],
)  # fmt: skip
def test_s2_03_what_looks_the_same_is_one_name(written: str) -> None:
    memory = Memory()
    memory.take(raw("Blue Heron"))
    assert meaning(memory.take(raw(written))) == {"blue heron": new_id("blue heron", "tool")}
    assert memory.entities.height == 1


def test_the_same_name_under_another_type_is_the_same_entity_and_an_alias_remembers_it() -> None:
    memory = Memory()
    memory.take(raw(("Mercury", "project")))
    done = memory.take(raw(("mercury", "tool")))
    assert meaning(done)["mercury"] == new_id("mercury", "project")
    assert done.decisions["action"].to_list() == ["type_conflict"]
    again = memory.take(raw(("mercury", "tool")))
    assert again.decisions.is_empty()


def test_a_name_of_two_other_types_means_neither() -> None:
    memory, strict = Memory(), ResolveSettings(type_strict=True)
    for kind in ("project", "place"):
        memory.take(raw(("Mercury", kind)), settings=strict)
    assert meaning(memory.take(raw(("mercury", "tool"))))["mercury"] == new_id("mercury", "tool")


def test_a_name_said_under_several_types_takes_the_commonest_that_is_not_concept() -> None:
    kinds = ("concept", "concept", "project", "tool", "tool")
    assert Memory().take(raw(*(("Kestrel", kind) for kind in kinds))).entities["entity_type"].to_list() == ["tool"]


def test_a_name_that_means_a_known_entity_is_merged_and_never_compared_again() -> None:
    memory = Memory()
    memory.take(raw(("PostgreSQL", "tool", "A relational database.")))
    known = new_id("postgresql", "tool")
    done = memory.take(raw(("Postgres", "tool", "Stores the orders.")), [(0, known, 0.85)])
    assert meaning(done)["postgres"] == known
    assert memory.entity("postgresql")["summary"] == "A relational database.; Stores the orders."
    assert memory.entity("postgresql")["name"] == "Postgres"
    assert done.to_embed["id"].to_list() == [known]
    assert memory.take(raw("Postgres")).decisions.is_empty()


def test_s2_08_a_summary_ends_at_its_limit_also_where_one_is_appended() -> None:
    memory = Memory()
    memory.take(raw(("PostgreSQL", "tool", "ä" * 3000)))
    assert len(memory.entity("postgresql")["summary"].encode()) == 2048
    memory.take(raw(("PostgreSQL", "tool", "é" * 1000)))
    memory.take(raw(("Postgres", "tool", "ö" * 1000)), [(0, new_id("postgresql", "tool"), 0.9)])
    assert memory.entity("postgresql")["summary"] == "é" * 1000 + "; " + "ö" * 23


@pytest.mark.parametrize(("cosine", "how"), [(0.85, "similar"), (0.8499, "ask"), (0.70, "ask"), (0.6999, "new")])
def test_the_rungs_of_the_ladder_are_literal(cosine: float, how: str) -> None:
    memory = Memory()
    memory.take(raw("PostgreSQL"))
    near = pl.DataFrame([(0, new_id("postgresql", "tool"), cosine)], schema=COSINES, orient="row")
    plan = plan_resolution(mentions_in(raw("Postgres")), memory.entities, memory.aliases, near, BY_MEANING)
    assert plan.outcomes["how"].to_list() == [how]
    assert plan.questions.height == (how == "ask")
    for answers, is_same in (({0: True}, True), ({0: False}, False), ({}, False)):
        done = finish(plan, answers, NOW)
        same = how == "similar" or (how == "ask" and is_same)
        assert (meaning(done)["postgres"] == new_id("postgresql", "tool")) is same
        assert done.decisions["decided_by"].to_list() == {"ask": ["model"], "similar": ["rule"]}.get(
            how if same else "", []
        )


def test_s2_07_of_a_store_the_nearest_five_of_the_same_type_are_compared(tmp_path: Path) -> None:
    seat = open_embedder(DEFAULT_EMBEDDER)
    store = Store.create(str(tmp_path / "memory"), "default", (seat.name, seat.dims))
    [vector] = seat.embed(["kestrel: A build server."])
    aside = np.roll(vector, 1)
    tool = 0.9 * vector + 0.4 * (aside - (aside @ vector) * vector)  # less near than six of another type
    vectors = [vector] * 6 + [tool / np.linalg.norm(tool)]
    others = {f"e_{n}": "person" for n in range(6)}
    with store.commit("setup", "test", NOW) as tx:
        tx.upsert(
            "entities",
            pl.DataFrame(
                {"id": [*others, "e_tool"], "entity_type": [*others.values(), "tool"], "status": "active"}
            ).with_columns(
                pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, seat.dims)),
                canonical_name="id", name="id", summary=pl.lit("Builds."), last_seen_at=pl.lit(NOW),
            ),
        )  # fmt: skip
    run = new_run("ingest", str(tmp_path / "memory"), "default", DEFAULT_EMBEDDER, NOW)
    met = raw(("Kestrel", "tool", "A build server."))
    assert meaning(resolve_again(run, store.snapshot(), met, BY_MEANING, {})) == {"kestrel": "e_tool"}
    assert meaning(resolve_again(run, store.snapshot(), met, ResolveSettings(), {})) == {
        "kestrel": new_id("kestrel", "tool")
    }


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Anna (sister of Ben)", "Anna"),
        ("Level 3", "Level"),
    ],
)
def test_a_number_or_a_closing_parenthesis_that_differs_is_asked_never_merged(name: str, other: str) -> None:
    assert must_differ(name, other)
    memory = Memory()
    memory.take(raw((name, "person")))
    near = pl.DataFrame([(0, new_id(name.lower(), "person"), 0.99)], schema=COSINES, orient="row")
    plan = plan_resolution(mentions_in(raw((other, "person"))), memory.entities, memory.aliases, near, BY_MEANING)
    assert plan.outcomes["how"].to_list() == ["ask"]


def test_a_null_summary_keeps_the_old_one_and_a_blank_one_blanks_it() -> None:
    memory = Memory()
    memory.take(raw(("Kestrel", "tool", "A service.")))
    memory.take(raw(("Kestrel", "tool", None)))
    assert memory.entity("kestrel")["summary"] == "A service."
    memory.take(raw(("Kestrel", "tool", " ")))
    assert memory.entity("kestrel")["summary"] == ""


def test_an_older_mention_moves_the_first_sight_but_not_the_name() -> None:
    memory = Memory()
    memory.take(raw(("Kestrel", "tool", None, 0, 60)))
    memory.take(raw(("KESTREL", "tool", None, 0, 0)))
    row = memory.entity("kestrel")
    assert (row["name"], row["first_seen_at"], row["last_seen_at"]) == ("Kestrel", NOW, NOW + timedelta(minutes=60))


def test_a_name_that_was_cut_keeps_its_whole_form_as_an_alias() -> None:
    done = Memory().take(raw("x" * 600))
    assert sorted(done.aliases["alias_name"].str.len_bytes().to_list()) == [512, 600]


names = st.lists(
    st.tuples(
        st.sampled_from(["Anna", "anna", "Ben", "Vim", "vim ", "Postgres"]),
        st.sampled_from(["person", "tool", "concept"]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=15, deadline=None)
@given(names)
def test_the_same_names_again_change_nothing(batch: list[tuple[str, str]]) -> None:
    memory = Memory()
    memory.take(raw(*batch))
    again = memory.take(raw(*batch))
    assert (again.entities.height, again.aliases.height, again.to_embed.height) == (0, 0, 0)


@settings(max_examples=15, deadline=None)
@given(names, names)
def test_every_mention_is_resolved_and_no_name_becomes_twins(
    first: list[tuple[str, str]], second: list[tuple[str, str]]
) -> None:
    memory = Memory()
    for batch in (first, second):
        done = memory.take(raw(*batch))
        assert done.names["entity_id"].null_count() == 0
        assert set(done.names["entity_id"]) <= set(memory.entities["id"])
    assert memory.entities["canonical_name"].is_unique().all()


def people(*names: str, window: int = 0, kind: str = "person") -> pl.DataFrame:
    return raw(*((name, kind, None, window) for name in names))


def one(memory: Memory, name: str) -> dict[str, Any]:
    """The entity that is shown under a name."""
    return memory.entities.row(by_predicate=pl.col("name") == name, named=True)


def test_a_first_name_joins_the_one_full_name_it_can_mean_and_is_known_from_then_on() -> None:
    memory = Memory()
    memory.take(people("Anna Keller", "Ben Ruiz"))
    done = memory.take(people("Anna"))
    assert meaning(done) == {"anna": new_id("anna keller", "person")}
    assert one(memory, "Anna Keller")["id"] == new_id("anna keller", "person")
    assert done.decisions["action"].to_list() == ["merge_entity"]
    assert memory.take(people("Anna")).decisions.is_empty()


@pytest.mark.parametrize(
    "names", [("王丽", "王丽君"), ("邓丽君", "邓丽"), ("张伟明", "张伟"), ("张伟", "张伟明"), ("김민수", "김민")]
)
def test_two_signs_that_can_be_a_whole_name_join_nobody(names: tuple[str, str]) -> None:
    memory = Memory()
    memory.take(people(names[0]))
    memory.take(people(names[1]))
    assert set(memory.entities["name"]) == set(names)


def test_a_first_name_that_can_mean_two_means_neither_and_a_person_is_to_be_asked() -> None:
    memory = Memory()
    memory.take(people("Anna Keller", "Anna Schmidt"))
    done = memory.take(people("Anna"))
    assert meaning(done) == {"anna": new_id("anna", "person")}
    (told,) = done.decisions.filter(pl.col("action") == UNCLEAR_NAME).iter_rows(named=True)
    assert sorted(told["ids_out"]) == sorted(new_id(name, "person") for name in ("anna keller", "anna schmidt"))


def test_a_first_name_that_a_second_person_has_too_means_nobody_from_then_on() -> None:
    memory = Memory()
    memory.take(people("Anna Keller", "Anna"))
    assert meaning(memory.take(people("Anna Schmidt", "Anna", window=1)))["anna"] == new_id("anna schmidt", "person")
    assert meaning(memory.take(people("Anna", window=2)))["anna"] == new_id("anna", "person")


def test_a_window_that_names_one_of_two_in_full_means_that_one() -> None:
    memory = Memory()
    memory.take(people("Anna Keller", "Anna Schmidt"))
    done = memory.take(pl.concat([people("Anna Schmidt", "Anna"), people("Anna", window=1)]))
    ids = dict(done.names.filter(pl.col("canonical_name") == "anna").select("window", "entity_id").iter_rows())
    assert ids == {0: new_id("anna schmidt", "person"), 1: new_id("anna", "person")}


def test_a_full_name_learned_late_joins_who_was_known_by_the_first_name_and_is_shown() -> None:
    memory = Memory()
    memory.take(people("Anna"))
    assert meaning(memory.take(people("Anna Keller"))) == {"anna keller": new_id("anna", "person")}
    memory.take(people("Anna"))
    assert memory.entities["name"].to_list() == ["Anna Keller"]


def test_another_spelling_joins_in_any_order_of_arrival() -> None:
    one, other = "José Núñez Prado", "Jose Nunez Prado"
    for batches in ([one], [other]), ([other], [one]), ([one, other],):
        memory = Memory()
        for names in batches:
            memory.take(people(*names))
        assert memory.entities.height == 1


def kin(name: str, owner: str) -> pl.DataFrame:
    return people(name).with_columns(owner=pl.lit(owner))


def test_kin_are_one_whoever_speaks_and_are_joined_to_their_name() -> None:
    memory = Memory()
    memory.take(people("Evan Ruiz", "Evan's wife"))
    ours = new_id("evan's wife", "person")
    assert meaning(memory.take(kin("my wife", "Evan Ruiz"))) == {"my wife": ours}
    assert meaning(memory.take(kin("my wife Lotte Maes", "Evan Ruiz"))) == {"my wife lotte maes": ours}
    assert memory.entity("evan's wife", "person")["name"] == "Lotte Maes"
    assert meaning(memory.take(people("Lotte", "Evan's wife"))) == {"lotte": ours, "evan's wife": ours}


@pytest.mark.parametrize("role", ["sister", "dog"])
def test_of_a_role_that_several_can_have_no_name_is_joined(role: str) -> None:
    memory, known_as = Memory(), f"evan's {role}"
    memory.take(people(known_as))
    for name in ("Ines", "Mara"):
        done = memory.take(people(f"{known_as} {name}"))
        assert meaning(done) == {f"{known_as} {name}".lower(): new_id(name.lower(), "person")}


@pytest.mark.parametrize("role", ["manager", "wife", "landlord"])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_role_that_one_has_means_who_was_named_last_whatever_is_read_later(role: str, is_known: bool) -> None:
    memory, known_as = Memory(), f"ada's {role}"
    if is_known:
        memory.take(people(known_as))
    memory.take(people(f"{known_as} Ingrid Holm"))
    assert meaning(memory.take(people(known_as)))[known_as] != new_id("bruno reis", "person")
    memory.take(people(f"{known_as} Bruno Reis"))
    memory.take(people(f"{known_as} Karl Lund").with_columns(seen_at=pl.lit(NOW - timedelta(days=9))))
    assert meaning(memory.take(people(known_as))) == {known_as: new_id("bruno reis", "person")}
    assert memory.aliases.filter(alias_name=known_as).height == 1


def test_what_is_no_name_has_no_row() -> None:
    done = Memory().take(people("Anna", "Nature").with_columns(is_named=pl.col("name") != "Nature"))
    assert set(meaning(done)) == {"anna"}
