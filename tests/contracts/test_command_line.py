"""Every model by `komd fit`, `recommend` and `explain`: what they print and write is what the library gives."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import komd
from komd.cli.main import app
from tests.contracts.variants import UNEXPLAINED


@pytest.fixture(scope="module")
def plays(small, tmp_path_factory):
    file = tmp_path_factory.mktemp("plays") / "plays.csv"
    pa.csv.write_csv(small.to_arrow(), file)
    assert komd.read(file).to_arrow().equals(small.to_arrow())
    return file


def document(*words):
    """What a command prints with --json."""
    done = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_what_is_printed_and_written_is_what_the_library_gives(model, plays, small, tmp_path):
    saved, user = tmp_path / "m.komd", small.users[5]
    assert document("fit", plays, "-o", saved, "--model", model.text)["model"] == model.text
    everybody = model.recommend(n=4).to_arrow()
    assert document("recommend", saved, "--n", 4)["recommendations"] == everybody.to_pylist()
    mine = model.recommend(user, n=4).to_arrow().to_pylist()
    assert document("recommend", saved, "--user", user, "--n", 4)["recommendations"] == mine
    document("recommend", saved, "--n", 4, "-o", tmp_path / "recs")
    assert pa.parquet.read_table(tmp_path / "recs" / "part-00000.parquet").equals(everybody)
    if type(model).__name__ not in UNEXPLAINED:
        item = mine[0]["item_id"]
        why = model.explain(user, item).to_dict()
        assert document("explain", saved, user, item) == {"model": model.text} | json.loads(json.dumps(why))
