"""The client of REST services that LanceDB brings: a store does without it, and whoever asks for it has it."""

from __future__ import annotations

import subprocess
import sys

from talk import ROOT

BEFORE = """
import sys
from storage.unused_client import CLIENT, defer_client
defer_client()
import lancedb
"""


def _printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", BEFORE + code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_lancedb_is_imported_without_the_calls_of_the_client() -> None:
    assert _printed("print([name for name in sys.modules if name.startswith(f'{CLIENT}.api')])") == "[]"


def test_whoever_asks_for_the_client_has_all_of_it() -> None:
    code = """
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


def test_a_program_that_imported_the_client_itself_keeps_it() -> None:
    code = "client = sys.modules[CLIENT]; client.TableApi; defer_client(); print(sys.modules[CLIENT] is client)"
    assert _printed(code) == "True"
