import pyarrow.parquet as pq
import pytest

import komd

pytest.importorskip("sqlalchemy")

from komd.serve.event_records import NewEvent
from komd.serve.event_store import EventStore

PAIRS = [(k % 13, (k * k) % 17) for k in range(60)]


def write(path, pairs):
    path.write_text("\n".join(["user,item", *(",".join(map(str, pair)) for pair in pairs)]) + "\n")
    return path


@pytest.fixture
def model(tmp_path):
    """A model with integer ids, and its store, which was told to forget two of its users and others."""
    komd.ECFOMD().fit(komd.read(PAIRS)).save(tmp_path / "plays.komd")
    events = EventStore(f"sqlite:///{tmp_path / 'plays.komd.events.db'}")
    events.add([NewEvent("3", "1"), NewEvent("12", "1")]).result()
    for user in ("12", "3", "77", "nobody", "03"):
        events.forget(user).result()
    events.close()
    return tmp_path / "plays.komd"


def test_users_of_the_model(model, komd_out, komd_json, tmp_path, capsys):
    assert komd_out("forgotten", model).split() == ["3", "12"]
    assert komd_json("forgotten", model)["forgotten"] == [{"user_id": 3}, {"user_id": 12}]
    komd_out("forgotten", model, "-o", tmp_path / "gone.csv")
    assert (tmp_path / "gone.csv").read_text().split() == ['"user_id"', "3", "12"]
    komd_out("forgotten", model, "-o", tmp_path / "gone.parquet")
    assert pq.read_table(tmp_path / "gone.parquet").to_pydict() == {"user_id": [3, 12]}


def test_users_of_data(model, komd_out, komd_json, tmp_path):
    data = write(tmp_path / "more.csv", [(77, 5), (78, 5), (3, 5)])
    assert komd_out("forgotten", model, "--data", data).split() == ["3", "12", "77"]
    texts = write(tmp_path / "texts.csv", [("nobody", "x"), ("3", "x"), ("a", "y")])
    found = komd_json("forgotten", model, "--data", texts, "--data", data)
    assert [row["user_id"] for row in found["forgotten"]] == ["12", "3", "77", "nobody"] and found["count"] == 4


def test_a_fit_to_what_is_left_equals_a_fit_that_asks_the_store(model, komd_out, tmp_path):
    data = write(tmp_path / "plays.csv", PAIRS)
    gone = {int(user) for user in komd_out("forgotten", model, "--data", data).split()}
    assert gone == {3, 12}
    left = [pair for pair in PAIRS if pair[0] not in gone]
    store = f"sqlite:///{model}.events.db"
    komd_out("fit", data, "--store", store, "-o", tmp_path / "fresh.komd", "--model", "ECFOMD")
    users = komd.load(tmp_path / "fresh.komd").catalogue.users
    assert users == komd.ECFOMD().fit(komd.read(left)).catalogue.users
    assert komd_out("forgotten", tmp_path / "fresh.komd", "--store", store) == ""


def test_nobody_was_forgotten(tmp_path, komd_out, komd_json):
    komd.ECFOMD().fit(komd.read(PAIRS)).save(tmp_path / "m.komd")
    EventStore(f"sqlite:///{tmp_path / 'm.komd.events.db'}").close()
    assert komd_out("forgotten", tmp_path / "m.komd") == ""
    assert komd_json("forgotten", tmp_path / "m.komd")["forgotten"] == []
    komd_out("forgotten", tmp_path / "m.komd", "-o", tmp_path / "gone.csv")
    assert (tmp_path / "gone.csv").read_text().split() == ['"user_id"']


def test_what_cannot_be_done(model, tmp_path, komd_fails):
    key = tmp_path / "plays.komd.events.db.forget-key"
    assert "there is no store at" in komd_fails("forgotten", model, "--store", f"sqlite:///{tmp_path / 'x.db'}")
    assert "the name must end in" in komd_fails("forgotten", model, "-o", tmp_path / "gone.txt")
    assert "PostgreSQL store is in a file" in komd_fails("forgotten", model, "--store", "postgresql://host/x")
    (tmp_path / "other").write_text("ab" * 32)
    said = komd_fails("forgotten", model, "--forget-key-file", tmp_path / "other")
    assert "give its file with --forget-key-file" in said
    key.unlink()
    assert "there is no key file" in komd_fails("forgotten", model)
    assert str(key) in komd_fails("forgotten", model)
