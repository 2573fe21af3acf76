"""The atlas: exactly what the store knows, bounded, drawn by scripts that load nothing."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import EPOCH, TINY
from stores import entity

from apps.serve.app import ATLAS
from recall import atlas
from recall.atlas import atlas_data
from recall.overview import stats
from slowwave.common import frames
from slowwave.common.validity import valid_facts
from slowwave.graph.map_layout import lay_out
from storage.store import Store

NOW = EPOCH + timedelta(days=100)
HOSTILE = "</script><script>window.broken = true; alert(1)</script><img src=x onerror=alert(1)>\u2028 & co"


def day(n: float) -> datetime:
    return EPOCH + timedelta(days=n)


def seconds(n: float) -> int:
    return int(day(n).timestamp())


def fact(
    name: str, subject: str, obj: str | None, start: float, end: float | None = None, **more: Any
) -> dict[str, Any]:
    """A row of facts; what has an end was superseded unless it says otherwise."""
    return {
        "id": f"f_{name}",
        "kind": "relation" if obj else "observation",
        "subject_id": f"e_{subject}",
        "predicate": "knows",
        "object_id": f"e_{obj}" if obj else None,
        "owner_entity_id": f"e_{subject}",
        "statement": f"{subject} {name} {obj}",
        "status": "active" if end is None else "superseded",
        "status_reason": "applied" if end is None else "conflict: later",
        "valid_from": day(start),
        "valid_to": None if end is None else day(end),
        "confidence": 0.9,
        "polarity": "affirmed",
        "expired_at": None if end is None else NOW,
        **more,
    }


FACTS = (
    fact("met", "anna", "ben", 1),
    fact("left", "ben", "carl", 2, 40, replaced_by="f_joined"),
    fact("joined", "ben", "dora", 40),
    fact("slept", "anna", None, 5, aspect_slugs=["health"], similarity_flag=True),
    fact("erred", "anna", "carl", 3, 3, status="retracted"),
    fact("guessed", "anna", "carl", 3, status="rejected"),
    # another wording absorbed it: its end stays open, but it is told by that one
    fact("greeted", "carl", "anna", 10, status="superseded", replaced_by="f_hailed", expired_at=NOW),
    fact("hailed", "carl", "anna", 10),
    fact("called", "eve", "anna", 6),  # eve is anna's sister by name and ben by merge
)
ARCHIVED = (fact("lived", "dora", None, 0, 30),)
ENTITIES = (
    entity("anna", name=HOSTILE, summary="A nurse."),
    entity("ben"),
    entity("carl"),
    entity("dora"),
    entity("eve", merged_into="e_ben", status="archived"),
    entity("gone", status="archived"),
    entity("zed"),
)


def filled(store: Store) -> Store:
    """A small memory with a past, two communities, a night, and a name that wants to be a script."""
    said = [
        {
            "id": f"m_{n}",
            "message_id": f"msg-{n}",
            "conversation_id": "/notes/of/may.md",
            "speaker": who,
            "role": "user",
            "content": "…",
            "occurred_at": day(n),
        }
        for n, who in enumerate(("Anna", "Ben", "Carl", "Dora", "Eve"))
    ]
    heard = [
        {"id": f"v_{n}", "fact_id": "f_met", "message_id": f"m_{n}", "quote": f"quote {n}", "occurred_at": day(n)}
        for n in range(5)
    ]
    tables: dict[str, list[dict[str, Any]]] = {
        "entities": [*ENTITIES],
        "entity_aliases": [{"id": "a_1", "alias_name": "annie", "entity_id": "e_anna"}],
        "facts": [*FACTS],
        "facts_archive": [*ARCHIVED],
        "messages": said,
        "fact_evidence": heard,
        "fact_aspects": [{"id": "as_1", "fact_id": "f_slept", "slug": "health", "via": "regex"}],
        "communities": [
            {
                "id": "c_1",
                "name": f"Anna {HOSTILE}",
                "summary": "Friends.",
                "entity_ids": ["e_anna", "e_ben"],
                "facts": 1,
            },
            {"id": "c_2", "name": "Carl, Dora", "summary": None, "entity_ids": ["e_carl", "e_dora"], "facts": 0},
        ],
        "runs": [{"id": "sleep-1", "flow": "sleep", "state": "completed", "started_at": NOW, "ended_at": NOW}],
        "decisions": [
            {
                "id": "d_1",
                "action": "create",
                "subject_id": "f_met",
                "ids_out": ["f_met"],
                "reason": "It passed.",
                "at": NOW,
            },
            {
                "id": "d_2",
                "action": "supersede",
                "subject_id": "f_left",
                "ids_out": ["f_joined"],
                "reason": "f_joined says otherwise.",
                "at": NOW,
            },
        ],
    }
    with store.commit("sleep-1", "test", NOW) as tx:
        for name, rows in tables.items():
            tx.upsert(name, pl.DataFrame(rows, infer_schema_length=None))
    return store


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """That memory, only to be looked at."""
    return filled(Store.create(str(tmp_path_factory.mktemp("atlas") / "store"), "default", TINY))


@pytest.fixture(scope="module")
def told(memory: Store) -> dict[str, Any]:
    return atlas_data(memory, NOW)


def rows_of(columns: dict[str, Any], key: str = "id") -> dict[str, dict[str, Any]]:
    """The rows of data in columns, by id."""
    lists = {
        name: values
        for name, values in columns.items()
        if isinstance(values, list) and len(values) == len(columns[key])
    }
    return {row[0]: dict(zip(lists, row[1:], strict=True)) for row in zip(columns[key], *lists.values(), strict=True)}


# Data


def test_every_fact_that_was_ever_believed_is_there_once_with_its_ends_and_its_end(told: dict[str, Any]) -> None:
    facts, names = rows_of(told["facts"]), told["entities"]["id"]
    assert set(facts) == {row["id"] for row in (*FACTS, *ARCHIVED)} - {"f_guessed"}
    ends = {name: (names[row["s"]], None if row["t"] is None else names[row["t"]]) for name, row in facts.items()}
    assert ends["f_met"] == ("e_anna", "e_ben")
    assert ends["f_called"] == ("e_ben", "e_anna"), "what was merged into another entity is that one"
    assert ends["f_slept"] == ("e_anna", None)
    left = facts["f_left"]
    assert (left["from"], left["to"], left["live"]) == (seconds(2), seconds(40), 0)
    assert told["facts"]["id"][left["by"]] == "f_joined"
    assert left["reason"] == "conflict: later"
    assert told["facts"]["statuses"][left["st"]] == "superseded"
    assert facts["f_met"]["by"] == -1


def test_live_facts_are_those_that_the_statistics_count(told: dict[str, Any], memory: Store) -> None:
    assert sum(told["facts"]["live"]) == stats(memory, NOW)["facts"]["live"]
    assert told["left_out"] == {"entities": 0, "facts": 0}


@pytest.mark.parametrize("n", [0, 3, 10, 30, 39, 41])
def test_the_slider_tells_at_each_time_what_a_question_about_it_would(told: dict[str, Any], n: float) -> None:
    spans = {}
    for place, (name, row) in enumerate(rows_of(told["facts"]).items()):
        spans[name] = told["facts"]["spans"].get(str(place), [[row["from"], row["to"]]])
    shown = {
        name for name, own in spans.items() if any(a <= seconds(n) and (b is None or seconds(n) < b) for a, b in own)
    }
    everything = frames.conform(pl.DataFrame([*FACTS, *ARCHIVED], infer_schema_length=None), frames.FACTS)
    assert shown == set(valid_facts(everything, day(n))["id"])


def test_entities_have_their_degree_names_and_community_and_lie_apart(told: dict[str, Any]) -> None:
    entities = rows_of(told["entities"])
    assert set(entities) == {"e_anna", "e_ben", "e_carl", "e_dora", "e_zed"}, "neither merged nor archived and unknown"
    assert {name: row["degree"] for name, row in entities.items()} == {
        "e_anna": 3, "e_ben": 3, "e_carl": 1, "e_dora": 1, "e_zed": 0,
    }  # fmt: skip
    assert entities["e_anna"]["aliases"] == ["annie"]
    assert entities["e_anna"]["name"] == HOSTILE
    assert [told["communities"][entities[name]["community"]]["id"] for name in ("e_anna", "e_dora")] == ["c_1", "c_2"]
    assert entities["e_zed"]["community"] == -1
    assert [group["size"] for group in told["communities"]] == [2, 2]
    places = {(row["x"], row["y"]) for row in entities.values()}
    assert len(places) == len(entities)


def test_who_said_it_comes_with_its_words_earliest_first_and_says_how_many_more(told: dict[str, Any]) -> None:
    facts = told["facts"]
    place = str(facts["id"].index("f_met"))
    said = facts["said"][place]
    assert [(facts["speakers"][who], at, quote) for _, _, who, at, quote in said] == [
        ("Anna", seconds(0), "quote 0"), ("Ben", seconds(1), "quote 1"), ("Carl", seconds(2), "quote 2"),
    ]  # fmt: skip
    assert facts["said_count"][place] == 5
    assert facts["conversations"] == ["may.md"], "of a document its name, not the folder it lay in"


def test_bounds_keep_the_most_related_and_say_what_is_left_out(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {"ENTITIES": 2, "RELATIONS": 1, "OBSERVATIONS_EACH": 0, "SOURCES_EACH": 1, "QUOTE": 4, "TEXT": 6}
    for name, bound in bounds.items():
        monkeypatch.setattr(atlas, name, bound)
    few = atlas_data(memory, NOW)
    assert few["entities"]["id"] == ["e_anna", "e_ben"] or few["entities"]["id"] == ["e_ben", "e_anna"]
    assert few["facts"]["id"] == ["f_called"], "live, and the latest"
    assert few["left_out"] == {"entities": 3, "facts": 8}
    assert few["facts"]["text"] == ["eve ca"]
    assert all(-1 <= by < 1 for by in few["facts"]["by"])


# The map


def planted(groups: int, size: int) -> tuple[Any, ...]:
    """Rings of nodes with a few relations between them, and one node on its own."""
    nodes = groups * size
    source = np.arange(nodes, dtype=np.int32)
    target = np.where(source % size == size - 1, source - size + 1, source + 1).astype(np.int32)
    bridges = np.arange(0, nodes, size, dtype=np.int32)
    ends = (np.concatenate((source, bridges)), np.concatenate((target, np.roll(bridges, 1))))
    labels = np.concatenate((np.repeat(np.arange(groups), size), [-1])).astype(np.int32)
    return nodes + 1, *ends, labels, np.ones(nodes + 1)


def test_communities_lie_apart_from_each_other_and_nothing_lies_on_top() -> None:
    nodes, source, target, labels, room = planted(8, 25)
    places = lay_out(nodes, source, target, labels, room)
    assert np.isfinite(places).all()
    apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) + 1e9 * np.eye(nodes)
    assert apart.min() > 1.0
    middles = np.stack([places[:-1][labels[:-1] == group].mean(axis=0) for group in range(8)])
    nearest = np.hypot(*(places[:-1, None] - middles[None]).transpose(2, 0, 1)).argmin(axis=1)
    assert (nearest == labels[:-1]).mean() > 0.97
    assert np.hypot(*places[-1]) > np.hypot(*places[:-1].T).max(), "what is related to nothing lies around the rest"


# What the page runs


def test_the_bundled_libraries_are_those_that_the_list_names() -> None:
    listed = (ATLAS / "vendor" / "README.md").read_text(encoding="utf-8")
    libraries = [*ATLAS.glob("vendor/*.js")]
    assert len(libraries) == 2
    for library in libraries:
        assert sha256(library.read_bytes()).hexdigest() in listed
        assert library.with_name(f"{library.name.split('.')[0]}.LICENSE.txt").exists()


FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|fetch\(|https?://(?!www\.w3\.org)"
)


def test_our_own_scripts_set_no_markup_and_ask_no_network() -> None:
    for script in ATLAS.glob("*.js"):
        text = script.read_text(encoding="utf-8")
        assert not FORBIDDEN.search(text)
