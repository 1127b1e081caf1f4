"""What was decided of a candidate: kept in the store, changed by many, carried over when users are unlearned."""

from __future__ import annotations

import threading

import pytest

from komd.serve.event_store import EventStore
from komd.serve.experiment_state import ExperimentStates


@pytest.fixture
def events(store):
    opened = EventStore(store)
    yield opened
    opened.close()


def dropped(state):
    return state._replace(decision="dropped")


def test_settings_change_only_from_what_is_expected(events):
    assert events.setting("x") is None
    assert not events.replace_setting("x", "b", "a")
    assert events.replace_setting("x", "a", None) and not events.replace_setting("x", "b", None)
    assert events.setting("x") == "a"
    assert events.replace_setting("x", "b", "a") and not events.replace_setting("x", "c", "a")
    assert events.setting("x") == "b"
    assert events.setting("format") and events.last_seq() == 1  # commits of events are not counted by it


def test_no_change_is_lost(events):
    def count():
        states = ExperimentStates(events, 0.0)
        for _ in range(15):
            states.change("v1", lambda state: state._replace(share=state.share + 1))

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ExperimentStates(events, 0.0).read("v1").share == 45


def test_each_version_is_an_experiment_of_its_own(events):
    states = ExperimentStates(events, 0.1)
    first = states.read("v1")
    assert (first.share, first.decision) == (0.1, "serving") and states.read("v1") == first
    states.change("v1", dropped)
    assert states.read("v2").decision == "serving" and states.read("v1").decision == "dropped"
    other = ExperimentStates(events, 0.3)
    assert other.read("v2").share == 0.1  # only a service that starts brings its share
    assert other.configure("v2").share == 0.3 and states.read("v2").share == 0.3
    assert other.configure("v1").decision == "dropped"


def test_the_same_model_without_forgotten_users_is_the_same_experiment(events):
    states = ExperimentStates(events, 0.1)
    states.change("v1", dropped)
    with states.renewed("v1") as carry_over:
        carry_over("v2")
    assert states.read("v2").decision == "dropped"
    states.recover("v3")  # nothing was interrupted
    assert states.read("v3").decision == "serving"
    interrupted = states.renewed("v2")
    interrupted.__enter__()  # killed here, after the folder was saved
    ExperimentStates(events, 0.1).recover("v4")
    assert states.read("v4").decision == "dropped"
    states.recover("v5")
    assert states.read("v5").decision == "serving"
    with pytest.raises(OSError), states.renewed("v2"):  # the save failed: the folder is as it was
        raise OSError
    states.recover("v6")
    assert states.read("v6").decision == "serving"
    with states.renewed("never decided on") as carry_over:
        carry_over("v7")
    assert states.read("v7").share == 0.1
