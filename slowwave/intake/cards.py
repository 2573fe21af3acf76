"""Numbers of payment cards, told from other long numbers by their issuer and their check digit."""

from __future__ import annotations

import re

MARK = "[redacted:card]"
CARD = (
    r"\b(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6(?:011|4[4-9][0-9]|5[0-9]{2}))(?:[ -]?[0-9]{4}){3}\b|"
    r"\b3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}\b"
)

_CARD = re.compile(CARD, re.ASCII)


def without_cards(text: str) -> str:
    """The text with a mark in place of each number of a card."""
    return _CARD.sub(lambda found: MARK if is_checked(found[0]) else found[0], text)


def is_checked(number: str) -> bool:
    """Whether the last digit is the check digit of the others (Luhn)."""
    digits = [int(sign) for sign in reversed(number) if sign.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
