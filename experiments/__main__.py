"""All tables and figures: docs/results/reproduction.md and sparsity.md. If interrupted, rerun it to resume."""

from __future__ import annotations

import time

from experiments import (
    figure_longtails,
    figure_times,
    reproduction,
    sparsity,
    table_auc,
    table_datasets,
    table_density,
    table_msd,
    tie_rules,
)


def main() -> None:
    for part in (
        table_datasets,
        table_density,
        figure_longtails,
        table_msd,
        tie_rules,
        table_auc,
        figure_times,
        sparsity,
    ):
        start = time.perf_counter()
        part.run()
        print(f"{part.__name__}: {time.perf_counter() - start:.0f} s", flush=True)
        reproduction.write()


if __name__ == "__main__":
    main()
