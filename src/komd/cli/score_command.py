"""`komd score`: the scores of given pairs of users and items."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from komd.cli import options
from komd.cli import output as show

if TYPE_CHECKING:
    from komd.engine.catalogue import OnUnknown

__all__ = ["score"]


def score(
    model: options.ModelFolder,
    pairs: Annotated[list[str], typer.Argument(metavar="PAIRS", help="Files of users and items, or SQL.")],
    histories: Annotated[
        list[str] | None,
        typer.Option(
            "--histories",
            metavar="DATA",
            help="What the users of the pairs have chosen, where the model need not know them; may be repeated.",
        ),
    ] = None,
    on_unknown: options.OnUnknown = "error",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT", help="Write all to a file (.csv, .parquet, .json)."),
    ] = None,
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    separator: options.Separator = None,
    header: options.Header = None,
    database: options.Database = None,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Score given pairs of users and items, in their order."""
    import komd
    from komd.checks import one_of
    from komd.data.pairs import read_pairs
    from komd.memory import readable

    if output is not None:
        show.check_output(output)
    one_of("--on-unknown", on_unknown, ("error", "skip"))
    reading: dict[str, Any] = {
        "user": options.column(user),
        "item": options.column(item),
        "separator": separator,
        "header": header,
        "database": database,
        "memory": memory,
    }
    fitted = komd.load(model)
    strangers, lost = None, 0
    if histories is not None:
        given = read_pairs(options.source(histories, database), **reading)
        strangers, lost = given.histories(fitted.catalogue.items, on_unknown)
    result = fitted.score(
        read_pairs(options.source(pairs, database), **reading),
        histories=strangers,
        on_unknown=cast("OnUnknown", on_unknown),
        threads=threads,
        memory=memory,
    )
    facts = {"model": fitted.text, "fallback": result.fallback, "skipped": result.skipped + lost}
    if output is None and as_json:
        show.print_rows("scores", [result.table], lambda: facts)
    elif output is None:
        show.scores(result)
    else:
        rows, size = show.write([result.table], output)
        if as_json:
            show.json_document(facts | {"path": str(output), "rows": rows, "bytes": size})
        else:
            show.say(f"wrote {rows:,} rows to {output} ({readable(size)})")
            if result.skipped:
                show.note(f"{result.skipped:,} pairs left out: the model does not know their user or item")
