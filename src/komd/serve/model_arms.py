"""Two models side by side: which of them serves a user, and how the candidate is promoted or dropped.

A user's id decides by a hash, the same in every worker and after every restart. The share in effect is in the store of
events (`experiment_state.py`), which workers ask every second.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from typing import Literal, NamedTuple

from komd import store
from komd.errors import KomdError, ModelFileError
from komd.models.registry import load, restored
from komd.serve.candidate_masks import ItemRules
from komd.serve.event_store import EventStore
from komd.serve.experiment_state import ExperimentState, ExperimentStates
from komd.serve.hot_reload import ModelWatcher
from komd.serve.model_size import ModelSize
from komd.serve.publication import Publication, model_version
from komd.serve.serve_settings import Settings

__all__ = ["Arm", "CandidateError", "ModelArms", "fraction_of", "watchers"]

log = logging.getLogger("komd.serve")

_SALT = b"komd candidate\0"
_BITS = 53  # of a hash: as many as a float has


class Arm(NamedTuple):
    """One of the two models, as requests find it."""

    name: Literal["main", "candidate"]
    number: Literal[0, 1]
    watcher: ModelWatcher


class CandidateError(KomdError):
    """There is no candidate, or what was asked does not fit its state."""


def fraction_of(user: str) -> float:
    """Where a user is between 0 and 1: below a share, they are among that share of the users.

    >>> round(fraction_of("ana"), 3)
    0.518
    """
    digest = hashlib.sha256(_SALT + user.encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8]) >> 64 - _BITS) / (1 << _BITS)


def watchers(settings: Settings, rules: ItemRules) -> tuple[ModelWatcher, ModelWatcher | None]:
    """The main model and the candidate. Raises KomdError if one cannot be used."""
    learned, learned_candidate = (
        None if folder is None else Publication(folder) for folder in (settings.learned, settings.learned_candidate)
    )
    shrink = settings.allow_shrink
    items, images = settings.items, settings.images
    main = ModelWatcher(settings.model, items, learned, images=images, allow_shrink=shrink, rules=rules)
    if settings.candidate is None:
        return main, None
    try:
        candidate = ModelWatcher(
            settings.candidate, items, learned_candidate, images=images, allow_shrink=shrink, rules=rules
        )
        if learned is None and not shrink:  # else it was checked before anything was learned
            ModelSize.of(main.current.model).check_successor(ModelSize.of(candidate.current.model))
    except KomdError as error:
        raise type(error)(f"the candidate cannot be used: {error}") from error
    return main, candidate


class ModelArms:
    """The models of a service."""

    def __init__(
        self, settings: Settings, models: tuple[ModelWatcher, ModelWatcher | None], events: EventStore
    ) -> None:
        main, candidate = models
        self.main = Arm("main", 0, main)
        self.candidate = None if candidate is None else Arm("candidate", 1, candidate)
        self.all = [self.main] if self.candidate is None else [self.main, self.candidate]
        """The main model, and the candidate if there is one."""
        self.folders = (settings.model, settings.candidate)
        """The folders of the models."""
        self.share = 0.0
        """The share of users whom the candidate serves in this worker."""
        self._settings = settings
        self._states = ExperimentStates(events, settings.share)
        self._lock = threading.Lock()
        self._state: tuple[str, ExperimentState] | None = None  # the last one that was read, and its candidate
        if candidate is not None:
            version = candidate.release
            self._apply(version, self._states.configure(version))

    def of(self, user: str | None) -> Arm:
        """The model that serves this user or session. Requests of nobody in particular are the main model's."""
        if self.candidate is None or not self.share or user is None:
            return self.main
        return self.candidate if fraction_of(user) < self.share else self.main

    # ---- the state of the experiment ----------------------------------------------------------------------------

    def follow(self) -> None:
        """Do what was decided since, by whichever worker. Raises StoreError if the store does not answer."""
        if self.candidate is not None:
            with self._lock:
                version = self.candidate.watcher.release
                self._apply(version, self._states.read(version))

    def _apply(self, version: str, state: ExperimentState) -> None:
        before, self._state = self._state, (version, state)
        if state.decision == "serving":
            self.share = state.share
        elif not self._waits_for_main(state):
            self.share = 0.0
        if before != self._state:
            log.info("the candidate %s is %s and serves %g %% of the users", version, state.decision, 100 * self.share)

    def _waits_for_main(self, state: ExperimentState) -> bool:
        """Whether the candidate was promoted, and this worker has not loaded it as the main model yet.

        Until then its users stay with the candidate, which is the same model. Of a worker that starts, there are none.
        """
        return state.decision == "promoted" and self.share > 0 and self.main.watcher.release == state.replaced

    def state(self) -> tuple[Arm, ExperimentState] | None:
        """The candidate and what was decided of it, as this worker knows it; None without a candidate."""
        return None if self.candidate is None or self._state is None else (self.candidate, self._state[1])

    def _candidate(self) -> Arm:
        if self.candidate is None:
            raise CandidateError("there is no candidate; start the service with --candidate and another model")
        return self.candidate

    # ---- decisions ----------------------------------------------------------------------------------------------

    def set_share(self, share: float) -> None:
        """Let the candidate serve this share of the users, also if it was dropped."""
        version = self._candidate().watcher.release

        def changed(state: ExperimentState) -> ExperimentState:
            if state.decision == "promoted":
                raise CandidateError(_PROMOTED)
            return state._replace(share=share, decision="serving", since=time.time())

        with self._lock:
            self._apply(version, self._states.change(version, changed))

    def drop(self) -> None:
        """Let the candidate serve nobody. Its folder stays as it is."""
        version = self._candidate().watcher.release

        def changed(state: ExperimentState) -> ExperimentState:
            if state.decision != "serving":
                return state
            return state._replace(decision="dropped", since=time.time())

        with self._lock:
            self._apply(version, self._states.change(version, changed))

    def promote(self) -> None:
        """Save the candidate to the folder of the main model, load it there, and let the candidate serve nobody.

        The save is atomic: interrupted, the folder has the old model or the new one, and promoting can be repeated.
        """
        candidate, main = self._candidate(), self.main.watcher
        with self._lock:
            version, replaced = candidate.watcher.release, main.release
            state = self._states.read(version)
            if state.decision == "promoted":
                raise CandidateError(_PROMOTED)
            if state.decision == "dropped":
                raise CandidateError("the candidate was dropped; give it a share again before it is promoted")
            self._save_candidate(version)
            if model_version(store.manifest_text(self._settings.model).encode()) == replaced:
                replaced = ""  # it was the same model
            if main.learned is None:
                main.reload()
            promoted = ExperimentState(0.0, self._settings.share, "promoted", time.time(), replaced)
            self._apply(version, self._states.change(version, lambda _: promoted))

    def _save_candidate(self, version: str) -> None:
        """Save the model in the candidate's folder, with the updates of its journal, to the main one."""
        folder, target = self._settings.candidate, self._settings.model
        assert folder is not None
        saved = store.load(folder)
        if model_version(saved.manifest.encode()) != version:
            raise CandidateError("the folder of the candidate has just been changed; try again in a moment")
        model = restored(folder, saved)
        if not self._settings.allow_shrink:
            self._size_in_folder().check_successor(ModelSize.of(model))
        model.save(target)
        log.info("the candidate %s was saved as the main model: %s", version, model.text)

    def _size_in_folder(self) -> ModelSize:
        """The size of the main model as it was saved: a learner compares that with what takes its place."""
        if self.main.watcher.learned is not None:
            try:
                return ModelSize.of(load(self._settings.model, verify=False))
            except ModelFileError:  # a damaged one is best replaced
                pass
        return ModelSize.of(self.main.watcher.current.model)


_PROMOTED = "the candidate was promoted, it is the main model now; save another model to its folder to try that one"
