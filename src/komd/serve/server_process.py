"""Starting the service: one process, or several that share a socket and the model's memory pages, and the learner."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from komd.errors import InputError, install
from komd.serve.log_floods import FloodFilter
from komd.serve.path_names import NamesOnlyFormatter
from komd.serve.process_signals import on_hangup
from komd.serve.serve_settings import VARIABLE, Settings

if TYPE_CHECKING:
    import uvicorn

__all__ = ["configured", "log_to_stderr", "run", "settle"]

_BACKLOG = 1024
_SWITCH_SECONDS = 0.0005  # that a thread may keep the GIL while another one waits for it
_SHUTDOWN_SECONDS = 10  # for unfinished requests


def run(settings: Settings, *, reread_on_hangup: bool = True) -> None:
    """Serve until stopped by a signal; SIGHUP reads tokens and names again, unless the caller needs it otherwise."""
    try:
        import uvicorn

        import komd.serve.app
        from komd.serve import forget_key
        from komd.serve.learner_process import learning
        from komd.serve.prometheus import SHARED
        from komd.serve.rate_limits import RateSlots
    except ImportError as error:
        raise InputError(f"komd serve needs {error.name}: {install('serve')}") from error
    warnings = settings.check()
    if (words := forget_key.warning(settings.key_file)) is not None:
        warnings.append(words)
    log_to_stderr()
    for words in warnings:
        logging.getLogger("komd.serve").warning(words)
    if reread_on_hangup:
        on_hangup(lambda: None)  # while it starts: everything is about to be read anyway
    listening = _bind(settings.host, settings.port)
    try:
        with contextlib.ExitStack() as stack:
            if settings.learn or settings.workers > 1:
                komd.serve.app.check(settings)  # errors are reported once, before other processes start
            if settings.learn:
                settings = stack.enter_context(learning(settings))
            app: Any
            if settings.workers == 1:
                app = komd.serve.app.create(settings)
                if reread_on_hangup:
                    on_hangup(app.reread)
                settle()
            else:
                os.environ[VARIABLE] = settings.to_text()
                os.environ[SHARED] = tempfile.mkdtemp(prefix="komd-serve-")
                stack.callback(shutil.rmtree, os.environ[SHARED], ignore_errors=True)
                RateSlots.share(os.environ[SHARED])
                app = "komd.serve.app:from_environment"
            config = configured(app, settings)
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            print(f"serving {settings.model} on http://{host}:{listening.getsockname()[1]}", flush=True)
            if settings.workers == 1:
                uvicorn.Server(config).run(sockets=[listening])
            else:
                _supervisor(config, listening).run()
    finally:
        listening.close()


def _supervisor(config: uvicorn.Config, listening: socket.socket) -> Any:
    """uvicorn's, which starts workers and starts them again, except that SIGHUP is passed on to them."""
    from uvicorn.supervisors import Multiprocess

    class Supervisor(Multiprocess):
        def handle_hup(self) -> None:
            """uvicorn would end and start all workers; ours read their files again."""
            for worker in self.processes:
                with contextlib.suppress(ProcessLookupError):
                    if worker.pid is not None:
                        os.kill(worker.pid, signal.SIGHUP)

    return Supervisor(config, sockets=[listening])


def configured(app: Any, settings: Settings) -> uvicorn.Config:
    """How uvicorn runs an application, or the import path of the function that makes one."""
    import uvicorn

    from komd.serve.connections import LimitedProtocol

    limits = settings.limits
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=settings.workers,
        http=LimitedProtocol,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        limit_concurrency=limits.connections,
        backlog=_BACKLOG,
    )


def settle() -> None:
    """Make the interpreter of a worker, which has loaded everything, quick to turn to the next request.

    By default a thread may keep the GIL for 5 ms, and a small request needs it about ten times. What has been loaded is
    taken out of garbage collection: large requests make many objects, and each full collection visits all there are.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot listen on {host} port {port}: {reason}") from error
    listening.set_inheritable(True)
    return listening


def log_to_stderr() -> None:
    """Log lines with a time to standard error; set up once."""
    if not logging.getLogger("komd.serve").handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(NamesOnlyFormatter("%(asctime)s %(levelname)s %(message)s"))
        handler.addFilter(FloodFilter(handler.handle))
        for name, level in (
            ("komd.serve", logging.INFO),
            ("uvicorn.error", logging.WARNING),
            ("asyncio", logging.WARNING),  # says so when no connection can be accepted
            ("opentelemetry", logging.WARNING),  # says so when traces cannot be sent
        ):
            logger = logging.getLogger(name)
            logger.addHandler(handler)
            logger.setLevel(level)
            logger.propagate = False
