"""Lists on real data: nothing that nobody chose, nothing that the user rated low."""

from __future__ import annotations

import numpy as np
import pytest

import komd


@pytest.mark.data
def test_no_list_on_ciao_holds_an_item_nobody_chose(real_data):
    data = komd.datasets.load("ciao", path=real_data)
    train, _ = next(komd.split.folds(data, rng=0))
    nobodys = train.items.take(np.flatnonzero(train.popularity == 0))
    assert len(nobodys) > 500
    listed = komd.ECFOMD().fit(train).recommend(n=100).to_arrow()["item_id"]
    assert not set(nobodys.to_pylist()) & set(listed.unique().to_pylist())


@pytest.mark.data
def test_no_film_is_recommended_that_the_user_rated_below_four(real_data):
    file = real_data / "ml-1m" / "ratings.csv.gz"
    data, rated = komd.read(file, min_rating=4), komd.read(file)
    assert data.pairs + data.seen.pairs <= rated.pairs
    model = komd.ECFOMD().fit(data)
    for exclude, least, most in ((True, 0.0, 0.0), (False, 0.2, 0.25)):
        lists = model.recommend(n=10, exclude_low_rated=exclude).to_arrow()
        users, items = (lists[name].combine_chunks() for name in ("user_id", "item_id"))
        keys = rated.users.find(users).astype(np.int64) * len(rated.items) + rated.items.find(items)
        known = np.isin(keys, rated.rows.astype(np.int64) * len(rated.items) + rated.indices)
        assert least <= known.mean() <= most  # no film of the history is there: these are the low-rated ones
