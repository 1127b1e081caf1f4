"""`komd generate`: synthetic data to try things on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from komd.cli import options
from komd.cli import output as show
from komd.cli.result_files import check_file, write
from komd.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from komd.data.interactions import Interactions

__all__ = ["generate"]

_PAIRS = 1_000_000  # written at a time


def generate(
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="A .csv or .parquet file to write.")],
    like: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Imitate the shape of a known data set: msd (1.2 million users, 384,546 songs, 48 million pairs).",
        ),
    ] = None,
    users: Annotated[
        int | None,
        Option(help="Number of users (default: 2000; with --like, that of the original).", show_default=False),
    ] = None,
    items: Annotated[
        int | None,
        Option(help="Number of items (default: 1000; with --like, in proportion to the users).", show_default=False),
    ] = None,
    activity: Annotated[
        float | None,
        Option(
            help="Mean number of items per user (default: 30; with --like, that of the original).", show_default=False
        ),
    ] = None,
    text_ids: Annotated[
        bool, Option("--text-ids", help="With --like: text ids in the format of the original, instead of numbers.")
    ] = False,
    tastes: Annotated[int | None, Option(help="Number of groups of items (default: 12).", show_default=False)] = None,
    taste_strength: Annotated[
        float | None,
        Option(
            help="From 0, users choose by popularity alone, to 1, only within their tastes (default: 0.8).",
            show_default=False,
        ),
    ] = None,
    item_tail: Annotated[
        float | None,
        Option(help="The larger, the more choices go to few popular items (default: 1).", show_default=False),
    ] = None,
    user_tail: Annotated[
        float | None,
        Option(help="The larger, the more choices are made by few active users (default: 0.6).", show_default=False),
    ] = None,
    rng: options.Rng = 0,
    as_json: options.AsJson = False,
) -> None:
    """Generate synthetic interactions, by taste and popularity."""
    check_file(output, (".csv", ".parquet"))
    import komd
    from komd.memory import readable

    counts = _given(users=users, items=items, activity=activity)
    forms = _given(tastes=tastes, taste_strength=taste_strength, item_tail=item_tail, user_tail=user_tail)
    if like is None:
        if text_ids:
            raise InputError("--text-ids goes with --like, which says whose ids to imitate")
        data = komd.generate(**counts, **forms, rng=rng)
    else:
        if forms:
            words = ", ".join(f"--{name.replace('_', '-')}" for name in forms)
            raise InputError(f"{words} cannot go with --like {like}, which sets the shape")
        data = komd.generate_like(like, **counts, text_ids=text_ids, rng=rng)
    _, size = write(_tables(data), output)
    if as_json:
        show.json_document({"path": str(output), "bytes": size} | show.counts(data))
    else:
        print(f"wrote {output} ({readable(size)}): {data!r}")


def _given(**values: Any) -> dict[str, Any]:
    """The values that were asked for; for the others the library has defaults."""
    return {name: value for name, value in values.items() if value is not None}


def _tables(data: Interactions) -> Iterator[pa.Table]:
    """One row for each pair, block by block."""
    import pyarrow as pa

    from komd.progress import progress
    from komd.threads import blocks

    rows = data.rows
    with progress("writing", data.pairs) as advance:
        for a, b in blocks(data.pairs, _PAIRS):
            yield pa.table({"user_id": data.users.take(rows[a:b]), "item_id": data.items.take(data.indices[a:b])})
            advance(b - a)
