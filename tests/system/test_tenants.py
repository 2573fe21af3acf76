"""Namespaces are apart whatever they are called, also while several write at once and take back what others did."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from conftest import TINY
from hypothesis import given
from hypothesis import strategies as st

from bench.tenants import ingest_some, judge, mark_of, observe_some, undo_one, work
from slowwave.common.errors import UnusableInput
from storage.connection import check_namespace, has_namespace, namespaces
from storage.store import Store

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
