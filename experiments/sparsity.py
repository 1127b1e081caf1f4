"""Write docs/sparsity.md: the theory of K's density, and what the sparsity_* experiments have kept in `work/`."""

from __future__ import annotations

from typing import Any

from experiments import sparsity_costs, sparsity_table, sparsity_tails
from experiments.places import DOCS, kept

THEORY = r"""# How full a kernel is, and why

Written by `python -m experiments.sparsity`; every figure below comes from a run of it. The same is told of your own
data by `komd analyze DATA --report DIR`, or in Python by `komd.sparsity.analyze(data)`.

A kernel without its constant term is zero exactly where two items share no user: K(i, j) ≠ 0 if and only if somebody
chose both i and j. So its density is a property of the data, the same for every kernel, and it decides what K weighs
and how long it takes. Symbols are those of [maths.md](maths.md): n users, m items, N pairs; user v has a_v items, item
i has d_i users.

## Counting

Row i of K has as many non-zeros as there are items among those of the users of i. Finding them takes Σ_{v ∈ U_i} a_v
looks, Σ_v a_v² for all rows, and one stamp an item: K is never held. K is symmetric, so half of the looks are enough.

Above a limit (two billion looks) a sample of rows is counted instead. How full a row is depends above all on its
looks, which are known for every item: items are ordered by them and cut into 32 strata, and rows are drawn at random
from each. Rows of items with one user need no drawing: they are as full as that user is active. The 95 % interval is
Student's over the strata, with the degrees of freedom of a single one, since rows within a stratum are skewed.

## The paper's d(K)

Let every cell of R be filled with the same probability p = N/(nm). Two items share a given user with probability p²,
and some user with 1 − (1 − p²)^n; the m items on the diagonal are always met:

    d(K) = ( m + (m² − m) (1 − (1 − p²)^n) ) / m²

No tails enter. Users are taken for equally active, items for equally popular.

## Degree-aware

Keep both tails and draw R at random among all with these degrees. User v holds item i with probability about
d_i a_v / N, and i and j both with d_i d_j a_v (a_v − 1) / N². Summed over users, two items share

    λ_ij = d_i d_j Σ_v a_v (a_v − 1) / N²

users on average, and, being many and rare, hardly dependent events, at least one with probability 1 − exp(−λ_ij). The
estimate is the mean of that over all pairs of items, the diagonal being met. Both of the paper's observations can be
read off:

- **Long tails on users fill K.** Activity enters as Σ a_v (a_v − 1) only. At a fixed number of pairs that is least when
  all users are equally active, and grows with the variance of activity: one user with a thousand items joins half a
  million pairs of items.
- **Long tails on items empty K.** 1 − exp(−λ) is concave in λ: at a fixed mean of λ (and the mean is fixed, for
  Σ_ij d_i d_j = N²) the density is greatest when all d_i are equal. Popular items meet the same items over and over,
  rare ones meet nobody.

## Saturating

d_i a_v / N is no probability: on FilmTrust it exceeds one for the popular films and the active users, who are then
counted as having the same film several times. What they cannot have twice they have elsewhere, which fills K further.
The cure is the random R of greatest entropy whose expected degrees are the true ones,

    p_iv = x_i y_v / (1 + x_i y_v),    Σ_v p_iv = d_i,    Σ_i p_iv = a_v

with x and y found by turns (some dozens of rounds on binned degrees). User v has a_v items, not a_v on average, which
makes a pair of them c_v = (1 − 1/a_v)/(1 − 1/m) times as likely, so i and j share λ_ij = Σ_v c_v p_iv p_jv users. The
rarer of the two has d = min(d_i, d_j) users, and each of them has the other item with probability λ_ij/d:

    P(K_ij ≠ 0) ≈ 1 − (1 − λ_ij/d)^d

averaged over pairs of items. On random data with given degrees this is within 3 %
(`tests/matrix/test_expected_density.py`). It needs the two lists of degrees and nothing else, and takes hundredths of
a second on data of any size.

Flattening one list (everybody with the mean, N unchanged) and comparing gives the factor by which that tail multiplies
the density: this is how `komd analyze` says which tail drives it.

## Limits

Both estimates know degrees only. People with the same taste meet at the same items, so K is emptier between tastes
and fuller within them than chance would have it; "only tastes" below changes no degree and no estimate, and divides the
density by two. Where active users take the rare items and casual ones keep to the popular, as on Netflix and FilmTrust,
K is fuller than by chance. No function of the degrees can see either: then the sample, which costs a fraction of a
second more, is the answer.
"""


def page(tails: dict[str, Any], table: dict[str, Any], costs: dict[str, Any]) -> str:
    """The whole page; a part without results says how to get them."""
    return "\n".join([THEORY, _tails(tails), _table(table), _costs(costs)])


def _missing(name: str) -> str:
    return f"Not measured yet: `python -m experiments.{name}`.\n"


def _tails(found: dict[str, Any]) -> str:
    head = "## One tail at a time\n\n"
    if not found:
        return head + _missing("sparsity_tails")
    first = {what: rows[0]["K"] for what, rows in found.items()}
    last = {what: rows[-1]["K"] for what, rows in found.items()}
    paper = found["items"][0]["d(K)"]
    return f"""{head}Made-up data, always {sparsity_tails.USERS:,} users × {sparsity_tails.ITEMS:,} items with exactly
{sparsity_tails.PAIRS:,} pairs; only one thing is changed at a time. Means over {sparsity_tails.SEEDS} seeds.

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
In brackets: estimate divided by truth. Where they miss it most:
{", ".join(words)}.
The sample was given 1/{sparsity_table.SAMPLE} of the looks of the full count, or 20 rows of each stratum where that is
more; its interval is the 95 % one.

What multiplies the density: each tail, against equally popular items or equally active users; and what no tail
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
as so much a look, an entry and a pair; how fast this machine is at them is found by building two small kernels
(`matrix/cost.py`). Other work on the machine moves both sides of the comparison.

{sparsity_costs.table(found)}
Bytes are within {max(0.1, 100 * bytes_):.1f} %, seconds within {apart:.2g} times. The Tanimoto kernel, the best of
{sparsity_costs.REPEATS} builds; dense up to {sparsity_costs.DENSE:,} items. Streamed, K is computed twice: once for
its sums, as fitting does, once in strips, as ranking does.
"""


def write() -> None:
    text = page(kept("sparsity_tails"), kept("sparsity_table"), kept("sparsity_costs"))
    (DOCS / "sparsity.md").write_text(text, encoding="utf-8")
    print("wrote docs/sparsity.md")


def run() -> None:
    for part in (sparsity_tails, sparsity_table, sparsity_costs):
        part.run()
        write()


if __name__ == "__main__":
    run()
