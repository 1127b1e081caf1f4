"""Co-occurrence: how many users chose both item i and item j, or how much those users weigh together.

`count_upper` and `count_pairs` take `weights`, one for each user, or `values`, one for each pair of user and item (then
user v adds x_i(v) x_j(v)), or neither: every user counts 1. Which of them is None is known when the function is
compiled, so that plain counting does not pay for the other two. Counters are int32 for counts, int64 for weights, which
are integers: sums are the same in any order. They are float64 for values: a sum runs over the users in ascending order,
whatever the block, so that it is the same to the last bit, and the same for (i, j) and (j, i). `count_touched` asks
only whether there is such a user, and stores nothing.
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

    `item_where[p]` is the place of the p-th (item, user) pair inside `user_items`; since rows are
    sorted, everything from there to the end of the user's row is a j >= i, which halves the work.
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


_THIN = 64  # a row in which less than one item in so many was touched is sorted
_AHEAD = 4  # how many users ahead rows are prefetched: enough to hide the latency of memory


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
    """Count all items of the users at first..stop of `item_users`; append the items found to `touched`, from `end` on.

    Returns the end of the list. The list is written without a branch: each item is written at its end, and the length
    grows only if the counter of the item is still zero. So weights and values must be > 0, for sums that are never 0.
    With `whole`, no list is kept: the caller goes through all counters.
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
        whole = (stop - first_pair) * mean > counter.size  # so many counts that a list would be long
        end = count_row(pairs, first_pair, stop, whole, counter, indices, end, weights, values)
        if whole or (end - start) * _THIN > counter.size:
            # For a row this full, going through all counters is faster than sorting.
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

    Co-occurrences are not counted: only a stamp is stored for each item, the last row for which it was found. `stamps`
    (one number per item) contains no number of `rows` on entry. With `item_where` (see `count_upper`; users' rows must
    be sorted), only j >= rows[k] are counted, which halves the work. Twin: tests/reference.py::cooccurrence.
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
    """out[i] += the total length of the rows of item i's users: the number of counts needed for row i of K."""
    for v in range(user_indptr.size - 1):
        length = user_indptr[v + 1] - user_indptr[v]
        for q in range(user_indptr[v], user_indptr[v + 1]):
            out[user_items[q]] += length
