"""The names of entities, by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from storage.warm import Tables

NAMES_KEPT = 100_000
PERSON = "person"


class Names:
    """Names of entities, kept once they were read, as long as no commit changes the entities."""

    def __init__(self) -> None:
        self._kept: tuple[int, dict[str, str], set[str]] = (0, {}, set())

    async def of(self, tables: Tables, ids: Iterable[str]) -> Mapping[str, str]:
        """Names by id, of these and perhaps of others."""
        return (await self._read(tables, ids))[0]

    async def of_people(self, tables: Tables, ids: Iterable[str]) -> Mapping[str, str]:
        """Names by id of those of these that are people."""
        wanted = {*ids}
        names, people = await self._read(tables, wanted)
        return {name: names[name] for name in wanted & people}

    async def _read(self, tables: Tables, ids: Iterable[str]) -> tuple[dict[str, str], set[str]]:
        """Names by id, and who of them is a person; another question may begin new ones meanwhile."""
        version, names, people = self._kept
        if version != tables.versions["entities"] or len(names) > NAMES_KEPT:
            names, people = {}, set()
            self._kept = tables.versions["entities"], names, people
        missing = [name for name in ids if name not in names]
        if missing:
            rows = await tables.rows("entities", "id", missing, ["id", "name", "entity_type"])
            names.update((row["id"], row["name"]) for row in rows)
            people.update(row["id"] for row in rows if row["entity_type"] == PERSON)
        return names, people
