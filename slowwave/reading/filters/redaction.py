"""Redaction: secrets are removed before a text is embedded, stored, logged or sent (S4-20, T39)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import polars as pl

from slowwave.common import frames

# Numbers of payment cards differ from other long numbers by issuer and check digit.
MARK = "[redacted:card]"
CARD = (
    r"\b(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6(?:011|4[4-9][0-9]|5[0-9]{2}))(?:[ -]?[0-9]{4}){3}\b|"
    r"\b3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}\b"
)

_CARD = re.compile(CARD, re.ASCII)


def without_cards(text: str) -> str:
    """The text with a mark in place of each card number."""
    return _CARD.sub(lambda found: MARK if is_checked(found[0]) else found[0], text)


def is_checked(number: str) -> bool:
    """Whether the last digit is the check digit of the others (Luhn)."""
    digits = [int(sign) for sign in reversed(number) if sign.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


# Private keys over several lines, also without their beginning or their end.

KEY_MARK = "[redacted:private_key]"

# A key has some hundred lines at most; a longer text without an end is no key.
_MAX_LINES = 1000
_BOUND = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_GAP = r"(?:\\[rn]|[ \t\r\n>\"',+])*+"
_HEADERS = r"(?:[ \t>]*\r?\n[A-Z][A-Za-z-]{2,20}: [^\n]*+)*+"
# The last line may be short: it ends in =, or it is alone on its line and no word.
_LAST = r"(?:[A-Za-z0-9+/]{0,64}=|(?=[A-Za-z+/]*[0-9+/])[A-Za-z0-9+/]{1,15}(?=[ \t\"',\\]*(?:\r?\n|\Z)))"
_AFTER_BEGIN = re.compile(rf"{_HEADERS}(?:{_GAP}[A-Za-z0-9+/=]{{16,}}+)*+(?:{_GAP}{_LAST})?")
# Read backwards from the end mark, where an escaped line end is `n\`; the last line may be short.
_ECAG = r"(?:n?\\(?:r\\)?|[ \t\r\n>\"',+\\])*+"
_BEFORE_END = re.compile(rf"(?:{_ECAG}[A-Za-z0-9+/=]{{0,15}}?){{0,2}}?(?:{_ECAG}[A-Za-z0-9+/=]{{16,}}+)++")
_KEY_LINE = re.compile(r"[ \t>\"']*+[A-Za-z0-9+/=]{1,200}[\"',+ \t\r\n\\]*+\Z")


def without_keys(text: str) -> str:
    """The text with a mark in place of each key; of a key without beginning or end, in place of its lines."""
    bounds = list(_BOUND.finditer(text))
    ends = _next_ends(bounds)
    parts, done = [], 0
    for bound, end in zip(bounds, ends, strict=True):
        if bound.start() < done:
            continue
        start = bound.start()
        if bound[1] == "END":
            before = _BEFORE_END.match(text[done:start][::-1])
            start, stop = start - (before.end() if before else 0), bound.end()
        else:
            after = _AFTER_BEGIN.match(text, bound.end())
            stop = end.end() if end else after.end() if after else bound.end()
        parts += [text[done:start], KEY_MARK]
        done = stop
    return "".join([*parts, text[done:]])


def _next_ends(bounds: list[re.Match[str]]) -> list[re.Match[str] | None]:
    """For each mark the first end mark at or after it."""
    ends: list[re.Match[str] | None] = []
    end: re.Match[str] | None = None
    for bound in reversed(bounds):
        end = bound if bound[1] == "END" else end
        ends.append(end)
    return ends[::-1]


def joined_keys(lines: Iterable[str]) -> Iterator[str]:
    """The lines, with each key as one line, also without its beginning or end; buffers up to a thousand lines."""
    pending: list[str] = []
    is_open = False
    for line in lines:
        bounds = _BOUND.findall(line) if "PRIVATE KEY" in line else []
        last = bounds[-1] if bounds else ""
        if is_open or last:
            pending.append(line)
            if last == "END" or len(pending) > _MAX_LINES:
                yield "".join(pending)
                pending, is_open = [], False
            is_open = is_open or last == "BEGIN"
        elif _KEY_LINE.match(line) and len(pending) < _MAX_LINES:
            pending.append(line)
        else:
            yield from pending
            pending = []
            yield line
    yield from ["".join(pending)] if is_open else pending


# A value that is not itself a redaction mark. This makes redaction idempotent without look-ahead, which the
# linear-time engine of polars does not have.
_BARE = r"(?:[^\s\[\"'`]|\[[^r\s])[^\s\"'`,;]*"
_BARE_SET = _BARE.replace("`]|", "`>]|", 1)  # the second sign of "=>" is no value
_QUOTED = "|".join(
    rf"{quote}(?:[^{quote}\\\n\[]|\\.|\[[^r{quote}\n])(?:[^{quote}\\\n]|\\.)*{quote}" for quote in "\"'`"
)
_VALUE = rf"(?:{_QUOTED}|[\"'`]?{_BARE})"
_VALUE_SET = rf"(?:{_QUOTED}|[\"'`]?{_BARE_SET})"
# As a field of JSON, also of JSON within a text of JSON.
_FIELD_VALUE = rf"(?:\\\"(?:[^\"\\\n\[]|\[[^r\"\\\n])[^\"\\\n]*\\\"|{_QUOTED})"
_WHERE = r"(?:[ \t]+(?:for|of|in|to|on|at|für|von|zum|para|de|del)(?:[ \t]+[\w'’-]+){1,4}?)?"
"""The place of a password: "the password for the wedding page is"."""
# The words that name a secret, once: each pattern below that looks for words has them from here.
_ASCII_PASS = r"pass(?:word|wd|phrase|code)|pwd"
_PASS = rf"(?:{_ASCII_PASS}|passwort|kennwort|mot de passe|contraseña)"
_SECRET = r"secret|token|api[_-]?key|access[_-]?key|credentials?"
_NAMED_SECRET = rf"{_ASCII_PASS}|{_SECRET}"
_PASSWORD_HINTS = "pass|pwd|contrase|kennwort"
_SET = r"[\"'`]?[ \t]*(?:=>|:?=(?:[ \t]+>)?)[ \t]*"
_KEYWORD_HINTS = f"{_PASSWORD_HINTS}|secret|token|key|credential"


class Redacted(NamedTuple):
    """A text without its secrets, and the kinds of secret that were in it."""

    text: str
    kinds: tuple[str, ...]


class _Pattern(NamedTuple):
    """One kind of secret: hints (one must be in the text; none for a rare form), pattern, and replacement."""

    kind: str
    hints: tuple[str, ...]
    regex: str
    replacement: str


def _whole(kind: str, hints: str, regex: str) -> _Pattern:
    """A form without hints is looked for in every text, so it must be rare and cheap to find."""
    return _Pattern(kind, tuple(filter(None, hints.split("|"))), regex, f"[redacted:{kind}]")


def _value(kind: str, hints: str, before: str, value: str, after: str = "") -> _Pattern:
    """A pattern that replaces only the value; the words `before` and `after` it stay readable."""
    return _Pattern(kind, tuple(hints.split("|")), f"({before}){value}({after})", f"${{1}}[redacted:{kind}]${{2}}")


def _field(words: str) -> str:
    """The name of a JSON field that ends in one of the words, up to its value."""
    return rf"(?i-u:\\?[\"'][a-z0-9_.-]*(?:{words})[_-]?(?:key|value|id|hash)?[0-9]*\\?[\"'][ \t]*(?::|=>)[ \t]*)"


# Classes are in ASCII and repetitions without an upper bound: a Unicode class with up to forty repetitions is slow to
# compile.
_PATTERNS: tuple[_Pattern, ...] = (
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
        "xox|xapp-|hooks.slack",
        r"\bxapp-[0-9]-[A-Za-z0-9-]{10,}|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|https://hooks\.slack\.com/services/[A-Za-z0-9/_-]{20,}",
    ),
    _whole("stripe_key", "k_live|k_test|whsec_", r"\b(?:[srp]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,}"),
    _whole(
        "ssh_key",
        "ssh-|ecdsa-",
        r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp[0-9]+|sk-ssh-ed25519@openssh\.com) AAAA[A-Za-z0-9+/=]{20,}",
    ),
    # Services whose keys have a prefix of their own.
    _whole(
        "api_key",
        "gsk_|xai-|pplx-|tvly-|lsv2_|r8_|dop_v1_|doo_v1_|dckr_|shpat_|shpss_|shpca_|shppa_|ntn_|lin_api_|figd_|sntry|"
        "hvs.|hvb.|pypi-|sbp_|pnu_|pnb_|glsa_|glc_|pscale_|gocspx-|nrak-|hrku-|atatt3|atctt3|dapi|nvapi-|sq0|"
        "ya29.|sg.|age-secret-key-",
        r"\b(?:gsk_|xai-|pplx-|tvly-|lsv2_(?:pt|sk)_|r8_|do[op]_v1_|dckr_[po]at_|shp(?:at|ss|ca|pa)_|ntn_|lin_api_|"
        r"figd_|sntry[su]_|hv[sb]\.|pypi-|sbp_|pn[ub]_|glsa_|glc_|pscale_(?:tkn|pw|oauth)_|GOCSPX-|NRAK-|HRKU-|"
        r"AT[AC]TT3|dapi|nvapi-|sq0(?:atp|csp)-|ya29\.)[A-Za-z0-9_=-]{20,}|"
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|\bAGE-SECRET-KEY-1[0-9A-Z]{40,}",
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
        "bearer",
        "authorization",
        r"(?i-u:\bauthorization[\"'`]?[ \t]*[:=][ \t]*[\"'`]?(?:basic|bearer|token|api-?key|key|digest|hmac)[ \t]+)",
        r"[A-Za-z0-9_~+/=.-]{8,}",
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
        "api_key",
        "key=",
        r"(?i-u:(?:account|access|shared|storage|master|private|secret|api)[_-]?key=)",
        r"[A-Za-z0-9_/+.~-][A-Za-z0-9_/+=.~-]{7,}",
    ),
    _value(
        "keyword",
        "=",
        rf"(?i-u:[?&#;](?:[a-z0-9_.-]*(?:{_NAMED_SECRET})|sig|signature|auth|key)=)",
        r"[^\s\[&#\"'`<>][^\s&#\"'`<>]{3,}",
    ),
    _value("keyword", _KEYWORD_HINTS, _field(_NAMED_SECRET), _FIELD_VALUE),
    _value(
        "password",
        _PASSWORD_HINTS,
        rf"(?i-u:{_ASCII_PASS}){_SET}",
        _VALUE_SET,
    ),
    _value(
        "password",
        _PASSWORD_HINTS,
        rf"(?i:\b{_PASS}{_WHERE}(?:[ \t]*:|[ \t]+(?:is|was|ist|es|est|lautet)[ \t]*:?)[ \t]*[\"'`]?)",
        r"(?:[^\s\[\"'`0-9]|\[[^r0-9\s])*[0-9][^\s\"'`,;]*",
    ),
    # Plain words are a password if they are joined in an unusual way, or quoted.
    _value(
        "password",
        _PASSWORD_HINTS,
        rf"(?i:\b{_PASS}{_WHERE}(?:[ \t]*:|[ \t]+(?:is|was|ist|es|est|lautet)[ \t]*:?)[ \t]*)",
        r"(?:[A-Za-z]{3,}(?:[_-][A-Za-z]{3,}){2,}|[A-Za-z]+[@#$%^&!+=][^\s\"'`,;]*[A-Za-z0-9]|"
        r"\"[A-Za-z]{8,}\"|'[A-Za-z]{8,}'|`[A-Za-z]{4,}`)",
    ),
    _value(
        "password",
        "pin",
        r"(?i-u:\bpin(?:[ \t]+(?:code|number|nummer))?(?:[ \t]*:|[ \t]+(?:is|was|ist|es))[ \t]*)",
        r"[0-9]{4,12}\b",
    ),
    _value(
        "keyword",
        _KEYWORD_HINTS,
        rf"\b(?:[A-Z0-9]+_)*(?:PASS|{_NAMED_SECRET.upper()}|(?:PRIVATE|SECRET)_KEY)(?:_(?:KEY|ID|VALUE|[0-9]+))?=",
        _VALUE,
    ),
    # key=value lines: a keyword, and one unbroken value up to the end of the line
    _value(
        "keyword",
        _KEYWORD_HINTS,
        rf"(?im:^[ \t>*-]*(?:(?:export|set)[ \t]+)?[\"'`]?[a-z0-9_.-]*(?:{_PASS}|{_SECRET})"
        r"[a-z0-9_-]*[\"'`]?[ \t]*[=:][ \t]*)",
        _VALUE,
        r"(?m:[\"'`,;]*[ \t]*$)",
    ),
    _whole("email", "@", r"\b[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9](?:[A-Za-z0-9-]*\.)+[A-Za-z]{2,24}\b"),
    _whole("discord_token", "", r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    _whole("api_key", "", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),  # of a Telegram bot
)
# A text is looked at closely if it has a hint or a form of the table, or one of keys and cards, which functions read.
_HINTS = sorted({hint for pattern in _PATTERNS for hint in pattern.hints} | {"private key"})
_FORMS = "|".join([*(pattern.regex for pattern in _PATTERNS if not pattern.hints), rf"(?-u:{CARD})"])
_LINES = 2000
_FEW = 500  # texts of which each is looked up among those that were read before


_harmless: dict[str, None] = {}
"""The last short texts without a secret: on the way of one statement, its text comes here five times."""


def redact_all(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The texts without secrets, and the kinds found in each (list of strings, alphabetical); nulls stay null."""
    clean = texts.cast(pl.String)
    none = pl.Series("kinds", [[]], dtype=pl.List(pl.String)).new_from_index(0, len(clean))
    few = clean.to_list() if len(clean) <= _FEW else []
    unknown = [text for text in few if text and text not in _harmless]
    if few and _are_harmless(unknown):
        return clean, none
    rows = _suspects(clean).arg_true()
    if rows.is_empty():
        return clean, none
    changed, kinds = _redact_suspects(clean.gather(rows))
    frame = pl.DataFrame({"row": rows, "text": changed, "kinds": kinds})
    whole = pl.DataFrame({"text": clean, "kinds": none}).with_row_index("row")
    whole = whole.update(frame, on="row")
    return whole["text"].rename(clean.name), whole["kinds"]


def _suspects(texts: pl.Series) -> pl.Series:
    return frames.contain_any(texts, _HINTS) | texts.str.contains(_FORMS)


def _are_harmless(texts: Sequence[str]) -> bool:
    """Whether there is no secret in any of these texts, which is remembered."""
    series = pl.Series(texts, dtype=pl.String)
    suspects = series.filter(_suspects(series)) if len(series) else series
    if len(suspects) and (_redact_suspects(suspects)[1].list.len() > 0).any():
        return False
    if len(_harmless) > _LINES:
        _harmless.clear()
    _harmless.update((text, None) for text in texts if len(text) <= _LINES)
    return True


def _redact_suspects(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """(texts, kinds): every pattern over the texts with its hints; the kinds are those that changed the text."""
    found: dict[str, pl.Series] = {}
    for kind, change in _CHANGES:
        after = change(texts)
        if after is texts:
            continue
        hit = after != texts
        found[kind] = found[kind] | hit if kind in found else hit
        texts = after
    if not found:
        return texts, pl.Series("kinds", [[]] * len(texts), dtype=pl.List(pl.String))
    frame = pl.DataFrame(found)
    named = [pl.when(pl.col(kind)).then(pl.lit(kind)) for kind in sorted(found)]
    return texts, frame.select(kinds=pl.concat_list(named).list.drop_nulls())["kinds"]


def _replaced(pattern: _Pattern, texts: pl.Series) -> pl.Series:
    if pattern.hints and not frames.contain_any(texts, pattern.hints).any():
        return texts
    return texts.str.replace_all(pattern.regex, pattern.replacement)


def _rewritten(looks: str, rewrite: Callable[[str], str], texts: pl.Series) -> pl.Series:
    """The texts; those that match `looks` are rewritten one by one."""
    rows = texts.str.contains(looks).arg_true()
    if rows.is_empty():
        return texts
    return texts.clone().scatter(rows, [rewrite(text) for text in texts.gather(rows)])


# The most specific kinds come first, so that a mark names the kind of secret.
_CHANGES: tuple[tuple[str, Callable[[pl.Series], pl.Series]], ...] = (
    ("private_key", partial(_rewritten, "PRIVATE KEY", without_keys)),
    *((pattern.kind, partial(_replaced, pattern)) for pattern in _PATTERNS),
    ("card", partial(_rewritten, rf"(?-u:{CARD})", without_cards)),
)


def redact_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a document without secrets: a key over several lines is one mark; buffers some thousand lines."""
    whole = joined_keys(lines)
    while batch := list(islice(whole, _LINES)):
        yield from redact_all(pl.Series(_whole_texts(batch), dtype=pl.String))[0]


def _whole_texts(texts: Iterable[str]) -> list[str]:
    """The texts without lone surrogates, which UTF-8 cannot encode."""
    return [text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8") for text in texts]


def redact(text: str) -> Redacted:
    """One text without its secrets; redacting it again changes nothing."""
    texts, kinds = redact_all(pl.Series(_whole_texts([text]), dtype=pl.String))
    return Redacted(texts[0], tuple(kinds[0]))


def redact_values(value: Any) -> Any:
    """Plain data without secrets in any of its texts and keys; other values stay unchanged."""
    texts: list[str] = []
    _gather(value, texts)
    if not texts:
        return value
    clean, kinds = redact_all(pl.Series(_whole_texts(texts), dtype=pl.String))
    if not (kinds.list.len() > 0).any():
        return value
    return _replaced_texts(value, dict(zip(texts, clean, strict=True)))


def _gather(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            _gather(key, texts)
            _gather(each, texts)
    elif isinstance(value, list | tuple):
        for each in value:
            _gather(each, texts)


def _replaced_texts(value: Any, clean: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return clean[value]
    if isinstance(value, Mapping):
        return {_replaced_texts(key, clean): _replaced_texts(each, clean) for key, each in value.items()}
    return [_replaced_texts(each, clean) for each in value] if isinstance(value, list | tuple) else value


def has_secret(text: str) -> bool:
    """Whether redaction would change the text."""
    return bool(redact(text).kinds)
