"""Write docs/results/scale.md: what Spark costs, and what a catalogue too large for one node would need.

Figures come from `make bench-msd` and `python -m benchmarks.spark` (benchmarks/msd.json, benchmarks/spark.json), and
from a simulation here: interactions in the shape of the Million Song Dataset are cut into shards of items as a cluster
would, and what each shard would hold, count and read is added up pair by pair.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import komd
from benchmarks.markdown import markdown, wrapped
from experiments.places import RESULTS, ROOT, keep, kept

SHARDS = (1, 4, 16, 64)
USERS, STRIP, DEPTH = 200_000, 8_192, 500
TARGET = {"users": 100e6, "items": 10e6, "pairs": 10e9}


def simulate() -> dict[str, Any]:
    """What each shard of columns of K would hold, count and read, for two ways to divide the items."""
    catalogue = komd.Popularity().fit(komd.generate_like("msd", users=USERS)).catalogue
    rows, items = catalogue.histories, len(catalogue.order)
    activity = rows.lengths
    of_user = np.repeat(activity, activity).astype(float)  # counts that a pair gives its column
    lines = []
    for shards in SHARDS:
        for how in ("dealt", "contiguous"):
            of_item = np.arange(items) % shards if how == "dealt" else np.arange(items) * shards // items
            counts = np.bincount(of_item[rows.indices], weights=of_user, minlength=shards)
            pairs = np.bincount(of_item[rows.indices], minlength=shards)
            strips = -(-np.bincount(of_item, minlength=shards) // STRIP)
            lines.append(
                {
                    "shards": shards,
                    "how": how,
                    "busiest": float(counts.max() / counts.mean()),
                    "memory": float((2 * pairs / strips).max() + 4 * len(rows)),
                    "read": float(strips.max()) * 4 * len(rows.indices),
                }
            )
    squares = float((activity.astype(float) ** 2).mean())
    return {"users": len(rows), "items": items, "pairs": len(rows.indices), "squares": squares, "lines": lines}


def page(found: dict[str, Any]) -> str:
    """The page from what is kept."""
    msd = json.loads((ROOT / "benchmarks" / "msd.json").read_text())
    measured = ROOT / "benchmarks" / "spark.json"
    spark = json.loads(measured.read_text()) if measured.exists() else {}
    parts = [HEAD, _beside_als(spark), _capped(spark), _per_million(msd), _replicated(msd), _sharded(found)]
    return "\n".join(part for part in parts if part)


HEAD = """# Beyond one machine

Written by `python -m experiments.scale` from `benchmarks/msd.json` (`make bench-msd`), `benchmarks/spark.json`
(`make bench-spark`) and a simulation of its own. [guide/spark.md](../guide/spark.md) says how to use komd on Spark and
what runs where.
"""


def _beside_als(spark: dict[str, Any]) -> str:
    if not spark:
        return "## Beside Spark's ALS\n\nNot measured yet: `make bench-spark`.\n"
    rows, ratios = [], []
    for name, words in (("ml-1m", "MovieLens 1M"), ("generated", "generated data")):
        if name not in spark:
            continue
        found = spark[name]
        users, items, pairs = found["data"]
        both = {who: found[who]["fit"] + found[who]["recommend"] for who in ("spark", "als", "alone")}
        labels = {"spark": f"komd on Spark, `{found['model']}`", "als": "Spark's ALS", "alone": "komd alone, 2 threads"}
        for who, label in labels.items():
            one = found[who]
            cells = [f"{words}, {users:,} × {items:,}, {pairs / 1e6:.1f}M pairs" if who == "spark" else "", label]
            cells += [f"{seconds:.1f}" for seconds in (one["fit"], one["recommend"], both[who])]
            rows.append([*cells, f"{one['recall@20']:.3f}", f"{one['ndcg@100']:.3f}"])
        ratios.append(
            f"On {words} komd on Spark takes {both['spark'] / both['alone']:.2f} times as long as komd alone on "
            f"the same two cores, and {both['spark'] / both['als']:.2f} times as long as ALS."
        )
    words = f"""{spark["machine"]}. A standalone cluster of two workers with one core each on loopback, one session.
    Half of what a fifth of the users chose is hidden (`komd.split.folds`, rng 0, first fold); the 100 best items of
    every user are listed, and measured for that fifth. ALS is implicit, rank 64, 10 iterations, otherwise with its
    defaults; its lists contain items the user already has, which are left out before measuring. Fitting includes
    reading the same Parquet files. Spark's ALS found no native BLAS and used Java's. komd's settings were chosen on
    these folds, ALS's were not chosen: with CF-KOMD's defaults λ = 0.01 and β = 0, nDCG@100 is .446 on the generated
    data (`--only generated --model "CFKOMD(user_damping=0.5)"`), behind ALS. Seconds:"""
    table = markdown(["data", "", "fit", "recommend all", "both", "recall@20", "nDCG@100"], rows)
    return "\n".join(["## Beside Spark's ALS\n", wrapped(words), table, wrapped(" ".join(ratios))])


def _capped(spark: dict[str, Any]) -> str:
    if "msd" not in spark:
        return ""
    m = spark["msd"]
    return wrapped(
        f"""Data of the Million Song Dataset's size ({m["data"][0]:,} × {m["data"][1]:,}, text ids of 40 characters)
        with executors of 3 GB, 1 GB of Java and `memory="1.6GB"` for the Python worker: fitted in {m["fit"] / 60:.1f}
        minutes, {m["ranked_users"]:,} users listed to depth {DEPTH} in {m["recommend"] / 60:.1f}. An executor held
        {m["executor_peak"] / 2**30:.2f} GB at most (of 2³⁰ bytes, as Spark counts them), its Java and its Python
        together, mapped pages included."""
    )


def _per_million(msd: dict[str, Any]) -> str:
    one, ranked = msd["ecfomd"], msd["read"]["ranked_users"]
    seconds, work = one["rank_phases"]["seconds"], one["rank_phases"]["work"]
    fixed = seconds["gather"] + seconds["count"]
    each = 2 * (one["rank"] - fixed) / ranked  # core seconds per user
    words = f"""From `make bench-msd`, `ECFOMD` streamed on two cores: {ranked:,} users to depth {DEPTH} in
    {one["rank"]:.0f} s, of which {fixed:.0f} s go into counting K twice, however many users there are, and
    {one["rank"] - fixed:.0f} s into the users. A million users of such data take {each * 1e6 / 3600:.1f} core hours,
    and every task {2 * fixed / 3600:.2f} core hours of counting. Counting grows with Σ a_v² ({work["counts"]:.2g}
    here), scoring with the non-zeros that users touch ({work["multiply-adds"] / ranked:.2g} per user). A node holds
    the pairs twice, four bytes each time, and for each worker a strip of K (at most 2 GB, less with `memory=`) and
    its users' lists."""
    return "## Time and memory for a million users\n\n" + wrapped(words)


def _replicated(msd: dict[str, Any]) -> str:
    one, shape, ranked = msd["ecfomd"], msd["read"]["shape"], msd["read"]["ranked_users"]
    seconds, work = one["rank_phases"]["seconds"], one["rank_phases"]["work"]
    users, items, pairs = TARGET["users"], TARGET["items"], TARGET["pairs"]
    active, more = shape[2] / shape[0], pairs / users / (shape[2] / shape[0])
    counts = work["counts"] / shape[0] * more**2 * users
    counting = counts / (work["counts"] / seconds["count_strip"]) / 3600
    touched = work["multiply-adds"] / ranked * more**2
    scoring = touched * users / (work["multiply-adds"] / seconds["rank_strip"]) / 3600
    words = f"""Every node maps {8 * (pairs + users + items) / 1e9:.0f} GB, which fits nodes of 128 GB. Extrapolated
    from the figures above, activity growing from {active:.0f} to {pairs / users:.0f} items a user with tails alike:
    {counts:.1g} counts, {counting:,.0f} core hours for each task that counts K, and {touched:.1g} multiply-adds per
    user, {scoring:,.0f} core hours for all users: {60 * scoring / 1000:.0f} minutes on a thousand cores. (These are
    upper estimates: no row of K has more entries than there are items.) Every streamed task counts K again, so counting
    grows with the number of tasks: with {scoring / counting:,.0f} tasks it takes half of the time. Rank many users in
    few, large tasks."""
    limit = """A copy on every node works as long as a node can map the pairs twice: at 8 bytes per pair, 15 thousand
    million pairs on nodes of 128 GB, 60 thousand million on 512 GB. The driver, which writes the folder, has the same
    limit, and there can be at most 2³¹ − 1 users or items."""
    title = "## 100 million users, 10 million items, 10 thousand million pairs\n"
    return "\n".join([title, wrapped(words), wrapped(limit)])


def _sharded(found: dict[str, Any]) -> str:
    rows = [
        [str(a["shards"]), a["how"], f"{a['busiest']:.2f}", f"{a['memory'] / 1e6:.1f} MB", f"{a['read'] / 1e6:.0f} MB"]
        for a in found["lines"]
    ]
    dealt, flat = found["lines"][-2:]
    why = f"""A strip of columns J is counted from two things: the users of every item, read in order, and all users'
    items inside J. Only the second must be in memory, and it is small: two bytes per pair of the strip and four per
    user. So the columns can be divided among shards: each keeps the pairs of its strips, reads the users of all items
    from its disk once per strip, in order, and scores its own columns for all users. No shard holds all pairs in
    memory. A user's K₊ is collected from the strips as they pass and sent to the node that solves
    ({4 * found["squares"] / 1e3:.0f} kB per user on average here); the weights, some bytes per item, go to all shards;
    and each shard sends only a user's n best items, which are merged ({12 * DEPTH / 1e3:.0f} kB at depth {DEPTH}). The
    result is exact. Simulated on {found["users"]:,} ×
    {found["items"]:,}, {found["pairs"]:,} pairs in the shape of the Million Song Dataset:"""
    head = ["shards", "items", "busiest / mean, in counts", "memory beside K's strip", "read from disk, a pass"]
    then = f"""Items must be dealt to the shards in turn, in order of popularity: then the busiest of {dealt["shards"]}
    shards counts {dealt["busiest"]:.2f} times the mean, in contiguous pieces {flat["busiest"]:.0f} times. Reading falls
    with the number of shards until each has one strip. For the 10 thousand million pairs above, 100 shards would hold
    {4 * TARGET["users"] / 1e9:.1f} GB of positions of users and read
    {4 * TARGET["pairs"] * TARGET["items"] / STRIP / 100 / 1e12:.1f} TB each a pass, minutes on fast local disks. This
    is a design with numbers, not code: komd stops at a copy on every node."""
    parts = ["## Beyond a copy on every node: shards of items\n", wrapped(why), markdown(head, rows), wrapped(then)]
    return "\n".join(parts)


def run() -> None:
    found = kept("scale") or simulate()
    keep("scale", found)
    (RESULTS / "scale.md").write_text(page(found), encoding="utf-8")
    print("wrote docs/results/scale.md")


if __name__ == "__main__":
    run()
