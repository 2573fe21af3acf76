"""Questions about communities: how many share a prompt, what becomes of useless answers, what of one stays."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest
from messages_api import Body, MessagesApi, Reply, fault, filled
from pydantic import ValidationError
from talk import CLAUDE

from inference.language import Language
from inference.request_batch import MemoryLedger
from slowwave.common.settings import CommunitySettings
from slowwave.graph.community_plan import cleaned_answer
from tasks.ingest.sessions import SummaryAnswers
from tasks.nightly.groups import _summaries

Pairs = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]


def pairs(count: int) -> Pairs:
    """So many communities of two that are due, their members' names, and the one fact that is known of each."""
    ids = [f"c{n:03d}" for n in range(count)]
    members = [[f"a{n:03d}", f"b{n:03d}"] for n in range(count)]
    names = [{"id": id_, "name": id_.upper()} for both in members for id_ in both]
    facts = [{"community_id": id_, "statement": f"{a} knows {b}."} for id_, (a, b) in zip(ids, members, strict=True)]
    due = pl.DataFrame({"id": ids, "fingerprint": [f"b2:{id_}" for id_ in ids], "entity_ids": members})
    return due, pl.DataFrame(names), pl.DataFrame(facts)


@dataclass
class Named:
    """A state of which only the names of entities are read."""

    names: pl.DataFrame

    def by_ids_or_all(self, *_: Any) -> pl.DataFrame:
        return self.names


def asked(about: Pairs, ledger: MemoryLedger, **llm: Any) -> SummaryAnswers:
    """What became of one run's questions; several runs share a ledger."""
    settings = CommunitySettings.model_validate({"llm": {"model": CLAUDE, **llm}})
    due, names, facts = about
    reading: Any = Named(names)

    async def ask() -> SummaryAnswers:
        async with Language(settings.llm, ledger) as language:
            return await _summaries(reading, due, facts, settings, language, dry_run=False)

    return asyncio.run(ask())


Serve = Callable[..., MessagesApi]

_SHOWN = re.compile(r'<community number="(\d+)" members="2">\n<names>\n(.*?)\n')


def shown(request: Body) -> dict[int, str]:
    """The first member of each community that a request asks about."""
    content = request["messages"][0]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return {int(number): name for number, name in _SHOWN.findall(text)}


def answered(texts: Mapping[int, str]) -> Reply:
    return filled("CommunitySummaries", {"summaries": [{"community": n, "summary": t} for n, t in texts.items()]})


def told(request: Body) -> Reply:
    """A model that names the first member of each community."""
    return answered({n: f"About {name}." for n, name in shown(request).items()})


# Answers that are no use (T14)


@pytest.mark.parametrize("nothing", ["**", " \u200b", "---", "…"])
def test_an_answer_without_a_word_is_not_kept_and_the_next_run_asks_again(serve: Serve, nothing: str) -> None:
    api: MessagesApi = serve(lambda request: answered(dict.fromkeys(shown(request), nothing)))
    ledger = MemoryLedger()
    first = asked(pairs(2), ledger)
    assert (dict(first.summaries), first.failed, first.left) == ({}, 2, 0)
    assert first.errors
    assert not any(entry.response for entry in ledger.entries.values())
    api.otherwise = told
    healed = asked(pairs(2), ledger)
    assert [each.text for each in healed.summaries.values()] == ["About A000.", "About A001."]
    assert (healed.failed, healed.errors) == (0, ())


def test_one_that_an_answer_says_nothing_of_is_asked_about_alone_until_it_is_told(serve: Serve) -> None:
    def mute(request: Body) -> Reply:
        return answered({n: "**" if name == "A001" else "Fine." for n, name in shown(request).items()})

    api: MessagesApi = serve(mute)
    ledger = MemoryLedger()
    first = asked(pairs(3), ledger, validation_retries=0)
    assert (sorted(first.summaries), first.failed) == (["b2:c000", "b2:c002"], 1)
    assert [[*shown(request).values()] for request in api.requests] == [["A000", "A001", "A002"], ["A001"]]
    api.otherwise = told
    assert asked(pairs(3), ledger).summaries["b2:c001"].text == "About A001."
    assert [[*shown(request).values()] for request in api.requests[2:]] == [["A001"]]


def test_numbers_that_nobody_asked_about_are_not_taken(serve: Serve) -> None:  # T37
    answers = [(7, "Strange."), (1, "One of two."), (2, "Second."), (1, "Told twice.")]
    serve(filled("CommunitySummaries", {"summaries": [{"community": n, "summary": text} for n, text in answers]}))
    done = asked(pairs(2), MemoryLedger())
    assert [each.text for each in done.summaries.values()] == ["One of two.", "Second."]


# How many share a prompt (S2-48)


def room_for(most: int, broken: Callable[[], Reply]) -> Callable[[Body], Reply]:
    """A model whose answer breaks when it is asked about more than so many."""
    return lambda request: told(request) if len(shown(request)) <= most else broken()


@pytest.mark.parametrize(("tokens", "sizes"), [(4096, [27, 27, 6]), (1500, [10] * 6), (64, [1] * 60)])
def test_no_more_share_a_prompt_than_its_answer_has_room_for(serve: Serve, tokens: int, sizes: list[int]) -> None:
    api: MessagesApi = serve(told)
    asked(pairs(60), MemoryLedger(), max_output_tokens=tokens)
    assert sorted((len(shown(request)) for request in api.requests), reverse=True) == sizes


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "tool_use"])
def test_where_an_answer_is_no_use_each_is_asked_about_alone(serve: Serve, stop: str) -> None:
    api: MessagesApi = serve(room_for(3, lambda: filled("CommunitySummaries", {"summaries": []}, stop=stop)))
    ledger = MemoryLedger()
    done = asked(pairs(9), ledger, validation_retries=0, concurrency=1)
    assert [each.text for each in done.summaries.values()] == [f"About A{n:03d}." for n in range(9)]
    assert (done.failed, done.errors) == (0, ())
    assert [len(shown(request)) for request in api.requests] == [9, *[1] * 9]


def test_where_the_model_is_not_reached_nothing_is_asked_again(serve: Serve) -> None:
    api: MessagesApi = serve(fault(529))
    done = asked(pairs(9), MemoryLedger(), transient_retries=0)
    assert (done.failed, len(done.errors), len(api.requests)) == (9, 1, 1)


def test_what_the_budget_does_not_reach_is_left_for_later(serve: Serve) -> None:
    serve(room_for(1, lambda: filled("CommunitySummaries", {"summaries": []}, stop="max_tokens")))
    done = asked(pairs(2), MemoryLedger(), max_calls=2, concurrency=1)
    assert (len(done.summaries), done.left, done.failed) == (1, 1, 0)


# What is cut


@pytest.mark.parametrize("size", [1, 200, 511])
def test_a_limit_that_leaves_no_room_is_refused_with_what_to_set_instead(size: int) -> None:
    with pytest.raises(ValidationError, match="0 for no summaries, or at least 512"):
        CommunitySettings(max_prompt_bytes=size)


# What of an answer stays (T37)


def test_a_summary_is_one_line_without_what_cannot_be_seen() -> None:
    assert cleaned_answer("Kestrel keeps\n p95 < 100 ms.\u200b") == "Kestrel keeps p95 < 100 ms."
    assert cleaned_answer(" -- ") == ""
