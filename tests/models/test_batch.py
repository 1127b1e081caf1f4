"""Lists written to a folder: equal to `recommend`, whole or absent at any moment, taken up where they stopped."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import komd
from komd.errors import InputError
from komd.models import batch


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
    assert (written.people, written.parts, written.resumed) == (230, 12, 0)
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


def test_other_requests_and_other_folders_are_refused(model, tmp_path):
    folder = tmp_path / "recs"
    komd.recommend_to(model, folder, n=10)
    before = union(folder)
    with pytest.raises(InputError, match="another request: n 10, not 5"):
        komd.recommend_to(model, folder, n=5)
    with pytest.raises(InputError, match="other data, people or candidates"):
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
from komd.models import batch
batch._ROWS = 200
komd.recommend_to(komd.load(sys.argv[1]), sys.argv[2], n=10)
"""


@pytest.mark.parametrize("storage", ["dense", "streamed"])
def test_ten_kills_at_random_moments(storage, tmp_path, monkeypatch):
    data = komd.generate(users=4000, items=400, activity=12, rng=4)
    model = komd.ECFOMD(storage=storage).fit(data)
    model.save(tmp_path / "m.komd")
    folder = tmp_path / "recs"
    command = [sys.executable, "-c", _RUN, str(tmp_path / "m.komd"), str(folder)]
    random.seed(0)
    killed = 0
    for _ in range(10):
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
    assert killed >= 5
    subprocess.run(command, check=True)
    assert union(folder).equals(model.recommend(n=10).to_arrow())


def test_the_command_writes_and_resumes_a_folder(model, tmp_path):
    model.save(tmp_path / "m.komd")
    command = [sys.executable, "-m", "komd", "recommend", str(tmp_path / "m.komd"), "--n", "5"]
    command += ["-o", str(tmp_path / "recs"), "--memory", "1GB"]
    first = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "230 people" in first.stdout
    again = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
    assert json.loads(again.stdout)["resumed"] == 1
    assert union(tmp_path / "recs").equals(model.recommend(n=5).to_arrow())
