"""The journal of a model: what was acknowledged is there, damage is refused, a save ends it."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from komd import files as files_module
from komd import journal, store
from komd import manifest as manifest_module
from komd.errors import InputError, ModelFileError
from tests.damaged_models import damage_bytes

BATCHES = [[b"one"], [b"", b"two", b"\xf5\xc1\xabJ"], [b"three" * 5], [b""], [b"five", b"six"]]
RECORDS = [record for batch in BATCHES for record in batch]
HERE = pathlib.Path(__file__).parent
FUZZ = int(os.environ.get("KOMD_FUZZ", "0"))
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def save(path, number=0):
    """A small model; another number makes another one."""
    store.save(path, model="X()", arrays={"a": np.array([number])}, ids={})
    return store.manifest_text(path)


def state(path):
    """What a load finds: the number of the model, and its records."""
    saved = store.load(path)
    return int(saved.arrays["a"][0]), saved.records


def append(path, *payloads):
    saved = store.load(path)
    return journal.append(path, payloads, manifest=saved.manifest, known=saved.tip)


def journals(path):
    return [part for part in path.iterdir() if part.name.startswith("journal")]


@pytest.fixture
def path(tmp_path):
    save(tmp_path / "m.komd")
    return tmp_path / "m.komd"


@pytest.fixture
def filled(path):
    """A folder whose journal has all of BATCHES; where each entry ends in the file."""
    ends = []
    for batch in BATCHES:
        append(path, *batch)
        ends.append(journals(path)[0].stat().st_size)
    return path, ends


# ---- append and read ----------------------------------------------------------------------------------------------


def test_what_was_appended_is_read(filled):
    path, ends = filled
    text = store.manifest_text(path)
    assert state(path) == (0, RECORDS)
    assert journal.read(path, text).records == RECORDS
    assert journal.size(path, text) == ends[-1]
    assert [part.name for part in journals(path)] == [journal.journal_name(text)]


def test_no_journal(path):
    text = store.manifest_text(path)
    assert journal.read(path, text) == ([], "")
    assert journal.size(path, text) == 0
    assert journal.append(path, [], manifest=text, known="") == ""
    assert not journals(path)


def test_many_and_large_records(path):
    records = [bytes([k % 256]) * (k % 50) for k in range(5000)]
    append(path, *records)
    append(path, large := os.urandom(5_000_000))
    for k in range(100):
        append(path, b"%d" % k)
    assert state(path)[1] == [*records, large, *(b"%d" % k for k in range(100))]


def test_the_tip_is_that_of_the_records(path, tmp_path):
    text = save(tmp_path / "twin")
    tips = [journal.append(place, [b"a", b"b"], manifest=text, known="") for place in (path, tmp_path / "twin")]
    assert tips[0] == tips[1] == store.load(path).tip
    assert journal.append(path, [b"c"], manifest=text, known=tips[0]) not in ("", tips[0])


def test_the_layout_of_the_manifest_does_not_matter(filled):
    path, _ = filled
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest))
    assert state(path) == (0, RECORDS)
    append(path, b"more")
    assert state(path) == (0, [*RECORDS, b"more"])


def test_a_load_of_one_manifest_reads_no_journal(filled):
    path, _ = filled
    text = store.manifest_text(path)
    assert store.load(path, manifest=text).records == []
    assert store.load(path, manifest=text).tip == ""


# ---- who may append -----------------------------------------------------------------------------------------------


def test_an_append_to_what_another_has_changed(path):
    saved = store.load(path)
    append(path, b"of another")
    with pytest.raises(journal.Superseded, match=r"its journal was changed meanwhile; load it again"):
        journal.append(path, [b"mine"], manifest=saved.manifest, known=saved.tip)
    save(path, 1)
    with pytest.raises(journal.Superseded, match=r"another model was saved there meanwhile; load it again"):
        journal.append(path, [b"mine"], manifest=saved.manifest, known=saved.tip)
    assert state(path) == (1, [])


def test_as_many_records_are_not_the_same_records(path):
    text = store.manifest_text(path)
    mine = append(path, b"a", b"b")
    save(path)
    append(path, b"c", b"d")
    with pytest.raises(journal.Superseded):
        journal.append(path, [b"e"], manifest=text, known=mine)
    assert state(path) == (0, [b"c", b"d"])


def test_an_append_to_no_model(tmp_path):
    text = save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="no model at"):
        journal.append(tmp_path / "nothing", [b"a"], manifest=text, known="")
    assert not (tmp_path / "nothing").exists()


def test_an_append_that_never_gets_its_turn(path, monkeypatch):
    monkeypatch.setattr(manifest_module, "_WAIT", 0.05)
    with (
        files_module.locked(path / ".lock"),
        pytest.raises(ModelFileError, match=r"could not append to .*: another save there has not ended for 0 minutes"),
    ):
        append(path, b"a")
    append(path, b"b")
    assert state(path)[1] == [b"b"]


def test_without_locks_nothing_is_appended(path, monkeypatch):
    def refused(opened):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(files_module, "_lock", refused)
    with pytest.raises(ModelFileError, match="its file system has no locks; save the model instead"):
        append(path, b"a")
    assert not journals(path)


# ---- damage -------------------------------------------------------------------------------------------------------


def prefix(ends, size):
    """The records of the entries that end within so many bytes."""
    return [record for batch, end in zip(BATCHES, ends, strict=True) if end <= size for record in batch]


def test_every_truncation_leaves_a_prefix(filled):
    path, ends = filled
    file = journals(path)[0]
    content = file.read_bytes()
    for length in range(len(content) + 1):
        file.write_bytes(content[:length])
        assert state(path) == (0, prefix(ends, length))
        append(path, b"next")
        assert state(path) == (0, [*prefix(ends, length), b"next"])


def test_every_altered_bit(filled):
    path, ends = filled
    file = journals(path)[0]
    content = bytearray(file.read_bytes())
    header = len(content[: ends[0]]) - (ends[3] - ends[2] + len(BATCHES[0][0]))
    text = store.manifest_text(path)
    for place in range(len(content)):
        for bit in range(8):
            content[place] ^= 1 << bit
            file.write_bytes(content)
            if place < header:
                with pytest.raises(ModelFileError, match="was altered: its journal is that of another model; save"):
                    journal.read(path, text)
            elif place < ends[-2]:
                first = len(prefix(ends, place)) + 1
                with pytest.raises(
                    ModelFileError, match=rf"was altered: record {first} of its journal is not what was appended; save"
                ):
                    journal.read(path, text)
            else:
                assert journal.read(path, text).records == prefix(ends, ends[-2])
            content[place] ^= 1 << bit


def test_bytes_removed_added_or_moved(filled):
    """Whatever comes later is found at another place."""
    path, ends = filled
    file = journals(path)[0]
    content = file.read_bytes()
    starts = [ends[0] - (ends[3] - ends[2] + len(BATCHES[0][0])), *ends[:-1]]
    entries = [content[a:b] for a, b in zip(starts, ends, strict=True)]
    others = [content[:k] + content[k + 1 :] for k in range(ends[-2])]
    others += [content[:k] + b"\xf5" + content[k:] for k in range(starts[0], ends[-2])]
    others += [b"".join([content[: starts[0]], *entries[:k], *entries[k + 1 :]]) for k in range(len(entries) - 2)]
    others += [b"".join([content[: starts[0]], entries[1], entries[0], *entries[2:]])]
    others += [content + entries[-1] + entries[0]]
    for other in others:
        file.write_bytes(other)
        with pytest.raises(ModelFileError, match="was altered"):
            store.load(path)
        with pytest.raises(ModelFileError, match="was altered"):  # and nothing is written behind it
            journal.append(path, [b"more"], manifest=store.manifest_text(path), known="")
        assert file.read_bytes() == other
    file.write_bytes(b"".join([content[: starts[0]], *entries[:-2], entries[-1]]))  # as torn as a last one can be
    assert state(path)[1] == prefix(ends, ends[-3])


def test_random_damage_is_refused_or_leaves_a_prefix(filled):
    path, ends = filled
    file = journals(path)[0]
    content = file.read_bytes()
    prefixes = [prefix(ends, size) for size in [0, *ends]]
    text = store.manifest_text(path)
    rng = random.Random(0)
    refused = 0
    for _ in range(FUZZ or 500):
        file.write_bytes(damage_bytes(rng, content))
        try:
            assert journal.read(path, text).records in prefixes
        except ModelFileError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("tail", [bytes(5000), b"\xff" * 100, b"\xf5\xc1\xabJ" * 30], ids=["zeros", "ones", "markers"])
def test_what_a_lost_write_left_is_ignored_and_overwritten(filled, tail):
    path, ends = filled
    with journals(path)[0].open("ab") as file:
        file.write(tail)
    assert state(path) == (0, RECORDS)
    append(path, b"next")
    assert state(path) == (0, [*RECORDS, b"next"])
    assert journals(path)[0].stat().st_size == ends[-1] + (ends[3] - ends[2]) + len(b"next")  # nothing of it is left


def test_the_journal_of_another_model_under_this_name(filled, tmp_path):
    path, _ = filled
    save(tmp_path / "other", 1)
    append(tmp_path / "other", b"a")
    journals(path)[0].write_bytes(journals(tmp_path / "other")[0].read_bytes())
    with pytest.raises(ModelFileError, match="its journal is that of another model"):
        store.load(path)


def test_an_entry_with_a_right_checksum_and_wrong_lengths(path):
    text = store.manifest_text(path)
    key = bytes.fromhex(manifest_module.manifest_checksum(text))
    for body in (b"abc", b"\xff" * 8 + b"abc"):
        head = journal._HEAD.pack(journal._MARKER, len(body), journal._digest(key, body), b"")[:-8]
        entry = head + journal._check(head, key) + body
        (path / journal.journal_name(text)).write_bytes(journal._header(text) + entry)
        with pytest.raises(ModelFileError, match="its journal cannot be read; save the model again"):
            store.load(path)


def test_a_journal_that_cannot_be_read(path):
    (path / journal.journal_name(store.manifest_text(path))).mkdir()
    with pytest.raises(ModelFileError, match=r"journal-\w+\.log cannot be read"):
        store.load(path)


def test_a_read_during_which_a_torn_tail_is_replaced(filled, monkeypatch):
    """What was read, half of before and half of after, is no damage."""
    path, ends = filled
    content = journals(path)[0].read_bytes()
    mixed = [content[: ends[2]] + bytes(20) + content[ends[2] + 20 :]]
    real = pathlib.Path.read_bytes
    monkeypatch.setattr(pathlib.Path, "read_bytes", lambda file: mixed.pop() if mixed else real(file))
    assert journal.read(path, store.manifest_text(path)).records == RECORDS
    assert not mixed


# ---- saves --------------------------------------------------------------------------------------------------------


def test_a_save_ends_the_journal(filled):
    path, _ = filled
    save(path, 1)
    assert state(path) == (1, [])
    assert not journals(path)
    save(path, 0)  # the old model, without the old records
    assert state(path) == (0, [])


def test_the_same_save_again_ends_the_journal(filled):
    path, _ = filled
    save(path)
    assert state(path) == (0, [])
    assert not journals(path)


def test_a_journal_that_a_killed_save_left_does_not_come_back(filled):
    path, _ = filled
    old, content = journals(path)[0], journals(path)[0].read_bytes()
    save(path, 1)
    old.write_bytes(content)  # killed after the manifest was replaced
    assert state(path) == (1, [])
    append(path, b"new")
    assert state(path) == (1, [b"new"])
    save(path, 0)
    assert state(path) == (0, [])
    assert not journals(path)


def test_the_journal_of_a_damaged_manifest_stays_until_the_next_save(filled, monkeypatch):
    path, _ = filled
    (path / "manifest.json").write_text("{")
    with monkeypatch.context() as patched:
        patched.setattr(store, "new_manifest", lambda *args: (_ for _ in ()).throw(FULL))
        with pytest.raises(ModelFileError, match="No space left"):
            save(path, 1)
    assert journals(path)
    save(path, 1)
    assert state(path) == (1, [])
    assert not journals(path)


def test_a_folder_with_a_journal_is_a_model_folder(filled):
    path, _ = filled
    (path / "manifest.json").unlink()
    assert store.replaceable(path) == {}
    (path / "journal.log").write_text("of somebody else")
    with pytest.raises(InputError, match="holds something other than a model"):
        store.replaceable(path)


def test_a_load_that_finds_its_journal_ended_takes_the_new_model(filled, monkeypatch):
    """Saved between the reading of the manifest and of the journal: the old model without its records never was."""
    path, _ = filled
    real = journal.read

    def late(*args):
        monkeypatch.undo()
        save(path, 1)
        return real(*args)

    monkeypatch.setattr(journal, "read", late)
    assert state(path) == (1, [])


@pytest.mark.parametrize("number", [0, 1], ids=["the same model", "another"])
@pytest.mark.parametrize("place", ["write_text", "remove"])
def test_a_failed_save_leaves_the_journal(filled, number, place, monkeypatch):
    path, _ = filled

    def fails(*args, **options):
        raise FULL

    with monkeypatch.context() as patched:
        patched.setattr(files_module if place == "write_text" else journal, place, fails)
        with pytest.raises(ModelFileError, match="No space left on device; the model that was there is intact"):
            save(path, number)
    assert state(path) == (0, RECORDS)
    save(path, number)
    assert state(path) == (number, [])


# ---- failures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [b"", b"\xf5\xc1\xabJ\x07"])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["disk full", "interrupted"])
def test_a_failed_append_leaves_what_was_there(filled, error, torn, monkeypatch):
    path, ends = filled
    file = journals(path)[0]
    file.write_bytes(file.read_bytes() + torn)
    real = os.fsync
    failures = [error]

    def fails(opened):
        if failures:
            raise failures.pop()
        real(opened)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises((ModelFileError, KeyboardInterrupt)) as caught:
            append(path, b"more")
    if error is FULL:
        assert "No space left on device; the model that was there is intact" in str(caught.value)
    assert file.stat().st_size == ends[-1]
    assert state(path) == (0, RECORDS)
    append(path, b"more")
    assert state(path) == (0, [*RECORDS, b"more"])


def test_a_failed_first_append_leaves_no_journal(path, monkeypatch):
    before = sorted(part.name for part in path.iterdir())

    def fails(opened):
        raise FULL

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(ModelFileError, match=r"could not append to .*: No space left on device"):
            append(path, b"a")
    assert sorted(part.name for part in path.iterdir()) == before


def test_the_disk_is_really_full(filled):
    """The kernel itself writes a part and refuses the rest: a limit on the size of files, in a process of its own."""
    pytest.importorskip("resource")
    path, ends = filled
    code = """
        import pathlib, resource, signal, sys
        from komd import journal, store
        path = pathlib.Path(sys.argv[1])
        saved = store.load(path)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        try:
            journal.append(path, [bytes(9000)], manifest=saved.manifest, known=saved.tip)
        except store.ModelFileError as error:
            print(error)
    """
    done = run(code, path)
    assert done.returncode == 0, done.stderr
    assert "File too large; the model that was there is intact" in done.stdout
    assert journals(path)[0].stat().st_size == ends[-1]
    assert state(path) == (0, RECORDS)


def run(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


KILLED = """
    import os, pathlib, shutil, signal, sys
    import numpy as np
    from komd import journal, store
    folder, what = pathlib.Path(sys.argv[1]), sys.argv[2]
    path, states = folder.with_name("again"), []

    def save(number):
        store.save(path, model="X()", arrays={"a": np.array([number])}, ids={})

    def append():
        saved = store.load(path)
        journal.append(path, [b"more"], manifest=saved.manifest, known=saved.tip)

    def state():
        saved = store.load(path)
        return [int(saved.arrays["a"][0]), len(saved.records)]

    for moment in range(1, 100):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(folder, path)
        child = os.fork()
        if child == 0:
            calls = 0
            def doomed(real):
                def call(*args, **kwargs):
                    global calls
                    calls += 1
                    if calls == moment:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*args, **kwargs)
                return call
            os.fsync, os.replace, os.unlink = doomed(os.fsync), doomed(os.replace), doomed(os.unlink)
            append() if what == "append" else save(int(what))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        states.append(state())
        append()
        assert state() == [states[-1][0], states[-1][1] + 1]
        save(0)
        assert state() == [0, 0] and len(list(path.iterdir())) == 2
        if not os.WIFSIGNALED(status):
            break
    print(states)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("what", ["append", "0", "1"], ids=["append", "the same save again", "another save"])
@pytest.mark.parametrize("first", [True, False], ids=["no journal", "a journal"])
def test_killed_at_any_moment(path, what, first):
    """kill -9 before every flush, renaming and removal: the state is the old or the new one, the next save is clean."""
    if not first:
        append(path, b"a")
        append(path, b"b", b"c")
    count = 0 if first else 3
    done = run(KILLED, path, what)
    assert done.returncode == 0, done.stderr
    states = json.loads(done.stdout)
    old, new = [0, count], [0, count + 1] if what == "append" else [int(what), 0]
    assert states[0] == old or what == "append"  # written, not yet flushed: a kill leaves it, a power failure might not
    assert states[-1] == new
    assert len(states) > 2
    assert states == sorted(states, key=lambda found: found != old)  # once new, new for good
    assert all(found in (old, new) for found in states)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_concurrent_appends_saves_and_loads():
    command = [sys.executable, str(HERE / "concurrent_appends.py"), str(FUZZ // 50 or 30)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=None if FUZZ else 300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing lost" in done.stdout


def test_folders_are_copied_with_their_journals(filled, tmp_path):
    path, _ = filled
    shutil.copytree(path, tmp_path / "copy")
    append(tmp_path / "copy", b"more")
    assert state(tmp_path / "copy") == (0, [*RECORDS, b"more"])
    assert state(path) == (0, RECORDS)
