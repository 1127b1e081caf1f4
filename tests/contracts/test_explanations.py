"""Explanations sum to the scores of recommendations, in the library and as served, whatever K is made of."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import komd
from komd.models.registry import MODELS
from komd.serve.item_names import ItemNames
from komd.serve.model_snapshot import ModelSnapshot
from komd.serve.user_row import UserRow

N = 20
STAGES = [
    {},
    {"kernel": "linear", "user_damping": 0.5, "popularity": 0.3},
    {"kernel": "jaccard", "prior": 0.01},
    {"user_damping": 0.5, "ridge": 5.0},
    {"popularity": 0.3, "ridge": 30.0, "rank": 12},
    {"user_damping": 0.5, "popularity": 0.2, "ridge": 30.0, "rank": 13, "prior": 0.01},
    {"user_damping": 0.5, "target": 0.5},
    {"ridge": 3.0, "rank": 12, "head": 1.0, "prior": 0.01, "target": -0.5},
    {"popularity": 0.2, "rank": 13, "head": 0.3},
]
NEGATIVES = [{}, {"negatives": "mean"}, {"negatives_weight": 0.0}, {"negatives_weight": 0.3}]
VARIANTS = [
    komd.CFKOMD(**stages, **negatives, storage=storage)
    for stages, negatives, storage in itertools.product(STAGES, NEGATIVES, ("dense", "sparse", "streamed"))
]
OTHERS = [model() for name, model in MODELS.items() if name not in ("CFKOMD", "BPR")]


@pytest.fixture(scope="module")
def data():
    return komd.generate(users=90, items=60, activity=10, rng=2)


def fitted(model, data):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", komd.FilterWarning)
            return model.clone().fit(data)
    except komd.InputError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("model", VARIANTS + OTHERS, ids=repr)
def test_served_reasons_and_explanations_sum_to_the_score(model, data):
    model = fitted(model, data)
    snapshot = ModelSnapshot(model, "1", ItemNames.of(model.catalogue.items, None))
    rows = model.catalogue.histories
    users = [0, 7, 31, 88]
    lists = model.recommend([data.users[u] for u in users], n=N).to_arrow().to_pylist()
    histories = [rows.indices[rows.indptr[u] : rows.indptr[u + 1]] for u in users]
    served = snapshot.recommend([UserRow(row) for row in histories], n=N, at=0, reasons=3)
    for u, history, one in zip(users, histories, served, strict=True):
        mine = [row for row in lists if row["user_id"] == data.users[u]]
        assert model.catalogue.item_ids(one.items).to_pylist() == [row["item_id"] for row in mine]
        for row, score, reason in zip(mine, one.scores.tolist(), one.reasons, strict=True):
            assert score == pytest.approx(row["score"], rel=1e-13, abs=1e-13)
            total = reason.contributions.sum() + reason.others_contribution + reason.global_term
            assert total == pytest.approx(score, rel=1e-13, abs=1e-13)
            assert len(reason.contributions) + reason.others == len(history)
        why = model.explain(data.users[u], mine[-1]["item_id"])
        parts = why.to_arrow()["contribution"].to_numpy()
        assert parts.sum() + why.global_term == pytest.approx(mine[-1]["score"], rel=1e-13, abs=1e-13)
        assert np.allclose(reason.contributions, parts[:3], rtol=1e-13, atol=1e-13)
        assert reason.global_term == pytest.approx(why.global_term, rel=1e-13, abs=1e-13)


def test_a_problem_is_solved_once_for_many_items(data, monkeypatch):
    solved = []
    weigh = komd.CFKOMD.weigh
    monkeypatch.setattr(
        komd.CFKOMD, "weigh", lambda self, rows, *words: solved.append(len(rows)) or weigh(self, rows, *words)
    )
    model = komd.CFKOMD(ridge=30.0, rank=12, storage="sparse").fit(data)
    history = model.catalogue.histories.block(3, 4)
    found = model.explained(history, np.arange(len(data.items), dtype=np.int32))
    assert solved == [1]
    assert np.allclose(found.parts.sum(axis=0) + found.global_terms, model.block_scores(history)[0], rtol=0, atol=1e-13)
