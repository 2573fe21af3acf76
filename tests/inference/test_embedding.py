"""The embedding seat: the shipped model and the road through LanceDB's registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lancedb.embeddings import TextEmbeddingFunction, get_registry

from inference.embedding import (
    STATIC_MODELS,
    Embedder,
    RegistryEmbedder,
    StaticEmbedder,
    open_embedder,
)
from slowwave.common.errors import MissingDependency, MissingKey, SlowwaveError, Terminal, Transient, UnknownName
from slowwave.common.settings import DEFAULT_EMBEDDER

SENTENCES = [
    "Nina moved to Oslo in March and works at Acme.",
    "The deployment failed because the certificate had expired.",
    "I prefer tabs over spaces.",
    "Ella se mudó a Madrid el año pasado.",
]


def test_the_default_embedder_names_its_model_and_its_dimensions() -> None:
    embedder: Embedder = open_embedder()
    assert embedder.name == DEFAULT_EMBEDDER == "slowwave/minilm-static-256"
    assert embedder.dims == 256
    assert open_embedder(DEFAULT_EMBEDDER) == embedder


@given(st.lists(st.text(st.characters(codec=None), max_size=60), max_size=6))
def test_any_texts_at_all_give_rows_of_length_one_or_zero_and_a_batch_equals_one_by_one(texts: list[str]) -> None:
    vectors = open_embedder().embed(texts)
    norms = np.linalg.norm(vectors, axis=1)
    assert np.all((np.abs(norms - 1) < 1e-5) | (norms == 0))
    for row, text in zip(vectors, texts, strict=True):
        assert np.array_equal(row, open_embedder().embed([text])[0])


def test_the_vectors_are_those_of_the_library_that_the_model_is_made_for() -> None:
    from model2vec import StaticModel

    expected = StaticModel.from_pretrained(STATIC_MODELS[DEFAULT_EMBEDDER]).encode(SENTENCES)
    np.testing.assert_allclose(open_embedder().embed(SENTENCES), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["nosuch/model", "bert"])
def test_an_unknown_provider_is_named_together_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownName) as caught:
        open_embedder(name)
    for known in (name.split("/")[0], "sentence-transformers/", "openai/", "voyage/", "ollama/", DEFAULT_EMBEDDER):
        assert known in str(caught.value)


def test_a_missing_key_names_the_variable_and_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingKey, match=r"OPENAI_API_KEY.*slowwave/minilm-static-256.*neither package nor key"):
        open_embedder("openai/text-embedding-3-small")


def test_a_missing_package_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.embedding.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"slowwave\[voyage\].*neither package nor key"):
        open_embedder("voyage/voyage-3.5")


class LetterCounts(TextEmbeddingFunction):
    """A real function of LanceDB's registry: counts letters, so that every expected vector is known."""

    name: str = ""
    fault: ClassVar[Exception | None] = None
    sent: ClassVar[list[list[str]]] = []
    answer_short: ClassVar[bool] = False

    def ndims(self) -> int:
        if self.name == "dimensions-untold":
            raise ValueError("unknown model")
        return 26

    def generate_embeddings(self, texts: Sequence[str], *args: Any, **kwargs: Any) -> list[Any]:
        self.sent.append(list(texts))
        if self.fault is not None:
            raise self.fault
        rows: list[Any] = [
            [float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts
        ]
        return [None, *rows[1:]] if self.answer_short else rows


@pytest.fixture
def provider() -> Iterator[str]:
    """The alias under which LetterCounts is registered for one test."""
    alias = f"letters-{uuid4().hex}"
    get_registry().register(alias)(LetterCounts)
    LetterCounts.fault, LetterCounts.answer_short = None, False
    LetterCounts.sent.clear()
    yield alias
    get_registry()._functions.pop(alias)


@pytest.mark.parametrize("model", ["counts", "dimensions-untold", "org/with/slashes"])
def test_a_registered_function_gives_unit_rows_under_its_own_name(provider: str, model: str) -> None:
    embedder = open_embedder(f"{provider}/{model}")
    assert isinstance(embedder, RegistryEmbedder)
    assert (embedder.name, embedder.dims) == (f"{provider}/{model}", 26)
    vectors = embedder.embed(["abba", "bbaa", "zzz"])
    assert (vectors.shape, vectors.dtype) == ((3, 26), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(vectors @ vectors[0], [1.0, 1.0, 0.0], atol=1e-6)
    assert embedder.embed([]).shape == (0, 26)


def test_blank_texts_are_never_sent_and_unsendable_characters_are_replaced(provider: str) -> None:
    vectors = open_embedder(f"{provider}/counts").embed(["", "a\0b", "  ", "c\ud800"])
    assert LetterCounts.sent == [["a b", "c?"]]
    assert vectors.any(axis=1).tolist() == [False, True, False, True]


class RateLimitError(Exception):
    """Named as providers name theirs."""


class HttpError(Exception):
    """Carries a status as providers' errors do."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code
        super().__init__(f"status {status_code}")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (RateLimitError("slow down"), Transient),
        (ConnectionError("refused"), Transient),
        (TimeoutError("no answer"), Transient),
        (HttpError(529), Transient),
        (HttpError(401), MissingKey),
        (HttpError(400), Terminal),
        (OSError("no such model"), Terminal),
        (ImportError("Please install letters"), MissingDependency),
    ],
    ids=lambda case: str(case) if isinstance(case, Exception) else case.__name__,
)
def test_a_providers_failure_is_typed_by_whether_trying_again_helps(
    provider: str, fault: Exception, expected: type[SlowwaveError]
) -> None:
    LetterCounts.fault = fault
    with pytest.raises(expected, match=provider) as caught:
        open_embedder(f"{provider}/counts").embed(["text"])
    assert caught.value.__cause__ is fault


def test_a_provider_that_drops_a_text_is_an_error_with_both_numbers(provider: str) -> None:
    LetterCounts.answer_short = True
    with pytest.raises(Terminal, match="returned 1 vectors for 2 texts"):
        open_embedder(f"{provider}/counts").embed(["one", "two"])


def test_a_model_that_is_not_installed_says_how_to_get_it_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setitem(STATIC_MODELS, "slowwave/lost", tmp_path)
    with pytest.raises(Terminal, match=r"slowwave/lost.*Reinstall slowwave"):
        StaticEmbedder("slowwave/lost").embed(["text"])
