"""Lists written to a folder: equal to `recommend`, whole or absent at any moment, taken up where they stopped."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import komd
from komd import files
from komd.data.interactions import Interactions
from komd.engine import batch_output as batch
from komd.errors import InputError
from tests.budget import repeats


@pytest.fixture(scope="module")
def model():
    return komd.ECFOMD().fit(komd.generate(users=230, items=90, activity=8, rng=4))


def parts(folder):
    return sorted(folder.glob("part-*.parquet"))


def union(folder):
    return pa.concat_tables([pq.read_table(file) for file in parts(folder)])


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    monkeypatch.setattr(batch, "_ROWS", 200)


def test_the_parts_are_the_lists(model, tmp_path):
    written = komd.recommend_to(model, tmp_path / "recs", n=10)
    assert (written.users, written.parts, written.resumed) == (230, 12, 0)
    assert union(tmp_path / "recs").equals(model.recommend(n=10).to_arrow())
    assert (
        pq.read_table(parts(tmp_path / "recs")[0])["user_id"].unique().to_pylist()
        == model.catalogue.users.values[:20].to_pylist()
    )


def test_options_and_strangers(model, tmp_path):
    items = model.catalogue.items.values.to_pylist()
    asked = {"histories": {"a": items[:3], "b": items[5:9]}, "exclude": items[:20], "exclude_seen": False}
    komd.recommend_to(model, tmp_path / "recs", n=7, **asked)
    assert union(tmp_path / "recs").equals(model.recommend(n=7, **asked).to_arrow())


def test_what_is_missing_is_made_and_nothing_else(model, tmp_path):
    folder = tmp_path / "recs"
    komd.recommend_to(model, folder, n=10)
    whole = union(folder)
    kept = {file.name: file.stat().st_mtime_ns for file in parts(folder)}
    for place in (11, 4, 0):
        parts(folder)[place].unlink()
    (folder / ".part-00099.parquet.123").write_bytes(b"half of a part")
    missing = set(kept) - {file.name for file in parts(folder)}
    assert len(missing) == 3
    again = komd.recommend_to(model, folder, n=10)
    assert again.resumed == 9
    assert union(folder).equals(whole)
    assert not list(folder.glob(".*"))
    assert all(file.stat().st_mtime_ns == kept[file.name] for file in parts(folder) if file.name not in missing)


DAMAGE = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "flipped": lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:],
    "longer": lambda content: content + b"\0",
    "another": lambda content: b"PAR1",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_part_is_made_again(kind, model, tmp_path):
    folder = tmp_path / "recs"
    komd.recommend_to(model, folder, n=10)
    whole, kept = union(folder), [file.stat().st_mtime_ns for file in parts(folder)]
    parts(folder)[3].write_bytes(DAMAGE[kind](parts(folder)[3].read_bytes()))
    again = komd.recommend_to(model, folder, n=10)
    assert (again.resumed, again.redone) == (11, 1)
    assert union(folder).equals(whole)
    assert [k for k, file in enumerate(parts(folder)) if file.stat().st_mtime_ns != kept[k]] == [3]
    assert komd.recommend_to(model, folder, n=10).redone == 0


def test_parts_without_a_checksum_are_made_again(model, tmp_path):
    folder = tmp_path / "recs"
    komd.recommend_to(model, folder, n=10)
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, check=False)
    assert checked.returncode == 0 and len(lines) == 12
    (folder / "SHA256SUMS").write_text("\n".join([*lines[:5], lines[5][:20], "noise \x00"]))
    again = komd.recommend_to(model, folder, n=10)
    assert (again.resumed, again.redone) == (5, 7)
    assert (folder / "SHA256SUMS").read_text().splitlines() == lines
    (folder / "SHA256SUMS").unlink()
    assert komd.recommend_to(model, folder, n=10).redone == 12


def test_pages_have_checksums(model, tmp_path):
    komd.recommend_to(model, tmp_path / "recs", n=10)
    file = parts(tmp_path / "recs")[0]
    place = pq.read_metadata(file).row_group(0).column(2)
    content = bytearray(file.read_bytes())
    first = place.dictionary_page_offset or place.data_page_offset
    content[first + place.total_compressed_size - 3] ^= 1
    file.write_bytes(content)
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(file, page_checksum_verification=True).read()


def test_two_runs_at_once(model, tmp_path):
    folder = tmp_path / "recs"
    with files.locked(folder / ".lock"), pytest.raises(InputError, match=r"another run is writing to .*: wait until"):
        komd.recommend_to(model, folder, n=10)
    komd.recommend_to(model, folder, n=10)
    assert union(folder).equals(model.recommend(n=10).to_arrow())
    assert not list(folder.glob(".*"))


def test_other_requests_and_other_folders_are_refused(model, tmp_path):
    folder = tmp_path / "recs"
    komd.recommend_to(model, folder, n=10)
    before = union(folder)
    with pytest.raises(InputError, match="another request: n 10, not 5"):
        komd.recommend_to(model, folder, n=5)
    with pytest.raises(InputError, match="other data, users or candidates"):
        komd.recommend_to(model, folder, n=10, users=model.catalogue.users.values.to_pylist()[::-1])
    other = komd.ECFOMD().fit(komd.generate(users=230, items=90, activity=8, rng=5))
    with pytest.raises(InputError, match="another request"):
        komd.recommend_to(other, folder, n=10)
    assert union(folder).equals(before)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"something other than recommendations \(thesis.tex\)"):
        komd.recommend_to(model, tmp_path / "mine", n=10)
    with pytest.raises(InputError, match="is a file"):
        komd.recommend_to(model, tmp_path / "mine" / "thesis.tex", n=10)


DAY = 86_400_000_000


def timed_model(weights=None, dislikes=None, **parameters):
    """A model of data with times, and if asked for, weights and dislikes."""
    data = komd.generate(users=230, items=90, activity=8, rng=4)
    times = np.random.default_rng(1).integers(18_000, 18_400, data.pairs) * DAY
    return komd.ECFOMD(half_life="30d", **parameters).fit(
        Interactions(
            data.users,
            data.items,
            data.indptr,
            data.indices,
            times,
            weights=weights,
            time_unit="us",
            dislikes=dislikes,
        )
    )


def test_weights_times_and_dislikes_are_part_of_the_request(tmp_path):
    data = komd.generate(users=230, items=90, activity=8, rng=4)
    weights = np.random.default_rng(2).integers(1, 9, data.pairs).astype(np.float32)
    other = weights.copy()
    other[-1] += 1
    dislikes = Interactions(data.users, data.items, *_one_unknown_each(data))
    models = [
        timed_model(),
        timed_model(weights),
        timed_model(other),
        timed_model(weights, dislikes),
        komd.ECFOMD(half_life="30d").fit(_shifted(data)),
    ]
    folders = [tmp_path / f"recs{k}" for k in range(len(models))]
    for model, folder in zip(models, folders, strict=True):
        komd.recommend_to(model, folder, n=10)
        assert union(folder).equals(model.recommend(n=10).to_arrow())
        assert komd.recommend_to(model, folder, n=10).resumed == 12
    for model in models:
        for folder in folders:
            if folder is not folders[models.index(model)]:
                with pytest.raises(InputError, match="another request: other data, users or candidates"):
                    komd.recommend_to(model, folder, n=10)


def _one_unknown_each(data):
    """(indptr, indices): one item for each user that is not in their history."""
    items = [int(np.setdiff1d(np.arange(90), data.indices[a:b])[0]) for a, b in itertools.pairwise(data.indptr)]
    return np.arange(231), np.array(items, np.int32)


def _shifted(data):
    times = np.random.default_rng(1).integers(18_000, 18_400, data.pairs) * DAY
    times[0] -= DAY
    return Interactions(data.users, data.items, data.indptr, data.indices, times, time_unit="us")


def test_strangers_with_weights_and_dislikes(tmp_path):
    model = timed_model()
    items = model.catalogue.items.values.to_pylist()
    asked = {"histories": {"a": {items[1]: 3, items[2]: 1}}, "dislikes": {"a": [items[4]]}}
    komd.recommend_to(model, tmp_path / "recs", n=7, **asked)
    assert union(tmp_path / "recs").equals(model.recommend(n=7, **asked).to_arrow())
    for change in (
        {"histories": {"a": {items[1]: 2, items[2]: 1}}},
        {"dislikes": {"a": [items[5]]}},
        {"dislikes": None},
    ):
        with pytest.raises(InputError, match="other data, users or candidates"):
            komd.recommend_to(model, tmp_path / "recs", n=7, **asked | change)


def test_a_resumed_run_keeps_its_moment(tmp_path, monkeypatch):
    model, folder = timed_model(), tmp_path / "recs"
    clock = [1_600_000_000_000_000_000]
    monkeypatch.setattr("komd.engine.requests.time.time_ns", lambda: clock[0])
    komd.recommend_to(model, folder, n=10, at="now")
    whole = union(folder)
    assert whole.equals(model.recommend(n=10, at="2020-09-13T12:26:40").to_arrow())
    assert whole["score"] != model.recommend(n=10).to_arrow()["score"]
    parts(folder)[3].unlink()
    clock[0] += 10**17
    assert komd.recommend_to(model, folder, n=10, at="now").resumed == 11
    assert union(folder).equals(whole)
    for at, told in ((None, "at 'now', not None"), ("2020-01-01", "at 'now', not '2020-01-01T00:00:00.000000'")):
        with pytest.raises(InputError, match=f"another request: {told}"):
            komd.recommend_to(model, folder, n=10, at=at)
    fixed = tmp_path / "fixed"
    komd.recommend_to(model, fixed, n=10, at="2020-09-14")
    assert komd.recommend_to(model, fixed, n=10, at=datetime.date(2020, 9, 14)).resumed == 12
    with pytest.raises(InputError, match=r"at '2020-09-14T00:00:00\.000000', not 'now'"):
        komd.recommend_to(model, fixed, n=10, at="now")
    with pytest.raises(InputError, match="at must be"):
        komd.recommend_to(model, tmp_path / "never", n=10, at="soon")
    assert not (tmp_path / "never").exists()
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"microseconds": "?"}))
    with pytest.raises(InputError, match="does not say which moment now was"):
        komd.recommend_to(model, folder, n=10, at="now")


def test_requests_without_weights_have_the_checksum_they_had(model, tmp_path):
    """Folders of earlier versions resume."""
    komd.recommend_to(model, tmp_path / "recs", n=10)
    request = json.loads((tmp_path / "recs" / "request.json").read_text())
    assert set(request) == {"model", "n", "people", "exclude_seen", "candidates", "parts", "sha256"}
    catalogue, digest = model.catalogue, hashlib.sha256()
    rows = catalogue.histories.indptr, catalogue.histories.indices
    candidates = catalogue.candidates()
    for array in (catalogue.order, *rows, *model.learned_arrays().values(), *rows, candidates):
        digest.update(np.ascontiguousarray(array).data)
    for ids in (catalogue.items.values, catalogue.users.values):
        for buffer in ids.buffers():
            digest.update(buffer or b"")
    assert request["sha256"] == digest.hexdigest()


def test_a_full_disk_leaves_the_parts_before(model, tmp_path, monkeypatch):
    folder = tmp_path / "recs"
    real, calls = pq.write_table, []

    def full(table, sink, **options):
        calls.append(1)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        real(table, sink, **options)

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(InputError, match="No space left on device; the parts before it are whole"):
        komd.recommend_to(model, folder, n=10)
    assert len(parts(folder)) == 3
    assert komd.recommend_to(model, folder, n=10).resumed == 3
    assert union(folder).equals(model.recommend(n=10).to_arrow())


_RUN = """
import sys, komd
from komd.engine import batch_output as batch
batch._ROWS = 200
komd.recommend_to(komd.load(sys.argv[1]), sys.argv[2], n=10)
"""


@pytest.mark.parametrize("storage", ["dense", "streamed"])
def test_kills_at_random_moments(storage, tmp_path, monkeypatch):
    data = komd.generate(users=4000, items=400, activity=12, rng=4)
    model = komd.ECFOMD(storage=storage).fit(data)
    model.save(tmp_path / "m.komd")
    folder = tmp_path / "recs"
    command = [sys.executable, "-c", _RUN, str(tmp_path / "m.komd"), str(folder)]
    random.seed(0)
    killed = 0
    tries = repeats(4, 10)
    for _ in range(tries):
        process = subprocess.Popen(command)
        wanted = len(parts(folder)) + random.randint(0, 25)
        limit = time.monotonic() + 60
        while process.poll() is None and len(parts(folder)) < wanted and time.monotonic() < limit:
            time.sleep(0.001)
        time.sleep(random.random() * 0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
        for file in parts(folder):
            pq.read_metadata(file)  # whole, or not there
    assert killed >= tries // 2
    subprocess.run(command, check=True)
    assert union(folder).equals(model.recommend(n=10).to_arrow())


def test_the_command_writes_and_resumes_a_folder(model, tmp_path):
    model.save(tmp_path / "m.komd")
    command = [sys.executable, "-m", "komd", "recommend", str(tmp_path / "m.komd"), "--n", "5"]
    command += ["-o", str(tmp_path / "recs"), "--memory", "1GB"]
    first = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "230 users" in first.stdout
    again = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
    assert json.loads(again.stdout)["resumed"] == 1
    assert union(tmp_path / "recs").equals(model.recommend(n=5).to_arrow())
