"""How fast `komd serve` responds on loopback, beside a plain FastAPI echo, and whether it stays so for ten minutes.

    python -m benchmarks.serve            # latency at 300 requests a second, 12 minutes
    python -m benchmarks.serve latency 2  # the same in two turns, 4 minutes
    python -m benchmarks.serve soak       # ten minutes with events and a new model every 30 seconds
    python -m benchmarks.serve learning   # reads while events are posted, without and with learning
    python -m benchmarks.serve fairness   # small requests, without and with eight greedy clients
    python -m benchmarks.serve page       # docs/results/latency.md again, from the figures kept here

The client is wrk, on the same cores. Requests come at random moments at a given rate, whether or not earlier ones
have been answered (each of many connections waits a random time before it asks again).
"""
