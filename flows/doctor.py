"""Doctor: whether a namespace is as it should be."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tasks.people.reporting import examine_store, publish_findings
from tasks.runtime.engine import flow
from tasks.runtime.runs import new_run


@flow("doctor", takes_turns=True)
async def doctor(
    namespace: str = "default", store: str = "./memory", repair: bool = False, now: datetime | None = None
) -> dict[str, Any]:
    """Look for duplicate keys, dangling ids, cycles, files that cannot be read and other damage.

    The run fails where something is wrong, with all of it in a table on its page.

    Args:
        namespace: Which memory inside the store; tenants are kept apart by it.
        store: Folder or address of the store.
        repair: Mend what can be mended, as one commit that can be undone.
        now: The time that counts as now; empty for the real time.
    """
    run = new_run("doctor", store, namespace, "", now)
    examined = examine_store(run, repair=repair)
    await publish_findings(run, examined)
    examined.enforce(run)
    return examined.as_json()
