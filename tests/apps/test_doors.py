"""No name, path or id that somebody gives leads out of the place that it is for, whichever door it comes in by."""

from __future__ import annotations

import asyncio
import inspect
import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import TINY
from conftest import command as run
from hypothesis import given
from hypothesis import strategies as st
from mcp.client import Client
from mcp_client import small_memory
from talk import NOW, said, written

import slowwave
from apps.configuration import Place
from apps.mcp.server import make_server
from bench.tenants import ingest_some, judge, mark_of, observe_some, undo_one, work
from slowwave.common.errors import SlowwaveError, UnusableInput
from slowwave.common.settings import DEFAULT_EMBEDDER, IngestSettings, Settings
from slowwave.integrations.python_api import OpenMemory
from storage.connection import check_namespace, has_namespace, namespaces
from storage.store import Store
from tasks.ingest.sources import find_sources
from tasks.runtime.runs import new_run
from tasks.transfer.imports import import_export

ROOT = Path(__file__).parents[2]
OUTSIDE = ("../outside", "/outside", "..", "a/../../outside", "..\\outside", "%2e%2e", "a\x00", "file:///outside")
EXPORT = str(ROOT / "examples" / "foreign" / "memory.jsonl")
FLOWS = sorted(
    (path.stem, name)
    for path in (ROOT / "flows").glob("[a-z]*.py")
    for name in re.findall(r'^@flow\("(\w+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
)


def nothing_is_outside(folder: Path) -> bool:
    """Whether nothing but what the test itself made lies in the folder."""
    return {each.name for each in folder.iterdir()} <= {"memory", "talk.jsonl", "cwd"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small memory, to be copied or looked at."""
    return small_memory(tmp_path_factory.mktemp("doors") / "memory")


@pytest.mark.parametrize(("module", "name"), FLOWS)
def test_every_flow_refuses_a_namespace_that_leads_elsewhere(
    module: str, name: str, tmp_path: Path, template: Path
) -> None:
    shutil.copytree(template, tmp_path / "memory")
    talk = written(tmp_path / "talk.jsonl", said())
    flow = getattr(import_module(f"flows.{module}"), name)
    given = {"store": str(tmp_path / "memory"), "paths": [str(talk)], "folder": str(tmp_path), "now": NOW,
             "start": NOW - timedelta(days=1), "end": NOW}  # fmt: skip
    taken = inspect.signature(flow.fn).parameters
    if "namespace" not in taken:
        pytest.skip("it takes no namespace")
    if name == "inbox":  # it takes its names from folders, and goes on with the others
        given["folder"] = str(tmp_path / "cwd")
        (tmp_path / "cwd").mkdir()
        shutil.copy(talk, tmp_path / "cwd")
        asked = {key: given[key] for key in given if key in taken}
        told = asyncio.run(flow(**asked, namespace=OUTSIDE[0], settle_s=0))
        assert (told["read"], told["runs"]) == (0, [])
        assert nothing_is_outside(tmp_path)
        return
    for namespace in OUTSIDE[:2]:
        with pytest.raises(SlowwaveError, match=r"cannot be a namespace|Unknown namespace|No namespace|no namespace"):
            asyncio.run(flow(**{key: given[key] for key in given if key in taken}, namespace=namespace))
    assert nothing_is_outside(tmp_path)


@pytest.mark.parametrize(
    "command",
    [("recall", "boats"), ("facts", "Marta"), ("why", "f_1"), ("ingest", ""), ("import", EXPORT), ("mcp",), ("runs",),
     ("observe", "Marta", "It is so.", "--create", "--type", "person"), ("doctor",),
     ("undo", "x")],
)  # fmt: skip
def test_every_command_refuses_a_namespace_that_leads_elsewhere(
    command: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = str(written(tmp_path / "talk.jsonl", said()))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    words = [talk if word == "" else word for word in command]
    assert run(monkeypatch, *words, "--store", tmp_path / "memory", "--namespace", "../outside") == 2
    assert "cannot be a namespace" in capsys.readouterr().err
    assert nothing_is_outside(tmp_path)
    assert not (tmp_path / "memory").exists()


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_doors_of_python_refuse_it_too(name: str, tmp_path: Path, template: Path) -> None:
    doors: list[Callable[[], object]] = [
        lambda: OpenMemory.open(str(template), name),
        lambda: Store.open(str(template), name),
        lambda: Store.create(str(tmp_path / "memory"), name, (DEFAULT_EMBEDDER, 256)),
        lambda: slowwave.open_memory(str(template), name).recall("boats"),
        lambda: OpenMemory(Place(str(template), name, Settings())).snapshot,
        lambda: import_export(
            new_run("import", str(tmp_path / "memory"), name, DEFAULT_EMBEDDER, NOW),
            EXPORT, IngestSettings(),
        ),
    ]  # fmt: skip
    for door in doors:
        with pytest.raises(SlowwaveError, match="cannot be a namespace"):
            door()
    assert nothing_is_outside(tmp_path)


def test_a_link_in_a_folder_brings_in_nothing_from_outside_of_it(tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    (outside / "private.md").write_text("# Private\n\nThe diary of Ana.\n")
    (inside := tmp_path / "inside").mkdir()
    (inside / "note.md").write_text("# Note\n\nThe ferry leaves at nine.\n")
    (inside / "same.md").symlink_to(inside / "note.md")
    (inside / "diary.md").symlink_to(outside / "private.md")
    (inside / "folder").symlink_to(outside)
    (inside / "up.md").symlink_to("../outside/private.md")
    found, issues = find_sources([inside])
    assert [each.path.name for each in found] == ["note.md"]
    assert {Path(each.path).name for each in issues if "link" in each.reason} == {"diary.md", "up.md"}
    assert [each.path.name for each in find_sources([inside / "diary.md"])[0]] == ["diary.md"]  # asked for by name


@pytest.mark.parametrize("path", ["file:///etc/passwd", "https://example.com/a.md", "\x00", "s3://bucket/a.md"])
def test_an_address_is_no_path(path: str) -> None:
    with pytest.raises(UnusableInput, match="no file or folder"):
        find_sources([path])


HOSTILE_IDS = ("f_00000000' OR '1'='1", "../../etc", "f_%", "'; DROP TABLE facts; --", "f_0\x00")


def test_what_an_agent_calls_an_id_or_a_name_is_never_part_of_a_query(template: Path) -> None:
    async def session() -> list[Any]:
        async with Client(make_server(OpenMemory(Place(str(template), "default", Settings())))) as client:
            return [
                await client.call_tool(tool, {key: id})
                for id in HOSTILE_IDS
                for tool, key in (("why", "id"), ("history", "subject"))
            ]

    for told in asyncio.run(session()):
        assert told.is_error
        assert "Something went wrong" not in str(told.content)
    assert Store.open(str(template)).snapshot().frame("facts", None, ["id"]).height > 30


# Namespaces are apart whatever they are called, also while several write at once


ALIKE = ("a", "A", "a.b")
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True).filter(lambda name: ".." not in name)


@pytest.mark.proof
def test_two_writers_at_namespaces_of_like_names_mix_nothing_up(tmp_path: Path) -> None:
    store, told = str(tmp_path / "store"), tmp_path / "told"
    told.mkdir()
    deeds = {ingest_some: 2, observe_some: 2, undo_one: 1}
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, store, f"w{seed}", seed, told, ALIKE[:2], deeds, 3) for seed in (1, 2)]:
            done.result()
    verdict = judge(store, told, ALIKE[:2])
    assert verdict.wrong == []
    assert verdict.told["run"].drop_nulls().len() >= 3
    assert verdict.rows > 20


def test_a_row_of_another_tenant_and_a_lost_message_would_be_found(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "store"), "a", TINY)
    with store.commit("r", "test") as tx:
        tx.upsert("metadata", pl.DataFrame({"id": ["k"], "text": [f"of {mark_of('A')}"]}))
        tx.upsert("runs", pl.DataFrame({"id": ["ingest-1"], "state": ["completed"]}))
    (tmp_path / "told").mkdir()
    line = '{"deed": "ingest_some", "namespace": "a", "run": "ingest-1", "messages": ["m"]}\n'
    (tmp_path / "told" / "told-w.jsonl").write_text(line, encoding="utf-8")
    assert judge(store.uri, tmp_path / "told", ALIKE).wrong == [
        f"a: metadata speaks of {mark_of('A')}", "a: run ingest-1 lost messages"
    ]  # fmt: skip


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store whose only namespace is `a.b`."""
    uri = str(tmp_path_factory.mktemp("one") / "store")
    Store.create(uri, "a.b", TINY)
    return uri


@given(names)
def test_a_name_means_one_namespace_only(one: str, name: str) -> None:
    assert check_namespace(name) == name
    assert has_namespace(one, name) == (name == "a.b") == (name in namespaces(one))
    assert (Path(one) / name).resolve().parent == Path(one).resolve()


@given(st.text(max_size=70))
def test_what_is_no_name_never_reaches_a_place(one: str, name: str) -> None:
    try:
        check_namespace(name)
    except UnusableInput:
        with pytest.raises(UnusableInput):
            has_namespace(one, name)
    else:
        assert (Path(one) / name).resolve().parent == Path(one).resolve()
