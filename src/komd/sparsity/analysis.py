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
    """Expected densities of K with the long tails as they are, or flattened: all counts equal, with as many pairs.

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
    """Analysis of one data set: its size, the density of R and of K, both long tails, the cost of K, and a verdict.

    Attributes
    ----------
    name : str
        Name of the data set.
    users, items, pairs : int
        Its size.
    density : float
        Density of the interactions R.
    kernel : Density
        Density of K: counted, or sampled with a 95 % interval.
    expected : dict
        Estimates of the density of K: "d(K)" is the paper's, from the size alone; "degree-aware" and "saturating" use
        both long tails (docs/guide/sparsity.md).
    popularity, activity : Tail
        Distribution of the users per item and of the items per user.
    effects : Effects
        Effect of each long tail on the density.
    costs : tuple of Cost
        Bytes and seconds of K dense, sparse and streamed on this machine.
    budget : int
        Memory budget in bytes.
    chosen : str
        "dense", "sparse" or "streamed": what komd chooses within the budget; "" if nothing fits.
    reason : str
        Reason for the choice, or why nothing fits.
    verdict : tuple of str
        The result in sentences.
    seconds : float
        Duration of the analysis.

    Examples
    --------
    >>> import komd
    >>> found = komd.sparsity.analyze(komd.generate(users=200, items=60, activity=8, rng=0))
    >>> found.chosen
    'dense'
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
        """Return everything as dictionaries, lists and numbers.

        Returns
        -------
        dict

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.sparsity.analyze(data, name="plays")
        >>> found.to_dict()["name"]
        'plays'
        """
        made = dataclasses.asdict(self)
        for side in ("popularity", "activity"):
            del made[side]["curve"]
        return made

    def to_json(self) -> str:
        """Return everything as JSON text.

        Returns
        -------
        str

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.sparsity.analyze(data, name="plays")
        >>> import json
        >>> json.loads(found.to_json())["name"]
        'plays'
        """
        return json_text(self.to_dict(), indent=2)

    def to_markdown(self) -> str:
        """Return the analysis as a section in Markdown.

        Returns
        -------
        str

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.sparsity.analyze(data, name="plays")
        >>> print(found.to_markdown().splitlines()[0])
        ## plays
        """
        from komd.sparsity.sparsity_report import section

        return section(self)

    def report(self, folder: str | Path) -> Path:
        """Write index.html, results.md and results.json to a folder.

        Parameters
        ----------
        folder : str or Path
            The folder; it is created if it does not exist.

        Returns
        -------
        Path
            The path of the page.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.sparsity.analyze(data, name="plays")
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(found.report(folder + "/sparsity").name)
        index.html
        """
        return Analyses([self]).report(folder)

    def __repr__(self) -> str:
        from komd.sparsity.sparsity_report import text

        return text(self)

    def _repr_html_(self) -> str:
        from komd.sparsity.sparsity_page import in_notebook

        return in_notebook([self])


class Analyses(tuple[Analysis, ...]):
    """Several data sets side by side: a tuple of `Analysis`.

    Examples
    --------
    >>> import komd
    >>> found = komd.sparsity.compare({"small": komd.generate(users=200, items=60, activity=8, rng=0)})
    >>> [each.name for each in found]
    ['small']
    """

    __slots__ = ()

    def to_json(self) -> str:
        """Return everything as JSON text.

        Returns
        -------
        str

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> both = komd.sparsity.compare({"plays": data, "again": data})
        >>> import json
        >>> len(json.loads(both.to_json())["datasets"])
        2
        """
        return json_text({"datasets": [each.to_dict() for each in self]}, indent=2)

    def to_markdown(self) -> str:
        """Return the table of densities and a section for each data set, in Markdown.

        Returns
        -------
        str

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> both = komd.sparsity.compare({"plays": data, "again": data})
        >>> print(both.to_markdown().splitlines()[0])
        # How full the kernel is
        """
        from komd.sparsity.sparsity_report import markdown

        return markdown(self)

    def report(self, folder: str | Path) -> Path:
        """Write index.html, results.md and results.json to a folder.

        Parameters
        ----------
        folder : str or Path
            The folder; it is created if it does not exist.

        Returns
        -------
        Path
            The path of the page.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> both = komd.sparsity.compare({"plays": data, "again": data})
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(both.report(folder + "/sparsity").name)
        index.html
        """
        from komd.sparsity.sparsity_page import page

        return write_report(folder, self.to_json(), self.to_markdown(), page(self))

    def __repr__(self) -> str:
        from komd.sparsity.sparsity_report import table_text

        return table_text(self)

    def _repr_html_(self) -> str:
        from komd.sparsity.sparsity_page import in_notebook

        return in_notebook(self)


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
    data : Interactions or anything that `komd.read` accepts
        The data set.
    name : str
        Its name in the result.
    work_limit : int
        The density of K is counted exactly if that visits at most this many entries (Σ_v a_v²; two billion take some
        seconds), else estimated from a random sample of items with a 95 % interval.
    memory : str or int, optional
        Memory budget for the choice of storage, such as "8GB"; 60 % of the free memory by default.
    rng : int or numpy.random.Generator
        Seed of the sample.
    threads : int, optional
        Number of threads; all cores by default.

    Returns
    -------
    Analysis

    Raises
    ------
    InputError
        If the data cannot be read.

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
    """Analyse several data sets side by side.

    Parameters
    ----------
    data : mapping
        Data sets by name, each as in `analyze`.
    work_limit, memory, rng, threads
        As in `analyze`.

    Returns
    -------
    Analyses

    Raises
    ------
    InputError
        If there is no data set, or one cannot be read.

    Examples
    --------
    >>> import komd
    >>> found = compare({"small": komd.generate(users=200, items=60, activity=8, rng=0)})
    >>> found[0].items
    60
    """
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
