"""No input whatever makes a parser do anything but read it, or refuse it in a sentence.

A few damaged inputs for each parser here; `make fuzz` tries as many as there is time for, guided by what they reach.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.fuzz.mutations import CHANGES, TOKENS, damaged
from bench.fuzz.seeds import seeds
from bench.fuzz.targets import TARGETS, attempt
from slowwave.reading.filters.redaction import redact

FOUND = Path(__file__).parents[1] / "fuzzing"
EXAMPLES = int(os.environ.get("SLOWWAVE_FUZZ_EXAMPLES", "0"))  # more of them, where there is time
FEW = {"conversations": 12, "exports": 8, "secrets": 8, "orders": 8, "answers": 12}
CHANGE = st.tuples(
    st.integers(0, CHANGES - 1), st.integers(0, 1000), st.integers(1, 60), st.integers(0, len(TOKENS) - 1)
)


@pytest.mark.parametrize("target", TARGETS)
def test_every_seed_is_read_or_refused_in_a_sentence(target: str) -> None:
    for seed in seeds()[target][:12]:
        attempt(TARGETS[target], seed)


@pytest.mark.parametrize("target", TARGETS)
def test_no_damage_to_an_input_is_more_than_a_refusal(target: str) -> None:
    known = seeds()[target]

    @settings(
        max_examples=EXAMPLES or FEW.get(target, 20),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.integers(0, len(known) - 1), st.lists(CHANGE, max_size=4) | st.binary(max_size=60).map(list))
    def survives(which: int, changes: list[tuple[int, int, int, int]] | list[int]) -> None:
        if changes and isinstance(changes[0], int):
            attempt(TARGETS[target], bytes(changes))  # type: ignore[arg-type]
        else:
            attempt(TARGETS[target], damaged(known[which], changes))  # type: ignore[arg-type]

    survives()


@pytest.mark.parametrize("case", sorted(path.name for path in FOUND.iterdir()))
def test_what_did_harm_once_does_none_any_more(case: str) -> None:
    attempt(TARGETS[case.partition("-")[0]], (FOUND / case).read_bytes())


PATTERNS = ("a@", "password=", "eyJ", "x://:", '"token":"', "AKIA", "-----BEGIN PRIVATE KEY-----", "4111 ", "sig=&")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_redaction_takes_as_long_as_its_text_and_no_longer(pattern: str) -> None:
    def seconds(size: int) -> float:
        text = (pattern * (size // len(pattern) + 1))[:size]
        begun = time.process_time()
        redact(text)
        return time.process_time() - begun

    seconds(1_000)  # patterns are compiled
    assert seconds(64_000) < 40 * max(seconds(8_000), 0.002)  # eight times the text; quadratic would be sixty-four
