"""Other names of entities: which facts give one, and that the shown name stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from stores import entity, fact, remembered
from talk import NOW, rows

from storage.store import Store
from tasks.ingest.other_names import add_aliases_of_facts

STATEMENT = "Owner's sister is called Peti."


def given(store: Path, **more: Any) -> list[str]:
    """The new names after a fact that gives the name Peti to "Owner's sister"."""
    known = fact("f_1", STATEMENT, subject_id="e_sister", predicate="known_as", object_text="Peti", **more)
    remembered(store, [known], more={"entities": [entity("sister", name="Owner's sister")]})
    memory = Store.open(str(store))
    with memory.commit("run", "ingest.apply", NOW) as tx:
        add_aliases_of_facts(tx, tx.by_ids("facts", ["f_1"]), tx.frame("messages"))
    assert "Owner's sister" in rows(store, "entities")["name"].to_list()
    return rows(store, "entity_aliases").filter(pl.col("entity_id") == "e_sister")["alias_name"].to_list()


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"polarity": "affirmed"}, ["peti"]),
        ({"polarity": "negated"}, []),  # "no longer known as"
        ({"polarity": "affirmed", "status": "rejected"}, []),
        ({"polarity": "affirmed", "status": "candidate"}, []),
    ],
)
def test_an_active_affirmed_fact_gives_a_name_and_the_entity_is_not_renamed(
    tmp_path: Path, more: dict[str, Any], names: list[str]
) -> None:
    assert given(tmp_path / "m", **more) == names
