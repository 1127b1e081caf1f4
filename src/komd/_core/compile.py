"""How every function of the core is compiled: once, cached on disk, with the GIL released."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile

from komd.progress import note_once

__all__ = ["compiled", "inner"]

F = TypeVar("F", bound=Callable[..., object])

_OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


class _Listener(event.Listener):  # type: ignore[misc]
    """Prints a note when a function is compiled, not when it is loaded from the cache on disk."""

    def on_start(self, event: event.Event) -> None:
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        if str(getattr(function, "__module__", "")).startswith("komd."):
            note_once("komd: compiling, once per machine: some seconds …")

    def on_end(self, event: event.Event) -> None:
        pass


event.register("numba:compile", _Listener())


def compiled(function: F) -> F:
    """Compile `function` on its first call; the machine code is cached on disk for later processes.

    Division by zero follows IEEE rules instead of raising, which keeps loops free of branches; no
    fast-math. `contract` alone (fused multiply-add) is allowed: it rounds once instead of twice.
    """
    return _jit(function, no_cfunc_wrapper=True)


def inner(function: F) -> F:
    """The same for a function that only compiled functions call: without a Python wrapper it compiles faster."""
    return _jit(function, no_cfunc_wrapper=True, no_cpython_wrapper=True)


def _jit(function: F, **options: bool) -> F:
    made = njit(**_OPTIONS, **options)(function)
    with contextlib.suppress(RuntimeError):  # neither the package's folder nor the user's cache can be written
        try:
            made._cache = _Cache(function)
        except (AttributeError, TypeError):  # a Numba whose cache is made in another way
            made.enable_caching()
    return cast(F, made)


class _Cache(FunctionCache):  # type: ignore[misc]
    """Machine code on disk, valid as long as no file of the function's folder changes.

    Numba alone looks at the function's own file: it would miss a change of the functions that are compiled into this
    one and of the groups of arrays that it takes, and would fail where such a group no longer exists.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        stamp = _stamp(Path(function.__code__.co_filename).parent)
        self._cache_file = IndexDataCacheFile(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (AttributeError, ImportError, TypeError):  # of an index that names what is gone
            self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):  # a full disk: the next process compiles again
            super().save_overload(sig, data)


@functools.cache
def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, times and sizes of the Python files in a folder."""
    files = ((path.name, path.stat()) for path in sorted(folder.glob("*.py")))
    return tuple((name, about.st_mtime_ns, about.st_size) for name, about in files)
