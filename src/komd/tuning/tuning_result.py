"""The result of tuning: every trial, and the best setting as text to paste."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from komd import notebook_html as html
from komd.engine.recommender import Recommender
from komd.errors import InputError, install
from komd.files import write_text
from komd.models.registry import model_from_text
from komd.svg import FIRST, INK, SECOND, available, standalone

__all__ = ["Trial", "Tuning"]


@dataclass(frozen=True)
class Trial:
    """One setting of a search and its results.

    Attributes
    ----------
    text : str
        The model, as Python and the command line accept it.
    params : dict
        Values of the searched parameters, as texts by name.
    values : list of float
        The metric in each round; fewer rounds if the trial was pruned.
    seconds : float
        Duration.
    state : {"complete", "pruned", "failed"}
        "pruned": stopped after some rounds.
    reason : str
        Why it failed.
    """

    text: str
    params: dict[str, str]
    values: list[float]
    seconds: float
    state: str
    reason: str = ""

    @property
    def value(self) -> float:
        """The mean over the rounds."""
        return sum(self.values) / len(self.values) if self.values else float("nan")


@dataclass(frozen=True, repr=False)
class Tuning:
    """The result of `komd.tune`: all trials, and the best model.

    Attributes
    ----------
    metric : str
        The metric that was maximised.
    trials : tuple of Trial
        All trials in order.
    rounds : int
        Number of inner folds on which every complete trial was measured.
    seconds : float
        Duration of all trials, including those of earlier runs.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=12, rng=0)
    >>> found = komd.tune("EASE", data, metric="ndcg@10", trials=2, rounds=1)
    >>> len(found.trials), found.best.state
    (2, 'complete')
    """

    metric: str
    trials: tuple[Trial, ...]
    rounds: int
    seconds: float

    @property
    def complete(self) -> list[Trial]:
        """The trials that are complete."""
        return [trial for trial in self.trials if trial.state == "complete"]

    @property
    def best(self) -> Trial:
        """The complete trial with the largest mean; the first of equals."""
        if not self.complete:
            reason = next((trial.reason for trial in self.trials if trial.reason), "none was finished")
            raise InputError(f"no setting could be measured: {reason}")
        return max(self.complete, key=lambda trial: trial.value)

    @property
    def text(self) -> str:
        """The best model as Python text."""
        return self.best.text

    @property
    def model(self) -> Recommender:
        """The best model, unfitted."""
        return model_from_text(self.best.text)

    def top(self, n: int = 10) -> list[Trial]:
        """Return the n best complete trials, best first.

        Parameters
        ----------
        n : int
            How many, at most.

        Returns
        -------
        list of Trial

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.tune("MSDW", data, metric="ndcg@10", trials=2, rounds=1, rng=0)
        >>> found.top(1)[0].text == found.text
        True
        """
        return sorted(self.complete, key=lambda trial: -trial.value)[:n]

    def counts(self) -> dict[str, int]:
        """Return how many trials were complete, pruned and failed.

        Returns
        -------
        dict

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.tune("MSDW", data, metric="ndcg@10", trials=2, rounds=1, rng=0)
        >>> sum(found.counts().values())
        2
        """
        states = [trial.state for trial in self.trials]
        return {state: states.count(state) for state in ("complete", "pruned", "failed")}

    def __repr__(self) -> str:
        counts = self.counts()
        head = f"Tuning by {self.metric}: {len(self.trials)} settings in {self.seconds:.0f} s"
        head += f" ({counts['pruned']} pruned, {counts['failed']} failed), {self.rounds} inner folds each"
        return "\n".join([head, *(f"{trial.value:.4f}  {trial.text}" for trial in self.top(5))])

    def _repr_html_(self) -> str:
        rows = [[f"{trial.value:.4f}", html.cell(trial.text), f"{trial.seconds:.1f}"] for trial in self.top(5)]
        table = html.grid((self.metric, "model", "seconds"), rows, left=(1,))
        counts = ", ".join(f"{count} {state}" for state, count in self.counts().items())
        title = f"Tuning by {self.metric}: {len(self.trials)} settings in {self.seconds:.0f} s"
        words = f"The best of {counts}; each complete one was measured on {self.rounds} inner folds."
        return html.fragment(title, table, html.note(words))

    def to_json(self) -> str:
        """Return everything as JSON text.

        Returns
        -------
        str

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.tune("MSDW", data, metric="ndcg@10", trials=2, rounds=1, rng=0)
        >>> import json
        >>> json.loads(found.to_json())["metric"]
        'ndcg@10'
        """
        best = {"model": self.best.text, "value": self.best.value, "values": self.best.values}
        facts = {"metric": self.metric, "rounds": self.rounds, "seconds": self.seconds, "best": best}
        facts |= {"counts": self.counts(), "trials": [asdict(trial) for trial in self.trials]}
        return json.dumps(facts, indent=1)

    def plot(self, path: str | Path) -> Path:
        """Write an SVG that shows the trials in order, and the metric against every parameter.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            If matplotlib is not installed, or no trial is complete.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.tune("MSDW", data, metric="ndcg@10", trials=2, rounds=1, rng=0)
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(found.plot(folder + "/search.svg").name)
        search.svg
        """
        target = Path(path)
        if not available():
            raise InputError(f"plots need matplotlib: {install('plots')}")
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.params))
        height = 3.2 + 2.6 * -(-len(names) // 3)
        write_text(target, standalone(lambda figure: self._draw(figure, names), 9.0, height))
        return target

    def _draw(self, figure: Any, names: list[str]) -> None:
        self.best  # noqa: B018 (raises if there is none)
        rows = -(-len(names) // 3)
        grid = figure.add_gridspec(1 + rows, 3, height_ratios=[1.2] + [1.0] * rows)
        axes = figure.add_subplot(grid[0, :])
        done = [(k + 1, trial.value) for k, trial in enumerate(self.trials) if trial.state == "complete"]
        cut = [(k + 1, trial.value) for k, trial in enumerate(self.trials) if trial.state == "pruned"]
        axes.plot(*zip(*done, strict=True), "o", color=FIRST, markersize=4, label="complete")
        if cut:
            axes.plot(*zip(*cut, strict=True), "x", color=SECOND, markersize=4, label="pruned")
        so_far = [max(value for _, value in done[: k + 1]) for k in range(len(done))]
        axes.step([k for k, _ in done], so_far, where="post", color=INK, linewidth=1, label="best so far")
        axes.set_xlabel("setting")
        axes.set_ylabel(self.metric)
        axes.legend(frameon=False, loc="lower right")
        for k, name in enumerate(names):
            small = figure.add_subplot(grid[1 + k // 3, k % 3])
            words = sorted({trial.params[name] for trial in self.complete}, key=_order)
            at = [words.index(trial.params[name]) for trial in self.complete]
            small.plot(at, [trial.value for trial in self.complete], "o", color=FIRST, markersize=4)
            small.set_xticks(range(len(words)), [word[:14] for word in words], rotation=60, fontsize=7)
            small.set_title(name, fontsize=9)


def _order(word: str) -> tuple[int, float, str]:
    """Numbers by size, then words, then None: no filter is the limit of a weak filter."""
    try:
        return (0, float(word), "")
    except ValueError:
        return (2 if word == "None" else 1, 0.0, word)
