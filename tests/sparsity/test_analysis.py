"""The analysis of a data set: figures against the data itself, words for every kind of data, files that can be read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse

import komd
from komd.errors import InputError
from komd.matrix import cost
from komd.sparsity import Analyses, analyze, compare
from komd.sparsity.analysis import effects


@pytest.fixture(autouse=True)
def known_speed(monkeypatch):
    """The machine is not timed again and again."""
    monkeypatch.setattr(cost, "machine_speed", lambda storage, workers: 1.0)


def matrix(R):
    return scipy.sparse.csr_array(np.asarray(R, np.int8))


def test_figures_are_those_of_the_data(small):
    found = analyze(small, name="small")
    R = small.to_csr().toarray()
    assert (found.users, found.items, found.pairs) == (*R.shape, int(R.sum()))
    assert found.density == pytest.approx(R.mean())
    assert found.kernel.value == pytest.approx(np.count_nonzero(R.T @ R) / R.shape[1] ** 2)
    assert found.popularity.most == R.sum(axis=0).max() and found.activity.most == R.sum(axis=1).max()
    assert found.expected["saturating"] == found.effects.both
    assert found.chosen == "dense" and komd.CFKOMD().fit(small).matrix.storage == "dense"
    assert found.costs[0].bytes == komd.CFKOMD().fit(small).matrix.bytes


DEGENERATE = {
    "all alike": np.tile(np.eye(8), (1, 3)),
    "every user has every item": np.ones((6, 5)),
    "one item": np.ones((40, 1)),
    "one user": np.ones((1, 30)),
    "one pair": [[1]],
    "nothing": np.zeros((4, 3)),
    "ten pairs": np.eye(10),
    "items without users": np.hstack([np.ones((5, 3)), np.zeros((5, 40))]),
    "equally active users": np.stack([np.roll(np.arange(60) < 6, k * 7) for k in range(50)]),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_give_words(name, tmp_path):
    found = analyze(matrix(DEGENERATE[name]), name=name)
    assert found.verdict and all(sentence.endswith(".") for sentence in found.verdict)
    assert name in repr(found) and name in found.to_markdown()
    json.loads(found.to_json())
    found.report(tmp_path)
    assert (tmp_path / "index.html").stat().st_size > 1000
    assert "nan" not in repr(found).lower().replace("nan_", "") and "inf" not in repr(found).lower().replace(
        "information", ""
    )


def test_words_for_degenerate_data():
    words = {name: " ".join(analyze(matrix(R)).verdict) for name, R in DEGENERATE.items()}
    assert "one item" in words["one item"]
    assert "no pairs" in words["nothing"]
    assert "10 pairs are too few" in words["ten pairs"]
    assert "every user has the same count (6): there is no tail" in words["equally active users"]


def test_empty_shapes():
    for shape in ((0, 0), (3, 0), (0, 3)):
        assert "no pairs" in analyze(scipy.sparse.csr_array(shape, dtype=np.int8)).verdict[0]


def test_the_verdict_names_the_tail_that_was_lengthened():
    rng = np.random.default_rng(0)
    flat = np.full(400, 8)
    active = np.maximum(1, np.rint(8 * np.exp(rng.normal(-1.1, 1.5, 400)))).astype(int).clip(max=250)
    even, popular = np.ones(300), np.arange(1, 301) ** -1.1

    def drawn(activity, weight):
        R = np.zeros((400, 300), bool)
        for v, a in enumerate(activity):
            R[v, rng.choice(300, a, replace=False, p=weight / weight.sum())] = True
        return matrix(R)

    assert "user tail drives the density" in " ".join(analyze(drawn(active, even)).verdict)
    assert "item tail drives the density" in " ".join(analyze(drawn(flat, popular)).verdict)
    assert "Neither tail matters" in " ".join(analyze(drawn(flat, even)).verdict)


def test_effects_of_tails():
    flat = effects(np.full(200, 10), np.full(200, 10))
    assert flat.items == pytest.approx(1) and flat.users == pytest.approx(1)
    popular = np.sort(np.random.default_rng(0).zipf(1.7, 200).clip(max=150))
    total = int(popular.sum())
    level = np.full(200, total // 200) + (np.arange(200) < total % 200)
    assert effects(popular, level).items < 0.9
    assert effects(level, popular).users > 1.2


def test_clustering_is_seen():
    blocks = np.kron(np.eye(6), np.random.default_rng(0).random((40, 30)) < 0.2)
    assert "Tastes are clustered" in " ".join(analyze(matrix(blocks)).verdict)


def test_a_sample_shows_its_interval():
    data = komd.generate(users=3000, items=2500, activity=12, tastes=10, rng=4)
    found = analyze(data, work_limit=1)
    assert not found.kernel.exact and found.kernel.low < found.kernel.value < found.kernel.high
    assert "rows)" in repr(found) and " ± " in found.to_markdown()
    assert analyze(data, work_limit=1).kernel == found.kernel
    assert analyze(data, work_limit=1, rng=1).kernel != found.kernel


def test_what_does_not_fit_is_said_with_the_numbers():
    rng = np.random.default_rng(0)
    data = matrix(rng.random((30, 400)) < 0.05)
    found = analyze(data, memory="2KB")
    assert found.chosen == "" and "does not fit" in found.reason
    assert "K does not fit the budget: 640 kB dense" in found.verdict[-1]
    assert "none fits" in Analyses([found]).to_markdown()


def test_side_by_side(small, tmp_path):
    found = compare({"a": small, "b | b": matrix(np.eye(12))})
    assert [each.name for each in found] == ["a", "b | b"] and len(found) == 2 and found[0].name == "a"
    assert [each["name"] for each in json.loads(found.to_json())["datasets"]] == ["a", "b | b"]
    assert "| b \\| b |" in found.to_markdown()
    assert repr(found).splitlines()[0].split()[:2] == ["data", "set"]
    page = found.report(tmp_path / "deep" / "folder")
    assert sorted(file.name for file in page.parent.iterdir()) == ["index.html", "results.json", "results.md"]
    assert json.loads((page.parent / "results.json").read_text())["datasets"][0]["pairs"] == small.pairs


def test_json_holds_everything(small):
    known = json.loads(analyze(small, name="x").to_json())
    assert known["kernel"]["exact"] is True
    assert set(known["expected"]) == {"d(K)", "degree-aware", "saturating"}
    assert [each["storage"] for each in known["costs"]] == ["dense", "sparse", "streamed"]
    assert {"items", "users"} <= set(known["effects"])
    assert known["popularity"]["gini"] > 0 and "fit" in known["activity"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"work_limit": 0}, "work_limit must be a whole number >= 1, got 0"),
        ({"work_limit": 1.5}, "work_limit must be"),
        ({"memory": "much"}, "memory must be"),
        ({"threads": 0}, "threads must be"),
    ],
)
def test_bad_settings(small, settings, message):
    with pytest.raises(InputError, match=message):
        analyze(small, **settings)
    with pytest.raises(InputError, match="at least one data set by name"):
        compare({})
    with pytest.raises(InputError, match="cannot read builtins"):
        analyze(7)


def test_a_report_needs_a_folder(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        analyze(small).report(tmp_path / "file")
