"""Speed, always as a ratio to a peer in the same run. `python -m benchmarks` runs all and writes docs/performance.md."""
