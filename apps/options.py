"""The options that commands share, each once; and how a function becomes a command.

A command is a function that yields: first the document of `--json`, then what a person sees (`Shown`).
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NewType

import typer

from .configuration import Place
from .printing import show

Shown = Iterator[Any]
"""The document of a command, then the lines, tables and asides for a person."""

StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="URI", help="The store; default ./memory or $SLOWWAVE_STORE.")
]
NamespaceOption = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Which memory inside the store.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")]

# What is read

EntityName = Annotated[str, typer.Argument(metavar="ENTITY", help="An entity, by any of its names.")]
ExactEntity = Annotated[
    str, typer.Argument(metavar="ENTITY", help="An entity: a whole name or alias, 'name (type)', or its id.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many to show.")]
AsOf = Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="What was true then.")]
KnownAsOf = Annotated[str | None, typer.Option("--known-as-of", metavar="TIME", help="What was believed then.")]
Now = Annotated[
    str | None, typer.Option("--now", metavar="TIME", help="The time that counts as now; default the clock's.")
]
Scope = Annotated[str | None, typer.Option("--scope", help="Only facts of this scope, for example a project.")]
OnlyOption = Annotated[
    Literal["facts", "messages"] | None, typer.Option("--only", help="Only facts, or only passages of messages.")
]
AlsoOption = Annotated[
    list[str] | None, typer.Option("--also", metavar="TEXT", help="The question in other words; may be repeated.")
]
FactsAtMost = Annotated[int | None, typer.Option("--k", min=1, max=1000, help="How many facts at most.")]

# What is changed

Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="Facts, by the ids that tables show.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
RequireApproval = Annotated[
    bool, typer.Option("--require-approval", help="Leave every change for a person: slowwave review.")
]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides; default $SLOWWAVE_PERSON, or you.")]
Gate = Annotated[bool | None, typer.Option("--gate/--no-gate", help="Undo the run if recall gets worse.")]
Llm = Annotated[str | None, typer.Option("--llm", metavar="PROVIDER/MODEL", help="Which model; 'quotes' needs no key.")]
MaxUsd = Annotated[float | None, typer.Option("--max-usd", help="Stop cleanly at this cost in dollars.")]
MaxCalls = Annotated[int | None, typer.Option("--max-calls", help="Stop cleanly after this many model calls.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", help="Stop cleanly after this many tokens, in and out.")]

ModelFlags = NewType("ModelFlags", dict[str, Any])
"""The model and its budget as a command was given them, in the names of the settings; None: not given."""


RunFlags = NewType("RunFlags", dict[str, Any])
"""How a run of maintenance is to go: `gate` (None: as the settings say), `require_approval`, `dry_run`."""


def _place(store: StoreOption = None, namespace: NamespaceOption = "default") -> Place:
    return Place.of(store, namespace)


def _model_flags(
    llm: Llm = None, max_usd: MaxUsd = None, max_calls: MaxCalls = None, max_tokens: MaxTokens = None
) -> ModelFlags:
    return ModelFlags({"model": llm, "max_usd": max_usd, "max_calls": max_calls, "max_tokens": max_tokens})


def _run_flags(gate: Gate = None, require_approval: RequireApproval = False, dry_run: DryRun = False) -> RunFlags:
    return RunFlags({"gate": gate, "require_approval": require_approval, "dry_run": dry_run})


_MADE: Mapping[object, Callable[..., Any]] = {Place: _place, ModelFlags: _model_flags, RunFlags: _run_flags}


def command_of(function: Callable[..., Any]) -> Callable[..., None]:
    """What Typer calls. A parameter of a type in `_MADE` stands for the options that it is made from.

    One that returns `Shown` takes `--json`, whether it has a parameter for it or not.
    """
    signature = inspect.signature(function, eval_str=True)
    is_shown = signature.return_annotation == Shown
    makers = {each.name: _MADE[each.annotation] for each in signature.parameters.values() if each.annotation in _MADE}
    taken: dict[str, inspect.Parameter] = {}
    for key, each in signature.parameters.items():
        own = inspect.signature(makers[key], eval_str=True).parameters if key in makers else {key: each}
        taken |= {option: parameter.replace(kind=parameter.KEYWORD_ONLY) for option, parameter in own.items()}
    if is_shown:
        json = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption)
        taken.setdefault("as_json", json)

    @functools.wraps(function)
    def command(**given: Any) -> None:
        as_json, namespace = given.get("as_json", False), given.get("namespace")
        named = {"--store": given.get("store"), "--namespace": None if namespace == "default" else namespace}
        place = " ".join(f"{option} {shlex.quote(name)}" for option, name in named.items() if name)
        for made, maker in makers.items():
            given[made] = maker(**{option: given.pop(option) for option in inspect.signature(maker).parameters})
        done = function(**{key: value for key, value in given.items() if key in signature.parameters})
        if is_shown:
            show(done, as_json, place)

    command.__signature__ = signature.replace(parameters=[*taken.values()])  # type: ignore[attr-defined]
    command.__annotations__ = {key: option.annotation for key, option in taken.items()}
    return command
