"""The files of an export, which somebody may change while they are read: what is read twice is the same, or an error.

A seal is checked in a first reading, and rows come in with a later one. Each part of a file is known by its digest from
the first reading on, so that nothing has to be copied, and little is kept of files of any size.
"""

from __future__ import annotations

import io
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

from slowwave.errors import UnusableInput

PART = 1 << 20
"""Bytes that have one digest."""


class ExportFiles:
    """The files of a folder; 32 bytes are kept for each MiB that is read of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sizes: dict[str, int] = {}
        self._digests: dict[tuple[str, int], bytes] = {}

    def open(self, name: str) -> io.BufferedReader:
        """A file, as long as it was when it was first opened.

        Raises `OSError` where it cannot be opened; reading raises `UnusableInput` where a part is not as it was.
        """
        file = (self.folder / name).open("rb")
        size = self._sizes.setdefault(name, os.fstat(file.fileno()).st_size)
        return io.BufferedReader(_SameAsBefore(file, name, size, self._digests), PART)


class _SameAsBefore(io.RawIOBase):
    def __init__(self, file: io.BufferedReader, name: str, size: int, digests: dict[tuple[str, int], bytes]) -> None:
        super().__init__()
        self._file, self._name, self._size, self._digests = file, name, size, digests
        self._place = 0
        self._number, self._part = -1, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: Any) -> int:
        number, start = divmod(self._place, PART)
        view = memoryview(buffer).cast("B")
        given = self._part_of(number)[start : start + len(view)]
        view[: len(given)] = given
        self._place += len(given)
        return len(given)

    def _part_of(self, number: int) -> bytes:
        if number != self._number:
            start = number * PART
            self._file.seek(start)
            part = self._file.read(max(0, min(PART, self._size - start)))
            digest = blake2b(part, digest_size=32).digest()
            if self._digests.setdefault((self._name, number), digest) != digest:
                raise UnusableInput(
                    f"The file {self._name} was changed while it was imported.",
                    "Nothing of it came in. Import the export again when nobody writes to its folder.",
                )
            self._number, self._part = number, part
        return self._part

    def close(self) -> None:
        self._file.close()
        super().close()
