"""What must hold over the whole tree: the one road to an active fact, the floors, the forms, the pages."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ledger_watch import watched
from talk import EXAMPLES, NOW, ROOT, learn, rows, said, written

from recall.export import export
from recall.proposals import list_proposals
from slowwave.common.settings import DEFAULT_EMBEDDER, IngestSettings
from slowwave.review.proposals import Person
from storage.store import Store
from storage.undo import undo
from tasks.people.observations import observe
from tasks.people.review import approve
from tasks.runtime.runs import Run, new_run
from tasks.transfer.imports import import_export
from tasks.transfer.own_exports import import_own

FLOORS = ("apps", "flows", "recall", "tasks", "storage", "prompts", "inference", "slowwave")
STATES = {"works", "partly", "not yet"}


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Every module of these folders, parsed."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


# The only road to an active fact (S3-07)


SNEAK = """
def sneak(store, now, facts, decisions):
    with store.commit("sneak", "sneak", now) as tx:
        tx.upsert("facts", facts)
        tx.upsert("decisions", decisions)
"""


def sneak(*given: Any) -> None:
    """Write rows as a module of ours would that thinks of no gate."""
    place: dict[str, Any] = {}
    exec(compile(SNEAK, str(ROOT / "tasks" / "sneaking.py"), "exec"), place)
    place["sneak"](*given)


@pytest.mark.proof
def test_every_road_to_an_active_fact_passes_the_ledger(tmp_path: Path) -> None:
    """All tests are watched in the same way (`conftest`); here the roads are gone along one by one."""
    home, folder = tmp_path / "m", tmp_path / "x"
    file = written(tmp_path / "talk.jsonl", said())

    def run(flow: str, namespace: str = "default") -> Run:
        return new_run(flow, str(home), namespace, DEFAULT_EMBEDDER, NOW)

    with watched() as made:
        learned = learn(file, home)["run"]
        undo(Store.open(str(home)), learned, "undo-1", NOW)
        undo(Store.open(str(home)), "undo-1", "undo-2", NOW)
        observe(run("observe"), "Marta", ["Marta plays the cello."], IngestSettings())
        learn(file, home, namespace="asked", require_approval=True)
        waiting = [each.id for each in list_proposals(Store.open(str(home), "asked").snapshot())]
        approve(run("review", "asked"), waiting, Person("ana", "python"))
        import_export(run("import", "foreign"), EXAMPLES / "foreign" / "mem0.json", IngestSettings())
        export(Store.open(str(home)), folder, "jsonl", NOW)
        import_own(run("import", "whole"), folder, trust=True)
    assert {kind for kind, count in made.items() if count} == {
        "ingest.apply", "observe", "undo", "review", "import.export",
    }  # fmt: skip
    for name in ("default", "asked", "foreign", "whole"):
        assert Store.open(str(home), name).snapshot().count("facts", "status = 'active'"), name


def test_a_road_that_passes_no_gate_is_seen_whatever_it_writes(tmp_path: Path) -> None:
    learn(written(tmp_path / "talk.jsonl", said()), tmp_path / "m")
    store = Store.open(str(tmp_path / "m"))
    head = store.head
    fact = store.snapshot().frame("facts", "status = 'active'").head(1)
    another = fact.with_columns(id=pl.lit("f_sneaked"))
    told = {"id": "d_1", "action": "create", "decided_by": "rule", "reason": "Because.", "at": NOW}
    with pytest.raises(AssertionError, match="sneak: no decision answers for 1 facts that it makes active: f_sneaked"):
        sneak(store, NOW, another, pl.DataFrame([{**told, "subject_id": fact["id"][0]}]))
    vouched = {**told, "action": "import", "subject_id": "sneak", "measures": '{"active facts": 7}'}
    with pytest.raises(AssertionError, match="sneak"):
        sneak(store, NOW, another, pl.DataFrame([vouched]))
    assert store.head.sequence == head.sequence
    sneak(store, NOW, fact, pl.DataFrame([{**told, "subject_id": "somewhat else"}]))  # it was active before
    sneak(store, NOW, another, pl.DataFrame([{**told, "id": "d_2", "subject_id": "f_sneaked"}]))
    assert store.head.sequence == head.sequence + 2


def test_every_active_fact_of_the_examples_was_created_by_a_decision_on_an_applied_patch(
    learned: tuple[Path, dict[str, Any]],
) -> None:
    store, _ = learned
    facts = rows(store, "facts")
    active = facts.filter(pl.col("status") == "active")
    created = rows(store, "decisions", "action = 'create'")["subject_id"].to_list()
    applied = rows(store, "patch_batches", "state = 'applied'")["id"].to_list()
    assert len(active) > 100
    assert set(active["id"]) <= set(created)
    assert set(active["patch_batch_id"]) <= set(applied)
    assert set(facts["status"]) <= {"active", "superseded", "rejected", "retracted"}
    believed = rows(store, "fact_aspects")["fact_id"].unique().to_list()
    assert set(believed) <= set(facts.filter(pl.col("status") != "rejected")["id"])


# Floors and names


@pytest.mark.proof
def test_imports_point_down_only() -> None:
    script = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([script, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def imported(module: str, is_package: bool, tree: ast.Module, known: set[str]) -> set[str]:
    """The modules of `known` that a module imports, be it inside functions or for the type checker alone."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: module.count(".") + 1 - node.level + is_package] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= ({f"{base}.{each.name}" for each in node.names} & known) or {base}
    return (found & known) - {module}


def test_no_two_files_import_each_other_not_even_by_way_of_others() -> None:
    trees = {path.removesuffix(".py").replace("/", "."): tree for path, tree in sources(*FLOORS)}
    modules = {name.removesuffix(".__init__"): (name.endswith("__init__"), tree) for name, tree in trees.items()}
    left = {name: imported(name, *module, {*modules}) for name, module in modules.items()}
    while free := {name for name, needs in left.items() if not needs}:
        left = {name: needs - free for name, needs in left.items() if name not in free}
    assert left == {}


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = {}
    for path, tree in sources(*FLOORS):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_the_rules_have_at_most_eight_rooms() -> None:
    paths = [path for path in (ROOT / "slowwave").iterdir() if path.suffix in ("", ".py")]
    rooms = {path.stem for path in paths if not path.name.startswith(("_", "."))}
    assert len(rooms - {"project"}) <= 8


def test_no_flow_hides_a_module_that_can_be_imported() -> None:
    names = [path.stem for path in (ROOT / "flows").glob("[a-z]*.py")]
    assert names
    for name in names:
        assert name not in sys.stdlib_module_names
        found = importlib.util.find_spec(name)
        is_own = found is not None and Path(found.origin or "").parent == ROOT / "flows"  # as Prefect loads it
        assert found is None or is_own, f"flows/{name}.py would hide the module {name}"


def test_there_is_no_drawer_for_odds_and_ends() -> None:
    paths = {path for each in (*FLOORS, "bench", "scripts", "tests") for path in (ROOT / each).rglob("*.py")}
    assert {path for path in paths if path.stem in ("utils", "helpers", "common", "manager", "misc")} == set()
    assert not list((ROOT / "tests").rglob("__init__.py"))


# Pages


def test_the_tree_on_the_page_is_the_tree_there_is() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = re.search(r"\| folder \|.*?\n\n", page, re.DOTALL)
    assert told
    named = {
        name for row in told[0].strip().splitlines()[2:] for name in re.findall(r"`([A-Za-z]+)/`", row.split("|")[1])
    }
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    files = tracked.splitlines() or [path.relative_to(ROOT).as_posix() for path in ROOT.glob("[a-z]*/*")]
    real = {name.split("/")[0] for name in files if "/" in name}
    assert named == {name for name in real if not name.startswith(".")}
    assert {*FLOORS} <= named


def features() -> list[list[str]]:
    """The cells of each row of docs/features.md: id, what, where, test, state."""
    lines = (ROOT / "docs" / "features.md").read_text(encoding="utf-8").splitlines()
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if re.match(r"\| [A-Z]+\d*-", line)
    ]


def test_every_feature_is_listed_once_with_paths_that_exist() -> None:
    listed = features()
    assert len(listed) > 150
    names = [row[0] for row in listed]
    assert [name for name in names if names.count(name) > 1] == []
    for row in listed:
        assert len(row) == 5, row
        name, what, where, test, state = row
        assert what, name
        assert state in STATES, row
        paths = [path for cell in (where, test) for path in re.split(r"[,\s]+", cell.replace("`", "")) if path]
        assert [path for path in paths if not (ROOT / path.split("::")[0]).exists()] == [], name
        if state == "works":
            assert where, name
            assert test.startswith("tests/"), name
        if state == "not yet":
            assert not test, name
