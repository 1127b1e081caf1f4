"""Which ratios of a benchmark's figures are followed over time.

Each is komd's figure divided by that of the peer in the same run, so that less is better and other machines can be
compared. A figure is named by its path in the benchmark's json file; several paths are added up.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BENCHMARKS", "WITHOUT_PEER", "ratios"]

_ECFOMD, _MSDW = "ECFOMD(storage='streamed')", "MSDW(alpha=0.15, locality=3, storage='streamed')"

# By json file below benchmarks/: a title, and (komd's figures, the peer's figures) of each ratio.
BENCHMARKS: dict[str, tuple[str, dict[str, tuple[list[str], list[str]]]]] = {
    "results.json": (
        "MovieLens 1M, `make bench`",
        {
            "fit and recommend / implicit's ALS": (["whole_job/komd"], ["whole_job/als"]),
            "one user's problem / cvxopt": (["solver/komd"], ["solver/cvxopt"]),
            "the kernel / scipy": (["gram/komd"], ["gram/scipy"]),
        },
    ),
    "first_use.json": (
        "First use, `python -m benchmarks.first_use`",
        {
            "komd --help / starting Python": (["help"], ["python"]),
            "first fit and list, compiling / the next time": (
                ["cold/fit/seconds", "cold/recommend/seconds"],
                ["warm/fit/seconds", "warm/recommend/seconds"],
            ),
        },
    ),
    "msd.json": (
        "Size of the Million Song Dataset, `make bench-msd`",
        {
            "ECFOMD / implicit's ALS": (["ecfomd/fit", "ecfomd/rank"], ["als/fit", "als/rank"]),
            "ECFOMD / implicit's cosine": (["ecfomd/fit", "ecfomd/rank"], ["cosine/fit", "cosine/rank"]),
            "ECFOMD, memory / implicit's cosine": (["ecfomd/peak"], ["cosine/peak"]),
        },
    ),
    "scale.json": (
        "Eight times as much, `make bench-scale`",
        {
            f"8 × {name} / as they were": ([f"lines/{name}/3/seconds"], [f"lines/{name}/0/seconds"])
            for name in ("users", "items", "activity")
        },
    ),
    "filter.json": (
        "Filters, `make bench-filter`",
        {
            "eigenvectors of a full K / Lanczos": (["eigenvectors/full/seconds"], ["eigenvectors/full/lanczos"]),
            "eigenvectors of a sparse K / Lanczos": (["eigenvectors/sparse/seconds"], ["eigenvectors/sparse/lanczos"]),
            "scoring, 256 factors beside a sparse K / K alone": (["large/seconds/256"], ["large/alone"]),
        },
    ),
    "spark.json": (
        "Spark, `make bench-spark`",
        {
            f"{words} / Spark's ALS": (
                [f"{name}/spark/fit", f"{name}/spark/recommend"],
                [f"{name}/als/fit", f"{name}/als/recommend"],
            )
            for name, words in (("ml-1m", "MovieLens 1M"), ("generated", "generated data"))
        },
    ),
    "tuning.json": ("Tuning", {"matrices reused / built anew": (["with_reuse"], ["without"])}),
    "updates.json": (
        "Updates",
        {
            "one pair / refit": (["single/0.0/batches/1/update"], ["single/0.0/batches/1/refit"]),
            "one pair, users damped / refit": (["single/0.5/batches/1/update"], ["single/0.5/batches/1/refit"]),
            "1 % of 48 million pairs, ECFOMD / refit": (
                [f"large/models/{_ECFOMD}/update"],
                [f"large/models/{_ECFOMD}/refit"],
            ),
            "1 % of 48 million pairs, MSDW / refit": (
                [f"large/models/{_MSDW}/update"],
                [f"large/models/{_MSDW}/refit"],
            ),
        },
    ),
    "weighted.json": (
        "Weighted interactions",
        {
            f"{storage} K, pairs weighted / not": (
                [f"counting/{storage}/pairs weighted"],
                [f"counting/{storage}/plain"],
            )
            for storage in ("dense", "sparse")
        },
    ),
    "name_search.json": (
        "Search by name",
        {
            f"{names}, median query / {peer}": ([f"data/{k}/figures/ours/p50"], [f"data/{k}/figures/{key}/p50"])
            for k, names in ((0, "artists"), (1, "generated names"))
            for key, peer in (("fts5", "SQLite's FTS5"), ("rapidfuzz", "rapidfuzz"))
        },
    ),
    "serve/latency.json": (
        "Latency of the service, median",
        {
            f"{words} / echo": ([f"{name}/quietest/p50"], ["echo/quietest/p50"])
            for name, words in (("strangers", "new users"), ("reasons", "with reasons"), ("users", "known users"))
        },
    ),
    "serve/learning.json": (
        "Latency while learning",
        {
            "median, learning / not": (["with/quietest/p50"], ["without/quietest/p50"]),
            "99th percentile, learning / not": (["with/quietest/p99"], ["without/quietest/p99"]),
        },
    ),
    "serve/fairness.json": (
        "Latency beside greedy clients",
        {"99th percentile, beside them / alone": (["with/quietest/p99"], ["without/quietest/p99"])},
    ),
}
WITHOUT_PEER = {"kills.json", "serve/soak.json"}  # what these measure is not a speed beside a peer's


def ratios(file: str, figures: dict[str, Any]) -> dict[str, float]:
    """The ratios of one run, to three digits; those whose figures it does not have are left out.

    >>> ratios("tuning.json", {"with_reuse": 1.0, "without": 4.0})
    {'matrices reused / built anew': 0.25}
    """
    found = {}
    for name, (ours, peers) in BENCHMARKS[file][1].items():
        above, below = ([_figure(figures, path) for path in paths] for paths in (ours, peers))
        if None not in above and None not in below:
            found[name] = float(f"{sum(filter(None, above)) / sum(filter(None, below)):.3g}")
    return found


def _figure(figures: Any, path: str) -> float | None:
    """The number at a path; None where a run has none, such as a contender that failed."""
    for key in path.split("/"):
        try:
            figures = figures[int(key) if isinstance(figures, list) else key]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return float(figures) if isinstance(figures, int | float) and figures > 0 else None
