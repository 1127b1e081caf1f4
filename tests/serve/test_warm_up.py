"""What a service does before it is ready: the first request of each kind waits for no compiler."""

from __future__ import annotations

import pytest

import komd
from komd._core import solve
from komd.serve.model_snapshot import ModelSnapshot


@pytest.mark.parametrize("items", [1, 2, 30])
def test_problems_with_and_without_weights_are_solved_before_it_is_ready(tmp_path, monkeypatch, items):
    """Each is compiled for itself, which takes seconds once per machine: too long for a request."""
    komd.CFKOMD().fit([(f"u{k % 7}", f"i{k % items}") for k in range(3 * items)]).save(tmp_path / "m.komd")
    solved = set()

    def noted(own, problem, rows, h, out):
        solved.add(h is not None)
        return block(own, problem, rows, h, out)

    block = solve.solve_block
    monkeypatch.setattr(solve, "solve_block", noted)
    ModelSnapshot.load(tmp_path / "m.komd", "1", None)
    assert solved == {False, True}
