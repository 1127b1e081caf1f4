"""Learning while serving: the learner follows the store and publishes models, which the workers load.

It keeps two models: the base, which is the one in the model folder, and what base and store come to (`StoreFollower`),
which is published. The model folder is written only to unlearn users who are in it and were forgotten: it holds what
was fitted, without them, and learning from it again gives the same.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from komd import journal, store
from komd.engine.recommender import Recommender
from komd.engine.update_batch import UpdateBatch
from komd.engine.updates import Updatable
from komd.errors import InputError, KomdError, ModelFileError
from komd.models.registry import restored
from komd.serve.event_store import EventStore, StoreError
from komd.serve.experiment_state import ExperimentStates
from komd.serve.model_size import ModelSize
from komd.serve.publication import LearnedState, Publication, model_version
from komd.serve.serve_settings import Settings
from komd.serve.store_circuit import CircuitOpen
from komd.serve.store_updates import StoreFollower

__all__ = ["Learner", "updatable"]

log = logging.getLogger("komd.serve")

_POLL = 0.05  # seconds between two looks at the store
_RETRY = 10.0  # seconds until what failed is tried again
_REST = 0.5  # of the time that a publication took passes at least before the next begins


def updatable(model: Recommender) -> Updatable:
    """The model, if it can learn while it serves; InputError if not."""
    if not isinstance(model, Updatable):
        raise InputError(
            f"{type(model).__name__} cannot be updated, so it cannot learn while it serves; fit CFKOMD, ECFOMD, MSDW, "
            "RP3Beta or Popularity, or serve without --learn"
        )
    return model


class Learner:
    """Follows a store: `run` does so until it is told to stop.

    Raises InputError for a model that cannot be updated, and ModelFileError for one that cannot be loaded.
    """

    def __init__(self, settings: Settings, events: EventStore, publication: Publication) -> None:
        self._settings = settings
        self._events = events
        self._publication = publication
        self._looked_at = self._retry_at = 0.0
        self._looked_for = ""  # the state of the folder that was looked at last
        self._waiting_since: float | None = None
        self._version, self._publications, self._unlearned_seq = "", 0, 0
        self._refused = ""  # why the model in the folder is not learned from
        self._experiments = ExperimentStates(events, settings.share) if settings.of_candidate else None
        published = publication.state()  # by a learner that ended: a model that it refused is refused again
        self._take(None if published is None else ModelSize(published.base_users, published.base_items))
        if published is not None and published.base == self._base_version:
            self._release = published.release
        self._recover_experiment()

    def run(self, stopping: threading.Event) -> None:
        """Learn and publish, until told to stop."""
        wait = 0.0
        while not stopping.wait(wait):
            try:
                wait = self.step()
            except CircuitOpen as error:  # the log says already that the store does not answer
                wait = error.retry_after
            except StoreError as error:
                log.warning("learning waits for the store: %s", error)
                wait = error.retry_after

    def step(self) -> float:
        """Look at the store and the model folder once, and learn if it is time to; returns how long to wait then."""
        now = time.monotonic()
        replaced = self._replaced(now)
        pending = self._events.pending(self._follower.seq)
        if not replaced and pending.seq <= self._follower.seq and self._version:
            self._waiting_since = None
            if self._unlearned_seq < self._follower.seq and now >= self._retry_at:
                self._unlearn_base()
                self._say()
            return _POLL
        if self._waiting_since is None:
            self._waiting_since = now
        # By both clocks: what was stored while the last model was published has waited already.
        age = now - self._waiting_since
        if pending.oldest is not None:
            age = max(age, time.time() - pending.oldest / 1000)
        enough = pending.forgotten or pending.events >= self._settings.learn_events
        due = replaced or not self._version or enough or age >= self._settings.learn_seconds
        if not due or now < self._retry_at:
            return _POLL
        try:
            self._publish()
        except StoreError:
            raise
        except KomdError as error:
            log.error("events could not be learned; the last model stays, and it is tried again: %s", error)
            self._start_over()
            self._retry_at = time.monotonic() + _RETRY
        return max(_POLL, _REST * (time.monotonic() - now))

    def _publish(self) -> None:
        """Learn everything that is stored, and publish the model."""
        changed = not self._version
        while (batch := self._follower.next_batch(self._model)) is not None:
            changed |= len(batch) + len(batch.gone) > 0
            self._model.take_in(batch)
        if changed:
            self._model.refresh(threads=1)
            self._version = self._publication.write_model(self._model.view())
            self._publications += 1
            log.debug("published model %s: %s", self._version, self._model.last_update)
        self._waiting_since = None
        self._unlearn_base()
        self._say()

    def _say(self) -> None:
        follower = self._follower
        state = LearnedState(
            self._version,
            follower.seq,
            self._unlearned_seq,
            time.time(),
            follower.skipped,
            follower.events,
            self._publications,
            self._told_version,
            *ModelSize.of(self._base),
            self._refused,
            self._release,
        )
        self._publication.write_state(state)

    # ---- the model folder -------------------------------------------------------------------------------------

    def _take(self, before: ModelSize | None) -> None:
        """Learn from the model in the folder on, from the first commit of the store.

        One that has lost most of what the base `before` had is refused, unless that is allowed.
        """
        self._looked_for = self._folder_state()
        saved = store.load(self._settings.model)
        base = updatable(restored(self._settings.model, saved)).view()
        if before is not None and not self._settings.allow_shrink:
            before.check_successor(ModelSize.of(base))
        self._hold(saved, base)
        self._told_version = self._release = self._base_version
        self._start_over()

    def _hold(self, saved: store.SavedModel, base: Updatable) -> None:
        """Make what was loaded from the folder the base."""
        self._base = base
        # The arrays are part of the base, mapped: what is kept of them here is what tells it from other models.
        self._saved = saved._replace(arrays={}, ids={}, records=[])
        self._base_state = self._state_of(saved.manifest)

    @property
    def _base_version(self) -> str:
        return model_version(self._saved.manifest.encode())

    def _folder_state(self) -> str:
        """What tells the model in the folder from others: its manifest, and how much its journal holds."""
        return self._state_of(store.manifest_text(self._settings.model))

    def _state_of(self, manifest: str) -> str:
        try:
            return f"{manifest}\n{journal.size(self._settings.model, manifest)}"
        except (ValueError, TypeError, AttributeError):  # loading it will report what is wrong
            return manifest

    def _start_over(self) -> None:
        self._model = self._base.view()
        self._follower = StoreFollower(self._events, self._base.catalogue)

    def _replaced(self, now: float) -> bool:
        """Whether another model was saved to the folder, which is then learned from. One that is damaged is refused."""
        if now < self._looked_at + self._settings.watch_seconds:
            return False
        self._looked_at = now
        before = self._looked_for
        try:
            state = self._folder_state()
            if state in (self._base_state, before):
                self._looked_for = state
                if state == self._base_state:
                    self._refuse("")
                return False
            self._take(ModelSize.of(self._base))
        except KomdError as error:
            if isinstance(error, ModelFileError) and self._looked_for == before:
                self._looked_for = ""  # there is not even a manifest
            if self._looked_for != before:
                log.warning("the new model is refused, and learning goes on from the old one: %s", error)
                self._refuse(str(error))
            return False
        self._refused, self._retry_at = "", 0.0  # what failed was the old one
        log.info("learning goes on from a new model: %s", self._base.text)
        return True

    def _refuse(self, words: str) -> None:
        """Say why the model in the folder is not learned from, or that it is."""
        if words != self._refused:
            self._refused = words
            if self._version:
                self._say()

    def _unlearn_base(self) -> None:
        """Save the base without the users who were forgotten, if it knows any of them."""
        users = self._base.catalogue.users
        known = np.unique(users.find(self._follower.forgotten_users, on_unknown="skip"))
        known = known[known >= 0]
        try:
            self._recover_experiment()
            if len(known):
                self._save_without(known)
            self._unlearned_seq = self._follower.seq
        except KomdError as error:
            log.error("forgotten users are still in the model folder; it is tried again: %s", error)
            self._retry_at = time.monotonic() + _RETRY

    def _recover_experiment(self) -> None:
        """Carry over what was decided of a candidate, if that was interrupted, before workers are told its version."""
        if self._experiments is not None:
            self._experiments.recover(self._base_version)
        self._told_version = self._base_version

    def _same_experiment(self) -> AbstractContextManager[Callable[[str], None]]:
        """What was decided of a candidate also holds of its model without forgotten users: of the new version."""
        if self._experiments is None:
            return contextlib.nullcontext(lambda _: None)
        return self._experiments.renewed(self._base_version)

    def _save_without(self, users: NDArray[np.int32]) -> None:
        folder, catalogue = self._settings.model, self._base.catalogue
        fresh = self._base.view()
        like = catalogue.users.type, catalogue.items.type
        fresh.take_in(UpdateBatch.of_events([], catalogue.users.take(users).to_pylist(), like))
        fresh.refresh(threads=1)
        with self._same_experiment() as carry_over:
            # Superseded if another model, or another update, was saved there meanwhile: they are unlearned from that.
            fresh.write(folder, self._saved)
            saved = store.load(folder)
            if saved.ids["users"].equals(fresh.catalogue.users.values):  # else it was replaced in the meantime
                self._hold(saved, updatable(restored(folder, saved)).view())
                carry_over(self._base_version)
                self._told_version = self._base_version
        log.info("%d forgotten users were unlearned: the model folder is saved without them", len(users))
