"""What was checked of an export is what comes in, whoever changes its files meanwhile, and however."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from talk import NOW, learn, said, written

from recall.export import Manifest, export
from recall.export_files import PART, ExportFiles
from slowwave.errors import UnusableInput
from slowwave.settings import DEFAULT_EMBEDDER, IngestSettings
from storage.connection import namespaces
from storage.export_key import KEY_FILE, named_key
from storage.store import Store
from tasks.runtime.runs import new_run
from tasks.transfer.own_exports import import_own

TEXT = bytes(range(256)) * (PART // 256) * 2 + b"the end"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    learn(written(folder / "talk.jsonl", said()), folder / "memory")
    return folder / "memory"


def bring(folder: Path, store: Path, **more: Any) -> Any:
    run = new_run("import", str(store), "back", DEFAULT_EMBEDDER, NOW)
    return import_own(run, folder, IngestSettings.model_validate({"llm": {"model": "quotes"}}), **more)


def pinned(path: Path) -> None:
    """As many facts, all of them pinned."""
    if path.suffix == ".jsonl":
        text = path.read_text(encoding="utf-8").replace('"pinned":false', '"pinned":true')
        path.write_text(text, encoding="utf-8")
    else:
        pl.read_parquet(path).with_columns(pinned=True).write_parquet(path)


# Parts


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(TEXT.replace(b"the end", b"The end"))
    other.replace(path)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(PART + 7)
        file.write(b"!")


def cut_off(path: Path) -> None:
    os.truncate(path, PART + 5)


@pytest.mark.parametrize("change", [replaced, overwritten, cut_off])
def test_a_file_that_was_changed_after_its_first_reading_cannot_be_read_to_its_end(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    files = ExportFiles(tmp_path)
    with files.open("a") as file:
        assert file.read() == TEXT
    with files.open("a") as file:
        assert file.read() == TEXT
    change(tmp_path / "a")
    with files.open("a") as file, pytest.raises(UnusableInput, match="The file a was changed"):
        file.read()


def test_what_is_appended_after_the_first_reading_is_not_read(tmp_path: Path) -> None:
    for length in (0, PART, len(TEXT)):
        (tmp_path / "a").write_bytes(TEXT[:length])
        files = ExportFiles(tmp_path)
        with files.open("a") as file:
            assert file.read() == TEXT[:length]
        with (tmp_path / "a").open("ab") as file:
            file.write(TEXT)
        with files.open("a") as file:
            assert file.seek(0, os.SEEK_END) == length
            file.seek(length + PART)
            assert file.read() == b""
            file.seek(0)
            assert file.read() == TEXT[:length]


def test_parts_can_be_read_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    with ExportFiles(tmp_path).open("a") as file:
        file.seek(-7, os.SEEK_END)
        assert file.read() == b"the end"
        file.seek(PART - 3)
        assert file.read(6) == TEXT[PART - 3 : PART + 3]


# Imports


@pytest.mark.proof
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_export_that_is_changed_after_its_seal_was_checked_brings_in_nothing(
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
    with pytest.raises(UnusableInput, match=rf"The file facts\.{format} was changed while it was imported"):
        bring(folder, tmp_path / "m", key=str(memory))
    assert not namespaces(str(tmp_path / "m"))


@pytest.mark.proof
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_export_that_is_changed_while_it_is_written_leaves_the_namespace_empty(
    format: str, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export(Store.open(str(memory)), tmp_path / "x", format, NOW)[1]
    from tasks.transfer import own_exports

    check = own_exports._check_is_empty

    def changed_when_looked_at(*given: Any) -> None:
        check(*given)
        pinned(folder / f"facts.{format}")

    monkeypatch.setattr(own_exports, "_check_is_empty", changed_when_looked_at)
    with pytest.raises(UnusableInput, match="was changed while it was imported"):
        bring(folder, tmp_path / "m", key=str(memory))
    snapshot = Store.open(str(tmp_path / "m"), "back").snapshot()
    assert [snapshot.count(name) for name in ("facts", "entities", "messages")] == [0, 0, 0]


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


def test_pages_need_no_key(spoilt: Callable[..., tuple[Path, Path, Path]], tmp_path: Path) -> None:
    here, _, _ = spoilt(garbled)
    assert export(Store.open(str(here)), tmp_path / "pages", "markdown", NOW)[1].exists()


@pytest.mark.proof
@pytest.mark.parametrize("spoil", [garbled, unreadable])
def test_a_store_whose_key_cannot_be_used_judges_its_own_exports_and_says_why(
    spoil: Callable[[Path], None], spoilt: Callable[..., tuple[Path, Path, Path]]
) -> None:
    here, folder, _ = spoilt(spoil)
    done = bring(folder, here, dry_run=True)
    assert (done.seal.standing, done.as_it_is) == ("unknown key", False)
    assert KEY_FILE in done.seal.reason


def test_a_copy_of_the_key_vouches_where_that_of_the_store_cannot_be_used(
    spoilt: Callable[..., tuple[Path, Path, Path]],
) -> None:
    here, folder, key = spoilt(emptied)
    assert bring(folder, here, key=str(key), dry_run=True).as_it_is
