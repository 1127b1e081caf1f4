"""How the command line is run in tests: in this process for speed, in its own where that is the point."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from komd.cli.main import app

WIDE = {"COLUMNS": "160"}
START = "from komd.cli.main import run; run()"


@pytest.fixture
def komd_out() -> Callable[..., str]:
    """Run a command that must succeed; returns what it prints."""

    def call(*words: object) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, env=WIDE)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    return call


@pytest.fixture
def komd_json(komd_out: Callable[..., str]) -> Callable[..., Any]:
    """Run a command with --json; returns the document."""
    return lambda *words: json.loads(komd_out(*words, "--json"))


@pytest.fixture
def komd_fails() -> Callable[..., str]:
    """Run a command that must fail with exit code 2 and one line on stderr; returns the line."""

    def call(*words: object) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, env=WIDE)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("komd: "), result.stderr
        return lines[0].removeprefix("komd: ")

    return call


@pytest.fixture
def komd_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command in a process of its own."""

    def call(*words: object, **how: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", START, *map(str, words)]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 120} | how
        return subprocess.run(command, text=True, **how)

    return call


@pytest.fixture(scope="session")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with plays.csv (text ids), ratings.dat (integers, '::'), and a model of each."""
    import numpy as np

    import komd

    folder = tmp_path_factory.mktemp("plays")
    runner = CliRunner()
    made = ["generate", "-o", folder / "plays.csv", "--users", 120, "--items", 60, "--activity", 10, "--tastes", 4]
    assert runner.invoke(app, [str(word) for word in made]).exit_code == 0
    data = komd.read(folder / "plays.csv")
    rng = np.random.default_rng(0)
    lines = [
        f"{10 * u}::{7 * i}::{rng.integers(1, 6)}::{rng.integers(10**9)}"
        for u, i in zip(data.rows.tolist(), data.indices.tolist(), strict=True)
    ]
    (folder / "ratings.dat").write_text("\n".join(lines) + "\n")
    for name in ("plays.csv", "ratings.dat"):
        words = ["fit", folder / name, "-o", (folder / name).with_suffix(".komd")]
        assert runner.invoke(app, [str(word) for word in words]).exit_code == 0
    return folder
