"""Six coding sessions of two projects: does a block have the answer, and of what has changed the newest state?

`coding/sessions/*.jsonl` are invented talks of a developer and an assistant, weeks apart; `coding/questions.jsonl` are
forty questions, asked after the last of them. Words of a question (`words`, `newest_words`; `older_words` are several
such lists, one for each older state) say how the answer is recognised in whatever words a reader kept: all of a list
have to stand in one line of the block, and `|` parts the forms that one of them may have. Where a message is quoted
whole, its words are not asked for. What nothing answers (`absent`) is in no figure; it is there for people and models
who read the blocks, which `--out DIR` writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slowwave import open_memory

from .figures import Figure, Options
from .ingest import ingest_files
from .languages import PlainWords
from .metrics import mean

FOLDER = Path(__file__).parent / "coding"
NOW = datetime(2026, 7, 20, tzinfo=UTC)
BATCH = 40


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its kind, its answer, the messages that tell it, and the words by which one knows it."""

    id: str
    project: str
    question: str
    answer: str
    kind: str
    evidence: Sequence[str]
    words: Sequence[str] = ()
    newest: str = ""
    older: Sequence[str] = ()
    newest_words: Sequence[str] = ()
    older_words: Sequence[Sequence[str]] = ()

    def is_answered_by(self, block: str, texts: Mapping[str, str]) -> bool:
        """Whether the answer stands in a block: of what has changed, the newest state."""
        if self.kind == "changed":
            return says(block, self.newest_words)
        return says(block, self.words) or any(plain(texts[each]) in plain(block) for each in self.evidence)

    def is_outdated_by(self, block: str) -> bool:
        """Whether an older state stands in a block that has not the newest."""
        return any(says(block, words) for words in self.older_words) and not says(block, self.newest_words)


def sessions() -> list[Path]:
    """The files of the sessions."""
    return sorted((FOLDER / "sessions").glob("*.jsonl"))


def rows_of(path: Path) -> list[dict[str, Any]]:
    """What the lines of a file hold."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def says(block: str, words: Sequence[str]) -> bool:
    """Whether one line of a block has all of these words."""
    return bool(words) and any(all(_has(line, word) for word in words) for line in block.splitlines())


def _has(line: str, forms: str) -> bool:
    """Short forms and numbers stand as a whole word; of longer ones the beginning of a word is enough."""
    ends = {form: r"(?!\w|[.:,]\d)" if len(form) < 4 or form[-1].isdigit() else "" for form in forms.split("|")}
    pattern = "|".join(rf"(?<![\w#])(?<!\d[.:,]){re.escape(form)}{end}" for form, end in ends.items())
    return bool(re.search(pattern, line, re.IGNORECASE))


def plain(text: str) -> str:
    """The words alone, as a block may set quotes and brackets of its own."""
    return " ".join(["", *re.findall(r"[^\W_]+", text.lower()), ""])


def write_out(folder: Path, asked: Sequence[Question], blocks: Sequence[str]) -> None:
    """The blocks as people and models read them, and beside them the answers by which they are judged."""
    place = folder / "context"
    place.mkdir(parents=True, exist_ok=True)
    told = [{"kind": each.kind, "question": each.question, "gold": each.answer} for each in asked]
    gold = [{"number": i, **each} for i, each in enumerate(told)]
    (folder / "gold.json").write_text(json.dumps(gold, indent=1, ensure_ascii=False), encoding="utf-8")
    parts = [
        f"## Question {i}\n{each.question}\n### Memory gave\n{block}\n"
        for i, (each, block) in enumerate(zip(asked, blocks, strict=True))
    ]
    for at in range(0, len(parts), BATCH):
        (place / f"batch_{at // BATCH}.md").write_text("\n".join(parts[at : at + BATCH]), encoding="utf-8")


def run(options: Options) -> Iterable[Figure]:
    """Answers in the block, whole and by kind, and the state of what has changed, beside words alone."""
    store, asked = options.store, [Question(**row) for row in rows_of(FOLDER / "questions.jsonl")]
    said = [row for path in sessions() for row in rows_of(path)]
    if not store:
        store = str(options.place / "store")
        ingest_files([str(path) for path in sessions()], store, now=NOW)
    with open_memory(store) as memory:
        blocks = [memory.context_for(each.question, options.chars // 4, now=NOW) for each in asked]
    if options.out:
        write_out(options.out, asked, blocks)
    words, texts = PlainWords(said), {row["message_id"]: row["content"] for row in said}
    ways = {"memory": blocks, "words": [words.block(each.question, options.chars)[0] for each in asked]}
    for way, given in ways.items():
        pairs = [(each, block) for each, block in zip(asked, given, strict=True) if each.kind != "absent"]
        size = f"{len(pairs)} questions, {mean(map(len, given)):.0f} characters each"
        yield Figure("coding", f"{way}: answer in the block", _share(pairs, texts), note=size)
        for kind in sorted({each.kind for each, _ in pairs} - {"changed"}):
            some = [pair for pair in pairs if pair[0].kind == kind]
            yield Figure("coding", f"{way}: {kind}", _share(some, texts), note=f"{len(some)} questions")
        some = [pair for pair in pairs if pair[0].kind == "changed"]
        yield Figure("coding", f"{way}: changed, the newest state", _share(some, texts), note=f"{len(some)} questions")
        outdated = mean(each.is_outdated_by(block) for each, block in some)
        yield Figure("coding", f"{way}: changed, only an older state", outdated, better="lower")


def _share(pairs: Sequence[tuple[Question, str]], texts: Mapping[str, str]) -> float:
    return mean(each.is_answered_by(block, texts) for each, block in pairs)
