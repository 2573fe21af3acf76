"""All that is known can be taken along, and comes back row for row."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import NOW, assert_same, contents, learn, rows, said, written
from typer.testing import CliRunner

from apps.cli import app
from inference.embedding import open_embedder
from recall.export import FORMATS, MANIFEST, export, is_own_export, read_manifest
from recall.overview import list_runs
from recall.readable_exports import page_names, safe_name
from slowwave.common.errors import UnusableInput
from slowwave.common.settings import DEFAULT_EMBEDDER
from slowwave.common.validity import live_sql
from storage.connection import namespaces
from storage.store import Store
from storage.tables import TABLES
from tasks.runtime.runs import existing_run, new_run
from tasks.transfer.imports import Imported
from tasks.transfer.own_exports import LEFT_OUT, _publish, _write, import_own


def bring_back(folder: Path, store: Path, namespace: str = "default", **more: Any) -> Imported:
    run = new_run("import", str(store), namespace, DEFAULT_EMBEDDER, NOW)
    return import_own(run, folder, trust=True, **more)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that learned from a talk, with a fact in the archive."""
    folder = tmp_path_factory.mktemp("export")
    learn(written(folder / "talk.jsonl", said()), folder / "memory")
    store = Store.open(str(folder / "memory"))
    whole = pl.DataFrame(pl.from_arrow(store.snapshot().handle("facts").to_arrow())).sort("id").head(1)
    with store.commit("test-archive", "test", NOW) as tx:
        tx.put_back("facts_archive", whole.with_columns(status=pl.lit("archived")))
        tx.delete("facts", whole["id"])
    return folder / "memory"


@pytest.fixture(scope="module")
def exports(memory: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An export of each format."""
    folder, store = tmp_path_factory.mktemp("exports"), Store.open(str(memory))
    return {format: export(store, folder / format, format, NOW)[1] for format in FORMATS}


def manifest_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))


def test_the_manifest_counts_every_table_and_names_the_state(memory: Path, exports: dict[str, Path]) -> None:
    snapshot = Store.open(str(memory)).snapshot()
    for format in ("jsonl", "parquet"):
        told = manifest_of(exports[format])
        assert told["commit"] == snapshot.sequence
        assert told["counts"] == {name: snapshot.count(name) for name in TABLES}
        assert {path.name for path in exports[format].iterdir()} == {MANIFEST, *(f"{name}.{format}" for name in TABLES)}
    first = json.loads((exports["jsonl"] / "facts.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert "vector" not in first
    assert first["has_vector"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["created_at"])


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_what_comes_back_is_what_was_published_row_for_row_with_vectors_made_anew(
    format: str, memory: Path, exports: dict[str, Path], tmp_path: Path
) -> None:
    done = bring_back(exports[format], tmp_path / "m")
    assert done.counts["facts"] == len(rows(memory, "facts")) >= 5
    there, back = contents(memory, but=LEFT_OUT), contents(tmp_path / "m", but=LEFT_OUT)
    assert_same(
        {name: frame.drop("vector", strict=False) for name, frame in there.items()},
        {name: frame.drop("vector", strict=False) for name, frame in back.items()},
    )
    for name in ("messages", "facts", "entities", "entity_profiles", "facts_archive"):
        was, now = there[name]["vector"], back[name]["vector"]
        assert was.is_null().to_list() == now.is_null().to_list(), name
        both = [column.drop_nulls().explode().to_numpy() for column in (was, now)]
        assert np.allclose(*both, atol=1e-5), name
    assert there["facts"]["vector"].null_count() < len(there["facts"])
    assert there["messages"]["vector"].null_count() < len(there["messages"])
    assert rows(memory, "decisions").equals(rows(tmp_path / "m", "decisions").filter(pl.col("run_id") != done.run))
    assert set(rows(tmp_path / "m", "runs")["id"]) == {done.run, *rows(memory, "runs")["id"]}
    commits = Store.open(str(tmp_path / "m")).commits()
    assert commits.filter(pl.col("kind") == "import.export").height == 1


def test_nothing_is_overwritten_on_either_way(memory: Path, exports: dict[str, Path], tmp_path: Path) -> None:
    before = Store.open(str(memory)).head
    with pytest.raises(UnusableInput, match="holds something already"):
        bring_back(exports["jsonl"], memory)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine.txt").write_text("mine")
    with pytest.raises(UnusableInput, match="there already"):
        export(Store.open(str(memory)), tmp_path / "x", "jsonl", NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["mine.txt"]
    assert Store.open(str(memory)).head == before


def test_what_was_written_while_an_import_began_is_not_overwritten(
    exports: dict[str, Path], tmp_path: Path, new_store: Callable[[], Store]
) -> None:
    store = new_store()
    run, manifest = existing_run("import", store.uri, "default", NOW), read_manifest(exports["jsonl"])
    with store.commit("other", "test", NOW) as tx:
        tx.upsert("metadata", pl.DataFrame({"id": ["mine"], "text": ["said"]}))
    with pytest.raises(UnusableInput, match="holds something already"):
        _publish(run, exports["jsonl"], manifest, ["runs"], open_embedder(manifest.embed_model))
    assert store.snapshot().frame("metadata")["id"].to_list() == ["mine"]


def test_runs_that_were_under_way_elsewhere_come_back_as_interrupted(new_store: Callable[[], Store]) -> None:
    store = new_store()
    moved = pl.DataFrame({"id": ["a", "b"], "flow": ["sleep"] * 2, "state": ["running", "failed"]})
    whole = moved.join(store.snapshot().frame("runs").clear().drop("flow", "state"), on="id", how="left")
    with store.commit("import", "test", NOW) as tx:
        _write(tx, "runs", iter([whole]))
    assert dict(store.snapshot().frame("runs", None, ["id", "state"]).iter_rows()) == {
        "a": "interrupted",
        "b": "failed",
    }
    assert {run["id"]: run["is_imported"] for run in list_runs(store.snapshot())} == {"a": True, "b": True}


def test_a_damaged_export_is_refused_before_anything_is_made(exports: dict[str, Path], tmp_path: Path) -> None:
    def damaged(name: str, change: Any) -> Path:
        folder = Path(shutil.copytree(exports["jsonl"], tmp_path / name))
        change(folder)
        return folder

    facts = "facts.jsonl"
    lines = (exports["jsonl"] / facts).read_text(encoding="utf-8").splitlines(keepends=True)
    cases = (
        (lambda at: (at / facts).write_text("".join(lines[1:]), encoding="utf-8"), "the export says"),
        (lambda at: (at / facts).unlink(), "cannot be read"),
        (lambda at: (at / MANIFEST).write_text('{"kind": "slowwave export"}'), "cannot be read"),
        (
            lambda at: (at / facts).write_text("".join([lines[0][:-9] + "\n", *lines[1:]]), encoding="utf-8"),
            "cannot be",
        ),
    )
    for number, (change, words) in enumerate(cases):
        with pytest.raises(UnusableInput, match=words):
            bring_back(damaged(f"x{number}", change), tmp_path / "m", "back")
    assert not namespaces(str(tmp_path / "m"))


def test_a_graph_or_pages_are_no_memory(exports: dict[str, Path], tmp_path: Path) -> None:
    assert is_own_export(exports["graphml"])
    with pytest.raises(UnusableInput, match="does not hold all"):
        bring_back(exports["graphml"], tmp_path / "m")


def test_the_graph_holds_every_entity_and_every_live_relation(memory: Path, exports: dict[str, Path]) -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.read_graphml(exports["graphml"] / "default.graphml", force_multigraph=True)
    entities = rows(memory, "entities", None, ["id", "name"])
    live = rows(memory, "facts", f"{live_sql(NOW)} AND object_id IS NOT NULL", ["id", "statement", "subject_id"])
    assert set(graph.nodes) == set(entities["id"])
    assert {data["name"] for _, data in graph.nodes(data=True)} == set(entities["name"])
    edges = [(source, target, data) for source, target, data in graph.edges(data=True)]
    related = {(data["fact"], data["statement"], source) for source, _, data in edges}
    assert related == set(live.rows())


def test_the_pages_tell_every_fact_of_every_entity_and_their_links_lead_somewhere(
    memory: Path, exports: dict[str, Path]
) -> None:
    folder = exports["markdown"]
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (folder / "entities").iterdir()}
    assert len(pages) == len(rows(memory, "entities"))
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\[\[(.+?)\]\]", index)) == set(pages)
    assert {link for page in pages.values() for link in re.findall(r"→ \[\[(.+?)\]\]", page)} <= set(pages)
    told = set(re.findall(r"`(f_[0-9a-f_]+)`$", "\n".join(pages.values()), re.MULTILINE))
    known = rows(memory, "facts", "subject_id IS NOT NULL AND status NOT IN ('candidate', 'rejected')")
    assert told >= set(known["id"])
    marta = pages["Marta"]
    assert "## What holds" in marta
    assert "said in" in marta


NAMES = st.text(min_size=0, max_size=60) | st.sampled_from(["..", "/etc/passwd", "CON", "a/b\\c", "x" * 500, "ÄÖ" * 90])


@given(st.lists(NAMES, min_size=1, max_size=6))
def test_every_name_becomes_a_file_name_of_its_own(names: list[str]) -> None:
    entities = pl.DataFrame(
        {"id": [f"e_{n}" for n in range(len(names))], "name": names}, schema_overrides={"name": pl.String}
    )
    files = page_names(entities)
    assert len({name.casefold() for name in files.values()}) == len(names)
    for name in files.values():
        assert Path(name).name == name
        assert name not in ("", ".", "..")
        assert not set(name) & set('/\\:*?"<>|#^[]\n\r\0')
        assert len(f"{name}.md".encode()) < 255


def test_names_that_a_system_reserves_are_changed() -> None:
    assert [safe_name(name) for name in ("CON", "lpt1.txt", "../../x", "a[[b]]|c")] == [
        "CON_",
        "lpt1.txt_",
        "x",
        "a b c",
    ]


@pytest.mark.proof
def test_the_commands_export_and_import_and_say_how_much(memory: Path, tmp_path: Path) -> None:
    def run(*words: Any) -> Any:
        done = CliRunner().invoke(app, [str(word) for word in (*words, "--store", memory, "--json")])
        return json.loads(done.stdout) if not done.exception else done.exception

    told = run("export", "--format", "parquet", tmp_path / "x")
    assert told["counts"]["facts"] == len(rows(memory, "facts"))
    assert "--trust" in str(run("import", tmp_path / "x", "--namespace", "again", "--dry-run"))
    tried = run("import", tmp_path / "x", "--namespace", "again", "--dry-run", "--trust")
    assert (tried["counts"]["facts"], tried["system"]) == (told["counts"]["facts"], "slowwave")
    assert namespaces(str(memory)) == ["default"]
    words = ["import", str(tmp_path / "x"), "--store", str(tmp_path / "back"), "--trust"]
    [line] = [said for said in CliRunner().invoke(app, words).stdout.splitlines() if "slowwave undo" in said]
    [run_id] = rows(tmp_path / "back", "runs", "flow = 'import'")["id"]
    assert line == f"Back with: slowwave undo {run_id}"
    assert "no format" in str(run("export", "--format", "csv", tmp_path / "y"))
