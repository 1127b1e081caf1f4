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
        (["--store", "sqlite:///nowhere/x.db"], "there is no folder nowhere"),
        (["--store", "sqlite:///x.db", "--remove-user", "a"], "give it without --add"),
        (["--add", "missing.csv"], "missing.csv"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(model, komd_fails, arguments, words):
    assert words in komd_fails("update", model, *arguments)
