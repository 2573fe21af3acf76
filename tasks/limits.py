"""Limits that all runs on one Prefect server share: of tasks at once, by their tags, and of requests to a provider.

Both are Prefect's global concurrency limits, which people see and change in its UI. A tag that nobody limited (`prefect
concurrency-limit create slowwave-model 4`) limits nothing.
"""

from __future__ import annotations

# No task with one of these calls another one with the same: it would wait for its own place.
ASKS_MODEL = "slowwave-model"
EMBEDS = "slowwave-embedding"
WHOLE_MEMORY = "slowwave-whole-memory"
