"""How every function of the core is compiled: once, cached on disk, with the GIL released."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

__all__ = ["compiled", "inner"]

F = TypeVar("F", bound=Callable[..., object])


_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


def compiled(function: F) -> F:
    """Compile `function` on its first call; the machine code is kept on disk for the next process.

    Division by zero follows IEEE rules instead of raising, which keeps loops free of branches; no
    fast-math. `contract` alone (fused multiply-add) is allowed: it rounds once instead of twice.
    """
    return cast(F, njit(no_cfunc_wrapper=True, **_OPTIONS)(function))


def inner(function: F) -> F:
    """The same for a function that only compiled functions call: without a way in from Python it compiles faster."""
    return cast(F, njit(no_cfunc_wrapper=True, no_cpython_wrapper=True, **_OPTIONS)(function))
