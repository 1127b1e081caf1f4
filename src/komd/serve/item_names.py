"""The names of items: a table with ids, names and further columns to show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from komd.data.columns import role
from komd.data.ids import Ids
from komd.errors import InputError
from komd.serve.id_text import text_of, texts_of
from komd.serve.name_search import NameIndex

__all__ = ["ItemLabels", "ItemNames", "read_names"]

_NAMED = ("name", "title", "label")
_CACHED = 50_000  # items whose ids and names are cached as Python texts: some 10 MB
_SHOWN = 500  # characters of a name or of a further column
_ADDRESS = 2000  # characters of the address of an image; longer ones are ignored, as a part of one leads nowhere
_IMAGE = b"komd.image"  # where the metadata of a table of names says which column has images


@dataclass(frozen=True, eq=False)
class ItemNames:
    """Ids as texts, names and further columns of items, by outside number (place in `items`).

    They depend on the set of items and on the table alone: another model of the same items has the same names.
    """

    items: Ids
    table: pa.Table | None
    texts: pa.Array
    names: pa.Array
    columns: dict[str, pa.Array]
    known: int
    """How many of the items the table names; for the others the id is shown."""
    images: pa.Array | None = None
    """Addresses of images, if a column of the table has them."""

    def details(self, number: int) -> dict[str, str]:
        """The further columns of an item that are not empty."""
        found = {title: column[number].as_py() for title, column in self.columns.items()}
        return {title: value for title, value in found.items() if value}

    def image(self, number: int) -> str | None:
        """The address of an item's image, if it has one."""
        return None if self.images is None else self.images[number].as_py()

    @cached_property
    def index(self) -> NameIndex:
        """The names, to be searched."""
        return NameIndex(self.names)

    @cached_property
    def labels(self) -> ItemLabels | None:
        """Texts and names as Python texts, if the items are few enough for that.

        Looking up ten items through Arrow takes longer than a small problem takes to solve.
        """
        if len(self.items) > _CACHED:
            return None
        texts = self.texts.to_pylist()
        return ItemLabels(texts, self.names.to_pylist(), {text: number for number, text in enumerate(texts)})

    def fits(self, items: Ids, table: pa.Table | None) -> bool:
        """Whether these are the names of such items by such a table."""
        return self.table is table and self.items == items

    @staticmethod
    def of(items: Ids, table: pa.Table | None) -> ItemNames:
        """The names of items; the id where there is none."""
        ids = pa.array(texts_of(items.values), pa.string())
        if table is None:
            return ItemNames(items, None, ids, ids, {}, 0)
        at = pc.index_in(ids, value_set=table.column(0).combine_chunks())
        found = {title: table.column(title).combine_chunks().take(at) for title in table.column_names[1:]}
        image = (table.schema.metadata or {}).get(_IMAGE, b"").decode()
        images = _addresses(found.pop(image)) if image else None
        columns = {title: pc.utf8_slice_codeunits(column, 0, _SHOWN) for title, column in found.items()}
        given = columns.pop(table.column_names[1])
        blank = pc.fill_null(pc.match_substring_regex(given, r"^[\s\p{Z}\p{C}]*$"), True)  # nothing to be seen
        names = pc.if_else(blank, pc.utf8_slice_codeunits(ids, 0, _SHOWN), given)
        return ItemNames(items, table, ids, names, columns, blank.false_count, images)


def _addresses(column: pa.Array) -> pa.Array:
    """The addresses of the web in a column, null for everything else."""
    texts = pc.utf8_trim_whitespace(column)
    fits = pc.match_substring_regex(texts, r"^(?i:https?)://[^\s/?#@]+([/?#]\S*)?$")
    fits = pc.and_(fits, pc.less_equal(pc.utf8_length(texts), _ADDRESS))
    return pc.if_else(pc.fill_null(fits, False), texts, pa.scalar(None, pa.string()))


class ItemLabels(NamedTuple):
    """Ids and names as texts, by outside number, and the numbers of the ids."""

    texts: list[str]
    names: list[str]
    numbers: dict[str, int]


def read_names(path: Path, images: str | None = None) -> pa.Table:
    """A table of text from CSV, TSV or Parquet: the ids, the names, then the further columns; the first of each id.

    The id is the column called id or item (or like it), else the first; the name is the one called name, title or
    label, else the next. The column `images` has addresses of images.
    """
    table = _read(path)
    titles = table.column_names
    if len(titles) < 2:
        raise InputError(f"{path} has one column, {titles[0]!r}; a table of names has an id and a name at least")
    lowered = [title.strip().lower() for title in titles]
    ids = [k for k, title in enumerate(titles) if lowered[k] == "id" or role(title) == "item"]
    ids = [k for k in ids if lowered[k] not in _NAMED] or [0]
    names = [lowered.index(name) for name in _NAMED if name in lowered] or [
        k for k in range(len(titles)) if k != ids[0]
    ]
    chosen = [ids[0], names[0]] + [k for k in range(len(titles)) if k not in (ids[0], names[0])]
    texts = [pa.array(_texts(table.column(k)), pa.string()) for k in chosen]
    made = pa.table(texts, names=_distinct([titles[k].strip() or f"column {k + 1}" for k in chosen]))
    if images is not None:
        made = made.replace_schema_metadata({_IMAGE: _image_column(path, made, images)})
    _, first = np.unique(pc.fill_null(made.column(0), "").to_numpy(), return_index=True)
    return made.take(pa.array(np.sort(first))).combine_chunks()


def _image_column(path: Path, table: pa.Table, images: str) -> str:
    if images.strip() not in table.column_names[2:]:
        raise InputError(
            f"images: {path.name} has no further column {images!r}; besides the id and the name it has: "
            f"{', '.join(table.column_names[2:]) or 'none'}"
        )
    return images.strip()


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    return [None if value is None else text_of(value) for value in column.to_pylist()]


def _distinct(titles: list[str]) -> list[str]:
    """
    >>> _distinct(["id", "name", "name"])
    ['id', 'name', 'name 2']
    """
    made: list[str] = []
    for title in titles:
        again, fresh = 1, title
        while fresh in made:
            again += 1
            fresh = f"{title} {again}"
        made.append(fresh)
    return made


def _read(path: Path) -> pa.Table:
    import duckdb

    if not path.is_file():
        raise InputError(f"no table of names at {path}")
    parquet = path.suffix.lower() in (".parquet", ".pq")
    ask = "SELECT * FROM read_parquet(?)" if parquet else "SELECT * FROM read_csv(?, all_varchar = true, header = true)"
    connection = duckdb.connect(config={"threads": 1})
    try:
        return connection.sql(ask, params=[str(path)]).to_arrow_table()
    except duckdb.Error as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"{path} cannot be read as a table of names ({reason}); give CSV, TSV or Parquet") from error
    finally:
        connection.close()
