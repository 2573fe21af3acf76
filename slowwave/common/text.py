"""Words, sentences, names and identifiers: what every other rule means by them."""

from __future__ import annotations

import html
import json
import re
import string
import unicodedata
from datetime import datetime
from itertools import pairwise
from typing import Any

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SPACE = re.compile(r"\s+")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_THINK = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_SENTENCE_END = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[¿¡]?[A-Z0-9À-ÞΑ-ΩА-Я¿¡])|\n+|(?<=[。！？])(?![。！？”’」』）\s])"
)
UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
"""Characters of scripts without spaces between words."""
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
SYLLABIC = re.compile("[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")
"""Characters that are a syllable or a word each."""
SCRIPTS_OF_SIGNS = (
    "\u3005\u3400-\u9fff\uf900-\ufaff", "\u3041-\u309f", "\u30a1-\u30ff", "\uac00-\ud7af",
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff",
)  # fmt: skip
_RUN = re.compile("|".join(f"[{script}]+" for script in SCRIPTS_OF_SIGNS))
"""Characters of one script that words of it may consist of: Han, the two kana, Hangul, and Thai with its neighbours."""
_HAN = re.compile("[\u3005\u3400-\u9fff\uf900-\ufaff]")
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\.g|i\.e|approx|No|Inc|Ltd|Co"
    r"|(?-i:Hr|Fr|Nr|[Bb]zw|[Cc]a|[Ee]vtl|[Zz]\.B|[Dd]\.h|[Uu]\.a|Mme|Mlle|Sra|Srta|Dra|Ud|Uds|Av|Avda|[Nn]úm|[Pp]ág))"
    r"|\b[A-Z])\.$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.,:])\d{1,2}\.$")
_GERMAN_MONTH = re.compile(
    r"(?:Jan(?:uar|\.)|Jänner|Feb(?:ruar|\.)|März|April|Mai|Juni|Juli|August|September|Okt(?:ober|\.)|November|Dez(?:ember|\.))(?!\w)"
)
_SIGNS = re.compile(r"[\\`*_{}\[\]()#+!|~^$-]")
FORGOTTEN = "[forgotten]"
"""The text in the place of a forgotten one."""
MAX_NAME_BYTES = 512


def readable(text: str) -> str:
    """The text without lone surrogates, NUL and control characters, bidi and zero-width marks; line ends kept."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return _INVISIBLE.sub("", _CONTROL.sub("", whole.replace("\r\n", "\n").replace("\r", "\n")))


def in_markdown(text: str) -> str:
    """The text on one line, none of whose signs are Markdown or HTML."""
    return _SIGNS.sub(r"\\\g<0>", html.escape(one_line(text), quote=False))


def one_line(text: str) -> str:
    """The text on one line, single-spaced, without what cannot be seen."""
    return " ".join(readable(text).split())


def cut_bytes(text: str, limit: int) -> str:
    """The longest prefix of at most `limit` UTF-8 bytes that ends at a character."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def normalise_name(name: str) -> str:
    """Lower-cased name as entities are compared by it: NFKC, visible, single-spaced, at most 512 bytes (S2-03)."""
    visible = readable(unicodedata.normalize("NFKC", name))
    return cut_bytes(_SPACE.sub(" ", visible).strip().lower(), MAX_NAME_BYTES)


def normalise_statement(statement: str) -> str:
    """A statement as repetitions are recognised by it: NFKC, lower case, single spaces, no outer punctuation."""
    folded = unicodedata.normalize("NFKC", readable(statement)).replace("’", "'").lower()
    return _SPACE.sub(" ", folded).strip(" \t\n" + string.punctuation)


def statement_hash(statement: str) -> str:
    """The hash of the normalised statement, to find repetitions (§6.2 S1)."""
    return digest(normalise_statement(statement))


def plain_letters(text: str) -> str:
    """The text with Latin letters without accents and ligatures: "Müller" becomes "Muller", "Straße" "Strasse"."""
    if text.isascii():
        return text
    from anyascii import anyascii  # its table is read by the first accented letter, not by `import slowwave`

    return _ACCENTED.sub(lambda found: anyascii(found[0]), text)


def segmented(text: str) -> str:
    """The text with each pair of neighbouring characters as a word where a script does not show words by spaces.

    "북경대" becomes "북경 경대": a search finds parts of words without a dictionary, as Lucene's CJK analysis does. Han
    characters also stand alone, because each is a word by itself. Kana, Han and Hangul are cut apart from each other.
    """
    return text if text.isascii() else _RUN.sub(_pairs, text)


def signs_of(text: str) -> str:
    """The parts of a text that `segmented` takes apart, with spaces between them."""
    return "" if text.isascii() else " ".join(_RUN.findall(text))


def _pairs(run: re.Match[str]) -> str:
    characters = run[0]
    pairs = [one + next_ for one, next_ in pairwise(characters)]
    singles = characters if not pairs or _HAN.match(characters) else ""
    return f" {' '.join([*singles, *pairs])} "


def word_set(words: str) -> frozenset[str]:
    """The words of a literal, for tables that read better as prose than as a list."""
    return frozenset(words.split())


def strip_thinking(text: str) -> str:
    """The text without `<think>` blocks; an unclosed one runs to the end (S4-19)."""
    return _THINK.sub("", text)


def strip_code(text: str) -> str:
    """The text without fenced code; an unclosed fence runs to the end (S4-13)."""
    return _FENCE.sub(" ", text)


def cut_long(text: str, limit: int) -> str:
    """At most `limit` characters, cut at the last line end if that is past half, else hard (S4-19)."""
    if len(text) <= limit:
        return text
    line_end = text.rfind("\n", 0, limit)
    return text[:line_end] if line_end > limit // 2 else text[:limit]


def sentences(text: str) -> list[str]:
    """The sentences of a text in order, without splitting after common abbreviations."""
    parts: list[str] = []
    for piece in _SENTENCE_END.split(text):
        piece = _SPACE.sub(" ", piece or "").strip()
        if not piece:
            continue
        if parts and (_ABBREVIATION.search(parts[-1]) or (_NUMBER.search(parts[-1]) and _GERMAN_MONTH.match(piece))):
            parts[-1] = f"{parts[-1]} {piece}"
        else:
            parts.append(piece)
    return parts


def digest(*parts: object, size: int = 12) -> str:
    """Hexadecimal blake2b of the parts, `size` bytes long; stable across processes and versions."""
    import hashlib  # `slowwave --help` names no row, and loading OpenSSL for it takes its time

    body = json.dumps(parts, ensure_ascii=True, default=str, separators=(",", ":"))
    return hashlib.blake2b(body.encode(), digest_size=size).hexdigest()


def row_id(prefix: str, *parts: object) -> str:
    """A deterministic identifier: the same parts always give the same row."""
    return f"{prefix}_{digest(*parts)}"


def short_id(id: str) -> str:
    """The letters of an id by which `slowwave why` finds its row."""
    return id.rpartition("_")[2][:8]


def timed_id(prefix: str, at: datetime, *parts: object) -> str:
    """A deterministic identifier that sorts by time."""
    return f"{prefix}_{max(int(at.timestamp() * 1000), 0):011x}_{digest(*parts, size=8)}"


def as_json(value: Any) -> str:
    """Compact JSON with sorted keys, so that equal values are equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str, separators=(",", ":"))


def prose(text: str) -> str:
    """The compared part of a text or a query: without fenced code, unless there is nothing else."""
    return strip_code(text).strip() or text
