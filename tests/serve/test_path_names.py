"""Where files lie is not told: in messages of a refused model, nor in log lines."""

from __future__ import annotations

import logging
import shutil
import sys

import pytest

from komd.errors import ModelFileError
from komd.serve.hot_reload import ModelWatcher
from komd.serve.path_names import NamesOnlyFormatter, names_only


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no model at /srv/shop.komd", "no model at shop.komd"),
        ("(/srv/a/shop.komd)", "(shop.komd)"),
        (
            "[Errno 13] Permission denied: '/srv/my models/manifest.json'",
            "[Errno 13] Permission denied: 'manifest.json'",
        ),
        ('File "/usr/lib/komd/serve/api.py", line 5', 'File "api.py", line 5'),
        ("C:\\models\\shop.komd is gone", "shop.komd is gone"),
        ("save it again, and/or fit it", "save it again, and/or fit it"),
        ("postgresql://komd@db/recs does not answer", "postgresql://komd@db/recs does not answer"),
        ("", ""),
    ],
)
def test_names(text, shown):
    assert names_only(text) == shown


def test_a_refused_model_and_table_are_named_without_their_folders(shop, tmp_path):
    folder = tmp_path / "my secret models"
    shutil.copytree(shop / "numbers.komd", folder / "new shop.komd")
    table = shutil.copy(shop / "names.tsv", folder / "the names.tsv")
    (tmp_path / "link.komd").symlink_to(folder / "new shop.komd")
    for model in (folder / "new shop.komd", tmp_path / "link.komd"):
        watcher = ModelWatcher(model, table)
        damages = [
            lambda: table.write_text("id\n"),
            lambda: table.write_text("id\tname\nnobody\tno name\n"),
            lambda: table.unlink(),
            lambda: (folder / "new shop.komd" / "manifest.json").write_text("{"),
            lambda: (folder / "new shop.komd" / "manifest.json").unlink(),
        ]
        kept = (folder / "new shop.komd" / "manifest.json").read_bytes()
        for damage in damages:
            damage()
            with pytest.raises(ModelFileError) as refused:
                watcher.reload()
            assert "secret" not in str(refused.value) and str(tmp_path) not in str(refused.value)
            assert (
                "shop.komd" in str(refused.value) or "link.komd" in str(refused.value) or "names" in str(refused.value)
            )
            if not table.exists() or "nobody" in table.read_text() or table.read_text() == "id\n":
                shutil.copy(shop / "names.tsv", table)
        (folder / "new shop.komd" / "manifest.json").write_bytes(kept)


def test_log_lines():
    lines = NamesOnlyFormatter("%(message)s")

    def line(words, *arguments, exc_info=None):
        return lines.format(logging.LogRecord("x", logging.ERROR, "", 0, words, arguments, exc_info))

    assert line("refused: %s", OSError("no /srv/models/shop.komd")) == "refused: no shop.komd"
    assert line("%s %s %d", "GET", "/v1/users/{user_id}", 200) == "GET /v1/users/{user_id} 200"
    try:
        raise OSError("/srv/models/x")
    except OSError:
        said = line("failed", exc_info=sys.exc_info())
    assert 'File "test_path_names.py"' in said and "/srv" not in said and said.endswith("OSError: x")
