"""Write docs/results/sparsity.md from what the sparsity_* experiments have kept in `work/`."""

from __future__ import annotations

from typing import Any

from experiments import sparsity_costs, sparsity_table, sparsity_tails
from experiments.places import RESULTS, kept

HEAD = """# How full kernels are, measured

Written by `python -m experiments.sparsity`; every figure comes from a run of it.
[guide/sparsity.md](../guide/sparsity.md) has the theory and the three formulas. `komd analyze DATA --report DIR`, or
`komd.sparsity.analyze(data)` in Python, says the same of your own data.
"""


def page(tails: dict[str, Any], table: dict[str, Any], costs: dict[str, Any]) -> str:
    """The page; a part without results says how to get them."""
    return "\n".join([HEAD, _tails(tails), _table(table), _costs(costs)])


def _missing(name: str) -> str:
    return f"Not measured yet: `python -m experiments.{name}`.\n"


def _tails(found: dict[str, Any]) -> str:
    head = "## One tail at a time\n\n"
    if not found:
        return head + _missing("sparsity_tails")
    first = {what: rows[0]["K"] for what, rows in found.items()}
    last = {what: rows[-1]["K"] for what, rows in found.items()}
    paper = found["items"][0]["d(K)"]
    return f"""{head}Generated data, always {sparsity_tails.USERS:,} users × {sparsity_tails.ITEMS:,} items with exactly
{sparsity_tails.PAIRS:,} pairs; one property is changed at a time. Means over {sparsity_tails.SEEDS} seeds.

![Density of K as one tail, or clustering, grows; counted, and by three formulas](figures/sparsity-tails.svg)

The item tail alone takes K from {first["items"]:.3g} % down to {last["items"]:.3g} %, the user tail alone from
{first["users"]:.3g} % up to {last["users"]:.3g} %, while d(K) says {paper:.3g} % throughout. Tastes take it down to
{last["tastes"]:.3g} %, unseen by every formula.

<details><summary>The figures</summary>

{sparsity_tails.table(found)}
</details>
"""


def _table(found: dict[str, Any]) -> str:
    head = "## Real data\n\n"
    if not found:
        return head + _missing("sparsity_table")
    words = []
    for name in ("d(K)", "degree-aware", "saturating"):
        times, where = sparsity_table.worst(found, name)
        words.append(f"{name} {times:.3g} times (on {where})")
    return f"""{head}![Density of K on real data sets, with its estimates](figures/sparsity-densities.svg)

{sparsity_table.table(found)}
In brackets: estimate divided by truth. The largest errors:
{", ".join(words)}.
The sample was given 1/{sparsity_table.SAMPLE} of the visits of the full count, or 20 rows of each stratum where that is
more; the interval is the 95 % one.

By how much each tail multiplies the density, against equally popular items or equally active users; and what no tail
explains, K against the saturating estimate (below one: tastes are clustered).

{sparsity_table.effects_table(found)}"""


def _costs(found: dict[str, Any]) -> str:
    head = "## What it costs\n\n"
    if not found:
        return head + _missing("sparsity_costs")
    ratios = [row["seconds"][0] / row["seconds"][1] for held in found.values() for row in held.values()]
    apart = max(max(each, 1 / each) for each in ratios)
    bytes_ = max(
        abs(row["bytes"][0] / row["bytes"][1] - 1) for held in found.values() for row in held.values() if row["bytes"]
    )
    return f"""{head}Bytes follow from m and the density: 4 m² dense, 8 for each non-zero sparse. Seconds are modelled
as a time per visit, per entry and per pair; the speed of this machine is found by building two small kernels
(`matrix/cost.py`). Other work on the machine affects both sides of the comparison.

{sparsity_costs.table(found)}
Bytes are within {max(0.1, 100 * bytes_):.1f} %, seconds within {apart:.2g} times. The Tanimoto kernel, the best of
{sparsity_costs.REPEATS} builds; dense up to {sparsity_costs.DENSE:,} items. Streamed, K is computed twice: once for
its row sums, as in fitting, once in strips, as in ranking.
"""


def write() -> None:
    text = page(kept("sparsity_tails"), kept("sparsity_table"), kept("sparsity_costs"))
    (RESULTS / "sparsity.md").write_text(text, encoding="utf-8")
    print("wrote docs/results/sparsity.md")


def run() -> None:
    for part in (sparsity_tails, sparsity_table, sparsity_costs):
        part.run()
        write()


if __name__ == "__main__":
    run()
