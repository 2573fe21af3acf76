"""Try an installed slowwave as a stranger would: in an empty folder, without the checkout and without a key.

How to run it: `python scripts/try_install.py /path/to/environment/bin/slowwave`. It needs Python alone, and ends with
the first command that fails. The folder has packages named `apps` and `tasks`, which must not get in the way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LINE = {
    "conversation_id": "c1", "message_id": "1", "speaker": "Ana", "role": "user",
    "content": "I moved to Porto in April, and I work at Ferrywise.", "occurred_at": "2026-04-20T18:00:00Z",
}  # fmt: skip
HELLO = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "try_install", "version": "1"},
}  # fmt: skip
LONGEST_S = 300


def run(command: list[str], **more: Any) -> str:
    """The standard output of a command; ends the program where the command fails."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, capture_output=True, text=True, timeout=LONGEST_S, check=False, **more
    )
    print(f"{'ok' if done.returncode == 0 else 'FAILED'}  {' '.join(command)}", flush=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def try_everything(slowwave: str, folder: Path) -> None:
    """Every way to use slowwave, in this folder."""
    for name in ("apps", "tasks"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('a package of somebody else was imported')\n")
    (folder / "talk.jsonl").write_text(json.dumps(LINE) + "\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SLOWWAVE_"))}
    here: dict[str, Any] = {"cwd": folder, "env": environment | {"HOME": str(folder)}}
    print(run([slowwave, "--version"], **here).strip())
    run([slowwave, "demo"], **here)
    run([slowwave, "ingest", "talk.jsonl"], **here)
    found = json.loads(run([slowwave, "recall", "Where does Ana live?", "--json"], **here))
    assert any("Porto" in fact["statement"] for fact in found["facts"]), found
    run([slowwave, "sleep"], **here)
    run([slowwave, "doctor"], **here)
    python = str(Path(slowwave).parent / "python")
    run([python, "-m", "slowwave", "stats"], **here)
    code = "from slowwave import open_memory\nwith open_memory('memory') as memory: assert memory.recall('Ana').facts"
    run([python, "-P", "-c", code], **here)
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([slowwave, "mcp"], **pipes, **here) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for each in asked:
            server.stdin.write(json.dumps(each) + "\n")
            server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
    names = {tool["name"] for tool in answers[1]["result"]["tools"]}
    assert {"recall", "add_observations"} <= names, names
    print(f"ok  {slowwave} mcp: {len(names)} tools")


def main() -> None:
    """Try the command that the first argument names."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        try_everything(str(Path(sys.argv[1]).absolute()), Path(folder))


if __name__ == "__main__":
    main()
