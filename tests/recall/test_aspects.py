"""Fourteen aspects: what is tagged with them, the golden scores of SEMANTICS §8, and where they lie (S3-13 … S3-19)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import polars as pl
import pytest
from stores import fact, remembered
from talk import NOW, rows

from flows.maintenance import consolidate, decay, steward
from recall.groups import aspects, scored, stored_aspects
from slowwave.common import frames
from slowwave.facts.aspects import (
    BY_SLUG,
    COUNTED,
    SLUGS,
    TAGGED,
    TAXONOMY,
    aspect_rows,
    changed_scores,
    classify,
    merge,
    score,
    score_aspects,
    shown,
)
from storage.store import Store
from tasks.nightly.groups import refreshed_aspects
from tasks.runtime.runs import Counts, Run, Writing, existing_run, recorded


def tagged(**columns: str) -> list[str]:
    return classify(pl.DataFrame({name: [value] for name, value in columns.items()}))[0].to_list()


def lists(*rows: list[str] | None) -> pl.Series:
    return pl.Series(rows, dtype=frames.TEXTS)


def known(*facts: dict[str, Any]) -> pl.DataFrame:
    """Live facts as a score reads them."""
    return frames.conform(pl.DataFrame(facts), {name: frames.FACTS[name] for name in TAGGED}).select(TAGGED)


CATEGORIES = {
    "Cultural": "film_tv music books creativity",
    "Identity": "career education identity childhood",
    "Relationships": "family relationships",
    "Worldview": "philosophy values spirituality",
    "Lifestyle": "health",
}


def test_the_taxonomy_is_that_of_fourteen_aspects_in_five_categories() -> None:
    found = [(aspect.slug, aspect.category) for aspect in TAXONOMY]
    assert found == [(slug, category) for category, slugs in CATEGORIES.items() for slug in slugs.split()]
    assert len({aspect.icon for aspect in TAXONOMY}) == len(TAXONOMY) == 14
    assert all(len(aspect.icon) == 1 for aspect in TAXONOMY)
    assert TAXONOMY[0].as_json() == {
        "slug": "film_tv", "display_name": "Film & TV", "category": "Cultural", "icon": "🎬"
    }  # fmt: skip


@pytest.mark.parametrize("slug", SLUGS)
def test_each_stem_of_an_aspect_is_recognised(slug: str) -> None:
    stems = BY_SLUG[slug].stems.split("|")
    assert len(stems) > 5
    assert [stem for stem in stems if slug not in tagged(statement=f"It is {stem}x.")] == []


@pytest.mark.parametrize("column", ["predicate", "subject_type", "object_type", "kind", "statement"])
def test_each_column_that_tells_what_a_fact_is_about_is_read(column: str) -> None:
    assert tagged(**{"predicate": "is", column: "concert"}) == ["music"]


@pytest.mark.parametrize(
    ("statement", "slugs"),
    [
        ("Anna watches a film.", ["film_tv"]),
        ("Ben THINKS aloud.", ["philosophy"]),
        ("Cleo is allergic to nuts.", ["health"]),
        ("Dan rethinks it.", []),
        ("Eve grew up in her parents’ house.", ["childhood", "family"]),
        ("It rained.", []),
    ],
)
def test_words_are_recognised_by_their_start(statement: str, slugs: list[str]) -> None:
    assert tagged(statement=statement) == slugs


def test_tags_are_the_union_in_taxonomy_order_and_unknown_ones_are_counted() -> None:
    slugs, unknown = merge(lists(["health", "music", "cooking"], None, []), lists(["film_tv", "music"], ["career"], []))
    assert slugs.to_list() == [["film_tv", "music", "health"], ["career"], []]
    assert unknown == 1


def test_applied_facts_get_one_row_per_slug_that_says_who_found_it() -> None:
    facts = pl.DataFrame(
        {
            "id": ["f1", "f2"],
            "predicate": ["uses", "uses"],
            "statement": ["A concert.", "Nothing."],
            "aspect_slugs": [["music", "health"], []],
        },
        schema_overrides={"aspect_slugs": frames.TEXTS},
    )
    rows = aspect_rows(facts)
    assert rows.select("fact_id", "slug", "via").rows() == [("f1", "music", "regex"), ("f1", "health", "model")]
    assert rows["id"].is_unique().all()


@pytest.mark.parametrize(
    ("counts", "golden"),
    [
        ((1, 1, 1, 0.9), 19.6833),
        ((5, 3, 2, 0.8), 31.25),
        ((25, 12, 8, 1.0), 100.0),
        ((100, 50, 20, 0.7), 95.5),
        ((0, 0, 0, 0.0), 0.0),
    ],
)
def test_scores_are_the_golden_ones(counts: tuple[int, int, int, float], golden: float) -> None:
    assert score(*counts) == pytest.approx(golden, abs=5e-5)


@pytest.mark.parametrize(("value", "told"), [(0.5, 1), (1.5, 2), (2.5, 3), (31.25, 31), (57.49999999999999, 58)])
def test_a_score_is_shown_rounded_half_up(value: float, told: int) -> None:
    assert shown(value) == told


def test_aspects_are_scored_from_facts_ends_and_predicates() -> None:
    facts = known(
        {"id": "f1", "subject_id": "e1", "object_id": "e2", "predicate": "uses", "confidence": 1.0},
        {"id": "f2", "subject_id": "e2", "object_id": None, "predicate": "uses", "confidence": 0.8},
    )
    tags = pl.DataFrame({"fact_id": ["f1", "f2", "f1", "gone"], "slug": ["music", "music", "music", "music"]})
    scores = score_aspects(facts, tags)
    assert scores["slug"].to_list() == list(SLUGS)
    assert scores.row(1, named=True) == {
        "slug": "music",
        "facts": 2,
        "entities": 2,
        "predicates": 1,
        "confidence": 0.9,
        "score": pytest.approx(score(2, 2, 1, 0.9)),
    }
    assert scores["score"].sum() == scores["score"][1]


def test_what_nobody_stated_and_relations_without_a_name_count_for_nothing() -> None:
    told = {"subject_id": "e1", "confidence": 0.9}
    facts = known(
        {"id": "f1", "kind": "relation", "predicate": "plays", "object_id": "e2", **told},
        {"id": "f2", "kind": "observation", "predicate": "", "object_id": None, **told},
        {"id": "f3", "kind": "similarity", "predicate": "similar_to", "object_id": "e3", **told},
        {"id": "f4", "kind": "structural", "predicate": "contains", "object_id": "e4", **told},
    )
    tags = pl.DataFrame({"fact_id": ["f1", "f2", "f3", "f4"], "slug": ["music"] * 4})
    assert score_aspects(facts, tags).row(1, named=True) == {
        "slug": "music", "facts": 2, "entities": 2, "predicates": 1, "confidence": 0.9, "score": score(2, 2, 1, 0.9)
    }  # fmt: skip


# In a store


def tagged_store(place: Path, *facts: dict[str, Any], **slugs: Sequence[str]) -> str:
    """A store of these facts, in which `slugs` says by slug which of them are tagged with it."""
    tags = [{"id": f"as_{slug}_{name}", "fact_id": name, "slug": slug} for slug, ids in slugs.items() for name in ids]
    told = [{"kind": "observation", "owner_entity_id": "e_marta", **each} for each in facts]
    return str(remembered(place, told, more={"fact_aspects": tags} if tags else None))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store in which two facts touch music, three health (one only until tomorrow), and what is over touches both."""
    over = {"status": "superseded", "valid_to": NOW - timedelta(days=400), "expired_at": NOW - timedelta(days=400)}
    return tagged_store(
        tmp_path_factory.mktemp("aspects") / "m",
        fact("plays", "Marta plays the guitar.", predicate="plays", confidence=0.8),
        fact("sings", "Marta sings in a choir.", predicate="sings", confidence=0.9),
        fact("runs", "Marta runs every day.", predicate="runs", confidence=0.6, evidence_count=3),
        fact("diet", "Marta keeps a diet.", predicate="keeps", confidence=0.6),
        fact("ill", "Marta is ill.", predicate="is", confidence=0.9, valid_to=NOW + timedelta(days=1)),
        fact("smokes", "Marta smokes while music plays.", predicate="smokes", **over),
        music=["plays", "sings", "smokes"],
        health=["runs", "diet", "ill", "smokes"],
    )


@pytest.fixture
def store(template: str, tmp_path: Path) -> str:
    return str(copytree(template, tmp_path / "m"))


def a_run(store: str, later: timedelta = timedelta(0)) -> Run:
    return existing_run("consolidate", store, "default", NOW + later)


def refresh_aspects(run: Run) -> int:
    """A run that does nothing but leave the scores as they are then; how many rows of them it wrote."""
    with recorded(run, Counts(run.id), {}, last=refreshed_aspects):
        pass
    return rows(Path(run.store), "aspect_scores", f"run_id = '{run.id}'").height


def counts(store: str, fresh: bool, later: timedelta = timedelta(0)) -> dict[str, int]:
    seen = Store.open(store).snapshot()
    profile = aspects(seen, NOW + later) if fresh else stored_aspects(seen)
    assert [row["slug"] for row in profile] == list(SLUGS)
    return {row["slug"]: row["facts"] for row in profile if row["facts"]}


def kinds(store: str) -> list[str]:
    return rows(Path(store), "commits").sort("sequence")["kind"].to_list()


def test_scores_are_counted_from_live_facts_and_stored_by_a_run(store: str) -> None:
    assert counts(store, fresh=True) == {"music": 2, "health": 3}
    assert counts(store, fresh=False) == {}
    assert refresh_aspects(a_run(store)) == 14
    assert counts(store, fresh=False) == {"music": 2, "health": 3}
    stored = rows(Path(store), "aspect_scores")
    assert (len(stored), kinds(store)[-1]) == (14, "aspects")
    assert stored["scored_at"].unique().to_list() == [NOW]
    assert stored.filter(pl.col("id") == "music")["score"].item() == pytest.approx(score(2, 1, 2, 0.85))


def test_a_run_that_finds_every_score_as_it_was_writes_nothing(store: str) -> None:
    refresh_aspects(a_run(store))
    before = kinds(store)
    assert refresh_aspects(a_run(store, timedelta(hours=1))) == 0
    assert kinds(store) == [*before, "run", "run"]
    assert rows(Path(store), "aspect_scores")["scored_at"].unique().to_list() == [NOW]


def test_the_two_paths_differ_once_a_fact_has_ended_until_the_next_run(store: str) -> None:
    refresh_aspects(a_run(store))
    week = timedelta(days=7)
    assert counts(store, fresh=False, later=week) == {"music": 2, "health": 3}
    assert counts(store, fresh=True, later=week) == {"music": 2, "health": 2}
    assert refresh_aspects(a_run(store, week)) == 14
    assert counts(store, fresh=False, later=week) == {"music": 2, "health": 2}


def test_a_tag_that_changes_while_its_fact_does_not_is_counted(store: str) -> None:
    refresh_aspects(a_run(store))
    with Store.open(store).commit("tag", "tag", NOW) as tx:
        tx.upsert("fact_aspects", tx.by_ids("fact_aspects", ["as_music_sings"]).with_columns(slug=pl.lit("books")))
    assert refresh_aspects(a_run(store)) == 14
    assert counts(store, fresh=False) == {"music": 1, "books": 1, "health": 3}


def test_scores_are_those_of_the_state_in_which_the_run_ends(store: str) -> None:
    run, opened = a_run(store), Store.open(store)

    def overtaken(run: Run) -> Writing | None:
        writing = refreshed_aspects(run)
        with opened.commit("other", "retire", NOW) as tx:
            gone = tx.by_ids("facts", ["plays", "runs"], with_vector=True).with_columns(status=pl.lit("archived"))
            tx.upsert("facts", gone)
        return writing

    with recorded(run, Counts(run.id), {}, last=overtaken):
        pass
    assert counts(store, fresh=False) == {"music": 1, "health": 2}
    assert [rows(Path(store), "runs")["state"].to_list(), kinds(store)[-3:]] == [
        ["completed"], ["run", "retire", "aspects"],
    ]  # fmt: skip


@pytest.mark.parametrize("flow", [consolidate, steward, decay], ids=lambda flow: str(flow.name))
def test_maintenance_that_wrote_leaves_the_scores_as_they_are_then(store: str, flow: Any) -> None:
    told = asyncio.run(flow(store=store, now=NOW))
    assert told["state"] == "completed"
    assert counts(store, fresh=False) == {"music": 2, "health": 3}
    assert set(rows(Path(store), "aspect_scores")["run_id"]) == {told["run"]}
    assert kinds(store).count("aspects") == 1


def test_an_ingest_leaves_the_scores_of_what_it_learned(learned: tuple[Path, dict[str, Any]]) -> None:
    store, _ = learned
    snapshot = Store.open(str(store)).snapshot()
    stored = snapshot.frame("aspect_scores", columns=["id", *COUNTED, "scored_at"])
    assert len(stored) == 14
    assert changed_scores(scored(snapshot, stored["scored_at"][0]), stored).is_empty()
