"""The consolidation report in the atlas: what wants a person's eye, each finding beside its entity on the map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from slowwave.maintenance.report_story import Section, counts, sections, verdict
from slowwave.settings import ReportSettings
from storage.snapshots import Snapshot

from .atlas_facts import AtlasLimits, Chosen
from .report import consolidation_report

_TELLING = ("type", "observation", "what", "the nearest pair")
"""Columns whose cells say by themselves what they are."""


def told_report(
    snapshot: Snapshot, chosen: Chosen, now: datetime, settings: ReportSettings, limits: AtlasLimits
) -> dict[str, Any]:
    """`counts` in words, `verdict` as a sentence, and `sections` with the first findings of each.

    A finding is (place of the entity, -1 if it is not told; its name; the rest in words); `count` is of all findings.
    """
    report = consolidation_report(snapshot, settings, now).as_json()
    ids = chosen.entities["id"]
    places = dict(zip(ids, range(len(ids)), strict=True))
    return {
        "counts": counts(report),
        "verdict": verdict(report),
        "sections": [
            {
                "title": section.title,
                "count": section.count,
                "following": section.following,
                "findings": list(_findings(section, places)),
            }
            for section in sections(report, limits.findings)
        ],
    }


def _findings(section: Section, places: Mapping[str, int]) -> Iterator[tuple[int, str, str]]:
    for entity, name, cells in section.findings():
        told = ", ".join(_words(column, cell) for column, cell in cells if column != "id")
        yield places.get(entity or "", -1), name, told


def _words(column: str, cell: Any) -> str:
    return str(cell) if column in _TELLING else f"{column} {cell}"
