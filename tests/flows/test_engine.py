"""The same flow body under a Prefect engine: same result, and a run page that tells what happened."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import Artifact, FlowRun
from prefect.events.schemas.automations import AutomationCore
from prefect.flow_engine import run_flow
from prefect.settings import Settings, sources
from talk import ROOT, STAMPS, assert_same, contents, learn, rows, said, written

from flows.maintenance import steward
from slowwave.common.errors import NoStoreYet
from storage.store import Store
from tasks.runtime import registration
from tasks.runtime.engine import flow, is_inline, may_be_prefect, report_progress
from tasks.runtime.prefect_engine import turn_name


async def _page(flow: str) -> tuple[list[FlowRun], Counter[str], list[Artifact]]:
    async with get_client() as client:
        of_flow = FlowFilter(name=FlowFilterName(any_=[flow]))  # other files use the same server
        runs = await client.read_flow_runs(flow_filter=of_flow)
        tasks = await client.read_task_runs(flow_filter=of_flow)
        pages = await client.read_artifacts(flow_filter=of_flow)
        return runs, Counter(task.name.partition(":")[0] for task in tasks), pages


def test_a_run_under_prefect_gives_the_same_memory_and_a_page_that_tells_what_it_did(
    engine: None, tmp_path: Path
) -> None:
    assert not is_inline()
    talk = written(tmp_path / "talk.jsonl", said())
    settings: dict[str, Any] = {"llm": {"model": "quotes"}, "extract": {"batch_messages": 4}}
    summary = learn(talk, tmp_path / "engine", **settings)
    end = time.monotonic() + 20  # the server writes task runs in the background
    while True:
        runs, tasks, artifacts = asyncio.run(_page("ingest"))
        if "tidy up" in tasks or time.monotonic() > end:
            break
        time.sleep(0.5)
    [run] = [each for each in runs if each.parameters.get("paths") == [str(talk)]]
    assert run.state_name == "Completed"
    assert run.name.startswith("ingest default ")
    assert run.parameters["paths"] == [str(talk)]
    assert set(tasks) >= {"admit messages", "extract facts", "apply patches", "tidy up"}
    found = {artifact.key: artifact for artifact in artifacts if artifact.flow_run_id == run.id}
    page = found["ingest-summary"]
    assert page.type == "markdown"
    for words in (summary["run"], "slowwave why", "slowwave undo", "possible facts found", "injection"):
        assert words in str(page.data)
    assert rows(tmp_path / "engine", "runs")["state"].to_list() == ["completed"]
    store = tmp_path / "engine"
    while "slowwave.messages.ingested" not in (told := asyncio.run(_announced(store))) and time.monotonic() < end:
        time.sleep(0.5)
    event = told["slowwave.messages.ingested"]
    assert event["resource"]["prefect.resource.id"] == "slowwave.namespace.default"
    assert event["payload"]["counts"]["messages read"] == summary["counts"]["messages read"]
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert is_inline()
        learn(talk, tmp_path / "inline", **settings)
    assert_same(contents(tmp_path / "engine", drop=STAMPS), contents(tmp_path / "inline", drop=STAMPS))


def test_s2_23_progress_is_a_log_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("tasks.runtime.engine.is_inline", lambda: False)
    with caplog.at_level(logging.INFO, "slowwave"):
        asyncio.run(report_progress("messages extracted", 5, 20))
        asyncio.run(report_progress("messages read", 7))
    assert [record.getMessage() for record in caplog.records] == ["messages extracted: 5 of 20", "messages read: 7"]


async def _deployed(flow: Any, **parameters: Any) -> Any:
    """The last state of a deployment's run, carried out here."""
    async with get_client() as client:
        deployment = await client.create_deployment(await client.create_flow(flow), flow.name)
        run = await client.create_flow_run_from_deployment(deployment, parameters=parameters)
        return await run_flow(flow, flow_run=run, parameters=parameters, return_type="state")


def test_where_no_store_is_yet_a_schedule_has_nothing_to_do_and_a_person_is_told(engine: None, tmp_path: Path) -> None:
    place = str(tmp_path / "m")
    with pytest.raises(NoStoreYet):
        asyncio.run(steward(store=place))  # type: ignore[arg-type]
    state = asyncio.run(_deployed(steward, store=place))
    assert (state.name, state.is_completed()) == ("Nothing to do", True)
    assert state.message.startswith("no store yet: There is no store at")
    Store.create(place, "work", ("test/tiny", 4))
    assert asyncio.run(_deployed(steward, store=place)).name == "Nothing to do"  # the namespace is not there yet
    slip = asyncio.run(_deployed(steward, store=place, namespace="wrok"))
    assert slip.is_failed()
    assert "Did you mean 'work'?" in slip.message


def test_runs_that_maintain_one_memory_take_turns_and_what_they_call_needs_none(engine: None, tmp_path: Path) -> None:
    seen: list[str] = []

    @flow("turns", takes_turns=True)
    async def turns(store: str, who: str, namespace: str = "default", inner: bool = False) -> None:
        if inner:
            await turns(store, f"{who} inside")
        seen.append(f"{who} begins")
        await asyncio.sleep(0.3)
        seen.append(f"{who} ends")

    async def both() -> None:
        await asyncio.gather(turns(str(tmp_path), "one", inner=True), turns(f"{tmp_path}/x/..", "two"))

    asyncio.run(both())
    steps = [*zip(seen[::2], seen[1::2], strict=True)]
    assert len(steps) == 3
    assert all(begins.removesuffix("begins") == ends.removesuffix("ends") for begins, ends in steps)


def test_a_turn_is_named_by_the_place_and_not_by_how_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "memory")
    forms = ("memory", "./memory/", str(tmp_path / "memory"), f"file://{tmp_path}/memory", "link")
    assert len({turn_name(form, "default") for form in forms}) == 1
    assert turn_name("s3://bucket/memory/", "default") == turn_name("s3://bucket/memory", "default")
    others = [turn_name("memory", "default"), turn_name("other", "default"), turn_name("memory", "work"),
              turn_name("s3://bucket/memory", "default")]  # fmt: skip
    assert len({*others}) == 4
    assert all(re.fullmatch(r"slowwave-maintenance-(default|work)-[0-9a-f]{8}", name) for name in others)


def test_what_the_server_must_know_is_registered_once_and_what_people_chose_stays(engine: None) -> None:
    assert asyncio.run(registration.register()) == ["work pool slowwave", "automation 'slowwave a run is lost'"]
    assert asyncio.run(registration.register()) == []

    async def look_and_switch_off(switch_off: bool) -> bool:
        async with get_client() as client:
            [found] = await client.read_automations_by_name("slowwave a run is lost")
            if switch_off:
                other = found.model_dump(exclude={"id", "owner_resource"}) | {"enabled": False, "description": ""}
                await client.update_automation(found.id, AutomationCore.model_validate(other))
            return found.enabled

    assert asyncio.run(look_and_switch_off(True))
    assert asyncio.run(registration.register()) == ["automation 'slowwave a run is lost' changed"]
    assert not asyncio.run(look_and_switch_off(False))


async def _announced(store: Path) -> dict[str, Any]:
    """The events of this store that the server has got, by name."""
    async with get_client() as client:
        asked = {"filter": {"event": {"prefix": ["slowwave."]}}}
        found = (await client._client.post("/events/filter", json=asked)).json()["events"]
        return {event["event"]: event for event in found if event["payload"].get("store") == str(store)}


# Where Prefect is asked at all, and where it is not imported

COMMANDS = """
import asyncio, sys

class NoPrefect:
    def find_spec(self, name, *more):
        if name == "prefect":
            raise AssertionError("Prefect is imported.")

sys.meta_path.insert(0, NoPrefect())
from slowwave.__main__ import main

for line in sys.argv[1].splitlines():
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as end:
        assert not end.code, line
from flows.oversight import review

assert asyncio.run(review(store="./memory"))["state"] == "completed"
"""


@pytest.mark.proof
def test_a_memory_learns_sleeps_and_is_reviewed_without_an_import_of_prefect(tmp_path: Path) -> None:
    written(tmp_path / "talk.jsonl", said())
    commands = (
        "ingest talk.jsonl --llm quotes", "sleep --llm quotes --require-approval", "fleet --llm quotes", "review list",
        "report", "doctor", "backfill talk.jsonl --llm quotes --dry-run", "recall Redis", "context Redis",
    )  # fmt: skip
    home = {"HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path / ".prefect"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, "\n".join(commands)],
        cwd=tmp_path, env=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


URL = "http://127.0.0.1:4200/api"
PROFILES = f"active = 'x'\n[profiles.x]\nPREFECT_API_URL = '{URL}'"


@pytest.mark.parametrize(
    ("files", "environ", "expected"),
    [
        ({}, {}, False),
        ({}, {"PREFECT_API_URL": URL}, True),
        ({}, {"prefect_api_url": URL}, True),  # names of settings have no case
        ({}, {"PREFECT_LOGGING_LEVEL": "DEBUG"}, False),
        ({".env": f"PREFECT_API_URL={URL}"}, {}, True),
        ({".env": "OPENAI_API_KEY=none"}, {}, False),
        ({".env": "PREFECT_PROFILES_PATH=other.toml"}, {}, True),
        ({"prefect.toml": f"[api]\nurl = '{URL}'"}, {}, True),
        ({"prefect.toml": "[broken"}, {}, True),
        ({"pyproject.toml": f"[tool.prefect.api]\nurl = '{URL}'"}, {}, True),
        ({"prefect.toml": "[logging]\nlevel = 'DEBUG'"}, {}, False),
        ({"pyproject.toml": f"[tool]\nprefect = {{api = {{url = '{URL}'}}}}"}, {}, True),
        ({"pyproject.toml": "[tool.prefect.logging.to_api]\nenabled = true"}, {}, False),
        ({"pyproject.toml": "[tool.prefect\nbroken"}, {}, True),
        ({"pyproject.toml": "[tool]\nprefect = 3"}, {}, True),
        ({"prefect.toml": "profiles_path = 'p.toml'", "p.toml": PROFILES}, {}, True),
        ({"pyproject.toml": "[tool.prefect]\nprofiles_path = 'p.toml'", "p.toml": PROFILES}, {}, True),
        ({"pyproject.toml": f"[tool.other.api]\nurl = '{URL}'"}, {}, False),
        ({".prefect/profiles.toml": f"active = 'x'\n[profiles.x]\nPREFECT_API_URL = '{URL}'"}, {}, True),
        ({".prefect/profiles.toml": "active = 'x'\n[profiles.x]\nPREFECT_LOGGING_LEVEL = 'INFO'"}, {}, False),
        ({"p.toml": f"[profiles.x]\nPREFECT_API_URL = '{URL}'"}, {"PREFECT_PROFILES_PATH": "p.toml"}, True),
        ({}, {"PREFECT_PROFILE": "local"}, True),  # a profile that Prefect brings along
        ({}, {"PREFECT_PROFILE": ""}, False),
    ],
)
def test_prefect_is_asked_wherever_its_settings_may_name_an_api(
    files: dict[str, str], environ: dict[str, str], expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in ("PREFECT_API_URL", "PREFECT_HOME", "PREFECT_PROFILES_PATH", "PREFECT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sources, "DEFAULT_PREFECT_HOME", tmp_path / ".prefect")  # as it would be with this HOME
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    try:
        url = Settings().api.url
    except Exception:
        url = "whatever Prefect says of it"
    assert expected or not url, "this Prefect finds an API here"
    monkeypatch.delitem(sys.modules, "prefect")
    assert may_be_prefect() is expected


def test_where_prefect_is_imported_before_flows_they_are_its_own() -> None:
    assert may_be_prefect()
