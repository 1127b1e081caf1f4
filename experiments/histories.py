"""What weights, times and dislikes are worth: the same models with and without them.

    python -m experiments.histories                      # all parts: about half an hour on two cores
    python -m experiments.histories --only time,plays    # these parts; the page is written from all that was kept
    python -m experiments.histories --page               # only writes the page

time        ML-100K and Ciao, cut at the moment by which 80 % of all pairs had come, and every user's later half. With
            and without a half-life.
plays       LastFM and the corner of MSD. With and without weights, in the users' problems alone and in K as well.
dislikes    ML-100K and ML-1M, liked from 4 stars and disliked up to 2. Dislikes unknown, masked, among the negatives.

Settings are chosen by nDCG@100 on rounds from which nothing is reported (`histories_search.py`). Results are kept in
`experiments/work/histories/`: rerun to resume. The page is `docs/results/histories.md` (`histories_page.py`).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import komd
from experiments.histories_search import Case, Contender, Round, run
from experiments.places import data_folder
from komd.kernels.interaction_weights import transformed

PARTS = ("time", "plays", "dislikes")
DESIGN = "CFKOMD(regularization=1.0, user_damping=0.5, popularity=0.2, ridge=10.0, negatives_weight=0.0)"
GRID: dict[str, tuple[Any, ...]] = {
    "user_damping": (0.5, 0.75),
    "popularity": (0.1, 0.2, 0.3),
    "ridge": (3.0, 10.0, 30.0),
    "negatives_weight": (0.0, 0.25, 0.5),
    "regularization": (0.3, 1.0, 3.0, 10.0),
}
FACTORS: dict[str, tuple[Any, ...]] = {
    "factors": (16, 32, 64),
    "regularization": (10.0, 50.0, 200.0),
    "alpha": (2.0, 10.0, 40.0, 100.0),
}
HALF_LIVES = ("3d", "7d", "14d", "30d", "60d", "120d", "365d")
LONG_HALF_LIVES = ("7d", "30d", "60d", "120d", "365d", "1000d", "2000d")  # for Ciao, whose pairs span 13 years
SESSIONS = ("1h", "1d")  # half-lives that may matter where the tested half is of the same session
LAMBDAS = (0.3, 1.0, 3.0, 10.0)
WEIGHTED_LAMBDAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5)
WEIGHTINGS = ("log", "sqrt", "linear")
THETAS = (0.0, 0.25, 0.5, 1.0)
DELTAS = (0.03, 0.1, 0.25, 0.5, 1.0, 2.0)
SHOWN_DELTAS = (0.25, 1.0)  # also reported, whatever is chosen: what they cost, and what they keep out of the list
FOLDS = 5

LATER = (
    "Cut at the moment by which 80 % of all pairs had come; settings are chosen on {folds} rolling folds of what came "
    "before it (`komd.split.folds(half='rolling')`)."
)
ROUNDS = (
    "Five rounds of `komd.split.folds(half='{half}', rng=0)`, each with a fifth of the users: settings are chosen on "
    "the first round and reported on the other four, so no user who is reported was measured in choosing."
)


def with_half_life(
    label: str, start: str, grid: dict[str, tuple[Any, ...]], half_lives: tuple[str, ...]
) -> list[Contender]:
    """A model without; with a half-life, all else held; and with λ chosen again beside it."""
    again = (
        {name: grid[name] for name in ("regularization",)} if start.startswith("CFKOMD") else {"alpha": grid["alpha"]}
    )
    symbol = "λ" if start.startswith("CFKOMD") else "α"
    return [
        Contender(label, start, grid),
        Contender(f"{label}, half-life", label, {"half_life": half_lives}, label),
        Contender(f"{label}, half-life and {symbol}", label, {"half_life": half_lives, **again}, label),
    ]


def time_cases(read: Callable[[str], komd.Interactions | None]) -> Iterator[Case]:
    for name, half_lives in (("ml-100k", HALF_LIVES), ("ciao", LONG_HALF_LIVES)):
        data = read(name)
        if data is None:
            continue
        train, test = komd.split.time(data, at=0.8)
        inner = [Round(*parts) for parts in komd.split.folds(train, half="rolling", folds=FOLDS)]
        words = LATER.format(folds=FOLDS)
        contenders = _timed(name, train, half_lives)
        yield Case(
            f"{name}-later", "time", f"{name}, the last fifth in time", words, inner, [Round(train, test)], contenders
        )
        first, *others = (Round(*parts) for parts in komd.split.folds(data, folds=FOLDS, half="time", rng=0))
        contenders = _timed(name, first.train, half_lives if name == "ciao" else (*SESSIONS, *half_lives))
        words = ROUNDS.format(half="time")
        yield Case(f"{name}-halves", "time", f"{name}, every user's later half", words, [first], others, contenders)


def _timed(name: str, train: komd.Interactions, half_lives: tuple[str, ...]) -> list[Contender]:
    out = []
    if name == "ml-100k":
        out += [
            Contender("CF-KOMD as in the design", DESIGN, {}),
            Contender(
                "CF-KOMD as in the design, half-life", DESIGN, {"half_life": half_lives}, "CF-KOMD as in the design"
            ),
        ]
        out += with_half_life("CF-KOMD", DESIGN, GRID, half_lives)
    else:
        out += with_half_life("CF-KOMD", komd.CFKOMD.recommended(train).text, {"regularization": LAMBDAS}, half_lives)
    return out + with_half_life("WRMF", "WRMF()", FACTORS, half_lives)


def plays_cases(read: Callable[[str], komd.Interactions | None]) -> Iterator[Case]:
    for name in ("lastfm", "msd"):
        data = read(name)
        if data is not None:
            first, *others = (
                Round(train, test, more_played=_more_played(test))
                for train, test in komd.split.folds(data, folds=FOLDS, rng=0)
            )
            words = ROUNDS.format(half="random")
            yield Case(f"{name}-plays", "plays", name, words, [first], others, _weighted(first.train))
    visible, hidden = read("msd-visible"), read("msd-hidden")
    if visible is not None and hidden is not None:
        train, test = komd.align(visible, hidden)
        inner = [Round(*parts) for parts in komd.split.folds(train, folds=FOLDS, rng=0)][:2]
        words = "Trained on the corner and on the visible halves, tested on the hidden halves; settings are chosen on "
        words += "two rounds of `komd.split.folds(rng=0)` of what trains."
        title, reported = "msd, its visible and hidden halves", [Round(train, test, more_played=_more_played(test))]
        yield Case("msd-hidden", "plays", title, words, inner, reported, _weighted(train))


def _weighted(train: komd.Interactions) -> list[Contender]:
    rule = komd.CFKOMD.recommended(train).text
    lam = {"regularization": WEIGHTED_LAMBDAS}
    out = [Contender("CF-KOMD", rule, {"weighting": ("none",), **lam})]
    for inside, words in (((False,), "weights in the problem"), ((True,), "weights in the problem and in K")):
        for weighting in WEIGHTINGS:
            axes = {"weighting": (weighting,), "weighted_kernel": inside, **lam}
            out.append(Contender(f"CF-KOMD, {words}: {weighting}", rule, axes, "CF-KOMD"))
    out.append(Contender("WRMF", "WRMF()", {"weighting": ("none",), **FACTORS}))
    assert train.weights is not None
    for weighting in WEIGHTINGS:
        # A pair of the median weight has the confidence of a binary one.
        middle = float(np.median(transformed(train.weights, weighting)))
        alphas = tuple(float(f"{alpha / middle:.2g}") for alpha in FACTORS["alpha"])
        axes = {"weighting": (weighting,), **FACTORS, "alpha": alphas}
        out.append(Contender(f"WRMF, weights: {weighting}", "WRMF()", axes, "WRMF"))
    return out


def _more_played(test: komd.Interactions) -> komd.Interactions:
    """Of each user's test items the half of larger weights, rounded up; of equal weights the first."""
    assert test.weights is not None
    order = np.lexsort((-test.weights, test.rows))  # rows ascend already: the items of each by weight
    rank = np.empty(test.pairs, np.int64)
    rank[order] = np.arange(test.pairs) - test.indptr[test.rows[order]]
    return test.keep(rank < (test.activity[test.rows] + 1) // 2)


def dislikes_cases(read: Callable[[str], komd.Interactions | None]) -> Iterator[Case]:
    for name in ("ml-100k-liked", "ml-1m-liked"):
        data = read(name)
        if data is None:
            continue
        assert data.dislikes is not None
        first, *others = (
            Round(train, test, _held_out(data, train, test))
            for train, test in komd.split.folds(data, folds=FOLDS, rng=0)
        )
        rule = komd.CFKOMD.recommended(first.train).text
        theta = {"negatives_weight": THETAS}
        contenders = [
            Contender("dislikes masked", rule, theta),
            Contender("dislikes unknown, same setting", "dislikes masked", {}, "dislikes masked", blind=True),
            Contender("dislikes among the negatives", rule, theta | {"dislikes_weight": DELTAS}, "dislikes masked"),
            *(
                Contender(f"the same, ω = {delta:g}", rule, theta | {"dislikes_weight": (delta,)}, "dislikes masked")
                for delta in SHOWN_DELTAS
            ),
        ]
        title = name.removesuffix("-liked")
        yield Case(f"{title}-dislikes", "dislikes", title, ROUNDS.format(half="random"), [first], others, contenders)


def _held_out(data: komd.Interactions, train: komd.Interactions, test: komd.Interactions) -> komd.Interactions:
    """The dislikes of test users that do not train."""
    dislikes, known = data.dislikes, train.dislikes
    assert dislikes is not None and known is not None
    m = data.shape[1]
    left = ~np.isin(
        dislikes.rows.astype(np.int64) * m + dislikes.indices, known.rows.astype(np.int64) * m + known.indices
    )
    return dislikes.keep(left & (test.activity > 0)[dislikes.rows])


CASES = {"time": time_cases, "plays": plays_cases, "dislikes": dislikes_cases}


def read(name: str) -> komd.Interactions | None:
    """The data by name; None, and a message, where files are absent."""
    columns: dict[str, Any] = {"user": 0, "item": 1, "header": False, "separator": "\t"}
    stars, folder = {"rating": 2, "liked": 4, "disliked": 2}, data_folder()
    visible, hidden = (f"msd/year1_test_triplets_{half}-test.txt" for half in ("visible", "hidden"))
    sources: dict[str, tuple[list[str], dict[str, Any]]] = {
        "ml-100k": (["ml-100k/u.data"], columns | {"time": 3, "weight": False}),
        "ciao": (["ciaodvd/movie-ratings.txt"], columns | {"time": 5, "weight": False, "separator": ","}),
        "lastfm": (["lastfm-hetrec/user_artists.dat"], {"weight": "weight"}),
        "msd": (["msd/10000.txt"], columns | {"weight": 2}),
        "msd-visible": (["msd/10000.txt", visible], columns | {"weight": 2}),
        "msd-hidden": ([hidden], columns | {"weight": 2}),
        "ml-100k-liked": (["ml-100k/u.data"], columns | stars),
        "ml-1m-liked": (["ml-1m/ratings.csv.gz"], {"liked": 4, "disliked": 2}),
    }
    names, options = sources[name]
    paths = [folder / each for each in names]
    absent = [str(path) for path in paths if not path.exists()]
    if absent:
        print(f"{name} left out: {', '.join(absent)} not found; set KOMD_DATA to the folder of data sets", flush=True)
        return None
    return komd.read(paths, **options)


def main() -> None:
    from experiments.histories_page import write

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--page", action="store_true", help="only write the page, from what is kept")
    given = parser.parse_args()
    unknown = [part for part in given.only.split(",") if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    for part in () if given.page else given.only.split(","):
        for case in CASES[part](read):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", komd.FilterWarning)
                run(case)
    write()


if __name__ == "__main__":
    main()
