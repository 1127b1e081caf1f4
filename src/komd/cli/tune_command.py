"""`komd tune`: search for the parameters of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from komd.cli import interrupt, options
from komd.cli import output as show

__all__ = ["tune"]

_SHOWN = 10


@options.with_reading()
def tune(
    data: Annotated[list[str], Argument(metavar="DATA", help="Training data: files or patterns, or SQL.")],
    model: Annotated[
        str,
        Option(
            "--model",
            "-m",
            help="Model as in Python: CFKOMD, EASE, \"CFKOMD(kernel='rbf')\". Parameters that it sets are kept.",
        ),
    ] = "CFKOMD",
    metric: Annotated[str, Option(help="Metric to maximise: auc, map@k, ndcg@k, recall@k, …")] = "ndcg@100",
    budget: Annotated[
        str, Option(metavar="TIME", help="Time for the search: seconds, or a text such as 10m or 1.5h.")
    ] = "10m",
    trials: Annotated[int | None, Option(help="Number of settings to try, at most.")] = None,
    folds: Annotated[int, Option(help="Number of inner folds that the data is split into.")] = 5,
    rounds: Annotated[int, Option(help="Number of inner folds to measure on.")] = 2,
    half: options.Half = "random",
    rng: options.Rng = 0,
    held_out: Annotated[
        list[str] | None,
        Option(metavar="FILE", help="Final test data: the search is refused if DATA contains one of its pairs."),
    ] = None,
    keep: Annotated[
        Path | None,
        Option(metavar="DIR", help="Folder for the trials; if interrupted, rerun the same command to resume."),
    ] = None,
    plot: Annotated[
        Path | None, Option(metavar="FILE", help="SVG file to write a plot of the search to, such as search.svg.")
    ] = None,
    reading: options.ReadingOptions = options.DEFAULT_READING,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Search for the best parameters of a model.

    Settings are measured on folds made inside the data.
    """
    import komd
    from komd.errors import InputError, install
    from komd.evaluation.compare import seconds
    from komd.evaluation.metrics import parse_metrics
    from komd.svg import available
    from komd.tuning.search_space import free_parameters

    free_parameters(komd.model_from_text(model))  # mistakes are reported before anything is read
    parse_metrics(metric)
    seconds(budget, "budget")
    if plot is not None and plot.suffix != ".svg":
        raise InputError(f"--plot writes SVG: name it like search.svg, got {plot}")
    if plot is not None and not available():
        raise InputError(f"plots need matplotlib: {install('plots')}")
    with interrupt.resumable(keep, "--keep"):
        found = komd.tune(
            model,
            reading.read(data, memory),
            metric=metric,
            budget=budget,
            trials=trials,
            folds=folds,
            rounds=rounds,
            half=half,
            rng=rng,
            held_out=None if not held_out else reading.read(held_out, memory),
            keep=keep,
            threads=threads,
            memory=memory,
            say=None if as_json else show.note,
        )
    if plot is not None:
        found.plot(plot)
    if as_json:
        print(found.to_json())
        return
    counts = found.counts()
    print(
        f"{len(found.trials)} settings in {found.seconds:.0f} s on {found.rounds} inner folds; "
        f"{counts['pruned']} stopped early, {counts['failed']} failed"
    )
    for trial in found.top(_SHOWN):
        print(f"{trial.value:.4f}  {trial.text}")
    if plot is not None:
        print(f"plot: {plot}")
    print(f'best: --model "{found.text}"')
