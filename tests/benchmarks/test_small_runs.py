"""The benchmarks on data of a few hundred pairs: they run, and keep what their pages show. Nothing is timed here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import komd
from benchmarks import filter as filters
from benchmarks import (
    limits,
    measure,
    movielens,
    name_queries,
    name_search,
    page_filter,
    page_search,
    page_updates,
    page_weighted,
    solver_steps,
    updates,
    weighted_counting,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def plays():
    return komd.generate(users=120, items=60, activity=8, rng=1)


@pytest.fixture(autouse=True)
def one_turn(monkeypatch):
    """Every contender once, after one turn to warm up."""
    for module in (movielens, filters, weighted_counting):
        monkeypatch.setattr(module, "side_by_side", lambda jobs, rounds=1: measure.side_by_side(jobs, rounds=1))


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def test_movielens(plays, monkeypatch):
    pytest.importorskip("implicit")
    pytest.importorskip("cvxopt")
    monkeypatch.setattr(movielens, "movielens", lambda: ("small", plays))
    real = movielens.solver
    monkeypatch.setattr(movielens, "solver", lambda data: real(data, ranked_users=3))
    found = movielens.run()
    assert set(found) == {"data", "shape", "whole_job", "phases", "limits", "solver", "gram", "stranger", "cfomd"}
    assert found["solver"]["worst_excess"] < 1e-6
    assert found["limits"]["multiply_adds"] == plays.pairs * 60


def test_filters(plays, monkeypatch):
    monkeypatch.setattr(filters, "RANK", 8)
    monkeypatch.setattr(filters, "RANKED_USERS", 10)
    found = filters.eigenvectors(plays)
    assert found["off"] < 0.05
    assert found["nonzeros"] == np.count_nonzero(plays.to_csr().T @ plays.to_csr().toarray())
    assert len(filters.scoring(plays, {"exact filter": {"ridge": 30.0}})["seconds"]) == 4


def test_a_large_catalogue(plays, monkeypatch):
    monkeypatch.setattr(filters, "LARGE_RANKS", (4, 8))
    monkeypatch.setattr(filters, "SQUARE", 32)
    found = json.loads((ROOT / "benchmarks" / "filter.json").read_text()) | {"large": filters.large(plays)}
    assert list(found["large"]["seconds"]) == list(found["large"]["multiply_adds"]) == ["4", "8"]
    assert "8 eigenvectors of this K take" in page_filter.section(found)


def test_counting(plays):
    rows = komd.Popularity().fit(plays).catalogue.histories
    found = limits.counting(rows.indptr, rows.indices, 60, counts=500.0)
    assert found["counts"] >= 500
    assert set(found["per_second"]) == {"count_strip", "count_pairs", "gather_rows", "scipy"}


def test_weighted_counting(plays):
    found = weighted_counting.measure(plays)
    assert {"dense", "sparse", "streamed, rows", "streamed, strips", "streamed, gathered"} == set(found)
    assert all(set(seconds) == set(weighted_counting.STAGES) for seconds in found.values())
    ranked = weighted_counting.ranking(plays)
    shown = page_weighted.section({"data": "plays", "machine": "m", "counting": found, "ranking": ranked})
    assert shown.startswith("## Weights\n") and "| streamed, gathered |" in shown


def test_contenders(tmp_path):
    """Lists of komd in processes of their own, streamed, with and without a budget: the same."""
    run("benchmarks.contenders", "generate", str(tmp_path), str(tmp_path / "plays.parquet"), "400")
    run("benchmarks.contenders", "read", str(tmp_path), str(tmp_path / "plays.parquet"), "40")
    found = []
    for name in ("ecfomd", "ecfomd-4gb"):
        run("benchmarks.contenders", name, str(tmp_path))
        found.append(json.loads((tmp_path / f"{name}.json").read_text()))
    assert all(each["done"] for each in found)
    assert found[0]["lists"] == found[1]["lists"]
    assert found[0]["metrics"]["map@500"] == pytest.approx(found[0]["lists"]["map"])
    assert {"gather", "solve", "count", "use"} <= set(found[0]["rank_phases"]["seconds"])
    assert found[0]["rank_phases"]["work"]["multiply-adds"] > 0


def test_growth(tmp_path):
    run("benchmarks.scale", "--generate", str(tmp_path / "data.npz"), "1500", "300", "5")
    found = json.loads(run("benchmarks.scale", "--measure", str(tmp_path / "data.npz")))
    assert found["touched"] > 0 and found["phases"]["work"]["strips"] > 0


def test_requests_of_the_service(plays, tmp_path):
    serve = pytest.importorskip("benchmarks.serve.__main__")
    model = komd.CFKOMD().fit(plays)
    files = serve.lines(model, tmp_path, users=50)
    lengths = model.catalogue.histories.lengths
    middle, long = (int(((lengths >= a) & (lengths <= b)).sum()) for a, b in ((140, 190), (450, 650)))
    assert {name: len(file.read_text().splitlines()) for name, file in files.items()} == {
        "users_165": middle,
        "users_165_reasons": middle,
        "users_500": long,
        "users_500_reasons": long,
        "strangers": 50,
        "reasons": 50,
        "users": 50,
        "mixed": 250,
        "reads": 200,
    }


def test_the_largest_requests_are_allowed_ones():
    """All but the batches, which may be refused for their work, are questions that the service takes."""
    fairness = pytest.importorskip("benchmarks.serve.fairness")
    schemas = pytest.importorskip("komd.serve.schemas")
    for path, body in fairness.greedy_bodies([f"i{k}" for k in range(4000)]):
        assert len(json.dumps(body)) < schemas.LIMITS.body
        (schemas.Batch if path.endswith("batch") else schemas.Ask).model_validate(body)
    one = {"p50": 1.0, "p99": 2.0}
    found = {"quietest": one, "median": one, "failed": 0}
    measured = {"machine": "any", "data": "small", "rate": 1, "turns": 1, "seconds": 1, "clients": 8, "raised": ""}
    text = fairness.section(measured | {"with": found, "without": found, "ratio": 1.0, "answers": {"200": 3, "504": 1}})
    assert "3 times 200, 1 times 504" in text and "1.0 times as long" in text


def test_steps_and_items_without_weight(plays, monkeypatch):
    """The problem that is counted is the model's own."""
    monkeypatch.setattr(solver_steps, "EVERY", 1)
    steps, idle = solver_steps.measure(plays)
    model = komd.ECFOMD(regularization=solver_steps.LAMBDA).fit(plays)
    solved = [model.solve(user).alpha for user in plays.users.values.to_pylist()]
    assert idle == pytest.approx(np.median([(w == 0.0).mean() for w in solved if len(w) > 1]))
    assert steps > 0


def test_updates(plays, monkeypatch):
    monkeypatch.setattr(updates, "SINGLE", 40)
    monkeypatch.setattr(updates, "READ", 3)
    monkeypatch.setattr(updates, "ROUNDS", 1)
    monkeypatch.setattr(updates, "BATCHES", (1, 20))
    found = {"data": "small", "machine": "any", "single": {str(g): updates.single(plays, g) for g in updates.DAMPING}}
    found["large"] = updates.large(2000)
    text = page_updates.section(json.loads(json.dumps(found)))
    assert "equal the refit, array by array: yes" in " ".join(text.split())


@pytest.mark.parametrize("contender", ["ours", "fts5", "rapidfuzz"])
def test_search_by_name(contender):
    pytest.importorskip("rapidfuzz")
    names = name_search.generated(300)
    found = name_search.compare(names, half=1, each=6, chosen=[contender])
    figures = found["figures"][contender]
    assert set(figures["quality"]) == set(name_queries.KINDS) == set(page_search.KINDS)
    assert figures["quality"]["exact"] == figures["quality"]["joined"] == [1, 1]
    assert figures["bytes"] > 300 * 4 and figures["queries"] == 6 * len(name_queries.KINDS)
