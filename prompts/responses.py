"""What a model fills in. Field descriptions are prompt text: they are part of every prompt's version."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from slowwave.graph.community_summaries import cleaned_answer


def _lowered(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


Word = Annotated[str, BeforeValidator(_lowered)]


class Response(BaseModel):
    """Base of all response models: unknown fields from a talkative model are dropped, not an error."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class Judgement(Response):
    """Whether one message is worth remembering."""

    message: int = Field(description="Index of the message, as numbered in the window.")
    durable: bool = Field(
        description="True when the message states something that will still matter in a month: a decision and why, "
        "a preference, a plan, a relation, a change, a root cause and its fix. False for greetings, thanks, "
        "progress chatter, test output, listings, code and offers of help."
    )
    reason: str = Field(default="", description="A few words on why, for the person who reviews refusals.")


class EntityMention(Response):
    """A named thing that a fact is about."""

    name: str = Field(description="The name as a person would say it, at least three characters, no pronoun.")
    type: Word = Field(
        default="concept",
        description="person, tool, concept, project, language, file, config, organization, place, event or session.",
    )
    summary: str | None = Field(default=None, description="One sentence on what it is, only if the text says so.")


class Directive(Response):
    """An earlier fact that the new one does away with."""

    known: int | None = Field(default=None, description="Index of the known fact that is no longer right, if listed.")
    object: str | None = Field(
        default=None,
        description="Or what was replaced or ended, in the message's words ('vim' in 'from vim to neovim').",
    )
    action: Literal["supersede", "retract"] = Field(
        default="supersede",
        description="supersede: this fact takes its place. retract: it was never true or is simply over.",
    )
    reason: Literal["correction", "temporal_change"] = Field(
        default="temporal_change", description="correction: the earlier one was a mistake. temporal_change: it changed."
    )


class FactClaim(Response):
    """One durable statement."""

    message: int = Field(description="Index of the message that says it.")
    kind: Literal["relation", "observation"] = Field(
        default="relation", description="relation: subject, verb, object. observation: a statement about the subject."
    )
    subject: str = Field(description="Name of the entity it is about, as listed under entities.")
    relation: str = Field(description="Short verb phrase in snake case: works_at, prefers, decided, fixed.")
    object: str | None = Field(
        default=None, description="Name of the other entity, or a value such as '100 per minute'."
    )
    statement: str = Field(
        description="One self-contained English sentence with names instead of pronouns; nothing added to what was "
        "said, numbers and negations kept."
    )
    edge_type: Word = Field(
        default="semantic", description="semantic, temporal, causal, hierarchical or co_occurrence."
    )
    confidence: float | None = Field(
        default=None, description="1.0 only for a verbatim statement, 0.5-0.8 clear implication, 0.3-0.5 weak."
    )
    temporal_hint: str | None = Field(
        default=None,
        description="Words that say when it became true, copied: 'last week', 'since March', '2024-05-02'.",
    )
    ended: bool = Field(default=False, description="True when the message says that this is over ('left Acme').")
    aspects: list[Word] = Field(
        default_factory=list,
        description="Any of: film_tv, music, books, creativity, career, education, identity, childhood, family, "
        "relationships, philosophy, values, spirituality, health.",
    )
    resolves: list[Directive] = Field(default_factory=list, description="Earlier facts that this one does away with.")


class WindowExtraction(Response):
    """Everything worth keeping from one window of messages."""

    messages: list[Judgement] = Field(default_factory=list, description="One judgement for each numbered message.")
    entities: list[EntityMention] = Field(default_factory=list, description="Entities that the facts name.")
    facts: list[FactClaim] = Field(default_factory=list, description="Durable facts; an empty list is a good answer.")


class NameJudgement(Response):
    """The answer to one numbered question about two names."""

    question: int = Field(description="Number of the question.")
    same_entity: bool = Field(description="True only if both names surely mean the same thing.")
    reason: str = Field(default="", description="A few words.")


class NameResolution(Response):
    """Answers to all questions about ambiguous names."""

    answers: list[NameJudgement] = Field(default_factory=list, description="One answer for each numbered question.")


class ClusterVerdict(Response):
    """What is to become of one numbered cluster of facts."""

    cluster: int = Field(description="Number of the cluster.")
    outcome: Literal["supersede", "keep_all"] = Field(
        description="supersede: some of the facts say the same, and one of them speaks for all. keep_all: each says "
        "something of its own."
    )
    survivor: int | None = Field(default=None, description="Index of the fact that stays; only for supersede.")
    absorbed: list[int] = Field(
        default_factory=list, description="Indices of the facts that the survivor speaks for; may be some of them only."
    )
    reworded: str | None = Field(
        default=None,
        description="A better sentence for the survivor, made only of what these facts say; empty if its own is good.",
    )
    reason: str = Field(default="", description="One sentence, for the person who reviews it.")


class Consolidation(Response):
    """Verdicts about all numbered clusters."""

    verdicts: list[ClusterVerdict] = Field(default_factory=list, description="One verdict for each numbered cluster.")


class ConflictVerdict(Response):
    """The answer to one numbered conflict."""

    question: int = Field(description="Number of the conflict.")
    winner: int | None = Field(
        default=None, description="Index of the fact that holds; empty if all can hold at the same time."
    )
    reason: str = Field(default="", description="One sentence.")


class ConflictVerdicts(Response):
    """Answers to all numbered conflicts."""

    answers: list[ConflictVerdict] = Field(default_factory=list, description="One answer for each numbered conflict.")


class RevisionVerdict(Response):
    """The answer to one numbered pair of a new and a known statement."""

    question: int = Field(description="Number of the pair.")
    verdict: Literal["contradict", "reinforce", "unrelated"] = Field(
        description="contradict: if the new one holds, the known one no longer does. reinforce: they say the same. "
        "unrelated: both can hold."
    )
    reason: str = Field(default="", description="One sentence.")


class RevisionVerdicts(Response):
    """Answers to all numbered pairs."""

    answers: list[RevisionVerdict] = Field(default_factory=list, description="One answer for each numbered pair.")


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


class ArtifactLink(Response):
    """How the first document of one numbered pair relates to the second."""

    question: int = Field(description="Number of the pair.")
    relation: Literal["version", "derivative", "unrelated"] = Field(
        description="version: a revision of the same document. derivative: another document made from it. unrelated: "
        "neither."
    )
    confidence: float = Field(default=0.0, ge=0.0, le=1.0, description="How sure, 0 to 1.")


class ArtifactLinks(Response):
    """Answers to all numbered pairs of documents."""

    answers: list[ArtifactLink] = Field(default_factory=list, description="One answer for each numbered pair.")


class Summaries(Response):
    """Base of answers that summarise numbered things; one that says nothing of any is none, and asked for again."""

    @property
    def told(self) -> list[tuple[int, str]]:
        """Number and cleaned text of each summary, in the order of the answer."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any(text for _, text in self.told):
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
    def told(self) -> list[tuple[int, str]]:
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
    def told(self) -> list[tuple[int, str]]:
        """Number and cleaned text of each summary, in the order of the answer."""
        return [(each.conversation, cleaned_answer(each.summary)) for each in self.summaries]
