"""Services in processes of their own, and wrk in front of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

import psutil

SCRIPT = Path(__file__).parent / "load.lua"
CONNECTIONS = 32


class Service:
    """A process that listens; it ends with the `with` block."""

    def __init__(self, command: list[str], port: int, probe: str) -> None:
        self.port = port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{probe}", timeout=5).read()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        sys.exit(f"{command[1:]} does not answer")

    @classmethod
    def komd(cls, model: Path, store: Path, *more: str) -> Self:
        """`komd serve` with its defaults, and `more` options."""
        port = free_port()
        start = "from komd.cli.main import run; run()"
        words = ["serve", str(model), "--port", str(port), "--store", f"sqlite:///{store}", *more]
        return cls([sys.executable, "-c", start, *words], port, "/v1/ready")

    @classmethod
    def echo(cls) -> Self:
        """The least FastAPI can do."""
        port = free_port()
        return cls([sys.executable, "-m", "benchmarks.serve.echo", str(port)], port, "/docs")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)

    def memory(self) -> float:
        """Resident bytes."""
        return float(psutil.Process(self.process.pid).memory_info().rss)

    def cpu(self) -> float:
        """Seconds of processor time that it took so far."""
        taken = psutil.Process(self.process.pid).cpu_times()
        return float(taken.user + taken.system)

    def post(self, path: str) -> int:
        """The status of an empty post."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method="POST")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return int(error.code)


def raise_priority() -> str:
    """Run this and what it starts before other work on the machine, if that is permitted; returns what to say of it."""
    try:
        os.nice(-10)
    except OSError:
        return ""
    return ", at a raised priority, since other work shares the machine"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def load(port: int, file: Path, *, rate: float, seconds: float, seed: int) -> dict[str, Any]:
    """Ask at random moments, `rate` times a second; latencies in milliseconds, and how many requests failed."""
    wrk = shutil.which("wrk")
    if wrk is None:
        sys.exit("wrk is not here: apt install wrk")
    pause = str(1000 * CONNECTIONS / rate)
    words = ["-t1", f"-c{CONNECTIONS}", f"-d{round(seconds)}s", "--timeout", "10s", "-s", str(SCRIPT)]
    command = [wrk, *words, f"http://127.0.0.1:{port}", "--", str(file), pause, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"^\{.*\}$", done.stdout, re.MULTILINE)
    if found is None:
        sys.exit(done.stdout + done.stderr)
    return dict(json.loads(found[0]))
