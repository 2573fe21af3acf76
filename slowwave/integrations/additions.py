"""What a program adds to a memory, states anew or retires: the half of `OpenMemory` that writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from slowwave.common.arguments import Time, checked_text, checked_texts, checked_time, refuse_a_fork
from slowwave.common.errors import MissingKey, NoStoreYet, StoreMismatch
from slowwave.common.grouped_calls import GroupedCalls
from slowwave.common.records import Observations
from slowwave.common.types import Added, Ingested

if TYPE_CHECKING:
    from apps.configuration import Place
    from slowwave.common.settings import IngestSettings
    from storage.snapshots import Snapshot
    from tasks.runtime.runs import Run


T = TypeVar("T")
AT_ONCE = 50
"""Entities of one commit at most: others wait for it."""


class Additions:
    """Writes into one namespace, each a run of its own that can be undone; one at a time in a process."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._adding = threading.Lock()
        self._observing = GroupedCalls[Observations, "list[Added | Exception]"](self._adding)
        self._model: str | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The newest state of all tables."""
        raise NotImplementedError

    def add_observations(
        self, entity: str, texts: str | Sequence[str], type: str | None = None, *, create: bool = True
    ) -> Added:
        """State something about an entity, as a run of its own; returns the outcome of each text (S0-02).

        An unknown entity is made, of this type (concept if none is given), or with `create=False` is an error. A text
        that looks like another one is stored and flagged; one that is known word for word is passed over. What several
        threads say meanwhile is one run. Raises `UnusableInput` where there is nothing to add or no such type.
        """
        (added,) = self.add_to_entities({checked_text("entity", entity): texts}, type, create=create)
        return added

    def add_to_entities(
        self, texts: Mapping[str, str | Sequence[str]], type: str | None = None, *, create: bool = True
    ) -> list[Added]:
        """`add_observations` to several entities, as one run; an error of one is raised after the others were added."""
        refuse_a_fork()
        calls = [
            Observations(checked_text("entity", entity), checked_texts("texts", own), type, create)
            for entity, own in texts.items()
        ]
        answers = self._observing.call("", calls, self._observe, lambda every, own: every[own]) if calls else []
        for one in answers:
            if isinstance(one, Exception):
                raise one
        return [one for one in answers if isinstance(one, Added)]

    def _observe(self, calls: Sequence[Observations]) -> list[Added | Exception]:
        """The answer or error of each call, all in one run; what several say of one entity is said at once."""
        joined, places = dict[Observations, list[str]](), list[tuple[Observations, slice]]()
        for call in calls:
            texts = joined.setdefault(entity := replace(call, texts=()), [])
            places.append((entity, slice(len(texts), len(texts) + len(call.texts))))
            texts += call.texts
        said = [replace(entity, texts=texts) for entity, texts in joined.items()]
        parts = (said[start : start + AT_ONCE] for start in range(0, len(said), AT_ONCE))
        added = dict(zip(joined, [one for part in parts for one in self._written(part)], strict=True))
        if len(calls) == 1:
            return [*added.values()]
        from tasks.people.observations import part_of

        found = ((added[entity], own) for entity, own in places)
        return [one if isinstance(one, Exception) else part_of(one, own) for one, own in found]

    def _written(self, said: Sequence[Observations]) -> Sequence[Added | Exception]:
        """The answers of one run, or of a run for each entity if the one run fails."""
        from tasks.people.observations import observe_all  # imports the ingest path, which reading does not need

        if len(said) > 1:
            with suppress(Exception):  # each is tried alone below, and then gets its own error
                return self._with_run(lambda run, settings: observe_all(run, said, settings))
        return [self._alone(one) for one in said]

    def _alone(self, said: Observations) -> Added | Exception:
        from tasks.people.observations import observe

        def work(run: Run, settings: IngestSettings) -> Added:
            name, texts, type, create = said.name, said.texts, said.entity_type, said.create
            return observe(run, name, texts, settings, entity_type=type, create=create)

        try:
            return self._with_run(work)
        except Exception as error:
            return error

    def _with_run(self, work: Callable[[Run, IngestSettings], T]) -> T:
        """Work as a run with the memory's embedding model, which is looked up once, and again after a mismatch."""
        place, settings = self.place, self.place.settings.ingest
        if self._model is not None:
            with suppress(StoreMismatch, MissingKey):
                return work(place.run("observe", embedder=self._model), settings)
        try:
            run = place.run("observe")
            self._model = run.embedder
        except NoStoreYet:
            run = place.run("observe", makes_store=True)
        return work(run, settings)

    def ingest(
        self,
        messages: Sequence[Mapping[str, object]],
        conversation: str | None = None,
        *,
        speaker: str | None = None,
        model: str | None = None,
        max_usd: float | None = None,
        max_calls: int | None = None,
        now: Time | None = None,
    ) -> Ingested:
        """Learn from messages of a conversation, as `slowwave ingest` does from a file: the same filters, one run.

        A message has `role` and `content`, and may have `name`, `timestamp` and `message_id`. A conversation grows when
        its name is given again. What is known already costs nothing; equal texts of one speaker with neither time nor
        id are one message. `speaker` is the name of the person who speaks as `user`; `model` and the limits stand in
        place of those of the settings. Raises `UnusableInput` for what is no message, and `BudgetReached` never: the
        rest waits for the next run.
        """
        refuse_a_fork()
        from apps.configuration import with_flags
        from flows.ingest import ingest_messages  # imports the ingest path, which reading does not need

        limits, place = {"model": model, "max_usd": max_usd, "max_calls": max_calls}, self.place
        settings, at = with_flags(place.settings, limits, owner=speaker).ingest, checked_time(now)
        where = (place.namespace, place.uri)
        with self._adding:
            return ingest_messages(messages, conversation, *where, settings, place.settings.embedder, at)

    def retire(self, facts: str | Sequence[str]) -> tuple[str, ...]:
        """Retire live facts (ids): out of recall, into the archive; returns the runs, one for each entity.

        Raises `UnknownName` for an unknown one, `UnusableInput` for one that is not live, `Refused` for a pinned one;
        none is retired then.
        """
        refuse_a_fork()
        from recall.history import fact_named
        from tasks.people.observations import plan_to_retire, retire

        named = [fact_named(self.snapshot, each) for each in checked_texts("facts", facts)]
        with self._adding:
            owners = self.snapshot.by_ids("facts", named, ["id", "owner_entity_id"])
            owned = [
                (str(owner), rows["id"]) for (owner,), rows in owners.group_by("owner_entity_id", maintain_order=True)
            ]
            for owner, ids in owned:
                plan_to_retire(self.snapshot, self.place.run("retire"), owner, ids.to_list())  # raises before any run
            runs, gone = [], set[str]()
            for owner, ids in owned:
                left = [each for each in ids if each not in gone]  # the other end of a relation goes with it
                if left:
                    run = self.place.run("retire")
                    gone |= {each for each, _ in retire(run, owner, left).facts}
                    runs.append(run.id)
            return tuple(runs)

    def revise(self, fact: str, statement: str) -> Added:
        """State a live fact anew, as one run: the statement is added to its entity, and the fact is retired.

        Nothing is retired where the statement is refused, says the same as the fact (`confirmed`, with its id), or
        waits for a person. Raises as `retire` does.
        """
        refuse_a_fork()
        from recall.history import fact_named
        from tasks.people.observations import observe

        old, place = fact_named(self.snapshot, checked_text("fact", fact)), self.place
        with self._adding:
            owner = self.snapshot.by_ids("facts", [old], ["owner_entity_id"]).item()
            settings = place.settings.ingest
            return observe(
                place.run("observe"), owner, [checked_text("statement", statement)], settings, instead_of=old
            )
