"""What is said of an entity that holds too much: that it could be split, and into what (S0-11 … S0-13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slowwave.splitting.split_plan import Split
from slowwave.splitting.structure import CONTAINS, INVERSE

DIGITS = 4


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """An entity that should be split: how full it is, and its topics with the number of observations of each."""

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    threshold: int
    split_score: float
    topics: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        """The contract of `split find --json`, one of its candidates."""
        return asdict(self) | {"split_score": round(self.split_score, DIGITS)}


@dataclass(frozen=True, slots=True)
class SplitAnalysis:
    """How full an entity is, and what it holds: (id, content) of the observations of each topic (S0-12).

    Topics are looked for from `proactive_ratio` of the threshold on; `is_distinct` where enough of them are large.
    """

    entity_id: str
    entity_name: str
    entity_type: str
    observation_count: int
    threshold: int
    needs_split: bool
    is_distinct: bool
    topics: Mapping[str, tuple[tuple[str, str], ...]]
    split_score: float
    plan_hash: str

    def as_json(self) -> dict[str, Any]:
        """The contract of `split analyze --json`."""
        told = {name: getattr(self, name) for name in self.__slots__}
        contents = {label: [content for _, content in held] for label, held in self.topics.items()}
        return told | {"topics": contents, "split_score": round(self.split_score, DIGITS)}


@dataclass(frozen=True, slots=True)
class SplitSuggestion:
    """How an entity could be split, with the content of each observation; no splits where it need not be (S0-13)."""

    analysis: SplitAnalysis
    splits: tuple[Split, ...]
    message: str

    def as_json(self) -> dict[str, Any]:
        """The contract of `split propose --json --dry-run`: what to approve, or null and why."""
        return {"proposal": self._plan() if self.splits else None, "message": self.message}

    def _plan(self) -> dict[str, Any]:
        seen, parent = self.analysis, self.analysis.entity_name
        said = {fact: content for held in seen.topics.values() for fact, content in held}
        moved = sum(len(each.observations) for each in self.splits)
        ends = [(parent, each.name) for each in self.splits]
        return {
            "original_entity": parent,
            "entity_id": seen.entity_id,
            "entity_type": seen.entity_type,
            "suggested_splits": [
                {"name": each.name, "entity_type": each.entity_type,
                 "observations": [{"id": fact, "content": said[fact]} for fact in each.observations]}
                for each in self.splits
            ],
            "relations_to_create": [
                {"from": one, "relation_type": relation, "to": other}
                for whole, part in ends
                for one, relation, other in ((whole, CONTAINS, part), (part, INVERSE[CONTAINS], whole))
            ],
            "analysis": {
                "observation_count": seen.observation_count, "threshold": seen.threshold,
                "split_score": round(seen.split_score, DIGITS), "n_topics": len(seen.topics),
                "moved_observations": moved, "original_observations_remaining": seen.observation_count - moved,
            },
            "plan_hash": seen.plan_hash,
        }  # fmt: skip
