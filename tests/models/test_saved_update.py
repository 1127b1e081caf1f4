"""Updates of a saved model: on the disk when `komd.update` returns, gone without a trace when they are removals."""

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import komd
from komd import journal, store
from komd.engine.kernel_based import KernelBased
from komd.engine.updates import Updatable
from komd.errors import InputError, UnknownIdError
from tests.budget import repeats
from tests.engine.test_updates import assert_equal

PAIRS = [(f"user {k % 13}", f"item {(k * k) % 17}") for k in range(60)]
NEW = [(f"user {k % 19}", f"item {(5 * k) % 23}") for k in range(30)]


def model(storage=None):
    return komd.CFKOMD(kernel="linear", user_damping=0.5, storage=storage)


@pytest.fixture
def folder(tmp_path):
    model().fit(komd.read(PAIRS)).save(tmp_path / "plays.komd")
    return tmp_path / "plays.komd"


def journals(folder):
    return list(folder.glob("journal-*.log"))


@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
def test_updates_are_in_the_journal_and_in_what_is_loaded(tmp_path, storage):
    folder = tmp_path / "plays.komd"
    model(storage).fit(komd.read(PAIRS)).save(folder)
    manifest = store.manifest_text(folder)
    for k in range(0, len(NEW), 5):
        done = komd.update(folder, added=NEW[k : k + 5])
        assert not done.compacted and done.journal == journals(folder)[0].stat().st_size
        assert_equal(komd.load(folder), model(storage).fit(komd.read([*PAIRS, *NEW[: k + 5]])))
    assert store.manifest_text(folder) == manifest
    assert komd.update(folder, added=NEW[:5]).report is None  # which are there
    assert komd.update(folder, compact=True).compacted and not journals(folder)
    model(storage).fit(komd.read([*PAIRS, *NEW])).save(tmp_path / "fresh")
    assert store.manifest_text(folder) == store.manifest_text(tmp_path / "fresh")
    assert not komd.update(folder, compact=True).compacted  # there is nothing to compact


def test_a_removed_user_leaves_no_trace(folder, tmp_path):
    unmistakable = "somebody-Zq81vK"
    komd.update(folder, added=[(unmistakable, "item 1"), (unmistakable, "item 4"), ("user 3", "item 99")])
    assert unmistakable.encode() in journals(folder)[0].read_bytes()
    done = komd.update(folder, removed_users=[unmistakable])
    assert done.compacted and done.report.dropped_users == 1
    assert all(unmistakable.encode() not in path.read_bytes() for path in folder.iterdir())
    model().fit(komd.read([*PAIRS, ("user 3", "item 99")])).save(tmp_path / "without")
    assert store.manifest_text(folder) == store.manifest_text(tmp_path / "without")
    # The same where the last pair of a user is removed.
    komd.update(folder, added=[(unmistakable, "item 1")])
    assert komd.update(folder, removed=[(unmistakable, "item 1")]).compacted
    assert all(unmistakable.encode() not in path.read_bytes() for path in folder.iterdir())
    assert store.manifest_text(folder) == store.manifest_text(tmp_path / "without")


def test_a_long_journal_is_compacted(folder, monkeypatch):
    monkeypatch.setattr("komd.models.saved_update._LONGEST", 4000)
    done = [komd.update(folder, added=[pair]).compacted for pair in NEW]
    assert any(done) and not all(done)
    assert_equal(komd.load(folder), model().fit(komd.read([*PAIRS, *NEW])))


def test_what_is_refused_changes_nothing(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError, match="nothing to update"):
        komd.update(folder)
    with pytest.raises(UnknownIdError, match="unknown user 'nobody'"):
        komd.update(folder, removed=[("nobody", "item 1")])
    assert komd.update(folder, removed=[("nobody", "item 1")], on_unknown="skip").report is None
    with pytest.raises(InputError, match="would remove all pairs"):
        komd.update(folder, removed=PAIRS[:0] + sorted(set(PAIRS)))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_models_that_cannot_be_updated_say_so(tmp_path):
    komd.EASE().fit(komd.read(PAIRS)).save(tmp_path / "ease.komd")
    with pytest.raises(InputError, match="EASE cannot be updated"):
        komd.update(tmp_path / "ease.komd", added=NEW)


def test_a_save_that_expects_another_model_is_refused(folder):
    saved = store.load(folder)
    came = [("user 0", "item 99")]
    komd.update(folder, added=came)
    with pytest.raises(journal.Superseded, match="changed meanwhile"):
        komd.load(folder).write(folder, saved)
    assert_equal(komd.load(folder), model().fit(komd.read([*PAIRS, *came])))


def _add(folder, pairs):
    for pair in pairs:
        komd.update(folder, added=[pair], compact=hash(pair) % 5 == 0)


def test_updates_from_several_processes_are_all_kept(folder):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add, args=(folder, NEW[k::3])) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert_equal(komd.load(folder), model().fit(komd.read([*PAIRS, *NEW])))


ADDING = """
import sys, komd
for k in range(10**6):
    pair = (f"user {(int(sys.argv[2]) + k) % 40}", f"item {(7 * k + int(sys.argv[2])) % 50}")
    komd.update(sys.argv[1], added=[pair], compact=k % 7 == 6)
    print(*pair, sep="\\t", flush=True)
"""


def test_kills_lose_nothing_that_was_acknowledged(folder):
    """After each kill the model is that of all acknowledged pairs, and at most of the one that was under way."""
    chance, known = random.Random(4), list(PAIRS)
    rounds = int(os.environ.get("KOMD_FUZZ", repeats(3, 6)))
    for attempt in range(rounds):
        child = subprocess.Popen(
            [sys.executable, "-c", ADDING, str(folder), str(11 * attempt)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        known.append(tuple(child.stdout.readline().strip().split("\t")))
        time.sleep(chance.uniform(0, 0.3))
        child.send_signal(signal.SIGKILL)
        known += [tuple(line.split("\t")) for line in child.stdout.read().split("\n")[:-1]]
        child.wait()
        child.stdout.close()
        found = komd.load(folder)
        pairs = found.catalogue.histories
        users, items = found.catalogue.users, found.catalogue
        held = {(users[u], item) for u in range(len(users)) for item in items.item_ids(pairs.row(u)).to_pylist()}
        assert set(known) <= held and len(held - set(known)) <= 1
        known += sorted(held - set(known))
        assert_equal(found, model().fit(komd.read(known)))
    assert np.isfinite(found.S).all()


FORMAT_2 = Path(__file__).parents[1] / "fixtures" / "format2"


@pytest.mark.parametrize("name", sorted(path.name for path in FORMAT_2.iterdir() if path.is_dir()))
def test_a_folder_of_an_earlier_version_becomes_one_of_now(name, tmp_path):
    folder = tmp_path / "old.komd"
    shutil.copytree(FORMAT_2 / name, folder)
    old = komd.load(folder)
    if not isinstance(old, Updatable):
        pytest.skip("it cannot be updated")
    assert old.earlier_format
    row = int(np.argmax(old.catalogue.histories.lengths))
    user = old.catalogue.users[row]
    item = old.catalogue.item_ids(old.catalogue.histories.row(row)[:1])[0].as_py()
    done = komd.update(folder, removed=[(user, item)])
    assert done.compacted and store.load(folder).format == store.FORMAT and not journals(folder)
    assert done.report.rebuilt is not None or not isinstance(old, KernelBased)
    new = komd.load(folder)
    assert not new.earlier_format
    found, expected = new.learned_arrays(), new.clone().fit(pairs_of(new)).learned_arrays()
    assert all(np.array_equal(found[name], array) for name, array in expected.items())


def pairs_of(fitted):
    """The data that a model has learned from."""
    catalogue = fitted.catalogue
    rows = catalogue.histories
    return komd.Interactions(catalogue.users, catalogue.items, rows.indptr, catalogue.order[rows.indices])
