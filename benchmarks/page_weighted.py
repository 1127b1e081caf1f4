"""The section of docs/results/performance.md on weights of interactions."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import markdown, wrapped

__all__ = ["section"]


def section(found: dict[str, Any]) -> str:
    """From benchmarks/weighted.json."""
    text = wrapped(f"""`python -m benchmarks.weighted_counting`, {found["machine"]}, one thread, {found["data"]}.
    **K** counted with every user counting 1, with users damped (γ = ½), and with pairs that have weights besides: best
    seconds, and the ratio to the first.""")
    rows = []
    for way, seconds in found["counting"].items():
        plain = seconds["plain"]
        others = [f"{seconds[how]:.3f} ({seconds[how] / plain:.2f}×)" for how in ("users damped", "pairs weighted")]
        rows.append([way, f"{plain:.3f}", *others])
    table = markdown(["K", "plain, s", "users damped", "pairs weighted"], rows)
    seconds = found["ranking"]
    shown = {kind: f"{seconds[kind]:.2f} s ({seconds[kind] / seconds['none']:.2f}×)" for kind in ("log", "linear")}
    ranked = wrapped(f"""**Users' problems**: the ten best for every tenth user take {seconds["none"]:.2f} s where
    every item counts 1, {shown["log"]} where weights (random, some 50 on average) count by their logarithm, and
    {shown["linear"]} where they count as they are.""")
    return "\n".join(["## Weights\n", text, table, ranked])
