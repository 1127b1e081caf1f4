"""Draws the figures of docs/guide/concepts.md from generated data: `python docs/concept_figures.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import komd
from komd.kernels import RBF, Linear, Polynomial, Tanimoto
from komd.svg import FAINT, FIRST, INK, SECOND, THIRD, standalone

FOLDER = Path(__file__).parent / "guide" / "figures"
DATA = komd.generate(users=2000, items=600, activity=30, rng=0)
USER = "user-00046"


def margin(figure: Any) -> None:
    """Scores of one user's items and of all others, with equal weights and with the weights that komd finds."""
    even = komd.ECFOMD(regularization=1e6).fit(DATA)
    solved = komd.ECFOMD(regularization=0.01).fit(DATA)
    for place, (title, model) in enumerate((("equal weights", even), ("weights that maximise the margin", solved))):
        table = model.score([(USER, item) for item in DATA.items.values.to_pylist()])
        scores = np.array(table.to_arrow().column("score"))
        mine = np.isin(DATA.items.values.to_pylist(), DATA.history(USER))
        scores = (scores - scores[~mine].mean()) / scores.std()
        axes = figure.add_subplot(1, 2, place + 1)
        edges = np.linspace(scores.min(), scores.max(), 40)
        axes.hist(scores[~mine], edges, color=FAINT, label="not chosen", density=True)
        axes.hist(scores[mine], edges, color=FIRST, alpha=0.8, label="chosen", density=True)
        axes.axvline(scores[mine].mean(), color=FIRST, linewidth=1.5)
        axes.axvline(scores[~mine].mean(), color=INK, linewidth=1.5)
        axes.set_title(title, fontsize=10.5)
        axes.set_xlabel("score, in standard deviations")
        axes.set_yticks([])
        axes.legend(frameon=False, loc="upper center")


def kernels(figure: Any) -> None:
    """What each kernel makes of the cosine between two items."""
    axes = figure.add_subplot()
    cosine = np.linspace(0, 1, 101)
    named = (("linear", Linear(), INK), ("polynomial(degree=2, c=1)", Polynomial(), FIRST))
    named += (("tanimoto", Tanimoto(), SECOND), ("rbf(gamma=1)", RBF(), THIRD))
    for name, kernel, colour in named:
        axes.plot(cosine, kernel.of_cosine(cosine.copy()), color=colour, label=name)
    axes.set_xlabel("cosine between two items")
    axes.set_ylabel("kernel")
    axes.legend(frameon=False)


PANELS: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("regularization", "λ", (0.001, 0.01, 0.1, 1.0, 10.0)),
    ("user_damping", "γ", (0.0, 0.25, 0.5, 0.75, 1.0)),
    ("popularity", "β", (0.0, 0.1, 0.2, 0.4, 0.8)),
    ("ridge", "μ", (1.0, 10.0, 100.0, 1000.0)),
    ("negatives_weight", "θ", (0.0, 0.25, 0.5, 1.0, 2.0)),
    ("target", "τ", (-0.4, -0.2, 0.0, 0.2, 0.4)),
)


def parameters(figure: Any) -> None:
    """For each parameter alone: how popular the ten recommended items are, how many of them are those of the defaults,
    and how many items of a history carry the weight."""
    share = dict(zip(DATA.items.values.to_pylist(), DATA.popularity / DATA.shape[0], strict=True))
    sample = DATA.users.values.to_pylist()[:200]
    usual = pairs_of(komd.CFKOMD().fit(DATA).recommend(sample))
    for place, (name, letter, values) in enumerate(PANELS):
        popular, carrying, same = [], [], []
        for value in values:
            model = komd.CFKOMD(**{name: value}).fit(DATA)
            listed = pairs_of(model.recommend(sample))
            popular.append(100 * float(np.mean([share[item] for _, item in listed])))
            same.append(100 * len(listed & usual) / len(usual))
            weights = [model.solve(user).alpha for user in sample]
            carrying.append(float(np.mean([100 / (len(w) * (w**2).sum()) for w in weights])))
        axes = figure.add_subplot(2, 3, place + 1)
        at = range(len(values))
        lines = axes.plot(at, popular, "o-", color=FIRST, markersize=4, label="users of an item, % (left)")
        axes.set_ylim(0, 25)
        axes.set_xticks(list(at), [f"{value:g}" for value in values], fontsize=8)
        axes.set_title(f"{name} ({letter})", fontsize=10)
        right = axes.twinx()
        lines += right.plot(at, carrying, "s--", color=SECOND, markersize=4, label="items with weight, % (right)")
        lines += right.plot(at, same, "^:", color=INK, markersize=4, label="as by default, % (right)")
        right.set_ylim(0, 105)
        right.spines["right"].set_visible(True)
    figure.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def pairs_of(lists: komd.Recommendations) -> set[tuple[str, str]]:
    """Users and the items recommended to them."""
    table = lists.to_arrow()
    return set(zip(table.column("user_id").to_pylist(), table.column("item_id").to_pylist(), strict=True))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for draw, width, height in ((margin, 8.0, 2.8), (kernels, 4.6, 3.2), (parameters, 8.0, 5.2)):
        (FOLDER / f"{draw.__name__}.svg").write_text(standalone(draw, width, height), encoding="utf-8")


if __name__ == "__main__":
    main()
