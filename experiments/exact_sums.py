"""What rounding to fixed point costs: lists with exact sums beside lists without any rounding.

    python -m experiments.exact_sums      # about two minutes; writes docs/results/exact_sums.md

komd rounds users' weights and entries of K to multiples of a power of two before it sums them, so that sums are the
same in any order (docs/guide/maths.md, "Exact sums"). Here K is also computed by scipy in double precision from weights
as they are, and its row sums from entries as they are; the two models' lists of 100 items for all users are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array

import komd
from benchmarks.markdown import markdown
from benchmarks.measure import machine
from experiments.places import RESULTS, load
from komd.kernels.functions import kernel_named
from komd.matrix.sparse import SparseMatrix

SETS = ("ml-100k", "ml-1m", "filmtrust", "ciao", "lastfm", "delicious", "book-crossing", "netflix")
KERNELS = ("linear", "tanimoto")
DAMPING = 0.5
DEPTH = 100

PAGE = """# What exact sums cost

Written by `python -m experiments.exact_sums`, {machine}. CF-KOMD with users damped (γ = ½), sparse K, all users of each
data set, nothing held out. *Exact sums*: users' weights and entries of K rounded to multiples of 2⁻⁴⁰ before they are
summed. *Not rounded*: the same K from weights in double precision, summed in double precision (scipy, numpy). Entries
are single precision in both: `other entries` are those that differ, all by one unit in the last place or less than
{ulps} units. `other lists` are users whose {depth} best items or their order differ; `scores` is the largest difference
of a score among them, relative to the largest score of the list.

{table}
{words}
"""


def unrounded(model: komd.CFKOMD, fitted: komd.CFKOMD) -> komd.CFKOMD:
    """The same model, from weights and sums in double precision."""
    rows, items = fitted.catalogue.histories.rows, len(fitted.catalogue.order)
    weights = np.maximum(np.diff(rows.indptr), 1) ** -DAMPING
    R = csr_array((np.ones(len(rows.indices)), rows.indices, rows.indptr), shape=(len(weights), items))
    both = csr_array(R.T @ (diags_array(weights) @ R))
    both.sort_indices()
    degree, row = both.diagonal(), np.repeat(np.arange(items), np.diff(both.indptr))
    values = kernel_named(model.kernel).of_counts(both.data, degree[row], degree[both.indices]).astype(np.float32)
    values[row == both.indices] = 1.0
    matrix = SparseMatrix(both.indptr.astype(np.int64), both.indices.astype(np.int32), values)
    S = np.zeros(items)
    filled = np.flatnonzero(np.diff(matrix.indptr))
    S[filled] = np.add.reduceat(values, matrix.indptr[filled], dtype=np.float64)
    return model.clone().learned(fitted.catalogue, matrix, S)


def compare(data: komd.Interactions, kernel: str) -> dict[str, Any]:
    """How the two differ."""
    model = komd.CFKOMD(kernel=kernel, user_damping=DAMPING, storage="sparse")
    exact: Any = model.clone().fit(data)
    other: Any = unrounded(model, exact)
    a, b = exact.matrix.values, other.matrix.values
    lists = [each.recommend(n=DEPTH).to_arrow() for each in (exact, other)]
    users, items, scores = ([table.column(k).to_numpy() for table in lists] for k in (0, 1, 2))
    differ = (items[0] != items[1]) | (users[0] != users[1])
    most = np.maximum.reduceat(np.abs(scores[0]), np.flatnonzero(np.append(True, users[0][1:] != users[0][:-1])))
    return {
        "entries": len(a),
        "other_entries": int((a != b).sum()),
        "ulps": float((np.abs(a - b) / np.spacing(np.maximum(a, b))).max(initial=0)),
        "users": len(most),
        "other_lists": len(set(users[0][differ].tolist())),
        "scores": float((np.abs(scores[0] - scores[1]) / most.max()).max()),
    }


def main() -> None:
    rows, worst, changed = [], 0.0, 0
    for name in SETS:
        data = load(name)
        for kernel in KERNELS if data is not None else ():
            found = compare(data, kernel)
            worst, changed = max(worst, found["ulps"]), changed + found["other_lists"]
            shown = [f"{found[key]:,}" for key in ("entries", "other_entries", "users", "other_lists")]
            rows.append([name, kernel, *shown, f"{found['scores']:.1g}"])
            print(rows[-1], flush=True)
    head = ["data", "kernel", "entries of K", "other entries", "users", "other lists", "scores"]
    words = f"In all, {changed:,} lists of {sum(int(row[4].replace(',', '')) for row in rows):,} differ."
    text = PAGE.format(
        machine=machine(), ulps=int(np.floor(worst)) + 1, depth=DEPTH, table=markdown(head, rows), words=words
    )
    (RESULTS / "exact_sums.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
