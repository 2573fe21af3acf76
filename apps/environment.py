"""`slowwave doctor --environment`: whether everything that slowwave runs on is here. It changes nothing.

Nothing heavy is imported at the top, so that the checks run where a package is missing or broken, too: what a check
cannot find out is a row of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement

from slowwave.common.errors import MissingKey, SlowwaveError
from slowwave.common.installation import REINSTALL

from .configuration import Place
from .printing import out, print_json, table

State = Literal["ok", "note", "problem"]
"""A note is no obstacle; a problem is something needed that is missing, broken, too old or too new."""
COMPILED = ("numpy", "pyarrow", "polars", "scipy.sparse", "lancedb")
"""Packages of compiled code: they can be installed for another processor or system, and then do not load."""
LEAST_FREE = 1 << 30


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found, and the way out where something is to be done."""

    check: str
    state: State
    found: str
    remedy: str = ""


def show_environment(place: Place, as_json: bool) -> bool:
    """Show all checks; whether nothing that is needed is missing."""
    checks = list(examine(place))
    is_ready = all(each.state != "problem" for each in checks)
    if as_json:
        print_json({"is_ready": is_ready, "checks": [asdict(each) for each in checks]})
        return is_ready
    rows = [(each.check, each.state, f"{each.found}\n{each.remedy}".rstrip()) for each in checks]
    out.print(table("Environment", ("check", "state", "found, and the way out"), rows))
    out.print("Everything needed is here." if is_ready else "Something needed is missing: see the rows with `problem`.")
    return is_ready


def examine(place: Place) -> Iterator[Check]:
    """All checks of this process and this place, the cheap ones first."""
    parts: list[tuple[str, Callable[[], Iterable[Check]]]] = [
        ("packages", _installed),
        ("language model", lambda: language_models(place.settings.model_dump(), os.environ)),
        ("compiled packages", lambda: compiled(COMPILED)),
        ("embedding model", lambda: [embedding_model(place.settings.embedder, os.environ)]),
        ("store", lambda: store(place)),
    ]
    for name, part in parts:
        try:
            yield from part()
        except SlowwaveError as error:
            yield Check(name, "problem", error.message, error.remedy)
        except Exception as error:  # a package may be broken in any way
            yield Check(name, "problem", f"Not checked, {_in_words(error)}", "See the rows about packages.")


def _in_words(error: Exception) -> str:
    """Kind and text of an error, without secrets; of most errors only the kind where that cannot be looked at."""
    kind = type(error).__name__
    try:
        from inference.secrets import without_secrets
    except Exception:  # it needs packages of compiled code
        return f"{kind}: {error}" if isinstance(error, ImportError) else kind
    return f"{kind}: {without_secrets(str(error))}"


def _installed() -> Iterable[Check]:
    try:
        own = metadata.distribution("slowwave")
    except metadata.PackageNotFoundError:
        return [Check("slowwave", "problem", "The package slowwave is not installed.", REINSTALL)]
    return packages(map(Requirement, own.requires or ()), version_of)


def version_of(name: str) -> str | None:
    """The installed version of a package; none where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def packages(required: Iterable[Requirement], version: Callable[[str], str | None]) -> Iterator[Check]:
    """A row for each package that is missing, too old or too new; one row that counts the others."""
    needed = [each for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    wrong = [(each, reason) for each in needed if (reason := _unfit(each, version(each.name)))]
    yield Check("packages", "ok", f"{len(needed) - len(wrong)} of {len(needed)} as needed")
    for each, reason in wrong:
        yield Check(each.name, "problem", reason, f"pip install '{each.name}{each.specifier}'")


def _unfit(required: Requirement, version: str | None) -> str:
    """Why a version does not fit; nothing where it does."""
    if version is None:
        return "It is not installed."
    is_fit = required.specifier.contains(version, prereleases=True)
    return "" if is_fit else f"{version} does not fit; needed is {required.specifier}."


def compiled(names: Sequence[str]) -> Iterator[Check]:
    """A row for each package of compiled code that cannot be imported, or one that says that all can."""
    broken = []
    for name in names:
        try:
            import_module(name)
        except Exception as error:  # of the loader, or of the package itself
            package = name.partition(".")[0]
            found = f"{package} does not load: {type(error).__name__}: {error}"
            broken.append(
                Check("compiled packages", "problem", found, f"pip install --force-reinstall --no-deps {package}")
            )
    yield from broken or [Check("compiled packages", "ok", f"{len(names)} of {len(names)} load")]


def language_models(settings: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Check]:
    """A row for each language model of the settings: whether its key is there. No key is shown, no model is called."""
    from inference.providers import KEYS, WITHOUT_KEY, choose

    for name in sorted(set(_models(settings))):
        variable = KEYS.get(name.partition("/")[0])
        try:
            choose(name, environ)
        except MissingKey as error:
            yield Check("language model", "problem", error.message, f"Set {variable}. {WITHOUT_KEY}")
        except SlowwaveError as error:
            yield Check("language model", "problem", error.message, error.remedy)
        else:
            found = f"{name}{f', by {variable}' if variable else ''}"
            if name == "auto":
                found = "auto: nobody reads yet, words are kept as they were said; slowwave init asks who may read"
            yield Check("language model", "ok", found)


def _models(settings: Mapping[str, Any], is_model: bool = False) -> Iterator[str]:
    """The language models in settings: `model`, `extract_model` … of every table `llm`."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _models(value, is_model=name == "llm")
        elif is_model and (name == "model" or name.endswith("_model")) and isinstance(value, str) and value:
            yield value


def embedding_model(name: str, environ: Mapping[str, str]) -> Check:
    """Whether the embedding model can be used; one of another provider is not called."""
    from inference.embedding import STATIC, STATIC_MODELS, find_function, is_static, open_embedder

    if name in STATIC_MODELS or (is_static(name) and Path(name.removeprefix(STATIC)).is_dir()):
        return Check("embedding model", "ok", f"{name}, {open_embedder(name).embed(['slowwave']).shape[1]} dimensions")
    if is_static(name):
        found = f"{name} is no folder here; it is looked for in the Hugging Face hub when a run begins."
        return Check("embedding model", "note", found, "Name a folder to work without the hub.")
    try:
        find_function(name, environ)
    except SlowwaveError as error:
        return Check("embedding model", "problem", error.message, error.remedy)
    return Check("embedding model", "ok", name)


def store(place: Place) -> Iterator[Check]:
    """Whether the store can be written, has room, and is of a schema that this version knows."""
    from storage.object_storage import is_remote

    if is_remote(place.uri):
        yield Check("store", "note", f"{place.uri} is on object storage.", "`slowwave stats` shows whether it answers.")
    else:
        yield from _folder(Path(place.uri).absolute())
    yield _schema(place)


def _folder(folder: Path) -> Iterator[Check]:
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        remedy = "Choose another folder with --store or SLOWWAVE_STORE, or change its permissions."
        yield Check("store", "problem", f"{there} is not a folder that can be written.", remedy)
    else:
        yield Check("store", "ok", f"{folder}{'' if there == folder else ' is not made yet; it can be'}")
    free = shutil.disk_usage(there).free
    scarce = free < LEAST_FREE
    remedy = "Make room, or choose another disk with --store. `slowwave upkeep` drops old versions." if scarce else ""
    yield Check("disk", "note" if scarce else "ok", f"{free / 1e9:.1f} GB free", remedy)


def _schema(place: Place) -> Check:
    from slowwave.common.errors import NoStoreYet, UnknownName
    from storage.store import Store
    from storage.tables import SCHEMA_VERSION

    try:
        version = Store.attach(place.uri, place.namespace).head.schema_version
    except (NoStoreYet, UnknownName):
        return Check("schema", "ok", f"{SCHEMA_VERSION}; the namespace {place.namespace!r} is not made yet")
    return schema(version, SCHEMA_VERSION)


def schema(version: int, known: int) -> Check:
    """Whether a store of this schema version can be opened by a slowwave that knows another."""
    if version > known:
        found = f"The store has schema version {version}, this slowwave knows {known}."
        return Check("schema", "problem", found, "pip install --upgrade slowwave")
    if version < known:
        remedy = "The next command migrates it. To be able to go back, copy the folder first (docs/upgrading.md)."
        return Check("schema", "note", f"The store has schema version {version}, this slowwave knows {known}.", remedy)
    return Check("schema", "ok", str(version))
