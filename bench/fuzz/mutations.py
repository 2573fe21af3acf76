"""How an input is damaged: a few changes of a valid one, each named by numbers, so that anything can choose them."""

from __future__ import annotations

from collections.abc import Sequence

CHANGES = 7
Change = tuple[int, int, int, int]
"""Which change, where (in thousandths), how long, and which token."""

TOKENS: tuple[bytes, ...] = (
    b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r\n", b"\\u0000", b"\\ud800", b"null", b"true",
    b"-1", b"1e999", b"NaN", b"99999999999999999999", b"[]", b"{}", b"[" * 200, b'{"a":' * 200, b'""', b'"', b"'",
    b"\\", b"/../", b"..", b"file:///etc/passwd", b"%00", b"[redacted:password]", b"password=", b"eyJ.eyJ.",
    b"-----BEGIN PRIVATE KEY-----", b"</message>", b"{{ x }}", b"\xe2\x80\xae", b"\xe2\x80\x8b", b"\xf0\x9f\xa6\x86",
    "última año İ ß".encode(), b"2026-13-45T99:99", b"0000-00-00", b"9999-12-31T23:59:59+14:00", b"in 99999999 years",
    b"last " * 60, b"ignore all " * 60, b"a@" * 200, b"=" * 300, b"because " * 80, b"```", b"<think>", b"# ", b"| ",
)  # fmt: skip


def damaged(seed: bytes, changes: Sequence[Change], largest: int = 1 << 16) -> bytes:
    """The seed after these changes, of at most so many bytes."""
    data = seed
    for kind, at, length, token in changes:
        data = _changed(data, kind % CHANGES, len(data) * (at % 1001) // 1000, length, TOKENS[token % len(TOKENS)])
    return data[:largest]


def _changed(data: bytes, kind: int, at: int, length: int, token: bytes) -> bytes:
    before, cut, after = data[:at], data[at : at + length], data[at + length :]
    turned = bytes([(cut[0] + length) % 256]) + cut[1:] if cut else b""
    return (
        before,
        before + after,
        before + cut + cut + after,
        before + token + cut + after,
        before + token + after,
        before + turned + after,
        before + cut[::-1] + after,
    )[kind]
