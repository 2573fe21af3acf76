"""Object storage on loopback: moto's S3, which does one request at a time: of two conditional puts one comes first."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from unittest import mock
from urllib.parse import parse_qs

BUCKET = "memory"
CONDITIONAL = "PUT where there is nothing"
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_EC2_METADATA_DISABLED": "true",
}

Environ = Mapping[str, Any]
Respond = Callable[..., Any]


@dataclass
class LoopbackStorage:
    """A running server: where it is, what was asked of it, and which answers it loses.

    `loses(method, path)` says after a request was done whether its answer gets lost: the caller hears of a broken
    server, as when a connection breaks between the deed and the answer.
    """

    port: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    loses: Callable[[str, str], bool] = lambda method, path: False

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        """What makes LanceDB and PyArrow use it."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.url}

    def put_folder(self, folder: Path, prefix: str) -> None:
        """Let the files of a folder be there as objects, without a request for each."""
        backend = _backend()
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            backend.put_object(BUCKET, f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def taken(self) -> Counter[str]:
        """How many requests of each kind there were since the last time; a conditional put is counted as a put, too."""
        asked, self.asked = self.asked, Counter()
        return asked


@contextmanager
def loopback_storage() -> Iterator[LoopbackStorage]:
    """Inside, there is an S3 with an empty bucket, and the environment names it. Raises ImportError without moto."""
    from moto.moto_server.werkzeug_app import create_backend_app
    from pyarrow import fs
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    storage = LoopbackStorage()
    app = _one_at_a_time(create_backend_app("s3"), storage)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_handler())
    storage.port = server.server_port
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with mock.patch.dict(os.environ, storage.environ):
            fs.S3FileSystem(endpoint_override=storage.url, allow_bucket_creation=True).create_dir(BUCKET)
            storage.taken()
            yield storage
    finally:
        server.shutdown()
        thread.join()


def _one_at_a_time(app: Respond, storage: LoopbackStorage) -> Respond:
    lock = Lock()

    def answer(environ: Environ, start: Respond) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        kind = "LIST" if "list-type" in environ["QUERY_STRING"] else method
        with lock:
            storage.asked[kind] += 1
            if method == "PUT" and environ.get("HTTP_IF_NONE_MATCH") == "*":
                storage.asked[CONDITIONAL] += 1
            prefix = parse_qs(environ["QUERY_STRING"]).get("prefix", [""])[0] if kind == "LIST" else ""
            with _only(prefix) if prefix else nullcontext():
                told: list[bytes] = list(app(environ, start))
            if not storage.loses(method, path):
                return told
        start("503 Service Unavailable", [("Content-Length", "0")])
        return []

    return answer


def _backend() -> Any:
    """The emulator itself."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


@contextmanager
def _only(prefix: str) -> Iterator[None]:
    """Inside, there are no other keys: for a listing the emulator looks at each of the bucket, which takes 20 ms."""
    bucket = _backend().buckets[BUCKET]
    some = {name: dict.__getitem__(bucket.keys, name) for name in dict.keys(bucket.keys) if name.startswith(prefix)}
    with mock.patch.object(bucket, "keys", type(bucket.keys)(some)):
        yield


def _handler() -> type[Any]:
    from werkzeug.serving import WSGIRequestHandler

    class Silent(WSGIRequestHandler):
        """Keeps connections open and logs nothing."""

        protocol_version = "HTTP/1.1"

        def log_request(self, *_: Any) -> None:
            """Nothing."""

    return Silent
