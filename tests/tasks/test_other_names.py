"""Other names of entities: which facts give one, and that the shown name stays."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from stores import entity, fact, remembered
from talk import NOW, rows

from storage.store import Store
from tasks.ingest.other_names import add_aliases_of_facts


def test_an_active_affirmed_fact_gives_a_name_and_the_entity_is_not_renamed(tmp_path: Path) -> None:
    given = {
        "sister": {"polarity": "affirmed"},
        "brother": {"polarity": "negated"},  # "no longer known as"
        "mother": {"polarity": "affirmed", "status": "rejected"},
        "father": {"polarity": "affirmed", "status": "candidate"},
    }
    facts = [
        fact(f"f_{who}", f"Owner's {who} is called Peti.", subject_id=f"e_{who}", predicate="known_as",
             object_text="Peti", **more)
        for who, more in given.items()
    ]  # fmt: skip
    people = [entity(who, name=f"Owner's {who}") for who in given]
    memory = Store.open(str(remembered(tmp_path / "m", facts, more={"entities": people})))
    with memory.commit("run", "ingest.apply", NOW) as tx:
        add_aliases_of_facts(tx, tx.by_ids("facts", [each["id"] for each in facts]), tx.frame("messages"))
    added = rows(tmp_path / "m", "entity_aliases").filter(pl.col("alias_name") == "peti")
    assert added["entity_id"].to_list() == ["e_sister"]
    assert {f"Owner's {who}" for who in given} <= {*rows(tmp_path / "m", "entities")["name"]}
