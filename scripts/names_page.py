"""`docs/names.md`: what settings and commands of the systems that slowwave unites are called here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from slowwave.common.settings.seed_names import GROUPS, SYSTEMS, SeedName

INTRO = """# Names of other systems

This page is for people who used one of the five systems that slowwave unites: it lists their settings and commands
with the names of slowwave. Words are defined in the [glossary](glossary.md).

## Settings

`slowwave.toml` accepts the names of the left column, in a table of their own (`[graph]`, `[memory.graph]`,
`[pipeline]`, …), at the top (`consolidation_resolve_threshold = 0.6`) or under `[memory]`. If a file gives a setting by
our name and by another name, ours counts. Two other names with different values for one setting are an error. So is a
name without a counterpart; the error gives the reason that this page gives. The form of a deployment and Python have
our names alone.
"""
GROUPS_INTRO = "Whole tables that may be used, with our names or theirs in them:\n"
COMMANDS_INTRO = """## Commands

What could be called there, and what to call here: a command, a flow (`prefect deployment run 'NAME/NAME'`, or its
parameters in the form of the deployment), or a tool that `slowwave mcp` gives to agents.
"""


@dataclass(frozen=True, slots=True)
class SeedCommand:
    """What another system calls something, and what does it here."""

    seed: str
    commands: tuple[str, ...] = ()
    flows: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    note: str = ""


COMMANDS: Mapping[str, Sequence[SeedCommand]] = MappingProxyType(
    {
        "sofia": (
            SeedCommand("find_duplicate_observations", ("duplicates",), tools=("find_duplicate_observations",)),
            SeedCommand("find_split_candidates", ("report",), tools=("find_split_candidates",)),
            SeedCommand("analyze_entity_split", ("split propose",), tools=("analyze_entity_split",)),
            SeedCommand("propose_entity_split_tool", ("split propose",), tools=("propose_entity_split_tool",)),
            SeedCommand("execute_entity_split_tool", ("review approve",), tools=("execute_entity_split_tool",)),
            SeedCommand("consolidation_report", ("report",), ("report",), ("consolidation_report",)),
            SeedCommand("delete_observations", ("retire",), ("review",), ("delete_observations",)),
            SeedCommand("add_observations", ("observe",), tools=("add_observations",)),
            SeedCommand("open_nodes", ("facts", "neighbours"), tools=("open_nodes",)),
            SeedCommand("search_semantic", ("find",), tools=("search_semantic",)),
        ),
        "x-mem": (
            SeedCommand("consolidate", ("consolidate",), ("consolidate",), note="--mode, --since and --dry-run"),
            SeedCommand(
                "consolidate-artifacts",
                ("consolidate",),
                ("consolidate",),
                note="unless [consolidate.artifacts] enabled = false",
            ),
        ),
        "zeph": (
            SeedCommand("/graph", ("stats",)),
            SeedCommand("/graph entities", ("entities",), note="--limit 50"),
            SeedCommand("/graph facts NAME", ("facts",), tools=("open_nodes",)),
            SeedCommand("/graph communities", ("communities",), tools=("communities",)),
            SeedCommand("/graph backfill [--limit N]", ("backfill",), ("backfill",)),
            SeedCommand("status line before results", note="progress on standard error, and the log of the run"),
            SeedCommand("--graph-memory", ("init",), note="`[ingest.extract] enabled`; `settings` of the flow"),
            SeedCommand("zeph init", ("init",)),
            SeedCommand("migrations 021, 023, 024, 027-030, 084", ("doctor",), note="a store migrates as it is opened"),
        ),
        "Reflections.ai": (
            SeedCommand("ingest", ("ingest",), ("ingest",)),
            SeedCommand("evaluate-patches", ("ingest",), ("ingest",), note="within the run that extracts"),
            SeedCommand("apply-patches", ("review approve",), ("review",), note="else within `ingest`"),
            SeedCommand("score-aspects", ("aspects",), note="scores are brought up to date by whatever changes facts"),
        ),
        "pgmemory": (
            SeedCommand("steward sweep", ("steward",), ("steward",), note="--phase and --dry-run"),
            SeedCommand("quality_stats", ("quality",)),
        ),
    }
)


Grid = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def names_page(grid: Grid) -> str:
    """The page; `grid` makes a table of heads and rows."""
    parts = [INTRO]
    for system, names in SYSTEMS.items():
        parts.append(f"### {system}\n\n{grid(('there', 'here'), [(f'`{n}`', _here(s)) for n, s in names.items()])}")
    tables = [(f"`[{name}]`", f"`[{place}]`") for name, place in GROUPS.items()]
    parts.append(f"### Tables\n\n{GROUPS_INTRO}\n{grid(('there', 'here'), tables)}")
    parts.append(COMMANDS_INTRO)
    for system, commands in COMMANDS.items():
        rows = [(f"`{each.seed}`", *_callable(each)) for each in commands]
        parts.append(f"### Commands of {system}\n\n{grid(('there', 'command', 'flow', 'tool', 'note'), rows)}")
    return "\n".join(parts)


def _here(seed: SeedName) -> str:
    if seed.why:
        return f"no counterpart: {seed.why}"
    return f"`{seed.ours}`" + (f" ({seed.how})" if seed.how else "")


def _callable(command: SeedCommand) -> tuple[str, str, str, str]:
    called = ", ".join(f"`slowwave {name}`" for name in command.commands)
    flows, tools = (", ".join(f"`{name}`" for name in names) for names in (command.flows, command.tools))
    return called, flows, tools, command.note
