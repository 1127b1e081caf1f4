"""Options that several commands share, each declared once, and what they stand for."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from komd.errors import InputError

if TYPE_CHECKING:
    from komd.data.ids import Ids
    from komd.data.interactions import Interactions

__all__ = [
    "AsJson",
    "Database",
    "Header",
    "ItemColumn",
    "Memory",
    "MinRating",
    "ModelFolder",
    "OnUnknown",
    "RatingColumn",
    "Rng",
    "Separator",
    "Threads",
    "TimeColumn",
    "UserColumn",
    "column",
    "ids_of",
    "listed",
    "read",
    "source",
]

_PANEL = "Reading"

UserColumn = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="COLUMN",
        rich_help_panel=_PANEL,
        help="Column of user ids: a name, or a position from 0. Usual names are recognised.",
    ),
]
ItemColumn = Annotated[
    str | None, typer.Option("--item", metavar="COLUMN", rich_help_panel=_PANEL, help="Column of item ids.")
]
RatingColumn = Annotated[
    str | None,
    typer.Option("--rating", metavar="COLUMN", rich_help_panel=_PANEL, help="Column for --min-rating."),
]
TimeColumn = Annotated[
    str | None, typer.Option("--time", metavar="COLUMN", rich_help_panel=_PANEL, help="Column of times.")
]
MinRating = Annotated[
    float | None,
    typer.Option(
        "--min-rating",
        rich_help_panel=_PANEL,
        help="Keep only rows rated at least this; a model knows the others as seen. Without it, rows rated 0 are left "
        "out and negative ones refused.",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option("--separator", rich_help_panel=_PANEL, help="Between the columns of text: ',' tab space '::' …"),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        show_default=False,
        rich_help_panel=_PANEL,
        help="Whether text files begin with column names. By default the first lines tell.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        rich_help_panel=_PANEL,
        help="A DuckDB or SQLite file, or what else DuckDB can attach; the data is then SQL.",
    ),
]
Threads = Annotated[int | None, typer.Option("--threads", help="How many threads; every core by default.")]
Memory = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Budget such as 8GB; 60 % of what is free.")
]


def _quietly(asked: bool) -> bool:
    if asked:
        from komd.progress import be_quiet

        be_quiet()
    return asked


AsJson = Annotated[bool, typer.Option("--json", callback=_quietly, help="Print one JSON document instead of tables.")]
Rng = Annotated[int, typer.Option("--rng", min=0, help="Seed: the same gives the same.")]
OnUnknown = Annotated[str, typer.Option("--on-unknown", metavar="error|skip", help="What an unknown id leads to.")]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model (komd fit).")]


def read(
    data: list[str],
    *,
    user: str | None,
    item: str | None,
    rating: str | None,
    time: str | None,
    min_rating: float | None,
    separator: str | None,
    header: bool | None,
    database: str | None,
    memory: str | None,
) -> Interactions:
    """The interactions that the reading options describe."""
    import komd

    return komd.read(
        source(data, database),
        user=column(user),
        item=column(item),
        rating=column(rating),
        time=column(time),
        min_rating=min_rating,
        separator=separator,
        header=header,
        database=database,
        memory=memory,
    )


def source(data: list[str], database: str | None) -> str | list[str]:
    """What is to be read: files, or the one query of a database."""
    if database is not None and len(data) != 1:
        raise InputError(f"with database= there is one query to read, got {len(data)}")
    return data[0] if database is not None else data


def column(text: str | None) -> str | int | None:
    """A column by its name, or by its position where that is what the text says."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def listed(text: str) -> list[str]:
    """The texts of a list with commas; quotes protect a comma.

    >>> listed('i7, i42,"Lantern, The"')
    ['i7', 'i42', 'Lantern, The']
    """
    try:
        rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"cannot read a list with commas from {text[:60]!r}…: {error}") from error
    return [part.strip() for row in rows for part in row if part.strip()]


def ids_of(ids: Ids, texts: list[str], on_unknown: str) -> list[Any]:
    """Command-line texts as ids of the catalogue."""
    found: list[Any] = []
    for text in texts:
        try:
            found.append(ids.parse(text))
        except InputError:
            if on_unknown != "skip":
                raise
            found.append(text)  # no id of this kind is written so: it is unknown, and passed over as such
    return found
