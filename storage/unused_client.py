"""LanceDB without the client of REST services, which it imports and no store of ours uses.

`lancedb` needs records that lie in the package of that client. Python executes a package before anything that lies in
it, and this one prepares hundreds of generated calls: half of the processor time that importing `lancedb` takes. Here
the package is executed once something of its own is asked for; what lies in it is imported as ever.

Python imports the package, under the locks by which it imports all, so that threads that come at once have the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

CLIENT = "lance_namespace_urllib3_client"
_ITS_OWN = ("__all__", "__version__")


def defer_client() -> None:
    """To be called before `import lancedb`; does nothing where the client is imported already, or is not there."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


class _Finder(MetaPathFinder):
    """Finds the client where Python would, to be executed later."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == CLIENT else None
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Deferred(spec.loader)
        return spec


_FINDER = _Finder()


class _Deferred(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader, self._lock, self._is_begun = loader, RLock(), False

    def exec_module(self, module: ModuleType) -> None:
        """Put off what the loader would do until a name is asked for that the package does not have."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        names = vars(module)

        def ask(name: str) -> Any:
            if name.startswith("__") and name not in _ITS_OWN:  # whoever looks through all modules asks for these
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            inner = f"{module.__name__}.{name}"
            if PathFinder.find_spec(inner, module.__path__) is not None:
                return import_module(inner)  # no reason to execute the package, which may wait for whoever imports this
            with self._lock:
                if not self._is_begun:
                    self._is_begun = True
                    try:
                        self._loader.exec_module(module)
                    except BaseException:
                        self._is_begun = False
                        raise
            try:
                return names[name]
            except KeyError:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None

        names["__getattr__"] = ask
