"""Options that several commands share, each declared once, and what they stand for."""

from __future__ import annotations

import contextlib
import csv
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Argument, Option

from komd.checks import one_of, whole
from komd.cli import output as show
from komd.errors import InputError, install

if TYPE_CHECKING:
    from komd.data.interactions import Interactions
    from komd.data.pairs import Pairs
    from komd.serve.event_store import EventStore

__all__ = [
    "DEFAULT_READING",
    "RATING_OPTIONS",
    "AsJson",
    "Data",
    "Folds",
    "ForgetKeyFile",
    "Half",
    "ListLength",
    "Memory",
    "Metrics",
    "ModelFolder",
    "OnUnknown",
    "OptionalData",
    "ReadingOptions",
    "Rng",
    "Store",
    "Threads",
    "Ties",
    "event_store",
    "listed",
    "with_reading",
]


def _quietly(asked: bool) -> bool:
    if asked:
        from komd.progress import be_quiet

        be_quiet()
    return asked


def _word(option: str, *choices: str, help: str) -> Any:
    """An option that takes one of a few words."""
    return Option(option, metavar="|".join(choices), callback=lambda word: one_of(option, word, choices), help=help)


AsJson = Annotated[bool, Option("--json", callback=_quietly, help="Print one JSON document instead of tables.")]
Data = Annotated[
    list[str], Argument(metavar="DATA", help="Files or patterns (CSV, TSV, '::', Parquet, gz, SQLite), or SQL.")
]
OptionalData = Annotated[
    list[str] | None,
    Argument(metavar="DATA", help="Files or patterns (CSV, TSV, '::', Parquet, gz, SQLite), or SQL."),
]
Folds = Annotated[
    int,
    Option(
        "--folds",
        callback=lambda folds: whole("--folds", folds, 2),
        help="Number of groups of users; each group is tested in turn.",
    ),
]
ForgetKeyFile = Annotated[
    Path | None,
    Option(
        "--forget-key-file",
        metavar="FILE",
        envvar="KOMD_FORGET_KEY_FILE",
        help="With --store: the key of forgotten users; by default beside an SQLite store, or beside MODEL.",
    ),
]
Half = Annotated[
    str,
    _word(
        "--half",
        "random",
        "given",
        "time",
        "rolling",
        help="Which half of a tested user's items is held out: a random one, or the later one in the order of the data "
        "(given) or by time; rolling: windows in time.",
    ),
]
ListLength = Annotated[
    int, Option("-n", "--n", callback=lambda n: whole("-n", n, 1), help="Length of each list, at most.")
]
Memory = Annotated[
    str | None,
    Option("--memory", metavar="SIZE", help="Memory budget, such as 8GB; 60 % of the free memory by default."),
]
Metrics = Annotated[
    str,
    Option("--metrics", help="Metrics, with commas between: auc, map@k, ndcg@k, recall@k, hit@k, mrr@k, coverage@k, …"),
]
ModelFolder = Annotated[Path, Argument(metavar="MODEL", help="Folder of a saved model (komd fit).")]
OnUnknown = Annotated[
    str, _word("--on-unknown", "error", "skip", help="For an unknown id: report an error, or skip it.")
]
Store = Annotated[
    str | None,
    Option(
        "--store",
        metavar="URL",
        help="Learn the events that komd serve stored there, and leave out whom it forgot: sqlite:///FILE or "
        "postgresql://…",
    ),
]
Rng = Annotated[int, Option("--rng", min=0, help="Random seed; the same seed gives the same result.")]
Threads = Annotated[int | None, Option("--threads", help="Number of threads; all cores by default.")]
Ties = Annotated[
    str,
    _word(
        "--ties",
        "half",
        "strict",
        "appearance",
        help="How equal scores count in AUC: one half; not at all (strict); or the item that appears first in the "
        "training data wins.",
    ),
]


def _column(text: str) -> str | int:
    """A column by its position where the text is a number, or else by its name."""
    return int(text) if text.isascii() and text.isdigit() else text


_option = functools.partial(Option, rich_help_panel="Reading")
_column_option = functools.partial(_option, metavar="COLUMN", parser=_column)


@dataclass(frozen=True)
class ReadingOptions:
    """How DATA is read: the options that `with_reading` gives to a command, named as the arguments of `komd.read`.

    (`no_weight` is `weight=False`.)
    """

    user: Annotated[
        str | None, _column_option(help="Column of user ids: a name, or a position from 0. Usual names are recognised.")
    ] = None
    item: Annotated[str | None, _column_option(help="Column of item ids.")] = None
    rating: Annotated[str | None, _column_option(help="Column of ratings, for --liked and --disliked.")] = None
    time: Annotated[str | None, _column_option(help="Column of times: numbers, dates or timestamps.")] = None
    weight: Annotated[
        str | None, _column_option(help="Column of weights, such as play counts. Without it, every row counts 1.")
    ] = None
    no_weight: Annotated[
        bool | None,
        _option("--no-weight", show_default=False, help="Do not warn of an unused column of ratings or counts."),
    ] = None
    liked: Annotated[
        float | None,
        _option(
            help="Learn only from rows rated at least this; other items of a user count as seen. Without --liked and "
            "--disliked, rows rated 0 are left out and negative ratings are refused."
        ),
    ] = None
    disliked: Annotated[
        float | None, _option(help="Rows rated at most this are dislikes: never recommended to their user.")
    ] = None
    min_rating: Annotated[float | None, _option(help="The same as --liked.")] = None
    repeated: Annotated[
        str | None,
        _option(
            metavar="sum|max|last|count",
            help="Weight of a repeated pair: the sum of its weights (default), the largest, the last, or their number.",
        ),
    ] = None
    time_unit: Annotated[
        str | None,
        _option(
            metavar="ns|us|ms|s|min|h|d",
            help="Unit of numbers in --time, counted from 1970. By default s, ms, us or ns, judged by their size.",
        ),
    ] = None
    separator: Annotated[
        str | None, _option(help="Separator of columns in text files, such as ',' or '::'; detected by default.")
    ] = None
    header: Annotated[
        bool | None,
        _option(
            "--header/--no-header",
            show_default=False,
            help="Whether text files begin with column names; detected by default.",
        ),
    ] = None
    database: Annotated[
        str | None,
        _option(help="A DuckDB or SQLite file, or another database that DuckDB can attach; DATA is then SQL."),
    ] = None

    def read(self, data: list[str], memory: str | None, *, every_id: bool = False) -> Interactions:
        """Interactions from files, or from the one query of a database; `every_id` as in `komd.read`."""
        import komd

        given = {name: value for name, value in vars(self).items() if value is not None}
        if given.pop("no_weight", False):
            if self.weight is not None:
                raise InputError("give --weight or --no-weight, not both")
            given["weight"] = False
        return komd.read(self._source(data), **given, memory=memory, every_id=every_id)

    def read_pairs(self, data: list[str], memory: str | None) -> Pairs:
        """Pairs in their order, likewise."""
        from komd.data.pairs import read_pairs

        given = {name: value for name, value in vars(self).items() if name not in RATING_OPTIONS}
        return read_pairs(self._source(data), **given, memory=memory)

    def _source(self, data: list[str]) -> str | list[str]:
        if self.database is not None and len(data) != 1:
            raise InputError(f"with --database there is one query to read, got {len(data)}")
        return data[0] if self.database is not None else data


DEFAULT_READING = ReadingOptions()
RATING_OPTIONS = (
    "rating",
    "time",
    "weight",
    "no_weight",
    "liked",
    "disliked",
    "min_rating",
    "repeated",
    "time_unit",
)
"""Options without meaning where pairs are only scored."""


def with_reading(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `reading` of a command by the options of `ReadingOptions`, except those left out."""
    hints = get_type_hints(ReadingOptions, include_extras=True)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    added = [
        inspect.Parameter(name, kind, default=None, annotation=hint)
        for name, hint in hints.items()
        if name not in left_out
    ]

    def extended(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for name, parameter in signature.parameters.items():
            parameters += added if name == "reading" else [parameter]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            chosen = {parameter.name: given.pop(parameter.name) for parameter in added}
            command(**given, reading=ReadingOptions(**chosen))

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return extended


@contextlib.contextmanager
def event_store(url: str, key_file: Path | None, model: Path) -> Iterator[EventStore]:
    """The store of a service that exists, for a command that reads it; `model` is that of the command."""
    try:
        from komd.serve import forget_key
        from komd.serve.event_store import EventStore
    except ImportError as error:
        raise InputError(f"--store needs {error.name}: {install('serve')}") from error
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).is_file():
        raise InputError(f"there is no store at {url}; komd serve makes one beside its model, as plays.komd.events.db")
    # Only a service makes the key of a PostgreSQL store, and it may be that of another model.
    known = model if forget_key.beside_model(model).is_file() else None
    file = forget_key.key_file(url, key_file, known)
    events = EventStore(url, key_file=file)
    if (words := forget_key.warning(file)) is not None:
        show.note(words)
    try:
        yield events
    finally:
        events.close()


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
