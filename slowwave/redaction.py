"""Secrets are taken out of a text before anything embeds, stores, logs or sends it (S4-20, T39)."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

# A value that is not itself a redaction mark: this is what makes redaction idempotent without look-ahead,
# which the linear-time engine of polars does not have.
_BARE = r"(?:[^\s\[\"'`]|\[[^r\s])[^\s\"'`,;]*"
_QUOTED = "|".join(rf"{quote}(?:[^{quote}\n\[]|\[[^r{quote}\n])[^{quote}\n]*{quote}" for quote in "\"'`")
_VALUE = rf"(?:{_QUOTED}|{_BARE})"
_KEYWORD = (
    r"(?:pass(?:word|wd|phrase|code)|passwort|contraseña|pwd|secret|token|api[_-]?key|access[_-]?key|credentials?)"
)


class Redacted(NamedTuple):
    """A text without its secrets, and the kinds of secret that were in it."""

    text: str
    kinds: tuple[str, ...]


class _Pattern(NamedTuple):
    """One kind of secret: texts that may hold it have one of the hints; what it looks like; what takes its place."""

    kind: str
    hints: tuple[str, ...]
    regex: str
    replacement: str


def _whole(kind: str, hints: str, regex: str) -> _Pattern:
    return _Pattern(kind, tuple(hints.split("|")), regex, f"[redacted:{kind}]")


def _value(kind: str, hints: str, before: str, value: str, after: str = "") -> _Pattern:
    """Only the value goes: what names it (`before`) and what follows it (`after`) stay readable."""
    return _Pattern(kind, tuple(hints.split("|")), f"({before}){value}({after})", f"${{1}}[redacted:{kind}]${{2}}")


# The most telling kinds come first, so that a mark names what the secret was. Classes are written out in ASCII and
# repetitions left open: a Unicode class repeated up to forty times takes longer to compile than a book takes to read.
_PATTERNS: tuple[_Pattern, ...] = (
    _whole(
        "private_key",
        "private key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?s:.*?)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|"
        r"(?:[ \t\r\n\\]*n?[A-Za-z0-9+/=]{16,})*(?:[ \t\r\n\\]+n?[A-Za-z0-9+/]*=)?)",
    ),
    _whole("jwt", "eyj", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"),
    _whole(
        "aws_key",
        "akia|asia|agpa|aida|aroa|anpa|anva|aipa",
        r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA|AIPA)[0-9A-Z]{16}\b",
    ),
    _value(
        "aws_secret",
        "aws",
        r"(?i-u:aws[a-z0-9_ .-]*(?:secret|private)[a-z0-9_ .-]*[\"'`]?[ \t]*(?:[:=]|is)[ \t]*[\"'`]?)",
        r"[A-Za-z0-9/+]{40}\b=?",
    ),
    _whole("github_token", "ghp_|gho_|ghu_|ghs_|ghr_", r"\bgh[pousr]_[A-Za-z0-9]{30,}"),
    _whole("github_pat", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,}"),
    _whole(
        "slack_token",
        "xox|hooks.slack",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|https://hooks\.slack\.com/services/[A-Za-z0-9/_-]{20,}",
    ),
    _whole("stripe_key", "k_live|k_test|whsec_", r"\b(?:[srp]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,}"),
    _whole(
        "ssh_key",
        "ssh-|ecdsa-",
        r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp[0-9]+|sk-ssh-ed25519@openssh\.com) AAAA[A-Za-z0-9+/=]{20,}",
    ),
    _whole(
        "api_key",
        "sk-|aiza|glpat-|hf_|npm_",
        r"\bsk-[A-Za-z0-9_-]{20,}|\bAIza[0-9A-Za-z_-]{35}|\bglpat-[A-Za-z0-9_-]{16,}|\bhf_[A-Za-z0-9]{30,}|"
        r"\bnpm_[A-Za-z0-9]{30,}",
    ),
    _value(
        "bearer", "bearer|basic", r"(?i-u:\b(?:bearer|authorization:[ \t]*basic)[ \t]+)", r"[A-Za-z0-9_~+/=.-]{16,}"
    ),
    _value(
        "connection_string",
        "://",
        r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@\"'`<>\[]*:",
        r"(?:[^\s\[/\"'`<>]|\[[^r/\s])[^\s/\"'`<>]*",
        "@",
    ),
    _value(
        "api_key",
        "key|token|secret",
        r"(?i-u:(?:api|access|secret|auth)[_ -]?key|token|secret)[\"'`]?[ \t]*(?:[:=]|=>|\bis\b)[ \t]*[\"'`]?",
        r"[A-Za-z0-9_/+=.~-]{20,}",
    ),
    _value(
        "password",
        "password|passwd|pwd|passphrase",
        r"(?i-u:password|passwd|pwd|passphrase)[\"'`]?[ \t]*(?:=|:=|=>)[ \t]*",
        _VALUE,
    ),
    _value(
        "password",
        "password|passwort|passcode|contrase",
        r"(?i:\b(?:password|passwort|passcode|contraseña)(?:[ \t]*:|[ \t]+(?:is|was|ist|es|lautet)[ \t]*:?)"
        r"[ \t]*[\"'`]?)",
        r"(?:[^\s\[\"'`0-9]|\[[^r0-9\s])*[0-9][^\s\"'`,;]*",
    ),
    _value(
        "password",
        "pin",
        r"(?i-u:\bpin(?:[ \t]+(?:code|number|nummer))?(?:[ \t]*:|[ \t]+(?:is|was|ist|es))[ \t]*)",
        r"[0-9]{4,12}\b",
    ),
    # key=value lines: a keyword, and one unbroken value up to the end of the line
    _value(
        "keyword",
        "pass|contrase|pwd|secret|token|key|credential",
        rf"(?im:^[ \t>*-]*(?:(?:export|set)[ \t]+)?[\"'`]?[a-z0-9_.-]*{_KEYWORD}[a-z0-9_-]*[\"'`]?[ \t]*[=:][ \t]*)",
        _VALUE,
        r"(?m:[\"'`,;]*[ \t]*$)",
    ),
    _whole("email", "@", r"\b[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9](?:[A-Za-z0-9-]*\.)+[A-Za-z]{2,24}\b"),
)
_HINTS = sorted({hint for pattern in _PATTERNS for hint in pattern.hints})


def redact_all(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The texts without secrets, and the kinds found in each (list of strings, alphabetical); nulls stay null."""
    clean = texts.cast(pl.String)
    none = pl.Series("kinds", [[]], dtype=pl.List(pl.String)).new_from_index(0, len(clean))
    rows = clean.str.contains_any(_HINTS, ascii_case_insensitive=True).fill_null(False).arg_true()
    if rows.is_empty():
        return clean, none
    changed, kinds = _redact_suspects(clean.gather(rows))
    frame = pl.DataFrame({"row": rows, "text": changed, "kinds": kinds})
    whole = pl.DataFrame({"text": clean, "kinds": none}).with_row_index("row")
    whole = whole.update(frame, on="row")
    return whole["text"].rename(clean.name), whole["kinds"]


def _redact_suspects(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Every pattern over the texts that hint at it; a row keeps the kinds whose pattern changed it."""
    found: dict[str, pl.Series] = {}
    for pattern in _PATTERNS:
        hinting = texts.str.contains_any(list(pattern.hints), ascii_case_insensitive=True)
        if not hinting.any():
            continue
        after = texts.str.replace_all(pattern.regex, pattern.replacement)
        hit = after != texts
        found[pattern.kind] = found[pattern.kind] | hit if pattern.kind in found else hit
        texts = after
    frame = pl.DataFrame(found)
    named = [pl.when(pl.col(kind)).then(pl.lit(kind)) for kind in sorted(found)]
    return texts, frame.select(kinds=pl.concat_list(named).list.drop_nulls())["kinds"]


def redact(text: str) -> Redacted:
    """One text without its secrets; redacting it again changes nothing."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    texts, kinds = redact_all(pl.Series([whole], dtype=pl.String))
    return Redacted(texts[0], tuple(kinds[0]))


def has_secret(text: str) -> bool:
    """Whether redaction would change the text."""
    return bool(redact(text).kinds)
