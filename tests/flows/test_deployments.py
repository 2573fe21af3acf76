"""Deployments, automations and the containers: what they name exists, and what they say holds."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from cronsim import CronSim
from prefect import Flow
from prefect.events.schemas.automations import Automation, AutomationCore
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from talk import ROOT

from tasks.runtime.engine import Event, event_of
from tasks.runtime.runs import new_run

CONFIG = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
DEPLOYMENTS = CONFIG["deployments"]
BY_NAME = {entry["name"]: entry for entry in DEPLOYMENTS}
AUTOMATIONS = yaml.safe_load((ROOT / "automations.yaml").read_text(encoding="utf-8"))["automations"]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of a form, those of nested settings included."""
    for name, field in schema["properties"].items():
        yield name, field
    for group, definition in schema.get("definitions", {}).items():
        for name, field in definition.get("properties", {}).items():
            yield f"{group}.{name}", field


# Deployments


@pytest.mark.parametrize("entry", DEPLOYMENTS, ids=lambda entry: entry["name"])
def test_every_deployment_loads_and_its_form_explains_every_field(entry: dict[str, Any]) -> None:
    flow: Flow[..., Any] = load_flow_from_entrypoint(str(ROOT / entry["entrypoint"]), use_placeholder_flow=False)
    assert flow.name == entry["name"]
    assert flow.validate_parameters(entry.get("parameters", {}))
    found = dict(fields(parameter_schema(flow).model_dump()))
    assert {"namespace", "store"} <= found.keys()
    assert [name for name, field in found.items() if not field.get("description")] == []
    assert len(entry["description"].strip()) > 80
    assert asyncio.iscoroutinefunction(flow.fn)


def test_every_flow_has_a_deployment_of_its_name() -> None:
    deployed = {entry["entrypoint"] for entry in DEPLOYMENTS}
    declared = {
        f"flows/{path.name}:{name}"
        for path in (ROOT / "flows").glob("[a-z]*.py")
        for name in re.findall(r'^@flow\("(\w+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert declared == deployed


def test_every_deployment_has_tags_a_limit_and_what_becomes_of_runs_over_it() -> None:
    for entry in DEPLOYMENTS:
        assert entry["tags"][0] == "slowwave"
        assert entry["work_pool"]["name"] == "slowwave"
        assert entry["concurrency_limit"]["limit"] >= 1
        assert entry["concurrency_limit"]["collision_strategy"] in ("ENQUEUE", "CANCEL_NEW")
        namespace = "*" if entry["name"] == "fleet" else "default"
        assert entry["parameters"].items() >= {"namespace": namespace, "store": "./memory"}.items()


def test_no_two_schedules_that_are_on_start_together() -> None:
    begins = datetime(2026, 1, 31, tzinfo=UTC)  # a Saturday; the first of a month and a Sunday come next
    due: dict[datetime, list[str]] = {}
    for entry in DEPLOYMENTS:
        for schedule in entry.get("schedules", ()):
            assert schedule["timezone"] == "UTC"
            if schedule["active"] and entry["name"] != "inbox":  # light, and at any time
                for at in islice(CronSim(schedule["cron"], begins), 60):
                    due.setdefault(at, []).append(entry["name"])
    assert {name for names in due.values() for name in names} == {"steward", "sleep", "doctor", "report"}
    assert [names for names in due.values() if len(names) > 1] == []


# Events and automations


def rendered(template: Any, payload: dict[str, Any]) -> Any:
    """What an action makes of its parameters, from an event with this payload."""
    from prefect.server.utilities.user_templates import render_user_template_sync

    def render(text: str) -> str:
        return render_user_template_sync(text, {"event": {"payload": payload}})

    if isinstance(template, str):
        return render(template)
    if template.get("__prefect_kind") == "json":
        return json.loads(render(template["value"]["template"]))
    return {key: rendered(value, payload) for key, value in template.items()}


def parameters_from(name: str, payload: dict[str, Any]) -> dict[str, Any]:
    (trigger,) = BY_NAME[name]["triggers"]
    given = rendered(trigger["parameters"], payload)
    flow: Any = load_flow_from_entrypoint(str(ROOT / BY_NAME[name]["entrypoint"]), use_placeholder_flow=False)
    return dict(flow.validate_parameters(given))


def test_files_that_arrive_start_ingest_with_their_paths() -> None:
    given = parameters_from("ingest", {"paths": ["in/a.md", "in/b 'c'.jsonl"], "namespace": "work"})
    assert (given["paths"], given["namespace"], given["store"]) == (["in/a.md", "in/b 'c'.jsonl"], "work", "./memory")


def test_communities_that_are_due_are_refreshed_in_the_memory_that_the_event_names() -> None:
    run = new_run("ingest", "/data/memory", "work", "tiny")
    event = event_of(Event.REFRESH_DUE, run, before=90, after=101, interval=100)
    (trigger,) = BY_NAME["communities"]["triggers"]
    assert trigger["expect"] == [event["event"]]
    given = parameters_from("communities", event["payload"])
    assert (given["namespace"], given["store"]) == ("work", "/data/memory")


def test_every_automation_is_one_that_the_server_takes() -> None:
    for entry in AUTOMATIONS:
        made = AutomationCore.model_validate(entry)
        assert (made.enabled, made.name.startswith("slowwave "), bool(made.description)) == (True, True, True)
        assert Automation.model_validate({"id": uuid4(), **made.model_dump()}).trigger.expect


def test_our_events_in_triggers_are_events_that_runs_announce() -> None:
    text = (ROOT / "prefect.yaml").read_text()
    listened = {*re.findall(r"expect: \[(slowwave\.[a-z._]+)\]", text)}
    assert listened - {*Event} == {"slowwave.inbox.arrived"}  # comes from outside
    assert "slowwave.community.refresh_due" in listened


# Containers


def test_what_the_image_and_compose_name_exists() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "USER 10001" in dockerfile
    ignored = {line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"}
    needed = {
        "apps",
        "flows",
        "tasks",
        "scripts",
        "prompts",
        "prefect.yaml",
        "automations.yaml",
        "README.md",
        "LICENSE",
    }
    assert not needed & ignored
    assert {".git", ".env", "memory", ".venv"} <= ignored
    services = COMPOSE["services"]
    assert set(services) == {"postgres", "server", "worker", "mcp"}
    for service in services.values():
        assert all((ROOT / name).is_file() for name in service.get("env_file", ()))
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))  # loopback only
        for volume in service.get("volumes", ()):
            source, _, target = volume.partition(":")
            assert source in COMPOSE["volumes"] or source == "./inbox"
            assert target in ("/app/memory", "/app/inbox", "/var/lib/postgresql/data")
    assert (ROOT / services["worker"]["command"][1]).is_file()
    assert services["mcp"]["environment"]["SLOWWAVE_MCP_TOKEN"] == "${SLOWWAVE_MCP_TOKEN:?}"
    said = (ROOT / "scripts" / "worker.sh").read_text(encoding="utf-8")
    modules = re.findall(r"python -m ([\w.]+)", said)
    assert modules
    assert all((ROOT / f"{name.replace('.', '/')}.py").is_file() for name in modules)


def test_the_server_of_compose_asks_for_the_password_that_the_worker_sends_and_answers_no_other_page() -> None:
    server, worker = (COMPOSE["services"][name]["environment"] for name in ("server", "worker"))
    password = "slowwave:${PREFECT_PASSWORD:?}"  # Compose does not start without one
    assert server["PREFECT_SERVER_API_AUTH_STRING"] == server["PREFECT_API_AUTH_STRING"] == password
    assert worker["PREFECT_API_AUTH_STRING"] == password
    origins = server["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"].split(",")
    assert origins == ["http://127.0.0.1:4200", "http://localhost:4200"]
    assert server["PREFECT_UI_API_URL"].removesuffix("/api") in origins
    asked = COMPOSE["services"]["server"]["healthcheck"]["test"][-1]
    assert "/api/health'" in asked  # it answers without a password
    head = (ROOT / "compose.yaml").read_text(encoding="utf-8").partition("\nname:")[0]
    wanted = set(re.findall(r"\$\{(\w+):\?\}", (ROOT / "compose.yaml").read_text(encoding="utf-8")))
    assert wanted <= set(re.findall(r"^#   (\w+)=", head, re.MULTILINE))


def test_a_worker_deploys_everything_to_the_store_that_its_environment_names(tmp_path: Path) -> None:
    (tmp_path / "prefect.yaml").write_text((ROOT / "prefect.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("python", "prefect"):  # they say what they were asked for
        (tmp_path / name).write_text('#!/bin/sh\necho "$(basename "$0")" "$@"\n', encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    def worked(**environ: str) -> list[str]:
        environ |= {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
        script = ["sh", str(ROOT / "scripts" / "worker.sh")]
        return subprocess.run(
            script, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    assert worked() == [
        "python -m tasks.runtime.registration", "prefect --no-prompt deploy --all --prefect-file prefect.yaml",
        "prefect worker start --pool slowwave --limit 4",
    ]  # fmt: skip
    _, deployed, last = worked(SLOWWAVE_STORE="s3://memory/slowwave", SLOWWAVE_WORKER_RUNS="1")
    assert last.endswith("--limit 1")
    written = yaml.safe_load(Path(deployed.rpartition(" ")[2]).read_text(encoding="utf-8"))
    assert {entry["parameters"]["store"] for entry in written["deployments"]} == {"s3://memory/slowwave"}
    triggers = [trigger for entry in written["deployments"] for trigger in entry.get("triggers", ())]
    assert not any("./memory" in trigger["parameters"]["store"] for trigger in triggers)
