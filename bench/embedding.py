"""Texts per second of the shipped embedder, beside the transformer that it was distilled from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec

from inference.embedding import open_embedder

from . import synthetic
from .figures import Figure, Options, measured

SEED = 5
TEACHER = "all-MiniLM-L6-v2"
TEACHER_SHARE = 100  # the transformer reads one text in so many


def run(options: Options) -> Iterable[Figure]:
    """The same synthetic turns through both, loading not counted."""
    texts = [row["content"] for row in synthetic.messages(2_000 if options.is_quick else 20_000, SEED)]
    ours = _rate(open_embedder().embed, texts)
    yield Figure("embedding", "slowwave/minilm-static-256", ours, "texts/s", note=f"{len(texts)} texts")
    if find_spec("sentence_transformers") is None:
        print("sentence-transformers is not installed: its rate is not measured")
        return
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(TEACHER)
    except OSError as error:
        print(f"{TEACHER} cannot be loaded, so its rate is not measured: {error}")
        return
    some = texts[: max(64, len(texts) // TEACHER_SHARE)]
    rate = _rate(model.encode, some)
    yield Figure("embedding", f"sentence-transformers/{TEACHER}", rate, "texts/s", note=f"{len(some)} texts")


def _rate(embed: Callable[[Sequence[str]], object], texts: Sequence[str]) -> float:
    embed(texts[:32])
    with measured() as cost:
        embed(texts)
    return len(texts) / cost.wall_s
