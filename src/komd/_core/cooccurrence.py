"""Co-occurrence: how many users chose both item i and item j, or how much those users weigh together.

`count_upper` and `count_pairs` take `weights`, one for each user, or `values`, one for each pair of user and item (then
user v adds x_i(v) x_j(v)), or neither: every user counts 1. None is settled when the function is compiled, so that
plain counting carries nothing of the two. Counters are int32 for counts, int64 for weights, which are integers: sums
are the same in any order. They are float64 for values: a sum runs over the users in ascending order, whatever the
block, so that it is the same to the last bit, and the same for (i, j) and (j, i).
`count_touched` asks only whether there is such a user, and stores nothing.
"""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled, inner
from komd._core.groups import CountedPairs, PairValues
from komd._core.prefetch import fetch_ahead, prefetch

__all__ = ["count_pairs", "count_row", "count_touched", "count_upper", "reach"]


@compiled
def count_upper(
    pairs: CountedPairs,
    item_where: np.ndarray,
    first: int,
    last: int,
    counts: np.ndarray,
    weights: np.ndarray | None = None,
    values: np.ndarray | None = None,
) -> None:
    """counts[i - first, j] += |U_i ∩ U_j| for items first <= i < last and all j >= i.

    `item_where[p]` is the place of the p-th (item, user) pair inside `user_items`; rows being sorted,
    everything from there to the end of the user's row is a j >= i: half of the work is never done.
    `values` are aligned with `user_items`. Twins: tests/reference.py::cooccurrence, tests/reference.py::dot_products.
    """
    user_items = pairs.user_items
    for i in range(first, last):
        row = counts[i - first]
        for p in range(pairs.item_indptr[i], pairs.item_indptr[i + 1]):
            v = pairs.item_users[p]
            if weights is not None:
                weight = weights[v]
            elif values is not None:
                weight = np.float64(values[item_where[p]])
            else:
                weight = 1
            for k in range(item_where[p], pairs.user_indptr[v + 1]):
                if values is None:
                    row[np.uint32(user_items[k])] += weight
                else:
                    row[np.uint32(user_items[k])] += weight * values[k]


_THIN = 64  # a row with less than one item in so many touched is sorted
_AHEAD = 4  # users whose rows are asked for in advance: enough to hide a trip to memory


@inner
def count_row(
    pairs: CountedPairs,
    first: int,
    stop: int,
    whole: bool,
    counter: np.ndarray,
    touched: np.ndarray,
    end: int,
    weights: np.ndarray | None,
    values: PairValues | None,
) -> int:
    """Count all items of the users at first..stop of `item_users`; list what is met from `end` of `touched`.

    Returns the end of the list. It is kept without a branch: a place is always written, the length grows only on a
    first touch, which is where the counter is still zero: hence weights and values must be > 0, and sums of such never
    are 0. A row that is counted `whole`, for the caller to go through all counters, keeps no list.
    """
    item_users, user_indptr, user_items = pairs.item_users, pairs.user_indptr, pairs.user_items
    for p in range(first, stop):
        fetch_ahead(p, item_users, user_indptr, user_items)
        v = item_users[p]
        if weights is not None:
            weight = weights[v]
        elif values is not None:
            fetch_ahead(p, item_users, user_indptr, values.of_user_items)
            weight = np.float64(values.of_item_users[p])
        else:
            weight = 1
        if whole:
            for k in range(user_indptr[v], user_indptr[v + 1]):
                if values is None:
                    counter[np.uint32(user_items[k])] += weight
                else:
                    counter[np.uint32(user_items[k])] += weight * values.of_user_items[k]
        else:
            for k in range(user_indptr[v], user_indptr[v + 1]):
                j = user_items[k]
                seen = counter[np.uint32(j)]
                touched[end] = j
                end += seen == 0
                if values is None:
                    counter[np.uint32(j)] = seen + weight
                else:
                    counter[np.uint32(j)] = seen + weight * values.of_user_items[k]
    return end


@compiled
def count_pairs(
    pairs: CountedPairs,
    rows: np.ndarray,
    counter: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    counts: np.ndarray,
    weights: np.ndarray | None = None,
    values: PairValues | None = None,
) -> None:
    """These rows of the co-occurrence matrix, compressed, columns ascending.

    `counter` is scratch of one number per item, all zero on entry and on return. `indptr` (rows + 1)
    is filled from indptr[0]; `indices` and `counts` are long enough for every row, and one place
    longer. Twins: tests/reference.py::cooccurrence, tests/reference.py::dot_products.
    """
    mean = pairs.user_items.size // max(pairs.user_indptr.size - 1, 1)
    end = indptr[0]
    for r in range(rows.size):
        i = rows[r]
        start = end
        first_pair, stop = pairs.item_indptr[i], pairs.item_indptr[i + 1]
        whole = (stop - first_pair) * mean > counter.size  # so many counts that a list would not be short
        end = count_row(pairs, first_pair, stop, whole, counter, indices, end, weights, values)
        if whole or (end - start) * _THIN > counter.size:
            # So full a row is put in order by going through all counters, not by sorting.
            end = start
            for j in range(counter.size):
                seen = counter[np.uint32(j)]
                indices[end] = j
                counts[end] = seen
                end += seen != 0
                counter[np.uint32(j)] = 0
        else:
            indices[start:end].sort()
            for p in range(start, end):
                j = indices[p]
                counts[p] = counter[j]
                counter[j] = 0
        indptr[r + 1] = end


@compiled
def count_touched(
    pairs: CountedPairs,
    rows: np.ndarray,
    stamps: np.ndarray,
    touched: np.ndarray,
    item_where: np.ndarray | None = None,
) -> None:
    """touched[k] = the number of items j, itself included, that share a user with item rows[k].

    Only whether, not how often: nothing is stored but a stamp for each item, which says for which row it was last
    met. `stamps` (one number an item) holds no number of `rows` on entry. With `item_where` (see `count_upper`; rows
    of users sorted) only j >= rows[k] are counted: half of the work. Twin: tests/reference.py::cooccurrence.
    """
    item_users, user_indptr, user_items = pairs.item_users, pairs.user_indptr, pairs.user_items
    for k in range(rows.size):
        i = rows[k]
        met = 0
        stop = pairs.item_indptr[i + 1]
        for p in range(pairs.item_indptr[i], stop):
            if p + _AHEAD < stop:
                if item_where is None:
                    prefetch(user_items, user_indptr[item_users[p + _AHEAD]])
                else:
                    prefetch(user_items, item_where[p + _AHEAD])
            v = item_users[p]
            if item_where is None:
                start = user_indptr[v]
            else:
                start = item_where[p]
            for q in range(start, user_indptr[v + 1]):
                j = np.uint32(user_items[q])
                met += stamps[j] != i
                stamps[j] = i
        touched[k] = met


@compiled
def reach(user_indptr: np.ndarray, user_items: np.ndarray, out: np.ndarray) -> None:
    """out[i] += the items that the users of item i have, all together: the counts that row i of K takes."""
    for v in range(user_indptr.size - 1):
        length = user_indptr[v + 1] - user_indptr[v]
        for q in range(user_indptr[v], user_indptr[v + 1]):
            out[user_items[q]] += length
