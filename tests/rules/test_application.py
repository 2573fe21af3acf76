"""Application: the short way of candidates that nothing else bears on gives what the whole way gives."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.facts.revision import application
from tests.patchwork import Memory, claim

SAYINGS = ("plays the cello", "plays the cello in a quartet", "sold the red car", "does not eat fish", "is 31")
statements = st.builds(
    lambda subject, saying, at, kind, obj: claim(
        f"{subject} {saying}.", subject, "uses", obj, at=at, kind=kind, confidence=0.9
    ),
    st.sampled_from(["Anna", "Ben"]),
    st.sampled_from(SAYINGS),
    st.integers(0, 4),
    st.sampled_from(["observation", "relation"]),
    st.sampled_from([None, "Vim", "Acme"]),
)
cosines = st.lists(st.sampled_from([0.3, 0.76, 0.86, 0.95]), min_size=12, max_size=12)


@given(st.lists(st.lists(statements, min_size=1, max_size=3), min_size=1, max_size=4), cosines)
@settings(max_examples=25, deadline=None)
def test_the_short_way_is_the_whole_way(told: list[list[dict[str, Any]]], near: list[float]) -> None:
    memory = Memory()
    for number, batch in enumerate(told):
        built = memory.candidates([{**each, "message": f"{number}/{n}"} for n, each in enumerate(batch)])
        texts = [*dict.fromkeys([*built.facts["statement"], *memory.facts["statement"]])]
        pairs = dict(zip(list(permutations(texts, 2)), near, strict=False))
        plan = memory.plan(built, pairs)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(application, "_stand_alone", lambda *_: False)
            whole = memory.plan(built, pairs)
        for name in ("facts", "evidence", "lineage", "aspects", "batches", "decisions", "pairs"):
            one, other = getattr(plan, name), getattr(whole, name)
            assert one.select(sorted(one.columns)).equals(other.select(sorted(other.columns))), name
        assert plan.again == whole.again
        memory.keep(plan)
