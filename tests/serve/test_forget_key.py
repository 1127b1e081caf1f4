import contextlib
import logging
import os
import secrets
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sql

from komd.cli.options import event_store
from komd.errors import InputError
from komd.serve import forget_key
from komd.serve.event_records import NewEvent
from komd.serve.event_store import EventStore, StoreError
from komd.serve.forget_key import ForgetKey, key_file
from komd.serve.serve_settings import Settings


def settings_of(address):
    with sql.create_engine(address.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        return {str(name): str(value) for name, value in connection.exec_driver_sql("SELECT * FROM komd_settings")}


def execute(address, *statements):
    with sql.create_engine(address.replace("postgresql:", "postgresql+psycopg:")).begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def holding(folder, text):
    """The files with these bytes."""
    return [path.name for path in sorted(folder.iterdir()) if text.encode() in path.read_bytes()]


def forget(address, *users, file=None):
    events = EventStore(address, key_file=file)
    for user in users:
        events.forget(user).result()
    events.close()


def is_forgotten(address, user, file=None):
    events = EventStore(address, key_file=file)
    found = events.history(user).forgotten
    events.close()
    return found


def test_the_key_is_in_a_private_file_and_not_in_the_store(store, tmp_path):
    file = key_file(store)
    forget(store, "ana")
    key = file.read_text().strip()
    assert len(bytes.fromhex(key)) == 32 and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert holding(tmp_path, key) == [file.name]
    held = settings_of(store)
    assert set(held) == {"format", "seq", "key_check"} and key not in str(held)
    assert is_forgotten(store, "ana") and not is_forgotten(store, "bo")
    assert file.read_text().strip() == key


def test_where_the_file_is(tmp_path, monkeypatch):
    monkeypatch.delenv("KOMD_FORGET_KEY_FILE", raising=False)
    sqlite, postgresql = f"sqlite:///{tmp_path / 'e.db'}", "postgresql://ana@host/name"
    assert key_file(sqlite) == tmp_path / "e.db.forget-key"
    model = tmp_path / "plays.komd"
    assert Settings(model=model, store=sqlite).key_file == tmp_path / "e.db.forget-key"
    assert Settings(model=model, store=postgresql).key_file == tmp_path / "plays.komd.forget-key"
    with pytest.raises(InputError, match=r"PostgreSQL store is in a file: name it with --forget-key-file"):
        key_file(postgresql)
    monkeypatch.setenv("KOMD_FORGET_KEY_FILE", "elsewhere")
    assert [str(key_file(url)) for url in (sqlite, postgresql)] == ["elsewhere"] * 2
    assert key_file(sqlite, tmp_path / "given") == tmp_path / "given"


def test_a_wrong_key_is_refused(store, tmp_path):
    forget(store, "ana")
    other = tmp_path / "other"
    other.write_text(secrets.token_hex(32))
    with pytest.raises(
        InputError, match=r"made with another key than that of .*other: give its file with --forget-key"
    ):
        EventStore(store, key_file=other)
    assert is_forgotten(store, "ana")


def test_a_lost_key_is_refused_where_somebody_was_forgotten(store):
    forget(store, "ana")
    file = key_file(store)
    aside = file.rename(file.with_name("aside"))
    with pytest.raises(InputError, match=r"there is no key file .*: copy it there.*cannot be told from others"):
        EventStore(store)
    assert not file.exists()
    assert is_forgotten(store, "ana", aside)


def test_a_lost_key_that_hides_nobody(store, caplog):
    forget(store)
    file = key_file(store)
    key = file.read_text()
    file.unlink()
    if store.startswith("postgresql"):  # another machine may have the file
        with pytest.raises(InputError, match="nobody was forgotten yet, and DELETE FROM komd_settings"):
            EventStore(store)
        assert not file.exists()
        execute(store, "DELETE FROM komd_settings WHERE name = 'key_check'")
    forget(store, "ana")
    assert file.read_text() != key and is_forgotten(store, "ana")
    assert ("a new key was made" in caplog.text) == store.startswith("sqlite")


def test_a_key_that_is_replaced_under_a_service_marks_nobody(store):
    """Marks of two keys in one store would be marks that are not found."""
    events = EventStore(store)
    execute(store, "UPDATE komd_settings SET value = 'another' WHERE name = 'key_check'")
    with pytest.raises(StoreError, match="was replaced while it was in use"):
        events.forget("ana").result()
    assert events.marks() == set() and events.add([NewEvent("ana", "i")]).result() == 1
    events.close()


@pytest.mark.parametrize("text", ["", "ab" * 31, "no key at all", "zz" * 32, "é"])
def test_files_without_a_key(tmp_path, text):
    (tmp_path / "key").write_text(text)
    with pytest.raises(InputError, match=r"holds no key: it takes at least 64|cannot read the key file"):
        EventStore(f"sqlite:///{tmp_path / 'e.db'}", key_file=tmp_path / "key")


def test_files_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot .* the key file"):
        EventStore(f"sqlite:///{tmp_path / 'e.db'}", key_file=tmp_path / "file" / "key")
    with pytest.raises(InputError, match=r"cannot read the key file .*: Is a directory"):
        EventStore(f"sqlite:///{tmp_path / 'e.db'}", key_file=tmp_path)


def test_a_key_may_be_given_before_the_store_is_made(store, tmp_path):
    (tmp_path / "mine").write_text("AB" * 32 + "\n")
    forget(store, "ana", file=tmp_path / "mine")
    assert settings_of(store)["key_check"] == ForgetKey(bytes.fromhex("ab" * 32)).check


def test_a_file_that_others_can_read_is_reported(tmp_path):
    file = tmp_path / "key"
    assert forget_key.warning(file) is None
    forget(f"sqlite:///{tmp_path / 'e.db'}", file=file)
    assert forget_key.warning(file) is None
    file.chmod(0o640)
    assert "can be read by others; chmod 600" in forget_key.warning(file)


def test_processes_that_start_together_agree(store):
    with ThreadPoolExecutor(6) as threads:
        opened = list(threads.map(EventStore, [store] * 6))
    assert len({events.mark("ana") for events in opened}) == 1
    for events in opened:
        events.close()
    assert not [path for path in key_file(store).parent.iterdir() if path.name.startswith(".")]


def test_stores_that_share_a_file_agree_too(tmp_path):
    addresses = [f"sqlite:///{tmp_path / f'{k}.db'}" for k in range(6)]
    with ThreadPoolExecutor(6) as threads:
        opened = list(threads.map(lambda address: EventStore(address, key_file=tmp_path / "key"), addresses))
    assert len({events.mark("ana") for events in opened}) == 1
    for events in opened:
        events.close()


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_commands_find_the_key_beside_their_model(store, tmp_path, monkeypatch):
    monkeypatch.delenv("KOMD_FORGET_KEY_FILE")
    forget(store, "ana", file=Settings(model=tmp_path / "plays.komd", store=store).key_file)
    with event_store(store, None, tmp_path / "plays.komd") as events:
        assert events.history("ana").forgotten
    for given, words in ((None, "name it with --forget-key-file"), (tmp_path / "none", "there is no key file")):
        with pytest.raises(InputError, match=words), event_store(store, given, tmp_path / "other.komd"):
            pass
    assert not (tmp_path / "other.komd.forget-key").exists()


def test_keys_for_other_purposes(tmp_path):
    events = EventStore(f"sqlite:///{tmp_path / 'e.db'}")
    keys = [events.derived_key(purpose) for purpose in ("recommendation", "other")]
    assert keys == [events.derived_key(purpose) for purpose in ("recommendation", "other")]
    assert len(set(keys)) == 2 and all(len(key) == 32 for key in keys)
    assert events.mark("recommendation") != keys[0].hex()  # a mark is in the store, where anyone may read it
    events.close()


# ---- stores that have the key in a table --------------------------------------------------------------------------

FORMER = "ab12" * 16


def make_former(address):
    """A store with the key in its table, as it was before, and a user who was forgotten."""
    EventStore(address).close()
    key_file(address).unlink()
    mark = ForgetKey(bytes.fromhex(FORMER)).mark("ana")
    execute(
        address,
        "DELETE FROM komd_settings WHERE name = 'key_check'",
        f"INSERT INTO komd_settings VALUES ('key', '{FORMER}')",
        f"INSERT INTO komd_forgotten (mark) VALUES ('{mark}')",
    )


def test_the_key_moves_out_of_the_table_and_the_files(store, tmp_path):
    make_former(store)
    if store.startswith("sqlite"):
        assert holding(tmp_path, FORMER)
    assert is_forgotten(store, "ana")
    file = key_file(store)
    assert file.read_text() == FORMER + "\n" and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert holding(tmp_path, FORMER) == [file.name]
    assert set(settings_of(store)) == {"format", "seq", "key_check"}
    assert is_forgotten(store, "ana")


def test_a_move_that_was_interrupted_goes_on(store, tmp_path, monkeypatch):
    make_former(store)
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(forget_key, "_set", lambda *_: (_ for _ in ()).throw(RuntimeError))
        EventStore(store)
    assert settings_of(store)["key"] == FORMER and key_file(store).read_text().strip() == FORMER
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(EventStore, "_erase_key", lambda _: (_ for _ in ()).throw(RuntimeError))
        EventStore(store)
    assert "key" not in settings_of(store) and settings_of(store)["key_erasure"] == "due"
    assert is_forgotten(store, "ana")
    assert "key_erasure" not in settings_of(store)
    assert holding(tmp_path, FORMER) == [key_file(store).name]


def test_the_key_of_another_store_is_not_written_over(store):
    make_former(store)
    file = key_file(store)
    file.write_text("cd" * 32)
    with pytest.raises(InputError, match="has another key than this store, which has kept its own in a table"):
        EventStore(store)
    assert file.read_text() == "cd" * 32 and settings_of(store)["key"] == FORMER
    assert is_forgotten(store, "ana", file.with_name("another"))


def test_a_key_that_an_earlier_version_adds_is_removed_again(store):
    """It adds one before it refuses a store that is newer."""
    forget(store, "ana")
    execute(store, f"INSERT INTO komd_settings VALUES ('key', '{FORMER}')")
    assert is_forgotten(store, "ana")
    assert "key" not in settings_of(store)


def test_a_store_that_is_in_use_is_erased_later(tmp_path, monkeypatch, caplog):
    for name, value in (("_BUSY", 20), ("_SECONDS", 0.2), ("_AGAIN", 0.05)):
        monkeypatch.setattr(f"komd.serve.event_erasure.{name}", value)
    address, file = f"sqlite:///{tmp_path / 'e.db'}", tmp_path / "e.db"
    make_former(address)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM komd_settings").fetchall()
        with caplog.at_level(logging.WARNING, "komd.serve"):
            events = EventStore(address)
        assert "may still be in the files of the store" in caplog.text
        events.close()
        assert settings_of(address)["key_erasure"] == "due"
        reader.execute("COMMIT")
    EventStore(address).close()
    assert holding(tmp_path, FORMER) == ["e.db.forget-key"]
    assert os.environ.get("KOMD_FORGET_KEY_FILE") is None
