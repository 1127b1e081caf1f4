"""A real standalone cluster on loopback: a master and two workers of one core each."""

from __future__ import annotations

import os

import pytest

from benchmarks.cluster import Cluster, java

# Every JVM lives for seconds: optimising its code further and collecting garbage in threads costs more than it saves.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    if not java():
        pytest.skip("no Java: Spark needs one (Debian: apt-get install openjdk-17-jre-headless)")
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_START)  # inherited by master, workers, executors and drivers
    found = Cluster(tmp_path_factory.mktemp("spark"))
    try:
        found.add_worker()
        found.add_worker()
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="session")
def spark(cluster):
    session = cluster.session()
    yield session
    session.stop()
