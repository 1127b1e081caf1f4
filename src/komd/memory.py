"""How much memory there is, and how much of it komd may use."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from pathlib import Path

from komd.errors import InputError

__all__ = ["available", "budget", "peak", "readable", "resident"]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_MOST = 2.0**62  # no machine has more
_SHARE = 0.6  # of what is free, when the caller names no budget


def budget(memory: str | int | None = None) -> int:
    """Bytes that may be used: `memory` as a number or as text, or 60 % of what is free.

    >>> budget("8GB"), budget("512 MiB"), budget(1000)
    (8000000000, 536870912, 1000)
    """
    if memory is None:
        return int(_SHARE * available())
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", memory)
        unit = match.group(2).upper() if match else ""
        if match is None or unit not in _UNITS:
            raise InputError(f"memory must be a size such as '8GB' or '500MB', got {memory!r}")
        bytes_ = float(match.group(1)) * _UNITS[unit]
    else:
        try:
            bytes_ = math.nan if isinstance(memory, bool) else float(memory)
        except (TypeError, ValueError, OverflowError):
            bytes_ = math.nan
        if not math.isfinite(bytes_):
            raise InputError(f"memory must be a size such as '8GB' or a number of bytes, got {memory!r}")
    size = int(min(bytes_, _MOST))
    if size <= 0:
        raise InputError(f"memory must be > 0, got {memory!r}")
    return size


def available() -> int:
    """Bytes free for this process: the machine's, or what its control group leaves, whichever is less."""
    import psutil

    free = int(psutil.virtual_memory().available)
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit ("max")
        free = min(free, max(0, int(limit.read_text(encoding="ascii")) - int(used.read_text(encoding="ascii"))))
    return free


def peak() -> int:
    """The most bytes this process has had in memory so far."""
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) if sys.platform == "darwin" else int(most) * 1024


def resident() -> int:
    """Bytes this process has in memory now."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def readable(size: float) -> str:
    """Bytes in a readable unit.

    >>> readable(54_937_744), readable(900)
    ('55 MB', '900 B')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 999.5 or unit == "GB":
            return f"{size:.3g} {unit}" if size < 10 and unit != "B" else f"{size:,.0f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")
