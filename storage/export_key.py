"""The key of a store: a secret by which it knows its own exports again. It is made on first use and never exported.

It is the file `export.key` beside the namespaces, which only its owner can read. Object storage has no such rights, and
no key.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from slowwave.common.errors import UnusableInput

from .connection import address_of, is_remote

KEY_FILE = "export.key"
_BYTES = 32
_WAY_OUT = (
    "Put a copy of it back. Where there is none, delete it: the next export makes a new one, and exports of before are "
    "then known by nobody (import them with --trust)."
)
_WRITTEN = re.compile(rf"[0-9a-f]{{{2 * _BYTES}}}")


def own_key(uri: str, *, is_made: bool = False) -> bytes | None:
    """The key of a store, 32 bytes; None where it has none, unless it `is_made` then.

    None can be made on object storage, and where nothing can be written. Raises `UnusableInput` where there is one that
    cannot be used.
    """
    place = address_of(uri)
    if is_remote(place):
        return None
    path = Path(place, KEY_FILE)
    if is_made and not os.path.lexists(path):
        with suppress(OSError):
            _make(path)
    return _read(path) if os.path.lexists(path) else None


def _make(path: Path) -> None:
    """Put a whole file in place unless somebody was faster."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{KEY_FILE}-", encoding="ascii") as file:  # mode 0600
        file.write(f"{secrets.token_hex(_BYTES)}\n")
        file.flush()
        os.fsync(file.fileno())
        os.link(file.name, path)


def _read(path: Path) -> bytes:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise UnusableInput(f"The export key {str(path)!r} cannot be read: {error.strerror}.", _WAY_OUT) from error
    if not _WRITTEN.fullmatch(text):
        raise UnusableInput(f"{str(path)!r} holds no export key of {2 * _BYTES} hexadecimal digits.", _WAY_OUT)
    return bytes.fromhex(text)
