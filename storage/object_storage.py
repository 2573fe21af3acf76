"""Files on object storage, looked at with the same settings as LanceDB's: `storage_options`, then the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from slowwave.common.errors import UnusableInput

if TYPE_CHECKING:
    from pyarrow import fs

_NAMES: Mapping[str, tuple[str, ...]] = {
    "access_key": ("access_key_id",),
    "secret_key": ("secret_access_key",),
    "session_token": ("session_token", "token"),
    "region": ("region", "default_region"),
    "endpoint_override": ("endpoint_url_s3", "endpoint_url", "endpoint"),
    "anonymous": ("skip_signature",),
    "force_virtual_addressing": ("virtual_hosted_style_request",),
}
"""The name of a setting in PyArrow, and its name in `AWS_…` and in storage options."""


def is_remote(uri: str) -> bool:
    """Whether the store is on object storage."""
    return "://" in uri and not uri.startswith("file://")


def file_system(uri: str, storage_options: Mapping[str, str] | None = None) -> tuple[fs.FileSystem, str]:
    """The file system of a place, and its path there."""
    from pyarrow import fs

    if not is_remote(uri):
        return fs.LocalFileSystem(), os.path.abspath(uri.removeprefix("file://"))
    scheme, _, path = uri.rstrip("/").partition("://")
    if scheme != "s3":
        system, path = fs.FileSystem.from_uri(uri)
        return system, path
    options = _s3_settings(os.environ) | _s3_settings(storage_options or {}, is_aws=True)
    return _s3(path.partition("/")[0], tuple(sorted(options.items()))), path


def exist(uri: str, names: Iterable[str], storage_options: Mapping[str, str] | None = None) -> list[str]:
    """Those of the names below the place under which there is any file; one small request or two for each."""
    from pyarrow import fs

    listed = list(names)
    with _reached(uri):
        system, path = file_system(uri, storage_options)
        infos = system.get_file_info([f"{path}/{name}" for name in listed])
    return [name for name, info in zip(listed, infos, strict=True) if info.type == fs.FileType.Directory]


def folders(uri: str, storage_options: Mapping[str, str] | None = None) -> list[str]:
    """Names of the folders of the place."""
    from pyarrow import fs

    with _reached(uri):
        system, path = file_system(uri, storage_options)
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return [info.base_name for info in infos if info.type == fs.FileType.Directory]


def files(uri: str, storage_options: Mapping[str, str] | None = None) -> dict[str, int]:
    """Every file below the place with its size in bytes."""
    from pyarrow import fs

    with _reached(uri):
        system, path = file_system(uri, storage_options)
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
    return {info.path[len(path) + 1 :]: info.size or 0 for info in infos if info.type == fs.FileType.File}


def check_bucket(uri: str, storage_options: Mapping[str, str] | None = None) -> None:
    """Raise `UnusableInput` where there is no such bucket: it is not ours to make."""
    from pyarrow import fs

    with _reached(uri):
        system, path = file_system(uri, storage_options)
        bucket = path.partition("/")[0]
        is_there = system.get_file_info(bucket).type != fs.FileType.NotFound
    if not is_there:
        raise UnusableInput(f"There is no bucket {bucket!r}.", "Make it, or choose another --store.")


@contextmanager
def _reached(uri: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise UnusableInput(
            f"The object storage of {uri!r} does not answer as it should: {reason}",
            "Check the bucket and what AWS_ENDPOINT_URL, AWS_REGION and the AWS keys say: see docs/object-storage.md.",
        ) from error


def one_endpoint(storage_options: Mapping[str, str]) -> dict[str, str]:
    """The options with the endpoint under the one name under which it wins over the environment in LanceDB."""
    names = {f"{before}{name}": "aws_endpoint" for name in _NAMES["endpoint_override"] for before in ("", "aws_")}
    return {names.get(name.lower(), name): value for name, value in storage_options.items()}


def _s3_settings(settings: Mapping[str, str], *, is_aws: bool = False) -> dict[str, str]:
    """What is set, by PyArrow's names."""
    lower = {name.lower(): str(value) for name, value in settings.items() if value}
    known = {name.removeprefix("aws_"): value for name, value in lower.items() if is_aws or name.startswith("aws_")}
    found = {ours: [known[name] for name in names if name in known] for ours, names in _NAMES.items()}
    return {ours: values[0] for ours, values in found.items() if values}


@lru_cache(maxsize=16)
def _s3(bucket: str, settings: tuple[tuple[str, str], ...]) -> fs.S3FileSystem:
    from pyarrow import fs

    chosen: dict[str, Any] = dict(settings)
    for flag in ("anonymous", "force_virtual_addressing"):
        chosen[flag] = chosen.get(flag, "").lower() in ("1", "true", "yes", "on")
    if "endpoint_override" in chosen:
        chosen["scheme"] = "http" if chosen["endpoint_override"].startswith("http://") else "https"
    elif "region" not in chosen:
        chosen["region"] = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(**chosen)
