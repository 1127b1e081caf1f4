"""Files that are there whole or not at all, and locks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from komd import files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_or_stays_as_it_was(tmp_path):
    path = tmp_path / "a.json"
    files.write_text(path, "äöü")
    assert path.read_bytes() == "äöü".encode()

    def fails(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write(path, fails)
    assert path.read_text(encoding="utf-8") == "äöü"
    assert names(tmp_path) == ["a.json"]
    with pytest.raises(OSError):
        files.replace(files.write_aside(path, lambda file: None), tmp_path / "no folder" / "a.json")
    assert names(tmp_path) == ["a.json"]


def test_temporary_names_differ_and_are_known(tmp_path):
    made = {files.write_aside(tmp_path / "manifest.json", lambda file: None).name for _ in range(20)}
    assert len(made) == 20
    assert all(files.is_temporary(name) for name in made)
    assert not any(map(files.is_temporary, ["manifest.json", ".lock", ".a.tmp", "a.1-00000000.tmp"]))


def test_what_dead_processes_left_is_swept(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".a.json.{dead.pid}-0123abcd.tmp").touch()
    mine = files.write_aside(tmp_path / "a.json", lambda file: None)
    (tmp_path / "other").touch()
    files.sweep(tmp_path)
    assert names(tmp_path) == sorted([mine.name, "other"])


def test_checksums(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.checksum(tmp_path / "a") == known
    with (tmp_path / "a").open("rb") as file:
        assert files.checksum(file) == known


def test_one_thread_at_a_time(tmp_path):
    path, inside, most = tmp_path / "new" / ".lock", 0, 0

    def work():
        nonlocal inside, most
        for _ in range(5):
            with files.locked(path, wait=60) as alone:
                assert alone
                inside += 1
                most = max(most, inside)
                threading.Event().wait(0.001)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert names(path.parent) == []  # and the lock file is gone


def test_a_lock_that_may_not_be_made(tmp_path, monkeypatch):
    def refused(path, flags, *mode):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(PermissionError), files.locked(tmp_path / ".lock", wait=60):
        pass


def test_a_lock_that_is_held(tmp_path):
    with files.locked(tmp_path / ".lock"), pytest.raises(files.LockHeld), files.locked(tmp_path / ".lock", wait=0.05):
        pass
    with files.locked(tmp_path / ".lock") as alone:
        assert alone


@pytest.mark.skipif(os.name == "nt", reason="kill -9")
def test_a_killed_holder_frees_its_lock(tmp_path):
    code = f"""
from pathlib import Path
from komd import files
with files.locked(Path({str(tmp_path)!r}) / ".lock"):
    print("held", flush=True)
    input()
"""
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(files.LockHeld), files.locked(tmp_path / ".lock"):
        pass
    holder.kill()
    holder.wait()
    assert names(tmp_path) == [".lock"]
    with files.locked(tmp_path / ".lock", wait=10) as alone:
        assert alone
    assert names(tmp_path) == []


def test_a_signal_while_a_temporary_folder_is_made_leaves_nothing(tmp_path, monkeypatch):
    """A handler may raise as soon as the folder exists, before anything else of ours runs."""
    make = Path.mkdir

    def signalled(path, **options):
        make(path, **options)
        raise SystemExit(143)

    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "mkdir", signalled)
    with pytest.raises(SystemExit), files.temporary_folder("komd-demo-"):
        pass
    assert list(tmp_path.iterdir()) == []
