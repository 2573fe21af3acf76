"""The atlas as one HTML file: data, style and scripts inside it, and a policy under which it can load nothing else."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

FOLDER = Path(__file__).parent / "atlas"
LIBRARIES = ("vendor/graphology.umd.min.js", "vendor/sigma.min.js")
PARTS = ("model.js", "map.js", "panels.js", "atlas.js")
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def atlas_page(data: Mapping[str, Any]) -> str:
    """The page that shows these data; see `recall.atlas.atlas_data`, beside it optionally `as_of`, in seconds.

    Stored text cannot break out of its place: as JSON it holds no markup signs, as markup it is escaped.
    """
    own = "\n".join(_read(name) for name in PARTS)
    scripts = [*map(_library, LIBRARIES), f'(() => {{\n"use strict";\n{own}}})();']
    style = _read("atlas.css")
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html").render(
        namespace=data["namespace"],
        policy=_policy(scripts, style),
        style=Markup(style),
        data=Markup(as_inert_json(data)),
        scripts=[Markup(script) for script in scripts],
    )


def as_inert_json(data: Any) -> str:
    """JSON that can stand inside a script element whatever it says."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _policy(scripts: list[str], style: str) -> str:
    """Nothing may be loaded, sent or framed; scripts and styles run only if they are these."""
    runs = " ".join(map(_fingerprint, scripts))
    return (
        f"default-src 'none'; script-src {runs}; style-src {_fingerprint(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _fingerprint(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _library(name: str) -> str:
    """A bundled library under its licence, without its pointer to a source map, which a page alone does not have."""
    licence = _read(f"{name.partition('.')[0]}.LICENSE.txt")
    lines = _read(name).splitlines(keepends=True)
    code = "".join(line for line in lines if not line.startswith("//# sourceMappingURL="))
    return f"/*!\n{licence.strip()}\n*/\n{code}"


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
