"""The part of docs/results/performance.md that `make bench` measures."""

from __future__ import annotations

from typing import Any

__all__ = ["section"]

PAGE = """## MovieLens 1M

From one run of `make bench`. Contenders take turns, and the best of several turns counts: read the ratios, not the
seconds.

Machine: {machine}. Data: {data}, {shape}.

### Fit, and ten recommendations for all users

| | seconds | ratio |
| --- | --- | --- |
| implicit's ALS (64 factors, 15 iterations, 2 threads) | {als:.2f} | 1 |
| komd `CFKOMD(kernel="linear")`, every problem solved exactly, 2 threads | {komd:.2f} | **{job_ratio:.2f}** |

Of komd's time the fit takes {fit:.2f} s, solving and ranking {recommend:.2f} s.

**How near the limit.** Scoring all users takes {work:.2g} multiply-adds; one core does {rate:.2g} of them a
second, which reads K at {score_gb:.0f} GB/s. Summing K from first to last on the same core reads {stream_gb:.0f} GB/s:
scoring works in the cache (strips of columns, each shared by all users of a block), not in memory.

### One user's problem

| {ranked_users} random users, one core each | milliseconds per user | ratio |
| --- | --- | --- |
| cvxopt | {cvxopt_ms:.2f} | 1 |
| komd, K_u gathered too | {whole_ms:.4f} | 1/{whole_ratio:,.0f} |
| komd (KKT gap {gap:.0e}) | {solve_ms:.4f} | **1/{solver_ratio:,.0f}** |

Each solver solves each problem four times in a row; the best of the last three counts, summed over users. Both get
ready-made matrices, and komd its first gradient; the middle row is all that a model does for one user, including
gathering K_u from K and the call from Python. Most of cvxopt's time goes to long histories; for the median user komd is
{median_ratio:.0f} times faster. komd's objective exceeds cvxopt's by at most {excess:.1e} of its value.

### The kernel between all items

| | seconds | ratio |
| --- | --- | --- |
| scipy `X.T @ X` (counts only) | {scipy:.3f} | 1 |
| komd, counts, cosine and all, 1 thread | {gram_one:.3f} | 1/{gram_one_ratio:.1f} |
| komd, 2 threads | {gram:.3f} | **1/{gram_ratio:.1f}** |

{counts:.2g} co-occurrences; komd counts half of them and gets the others by symmetry.

### A new user

A recommendation for a history of 50 items the model has never seen, from the Python call to the Arrow table:
{median:.2f} ms (median), {p99:.2f} ms (99th percentile).

### The full CF-OMD

`CFOMD()` and `ECFOMD()` beside each other: fit, and evaluation of the test users of the first fold.

{cfomd}
"""


def section(results: dict[str, Any]) -> str:
    """The text, from results.json."""
    job, solver, gram = results["whole_job"], results["solver"], results["gram"]
    return PAGE.format(
        machine=results["machine"],
        data=results["data"],
        shape=results["shape"],
        als=job["als"],
        komd=job["komd"],
        job_ratio=job["komd"] / job["als"],
        fit=results["phases"]["fit"],
        recommend=results["phases"]["recommend"],
        work=results["limits"]["multiply_adds"],
        rate=results["limits"]["per_second_and_core"],
        score_gb=results["limits"]["score_gb_per_second"],
        stream_gb=results["limits"]["stream_gb_per_second"],
        ranked_users=solver["ranked_users"],
        cvxopt_ms=1e3 * solver["cvxopt"] / solver["ranked_users"],
        solve_ms=1e3 * solver["komd"] / solver["ranked_users"],
        solver_ratio=solver["cvxopt"] / solver["komd"],
        whole_ms=1e3 * solver["komd, K_u gathered too"] / solver["ranked_users"],
        whole_ratio=solver["cvxopt"] / solver["komd, K_u gathered too"],
        median_ratio=solver["median_ratio"],
        gap=solver["gap"],
        excess=max(solver["worst_excess"], 0.0),
        scipy=gram["scipy"],
        gram=gram["komd"],
        gram_one=gram["komd, one thread"],
        gram_ratio=gram["scipy"] / gram["komd"],
        gram_one_ratio=gram["scipy"] / gram["komd, one thread"],
        counts=gram["counts"],
        median=results["stranger"]["median_ms"],
        p99=results["stranger"]["p99_ms"],
        cfomd=_cfomd(results["cfomd"]),
    )


def _cfomd(found: dict[str, Any]) -> str:
    head = [
        "| | test users | ECF-OMD, s | CF-OMD, s | ratio | AUC | nDCG@100 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines = [
        f"| {name} | {one['ranked_users']:,} | {one['ecfomd_seconds']:.2f} | {one['seconds']:.2f} | "
        f"{one['seconds'] / one['ecfomd_seconds']:.1f} | {one['auc']:.4f} | {one['ndcg']:.4f} |"
        for name, one in found.items()
    ]
    return "\n".join([*head, *lines])
