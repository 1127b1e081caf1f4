"""What was decided of a candidate: the share of users it serves, or that it was promoted or dropped.

It is a setting in the store of events, named by the version of the candidate's saved model: all workers share it, it
survives a restart, and another model in the candidate's folder begins another experiment. A learner that saves the
folder without forgotten users goes on with the same experiment (`renewed`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from komd.serve.event_store import EventStore

__all__ = ["ExperimentState", "ExperimentStates"]

_PREFIX = "candidate "
_UNLEARNING = _PREFIX + "unlearning"  # the version whose folder is being saved without forgotten users


class ExperimentState(NamedTuple):
    """The state of one experiment."""

    share: float
    """Of the users, while it serves."""
    configured: float
    """The share that the service was started with when this was written last."""
    decision: Literal["serving", "promoted", "dropped"]
    since: float
    """When the decision was made or the share was changed: seconds since 1970."""
    replaced: str = ""
    """Of a promoted one: the version of the saved model that it replaced."""


class ExperimentStates:
    """The states of experiments in a store."""

    def __init__(self, events: EventStore, share: float) -> None:
        self._events = events
        self._share = share

    def read(self, version: str) -> ExperimentState:
        """The state of the experiment with this candidate; one that is new serves the configured share."""
        found = self._found(version)[1]
        return self.change(version, lambda state: state) if found is None else found

    def change(self, version: str, changed: Callable[[ExperimentState], ExperimentState]) -> ExperimentState:
        """Change the state of an experiment; whatever other workers do meanwhile, no change is lost."""
        while True:
            text, found = self._found(version)
            state = changed(found or ExperimentState(self._share, self._share, "serving", time.time()))
            if state == found or self._write(version, state, text):
                return state

    def configure(self, version: str) -> ExperimentState:
        """`read`, when a service starts: a share that is not the one it was started with before takes effect."""

        def configured(state: ExperimentState) -> ExperimentState:
            if state.configured == self._share:
                return state
            new = state._replace(configured=self._share)
            return new._replace(share=self._share, since=time.time()) if state.decision == "serving" else new

        return self.change(version, configured)

    @contextmanager
    def renewed(self, version: str) -> Iterator[Callable[[str], None]]:
        """The block saves the model again and calls what it is given with the new version: the experiment goes on.

        If it is killed meanwhile, or the store fails, a note is left, by which `recover` finishes it.
        """
        self._note(version)
        unfinished = False

        def carry_over(new: str) -> None:
            nonlocal unfinished
            unfinished = True
            state = self._found(version)[1]
            if state is not None and new != version:
                self.change(new, lambda _: state)
            unfinished = False

        try:
            yield carry_over
        finally:
            if not unfinished:
                self._note("")

    def recover(self, version: str) -> None:
        """Finish what was interrupted: the model in the folder is this one now."""
        before = self._events.setting(_UNLEARNING)
        if before and before != version and self._found(version)[1] is None:
            state = self._found(before)[1]
            if state is not None:
                self.change(version, lambda _: state)
        if before:
            self._note("")

    def _note(self, version: str) -> None:
        before = self._events.setting(_UNLEARNING)
        if (before or "") != version:
            self._events.replace_setting(_UNLEARNING, version, before)

    def _found(self, version: str) -> tuple[str | None, ExperimentState | None]:
        text = self._events.setting(_PREFIX + version)
        return text, None if text is None else ExperimentState(**json.loads(text))

    def _write(self, version: str, state: ExperimentState, expected: str | None) -> bool:
        return self._events.replace_setting(_PREFIX + version, json.dumps(state._asdict()), expected)
