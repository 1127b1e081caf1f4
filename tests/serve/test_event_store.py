"""The store of live histories: the same tests on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from komd.errors import InputError
from komd.serve.event_store import EventStore, NewEvent, StoreError

pytestmark = pytest.mark.xdist_group("store")


@pytest.fixture
def events(store):
    opened = EventStore(store)
    yield opened
    opened.close()


def pairs(*of):
    return [NewEvent(user, item) for user, item in of]


def items(events, user):
    return [event.item for event in events.history(user).events]


def test_a_pair_is_kept_once(events):
    assert events.add(pairs(("ana", "i1"), ("ana", "i2"), ("ana", "i1"), ("bo", "i1"))).result() == 3
    assert events.add(pairs(("ana", "i2"), ("ana", "i3"))).result() == 1
    assert events.add([]).result() == 0
    assert sorted(items(events, "ana")) == ["i1", "i2", "i3"]
    assert items(events, "bo") == ["i1"]
    assert events.history("cy").events == [] and not events.history("cy").forgotten


def test_histories_are_in_the_order_they_came(events):
    for item in ("z", "m", "a"):
        events.add(pairs(("ana", item))).result()
        threading.Event().wait(0.003)
    assert items(events, "ana") == ["z", "m", "a"]
    assert [event.item for event in events.history("ana", newest=2).events] == ["m", "a"]


def test_forgetting_is_whole_and_leaves_no_id(events, store):
    events.add(pairs(("ana-secret", "i1"), ("bo", "i1"))).result()
    assert events.forget("ana-secret").result() == 1
    assert events.history("ana-secret") == ([], True)
    assert events.forget("ana-secret").result() == 0
    assert items(events, "bo") == ["i1"] and not events.history("bo").forgotten
    assert events.among_forgotten(["ana-secret", "bo"]) == {"ana-secret"}
    assert events.users("", 10) == ["bo"]
    with events._engine.connect() as connection:
        tables = [events._tables.events, events._tables.forgotten, events._tables.settings]
        held = repr([connection.execute(table.select()).all() for table in tables])
    assert "secret" not in held
    events.add(pairs(("ana-secret", "i9"))).result()  # someone who comes back begins anew
    assert items(events, "ana-secret") == ["i9"] and events.history("ana-secret").forgotten


def test_what_was_answered_is_there_for_another_process(events, store):
    events.add(pairs(("ana", "i1"))).result()
    events.forget("bo").result()
    again = EventStore(store)
    assert items(again, "ana") == ["i1"]
    assert again.history("bo").forgotten  # the key of the marks is the store's, not the process's
    again.close()


def test_many_writers_at_once_lose_nothing(events, store):
    other = EventStore(store)
    posts = [[(f"u{k % 7}", f"i{k % 13}-{j}") for j in range(5)] for k in range(120)]
    with ThreadPoolExecutor(8) as threads:
        done = list(
            threads.map(lambda k: (events, other)[k % 2].add(pairs(*reversed(posts[k]))).result(), range(len(posts)))
        )
    distinct = {pair for post in posts for pair in post}
    assert sum(done) == len(distinct)  # each pair was new to exactly one of them
    for user in {u for u, _ in distinct}:
        assert set(items(events, user)) == {i for u, i in distinct if u == user}
    other.close()


def test_forgetting_beside_writing(events, store):
    other = EventStore(store)
    with ThreadPoolExecutor(4) as threads:
        work = [
            threads.submit(lambda k=k: events.add(pairs(("ana", f"i{k}"), ("bo", f"i{k}"))).result()) for k in range(60)
        ]
        work += [threads.submit(lambda: other.forget("ana").result()) for _ in range(10)]
        for one in work:
            one.result()
    other.forget("ana").result()
    assert items(events, "ana") == []
    assert len(items(events, "bo")) == 60
    other.close()


TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=12))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_an_id(events, given_pairs):
    events.add(pairs(*given_pairs)).result()
    for user in {user for user, _ in given_pairs}:
        assert {item for u, item in given_pairs if u == user} <= set(items(events, user))
        assert user in events.users(user, 100)


def test_users_by_beginning_are_in_order_of_their_letters(events):
    names = ["Zoe", "ana", "anton", "an", "bo", "ä", "an%", "an_"]
    events.add(pairs(*[(name, "i") for name in names])).result()
    assert events.users("an", 10) == ["an", "an%", "an_", "ana", "anton"]
    assert events.users("", 2) == ["Zoe", "an"]
    assert events.users("x", 9) == []


def test_closed_means_closed(store):
    events = EventStore(store)
    written = events.add(pairs(("ana", "i1")))
    events.close()
    assert written.result() == 1
    with pytest.raises(StoreError, match="closed"):
        events.add(pairs(("ana", "i2")))
    events.close()


def test_sqlite_is_durable_and_private(tmp_path):
    file = tmp_path / "e.db"
    events = EventStore(f"sqlite:///{file}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with events._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL: flushed at every commit
    events.close()


def test_postgresql_waits_for_the_disk(postgresql):
    events = EventStore(postgresql)
    with events._engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    events.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "a store is sqlite:///FILE or postgresql://"),
        ("mysql://x/y", "got mysql://"),
        ("sqlite://", "a store in memory is lost with the process"),
        ("sqlite:///:memory:", "a store in memory is lost with the process"),
        ("sqlite:///no/such/folder/e.db", "there is no folder no/such/folder"),
    ],
)
def test_bad_addresses(url, words):
    with pytest.raises(InputError, match=words):
        EventStore(url)


def test_a_store_that_is_none(tmp_path):
    file = tmp_path / "e.db"
    file.write_text("this is no database, it is a letter to my aunt " * 50)
    with pytest.raises(StoreError, match="cannot be used: file is not a database"):
        EventStore(f"sqlite:///{file}")
    with pytest.raises(StoreError, match="cannot be used"):
        EventStore("postgresql://nobody:hunter2@127.0.0.1:1/none")


def test_a_store_of_another_format(tmp_path):
    file = tmp_path / "e.db"
    EventStore(f"sqlite:///{file}").close()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE komd_settings SET value = '9' WHERE name = 'format'")
    with pytest.raises(StoreError, match="is of format 9"):
        EventStore(f"sqlite:///{file}")


def test_passwords_and_ids_stay_out_of_messages(tmp_path):
    with pytest.raises(StoreError) as raised:
        EventStore("postgresql://nobody:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(raised.value)
    file = tmp_path / "e.db"
    events = EventStore(f"sqlite:///{file}")
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE komd_events")
    for attempt in (lambda: events.history("ana-secret"), lambda: events.add(pairs(("ana-secret", "i"))).result()):
        with pytest.raises(StoreError) as raised:
            attempt()
        assert "secret" not in str(raised.value)
    events.close()
    assert Path(file).exists()
