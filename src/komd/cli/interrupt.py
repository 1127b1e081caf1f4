"""Ctrl-C: a command stops within moments, whatever it is doing.

Python raises KeyboardInterrupt only when the main thread returns from compiled code, and some libraries turn it into
an error of their own. So a thread receives the signal at once (`signal.set_wakeup_fd`). It gives the main thread one
second to unwind, which removes unfinished files; then it removes them itself and ends the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from komd.files import discard_unfinished

__all__ = ["CODE", "finish", "heard", "leave", "resumable", "say_stopped", "watch", "yield_to"]

CODE = 130  # by convention: 128 + SIGINT
_GRACE = 1.0  # seconds

_heard = threading.Event()
_said = threading.Event()
_wakeup: socket.socket | None = None  # kept open: the signal is written to it


def watch() -> None:
    """Listen from now on; does nothing where SIGINT is ignored (`nohup`) or has a handler already."""
    global _wakeup
    if _wakeup is not None or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    listening, _wakeup = socket.socketpair()
    _wakeup.setblocking(False)
    signal.set_wakeup_fd(_wakeup.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _unraisable
    threading.Thread(target=_listen, args=(listening,), name="interrupt", daemon=True).start()


def heard() -> bool:
    """Whether Ctrl-C was pressed: then a later error is a consequence of it."""
    return _heard.is_set()


def yield_to() -> None:
    """Leave Ctrl-C to other code, such as a server."""
    if _wakeup is not None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def finish() -> None:
    """The command is done: while the interpreter shuts down there is nothing left to stop."""
    if _wakeup is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def say_stopped(more: str = "") -> None:
    """Say that the command was stopped, and what can be done about it."""
    _said.set()
    print(f"komd: stopped{f'; {more}' if more else ''}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def resumable(folder: Path | None, option: str) -> Iterator[None]:
    """Work that can resume from `folder`; without one, the message names the option that sets it."""
    try:
        yield
    except KeyboardInterrupt:
        import typer  # slow: not before Ctrl-C is listened to

        say_stopped(
            f"rerun the same command to resume from {folder}" if folder else f"{option} DIR would let it resume"
        )
        raise typer.Exit(CODE) from None


def leave() -> None:
    """End the process now. Threads may still be computing, and Python would wait for them."""
    discard_unfinished()
    if not _said.is_set():
        say_stopped()
    os._exit(CODE)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not _heard.is_set():  # a second Ctrl-C must not interrupt the unwinding
        _heard.set()
        raise KeyboardInterrupt


def _unraisable(event: sys.UnraisableHookArgs) -> None:
    """Errors that Python can only print. An interrupt in a library's callback is one: the thread ends the process."""
    if not (_heard.is_set() and issubclass(event.exc_type, KeyboardInterrupt)):
        sys.__unraisablehook__(event)


def _listen(listening: socket.socket) -> None:
    while listening.recv(1) != bytes([signal.SIGINT]):
        pass
    time.sleep(_GRACE)
    leave()
