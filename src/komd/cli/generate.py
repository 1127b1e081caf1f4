"""`komd generate`: made-up data to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from komd.cli import options, show

__all__ = ["generate"]

_PAIRS = 1_000_000  # written at a time


def generate(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="A .csv or .parquet file to write.")],
    users: Annotated[int, typer.Option("--users", help="How many people.")] = 2000,
    items: Annotated[int, typer.Option("--items", help="How many items.")] = 1000,
    activity: Annotated[float, typer.Option("--activity", help="Mean number of items of a person.")] = 30.0,
    tastes: Annotated[int, typer.Option("--tastes", help="Groups of items.")] = 12,
    taste_strength: Annotated[
        float, typer.Option("--taste-strength", help="0: all follow popularity; 1: all keep to their tastes.")
    ] = 0.8,
    item_tail: Annotated[float, typer.Option("--item-tail", help="Larger: few items take most choices.")] = 1.0,
    user_tail: Annotated[float, typer.Option("--user-tail", help="Larger: few people make most choices.")] = 0.6,
    rng: options.Rng = 0,
    as_json: options.AsJson = False,
) -> None:
    """Make up people who choose items by taste and by popularity."""
    show.check_output(output, (".csv", ".parquet"))
    import pyarrow as pa

    import komd
    from komd.memory import readable
    from komd.threads import blocks

    data = komd.generate(
        users=users,
        items=items,
        activity=activity,
        tastes=tastes,
        taste_strength=taste_strength,
        item_tail=item_tail,
        user_tail=user_tail,
        rng=rng,
    )
    rows = data.rows
    tables = (
        pa.table({"user_id": data.users.take(rows[a:b]), "item_id": data.items.take(data.indices[a:b])})
        for a, b in blocks(data.pairs, _PAIRS)
    )
    _, size = show.write(tables, output)
    if as_json:
        show.json_document({"path": str(output), "bytes": size} | show.counts(data))
    else:
        show.say(f"wrote {output} ({readable(size)}): {data!r}")
