"""`komd compare`: models side by side on the same folds, as a table and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from komd.cli import interrupt, options
from komd.cli import output as show
from komd.cli.result_files import check_folder

__all__ = ["compare"]


@options.with_reading()
def compare(
    data: options.Data,
    models: Annotated[
        list[str] | None,
        Option(
            "--models",
            "--model",
            "-m",
            metavar="MODELS",
            help="Models as in Python, with commas between: 'ECFOMD, MSDW(alpha=[0, .5, 1])'. A list of values is a "
            "grid. At least one; may be repeated.",
        ),
    ] = None,
    folds: options.Folds = 5,
    half: options.Half = "random",
    metrics: options.Metrics = "auc,ndcg@100,recall@20",
    ties: options.Ties = "half",
    rng: options.Rng = 0,
    report: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Folder for index.html, results.md and results.json. Results are kept in it: if interrupted, "
            "rerun the same command to resume.",
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        Option(metavar="TIME", help="Limit for each model over all folds: seconds, or a text such as 10m or 1.5h."),
    ] = None,
    reading: options.ReadingOptions = options.DEFAULT_READING,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare models on the same folds: metrics, time and memory.

    Shows the mean and standard deviation of each metric, and which models are best or statistically tied with the
    best. Every model runs in its own process. A model that fails or takes too long becomes a row with the reason.
    """
    import komd
    from komd.evaluation.compare import seconds
    from komd.evaluation.comparison_report import caption, legend, rich_table
    from komd.evaluation.grid import models_of
    from komd.evaluation.metrics import parse_metrics

    texts = models_of(models or [])  # mistakes are reported before anything is read
    names = [str(metric) for metric in parse_metrics(metrics)]
    limit = None if time_limit is None else seconds(time_limit)
    check_folder("--report", report)
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
    work = None if report is None else report / "work"
    with interrupt.resumable(work, "--report"):
        found = komd.compare(
            reading.read(data, memory),
            texts,
            metrics=names,
            folds=folds,
            half=half,
            rng=rng,
            ties=ties,
            time_limit=limit,
            keep=work,
            threads=threads,
            memory=memory,
            say=show.note,
        )
        page = None if report is None else found.report(report)
    if as_json:
        print(found.to_json())
    else:
        print(caption(found))
        console = show.console()
        console.print(rich_table(found, console.width))
        print(legend())
        if page is not None:
            print(f"report: {page}")
    if all(row.failed is not None for row in found):
        raise typer.Exit(1)
