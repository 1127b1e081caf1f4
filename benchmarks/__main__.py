"""Run the benchmarks on MovieLens and write docs/results/performance.md."""

from __future__ import annotations

import json

from benchmarks import first_use, movielens, page
from benchmarks.measure import ROOT, machine


def main() -> None:
    results = {"machine": machine()} | first_use.run() | movielens.run()
    (ROOT / "benchmarks" / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    page.write()
    print(page.page())


if __name__ == "__main__":
    main()
