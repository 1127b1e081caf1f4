"""`komd analyze`: how full the kernel of a data set will be, why, and what it will cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from komd.cli import options
from komd.cli import output as show
from komd.cli.result_files import check_folder
from komd.plain_text import printable

__all__ = ["analyze"]


@options.with_reading()
def analyze(
    data: Annotated[
        list[str],
        Argument(
            metavar="DATA",
            help="Data sets, each a file or pattern, SQL, or the name of one of the paper's (komd.datasets), as ciao.",
        ),
    ],
    report: Annotated[
        Path | None, Option(metavar="DIR", help="Folder for index.html, results.md and results.json.")
    ] = None,
    work_limit: Annotated[
        int,
        Option(
            min=1,
            help="Count the density of K exactly up to this much work (the sum of squared user activities); above it, "
            "sample rows.",
        ),
    ] = 2_000_000_000,
    rng: options.Rng = 0,
    reading: options.ReadingOptions = options.DEFAULT_READING,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Estimate density and cost of a kernel before computing it.

    Shows the density of K, both long tails, memory and time for each storage, and a recommendation. Several data sets
    are shown side by side. Nothing is fitted, and K is never built.
    """
    check_folder("--report", report)
    import komd
    from komd.memory import budget
    from komd.sparsity.analysis import Analyses
    from komd.sparsity.analysis import analyze as one
    from komd.sparsity.sparsity_report import rich_table
    from komd.threads import count

    budget(memory)  # mistakes are reported before anything is read
    count(threads)

    found = []
    for name, text in zip(_names(data), data, strict=True):
        named = reading.database is None and text in komd.datasets.names() and not Path(text).exists()
        given = komd.datasets.load(text) if named else reading.read([text], memory)
        found.append(one(given, name=name, work_limit=work_limit, memory=memory, rng=rng, threads=threads))
        del given  # one data set in memory at a time
    together = Analyses(found)
    page = None if report is None else together.report(report)
    if as_json:
        print(together.to_json())
        return
    if len(found) > 1:
        show.console().print(rich_table(together))
    for each in found:
        print(repr(each) if len(found) == 1 else "\n".join([printable(each.name), *each.verdict, ""]))
    if page is not None:
        print(f"report: {page}")


def _names(data: list[str]) -> list[str]:
    """What to call each: the file's name, with as many folders before it as tell them apart.

    >>> _names(["a/plays.csv", "b/plays.csv"]), _names(["x/ratings.dat.gz", "ciao"])
    (['a/plays.csv', 'b/plays.csv'], ['ratings.dat.gz', 'ciao'])
    """
    most = max((len(Path(text).parts) for text in data), default=1)
    for depth in range(1, most + 1):
        names = ["/".join(Path(text).parts[-depth:]) or text for text in data]
        if len(set(names)) == len(names):
            return names
    return list(data)
