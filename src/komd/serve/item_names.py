"""The names of items: a table with ids, names and further columns to show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from komd.data.columns import role
from komd.engine.catalogue import Catalogue
from komd.errors import InputError
from komd.serve.id_text import text_of, texts_of

__all__ = ["ItemNames", "read_names"]

_NAMED = ("name", "title", "label")
_SHOWN = 500  # characters of a name or of a further column


@dataclass(frozen=True, eq=False)
class ItemNames:
    """Names and further columns of a model's items, by inside number."""

    names: pa.Array
    columns: dict[str, pa.Array]
    known: int
    """How many of the model's items the table names; for the others the id is shown."""

    def name(self, number: int) -> str:
        """The name of an item."""
        return str(self.names[number].as_py())

    def details(self, number: int) -> dict[str, str]:
        """The further columns of an item that are not empty."""
        found = {title: column[number].as_py() for title, column in self.columns.items()}
        return {title: value for title, value in found.items() if value}

    @staticmethod
    def of(catalogue: Catalogue, table: pa.Table | None) -> ItemNames:
        """The names of a catalogue's items; the id where there is none."""
        every = np.arange(len(catalogue.order), dtype=np.int32)
        ids = pa.array(texts_of(catalogue.item_ids(every)), pa.string())
        if table is None:
            return ItemNames(ids, {}, 0)
        at = pc.index_in(ids, value_set=table.column(0).combine_chunks())
        columns = [pc.utf8_slice_codeunits(column.combine_chunks().take(at), 0, _SHOWN) for column in table.columns[1:]]
        names = columns[0]
        blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(names), ""), True)
        further = dict(zip(table.column_names[2:], columns[1:], strict=True))
        return ItemNames(pc.if_else(blank, pc.utf8_slice_codeunits(ids, 0, _SHOWN), names), further, blank.false_count)


def read_names(path: Path) -> pa.Table:
    """A table of text from CSV, TSV or Parquet: the ids, the names, then the further columns; the first of each id.

    The id is the column called id or item (or like it), else the first; the name is the one called name, title or
    label, else the next.
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
    _, first = np.unique(pc.fill_null(made.column(0), "").to_numpy(), return_index=True)
    return made.take(pa.array(np.sort(first))).combine_chunks()


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
