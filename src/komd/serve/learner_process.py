"""The process of the learner: how the service starts it, restarts it when it fails, and ends it.

Its standard input is a pipe that the service holds: when that ends, however it ends, so does the learner.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace

from komd.errors import InputError, KomdError
from komd.serve.path_names import names_only
from komd.serve.process_signals import unwound_by_sigterm
from komd.serve.publication import Publication, publication_folder
from komd.serve.serve_settings import VARIABLE, Settings

__all__ = ["learning", "main"]

log = logging.getLogger("komd.serve")

_PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0)  # seconds before each restart of a learner that fails again and again
_LASTED = 60.0  # seconds after which a failure counts as the first again
_NICE = 5  # how much requests come before learning


@contextlib.contextmanager
def learning(settings: Settings) -> Iterator[Settings]:
    """The settings of workers beside a learner, once it has published its first model; it ends with the block.

    With a candidate, two of them.
    """
    with unwound_by_sigterm(), contextlib.ExitStack() as stack:
        settings = replace(settings, learned=stack.enter_context(publication_folder()))
        if settings.candidate is not None:
            settings = replace(settings, learned_candidate=stack.enter_context(publication_folder()))
        supervisors = []
        for each in settings.learners():
            supervisors.append(_Supervisor(each))
            stack.callback(supervisors[-1].stop)
        for supervisor in supervisors:
            supervisor.wait()
        yield settings


class _Supervisor:
    """Keeps one learner running."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._name = "the candidate's learner" if settings.of_candidate else "the learner"
        self._stopping = threading.Event()
        self._process = self._start()
        self._thread = threading.Thread(target=self._watch, name="komd-learner", daemon=True)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from komd.serve.learner_process import main; main()"]
        environment = os.environ | {VARIABLE: self._settings.to_text()}
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)

    def wait(self) -> None:
        """Wait for the first model; from then on the learner is restarted when it ends."""
        assert self._settings.learned is not None
        publication = Publication(self._settings.learned)
        while publication.state() is None:
            if self._process.poll() is not None:
                raise InputError("learning could not begin: see the lines above")
            time.sleep(0.02)
        self._thread.start()

    def _watch(self) -> None:
        failures, started = 0, time.monotonic()
        while True:
            code = self._process.wait()
            if self._stopping.is_set():
                return
            failures = failures + 1 if time.monotonic() - started < _LASTED else 1
            pause = _PAUSES[min(failures, len(_PAUSES)) - 1]
            log.error("%s ended with code %d; it is started again in %g s", self._name, code, pause)
            if self._stopping.wait(pause):
                return
            started = time.monotonic()
            try:
                self._process = self._start()
            except (
                OSError
            ) as error:  # no memory or no process is left: that may pass, and it counts as one more failure
                log.error("%s cannot be started: %s", self._name, error.strerror)

    def stop(self) -> None:
        """End the learner; it has a few seconds to finish what it writes."""
        self._stopping.set()
        process = self._process
        with contextlib.suppress(OSError):
            process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def main() -> None:
    """What the process does: learn until the service ends, or a signal comes."""
    from komd.serve.event_store import EventStore
    from komd.serve.learner import Learner
    from komd.serve.server_process import log_to_stderr

    settings = Settings.from_text(os.environ[VARIABLE])
    log_to_stderr()
    stopping, orphaned = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal sends it to all processes; there is nothing to reread

    def wait_for_parent() -> None:
        os.read(sys.stdin.fileno(), 1)  # returns when the other end is closed
        orphaned.set()
        stopping.set()

    threading.Thread(target=wait_for_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(_NICE)
    assert settings.learned is not None
    try:
        events = EventStore(settings.store, threads=1, key_file=settings.key_file)
        try:
            Learner(settings, events, Publication(settings.learned)).run(stopping)
        finally:
            events.close()
    except KomdError as error:
        log.error("%s", error)
        sys.exit(2)
    except Exception as error:
        words = f": {error}" if settings.log_ids else ""  # a message may name users
        frames = names_only("".join(traceback.format_tb(error.__traceback__)))
        log.error("the learner failed: %s%s\n%s", type(error).__name__, words, frames)
        sys.exit(1)
    finally:
        if orphaned.is_set():  # nobody else removes it
            shutil.rmtree(settings.learned, ignore_errors=True)
