"""Commands that part an entity which holds too much: find, analyze, propose, execute; only the last one changes it."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.errors import UnusableInput
from slowwave.lexicon.labels import shown_relation, shown_type
from slowwave.review.proposals import Person

from .options import JsonOption, NamespaceOption, Place, StoreOption
from .printing import out, print_json, short_id, show_undo, table

if TYPE_CHECKING:
    from slowwave.splitting.split_plan import SplitPart
    from slowwave.splitting.split_suggestions import TopicAnalysis
    from tasks.people.splitting import SplitDone
    from tasks.runtime.runs import Run

SHOWN, EXAMPLES = 12, 2
EntityName = Annotated[
    str, typer.Argument(metavar="ENTITY", help="An entity: a whole name or alias, 'name (type)', or its id.")
]
PlanOption = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE.json", help="Your own splits, as `propose --dry-run --json` shows them.",
                 show_default=False),
]  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    split = typer.Typer(no_args_is_help=True, help="Part an entity that holds too much of several topics.")
    for command in (find, analyze, propose, execute):
        split.command()(command)
    app.add_typer(split, name="split")


def find(
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Entities that hold more than their type should, of several topics. Nothing is changed."""
    from recall.splits import find_split_candidates

    place = Place.of(store, namespace)
    found = find_split_candidates(place.store().snapshot(), place.settings.split, datetime.now(UTC))
    if as_json:
        print_json({"candidates": [each.as_json() for each in found]})
        return
    if not found:
        out.print("No entity holds too much of several topics.")
        return
    rows = [
        (each.entity_name, shown_type(each.entity_type, place.locale), each.observation_count, each.threshold,
         each.split_score, _listed(list(each.topics.items())))
        for each in found
    ]  # fmt: skip
    out.print(table("Could be split", ("entity", "type", "count", "enough", "score", "about"), rows))
    out.print("Next: slowwave split analyze ENTITY")


def _listed(topics: Sequence[tuple[str, int]]) -> str:
    large = [f"{label} ({count})" for label, count in topics if count > 1]
    more = [f"{len(large) - 4} more"] if len(large) > 4 else []
    return ", ".join([*large[:4], *more])


def analyze(
    entity: EntityName,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """How full an entity is, and which topics it holds. Nothing is changed."""
    from recall.splits import analyze_split

    place = Place.of(store, namespace)
    seen = analyze_split(place.store().snapshot(), place.settings.split, datetime.now(UTC), entity)
    if as_json:
        print_json(seen.as_json())
    else:
        _show_analysis(seen, place)


def _show_analysis(seen: TopicAnalysis, place: Place) -> None:
    kind = shown_type(seen.entity_type, place.locale)
    out.print(
        f"{seen.entity_name} ({kind}): {seen.observation_count} observations, {seen.threshold} are enough; "
        f"score {seen.split_score:.2f}.",
        markup=False,
    )
    large = {label: observations for label, observations in seen.topics.items() if len(observations) > 1}
    if large:
        rows = [
            (label, len(observations), _examples(observations)) for label, observations in list(large.items())[:SHOWN]
        ]
        alone = seen.observation_count - sum(map(len, large.values()))
        more = f"{len(large) - SHOWN} topics more; " if len(large) > SHOWN else ""
        out.print(table("Topics", ("topic", "count", "for example"), rows, f"{more}{alone} observations stand alone"))
    if seen.is_distinct:
        out.print(f"Next: slowwave split propose {seen.entity_name!r}", markup=False)
    else:
        out.print("It need not be split." if not seen.topics else "It is not of several topics: nothing to split.")


def _examples(observations: Sequence[tuple[str, str]]) -> str:
    return "\n".join(content if len(content) <= 90 else f"{content[:89]}…" for _, content in observations[:EXAMPLES])


def propose(
    entity: EntityName,
    plan: PlanOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it; leave no proposal.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Leave a split for a person to approve: what its topics suggest, or your own plan."""
    from tasks.people.splitting import propose as leave

    place = Place.of(store, namespace)
    if dry_run:
        _show_suggestion(place, entity, as_json)
        return
    run = _run("split-propose", place)
    made = leave(run, entity, place.settings.split, None if plan is None else _splits(plan))
    if as_json:
        print_json({"run": run.id, **asdict(made)})
        return
    _show_splits(made.message, made.splits, place)
    out.print(f"It waits as {made.proposal_id}.", markup=False)
    out.print(f"Approve: slowwave review approve {short_id(made.proposal_id)}", markup=False)
    out.print(f"or:      slowwave split execute {made.entity!r}", markup=False)
    out.print(f"Rename:  slowwave review modify {short_id(made.proposal_id)} --rename OLD=NEW", markup=False)


def _show_suggestion(place: Place, entity: str, as_json: bool) -> None:
    from recall.splits import suggest_split

    found = suggest_split(place.store().snapshot(), place.settings.split, datetime.now(UTC), entity)
    if as_json:
        print_json(found.as_json())
    elif found.splits:
        _show_splits(found.message, found.splits, place)
    else:
        out.print(found.message, markup=False)


def _show_splits(title: str, splits: Sequence[SplitPart], place: Place) -> None:
    rows = [(each.name, shown_type(each.entity_type, place.locale), len(each.observations)) for each in splits]
    ends = " and ".join(shown_relation(word, place.locale) for word in ("contains", "part_of"))
    out.print(title, markup=False)
    out.print(table("", ("new entity", "type", "count"), rows, f"each with {ends}; the rest stays where it is"))


def execute(
    entity: EntityName,
    proposal: Annotated[
        str | None, typer.Option("--proposal", metavar="ID", help="Which, where several wait.", show_default=False)
    ] = None,
    plan: PlanOption = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="NAME", help="Who says yes; else $SLOWWAVE_PERSON, or you.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Split an entity: what waits for it, or your own plan. Who executes approves. Exit code 4 if nothing waits."""
    from tasks.people import splitting

    if proposal is not None and plan is not None:
        raise UnusableInput("--proposal and --plan exclude each other.", "Leave one of them out.")
    place = Place.of(store, namespace)
    run, brought = _run("split", place), None if plan is None else _read(plan)
    if dry_run:
        done = splitting.preview(run, entity, proposal=proposal, plan=brought)
    else:
        person = Person(by or os.environ.get("SLOWWAVE_PERSON") or getpass.getuser(), "terminal")
        done = splitting.execute(run, entity, person, place.settings.split, proposal=proposal, plan=brought)
    if as_json:
        print_json({"run": None if dry_run else run.id, "dry_run": dry_run, **done.as_json()})
        return
    _show_done(done, dry_run)
    if not dry_run:
        show_undo(run.id, run.namespace)


def _show_done(done: SplitDone, dry_run: bool) -> None:
    verb = "would move" if dry_run else "moved"
    left = f"{done.original_observations_remaining} {'would stay' if dry_run else 'stay'} with it"
    out.print(f"{done.entity}: {done.moved_observations} observations {verb}, {left}.", markup=False)
    rows = [(name, short_id(id_)) for id_, name in done.new_entities]
    out.print(table("New entities", ("entity", "id"), rows))


def _read(plan: Path) -> Any:
    try:
        return json.loads(plan.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnusableInput(f"{plan} is no JSON that can be read: {error}.", "Make one: slowwave split propose "
                            "ENTITY --dry-run --json > plan.json") from error  # fmt: skip


def _splits(plan: Path) -> tuple[SplitPart, ...]:
    from slowwave.splitting.split_plan import splits_of

    return splits_of(_read(plan))


def _run(name: str, place: Place) -> Run:
    from tasks.runtime.runs import existing_run

    return existing_run(name, place.uri, place.namespace, retention=place.settings.retention)
