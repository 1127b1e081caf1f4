"""The analysis of a data set before a kernel is built from it, and of several data sets side by side."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.checks import whole
from komd.data.interactions import Interactions
from komd.errors import InputError
from komd.html import write_report
from komd.matrix.cost import Cost, costs
from komd.matrix.density import WORK_LIMIT, Density, density, work_of
from komd.matrix.expected_density import estimate_density, paper_density, saturating_density
from komd.matrix.storage import plan
from komd.memory import budget
from komd.plain_text import json_text
from komd.sparsity.longtail import Tail, tail
from komd.sparsity.verdict import verdict

__all__ = ["Analyses", "Analysis", "Effects", "analyze", "compare", "effects"]


@dataclass(frozen=True)
class Effects:
    """Expected densities of K with tails as they are, or flattened: all counts equal to the mean, as many pairs.

    `items` is the factor by which the item tail changes the density (below 1 if it keeps K sparse): the density with
    both tails, divided by that with the item tail flattened. `users` is that of the user tail (above 1 if it fills K).
    """

    both: float
    flat_items: float
    flat_users: float
    flat: float
    items: float
    users: float


@dataclass(frozen=True, repr=False)
class Analysis:
    """One data set: its size, the density of R and of K, both tails, the cost of K, and a verdict.

    Attributes
    ----------
    kernel : Density
        The density of K: counted, or sampled with a 95 % interval.
    expected : dict
        Estimates: "d(K)" is the paper's, from the size alone; "degree-aware" and "saturating" use both tails
        (docs/guide/sparsity.md).
    popularity, activity : Tail
        Users of each item, items of each user.
    effects : Effects
        The effect of each tail on the density.
    costs : tuple of Cost
        Bytes and seconds of K dense, sparse and streamed on this machine.
    chosen : str
        "dense", "sparse" or "streamed": what komd chooses under the budget; "" if nothing fits.
    reason : str
        The reason for the choice, or why nothing fits.
    verdict : tuple of str
        Sentences.
    """

    name: str
    users: int
    items: int
    pairs: int
    density: float
    kernel: Density
    expected: dict[str, float]
    popularity: Tail
    activity: Tail
    effects: Effects
    costs: tuple[Cost, ...]
    budget: int
    chosen: str
    reason: str
    verdict: tuple[str, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Everything, as dictionaries, lists and numbers."""
        made = dataclasses.asdict(self)
        for side in ("popularity", "activity"):
            del made[side]["curve"]
        return made

    def to_json(self) -> str:
        """Everything as JSON."""
        return json_text(self.to_dict(), indent=2)

    def to_markdown(self) -> str:
        """A section in Markdown."""
        from komd.sparsity.sparsity_report import section

        return section(self)

    def report(self, folder: str | Path) -> Path:
        """Write index.html, results.md and results.json; returns the page's path."""
        return Analyses([self]).report(folder)

    def __repr__(self) -> str:
        from komd.sparsity.sparsity_report import text

        return text(self)


class Analyses(tuple[Analysis, ...]):
    """Several data sets side by side: a tuple of `Analysis`."""

    __slots__ = ()

    def to_json(self) -> str:
        """A list of everything as JSON."""
        return json_text({"datasets": [each.to_dict() for each in self]}, indent=2)

    def to_markdown(self) -> str:
        """The table of densities, then a section for each data set."""
        from komd.sparsity.sparsity_report import markdown

        return markdown(self)

    def report(self, folder: str | Path) -> Path:
        """Write index.html, results.md and results.json into a folder; returns the page's path."""
        from komd.sparsity.sparsity_page import page

        return write_report(folder, self.to_json(), self.to_markdown(), page(self))

    def __repr__(self) -> str:
        from komd.sparsity.sparsity_report import table_text

        return table_text(self)


def analyze(
    data: Any,
    *,
    name: str = "data",
    work_limit: int = WORK_LIMIT,
    memory: str | int | None = None,
    rng: int | np.random.Generator = 0,
    threads: int | None = None,
) -> Analysis:
    """Measure how full the kernel of a data set is, why, and what it will cost, without building it.

    Parameters
    ----------
    data : Interactions, scipy sparse matrix or frame
    name : str
        The name of the data set.
    work_limit : int
        The density of K is counted exactly if that visits at most so many entries (Σ_v a_v²: two billion take some
        seconds), else estimated from a random sample of items with a 95 % interval.
    memory : str or int, optional
        The budget for the choice of storage, such as "8GB"; 60 % of the free memory by default.
    rng : int or numpy.random.Generator
        For the sample.
    threads : int, optional

    Examples
    --------
    >>> import scipy.sparse
    >>> found = analyze(scipy.sparse.csr_array([[1, 1, 0], [0, 0, 1]]))
    >>> found.kernel.exact, round(found.kernel.value, 3)
    (True, 0.556)
    """
    start = time.perf_counter()
    whole("work_limit", work_limit, 1, most=None)
    pool.count(threads)
    room = budget(memory)
    data = Interactions.of(data)
    users, items = data.shape
    popularity, activity = data.popularity, data.activity
    kernel = density(data.indptr, data.indices, items, work_limit=int(work_limit), rng=rng, threads=threads)
    known = effects(popularity, activity)
    expected = {
        "d(K)": paper_density(users, items, data.pairs),
        "degree-aware": estimate_density(popularity, activity),
        "saturating": known.both,
    }
    tails = tail("item", popularity), tail("user", activity)
    prices = costs(users, items, data.pairs, work_of(activity), kernel.value, memory=memory, threads=threads)
    try:
        how = plan(popularity, activity, memory=memory, measure=lambda: kernel.value, streams=True)
        chosen, reason = how.storage, str(how)
    except InputError as refused:
        chosen, reason = "", str(refused)
    words = verdict(items, kernel, expected, tails, known, prices, chosen)
    measured = (users, items, data.pairs, data.density, kernel, expected, *tails, known, prices)
    return Analysis(name, *measured, room, chosen, reason, words, time.perf_counter() - start)


def compare(
    data: Mapping[str, Any],
    *,
    work_limit: int = WORK_LIMIT,
    memory: str | int | None = None,
    rng: int | np.random.Generator = 0,
    threads: int | None = None,
) -> Analyses:
    """Analyse several data sets, given by name. The parameters are those of `analyze`."""
    if not isinstance(data, Mapping) or not data:
        raise InputError("compare takes at least one data set by name, as {'plays': data}")
    return Analyses(
        analyze(each, name=str(name), work_limit=work_limit, memory=memory, rng=rng, threads=threads)
        for name, each in data.items()
    )


def effects(popularity: NDArray[np.int64], activity: NDArray[np.int64]) -> Effects:
    """The four expected densities, and the factors."""
    sides = (popularity, _flattened(popularity)), (activity, _flattened(activity))
    both, flat_users, flat_items, flat = (saturating_density(p, a) for p, a in itertools.product(*sides))
    ratios = (both / each if each else 1.0 for each in (flat_items, flat_users))
    return Effects(both, flat_items, flat_users, flat, *ratios)


def _flattened(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts with the same sum, as equal as whole numbers allow.

    >>> _flattened(np.array([5, 1, 1]))
    array([3, 2, 2])
    """
    if not len(degrees):
        return degrees
    mean, rest = divmod(int(degrees.sum()), len(degrees))
    return mean + (np.arange(len(degrees)) < rest).astype(np.int64)
