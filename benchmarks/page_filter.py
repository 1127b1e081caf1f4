"""The section of docs/results/performance.md on filters."""

from __future__ import annotations

import textwrap
from typing import Any

__all__ = ["section"]


def section(found: dict[str, Any]) -> str:
    """From benchmarks/filter.json."""
    lines = [
        "## Filters",
        "",
        _wrapped(
            f"`python -m benchmarks.filter`, {found['machine']}. Generated data, γ = ½, β = 0.2, λ = 1. "
            f"**{found['rank']} eigenvectors** of a sparse K, ours (block Krylov: {found['passes']}, "
            f"{found['products']:,.0f} products with a vector, two threads) and SciPy's `eigsh` (Lanczos, tolerance "
            "10⁻³, one pass per product, one thread):"
        ),
        "",
        "| items | entries of K | ours, s | Lanczos, s | its passes | λ₁ | last λ | ours below Lanczos's, at most |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in found["eigenvectors"].values():
        lines.append(
            f"| {one['items']:,} | {one['nonzeros'] / 1e6:.1f}M | {one['seconds']:.1f} | {one['lanczos']:.1f} | "
            f"{one['lanczos_products']:,} | {one['largest']:.0f} | {one['last']:.2f} | {100 * one['off']:.2f} % "
            f"(upper half {100 * one['off_upper_half']:.3f} %) |"
        )
    lines += [
        "",
        _wrapped(
            f"**Scoring**: the 100 best for {found['ranked_users']:,} users, two threads, the best of three turns, and "
            f"how many times the seconds of K as it is (rank {found['rank']}):"
        ),
        "",
        "| items | K as it is | its s | exact filter | low rank, written out dense | low rank beside a sparse K |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in found["scoring"].values():
        seconds = one["seconds"]
        plain = seconds["K as it is"]
        names = ("exact filter", "filter of low rank, dense", "filter of low rank, sparse")
        cells = [f"{seconds[n]:.2f} ({seconds[n] / plain:.1f}×)" if n in seconds else "" for n in names]
        held = f"{one['storage']}, {100 * one['density']:.2g} % full"
        lines.append(f"| {one['items']:,} | {held} | {plain:.2f} | {' | '.join(cells)} |")
    lines += [
        "",
        _wrapped(
            "A filter that is held dense, exact or not, costs about as much as K itself: the choice for up to 20,000 "
            "items. Beside a sparse K the low-rank part costs one multiply-add per factor, item and user: use it for "
            "catalogues whose dense filter does not fit the memory."
        ),
        "",
    ]
    return "\n".join(lines)


def _wrapped(words: str) -> str:
    return textwrap.fill(words, 118, break_long_words=False, break_on_hyphens=False)
