"""Commands that maintain memory: the phases of a night, one by one or all, in one namespace or many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast, get_args

import typer

from slowwave.common.arguments import checked_time
from slowwave.common.errors import RecallFell, UnusableInput
from slowwave.common.settings import (
    CommunitySettings,
    ConsolidateSettings,
    DecaySettings,
    FleetSettings,
    ReembedSettings,
    SleepSettings,
    StewardSettings,
)
from slowwave.common.text import short_id
from slowwave.common.timestamps import parse_moment
from slowwave.integrations.python_api import OpenMemory

from .configuration import Place, parse_settings, with_flags
from .options import DryRun, Gate, JsonOption, ModelFlags, NamespaceOption, Now, RunFlags, Shown, StoreOption
from .printing import call_line, count_table, end, note_lines, progress, show, table

W = TypeVar("W", ConsolidateSettings, StewardSettings, DecaySettings, CommunitySettings, SleepSettings, ReembedSettings)
N = TypeVar("N", bound=str)
NAMED = 8
"""Members that the table shows of each."""
OUTDATED = "(changed since; the next refresh summarises it again)"
FLEET_COLUMNS = ("namespace", "state", "calls", "dollars", "changed")


def consolidate(
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Compare the facts since this time again.")
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", help="Only facts of this scope, for example a project.")
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", help="Facts are compared pairwise, in a cluster, or auto: by their number.")
    ] = "auto",
    *,
    model: ModelFlags,
    how: RunFlags,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Merge facts that say the same, and keep the originals in their history.

    A second run changes nothing and costs nothing.
    """
    from flows.maintenance import consolidate as flow
    from slowwave.facts.deduplication.pairs_for_a_model import Mode

    if mode not in get_args(Mode):
        raise UnusableInput(f"There is no mode {mode!r}.", f"Choose one of {', '.join(get_args(Mode))}.")
    own, since_when = with_flags(place.settings, model).consolidate, parse_moment(since) if since else None
    parameters = {"since": since_when, "scope": scope, "mode": cast(Mode, mode)}
    return _maintained(flow, place, as_json, how, own, ("decided", "facts"), **parameters)


def steward(
    phase: Annotated[
        list[str] | None, typer.Option("--phase", help="score, prune or merge; may be repeated; default all.")
    ] = None,
    *,
    model: ModelFlags,
    how: RunFlags,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Score facts by their use, archive unused ones, and merge near-duplicates.

    Only facts with a low score that were never recalled are archived.
    """
    from flows.maintenance import SWEEPS
    from flows.maintenance import steward as flow

    own = with_flags(place.settings, model).steward
    return _maintained(flow, place, as_json, how, own, ("decided", "facts"), phases=chosen(phase, SWEEPS))


def decay(*, how: RunFlags, place: Place, as_json: JsonOption = False) -> Shown:
    """Archive facts that ended long ago and entities without facts; weaken unused links."""
    from flows.maintenance import decay as flow

    return _maintained(flow, place, as_json, how, place.settings.decay, ("moved", "rows"))


def upkeep(*, place: Place, as_json: JsonOption = False) -> Shown:
    """Compact the tables, update the indexes, and drop versions that are too old for undo."""
    from flows.maintenance import upkeep as flow

    return summary_parts(run_flow(flow, place, as_json, settings=place.settings.retention))


def sleep(
    phase: Annotated[
        list[str] | None,
        typer.Option(
            "--phase", help="consolidate, steward, decay, communities or upkeep; may be repeated; default all."
        ),
    ] = None,
    *,
    model: ModelFlags,
    how: RunFlags,
    now: Now = None,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Run all phases of a night, one after the other. A phase that makes recall worse is undone."""
    from flows.nights import NIGHT
    from flows.nights import sleep as flow

    settings, parameters = nightly_settings(place, model), {"now": checked_time(now), "phases": chosen(phase, NIGHT)}
    return _maintained(flow, place, as_json, how, settings, ("done", "phases"), **parameters)


def _maintained(
    flow: Callable[..., Awaitable[dict[str, Any]]],
    place: Place,
    as_json: bool,
    how: RunFlags,
    settings: W,
    words: tuple[str, str],
    **parameters: Any,
) -> Shown:
    """A run of maintenance and its summary; `words`: what was done to what."""
    own = {"settings": watched(settings, how["gate"]), **{key: how[key] for key in how if key != "gate"}}
    summary = run_flow(flow, place, as_json, **own, **parameters)
    yield from summary_parts(summary)
    if summary["counts"].get("facts pruned") and not how["dry_run"]:
        yield "The archived facts: slowwave archived. Back with: slowwave restore ID"
    end(summary, *words)


def nightly_settings(place: Place, model: Mapping[str, Any], gate: bool | None = None) -> SleepSettings:
    """Settings of the nightly run: those of the file for each phase, with the model and its budget."""
    settings = with_flags(place.settings, model)
    night = SleepSettings(
        ingest=settings.ingest,
        consolidate=settings.consolidate,
        steward=settings.steward,
        decay=settings.decay,
        communities=settings.communities,
        gate=settings.sleep,
        retention=settings.retention,
    )
    return watched(night, gate)


def run_flow(
    flow: Callable[..., Awaitable[dict[str, Any]]], place: Place, quiet: bool, **parameters: Any
) -> dict[str, Any]:
    """The summary of a run of the flow; progress goes to stderr."""
    try:
        with progress(quiet=quiet):
            return asyncio.run(cast(Any, flow(namespace=place.namespace, store=place.uri, **parameters)))
    except RecallFell as fell:
        if not quiet and "counts" in fell.measured:
            show(summary_parts(dict(fell.measured)), as_json=False)
        raise


def chosen(named: list[str] | None, known: Sequence[N]) -> tuple[N, ...]:
    """The phases that were named, in the order of the flow; all of them where none was."""
    if wrong := [name for name in named or () if name not in known]:
        raise UnusableInput(f"There is no phase {wrong[0]!r}.", f"Choose among {', '.join(known)}.")
    return tuple(name for name in known if not named or name in named)


def watched(settings: W, gate: bool | None) -> W:
    """The settings of a flow with the gate that the flag chooses."""
    if gate is None:
        return settings
    return settings.model_copy(update={"gate": settings.gate.model_copy(update={"enabled": gate})})


def summary_parts(summary: dict[str, Any]) -> Shown:
    """The summary of a run, and its counts, decisions, cost and notes for a person."""
    from tasks.runtime.run_pages import SHOWN

    yield summary
    is_dry = summary.get("dry_run", False)
    yield count_table(summary)
    if summary["decisions"]:
        columns = ("decision", "fact", "reason")
        rows = [[row[name] for name in columns] for row in summary["decisions"]]
        is_cut = len(rows) == SHOWN and not is_dry
        more = f"The first {len(rows)}; all of them: slowwave why {summary['run']}" if is_cut else ""
        yield table("Decisions", columns, rows, more)
    yield call_line(summary["llm"])
    yield from note_lines(summary)


def communities(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show, the largest first.")] = 20,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """List communities with names, members and summaries."""
    context.obj = (store, namespace, as_json)
    if context.invoked_subcommand is None:
        show(_communities(Place.of(store, namespace), limit), as_json)


def _communities(place: Place, limit: int) -> Shown:
    with OpenMemory(place) as memory:
        total, found = memory.communities(limit)
    yield {"total": total, "communities": found}
    if not found:
        yield "No communities were found yet. Find them with: slowwave communities refresh"
        return
    caption = f"{len(found)} of {total}; the story of one: slowwave why ID"
    columns = ("name", "count", "about", "members", "id")
    rows = []
    for one in found:
        named = ", ".join(member.name for member in one.members[:NAMED])
        more = f" and {one.size - NAMED} more" if one.size > NAMED else ""
        about = one.summary or (OUTDATED if one.is_outdated else "(not summarised yet)")
        rows.append((one.name, one.size, about, f"{named}{more}", short_id(one.id)))
    yield table("Communities", columns, rows, caption)


def communities_refresh(
    context: typer.Context,
    *,
    model: ModelFlags,
    gate: Gate = None,
    dry_run: DryRun = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> Shown:
    """Compute communities again and summarise those that changed. The others cost nothing."""
    from flows.maintenance import communities as flow

    store_before, namespace_before, json_before = context.obj  # options may stand before the word `refresh`, too
    place = Place.of(store or store_before, namespace if namespace != "default" else namespace_before)
    as_json = as_json or json_before
    own = watched(with_flags(place.settings, model).communities, gate)
    summary = run_flow(flow, place, as_json, settings=own, dry_run=dry_run)
    yield from summary_parts(summary)
    end(summary, "summarised", "communities")


def reembed(
    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder", metavar="PROVIDER/MODEL", help="The new model; default `embedder` in slowwave.toml."
        ),
    ] = None,
    gate: Gate = None,
    dry_run: DryRun = False,
    *,
    place: Place,
    as_json: JsonOption = False,
) -> Shown:
    """Change the embedding model of all rows in one commit. No language model is called."""
    from flows.oversight import reembed as flow

    parameters = {"embedder": embedder or place.settings.embedder, "dry_run": dry_run}
    return summary_parts(run_flow(flow, place, as_json, settings=watched(place.settings.reembed, gate), **parameters))


def fleet(
    phase: Annotated[
        list[str] | None, typer.Option("--phase", help="Phases of the night; may be repeated; default all.")
    ] = None,
    width: Annotated[int | None, typer.Option("--width", min=1, help="How many namespaces at once.")] = None,
    *,
    model: ModelFlags,
    gate: Gate = None,
    dry_run: DryRun = False,
    store: StoreOption = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="PATTERN", help="Which memories: a pattern such as 'tenant-*'.")
    ] = "*",
    as_json: JsonOption = False,
) -> Shown:
    """Run a night in each of many namespaces, several at a time. Budgets count for each namespace."""
    from flows.nights import NIGHT
    from flows.nights import fleet as flow

    place = Place.of(store, namespace)
    nightly = nightly_settings(place, model, gate)
    given = {} if width is None else {"width": width}
    own = parse_settings({"fleet": place.settings.fleet.model_dump() | given}, "the command line").fleet
    settings = FleetSettings(**own.model_dump(), sleep=nightly)
    summary = run_flow(flow, place, as_json, phases=chosen(phase, NIGHT), settings=settings, dry_run=dry_run)
    yield summary
    rows = [
        (row["namespace"], row["state"], row["calls"], f"{row['usd']:.4f}", row["error"] or row["changed"] or "nothing")
        for row in summary["namespaces"]
    ]
    each = "Each is a run of its memory: slowwave runs --namespace NAME"
    more = "A dry run: nothing was written." if dry_run else each
    yield table(f"Fleet: {summary['state']}", FLEET_COLUMNS, rows, more)
    end(summary, "done", "namespaces")
