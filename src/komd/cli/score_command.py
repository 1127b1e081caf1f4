"""`komd score`: the scores of given pairs of users and items."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from typer import Argument, Option

from komd.cli import options
from komd.cli import output as show
from komd.cli.history_options import At
from komd.cli.result_files import check_file, write_result
from komd.errors import InputError

if TYPE_CHECKING:
    from komd.data.ids import Ids
    from komd.data.interactions import Interactions
    from komd.engine.catalogue import OnUnknown

__all__ = ["score"]


@options.with_reading()
def score(
    model: options.ModelFolder,
    pairs: Annotated[list[str], Argument(metavar="PAIRS", help="Files of pairs of users and items, or SQL.")],
    histories: Annotated[
        list[str] | None,
        Option(
            metavar="DATA",
            help="Histories of the users in PAIRS, if the model does not know them: data as for komd fit; may be "
            "repeated. The options for ratings, times and weights apply to this data.",
        ),
    ] = None,
    at: At = None,
    on_unknown: options.OnUnknown = "error",
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="OUT", help="Write all scores to a file (.csv, .parquet, .json).")
    ] = None,
    reading: options.ReadingOptions = options.DEFAULT_READING,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Score given pairs of users and items, in the given order."""
    import komd

    if output is not None:
        check_file(output)
    fitted = komd.load(model)
    given, lost = None, 0
    if histories is not None:
        given, lost = _with_items(reading.read(histories, memory), fitted.catalogue.items, on_unknown)
    else:
        _refuse_rating_options(reading)
    result = fitted.score(
        reading.read_pairs(pairs, memory),
        histories=given,
        on_unknown=cast("OnUnknown", on_unknown),
        threads=threads,
        memory=memory,
        at=at,
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


def _refuse_rating_options(reading: options.ReadingOptions) -> None:
    """Refuse options that say something about histories where there are none."""
    for name in options.RATING_OPTIONS:
        if getattr(reading, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} is for --histories: of the pairs only the ids are read")


def _with_items(data: Interactions, items: Ids, on_unknown: str) -> tuple[Interactions, int]:
    """The data over these items, and how many pairs of unknown ones were left out.

    In a text file "7" may stand for 7, or, where all its ids are digits, 7 for "7".
    """
    import numpy as np

    from komd.data.encode import as_text
    from komd.data.interactions import Interactions

    keys: Any = data.items.values
    if data.items.word != items.word:
        keys = [items.parse(text, on_unknown) for text in as_text(keys).to_pylist()]
    numbers = items.find(keys, on_unknown=on_unknown)
    known = numbers[numbers >= 0]
    if len(np.unique(known)) < len(known):
        raise InputError("some ids in --histories are written in two ways; write the same id the same way")

    def over(part: Interactions, **rest: Any) -> Interactions:
        kept = part.keep(numbers[part.indices] >= 0)
        rest |= {"times": kept.times, "weights": kept.weights, "time_unit": kept.time_unit}
        return Interactions(data.users, items, kept.indptr, numbers[kept.indices], **rest)

    found = over(data, dislikes=None if data.dislikes is None else over(data.dislikes))
    return found, data.pairs - found.pairs
