"""Every model in one comparison: its figures are those of `evaluate` on the same folds."""

from __future__ import annotations

import pytest

import komd
from tests.contracts.variants import FIRST, HAS_IMPLICIT, RIVALS

METRICS = "auc,ndcg@10,recall@5"
FOLDS = {"folds": 2, "half": "random", "min_activity": 5, "rng": 6}
COMPARED = [model for model in FIRST if HAS_IMPLICIT or type(model).__name__ not in RIVALS]


def test_figures_are_those_of_the_same_folds(small):
    found = komd.compare(small, COMPARED, metrics=METRICS, **FOLDS)
    assert [row.model for row in found] == [model.text for model in COMPARED]
    folds = list(komd.split.folds(small, **FOLDS))
    for model in COMPARED:
        row = found[model.text]
        assert row.failed is None, row.failed
        alone = [komd.evaluate(model.clone().fit(train), test, metrics=METRICS) for train, test in folds]
        for metric in METRICS.split(","):
            assert row[metric].values == pytest.approx([each[metric].mean for each in alone], abs=1e-12, rel=0)
