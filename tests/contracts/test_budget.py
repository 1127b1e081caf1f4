"""A memory budget reaches both fitting and ranking, whichever way it is given."""

from __future__ import annotations

import json

import pytest
from pyarrow import csv
from typer.testing import CliRunner

import komd
from komd.cli.main import app
from komd.engine import item_based
from komd.engine import streamed_ranking as streaming
from komd.evaluation import compare as comparing
from komd.evaluation import fold_process as worker
from komd.matrix import build
from komd.memory import budget

MODEL = "CFKOMD(storage='streamed')"
BUDGET = "77MB"


@pytest.fixture
def told(monkeypatch):
    """What fitting and ranking were told of the budget: sets of `memory` arguments."""
    fitted, ranked = set(), set()
    plan, room_for = build.plan, streaming.room_for

    def recording_plan(*data, memory=None, **how):
        fitted.add(memory)
        return plan(*data, memory=memory, **how)

    def recording_room(memory):
        ranked.add(memory)
        return room_for(memory)

    monkeypatch.setattr(build, "plan", recording_plan)
    for module in (item_based, streaming):
        monkeypatch.setattr(module, "room_for", recording_room)
    monkeypatch.setattr(item_based, "_ROWS_SHARE", 0.0)
    # The child's work, done here: what it is told is what it reads from its task file.
    monkeypatch.setattr(
        comparing, "_run", lambda row, *_: worker._evaluate_folds(json.loads(row.task.read_text(encoding="utf-8")), row)
    )
    return fitted, ranked


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("budget")
    train, test = next(komd.split.folds(komd.generate(users=60, items=30, activity=8, rng=0), folds=2, rng=0))
    csv.write_csv(train.to_arrow(), folder / "train.csv")
    csv.write_csv(test.to_arrow(), folder / "test.csv")
    komd.model_from_text(MODEL).fit(train).save(folder / "model.komd")
    return folder


def train(folder):
    return komd.read(folder / "train.csv")


def saved(folder):
    return komd.load(folder / "model.komd")


def command(*words):
    def called(folder):
        given = [str(word).format(folder=folder) for word in (*words, "--memory", BUDGET)]
        result = CliRunner().invoke(app, given, catch_exceptions=False)
        assert result.exit_code == 0, result.output

    return called


def tune(folder):
    pytest.importorskip("optuna")
    komd.tune(komd.CFKOMD(storage="streamed"), train(folder), trials=2, folds=2, rounds=1, memory=BUDGET)


FITTING_AND_RANKING = {
    "compare": lambda folder: komd.compare(train(folder), MODEL, metrics="auc", folds=2, memory=BUDGET),
    "tune": tune,
    "komd evaluate DATA": command("evaluate", "{folder}/train.csv", "--folds", 2, "--model", MODEL),
    "komd evaluate --train": command(
        "evaluate", "--train", "{folder}/train.csv", "--test", "{folder}/test.csv", "--model", MODEL
    ),
    "komd compare": command("compare", "{folder}/train.csv", "--folds", 2, "--models", MODEL),
}
RANKING = {
    "recommend": lambda folder: saved(folder).recommend(n=3, memory=BUDGET),
    "recommend_to": lambda folder: komd.recommend_to(saved(folder), folder / "recs", n=3, memory=BUDGET),
    "evaluate": lambda folder: komd.evaluate(saved(folder), komd.read(folder / "test.csv"), memory=BUDGET),
    "score": lambda folder: saved(folder).score(folder / "test.csv", memory=BUDGET),
    "komd score": command("score", "{folder}/model.komd", "{folder}/test.csv"),
    "komd recommend": command("recommend", "{folder}/model.komd", "--json"),
    "komd evaluate --test": command("evaluate", "--test", "{folder}/test.csv", "--model", "{folder}/model.komd"),
}


@pytest.mark.parametrize("call", FITTING_AND_RANKING)
def test_fitting_and_ranking_keep_to_the_budget(call, folder, told):
    FITTING_AND_RANKING[call](folder)
    fitted, ranked = told
    assert fitted and all(memory is not None and budget(memory) <= budget(BUDGET) for memory in fitted)
    assert ranked == {BUDGET}


@pytest.mark.parametrize("call", RANKING)
def test_ranking_keeps_to_the_budget(call, folder, told):
    RANKING[call](folder)
    assert told[1] == {BUDGET}
