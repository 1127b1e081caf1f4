"""The part of docs/results/performance.md that `make bench-msd` measures."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders import COMPUTES, DEPTH, THREADS
from benchmarks.markdown import markdown

__all__ = ["kills", "section"]

NAMES = {
    "ecfomd": "komd `ECFOMD()`",
    "polynomial": "komd `CFKOMD(kernel=Polynomial(degree=2, c=1))`",
    "msdw": "komd `MSDW(alpha=.15, locality=3)`",
    "ecfomd-4gb": 'komd `ECFOMD()`, `memory="4GB"`',
    "cosine": "implicit `CosineRecommender(K=200)`",
    "als": "implicit ALS (64 factors, 15 iterations)",
}
PAPER = {"ecfomd": (0.16391, 0.97034), "polynomial": (0.15967, 0.97065), "msdw": (0.16881, 0.97342)}


def section(results: dict[str, Any]) -> str:
    """The text, from msd.json; a contender that failed has a row that says so."""
    ranked_users = results["read"].get("ranked_users", 0)
    parts = [_opening(results, ranked_users), _whole(results), _quality(results)]
    if "rank" in results["ecfomd"]:
        parts += [_words(results, ranked_users), _phases(results), _limits(results)]
    if results["limits"].get("counting"):
        parts.append(_counting(results["limits"]["counting"]))
    parts.append(_paper())
    return "\n".join(parts)


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _opening(results: dict[str, Any], ranked_users: int) -> str:
    read, made = results["read"], results["generate"]
    users, items, pairs = read["shape"]
    median, mean, most = read["activity"]
    heard, heard_mean, heaviest = read["popularity"]
    words = "" if not results["trial"] else " **A trial at a small size.**"
    words += f" **{results['note']}**" if results.get("note") else ""
    wrote = ""
    if made.get("generate"):
        took = f"{_time(made['generate'])} at {_gb(made['command_peak'])}"
        wrote = f"`komd generate --like msd --text-ids` wrote it in {took}. "
    return f"""## The size of the Million Song Dataset

From one run of `make bench-msd`.{words} Machine: {results["machine"]}. Data: generated in the shape of the
Million Song Dataset, {users:,} users × {items:,} items, {pairs:,} pairs; users have {median:.0f} items (median; mean
{mean:.1f}, at most {most:,}), items {heard:.0f} users (median; mean {heard_mean:.0f}, at most {heaviest:,}). {wrote}
Reading it from Parquet ({_gb(read["bytes"])}, 40-character ids) into `Interactions` took {_time(read["read"])} and
{_gb(read["read_peak"])}.

Half of the items of {ranked_users:,} random users are hidden; everything else trains. Each contender runs in a process
of its own on {THREADS} threads and ranks all items for those users to depth {DEPTH}. Memory is the peak of the process.
implicit finds neighbours with {THREADS} threads, but makes its lists from them with one.
"""


def _whole(results: dict[str, Any]) -> str:
    rows = []
    for name, words in NAMES.items():
        row = results[name]
        cells = [words, _time(row.get("fit")), _time(row.get("rank")), _time(row.get("evaluate"))]
        most = row.get("rank_peak")
        cells += [_gb(most) if most else "–", row.get("error") or COMPUTES[name]]
        rows.append(cells)
    head = ["", "fit", "rank", "rank and measure", "peak memory (ranking)", "what it computes"]
    return markdown(head, rows)


def _quality(results: dict[str, Any]) -> str:
    rows = []
    for name, words in NAMES.items():
        row = results[name]
        if "lists" not in row:
            continue
        measured, printed = row.get("metrics", {}), PAPER.get(name)
        cells = [words, f"{row['lists']['map']:.5f}"]
        cells += [f"{measured[m]:.5f}" if m in measured else "–" for m in ("auc", "ndcg@100", "recall@20")]
        rows.append([*cells, f"{printed[0]:.5f}, {printed[1]:.5f}" if printed else "–"])
    head = ["", "mAP@500", "AUC", "nDCG@100", "recall@20", "paper, real data: mAP@500, AUC"]
    return (
        markdown(head, rows)
        + "\nmAP@500 is computed from all lists by the same code. The data are generated: compare the figures with\n"
        "each other, not with the paper's.\n"
    )


def _words(results: dict[str, Any], ranked_users: int) -> str:
    own = results["ecfomd"]
    out = [
        f"**In short.** `ECFOMD` ranks {ranked_users:,} users to depth {DEPTH} in {_time(own['rank'])} at "
        f"{_gb(own['rank_peak'])}, after a fit of {_time(own['fit'])}"
    ]
    others = [
        f"{words} takes {results[name]['rank'] / own['rank']:.2f} times as long"
        for name, words in (("polynomial", "the polynomial kernel"), ("msdw", "MSDW"))
        if "rank" in results[name]
    ]
    if own.get("evaluate"):
        others.append(f"the measures, exact AUC among them, add {100 * (own['evaluate'] / own['rank'] - 1):.0f} %")
    out.append("; ".join(["", *others]) + ".")
    small = results["ecfomd-4gb"]
    if "rank" in small:
        same = "the same lists" if small["lists"]["digest"] == own["lists"]["digest"] else "**other lists**"
        groups = int(small["rank_phases"]["work"]["groups"])
        come = "all users together" if groups == 1 else f"users in {groups} groups"
        out.append(
            f' With `memory="4GB"` the process peaks at {small["rank_peak"] / 1e9:.2f} GB, takes '
            f"{small['rank'] / own['rank']:.2f} times as long ({come}), and finds {same}."
        )
    return "".join(out) + "\n"


def _phases(results: dict[str, Any]) -> str:
    rows = []
    for name in ("ecfomd", "polynomial", "msdw", "ecfomd-4gb"):
        for phase, words in (("fit", "fit"), ("rank", "rank"), ("evaluate", "rank and measure")):
            if phase not in results[name]:
                continue
            whole, spent = results[name][phase], results[name][f"{phase}_phases"]["seconds"]
            first = [spent.get("gather", 0.0), spent.get("solve", 0.0)]
            second = [spent.get("count", 0.0), spent.get("use", 0.0) / THREADS]
            if phase == "fit" and not any(second):
                continue
            cells = [f"{each:.1f}" for each in (whole, *first, *second, whole - sum(first) - sum(second))]
            rows.append([NAMES[name].removeprefix("komd "), words, *cells])
    head = [
        "",
        "",
        "seconds",
        "first pass: gather",
        "solve",
        "second pass: count strips",
        "score, lists, areas",
        "rest",
    ]
    text = "### Where the time goes\n\n" + markdown(head, rows)
    return (
        text + "\nScoring is the time of all threads divided by their number; the rest was not measured separately.\n"
        "A kernel that is not linear needs one pass over K in `fit`, for its row sums.\n"
    )


def _limits(results: dict[str, Any]) -> str:
    probes = results["limits"].get("machine")
    if not probes:
        return ""
    own = results["ecfomd"]
    spent, work = own["rank_phases"]["seconds"], own["rank_phases"]["work"]
    near, table = probes["increments in the cache, 1 core"], probes["random reads of 10 MB, 1 core"]
    adds = work["multiply-adds"]
    named = (work["bytes scored"] - 4 * adds) / 2
    steps = (
        named / probes["scattered multiply-adds, 1 core"] + (adds - named) / probes["straight multiply-adds, 1 core"]
    )
    memory = probes["read, 2 cores"]
    compare = probes["comparisons in the cache, 1 core"]
    least = {
        "gather_rows": work["gathered visits"] / probes["random reads, 2 cores"]
        + work["gathered counts"] / near / THREADS,
        "count_strip": (work["visits"] + work["counts"]) / near / THREADS,
        "rank_strip": max(work["bytes scored"] / memory, steps / THREADS) + work["scores"] / compare / THREADS,
        "solve_users": 4 * work["gathered entries"] / memory,
    }
    told = {
        "gather_rows": (
            "gather: counting",
            work["gathered counts"],
            "counts",
            "one random read of memory per user visited, one step in the cache per count",
        ),
        "solve_users": ("solve", work["gathered entries"], "entries of K₊", "every user's K₊ read once"),
        "count_strip": (
            "count strips",
            work["counts"],
            "counts",
            "one step in the cache per user visited and per count",
        ),
        "rank_strip": (
            "scores and lists",
            adds,
            "multiply-adds",
            "the strips read from memory, or the steps in the cache, whichever takes longer; each score compared once",
        ),
    }
    rows = []
    for name, (words, amount, unit, why) in told.items():
        seconds = spent.get(name, 0.0) / THREADS
        if seconds:
            rate = f"{amount / seconds / THREADS:.2g} per second and core"
            cells = [words, f"{seconds:.1f}", f"{amount:.2g} {unit}, {rate}", f"{least[name]:.1f}", why]
            rows.append([*cells, f"{100 * least[name] / seconds:.0f} %"])
    head = ["`ECFOMD`, ranking", "seconds", "work", "least seconds", "because", "of the limit"]
    far = f"{probes['random reads, 1 core']:.2g} (one core) and {probes['random reads, 2 cores']:.2g} (two)"
    adding = f"{probes['straight multiply-adds, 1 core']:.2g} straight and "
    adding += f"{probes['scattered multiply-adds, 1 core']:.2g} scattered"
    say = (
        f"memory is read at {_rate(probes, 'read, 1 core')} GB/s by one core and {_rate(probes, 'read, 2 cores')} by "
        f"two, and copied at {_rate(probes, 'copy, 1 core')} (read and written);\nrandom reads of 512 MB {far}, of "
        f"10 MB {table:.2g};\nin the cache, one core, increments {near:.2g}, multiply-adds {adding}, comparisons "
        f"{compare:.2g}"
    )
    return (
        "### How near the limit of the machine\n\n"
        f"Measured in the same run, per second: {say}.\n\n"
        + markdown(head, rows)
        + f"\nThere were {work['strips']:.0f} strips of columns, {work['entries']:.2g} entries of K in all. Each strip "
        f"visits every user of\nevery item: {work['visits']:.2g} visits beside {work['counts']:.2g} counts.\n"
    )


def _rate(probes: dict[str, float], name: str) -> str:
    return f"{probes[name] / 1e9:.1f}"


def _counting(found: dict[str, Any]) -> str:
    words = {
        "scipy": "scipy `X[:, sample].T @ X`",
        "count_pairs": "komd, rows in order (`count_pairs`)",
        "gather_rows": "komd, first pass (`gather_rows`)",
        "count_strip": "komd, second pass, in strips (`count_strip`)",
    }
    rates = found["per_second"]
    rows = [[words[n], f"{rates[n]:.2g}", f"{rates[n] / rates['scipy']:.1f}"] for n in words]
    return (
        "### Counting\n\n"
        f"Rows of co-occurrence for {found['items']:,} random items, {found['counts']:.2g} counts, one core:\n\n"
        + markdown(["", "counts per second", "ratio"], rows)
    )


def _paper() -> str:
    return (
        "### Beside the paper\n\n"
        "The paper reports its times on the real data in hours for 1,000 test users, on 16 cores and 150 GB, with\n"
        "MSDW about five times slower than ECF-OMD. Its other figures are in the table above.\n"
    )


def kills(found: dict[str, Any]) -> str:
    """The text of benchmarks/kills.py."""
    moments = ", ".join(f"{moment:.0f}" for moment in found["kills"])
    return f"""### Killed ten times

`python -m benchmarks.kills`: the lists of {found["ranked_users"]:,} users of the same data to depth 500, written by
`komd.recommend_to` with a streamed kernel and `memory="4GB"`. Undisturbed it took {_time(found["undisturbed"])}.
Another run was killed (SIGKILL) {moments} s after its start and started again each time; the
{found["rows"]:,} rows of its {found["parts"]} parts equal those of the undisturbed run. The users of a group finish
together, at the end of the pass: a kill costs the group in progress.
"""
