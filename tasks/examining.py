"""Examining: what the doctor finds in a namespace, shown on the run's page."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from slowwave.errors import Damaged
from storage import doctor
from storage.doctor import Finding
from storage.store import Store

from .engine import is_inline, task
from .limits import WHOLE_MEMORY
from .runs import Run
from .summaries import markdown_table, plain_cells


@dataclass(frozen=True, slots=True)
class Examined:
    """What was mended, and what is wrong now."""

    run: str
    mended: tuple[Finding, ...]
    left: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        told = {"mended": [asdict(each) for each in self.mended], "findings": [asdict(each) for each in self.left]}
        return {"run": self.run, "state": "completed", **told}

    def sentence(self) -> str:
        """How the namespace is."""
        mended = f" {len(self.mended)} defects were mended." if self.mended else ""
        if not self.left:
            return f"Healthy.{mended}"
        kinds = Counter(each.check for each in self.left)
        return f"{len(self.left)} defects: {', '.join(f'{kind} ({n})' for kind, n in sorted(kinds.items()))}.{mended}"

    def enforce(self, run: Run) -> None:
        """Raise `Damaged` if something is wrong."""
        if self.left:
            place = f"--store {run.store} --namespace {run.namespace}"
            raise Damaged(self.sentence(), f"Look with `slowwave doctor {place}`, mend with --repair.")


@task("examine the store", tags=[WHOLE_MEMORY])
def examine_store(run: Run, *, repair: bool) -> Examined:
    """Every defect of the newest state, after what can be mended was mended if asked for, as one commit of this run.

    The state is not looked at before it is examined, so that a damaged one can be.
    """
    mended = doctor.mend_head(run.store, run.namespace) if repair else ()
    store = Store.attach(run.store, run.namespace, retention=run.retention)
    mended += doctor.repair(store, run.id, run.now) if repair else ()
    return Examined(run.id, mended, doctor.examine(store))


async def publish_findings(run: Run, examined: Examined) -> None:
    """Show them on the run's page: a Markdown artifact with the counts, and a table of all defects."""
    if is_inline():
        return
    from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact

    rows = [{"state": "mended", **asdict(each)} for each in examined.mended]
    rows += [{"state": "found", **asdict(each)} for each in examined.left]
    kinds = Counter((row["state"], row["check"], row["table"]) for row in rows)
    lines = [
        f"# {run.id}",
        "",
        f"Store `{run.store}`, namespace `{run.namespace}`. {examined.sentence()}",
        "",
        *(markdown_table(("state", "check", "table", "count"), [(*kind, n) for kind, n in sorted(kinds.items())])),
    ]
    await acreate_markdown_artifact("\n".join(lines), key="doctor-summary", description="How the namespace is")
    if rows:
        await acreate_table_artifact(plain_cells(rows), key="doctor-findings", description="Every defect")
