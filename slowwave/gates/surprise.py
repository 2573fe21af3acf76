"""Whether a message tells anything new: how far it is from the last turns and names of its conversation (S2-72)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slowwave.settings import SurpriseSettings
from slowwave.text import sentences

Vectors = npt.NDArray[np.float32]

RECENT_TURNS = 10
RECENT_NAMES = 200
TECHNOLOGIES = (
    "python rust golang java javascript typescript kotlin swift ruby php scala haskell elixir erlang perl lua "
    "julia matlab cobol fortran react angular vue svelte django flask fastapi rails spring express nextjs node "
    "nodejs deno bun docker kubernetes podman helm terraform ansible jenkins prefect airflow kafka rabbitmq nats "
    "celery redis memcached postgres postgresql mysql mariadb sqlite mongodb cassandra dynamodb clickhouse duckdb "
    "snowflake bigquery lancedb elasticsearch qdrant neo4j aws azure gcp heroku vercel netlify cloudflare linux "
    "ubuntu debian macos windows android ios git github gitlab bitbucket vim neovim emacs vscode intellij pycharm "
    "tmux bash zsh fish powershell numpy pandas polars pytorch tensorflow keras sklearn huggingface openai "
    "anthropic claude chatgpt gpt llama ollama langchain grpc graphql rest websocket webassembly wasm oauth jwt "
    "nginx apache caddy webpack vite babel eslint prettier pytest jest"
).split()
_TECHNOLOGY = re.compile(r"\b(?:" + "|".join(sorted(TECHNOLOGIES, key=len, reverse=True)) + r")\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_][\w'’-]*")


@dataclass(frozen=True, slots=True, eq=False)
class SurpriseState:
    """What one conversation has said lately; kept between runs (T46)."""

    recent_names: tuple[str, ...] = ()
    recent_turns: Vectors = field(default_factory=lambda: np.empty((0, 0), np.float32))
    consecutive_skips: int = 0


class SurprisePlan(NamedTuple):
    """`decisions`: `surprise`, `extract`, `is_forced` per message in the order given; `states` after them."""

    decisions: pl.DataFrame
    states: Mapping[str, SurpriseState]


def candidate_names(text: str) -> tuple[str, ...]:
    """The names a text may introduce, lower-cased, each once: capitalised words inside sentences, and technologies.

    Words of fewer than three characters, at the start of a sentence, or all in capitals up to five long are left out.
    """
    capitals = [
        word.lower()
        for sentence in sentences(text)
        for word in _WORD.findall(sentence)[1:]
        if len(word) >= 3 and word[0].isupper() and not (word.isupper() and len(word) <= 5)
    ]
    technologies = [found.lower() for found in _TECHNOLOGY.findall(text)]
    return tuple(dict.fromkeys(capitals + technologies))


def score_surprise(vector: Vectors, names: tuple[str, ...], state: SurpriseState) -> float:
    """Half 1 − highest cosine to the last ten turns, half the share of new names; in [0, 1], 1.0 without a past."""
    if not len(state.recent_turns):
        return 1.0
    nearest = max(0.0, float((state.recent_turns @ vector).max()))
    seen = set(state.recent_names)
    novelty = sum(name not in seen for name in names) / len(names) if names else 0.0
    return 0.5 * max(0.0, 1.0 - nearest) + 0.5 * novelty


def plan_surprise(
    messages: pl.DataFrame, vectors: Vectors, states: Mapping[str, SurpriseState], settings: SurpriseSettings
) -> SurprisePlan:
    """Which messages are worth extracting; conversations apart, each in the order of its ordinals (T47).

    `messages` has `conversation_id`, `ordinal` and `content`, `vectors` its unit rows. The state moves on whether a
    message is extracted or not; after `max_skip_turns` skips in a row the next one is forced. Switched off, all
    are extracted.
    """
    if not settings.enabled:
        return SurprisePlan(_decisions([(None, True, False)] * len(messages)), dict(states))
    after = dict(states)
    decided: list[tuple[float | None, bool, bool]] = [(None, True, False)] * len(messages)
    order = messages.with_row_index("row").sort(["conversation_id", "ordinal", "row"])
    for row, conversation, content in order.select("row", "conversation_id", "content").iter_rows():
        state = after.get(conversation, SurpriseState())
        names = candidate_names(content or "")
        score = score_surprise(vectors[row], names, state)
        is_forced = score < settings.threshold and state.consecutive_skips >= settings.max_skip_turns
        decided[row] = (score, score >= settings.threshold or is_forced, is_forced)
        after[conversation] = _moved_on(state, vectors[row], names, skipped=not decided[row][1])
    return SurprisePlan(_decisions(decided), after)


def _moved_on(state: SurpriseState, vector: Vectors, names: tuple[str, ...], *, skipped: bool) -> SurpriseState:
    turns = np.concatenate([state.recent_turns.reshape(-1, len(vector)), vector[None, :]])[-RECENT_TURNS:]
    return SurpriseState(
        (*state.recent_names, *names)[-RECENT_NAMES:], turns, state.consecutive_skips + 1 if skipped else 0
    )


def _decisions(rows: list[tuple[float | None, bool, bool]]) -> pl.DataFrame:
    schema = {"surprise": pl.Float64, "extract": pl.Boolean, "is_forced": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")
