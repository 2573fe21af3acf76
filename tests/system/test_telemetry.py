"""OpenTelemetry: which spans a program sees that has set it up, and that they tell no words; what `runs` tells."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from messages_api import MessagesApi
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from talk import CLAUDE, NOW, learn, said, written
from typer.testing import CliRunner

from apps.cli import app
from flows.maintenance import decay
from slowwave.common.settings import SleepSettings
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store
from tasks.runtime.runs import as_run, existing_run

otel = pytest.importorskip("opentelemetry.sdk.trace")

SECRET_WORDS = ("Marta", "Ferrywise", "Lisbon", "rooibos", "Coimbra")


class Seen:
    """What was told: spans by name."""

    def __init__(self, store: Path) -> None:
        self.store, self.spans = store, InMemorySpanExporter()

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]


def broken() -> None:
    raise ZeroDivisionError("Marta lives in Lisbon.")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """What a program sees that set OpenTelemetry up itself: a talk that a model read, a recall, a run of decay."""
    from talk import extractor

    folder = tmp_path_factory.mktemp("telemetry")
    heard = Seen(folder / "memory")
    provider = otel.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(heard.spans))
    with pytest.MonkeyPatch.context() as patch, MessagesApi(extractor) as api:
        patch.setattr(trace, "_TRACER_PROVIDER", provider)
        patch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdef")
        patch.setenv("ANTHROPIC_BASE_URL", api.url)
        store = heard.store
        learn(written(folder / "talk.jsonl", said()), store, llm={"model": CLAUDE})
        with OpenMemory.open(str(store)) as memory:
            memory.recall("Where does Marta live?")
        with OpenMemory.open(str(store), is_logged=False) as memory:
            memory.recall("Where does Devon live?")
        asyncio.run(decay(store=str(store), now=NOW))
        with pytest.raises(ZeroDivisionError):
            as_run(existing_run("broken", str(store), "default"), {}, broken, lambda _: {})
        yield heard


@pytest.mark.proof
def test_a_run_is_a_span_with_its_state_and_counts(seen: Seen) -> None:
    [flow] = seen.named("run ingest")
    told = dict(flow.attributes)
    assert told["slowwave.flow"] == "ingest"
    assert told["slowwave.namespace"] == "default"
    assert told["slowwave.run.id"].startswith("ingest-")
    assert told["slowwave.run.state"] == "completed"
    assert told["slowwave.count.messages_stored"] == 10
    assert told["slowwave.llm.calls"] >= 1
    assert [span.attributes["slowwave.run.state"] for span in seen.named("run decay")] == ["completed"]


def test_model_calls_lie_within_their_run(seen: Seen) -> None:
    spans = {span.context.span_id: span for span in seen.spans.get_finished_spans()}

    def way(span: Any) -> list[str]:
        return [span.name, *(way(spans[span.parent.span_id]) if span.parent else [])]

    [call, *_] = seen.named("chat claude-haiku-4-5")
    assert way(call)[1:] == ["run ingest"]


def test_a_model_call_is_told_in_the_words_of_the_conventions(seen: Seen) -> None:
    [call, *_] = seen.named("chat claude-haiku-4-5")
    told = dict(call.attributes)
    assert told["gen_ai.system"] == told["gen_ai.provider.name"] == "anthropic"
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.request.model"] == "claude-haiku-4-5"
    assert told["gen_ai.usage.input_tokens"] > 0
    assert told["gen_ai.usage.output_tokens"] > 0
    assert told["slowwave.usd"] > 0
    assert call.kind is trace.SpanKind.CLIENT


def test_a_recall_tells_its_time_and_size_and_maintenance_is_none(seen: Seen) -> None:
    [recall] = seen.named("recall")
    assert set(recall.attributes) == {"slowwave.recall.k", "slowwave.recall.found", "slowwave.recall.took_ms"}
    assert recall.attributes["slowwave.recall.k"] == 10
    assert recall.end_time - recall.start_time == pytest.approx(
        recall.attributes["slowwave.recall.took_ms"] * 1e6, rel=0.01
    )


def test_no_word_that_anybody_said_is_told_also_not_by_errors(seen: Seen) -> None:
    [failed] = seen.named("run broken")
    assert failed.attributes["error.type"] == "ZeroDivisionError"
    assert failed.status.status_code is trace.StatusCode.ERROR
    told = "".join(span.to_json() for span in seen.spans.get_finished_spans())
    assert not [word for word in SECRET_WORDS if word in told]
    assert all(not span.events for span in seen.spans.get_finished_spans())


# What `slowwave runs` tells


def night_of(store: Store) -> None:
    """A night with two phases, of which one paid, and an ingest before it."""

    def run(id: str, flow: str, minute: int, seconds: float, counts: dict[str, int], **more: Any) -> dict[str, Any]:
        began = EPOCH + timedelta(minutes=minute)
        row = {"id": id, "flow": flow, "state": "completed", "parent_id": None, "calls": 0, "usd": 0.0, **more}
        told = {"started_at": began, "ended_at": began + timedelta(seconds=seconds)}
        settings = SleepSettings().model_dump(mode="json")
        asked = {"phases": ["steward"], "settings": {**settings, "max_calls": 7}} if flow == "sleep" else {}
        words = {"summary": json.dumps({"counts": counts}), "parameters": json.dumps(asked)}
        return {**row, **told, **words, "tokens_in": 10, "tokens_out": 2}

    listed = [
        run("ingest-20260101-000000-aaaa", "ingest", 0, 12, {"facts learned": 34, "messages stored": 9}),
        run("sleep-20260101-010000-bbbb", "sleep", 60, 200, {"steward: facts pruned": 2}),
        run("consolidate-20260101-010100-cccc", "consolidate", 61, 3.2, {"facts merged": 5}, calls=4, usd=0.0123,
            parent_id="sleep-20260101-010000-bbbb"),
        run("steward-20260101-010200-dddd", "steward", 62, 0.4, {"facts pruned": 2},
            parent_id="sleep-20260101-010000-bbbb"),
    ]  # fmt: skip
    with store.commit("sleep-20260101-010000-bbbb", "run", EPOCH) as tx:
        tx.upsert("runs", pl.DataFrame(listed))


def test_runs_are_told_at_eighty_columns_with_cost_effect_and_phases_under_their_night(
    new_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    night_of(store)
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, ["runs", "--store", store.uri])
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line.split()[:4] for line in lines if line.startswith("2026")]
    assert [words[2] for words in heads] == ["sleep", "consolidate", "steward", "ingest"]
    paid = next(line for line in lines if "consolidate " in line)
    assert paid.split() == ["2026-01-01", "01:01", "consolidate", "completed", "3.2", "s", "4", "0.0123"]
    assert paid.index("consolidate") == next(line for line in lines if " sleep " in line).index("sleep") + 2
    assert "  +34 facts, 9 new messages stored" in lines
    assert "    5 merged" in lines
    few = CliRunner().invoke(app, ["runs", "--limit", "1", "--store", store.uri, "--json"])
    assert [run["flow"] for run in json.loads(few.stdout)["runs"]] == ["sleep", "consolidate", "steward"]
