"""What a model fills in. Field descriptions are prompt text: they are part of every prompt's version."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from slowwave.graph.community_plan import cleaned_answer


def _lowered(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


Word = Annotated[str, BeforeValidator(_lowered)]
Kept = Annotated[Literal[0, 1, 2], BeforeValidator(lambda value: value or 0)]
Verdict = Annotated[
    Literal["same", "updates", "corrects", "contradicts", "details", "unrelated"], BeforeValidator(_lowered)
]


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Reference = Annotated[str, BeforeValidator(_as_text)]
"""Number of something listed, or a name."""


def _usable(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    """The items of a list that can be used; one that cannot is dropped, and the others are not asked for again."""
    if not isinstance(value, list):
        return validate(value)
    kept: list[object] = []
    for item in value:
        try:
            kept += validate([item])
        except ValidationError:
            continue
    return kept


Terms = Annotated[str, BeforeValidator(lambda value: " ".join(map(str, value)) if isinstance(value, list) else value)]
"""Some words, as one text or as a list."""

Item = TypeVar("Item")
Usable = Annotated[list[Item], WrapValidator(_usable)]


def _or_nothing(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        return None


Choice = TypeVar("Choice")
Lenient = Annotated[Choice | None, WrapValidator(_or_nothing)]
"""A value that counts as left out where it is none of those that are allowed."""


def _plain_schema(schema: dict[str, Any]) -> None:
    """Leave out of a JSON schema what tells a model nothing: titles, defaults, and that a field may be null."""
    schema.pop("description", None)
    for field in schema.get("properties", {}).values():
        for name in ("title", "default"):
            field.pop(name, None)
        options = [option for option in field.pop("anyOf", []) if option.get("type") != "null"]
        if len(options) == 1:
            field |= options[0]
        elif options:
            field["anyOf"] = options


class Response(BaseModel):
    """Base of all response models: unknown fields from a talkative model are dropped, not an error."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True, populate_by_name=True)


class Judgement(Response):
    """Whether one message is worth remembering; the keyless extractor says so, a model only writes facts."""

    message: int = Field(description="Index of the message, as numbered in the window.")
    durable: bool = Field(description="Whether anything in it will still matter in a month.")
    reason: str = Field(default="", description="A few words on why.")


class Brief(Response):
    """Base of answers that come often: a short schema, of which the prompt explains every field."""

    model_config = ConfigDict(json_schema_extra=_plain_schema)


class LearnedName(Brief):
    """The name of somebody who was known without one, or under a shorter one."""

    entity: Reference = Field(alias="n", description="number of the entity")
    name: str


class EntityMention(Brief):
    """A person, named thing or thing with an identity that is not listed yet."""

    name: str
    type: Word = "concept"
    summary: str | None = Field(default=None, alias="is")


class Directive(Brief):
    """What a new fact does to an earlier one, which is named by its index or in words."""

    known: Reference | None = Field(default=None, alias="k")
    verdict: Lenient[Literal["updates", "covers", "corrects", "ends", "contradicts"]] = Field(default=None, alias="v")
    object: str | None = Field(default=None, alias="old")
    action: SkipJsonSchema[Literal["supersede", "cover", "retract", "contradict"]] = "supersede"
    reason: SkipJsonSchema[Literal["correction", "temporal_change"]] = "temporal_change"


class FactClaim(Brief):
    """One fact."""

    message: int = Field(alias="m")
    statement: str = Field(alias="s", description="the sentence")
    subject: Reference = Field(alias="about")
    relation: str = Field(default="", alias="rel")
    object: Lenient[Reference] = Field(default=None, alias="obj")
    temporal_hint: Lenient[str] = Field(default=None, alias="when")
    date: Lenient[str] = None
    time_kind: Lenient[Literal["state", "event", "plan", "deadline", "since", "until"]] = Field(
        default=None, alias="time"
    )
    confidence: Lenient[float] = Field(default=None, alias="c")
    ended: bool = Field(default=False, alias="over")
    also: Usable[int] = Field(default_factory=list)
    resolves: Usable[Directive] = Field(default_factory=list, alias="does")
    search_terms: Lenient[Terms] = Field(default=None, alias="ask")
    aspects: Usable[Word] = Field(default_factory=list, alias="tags")
    kind: SkipJsonSchema[Literal["relation", "observation"]] = "relation"
    edge_type: SkipJsonSchema[Word] = ""


class Repetition(Brief):
    """A known fact that a message says again."""

    known: int = Field(alias="k")
    message: int = Field(alias="m")


class OutlineLine(Brief):
    """A topic, or a turn of one, that begins with a message."""

    message: int = Field(alias="m")
    text: str = Field(alias="s")


class WindowExtraction(Brief):
    """Everything worth keeping from a stretch of messages, and the course of the conversation."""

    names: Usable[LearnedName] = Field(default_factory=list)
    entities: Usable[EntityMention] = Field(default_factory=list, alias="new")
    facts: Usable[FactClaim] = Field(default_factory=list)
    repeats: Usable[Repetition] = Field(default_factory=list, alias="again")
    outline: Usable[OutlineLine] = Field(default_factory=list)
    messages: SkipJsonSchema[list[Judgement]] = Field(default_factory=list)

    @model_validator(mode="wrap")
    @classmethod
    def _is_usable(cls, value: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """An answer none of whose facts can be used is none: its messages are tried again."""
        answer = validate(value)
        given = value.get("facts") if isinstance(value, dict) else None
        if given and not answer.facts:
            raise ValueError("no fact has a message and a sentence")
        return answer


class NameJudgement(Response):
    """The answer to one numbered question about two names."""

    question: int = Field(description="Number of the question.")
    same_entity: bool = Field(description="True only if both names surely mean the same thing.")
    reason: str = Field(default="", description="A few words.")


class NameResolution(Response):
    """Answers to all questions about ambiguous names."""

    answers: list[NameJudgement] = Field(default_factory=list, description="One answer for each numbered question.")


class PairVerdict(Response):
    """Of one pair."""

    n: int = Field(description="Number of the pair.")
    v: Verdict
    keep: Kept = Field(default=0, description="Only for same: 1 or 2.")


class Reconciliation(Response):
    """One verdict for each pair."""

    # What cannot be read of an answer is left out of it, so that nothing needs to be asked twice.
    verdicts: Usable[PairVerdict] = Field(default_factory=list)

    @field_validator("verdicts", mode="before")
    @classmethod
    def _readable(cls, value: object) -> object:
        return value if isinstance(value, list) else []


class RelationName(Response):
    """The canonical form of one numbered relation."""

    question: int = Field(description="Number of the relation.")
    canonical: str = Field(
        description="One of the canonical relations listed, if it means that; else the relation itself, in snake case."
    )
    cardinality: Literal["1", "n"] = Field(
        default="n", description="1 only if a subject can have one object of it at a time, as with born_in."
    )


class RelationNames(Response):
    """Canonical forms of all numbered relations."""

    answers: list[RelationName] = Field(default_factory=list, description="One answer for each numbered relation.")


class Summaries(Response):
    """Base of answers that summarise numbered things; one that says nothing of any is none, and asked for again."""

    @property
    def texts(self) -> list[tuple[int, str]]:
        """Number and cleaned text of each summary, in the order of the answer."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any(text for _, text in self.texts):
            raise ValueError("no summary has any words")
        return self


class CommunitySummary(Response):
    """What one numbered community is about."""

    community: int = Field(description="Number of the community.")
    summary: str = Field(
        min_length=1,
        description="Two or three plain sentences: what holds its members together, and the relations that matter most "
        "between them. Only what the facts say; no markup, no list.",
    )


class CommunitySummaries(Summaries):
    """Summaries of all numbered communities; an answer none of which says anything is none, and asked for again."""

    summaries: list[CommunitySummary] = Field(min_length=1, description="One summary for each numbered community.")

    @property
    def texts(self) -> list[tuple[int, str]]:
        """Number and cleaned text of each summary, in the order of the answer."""
        return [(each.community, cleaned_answer(each.summary)) for each in self.summaries]


class SessionSummary(Response):
    """What one numbered conversation was about."""

    conversation: int = Field(description="Number of the conversation.")
    summary: str = Field(
        min_length=1,
        description="Two to four plain sentences: what it was about, what was found out or decided, and what was left "
        "open. Only what was said; no markup, no list.",
    )


class SessionSummaries(Summaries):
    """Summaries of all numbered conversations."""

    summaries: list[SessionSummary] = Field(min_length=1, description="One summary for each numbered conversation.")

    @property
    def texts(self) -> list[tuple[int, str]]:
        """Number and cleaned text of each summary, in the order of the answer."""
        return [(each.conversation, cleaned_answer(each.summary)) for each in self.summaries]


class QuestionAnswer(Response):
    """The answer to a question, from numbered lines."""

    known: bool = Field(description="Whether the lines tell it, or a part of it.")
    answer: str = Field(default="", description="The answer; empty where known is false.")
    lines: Usable[int] = Field(default_factory=list, description="Numbers of the lines that it rests on.")

    @model_validator(mode="after")
    def _is_founded(self) -> Self:
        """What claims to be known has words and lines; else the model is asked to put it right."""
        if self.known and not any(map(str.isalnum, self.answer)):
            raise ValueError("known is true, but there is no answer")
        if self.known and not self.lines:
            raise ValueError("known is true, but no line is named that the answer rests on")
        return self
