"""Run as a script: this system with what Windows lacks taken from it, as far as komd's own modules see.

    python tests/windows_like.py FOLDER

Other packages are loaded first, since they are built for the system they run on. Then modules and functions of POSIX
are removed, komd is imported module by module, and a model is fitted, saved, updated and loaded in FOLDER.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import types
from pathlib import Path

MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "uvloop")
OF_OS = (
    *("fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "nice", "setpriority", "getpriority", "killpg"),
    *("sched_getaffinity", "sched_setaffinity", "setsid", "setuid", "setgid", "statvfs", "fchmod", "fchown", "chown"),
    *("mkfifo", "openpty", "posix_spawn", "posix_fadvise", "wait4", "waitid", "uname", "O_DIRECTORY", "O_NOFOLLOW"),
)
OF_SIGNAL = (
    "SIGHUP",
    "SIGKILL",
    "SIGUSR1",
    "SIGUSR2",
    "SIGALRM",
    "SIGCHLD",
    "SIGQUIT",
    "SIGPIPE",
    "setitimer",
    "alarm",
)
# Packages that look at the system when they are loaded.
FOREIGN = (
    *("numpy", "numpy.lib.format", "scipy.sparse", "scipy.special", "scipy.stats", "scipy.optimize", "scipy.linalg"),
    *("scipy.sparse.linalg", "numba", "numba.core.caching", "pyarrow", "pyarrow.parquet", "pyarrow.dataset"),
    *("pyarrow.compute", "pyarrow.csv", "duckdb", "psutil", "rich.console", "rich.progress", "rich.table", "typer"),
    *("threadpoolctl", "multiprocessing.popen_fork", "asyncio", "subprocess", "tempfile", "sqlite3", "sqlalchemy"),
    *("sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql", "fastapi", "fastapi.security", "uvicorn"),
    *("uvicorn.protocols.http.httptools_impl", "uvicorn.supervisors", "prometheus_client", "psycopg", "matplotlib"),
    *("prometheus_client.multiprocess", "matplotlib.backends.backend_agg", "optuna", "pyspark.sql", "pyspark.ml"),
    *("pyspark.sql.pandas.types", "pyspark.ml.util", "opentelemetry.trace", "opentelemetry.sdk.trace"),
)


class _Missing:
    """Finds the modules of POSIX first, and says that they are not there."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def become_windows() -> None:
    """From here on, modules that are loaded see no POSIX."""
    for name in FOREIGN:
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing())  # type: ignore[arg-type]
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    locks = types.ModuleType("msvcrt")
    locks.LK_NBLCK, locks.LK_UNLCK = 2, 0  # type: ignore[attr-defined]
    locks.locking = lambda opened, mode, size: None  # type: ignore[attr-defined]
    sys.modules["msvcrt"] = locks
    sys.platform = "win32"


def main(folder: Path) -> None:
    source = Path(__file__).parents[1] / "src" / "komd"
    become_windows()
    names = [".".join(["komd", *path.relative_to(source).with_suffix("").parts]) for path in source.rglob("*.py")]
    absent = []
    for name in sorted(name.removesuffix(".__init__") for name in names if not name.endswith("__main__")):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in ("komd", *MODULES):
                raise
            absent.append(name)  # of an extra that is not installed
        except importlib.import_module("komd.errors").InputError:
            absent.append(name)
    import komd
    from komd import files, memory, threads

    data = komd.generate(users=40, items=25, activity=6, rng=0)
    model = komd.CFKOMD().fit(data)
    model.save(folder / "plays.komd")
    komd.update(folder / "plays.komd", added=[(data.users[0], data.items[0]), ("new", data.items[1])])
    loaded = komd.load(folder / "plays.komd")
    assert len(loaded.recommend(["new"], n=3).table) == 3
    assert threads.count() >= 1
    assert memory.available() > 0
    (folder / "tokens").write_text("x")
    assert not files.readable_by_others(folder / "tokens")
    print(f"imported {len(names) - len(absent)}, absent {len(absent)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
