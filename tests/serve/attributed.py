"""A model with a table of attributes, and what conditions mean, in plain Python over the lines of the table."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from pathlib import Path

import komd

GENRES = ["Comedy", "Drama", "Horror", "Sci-Fi", "Children's"]


def rows_of(items):
    """The table: some items have no row, some no genre, no year, or two artists."""
    for k, item in enumerate(items):
        if k % 11 == 4:
            continue
        genres = [GENRES[k % 5]] + ([GENRES[(k // 5) % 5]] if k % 3 == 0 else [])
        yield {
            "id": item,
            "name": f"Item {k}",
            "genre": "" if k % 13 == 6 else " | ".join(genres) if k % 2 else "|".join(genres),
            "year": "unknown" if k % 7 == 2 else "" if k % 17 == 3 else str(1980 + k % 30),
            "artist": f"a{k % 9}|a{(k + 4) % 9}" if k % 10 == 0 else f"a{k % 9}",
            "label": "x" * 600 + str(k % 2),
        }


def write_table(path: Path, rows) -> None:
    rows = list(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def make(folder: Path) -> dict[str, dict[str, str]]:
    """shop.komd and items.csv in a folder; returns the lines of the table by id, empty for items that are not in it."""
    data = komd.generate(users=150, items=90, activity=9, tastes=5, rng=3)
    komd.CFKOMD().fit(data).save(folder / "shop.komd")
    items = data.items.values.to_pylist()
    rows = list(rows_of(items))
    write_table(folder / "items.csv", rows)
    return {item: {} for item in items} | {row["id"]: row for row in rows}


# ---- the slow twin ----------------------------------------------------------------------------------------------


def values(row, column):
    parts = [part.strip() for part in row.get(column, "").split("|")]
    return [part for part in parts if part]


def number(text):
    found = float(text) if re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", text) else math.nan
    return found if math.isfinite(found) else None


def equal(value, wanted):
    return value == wanted.strip() if isinstance(wanted, str) else number(value) == wanted


def meets(row, where):
    """Whether a line of the table meets conditions."""
    return all(meets_one(values(row, column), said) for column, said in where.items())


def meets_one(held, said):
    if not isinstance(said, dict):
        return any_equal(held, said)
    if "not" in said and any_equal(held, said["not"]):
        return False
    if "min" not in said and "max" not in said:
        return True
    low, high = said.get("min", -math.inf), said.get("max", math.inf)
    return any(low <= number(value) <= high for value in held if number(value) is not None)


def any_equal(held, wanted):
    return any(equal(value, one) for value in held for one in (wanted if isinstance(wanted, list) else [wanted]))


def greedy(ranking, rows, max_per, n):
    """Of a ranking of items and scores, the next best item whose values all have room, until there are n."""
    counts, taken = {column: Counter() for column in max_per}, []
    for item, score in ranking:
        held = {column: set(values(rows[item], column)) for column in max_per}
        if len(taken) < n and all(counts[c][v] < most for c, most in max_per.items() for v in held[c]):
            taken.append((item, score))
            for column in max_per:
                counts[column].update(held[column])
    return taken
