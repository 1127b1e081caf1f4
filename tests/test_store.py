"""A model on disk: whole or not at all, checked, never executed."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pytest

import komd
from komd import files as files_module
from komd import manifest as manifest_module
from komd import store
from komd.errors import InputError, ModelFileError
from komd.manifest import manifest_checksum


@pytest.fixture(scope="module")
def models(small):
    """An old model and its successor, both large enough to have mapped files."""
    return komd.CFKOMD().fit(small), komd.CFKOMD(kernel="linear", regularization=0.5).fit(small)


@pytest.fixture
def saved(models, tmp_path):
    path = tmp_path / "m.komd"
    models[0].save(path)
    return path


def files(path):
    return sorted(part.name for part in path.iterdir())


def assert_is(path, model):
    """The folder holds this model, whole, and nothing else."""
    again = komd.load(path)
    assert repr(again) == repr(model)
    assert again.recommend(n=5).to_arrow().equals(model.recommend(n=5).to_arrow())


def alter(path, change, sealed=True):
    """Change the manifest; `sealed`: with a checksum that vouches for the change."""
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    if sealed:
        manifest["sha256"] = manifest_checksum(json.dumps(manifest))
    (path / "manifest.json").write_text(json.dumps(manifest))


# ---- what is on disk --------------------------------------------------------------------------------------------


def test_the_folder(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["format"] == store.FORMAT
    assert manifest["komd"] == komd.__version__
    assert manifest["model"] == "CFKOMD()"
    assert files(saved) == sorted(["manifest.json", *(e["file"] for e in manifest["files"].values())])
    for name, entry in manifest["files"].items():
        file = saved / entry["file"]
        assert file.stat().st_size == entry["bytes"]
        assert entry["file"].startswith(f"{name}-{entry['sha256'][:16]}")
        assert {"dtype", "shape"} <= set(entry)
        assert b"pickle" not in file.read_bytes()


def test_arrays_are_mapped(saved):
    arrays = store.load(saved).arrays
    assert isinstance(arrays["matrix"].base, np.memmap)
    arrays["matrix"][0, 0] = 7  # copy on write: the file does not hear of it
    again = store.load(saved).arrays
    assert again["matrix"][0, 0] == 1


def test_saving_again_leaves_one_model(saved, models):
    models[1].save(saved)
    assert_is(saved, models[1])
    manifest = json.loads((saved / "manifest.json").read_text())
    assert files(saved) == sorted(["manifest.json", *(e["file"] for e in manifest["files"].values())])
    models[1].save(saved)  # the same files: overwritten, not deleted
    assert_is(saved, models[1])


def test_an_empty_folder_may_be_filled(models, tmp_path):
    (tmp_path / "empty").mkdir()
    models[0].save(tmp_path / "empty")
    assert_is(tmp_path / "empty", models[0])


def test_arrays_of_every_kind_survive(tmp_path):
    arrays = {
        "none": np.zeros(0, np.int32),
        "wide": np.arange(6000.0).reshape(3, 2000),
        "turned": np.arange(12, dtype=np.float32).reshape(3, 4).T,
        "flags": np.array([True, False]),
    }
    ids = {"texts": pa.array(["a", "ü", ""]), "numbers": pa.array([3, 1, 2])}
    store.save(tmp_path / "m", model="X()", arrays=arrays, ids=ids)
    text, found, names, *_ = store.load(tmp_path / "m")
    assert text == "X()"
    for name, array in arrays.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert all(names[name].equals(values) for name, values in ids.items())


def test_objects_are_never_pickled(tmp_path):
    with pytest.raises(ValueError, match="only numbers are saved"):
        store.save(tmp_path / "m", model="X()", arrays={"bad": np.array([{}], object)}, ids={})
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("padding", [0, 5000])
def test_a_pickle_put_in_place_of_an_array_is_not_opened(saved, padding, tmp_path):
    """With a manifest that vouches for it: even then nothing in a folder is executed."""
    import hashlib

    class Trap:
        def __reduce__(self):
            return (pathlib.Path.touch, (tmp_path / "sprung",))

    entry = json.loads((saved / "manifest.json").read_text())["files"]["S"]
    with (saved / entry["file"]).open("wb") as file:
        np.save(file, np.array([Trap(), "x" * padding], object), allow_pickle=True)
    content = (saved / entry["file"]).read_bytes()

    digest = hashlib.sha256(content).hexdigest()
    (saved / entry["file"]).rename(saved / f"S-{digest[:16]}.npy")

    def vouch(manifest):
        about = {"file": f"S-{digest[:16]}.npy", "bytes": len(content), "sha256": digest}
        manifest["files"]["S"] |= about

    alter(saved, vouch)
    with pytest.raises(ModelFileError, match="cannot be read"):
        komd.load(saved)
    assert not (tmp_path / "sprung").exists()


# ---- folders of an earlier format ---------------------------------------------------------------------------------

FORMAT_1 = pathlib.Path(__file__).parent / "fixtures" / "format1"  # made by fixtures/make_format1.py


@pytest.mark.parametrize("name", sorted(part.name for part in FORMAT_1.iterdir() if part.is_dir()))
def test_folders_of_format_1_load_and_give_the_same_scores(name):
    stored = json.loads((FORMAT_1 / "scores.json").read_text(encoding="utf-8"))[name]
    model = komd.load(FORMAT_1 / name)
    assert model.text == komd.model_from_text(stored["model"]).text
    rows = model.recommend(list(stored["scores"]), n=1000, exclude_seen=False).to_arrow().to_pylist()
    for user, scores in stored["scores"].items():
        found = {row["item_id"]: row["score"] for row in rows if row["user_id"] == user}
        assert found == pytest.approx(scores, rel=1e-6, abs=1e-6)


FORMAT_2 = FORMAT_1.with_name("format2")  # made by fixtures/make_format2.py
WRITTEN = json.loads((FORMAT_2 / "lists.json").read_text(encoding="utf-8"))


# Both solvers, that of now and that of the version which wrote the folders, end at a KKT gap of 1e-8.
CLOSE = 1e-7


@pytest.mark.parametrize("name", WRITTEN["models"])
def test_folders_of_format_2_load_and_give_the_same_lists(name):
    written = WRITTEN["models"][name]
    model = komd.load(FORMAT_2 / name)
    assert model.text == komd.model_from_text(written["model"]).text
    for user, answer in written["answers"].items():
        asked = {"histories": {user: WRITTEN["guest"]}} if user == "guest" else {"users": user}
        assert model.recommend(**asked, n=5).items(user) == answer["list"]
        found = model.recommend(**asked, n=len(WRITTEN["items"]), items=WRITTEN["items"], exclude_seen=False).to_arrow()
        scores = dict(zip(found["item_id"].to_pylist(), found["score"].to_pylist(), strict=True))
        assert [scores[item] for item in WRITTEN["items"]] == pytest.approx(answer["scores"], rel=CLOSE, abs=CLOSE)


# ---- damage -----------------------------------------------------------------------------------------------------


def each_file(path):
    return [part for part in path.iterdir() if part.name != "manifest.json"]


def test_a_truncated_file(saved):
    for file in each_file(saved):
        content = file.read_bytes()
        for size in (0, len(content) // 2, len(content) - 1):
            file.write_bytes(content[:size])
            for verify in (True, False):
                with pytest.raises(ModelFileError, match=rf"is incomplete: {file.name} has {size:,} bytes"):
                    komd.load(saved, verify=verify)
        file.write_bytes(content)
    komd.load(saved)


def test_an_altered_byte(saved):
    for file in each_file(saved):
        content = bytearray(file.read_bytes())
        for place in (0, len(content) // 2, len(content) - 1):
            content[place] ^= 1
            file.write_bytes(content)
            # What compiled code takes for a place in memory, and ids, are checked always.
            for verify in (True,) if file.name.startswith(("matrix", "S")) else (True, False):
                with pytest.raises(ModelFileError, match=f"was altered: {file.name} is not what was saved"):
                    komd.load(saved, verify=verify)
            content[place] ^= 1
        file.write_bytes(content)
    komd.load(saved)


def test_a_missing_file(saved):
    for file in each_file(saved):
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(ModelFileError, match=f"is incomplete: {file.name} is missing; save the model again"):
            komd.load(saved)
        file.write_bytes(content)


def test_no_model_there(tmp_path):
    with pytest.raises(ModelFileError, match="no model at"):
        komd.load(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelFileError, match=r"holds no komd model: it has no manifest\.json"):
        komd.load(tmp_path / "folder")
    (tmp_path / "file").write_text("hello")
    with pytest.raises(ModelFileError, match=r"file is a file; a saved model is a folder: give the folder that holds"):
        komd.load(tmp_path / "file")


def test_a_newer_format(saved):
    alter(saved, lambda manifest: manifest.update(format=store.FORMAT + 1, komd="9.9"))
    with pytest.raises(ModelFileError, match=r"saved by komd 9\.9 in format \d+; .*: upgrade komd"):
        komd.load(saved)


def test_a_newer_model(saved):
    alter(saved, lambda manifest: manifest.update(model="Oracle(certainty=1)"))
    with pytest.raises(ModelFileError, match="holds no model this komd knows: unknown model 'Oracle'"):
        komd.load(saved)


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "3", '"text"', "{}", '{"format": "x"}', '{"format": 1}', "\ufeff{}"]
)
def test_no_manifest(saved, text):
    (saved / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(ModelFileError):
        komd.load(saved)


def test_bytes_for_a_manifest(saved):
    (saved / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelFileError, match="cannot be read"):
        komd.load(saved)


def drop(name):
    return lambda manifest: manifest["files"].pop(name)


ALTERED = {
    "no files": lambda m: m.update(files={}),
    "files is a list": lambda m: m.update(files=[1, 2]),
    "files is null": lambda m: m.update(files=None),
    "a file is a text": lambda m: m["files"].update(S="S.npy"),
    "a file is null": lambda m: m["files"].update(S=None),
    "no model": lambda m: m.pop("model"),
    "model is a number": lambda m: m.update(model=3),
    "model is code": lambda m: m.update(model="__import__('os').getcwd()"),
    "no checksum": lambda m: m["files"]["S"].pop("sha256"),
    "wrong checksum": lambda m: m["files"]["S"].update(sha256="0" * 64),
    "wrong size": lambda m: m["files"]["S"].update(bytes=1),
    "size is a text": lambda m: m["files"]["S"].update(bytes="1"),
    "file is a number": lambda m: m["files"]["S"].update(file=3),
    "format is infinite": lambda m: m.update(format=float("inf")),
    "format is null": lambda m: m.update(format=None),
    "no order": drop("order"),
    "no histories": drop("history_indptr"),
    "no matrix": drop("matrix"),
    "no users": drop("users"),
    "ids for an array": lambda m: m["files"].update(S=m["files"]["users"]),
    "another array": lambda m: m["files"].update(matrix=m["files"]["S"]),
    "a history for the sums": lambda m: m["files"].update(S=m["files"]["history_indices"]),
}


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_manifest(saved, name, sealed):
    alter(saved, ALTERED[name], sealed)
    for verify in (True, False):
        with pytest.raises(ModelFileError):
            komd.load(saved, verify=verify)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(model="CFKOMD(regularization=9)"),
        lambda m: m.update(komd="0.1.9"),
        lambda m: m.update(format=1),
        lambda m: m.pop("sha256"),
        lambda m: m.update(sha256="0" * 64),
        lambda m: m.update(sha256=None, format=1),
        lambda m: m.update(more=1),
    ],
)
def test_the_manifest_has_a_checksum_of_its_own(saved, change):
    alter(saved, change, sealed=False)
    with pytest.raises(ModelFileError, match="was altered: it is not what was saved"):
        komd.load(saved)


def test_the_layout_of_a_manifest_does_not_matter(saved, models):
    alter(saved, lambda manifest: None, sealed=False)  # written again, on one line
    assert_is(saved, models[0])


@pytest.mark.parametrize(
    ("fixture", "names"),
    [
        ("sparse-filter", ["filter", "filter_scale", "truncation"]),
        ("streamed-filter", ["filter", "filter_scale", "truncation"]),
        ("sparse-prior", ["prior"]),
        ("streamed-prior", ["prior"]),
        ("streamed", ["item_indptr", "item_users"]),
        ("dense-rank", ["truncation"]),
        ("sparse", ["S"]),
        ("bpr", ["user_factors"]),
    ],
)
def test_the_names_of_arrays_are_those_of_the_model_and_its_parameters(fixture, names, tmp_path):
    """Without its own checksum, too: a manifest of format 1 that lost an entry must not load as another model."""
    path = tmp_path / "m"
    shutil.copytree(FORMAT_1 / fixture, path)
    for name in names:
        alter(path, lambda m, name=name: m["files"].pop(name), sealed=False)
        with pytest.raises(ModelFileError, match="are not those of"):
            komd.load(path)
    shutil.copytree(FORMAT_1 / fixture, path, dirs_exist_ok=True)
    alter(path, lambda m: m["files"].update({"x" + names[0]: m["files"].pop(names[0])}), sealed=False)
    with pytest.raises(ModelFileError, match="is no file of a model"):
        komd.load(path)


@pytest.mark.parametrize("name", ALTERED)
def test_a_damaged_model_may_be_replaced(saved, name, models):
    alter(saved, ALTERED[name])
    models[1].save(saved)
    assert_is(saved, models[1])


@pytest.mark.parametrize("name", ["../secret.npy", "/etc/hostname", "a/../../secret.npy", "..", ".", "", "sub/x.npy"])
def test_a_manifest_that_points_elsewhere(saved, name, models):
    secret = saved.parent / "secret.npy"
    np.save(secret, np.arange(3))
    (saved / "sub").mkdir()
    np.save(saved / "sub" / "x.npy", np.arange(3))

    def point(manifest):
        manifest["files"]["S"]["file"] = name
        manifest["files"]["S"]["bytes"] = secret.stat().st_size

    alter(saved, point)
    with pytest.raises(ModelFileError):
        komd.load(saved)
    models[1].save(saved)  # and nothing outside is deleted with the old model
    assert secret.exists()
    assert (saved / "sub" / "x.npy").exists()


# ---- refusing and failing to write --------------------------------------------------------------------------------


def test_a_folder_with_something_else_is_not_written_over(models, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("precious")
    with pytest.raises(InputError, match="holds something other than a model; choose another name"):
        models[0].save(tmp_path / "thesis")
    assert files(tmp_path / "thesis") == ["chapter1.tex"]
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InputError, match="is a file; a model is saved to a folder"):
        models[0].save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"


def test_other_files_beside_a_model_stay(saved, models):
    (saved / "notes.txt").write_text("mine")
    models[1].save(saved)
    assert (saved / "notes.txt").read_text() == "mine"
    assert_is(saved, models[1])


def test_a_parent_that_is_a_file(models, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFileError, match=r"could not save the model to .*: Not a directory"):
        models[0].save(tmp_path / "file" / "m.komd")


class Failing:
    """Every call of one kind (of `open`: for writing) counts, and the k-th raises."""

    def __init__(self, monkeypatch, where, name, at, error):
        self.calls = 0
        real = getattr(where, name)

        def call(*args, **kwargs):
            counts = name != "open" or "w" in "".join(args[1:2])
            self.calls += counts
            if counts and self.calls == at:
                raise error
            return real(*args, **kwargs)

        monkeypatch.setattr(where, name, call)


ERRORS = {
    "no permission": OSError(errno.EACCES, os.strerror(errno.EACCES)),
    "disk full": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "read-only": OSError(errno.EROFS, os.strerror(errno.EROFS)),
}
PLACES = {
    "open": (pathlib.Path, "open"),
    "write": (np.lib.format, "write_array_header_2_0"),
    "flush": (os, "fsync"),
    "swap": (os, "replace"),
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("at", [1, 3, "last"])
def test_a_failed_save_leaves_the_old_model_whole(place, at, error, saved, models, monkeypatch):
    where, name = PLACES[place]
    before = {part.name: part.read_bytes() for part in saved.iterdir()}
    if at == "last":
        with monkeypatch.context() as counting:
            counter = Failing(counting, where, name, -1, None)
            shutil.copytree(saved, saved.parent / "elsewhere")
            models[1].save(saved.parent / "elsewhere")
            at = counter.calls - (place == "flush")  # the very last flush is the folder's, when all is done
    with monkeypatch.context() as patched:
        Failing(patched, where, name, at, ERRORS[error])
        reason = ERRORS[error].strerror
        with pytest.raises(ModelFileError, match=f"{reason}; the model that was there is intact"):
            models[1].save(saved)
    assert {part.name: part.read_bytes() for part in saved.iterdir()} == before  # and no stray files
    assert_is(saved, models[0])
    models[1].save(saved)
    assert_is(saved, models[1])


@pytest.mark.parametrize("place", PLACES)
def test_a_failed_first_save_leaves_nothing(place, models, tmp_path, monkeypatch):
    where, name = PLACES[place]
    Failing(monkeypatch, where, name, 2, ERRORS["disk full"])
    with pytest.raises(ModelFileError, match=r"could not save the model to .*: No space left on device$"):
        models[0].save(tmp_path / "m.komd")
    assert files(tmp_path) == []


def test_an_interrupted_save_leaves_the_old_model_whole(saved, models, monkeypatch):
    before = files(saved)
    with monkeypatch.context() as patched:
        Failing(patched, os, "fsync", 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            models[1].save(saved)
    assert files(saved) == before
    assert_is(saved, models[0])


def test_the_disk_is_really_full(saved, models):
    """The kernel itself refuses: a limit on the size of files, in a process of its own."""
    models[1].save(saved.parent / "next")
    code = """
        import resource, signal, sys
        import komd
        model = komd.load(sys.argv[1])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        try:
            model.save(sys.argv[2])
        except komd.ModelFileError as error:
            print(error)
    """
    pytest.importorskip("resource")
    before = files(saved)
    done = run(code, saved.parent / "next", saved)
    assert done.returncode == 0, done.stderr
    assert "could not save the model" in done.stdout
    assert "the model that was there is intact" in done.stdout
    assert files(saved) == before
    assert_is(saved, models[0])


def test_a_full_file_system(models, tmp_path):
    mount = tmp_path / "tiny"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("no right to mount a small file system here")
    try:
        models[0].save(mount / "m.komd")
        before = files(mount / "m.komd")
        (mount / "ballast").write_bytes(b"x" * (free(mount) - 8192))
        with pytest.raises(ModelFileError, match="No space left on device; the model that was there is intact"):
            models[1].save(mount / "m.komd")
        assert files(mount / "m.komd") == before
        assert_is(mount / "m.komd", models[0])
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def free(path):
    numbers = os.statvfs(path)
    return numbers.f_bavail * numbers.f_frsize


def run(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_any_moment(saved, models):
    """kill -9 before every flush, every renaming and every removal: there is always one whole model, old or new."""
    models[1].save(saved.parent / "next")
    code = """
        import os, signal, sys
        import komd
        path, old, new = sys.argv[1], komd.load(sys.argv[1]), komd.load(sys.argv[2])
        lists = {repr(m): m.recommend(n=5, threads=1).to_arrow() for m in (old, new)}
        outcomes = []
        for moment in range(1, 100):
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
                new.save(path)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            found = komd.load(path)
            assert found.recommend(n=5, threads=1).to_arrow().equals(lists[repr(found)])
            outcomes.append(repr(found))
            if not os.WIFSIGNALED(status):
                break
            old.save(path)
        assert outcomes[0] == repr(old) and outcomes[-1] == repr(new), outcomes
        assert moment > 10
        print("whole", moment)
    """
    done = run(code, saved, saved.parent / "next")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("whole")
    assert_is(saved, models[1])


def test_what_a_killed_save_left_is_taken_away_by_the_next(saved, models):
    """Files under a temporary name, or of an array that no manifest names, must not pile up."""
    (saved / f".matrix.{2**22 + 1}").write_bytes(b"half an array")
    (saved / "matrix-0123456789abcdef.npy").write_bytes(b"an array nobody names")
    models[1].save(saved)
    manifest = json.loads((saved / "manifest.json").read_text())
    assert files(saved) == sorted(["manifest.json", *(e["file"] for e in manifest["files"].values())])


# ---- several at once ----------------------------------------------------------------------------------------------

HERE = pathlib.Path(__file__).parent
FUZZ = int(os.environ.get("KOMD_FUZZ", "0"))  # 10000 runs 200 rounds of saves and 10,000 cases of damage


def run_script(name, count):
    command = [sys.executable, str(HERE / name), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=None if FUZZ else 300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_concurrent_saves_and_loads():
    assert "always one whole model" in run_script("concurrent_saves.py", FUZZ // 50 or 6)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_damage_is_refused_or_changes_nothing():
    said = run_script("damaged_models.py", FUZZ or 300)
    assert "load: refused" in said
    assert not any(f"{way}: different" in said for way in ("load", "spark"))


def test_a_load_that_finds_the_model_replaced_takes_the_new_one(saved, models, monkeypatch):
    texts = [store.manifest_text(saved)]
    models[1].save(saved)
    now = store.manifest_text
    monkeypatch.setattr(store, "manifest_text", lambda path: texts.pop() if texts else now(path))
    assert_is(saved, models[1])
    assert not texts


def test_a_load_writes_nothing(saved, models, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("write_aside", "replace", "locked", "sync"):
        monkeypatch.setattr(files_module, name, refused)
    monkeypatch.setattr(os, "unlink", refused)
    assert_is(saved, models[0])


def test_a_save_that_never_gets_its_turn(saved, models, monkeypatch):
    monkeypatch.setattr(manifest_module, "_WAIT", 0.05)
    with (
        files_module.locked(saved / ".lock"),
        pytest.raises(ModelFileError, match="another save there has not ended for 0 minutes; try again later"),
    ):
        models[1].save(saved)
    assert_is(saved, models[0])
    models[1].save(saved)
    assert_is(saved, models[1])


def test_a_manifest_that_comes_while_the_folder_is_looked_at(models, tmp_path, monkeypatch):
    path, real = tmp_path / "m.komd", pathlib.Path.iterdir
    path.mkdir()

    def late(folder):
        monkeypatch.undo()
        models[0].save(path)  # another process, between two questions
        return real(folder)

    monkeypatch.setattr(pathlib.Path, "iterdir", late)
    models[1].save(path)
    assert_is(path, models[1])


def test_without_locks_a_save_deletes_nothing(saved, models, monkeypatch):
    before = set(files(saved))

    def refused(opened):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched:
        patched.setattr(files_module, "_lock", refused)
        models[1].save(saved)
        assert before <= set(files(saved))
        assert not any(name.startswith(".") for name in files(saved))
    assert_is(saved, models[1])
    models[1].save(saved)
    assert len(files(saved)) == len(before)  # the next save with a lock does


def test_a_failed_save_does_not_vouch_for_what_it_cannot_know(saved, models, monkeypatch):
    each_file(saved)[0].unlink()
    Failing(monkeypatch, os, "fsync", 1, ERRORS["disk full"])
    with pytest.raises(ModelFileError, match=r"No space left on device$"):
        models[1].save(saved)


def test_files_are_checked_once_until_they_change(saved, tmp_path, monkeypatch):
    marks = tmp_path / "marks"
    marks.mkdir()
    text = store.manifest_text(saved)
    checks = []
    real = files_module.checksum
    monkeypatch.setattr(files_module, "checksum", lambda file: checks.append(file) or real(file))
    count = len(each_file(saved))
    store.load(saved, manifest=text, marks=marks)
    assert not list(marks.iterdir())  # written a moment ago: another change could leave their times as they are
    monkeypatch.setattr(store, "_SETTLED", -1.0)
    store.load(saved, manifest=text, marks=marks)
    assert len(checks) == 2 * count
    store.load(saved, manifest=text, marks=marks)
    assert len(checks) == 2 * count
    file = each_file(saved)[0]
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    os.utime(file, ns=(0, 0))
    with pytest.raises(ModelFileError, match="is not what was saved"):
        store.load(saved, manifest=text, marks=marks)


def test_a_model_that_need_not_be_durable_is_the_same_and_not_flushed(saved, models, monkeypatch, tmp_path):
    flushed = []
    monkeypatch.setattr(files_module.os, "fsync", flushed.append)
    loaded = store.load(saved)
    store.save(tmp_path / "light.komd", model=loaded.model, arrays=loaded.arrays, ids=loaded.ids, durable=False)
    assert flushed == []
    assert files(tmp_path / "light.komd") == files(saved)
    assert_is(tmp_path / "light.komd", models[0])
    models[0].save(tmp_path / "flushed.komd")
    assert flushed


def test_checksums_of_a_trusted_folder_are_not_computed(saved, monkeypatch):
    def refuse(file):
        raise AssertionError("a checksum is computed")

    monkeypatch.setattr(files_module, "checksum", refuse)
    loaded = store.load(saved, trusted=True)
    assert loaded.model == "CFKOMD()" and "S" in loaded.arrays
    with pytest.raises(AssertionError, match="a checksum is computed"):
        store.load(saved, verify=False)
