"""`python -m bench [names…] [--quick]`: measure, print a table, and save the figures with what the machine is."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from .data import data_folder
from .figures import Absent, Figure, Options, measured

BENCHMARKS: Mapping[str, str] = {
    "embedding": "texts per second of the embedder",
    "ingest": "keyless ingest: rate, time by stage, memory",
    "latency": "recall over 500, 10,000 and 100,000 facts, one at a time and many at once",
    "loop": "a line written and three questions, again and again, beside mem0, LangGraph and SQLite",
    "peers": "one question over 500, 10,000 and 100,000 texts, beside mem0 and BM25",
    "modes": "which way of recalling finds most, and what it costs",
    "examples": "evidence recall on the bundled examples",
    "consolidation": "planted repetitions and contradictions; LoCoMo said twice",
    "steward": "a sweep over 100,000 and 1,000,000 facts",
    "forgetting": "what pruning a third costs recall, on LoCoMo and BEAM",
    "ablation": "what each family of rules brings, without a model; some twenty minutes",
    "locomo": "evidence recall on LoCoMo",
    "beam": "pair finding on BEAM",
    "languages": "evidence recall on conversations in six languages, asked in them and in English",
    "coding": "answers, and the newest state of what changed, in coding sessions of two projects",
    "names": "whether two names are one person or thing",
    "pairs": "near-duplicate pairs, beside SemHash",
    "merging": "the steward's merge phase, beside SemHash",
    "guards": "what the guards of a merge let through",
    "walks": "breadth first and spreading activation on a million relations, beside peers",
    "faults": "every flow killed at its durable steps and run again",
    "communities": "groups in a graph of a million relations, beside igraph and networkit",
    "scaling": "the same work at 10,000, 100,000 and 1,000,000 facts",
    "machines": "two machines put 40 tenants of one object store to sleep; one is killed in the middle",
    "tenants": "several writers at several namespaces for minutes, killed and stalled: nothing is lost or mixed up",
}
RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = ("lancedb", "prefect", "polars", "numpy", "model2vec")

out = Console(width=None if sys.stdout.isatty() else 150)


def main() -> None:
    """Run the chosen benchmarks, or all."""
    chosen = _arguments()
    figures: list[Figure] = []
    with TemporaryDirectory(prefix="slowwave-bench-") as temporary:
        place = chosen.place or Path(temporary)
        for name in chosen.names or BENCHMARKS:
            options = Options(
                place / name, data_folder(), chosen.quick, chosen.minutes, tuple(chosen.facts),
                chosen.store, chosen.chars, chosen.out,
            )  # fmt: skip
            figures += _run(name, options)
    if not figures:
        return
    out.print(_table(figures))
    out.print(f"saved in {_save(figures, chosen.quick)}")


def _arguments() -> argparse.Namespace:
    listed = "\n".join(f"  {name:<10} {what}" for name, what in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        "python -m bench", description="Measure speed and recall.", epilog=f"benchmarks:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long `tenants` goes on")
    parser.add_argument("--facts", type=int, nargs="*", default=(), help="sizes of the stores of `scaling`")
    parser.add_argument("--place", type=Path, help="a folder that is kept; scaling uses its stores again")
    parser.add_argument("--store", default="", help="a store for `coding` that has read its sessions already")
    parser.add_argument("--chars", type=int, default=3000, help="size of the blocks of `coding`")
    parser.add_argument("--out", type=Path, help="a folder for the blocks of `coding` and the answers")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r}; there are {', '.join(BENCHMARKS)}")
    return chosen


def _run(name: str, options: Options) -> list[Figure]:
    """The figures of one benchmark; none where what it needs is not there."""
    if name != "scaling" and options.place.exists():
        raise SystemExit(f"{options.place} is there already: only scaling uses stores again")
    options.place.mkdir(parents=True, exist_ok=True)
    out.print(f"[bold]{name}[/]: {BENCHMARKS[name]}")
    with measured() as cost:
        try:
            figures = list(_figures(name, options))
        except Absent as reason:
            out.print(f"  skipped: {reason}")
            return []
    out.print(f"  took {cost.wall_s:.0f} s")
    return figures


def _figures(name: str, options: Options) -> Iterable[Figure]:
    found: Iterable[Figure] = import_module(f".{name}", __package__).run(options)
    return found


def _table(figures: Iterable[Figure]) -> Table:
    table = Table("benchmark", "figure", "value", "unit", "bar", "note")
    table.columns[2].justify = "right"
    for each in figures:
        verdict = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[each.is_met]
        sign = "≥" if each.better == "higher" else "≤"
        bar = f"{sign} {each.bar:g} {verdict}" if each.bar is not None else ""
        table.add_row(each.benchmark, each.name, _shown(each.value), each.unit, bar, each.note)
    return table


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cores": os.cpu_count(), "load": os.getloadavg()[0], "machine": platform.machine(), "system": platform.system(),
        "python": platform.python_version(), "versions": {name: version(name) for name in PACKAGES},
    }  # fmt: skip


def _save(figures: Iterable[Figure], is_quick: bool) -> Path:
    now = datetime.now(UTC)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d-%H%M%S}.json"
    whole = {
        "at": now.isoformat(timespec="seconds"), "quick": is_quick, "machine": machine(),
        "figures": [{**asdict(each), "is_met": each.is_met} for each in figures],
    }  # fmt: skip
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
