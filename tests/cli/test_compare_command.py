"""`komd compare`: what it prints, what it writes, how it stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

import komd

from .conftest import START


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


def test_a_table_and_a_report(plays, report, komd_out, komd_process):
    words = ("compare", plays / "plays.csv", "--models", "Popularity, MSDW(alpha=[0, .5])", "--model", "ECFOMD")
    words += ("--folds", 2, "--metrics", "auc,recall@5", "--report", report)
    text = komd_out(*words)
    for part in ("Popularity()", "MSDW(alpha=0)", "MSDW()", "ECFOMD()", "auc", "recall@5", "2 folds, half random", "*"):
        assert part in text
    assert f"report: {report / 'index.html'}" in text
    found = json.loads((report / "results.json").read_text())
    data = komd.read(plays / "plays.csv")
    folds = komd.split.folds(data, folds=2, rng=0)
    values = [komd.evaluate(komd.ECFOMD().fit(a), b, metrics="auc")["auc"].mean for a, b in folds]
    assert found["models"][3]["metrics"]["auc"]["values"] == values
    assert f"{found['models'][3]['metrics']['auc']['mean']:.4f}" in text
    assert "ECFOMD" in (report / "results.md").read_text() and "<table>" in (report / "index.html").read_text()

    again = komd_process(*words, "--json")
    assert again.returncode == 0
    assert again.stderr == "komd: note: resuming: 8 of 8 fold results are there\n"
    assert json.loads(again.stdout) == found


def test_without_a_report_nothing_is_left(plays, tmp_path, komd_json, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found = komd_json("compare", plays / "plays.csv", "-m", "Popularity", "--folds", 2, "--half", "given", "--rng", 3)
    assert (found["half"], found["rng"], found["metrics"]) == ("given", 3, ["auc", "ndcg@100", "recall@20"])
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_a_row_and_only_failures_are_exit_code_1(plays, komd_process):
    hopeless = "SLIM(l1=0, l2=0, tolerance=1e-12, max_iterations=1)"
    words = ("compare", plays / "plays.csv", "--folds", 2, "--models")
    some = komd_process(*words, f"Popularity, {hopeless}")
    assert some.returncode == 0 and "failed: " in some.stdout and "not solved in 1 iterations" in some.stdout
    none = komd_process(*words, "Popularity", "--time-limit", "0.01")
    assert none.returncode == 1 and "Popularity() failed: exceeded 0.01 s" in none.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no models to compare"),
        (("--models", "Populrity"), "unknown model 'Populrity'; did you mean 'Popularity'"),
        (("--models", "EASE", "--metrics", "auk"), "unknown metric 'auk'; did you mean 'auc'"),
        (("--models", "EASE", "--folds", 1), "--folds must be a whole number >= 2, got 1"),
        (("--models", "EASE", "--folds", 1000), "folds must not outnumber the users"),
        (("--models", "EASE", "--half", "best"), "--half must be"),
        (("--models", "EASE", "--ties", "none"), "--ties must be"),
        (("--models", "EASE", "--half", "time"), "the data has no times: read it with --time"),
        (("--models", "EASE", "--time-limit", "soon"), "time_limit must be"),
        (("--models", "EASE", "--report", __file__), "--report must be a folder"),
    ],
)
def test_mistakes_are_exit_code_2(plays, komd_fails, words, message):
    assert message in komd_fails("compare", plays / "plays.csv", *words)


def test_nobody_to_test(tmp_path, komd_fails):
    (tmp_path / "few.csv").write_text("user,item\n" + "".join(f"u{k},i{k % 3}\n" for k in range(20)))
    assert "no test users in fold 1 of 5" in komd_fails("compare", tmp_path / "few.csv", "--models", "Popularity")


@pytest.mark.parametrize("kept", [True, False])
def test_ctrl_c(plays, tmp_path, kept):
    """To the whole group, as a terminal does: one line, exit code 130, nobody left running."""
    words = ["compare", plays / "plays.csv", "--models", "Popularity, BPRKNN(epochs=10000000)", "--folds", 2]
    words += ["--report", tmp_path / "report"] if kept else []
    command = [sys.executable, "-c", START, *map(str, words)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    heeded = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs inherit that it is not
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=environment, preexec_fn=heeded
    ) as run:
        end = time.monotonic() + 100
        while not list(tmp_path.rglob("BPRKNN-*/log.txt")) and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(1.5)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=60)
        assert run.returncode == 130, err
        with pytest.raises(ProcessLookupError):
            os.killpg(run.pid, 0)
    assert out == ""
    if kept:
        assert err == f"komd: stopped; rerun the same command to resume from {tmp_path / 'report' / 'work'}\n"
        assert len(list(tmp_path.rglob("fold-*.json"))) == 2
    else:
        assert err == "komd: stopped; --report DIR would let it resume\n"
        assert list(tmp_path.iterdir()) == []
