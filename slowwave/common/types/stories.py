"""Histories of facts, and the whole story of a row, as answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from slowwave.common.lexicon.labels import Locale, shown_relation, shown_type
from slowwave.common.records import REDUNDANT
from slowwave.common.run_counts import shown_counts
from slowwave.common.text import short_id
from slowwave.common.timestamps import day_of

from .answers import Mention, Provenance, RecalledFact


@dataclass(frozen=True, slots=True)
class Version:
    """One fact in a history: when the store believed it, why it ended, and by which other fact."""

    fact: RecalledFact
    known_from: datetime | None
    known_to: datetime | None
    why: str
    ended_by: Mention | None

    @property
    def end(self) -> str:
        """Whether it is over and why, in plain words; empty for what holds and has no end."""
        if self.fact.status == "active" and self.fact.valid_to is None:
            return ""
        status = "over" if self.fact.status == "active" else _STATUS.get(self.fact.status, self.fact.status)
        return f"{status}: {plain_reason(self.why, {}) or 'its own words say when it ended'}"

    def as_json(self) -> dict[str, Any]:
        """The fact as everywhere, and what its history adds."""
        ended_by = self.ended_by.id if self.ended_by else None
        more = {"known_from": self.known_from, "known_to": self.known_to, "why": self.why, "ended_by": ended_by}
        return {**self.fact.as_json(), **more}


@dataclass(frozen=True, slots=True)
class Chain:
    """Facts that replaced each other, oldest first; `has_circle`: the chain is damaged; `is_cut`: it is longer."""

    versions: tuple[Version, ...]
    has_circle: bool
    is_cut: bool

    def as_json(self) -> dict[str, Any]:
        """One document."""
        versions = [version.as_json() for version in self.versions]
        return {"facts": versions, "has_circle": self.has_circle, "is_cut": self.is_cut}


@dataclass(frozen=True, slots=True)
class Ingested:
    """What messages became: facts `learned`, and facts that `ended` because of them; `run` can be undone.

    `counts` are those of the run, `refused` how many messages each filter refused, by its name; `notes` and `errors`
    are sentences for people.
    """

    run: str
    state: str
    counts: Mapping[str, int]
    refused: Mapping[str, int]
    learned: tuple[Mention, ...] = ()
    ended: tuple[Mention, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class Decided(NamedTuple):
    """One decision: when, what, by whom and why, in which run, about which row, and the ids of others beside it.

    `decided_by` is rule, model or person, or the name of the person who approved or rejected a proposal. What was
    proposed first was written at the time of its approval; `approved_by` is the person who approved it, else empty.
    """

    at: datetime | None
    action: str
    decided_by: str
    reason: str
    run: str
    about: str
    beside: tuple[str, ...] = ()
    approved_by: str = ""

    @property
    def approver(self) -> str:
        """Who approved it, if that is not who decided."""
        return "" if self.approved_by == self.decided_by else self.approved_by


@dataclass(frozen=True, slots=True)
class Story:
    """The story of a row: its origin and all changes.

    Of facts: `evidence` is who said it, `absorbed` who said it in words that it took the place of; `lineage` steps
    (old, new, reason); `statements` the words of the facts that are named by id; `speakers` who speaks in the messages
    of the evidence, by conversation and message; `pairs` what was decided about it beside an `other_id`. Of a message:
    `heard`, the facts that it says, as (id, statement, status, reason).
    """

    id: str
    kind: str
    title: str
    columns: dict[str, Any]
    evidence: tuple[Provenance, ...]
    lineage: tuple[tuple[str, str, str], ...]
    decisions: tuple[Decided, ...]
    absorbed: tuple[Provenance, ...] = ()
    pairs: tuple[Mapping[str, Any], ...] = ()
    artifacts: tuple[tuple[str, str], ...] = ()
    statements: Mapping[str, str] = field(default_factory=dict)
    heard: tuple[tuple[str, str, str, str], ...] = ()
    speakers: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The story in plain sentences, as `slowwave why` prints it."""
        return text_of(self)

    def as_json(self) -> dict[str, Any]:
        """One document; who speaks stands beside each quote."""
        document = asdict(self)
        del document["speakers"]
        for name in ("evidence", "absorbed"):
            document[name] = [
                asdict(each) | {"speaker": self.speakers.get((each.conversation_id, each.message_id), "")}
                for each in getattr(self, name)
            ]
        document["decisions"] = [each._asdict() for each in self.decisions]
        document["artifacts"] = [{"id": id_, "title": title} for id_, title in self.artifacts]
        return document


# A story in plain sentences: what is known, who said it, what became of it; internal columns stay in the story.


MOST, MOST_CHANGES = 8, 100
"""Lines of one section, and of what a run changed; the rest is counted."""
SHORT = 70
LONGEST = 240
"""Characters of a quote, a statement or a value in a line; `SHORT` of a fact that is named beside another."""
SHORT_NAME = 20
"""Characters of the name of a conversation or a message beside its words."""
ACTIONS = {
    "create": "Learned", "reassert": "Said again", "repeat": "Said again", "supersede": "Replaced", "close": "Ended",
    "retract": "Taken back", "absorb": "Merged", "keep": "Kept apart", "dispute": "Disputed",
    "contradict": "Disputed", "refuse": "Left as it is", "evict": "Moved to the archive",
    "expire": "Ended", "restore": "Brought back", "revive": "Brought back", "forget": "Forgotten",
    "alias": "Another name", "link_version": "Another version", "link_duplicate": "A copy", "name_owner": "Named",
    "promote": "Taken as known", "gate": "Refused", "ignore": "Left out", "archive": "Archived", "prune": "Archived",
    "merge_entity": "Joined", "gather": "Grouped", "move": "Filed elsewhere", "pin": "Pinned",
    "undo": "Taken back",
}  # fmt: skip
"""What was done, in a word or two, by the action of a decision."""
_TOWARDS = {"supersede": ("Replaced by", "Took the place of"), "absorb": ("Merged with", "Merged into")}
"""The words of a decision for its own row, and for the other one."""
_BESIDE = {"supersede": "now", "absorb": "also stands for", "contradict": "against", "dispute": "against"}
"""Decisions of a run that are told with the other row, and what stands between the two."""
_FIRST = ("create", "reassert", "repeat")
"""Decisions that come before others of one moment: learned, said again."""
_OWN = frozenset({"create", "archive", "prune"})
"""Decisions about one fact alone: others beside it look like it, or no longer count as like it."""
_SAYS_THE_SAME = frozenset({"absorb", "reassert", "repeat"})
_REASONS = {
    "temporal_change": "things changed", "correction": "it was put right", "dedup": "both say the same",
    "consolidated": "both say the same", "split": "its topic became an entity of its own", "applied": "",
    "conflict": "both cannot hold at one time", "belief_revision": "the later words count",
    "late": "it was over when the other one began",
}  # fmt: skip
_STATUS = {
    "active": "holds", "superseded": "replaced", "retracted": "taken back", "archived": "in the archive",
    "rejected": "not taken up", "candidate": "not decided yet",
}  # fmt: skip
_UNSAID = frozenset(
    "id kind canonical_name name title content message_id conversation_id ordinal attempts graph_state embed_model "
    "content_score status pinned owner state parameters summary plan".split()
)
_CODE = re.compile(
    r"^(?:conflict|late)(?=: )| ?\(?\b(" + "|".join(set(_REASONS) - {"conflict", "late"}) + r")\b\)?"
)  # "conflict" and "late" are also words of sentences
_ID = re.compile(r"\bf_[0-9a-f]+_[0-9a-f]+\b")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a section: what stands before the text, the text, and where to look further."""

    before: str
    text: str
    after: str = ""


@dataclass(frozen=True, slots=True)
class StorySection:
    """Lines under a title; the first section has none."""

    title: str
    lines: tuple[Line, ...]


def sections_of(story: Story, locale: Locale = "en") -> list[StorySection]:
    """The story as sections that have lines, in the order in which they are read."""
    parts = {"facts": _of_fact, "messages": _of_message, "runs": _of_run}.get(story.kind, _of_others)(story, locale)
    return [StorySection(title, tuple(lines)) for title, found in parts for lines in [list(found)] if lines]


def text_of(story: Story, locale: Locale = "en") -> str:
    """The story as text: its title, then its sections."""
    lines = [story.title, f"Id: {story.id}"]
    for section in sections_of(story, locale):
        lines += ["", section.title] if section.title else []
        lines += ["  ".join(filter(None, (line.before, line.text, line.after))) for line in section.lines]
    return "\n".join(lines)


Parts = Iterator[tuple[str, Iterator[Line] | list[Line]]]


def _of_fact(story: Story, locale: Locale) -> Parts:
    yield "", _state(story)
    yield "Who said it", _cut([_quote_line(story, each) for each in story.evidence])
    yield "Who said it in other words", _cut([_quote_line(story, each) for each in story.absorbed])
    # not only that another fact was learned which looks like it
    own = [d for d in story.decisions if d.about == story.id or (d.action not in _OWN and story.id in d.beside)]
    yield "What became of it", _cut(_decided(story, own))
    yield "Where it was read", _cut([Line("", title, short_id(name)) for name, title in story.artifacts])


def _of_message(story: Story, locale: Locale) -> Parts:
    row = story.columns
    who = row.get("speaker") or row.get("role") or "somebody"
    talk = f"Said by {who} in {row.get('conversation_id', '')} ({row.get('message_id', '')})."
    flags = [Line("", "It looks like an order to its reader: never followed.")] if row.get("has_injection") else []
    yield "", [Line(_day(row.get("occurred_at")), talk), *flags]
    stated = [
        Line(
            "", f"{clipped(statement)} ({plain_reason(_became(story, status, why), story.statements)})", short_id(name)
        )
        for name, statement, status, why in story.heard
    ]
    yield "What was learned from it", _cut(stated)
    yield "What was decided", _cut(_decided(story, [each for each in story.decisions if each.about == story.id]))


def _of_run(story: Story, locale: Locale) -> Parts:
    row = story.columns
    summary = json.loads(row.get("summary") or "{}")
    counts = shown_counts(summary.get("counts", {}))
    ended = row.get("ended_at")
    until = f" until {ended:%H:%M}" if isinstance(ended, datetime) else ""
    yield "", [Line(_moment(row.get("started_at")), f"{row.get('flow', '')}: {row.get('state', '')}{until}.")]
    yield "What it did", [Line("", f"{name}: {count:,}") for name, count in counts.items() if count]
    if row.get("calls"):
        tokens = f"{row.get('tokens_in', 0):,} tokens in, {row.get('tokens_out', 0):,} out"
        yield "What it cost", [Line("", f"{row['calls']} calls of a model, {tokens}, ${row.get('usd', 0):.4f}")]
    yield "What it refused", [Line("", f"{gate}: {count:,}") for gate, count in summary.get("refused", {}).items()]
    yield "What it changed", changed_lines(story)
    yield "What it says", [Line("", text) for key in ("errors", "notes", "issues") for text in summary.get(key, ())]


def changed_lines(run: Story) -> list[Line]:
    """What a run decided, kind by kind: what was done to how many rows, why, and the first rows; additions last."""
    kinds: dict[tuple[bool, str, str], list[Decided]] = {}
    for each in run.decisions:
        is_addition = each.action in _FIRST
        reason = "" if is_addition else plain_reason(each.reason, run.statements)
        kinds.setdefault((is_addition, _done(each), reason), []).append(each)
    lines: list[Line] = []
    for (_, what, reason), alike in sorted(kinds.items(), key=lambda kind: kind[0][0]):
        count = f" {len(alike):,}" if len(alike) > 1 else ""
        rows = [Line("", _row(run, each), short_id(each.about)) for each in alike if each.about in run.statements]
        more = len(alike) - min(len(rows), MOST)
        lines += [Line("", f"{what}{count}{f': {reason}' if reason else ''}"), *rows[:MOST]]
        lines += [Line("", f"… and {more} more")] if rows and more else []
    return _cut(lines, MOST_CHANGES)


def _row(run: Story, each: Decided) -> str:
    others = [f"“{run.statements[row]}”" for row in each.beside if row != each.about and row in run.statements]
    beside = f" – {_BESIDE[each.action]}: {', '.join(others)}" if others and each.action in _BESIDE else ""
    return f"“{run.statements[each.about]}”{beside}"


def _done(each: Decided) -> str:
    return ACTIONS.get(each.action, each.action.replace("_", " ").capitalize())


def _of_others(story: Story, locale: Locale) -> Parts:
    yield "", _values(story, locale)
    yield "What was decided", _cut(_decided(story, story.decisions))


def _state(story: Story) -> Iterator[Line]:
    """Whether it holds, since when, what disputes it, and what took its place or was there before."""
    row, words = story.columns, story.statements
    yield Line("", f"{_holding(story)}{_happening(row)}")
    for old, new, reason in story.lineage:
        why = f": {because}" if (because := _REASONS.get(reason, reason.replace("_", " "))) else ""
        is_same = reason in REDUNDANT
        if new == story.id:
            yield Line("", f"{'It also stands for' if is_same else 'It took the place of'} {_named(old, words)}{why}.")
        elif old == story.id:
            yield Line("", f"{'Merged into' if is_same else 'Replaced by'} {_named(new, words)}{why}.")
    for pair in story.pairs:
        if pair["outcome"] == "pending" and "conflict" in pair["kind"]:
            yield Line("", f"Disputed by {_named(pair['other_id'], words)}: nothing tells which holds.")
    if row.get("pinned"):
        yield Line("", "A person pinned it: it is neither merged nor archived.")


def _holding(story: Story) -> str:
    row = story.columns
    status, why = str(row.get("status", "")), str(row.get("status_reason") or "")
    since, until = _day(row.get("valid_from")), _day(row.get("valid_to"))
    span = f" from {since} to {until}" if since and until else f" until {until}" if until else ""
    if status == "active":
        return f"It held{span}." if until else f"Holds since {since}." if since else "Holds."
    if status == "superseded" and any(old == story.id and why in REDUNDANT for old, _, why in story.lineage):
        return "Another fact says the same and stands for both."
    if status == "superseded":
        return f"No longer: it held{span or f' from {since}' if since else span}."
    if why.startswith("repeats "):
        first = _named(why.removeprefix("repeats "), story.statements)
        return f"Known before: it is one more source of {first}."
    reason = plain_reason(why, story.statements).rstrip(".")
    period = f"; it held{span}" if span else ""
    return f"{_STATUS.get(status, status).capitalize()}{f': {reason}' if reason else ''}{period}."


def _happening(row: Mapping[str, Any]) -> str:
    """When it happens, where that is another day than the one since which it is known."""
    at, known = row.get("event_at"), row.get("valid_from")
    if not isinstance(at, datetime) or (isinstance(known, datetime) and known.date() == at.date()):
        return ""
    return f" It is about {day_of(at, row.get('event_precision'))}."


def _became(story: Story, status: str, why: str) -> str:
    if why.startswith("repeats "):
        return "known before"
    reason = "" if status in ("active", "superseded") else f": {why}"
    return f"{_STATUS.get(status, status)}{reason}"


def _quote_line(story: Story, source: Provenance) -> Line:
    who = story.speakers.get((source.conversation_id, source.message_id), "")
    names = (source.conversation_id.rpartition("/")[2], source.message_id)
    beside = " ".join(clipped(name, SHORT_NAME) for name in names)
    quote = f"“{clipped(source.quote)}”" if source.quote else "(its words are not kept)"
    return Line(_day(source.occurred_at), f"{who}: {quote}" if who else quote, beside)


def _decided(story: Story, decisions: Sequence[Decided]) -> list[Line]:
    """A line each, in the order of time; what was decided several times in the same words is one."""
    in_order = sorted(decisions, key=lambda each: (str(each.at or ""), (*_FIRST, each.action).index(each.action)))
    counted = Counter((_day(each.at), _sentence(story, each), _short_run(each.run)) for each in in_order)
    return [Line(day, f"{text} ({n} times)" if n > 1 else text, run) for (day, text, run), n in counted.items()]


def _sentence(story: Story, each: Decided) -> str:
    """A decision as a sentence about the row of the story."""
    words, reason = story.statements, plain_reason(each.reason, story.statements)
    others = [name for name in (each.about, *each.beside) if name != story.id and name in words]
    if each.action in _SAYS_THE_SAME:
        others = [name for name in others if words[name] != words.get(story.id)]
    if each.action in (*_OWN, "approve", "reject"):  # the reason of these two is the title of the proposal
        others = []
    beside = "; ".join(f"“{clipped(words[name], SHORT)}”" for name in others)
    what = _done(each)
    if others and each.action in _TOWARDS:
        into, out_of = _TOWARDS[each.action]
        what, beside = into if each.about == story.id else out_of, f" {beside}"
    elif beside:
        beside = f" ({beside})"
    by = _by_whom(each, reason)
    return f"{what}{beside}: {reason}{by}" if reason else f"{what}{beside}.{by}"


def _by_whom(each: Decided, reason: str) -> str:
    """Who decided, as a sentence with a space before it; empty for a rule alone."""
    if each.approver:
        who = {"rule": "A rule", "model": "A model"}.get(each.decided_by)
        approved = f"{each.approver} approved it{f' on {day}' if (day := _day(each.at)) else ''}."
        return f" {who} proposed it, {approved}" if who else f" {approved}"
    if each.decided_by == "model":
        return "" if "model" in reason else " Decided by a model."
    return "" if each.decided_by in ("", "rule") else f" Decided by {each.decided_by}."


def _values(story: Story, locale: Locale) -> list[Line]:
    """The columns that a person reads, under plain names."""
    lines = []
    for name, value in story.columns.items():
        is_internal = name in _UNSAID or name.endswith(("_id", "_ids", "_hash", "_key")) or isinstance(value, bool)
        if is_internal and not (name == "summary" and story.kind != "runs"):
            continue
        shown = name.removesuffix("_at").removeprefix("entity_").replace("_", " ")
        label = {"entity_type": shown_type, "predicate": shown_relation}.get(name)
        text = label(str(value), locale) if label else _value(value)
        lines.append(Line(shown, text))
    return lines


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return _day(value)
    if isinstance(value, float):
        return f"{value:.2f}"
    return clipped(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def _cut(lines: list[Line], most: int = MOST) -> list[Line]:
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], Line("", f"… and {more} more")]


def _named(fact: str, words: Mapping[str, str]) -> str:
    return f"“{clipped(words[fact])}” ({short_id(fact)})" if fact in words else short_id(fact)


def plain_reason(reason: str, words: Mapping[str, str]) -> str:
    """A reason without codes, in which facts are named by what they say."""
    return _ID.sub(lambda found: _named(found[0], words), _CODE.sub("", reason)).strip(" :")


def clipped(text: str, longest: int = LONGEST) -> str:
    """The text in one line of at most so many characters, with an ellipsis where it is cut."""
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= longest else f"{one_line[: longest - 1].rstrip()}…"


def _short_run(run: str) -> str:
    """`ingest a127fb04` of ingest-20261122-153543-a127fb04: the flow, and what `slowwave why` finds the run by."""
    flow, _, rest = run.partition("-")
    return f"{flow} {rest.rpartition('-')[2]}".strip()


def _day(at: Any) -> str:
    return f"{at:%Y-%m-%d}" if isinstance(at, datetime) else ""


def _moment(at: Any) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if isinstance(at, datetime) else ""
