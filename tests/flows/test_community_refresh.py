"""The flow `communities`: found once, told once, the same until something changes; and what else touches them."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from messages_api import Body, MessagesApi, Reply, filled
from talk import CLAUDE, NOW, contents, rows
from typer.testing import CliRunner

from apps.cli import app
from flows.maintenance import communities
from inference.embedding import open_embedder
from recall.atlas import atlas_data
from slowwave.common.settings import CommunitySettings
from slowwave.common.text import normalise_name, row_id
from slowwave.integrations.python_api import OpenMemory
from slowwave.lifecycle.forgotten_names import NameMatcher
from storage.doctor import PartialSnapshot, examine, find_stray_members
from storage.store import Store
from storage.tables import TABLES, Role, tables_of
from storage.undo import undo
from tasks.entities.derived import assign_new
from tasks.entities.retirement import delete_entities, delete_facts, plan_purge
from tasks.nightly.groups import extractions, note_due
from tasks.people.erasure_plan import plan_erasure
from tasks.people.forgetting import find_subject, forget
from tasks.runtime.runs import Run, existing_run

BAND = ("Anna plays with Ben", "Ben plays with Carla", "Carla plays with Anna")
SHIP = ("Dario sails with Edna", "Edna sails with Fritz", "Fritz sails with Dario")
EDGES = (*BAND, *SHIP)

_COMMUNITY = re.compile(
    r'<community number="(\d+)" members="\d+">\n<names>\n(.*?)</names>\n<facts>\n(.*?)</facts>', re.DOTALL
)


def entity(name: str) -> str:
    return row_id("e", name)


def relations(sentences: Sequence[str], **more: Any) -> pl.DataFrame:
    """A live relation of each sentence such as "Anna plays with Ben"."""
    told = [(each, *re.split(r" (\w+) with ", each)) for each in sentences]
    made = [
        {"id": row_id("f", each), "kind": "relation", "subject_id": entity(a), "predicate": f"{verb}_with",
         "object_id": entity(b), "statement": f"{each}.", "owner_entity_id": entity(a), "status": "active",
         "confidence": 0.8, "evidence_count": 1, "valid_from": NOW, "edge_type": "semantic", "scope": "global", **more}
        for each, a, verb, b in told
    ]  # fmt: skip
    return pl.DataFrame(made)


def people(sentences: Sequence[str]) -> pl.DataFrame:
    """The entities that the sentences name."""
    names = sorted({name for each in sentences for name in re.split(r" \w+ with ", each)})
    return pl.DataFrame(
        [{"id": entity(name), "name": name, "canonical_name": normalise_name(name), "entity_type": "person",
          "status": "active", "first_seen_at": NOW, "last_seen_at": NOW} for name in names]
    )  # fmt: skip


def tell(place: Path, sentences: Sequence[str], run: str = "told-2") -> None:
    """Store these relations, and whoever they name."""
    with Store.open(str(place)).commit(run, "test", NOW) as tx:
        known = tx.by_ids("entities", people(sentences)["id"], ["id"])
        tx.upsert("entities", people(sentences).join(known, on="id", how="anti"))
        tx.upsert("facts", relations(sentences))


def retire(place: Path, *sentences: str, run: str = "retired-3") -> None:
    """Believe these relations no longer."""
    gone = relations(sentences, status="retracted", expired_at=NOW)
    with Store.open(str(place)).commit(run, "test", NOW) as tx:
        tx.upsert("facts", gone)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two groups of three, to be copied."""
    place = tmp_path_factory.mktemp("two") / "memory"
    seat = open_embedder()
    Store.create(str(place), "default", (seat.name, seat.dims))
    tell(place, EDGES, "told-1")
    return place


@pytest.fixture
def place(two: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two, tmp_path / "memory"))


@pytest.fixture(scope="module")
def told_by_rule(two: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same store once its communities were found without a model, to be copied."""
    copied = Path(shutil.copytree(two, tmp_path_factory.mktemp("found") / "memory"))
    refreshed(copied)
    return copied


@pytest.fixture
def found(told_by_rule: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(told_by_rule, tmp_path / "found"))


def refreshed(place: Path, model: str = "quotes", **options: Any) -> dict[str, Any]:
    """One run of the flow; returns its summary."""
    chosen = options.pop("settings", {})
    llm = {"model": model, **chosen.pop("llm", {})}
    known = CommunitySettings.model_validate({"llm": llm, **chosen})
    return asyncio.run(communities(store=str(place), settings=known, now=options.pop("now", NOW), **options))


def commits(place: Path, kind: str = "communities.refresh") -> int:
    return int((rows(place, "commits")["kind"] == kind).sum())


def held(place: Path) -> dict[str, dict[str, Any]]:
    """Communities by the names of their members in order."""
    names = dict(rows(place, "entities").select("id", "name").iter_rows())
    return {
        ", ".join(sorted(names[id_] for id_ in row["entity_ids"])): row
        for row in rows(place, "communities").iter_rows(named=True)
    }


# What a model is shown, and how it answers


def shown(request: Body) -> dict[int, tuple[list[str], list[str]]]:
    """Names and facts of each community that a request shows."""
    content = request["messages"][0]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return {int(n): (names.split("\n")[:-1], facts.split("\n")[:-1]) for n, names, facts in _COMMUNITY.findall(text)}


def summariser(request: Body, but: str = "") -> Reply:
    """A model that names the first member of each community; those of `but` it leaves out, unless they are alone."""
    told = shown(request)
    summaries = [
        {"community": n, "summary": f"All about {names[0]}."}
        for n, (names, _) in told.items()
        if not but or but not in names or len(told) == 1
    ]
    return filled("CommunitySummaries", {"summaries": summaries})


Serve = Callable[..., MessagesApi]


# Without a model


def test_without_a_model_communities_are_found_and_told_by_their_strongest_facts(place: Path) -> None:
    summary = refreshed(place)
    assert summary["state"] == "completed"
    assert summary["counts"] == {"communities": 2, "communities found": 2, "communities summarised": 2}
    band = held(place)["Anna, Ben, Carla"]
    assert set(band["summary"].split(". ")) <= {f"{each}." for each in BAND} | {*BAND}
    assert band["summarised_by"] == "rule"
    assert band["facts"] == 3
    assert set(band["name"].split(", ")) == {"Anna", "Ben", "Carla"}
    assert (band["told_fact_ids"], band["joined_ids"]) == ([*relations(BAND)["id"].sort()], [])
    assert set(rows(place, "decisions", "action = 'gather'")["subject_id"]) == {
        each["id"] for each in held(place).values()
    }


# With a model


@pytest.mark.proof
def test_a_model_is_asked_once_about_all_and_never_again_while_nothing_changes(place: Path, serve: Serve) -> None:
    api = serve(summariser)
    summary = refreshed(place, CLAUDE)
    assert summary["llm"]["calls"] == len(api.requests) == 1
    told = shown(api.requests[0])
    assert sorted(sorted(names) for names, _ in told.values()) == [["Anna", "Ben", "Carla"], ["Dario", "Edna", "Fritz"]]
    assert sorted(fact for _, facts in told.values() for fact in facts) == sorted(f"{each}." for each in EDGES)
    band = held(place)["Anna, Ben, Carla"]
    assert band["summary"].startswith("All about ")
    assert (band["summarised_by"], bool(band["prompt_version"])) == ("model", True)
    assert refreshed(place, CLAUDE)["llm"] == {**summary["llm"], "calls": 0, "tokens_in": 0, "tokens_out": 0, "usd": 0}
    assert len(api.requests) == commits(place) == 1


# Who is new


def a_run(place: Path, flow: str = "ingest") -> Run:
    return existing_run(flow, str(place), "default", NOW)


@pytest.mark.proof
def test_who_is_new_joins_at_once_and_the_next_refresh_tells_the_community_anew(found: Path) -> None:
    band = held(found)["Anna, Ben, Carla"]["id"]
    tell(found, ["Gil plays with Anna", "Gil plays with Ben", "Gil sails with Edna", "Hugo knows with Ida"])
    assert joined(found) == 1
    assert joined(found) == 0
    assert commits(found, "communities.assign") == 1
    grown = held(found)["Anna, Ben, Carla"]
    assert (grown["id"], grown["fingerprint"], grown["joined_ids"]) == (band, None, [entity("Gil")])
    with OpenMemory.open(str(found)) as memory:
        _, listed = memory.communities(now=NOW)
    (shown_,) = (one for one in listed if "Gil" in {member.name for member in one.members})
    assert not any("Hugo" in {member.name for member in one.members} for one in listed)
    assert (shown_.id, shown_.size, shown_.members[-1].name) == (band, 4, "Gil")
    assert shown_.summary
    refreshed(found)
    assert held(found)["Anna, Ben, Carla, Gil"]["id"] == band
    assert held(found)["Anna, Ben, Carla, Gil"]["fingerprint"]


def test_who_was_stored_by_a_run_that_broke_off_joins_with_the_next(found: Path) -> None:
    def record(run: str, state: str, hour: int) -> None:
        row = {"id": run, "flow": "ingest", "state": state, "started_at": NOW + timedelta(hours=hour)}
        with Store.open(str(found)).commit(run, "run", NOW) as tx:
            tx.upsert("runs", pl.DataFrame([row]))

    tell(found, ["Hugo plays with Anna"], "ingest-1")
    record("ingest-1", "failed", 1)
    record("ingest-2", "completed", 2)
    tell(found, ["Gil plays with Anna"], "ingest-3")
    record("ingest-3", "interrupted", 3)
    assert joined(found, "ingest-4") == 1  # Hugo is left to the next refresh: a whole run has been since
    assert held(found)["Anna, Ben, Carla"]["joined_ids"] == [entity("Gil")]


def joined(place: Path, run: str = "told-2") -> int:
    """How many of those whom this run stored joined a community."""
    return assign_new(replace(a_run(place), id=run))


# What holds no longer is told no longer


def about(place: Path, now: datetime = NOW) -> dict[str, tuple[str, bool]]:
    """Summary and whether it is outdated, by name, as anybody is shown them."""
    with OpenMemory.open(str(place)) as memory:
        return {one.name: (one.summary, one.is_outdated) for one in memory.communities(now=now)[1]}


@pytest.mark.proof
def test_a_summary_is_not_shown_once_a_fact_that_it_tells_is_retired_until_it_is_told_anew(found: Path) -> None:
    name = next(name for name in about(found) if "Anna" in name)
    assert about(found)[name][0]
    retire(found, BAND[0])
    assert about(found)[name] == ("", True)
    code, told = invoked("communities", "--store", found)
    assert (code, "(changed since;" in told) == (0, True)
    with OpenMemory.open(str(found)) as memory:
        assert "summary" not in memory.why(held(found)["Anna, Ben, Carla"]["id"], now=NOW).columns
    drawn = atlas_data(Store.open(str(found)), NOW)["communities"]
    assert {(one["summary"] is None, one["is_outdated"]) for one in drawn} == {(True, True), (False, False)}
    summary = refreshed(found)
    assert summary["counts"]["communities summarised"] == 1
    (again,) = (told for named, told in about(found).items() if "Anna" in named)
    assert again[0]
    assert BAND[0] not in again[0]


@pytest.mark.proof
def test_what_was_undone_is_told_no_longer_and_who_was_undone_is_no_member(found: Path) -> None:
    tell(found, ["Gil secretly with Anna"], run="ing-1")
    refreshed(found, now=NOW + timedelta(hours=1))
    assert any("Gil" in summary for summary, _ in about(found).values())
    store = Store.open(str(found))
    before = contents(found)["communities"]
    undo(store, "ing-1", "undo-1", NOW)
    assert examine(store) == ()
    assert "Gil" not in str(about(found))
    with OpenMemory.open(str(found)) as memory:
        _, listed = memory.communities(now=NOW)
    (band,) = (one for one in listed if "Anna" in one.name)
    assert (band.size, band.is_outdated) == (3, True)
    undo(store, "undo-1", "undo-2", NOW)
    assert contents(found)["communities"].equals(before)


# When they are due (S2-24, S2-45)


def test_every_message_that_reached_the_extractor_is_counted(learned: tuple[Path, dict[str, object]]) -> None:
    reached = len(rows(learned[0], "messages", "graph_state IN ('done', 'skipped_durability')"))
    assert counted(learned[0]) == [extractions(Store.open(str(learned[0])).snapshot())] == [reached] != [0]


def test_what_is_due_is_said_once_for_each_crossing_and_also_by_the_run_after_one_that_died(place: Path) -> None:
    store = Store.open(str(place))
    for run, number, is_said in (
        ("heard-1", 3, False),
        ("heard-2", 2, True),
        ("heard-3", 2, False),
        ("heard-4", 9, True),
    ):
        with store.commit(run, "test", NOW) as tx:
            tx.upsert("messages", heard(run, *[("done", 0)] * number))
        # a run that dies here has said nothing: the next one does
        assert note_due(a_run(place), 4) is is_said
        assert not note_due(a_run(place), 4)
    assert counted(place) == [16]
    assert not note_due(a_run(place), 0)


def heard(run: str, *states: tuple[str, int]) -> pl.DataFrame:
    """Messages in these states after so many attempts in vain."""
    return pl.DataFrame(
        [{"id": f"m_{run}_{n}", "message_id": f"{n}", "conversation_id": run, "graph_state": state, "attempts": tries}
         for n, (state, tries) in enumerate(states)]
    )  # fmt: skip


def counted(place: Path) -> list[float]:
    return rows(place, "metadata", "id = 'extraction_count'")["number"].to_list()


# What else touches them


SECRET = "The singer has diabetes"


@pytest.mark.proof
@pytest.mark.parametrize("is_dissolved", [False, True])
def test_no_word_of_a_model_stays_about_who_was_forgotten_also_of_a_community_that_is_no_more(
    place: Path, serve: Serve, *, is_dissolved: bool
) -> None:
    said = iter([f"{SECRET} and hides it."])
    serve(
        lambda request: filled(
            "CommunitySummaries",
            {"summaries": [{"community": n, "summary": next(said, "Other words.")} for n in shown(request)]},
        )
    )
    retire(place, *SHIP)
    refreshed(place, CLAUDE)
    assert tables_that_tell(place, SECRET) == ["communities", "llm_calls"]
    if is_dissolved:
        retire(place, *BAND, run="retired-4")
    else:
        tell(place, ["Ben sings with Anna"])
    refreshed(place, CLAUDE, now=NOW + timedelta(days=1))
    assert tables_that_tell(place, SECRET) == ["llm_calls"]
    run = existing_run("forget", str(place), "default", NOW)
    assert forget(run, find_subject(run, "Carla")).state == "completed"
    assert tables_that_tell(place, SECRET) == []


def tables_that_tell(place: Path, words: str) -> list[str]:
    """Tables and logs in which the words are."""
    store = Store.open(str(place))
    logs = set(tables_of(Role.LOG))
    return [
        name for name in sorted(TABLES) if words in str((store.log(name) if name in logs else rows(place, name)).rows())
    ]


@pytest.mark.proof
def test_a_community_goes_with_a_fact_that_it_was_told_from_and_that_is_no_more(found: Path) -> None:
    told = rows(found, "communities").with_columns(
        told_fact_ids=pl.Series([["f_deleted"], []], dtype=pl.List(pl.String))
    )
    with Store.open(str(found)).commit("old-2", "test", NOW) as tx:
        tx.upsert("communities", told)
        tx.upsert("entities", people(["Zoe sails with Yann"]))
    plan = plan_erasure(Store.open(str(found)).snapshot(), entity("Zoe"), NameMatcher.of(["Zoe"]))
    assert plan.gone["communities"] == {told["id"][0]}


def test_what_is_deleted_for_good_takes_its_links_and_places_with_it(found: Path) -> None:
    gone = [entity(name) for name in ("Dario", "Edna", "Anna")]
    pairs = [{"id": "l_1", "a_id": gone[1], "b_id": entity("Carla")},
             {"id": "l_2", "a_id": entity("Ben"), "b_id": gone[2]},
             {"id": "l_3", "a_id": entity("Ben"), "b_id": entity("Carla")}]  # fmt: skip
    with Store.open(str(found)).commit("links-2", "test", NOW) as tx:
        tx.upsert("entity_links", pl.DataFrame(pairs))
    with Store.open(str(found)).commit("purge-3", "decay", NOW) as tx:
        ids = relations([*SHIP, BAND[0], BAND[2]])["id"]
        delete_facts(tx, plan_purge(tx, ids), ids)
        delete_entities(tx, pl.Series("id", gone))
    assert rows(found, "entity_links")["id"].to_list() == ["l_3"]
    assert list(held(found)) == ["Ben, Carla"]
    assert find_stray_members(PartialSnapshot(Store.open(str(found)).snapshot(), frozenset(TABLES))).is_empty()
    assert list(about(found).values()) == [("", True)]


@pytest.mark.proof
def test_what_is_forgotten_takes_its_links_with_it_also_of_who_was_merged_into_it(found: Path) -> None:
    with Store.open(str(found)).commit("links-2", "test", NOW) as tx:
        pairs = [{"id": "l_1", "a_id": entity("Carla"), "b_id": entity("Fritz")},
                 {"id": "l_2", "a_id": entity("Dario"), "b_id": entity("Edna")},
                 {"id": "l_3", "a_id": entity("Ben"), "b_id": entity("Fritz")}]  # fmt: skip
        tx.upsert("entity_links", pl.DataFrame(pairs))
        merged = tx.by_ids("entities", [entity("Edna")], with_vector=True)
        tx.upsert("entities", merged.with_columns(merged_into=pl.lit(entity("Carla"))))
    plan = plan_erasure(Store.open(str(found)).snapshot(), entity("Carla"), NameMatcher.of(["Carla"]))
    assert plan.gone["entity_links"] == {"l_1", "l_2"}


# Looking at them


def invoked(*arguments: object) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "220"}).invoke(app, [*map(str, arguments)])
    return result.exit_code, result.stdout
