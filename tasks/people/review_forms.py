"""The form in which a person decides in the Prefect UI: built from what waits, and read again when it is filled in.

It has no validators of its own: one that objects would fail the run. `slowwave.review.proposals.complaints` looks at
the answer afterwards. Stored text is text in it, never Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from recall.proposals import Proposal, observations_of, summary_of
from slowwave.deduplication.observations import named_by
from slowwave.review.proposals import (
    EACH,
    Bulk,
    ProposalQuestion,
    ReviewDecision,
    ReviewVerdict,
    as_plain,
    complaints,
    from_plain,
    observations_in,
)
from storage.snapshots import Reading
from tasks.runtime.engine import is_inline, log
from tasks.runtime.run_pages import markdown_table, plain_text
from tasks.runtime.runs import Run, existing_store

from .review import DecidedProposal
from .review_runs import waiting

if TYPE_CHECKING:
    from prefect.input import RunInput

DIFF_LINES = 12
IN_BOX, ROOM = 3, 480
"""Lines above a box at most, and their letters; a line is never cut, and the first one is always there."""
LARGE = 40
"""Observations of a split beyond which its form shows the names of its parts alone."""
LEFT_OUT = "-"
_APART = " · "
_BULK = "What is said to each proposal goes first; this one decision is for all others that have no risk."


class SplitOfForm(BaseModel):
    """A new entity as the form shows it."""

    model_config = ConfigDict(extra="ignore", title="New entity")

    name: str = Field(title="Name", description="What the new entity is called.")
    entity_type: str = Field("", title="Type", description="person, project, place …; empty: as its parent.")
    observations: list[str] = Field(
        default_factory=list, title="Observations", description="Take one out and it stays where it is."
    )


def questions_about(reading: Reading, proposals: Sequence[Proposal]) -> tuple[ProposalQuestion, ...]:
    """What the form is to ask about these; observations carry their words, by which a person knows them."""
    return tuple(
        ProposalQuestion(
            each.id, each.action, each.title, each.is_risky, _worded(reading, each), _lines_about(reading, each)
        )
        for each in proposals
    )


def _lines_about(reading: Reading, each: Proposal) -> tuple[str, ...]:
    """Risks, reason, and in words the first of what would change."""
    risks = f"High risk: {', '.join(each.risks)}." if each.is_risky else "Low risk."
    lines = summary_of(reading, each)
    more = [f"… and {len(lines) - DIFF_LINES} more"] if len(lines) > DIFF_LINES else []
    return (f"{risks} {each.reason}".strip(), *lines[:DIFF_LINES], *more)


def _worded(reading: Reading, each: Proposal) -> dict[str, Any]:
    """The ask, in which each observation is `id · statement`."""
    ask = {key: each.ask[key] for key in ("splits", "observations") if key in each.ask}
    words = {mention.id: f"{mention.id}{_APART}{mention.statement}" for _, mention in observations_of(reading, each)}
    return _replaced(ask, words)


def _replaced(ask: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    def worded(facts: Sequence[str]) -> list[str]:
        return [words.get(fact, fact) for fact in facts]

    changed: dict[str, Any] = dict(ask)
    if "observations" in ask:
        changed["observations"] = worded(ask["observations"])
    if "splits" in ask:
        changed["splits"] = [{**part, "observations": worded(part["observations"])} for part in ask["splits"]]
    return changed


def form_of(
    questions: Sequence[ProposalQuestion],
    person: str = "",
    given: Mapping[str, Any] | None = None,
    why: Sequence[str] = (),
) -> type[RunInput]:
    """The form: a name, one decision for what has no risk (if anything has none), and a box for each proposal.

    `given` is what was filled in before, `why` what was wrong with it.
    """
    before = given or {}
    name = before.get("name") or person
    fields: dict[str, Any] = {
        "name": (str, Field(*([name] if name else []), title="Your name", min_length=1, max_length=100,
                            description="It stands in the ledger beside every decision.")),
        "low_risk": (Bulk, Field(before.get("low_risk", EACH), title="All that have no risk", description=_BULK)),
        "note": (str, Field(before.get("note", ""), title="Note", max_length=1000, description="Why, for the ledger.")),
    }  # fmt: skip
    if all(each.is_risky for each in questions):
        del fields["low_risk"]
    for number, each in enumerate(questions, 1):
        fields[_field(number)] = _box(number, each, before.get(_field(number), {}))
    base = _form_base()
    return create_model("ReviewForm", __base__=base, **fields).with_initial_data(
        description=_description(questions, why)
    )


@cache
def _form_base() -> type[RunInput]:
    """The base of the form; Prefect is imported only where a form is made."""
    from prefect.input import RunInput

    class ReviewInput(RunInput):
        """A form whose fields bear their titles in both UIs of Prefect.

        One reads the title of a property, the other that of what it refers to; pydantic writes an equal one only there.
        """

        @classmethod
        def model_json_schema(cls, *given: Any, **named: Any) -> dict[str, Any]:
            """The JSON schema, in which each property has its own title."""
            schema = super().model_json_schema(*given, **named)
            titles = {name: field.title for name, field in cls.model_fields.items() if field.title}
            for name, field_schema in schema["properties"].items():
                field_schema["title"] = titles.get(name, field_schema.get("title", name))
            return schema

    return ReviewInput


def _field(number: int) -> str:
    return f"proposal_{number:02d}"


def _box(number: int, each: ProposalQuestion, before: Mapping[str, Any]) -> tuple[type[BaseModel], Any]:
    """A box of the form: the decision, and what may be modified."""
    choices = ReviewDecision if each.can_be_modified else Literal["wait", "approve", "reject"]
    ask = {**each.ask, **{key: before[key] for key in each.ask if key in before}}
    parts: dict[str, Any] = {
        "decision": (choices, Field(before.get("decision", "wait"), title="Decision", description=_choices(each))),
    }
    if is_large(each):
        parts |= _names_of_parts(each, before)
    elif "splits" in ask:
        splits = [SplitOfForm.model_validate(part) for part in ask["splits"]]
        parts["splits"] = (
            list[SplitOfForm],
            Field(splits, title="New entities", description="With modify: rename them, move observations."),
        )
    if "observations" in ask:
        facts = list(ask["observations"])
        hint = "With modify: those that are to go; take out what is to stay."
        parts["observations"] = (list[str], Field(facts, title="Observations", description=hint))
    title = f"{number}. {each.title}"
    box = create_model(f"Proposal{number:02d}", __config__=ConfigDict(extra="ignore", title=title), **parts)
    return box, Field(default_factory=box, title=title, description=_in_short(each))


def is_large(each: ProposalQuestion) -> bool:
    """Whether it is a split of so many observations that a form with all of them could not be read."""
    return "splits" in each.ask and len(observations_in(each.ask)) > LARGE


def _names_of_parts(each: ProposalQuestion, before: Mapping[str, Any]) -> dict[str, Any]:
    """A field for the name of each part; `LEFT_OUT` instead of a name leaves its observations where they are."""
    fields: dict[str, Any] = {}
    for number, part in enumerate(each.ask["splits"], 1):
        count = len(part["observations"])
        hint = f"Its name. With modify: rename it, or write {LEFT_OUT} to leave it out."
        title = f"New entity {number}, of {count} observation{'s' if count != 1 else ''}"
        fields[_part(number)] = (
            str,
            Field(before.get(_part(number), part["name"]), title=title, description=hint, max_length=200),
        )
    return fields


def _part(number: int) -> str:
    return f"part_{number:02d}"


def _in_short(each: ProposalQuestion) -> str:
    """The lines about it, as far as they fit above a box; the page has all."""
    lead, *lines = each.lines or ("",)
    if is_large(each):
        return lead
    lengths = accumulate(map(len, lines[:IN_BOX]))
    shown = [line for line, end in zip(lines, lengths, strict=False) if end <= ROOM] or lines[:1]
    rest = len(lines) - len(shown)
    more = [f"and {rest} more line{'s' if rest != 1 else ''} at the top"] if rest else []
    return _APART.join([lead, *shown, *more])


def _choices(each: ProposalQuestion) -> str:
    more = "; modify proposes it anew as changed below" if each.can_be_modified else ""
    moved = f" Observations are moved in a terminal: slowwave review modify {each.id}" if is_large(each) else ""
    return f"wait leaves it for another time{more}.{moved}"


def _description(questions: Sequence[ProposalQuestion], why: Sequence[str]) -> str:
    """The page above the form, in Markdown."""
    lines = [f"**That could not be meant.** {plain_text(each)}\n" for each in why]
    lines.append(
        f"{len(questions)} waiting. Nothing is changed unless you say so, and `slowwave undo RUN` takes it back.\n"
    )
    for number, each in enumerate(questions, 1):
        lines += markdown_of(number, each)
    return "\n".join(lines)


def markdown_of(number: int, each: ProposalQuestion) -> list[str]:
    """A proposal as Markdown: title, risks and reason, what would change; stored text shows as text only."""
    lead, *diff = each.lines or ("",)
    return [
        f"#### {number}. {plain_text(each.title)}",
        "",
        plain_text(lead),
        "",
        *(f"- {plain_text(line)}" for line in diff),
        "",
    ]


def filled_in(questions: Sequence[ProposalQuestion], given: Mapping[str, Any]) -> dict[str, ReviewVerdict]:
    """The verdict on each proposal, by its id."""
    verdicts = {}
    for number, each in enumerate(questions, 1):
        box = given.get(_field(number)) or {}
        choice = cast(ReviewDecision, box.get("decision", "wait"))
        ask: dict[str, Any] = {key: box[key] for key in each.ask if key in box}
        if is_large(each):
            ask["splits"] = _renamed_parts(each, box)
        verdicts[each.id] = ReviewVerdict(each.id, choice, _bare({**each.ask, **ask}, each) if ask else None)
    return verdicts


def _renamed_parts(each: ProposalQuestion, box: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a large split under the names that they were given, without those that were left out."""
    parts = enumerate(each.ask["splits"], 1)
    named = [(" ".join(box.get(_part(number), part["name"]).split()), part) for number, part in parts]
    return [{**part, "name": name} for name, part in named if name not in ("", LEFT_OUT)]


def bare(question: ProposalQuestion) -> ProposalQuestion:
    """The question with an ask of ids alone."""
    return ProposalQuestion(
        question.id, question.action, question.title, question.is_risky, _bare(question.ask, question), question.lines
    )


def _bare(ask: Mapping[str, Any], question: ProposalQuestion) -> dict[str, Any]:
    """The ask with ids only; an observation that matches no id stays as it was written, which is a fault."""
    ids = [each.partition(_APART)[0] for each in observations_in(question.ask)]
    found = {}
    for text in observations_in(ask):
        named = named_by(text.partition(_APART)[0].strip(), ids)
        found[text] = named[0] if len(named) == 1 else text
    return _replaced(ask, found)


# Pages of a review: what waits, and what became of it, on the page of the run and as plain data.


STATES = {
    "applied": "carried out",
    "rejected": "rejected",
    "stale": "refused: stale",
    "approved": "approved for later",
    "pending": "waits",
    "replaced": "replaced",
}


def can_ask() -> bool:
    """Whether the run can be suspended: under Prefect, and from a deployment."""
    if is_inline():
        return False
    from prefect import runtime

    return runtime.deployment.id is not None


async def nothing_waits(run: Run) -> dict[str, Any]:
    """The end of a run that has nothing to ask."""
    log.info("Nothing waits in namespace %s.", run.namespace)
    await _publish_note("Nothing waits. Nothing was changed, and no model was asked.")
    return {"run": run.id, "state": "completed", "waiting": [], "decided": [], "note": "Nothing waits."}


async def nobody_to_ask(run: Run, questions: Sequence[ProposalQuestion]) -> dict[str, Any]:
    """The end of a run that cannot be suspended: without Prefect, or not from a deployment."""
    place = f"--store {run.store} --namespace {run.namespace}"
    note = f"{len(questions)} waiting. Decide in a terminal: slowwave review list {place}"
    log.info("%s", note)
    await _publish_note(f"{note} Nothing was changed, and no model was asked.")
    return {"run": run.id, "state": "completed", "waiting": _plain(questions), "decided": [], "note": note}


async def _publish_note(note: str) -> None:
    """The summary of a run that put nothing before anybody."""
    if not is_inline():
        from prefect.artifacts import acreate_markdown_artifact

        await acreate_markdown_artifact(plain_text(note), key="review-summary", description="What a person decided")


async def publish_waiting(run: Run, questions: Sequence[ProposalQuestion]) -> None:
    """Show on the run's page what waits, with reasons, risks and what would change."""
    from prefect.artifacts import acreate_markdown_artifact

    lines = [f"# {len(questions)} waiting", "", "Press Resume above and fill in the form, or decide in a terminal:", ""]
    lines += [f"`slowwave review list --store {run.store} --namespace {run.namespace}`", ""]
    lines += [line for number, each in enumerate(questions, 1) for line in markdown_of(number, each)]
    await acreate_markdown_artifact("\n".join(lines), key="review-waiting", description="What waits for a person")


async def publish_decided(
    run: Run,
    questions: Sequence[ProposalQuestion],
    verdicts: Sequence[ReviewVerdict],
    done: Sequence[DecidedProposal],
    name: str,
) -> dict[str, Any]:
    """Show the results; returns the same as plain data."""
    from prefect.artifacts import acreate_markdown_artifact

    meant = {each.id for each in verdicts}
    left = [each for each in questions if each.id not in meant]
    rows = [(each.title, STATES.get(each.state, each.state), each.outcome) for each in done]
    rows += [(each.title, "waits", "") for each in left]
    head = ("proposal", "became", "why") if any(why for _, _, why in rows) else ("proposal", "became")
    place = f"--store {run.store} --namespace {run.namespace}"
    shown = [row[: len(head)] for row in rows]
    lines = [f"# {plain_text(name)} decided", "", *markdown_table(head, shown)]
    lines += [f"Take it back: `slowwave undo {run.id} {place}`."] if done else []
    lines += ["", "No model was asked: 0 calls, 0 dollars."]
    await acreate_markdown_artifact("\n".join(lines), key="review-summary", description="What a person decided")
    state = "incomplete" if any(each.state == "stale" for each in done) else "completed"
    decided = [asdict(each) for each in done]
    return {"run": run.id, "state": state, "by": name, "waiting": _plain(left), "decided": decided, "note": ""}


def _plain(questions: Sequence[ProposalQuestion]) -> list[dict[str, Any]]:
    return [{"id": each.id, "action": each.action, "title": each.title, "risky": each.is_risky} for each in questions]


# Answers: the questions of a review are kept with the flow run, and asked until the answer is one that can be meant.
# Prefect executes a flow that was suspended from its first line. So the questions are written down once, as an input
# of the flow run, and every form has a key of its own that is the same in each execution.


KEPT = "review-asked"


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """The answer of a person: name, decision on proposals without risk, and verdicts by id."""

    name: str
    low_risk: Bulk
    note: str
    verdicts: Mapping[str, ReviewVerdict]


async def frozen(run: Run, action: str, limit: int) -> tuple[ProposalQuestion, ...]:
    """What to ask about: what waits now, shown on the run's page; when the run goes on, what waited when it began."""
    if is_inline():
        return _questions(run, action, limit)
    from prefect.input import acreate_flow_run_input, aread_flow_run_input

    kept = await aread_flow_run_input(KEPT)
    if kept is None:
        questions = _questions(run, action, limit)
        if questions:
            await publish_waiting(run, questions)
        kept = as_plain(questions)
        await acreate_flow_run_input(KEPT, kept)
    return from_plain(kept)


def _questions(run: Run, action: str, limit: int) -> tuple[ProposalQuestion, ...]:
    return questions_about(existing_store(run).snapshot(), waiting(run, action, limit=limit))


async def answered(questions: Sequence[ProposalQuestion], person: str, timeout_hours: float) -> FormAnswer:
    """Suspend until a person answers; an answer that cannot be meant is asked for again, with the reason."""
    from prefect.flow_runs import asuspend_flow_run

    given: dict[str, Any] = {}
    why: tuple[str, ...] = ()
    bare_ones = tuple(map(bare, questions))
    for number in count(1):
        form = form_of(questions, person, given, why)
        log.info("Waiting for a person: press Resume on this run, or use `slowwave review`.")
        answer = await asuspend_flow_run(form, timeout=round(timeout_hours * 3600), key=f"review-{number}")
        given = answer.model_dump()
        verdicts = filled_in(questions, given)
        low_risk = given.get("low_risk", EACH)
        why = complaints(bare_ones, verdicts, given["name"])
        if not why:
            return FormAnswer(" ".join(given["name"].split()), low_risk, given["note"], verdicts)
    raise AssertionError("unreachable")
