"""What was checked of an export is what comes in, and a key that cannot be used is noticed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from talk import NOW, learn, said, written

from recall.export import Manifest, export
from slowwave.common.errors import UnusableInput
from slowwave.common.settings import DEFAULT_EMBEDDER
from storage.export_key import KEY_FILE, named_key
from storage.store import Store
from tasks.runtime.runs import new_run
from tasks.transfer.own_exports import import_own


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    learn(written(folder / "talk.jsonl", said()), folder / "memory")
    return folder / "memory"


def bring(folder: Path, store: Path, **more: Any) -> Any:
    run = new_run("import", str(store), "back", DEFAULT_EMBEDDER, NOW)
    return import_own(run, folder, **more)


def pinned(path: Path) -> None:
    """As many facts, all of them pinned."""
    if path.suffix == ".jsonl":
        text = path.read_text(encoding="utf-8").replace('"pinned":false', '"pinned":true')
        path.write_text(text, encoding="utf-8")
    else:
        pl.read_parquet(path).with_columns(pinned=True).write_parquet(path)


@pytest.mark.proof
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_what_is_changed_after_the_seal_was_checked_does_not_come_in(
    format: str, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export(Store.open(str(memory)), tmp_path / "x", format, NOW)[1]
    check = Manifest.judged

    def changed_when_checked(*given: Any) -> Any:
        judged = check(*given)
        assert judged.standing == "whole"
        pinned(folder / f"facts.{format}")
        return judged

    monkeypatch.setattr(Manifest, "judged", changed_when_checked)
    assert bring(folder, tmp_path / "m", key=str(memory)).counts["facts"]
    assert Store.open(str(tmp_path / "m"), "back").snapshot().count("facts", "pinned") == 0


# A key that cannot be used


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def garbled(path: Path) -> None:
    path.write_bytes(b"\xff\x00 no key")


def unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()  # whoever runs as root may read every file


def leads_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.fixture
def spoilt(memory: Path, tmp_path: Path) -> Callable[[Callable[[Path], None]], tuple[Path, Path, Path]]:
    """A store whose key is spoilt, an export that it sealed before, and a copy of its key."""

    def made(spoil: Callable[[Path], None]) -> tuple[Path, Path, Path]:
        here = Path(shutil.copytree(memory, tmp_path / "memory"))
        folder = export(Store.open(str(here)), tmp_path / "x", "jsonl", NOW)[1]
        key = Path(shutil.copy(here / KEY_FILE, tmp_path / "copy.key"))
        spoil(here / KEY_FILE)
        return here, folder, key

    return made


@pytest.mark.proof
@pytest.mark.parametrize("spoil", [emptied, garbled, unreadable, leads_nowhere])
def test_where_the_key_cannot_be_used_nothing_is_exported_that_should_be_sealed(
    spoil: Callable[[Path], None], spoilt: Callable[..., tuple[Path, Path, Path]], tmp_path: Path
) -> None:
    here, _, _ = spoilt(spoil)
    with pytest.raises(UnusableInput) as refused:
        export(Store.open(str(here)), tmp_path / "y", "parquet", NOW)
    assert KEY_FILE in refused.value.message
    assert "Put a copy of it back" in refused.value.remedy
    assert not (tmp_path / "y").exists()
    with pytest.raises(UnusableInput):
        named_key(str(here))


@pytest.mark.proof
@pytest.mark.parametrize("spoil", [garbled, unreadable])
def test_a_store_whose_key_cannot_be_used_knows_no_export_as_its_own_and_says_why(
    spoil: Callable[[Path], None], spoilt: Callable[..., tuple[Path, Path, Path]]
) -> None:
    here, folder, _ = spoilt(spoil)
    with pytest.raises(UnusableInput, match=KEY_FILE):
        bring(folder, here, dry_run=True)


def test_a_copy_of_the_key_vouches_where_that_of_the_store_cannot_be_used(
    spoilt: Callable[..., tuple[Path, Path, Path]],
) -> None:
    here, folder, key = spoilt(emptied)
    assert bring(folder, here, key=str(key), dry_run=True).counts["facts"]
