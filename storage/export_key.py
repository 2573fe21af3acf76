"""The key of a store: a secret by which it knows its own exports again. It is made on first use and never exported.

On disk it is the file `export.key` beside the namespaces, which only its owner can read. On object storage, which has
no such rights and no exclusive making of files, it is a table of one row: of all that make it at once, the first wins.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from slowwave.common.errors import UnusableInput

from .connection import address_of, is_remote
from .lease import claimed, first_claim

if TYPE_CHECKING:
    from lancedb.db import DBConnection

KEY_FILE = "export.key"
_KEY_TABLE = "_export_key"
_BYTES = 32
_WAY_OUT = (
    "Put a copy of it back. Where there is none, delete it: the next export makes a new one, and exports of before are "
    "then known by nobody (import them with --trust)."
)
_WRITTEN = re.compile(rf"[0-9a-f]{{{2 * _BYTES}}}")


def own_key(uri: str) -> bytes:
    """The key of a store, 32 bytes; made where it has none yet.

    Raises `UnusableInput` where it has one that cannot be used, and `OSError` where none can be made.
    """
    place = address_of(uri)
    found = _stored(place)
    if found is None:
        fresh = secrets.token_hex(_BYTES)
        if is_remote(place):
            return _parsed(claimed(_connected(place), _KEY_TABLE, fresh), place)
        found = _make(Path(place, KEY_FILE), fresh)
    return found


def known_key(uri: str) -> bytes | None:
    """The key of a store, or None where it has none yet; nothing is made.

    Raises `UnusableInput` where it has one that cannot be used.
    """
    return _stored(address_of(uri))


def named_key(name: str) -> bytes:
    """The key that a person names: a copy of the key file of a store, or the address of the store.

    Raises `UnusableInput` where there is none.
    """
    if not is_remote(name) and Path(name).is_file():
        return _read(Path(name))
    found = known_key(name)
    if found is None:
        raise UnusableInput(
            f"There is no export key at {name!r}.",
            f"Give the {KEY_FILE} of the store that wrote the export, or the address of that store.",
        )
    return found


def _stored(place: str) -> bytes | None:
    if not is_remote(place):
        path = Path(place, KEY_FILE)
        return _read(path) if os.path.lexists(path) else None
    with suppress(ValueError):  # there is no such table
        return _parsed(first_claim(_connected(place), _KEY_TABLE), place)
    return None


def _connected(place: str) -> DBConnection:
    import lancedb

    return lancedb.connect(place)


def _make(path: Path, value: str) -> bytes:
    """Put a whole file in place unless somebody was faster; returns the key that is there then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{KEY_FILE}-", encoding="ascii") as file:  # mode 0600
        file.write(f"{value}\n")
        file.flush()
        os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(file.name, path)
    return _read(path)


def _read(path: Path) -> bytes:
    try:
        return _parsed(path.read_text(encoding="ascii", errors="replace"), str(path))
    except OSError as error:
        raise UnusableInput(
            f"The export key {str(path)!r} cannot be read: {error.strerror or error}.",
            f"Take the right to read it. {_WAY_OUT}",
        ) from error


def _parsed(text: str, place: str) -> bytes:
    if not _WRITTEN.fullmatch(text.strip()):
        raise UnusableInput(
            f"{place!r} holds no export key: it is not {2 * _BYTES} hexadecimal digits.",
            _WAY_OUT,
        )
    return bytes.fromhex(text.strip())
