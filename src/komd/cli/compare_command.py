"""`komd compare`: models side by side on the same folds, as a table and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from komd.cli import interrupt, options
from komd.cli import output as show
from komd.errors import InputError

__all__ = ["compare"]


def compare(
    data: Annotated[
        list[str], typer.Argument(metavar="DATA", help="Files or patterns (CSV, TSV, '::', Parquet, gz), or SQL.")
    ],
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--models",
            "--model",
            "-m",
            metavar="MODELS",
            help="As in Python, with commas between: 'ECFOMD, MSDW(alpha=[0, .5, 1])'. A list is a grid. "
            "May be repeated.",
        ),
    ] = None,
    folds: Annotated[int, typer.Option("--folds", help="Groups of users that are tested in turn.")] = 5,
    half: Annotated[
        str, typer.Option("--half", metavar="random|given|time", help="Which half of a tested user is held out.")
    ] = "random",
    metrics: Annotated[
        str, typer.Option("--metrics", help="auc, map@k, ndcg@k, recall@k, hit@k, mrr@k, coverage@k, …")
    ] = "auc,ndcg@100,recall@20",
    ties: Annotated[
        str, typer.Option("--ties", metavar="half|strict", help="What equal scores count in AUC: one half, or none.")
    ] = "half",
    rng: options.Rng = 0,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="DIR",
            help="Folder for index.html, results.md and results.json. Work is kept in it: the same command again "
            "resumes where it stopped.",
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="TIME", help="For each model over all folds: seconds, 10m, 1.5h."),
    ] = None,
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    rating: options.RatingColumn = None,
    time: options.TimeColumn = None,
    min_rating: options.MinRating = None,
    separator: options.Separator = None,
    header: options.Header = None,
    database: options.Database = None,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare models on the same folds: figures with deviations, who is best or tied, time and memory.

    Every model runs in a process of its own. One that fails or takes too long is a row with the reason.
    """
    import komd
    from komd.checks import one_of
    from komd.evaluation.compare import seconds
    from komd.evaluation.comparison_report import caption, legend, rich_table
    from komd.evaluation.grid import models_of
    from komd.evaluation.metrics import parse_metrics

    texts = models_of(models or [])  # what is wrong is said before anything is read
    names = [str(metric) for metric in parse_metrics(metrics)]
    one_of("--ties", ties, ("half", "strict"))
    one_of("--half", half, ("random", "given", "time"))
    limit = None if time_limit is None else seconds(time_limit)
    if folds < 2:
        raise InputError(f"--folds must be at least 2, got {folds}")
    if report is not None:
        if report.exists() and not report.is_dir():
            raise InputError(f"--report must be a folder, and {report} is a file")
        report.mkdir(parents=True, exist_ok=True)
    try:
        given = options.read(
            data,
            user=user,
            item=item,
            rating=rating,
            time=time,
            min_rating=min_rating,
            separator=separator,
            header=header,
            database=database,
            memory=memory,
        )
        found = komd.compare(
            given,
            texts,
            metrics=names,
            folds=folds,
            half=half,
            rng=rng,
            ties=ties,
            time_limit=limit,
            keep=None if report is None else report / "work",
            threads=threads,
            memory=memory,
            say=show.note,
        )
        page = None if report is None else found.report(report)
    except KeyboardInterrupt:
        again = f"the same command resumes from {report / 'work'}" if report is not None else "--report DIR keeps work"
        interrupt.say_stopped(again)
        raise typer.Exit(interrupt.CODE) from None
    if as_json:
        print(found.to_json())
    else:
        show.say(caption(found))
        console = show.console()
        console.print(rich_table(found, console.width))
        show.say(legend())
        if page is not None:
            show.say(f"report: {page}")
    if all(row.failed is not None for row in found):
        raise typer.Exit(1)
