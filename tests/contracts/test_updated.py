"""Every model after updates equals one fitted to what remains, in the library, in files and by command, or says no."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import komd
from komd.cli.main import app
from komd.engine.updates import Updatable
from komd.errors import InputError
from tests.engine.test_updates import assert_equal


def parts(small):
    """Pairs to begin with, pairs that come (with a new user and a new item), and pairs that go."""
    table = small.to_arrow().select(["user_id", "item_id"])
    pairs = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    came = [*pairs[::7], ("somebody new", pairs[3][1]), (pairs[0][0], "something new")]
    old = [pair for pair in pairs if pair not in set(came)]
    return old, came, old[::11]


def test_the_updated_model_is_the_one_fitted_to_what_remains(model, small, tmp_path):
    old, came, went = parts(small)
    fitted = model.clone().fit(komd.read(old))
    if not isinstance(fitted, Updatable):
        with pytest.raises(InputError, match=f"{type(model).__name__} cannot be updated"):
            fitted.update(added=came)
        return
    fresh = model.clone().fit(komd.read([pair for pair in [*old, *came] if pair not in set(went)]))
    fitted.save(tmp_path / "m.komd")
    assert_equal(fitted.update(added=came, removed=went), fresh)
    komd.update(tmp_path / "m.komd", added=came)
    files = []
    for name, pairs in (("went.csv", went), ("none.csv", came[:1])):
        users, items = zip(*pairs, strict=True)
        pa.csv.write_csv(pa.table({"user": users, "item": items}), tmp_path / name)
        files.append(str(tmp_path / name))
    words = ["update", str(tmp_path / "m.komd"), "--add", files[1], "--remove", files[0], "--on-unknown", "skip"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    assert_equal(komd.load(tmp_path / "m.komd"), fresh)
    user = old[0][0]
    item = fitted.recommend(user, n=1).to_arrow().column("item_id")[0].as_py()
    if type(model).__name__ != "Popularity":
        assert fitted.explain(user, item).to_dict() == fresh.explain(user, item).to_dict()
