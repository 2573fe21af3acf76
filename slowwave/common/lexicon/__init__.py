"""Words that the rules read.

- `words.toml`: lists and tables, as data; `words_of` and `table_of` give one
- `statement_words`: negation, amounts, times, persons; stop words; a quick check for words of time
- `labels`: types and relations in English and Spanish
- `languages`: the language of a text, and the small words of each
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


def words_of(name: str) -> str:
    """The text of a list in `words.toml`; raises `KeyError` for an unknown name."""
    return str(_lists()[name])


def table_of(name: str) -> dict[str, str]:
    """A table in `words.toml`; raises `KeyError` for an unknown name."""
    return dict(_lists()[name])


@cache
def _lists() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
