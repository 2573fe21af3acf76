"""`python -m bench.languages`: the steps from a model's reading to the accuracy of answers.

  read    STORE MODEL [LANGUAGE…]   ingest with a model, each language in a namespace of its own
  record  STORE                     keep the answers of that model in answers.jsonl
  prepare STORE OUT                 what memory and a text search give for every question: OUT/VARIANT/LANGUAGE.md
  judge   OUT                       questions, right answers and the answers given: OUT/judge/VARIANT-LANGUAGE.md
  score   OUT                       accuracy, from OUT/VARIANT/LANGUAGE.judged.json

Whoever answers reads OUT/VARIANT/LANGUAGE.md alone and writes OUT/VARIANT/LANGUAGE.answers.json, an object of
question ids and answers. Whoever judges writes OUT/VARIANT/LANGUAGE.judged.json, an object of question ids and 1 or 0.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from recall.context import MOST_FACTS
from slowwave.common.text import as_json
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store

from ..metrics import mean
from . import ANSWERS, LANGUAGES, NOW, PlainWords, block_of, characters_of, messages_of, questions_of, read

VARIANTS = ("memory", "words")


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser("python -m bench.languages", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("step", choices=("read", "record", "prepare", "judge", "score"))
    parser.add_argument("values", nargs="+", metavar="VALUE")
    parser.add_argument("--share", type=float, default=1.0, help="of the characters of a block")
    chosen = parser.parse_args()
    if chosen.step == "read":
        store, model, *languages = chosen.values
        _read(store, model, languages or LANGUAGES)
    elif chosen.step == "record":
        _record(chosen.values[0])
    elif chosen.step == "prepare":
        _prepare(chosen.values[0], Path(chosen.values[1]), chosen.share)
    elif chosen.step == "judge":
        _judge(Path(chosen.values[0]))
    else:
        _score(Path(chosen.values[0]))


def _read(store: str, model: str, languages: Sequence[str]) -> None:
    """All languages at once: whoever answers may take minutes for each prompt."""

    def one(language: str) -> tuple[str, dict[str, Any]]:
        return language, read(language, store, model, timeout_s=3600.0, concurrency=48, transient_retries=5)

    with ThreadPoolExecutor(len(languages)) as pool:
        for language, summary in pool.map(one, languages):
            print(language, summary["state"], summary["counts"], summary["errors"], flush=True)


def _record(store: str) -> None:
    columns = ["prompt_name", "prompt_hash", "response"]
    rows = {}
    for language in LANGUAGES:
        for row in Store.open(store, language).log("llm_calls", "response != ''", columns).iter_rows(named=True):
            rows[row["prompt_name"], row["prompt_hash"]] = {**row, "response": json.loads(row["response"])}
    ANSWERS.write_text("".join(f"{as_json(rows[key])}\n" for key in sorted(rows)), encoding="utf-8")
    print(f"{len(rows)} answers in {ANSWERS}")


def _prepare(store: str, out: Path, share: float) -> None:
    gold = {}
    for language in LANGUAGES:
        plain, size = PlainWords(messages_of(language)), int(characters_of(language) * share)
        parts: dict[str, list[str]] = defaultdict(list)
        sizes: dict[str, list[int]] = defaultdict(list)
        with OpenMemory.open(store, language) as memory:
            for each in questions_of(language):
                given = {
                    "memory": block_of(memory.recall(each.question, MOST_FACTS, now=NOW), size).text,
                    "words": plain.block(each.question, size)[0],
                }
                for variant in VARIANTS:
                    parts[variant].append(f"## {each.id}\n{each.question}\n### Given\n{given[variant]}\n")
                    sizes[variant].append(len(given[variant]))
                gold[each.id] = {"question": each.question, "kind": each.kind, "answer": each.answer}
        for variant in VARIANTS:
            _write(out / variant / f"{language}.md", "\n".join(parts[variant]))
            print(f"{language} {variant}: {mean(sizes[variant]):.0f} characters for each of {len(sizes[variant])}")
    _write(out / "gold.json", json.dumps(gold, ensure_ascii=False, indent=1))


def _judge(out: Path) -> None:
    gold = json.loads((out / "gold.json").read_text(encoding="utf-8"))
    for variant in VARIANTS:
        for language in LANGUAGES:
            file = out / variant / f"{language}.answers.json"
            if not file.exists():
                print(f"{file} is not there")
                continue
            answers = json.loads(file.read_text(encoding="utf-8"))
            lines = [
                f"## {each.id}\nquestion: {each.question}\nright: {gold[each.id]['answer'] or 'nothing tells: unknown'}"
                f"\ngiven: {answers.get(each.id, 'no answer')}\n"
                for each in questions_of(language)
            ]
            _write(out / "judge" / f"{variant}-{language}.md", "\n".join(lines))


def _score(out: Path) -> None:
    """Accuracy by variant and language, asked in it and in English, then by kind of question."""
    rows: dict[tuple[str, str], list[float]] = defaultdict(list)
    for variant in VARIANTS:
        for language in LANGUAGES:
            file = out / variant / f"{language}.judged.json"
            if not file.exists():
                continue
            marks = json.loads(file.read_text(encoding="utf-8"))
            for each in questions_of(language):
                mark = float(marks.get(each.id, 0))
                asked = "in English" if each.language == "en" else "in it"
                for group in (f"{language}, asked {asked}", f"all, asked {asked}", f"all, {each.kind}", "all"):
                    rows[group, variant].append(mark)
    print("| questions | " + " | ".join(VARIANTS) + " |\n|---|" + "---|" * len(VARIANTS))
    for group in dict.fromkeys(group for group, _ in rows):
        cells = [f"{mean(marks):.3f} ({len(marks)})" if (marks := rows[group, v]) else "" for v in VARIANTS]
        print(f"| {group} | {' | '.join(cells)} |")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
