"""`python -m bench.fuzz [targets…] [--seconds N]`: with atheris where it is installed, else with seeded chance."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
import traceback
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

LONGEST = 1 << 14
SLOW_S = 20  # for one input, on a machine that does other things as well
LARGEST_MB = 2048


def main() -> int:
    """The number of targets at fault."""
    chosen = _arguments()
    if chosen.guided:
        return _guided(chosen.targets[0], chosen.seconds, chosen.crashes)
    from .targets import TARGETS

    unknown = {*chosen.targets} - {*TARGETS}
    if unknown:
        print(f"There is no target {', '.join(sorted(unknown))}. Known: {', '.join(TARGETS)}.")
        return 2
    with_atheris = find_spec("atheris") is not None and not chosen.by_chance
    chosen.crashes.mkdir(parents=True, exist_ok=True)
    faults = 0
    for name in chosen.targets or TARGETS:
        one = _in_process_of_its_own if with_atheris else _by_chance
        faults += one(name, chosen.seconds, chosen.crashes)
    print(f"{faults} targets at fault; their inputs are in {chosen.crashes}" if faults else "no fault")
    return int(bool(faults))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description="Throw damaged input at every parser.")
    parser.add_argument("targets", nargs="*", help="which; by default all")
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument(
        "--crashes", type=Path, default=Path("fuzz-crashes"), help="where inputs that did harm are kept"
    )
    parser.add_argument("--by-chance", action="store_true", help="without atheris, also where it is installed")
    parser.add_argument("--guided", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _in_process_of_its_own(name: str, seconds: int, crashes: Path) -> int:
    """Atheris ends its process, and looks only into what is imported after it."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.fuzz", name, "--guided", "--seconds", str(seconds),
               "--crashes", str(crashes)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    print(f"{name:14} {'FAULT' if done.returncode else 'ok'}  {said[-1][:120] if said else ''}", flush=True)
    if done.returncode:
        print("\n".join(said[-40:]))
    return int(done.returncode != 0)


def _guided(name: str, seconds: int, crashes: Path) -> int:
    atheris: Any = import_module("atheris")  # no dependency: it builds on few machines
    with atheris.instrument_imports(include=["slowwave", "apps", "tasks", "prompts", "inference"]):
        from .seeds import seeds
        from .targets import TARGETS, attempt

    with TemporaryDirectory(prefix="slowwave-corpus-") as corpus:
        for number, seed in enumerate(seeds()[name]):
            Path(corpus, str(number)).write_bytes(seed[:LONGEST])
        options = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-timeout={SLOW_S}", "-print_final_stats=1",
                   f"-rss_limit_mb={LARGEST_MB}", f"-artifact_prefix={crashes}/{name}-", corpus]  # fmt: skip
        atheris.Setup([sys.argv[0], *options], lambda data: attempt(TARGETS[name], data))
        atheris.Fuzz()
    return 0


def _by_chance(name: str, seconds: int, crashes: Path) -> int:
    from .mutations import damaged
    from .seeds import seeds
    from .targets import TARGETS, attempt

    chance, end, tries = random.Random(name), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        tries += 1
        changes = [
            (chance.randrange(7), chance.randrange(1001), chance.randrange(1, 60), chance.randrange(99))
            for _ in range(chance.randrange(5))
        ]
        data = damaged(chance.choice(seeds()[name]), changes, LONGEST)
        begun = time.process_time()
        try:
            attempt(TARGETS[name], data)
            assert time.process_time() - begun < SLOW_S, "it takes too long"
        except Exception:
            (crashes / f"{name}-{tries}").write_bytes(data)
            print(f"{name:14} FAULT after {tries} tries\n{traceback.format_exc()}", flush=True)
            return 1
    print(f"{name:14} ok  {tries} tries", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
