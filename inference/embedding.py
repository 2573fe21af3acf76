"""Embedding models: texts in, unit vectors out; and the tokens of a text.

The default model ships with the package and needs neither a key nor a download; others come by name through LanceDB's
embedding registry.

Models of today count English within a tenth of it. Scripts that the tokenizer does not know count two bytes a token.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slowwave.common.errors import MissingDependency, MissingKey, SlowwaveError, Terminal, Transient, UnknownName
from slowwave.common.settings import DEFAULT_EMBEDDER

from .secrets import without_secrets

if TYPE_CHECKING:
    from tokenizers import Tokenizer
import math
import re

Vectors = NDArray[np.float32]
Tokenize = Callable[[Sequence[str]], list[list[int]]]

STATIC_MODELS = {DEFAULT_EMBEDDER: Path(__file__).resolve().parent / "models" / "minilm-static-256"}
STATIC_DIMS = 256
STATIC = "model2vec/"
STATIC_CHARACTERS = 50_000
BATCH_CHARACTERS = 1 << 17
REMOTE_CHARACTERS = 20_000
REMOTE_TEXTS = 128
TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
DEFAULT_NEEDS_NEITHER = f"The default embedder {DEFAULT_EMBEDDER!r} needs neither package nor key."


class Embedder(Protocol):
    """Texts → vectors; `name` is the model id that every stored vector carries."""

    @property
    def name(self) -> str:
        """Model id, `provider/model`."""

    @property
    def dims(self) -> int:
        """Length of a vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """(n, d) float32, one row per text, in order; no texts → (0, d).

        A row has length 1, or is zero where a text holds nothing the model knows (blank, only unknown characters).
        Store a zero row as NULL, which vector search skips: under `dot` a zero would outrank every negative match.
        """


def open_embedder(name: str | None = None) -> Embedder:
    """The embedder of that name (None: the default); UnknownName tells the providers there are."""
    name = DEFAULT_EMBEDDER if name is None else name
    if name in STATIC_MODELS:
        return StaticEmbedder(name)
    if name.startswith(STATIC) and len(name) > len(STATIC):  # of model2vec
        return StaticEmbedder(name, _static_model(name)[1].shape[1])
    return RegistryEmbedder(name)


@dataclass(frozen=True)
class StaticEmbedder:
    """A static model: the mean of one stored vector per token, over a text's first 50,000 characters.

    The shipped one, or one of model2vec's own: `model2vec/FOLDER`, or `model2vec/OWNER/MODEL` of the Hugging Face hub.
    """

    name: str = DEFAULT_EMBEDDER
    dims: int = STATIC_DIMS

    def embed(self, texts: Sequence[str]) -> Vectors:
        """(n, d) float32, unit rows; zero rows for texts without a known token."""
        tokenize, table = _shipped(self.name) if self.name in STATIC_MODELS else _static_model(self.name)
        batches = _batches([_clean(text, STATIC_CHARACTERS) for text in texts])
        rows = [_sum_by_text(tokenize(batch), table) for batch in batches]
        return _unit(np.concatenate([np.zeros((0, self.dims), np.float32), *rows]))


@cache
def tokenizer_of(name: str = DEFAULT_EMBEDDER) -> Tokenizer:
    """The tokenizer of a shipped model, which neither cuts nor pads; loaded once per process."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_file_of(name, "tokenizer.json")))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@cache
def _shipped(name: str) -> tuple[Tokenize, Vectors]:
    """What tokenizes, and the (tokens, d) table in float32, of a shipped model; model2vec would take .3 s to import."""
    from safetensors.numpy import load_file

    file = _file_of(name, "model.safetensors")
    try:
        parts = load_file(file)
        table: Vectors = parts["embeddings"].astype(np.float32) * parts["weights"].astype(np.float32)[:, None]
    except Exception as error:
        raise Terminal(f"The embedding model {name!r} cannot be loaded from {file}.", "Reinstall slowwave.") from error
    return partial(_token_ids, tokenizer_of(name)), table


def _file_of(name: str, file: str) -> Path:
    path = STATIC_MODELS[name] / file
    if not path.is_file():
        raise Terminal(f"The embedding model {name!r} is not in {path.parent}.", "Reinstall slowwave, which ships it.")
    return path


def _token_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Known tokens of each text."""
    unknown = getattr(tokenizer.model, "unk_token", None)
    gone = None if unknown is None else tokenizer.token_to_id(unknown)
    encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [[token for token in each.ids if token != gone] for each in encoded]


@cache
def _static_model(name: str) -> tuple[Tokenize, Vectors]:
    """The same of a model of model2vec; loaded once per process."""
    from model2vec import StaticModel

    try:
        model = StaticModel.from_pretrained(name.removeprefix(STATIC))
    except Exception as error:
        message = f"The embedding model {name!r} cannot be loaded: {type(error).__name__}: {str(error).rstrip('.')}."
        raise Terminal(message, "Name a folder, or a model of the Hugging Face hub that can be reached.") from error
    model.tokenizer.no_truncation()
    table = model.embedding.astype(np.float32)
    if model.weights is not None:
        table *= model.weights.astype(np.float32)[:, None]
    return model.tokenize, table


def _batches(texts: list[str]) -> Iterator[list[str]]:
    """Runs of about BATCH_CHARACTERS, so that memory does not grow with the number or the length of texts."""
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    starts = [0, *(np.flatnonzero(np.diff(ends // BATCH_CHARACTERS)) + 1).tolist(), len(texts)]
    return (texts[start:end] for start, end in pairwise(starts) if end > start)


def _sum_by_text(token_ids: list[list[int]], table: Vectors) -> Vectors:
    """(n, d): the sum of each text's token vectors, which has the direction of their mean."""
    sums = np.zeros((len(token_ids), table.shape[1]), np.float32)
    for row, ids in zip(sums, token_ids, strict=True):
        if ids:
            np.add.reduce(table.take(ids, axis=0), axis=0, out=row)
    return sums


def _clean(text: str, characters: int) -> str:
    """The first `characters` of a text, without what no tokenizer or provider takes: lone surrogates and NUL."""
    return text[:characters].encode("utf-8", errors="replace").decode("utf-8").replace("\0", " ")


def _unit(rows: Vectors) -> Vectors:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    units: Vectors = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return units


@dataclass(frozen=True)
class Provider:
    """A provider of LanceDB's registry: its alias there, what it needs, what it is given."""

    alias: str
    extra: str = ""
    package: str = ""
    key: str = ""
    host_from: str = ""
    options: tuple[tuple[str, Any], ...] = ()


PROVIDERS = {
    "sentence-transformers": Provider(
        alias="sentence-transformers",
        extra="sentence-transformers",
        package="sentence_transformers",
        # LanceDB's default lets a model run code from its repository.
        options=(("trust_remote_code", False),),
    ),
    "openai": Provider(alias="openai", extra="openai", package="openai", key="OPENAI_API_KEY"),
    "voyage": Provider(alias="voyageai", extra="voyage", package="voyageai", key="VOYAGE_API_KEY"),
    "ollama": Provider(alias="ollama", extra="ollama", package="ollama", host_from="OLLAMA_HOST"),
}


class RegistryEmbedder:
    """A model of LanceDB's embedding registry, named `provider/model`; own functions registered there work too.

    Reads the first 20,000 characters of a text. Raises MissingDependency, MissingKey, Transient or Terminal.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._provider, self._function = _create_function(name)

    @cached_property
    def dims(self) -> int:
        """Length of a vector: what the provider states, else what one short text shows."""
        try:
            return int(self._function.ndims())
        except (ValueError, NotImplementedError):
            return int(self._rows(["dimension"]).shape[1])
        except Exception as error:
            raise _mapped(error, self.name, self._provider) from error

    def embed(self, texts: Sequence[str]) -> Vectors:
        """(n, d) float32, unit rows; zero rows for blank texts, which are never sent."""
        cleaned = [_clean(text, REMOTE_CHARACTERS) for text in texts]
        kept = [place for place, text in enumerate(cleaned) if text.strip()]
        sent = (kept[start : start + REMOTE_TEXTS] for start in range(0, len(kept), REMOTE_TEXTS))
        rows = [self._rows([cleaned[place] for place in places]) for places in sent]
        vectors = np.zeros((len(cleaned), rows[0].shape[1] if rows else self.dims), np.float32)
        if rows:
            vectors[kept] = _unit(np.concatenate(rows))
        return vectors

    def _rows(self, texts: list[str]) -> Vectors:
        try:
            found = [row for row in self._function.compute_source_embeddings(texts) if row is not None]
        except Exception as error:
            raise _mapped(error, self.name, self._provider) from error
        if len(found) != len(texts):
            raise Terminal(
                f"{self.name!r} returned {len(found)} vectors for {len(texts)} texts.", "Its log says which it refused."
            )
        return np.asarray(found, np.float32)


def _create_function(name: str) -> tuple[Provider, Any]:
    """The provider's record and LanceDB's embedding function for `provider/model`, or an error that says what lacks."""
    if name.startswith("slowwave/"):
        raise UnknownName("embedding model", name, STATIC_MODELS)
    from lancedb.embeddings import get_registry

    title, _, model = name.partition("/")
    provider = PROVIDERS.get(title, Provider(title))
    try:
        kind: Any = get_registry().get(provider.alias)
    except KeyError:
        known = [DEFAULT_EMBEDDER, f"{STATIC}…", *(f"{other}/…" for other in PROVIDERS)]
        raise UnknownName("embedding provider", title, known) from None
    if not model.strip():
        raise UnknownName("embedding model", name, [f"{title}/<model>", DEFAULT_EMBEDDER])
    if provider.package and find_spec(provider.package) is None:
        raise _missing_package(name, provider)
    if provider.key and not os.environ.get(provider.key):
        raise _missing_key(name, provider, "is not set")
    host = os.environ.get(provider.host_from, "") if provider.host_from else ""
    options = {"name": model, **dict(provider.options), **({"host": host} if host else {})}
    try:
        return provider, kind.create(**options)
    except Exception as error:
        raise _mapped(error, name, provider) from error


def _missing_package(name: str, provider: Provider) -> MissingDependency:
    return MissingDependency(
        f"Embedding with {name!r} needs the package {provider.package!r}.",
        f"Install it with `pip install 'slowwave[{provider.extra}]'`. {DEFAULT_NEEDS_NEITHER}",
    )


def _missing_key(name: str, provider: Provider, why: str) -> MissingKey:
    return MissingKey(
        f"Embedding with {name!r} needs a key, and {provider.key or 'its key'} {why}.",
        f"Set {provider.key or 'it'} to a valid key. {DEFAULT_NEEDS_NEITHER}",
    )


def _mapped(error: Exception, name: str, provider: Provider) -> SlowwaveError:
    """Any provider's exception as ours, by its HTTP status where it has one, else by the name of its type."""
    status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
    kind = type(error).__name__
    message = f"Embedding with {name!r} failed: {kind}: {without_secrets(str(error)).rstrip('.')}."
    if isinstance(error, ImportError):
        return (
            _missing_package(name, provider) if provider.package else MissingDependency(message, DEFAULT_NEEDS_NEITHER)
        )
    if status in (401, 403) or "Authentication" in kind:
        return _missing_key(name, provider, "was refused")
    if status in TRANSIENT_STATUS or any(word in kind for word in ("Connect", "Timeout", "RateLimit", "Unavailable")):
        return Transient(message, "Try again later, and check that the provider can be reached.")
    return Terminal(message, DEFAULT_NEEDS_NEITHER)


_FOREIGN = re.compile(r"[^\x00-\u024f\s]+")
_LONG = re.compile(r"\S{60,}")  # of which the tokenizer would make one unknown piece
_BYTES_PER_TOKEN, _CHARACTERS_PER_TOKEN = 2, 3


def count_tokens(text: str) -> int:
    """Tokens; those of several lines are the sum of those of each line."""
    foreign = "".join(_FOREIGN.findall(text))
    known = _FOREIGN.sub(" ", text) if foreign else text
    long = [len(word) for word in _LONG.findall(known)]
    known = _LONG.sub(" ", known) if long else known
    pieces = len(tokenizer_of().encode(known, add_special_tokens=False).ids) if known.strip() else 0
    pieces += sum(math.ceil(length / _CHARACTERS_PER_TOKEN) for length in long)
    return pieces + text.count("\n") + math.ceil(len(foreign.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)
