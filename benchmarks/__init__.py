"""Speed, as ratios to peers in the same run. `python -m benchmarks` runs all and writes docs/results/performance.md.

What is measured is kept in json files, its ratios over time in history.jsonl (`history.py`).
"""
