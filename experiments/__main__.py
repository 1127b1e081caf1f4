"""All tables and figures: docs/results/reproduction.md and sparsity.md. If interrupted, rerun it to resume.

`--only` runs the named parts, in the order of `PARTS`; the page is written from everything that was kept.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

from experiments import (
    authors_readings,
    claims,
    figure_longtails,
    figure_times,
    reproduction,
    sparsity,
    table_auc,
    table_authors,
    table_datasets,
    table_density,
    table_msd,
)


def authors() -> None:
    table_authors.run()
    authors_readings.run()


PARTS: dict[str, Callable[[], object]] = {
    "datasets": table_datasets.run,
    "density": table_density.run,
    "longtails": figure_longtails.run,
    "msd": table_msd.run,
    "authors": authors,
    "claims": claims.run,
    "auc": table_auc.run,
    "rivals": partial(table_auc.run, slow=True),
    "times": figure_times.run,
    "sparsity": sparsity.run,
}


def names_of(text: str) -> list[str]:
    """The parts of a list with commas.

    >>> names_of("auc, authors")
    ['auc', 'authors']
    """
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown part {', '.join(unknown)}; known: {', '.join(PARTS)}")
    return names


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("--only", metavar="PARTS", type=names_of, help=f"a list with commas of: {', '.join(PARTS)}")
    only = parser.parse_args(arguments).only
    for name, part in PARTS.items():
        if only is not None and name not in only:
            continue
        start = time.perf_counter()
        part()
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        reproduction.write()


if __name__ == "__main__":
    main()
