"""Comparisons: the same figures as a plain loop, rows that fail alone, resumed and killed runs."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import komd
from komd.errors import InputError
from komd.evaluation import fold_process
from komd.evaluation.compare import seconds
from tests.budget import repeats
from tests.evaluation.test_fold_process import alive

METRICS = "auc,recall@5,coverage@5,novelty@5"


UNSOLVABLE = "SLIM(l1=0, l2=0, tolerance=1e-12, max_iterations=1)"


@pytest.fixture(scope="module")
def data():
    return komd.generate(users=150, items=60, activity=10, tastes=4, rng=3)


@pytest.fixture(scope="module")
def found(data, tmp_path_factory):
    """One comparison that several tests use; its results are kept."""
    folder = tmp_path_factory.mktemp("kept")
    models = ["Popularity, ECFOMD, MSDW(alpha=[0.5, 1])", UNSOLVABLE, komd.ECFOMD(regularization=0.0100000001)]
    return komd.compare(data, models, metrics=METRICS, folds=3, rng=4, keep=folder), folder


def without_times(document):
    """What must not depend on the run."""
    document = json.loads(json.dumps(document))
    for row in document["models"]:
        row.pop("seconds", None)
        row.pop("peak_memory_mb", None)
    return document


def test_the_same_figures_as_a_plain_loop(data, found):
    comparison, _ = found
    folds = list(komd.split.folds(data, folds=3, half="random", rng=4))
    for text in ("Popularity()", "ECFOMD()", "MSDW()", "MSDW(alpha=1)"):
        alone = [komd.evaluate(komd.model_from_text(text).fit(a), b, metrics=METRICS) for a, b in folds]
        for metric in METRICS.split(","):
            values = [each[metric].mean for each in alone]
            score = comparison[text][metric]
            assert score.values == tuple(values)
            assert score.mean == statistics.fmean(values)
            assert score.std == statistics.pstdev(values)
    assert comparison.test_users == sum(int((test.activity > 0).sum()) for _, test in folds)


def test_marks(found):
    comparison, _ = found
    for metric in METRICS.split(","):
        good = [row for row in comparison if row.failed is None]
        best = [row for row in good if row[metric].mark == "best"]
        assert len(best) == 1
        assert best[0][metric].mean == max(row[metric].mean for row in good)
        assert all((row[metric].mark != "") == (row[metric].p > 0.05) for row in good)
    assert comparison["ECFOMD(regularization=0.0100000001)"]["auc"].p == comparison["ECFOMD()"]["auc"].p
    assert comparison["MSDW(alpha=1)"]["auc"].mark == ""


def test_a_model_that_fails_is_a_row_with_its_reason(found):
    comparison, _ = found
    row = comparison[UNSOLVABLE]
    assert row.failed is not None and "regressions were not solved in 1 iterations" in row.failed
    assert row.scores == {} and "\n" not in row.failed
    with pytest.raises(InputError, match="regressions were not solved"):
        row["auc"]
    assert sum(each.failed is not None for each in comparison) == 1


def test_times_and_memory(found):
    comparison, _ = found
    for row in comparison:
        if row.failed is None:
            assert len(row.fit) == len(row.rank) == 3 and min(row.fit + row.rank) > 0
            assert row.fit_seconds == statistics.median(row.fit)
            assert 50e6 < row.peak_memory < 2e9


def test_the_ways_to_show_it(found, tmp_path):
    comparison, _ = found
    document = json.loads(comparison.to_json())
    assert [row["model"] for row in document["models"]] == [row.model for row in comparison]
    assert document["models"][1]["metrics"]["auc"]["mean"] == comparison["ECFOMD()"]["auc"].mean
    assert (document["folds"], document["half"], document["rng"], document["ties"]) == (3, "random", 4, "half")
    assert document["data"]["interactions"] == comparison.interactions
    text, marked = repr(comparison), comparison.to_markdown()
    for shown in (text, marked):
        assert f"{comparison['ECFOMD()']['auc'].mean:.4f}" in shown
        assert "failed: " in shown and "3 folds, half random, rng 4, ties half" in shown
    lines = [line for line in marked.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(comparison) and len({line.count("|") for line in lines}) == 1
    table = comparison.table
    assert table.num_rows == len(comparison)
    assert table["auc"].to_pylist()[1] == comparison["ECFOMD()"]["auc"].mean
    assert table["auc"].to_pylist()[4] is None and "not solved" in table["failed"].to_pylist()[4]
    page = comparison.report(tmp_path / "deep" / "report")
    assert sorted(path.name for path in page.parent.iterdir()) == ["index.html", "results.json", "results.md"]
    assert json.loads((page.parent / "results.json").read_text()) == document
    with pytest.raises(InputError, match=r"'ECFOMD' was not compared; did you mean 'ECFOMD\(\)'"):
        comparison["ECFOMD"]


class Starts:
    """Counts the children that are started, and which models they are for."""

    def __init__(self, monkeypatch):
        self.models = []
        command = fold_process.command
        monkeypatch.setattr(fold_process, "command", lambda task: self._note(task) or command(task))

    def _note(self, task):
        self.models.append(json.loads(Path(task).read_text())["model"])


def test_work_that_is_kept_is_not_done_again(data, found, monkeypatch):
    comparison, folder = found
    starts, said = Starts(monkeypatch), []
    models = [row.model for row in comparison]
    again = komd.compare(data, models, metrics=METRICS, folds=3, rng=4, keep=folder, say=said.append)
    assert said == ["resuming: 15 of 18 fold results are there"]
    assert starts.models == [UNSOLVABLE]  # what failed is tried again, and nothing else
    assert without_times(again.to_dict()) == without_times(comparison.to_dict())
    good = [row for row in again if row.failed is None]
    assert [row.fit for row in good] == [row.fit for row in comparison if row.failed is None]


def test_one_missing_or_damaged_fold_is_done_again(data, tmp_path, monkeypatch):
    asked = {"metrics": "auc", "folds": 3, "keep": tmp_path}
    first = komd.compare(data, "ECFOMD", **asked)
    row = next(path for path in tmp_path.iterdir() if path.name.startswith("ECFOMD"))
    for damage in (
        lambda: (row / "fold-1.json").unlink(),
        lambda: (row / "fold-1.json").write_text('{"means"'),
        lambda: (row / "fold-1.npy").write_bytes((row / "fold-1.npy").read_bytes()[:-8]),
        lambda: (row / "fold-1.npy").unlink(),
    ):
        damage()
        said = []
        again = komd.compare(data, "ECFOMD", **asked, say=said.append)
        assert said == ["resuming: 2 of 3 fold results are there"]
        assert without_times(again.to_dict()) == without_times(first.to_dict())


def test_another_protocol_can_share_the_folder(data, tmp_path):
    asked = {"folds": 2, "metrics": "auc", "keep": tmp_path}
    said = []
    first = komd.compare(data, "Popularity", **asked, rng=0, say=said.append)
    second = komd.compare(data, "Popularity", **asked, rng=1, say=said.append)
    assert said == []
    assert first["Popularity()"]["auc"].values != second["Popularity()"]["auc"].values
    again = komd.compare(data, "Popularity", **asked, rng=0, say=said.append)
    assert said == ["resuming: 2 of 2 fold results are there"]
    assert again.to_dict() == first.to_dict()


def test_ties_by_appearance_in_the_training_part():
    data = komd.generate(users=80, items=60, activity=6, rng=1)
    row = komd.compare(data, "MSDW", metrics="auc", folds=2, ties="appearance")["MSDW()"]
    expected = [
        komd.evaluate(komd.MSDW().fit(train), test, metrics="auc", ties=train.items_by_appearance)["auc"].mean
        for train, test in komd.split.folds(data, folds=2)
    ]
    assert row["auc"].mean == pytest.approx(np.mean(expected), abs=1e-12)
    assert row["auc"].mean != pytest.approx(komd.compare(data, "MSDW", metrics="auc", folds=2)["MSDW()"]["auc"].mean)


def test_half_by_time_and_text_ids(tmp_path):
    from komd.data.interactions import Interactions

    plain = komd.generate(users=80, items=40, activity=8, tastes=2, rng=1)
    times = np.random.default_rng(0).integers(0, 1000, plain.pairs)
    data = Interactions(plain.users, plain.items, plain.indptr, plain.indices, times)
    row = komd.compare(data, "ECFOMD", metrics="auc", folds=2, half="time")["ECFOMD()"]
    folds = komd.split.folds(data, folds=2, half="time")
    assert row["auc"].values == tuple(komd.evaluate(komd.ECFOMD().fit(a), b)["auc"].mean for a, b in folds)


def start_instead(monkeypatch, code):
    monkeypatch.setattr(fold_process, "command", lambda task: [sys.executable, "-c", code, str(task)])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9 (SIGKILL): perhaps"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed by signal 11 (SIGSEGV)"),
        ("import sys; print('the sky\\nfell'); sys.exit(7)", "ended with code 7: fell"),
        ("pass", "ended without a result"),
    ],
)
def test_a_child_that_dies_takes_its_row_down(data, monkeypatch, tmp_path, code, reason):
    with monkeypatch.context() as patched:
        start_instead(patched, code)
        found = komd.compare(data, "Popularity", metrics="auc", folds=2, keep=tmp_path)
    assert reason in (found["Popularity()"].failed or "")
    assert komd.compare(data, "Popularity", metrics="auc", folds=2, keep=tmp_path)["Popularity()"].failed is None


def test_the_time_limit(data, tmp_path):
    models = "BPRKNN(epochs=1000000), Popularity"
    found = komd.compare(data, models, metrics="auc", folds=2, time_limit=8, keep=tmp_path)
    assert found["BPRKNN(epochs=1000000)"].failed == "exceeded 8 s"
    assert found["Popularity()"].failed is None
    found = komd.compare(data, "EASE", metrics="auc", folds=2, time_limit="0.01s")
    assert found["EASE()"].failed == "exceeded 0.01 s"


def test_seconds():
    assert [seconds(t) for t in (5, 0.5, "5", "90s", "10m", "10 min", "1.5h")] == [5, 0.5, 5, 90, 600, 600, 5400]
    for wrong in ("", "fast", "-3", 0, "5 days", "m", float("nan")):
        with pytest.raises(InputError, match="time_limit must be seconds or a text such as"):
            seconds(wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": []}, "no models to compare"),
        ({"models": "Popularty"}, "did you mean 'Popularity'"),
        ({"metrics": "auk"}, "unknown metric 'auk'; did you mean 'auc'"),
        ({"folds": 1}, "folds must be a whole number >= 2, got 1"),
        ({"folds": 151}, "folds must not outnumber the users, got 151 folds of 150 users"),
        ({"half": "best"}, "unknown half 'best'"),
        ({"half": "time"}, "the data has no times"),
        ({"ties": "none"}, "ties must be"),
        ({"rng": -1}, "rng must be a whole number >= 0, got"),
        ({"rng": np.random.default_rng(0)}, "rng must be a whole number >= 0, got"),
        ({"min_activity": 1000}, "no test users in fold 1 of 5"),
        ({"threads": 0}, "threads must be a whole number >= 1"),
        ({"memory": "much"}, "memory must be a size"),
        ({"time_limit": "soon"}, "time_limit must be"),
        ({"keep": __file__}, "keep must be a folder"),
    ],
)
def test_mistakes_are_named(data, change, message):
    asked = {"models": "Popularity"} | change
    with pytest.raises(InputError, match=message):
        komd.compare(data, asked.pop("models"), **asked)


def test_ctrl_c_stops_the_child(data, tmp_path):
    """KeyboardInterrupt comes through, and the child is gone by then."""
    started = []
    popen = subprocess.Popen

    class Noted(popen):  # type: ignore[type-arg, misc, valid-type]
        def __init__(self, *words, **how):
            super().__init__(*words, **how)
            started.append(self.pid)
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts deaf to it
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(subprocess, "Popen", Noted)
            with pytest.raises(KeyboardInterrupt):
                komd.compare(data, "BPRKNN(epochs=1000000)", folds=2, keep=tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(started) == 1 and not alive(started[0])


def test_killed_at_random_moments_gives_the_same_table(data, tmp_path):
    """SIGKILL to the whole process group, again and again; what is left is finished by one undisturbed run."""
    from pyarrow import csv

    csv.write_csv(data.to_arrow(), tmp_path / "plays.csv")
    models = f"Popularity, CFKOMD(kernel=[Tanimoto, RBF]), MSDW(alpha=[0, 1]), {UNSOLVABLE}"

    def command(report):
        words = ["compare", tmp_path / "plays.csv", "--models", models, "--folds", repeats(2, 3), "--metrics", METRICS]
        words += ["--report", tmp_path / report, "--json"]
        return [sys.executable, "-c", "from komd.cli.main import run; run()", *map(str, words)]

    start = time.monotonic()
    calm = subprocess.run(command("calm"), capture_output=True, text=True, timeout=300)
    assert calm.returncode == 0, calm.stderr
    rng = np.random.default_rng(int.from_bytes(os.urandom(4)))
    taken = time.monotonic() - start
    done, kills = None, 0
    while done is None:
        kept = any((tmp_path / "wild").rglob("fold-*.json"))  # without any there is nothing to resume
        disturbed = kills < repeats(2, 6) or not kept
        patience = float(rng.uniform(0.1, 0.6)) * taken if disturbed else 300.0
        with subprocess.Popen(
            command("wild"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as run:
            try:
                done = run.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                run.communicate()
                kills += 1
    assert kills >= 1 and "resuming: " in done[1]
    assert without_times(json.loads(done[0])) == without_times(json.loads(calm.stdout))
    written = json.loads((tmp_path / "wild" / "results.json").read_text())
    assert without_times(written) == without_times(json.loads(calm.stdout))
    assert not list((tmp_path / "wild").rglob("*.tmp"))
