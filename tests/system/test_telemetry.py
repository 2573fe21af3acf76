"""OpenTelemetry: what is measured, that no words are told, and that it costs nothing where nobody asked for it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pytest
from conftest import EPOCH
from messages_api import MessagesApi
from opentelemetry import (
    metrics,
    trace,
)
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from talk import CLAUDE, NOW, learn, said, written
from typer.testing import CliRunner

import slowwave.common.telemetry
from apps.cli import app
from flows.maintenance import decay
from slowwave.common.settings import SleepSettings
from slowwave.integrations.python_api import OpenMemory
from storage.store import Store
from tasks.runtime import telemetry
from tasks.runtime.telemetry import start_telemetry, wanted

otel = pytest.importorskip("opentelemetry.sdk.trace")
metrics_sdk = pytest.importorskip("opentelemetry.sdk.metrics")

SECRET_WORDS = ("Marta", "Ferrywise", "Lisbon", "rooibos", "Coimbra")


class Seen:
    """What was told: spans by name, and measures."""

    def __init__(self, store: Path) -> None:
        self.store, self.spans, self.reader = store, InMemorySpanExporter(), InMemoryMetricReader()

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]

    def measures(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """What a program sees that set OpenTelemetry up itself: a talk that a model read, a recall, a run of decay."""
    from talk import extractor

    folder = tmp_path_factory.mktemp("telemetry")
    heard = Seen(folder / "memory")
    provider = otel.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(heard.spans))
    meters = metrics_sdk.MeterProvider([heard.reader])
    with pytest.MonkeyPatch.context() as patch, MessagesApi(extractor) as api:
        patch.setattr(trace, "_TRACER_PROVIDER", provider)
        patch.setattr(metrics._internal, "_METER_PROVIDER", meters)
        patch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdef")
        patch.setenv("ANTHROPIC_BASE_URL", api.url)
        forget_instruments()
        store = heard.store
        learn(written(folder / "talk.jsonl", said()), store, llm={"model": CLAUDE})
        with OpenMemory.open(str(store)) as memory:
            memory.recall("Where does Marta live?")
        with OpenMemory.open(str(store), is_logged=False) as memory:
            memory.recall("Where does Devon live?")
        asyncio.run(decay(store=str(store), now=NOW))
        with pytest.raises(ZeroDivisionError), Store.open(str(store)).commit("r", "broken", EPOCH):
            raise ZeroDivisionError("Marta lives in Lisbon.")
        yield heard
    forget_instruments()


def forget_instruments() -> None:
    """Those of another provider are not asked again."""
    slowwave.common.telemetry._instrument.cache_clear()


@pytest.mark.proof
def test_a_flow_is_a_span_with_its_run_state_and_counts(seen: Seen) -> None:
    [flow] = seen.named("flow ingest")
    told = dict(flow.attributes)
    assert told["slowwave.flow"] == "ingest"
    assert told["slowwave.namespace"] == "default"
    assert told["slowwave.run.id"].startswith("ingest-")
    assert told["slowwave.run.state"] == "completed"
    assert told["slowwave.count.messages_stored"] == 10
    assert told["slowwave.llm.calls"] >= 1
    assert [span.attributes["slowwave.run.state"] for span in seen.named("flow decay")] == ["completed"]


def test_tasks_commits_and_model_calls_lie_within_their_flow(seen: Seen) -> None:
    spans = {span.context.span_id: span for span in seen.spans.get_finished_spans()}

    def way(span: Any) -> list[str]:
        return [span.name, *(way(spans[span.parent.span_id]) if span.parent else [])]

    [commit] = seen.named("commit ingest.messages")
    assert way(commit) == ["commit ingest.messages", "task admit messages", "flow ingest"]
    assert commit.attributes["slowwave.commit.rows"] >= 10
    assert 0 <= commit.attributes["slowwave.lease.wait_s"] < 60
    [call, *_] = seen.named("chat claude-haiku-4-5")
    assert way(call)[1:] == ["task read windows", "task extract facts", "flow ingest"]


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


def test_measures_add_up(seen: Seen) -> None:
    told = seen.measures()
    [ingest] = seen.named("flow ingest")
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in told["gen_ai.client.token.usage"]}
    assert tokens == {
        "input": ingest.attributes["slowwave.llm.tokens_in"], "output": ingest.attributes["slowwave.llm.tokens_out"],
    }  # fmt: skip
    usd = sum(point.value for point in told["slowwave.model.cost"])
    assert usd == pytest.approx(ingest.attributes["slowwave.llm.usd"], abs=1e-6)
    assert sum(point.count for point in told["slowwave.recall.duration"]) == 1
    assert {point.attributes["slowwave.flow"] for point in told["slowwave.runs"]} == {"ingest", "decay"}
    learned = ingest.attributes["slowwave.count.facts_learned"]
    assert [point.value for point in told["slowwave.facts.written"]] == [learned]
    assert sum(point.count for point in told["slowwave.lease.wait"]) >= 5


def test_no_word_that_anybody_said_is_told_also_not_by_errors(seen: Seen) -> None:
    [broken] = seen.named("commit broken")
    assert broken.attributes["error.type"] == "ZeroDivisionError"
    assert broken.status.status_code is trace.StatusCode.ERROR
    told = "".join(span.to_json() for span in seen.spans.get_finished_spans()) + repr(seen.measures())
    assert not [word for word in SECRET_WORDS if word in told]
    assert all(not span.events for span in seen.spans.get_finished_spans())


def test_what_other_libraries_record_leaves_without_the_words_of_errors() -> None:
    from tasks.runtime.telemetry import without_words

    exporter = InMemorySpanExporter()
    provider = otel.TracerProvider()
    provider.add_span_processor(without_words(exporter))
    with pytest.raises(ValueError, match="Lisbon"), provider.get_tracer("other").start_as_current_span("their work"):
        raise ValueError("Marta lives in Lisbon.")
    provider.force_flush()
    [span] = exporter.get_finished_spans()
    assert "Lisbon" not in span.to_json()
    assert (span.name, span.status.status_code) == ("their work", trace.StatusCode.ERROR)


# Where it goes


HERE = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("environ", "signals"),
    [
        ({}, set()),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_EXPORTER": "otlp"}, set()),
        ({HERE: "http://c:4318"}, {"TRACES", "METRICS"}),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"}, {"TRACES"}),
        ({HERE: "http://c", "OTEL_METRICS_EXPORTER": "none"}, {"TRACES"}),
        ({HERE: "http://c", "OTEL_SDK_DISABLED": "true"}, set()),
    ],
)
def test_the_environment_says_what_is_exported(environ: dict[str, str], signals: set[str]) -> None:
    assert wanted(environ) == signals


def test_without_the_extra_there_is_one_line_of_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telemetry, "_done", [])
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)
    with caplog.at_level(logging.WARNING, "slowwave"):
        assert not start_telemetry({HERE: "http://c"})
        assert not start_telemetry({HERE: "http://c"})
    [line] = [record.getMessage() for record in caplog.records if record.name == "slowwave"]
    assert "slowwave[otel]" in line


class Collector(ThreadingHTTPServer):
    """A collector on loopback that keeps what it is sent."""

    def __init__(self) -> None:
        self.received: list[tuple[str, bytes]] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append((self.path, body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing on standard error."""

        super().__init__(("127.0.0.1", 0), Handler)
        Thread(target=self.serve_forever, daemon=True).start()


def test_spans_and_measures_go_to_the_collector_that_the_environment_names(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_address[1]}")
    monkeypatch.setattr(telemetry, "_done", [])
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", type(trace._TRACER_PROVIDER_SET_ONCE)())
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", None)
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER_SET_ONCE", type(trace._TRACER_PROVIDER_SET_ONCE)())
    forget_instruments()
    assert start_telemetry(os.environ)
    with OpenMemory.open(str(seen.store)) as memory:
        memory.recall("Where does Marta live?")
    spans, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    assert isinstance(spans, otel.TracerProvider)
    assert isinstance(meters, metrics_sdk.MeterProvider)
    spans.shutdown()
    meters.shutdown()
    collector.shutdown()
    collector.server_close()
    forget_instruments()
    assert {path for path, _ in collector.received} == {"/v1/traces", "/v1/metrics"}
    sent = b"".join(body for _, body in collector.received)
    assert b"slowwave.recall.duration" in sent
    assert b"slowwave.recall.took_ms" in sent
    assert b"Marta" not in sent


# What a run changed, in words


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
