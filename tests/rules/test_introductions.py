"""By which names the writer of a text introduces himself."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.reading.extraction.roster import introductions

INTRODUCED = [
    ("hi, I'm Ilse Brandt", ["Ilse Brandt"]),
    ("I’m Ilse Brandt, I sell tea.", ["Ilse Brandt"]),
    ("my name is ilse brandt, and i sell tea", ["Ilse Brandt"]),
    ("My name is June and I teach maths.", ["June"]),
    ("My full name is Crystal Anne Wilson.", ["Crystal Anne Wilson"]),
    ("My name is Juan de la Cruz.", ["Juan de la Cruz"]),
    ("I'm Jean-Luc Moreau, a baker.", ["Jean-Luc Moreau"]),
    ("I'm Dr. Ilse Brandt.", ["Ilse Brandt"]),
    ("The name's Ilse.", ["Ilse"]),
    ("Call me Ilse.", ["Ilse"]),
    ("My name is Crystal Wilson, but everyone calls me Crys.", ["Crystal Wilson", "Crys"]),
    ("hola, soy Ana y vendo té", ["Ana"]),
    ("me llamo lucía, vivo en Vigo", ["Lucía"]),
    ("Puedes llamarme Luci.", ["Luci"]),
    ("ich heisse ilse", ["Ilse"]),
    ("Nenn mich Ilse.", ["Ilse"]),
]

NOBODY = [
    "",
    "I'm happy.",
    "I'm Team Lead at Northwind.",
    "I am ILSE",
    "I'm Gen Z.",
    "I'm Python developer.",
    "I'm Ilse's sister.",
    "I'm Ilse and Tom's daughter.",
    "My name is not Ilse.",
    "my name is in the footer of the letter",
    "My dog's name is Rufus.",
    "Call me Tomorrow.",
    "Don't call me Bob.",
    "In the game my name is Zorg.",
    "Anna said I'm Anna and left.",
    'She wrote "I\'m Anna" on the board.',
    "> Hi, I'm Bob\n\nwho is that?",
    "```\nmy name is Bob\n```",
    "Fine.\n\nOn Mon, 3 March 2026, Bob wrote:\nI'm Bob.\nBest,\nBob",
    "Here is the email I got:\n\nDear team, we close early.\n\nBest,\nJanet Flores",
    "Write a letter that starts with: Hi, I'm Derek Holt.",
    "The guy goes: my name is Boris and I sell gas.",
    "This is Kestrel, our backend.",
    "Soy Ingeniera.",
    "Ich bin Ingenieur bei Siemens.",
    "Ich heiße nicht Bob.",
]


@pytest.mark.parametrize(("text", "names"), INTRODUCED, ids=[text[:40] for text, _ in INTRODUCED])
def test_a_writer_who_says_his_name_has_it(text: str, names: list[str]) -> None:
    assert introductions(text) == names


@pytest.mark.parametrize("text", NOBODY, ids=[text[:40] for text in NOBODY])
def test_other_words_are_no_name(text: str) -> None:
    assert introductions(text) == []


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    assert all(name.strip() for name in introductions(text))


@pytest.mark.parametrize("piece", ["I'm Ilse ", "A" * 50 + " ", "— ", "A.", "my name is a ", '"', "call me A'b "])
def test_a_long_text_costs_little(piece: str) -> None:
    begun = time.process_time()
    introductions(piece * 20_000)
    assert time.process_time() - begun < 2
