import contextlib
import sqlite3
import threading

import pytest
from sqlalchemy import exc

from komd.serve.store_circuit import CircuitOpen, StoreCircuit, is_silence
from tests.serve.conftest import until


class Lost(Exception):
    """An error of a driver."""

    sqlstate = None


class Silent(Lost):
    is_silence = True


class Timeout(Lost):
    sqlstate = "57014"


class Locked(Lost):
    sqlstate = "55P03"


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def circuit(clock):
    return StoreCircuit("reads", clock=clock)


def fail(circuit, cause):
    with pytest.raises(exc.OperationalError), circuit:
        raise exc.OperationalError("SELECT", {}, cause())


def refused(circuit):
    with pytest.raises(CircuitOpen) as raised, circuit:
        raise AssertionError("it was let through")
    with pytest.raises(CircuitOpen):
        circuit.check()
    return raised.value.retry_after


def test_silence_opens_it_at_once_and_a_probe_closes_it(circuit, clock, caplog):
    with circuit:
        pass
    fail(circuit, Silent)
    assert circuit.is_open and refused(circuit) == 1.0
    clock.now += 0.9
    refused(circuit)
    clock.now += 0.2
    circuit.check()  # says that it would be let through, and probes nothing
    circuit.check()
    with circuit:
        others = threading.Thread(target=lambda: results.append(refused(circuit)))
        results = []
        others.start()
        others.join()
        assert results == [1.0]  # while one probes
    assert not circuit.is_open and circuit.failures == 1
    assert [record.message for record in caplog.records] == [
        "the store does not answer reads: they are refused until it does",
        "the store answers reads again",
    ]


def test_pauses_grow_up_to_a_limit_and_begin_anew(circuit, clock):
    fail(circuit, Silent)
    pauses = []
    for _ in range(6):
        pauses.append(refused(circuit))
        clock.now += pauses[-1] + 0.01
        fail(circuit, Lost)
    assert pauses == [1, 2, 4, 5, 5, 5]
    clock.now += 5.1
    with circuit:
        pass
    fail(circuit, Silent)
    assert refused(circuit) == 1


def test_failures_at_once_open_it_after_a_few_in_a_row(circuit):
    for _ in range(2):
        fail(circuit, Lost)
        fail(circuit, Lost)
        assert not circuit.is_open
        with circuit:
            pass
    for _ in range(3):
        fail(circuit, Lost)
    assert circuit.is_open and circuit.failures == 7


def test_a_statement_that_fails_opens_nothing(circuit, clock):
    for _ in range(5):
        fail(circuit, Timeout)
        with pytest.raises(exc.ProgrammingError), circuit:
            raise exc.ProgrammingError("SELECT", {}, Lost())
        with pytest.raises(KeyError), circuit:
            raise KeyError
    assert not circuit.is_open and circuit.failures == 0
    fail(circuit, Locked)
    assert circuit.is_open
    clock.now += 2
    fail(circuit, Timeout)  # the database answers
    assert not circuit.is_open


def test_only_the_probe_decides(circuit, clock):
    """Requests that began before it opened may end later, well or not."""
    ends = [threading.Event(), threading.Event()]

    def early(k):
        with contextlib.suppress(exc.OperationalError), circuit:
            ends[k].wait(20)
            if k:
                raise exc.OperationalError("SELECT", {}, Silent())

    threads = [threading.Thread(target=early, args=(k,)) for k in (0, 1)]
    for thread in threads:
        thread.start()
    fail(circuit, Silent)
    for end, thread in zip(ends, threads, strict=True):
        end.set()
        thread.join()
        assert circuit.is_open and refused(circuit) == 1.0
    clock.now += 1.1
    with pytest.raises(KeyError), circuit:  # a probe that asked nothing
        raise KeyError
    with circuit:
        pass
    assert not circuit.is_open


def test_what_silence_is(tmp_path):
    file = tmp_path / "e.db"
    with contextlib.closing(sqlite3.connect(file)) as writer, contextlib.closing(sqlite3.connect(file, 0.01)) as other:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as locked:
            other.execute("BEGIN IMMEDIATE")
    assert is_silence(exc.OperationalError("", {}, locked.value))
    assert is_silence(exc.TimeoutError("the pool is exhausted"))
    assert not is_silence(exc.OperationalError("", {}, sqlite3.OperationalError("no such table")))
    assert not is_silence(exc.OperationalError("", {}, Lost()))


def test_a_locked_sqlite_store_takes_no_events_and_is_read_on(settings, serving, tmp_path, monkeypatch):
    monkeypatch.setattr("komd.serve.event_databases._SECONDS", 0.3)
    service = serving(settings)
    event = {"events": [{"user_id": "ana", "item_id": "i1"}]}
    service.post("/v1/events", event)
    with contextlib.closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(3):
            for answer in (service.client.post("/v1/events", json=event), service.client.delete("/v1/users/bo")):
                assert answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1
                assert answer.json() == {"detail": "the store does not answer now"}
            assert service.get("/v1/ready") and service.get("/v1/users/ana")["items"]
        assert until(lambda: "komd_store_circuit_open 1.0" in service.client.get("/v1/metrics").text)
        other.execute("ROLLBACK")
    assert until(lambda: service.client.post("/v1/events", json=event).status_code == 200)
    assert until(lambda: "komd_store_circuit_open 0.0" in service.client.get("/v1/metrics").text)
