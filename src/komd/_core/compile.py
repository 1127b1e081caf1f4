"""How every function of the core is compiled: once, cached on disk, with the GIL released.

Compilation is what a first use waits for. Numba compiles a function that another one calls to machine code of its own,
and then once more as a part of each caller, down to the last of nested calls. Here such a function is only translated:
it is optimised, and becomes machine code, as a part of the function that Python calls.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher

from komd.files import LockHeld, locked
from komd.progress import note_once

__all__ = ["compiled", "inner"]

F = TypeVar("F", bound=Callable[..., object])

_OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "no_cfunc_wrapper": True}
_WAIT = 60.0  # seconds for another process that compiles the same function


class _Listener(event.Listener):  # type: ignore[misc]
    """Prints a note when a function is compiled, not when it is loaded from the cache on disk.

    Garbage is not collected meanwhile: Numba makes so many objects that the collector takes a sixth of the time, and
    finds little. Numba compiles one function at a time, whatever the thread; compilations nest.
    """

    nested = 0
    collecting = False

    def on_start(self, event: event.Event) -> None:
        if _of_the_core(event):
            note_once("komd: compiling, once per machine: some seconds …")
            if self.nested == 0:
                self.collecting = gc.isenabled()
                gc.disable()
            self.nested += 1

    def on_end(self, event: event.Event) -> None:
        if _of_the_core(event):
            self.nested -= 1
            if self.nested == 0 and self.collecting:
                gc.enable()


def _of_the_core(event: event.Event) -> bool:
    function = getattr(event.data.get("dispatcher"), "py_func", None)
    return str(getattr(function, "__module__", "")).startswith("komd.")


event.register("numba:compile", _Listener())


def compiled(function: F) -> F:
    """Compile `function` on its first call; the machine code is cached on disk for later processes.

    Division by zero follows IEEE rules instead of raising, which keeps loops free of branches; no
    fast-math. `contract` alone (fused multiply-add) is allowed: it rounds once instead of twice.
    Compiled functions that call it compile it as `inner` does.
    """
    made = njit(**_OPTIONS, pipeline_class=_EntryCompiler)(function)
    if isinstance(made, CPUDispatcher):  # not so where Numba is switched off
        made.__class__ = _Entry
        made.part = _part(function, allocates=True)
    with contextlib.suppress(RuntimeError):  # neither the package's folder nor the user's cache can be written
        try:
            made._cache = _Cache(function)
        except (AttributeError, TypeError):  # a Numba whose cache is made in another way
            made.enable_caching()
    return cast(F, made)


def inner(function: F) -> F:
    """Compile a function that only compiled functions call, as a part of each of them.

    It allocates no memory, for an array or for the value in an error (`compiled` functions may): so no references need
    to be counted in it.
    """
    return cast(F, _part(function, allocates=False))


def _part(function: Callable[..., object], *, allocates: bool) -> Callable[..., object]:
    made = njit(**_OPTIONS, _nrt=allocates, no_cpython_wrapper=True, pipeline_class=_PartCompiler)(function)
    if isinstance(made, CPUDispatcher):  # not so where Numba is switched off
        made.__class__ = _Part
    return cast(Callable[..., object], made)


class _Entry(CPUDispatcher):  # type: ignore[misc]
    """A function that Python calls. Compiled code that names it finds the same function as a part, `part`."""

    def compile(self, sig: Any) -> Any:
        try:
            return super().compile(sig)
        finally:
            if isinstance(self._cache, _Cache):
                self._cache.alone.close()

    @property
    def _numba_type_(self) -> types.Type:
        return types.Dispatcher(self.part)


class _Part(CPUDispatcher):  # type: ignore[misc]
    """A function that compiled functions call. It is compiled for types; Numba alone would do so for constants too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.__name__} is a part of compiled functions; Python cannot call it")

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(map(types.unliteral, args), {k: types.unliteral(v) for k, v in kws.items()})


class _Flags(Flags):  # type: ignore[misc]
    """The options of a compilation, equal where the same ones are set.

    Numba keeps results by the options they belong to, and compares the values of all options at every operation.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and self.that_are_set() == other.that_are_set()

    def that_are_set(self) -> Any:
        return self._values


class _Compiler(Compiler):  # type: ignore[misc]
    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)


class _EntryCompiler(_Compiler):
    def compile_extra(self, function: Callable[..., object]) -> Any:
        self.state.library = _EntryLibrary(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(function)


class _EntryLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Machine code of a function and its parts. The environments of the parts have addresses only here."""

    def _finalize_final_module(self) -> None:
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                self.codegen.set_env(variable.name, environment)


class _PartCompiler(_Compiler):
    def compile_extra(self, function: Callable[..., object]) -> Any:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


class _NoEnvironment:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        pass


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The translation of a part, to be linked into its callers: neither optimised nor made machine code."""

    @property
    def codegen(self) -> Any:
        """Numba stores the address of a function's environment beside its machine code: here there is none."""
        return _NoEnvironment

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


class _Cache(FunctionCache):  # type: ignore[misc]
    """Machine code on disk, valid as long as no file of the function's folder changes.

    Numba alone looks at the function's own file: it would miss a change of the functions that are compiled into this
    one and of the groups of arrays that it takes, and would fail where such a group no longer exists. Of processes that
    start together one compiles a function, and the others wait for it.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        stamp = _stamp(Path(function.__code__.co_filename).parent)
        self._cache_file = IndexDataCacheFile(self.cache_path, self._impl.filename_base, stamp)
        self.alone = contextlib.ExitStack()
        """Holds the lock of the function while this process compiles it."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._loaded(sig, target_context)
        if found is None:
            with contextlib.suppress(LockHeld, OSError):
                self.alone.enter_context(locked(Path(self.cache_path) / f"{self._impl.filename_base}.lock", wait=_WAIT))
                found = self._loaded(sig, target_context)  # another process may have compiled it meanwhile
        return found

    def _loaded(self, sig: Any, target_context: Any) -> Any:
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
