"""Commands about communities: what belongs together, and finding it anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .configuration import with_flags
from .maintain_commands import DryRunOption, GateOption, LlmOption, run_flow, show_summary, watched
from .options import JsonOption, MaxCallsOption, MaxTokensOption, MaxUsdOption, NamespaceOption, Place, StoreOption
from .printing import end, out, print_json, short_id, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.types import Community

NAMED = 8
"""Members that the table shows of each."""
OUTDATED = "(changed since; told anew by the next refresh)"

LimitOption = Annotated[int, typer.Option("--limit", min=1, help="How many, the largest first.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    group = typer.Typer(invoke_without_command=True, help="What belongs together: names, members, summaries.")
    group.callback()(communities)
    group.command()(refresh)
    app.add_typer(group, name="communities")


def communities(
    context: typer.Context,
    limit: LimitOption = 20,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What belongs together: groups of entities with their names and what each is about, the largest first."""
    context.obj = (store, namespace, as_json)
    if context.invoked_subcommand is not None:
        return
    with Place.of(store, namespace).memory() as memory:
        total, found = memory.communities(limit)
    if as_json:
        print_json({"total": total, "communities": [one.as_json() for one in found]})
    elif not found:
        out.print("No communities were found yet. Find them with: slowwave communities refresh")
    else:
        caption = f"{len(found)} of {total}; the story of one: slowwave why ID"
        out.print(community_table(found, caption))


def community_table(found: Sequence[Community], caption: str = "") -> RenderableType:
    """Communities as a table; the count is of members."""
    return table("Communities", ("name", "count", "about", "members", "id"), list(map(_cells, found)), caption)


def _cells(one: Community) -> tuple[str, int, str, str, str]:
    named = ", ".join(member.name for member in one.members[:NAMED])
    more = f" and {one.size - NAMED} more" if one.size > NAMED else ""
    about = one.summary or (OUTDATED if one.is_outdated else "(not summarised yet)")
    return one.name, one.size, about, f"{named}{more}", short_id(one.id)


def refresh(
    context: typer.Context,
    algorithm: Annotated[
        str | None,
        typer.Option("--algorithm", help="label_propagation or leiden (needs slowwave[leiden]).", show_default=False),
    ] = None,
    llm: LlmOption = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    gate: GateOption = None,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Find communities anew and summarise those that changed. What did not change costs nothing."""
    from flows.communities import communities as flow

    store_before, namespace_before, json_before = context.obj  # options may stand before the word `refresh`, too
    place = Place.of(store or store_before, namespace if namespace != "default" else namespace_before)
    as_json = as_json or json_before
    flags = {"model": llm, "max_usd": max_usd, "max_calls": max_calls, "max_tokens": max_tokens}
    own = with_flags("communities", place.settings.communities, flags, algorithm=algorithm).communities
    summary = run_flow(flow, place, as_json, settings=watched(own, place, gate), dry_run=dry_run)
    show_summary(summary, as_json)
    end(summary, "summarised", "communities")
