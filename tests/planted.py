"""Secrets of every kind, each made for one place, so that one that comes to light tells where it was planted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from storage.connection import connect
from storage.tables import TABLES

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_SLACK_ID = "1234567890"


def _sign(place: str, length: int, letters: str = _LETTERS) -> str:
    """Letters and digits that only this place has."""
    stream = hashlib.shake_256(place.encode()).digest(length)
    return "".join(letters[byte % len(letters)] for byte in stream)


# What stands around a secret is put together here so that no scanner takes this file for a leak.
_SHAPES = {
    "aws_key": ("the key is AKIA{}", 16, _LETTERS[:26]),
    "aws_secret": ("aws_secret_access_key = {}", 40, _LETTERS),
    "openai": ("use sk-" + "proj-{} for it", 40, _LETTERS),
    "anthropic": ("use sk-" + "ant-api03-{} for it", 60, _LETTERS),
    "google": ("maps key AIza{}", 35, _LETTERS),
    "gitlab": ("pull with glpat-{}", 20, _LETTERS),
    "hugging_face": ("download with hf_{}", 34, _LETTERS),
    "npm": ("publish with npm_{}", 36, _LETTERS),
    "groq": ("ask gsk_{} there", 48, _LETTERS),
    "xai": ("ask xai-{} there", 60, _LETTERS),
    "sendgrid": ("mail with SG.{0}.{0}", 22, _LETTERS),
    "telegram": ("the bot is 123456789:AA{}", 33, _LETTERS),
    "vault": ("vault hvs.{}", 28, _LETTERS),
    "prefect": ("cloud pnu_{}", 36, _LETTERS),
    "github_token": ("push with ghp_{}", 36, _LETTERS),
    "github_pat": ("push with github_pat_{}", 40, _LETTERS),
    "slack": (f"bot xoxb-{_SLACK_ID}-{{}}", 24, _LETTERS),
    "stripe": ("charge with sk_" + "live_{}", 24, _LETTERS),
    "jwt": ("cookie eyJ{0}.eyJ{0}.{0}", 24, _LETTERS),
    "private_key": ("-----BEGIN RSA " + "PRIVATE KEY-----\n{0}\n{0}\n-----END RSA " + "PRIVATE KEY-----", 64, _LETTERS),
    "ssh_key": ("ssh-ed25519 AAAA{} ana@box", 48, _LETTERS),
    "bearer": ("curl -H 'Authorization: Bearer {}'", 32, _LETTERS),
    "url_password": ("postgres://app:{}@db.internal:5432/main", 18, _LETTERS),
    "no_user_url": ("redis://:{}@cache.internal/0", 18, _LETTERS),
    "signed_url": ("https://files.example.com/a.pdf?sig={}&v=1", 32, _LETTERS),
    "connection_string": ("AccountName=boats;AccountKey={}==;", 40, _LETTERS),
    "json_password": ('{{"user": "ana", "password": "{}"}}', 18, _LETTERS),
    "said_password": ("my password is {}7", 14, _LETTERS),
    "variable": ("export BOATS_DB_PASSWORD={}", 20, _LETTERS),
    "email": ("write to ana.{}@mail.example.org", 14, _LETTERS[26:52]),
}
KINDS = tuple(_SHAPES)


@dataclass
class Planted:
    """All that was hidden: the telling part of each secret, and where it was put."""

    where: dict[str, str] = field(default_factory=dict)

    def plant(self, kind: str, place: str) -> str:
        """A text that holds a secret of this kind, which no other place has."""
        shape, length, letters = _SHAPES[kind]
        sign = _sign(f"{kind} in {place}", length, letters)
        self.where[sign] = f"{kind} in {place}"
        return shape.format(sign)

    def every_kind(self, place: str) -> list[str]:
        """A text for each kind."""
        return [self.plant(kind, place) for kind in KINDS]

    def found_in(self, texts: Iterable[str | bytes]) -> set[str]:
        """What of all that comes to light in these texts."""
        read = [text if isinstance(text, str) else text.decode("latin-1") for text in texts]
        whole = pl.Series(read, dtype=pl.String)
        found = whole.str.extract_many(list(self.where), overlapping=True).explode().drop_nulls().unique()
        return {self.where[sign] for sign in found}


def rows_of(uri: Path, namespace: str = "default") -> Iterator[str]:
    """Every row of every table of a namespace at every version there is, as text."""
    db = connect(str(uri), namespace)
    for name in [*TABLES, "_head"]:
        if not any((uri / namespace / f"{name}.lance" / "data").glob("*")):
            continue  # it never had a row
        table = db.open_table(name)
        for version in sorted({each["version"] for each in table.list_versions()}):
            table.checkout(version)
            frame = _without_vectors(table)
            if not frame.is_empty():
                yield f"{frame.write_ndjson()}"


def _without_vectors(table: Any) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(table.to_arrow())).select(pl.exclude("vector"))


def bytes_of(folder: Path) -> Iterator[bytes]:
    """The bytes of every file below a folder, and their names."""
    for file in sorted(folder.rglob("*")):
        yield str(file).encode()
        if file.is_file():
            yield file.read_bytes()
