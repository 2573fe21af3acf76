"""The evaluation data beside the checkout: conversations as messages, questions with their evidence, pairs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .figures import Absent

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
ADVERSARIAL = 5

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the messages that hold its answer."""

    text: str
    evidence: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A later statement that contradicts or updates an earlier one; both by message."""

    earlier: tuple[str, ...]
    later: str
    kind: str


@dataclass(frozen=True, slots=True)
class Talk:
    """One evaluation conversation as messages for ingest, with what is asked of it."""

    name: str
    messages: tuple[Row, ...]
    questions: tuple[Asked, ...] = ()
    pairs: tuple[Pair, ...] = ()


def data_folder() -> Path:
    """Where the evaluation data are: SLOWWAVE_DATA, or `shared/data` beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("SLOWWAVE_DATA") or beside)


def write_messages(path: Path, messages: Iterable[Mapping[str, Any]]) -> Path:
    """The messages as JSON lines, as `ingest` reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in messages)
    return path


def locomo(data: Path) -> list[Talk]:
    """The LoCoMo conversations: each session is a conversation, each turn a message named by its `dia_id`."""
    return [_locomo(path) for path in _files(data, "locomo", "*.json")]


def beam(data: Path) -> list[Talk]:
    """The BEAM chats: one conversation each, messages named by their global id."""
    return [_beam(path.parent) for path in _files(data, "beam", "*/chat.json")]


def examples(folder: Path) -> list[Asked]:
    """The questions of the bundled examples."""
    lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [Asked(row["question"], tuple(row["evidence"]), row["kind"]) for row in rows if row["evidence"]]


def _files(data: Path, name: str, pattern: str) -> list[Path]:
    found = sorted((data / name).glob(pattern))
    if not found:
        raise Absent(f"no {name} data in {data}: set SLOWWAVE_DATA to the folder that holds {name}/")
    return found


def _locomo(path: Path) -> Talk:
    whole = json.loads(path.read_text(encoding="utf-8"))
    sessions = sorted(int(m[1]) for key in whole if (m := re.fullmatch(r"session_(\d+)", key)))
    turns = [row for number in sessions for row in _session(path.stem, whole, number)]
    return Talk(path.stem, tuple(turns), tuple(_locomo_questions(whole["qa"])))


def _session(talk: str, whole: Mapping[str, Any], number: int) -> Iterator[Row]:
    began = datetime.strptime(whole[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    for place, turn in enumerate(whole[f"session_{number}"]):
        yield {
            "conversation_id": f"{talk}-{number}", "message_id": turn["dia_id"], "speaker": turn["speaker"],
            "content": turn["text"], "occurred_at": (began + timedelta(minutes=place)).isoformat(),
        }  # fmt: skip


def _locomo_questions(asked: Sequence[Mapping[str, Any]]) -> Iterator[Asked]:
    """Adversarial questions and those without evidence are left out; some name several messages in one string."""
    for row in asked:
        evidence = tuple(dict.fromkeys(name for text in row["evidence"] for name in re.findall(r"D\d+:\d+", text)))
        if evidence and row["category"] != ADVERSARIAL:
            yield Asked(row["question"], evidence, CATEGORIES[row["category"]])


def _beam(folder: Path) -> Talk:
    batches = json.loads((folder / "chat.json").read_text(encoding="utf-8"))
    turns = [turn for batch in batches for group in batch["turns"] for turn in group]
    probes = json.loads((folder / "probing_questions.json").read_text(encoding="utf-8"))
    rows, asked = tuple(_beam_rows(folder.name, turns)), tuple(_beam_questions(probes))
    return Talk(folder.name, rows, asked, tuple(_beam_pairs(probes)))


def _beam_rows(talk: str, turns: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """The date is said once, at the start of a batch; messages follow each other by the minute."""
    at = datetime(2024, 1, 1, tzinfo=UTC)
    for turn in turns:
        if turn.get("time_anchor"):
            at = max(at, datetime.strptime(turn["time_anchor"], "%B-%d-%Y").replace(tzinfo=UTC))
        at += timedelta(minutes=1)
        content = re.sub(r"\s*->->\s*[\d,]+\s*$", "", turn["content"])
        yield {
            "conversation_id": f"beam-{talk}", "message_id": str(turn["id"]), "role": turn["role"],
            "content": content, "occurred_at": at.isoformat(),
        }  # fmt: skip


def _beam_questions(probes: Mapping[str, Any]) -> Iterator[Asked]:
    """The questions whose messages are named; those about summaries and abstention have no single answer."""
    for ability, rows in probes.items():
        for row in rows:
            named = row.get("source_chat_ids", [])
            lists = named.values() if isinstance(named, Mapping) else [named]
            evidence = tuple(dict.fromkeys(str(each) for listed in lists for each in listed))
            if evidence and ability not in ("summarization", "abstention"):
                yield Asked(row["question"], evidence, ability)


def _beam_pairs(probes: Mapping[str, Any]) -> Iterator[Pair]:
    """Pairs in two messages, in the order of their ids, which is that of time; some are listed the other way round."""
    fields = {
        "contradiction_resolution": ("contradiction", "first_statement", "second_statement"),
        "knowledge_update": ("update", "original_info", "updated_info"),
    }
    for ability, (kind, first, second) in fields.items():
        for row in probes.get(ability, []):
            one, two = sorted((sorted(row["source_chat_ids"][first]), sorted(row["source_chat_ids"][second])))
            earlier = [n for n in one if n < two[0]]
            if earlier:
                yield Pair(tuple(map(str, earlier)), str(two[0]), kind)
