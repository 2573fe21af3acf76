"""Commands that look and change nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.errors import UnusableInput
from slowwave.lexicon.labels import Locale, shown_relation, shown_type

from .options import AlsoOption, AsOf, JsonOption, KnownAsOf, NamespaceOption, OnlyOption, Place, StoreOption, time_of
from .printing import err, marked_statement, out, print_json, short_id, table, validity
from .tables import (
    SHOWN_PASSAGES,
    Speakers,
    fact_lines,
    history_lines,
    parts_lines,
    passage_lines,
    passages_table,
    print_story,
    print_whole_story,
    recall_table,
    uncertain_table,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recall.memory import Memory
    from slowwave.types import Entity, RecalledFact, Recollection

USE = ("learning", "learning_events", "prune_threshold", "min_quality", "facts_scored", "facts_below_min_quality")
_FACT_ID = re.compile(r"f_[0-9a-f][0-9a-f_]*")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (recall, facts, history, entities, why, stats, quality):
        app.command()(command)


def recall(
    query: Annotated[str, typer.Argument(help="A question or a few words.")],
    k: Annotated[
        int | None, typer.Option("--k", min=1, max=1000, help="Facts at most; default 10.", show_default=False)
    ] = None,
    as_of: AsOf = None,
    known_as_of: KnownAsOf = None,
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph",
            metavar="MODE",
            help="Follow relations: none, bfs or spread; default [recall] graph.",
            show_default=False,
        ),
    ] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Only facts of this scope.", show_default=False)] = None,
    conversation: Annotated[
        str | None,
        typer.Option(
            "--conversation", metavar="ID", help="The one that is going on: its facts come sooner.", show_default=False
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, help="Only what the last so many conversations were about.", show_default=False),
    ] = None,
    only: OnlyOption = None,
    also: AlsoOption = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts, with their scores and ids.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Also how each fact came to its place.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Ranked facts that answer a question, with their validity and source, and passages of messages beside them."""
    from slowwave.ranking.order import UNLIKELY, is_weak

    with Place.of(store, namespace).memory() as memory:
        found = memory.recall(
            query, k, scope=scope, as_of=time_of(as_of), known_as_of=time_of(known_as_of), graph=graph,
            episode=conversation, last=last, only=only, also=also or (),
        )  # fmt: skip
        speakers = {} if as_json or full else memory.speakers(found.facts)
    if as_json:
        print_json(found.as_json(explained=explain))
        return
    if found.is_timed_out:
        out.print("The memory did not answer in time. Ask again, or raise `recall_timeout_ms` (docs/settings.md).")
    elif not (found.facts or found.passages):
        out.print("Nothing is known about that. Try other words, or `slowwave entities`.")
    if full:
        if found.facts:
            out.print(recall_table(found))
        if found.passages:
            out.print(passages_table(found))
    else:
        _show_lines(found, speakers)
    if is_weak(found.match):
        out.print(UNLIKELY)
    if found.facts and explain:
        out.print(parts_lines(found))
    if found.uncertain:
        out.print(uncertain_table(found.uncertain))


def _show_lines(found: Recollection, speakers: Speakers) -> None:
    if found.facts:
        took = f"{found.took_ms:.0f} ms; --full shows whole texts, scores and ids"
        out.print(fact_lines(found.query, found.facts, speakers, took))
    if found.passages:
        best = found.passages[:SHOWN_PASSAGES]
        more = len(found.passages) - len(best)
        out.print(passage_lines("In messages", best, f"…and {more} more: --full" if more else ""))


def facts(
    name: Annotated[str, typer.Argument(help="An entity, by any of its names.")],
    as_of: AsOf = None,
    known_as_of: KnownAsOf = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what is superseded, retracted or rejected.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What is known about an entity."""
    place = Place.of(store, namespace)
    with place.memory() as memory:
        entity, known = memory.facts_of(
            name, as_of=time_of(as_of), known_as_of=time_of(known_as_of), everything=everything
        )
    if as_json:
        print_json({"entity": asdict(entity), "facts": [fact.as_json() for fact in known]})
        return
    now = datetime.now(UTC)
    alike: dict[tuple[str, ...], list[RecalledFact]] = {}  # facts of one sentence are one row with all its relations
    for fact in known:
        period = validity(fact.valid_from, fact.valid_to, fact.status == "active")
        alike.setdefault((marked_statement(fact, now), period, fact.status), []).append(fact)
    rows = [
        (
            words,
            "\n".join(shown_relation(fact.predicate, place.locale) for fact in facts),
            period,
            *([state] if everything else []),
            "\n".join(short_id(fact.id) for fact in facts),
        )
        for (words, period, state), facts in alike.items()
    ]
    status = ("status",) if everything else ()  # of facts of one time there is only one
    out.print(table(_title(entity, place.locale), ("fact", "relation", "valid", *status, "id"), rows))


def _title(entity: Entity, locale: Locale) -> str:
    also = f", also {', '.join(entity.aliases)}" if entity.aliases else ""
    return f"{entity.name} ({shown_type(entity.entity_type, locale)}){also}"


def history(
    subject: Annotated[str, typer.Argument(help="An entity by any of its names; or a fact's id, for its chain.")],
    predicate: Annotated[
        str | None, typer.Argument(help="Only what says this in its words or relation.", show_default=False)
    ] = None,
    relation: Annotated[
        str | None, typer.Option("--relation", help="Only of exactly this relation.", show_default=False)
    ] = None,
    known_as_of: KnownAsOf = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=1, help="How many to show; by default as many as the settings say.", show_default=False
        ),
    ] = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """All versions of what was known: when it held, why it ended, and what came after."""
    at, place = time_of(known_as_of), Place.of(store, namespace)
    with place.memory() as memory:
        if _FACT_ID.fullmatch(subject):
            if predicate or relation or known_as_of:
                raise UnusableInput("The chain of a fact is shown whole.", "Name an entity to narrow its history.")
            _show_chain(memory, subject, as_json)
            return
        entity, versions = memory.history(subject, predicate, relation=relation, known_as_of=at, limit=limit)
    if as_json:
        print_json({"entity": asdict(entity), "facts": [version.as_json() for version in versions]})
    elif versions:
        out.print(history_lines(_title(entity, place.locale), versions))
    else:
        narrowed = f" that says {predicate!r}" if predicate else f" of the relation {relation!r}" if relation else ""
        until = f" as of {known_as_of}" if known_as_of else ""
        out.print(
            f"Nothing is known about {entity.name}{narrowed}{until}. "
            f"`slowwave history {shlex.quote(entity.name)}` shows all versions of its facts.",
            markup=False,
        )


def _show_chain(memory: Memory, fact_id: str, as_json: bool) -> None:
    chain = memory.chain(fact_id)
    if as_json:
        print_json(chain.as_json())
        return
    out.print(history_lines("What replaced what, oldest first", chain.versions))
    if chain.has_circle:
        err.print("These facts replace each other in a circle: `slowwave doctor` tells more.")
    if chain.is_cut:
        err.print(f"Only the {len(chain.versions)} nearest facts are shown.")


def entities(
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show.")] = 50,
    type: Annotated[str | None, typer.Option("--type", help="Only of this type.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Archived ones as well.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Who and what is known, most talked about first."""
    place = Place.of(store, namespace)
    with place.memory() as memory:
        total, shown = memory.entities(limit=limit, entity_type=type, everything=everything)
    if as_json:
        print_json({"total": total, "entities": [asdict(entity) for entity in shown]})
        return
    out.print(entity_table(shown, f"…and {total - len(shown)} more" if total > len(shown) else "", place.locale))


def entity_table(shown: Sequence[Entity], caption: str = "", locale: Locale = "en") -> RenderableType:
    """Entities as a table; the count is of live facts."""
    rows = [
        (
            f"{e.name} (archived)" if e.is_archived else e.name,
            shown_type(e.entity_type, locale),
            e.facts,
            ", ".join(e.aliases),
            e.last_seen_at,
        )
        for e in shown
    ]
    return table("", ("name", "type", "count", "also known as", "last seen"), rows, caption)


def why(
    id: Annotated[
        str, typer.Argument(help="A fact, message, entity, community, conversation or run, or how its id begins.")
    ],
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    full: Annotated[bool, typer.Option("--full", help="All that is stored, as tables.")] = False,
    as_json: JsonOption = False,
) -> None:
    """The whole story of a fact: who said it, what was decided about it, what it replaced."""
    place = Place.of(store, namespace)
    with place.memory() as memory:
        story = memory.why(id)
    if as_json:
        print_json(story.as_json())
        return
    show = print_whole_story if full else print_story
    show(story, place.locale)


def stats(store: StoreOption = None, namespace: NamespaceOption = "default", as_json: JsonOption = False) -> None:
    """Counts of everything, and what the models cost."""
    from recall.overview import stats as count

    counted = count(Place.of(store, namespace).store(), datetime.now(UTC))
    if as_json:
        print_json(counted)
        return
    flat = [(k, v) for k, v in counted.items() if not isinstance(v, dict)]
    flat += [(f"{group} {k}", v) for group in ("facts", "llm") for k, v in counted[group].items()]
    out.print(table(f"Memory {namespace!r}", ("what", "count"), flat))


def quality(
    limit: Annotated[int, typer.Option("--limit", min=0, help="Refusals shown one by one.")] = 20,
    store: StoreOption = None,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """What was refused, by which gate and why; and how recalls steer what is kept."""
    from recall.overview import quality as assess

    place = Place.of(store, namespace)
    found = assess(place.store(), place.settings.steward, place.settings.recall.min_quality)
    if as_json:
        print_json(found)
        return
    out.print(table("Messages", ("state", "count"), list(found["messages"].items())))
    out.print(
        table(
            "Gates",
            ("gate", "count", "mean length", "for example", "reason"),
            [
                (g["gate"], g["refused"], g["mean_length"], (g["example"] or "")[:80], g["reason"])
                for g in found["gates"]
            ],
        )
    )
    use = found["use"]
    marked_statement = [("recalls", found["retrieval_events"]), *((what.replace("_", " "), use[what]) for what in USE)]
    out.print(table("Use", ("what", "count"), marked_statement))
    if use["top_facts"]:
        columns = ("statement", "hit_count", "avg_retrieval_score", "quality_score", "last_retrieved_at")
        rows = [(*(fact[name] for name in columns), short_id(fact["id"])) for fact in use["top_facts"]]
        out.print(table("Recalled most", ("fact", "count", "cosine", "score", "last", "id"), rows))
    if found["common_first_words"]:
        words = ", ".join(f"{word} ({times})" for word, times in found["common_first_words"].items())
        out.print(f"What is refused begins with: {words}", markup=False)
    shown = found["refusals"][:limit]
    if shown:
        out.print(
            table(
                "Refused",
                ("gate", "reason", "text"),
                [(r["gate"], r["reason"], (r["excerpt"] or "")[:100]) for r in shown],
            )
        )
    if len(found["refusals"]) > len(shown):
        err.print(f"…and {len(found['refusals']) - len(shown)} more; --limit or --json shows them.")
