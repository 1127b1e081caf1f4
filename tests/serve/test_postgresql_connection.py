"""A PostgreSQL server that is stopped by a signal: it keeps its connections, and answers nothing."""

import contextlib
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest
import sqlalchemy as sql
from prometheus_client.parser import text_string_to_metric_families

from komd.serve.event_records import NewEvent
from komd.serve.event_store import EventStore, StoreError
from komd.serve.serve_settings import Settings
from komd.serve.store_circuit import CircuitOpen, OutcomeUnknown
from tests.serve.conftest import Command, connected, postgresql_server, until


class Server:
    """A PostgreSQL server of these tests alone, which can be stopped and continued."""

    def __init__(self, folder):
        self._folder = folder
        self._stopped = []
        self._databases = 0

    def database(self):
        """The address of a new database."""
        import psycopg

        self._databases += 1
        with psycopg.connect(f"postgresql://komd@/postgres?host={self._folder}", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE store_{self._databases}")
        return f"postgresql://komd@/store_{self._databases}?host={self._folder}"

    def freeze(self):
        number = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        main = psutil.Process(number)
        self._stopped = [main, *main.children(recursive=True)]
        for process in self._stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self):
        for process in reversed(self._stopped):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        self._stopped = []


@pytest.fixture(scope="module")
def own_server():
    with postgresql_server() as folder:
        server = Server(folder)
        try:
            yield server
        finally:
            server.thaw()


@pytest.fixture
def server(own_server):
    yield own_server
    own_server.thaw()


@pytest.fixture
def short(monkeypatch):
    """Time limits of one second; psycopg waits at least two for a connection."""
    monkeypatch.setattr("komd.serve.event_databases._SECONDS", 1)
    monkeypatch.setattr("komd.serve.event_databases._REPORT", 0.5)


def measured(address):
    text = httpx.get(f"{address}/v1/metrics", verify=False).text
    values = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    return values["komd_store_circuit_open"], values["komd_store_failures_total"]


def test_a_service_with_a_silent_store_answers_everything_and_recovers(shop, server, serving, short, tmp_path):
    service = serving(
        Settings(model=shop / "shop.komd", store=server.database(), forget_key_file=tmp_path / "forget.key")
    )
    posted = [{"user_id": "ana", "item_id": f"i{k}"} for k in range(3)]
    assert service.post("/v1/events", {"events": posted})["new"] == 3
    assert service.get("/v1/ready") == {"status": "ready"}
    assert measured(service.address) == (0, 0)
    server.freeze()

    def ask(method, path, body):
        with connected(service.address, timeout=60) as client:
            return client.request(method, path, json=body)

    of_store = [
        ("GET", "/v1/ready", None),
        ("GET", "/v1/users/ana", None),
        ("POST", "/v1/recommend", {"user_id": "ana"}),
        ("POST", "/v1/recommend/batch", {"requests": [{"user_id": "ana"}]}),
        ("POST", "/v1/events", {"events": [{"user_id": "ana", "item_id": "lost"}]}),
        ("DELETE", "/v1/users/bo", None),
    ]
    others = 0
    with ThreadPoolExecutor(4 * len(of_store)) as threads:
        waiting = [threads.submit(ask, *asked) for asked in 4 * of_store]
        while not all(one.done() for one in waiting):  # nothing that needs no store waits for it
            assert service.get("/v1/health") == {"status": "ok"}
            assert service.post("/v1/recommend", {"history": []}, 200)["items"]
            others += 1
    answers = [one.result() for one in waiting]
    assert others > 10
    assert [answer.status_code for answer in answers] == [503] * len(answers)
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    assert all(answer.json()["detail"].startswith("the store d") for answer in answers)
    assert all(str(tmp_path) not in answer.text and "komd-pg" not in answer.text for answer in answers)
    assert until(lambda: measured(service.address)[0] == 1 and measured(service.address)[1] >= 2)
    server.thaw()
    assert until(lambda: service.client.get("/v1/ready").status_code == 200)
    again = {"events": [{"user_id": "ana", "item_id": "later"}]}
    assert until(lambda: service.client.post("/v1/events", json=again).status_code == 200)
    held = {entry["item_id"] for entry in service.get("/v1/users/ana")["items"]}
    assert {"i0", "i1", "i2", "later"} <= held
    assert until(lambda: measured(service.address)[0] == 0)


def test_a_commit_without_an_answer_is_reported_as_unknown(shop, server, serving, short, tmp_path, monkeypatch):
    stores = []

    def opened(*given, **named):
        stores.append(EventStore(*given, **named))
        return stores[-1]

    monkeypatch.setattr("komd.serve.app.EventStore", opened)
    service = serving(Settings(model=shop / "shop.komd", store=server.database(), forget_key_file=tmp_path / "key"))
    frozen = threading.Event()

    @sql.event.listens_for(stores[0]._engine, "commit")
    def freeze(_):
        if not frozen.is_set():
            frozen.set()
            server.freeze()

    event = {"events": [{"user_id": "ana", "item_id": "i1"}]}
    answer = service.client.post("/v1/events", json=event)
    assert frozen.is_set() and answer.status_code == 503
    assert answer.json()["detail"] == OutcomeUnknown.detail
    assert "may or may not be stored" in OutcomeUnknown.detail
    server.thaw()
    assert until(lambda: service.client.post("/v1/events", json=event).status_code == 200)
    assert [entry["item_id"] for entry in service.get("/v1/users/ana")["items"]] == ["i1"]


def test_the_store_itself(server, short, tmp_path):
    """Every way to use it ends, also while connections are checked, returned and closed."""
    address = server.database()
    events = EventStore(address, key_file=tmp_path / "key")
    events.add([NewEvent("ana", "i1")]).result()
    with pytest.raises(sql.exc.OperationalError, match="silent for"), events._engine.connect() as connection:
        connection.execute(sql.text("SELECT 1"))
        server.freeze()
        connection.execute(sql.text("SELECT 2"))
    uses = [
        lambda: events.changes(0),
        lambda: events.add([NewEvent("ana", "i2")]).result(),
        lambda: events.forget("ana").result(),
        events.ping,
    ]
    for use in uses:
        with pytest.raises(StoreError):
            use()
    with pytest.raises(CircuitOpen, match="asked again in"):
        events.ping()
    with pytest.raises(StoreError, match="cannot be used: the server does not answer"):
        EventStore(address, key_file=tmp_path / "key")
    server.thaw()
    assert until(lambda: _works(events.ping))
    assert until(lambda: _works(lambda: events.add([NewEvent("ana", "i3")]).result()))
    assert "i1" in [event.item for event in events.history("ana").events]
    server.freeze()
    closing = threading.Thread(target=events.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()


def _works(use):
    try:
        use()
    except StoreError:
        return False
    return True


def test_a_slow_statement_is_no_silence(server, short, tmp_path):
    """The server's own time limit ends it, and the circuit stays closed."""
    events = EventStore(server.database(), key_file=tmp_path / "key")
    for _ in range(3):
        with pytest.raises(StoreError, match="statement timeout"):
            events._read(sql.text("SELECT pg_sleep(30)"))
    assert not events.is_refusing and events.failures == 0
    events.ping()
    events.close()


def test_the_command_and_its_learner_survive_and_end(shop, server, tmp_path):
    import shutil

    model = shutil.copytree(shop / "shop.komd", tmp_path / "shop.komd")
    service = Command("serve", model, "--port", 0, "--learn", "--store", server.database()).wait()
    assert (tmp_path / "shop.komd.forget-key").is_file()
    learner = [child.pid for child in psutil.Process(service.process.pid).children()]
    server.freeze()
    assert until(lambda: service.client.get("/v1/ready").status_code == 503)
    time.sleep(1)  # the learner, which asks all the time, has noticed too
    server.thaw()
    event = {"events": [{"user_id": "new one", "item_id": "new item"}]}
    assert until(lambda: service.client.post("/v1/events", json=event).status_code == 200)
    assert until(lambda: service.client.get("/v1/items/new%20item").status_code == 200, 40)
    assert [child.pid for child in psutil.Process(service.process.pid).children()] == learner
    server.freeze()
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(service.client.get, "/v1/users/ana")
        time.sleep(0.3)
        returncode, _, errors = service.stop(signal.SIGTERM)
        asked.exception()
    assert returncode in (0, -signal.SIGTERM, 128 + signal.SIGTERM), errors
    assert "the learner ended" not in errors and "Traceback" not in errors
