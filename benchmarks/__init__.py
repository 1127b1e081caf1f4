"""Speed, as ratios to peers in the same run. `python -m benchmarks` runs all and writes docs/results/performance.md."""
