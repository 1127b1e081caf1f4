"""`komd explain`: why an item gets its score."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from komd.cli import options
from komd.cli import output as show
from komd.cli.history_options import HISTORY, At, parsed_dislikes, parsed_history
from komd.errors import InputError

__all__ = ["explain"]


def explain(
    model: options.ModelFolder,
    ids: Annotated[
        list[str], Argument(metavar="[USER] ITEM", help="A known user and an item; with --history, an item.")
    ],
    history: Annotated[str | None, Option(metavar='"A,B,C"', help=HISTORY)] = None,
    dislike: Annotated[
        str | None, Option(metavar='"A,B"', help="Items that the user of the --history dislikes.")
    ] = None,
    at: At = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what each item of a history contributes to a score."""
    import komd

    if len(ids) != (2 if history is None else 1):
        raise InputError("explain takes MODEL USER ITEM, or MODEL ITEM with --history 'A,B,C'")
    if dislike is not None and history is None:
        raise InputError("--dislike belongs to a --history; dislikes of known users are in the model")
    fitted = komd.load(model)
    catalogue = fitted.catalogue
    item = catalogue.items.parse(ids[-1])
    if history is None:
        result = fitted.explain(catalogue.users.parse(ids[0]), item, at=at)
    else:
        chosen = parsed_history(catalogue.items, history)
        disliked = None if dislike is None else parsed_dislikes(catalogue.items, dislike)
        result = fitted.explain(item=item, history=chosen, dislikes=disliked, at=at)
    if as_json:
        show.json_document({"model": fitted.text} | result.to_dict())
    else:
        show.explanation(result)
