"""A Spark cluster on loopback: a master and one-core workers, each in its own process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

__all__ = ["SETTINGS", "Cluster", "java"]

SETTINGS = {
    "spark.cores.max": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.task.maxFailures": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def java() -> bool:
    """Whether Java runs here."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return bool(command) and subprocess.run([str(command), "-version"], capture_output=True).returncode == 0


class Cluster:
    """Processes of a cluster, started from the pip-installed Spark; logs and work go to `folder`."""

    def __init__(self, folder: Path, *, memory: str = "2g") -> None:
        import pyspark

        self.home, self.folder, self.memory = Path(pyspark.__file__).parent, folder, memory
        self.workers: list[subprocess.Popen[bytes]] = []
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        self.master = self._start("master.Master", "--port", str(port))
        self._until(lambda: _listens(port), "the master does not listen")

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Start one more."""
        place = self.folder / f"worker-{time.monotonic_ns()}"
        worker = self._start(
            "worker.Worker", "--cores", "1", "--memory", self.memory, "--work-dir", str(place), self.url
        )
        self.workers.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """Kill a worker and its executors at once, as when a node dies."""
        parent = psutil.Process(worker.pid)
        for process in [*parent.children(recursive=True), parent]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        worker.wait()
        self.workers.remove(worker)

    def stop(self) -> None:
        """End everything."""
        for worker in list(self.workers):
            self.kill(worker)
        self.master.kill()
        self.master.wait()

    def session(self, **settings: str) -> Any:
        """A session on this cluster, once all workers have joined."""
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(self.url).appName("komd")
        for name, value in (SETTINGS | settings).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        executors = session.sparkContext._jsc.sc().getExecutorMemoryStatus  # the driver counts as one
        self._until(lambda: executors().size() > len(self.workers), "the executors do not come")
        return session

    def peaks(self) -> list[float]:
        """Bytes resident in the Python workers of each Spark worker now."""
        out = []
        for worker in self.workers:
            total = 0.0
            for process in psutil.Process(worker.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    total += process.memory_info().rss
            out.append(total)
        return out

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"SPARK_HOME": str(self.home)}
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
        log = (self.folder / f"{name}-{time.monotonic_ns()}.log").open("wb")
        return subprocess.Popen([*command, "--webui-port", "0", *arguments], env=environment, stdout=log, stderr=log)

    def _until(self, true: Callable[[], bool], words: str, seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise RuntimeError(f"{words}; see the logs in {self.folder}")
            time.sleep(0.2)


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0
