"""Connections to PostgreSQL that give up on a silent server.

A server that is stopped, or behind a broken network, keeps its connections open and answers nothing: no time limit of
the server itself applies, and its kernel still acknowledges what is sent. So the time is taken here. A connection on
which nothing arrives and nothing can be sent for `silence` seconds is closed, whatever it waits for: a statement, the
check of a pooled connection, or the rollback before it is returned.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator
from typing import Any

import psycopg

__all__ = ["SilentServer", "TimedConnection"]

_AGAIN = 0.5  # seconds after a silence in which the same thread opens no other connection


class SilentServer(psycopg.OperationalError):
    """The server has not answered for too long."""

    is_silence = True
    """What `store_circuit.py`, which does not need psycopg, knows it by."""


class _LastSilence(threading.local):
    at = float("-inf")


_last_silence = _LastSilence()


class TimedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server is silent for `silence` seconds."""

    silence = 5.0

    @classmethod
    def opened(cls, silence: float, conninfo: str, parameters: dict[str, Any]) -> TimedConnection:
        """A new connection. Raises SilentServer at once where this thread has just given up on the server.

        A pool that finds a broken connection opens another one: the request would wait a second time.
        """
        if time.monotonic() - _last_silence.at < _AGAIN:
            raise SilentServer("the server does not answer")
        try:
            connection = cls.connect(conninfo, **parameters)
        except psycopg.errors.ConnectionTimeout as error:
            _last_silence.at = time.monotonic()
            raise SilentServer("the server does not answer: no connection in time") from error
        connection.silence = silence
        return connection

    def wait(self, gen: Any, *given: Any, **named: Any) -> Any:  # the further parameters differ between versions
        """What everything that talks to the server passes through."""
        try:
            return super().wait(self._timed(gen), *given, **named)
        except SilentServer:
            _last_silence.at = time.monotonic()
            with contextlib.suppress(psycopg.Error):
                self.pgconn.finish()  # the socket does not block: whatever is not sent is dropped
            raise

    def _timed(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The steps of `gen`, as long as the server takes part. While nothing happens, psycopg resumes it with 0."""
        try:
            wanted = next(gen)
            heard = time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.silence:
                    raise SilentServer(f"the server does not answer: silent for {self.silence:g} seconds")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value
