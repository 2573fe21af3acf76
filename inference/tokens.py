"""Tokens of a text, counted by the tokenizer that slowwave ships (WordPiece, 29,525 pieces).

Models of today count English within a tenth of it. Scripts that the tokenizer does not know count two bytes a token.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING

from slowwave.settings import DEFAULT_EMBEDDER

from .embedding import STATIC_MODELS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_FOREIGN = re.compile(r"[^\x00-\u024f\s]+")
_BYTES_PER_TOKEN = 2


def count_tokens(text: str) -> int:
    """Tokens; those of several lines are the sum of those of each line."""
    foreign = "".join(_FOREIGN.findall(text))
    known = _FOREIGN.sub(" ", text) if foreign else text
    pieces = len(_tokenizer().encode(known, add_special_tokens=False).ids) if known.strip() else 0
    return pieces + text.count("\n") + math.ceil(len(foreign.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)


@cache
def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(STATIC_MODELS[DEFAULT_EMBEDDER] / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
