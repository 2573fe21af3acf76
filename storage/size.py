"""How much room a namespace takes where it is stored, older versions and indexes included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .connection import is_remote

if TYPE_CHECKING:
    from .store import Store


def stored_bytes(store: Store) -> int:
    """Bytes of all files of the namespace."""
    from pyarrow import fs

    place = f"{store.uri.rstrip('/')}/{store.namespace}"
    system, path = fs.FileSystem.from_uri(place) if is_remote(place) else (fs.LocalFileSystem(), _local(place))
    files = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
    return sum(each.size or 0 for each in files if each.type == fs.FileType.File)


def _local(place: str) -> str:
    return place.removeprefix("file://")
