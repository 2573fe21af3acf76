"""The command that asks a model what is remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .configuration import answering
from .options import (
    AlsoOption,
    AsOf,
    JsonOption,
    KnownAsOf,
    MaxCallsOption,
    MaxUsdOption,
    NamespaceOption,
    Place,
    StoreOption,
    time_of,
)
from .printing import err, out, print_json
from .tables import Speakers, fact_lines, passage_lines

if TYPE_CHECKING:
    from slowwave.types import Reply


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(ask)


def ask(
    question: Annotated[str, typer.Argument(help="What you want to know.")],
    tokens: Annotated[
        int, typer.Option("--tokens", min=100, help="Room for what is recalled and shown to the model.")
    ] = 2000,
    scope: Annotated[str | None, typer.Option("--scope", help="Only facts of this scope.", show_default=False)] = None,
    as_of: AsOf = None,
    known_as_of: KnownAsOf = None,
    also: AlsoOption = None,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Have the model put the question into other words first: one call more.")
    ] = False,
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="PROVIDER/MODEL", help="Who answers; default [ingest.llm].", show_default=False),
    ] = None,
    max_usd: MaxUsdOption = None,
    max_calls: MaxCallsOption = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Answer a question from what is remembered, in one call of a model, with what the answer rests on."""
    place = Place.of(store, namespace)
    who = answering(place.settings, llm, max_usd=max_usd, max_calls=max_calls)
    with place.memory() as memory:
        reply = memory.ask(
            question,
            who,
            tokens,
            scope=scope,
            as_of=time_of(as_of),
            known_as_of=time_of(known_as_of),
            also=also or (),
            rewrite=rewrite,
        )
        speakers = {} if as_json else memory.speakers(reply.facts)
    if as_json:
        print_json(reply.as_json())
        return
    _show(reply, speakers)


def _show(reply: Reply, speakers: Speakers) -> None:
    out.print(reply.text, markup=False)
    if reply.facts:
        out.print(fact_lines("It rests on", reply.facts, speakers))
    if reply.passages:
        out.print(passage_lines("" if reply.facts else "It rests on", reply.passages))
    for note in reply.notes:
        err.print(note, markup=False)
    if reply.model:
        err.print(f"{reply.model}: {_cost(reply)}", style="dim", markup=False)


def _cost(reply: Reply) -> str:
    paid = reply.usage
    if not paid.calls:
        return "answered before, nothing was paid"
    return f"{paid.tokens_in:,} tokens in, {paid.tokens_out:,} out, ${paid.usd:.4f}"
