"""How the service is run in tests: a real server in a thread, on a free port, asked over HTTP."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi")

from komd.serve.app import create
from komd.serve.serve_settings import Settings
from komd.serve.server_process import configured

from .browsing import ARGUMENTS, CHROMIUM

START = "from komd.cli.main import run; run()"


def connected(address: str | httpx.URL, timeout: float = 30, **more: object) -> httpx.Client:
    """A client with connections of its own. It loads no certificates, which would take longer than many requests."""
    return httpx.Client(base_url=address, timeout=timeout, verify=False, **more)


class Running:
    """A service that answers; `client` speaks to it."""

    def __init__(self, settings: Settings) -> None:
        import uvicorn

        self.listening = socket.create_server((settings.host, 0))
        self.port = self.listening.getsockname()[1]
        self.settings = replace(settings, port=self.port)
        self.address = f"http://127.0.0.1:{self.port}"
        self.server = uvicorn.Server(configured(create(self.settings), self.settings))
        self.thread = threading.Thread(target=self.server.run, args=([self.listening],), daemon=True)
        self.thread.start()
        self.client = connected(self.address)
        for _ in range(500):
            if self.server.started:
                break
            time.sleep(0.02)

    def post(self, path: str, body: object, code: int = 200) -> dict:
        answer = self.client.post(path, json=body)
        assert answer.status_code == code, answer.text
        return answer.json()

    def get(self, path: str, code: int = 200, **query: object) -> dict:
        answer = self.client.get(path, params=query or None)
        assert answer.status_code == code, answer.text
        return answer.json()

    def send(self, raw: bytes, wait: float = 5.0) -> bytes:
        """Bytes as they are, and what comes back until the other side closes or `wait` seconds are over."""
        with socket.create_connection(("127.0.0.1", self.port)) as line:
            line.sendall(raw)
            return received(line, wait)

    def stop(self) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join(20)
        self.listening.close()


class Command:
    """`komd …` in its own process, once it says where it listens."""

    def __init__(self, *words, **environment):
        command = [sys.executable, "-c", START, *map(str, words)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if found := re.search(r"on (http://\S+)", line):
                self.client = connected(found[1])
                return
        raise AssertionError(self.process.stderr.read())

    def wait(self):
        for _ in range(300):
            try:
                if self.client.get("/v1/ready").status_code == 200:
                    return self
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError("it does not answer")

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        out, errors = self.process.communicate(timeout=30)
        return self.process.returncode, self.said + out, errors


def until(condition, seconds=120, pause=0.05):
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if condition():
            return True
        time.sleep(pause)
    return False


def same_lists(*answers: dict) -> bool:
    """Whether lists are the same; each has an id of its own."""
    return all(answer | {"recommendation_id": ""} == answers[0] | {"recommendation_id": ""} for answer in answers)


def received(line: socket.socket, wait: float = 5.0) -> bytes:
    line.settimeout(wait)
    parts = []
    with contextlib.suppress(TimeoutError, ConnectionError):
        while part := line.recv(65536):
            parts.append(part)
    return b"".join(parts)


def request(method, path, *headers, body=b"", host="127.0.0.1"):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def code(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with shop.komd (text ids), numbers.komd (integer ids) and names.tsv for the latter."""
    import komd

    folder = tmp_path_factory.mktemp("shop")
    data = komd.generate(users=150, items=90, activity=9, tastes=5, rng=3)
    komd.CFKOMD().fit(data).save(folder / "shop.komd")
    import pyarrow as pa

    table = pa.table({"user": 10 * data.rows.astype("int64"), "item": 7 * data.indices.astype("int64") + 3})
    komd.CFKOMD().fit(komd.read(table)).save(folder / "numbers.komd")
    lines = ["id\tname\tyear"]
    lines += [f"{7 * k + 3}\t{data.items[k]}\t{1950 + k}" for k in range(len(data.items)) if k != 5]
    lines[1] = "3\t<script>window.hit=1</script><img src=x onerror=window.hit=1>\t1950"
    (folder / "names.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def settings(shop: Path, tmp_path: Path) -> Settings:
    return Settings(model=shop / "shop.komd", store=f"sqlite:///{tmp_path / 'events.db'}")


@pytest.fixture
def serving() -> Iterator[object]:
    """Start services; they are stopped at the end."""
    started: list[Running] = []

    def start(settings: Settings) -> Running:
        started.append(Running(settings))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture(scope="module")
def running(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for the questions of a module."""
    store = tmp_path_factory.mktemp("store") / "events.db"
    service = Running(Settings(model=shop / "shop.komd", store=f"sqlite:///{store}"))
    yield service
    service.stop()


# ---- a real PostgreSQL ----------------------------------------------------------------------------------------


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextlib.contextmanager
def postgresql_server() -> Iterator[Path]:
    """The folder of a PostgreSQL server that listens on a socket file there; its files are in `data`."""
    programs = _programs()
    if programs is None:
        pytest.skip("no PostgreSQL here: install Debian's postgresql")
    who = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}  # the server refuses to be root
    folder = Path(tempfile.mkdtemp(prefix="komd-pg-"))
    if who:
        shutil.chown(folder, "postgres", "postgres")
    how = {"cwd": folder, "capture_output": True, "text": True, "check": True, "timeout": 120, **who}
    data = folder / "data"
    subprocess.run([programs / "initdb", "-D", data, "-U", "komd", "-A", "trust", "-E", "UTF8", "--no-sync"], **how)
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c max_connections=60"
    start = [programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"]
    how |= {"capture_output": False, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(start, **how)
    try:
        yield folder
    finally:
        subprocess.run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **how)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a PostgreSQL server that was started for the tests."""
    with postgresql_server() as folder:
        yield f"postgresql://komd@/postgres?host={folder}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty store, of each kind; where its key is, the environment says or it is beside it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'events.db'}"
    import psycopg

    monkeypatch.setenv("KOMD_FORGET_KEY_FILE", str(tmp_path / "store.forget-key"))
    address = request.getfixturevalue("postgresql")
    with psycopg.connect(address, autocommit=True) as connection:
        name = f"komd_{time.time_ns()}"
        connection.execute(f"CREATE DATABASE {name}")
    return address.replace("/postgres?", f"/{name}?")


# ---- a real browser -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Chromium, for one module: its event loop would be in the way of other tests."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()
