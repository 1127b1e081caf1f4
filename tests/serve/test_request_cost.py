"""What requests are estimated to cost, and what is refused in one batch."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from komd.serve import schemas
from komd.serve.item_names import ItemNames
from komd.serve.model_snapshot import ModelSnapshot
from komd.serve.request_cost import BATCH, PART, SMALL, BatchTooLarge, RequestCost, check_batch, cut
from komd.serve.user_row import UserRow

MOVIELENS = RequestCost(items=3706, row_work=3706.0)


def ask(**options):
    return schemas.Ask(user_id="u", **options)


def test_what_is_small_and_what_is_not():
    for small in (ask(), ask(explain=True), ask(n=100)):
        assert MOVIELENS.of(small, 20) < MOVIELENS.of(small, 165) < SMALL
    for large in (ask(n=1000), ask(n=50, explain=True, reasons=100)):
        assert MOVIELENS.of(large, 165) > SMALL
    assert MOVIELENS.of(ask(), 2000) > SMALL


def test_the_largest_batch_of_small_requests_is_allowed():
    check_batch([MOVIELENS.of(ask(), 165)] * 256)
    check_batch([MOVIELENS.of(ask(explain=True), 20)] * 256)
    check_batch([3 * BATCH])  # one request is not a batch: it has its deadline


def test_a_refused_batch_says_what_would_do():
    costs = [MOVIELENS.of(ask(n=1000), 2000)] * 200
    with pytest.raises(BatchTooLarge, match=r"this batch of 200 requests is 4\.5 times .* split it into .* about 44,"):
        check_batch(costs)
    check_batch(costs[:44])


@pytest.mark.parametrize("costs", [[], [1.0], [PART] * 3, [PART / 3] * 10, [5 * PART, 1.0, 1.0], [1.0, 5 * PART, 1.0]])
def test_parts_cover_everything_and_are_small(costs):
    found = list(cut(costs))
    assert [k for start, stop in found for k in range(start, stop)] == list(range(len(costs)))
    assert all(stop - start == 1 or sum(costs[start:stop]) <= PART for start, stop in found)


def test_a_matrix_that_is_counted_again_is_dearer():
    data = komd.generate(users=300, items=80, activity=20, rng=0)
    held = {storage: komd.CFKOMD(storage=storage).fit(data) for storage in ("dense", "sparse", "streamed")}
    work = {storage: model.row_work for storage, model in held.items()}
    assert work["dense"] == 80
    assert work["sparse"] == pytest.approx(6 * held["sparse"].matrix.nonzeros / 80)
    assert work["streamed"] == pytest.approx(80 + 4 * held["streamed"].matrix.work.mean())
    assert komd.Popularity().fit(data).row_work == 0
    snapshot = ModelSnapshot(held["streamed"], "1", ItemNames.of(data.items, None))
    assert snapshot.cost == RequestCost(80, work["streamed"])


def test_parts_change_no_list():
    data = komd.generate(users=100, items=60, activity=8, rng=1)
    model = komd.CFKOMD().fit(data)
    snapshot = ModelSnapshot(model, "1", ItemNames.of(data.items, None))
    rows = [UserRow(np.sort(np.random.default_rng(k).permutation(60)[: 3 + k]).astype(np.int32)) for k in range(20)]
    whole = snapshot.recommend(rows, n=7, at=0, reasons=3)
    parted = snapshot.recommend(rows, n=7, at=0, reasons=3, costs=[PART / 2.5] * 20)
    for a, b in zip(whole, parted, strict=True):
        assert a.items.tolist() == b.items.tolist() and a.scores.tolist() == b.scores.tolist()
        assert [r.contributions.tolist() for r in a.reasons] == [r.contributions.tolist() for r in b.reasons]
