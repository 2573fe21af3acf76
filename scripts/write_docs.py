"""Write the generated files from what they describe: pages of docs/, the demo's output in README.md, and share/.

How to run it: `make docs`, or `python scripts/write_docs.py`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import pyarrow as pa
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from scripts.man_page import completion, man_page
from scripts.names_page import names_page
from scripts.release import address, registry_manifest, server_name
from slowwave.common.settings import SHARED, Settings
from storage.tables import STAMPS, TABLES, ColumnSpec, Role, Table

ROOT = Path(__file__).parents[1]
DEMO_BEGIN, DEMO_END = "<!-- demo -->", "<!-- /demo -->"
README_COLUMNS = 100
SETTING_COLUMNS = ("default", "range", "meaning")
README_SECTIONS: Mapping[str, int] = {"What changed": 6, "Four questions": 17}
"""Sections of the demo that README shows, each with the number of its first lines."""
_MCP_NAME = re.compile("<!-- mcp-name: .* -->")
TYPES = {"string": "text", "int64": "integer", "double": "number", "bool": "yes/no", "list<item: string>": "texts"}
ROLES = {
    Role.STATE: ("State", "Pinned by every commit and reverted by `undo`."),
    Role.HISTORY: ("History", "Pinned by every commit and kept by `undo`: it tells what happened."),
    Role.LOG: ("Logs", "Appended outside commits: paid answers and accesses survive every rollback."),
}
TABLES_INTRO = """# Tables

This page is for people who read a store directly: it lists every table and column. A [namespace](glossary.md#namespace)
is a LanceDB database of {count} tables (and `_head`, the one row that names the version of each). Every row has a text
key `id`, and {stamps}

`→ table` marks a column that contains the `id` of a row there. All times are UTC. `make docs` generates this page from
`slowwave/common/tables.toml`.
"""
SETTINGS_INTRO = """# Settings

This page lists every setting: first the common ones, which most people need, then those for tuning. slowwave reads
`slowwave.toml` in the current directory, or the file in `SLOWWAVE_CONFIG`. A setting that is not in the file has its
default; an unknown name is an error. `ingest.llm.model` is the key `model` in the table `[ingest.llm]`:

```toml
[ingest.llm]
model = "anthropic/claude-haiku-4-5"
```

Names of other systems are in [names](names.md), words in the [glossary](glossary.md), numbers
such as S4-06 in the [specification](internal/specification.md). `make docs` generates this
page from `slowwave/common/settings/`.
"""
COMMON_INTRO = "## Common\n"
TUNING_INTRO = """## Tuning

Each heading is a table of `slowwave.toml`. Settings of *Common* are not repeated. Each table holds for all flows that
need it: `[ingest.llm]`, for example, also for a night.
"""
COMMON = (
    "embedder",
    "ingest.owner",
    "ingest.llm.model",
    "ingest.llm.extract_model",
    "ingest.llm.answer_model",
    "ingest.llm.max_usd",
    "ingest.llm.max_calls",
    "ingest.llm.max_usd_per_day",
    "ingest.llm.mode",
    "ingest.llm.concurrency",
    "ingest.llm.calls_per_minute",
    "ingest.noise.min_assistant_chars",
    "ingest.noise.content_gate",
    "ingest.extract.enabled",
    "ingest.extract.community_refresh_interval",
    "ingest.sessions.enabled",
    "ingest.resolve.use_embedding_resolution",
    "ingest.evaluate.min_confidence",
    "ingest.beliefs.enabled",
    "consolidate.enabled",
    "consolidate.ask_model",
    "steward.learning_events",
    "steward.prune_threshold",
    "steward.decay_half_days",
    "decay.expired_edge_retention_days",
    "sleep.enabled",
    "sleep.tolerance",
    "backfill.max_usd",
    "fleet.width",
    "recall.k",
    "recall.graph",
    "recall.held_mb",
    "approval.mode",
    "approval.risky",
    "split.thresholds",
    "report.stale_days",
    "labels.locale",
    "mcp.token_budget",
    "retention.undo_days",
)
"""Settings that most people need; all others are for tuning."""
EVERYTHING = "## The whole file\n\nEvery setting at its default; `#` marks those without one.\n"


def tables_page() -> str:
    """All tables, by the part they take in history."""
    stamps = ", ".join(f"`{name}` ({_lower(column.meaning)})" for name, column in STAMPS.items())
    parts = [TABLES_INTRO.format(count=len(TABLES), stamps=f"the stamps {stamps}.")]
    for role, (title, meaning) in ROLES.items():
        parts.append(f"## {title}\n\n{meaning}\n")
        parts += [_table_section(table) for table in TABLES.values() if table.role is role]
    return "\n".join(parts)


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:].rstrip(".")


def _table_section(table: Table) -> str:
    rows = [_column_row(name, column) for name, column in table.columns.items()]
    if table.has_vector:
        rows.append(("`vector`", "vector", "yes", "Unit vector of the store's embedding model."))
    indexes = [
        ("full text", table.full_text),
        ("look-up", (*table.keys, *table.few_values)),
        ("nearest", ("vector",) * table.has_vector),
    ]
    kept = "; ".join(f"{kind}: {', '.join(f'`{c}`' for c in columns)}" for kind, columns in indexes if columns)
    shown = grid(("column", "type", "may be empty", "meaning"), rows)
    return f"### {table.name}\n\nA row is {table.row}.\n\n{shown}" + (f"\nIndexed: {kept}.\n" if kept else "")


def _column_row(name: str, column: ColumnSpec) -> tuple[str, ...]:
    kind = "time" if pa.types.is_timestamp(column.type) else TYPES.get(str(column.type), "numbers")
    refers = f" → `{column.refers}`" if column.refers else ""
    return f"`{name}`", kind, "yes" if column.nullable else "no", column.meaning + refers


def settings_page() -> str:
    """The common settings in one table, the others by their table in the file, and the file with every default."""
    parts = [SETTINGS_INTRO, COMMON_INTRO, grid(("setting", *SETTING_COLUMNS), _common_rows()), TUNING_INTRO]
    for path, model in _groups(Settings):
        rows = [_setting_row(name, info) for name, info in _plain(model).items() if _dotted(path, name) not in COMMON]
        if rows:
            about, shown = (model.__doc__ or "").strip(), grid(("setting", *SETTING_COLUMNS), rows)
            parts.append(f"### {_heading(path)}\n\n{about}\n\n{shown}")
    parts.append(f"{EVERYTHING}\n```toml\n{default_file()}```\n")
    return "\n".join(parts)


def default_file() -> str:
    """`slowwave.toml` with every setting at its default."""
    parts = []
    for path, model in _groups(Settings):
        if lines := [_assignment(name, info) for name, info in _plain(model).items()]:
            parts.append("\n".join([*([f"[{'.'.join(path)}]"] if path else []), *lines]) + "\n")
    return "\n".join(parts)


def _common_rows() -> list[tuple[str, ...]]:
    found = {_dotted(path, name): info for path, model in _groups(Settings) for name, info in _plain(model).items()}
    return [(f"`{name}`", *_setting_row(name, found[name])[1:]) for name in COMMON]


def _plain(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {name: info for name, info in model.model_fields.items() if not _is_group(info)}


def _dotted(path: Sequence[str], name: str) -> str:
    return ".".join((*path, name))


def _groups(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    yield path, model
    for name, info in model.model_fields.items():
        if _is_group(info) and _dotted(path, name) not in SHARED:
            assert isinstance(info.annotation, type)
            yield from _groups(info.annotation, (*path, name))


def _is_group(info: FieldInfo) -> bool:
    return isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)


def _heading(path: Sequence[str]) -> str:
    return f"`[{'.'.join(path)}]`" if path else "At the top of the file"


def _setting_row(name: str, info: FieldInfo) -> tuple[str, ...]:
    return f"`{name}`", f"`{_toml(_default(info))}`", _range(info), info.description or ""


def _range(info: FieldInfo) -> str:
    choices = [f"`{value}`" for value in get_args(info.annotation) if isinstance(value, str)]
    if get_origin(info.annotation) and choices:
        return ", ".join(choices)
    parts = get_args(info.annotation)
    if several := [f"`{value}`" for part in parts for value in get_args(part) if isinstance(value, str)]:
        return f"any of {', '.join(several)}"
    if get_origin(info.annotation) in (dict, tuple):
        return "numbers by name" if get_origin(info.annotation) is dict else "texts"
    if info.annotation in (bool, str):
        return "`true`, `false`" if info.annotation is bool else "text"
    limits = [f"{sign} {value:g}" for sign, value in _limits(info.metadata)]
    return " and ".join(limits) or "any number"


def _limits(metadata: Sequence[Any]) -> Iterator[tuple[str, float]]:
    for rule in metadata:
        match rule:
            case Ge(ge=value):
                yield "≥", float(str(value))
            case Gt(gt=value):
                yield ">", float(str(value))
            case Le(le=value):
                yield "≤", float(str(value))
            case Lt(lt=value):
                yield "<", float(str(value))


def _default(info: FieldInfo) -> Any:
    return info.get_default(call_default_factory=True, validated_data={})


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {_toml(each)}' for name, each in value.items())} }}"
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _assignment(name: str, info: FieldInfo) -> str:
    value = _default(info)
    return f"# {name} =" if value is None else f"{name} = {_toml(value)}"


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


def readme_page() -> str:
    """README with the first lines of the most telling sections of the demo, and its name in the MCP registry."""
    before, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(DEMO_BEGIN)
    after = rest.partition(DEMO_END)[2]
    after = _MCP_NAME.sub(f"<!-- mcp-name: {server_name(address())} -->", after)
    return f"{before}{DEMO_BEGIN}\n```text\n{_demo_sections()}\n```\n{DEMO_END}{after}"


def _demo_sections() -> str:
    environment = {**os.environ, "COLUMNS": str(README_COLUMNS), "PREFECT_API_URL": ""}
    command = [sys.executable, "-m", "slowwave", "demo"]
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    parts = re.split(r"^(?=\w[\w ,?]* ─{5,}$)", shown, flags=re.MULTILINE)
    lines: list[str] = []
    for part in parts:
        count = next((count for title, count in README_SECTIONS.items() if part.startswith(title)), 0)
        if count:
            lines += [*(line.rstrip() for line in part.splitlines()[:count]), "…"]
    return "\n".join(lines)


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/tables.md": tables_page,
    "docs/settings.md": settings_page,
    "docs/names.md": lambda: names_page(grid),
    "README.md": readme_page,
    "server.json": registry_manifest,
    "share/man/man1/slowwave.1": man_page,
    "share/bash-completion/completions/slowwave": lambda: completion("bash"),
    "share/zsh/site-functions/_slowwave": lambda: completion("zsh"),
    "share/fish/vendor_completions.d/slowwave.fish": lambda: completion("fish"),
}


def main() -> None:
    """Write every page."""
    for path, page in PAGES.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
