"""Several sets of interactions over one set of ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import scipy.sparse as sparse

from komd.data.align import align
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.data.read import read


def table(pairs, **more):
    return pa.table({"user_id": [u for u, _ in pairs], "item_id": [i for _, i in pairs], **more})


def test_align_makes_one_set_of_ids():
    first = read(table([("b", 1), ("c", 3)]))
    second = read(table([("a", 2), ("b", 1)]))
    one, two = align(first, second)
    assert one.users == two.users == Ids.from_arrow(["a", "b", "c"])
    assert one.items == two.items == Ids.from_arrow([1, 2, 3])
    assert (one.history("b"), one.history("a"), two.history("a")) == ([1], [], [2])
    assert align(one, two) == (one, two)
    assert align(first) == (first,)


def test_align_across_kinds():
    one, two = align(read(table([(1, 10), (2, 11)])), read(table([("2", 10), ("x", 12)])))
    assert one.users == two.users == Ids.from_arrow(["1", "2", "x"])
    assert one.history("2") == [11]
    assert one.items.type == pa.int64()
    ranges = align(Interactions.of(sparse.csr_array(np.eye(2))), Interactions.of(sparse.csr_array(np.eye(3))))
    assert [part.shape for part in ranges] == [(3, 3), (3, 3)]
    mixed = align(Interactions.of(sparse.csr_array(np.eye(2))), read(table([(5, 1)], time=[7]), time="time"))
    assert mixed[0].users == Ids.from_arrow([0, 1, 5])
    assert mixed[1].times.tolist() == [7]
