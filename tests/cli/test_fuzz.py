"""Odd command lines and odd surroundings: a result, or exit code 2 and a line that says what is wrong. No traceback.

KOMD_FUZZ=1000 runs so many command lines instead of a few.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from komd.cli.main import app

from .conftest import START

COUNT = int(os.environ.get("KOMD_FUZZ", "60"))
HUGE = "9" * 400
NUMBERS = [
    "-1",
    "0",
    "1",
    "2",
    "3",
    "1e3",
    "0.5",
    "nan",
    "inf",
    "-inf",
    "1e400",
    HUGE,
    "",
    " ",
    "x",
    "٣",
    "0x10",
    "1_0",
    "--",
]
TEXTS = [
    "",
    " ",
    "x",
    "ünï→✓",
    "a\nb",
    "\x1b[31m",
    "'",
    '"',
    ",",
    ",,",
    "--",
    "-1",
    "%s",
    "{}",
    "../..",
    "~",
    "*",
    "A" * 5000,
]
SIZES = ["1B", "0", "-1GB", "1GB", "8 GB", "1e3", HUGE + "GB", ".", "GB", "٣GB"]
MODELS = [
    *(
        "CFKOMD",
        "ECFOMD()",
        "Popularity",
        "MSDW(alpha=2)",
        "MSDW(locality=1e300)",
        "SLIM(l1=-1)",
        "EASE(regularization=0)",
    ),
    *("CFKOMD(ridge=)", "CFKOMD(ridge=1e30)", "CFKOMD(ridge=1e-30)", "CFKOMD(prior=1e300)", "CFKOMD(rank=10**9)", "()"),
    *("CFKOMD(head=-1)", "CFKOMD(head=1e300)", "CFKOMD(head=1)", "CFKOMD(target=99)", "CFKOMD(target=-1)"),
    *(
        "CFKOMD(ridge=1e999)",
        "CFKOMD(rank=4, ridge=1)",
        "CFKOMD(storage='no')",
        "CFKOMD(**{})",
        "CFKOMD(*[1])",
        "CFKOMD(1)",
    ),
    *(
        "__import__('os').system('true')",
        "CFKOMD.__class__",
        "lambda: 0",
        "CFKOMD(kernel=CFKOMD())",
        "CFKOMD\x00",
        "💥",
    ),
    *(
        "CFKOMD(kernel=DotProduct([0, 1e400]))",
        "CFKOMD(kernel=Polynomial(degree=10**6))",
        "CFKOMD(kernel=RBF(gamma=1e300))",
    ),
    *(
        "CFKOMD(" * 200 + ")" * 200,
        "CFKOMD(kernel=" + "[" * 5000,
        "CFKOMD(regularization=" + "9" * 5000 + ")",
        "a" * 10_000,
    ),
    *(
        "CFKOMD(regularization=[1, 2])",
        "CFKOMD(regularization=True)",
        "Popularity, MSDW(alpha=[0, .5])",
        "WRMF(factors=10**9)",
    ),
]
METRICS = [
    "auc",
    "ndcg@0",
    "ndcg@-1",
    "ndcg@1e9",
    f"ndcg@{HUGE}",
    "@",
    "auc,,auc",
    "ndcg",
    "recall@5,hit@5",
    "AUC",
    "map@٣",
]
CHOICES = ["random", "given", "time", "half", "strict", "appearance", "error", "skip", "Random", ""]
TIMES = ["0", "-1", "0.05", "1e400", HUGE, "1x", "", "1 fortnight", "0.1s"]


def words_of(kind: random.Random, name: str, folder: Path, number: int) -> list[str]:
    """A command line for a command: odd files, and some of its options with odd values."""
    files = [
        folder / each for each in ("plays.csv", "ratings.dat", "plays.komd", "ratings.komd", "empty", "bytes", "no")
    ]
    paths = [str(path) for path in files] + [str(folder), "/dev/null", "SELECT 1", "", "-", "ü.csv", "a" * 300, "\x07"]
    likely = str(
        folder / ("plays.komd" if name in ("recommend", "explain", "serve", "similar", "score") else "plays.csv")
    )
    out = folder / f"out-{number}"
    outs = [
        str(out),
        f"{out}.csv",
        f"{out}.parquet",
        f"{out}.json",
        str(folder / "no" / "x.csv"),
        "/dev/full",
        "/proc/x",
    ]
    words, rate = [name], kind.choice([0.02, 0.1, 0.3])  # few odd options go deep, many are refused soon
    for parameter in typer.main.get_command(app).commands[name].params:
        option = max(parameter.opts, key=len) if parameter.opts else ""
        if parameter.param_type_name == "argument":
            words += [
                likely if kind.random() < 0.8 else kind.choice(paths) for _ in range(kind.choice([0, 1, 1, 1, 1, 2]))
            ]
            likely = kind.choice(["user-00001", "70", *TEXTS])
            continue
        if not (parameter.required or kind.random() < rate) or option in ("--help", "--spark", "--serve"):
            continue
        values = NUMBERS + TEXTS
        if option in ("--output", "--report", "--plot", "--keep"):
            values = outs
        elif option in ("--model", "--models"):
            values = MODELS
        elif option in ("--metrics", "--metric"):
            values = METRICS
        elif option == "--memory":
            values = SIZES
        elif option in ("--budget", "--time-limit"):
            values = TIMES
        elif option in ("--half", "--ties", "--on-unknown"):
            values = CHOICES
        elif option in (
            "--train",
            "--test",
            "--held-out",
            "--items",
            "--only",
            "--exclude",
            "--token-file",
            "--database",
        ):
            values = paths + TEXTS
        if getattr(parameter, "is_flag", False):
            words.append(kind.choice([*parameter.opts, *parameter.secondary_opts]))
        else:
            words += [option, kind.choice([value for value in values if "\x00" not in value or option == "--model"])]
    if name == "tune":
        words += ["--budget", kind.choice(TIMES), "--trials", "1", "--folds", "2", "--rounds", "1"]
    if name == "demo":
        words += ["--users", kind.choice(["60", "1", "x"]), "--items", "60"]
    if name == "serve":
        words += ["--port", kind.choice(["-1", "99999", "x"])]  # what would serve for ever is not started
    if name == "compare":
        words += ["--models", "Popularity"] if kind.random() < 0.3 else ["--models", "Nothing"]
    return words


@pytest.fixture(scope="module")
def odd(plays, tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    for path in plays.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    (folder / "empty").write_bytes(b"")
    (folder / "bytes").write_bytes(bytes(range(256)) * 20)
    return folder


COMMANDS = list(typer.main.get_command(app).commands)


@pytest.mark.parametrize("part", range(6))
def test_odd_command_lines(part, odd, monkeypatch):
    monkeypatch.chdir(odd)
    monkeypatch.delenv("KOMD_STORE", raising=False)
    kind = random.Random(f"komd {part}")
    for number in range(COUNT // 6):
        words = words_of(kind, COMMANDS[(number * 6 + part) % len(COMMANDS)], odd, part * COUNT + number)
        done = CliRunner().invoke(app, words, env={"COLUMNS": kind.choice(["1", "80", "200"])})
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, repr(done.exception))
        assert done.exit_code in (0, 1, 2), (words, done.output)
        assert done.exit_code == 0 or done.stderr.strip(), (words, done.output)
        assert "Traceback" not in done.stderr, (words, done.stderr)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))


def no_output() -> None:
    os.close(1)


def no_errors() -> None:
    os.close(2)


SURROUNDINGS = {
    "no home": ({"HOME": None, "XDG_CACHE_HOME": None}, None),
    "plain C": ({"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, None),
    "no place for temporary files": ({"TMPDIR": "/nowhere"}, None),
    "a small disk": ({}, limited),
    "no standard output": ({}, no_output),
    "no standard error": ({}, no_errors),
    "no cache": ({"NUMBA_CACHE_DIR": "/proc/nowhere", "NUMBA_DISABLE_JIT": "0"}, None),
}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc and limits")
@pytest.mark.parametrize("case", SURROUNDINGS)
def test_odd_surroundings(case, odd):
    changed, prepare = SURROUNDINGS[case]
    environment = {name: value for name, value in (os.environ | changed).items() if value is not None}
    lines = [
        ["recommend", "plays.komd", "--user", "user-00001", "-o", "lists.csv"],
        ["explain", "plays.komd", "ü", "✓"],
    ]
    for words in lines if COUNT > 100 else lines[:1]:
        done = subprocess.run(
            [sys.executable, "-c", START, *words],
            cwd=odd,
            env=environment,
            capture_output=True,
            preexec_fn=prepare,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
        assert done.returncode in (0, 2), (case, words, done.stderr[-2000:])
        assert b"Traceback" not in done.stderr, (case, words, done.stderr[-2000:])


def test_a_reader_that_takes_one_line(odd):
    """`komd … | head -1`, for tables, JSON and help."""
    for words in ("recommend plays.komd --n 50", "recommend plays.komd --json --n 50", "--help"):
        command = f'"{sys.executable}" -c "{START}" {words} | head -1'
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=odd, capture_output=True, timeout=120)
        assert done.returncode == 0 and not done.stderr, (words, done)
