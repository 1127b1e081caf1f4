"""Run the benchmarks on MovieLens and write docs/results/performance.md."""

from __future__ import annotations

from benchmarks import first_use, movielens, page
from benchmarks.history import keep
from benchmarks.measure import ROOT, machine


def main() -> None:
    first_use.main()
    keep(ROOT / "benchmarks" / "results.json", {"machine": machine()} | movielens.run())
    page.write()
    print(page.page())


if __name__ == "__main__":
    main()
