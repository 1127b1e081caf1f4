"""Every model of the contracts on Spark: the lists of one machine, or a refusal that names the models which run."""

from __future__ import annotations

import warnings

import pytest

import komd
from tests.contracts.variants import EVERY

pytest.importorskip("pyspark", reason="no pyspark: the extra spark")

ON_SPARK = {"CFKOMD", "ECFOMD", "MSDW", "RP3Beta"}
RUN = [model for model in EVERY if type(model).__name__ in ON_SPARK]
REFUSED = [model for model in EVERY if type(model).__name__ not in ON_SPARK]


@pytest.fixture(scope="module")
def frame(spark, small):
    return spark.createDataFrame(small.to_arrow().rename_columns(["user", "item"])).coalesce(1).cache()


@pytest.fixture(scope="module")
def catalogue(frame):
    from komd.spark.gather_catalogue import catalogue_of
    from komd.spark.row_columns import RowColumns

    return catalogue_of(frame, RowColumns("user", "item"))


@pytest.mark.parametrize("model", RUN, ids=repr)
def test_lists_are_those_of_one_machine_to_the_last_bit(model, frame, catalogue, small, tmp_path, monkeypatch):
    from komd.spark import KomdRecommender, estimator

    if model is not RUN[0]:  # gathered once: it is the same for every model
        monkeypatch.setattr(estimator, "catalogue_of", lambda *_: catalogue)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.FilterWarning)
        fitted = KomdRecommender(model=model, sharedFolder=str(tmp_path / "m.komd")).fit(frame)
        alone = model.clone().fit(small)
    order = [("user_id", "ascending"), ("rank", "ascending")]
    found = fitted.recommendForAllUsers(6, format="long").toArrow().sort_by(order).to_pylist()
    assert found == alone.recommend(n=6).to_arrow().sort_by(order).to_pylist()


@pytest.mark.parametrize("model", REFUSED, ids=repr)
def test_others_are_refused_with_the_reason(model, small, spark, tmp_path):
    from komd.spark import KomdRecommender, KomdRecommenderModel

    name = type(model).__name__
    with pytest.raises(komd.InputError, match=f"on Spark run CFKOMD, ECFOMD, MSDW and RP3Beta, not {name}"):
        KomdRecommender(model=model)
    if name != "Popularity":
        return
    model.clone().fit(small).save(tmp_path / "m.komd")
    with pytest.raises(komd.InputError, match=f"on Spark run .*; .* holds {name}"):
        KomdRecommenderModel.load(tmp_path / "m.komd")
