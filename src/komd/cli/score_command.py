"""`komd score`: the scores of given pairs of users and items."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from typer import Argument, Option

from komd.cli import options
from komd.cli import output as show
from komd.cli.result_files import check_file, write_result

if TYPE_CHECKING:
    from komd.engine.catalogue import OnUnknown

__all__ = ["score"]


@options.with_reading(*options.RATING_OPTIONS)
def score(
    model: options.ModelFolder,
    pairs: Annotated[list[str], Argument(metavar="PAIRS", help="Files of users and items, or SQL.")],
    histories: Annotated[
        list[str] | None,
        Option(
            metavar="DATA",
            help="What the users of the pairs have chosen, where the model need not know them; may be repeated.",
        ),
    ] = None,
    on_unknown: options.OnUnknown = "error",
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="OUT", help="Write all to a file (.csv, .parquet, .json).")
    ] = None,
    reading: options.ReadingOptions = options.DEFAULT_READING,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Score given pairs of users and items, in their order."""
    import komd

    if output is not None:
        check_file(output)
    fitted = komd.load(model)
    given, lost = None, 0
    if histories is not None:
        given, lost = reading.read_pairs(histories, memory).histories(fitted.catalogue.items, on_unknown)
    result = fitted.score(
        reading.read_pairs(pairs, memory),
        histories=given,
        on_unknown=cast("OnUnknown", on_unknown),
        threads=threads,
        memory=memory,
    )
    facts = {"model": fitted.text, "fallback": result.fallback, "skipped": result.skipped + lost}
    if output is not None:
        write_result([result.table], output, facts, as_json=as_json)
        if not as_json:
            show.note_skipped(result.skipped, show.SKIPPED_PAIRS)
    elif as_json:
        show.print_rows("scores", [result.table], facts)
    else:
        show.scores(result)
