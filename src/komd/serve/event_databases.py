"""The databases for live histories, with settings under which a commit is on the disk when it returns.

The execution option `transaction` of an engine says what its transactions are for: "writing" (one at a time, also
between processes), or "snapshot" (several statements that read one state).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from komd.errors import InputError, install

__all__ = ["engine", "store_address"]

_SECONDS = 5  # a database that takes longer than this to answer counts as broken
_REPORT = 1  # second more than the server's own time limit, which then reports what took so long
_PATIENCE = 60  # how long workers that start together wait for the one that changes the tables
_MIGRATION = 600  # how long one statement of that change may take
_WRITERS = 0x6B6F6D64  # the number of the lock that writers of a PostgreSQL store take: "komd"


def engine(url: str, threads: int, *, patient: bool = False) -> sql.Engine:
    """The database at this address, for so many reading threads and one that writes.

    A `patient` one is for preparing the tables, which takes long where a large store of a former format is changed.
    """
    address = store_address(url)
    pool = {"pool_size": threads + 2, "max_overflow": 0, "pool_timeout": _SECONDS, "hide_parameters": True}
    make = _sqlite if address.drivername.startswith("sqlite") else _postgresql
    return make(address, pool, patient)


def store_address(url: str) -> sql.URL:
    """The address of a store, of one of the two kinds of databases."""
    try:
        address = sql.make_url(url)
    except SQLAlchemyError:
        raise InputError("a store is sqlite:///FILE or postgresql://USER@HOST/NAME; this is neither") from None
    kind = address.drivername.split("+")[0]
    if kind not in ("sqlite", "postgresql", "postgres"):
        raise InputError(f"a store is sqlite:///FILE or postgresql://USER@HOST/NAME, got {kind}://…")
    return address


def _sqlite(address: sql.URL, pool: dict[str, Any], patient: bool) -> sql.Engine:
    if not address.database or address.database == ":memory:" or address.database.startswith("file:"):
        raise InputError("a store in memory is lost with the process; name a file: sqlite:///FILE")
    file = Path(address.database)
    if not file.parent.is_dir():
        raise InputError(f"there is no folder {file.parent} for the store {file.name}")
    if not file.exists():  # histories are private
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    wait = _PATIENCE if patient else _SECONDS
    settings = (
        *(f"busy_timeout={1000 * wait}", "journal_mode=WAL", "synchronous=FULL", "cache_size=-8000"),
        "secure_delete=ON",  # what is deleted is overwritten
        "wal_autocheckpoint=4000",  # pages: a commit of 100 events changes about 300
    )
    engine = sql.create_engine(
        address.set(drivername="sqlite+pysqlite"),
        connect_args={"timeout": wait, "check_same_thread": False},
        poolclass=sql.QueuePool,
        **pool,
    )

    @sql.event.listens_for(engine, "connect")
    def opened(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin below
        for setting in settings:
            connection.execute(f"PRAGMA {setting}")

    @sql.event.listens_for(engine, "begin")
    def begun(connection: sql.Connection) -> None:
        # A writer waits for the lock at the start, not in the middle. One statement sees one state by itself.
        begins = {"writing": "BEGIN IMMEDIATE", "snapshot": "BEGIN"}
        if purpose := connection.get_execution_options().get("transaction"):
            connection.exec_driver_sql(begins[purpose])

    return engine


def _postgresql(address: sql.URL, pool: dict[str, Any], patient: bool) -> sql.Engine:
    try:
        from komd.serve.postgresql_connection import TimedConnection
    except ImportError:
        raise InputError(f"a PostgreSQL store needs psycopg: {install('serve', 'postgresql')}") from None
    lock, statement = (1000 * _PATIENCE, 1000 * _MIGRATION) if patient else (1000 * _SECONDS, 1000 * _SECONDS)
    engine = sql.create_engine(
        address.set(drivername="postgresql+psycopg"),
        connect_args={
            "connect_timeout": _SECONDS,
            "options": f"-c synchronous_commit=on -c statement_timeout={statement} -c lock_timeout={lock}",
        },
        pool_pre_ping=True,
        **pool,
    )
    silence = statement / 1000 + _REPORT

    @sql.event.listens_for(engine, "do_connect")
    def connected(_: sql.Dialect, __: Any, words: list[str], parameters: dict[str, Any]) -> Any:
        return TimedConnection.opened(silence, "".join(words), parameters)

    @sql.event.listens_for(engine, "begin")
    def begun(connection: sql.Connection) -> None:
        # As with SQLite, one writer at a time: a transaction has the events of many requests, and two of them that
        # change the same rows in different orders would end in a deadlock.
        begins = {
            "writing": f"SELECT pg_advisory_xact_lock({_WRITERS})",
            "snapshot": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        }
        if purpose := connection.get_execution_options().get("transaction"):
            connection.exec_driver_sql(begins[purpose])

    return engine
