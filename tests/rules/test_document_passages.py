"""How documents are cut: by headings and paragraphs, never losing a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.common.text import strip_code
from slowwave.reading.ingestion.documents import count_tokens, document_head, passages, split_text

SENTENCE = "The board at harbour {0} shows boat {0} at nine."


def cut(document: str, *, is_markdown: bool = True, tokens: int = 100, overlap: int = 20) -> list[str]:
    return list(passages(document.splitlines(keepends=True), is_markdown=is_markdown, tokens=tokens, overlap=overlap))


def sentences(count: int) -> list[str]:
    return [SENTENCE.format(number) for number in range(count)]


def unshared(found: Sequence[str]) -> str:
    """The passages in one, each without what it repeats of the one before."""
    whole = found[0]
    for passage in found[1:]:
        shared = next(size for size in range(len(passage), -1, -1) if whole.endswith(passage[:size].strip()))
        whole += " " + passage[shared:]
    return whole


@pytest.mark.parametrize("document", ["", "\n\n \n", "---\ntitle: Boats\n---\n", "# Boats\n## Ferries\n"])
def test_a_document_without_text_has_no_passages(document: str) -> None:
    assert cut(document) == []


def test_a_heading_starts_a_passage_that_says_where_it_stands() -> None:
    document = "# Boats\nAll of them.\n## Ferries ##\nAt nine.\n### Prices\nFree.\n\nHarbours\n--------\nTwo."
    assert cut(document) == [
        "Boats\n\nAll of them.",
        "Boats > Ferries\n\nAt nine.",
        "Boats > Ferries > Prices\n\nFree.",
        "Boats > Harbours\n\nTwo.",
    ]


def test_a_hash_in_code_and_in_plain_text_is_no_heading() -> None:
    assert cut("# not a heading\ntext", is_markdown=False) == ["# not a heading\ntext"]
    assert cut("# Boats\n```sh\n# a comment\n```\nDone.") == ["Boats\n\n```sh\n# a comment\n```\n\nDone."]


def test_long_text_is_cut_between_sentences_with_whole_sentences_shared() -> None:
    found = cut(" ".join(sentences(40)))
    assert len(found) > 4
    for before, after in pairwise(found):
        shared = re.match(r".*? at nine\.", after)
        assert shared is not None
        assert before.endswith(shared[0])
        assert count_tokens(before) > 60
    assert unshared(found).split() == " ".join(sentences(40)).split()


def test_code_that_is_cut_stays_within_fences_so_that_all_of_it_can_be_left_out() -> None:
    code = "\n".join(f"run step_{number} --with-option" for number in range(200))
    found = cut(f"# Boats\nBefore.\n~~~python\n{code}\n~~~\nAfter.")
    assert len(found) > 5
    assert " ".join(" ".join(strip_code(passage) for passage in found).split()) == " ".join(
        ["Boats Before."] + ["Boats"] * (len(found) - 2) + ["Boats After."]
    )


def test_front_matter_gives_title_and_date_and_is_no_text() -> None:
    document = '---\ntitle: "Boats of Faro"\ndate: 2026-03-02\ntags: [a]\n---\n# Boats\nNine.\n'
    assert document_head(document, is_markdown=True, fallback="x") == ("Boats of Faro", "2026-03-02")
    assert cut(document) == ["Boats\n\nNine."]


WORDS = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="`~#=-"), min_size=1, max_size=12)
PARAGRAPHS = st.lists(st.lists(WORDS, min_size=1, max_size=60).map(" ".join), max_size=12)


@given(PARAGRAPHS, st.integers(50, 200), st.integers(0, 80))
def test_every_word_is_in_a_passage_and_no_passage_is_too_long(said: list[str], tokens: int, overlap: int) -> None:
    document = "\n\n".join(said)
    found = cut(document, is_markdown=False, tokens=tokens, overlap=overlap)
    assert all(count_tokens(passage) <= tokens for passage in found)
    kept = {word for passage in found for word in passage.split()}
    assert set(document.split()) <= kept


@given(st.text(st.sampled_from("a #=-`~\n\t.>é"), max_size=400), st.booleans())
def test_no_text_breaks_the_cutting(document: str, is_markdown: bool) -> None:
    assert all(passage.strip() for passage in cut(document, is_markdown=is_markdown, tokens=50))


@given(st.text(max_size=500), st.integers(1, 60))
def test_pieces_hold_every_character_but_blanks(text: str, room: int) -> None:
    assert "".join("".join(split_text(text, room)).split()) == "".join(text.split())
