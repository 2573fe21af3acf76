"""LanceDB without the client of REST services, which it imports and no store of ours uses.

`lancedb` needs records that lie in the package of that client. Python executes a package before anything that lies in
it, and this one prepares hundreds of generated calls: half of the processor time that importing `lancedb` takes. Here
the package is executed once something of its own is asked for; what lies in it is imported as ever.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from typing import Any

CLIENT = "lance_namespace_urllib3_client"


def defer_client() -> None:
    """To be called before `import lancedb`; does nothing where the client is imported already, or is not there."""
    spec = None if CLIENT in sys.modules else find_spec(CLIENT)
    if spec is None or spec.loader is None:
        return
    package, loader, executing = module_from_spec(spec), spec.loader, RLock()

    def ask(name: str) -> Any:
        with executing:
            if vars(package).pop("__getattr__", None) is not None:
                loader.exec_module(package)
        try:
            return vars(package)[name]
        except KeyError:
            raise AttributeError(f"module {CLIENT!r} has no attribute {name!r}") from None

    vars(package)["__getattr__"] = ask
    sys.modules[CLIENT] = package
