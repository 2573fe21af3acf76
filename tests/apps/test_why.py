"""The story of a row as a person reads it: plain sentences at 100 columns, everything with --json."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import EPOCH, command
from mcp.client import Client
from stores import fact, remembered

from apps import printing
from apps.configuration import Place
from apps.mcp.server import make_server
from slowwave import OpenMemory, open_memory
from slowwave.common.settings import Settings
from slowwave.common.types import Decided, Story
from slowwave.common.types.stories import sections_of

MARCH, APRIL = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
VIM, NEOVIM, NVIM, AGAIN = "f_1a_0a", "f_1a_0b", "f_1a_0c", "f_1a_0d"
RUN = "made"  # what `remembered` writes as
INTERNAL = ("subject_id", "embed_model", "statement_hash", "entrenchment", "temporal_change", "consolidated", "status")


def decision(id: str, action: str, about: str, *others: str, reason: str, by: str = "rule") -> dict[str, Any]:
    ids = [about, *others]
    return {"id": id, "action": action, "subject_id": about, "at": APRIL, "reason": reason, "decided_by": by,
            "ids_in": ids, "ids_out": ids, "run_id": RUN}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Vim, replaced by neovim; a fact that was merged into that, one that repeats it, and one that disputes it."""
    vim = fact(VIM, "Marta uses vim.", status="superseded", status_reason=f"temporal_change: replaced by {NEOVIM}",
               valid_to=MARCH, replaced_by=NEOVIM, created_at=EPOCH, expired_at=APRIL)  # fmt: skip
    neovim = fact(NEOVIM, "Marta uses neovim.", predicate="uses", valid_from=MARCH, created_at=APRIL)
    nvim = fact(NVIM, "Marta works in neovim.", status="superseded", replaced_by=NEOVIM,
                status_reason=f"consolidated: absorbed by {NEOVIM}")  # fmt: skip
    again = fact(AGAIN, "Marta uses neovim!", status="rejected", status_reason=f"repeats {NEOVIM}",
                 similar_to_id=NEOVIM)  # fmt: skip
    never = fact("f_1a_0e", "Marta never uses [red]neovim[/].", created_at=APRIL, valid_from=MARCH, polarity="negated")
    more = {
        "lineage": [
            {"id": "l1", "old_id": VIM, "new_id": NEOVIM, "reason": "temporal_change"},
            {"id": "l2", "old_id": NVIM, "new_id": NEOVIM, "reason": "consolidated"},
        ],
        "decisions": [
            decision("d1", "supersede", VIM, NEOVIM, reason="A later message replaces it (temporal_change)."),
            decision("d2", "create", NEOVIM, reason=f"It was accepted and looks like {VIM}: both are kept."),
            decision("d3", "absorb", NEOVIM, NVIM, reason="They say the same.", by="model"),
            decision("d4", "reassert", NEOVIM, AGAIN, reason="The same words again."),
            decision("d5", "create", VIM, reason="It was accepted and no other fact says the same."),
        ],
        "pair_decisions": [
            {"id": "p1", "a_id": NEOVIM, "b_id": "f_1a_0e", "kind": "implicit_conflict", "outcome": "pending",
             "at": APRIL, "expires_at": APRIL.replace(year=2999)},
            {"id": "p2", "a_id": NEOVIM, "b_id": VIM, "kind": "redundant", "outcome": "keep_all", "at": APRIL},
        ],
        "artifacts": [{"id": "a_1", "title": "Team page", "linked_fact_ids": [VIM, NEOVIM]}],
        "runs": [{"id": RUN, "flow": "ingest", "state": "completed", "started_at": APRIL, "calls": 2, "usd": 0.01,
                  "summary": '{"counts": {"facts learned": 3, "facts merged": 0}}', "owner": "host|1"}],
    }  # fmt: skip
    return remembered(tmp_path / "m", [vim, neovim, nvim, again, never], more=more)


@pytest.fixture
def shown(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """What `slowwave why` prints at so many columns, its lines joined where the terminal broke them."""

    def show(id: str, *more: str, columns: int = 100) -> str:
        monkeypatch.setattr(printing.out, "_width", columns)
        command(monkeypatch, "why", id, "--store", place, *more)
        return capsys.readouterr().out

    return show


def joined(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("id", [VIM, NEOVIM, NVIM, AGAIN, "m_f_1a_0a", RUN])
def test_no_internal_column_and_no_line_over_100_columns_is_printed(shown: Any, id: str) -> None:
    text = shown(id)
    assert [name for name in INTERNAL if name in text.replace("--json", "")] == []
    assert max(map(len, text.splitlines())) <= 100
    assert id in text or id.startswith("m_")  # of a message the beginning of its words stands there


def test_what_was_replaced_names_what_took_its_place_and_when(shown: Any) -> None:
    text = joined(shown(VIM))
    assert text.startswith("Marta uses vim. No longer: it held from 2026-01-01 to 2026-03-01.")
    assert "Replaced by “Marta uses neovim.” (0b): things changed." in text
    assert "2026-04-01 Learned: It was accepted and no other fact says the same." in text
    assert text.index("Learned:") < text.index("Replaced by “Marta uses neovim.”: A later message replaces it.")
    assert "A later message replaces it. made" in text  # the run that decided it


def test_what_stands_now_names_what_it_replaced_merged_leans_on_and_is_disputed_by(shown: Any) -> None:
    text = joined(shown(NEOVIM))
    for words in (
        "Holds since 2026-03-01.", "It took the place of “Marta uses vim.” (0a): things changed.",
        "It also stands for “Marta works in neovim.” (0c): both say the same.",
        "Disputed by “Marta never uses [red]neovim[/].” (0e): nothing tells which holds.",
        "Learned: It was accepted and looks like “Marta uses vim.” (0a): both are kept.",
        "Merged with “Marta works in neovim.”: They say the same. Decided by a model.",
        "Took the place of “Marta uses vim.”",
    ):  # fmt: skip
        assert words in text
    assert text.count("It was accepted") == 1  # what was decided about others when they were learned is theirs


def test_what_a_run_changed_is_told_kind_by_kind_with_the_rows_and_additions_last(shown: Any) -> None:
    text = joined(shown(RUN))
    for words in (
        "Replaced: A later message replaces it. “Marta uses vim.” – now: “Marta uses neovim.” 0a",
        "Merged: They say the same. “Marta uses neovim.” – also stands for: “Marta works in neovim.” 0b",
        "Learned 2 “Marta uses neovim.” 0b “Marta uses vim.” 0a",
    ):
        assert words in text
    assert text.index("Merged: ") < text.index("Learned 2")


def test_json_keeps_everything(shown: Any) -> None:
    full = shown(NEOVIM, "--json")
    assert all(name in full for name in ("predicate", "valid_from", "keep_all", "columns"))
    assert '"about": "f_1a_0b"' in shown(NEOVIM, "--json")
    assert '"speaker": ' in shown(NEOVIM, "--json")


def test_python_and_agents_read_the_same_sentences(place: Path) -> None:
    with open_memory(place) as memory:
        whole = memory.why(NEOVIM)
        assert memory.why("a_1").title == "Team page"
    assert [source.message_id for source in whole.evidence] == [f"m_{NEOVIM}"]
    assert [source.message_id for source in whole.absorbed] == [f"m_{NVIM}"]
    assert {step[2] for step in whole.lineage} == {"consolidated", "temporal_change"}
    assert [(pair["other_id"], pair["outcome"]) for pair in whole.pairs] == [("f_1a_0e", "pending"), (VIM, "keep_all")]
    assert whole.artifacts == (("a_1", "Team page"),)
    assert whole.text.splitlines()[:3] == ["Marta uses neovim.", f"Id: {NEOVIM}", "Holds since 2026-03-01."]

    async def over_mcp() -> Any:
        async with Client(make_server(OpenMemory(Place(str(place), "default", Settings())))) as client:
            return await client.call_tool("why", {"id": NEOVIM})

    result = asyncio.run(over_mcp())
    told: str = result.content[0].text
    assert "Merged with “Marta works in neovim.”: They say the same." in told
    assert "[red]" not in told  # inert, like every stored text that an agent reads


def story(**more: Any) -> Story:
    return Story("f_1a_0a", "facts", "The deadline is 15 April.", {"status": "active"}, (), (), (), **more)


def test_what_a_person_retired_is_not_another_fact_that_looked_like_it() -> None:
    words = {VIM: "The deadline is 15 April.", NEOVIM: "Nora Feld: it is on 15 April."}
    retired = Decided(EPOCH, "archive", "person", "A person retired it.", RUN, VIM, (NEOVIM,), "Ada")
    approved = Decided(EPOCH, "approve", "Ada", "Ada said yes to: Retire 1 fact.", RUN, "pr_1", (VIM, NEOVIM), "Ada")
    told = replace(story(statements=words), decisions=(retired, approved))
    assert "Nora Feld" not in told.text
    assert "A person retired it. Ada approved it on 2026-01-01." in told.text
    assert "A person retired it" not in replace(told, id=NEOVIM).text


@pytest.mark.parametrize(
    ("by", "approved_by", "sentence"),
    [
        ("rule", "", ""),
        ("model", "", " Decided by a model."),
        ("rule", "Ada", " A rule proposed it, Ada approved it on 2026-01-01."),
        ("model", "Ada", " A model proposed it, Ada approved it on 2026-01-01."),
        ("person", "Ada", " Ada approved it on 2026-01-01."),
        ("Ada", "Ada", " Decided by Ada."),
    ],
)
def test_a_story_tells_who_proposed_and_who_approved(by: str, approved_by: str, sentence: str) -> None:
    base = story()
    decided = Decided(EPOCH, "absorb", by, "They say the same.", RUN, base.id, (), approved_by)
    told = Story(base.id, base.kind, base.title, base.columns, (), (), (decided,))
    (line,) = next(part for part in sections_of(told) if part.title == "What became of it").lines
    assert line.text == f"Merged: They say the same.{sentence}"
    assert told.as_json()["decisions"][0]["approved_by"] == approved_by
