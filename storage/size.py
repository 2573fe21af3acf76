"""How much room a namespace takes where it is stored, older versions and indexes included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .object_storage import files

if TYPE_CHECKING:
    from .store import Store


def stored_bytes(store: Store) -> int:
    """Bytes of all files of the namespace."""
    return sum(files(f"{store.uri.rstrip('/')}/{store.namespace}", store.db.storage_options).values())
