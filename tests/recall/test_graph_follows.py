"""The graph and the index of names follow the commits of a store: they are as if they were made anew."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from stores import as_another_process, entity, fact

from recall import graphs
from recall.entities import SEARCH_TABLES
from recall.graphs import GRAPH_TABLES, Graphs, Landscape
from recall.search import RESIDENT
from slowwave.common.validity import Moment
from storage.following import Residents
from storage.handles import WarmTables
from storage.store import Store
from storage.undo import undo
from storage.upkeep import tend

TABLES = tuple(dict.fromkeys((*GRAPH_TABLES, *SEARCH_TABLES, *RESIDENT)))
NAMES = ("ana", "bo", "cy", "di", "eli", "flo", "gus")


class Asker:
    """Keeps the graph of a store, on a loop of its own."""

    def __init__(self, store: Store) -> None:
        self.loop = asyncio.new_event_loop()
        self.warm = WarmTables(store, TABLES, residents=Residents(store, RESIDENT, 1 << 30))
        self.graphs = Graphs()

    def shows(self, now: datetime) -> dict[str, Any]:
        return self.loop.run_until_complete(self._shows(now))

    async def _shows(self, now: datetime) -> dict[str, Any]:
        tables = await self.warm.newest(is_eager=True)
        names = await self.graphs.names.at(tables)
        land = await self.graphs.at(tables, Moment(now=now))
        found = {name: sorted(names.every.ids.gather(names.every.find(name, 9).places)) for name in NAMES}
        return {**shown(land), "names": names.every.ids.to_list(), "found": found}

    def close(self) -> None:
        self.loop.close()


def shown(land: Landscape) -> dict[str, Any]:
    """All that walks read, by ids: an entity that nothing ties may be there or not."""
    graph = land.graph
    ends = {"from": graph.ids.gather(graph.source), "to": graph.ids.gather(graph.target), "scope": land.scopes}
    edges = graph.edges.with_columns(weight=pl.col("weight").round(9), **ends)
    tied = [place for place in range(len(graph)) if graph.degree[place]]
    near = {}
    for place in tied:
        steps = graph.steps(graph.places([graph.ids[place]]))
        ids = graph.edges["id"].gather(steps.edge)
        near[graph.ids[place]] = sorted(zip(graph.ids.gather(steps.end), ids, strict=True))
    assert graph.ids.is_sorted()
    assert graph.edges["id"].is_sorted()
    assert len(land.communities) == len(graph)
    assert land.similar.ids.equals(graph.ids)
    return {
        "edges": sorted(map(repr, edges.rows())),
        "near": near,
        "similar": sorted(land.similar.edges["id"]),
        "communities": {graph.ids[place]: int(land.communities[place]) for place in tied},
        "tied": sorted(land.tied),
    }


def relation(number: int, turn: int, known: list[str]) -> dict[str, Any]:
    """A fact about known entities, which differs from turn to turn."""
    a, b, c = (known[(number * 3 + turn * step) % len(known)] for step in (0, 1, 2))
    more: dict[str, Any] = {"kind": "relation", "object_id": b, "polarity": "affirmed", "edge_type": "semantic"}
    if number % 3 == 1:
        more = {"kind": "observation", "mentions": [b, c], "polarity": "affirmed"}
    if (number + turn) % 5 == 4:
        more |= {"status": "superseded"}
    if (number + turn) % 4 == 3:
        more |= {"valid_to": EPOCH + timedelta(hours=turn + 2)}
    return fact(f"f{number}", f"{a} {turn}", **{"subject_id": a, "predicate": "knows", "scope": f"s{turn % 2}", **more})


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def do(store: Store, deed: str, chosen: list[int], turn: int) -> None:
    run = f"r{turn}"
    if deed == "undo":
        commits = store.commits()
        undone = {name for names in commits["undoes"].drop_nulls() for name in names}
        left = [name for name in commits.filter(pl.col("kind") == "test")["run_id"] if name not in undone]
        if later := left[2:]:  # not what all others rest on
            undo(store, later[chosen[0] % len(later)], run, EPOCH, cascade=True)
        return
    if deed == "tend":
        tend(store, run, EPOCH, thorough=True)
        return
    born = dict(store.snapshot().frame("entities", columns=["id", "created_at"]).iter_rows())

    def person(number: int, **more: Any) -> dict[str, Any]:
        row = entity(NAMES[number % len(NAMES)], **more)
        return {**row, "created_at": born.get(row["id"])}

    with store.commit(run, "test", EPOCH + timedelta(hours=turn)) as tx:
        if deed == "relate":
            tx.upsert("facts", frame([relation(n, turn, sorted(born)) for n in chosen]))
        if deed == "remove":
            tx.delete("facts", [f"f{n}" for n in chosen])
        if deed == "use":
            tx.upsert("fact_usage", frame([{"id": f"f{n}", "link_count": n + turn} for n in chosen]))
        if deed == "know":
            tx.upsert("entities", frame([person(n, summary=f"of turn {turn // 3}") for n in chosen[:2]]))
        if deed == "archive":
            tx.upsert("entities", frame([person(chosen[0], status="archived")]))
        if deed == "merge":
            tx.upsert("entities", frame([person(chosen[0], merged_into=sorted(born)[turn % len(born)])]))


DEEDS = ("relate", "relate", "relate", "remove", "know", "know", "use", "archive", "merge", "undo", "tend")
numbers = st.lists(st.integers(0, 11), min_size=1, max_size=4, unique_by=lambda number: number % len(NAMES))


@pytest.mark.parametrize(
    "is_own", [True, pytest.param(False, marks=pytest.mark.proof)], ids=["of this process", "of another"]
)
@example(history=[("archive", [0], True), ("know", [6], True), ("undo", [0], True)])
@example(history=[("merge", [0], True), ("know", [6], True), ("undo", [0], True)])
@given(history=st.lists(st.tuples(st.sampled_from(DEEDS), numbers, st.booleans()), min_size=1, max_size=10))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_history_the_graph_is_as_if_made_anew(
    empty_store: Path, tmp_path_factory: pytest.TempPathFactory, is_own: bool, history: list[Any]
) -> None:
    place = tmp_path_factory.mktemp("graph") / "store"
    shutil.copytree(empty_store, place)
    with pytest.MonkeyPatch.context() as patch:
        store = Store.open(str(place))
        do(store, "know", [0, 1], 0)
        do(store, "relate", [*range(8)], 1)
        asker = Asker(store)
        asker.shows(EPOCH)
        for turn, (deed, chosen, is_looked_at) in enumerate(history, 2):
            if not is_own:
                as_another_process(patch)
            do(store, deed, chosen, turn)
            if is_looked_at or turn == len(history) + 1:
                fresh, now = Asker(Store.open(str(place))), EPOCH + timedelta(hours=turn)
                assert asker.shows(now) == fresh.shows(now)
                fresh.close()
        asker.close()


def test_relations_of_known_and_new_entities_are_taken_over(
    new_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    do(store, "know", [0, 1], 0)
    do(store, "know", [2, 3], 1)
    do(store, "relate", [0, 1, 2, 3], 2)
    asker = Asker(store)
    asker.shows(EPOCH)
    made: list[object] = []
    real = graphs._landscape
    monkeypatch.setattr(graphs, "_landscape", lambda *given: made.append(given) or real(*given))
    do(store, "know", [4, 5], 3)
    asker.shows(EPOCH)
    for turn, is_own in ((4, True), (5, False)):
        if not is_own:
            as_another_process(monkeypatch)
        do(store, "relate", [1, 3, 5, 7, 9], turn)
        do(store, "remove", [2], turn + 10)
        seen = asker.shows(EPOCH)
        assert not made
        fresh = Asker(Store.open(str(store.uri)))
        assert seen == fresh.shows(EPOCH)
        fresh.close()
        made.clear()
    asker.close()
