"""The names of entities, by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from storage.warm import Tables

NAMES_KEPT = 100_000
PERSON = "person"


class Names:
    """Names of entities, kept once they were read, as long as no commit changes the entities."""

    def __init__(self) -> None:
        self._held: dict[str, str] = {}
        self._people: set[str] = set()
        self._version = 0

    async def of(self, tables: Tables, ids: Iterable[str]) -> Mapping[str, str]:
        """Names by id, of these and perhaps of others."""
        version = tables.versions["entities"]
        if version != self._version or len(self._held) > NAMES_KEPT:
            self._held, self._people, self._version = {}, set(), version
        held = self._held
        missing = [name for name in ids if name not in held]
        if missing:
            rows = await tables.rows("entities", "id", missing, ["id", "name", "entity_type"])
            held.update((row["id"], row["name"]) for row in rows)
            self._people.update(row["id"] for row in rows if row["entity_type"] == PERSON)
        return held

    async def of_people(self, tables: Tables, ids: Iterable[str]) -> Mapping[str, str]:
        """Names by id of those of these that are people."""
        wanted = {*ids}
        called = await self.of(tables, wanted)
        return {name: called[name] for name in wanted & self._people}
