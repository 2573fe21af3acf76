"""The seal of an export: keyed digests (HMAC-SHA256) of its files and of its manifest.

Whoever has no key of the store can change a file or the manifest, put files of two exports together or leave one out,
but cannot make the digests that belong to it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from slowwave.errors import UnusableInput

from .export_files import PART, ExportFiles

Standing = Literal["whole", "changed", "unknown key", "no seal"]

_DIGEST = "sha256"


@dataclass(frozen=True, slots=True)
class Seal:
    """`key_id` tells keys apart without giving one away, `files` has the digest of each file by its name.

    `manifest` is the digest of everything else that the manifest says, these two included.
    """

    key_id: str
    files: Mapping[str, str]
    manifest: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What a seal is worth to who holds some keys, and in words why."""

    standing: Standing
    reason: str


def sealed(key: bytes, files: ExportFiles, names: Sequence[str], said: Mapping[str, Any]) -> Seal:
    """The seal of these files, and of what the manifest says of them (plain data)."""
    digests = {name: _of_file(key, files, name) for name in names}
    return Seal(_key_id(key), digests, _of_manifest(key, said, digests))


def judged(
    seal: Seal | None, files: ExportFiles, names: Sequence[str], said: Mapping[str, Any], keys: Sequence[bytes]
) -> Judged:
    """Whether these files, and what the manifest says, are as they were when one of the keys sealed them.

    Raises `UnusableInput` for a file that cannot be read.
    """
    if seal is None:
        return Judged("no seal", "It has no seal.")
    key = next((each for each in keys if _is_same(_key_id(each), seal.key_id)), None)
    if key is None:
        return Judged("unknown key", "It was sealed with a key that is not known here.")
    if not _is_same(_of_manifest(key, said, seal.files), seal.manifest):
        return Judged("changed", "What its manifest says was changed after it was written.")
    wrong = [name for name in names if not _is_same(_of_file(key, files, name), seal.files.get(name, ""))]
    if wrong:
        return Judged("changed", f"Changed after it was written: {', '.join(wrong)}.")
    return Judged("whole", "It is as it was written.")


def _is_same(ours: str, given: str) -> bool:
    return hmac.compare_digest(ours.encode(), given.encode("utf-8", "replace"))


def _key_id(key: bytes) -> str:
    return hmac.digest(key, b"slowwave export key", _DIGEST).hex()[:16]


def _of_file(key: bytes, files: ExportFiles, name: str) -> str:
    """The digest of a file under its name, so that no file can stand for another."""
    digest = hmac.new(key, b"slowwave export file\0" + name.encode() + b"\0", _DIGEST)
    try:
        with files.open(name) as file:
            while chunk := file.read(PART):
                digest.update(chunk)
    except OSError as error:
        raise UnusableInput(f"{str(files.folder / name)!r} cannot be read: {error}.", "Export it again.") from error
    return digest.hexdigest()


def _of_manifest(key: bytes, said: Mapping[str, Any], files: Mapping[str, str]) -> str:
    body = json.dumps([dict(said), dict(files)], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hmac.new(key, b"slowwave export manifest\0" + body.encode(), _DIGEST).hexdigest()
