"""The store of live histories: the same tests on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sql
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from komd.errors import InputError
from komd.serve.event_records import Forgot, NewEvent, PendingChanges, StoreChanges, StoredChange
from komd.serve.event_store import EventStore, StoreError
from komd.serve.forget_key import ForgetKey

NOW = time.time_ns() // 1_000_000


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


def only(events, user="ana"):
    """The one stored event of a user."""
    (found,) = events.history(user).events
    return found


def post(events, *of, user="ana"):
    """Post events of one item, one after another; of how many something new was said."""
    return [events.add([NewEvent(user, "i", *one)]).result() for one in of]


def test_the_same_event_again_changes_nothing(events):
    for event in ((), ("chosen", 3.0), ("chosen", 3.0, NOW - 5000), ("disliked",), ("withdrawn",)):
        assert post(events, event) == [1]
        before = only(events)
        threading.Event().wait(0.003)
        assert post(events, event, event) == [0, 0]
        assert only(events) == before
        events.forget("ana").result()


def test_what_a_later_event_changes(events):
    now = time.time_ns() // 1_000_000  # the tests may have been collected long ago
    assert post(events, (), ("chosen", 2.0), ("chosen",), ("chosen", 2.0)) == [1, 1, 0, 0]
    assert (only(events).kind, only(events).weight) == ("chosen", 2.0)
    assert post(events, ("chosen", 5.0, now - 10**6)) == [1]  # the weight is new; the time is not the latest
    assert only(events).weight == 5.0 and only(events).time >= now
    assert post(events, ("chosen", None, now + 10**6), ("chosen", None, now + 10**5)) == [1, 0]
    assert (only(events).weight, only(events).time) == (5.0, now + 10**6)
    assert post(events, ("chosen", 6.0)) == [1]  # it happened now, which is earlier than what is known
    assert (only(events).weight, only(events).time) == (6.0, now + 10**6)
    # Another kind begins anew, also one that happened before: the order of arrival decides.
    assert post(events, ("disliked", None, now - 10**9)) == [1]
    assert (only(events).kind, only(events).weight, only(events).time) == ("disliked", None, now - 10**9)
    assert post(events, ("withdrawn",), ("chosen",)) == [1, 1]
    assert (only(events).kind, only(events).weight) == ("chosen", None)
    assert only(events).at >= now and only(events).time == only(events).at


def test_several_events_of_a_pair_in_one_post_are_taken_in_their_order(events):
    chosen, disliked = NewEvent("ana", "i"), NewEvent("ana", "i", "disliked")
    assert events.add([chosen, disliked, NewEvent("bo", "i"), chosen, chosen]).result() == 2
    assert only(events).kind == "chosen"
    assert events.add([chosen, NewEvent("bo", "i"), disliked]).result() == 1
    assert only(events).kind == "disliked"


def expected(posted):
    """The slow twin of the rule: kind, weight, time (None: the moment it was stored) after these events of a pair."""
    kind = weight = happened = None
    new = []
    for what, weighs, when in posted:
        if what != kind:
            new.append(1)
            kind, weight, happened = what, weighs, when
            continue
        later = when is not None and happened is not None and when > happened  # no time is now: later than any here
        new.append(int((weighs is not None and weighs != weight) or later))
        if new[-1]:
            happened = None if when is None or happened is None else max(when, happened)
            weight = weight if weighs is None else weighs
    return kind, weight, happened, new


EVENTS = st.tuples(
    st.sampled_from(["chosen", "disliked", "withdrawn"]),
    st.sampled_from([None, 1.0, 2.5]),
    st.sampled_from([None, 10**12, 10**12 + 1]),
)


@given(st.lists(EVENTS, min_size=1, max_size=6), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_events_of_a_pair_come_to_what_the_rule_says(events, posted, together):
    events.forget("ana").result()
    kind, weight, happened, new = expected(posted)
    if together:
        assert events.add([NewEvent("ana", "i", *one) for one in posted]).result() == 1
    else:
        assert post(events, *posted) == new
    found = only(events)
    assert (found.kind, found.weight) == (kind, weight)
    assert found.time >= NOW if happened is None else found.time == happened


def test_users_of_withdrawn_pairs_alone_are_not_listed(events):
    events.add([NewEvent("ana", "i", "withdrawn"), NewEvent("bo", "i", "disliked")]).result()
    assert events.users("", 10) == ["bo"]
    assert events.forget("ana").result().events == 1


def test_weights_and_times_of_any_size(events):
    for k, (weight, when) in enumerate([(5e-324, -62_135_596_800_000), (1e30, 253_402_300_799_999), (0.1, 0)]):
        events.add([NewEvent("ana", str(k), "chosen", weight, when)]).result()
        assert events.history("ana").events[k][3:5] == (weight, when)


def test_histories_are_in_the_order_they_came(events):
    for item in ("z", "m", "a"):
        events.add(pairs(("ana", item))).result()
        threading.Event().wait(0.003)
    assert items(events, "ana") == ["z", "m", "a"]
    assert [event.item for event in events.history("ana", newest=2).events] == ["m", "a"]


def test_forgetting_is_whole_and_leaves_no_id(events, store):
    events.add(pairs(("ana-secret", "i1"), ("bo", "i1"))).result()
    assert events.forget("ana-secret").result().events == 1
    assert events.history("ana-secret") == ([], True)
    assert events.forget("ana-secret").result().events == 0
    assert items(events, "bo") == ["i1"] and not events.history("bo").forgotten
    assert events.among_forgotten(["ana-secret", "bo"]) == {"ana-secret"}
    assert events.users("", 10) == ["bo"]
    with events._engine.connect() as connection:
        tables = [events._tables.events, events._tables.log, events._tables.forgotten, events._tables.settings]
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


def test_writers_that_change_the_same_pairs_do_not_stop_each_other(events, store):
    """In whatever order each of them has the pairs: no deadlock, and nothing is refused."""
    several, rng = [events, EventStore(store), EventStore(store)], random.Random(0)
    users, weights = [f"u{k}" for k in range(4)], [None, 1.0, 2.0]
    posts = [
        [NewEvent(rng.choice(users), f"i{rng.randrange(5)}", "chosen", rng.choice(weights)) for _ in range(5)]
        for _ in range(300)
    ]
    with ThreadPoolExecutor(24) as threads:
        list(threads.map(lambda k: several[k % 3].add(posts[k]).result(), range(len(posts))))
    found = {user: events.history(user) for user in users}
    assert sum(len(history.events) for history in found.values()) == len({e[:2] for post in posts for e in post})
    assert all(several[2].history(user) == found[user] for user in users)
    for other in several[1:]:
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


def test_postgresql_waits_for_the_disk(postgresql, tmp_path):
    events = EventStore(postgresql, key_file=tmp_path / "key")
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


# ---- stores of former formats ---------------------------------------------------------------------------------------


FORMER = {
    "1": """
CREATE TABLE komd_events
    (user_id {text} NOT NULL, item_id {text} NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (user_id, item_id)) {rowid};
INSERT INTO komd_events VALUES ('ana', 'i1', 1700000000000), ('ana', 'i2', 1700000000001), ('bo', 'i1', 1700000000002);
""",
    "2": """
CREATE TABLE komd_events
    (user_id {text} NOT NULL, item_id {text} NOT NULL, at BIGINT NOT NULL, kind TEXT DEFAULT 'chosen' NOT NULL,
    weight DOUBLE PRECISION, time BIGINT, PRIMARY KEY (user_id, item_id)) {rowid};
INSERT INTO komd_events VALUES ('ana', 'i1', 1700000000000, 'chosen', NULL, NULL),
    ('ana', 'i2', 1700000000001, 'chosen', NULL, NULL), ('bo', 'i1', 1700000000002, 'disliked', NULL, 5);
""",
}
FORMER["3"] = (
    FORMER["2"]
    .replace("time BIGINT,", "time BIGINT, seq BIGINT DEFAULT 1 NOT NULL,")
    .replace("NULL)", "NULL, 1)")
    .replace(", 5)", ", 5, 1)")
    + """
CREATE INDEX komd_events_seq ON komd_events (seq, user_id, item_id);
CREATE TABLE komd_forgotten (mark TEXT NOT NULL PRIMARY KEY, seq BIGINT DEFAULT 1 NOT NULL);
CREATE INDEX komd_forgotten_seq ON komd_forgotten (seq);
"""
)
FORMER_MARKS = """
CREATE TABLE IF NOT EXISTS komd_forgotten (mark TEXT NOT NULL PRIMARY KEY);
CREATE TABLE komd_settings (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO komd_settings VALUES ('format', '{number}'), ('key', '{key}');
INSERT INTO komd_forgotten (mark) VALUES ('cd');
"""


@pytest.fixture(params=sorted(FORMER))
def former(store, request):
    """The address of a store as a former format has it."""
    with sql.create_engine(store.replace("postgresql:", "postgresql+psycopg:")).begin() as connection:
        postgresql = connection.dialect.name == "postgresql"
        text, rowid = ('TEXT COLLATE "C"', "") if postgresql else ("TEXT", "WITHOUT ROWID")
        script = (FORMER[request.param] + FORMER_MARKS).format(
            text=text, rowid=rowid, key="ab" * 32, number=request.param
        )
        for statement in script.split(";")[:-1]:
            connection.exec_driver_sql(statement)
    return store


def table(address, name):
    with sql.create_engine(address.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        return sorted(tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {name}"))


def indexes(address):
    with sql.create_engine(address.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        found = sql.inspect(connection)
        return [
            (index["name"], index["column_names"])
            for name in ("komd_events", "komd_forgotten", "komd_log")
            for index in sorted(found.get_indexes(name), key=lambda index: index["name"])
        ]


def test_a_store_of_a_former_format_is_changed_in_place(former, tmp_path):
    bo = ("bo", "i1", "chosen", None, 1700000000002, None)
    if dict(table(former, "komd_settings"))["format"] != "1":
        bo = ("bo", "i1", "disliked", None, 5, None)
    events = EventStore(former)
    old = [
        ("i1", 1700000000000, "chosen", None, 1700000000000, None),
        ("i2", 1700000000001, "chosen", None, 1700000000001, None),
    ]
    assert events.history("ana").events == old
    first = [("ana", item, *what) for item, _, *what in old]
    assert events.changes(0) == (1, [*first, bo], ["cd"], False)
    assert events.changes(0, limit=1) == events.changes(0)  # a commit is never divided
    assert events.add(pairs(("ana", "i1"))).result() == 0  # nothing new, also after the change
    assert events.history("ana").events == old and events.last_seq() == 1
    assert events.add([NewEvent("ana", "i2", "disliked", None, 3)]).result() == 1
    assert [event.kind for event in events.history("ana").events] == ["chosen", "disliked"]
    assert events.changes(1) == (2, [("ana", "i2", "disliked", None, 3, None)], [], False)
    # What was known before is one event, to which the pair returns.
    before, since = events.logged("ana")
    assert (before.item, before.kind, before.at, since.kind) == ("i2", "chosen", 1700000000001, "disliked")
    assert events.withdraw(since.event_id).result() == ("ana", "i2", 3)
    assert events.changes(1) == (3, [("ana", "i2", "chosen", None, 1700000000001, None)], [], False)
    assert events.withdraw(before.event_id).result() == ("ana", "i2", 4)
    assert items(events, "ana") == ["i1"] and events.logged("ana") == []
    events.close()
    assert table(former, "komd_settings") == [
        ("format", "4"),
        ("key_check", ForgetKey(bytes.fromhex("ab" * 32)).check),
        ("seq", "4"),
    ]
    fresh = f"sqlite:///{tmp_path / 'fresh.db'}"
    EventStore(fresh).close()
    assert (
        indexes(former)
        == indexes(fresh)
        == [
            ("komd_events_seq", ["seq", "user_id", "item_id"]),
            ("komd_forgotten_seq", ["seq"]),
            ("komd_log_event", ["event_id"]),
            ("komd_log_recommendation", ["recommendation"]),
        ]
    )
    EventStore(former).close()


def test_a_change_of_format_that_is_interrupted_leaves_the_former(former, monkeypatch):
    before = [table(former, name) for name in ("komd_settings", "komd_events", "komd_forgotten")]
    with monkeypatch.context() as patched:
        from komd.serve.event_tables import _ADDED

        added = {**_ADDED, "3": (("komd_events", "least"), ("komd_forgotten", "no such"))}
        patched.setattr("komd.serve.event_tables._ADDED", added)
        with pytest.raises(KeyError):
            EventStore(former)
    assert [table(former, name) for name in ("komd_settings", "komd_events", "komd_forgotten")] == before
    events = EventStore(former)
    assert items(events, "ana") == ["i1", "i2"]
    events.close()


def test_workers_that_start_together_change_the_format_once(former):
    with ThreadPoolExecutor(6) as threads:
        opened = list(threads.map(EventStore, [former] * 6))
    assert all(items(events, "ana") == ["i1", "i2"] for events in opened)
    assert len(table(former, "komd_events")[0]) == 8
    for events in opened:
        events.close()


def test_a_worker_waits_long_for_one_that_changes_the_format(tmp_path, monkeypatch):
    monkeypatch.setattr("komd.serve.event_databases._SECONDS", 0)
    file = tmp_path / "events.db"
    EventStore(f"sqlite:///{file}").close()
    with contextlib.closing(sqlite3.connect(file, check_same_thread=False)) as changing:
        changing.execute("BEGIN IMMEDIATE")
        ends = threading.Timer(1.0, changing.rollback)
        ends.start()
        EventStore(f"sqlite:///{file}").close()
        ends.join()


# ---- what changed ---------------------------------------------------------------------------------------------------


def test_changes_are_those_of_the_commits_after_a_number(events):
    assert events.changes(0) == StoreChanges(1, [], [], False) and events.last_seq() == 1
    events.add([NewEvent("bo", "i2", "chosen", 2.0, 7), NewEvent("ana", "i1", "disliked", None, 8)]).result()
    ana, bo = StoredChange("ana", "i1", "disliked", None, 8), StoredChange("bo", "i2", "chosen", 2.0, 7)
    assert events.changes(0) == events.changes(1) == StoreChanges(2, [ana, bo], [], False)
    assert events.changes(2) == StoreChanges(2, [], [], False)
    # A row keeps the number of its commit where an event says nothing new, also beside one that does.
    events.add([NewEvent("bo", "i2", "chosen", 2.0, 7), NewEvent("cy", "i1", "withdrawn", None, 9)]).result()
    cy = StoredChange("cy", "i1", "withdrawn", None, 9)
    assert events.changes(2) == StoreChanges(3, [cy], [], False)
    events.add([NewEvent("ana", "i1", "disliked", None, 10)]).result()
    assert events.changes(0) == StoreChanges(4, [bo, cy, ana._replace(time=10)], [], False)
    before = time.time_ns() // 1_000_000
    events.add(pairs(("di", "i1"))).result()
    assert before <= events.changes(4).events[0].time <= time.time_ns() // 1_000_000  # when it was stored


def test_what_is_pending_is_what_the_changes_would_have(events):
    assert events.pending(0) == PendingChanges(1, 0, None, 0)
    before = time.time_ns() // 1_000_000
    events.add([NewEvent("ana", "i7", time=5), NewEvent("ana", "i9")]).result(20)
    events.add([NewEvent("bo", "i7")]).result(20)
    seq, waiting, oldest, forgotten = events.pending(0)
    assert (seq, waiting, forgotten) == (3, 3, 0) and before <= oldest <= time.time_ns() // 1_000_000
    assert events.pending(2)[:2] == (3, 1) and events.pending(3) == PendingChanges(3, 0, None, 0)
    events.forget("ana").result(20)
    assert events.pending(2)[:2] == (4, 1) and events.pending(3) == PendingChanges(4, 0, None, 1)
    for after in range(5):
        changes, pending = events.changes(after), events.pending(after)
        assert pending[:2] == (changes.seq, len(changes.events)) and pending.forgotten == len(changes.forgotten)


def test_commits_that_change_nothing_take_no_number(events):
    events.add(pairs(("ana", "i"))).result()
    for nothing in ([], pairs(("ana", "i")), pairs(("ana", "i"), ("ana", "i"))):
        events.add(nothing).result()
    assert events.last_seq() == events.changes(0).seq == 2


def test_forgetting_is_a_change_also_the_second_time(events):
    events.add(pairs(("ana", "i"), ("bo", "i"))).result()
    assert events.forget("ana").result() == Forgot(events=1, seq=3)
    assert [change.user for change in events.changes(0).events] == ["bo"]
    assert events.changes(2) == StoreChanges(3, [], [events.mark("ana")], False)
    assert events.forget("cy").result() == Forgot(0, 4)
    assert events.forget("ana").result() == Forgot(0, 5)
    assert events.changes(3).forgotten == [events.mark("cy"), events.mark("ana")]
    assert events.changes(4).forgotten == [events.mark("ana")] and events.changes(5).forgotten == []


def test_a_limit_ends_with_a_commit(events):
    sizes = [1, 2, 5, 1, 1, 3]
    for k, size in enumerate(sizes):
        events.add(pairs(*[(f"u{k}", f"i{j}") for j in range(size)])).result()
    events.forget("u3").result()  # its event is gone: a commit of which nothing is left
    left = [1, 2, 5, 0, 1, 3, 0]  # of commits 2 to 8
    for limit in range(1, 15):
        seq, more, found = 0, True, []
        while more:
            after = seq
            seq, changed, marks, more = events.changes(after, limit=limit)
            expected_events, last = 0, after
            while last < 8 and expected_events < limit:
                last += 1
                expected_events += left[last - 2] if last > 1 else 0
            assert (len(changed), seq) == (expected_events, last)
            assert marks == ([events.mark("u3")] if seq == 8 else [])
            assert more == (seq < 8)
            found += [change.user for change in changed]
        assert found == [f"u{k}" for k, size in enumerate(sizes) if k != 3 for _ in range(size)]


def test_changes_are_of_one_state(events, store, monkeypatch):
    """Also if others commit while they are read."""
    for setting, seconds in (("_BUSY", 20), ("_SECONDS", 0.1)):  # reading keeps the log in use
        monkeypatch.setattr(f"komd.serve.event_erasure.{setting}", seconds)
    other = EventStore(store)
    events.add([NewEvent("ana", "i", "chosen", 1.0, 7), NewEvent("bo", "i", "chosen", 1.0, 8)]).result()
    events.forget("cy").result()
    before, between = events.changes(0), []

    @sql.event.listens_for(events._engine, "after_cursor_execute")
    def commit_between(connection, cursor, statement, *_):
        if statement.startswith("SELECT"):
            between.append(statement)
            if len(between) == 1:
                other.add([NewEvent("bo", "i", "disliked")]).result()
                other.forget("ana").result()
                other.forget("cy").result()

    assert events.changes(0) == before and len(before.events) == 2 and before.forgotten == [events.mark("cy")]
    sql.event.remove(events._engine, "after_cursor_execute", commit_between)
    assert len(between) == 4
    after = events.changes(before.seq)
    assert [change.user for change in after.events] == ["bo"]
    assert after.forgotten == [events.mark("ana"), events.mark("cy")]
    other.close()


WRITER = """
    import random, sys
    from komd.serve.event_records import NewEvent
    from komd.serve.event_store import EventStore

    address, seed, posts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    events, rng, waiting = EventStore(address), random.Random(seed), []
    for _ in range(posts):
        if rng.random() < 0.05:
            waiting.append(events.forget(f"u{rng.randrange(8)}"))
        else:
            kinds, weights = ["chosen", "chosen", "disliked", "withdrawn"], [None, 1.0, 2.0]
            waiting.append(events.add([
                NewEvent(f"u{rng.randrange(8)}", f"i{rng.randrange(12)}", rng.choice(kinds), rng.choice(weights))
                for _ in range(rng.randrange(1, 5))
            ]))
        if rng.random() < 0.3:
            waiting.pop().result()
    for one in waiting:
        one.result()
    events.close()
"""


def test_a_reader_of_changes_misses_nothing(events, store):
    """Beside writers in several processes: what it gathers is what the table holds at the end."""
    command = [sys.executable, "-c", textwrap.dedent(WRITER), store]
    writers = [subprocess.Popen([*command, str(seed), "150"]) for seed in range(3)]
    rng, known, seq, several = random.Random(9), {}, 0, 0
    while True:
        ended = all(writer.poll() is not None for writer in writers)  # asked before reading: then this is the last
        changes = events.changes(seq, limit=rng.choice([1, 3, 20, 1000]))
        assert changes.seq >= seq
        several += bool(changes.events)
        if changes.forgotten:
            marks = set(changes.forgotten)
            known = {pair: what for pair, what in known.items() if events.mark(pair[0]) not in marks}
        known |= {change[:2]: change[2:] for change in changes.events}
        seq = changes.seq
        if ended and not changes.more:
            break
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    held = {
        (user, item): (kind, weight, at if when is None else when, least)
        for user, item, at, kind, weight, when, _, least in table(store, "komd_events")
    }
    assert known == held and held
    assert seq == events.last_seq() and several > 10
    # Every commit has a number of its own: the rows of each number were stored together.
    stored = {}
    for _, _, at, _, _, _, number, _ in table(store, "komd_events"):
        stored.setdefault(number, []).append(at)
    assert all(before <= after for before, after in itertools.pairwise(max(stored[k]) for k in sorted(stored)))


# ---- no trace -------------------------------------------------------------------------------------------------------


def traces(folder, ids):
    """Those of these ids that are in a file of this folder.

    Read by another process: one that closes a file loses the locks which SQLite has on it.
    """
    program = (
        "import sys, pathlib; sys.stdout.buffer.write(b''.join(f.read_bytes() for f in pathlib.Path('.').iterdir()))"
    )
    held = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, check=True).stdout
    assert b"komd_events" in held
    return [name for name in ids if name.encode() in held]


def fill(events, rng, users, posts=150):
    """Events of these users in no order, over many pages; many rows are changed again, and move."""
    for _ in range(posts):
        posted = [
            NewEvent(
                rng.choice(users),
                f"item-{rng.randrange(150)}" + "x" * rng.randrange(40),
                rng.choice(["chosen", "disliked"]),
            )
            for _ in range(100)
        ]
        events.add(posted).result()


SECRETS = [f"secret-{k:04d}-{'z' * (k % 30)}-end" for k in range(240)]


def test_forgotten_ids_are_in_no_file(tmp_path):
    events = EventStore(f"sqlite:///{tmp_path / 'events.db'}")
    fill(events, random.Random(1), SECRETS)
    assert traces(tmp_path, SECRETS) == SECRETS
    forgotten, others = SECRETS[::7], [name for k, name in enumerate(SECRETS) if k % 7]
    for name in forgotten:
        events.forget(name).result()
    assert traces(tmp_path, forgotten) == []
    assert traces(tmp_path, others) == others
    events.close()
    assert traces(tmp_path, forgotten) == []


def test_forgotten_ids_are_in_no_file_while_others_read_and_write(tmp_path, monkeypatch):
    monkeypatch.setattr("komd.serve.event_erasure._SECONDS", 60.0)  # a loaded machine needs more tries
    address = f"sqlite:///{tmp_path / 'events.db'}"
    events, other = EventStore(address), EventStore(address)
    fill(events, random.Random(2), SECRETS, posts=60)
    done = threading.Event()

    def read(k):
        while not done.is_set():
            (events, other)[k % 2].changes(0)
            other.history(SECRETS[k + 1])

    def write():
        for k in itertools.count():
            if done.is_set():
                return
            other.add(pairs((f"other-{k % 50}", f"i{k}"))).result()

    with ThreadPoolExecutor(4) as threads:
        work = [threads.submit(read, k) for k in range(3)] + [threads.submit(write)]
        try:
            for name in SECRETS[::24]:
                events.forget(name).result()
                assert traces(tmp_path, [name]) == []
        finally:
            done.set()
        for one in work:
            one.result()
    assert traces(tmp_path, SECRETS[::24]) == []
    for one in (events, other):
        one.close()


def test_what_a_store_of_a_former_format_left_is_erased_too(tmp_path):
    """It did not overwrite what it deleted."""
    file = tmp_path / "events.db"
    EventStore(f"sqlite:///{file}").close()
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA secure_delete=OFF")
        rows = [(f"secret-{k}-end", f"i{k}", k) for k in range(2000)]
        connection.executemany("INSERT INTO komd_events (user_id, item_id, at) VALUES (?, ?, ?)", rows)
        connection.execute("DELETE FROM komd_events WHERE at >= 1000")
    deleted = [name for name, _, k in rows if k >= 1000]
    assert traces(tmp_path, deleted)
    events = EventStore(f"sqlite:///{file}")
    events.forget(rows[0][0]).result()
    assert traces(tmp_path, [*deleted, rows[0][0]]) == []
    events.close()


def test_a_log_that_is_in_use_is_truncated_later(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("komd.serve.event_erasure._BUSY", 20)
    monkeypatch.setattr("komd.serve.event_erasure._SECONDS", 0.2)
    monkeypatch.setattr("komd.serve.event_erasure._AGAIN", 0.05)
    file = tmp_path / "events.db"
    events = EventStore(f"sqlite:///{file}")
    events.add(pairs(("ana-secret", "i"), ("bo", "i"))).result()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM komd_events").fetchone() == (2,)
        with caplog.at_level(logging.WARNING, "komd.serve"):
            assert events.forget("ana-secret").result().events == 1
        assert "ids of forgotten users may still be in the files of the store" in caplog.text
        assert "secret" not in caplog.text
        events.add(pairs(("bo", "i2"))).result()
        assert traces(tmp_path, ["ana-secret"]) == ["ana-secret"]  # the reader still sees it
        reader.execute("COMMIT")
    for _ in range(200):
        if not traces(tmp_path, ["ana-secret"]):
            break
        threading.Event().wait(0.05)
    assert traces(tmp_path, ["ana-secret"]) == []
    assert sorted(items(events, "bo")) == ["i", "i2"]
    events.close()


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_postgresql_releases_deleted_rows(events):
    events.add(pairs(*[("ana", f"i{k}") for k in range(1000)], ("bo", "i"))).result()
    events.forget("ana").result()
    dead = sql.text("SELECT n_dead_tup, vacuum_count FROM pg_stat_user_tables WHERE relname = 'komd_events'")
    for _ in range(100):  # the statistics follow
        with events._engine.connect() as connection:
            if tuple(connection.execute(dead).one()) == (0, 1):
                break
        threading.Event().wait(0.05)
    else:
        pytest.fail("no vacuum")


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


def test_the_commit_that_forgot_a_user_last(store):
    events = EventStore(store)
    try:
        assert events.last_forgotten() == 0
        events.add([NewEvent("ana", "x")]).result(10)
        assert events.last_forgotten() == 0
        for user in ("ana", "bob", "ana"):  # known, unknown, and once more
            seq = events.forget(user).result(10).seq
            assert events.last_forgotten() == seq
        events.add([NewEvent("ana", "x")]).result(10)
        assert events.last_forgotten() == seq
    finally:
        events.close()
