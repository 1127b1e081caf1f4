"""How tests are divided among processes: by file, so that a module starts its server or browser once.

(The marks `xdist_group` of pytest-xdist 3.8 have no effect with pytest 9.2.)
"""

from __future__ import annotations

import pytest

# Folders and files that take longest come first, so that short ones fill the end.
FIRST = ("spark", "test_site.py", "serve", "contracts", "evaluation", "models", "engine", "cli")


def unit(nodeid: str) -> str:
    """The file of a test; the tests on Spark are one unit, because they share one cluster."""
    file = nodeid.split("::")[0]
    return "tests/spark" if file.startswith("tests/spark/") else file


def order(nodeid: str) -> int:
    """Sort key: the place of a test's folder or file in `FIRST`."""
    place = nodeid.split("::")[0].split("/")[1]
    return FIRST.index(place) if place in FIRST else len(FIRST)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: order(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class UnitScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return unit(nodeid)

    config.option.loadscopereorder = False  # units are given out in the order of collection
    return UnitScheduling(config, log)
