import pytest

import komd
from tests.engine.test_updates import assert_equal

PAIRS = [(f"user {k % 13}", f"item {(k * k) % 17}") for k in range(60)]


def write(path, pairs):
    path.write_text("\n".join(["user,item", *(",".join(map(str, pair)) for pair in pairs)]) + "\n")
    return path


@pytest.fixture
def model(tmp_path, komd_out):
    komd_out("fit", write(tmp_path / "plays.csv", PAIRS), "-o", tmp_path / "plays.komd", "--model", "ECFOMD")
    return tmp_path / "plays.komd"


def test_pairs_come_and_go(model, tmp_path, komd_out, komd_json):
    came, went = [("user 99", "item 3"), ("user 1", "item 55")], PAIRS[:2]
    files = write(tmp_path / "new.csv", came), write(tmp_path / "gone.csv", went)
    said = komd_out("update", model, "--add", files[0], "--remove", files[1])
    assert "pairs +2 −2" in said and "in its journal" in said
    left = [pair for pair in PAIRS if pair not in went] + came
    assert_equal(komd.load(model), komd.ECFOMD().fit(komd.read(left)))
    facts = komd_json("update", model, "--remove-user", "user 99")
    assert facts["compacted"] and facts["update"]["dropped_users"] == 1 and facts["journal_bytes"] == 0
    assert_equal(komd.load(model), komd.ECFOMD().fit(komd.read([pair for pair in left if pair[0] != "user 99"])))


def test_numbers_in_files_are_ids_of_the_models_kind(tmp_path, komd_out, komd_fails):
    komd.ECFOMD().fit(komd.read([(1, 7), (1, 8), (2, 7), (2, 9)])).save(tmp_path / "m.komd")
    komd_out("update", tmp_path / "m.komd", "--add", write(tmp_path / "new.csv", [("3", "8"), ("1", "9")]))
    assert komd.load(tmp_path / "m.komd").catalogue.users.values.to_pylist() == [1, 2, 3]
    wrong = write(tmp_path / "wrong.csv", [("x3", "8")])
    assert "'x3' is not a user id: these are integers" in komd_fails("update", tmp_path / "m.komd", "--add", wrong)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to update: give --add, --remove, --remove-user, --store or --compact"),
        (["--remove-user", "nobody"], "unknown user 'nobody'"),
        (["--store", "sqlite:///nowhere/x.db"], "there is no store at sqlite:///nowhere/x.db"),
        (["--store", "mysql://x"], "a store is sqlite:///FILE or postgresql://"),
        (["--store", "sqlite:///x.db", "--remove-user", "a"], "give it without --add"),
        (["--add", "missing.csv"], "missing.csv"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(model, komd_fails, arguments, words):
    assert words in komd_fails("update", model, *arguments)


@pytest.fixture
def store(tmp_path):
    """A store with events, and a user it forgot; what the events come to."""
    from komd.serve.event_records import NewEvent
    from komd.serve.event_store import EventStore

    url = f"sqlite:///{tmp_path / 'events.db'}"
    events = EventStore(url)
    came = [("user 2", "item 77"), ("somebody", "item 3"), ("somebody", "item 4"), ("user 0", "item 4")]
    events.add([NewEvent(*pair) for pair in came]).result()
    events.add([NewEvent("user 3", PAIRS[3][1], "withdrawn"), NewEvent("user 5", "item 0", "disliked")]).result()
    events.forget("user 1").result()
    events.close()
    return url, came


def left(came):
    return [pair for pair in PAIRS if pair[0] != "user 1" and pair != ("user 3", PAIRS[3][1])] + came


def test_events_of_a_service_are_learned_and_the_forgotten_left_out(
    model, store, tmp_path, komd_out, komd_json, komd_fails
):
    url, came = store
    facts = komd_json("update", model, "--store", url)
    assert facts["compacted"] and facts["update"]["dropped_users"] == 1  # whose id is in no file then
    assert all(b"user 1\0" not in path.read_bytes() for path in model.iterdir())
    updated = komd.load(model)
    plain = komd.ECFOMD().fit(komd.read([pair for pair in left(came) if pair != ("user 5", "item 0")]))
    assert updated.catalogue.users == plain.catalogue.users and updated.catalogue.items == plain.catalogue.items
    assert "item 0" not in updated.recommend("user 5", n=30).to_arrow().column("item_id").to_pylist()
    assert "nothing changed" in komd_out("update", model, "--store", url)
    # The same from the data and the store at once.
    said = komd_out("fit", tmp_path / "plays.csv", "--store", url, "-o", tmp_path / "both.komd", "--model", "ECFOMD")
    assert "events  pairs +4" in said
    assert_equal(komd.load(tmp_path / "both.komd"), updated)
    # The events alone.
    komd_out("fit", "--store", url, "-o", tmp_path / "events.komd", "--model", "EASE")
    assert set(komd.load(tmp_path / "events.komd").catalogue.users) == {user for user, _ in came}
    data = tmp_path / "plays.csv"
    assert "EASE cannot be updated" in komd_fails("fit", data, "--store", url, "-o", tmp_path / "x", "--model", "EASE")
    assert "name files of DATA, or the store" in komd_fails("fit", "-o", tmp_path / "x")
