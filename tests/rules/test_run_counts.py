"""What runs count, by the labels that people read."""

from __future__ import annotations

from slowwave.lifecycle.run_counts import RunCount, effects, shown_counts


def test_a_count_is_stored_under_its_key_and_shown_by_its_label() -> None:
    assert RunCount("facts pruned") is RunCount.FACTS_PRUNED
    assert (str(RunCount.FACTS_PRUNED), RunCount.FACTS_PRUNED.label) == ("facts pruned", "unused facts archived")
    assert RunCount.FACTS_MERGED in {"facts merged": 1}
    assert RunCount.NEW_ENTITIES.label == "new entities"


def test_counts_are_shown_in_one_order_and_without_zeros() -> None:
    counts = {"facts learned": 2, "facts merged": 0, "messages extracted": 4, "messages read": 5, "sources": 1}
    assert list(shown_counts(counts).items()) == [
        ("sources found", 1), ("messages read", 5), ("messages searched for facts", 4), ("new facts", 2),
    ]  # fmt: skip


def test_one_event_has_one_label_at_every_door() -> None:
    same = [
        (RunCount.FACTS_MOVED, RunCount.OBSERVATIONS_MOVED),
        (RunCount.PROPOSALS, RunCount.CHANGES_PROPOSED),
        (RunCount.FACTS_RETIRED, RunCount.FACTS_ARCHIVED),
        (RunCount.CANDIDATES, RunCount.CANDIDATE_FACTS),
    ]
    assert all(one.label == other.label for one, other in same)
    assert shown_counts({RunCount.FACTS_MOVED: 2, RunCount.OBSERVATIONS_MOVED: 3}) == {
        "facts moved to another entity": 5
    }


def test_counts_of_a_night_stand_by_phase_and_links_of_documents_say_what_they_are() -> None:
    counts = {"upkeep: indexes made": 2, "consolidate: artifacts: versions": 1, "facts: rows": 7}
    assert list(shown_counts(counts)) == [
        "facts: rows", "consolidate: documents linked as versions of one document", "upkeep: indexes built",
    ]  # fmt: skip


def test_what_ended_and_what_went_to_the_archive_are_two_things() -> None:
    counts = {"facts superseded": 1, "facts retracted": 2, "steward: facts pruned": 3, "facts retired": 4}
    assert effects(counts) == ["3 ended", "7 archived"]
