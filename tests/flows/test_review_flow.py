"""The form of the flow `review`: what it asks, how it is read, and that it waits, through a restart, for a person."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow
from prefect.states import Pending
from pydantic import ValidationError
from stores import fact, remembered
from talk import rows
from test_review import IDS, SAID, T1, one_of, proposed, retired

from flows.review import review
from slowwave.review.proposals import ProposalQuestion, verdicts_of
from tasks.people.review_forms import filled_in, form_of

EVIL = "Marta wrote <b>[click](http://evil.example)</b> | `x` \n# big"
SPLIT = ProposalQuestion(
    "p_1", "split", "Split Marta", True, ("High risk: large. Two topics.", *(f"~ facts {n}" for n in range(20)))
)
MERGE = ProposalQuestion("p_2", "merge", EVIL, False, ("Low risk.", f"~ facts “{EVIL}”"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which three observations of Marta may go, one of them stated by herself; to be copied."""
    facts = [
        fact(row, f"Marta {text}", kind="observation", owner_entity_id="e_marta", entrenchment="system_inferred")
        for row, text in zip(IDS, SAID, strict=True)
    ]
    facts[-1]["entrenchment"] = "user_stated"
    store = remembered(tmp_path_factory.mktemp("made") / "memory", facts)
    for number in (0, 1, 4):
        proposed(store, number, now=T1 + timedelta(seconds=number))
    return store


@pytest.fixture
def memory(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "memory"))


def answer(**more: Any) -> dict[str, Any]:
    return {"name": "Ana", "low_risk": "each for itself", **more}


# The form


def test_the_form_wants_a_name_and_one_decision_and_leaves_everything_waiting_by_default() -> None:
    form = form_of([SPLIT, MERGE])
    schema = form.model_json_schema()
    assert schema["required"] == ["name"]
    assert schema["properties"]["low_risk"]["default"] == "each for itself"
    assert "low_risk" not in form_of([SPLIT]).model_json_schema()["properties"]
    with pytest.raises(ValidationError):
        form(**{})
    filled = form(**answer()).model_dump()
    assert filled_in([SPLIT, MERGE], filled) == {"p_1": "wait", "p_2": "wait"}
    assert verdicts_of([SPLIT, MERGE], filled_in([SPLIT, MERGE], filled), "reject") == {"p_2": "reject"}
    boxes = {name: box for name, box in schema["$defs"].items() if name.startswith("Proposal")}
    choices = {name: box["properties"]["decision"]["enum"] for name, box in boxes.items()}
    assert all(each == ["wait", "approve", "reject"] for each in choices.values())
    assert form_of([MERGE], "Ana").model_json_schema()["properties"]["name"]["default"] == "Ana"


def test_stored_text_is_only_text_on_the_page_and_a_long_difference_is_cut() -> None:
    description = str(form_of([SPLIT, MERGE])._description)
    assert "<b>" not in description
    assert "[click]" not in description
    assert "http://" not in description
    assert "\n# big" not in description
    assert len(form_of([SPLIT]).model_json_schema()["properties"]["proposal_01"]["description"]) < 300


# Without Prefect


def test_without_prefect_the_flow_says_what_waits_and_where_to_decide(made: Path) -> None:
    told = asyncio.run(review(store=str(made), limit=2))
    assert told["state"] == "completed"
    assert [each["title"] for each in told["waiting"]] == [f"Let “Marta {SAID[n]}” go" for n in (0, 1)]
    assert "slowwave review list" in told["note"]
    assert asyncio.run(review(store=str(made), action="split"))["note"] == "Nothing waits."
    assert rows(made, "runs", "flow = 'review'").is_empty()


# Under Prefect


async def begun(client: PrefectClient, store: Path, **more: Any) -> UUID:
    """A flow run of a deployment, as a worker finds it."""
    flow = await client.create_flow(review)  # type: ignore[arg-type]
    deployment = await client.create_deployment(flow, name="review")
    parameters = {"store": str(store), **more}
    made = await client.create_flow_run_from_deployment(deployment, parameters=parameters, state=Pending())
    return made.id


async def executed(client: PrefectClient, run: UUID) -> Any:
    """Execute it from its first line, as a worker does in a new process; returns its state."""
    found = await client.read_flow_run(run)
    with suppress(Pause):
        return await run_flow(review, flow_run=found, parameters=found.parameters, return_type="state")  # type: ignore[arg-type]
    return (await client.read_flow_run(run)).state


@pytest.mark.engine
@pytest.mark.xdist_group("engine")
@pytest.mark.proof
def test_the_run_waits_for_a_person_and_carries_out_what_they_say(engine: None, memory: Path) -> None:
    async def told() -> None:
        async with get_client() as client:
            run = await begun(client, memory, person="Ana")
            state = await executed(client, run)
            assert (state.name, state.state_details.pause_key) == ("Suspended", "review")
            assert rows(memory, "runs", "flow = 'review'").is_empty()
            later = proposed(memory, 3)  # the form does not know it
            refused = await client.resume_flow_run(run, run_input={"name": ""})
            assert refused.status.value == "REJECT"
            retired(memory, 0)
            right = answer(low_risk="reject", proposal_01={"decision": "approve"}, proposal_03={"decision": "reject"})
            assert (await client.resume_flow_run(run, run_input=right)).status.value == "ACCEPT"
            state = await executed(client, run)
            assert state.name == "Completed"
            done = await state.result()
            assert [each["state"] for each in done["decided"]] == ["stale", "rejected", "rejected"]
            assert (done["by"], done["state"]) == ("Ana", "incomplete")
            assert one_of(memory, later.id).state == "pending"
            ended = rows(memory, "proposals", "state = 'rejected'")
            assert {*ended.select("decider", "door").iter_rows()} == {("Ana", "prefect")}
            mine = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
            pages = {page.key: str(page.data) for page in await client.read_artifacts(artifact_filter=mine)}
            assert "3 waiting" in pages["review-waiting"]
            assert "refused: stale" in pages["review-summary"]
            assert "slowwave undo review-" in pages["review-summary"]

    asyncio.run(told())
