"""`komd similar`: the items most like given ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from typer import Argument

from komd.cli import options
from komd.cli import output as show

if TYPE_CHECKING:
    from komd.engine.catalogue import OnUnknown

__all__ = ["similar"]


def similar(
    model: options.ModelFolder,
    items: Annotated[list[str], Argument(metavar="ITEM...", help="Ids of items that the model knows.")],
    n: options.ListLength = 10,
    on_unknown: options.OnUnknown = "error",
    as_json: options.AsJson = False,
) -> None:
    """Show the items most similar to given items.

    Items with similarity 0 are left out, so a list may be shorter than asked for.
    """
    import komd

    fitted = komd.load(model)
    asked = [fitted.catalogue.items.parse(text, on_unknown) for text in items]
    result = fitted.similar_items(asked, n=n, on_unknown=cast("OnUnknown", on_unknown))
    if as_json:
        show.print_rows("similar", [result.table], {"model": fitted.text, "skipped": result.skipped})
    else:
        show.similar(result)
