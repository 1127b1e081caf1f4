"""The interface of item matrices: every kind gives what the matrix written out gives, in each way of asking."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from komd._core.groups import Rows, WeightedUsers
from komd._core.solve import gather_row
from komd._core.strip_counting import score_tile
from komd.kernels.asymmetric import AsymmetricCosine
from komd.kernels.functions import Linear, Tanimoto
from komd.matrix.item_matrix import Correction
from tests._core.arrays import random_rows, rows_of, weighted
from tests.matrix.held import held

STORAGES = ("dense", "sparse", "streamed")
CORRECTIONS = ("plain", "corrected", "twice")
KERNELS = (Linear(), Tanimoto(), AsymmetricCosine(alpha=0.2, locality=2))


class Case:
    """A matrix of some kind, and the same written out in double precision."""

    def __init__(self, seed, storage, corrections, kernel):
        self.rng = rng = np.random.default_rng(seed)
        n, self.m = int(rng.integers(2, 40)), int(rng.integers(2, 70))
        R = rng.random((n, self.m)) < rng.choice([0.05, 0.3])
        rows = rows_of([np.flatnonzero(row) for row in R])
        make = {"user_weights": rng.random(n) + 0.5, "scale": rng.random(self.m) + 0.5}
        self.matrix = held(kernel, *rows, self.m, storage, **make)
        dense = held(kernel, *rows, self.m, "dense", **make)
        self.exact = dense.values  # what plain matrices must be to the last bit
        self.expected = dense.values.astype(float)
        for _ in range(CORRECTIONS.index(corrections)):
            W = (rng.standard_normal((self.m, int(rng.integers(1, 6)))) / 4).astype(np.float32)
            added, factor = int(rng.integers(0, W.shape[1] + 1)), float(rng.choice([1.0, 0.5]))
            signs = np.where(np.arange(W.shape[1]) < W.shape[1] - added, 1.0, -1.0)
            self.matrix = self.matrix.corrected(Correction(W, added, factor))
            self.expected = factor * self.expected - (W.astype(float) * signs) @ W.T.astype(float)
        self.plain = corrections == "plain"
        self.close = {"rtol": 1e-5, "atol": 2e-6 * (1 + np.abs(self.expected).max())}

    def users(self, count=4):
        lists = random_rows(self.rng, count, self.m)
        return lists, weighted(self.rng, lists)

    def same(self, found, expected):
        """To the last bit for plain matrices, whose entries are those of the dense one."""
        found, expected = np.asarray(found), np.asarray(expected)
        assert found.shape == expected.shape
        if self.plain and found.dtype == np.float32:
            assert np.array_equal(found, expected.astype(np.float32))
        assert np.allclose(found, expected, **self.close)

    def scores(self, users, S):
        """By the formula, and as the matrix gives them."""
        lists = [users.indices[a:b] for a, b in zip(users.indptr[:-1], users.indptr[1:], strict=True)]
        parts = [users.weights[a:b] for a, b in zip(users.indptr[:-1], users.indptr[1:], strict=True)]
        expected = [
            w @ self.expected[own] - b * S for own, w, b in zip(lists, parts, users.offsets.tolist(), strict=True)
        ]
        found = np.full((len(lists), self.m), np.nan)
        self.matrix.score(users, S, found)
        assert np.allclose(found, np.reshape(expected, found.shape), rtol=1e-4, atol=1e-3)
        return found


@pytest.fixture(params=STORAGES)
def storage(request):
    return request.param


@pytest.fixture(params=CORRECTIONS)
def corrections(request):
    return request.param


def cases(test):
    """Many random matrices of the kind that the fixtures name."""
    some = settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
    return some(given(seed=st.integers(0, 2**32 - 1), kernel=st.sampled_from(KERNELS))(test))


@cases
def test_rows_entries_diagonal_and_sums(storage, corrections, seed, kernel):
    case = Case(seed, storage, corrections, kernel)
    matrix, m = case.matrix, case.m
    assert matrix.items == m and matrix.bytes > 0
    assert matrix.plan.storage == matrix.storage == storage
    for i in range(m):
        case.same(matrix.row(i), case.expected[i])
    rows, columns = (case.rng.integers(0, m, case.rng.integers(0, 9)).astype(np.int32) for _ in range(2))
    case.same(matrix.entries(rows, columns), case.expected[np.ix_(rows, columns)])
    case.same(matrix.diagonal(), np.diag(case.expected))
    assert np.allclose(matrix.sums(), case.expected.sum(axis=1), rtol=1e-5, atol=1e-3)
    if case.plain:
        assert matrix.nonzeros == np.count_nonzero(case.exact)


@cases
def test_blocks_of_rows_sum_and_multiply(storage, corrections, seed, kernel):
    case = Case(seed, storage, corrections, kernel)
    sums, blocks = case.matrix.sums(), list(pairwise([0, *np.sort(case.rng.integers(0, case.m + 1, 2)), case.m]))
    parts = np.concatenate([case.matrix.sums_of(block) for block in blocks])
    if case.plain:
        assert np.allclose(parts, sums, rtol=1e-6)  # of rounded entries, or of exact ones
    elsewhere = case.matrix.sums(block_sums=lambda asked: [case.matrix.sums_of(block) for block in asked])
    assert np.array_equal(elsewhere, sums)
    X = case.rng.standard_normal((case.m, 3)).astype(np.float32)
    done = []
    found = case.matrix.multiply(X, advance=done.append)
    assert sum(done) == case.m
    assert np.allclose(found, case.expected @ X, rtol=1e-4, atol=1e-3)


@cases
def test_scores_contributions_and_rows_in_memory(storage, corrections, seed, kernel):
    case = Case(seed, storage, corrections, kernel)
    lists, users = case.users()
    S = case.rng.standard_normal(case.m)
    scores = case.scores(users, S)
    held_rows = case.matrix.in_memory(np.unique(users.indices))
    again = np.empty_like(scores)
    held_rows.score(users, S, again)
    assert np.array_equal(again, scores)
    everything = np.arange(case.m, dtype=np.int32)
    for u, own in enumerate(lists):
        mine = users.weights[users.indptr[u] : users.indptr[u + 1]]
        if len(own):
            similarities, parts = case.matrix.contributions(rows_of([own]), mine, everything)
            case.same(similarities, case.expected[own])
            assert np.allclose(parts.sum(axis=0) - users.offsets[u] * S, scores[u], rtol=1e-9, atol=1e-9)


@cases
def test_entries_between_own_items(storage, corrections, seed, kernel):
    case = Case(seed, storage, corrections, kernel)
    lists, users = case.users()
    rows = Rows(users.indptr, users.indices)
    for own in (case.matrix.own_entries(rows), case.matrix.gather(rows, None, own=True).own):
        for u, mine in enumerate(lists):
            h = mine.astype(np.int32)
            if not len(h):
                continue
            if own.blocks.size:
                found = own.blocks[own.starts[u] : own.starts[u + 1]].reshape(len(h), -1)[:, : len(h)]
            else:  # the correction is subtracted from what is gathered
                found = np.zeros((len(h), len(h)), np.float32)
                for x in range(len(h)):
                    gather_row(own.stored, h, x, found[x])
                if own.W.shape[1]:
                    W = own.W[h].astype(float)
                    signs = np.where(np.arange(W.shape[1]) < W.shape[1] - own.added, 1.0, -1.0)
                    found = found - (W * signs) @ W.T
            case.same(found, case.expected[np.ix_(h, h)])


@cases
def test_targets_and_strips_score_as_blocks_do_to_the_last_bit(storage, corrections, seed, kernel):
    case = Case(seed, storage, corrections, kernel)
    lists, users = case.users()
    S = case.rng.standard_normal(case.m)
    scores = case.scores(users, S)
    wanted = random_rows(case.rng, len(lists), case.m)
    targets = rows_of(wanted)
    found = case.matrix.gather(Rows(users.indptr, users.indices), targets, own=bool(case.rng.integers(2)))
    got = case.matrix.target_scores(found, users, targets, S)
    assert got.tolist() == [scores[u, j] for u, mine in enumerate(wanted) for j in mine]
    reached = 0
    for strip in case.matrix.strips(users, room=int(case.rng.integers(2_000, 40_000))):
        assert strip.first == reached
        reached = strip.last
        arrays, wide = strip.arrays, strip.arrays.dense.shape[2]
        for u in range(len(lists)):
            mine = slice(users.indptr[u], users.indptr[u + 1])
            out = np.empty(strip.last - strip.first)
            rows, weights = arrays.row_of[users.indices[mine]], users.weights[mine]
            slots = np.empty(len(rows), np.int32)
            for t in range(len(arrays.places)):
                part = slice(t * wide, (t + 1) * wide)
                some = S[strip.first : strip.last][part]
                score_tile(arrays, t, some, rows, weights, users.offsets[u], slots, out[part])
            if strip.correction:
                out -= strip.correction(0, len(lists))[u]
            assert np.array_equal(out, scores[u, strip.first : strip.last])
    assert reached == case.m


@cases
def test_scaled(storage, corrections, seed, kernel):
    case = Case(seed, storage, corrections, kernel)
    factors = case.rng.random(case.m) + 0.5
    scaled = case.matrix.scaled(factors)
    assert scaled.storage == storage
    everything = np.arange(case.m, dtype=np.int32)
    expected = case.expected * np.outer(factors, factors)
    assert np.allclose(scaled.entries(everything, everything), expected, rtol=1e-5, atol=case.close["atol"] * 3)
    case.same(case.matrix.entries(everything, everything), case.expected)  # the first is left as it was


def test_nobody_and_nothing(storage, corrections):
    """No users, and users without items."""
    case = Case(1, storage, corrections, Linear())
    S = np.ones(case.m)
    for lists in ([], [[], []]):
        rows = rows_of(lists)
        users = WeightedUsers(*rows, np.zeros(0), np.ones(len(lists)))
        scores = np.empty((len(lists), case.m))
        case.matrix.score(users, S, scores)
        assert (scores == -1.0).all()
        assert case.matrix.own_entries(rows).blocks.size == 0
