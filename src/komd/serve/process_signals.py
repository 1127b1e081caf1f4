"""What signals and the end of the parent do to the processes of a service.

SIGTERM and SIGINT end it gracefully: uvicorn sees to that. SIGHUP lets it read its files again, and workers that lose
their parent end.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator

__all__ = ["end_with_parent", "on_hangup", "unwound_by_sigterm"]

log = logging.getLogger("komd.serve")

_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)  # Windows has none


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()  # only there signals can be handled


def on_hangup(reread: Callable[[], object]) -> None:
    """Call this, in a thread of its own, on each SIGHUP."""
    if _HANGUP is not None and _in_main_thread():
        signal.signal(_HANGUP, lambda *_: threading.Thread(target=reread, name="komd-reread", daemon=True).start())


def end_with_parent(shared: str) -> None:
    """End this worker gracefully when the process that started it is gone, however that ended.

    The folder that the workers share would be left behind: a worker that is left alone removes it.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        log.error("the process that started this worker is gone; the worker ends")
        shutil.rmtree(shared, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="komd-parent", daemon=True).start()


@contextlib.contextmanager
def unwound_by_sigterm(*, hangup: bool = False) -> Iterator[None]:
    """Let SIGTERM, which uvicorn repeats once it has shut down, leave the block as an exception does.

    With `hangup`, SIGHUP does what SIGTERM does.
    """
    if not _in_main_thread():
        yield
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))}
    if hangup and _HANGUP is not None:
        before[_HANGUP] = signal.signal(_HANGUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
