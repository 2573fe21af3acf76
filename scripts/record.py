"""Record what a model answers about the bundled conversations, so that the whole pipeline runs on real answers.

Without a key it plays what is recorded and names the prompts that have no answer: a prompt that was changed needs a new
one. With ANTHROPIC_API_KEY set it asks the model and writes `examples/recorded/answers.jsonl` anew. The same request is
answered from the recording, so only what changed is paid for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from apps.demo import RECORDED, RECORDED_AT, learn
from slowwave.common.settings import LanguageSettings
from slowwave.common.text import as_json
from storage.store import Store

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


DEFAULT_MODEL = "anthropic/claude-haiku-4-5"
PROMPTS = ("prompt_name", "prompt_hash", "response")


def main() -> int:
    """Exit code 0 when every prompt has an answer, 1 when some lack one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="provider/model to ask")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one call")
    chosen = parser.parse_args()
    missing = _missing()
    if not missing:
        print(f"Every prompt has its answer in {RECORDED.name}: nothing to record.")
        return 0
    print(f"Without an answer: {', '.join(missing)}")
    if not os.environ.get("ANTHROPIC_API_KEY"):
        print("Set ANTHROPIC_API_KEY to ask the model; what follows from these prompts is not known yet.")
        return 1
    settings = LanguageSettings(model=chosen.model, timeout_s=chosen.timeout, concurrency=16)
    rows = _answers(settings)
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text("".join(f"{as_json(row)}\n" for row in rows), encoding="utf-8")
    left = _missing()
    print(f"{len(rows)} answers in {RECORDED}." + (f" Still without: {', '.join(left)}" if left else ""))
    return 1 if left else 0


def _missing() -> list[str]:
    """The prompts that the recording does not answer, each as its name and hash; of a missing file all."""
    if not RECORDED.exists():
        return ["all of them"]
    with TemporaryDirectory() as folder:
        summary = asyncio.run(learn(f"{folder}/memory", LanguageSettings(model=f"replay/{RECORDED}"), RECORDED_AT))
    marker = "has no answer to this prompt ("
    return sorted({error.split(marker)[1].split(")")[0] for error in summary["errors"] if marker in error})


def _answers(model: LanguageSettings) -> list[dict[str, Any]]:
    """What the model answered to each prompt of the demo, sorted."""
    with TemporaryDirectory() as folder:
        uri = f"{folder}/memory"
        asyncio.run(learn(uri, model, RECORDED_AT))
        calls = Store.open(uri).log("llm_calls", "response != ''", list(PROMPTS))
    unique = calls.unique(["prompt_name", "prompt_hash"], keep="last").sort("prompt_name", "prompt_hash")
    return [{**row, "response": json.loads(row["response"])} for row in unique.iter_rows(named=True)]


if __name__ == "__main__":
    raise SystemExit(main())
