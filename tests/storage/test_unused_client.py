"""The client of REST services that LanceDB brings: a store does without it, and whoever asks for it has it."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Barrier

import pytest
from talk import ROOT

from storage import connection
from storage.connection import defer_client

BEFORE = """
import sys
from storage.connection import CLIENT, defer_client
defer_client()
import lancedb
"""


def _printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", BEFORE + code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.proof
def test_lancedb_is_imported_without_the_calls_of_the_client_and_whoever_asks_for_it_has_all_of_it() -> None:
    code = """
assert [name for name in sys.modules if name.startswith(f"{CLIENT}.api")] == []
import lance_namespace_urllib3_client as client, lance_namespace
from lance_namespace_urllib3_client import ApiClient, TableApi
assert TableApi(ApiClient()).api_client is not None
assert client.ListTablesResponse is lance_namespace.ListTablesResponse
assert client is sys.modules[CLIENT]
try:
    client.nothing
except AttributeError as error:
    print(error)
"""
    assert _printed(code) == "module 'lance_namespace_urllib3_client' has no attribute 'nothing'"


CALLS = """
import time
time.sleep(0.002)
from NAME.part import Record
from NAME.api import Call
DONE = True
"""


def _made(folder: Path, name: str) -> None:
    """A client like the real one: what lies in it asks for its neighbours, executing the package takes its time."""
    (folder / name).mkdir()
    for part, text in {
        "__init__": CALLS,
        "part": "class Record: pass\n",
        "rest": "class Answer: pass\n",
        "api": "import NAME.part\nfrom NAME import rest\nclass Call: answer = rest.Answer\n",
    }.items():
        (folder / name / f"{part}.py").write_text(text.replace("NAME", name))


@pytest.mark.parametrize("turn", range(4))
def test_threads_that_defer_the_client_import_it_and_ask_it_at_once_have_the_same(
    turn: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, count = f"client_of_threads_{turn}", 8
    _made(tmp_path, name)
    monkeypatch.setattr(connection, "CLIENT", name)
    monkeypatch.syspath_prepend(tmp_path)
    begun = Barrier(count)

    def use(number: int) -> tuple[object, ...]:
        begun.wait()
        defer_client()
        for part in ("part", "api")[:: 1 if number % 2 else -1]:
            import_module(f"{name}.{part}")
        client = import_module(name)
        call = client.Call
        assert call is sys.modules[f"{name}.api"].Call
        assert client.DONE
        with pytest.raises(AttributeError):
            _ = client.nothing
        return client, client.part.Record, client.Record, call, sys.modules[name]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(count) as pool:
            seen = [each.result(timeout=30) for each in [pool.submit(use, number) for number in range(count)]]
    finally:
        sys.setswitchinterval(interval)
        for module in [each for each in sys.modules if each.split(".")[0] == name]:
            del sys.modules[module]
    assert len({tuple(map(id, each)) for each in seen}) == 1
    assert seen[0][0] is seen[0][-1]
    assert seen[0][1] is seen[0][2]
