"""How every function of the core is compiled: once, cached on disk, with the GIL released."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit
from numba.core import event

from komd.progress import note_once

__all__ = ["compiled", "inner"]

F = TypeVar("F", bound=Callable[..., object])

_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


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
    asked = _OPTIONS | options
    try:
        return cast(F, njit(**asked)(function))
    except RuntimeError:  # neither the package's folder nor the user's cache can be written: compile in each process
        return cast(F, njit(**asked | {"cache": False})(function))
