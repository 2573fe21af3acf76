"""By which names the writer of a text introduces himself."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.extraction.roster import introductions

INTRODUCED = [
    ("hi, I'm Ilse Brandt", ["Ilse Brandt"]),
    ("hello, i'm Ilse and I run a small shop in Kassel", ["Ilse"]),
    ("I’m Ilse Brandt, I sell tea.", ["Ilse Brandt"]),
    ("Im Devon, nice to meet you", ["Devon"]),
    ("My name is Ilse Brandt.", ["Ilse Brandt"]),
    ("my name is ilse brandt, and i sell tea", ["Ilse Brandt"]),
    ("Hey, my name is Will.", ["Will"]),
    ("My name is June and I teach maths.", ["June"]),
    ("My full name is Crystal Anne Wilson.", ["Crystal Anne Wilson"]),
    ("My name is Juan de la Cruz.", ["Juan de la Cruz"]),
    ("My name is Siobhan O'Neill.", ["Siobhan O'Neill"]),
    ("I'm Jean-Luc Moreau, a baker.", ["Jean-Luc Moreau"]),
    ("I'm Dr. Ilse Brandt.", ["Ilse Brandt"]),
    ("The name's Ilse.", ["Ilse"]),
    ("I go by Ilse.", ["Ilse"]),
    ("Call me Ilse.", ["Ilse"]),
    ("My name is Crystal Wilson, but everyone calls me Crys.", ["Crystal Wilson", "Crys"]),
    ("I'm Ilse Brandt. Just call me Ilse.", ["Ilse Brandt", "Ilse"]),
    ("Ilse here, quick question about the invoices.", ["Ilse"]),
    ("Hi all, this is Ilse from Kassel.", ["Ilse"]),
    ("Not sure that we have met, I'm Ilse.", ["Ilse"]),
    ("The export fails since Monday.\n\n— Ilse", ["Ilse"]),
    ("Please look at it today. — Ilse", ["Ilse"]),
    ("Could you check the invoice?\n-- Ilse Brandt", ["Ilse Brandt"]),
    ("I need the report on Friday.\n\nBest regards,\nIlse Brandt", ["Ilse Brandt"]),
    ("I need the report on Friday.\nThanks,\nIlse", ["Ilse"]),
    ("I need the report on Friday.\nKind regards, Ilse", ["Ilse"]),
    ("Hi team:\n\nthe export fails since Monday.\n\nThanks,\nIlse", ["Ilse"]),
    ("About me: I'm Ilse and I sell tea.", ["Ilse"]),
    ("Hello again, Ilse Brandt speaking.", ["Ilse Brandt"]),
    ("hola, soy Ana y vendo té", ["Ana"]),
    ("me llamo lucía, vivo en Vigo", ["Lucía"]),
    ("Mi nombre es Lucía Fernández de la Vega.", ["Lucía Fernández de la Vega"]),
    ("Puedes llamarme Luci.", ["Luci"]),
    ("Necesito el informe.\n\nUn saludo,\nLucía", ["Lucía"]),
    ("Ich heiße Ilse Brandt.", ["Ilse Brandt"]),
    ("ich heisse ilse", ["Ilse"]),
    ("Ich bin Ilse Brandt aus Kassel.", ["Ilse Brandt"]),
    ("Hallo, ich bin die Ilse.", ["Ilse"]),
    ("Nenn mich Ilse.", ["Ilse"]),
    ("Ich brauche den Bericht.\n\nViele Grüße\nIlse", ["Ilse"]),
    ("Ich brauche den Bericht.\nLG Ilse", ["Ilse"]),
]

NOBODY = [
    "",
    "I'm happy.",
    "I'm Happy",
    "I'm Working on the import.",
    "I'm Swiss, by the way.",
    "I'm Team Lead at Northwind.",
    "I'm CTO.",
    "I am ILSE",
    "I'm German and Catholic.",
    "I'm Gen Z.",
    "I'm Sorry, that was wrong.",
    "I'm Python developer.",
    "I'm Team Spaces.",
    "I'm Berlin based.",
    "I'm Ilse's sister.",
    "I'm Ilse and Tom's daughter.",
    "I'm not Ilse.",
    "My name is not Ilse.",
    "my name is in the footer of the letter",
    "What is my name?",
    "My dog's name is Rufus.",
    "Call me back.",
    "Call me Tomorrow.",
    "call me when you are done",
    "Don't call me Bob.",
    "If my name were Bob, would you care?",
    "Pretend that my name is Bob.",
    "In the game my name is Zorg.",
    "Anna said I'm Anna and left.",
    'She wrote "I\'m Anna" on the board.',
    "She opened with “My name is Anna Reis”.",
    "> Hi, I'm Bob\n\nwho is that?",
    "```\nmy name is Bob\n```",
    "Fine.\n\nOn Mon, 3 March 2026, Bob wrote:\nI'm Bob.\nBest,\nBob",
    "Here is the email I got:\n\nDear team, we close early.\n\nBest,\nJanet Flores",
    "Can you translate this:\n\nHi, I'm Derek Holt from sales.",
    "Write a letter that starts with: Hi, I'm Derek Holt.",
    "The guy goes: my name is Boris and I sell gas.",
    "This is Kestrel, our backend.",
    "It's Friday.",
    "New here, sorry.",
    "Hey there, nothing here.",
    "Hi all, Friday here.",
    "Hey there, is Ilse here?",
    "Thanks, Anna",
    "Hi Anna",
    "Who comes:\n- Anna\n- Bruno",
    '"Stay hungry."\n— Steve Jobs',
    '"Stay hungry." — Steve Jobs',
    "The talk was good.\nAnna Reis",
    "soy de Madrid",
    "Soy Ingeniera.",
    "soy española",
    "Ich bin Lehrerin.",
    "Ich bin Ingenieur bei Siemens.",
    "Hallo, ich bin Schweizer.",
    "Ich heiße nicht Bob.",
    "I'm Monday to Friday in the office.",
    "I'm Excel all day.",
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
