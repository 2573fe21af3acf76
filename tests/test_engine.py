"""The same flow body under a Prefect engine: same result, and a run page that tells what happened."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import Artifact, FlowRun
from talk import NOW, STAMPS, assert_same, contents, learn, rows, said, written

from flows.ingest import ingest
from slowwave.errors import UnusableInput
from tasks.engine import is_inline

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("engine")]


async def _page() -> tuple[list[FlowRun], Counter[str], list[Artifact]]:
    async with get_client() as client:
        is_ingest = FlowFilter(name=FlowFilterName(any_=["ingest"]))  # other files use the same server
        runs = await client.read_flow_runs(flow_filter=is_ingest)
        tasks = await client.read_task_runs()
        return runs, Counter(task.name.rsplit("-", 1)[0] for task in tasks), await client.read_artifacts()


def test_a_run_under_prefect_gives_the_same_memory_and_a_page_that_tells_what_it_did(
    engine: None, tmp_path: Path
) -> None:
    assert not is_inline()
    talk = written(tmp_path / "talk.jsonl", said())
    settings: dict[str, Any] = {"llm": {"model": "rules"}, "extract": {"batch_messages": 4}}
    summary = learn(talk, tmp_path / "engine", **settings)
    end = time.monotonic() + 20  # the server writes task runs in the background
    while True:
        runs, tasks, artifacts = asyncio.run(_page())
        if sum(tasks.values()) >= 7 or time.monotonic() > end:
            break
        time.sleep(0.5)
    [run] = runs
    assert run.state_name == "Completed"
    assert run.name.startswith("ingest default ")
    assert run.parameters["paths"] == [str(talk)]
    assert {name.lower() for name in tasks} >= {"admit messages", "extract facts", "apply patches", "tidy up"}
    found = {artifact.key: artifact for artifact in artifacts if artifact.flow_run_id == run.id}
    page = found["ingest-summary"]
    assert page.type == "markdown"
    for words in (summary["run"], "slowwave why", "slowwave undo", "candidate facts", "injection"):
        assert words in str(page.data)
    assert found["ingest-outcomes"].type == "table"
    assert "refused: injection" in str(found["ingest-outcomes"].data)
    assert any(artifact.type == "progress" for artifact in artifacts)
    assert rows(tmp_path / "engine", "runs")["state"].to_list() == ["completed"]
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert is_inline()
        learn(talk, tmp_path / "inline", **settings)
    assert_same(contents(tmp_path / "engine", drop=STAMPS), contents(tmp_path / "inline", drop=STAMPS))


def test_a_run_that_cannot_begin_fails_with_its_sentence(engine: None, tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="no file or folder"):
        asyncio.run(ingest([str(tmp_path / "nowhere")], store=str(tmp_path / "m"), now=NOW))
    runs, _, _ = asyncio.run(_page())
    failed = [run for run in runs if run.state_name == "Failed"]
    assert len(failed) == 1
    assert failed[0].state is not None
    assert "no file or folder" in str(failed[0].state.message)
    assert not (tmp_path / "m").exists()
