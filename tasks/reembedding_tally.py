"""What a re-embedding counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from slowwave.profiles import has_profile

from .tallies import Tally

if TYPE_CHECKING:
    from .reembedding import Published, Staged


@dataclass
class ReembedTally(Tally):
    """Counts of one re-embedding, from the model `old` to `new`."""

    old: str = ""
    new: str = ""
    is_published: bool = False
    pace: str = ""
    always: ClassVar[tuple[str, ...]] = ("texts embedded", "rows re-embedded")

    def surveyed(self, texts: int, left: int) -> None:
        """What a run would embed."""
        self.counts["different texts"] += texts
        self.counts["texts to embed"] += left

    def filled(self, rows: Mapping[str, int]) -> None:
        """Rows that lacked a vector of the model that the memory has."""
        self.counts.update({f"{name}: vectors filled": number for name, number in rows.items()})

    def published(self, staged: Staged, published: Published) -> None:
        """What was embedded, and what became of it."""
        self.counts["texts embedded"] += staged.embedded + published.caught_up
        self.counts["texts staged before"] += staged.known
        self.counts["rows re-embedded"] += sum(published.rows.values())
        self.counts.update({f"{name}: rows": number for name, number in published.rows.items()})
        self.gated(published.verdict)
        self.is_published = bool(published.rows)
        seconds = staged.seconds + published.seconds
        rows = self.counts["rows re-embedded"]
        self.pace = (
            f"{staged.embedded / max(staged.seconds, 1e-9):,.0f} texts embedded a second; published in "
            f"{published.seconds:,.1f} s; {rows / max(seconds, 1e-9):,.0f} rows a second in all."
        )

    def linked_anew(self, links: int) -> None:
        """Links between entities that are alike by the new model."""
        self.counts["links between entities"] += links

    @property
    def has_written(self) -> bool:
        """Whether a vector changed."""
        return self.is_published or any(number for what, number in self.counts.items() if what.endswith("filled"))

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """What a reader of the counts should know."""
        turn = f"From {self.old} to {self.new}."
        profile = (
            [] if has_profile(self.new) else
            [f"No thresholds were measured for {self.new}: those of a transformer are used where facts are compared, "
             "unless resolve_cosine is set."]
        )  # fmt: skip
        dry = ["A dry run: nothing was written."] if self.dry_run else []
        if self.old == self.new:
            idle = f"Every row that says something has a vector of {self.new}."
            return [*dry, f"The memory has vectors of {self.new} already.", *([] if self.has_written else [idle])]
        if self.dry_run:
            return [*dry, turn, *profile]
        if not self.is_published:
            return [turn, "Nothing was published; what was embedded is kept for the next attempt."]
        set_it = f'Set embedder = "{self.new}" in slowwave.toml before anything else is written.'
        return [turn, self.pace, set_it, *profile]
