"""The cache of matrices: what was used longest ago makes room, and the last one stays."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from komd.matrix.matrix_cache import MatrixCache


@settings(deadline=None)
@given(st.integers(0, 30), st.lists(st.integers(0, 6), max_size=30))
def test_against_a_list_of_what_was_used(room, keys):
    """A value of key k takes 3 k bytes."""
    cache, kept, made = MatrixCache(room), [], []

    for key in keys:
        hit = key in kept
        before = len(made)
        found = cache.recall(key, lambda key=key: made.append(key) or f"value {key}", lambda value: 3 * int(value[-1]))
        assert found == f"value {key}"
        assert (len(made) == before) == hit
        kept = [other for other in kept if other != key] + [key]
        while len(kept) > 1 and sum(3 * other for other in kept) > room:
            kept.pop(0)
