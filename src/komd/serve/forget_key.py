"""The key that hides the ids of forgotten users: a file of its own, apart from the store.

The store keeps a mark of each forgotten user: a hash of the id with this key. Who has the marks and the key can try all
ids that there may be; who has a copy of the store alone cannot. The store holds a check value, by which a wrong key is
refused. It tells nothing of the marks.

Stores of earlier versions had the key in a table. It is written to the file first, then deleted from the table in the
transaction that prepares the tables, and then erased from the files of the database.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import sqlalchemy as sql

from komd import files
from komd.errors import InputError
from komd.serve.event_databases import store_address
from komd.serve.event_tables import EventTables

__all__ = ["CHECK", "ERASURE", "VARIABLE", "ForgetKey", "agree", "beside_model", "key_file", "warning"]

log = logging.getLogger("komd.serve")

VARIABLE = "KOMD_FORGET_KEY_FILE"
"""The environment variable that names the file where nothing else does."""
CHECK = "key_check"
"""The store's setting with the check value of its key."""
ERASURE = "key_erasure"
"""The store's setting that says that a key which was deleted from it is still to be erased from its files."""

_FORMER = "key"  # the setting that was the key itself
_SUFFIX = ".forget-key"
_BYTES = 32
_WAIT = 10.0  # seconds for another process that makes the file


class ForgetKey:
    """A key, and what is made with it."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def mark(self, user: str) -> str:
        """What the store keeps of the id of a forgotten user."""
        return hmac.new(self._key, user.encode(), hashlib.sha256).hexdigest()

    def derived(self, purpose: str) -> bytes:
        """A key for another purpose. No id has the character 0, so it is the mark of nobody."""
        return hmac.digest(self._key, b"\0" + purpose.encode(), "sha256")

    @property
    def check(self) -> str:
        """The check value."""
        return self.derived("check").hex()[:16]

    @property
    def text(self) -> str:
        """As its file has it."""
        return self._key.hex()


def key_file(url: str, given: Path | None = None, model: Path | None = None) -> Path:
    """Where the key of a store is: in the file that is given, or else beside an SQLite store or beside the model."""
    if given is not None:
        return given
    if named := os.environ.get(VARIABLE):
        return Path(named)
    address = store_address(url)
    if address.drivername.startswith("sqlite") and address.database:
        store = Path(address.database)
        return store.with_name(store.name + _SUFFIX)
    if model is None:
        raise InputError(
            f"the key of a PostgreSQL store is in a file: name it with --forget-key-file, or in {VARIABLE}"
        )
    return beside_model(model)


def beside_model(model: Path) -> Path:
    """Where the service of a model keeps the key of a PostgreSQL store, unless told otherwise."""
    folder = model.absolute()
    return folder.with_name(folder.name + _SUFFIX)


def warning(file: Path) -> str | None:
    """What to say of a file that others can read; None if they cannot."""
    if file.is_file() and files.readable_by_others(file):
        return f"{file} can be read by others; chmod 600 keeps it to you"
    return None


def agree(connection: sql.Connection, tables: EventTables, held: Mapping[str, str], file: Path) -> ForgetKey:
    """The key of a store, whose settings are `held`; it is made if the store is new, and moved out of a table.

    To be called in the transaction that prepares the tables: processes that start together come here one by one.
    Raises InputError where the file is not that of this store.
    """
    former, check, key = held.get(_FORMER), held.get(CHECK), _read(file)
    if check is not None:
        if key is None:
            _refuse_if_needed(connection, tables, file)
            key = _make(file, _new())
            log.warning("the key file of the store was missing: a new key was made, as nobody was forgotten yet")
        elif key.check != check:
            raise InputError(
                f"this store was made with another key than that of {file}: give its file with --forget-key-file"
            )
    else:
        if key is None:
            key = _make(file, _new() if former is None else _parsed(former, "the store"))
        if former is not None and key.text != former:
            raise InputError(
                f"{file} has another key than this store, which has kept its own in a table until now: name another "
                "file, to which it is moved, with --forget-key-file"
            )
    if former is not None:
        connection.execute(sql.delete(tables.settings).where(tables.settings.c.name == _FORMER))
        _set(connection, tables, ERASURE, "due")
    if key.check != check:
        _set(connection, tables, CHECK, key.check)
    return key


def _refuse_if_needed(connection: sql.Connection, tables: EventTables, file: Path) -> None:
    """Raise InputError unless a lost key may be replaced: if somebody was marked with it, it may not.

    Nor may that of a PostgreSQL store: other machines may use it, and have the file.
    """
    marked = connection.execute(sql.select(tables.forgotten.c.mark).limit(1)).first() is not None
    if not marked and connection.dialect.name == "sqlite":
        return
    lost = (
        "without it, users who were forgotten cannot be told from others"
        if marked
        else f"if it is lost: nobody was forgotten yet, and DELETE FROM komd_settings WHERE name = '{CHECK}' lets komd "
        "make a new one"
    )
    raise InputError(
        f"there is no key file {file}, and this store was made with one: copy it there, or name it with "
        f"--forget-key-file ({lost})"
    )


def _set(connection: sql.Connection, tables: EventTables, name: str, value: str) -> None:
    insert = tables.insert(tables.settings).values(name=name, value=value)
    connection.execute(insert.on_conflict_do_update(index_elements=[tables.settings.c.name], set_={"value": value}))


def _new() -> ForgetKey:
    return ForgetKey(secrets.token_bytes(_BYTES))


def _make(file: Path, key: ForgetKey) -> ForgetKey:
    """Write a key to its file, unless another process was faster; returns the key that the file has."""
    try:
        with files.locked(file.with_name(f".{file.name}.lock"), wait=_WAIT):
            if (found := _read(file)) is not None:
                return found
            files.write(file, lambda opened: opened.write(f"{key.text}\n".encode()), private=True)
            return key
    except files.LockHeld as error:
        raise InputError(f"cannot write the key file {file}: another process has held its lock for long") from error
    except OSError as error:
        raise InputError(
            f"cannot write the key file {file}: {error.strerror or error}; name another with --forget-key-file"
        ) from error


def _read(file: Path) -> ForgetKey | None:
    """The key in a file; None if there is no file."""
    try:
        text = file.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise InputError(f"cannot read the key file {file}: {getattr(error, 'strerror', None) or error}") from error
    return _parsed(text, str(file))


def _parsed(text: str, where: str) -> ForgetKey:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < _BYTES:
        raise InputError(
            f"{where} holds no key: it takes at least {2 * _BYTES} hexadecimal digits, say from: openssl rand -hex 32"
        )
    return ForgetKey(key)
