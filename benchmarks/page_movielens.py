"""The part of docs/results/performance.md that `make bench` measures."""

from __future__ import annotations

from typing import Any

__all__ = ["section"]

PAGE = """## MovieLens 1M

From one run of `make bench`. Contenders take turns and the best of several turns counts, so what matters is the ratio,
not the seconds.

Machine: {machine}. Data: {data}, {shape}.

### Fit, and ten recommendations for everybody

| | seconds | ratio |
| --- | --- | --- |
| implicit's ALS (64 factors, 15 iterations, 2 threads) | {als:.2f} | 1 |
| komd `CFKOMD(kernel="linear")`, every problem solved exactly, 2 threads | {komd:.2f} | **{job_ratio:.2f}** |

Of komd's time the fit takes {fit:.2f} s, solving and ranking {recommend:.2f} s.

**How near the limit.** Scoring everybody takes {work:.2g} multiply-adds; one core does {rate:.2g} of them a
second, which reads K at {score_gb:.0f} GB/s. Summing K straight through on the same core goes at {stream_gb:.0f} GB/s:
scoring lives off the cache (strips of 1,024 columns shared by 64 people), not off memory.

### One person's problem

| {people} random people, one core each | milliseconds a person | ratio |
| --- | --- | --- |
| cvxopt | {cvxopt_ms:.2f} | 1 |
| komd, K_u gathered too | {whole_ms:.4f} | 1/{whole_ratio:,.0f} |
| komd (KKT gap {gap:.0e}) | {solve_ms:.4f} | **1/{solver_ratio:,.0f}** |

A problem is solved four times by the one, then by the other; the best of the last three counts, summed over people.
Both get their matrices ready made, and komd its first gradient; the middle row is what a model does for one person,
gathering K_u from K and the call from Python included. Most of cvxopt's time goes to long histories; for the median
person komd is {median_ratio:.0f} times faster. komd's objective exceeds cvxopt's by at most {excess:.1e} of its value.

### The kernel between all items

| | seconds | ratio |
| --- | --- | --- |
| scipy `X.T @ X` (counts only) | {scipy:.3f} | 1 |
| komd, counts, cosine and all, 1 thread | {gram_one:.3f} | 1/{gram_one_ratio:.1f} |
| komd, 2 threads | {gram:.3f} | **1/{gram_ratio:.1f}** |

{counts:.2g} co-occurrences; half of them are found by symmetry.

### One stranger

A recommendation for a history of 50 items the model has never seen, from the Python call to the Arrow table:
{median:.2f} ms (median), {p99:.2f} ms (99th percentile).

### The full CF-OMD

`CFOMD()` for the {cfomd_people:,} test users of the first fold, fit and evaluation: {cfomd:.0f} s
(AUC {cfomd_auc:.4f}, nDCG@100 {cfomd_ndcg:.4f}).

### First use

| | seconds |
| --- | --- |
| `import komd`, beyond starting Python | {import_s:.3f} |
| `komd --help`, whole | {help_s:.2f} |
| first fit + recommend on a small data set, compiling everything | {cold:.1f} |
| the same in the next process, from the disk cache | {warm:.2f} |
"""


def section(results: dict[str, Any]) -> str:
    """The text, from results.json."""
    job, solver, gram, first = results["whole_job"], results["solver"], results["gram"], results["first_use"]
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
        people=solver["people"],
        cvxopt_ms=1e3 * solver["cvxopt"] / solver["people"],
        solve_ms=1e3 * solver["komd"] / solver["people"],
        solver_ratio=solver["cvxopt"] / solver["komd"],
        whole_ms=1e3 * solver["komd, K_u gathered too"] / solver["people"],
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
        cfomd=results["cfomd"]["seconds"],
        cfomd_people=results["cfomd"]["people"],
        cfomd_auc=results["cfomd"]["auc"],
        cfomd_ndcg=results["cfomd"]["ndcg"],
        import_s=first["import"],
        help_s=first["help"],
        cold=first["cold"],
        warm=first["warm"],
    )
