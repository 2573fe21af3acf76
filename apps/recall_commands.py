"""Commands that answer a question: ranked facts, a block of context, or the answer of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from slowwave.common.arguments import TOKEN_BUDGET, checked_time
from slowwave.common.text import short_id
from slowwave.common.timestamps import day_of
from slowwave.common.types import NOTHING_KNOWN
from slowwave.integrations.python_api import GraphMode, OpenMemory

from .configuration import Place
from .options import AlsoOption, AsOf, FactsAtMost, KnownAsOf, MaxCalls, MaxUsd, Now, OnlyOption, Scope, Shown
from .printing import Aside, Whole, table, three_columns, validity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slowwave.common.types import Passage, RecalledFact

Speakers = Mapping[tuple[str, str], str]
"""Who said it, by conversation and message."""

SHOWN_PASSAGES = 3
LONGEST_NAME = 16
OverTime = Annotated[
    bool, typer.Option("--over-time", help="Lines from the whole time: for an order, a development, a summary.")
]


def recall(
    query: Annotated[str, typer.Argument(help="A question or a few words.")],
    k: FactsAtMost = None,
    as_of: AsOf = None,
    known_as_of: KnownAsOf = None,
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph",
            metavar="MODE",
            help="Follow relations: none, bfs (step by step) or spread (strong ones first); default [recall] graph.",
        ),
    ] = None,
    scope: Scope = None,
    only: OnlyOption = None,
    also: AlsoOption = None,
    now: Now = None,
    full: Annotated[
        bool, typer.Option("--full", help="Whole texts, with their scores and ids; in --json the parts of scores.")
    ] = False,
    *,
    place: Place,
) -> Shown:
    """Find the facts that answer a question, with validity and source, and passages of messages."""
    from recall.order import UNLIKELY, is_weak

    with OpenMemory(place) as memory:
        found = memory.recall(
            query, k, scope=scope, as_of=as_of, known_as_of=known_as_of, graph=cast(GraphMode | None, graph),
            only=only, also=also or (), now=now,
        )  # fmt: skip
        yield found.as_json(explained=full)
        speakers = memory.speakers(found.facts)
    if found.is_timed_out:
        yield "The memory did not answer in time. Ask again, or raise `recall_timeout_ms` (docs/settings.md)."
    elif not (found.facts or found.passages):
        way_on = "Try other words, or `slowwave entities`."
        if known_as_of is not None:
            way_on = "--known-as-of asks what this memory knew then, and it knows what it reads from the time of "
            way_on += "`ingest` on."
        yield f"{NOTHING_KNOWN} {way_on}"
    if is_weak(found.match):
        yield f"{UNLIKELY} The nearest:"
    if found.facts:
        behind = "behind each its score and id" if full else "--full shows whole texts, scores and ids"
        took = f"{found.took_ms:.0f} ms; {behind}"
        yield fact_lines(found.query, found.facts, speakers, took, checked_time(as_of), full=full)
    if found.passages:
        best = found.passages[: None if full else SHOWN_PASSAGES]
        more = len(found.passages) - len(best)
        yield passage_lines("In messages", best, f"…and {more} more: --full" if more else "", full=full)
    if found.uncertain:
        rows = [
            (belief.statement, f"{belief.probability:.2f}", ", ".join(source.message_id for source in belief.evidence))
            for belief in found.uncertain
        ]
        yield table("Not sure yet", ("perhaps", "probability", "said in"), rows)


def context(
    query: Annotated[str, typer.Argument(help="A question or a few words.")],
    tokens: Annotated[int, typer.Option("--tokens", min=0, help="The maximal size of the block in tokens.")] = 500,
    k: FactsAtMost = None,
    scope: Scope = None,
    as_of: AsOf = None,
    only: OnlyOption = None,
    also: AlsoOption = None,
    fill: Annotated[bool, typer.Option("--fill", help="Fill --tokens, also with lines that hardly answer.")] = False,
    over_time: OverTime = False,
    now: Now = None,
    *,
    place: Place,
) -> Shown:
    """Show the facts for a question as a block of text for a prompt, marked as untrusted.

    The block has one dated sentence for each fact, fits into --tokens, and ends where more would hardly answer.
    """
    from inference.embedding import count_tokens

    how: dict[str, Any] = {"k": k, "scope": scope, "as_of": as_of, "only": only, "also": also or (), "now": now}
    with OpenMemory(place) as memory:
        block = memory.context_for(query, tokens, fill=fill, over_time=over_time, **how)
    yield {"query": query, "context": block, "tokens": count_tokens(block)}
    nothing = f"Nothing is known about that, nothing fits into {tokens} tokens, or reading took too long."
    yield Whole(block) if block else Aside(nothing)


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    tokens: Annotated[
        int, typer.Option("--tokens", min=100, help="How many tokens of facts and passages the model gets.")
    ] = TOKEN_BUDGET,
    scope: Scope = None,
    as_of: AsOf = None,
    known_as_of: KnownAsOf = None,
    also: AlsoOption = None,
    over_time: OverTime = False,
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="PROVIDER/MODEL", help="The model that answers; default [ingest.llm]."),
    ] = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    *,
    place: Place,
) -> Shown:
    """Answer a question from memory with one model call, and show the facts behind the answer."""
    with OpenMemory(place) as memory:
        reply = memory.ask(
            question, tokens, as_of=as_of, known_as_of=known_as_of, scope=scope, also=also or (),
            over_time=over_time, model=llm, max_usd=max_usd, max_calls=max_calls,
        )  # fmt: skip
        yield reply
        speakers = memory.speakers(reply.facts)
    yield reply.text
    if reply.facts:
        yield fact_lines("It rests on", reply.facts, speakers)
    if reply.passages:
        yield passage_lines("" if reply.facts else "It rests on", reply.passages)
    yield from map(Aside, reply.notes)
    if reply.model:
        paid = reply.usage
        cost = f"{paid.tokens_in:,} tokens in, {paid.tokens_out:,} out, ${paid.usd:.4f}"
        yield Aside(f"{reply.model}: {cost if paid.calls else 'answered before, nothing was paid'}")


# Facts and passages as lines.


def fact_lines(
    title: str,
    facts: Sequence[RecalledFact],
    speakers: Speakers,
    caption: str = "",
    at: datetime | None = None,
    *,
    full: bool = False,
) -> RenderableType:
    """A line for each fact: since when or when, unless on the day of the message; what; who said it, on which day.

    What is over at the time `at`, by default now, is marked. The `full` text is not cut, and has its score and id.
    """
    at = at or datetime.now(UTC)
    rows = []
    for n, fact in enumerate(facts, 1):
        more = f"  {fact.score:.2f}  {short_id(fact.id)}" if full else ""
        rows.append((str(n), _marked(fact, at), _source(fact, speakers) + more))
    return three_columns(title, rows, caption, is_cut=False if full else None)


def passage_lines(title: str, passages: Sequence[Passage], caption: str = "", *, full: bool = False) -> RenderableType:
    """A line for each passage of a message: the words, who said them and on which day."""
    rows = [("", f'"{" ".join(one.text.split())}"', _source_line(speaker_of(one), one.occurred_at)) for one in passages]
    return three_columns(title, rows, caption, is_cut=False if full else None)


def speaker_of(passage: Passage) -> str:
    """Who said it; a document speaks under its file name."""
    if passage.role == "document":
        return passage.conversation_id.rpartition("/")[2]
    return passage.speaker or passage.role


def _marked(fact: RecalledFact, at: datetime) -> str:
    """The statement after its warnings, which are not cut."""
    marks = [
        *(["no longer"] if fact.valid_to is not None and fact.valid_to <= at else []),
        *filter(None, [_when(fact)]),
        *(["disputed"] if fact.conflicts_with else []),
    ]
    return f"({', '.join(marks)}) {fact.statement}" if marks else fact.statement


def _when(fact: RecalledFact) -> str:
    """Since when, from when to when, or when it happens; empty where that is the day on which it was said."""
    start = fact.event_at or fact.valid_from
    first = min((source.occurred_at for source in fact.provenance if source.occurred_at), default=None)
    if fact.valid_to is not None:
        return validity(fact.valid_from, fact.valid_to)
    if start is None or (first is not None and start.date() == first.date()):
        return ""
    return day_of(start, fact.event_precision) if fact.event_at else f"since {day_of(start, fact.event_precision)}"


def _source(fact: RecalledFact, speakers: Speakers) -> str:
    """Who said it first, on which day, and how many messages more say it."""
    if not fact.provenance:
        return ""
    first = min(fact.provenance, key=lambda source: (str(source.occurred_at or "?"), source.conversation_id))
    more = len(fact.provenance) - 1
    who = speakers.get((first.conversation_id, first.message_id), "")
    return _source_line(who, first.occurred_at) + (f" +{more}" if more else "")


def _source_line(who: str, at: datetime | None) -> str:
    name = who if len(who) <= LONGEST_NAME else f"{who[: LONGEST_NAME - 1]}…"
    return " ".join(filter(None, [name, f"{at:%Y-%m-%d}" if at else ""]))
