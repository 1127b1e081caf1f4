"""The section of docs/results/performance.md on exact updates."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import markdown, wrapped

__all__ = ["section"]


def section(found: dict[str, Any]) -> str:
    """From benchmarks/updates.json."""
    some = next(iter(found["single"].values()))
    head = wrapped(f"""`python -m benchmarks.updates`, {found["machine"]}. **{found["data"]}, CF-KOMD without a filter,
    dense.** {some["events"]:,} pairs come one by one, each by a call of `update`: checked at once, and taken in
    together when the model is read. All updated models equal the refit, array by array:
    {"yes" if _all_same(found) else "NO"}.""")
    rows = []
    for damping, each in found["single"].items():
        rows.append(
            [
                f"γ = {float(damping):g}",
                f"{each['rate']:,.0f}",
                f"{1000 * each['calls'] / each['events']:.2f}",
                f"{1000 * each['taken_in']:.0f}",
                f"{1000 * each['read_after_each']:.1f}",
            ]
        )
    names = ["users", "events a second", "a call, ms", "taking in all, ms", "a call and a list of one user, ms each"]
    table = markdown(names, rows)
    batches = wrapped("""Batches of random pairs, each taken in at once: milliseconds, and the refit's divided by the
    update's. Where more than a quarter of the counts of K would have to be made again, all of them are.""")
    columns, lines = ["pairs"], []
    for damping in found["single"]:
        columns += [f"γ = {float(damping):g}: update", "refit", "ratio"]
    for size in some["batches"]:
        line = [f"{int(size):,}"]
        for each in found["single"].values():
            best = each["batches"][size]
            line += [
                f"{1000 * best['update']:.1f}",
                f"{1000 * best['refit']:.0f}",
                f"{best['refit'] / best['update']:.1f}",
            ]
        lines.append(line)
    return "\n".join(["## Updates\n", head, table, batches, markdown(columns, lines), _large(found["large"])])


def _all_same(found: dict[str, Any]) -> bool:
    single = [each["same"] and all(b["same"] for b in each["batches"].values()) for each in found["single"].values()]
    return all(single) and all(each["same"] for each in found["large"]["models"].values())


def _large(found: dict[str, Any]) -> str:
    users, items = found["shape"]
    text = wrapped(f"""**The size of the Million Song Dataset** ({users:,} users, {items:,} items, {found["pairs"]:,}
    pairs, generated), K streamed: {found["batch"]:,} random pairs, 1 %, are added. Seconds from files to the list of
    one user: a refit reads all pairs and fits, an update reads the batch and takes it in; then the same without
    reading. Random pairs touch nearly every popular item, hence all rows of pairs are renumbered.""")
    rows = []
    for name, best in found["models"].items():
        rows.append(
            [
                f"`{name}`",
                f"{best['refit']:.2f}",
                f"{best['update']:.2f}",
                f"**{best['refit'] / best['update']:.1f}**",
                f"{best['fit']:.2f}",
                f"{best['taken_in']:.2f}",
                f"{best['fit'] / best['taken_in']:.1f}",
            ]
        )
    names = ["model", "read and refit", "read and update", "ratio", "fit alone", "update alone", "ratio"]
    return text + "\n" + markdown(names, rows)
