"""The deployments of prefect.yaml for the memory, the settings and the folders of a local server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from apps.configuration import DEFAULT_STORE, Place
from apps.ingest_commands import backfill_settings
from apps.maintain_commands import nightly_settings
from slowwave.installation import project_folder
from slowwave.settings import FleetSettings, Group

from .setup import Setup

INBOX = "./inbox"
HOURLY = "7 * * * *"
"""When watched folders are read: not at the minute of another schedule."""
WATCH = "watch"
_ABOUT_WATCH = """\
Read what is new in {folder}, every hour.

Files stay where they are. What was read before is known by its content and costs nothing.
"""
_NO_MODEL: Mapping[str, Any] = {}


def deployments_of(setup: Setup, place: Place) -> dict[str, Any]:
    """The contents of a prefect.yaml whose deployments work on this memory with these settings, from any folder.

    Flows run in the folder of the project, in a checkout or in the installed package.
    """
    project = project_folder()
    found: dict[str, Any] = yaml.safe_load((project / "prefect.yaml").read_text(encoding="utf-8"))
    found.pop("definitions", None)  # their anchors were resolved
    found["pull"] = [{"prefect.deployments.steps.set_working_directory": {"directory": str(project)}}]
    inbox = str(Path(INBOX).resolve())
    found["deployments"] = [_placed(each, setup.store, inbox) for each in found["deployments"]]
    by_name = {each["name"]: each for each in found["deployments"]}
    if not Path(inbox).is_dir():  # a process every two minutes would only log that there is no folder
        by_name["inbox"]["schedules"] = [{**each, "active": False} for each in by_name["inbox"]["schedules"]]
    for name, each in by_name.items():
        if name != "fleet":
            each["parameters"]["namespace"] = setup.namespace
        if changed := _changed(place, name):
            each["parameters"]["settings"] = changed
        if name in ("ingest", "inbox", "reembed"):
            each["parameters"]["embedder"] = place.settings.embedder
    found["deployments"] += [_watch(by_name["inbox"], folder, number) for number, folder in enumerate(setup.watched, 1)]
    return found


def watch_name(number: int) -> str:
    """The deployment that reads the watched folder of this number, from 1."""
    return WATCH if number == 1 else f"{WATCH}-{number}"


def _watch(inbox: Mapping[str, Any], folder: str, number: int) -> dict[str, Any]:
    """The inbox for a folder of another program: nothing in it is moved, and its folders are no namespaces."""
    return {
        **inbox,
        "name": watch_name(number),
        "description": _ABOUT_WATCH.format(folder=folder),
        "schedules": [{"slug": "hourly", "cron": HOURLY, "timezone": "UTC", "active": True}],
        "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},
        "parameters": {**inbox["parameters"], "folder": folder, "afterwards": "stay", "by_folder": False},
    }


def _placed(value: Any, store: str, inbox: str) -> Any:
    """The same, with this store and this inbox wherever the file names its own; in a Jinja text as a literal."""
    if isinstance(value, dict):
        return {key: _placed(each, store, inbox) for key, each in value.items()}
    if isinstance(value, list):
        return [_placed(each, store, inbox) for each in value]
    if isinstance(value, str):
        value = {DEFAULT_STORE: store, INBOX: inbox}.get(value, value)
        return value.replace(f"'{DEFAULT_STORE}'", json.dumps(store, ensure_ascii=False))
    return value


def _changed(place: Place, name: str) -> dict[str, Any]:
    """The settings of a flow that are not its defaults, as its form takes them: what `slowwave NAME` would use here."""
    settings = place.settings
    made: dict[str, Group] = {
        "ingest": place.kept(settings.ingest),
        "inbox": place.kept(settings.ingest),
        "steward": place.kept(settings.steward),
        "sleep": nightly_settings(place, _NO_MODEL),
        "consolidate": place.kept(settings.consolidate),
        "decay": place.kept(settings.decay),
        "communities": place.kept(settings.communities),
        "upkeep": settings.retention,
        "report": place.report_settings(),
        "backfill": backfill_settings(place, _NO_MODEL),
        "fleet": FleetSettings(**settings.fleet.model_dump(), sleep=nightly_settings(place, _NO_MODEL)),
        "reembed": place.kept(settings.reembed).model_copy(update={"link": settings.ingest.extract.note_linking}),
    }
    return made[name].model_dump(mode="json", exclude_defaults=True) if name in made else {}
