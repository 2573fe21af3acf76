"""Asked once: who may read. Nobody's key or subscription is used without that answer, which stands in the settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from inference.providers import choose
from inference.readers import KEPT, QUOTES, Reader, find_readers
from slowwave.errors import UnusableInput
from slowwave.settings import LanguageSettings

from .configuration import FILE, Place, write_settings
from .printing import err, out

AUTO = "auto"
"""The model of settings that nobody chose: words are kept as quotations."""
CHANGE = "slowwave init asks who may read"


def ask_who_reads() -> str:
    """Show who could read, and ask a person; the model, or `quotes` for nobody."""
    readers = find_readers()
    ready = [reader for reader in readers if not reader.missing]
    out.print("Who may read what was said? A model turns it into facts, and sees what changed.")
    for number, reader in enumerate(ready, 1):
        out.print(f"  {number}  {reader.label}: {reader.cost}")
    out.print(f"  0  {KEPT}")
    for reader in readers[len(ready) :]:
        out.print(f"     ({reader.label}: {reader.missing})")
    return _answered(typer.prompt("Number, or provider/model", default="0"), ready)


def _answered(answer: str, ready: list[Reader]) -> str:
    word = answer.strip()
    if word.isdigit():
        if int(word) > len(ready):
            raise UnusableInput(f"There is no number {word}.", f"Give a number up to {len(ready)}, or provider/model.")
        return ready[int(word) - 1].model if int(word) else QUOTES
    choose(word)
    return word


def decided(llm: LanguageSettings, place: Place, *, quiet: bool) -> LanguageSettings:
    """The settings after a person was asked at the first ingest in a terminal; the answer is written to the settings.

    Elsewhere, and where somebody chose before, they stay as they are.
    """
    if llm.model != AUTO or quiet or "://" in place.uri or Path(place.uri).exists():
        return llm
    if not _is_terminal():
        err.print(f"No model reads yet: words are kept as they were said. {CHANGE}.")
        return llm
    model = ask_who_reads()
    if Path(FILE).exists():
        out.print(f'To keep the answer, write model = "{model}" below [ingest.llm] in {FILE}.')
    else:
        out.print(f"The answer stands in {write_settings(True, model, False)}.")
    return llm.model_copy(update={"model": model})


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI")
