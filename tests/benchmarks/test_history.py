"""The history of benchmarks: which ratios are kept, once per commit, and the page of them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import history, page_history
from benchmarks.ratios import BENCHMARKS, WITHOUT_PEER, ratios

ROOT = Path(__file__).parents[2]
FILES = {path.relative_to(ROOT / "benchmarks").as_posix() for path in (ROOT / "benchmarks").rglob("*.json")}
FILES = {name for name in FILES if not name.startswith("work/")}


def run(commit, ratio, date="2026-01-01T00:00:00+00:00", benchmark="tuning.json"):
    return {"benchmark": benchmark, "commit": commit, "date": date, "machine": "m", "ratios": {"reused": ratio}}


def test_every_file_of_figures_is_followed_or_has_no_peer():
    assert set(BENCHMARKS) | WITHOUT_PEER == FILES


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_todays_figures_have_every_ratio(name):
    figures = json.loads((ROOT / "benchmarks" / name).read_text())
    assert set(ratios(name, figures)) == set(BENCHMARKS[name][1])


def test_sums_and_missing_figures():
    figures = {"ecfomd": {"fit": 1, "rank": 2}, "als": {"fit": 5, "rank": 1}, "cosine": {"error": "no memory"}}
    assert ratios("msd.json", figures) == {"ECFOMD / implicit's ALS": 0.5}


def test_a_commit_has_one_run_of_a_benchmark(tmp_path):
    file = tmp_path / "history.jsonl"
    history.add([run("a", 0.5), run("b", 0.4, "2026-01-02T00:00:00+00:00")], file)
    history.add([run("a", 0.6)], file)
    history.add([run("c", 0.4, "2026-01-03T00:00:00+00:00"), run("a", 0.1, benchmark="updates.json")], file)
    found = [(each["benchmark"], each["commit"], each["ratios"]["reused"]) for each in history.runs(file)]
    tuning = [("tuning.json", "b", 0.4), ("tuning.json", "c", 0.4)]
    assert found == [("tuning.json", "a", 0.6), ("updates.json", "a", 0.1), *tuning]


def test_committed_figures_are_not_added_twice(tmp_path):
    file = tmp_path / "history.jsonl"
    history.add([run("measured", 0.5)], file)
    history.add_committed([run("brought in", 0.5), run("later", 0.4)], file)
    history.add_committed([run("brought in", 0.5), run("later", 0.4)], file)
    assert [each["commit"] for each in history.runs(file)] == ["measured", "later"]


def test_a_run_is_appended_with_its_commit(tmp_path, monkeypatch):
    """In a project of its own: figures, history and page are written, with a plus while changes are not committed."""

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    for folder in ("benchmarks", "src", "docs/results/figures"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src" / "a.py").write_text("1\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "--short=7", "HEAD").strip()
    monkeypatch.setattr(history, "ROOT", tmp_path)
    monkeypatch.setattr(history, "HERE", tmp_path / "benchmarks")
    kept = tmp_path / "benchmarks" / "history.jsonl"
    monkeypatch.setattr(history.add, "__defaults__", (kept,))
    monkeypatch.setattr(history.runs, "__defaults__", (kept,))
    monkeypatch.setattr(page_history, "RESULTS", tmp_path / "docs" / "results")
    file = tmp_path / "benchmarks" / "tuning.json"
    history.keep(file, {"machine": "2 cores", "with_reuse": 1.0, "without": 4.0})
    (tmp_path / "src" / "a.py").write_text("2\n")
    history.keep(file, {"machine": "2 cores", "with_reuse": 1.0, "without": 2.0})
    history.keep(tmp_path / "elsewhere.json", {"with_reuse": 1.0})
    assert json.loads(file.read_text())["without"] == 2.0
    name = "matrices reused / built anew"
    assert [(each["commit"], each["ratios"]) for each in history.runs()] == [
        (commit, {name: 0.25}),
        (f"{commit}+", {name: 0.5}),
    ]
    assert f"| {name} | 0.25 | 0.25 | 0.5 | 2.00× |" in (tmp_path / "docs" / "results" / "history.md").read_text()


def test_the_page_is_as_its_command_writes_it():
    assert page_history.page() == (ROOT / "docs" / "results" / "history.md").read_text(encoding="utf-8")


def test_the_figure_names_every_ratio_and_commit():
    svg = page_history.figure(history.runs())
    shown = set(re.findall(r">([^<>]+)</text>", svg))
    for name, some in page_history.by_benchmark(history.runs()).items():
        assert {each["commit"] for each in some[-page_history.SHOWN :]} <= shown
        assert set(BENCHMARKS[name][1]) <= {words.replace("&#39;", "'") for words in shown}
