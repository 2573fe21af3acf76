"""Where the time of a run goes: chosen functions are timed from outside, each without what it calls of the others."""

from __future__ import annotations

import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar
from unittest.mock import patch

T = TypeVar("T")
Watched = Mapping[str, Sequence[str]]
"""Stage → functions as `module:name` or `module:Class.name`, where the name is looked up when it is called."""


class Stopwatch:
    """Seconds by stage; time inside a nested stage belongs to the nested one alone."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a block for a stage."""
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def _turn(self) -> None:
        now = self._clock()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def watching(self, watched: Watched) -> Iterator[Stopwatch]:
        """Time these functions while the block runs; a name that is not there is an error."""
        with ExitStack() as stack:
            for stage, functions in watched.items():
                for function in functions:
                    stack.enter_context(self._replaced(stage, function))
            yield self

    def _replaced(self, stage: str, function: str) -> Any:
        module, _, path = function.partition(":")
        owner: Any = import_module(module)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        return patch.object(owner, name, self._timed(stage, inspect.getattr_static(owner, name)))

    def _timed(self, stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The function timed; what it makes is timed too while it is awaited or stepped through."""

        @wraps(call)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self.stage(stage):
                made = call(*args, **kwargs)
            if inspect.iscoroutine(made):
                return self._awaited(stage, made)
            return self._stepped(stage, made) if inspect.isgenerator(made) else made

        return called

    async def _awaited(self, stage: str, work: Coroutine[Any, Any, T]) -> T:
        with self.stage(stage):
            return await work

    def _stepped(self, stage: str, steps: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self.stage(stage):
                step = next(steps, steps)
            if step is steps:
                return
            yield step
