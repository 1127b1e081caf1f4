"""A streamed matrix is the dense one to the last bit, whichever way it is read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd._core.groups import WeightedUsers
from komd._core.strip_counting import DENSE
from komd.kernels.asymmetric import AsymmetricCosine, CoOccurrence
from komd.kernels.functions import Jaccard, Linear, Polynomial, Tanimoto
from komd.matrix.expected_density import expected_nonzeros
from tests._core.arrays import row_of_strip
from tests.matrix.held import held

KERNELS = (
    Linear(),
    Tanimoto(),
    Polynomial(degree=3, c=2),
    Jaccard(),
    AsymmetricCosine(alpha=0.15, locality=3),
    AsymmetricCosine(alpha=0.3, locality=2.5),
    CoOccurrence(history=0.6, candidate=0.4),
)


def made(kernel, rows, items, storage, **options):
    return held(kernel, *rows.rows, items, storage, threads=2, **options)


def whole(matrix, rows, room, threads=None):
    """All strips put together, as users read them."""
    users = WeightedUsers(np.zeros(1, np.int64), rows, np.zeros(0), np.zeros(0))
    out = np.zeros((matrix.items, matrix.items), np.float32)
    reached = 0
    for strip in matrix.strips(users, room=room, threads=threads):
        assert strip.first == reached
        reached = strip.last
        for place, i in enumerate(rows):
            out[i, strip.first : strip.last] = row_of_strip(strip.arrays, place, strip.last - strip.first)
    assert reached == matrix.items
    return out


@pytest.fixture(scope="module")
def rows():
    data = komd.generate(users=300, items=130, activity=9, item_tail=1.3, rng=1)
    return komd.Popularity().fit(data).catalogue.histories


@pytest.mark.parametrize("scaled", [False, True], ids=["", "scaled"])
@pytest.mark.parametrize("weighted", ["", "users", "pairs", "both"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_strips_rows_and_blocks_are_those_of_the_dense_matrix(kernel, weighted, scaled, rows):
    if weighted in ("pairs", "both") and not kernel.symmetric:
        return  # refused: a similarity of counts
    rng, options = np.random.default_rng(0), {}
    if weighted in ("users", "both"):
        options["user_weights"] = rng.random(300) + 0.1
    if weighted in ("pairs", "both"):
        options["values"] = (rng.pareto(1, len(rows.indices)) + 0.1).astype(np.float32)
    if scaled:
        options["scale"] = rng.random(130) + 0.1
    dense, sparse, streamed = (
        made(kernel, rows, 130, storage, **options) for storage in ("dense", "sparse", "streamed")
    )
    if kernel.symmetric:
        assert np.array_equal(dense.values, dense.values.T)
    assert np.array_equal(np.array([sparse.row(i) for i in range(130)]), dense.values)
    some = np.arange(0, 130, 3, dtype=np.int32)
    assert np.array_equal(whole(streamed, some, 20_000)[some], dense.values[some])
    assert np.array_equal(whole(dense, some, 20_000)[some], dense.values[some])
    assert np.array_equal(whole(sparse, some, 20_000)[some], dense.values[some])
    near = streamed.in_memory(some[::-1])
    assert np.array_equal(np.array([near.row(int(i)) for i in some]), dense.values[some])
    assert streamed.in_memory(some, lambda: 7) is None and dense.in_memory(some, lambda: 7) is dense
    assert np.array_equal(streamed.row(7), dense.row(7))
    assert np.array_equal(streamed.entries(some, some[:2]), dense.entries(some, some[:2]))
    own = streamed.gather(rows.rows, None, own=True).own
    blocks, starts = own.blocks, own.starts
    for u in range(0, 300, 17):
        h = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        assert np.array_equal(blocks[starts[u] : starts[u + 1]].reshape(len(h), len(h)), dense.values[np.ix_(h, h)])
    assert np.allclose(streamed.sums(), dense.sums(), rtol=1e-6)
    assert streamed.nonzeros == dense.nonzeros


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(2, 60), st.integers(1, 4000), st.booleans())
def test_room_and_threads_change_nothing(seed, users, items, room, weighted):
    rng = np.random.default_rng(seed)
    R = rng.random((users, items)) < rng.random(items) ** 3
    indptr = np.zeros(users + 1, np.int64)
    np.cumsum(R.sum(axis=1), out=indptr[1:])
    indices = np.nonzero(R)[1].astype(np.int32)
    values = (rng.pareto(1, len(indices)) + 0.1).astype(np.float32) if weighted else None
    dense, streamed = (
        held(Tanimoto(), indptr, indices, items, storage, values=values) for storage in ("dense", "streamed")
    )
    chosen = np.flatnonzero(rng.random(items) < 0.6).astype(np.int32)
    got = whole(streamed, chosen, room, int(rng.integers(1, 4)))
    assert np.array_equal(got[chosen], dense.values[chosen])


def test_a_strip_of_several_tiles_holds_rows_of_either_kind():
    """Popular items have dense rows; where the memory is short, some of these are not held dense."""
    rng = np.random.default_rng(3)
    R = rng.random((500, 2600)) < 0.3 * np.linspace(1, 0, 2600) ** 3
    indptr, indices = np.concatenate([[0], np.cumsum(R.sum(axis=1))]), np.nonzero(R)[1].astype(np.int32)
    dense, streamed = (held(Linear(), indptr, indices, 2600, storage) for storage in ("dense", "streamed"))
    chosen = np.sort(rng.choice(2600, 60, replace=False)).astype(np.int32)
    for room, tiles in ((1 << 24, 3), (100_000, 1)):
        found = []  # of each strip: tiles, places for dense rows, dense rows
        for strip in streamed.row_strips(chosen, room=room):
            places, slots = strip.arrays.places, strip.arrays.dense.shape[1]
            found.append((len(places), slots, int((places[0, :, 1] == DENSE).sum())))
        assert max(count for count, _, _ in found) == tiles
        assert 0 < max(rows for _, _, rows in found) < len(chosen)
        assert any(slots == rows for _, slots, rows in found) == (tiles == 1)
        assert np.array_equal(whole(streamed, chosen, room)[chosen], dense.values[chosen])
    assert streamed.nonzeros == np.count_nonzero(dense.values)


def test_strips_grow_where_more_comes_than_was_expected(rows, monkeypatch):
    monkeypatch.setattr(
        "komd.matrix.streamed.expected_sums", lambda rows, columns, activity, of: np.zeros(len(columns))
    )
    dense, streamed = (made(Linear(), rows, 130, storage) for storage in ("dense", "streamed"))
    everything = np.arange(130, dtype=np.int32)
    assert np.array_equal(whole(streamed, everything, 600), dense.values)


def test_expected_nonzeros_add_up_to_the_estimated_density(rows):
    from komd.matrix.expected_density import estimate_density

    popularity = np.bincount(rows.indices, minlength=130)
    expected = expected_nonzeros(popularity, popularity, rows.lengths).sum() / 130**2
    assert expected == pytest.approx(estimate_density(popularity, rows.lengths), rel=0.05)
