"""Commands that maintain memory: the phases of the nightly run, one by one or all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast, get_args

import typer

from slowwave.deduplication.pairs_for_a_model import Mode
from slowwave.errors import RecallFell, UnusableInput
from slowwave.settings import (
    CommunitySettings,
    ConsolidateSettings,
    DecaySettings,
    Group,
    SleepSettings,
    StewardSettings,
)
from slowwave.timestamps import parse_moment

from .configuration import with_flags
from .options import (
    JsonOption,
    MaxCallsOption,
    MaxTokensOption,
    MaxUsdOption,
    NamespaceOption,
    Place,
    RequireApproval,
    StoreOption,
)
from .printing import end, err, out, print_json, progress, run_title, table

MODES = get_args(Mode)
LlmOption = Annotated[
    str | None,
    typer.Option("--llm", metavar="PROVIDER/MODEL", help="Who decides; 'rules' needs no key.", show_default=False),
]
GateOption = Annotated[
    bool | None,
    typer.Option("--gate/--no-gate", help="Take it back if recall gets worse.", show_default=False),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
T = TypeVar("T", bound=Group)
W = TypeVar("W", ConsolidateSettings, StewardSettings, DecaySettings, CommunitySettings)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (consolidate, steward, decay, upkeep, sleep):
        app.command()(command)


def consolidate(
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Look again at what was learned since then.", show_default=False),
    ] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this project.", show_default=False)] = None,
    mode: Annotated[str, typer.Option("--mode", help="auto, pairwise or cluster.")] = "auto",
    artifacts: Annotated[
        bool, typer.Option("--artifacts/--no-artifacts", help="Link versions of documents too.")
    ] = True,
    llm: LlmOption = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    gate: GateOption = None,
    require_approval: RequireApproval = False,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Merge facts that say the same, with lineage to the originals. A second run changes nothing and costs nothing."""
    from flows.consolidate import consolidate as flow

    if mode not in MODES:
        raise UnusableInput(f"There is no mode {mode!r}.", f"Choose one of {', '.join(MODES)}.")
    place = Place.of(store, namespace)
    flags = {"model": llm, "max_usd": max_usd, "max_calls": max_calls, "max_tokens": max_tokens}
    own = with_flags("consolidate", place.settings.consolidate, flags).consolidate
    since_when = parse_moment(since) if since else None
    parameters = {"since": since_when, "scope": scope, "mode": cast(Mode, mode), "artifacts": artifacts}
    how = {"require_approval": require_approval, "dry_run": dry_run}
    summary = run_flow(flow, place, as_json, settings=watched(own, place, gate), **parameters, **how)
    show_summary(summary, as_json)
    end(summary, "decided", "facts")


def steward(
    phase: Annotated[
        list[str] | None, typer.Option("--phase", help="score, prune or merge; several times; all unless given.")
    ] = None,
    llm: LlmOption = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    gate: GateOption = None,
    require_approval: RequireApproval = False,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Score facts by how they are used; let fade what nobody ever recalled; merge what repeats."""
    from flows.steward import PHASES
    from flows.steward import steward as flow

    place = Place.of(store, namespace)
    flags = {"model": llm, "max_usd": max_usd, "max_calls": max_calls, "max_tokens": max_tokens}
    own = watched(with_flags("steward", place.settings.steward, flags).steward, place, gate)
    how = {"require_approval": require_approval, "dry_run": dry_run}
    summary = run_flow(flow, place, as_json, phases=chosen(phase, PHASES), settings=own, **how)
    show_summary(summary, as_json)
    if summary["counts"].get("facts pruned") and not dry_run and not as_json:
        out.print("What faded: slowwave archived. Back with: slowwave restore ID", markup=False)
    end(summary, "decided", "facts")


def decay(
    gate: GateOption = None,
    require_approval: RequireApproval = False,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Move closed facts and entities of which nothing is known to the archive; let links fade."""
    from flows.decay import decay as flow

    place = Place.of(store, namespace)
    how = {"require_approval": require_approval, "dry_run": dry_run}
    summary = run_flow(flow, place, as_json, settings=watched(place.settings.decay, place, gate), **how)
    show_summary(summary, as_json)
    end(summary, "moved", "rows")


def upkeep(store: StoreOption = None, namespace: NamespaceOption = "default", as_json: JsonOption = False) -> None:
    """Compact, index, and drop versions that are older than the days of undo."""
    from flows.upkeep import upkeep as flow

    place = Place.of(store, namespace)
    show_summary(run_flow(flow, place, as_json, settings=place.settings.retention), as_json)


def sleep(
    phase: Annotated[
        list[str] | None,
        typer.Option(
            "--phase", help="consolidate, steward, decay, communities or upkeep; several times; all unless given."
        ),
    ] = None,
    llm: LlmOption = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    gate: GateOption = None,
    require_approval: RequireApproval = False,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """The whole night, phase by phase. A phase after which recall got worse is taken back."""
    from flows.sleep import NIGHT
    from flows.sleep import sleep as flow

    place = Place.of(store, namespace)
    flags = {"model": llm, "max_usd": max_usd, "max_calls": max_calls, "max_tokens": max_tokens}
    settings = nightly_settings(place, flags, gate)
    how = {"require_approval": require_approval, "dry_run": dry_run}
    summary = run_flow(flow, place, as_json, phases=chosen(phase, NIGHT), settings=settings, **how)
    show_summary(summary, as_json)
    end(summary, "done", "phases")


def nightly_settings(place: Place, flags: Mapping[str, Any], gate: bool | None = None) -> SleepSettings:
    """Settings of the nightly run: those of the file for each phase, with the model settings of the flags."""
    watch = place.settings.sleep
    return SleepSettings(
        consolidate=place.kept(with_flags("consolidate", place.settings.consolidate, flags).consolidate),
        steward=place.kept(with_flags("steward", place.settings.steward, flags).steward),
        decay=place.kept(place.settings.decay),
        communities=with_flags("communities", place.settings.communities, flags).communities,
        gate=watch if gate is None else watch.model_copy(update={"enabled": gate}),
        retention=place.settings.retention,
    )


def run_flow(
    flow: Callable[..., Awaitable[dict[str, Any]]], place: Place, quiet: bool, **parameters: Any
) -> dict[str, Any]:
    """The summary of a run of the flow; progress goes to stderr."""
    try:
        with progress(quiet=quiet):
            return asyncio.run(cast(Any, flow(namespace=place.namespace, store=place.uri, **parameters)))
    except RecallFell as fell:
        if not quiet and "counts" in fell.measured:
            show_summary(dict(fell.measured), as_json=False)
        raise


N = TypeVar("N", bound=str)


def chosen(named: list[str] | None, known: Sequence[N], what: str = "phase") -> tuple[N, ...]:
    """The phases that were named, in the order of the flow; all of them where none was."""
    if wrong := [name for name in named or () if name not in known]:
        raise UnusableInput(f"There is no {what} {wrong[0]!r}.", f"Choose among {', '.join(known)}.")
    return tuple(name for name in known if not named or name in named)


def watched(settings: W, place: Place, gate: bool | None) -> W:
    """The settings of a flow with those of the file for all flows, and the gate that the flag chooses."""
    kept = place.kept(settings)
    return kept if gate is None else kept.model_copy(update={"gate": kept.gate.model_copy(update={"enabled": gate})})


def show_summary(summary: dict[str, Any], as_json: bool) -> None:
    """Show the counts and decisions of a run, for a person or as JSON."""
    from tasks.runtime.decisions_shown import SHOWN
    from tasks.runtime.run_pages import size_line

    if as_json:
        print_json(summary)
        return
    title, is_dry = run_title(summary), summary.get("dry_run", False)
    if summary["counts"]:
        out.print(table(title, ("what", "count"), list(summary["counts"].items())))
    else:
        out.print(title, style="bold", markup=False)
    if summary["decisions"]:
        columns = ("decision", "fact", "reason")
        rows = [[row[name] for name in columns] for row in summary["decisions"]]
        is_cut = len(rows) == SHOWN and not is_dry
        more = f"The first {len(rows)}; all of them: slowwave why {summary['run']}" if is_cut else ""
        out.print(table("Decisions", columns, rows, more))
    llm = summary["llm"]
    if llm["calls"] or llm["from ledger"]:
        out.print(
            f"{llm['model']}: {llm['calls']} calls, {llm['from ledger']} from the ledger, {llm['usd']:.4f} dollars"
        )
    if "bytes" in summary and not is_dry:
        out.print(size_line(summary))
    for error in summary["errors"]:
        err.print(f"  {error}", markup=False, style="red")
    for line in summary["notes"]:
        out.print(line, markup=False)
