"""The work folder: rows are named by everything their results depend on."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

import komd
from komd.evaluation import work_folder as work


@pytest.fixture(scope="module")
def data():
    return komd.generate(users=150, items=60, activity=10, tastes=4, rng=3)


def test_every_part_of_the_protocol_counts(tmp_path):
    def folder(data="x", model="MSDW()", **change):
        asked = {"folds": 5, "half": "random", "min_activity": 5, "rng": 0, "metrics": ("auc",), "ties": "half"}
        return work.row_folder(tmp_path, data, work.ComparisonProtocol(**(asked | change)), model).path

    changes = ({"folds": 4}, {"half": "given"}, {"min_activity": 6}, {"rng": 1}, {"ties": "strict"})
    more = ({"metrics": ("auc", "hit@5")}, {"data": "y"}, {"model": "MSDW(alpha=1)"})
    assert len({folder(**change) for change in ({}, *changes, *more)}) == 9
    assert folder() == folder()


def test_times_are_part_of_the_data(data):
    from komd.data.interactions import Interactions

    def timed(times):
        return Interactions(data.users, data.items, data.indptr, data.indices, times)

    marks = {work.fingerprint(timed(t)) for t in (None, np.arange(data.pairs), np.arange(data.pairs)[::-1].copy())}
    assert len(marks) == 3


def variants(data):
    """The data with and without what it may have besides pairs."""
    from komd.data.interactions import Interactions

    rng = np.random.default_rng(0)
    times, weights = rng.integers(0, 900, data.pairs), rng.integers(1, 9, data.pairs).astype(np.float32)
    others = [np.setdiff1d(np.arange(60), data.indices[a:b])[0] for a, b in itertools.pairwise(data.indptr)]
    disliked = np.array(others, np.int32), np.arange(151)

    def of(times=None, **rest):
        return Interactions(data.users, data.items, data.indptr, data.indices, times, **rest)

    dislikes = Interactions(data.users, data.items, disliked[1], disliked[0], np.arange(150), time_unit="s")
    untimed = Interactions(data.users, data.items, disliked[1], disliked[0])
    return [
        of(),
        of(times),
        of(times, time_unit="s"),
        of(times, time_unit="ms"),
        of(weights=weights),
        of(weights=weights + 1),
        of(dislikes=dislikes),
        of(dislikes=untimed),
        of(times, time_unit="s", weights=weights, dislikes=dislikes),
    ]


def test_weights_units_and_dislikes_are_part_of_the_data(data):
    marks = [work.fingerprint(each) for each in variants(data)]
    assert len(set(marks)) == len(marks)


def test_data_without_them_keep_their_checksum(data):
    """Work folders of earlier versions stay in use."""
    for each in variants(data)[:2]:
        digest = hashlib.sha256(repr((each.shape, each.times is not None)).encode())
        for array in (each.indptr, each.indices, each.times):
            digest.update(b"" if array is None else array.tobytes())
        assert work.fingerprint(each) == digest.hexdigest()[:20]


def test_child_processes_read_what_was_stored(data, tmp_path):
    for k, each in enumerate(variants(data)):
        for _ in range(2):  # what is there already is not written again
            found = work.load_data(work.store_data(tmp_path, each, str(k)))
        assert work.fingerprint(found) == work.fingerprint(each)
        assert found.time_unit == each.time_unit and found.shape == each.shape
        assert (found.dislikes is None) == (each.dislikes is None)
        if each.dislikes is not None:
            assert np.array_equal(found.dislikes.indices, each.dislikes.indices)
            assert found.dislikes.time_unit == each.dislikes.time_unit


def test_models_are_compared_by_weights_and_times(data, tmp_path):
    """The child process evaluates what this process would."""
    from komd.data import split

    full = variants(data)[-1]
    options = {"folds": 2, "half": "given", "min_activity": 5, "rng": 0}
    models = ["ECFOMD(weighting='linear', half_life='5min')", "ECFOMD()"]
    found = komd.compare(full, models, metrics=["ndcg@10"], keep=tmp_path, threads=1, **options)
    for text in models:
        means = [
            komd.evaluate(komd.model_from_text(text).fit(train), test, metrics=["ndcg@10"]).metrics["ndcg@10"].mean
            for train, test in split.folds(full, **options)
        ]
        assert found[text]["ndcg@10"].mean == pytest.approx(np.mean(means), abs=1e-15)
    assert found[models[0]]["ndcg@10"].mean != found[models[1]]["ndcg@10"].mean
