"""`experiments.accuracy` from end to end on generated data: chosen on the first round, reported on the others."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import komd
from experiments import accuracy, accuracy_page, accuracy_search

pytest.importorskip("optuna")

METRIC = accuracy.COMPARED[0]


def dated_pairs(users, items):
    """One pair a moment, in this order."""
    columns = {"user": list(users), "item": list(items), "time": list(range(len(users)))}
    return komd.read(pa.table(columns), user="user", item="item", time="time")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    data = komd.generate(users=200, items=60, activity=12, rng=1)
    monkeypatch.setattr(accuracy, "WORK", tmp_path)
    monkeypatch.setattr(accuracy_page, "RESULTS", tmp_path)
    monkeypatch.setattr(accuracy, "load", lambda name: data if name == "filmtrust" else None)
    return tmp_path


def test_a_small_run(elsewhere):
    accuracy.run(("filmtrust", "ml-1m"), ("CFKOMD", "EASE", "RP3Beta"), ("random", "time"), trials=3)
    accuracy_page.write()
    page = (elsewhere / "accuracy.md").read_text(encoding="utf-8")
    assert "## filmtrust, random half" in page and "## ml-1m" not in page and "a cut in time\n" not in page
    first, *others = komd.split.folds(accuracy.load("filmtrust"), folds=5, half="random", rng=0)
    folder = elsewhere / "accuracy" / "filmtrust-random"
    for model in ("CFKOMD", "EASE"):
        kept = json.loads((folder / f"{model}.json").read_text())
        assert len(kept["trials"]) == 3
        for trial in kept["trials"]:  # on the first round, by both metrics
            found = komd.evaluate(
                komd.model_from_text(trial["text"]).fit(first[0]), first[1], metrics=accuracy.COMPARED
            )
            assert trial["means"] == pytest.approx({m: found[m].mean for m in accuracy.COMPARED}, abs=1e-6)
        best = max(kept["trials"], key=lambda trial: trial["means"][METRIC])["text"]
        reported = json.loads(accuracy.kept_file(folder, best).read_text())
        means = [
            komd.evaluate(komd.model_from_text(best).fit(train), test, metrics=METRIC)[METRIC].mean
            for train, test in others
        ]
        assert reported["means"][METRIC] == pytest.approx(means, abs=1e-12)
        assert f"`{best}`" in page and accuracy_page.short(float(np.mean(means))) in page
    (line,) = [line for line in page.splitlines() if line.startswith(f"| filmtrust | random | {METRIC} |")]
    assert any(line.endswith(f"| {word} |") for word in ("ahead", "tied", "**behind**"))
    assert "| filmtrust |" in page.partition("What each stage")[2].partition("Which choices")[0]


def test_nothing_is_done_twice_and_more_trials_continue(elsewhere, monkeypatch):
    accuracy.run(("filmtrust",), ("RP3Beta",), ("random",), trials=2)
    file = elsewhere / "accuracy" / "filmtrust-random" / "RP3Beta.json"
    before = json.loads(file.read_text())["trials"]
    measured = []
    real = komd.evaluate
    monkeypatch.setattr(komd, "evaluate", lambda *a, **k: measured.append(1) or real(*a, **k))
    accuracy.run(("filmtrust",), ("RP3Beta",), ("random",), trials=2)
    assert not measured
    accuracy.run(("filmtrust",), ("RP3Beta",), ("random",), trials=4)
    after = json.loads(file.read_text())["trials"]
    assert after[:2] == before and len(after) == 4
    file.unlink()
    accuracy.run(("filmtrust",), ("RP3Beta",), ("random",), trials=4)  # all at once: the same trials
    assert [t["text"] for t in json.loads(file.read_text())["trials"]] == [t["text"] for t in after]


def test_trials_of_narrower_ranges_are_kept(elsewhere, monkeypatch):
    data = accuracy.load("filmtrust")
    train, test = accuracy.parts(data, "random").choosing
    file = elsewhere / "EASE.json"
    few = accuracy_search.search("EASE", train, test, file, trials=3)
    record = json.loads(file.read_text())
    record["ranges"]["regularization"] = record["ranges"]["regularization"][:5]
    record["trials"][0]["params"]["regularization"] = "7.0"  # no longer a value that is searched
    file.write_text(json.dumps(record))
    more = accuracy_search.search("EASE", train, test, file, trials=4)
    assert [trial["text"] for trial in more[:2]] == [trial["text"] for trial in few[1:]]
    assert len(more) == 4 and len(json.loads(file.read_text())["ranges"]["regularization"]) == 19


def test_a_planted_leak_is_refused():
    """A pair that is reported must not be measured in choosing; as the protocols cut the data, none is."""
    data = komd.generate(users=100, items=40, activity=10, rng=2)
    dated = dated_pairs(data.rows, data.indices)
    for protocol in ("random", "given", "time"):
        found = accuracy.parts(dated if protocol == "time" else data, protocol)
        accuracy.refuse_leak(found)
        _, test = found.reported[-1]
        planted = found._replace(choosing=(found.choosing[0], test))
        with pytest.raises(komd.InputError, match=f"{test.pairs:,} of {test.pairs:,} reported pairs would be measured"):
            accuracy.refuse_leak(planted)


def test_a_cut_in_time_tests_only_users_who_were_there_before():
    data = dated_pairs([1, 1, 1, 2, 2, 2, 3, 3, 1, 2], range(10))
    ((train, test),) = accuracy.parts(data, "time").reported
    assert train.pairs == 8 and test.users.take(np.flatnonzero(test.activity)).to_pylist() == [1, 2]
    inner = accuracy.parts(data, "time").choosing
    assert inner[0].pairs + inner[1].pairs <= train.pairs


def test_a_rival_that_fails_is_said(elsewhere, monkeypatch):
    def fail(self, *args, **words):
        raise komd.InputError("there is no room")

    monkeypatch.setattr(komd.EASE, "fit", fail)
    accuracy.run(("filmtrust",), ("CFKOMD", "EASE"), ("random",), trials=2)
    accuracy_page.write()
    page = (elsewhere / "accuracy.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("| EASE |") and "failed" in line]
    assert line.count("not run") == 2 and "2 failed" in line


def test_words():
    for low, high, word in ((0.1, 0.2, "ahead"), (-0.1, 0.1, "tied"), (-0.2, -0.1, "**behind**")):
        assert accuracy_page.Difference((low + high) / 2, low, high).word == word
    assert str(accuracy_page.Difference(-0.01, -0.02, 0.005)) == "−.0100 [−.0200, +.0050]"


def test_spaces():
    small, large = (komd.generate(users=n, items=60, activity=12, rng=1) for n in (50, 100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accuracy_search, "ITERATIONS", {(small.pairs + large.pairs) // 2: (1, 2)})
        values = [
            next(p for p in accuracy_search.space(komd.BPR(), data) if p.name == "iterations").values
            for data in (small, large)
        ]
    assert max(values[0]) == 300 and values[1] == (1, 2)
    assert len(accuracy_search.space(komd.EASE(), small)[0].values) == 19


def test_the_order_of_a_file():
    data = dated_pairs([1, 1, 1, 2, 2], [5, 6, 4, 4, 5])  # popularity 2, 1, 2 and 2, 2
    assert accuracy.order_of(data) == {"id": pytest.approx(2 / 3), "popularity": pytest.approx(1 / 3)}
