"""komd on a real cluster gives what komd gives on one machine, to the last rank, and says what is wrong."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
import venv
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest

import komd
from tests.budget import some

pytest.importorskip("pyspark", reason="no pyspark: the extra spark")

MODELS = [
    "ECFOMD()",
    "CFKOMD(user_damping=0.5, popularity=0.2)",
    "CFKOMD(kernel=Polynomial(degree=2, c=1), storage='streamed')",
    "MSDW(alpha=0.15, locality=3, storage='streamed')",
    "RP3Beta(storage='sparse')",
    "CFKOMD(popularity=0.2, ridge=50, rank=12, prior=0.01, storage='streamed')",
    "CFKOMD(ridge=5, rank=12, head=1, prior=0.01, target=0.3, negatives_weight=0, storage='sparse')",
    "CFKOMD(rank=12, head=0.5, target=-0.2, storage='streamed')",
]


@pytest.fixture(scope="module")
def data():
    return komd.generate(users=900, items=300, activity=12, rng=3)  # ids are text


@pytest.fixture(scope="module")
def frame(spark, data):
    table = data.to_arrow().rename_columns(["user", "item"])
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    return spark.createDataFrame(pa.concat_tables([shuffled, shuffled.slice(0, 50)])).repartition(5)


def flat(frame):
    """A long frame as a sorted Arrow table."""
    return frame.toArrow().sort_by([("user_id", "ascending"), ("rank", "ascending")])


def assert_same(found, expected):
    expected = expected.to_arrow().sort_by([("user_id", "ascending"), ("rank", "ascending")])
    assert len(found) == len(expected)
    for name in ("user_id", "item_id", "rank", "score"):
        assert found[name].to_pylist() == expected[name].to_pylist(), name


@pytest.mark.parametrize("text", some(MODELS, 3))
def test_lists_are_those_of_one_machine_to_the_last_bit(text, spark, frame, data):
    from komd.spark import KomdRecommender

    fitted = KomdRecommender(model=text).fit(frame)
    alone = komd.model_from_text(text).fit(data)
    assert np.array_equal(fitted.komd.S, alone.S)
    assert fitted.komd.catalogue.histories.indices.tolist() == alone.catalogue.histories.indices.tolist()
    assert_same(flat(fitted.recommendForAllUsers(7, format="long")), alone.recommend(n=7))


def variants():
    """Every combination of CF-KOMD's stages and storages; all of them with KOMD_FUZZ, some by default."""
    kernels = ("'linear'", "'tanimoto'", "'jaccard'", "RBF(gamma=1)", "Polynomial(degree=2, c=1)")
    filters = ("", "ridge=20, ", "ridge=50, rank=12, ", "rank=12, head=1, target=0.3, ")
    every = [
        f"CFKOMD(kernel={kernel}, user_damping={damping}, popularity={popularity}, {ridge}prior={prior}, "
        f"negatives='{negatives}', storage='{storage}')"
        for kernel, damping, popularity, ridge, prior, negatives, storage in itertools.product(
            kernels, (0, 0.5), (0, 0.3), filters, (0, 0.01), ("exact", "mean"), ("dense", "sparse", "streamed")
        )
    ]
    if os.environ.get("KOMD_FUZZ"):
        return every
    streamed = [text for text in every if "'streamed'" in text and "'linear'" not in text]
    rng = np.random.default_rng(0)
    return [*rng.choice(streamed, 10, replace=False), *rng.choice(every, 8, replace=False)]


def test_every_variant_is_what_one_machine_fits(spark, tmp_path):
    """Saved arrays to the last bit, and so lists, similar items and explanations."""
    from komd.engine.catalogue import Catalogue
    from komd.spark.distributed_fit import learn

    data = komd.generate(users=80, items=40, activity=7, rng=5)
    user, item = data.users[3], data.items[11]
    for text in variants():
        model, alone = komd.model_from_text(text), komd.model_from_text(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", komd.FilterWarning)
            learn(spark.sparkContext, model, Catalogue.of(data), tmp_path / "m.komd", shared=True, memory=None)
            alone.fit(data)
        assert [file.name for file in tmp_path.iterdir()] == ["m.komd"], text
        found = komd.load(tmp_path / "m.komd")
        expected = alone.learned_arrays()
        assert found.learned_arrays().keys() == expected.keys(), text
        for name, array in found.learned_arrays().items():
            assert np.array_equal(array, expected[name]), (text, name)
        assert found.recommend(n=5).to_arrow() == alone.recommend(n=5).to_arrow(), text
        assert found.similar_items([item]).to_arrow() == alone.similar_items([item]).to_arrow(), text
        assert found.explain(user, item).to_dict() == alone.explain(user, item).to_dict(), text


def test_partitions_do_not_matter_and_lists_may_be_nested(spark, frame, data):
    from komd.spark import KomdRecommender

    fitted = KomdRecommender(model=komd.ECFOMD()).fit(frame.repartition(1))
    nested = fitted.recommendForAllUsers(4)
    assert nested.schema.simpleString() == (
        "struct<user:string,recommendations:array<struct<item:string,rating:double>>>"
    )
    expected = komd.ECFOMD().fit(data).recommend(n=4).to_arrow().to_pylist()
    lists = {row["user"]: [(e["item"], e["rating"]) for e in row["recommendations"]] for row in nested.collect()}
    assert len(lists) == len(data.users)
    for row in expected:
        assert lists[row["user_id"]][row["rank"] - 1] == (row["item_id"], row["score"])


def test_a_frame_that_is_not_the_same_twice(frame):
    from pyspark.sql import functions as F

    from komd.spark import KomdRecommender

    some = KomdRecommender(model="ECFOMD()").fit(frame.where(F.rand() < 0.3)).komd.catalogue
    assert len(some.histories.indices) > 0 and (some.popularity > 0).all()


def test_some_users_and_the_unknown_ones_are_counted(spark, frame, data):
    from komd.spark import KomdRecommender, UnknownIdsWarning

    fitted = KomdRecommender(model="ECFOMD()").fit(frame)
    wanted = [data.users[3], data.users[700]]
    asked = spark.createDataFrame([(u,) for u in [*wanted, "nobody", "noone", wanted[0]]], "user string")
    with pytest.warns(UnknownIdsWarning, match=r"2 of 4 users are unknown .*'no"):
        found = fitted.recommendForUserSubset(asked, 5, format="long")
    assert_same(flat(found), komd.ECFOMD().fit(data).recommend(wanted, n=5))
    only = [data.items[k] for k in range(40)]
    limits = {"items": only, "exclude": only[:3]}
    found = fitted.recommendForUserSubset(
        asked.where(asked.user.isin(wanted)), 5, format="long", excludeSeen=False, **limits
    )
    expected = komd.ECFOMD().fit(data).recommend(wanted, n=5, exclude_seen=False, **limits)
    assert_same(flat(found), expected)


@pytest.mark.parametrize("text", ["CFKOMD()", "ECFOMD(storage='streamed')"])
def test_given_histories(text, spark, frame, data):
    from komd.spark import KomdRecommender, UnknownIdsWarning

    histories = {"x": [data.items[5], data.items[9]], "y": [data.items[1]], "z": ["never heard of"]}
    pairs = spark.createDataFrame([(u, i) for u, row in histories.items() for i in row], "user string, item string")
    fitted = KomdRecommender(model=text).fit(frame)
    with pytest.warns(UnknownIdsWarning, match="1 of 4 items are unknown"):
        found = fitted.recommendForHistories(pairs, 6, format="long")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = komd.model_from_text(text).fit(data).recommend(histories=histories, n=6, on_unknown="skip")
    assert_same(flat(found), expected)


@pytest.mark.parametrize("text", ["CFKOMD()", "CFKOMD(prior=0.01, storage='streamed')"])
def test_transform_scores_pairs_and_keeps_the_rest_of_the_frame(text, spark, frame, data):
    from komd.spark import KomdRecommender

    alone = komd.model_from_text(text).fit(data)
    rows = [(1.5, data.items[k % 300], data.users[7 * k % 900]) for k in range(60)]
    rows += [(2.5, "no item", data.users[0]), (2.5, data.items[0], "nobody")]
    pairs = spark.createDataFrame(rows, "weight double, item string, user string")
    found = KomdRecommender(model=text, predictionCol="score").fit(frame).transform(pairs).collect()
    assert len(found) == len(rows)
    for row in found:
        if row["item"] == "no item" or row["user"] == "nobody":
            assert np.isnan(row["score"]) and row["weight"] == 2.5
        else:
            assert row["score"] == alone.explain(row["user"], row["item"]).score


def test_models_go_there_and_back(spark, frame, data, tmp_path):
    from komd.spark import KomdRecommender, KomdRecommenderModel

    shared = tmp_path / "shared.komd"
    fitted = KomdRecommender(model="MSDW()", sharedFolder=str(shared)).fit(frame)
    fitted.save(tmp_path / "saved.komd")
    alone = komd.load(tmp_path / "saved.komd")
    expected = alone.recommend(n=3)
    assert expected.to_arrow() == komd.MSDW().fit(data).recommend(n=3).to_arrow()
    alone.save(tmp_path / "alone.komd")
    again = KomdRecommenderModel.load(tmp_path / "alone.komd")
    assert_same(flat(again.recommendForAllUsers(3, format="long")), expected)
    assert_same(flat(fitted.recommendForAllUsers(3, format="long")), expected)
    mapped = KomdRecommenderModel.load(shared, shared=True)
    assert_same(flat(mapped.recommendForAllUsers(3, format="long")), expected)


def test_low_rated_items_and_items_without_users(spark, data, tmp_path):
    from komd.spark import KomdRecommenderModel

    rare = data.indices == np.argmin(np.where(data.popularity > 0, data.popularity, 10**9))
    rng = np.random.default_rng(0)
    low = np.nonzero(rng.random(data.shape) < 0.05)
    known = data.keep(~rare).with_seen(*(numbers.astype(np.int32) for numbers in low))
    alone = komd.ECFOMD().fit(known)
    alone.save(tmp_path / "m.komd")
    fitted = KomdRecommenderModel.load(tmp_path / "m.komd")
    assert_same(flat(fitted.recommendForAllUsers(300, format="long")), alone.recommend(n=300))
    shown = fitted.recommendForAllUsers(300, format="long", excludeLowRated=False)
    assert_same(flat(shown), alone.recommend(n=300, exclude_low_rated=False))
    assert len(alone.recommend(n=300)) < len(alone.recommend(n=300, exclude_low_rated=False))


def test_whole_numbers_keep_their_type_and_estimators_are_saved(spark, tmp_path):
    from komd.spark import KomdRecommender

    rows = [(u, (u * u + 3 * k) % 17) for u in range(40) for k in range(4)]
    frame = spark.createDataFrame(rows, "person int, thing short")
    KomdRecommender(model="RP3Beta()", userCol="person", itemCol="thing").write().overwrite().save(str(tmp_path / "e"))
    fitted = KomdRecommender.load(str(tmp_path / "e")).fit(frame)
    found = fitted.recommendForAllUsers(2)
    assert found.schema.simpleString() == (
        "struct<person:int,recommendations:array<struct<thing:smallint,rating:double>>>"
    )
    assert found.count() == 40


def test_a_worker_killed_in_the_middle_costs_nothing(spark, cluster, data):
    from komd.spark import KomdRecommender

    many = komd.generate(users=6000, items=1500, activity=15, rng=1)
    frame = spark.createDataFrame(many.to_arrow().rename_columns(["user", "item"]))
    expected = komd.CFKOMD(storage="streamed").fit(many).recommend(n=50)
    fitted = KomdRecommender(model="CFKOMD(storage='streamed')").fit(frame)
    victim, started = cluster.workers[0], threading.Event()

    def killer():
        started.wait()
        time.sleep(1.5)
        cluster.kill(victim)

    thread = threading.Thread(target=killer)
    thread.start()
    lists = fitted.recommendForAllUsers(50, format="long")
    started.set()
    found = flat(lists)
    thread.join()
    assert victim.poll() is not None
    assert_same(found, expected)
    cluster.add_worker()


def test_the_command_writes_the_lists_of_all_users(cluster, data, tmp_path):
    komd.ECFOMD().fit(data).save(tmp_path / "m.komd")
    asked = [sys.executable, "-m", "komd", "recommend", str(tmp_path / "m.komd"), "--spark", "local[2]", "-n", "4"]
    asked += ["--at", "2020-01-01"]  # which makes no difference without a half-life
    done = subprocess.run([*asked, "-o", str(tmp_path / "recs")], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "lists of 900 users, 3,600 rows" in done.stdout, done.stderr[-2000:]
    found = pa.dataset.dataset(tmp_path / "recs", format="parquet").to_table()
    assert_same(
        found.sort_by([("user_id", "ascending"), ("rank", "ascending")]), komd.ECFOMD().fit(data).recommend(n=4)
    )
    again = subprocess.run([*asked, "-o", str(tmp_path / "recs")], capture_output=True, text=True, timeout=240)
    assert again.returncode != 0 and "exists already" in again.stderr
    wrong = subprocess.run([*asked, "--user", "x"], capture_output=True, text=True, timeout=240)
    assert wrong.returncode != 0 and "writes the lists of all users to a folder" in wrong.stderr


@pytest.mark.data
def test_movielens_to_the_last_rank(spark, real_data):
    from komd.spark import KomdRecommender

    ratings = komd.datasets.load("ml-100k", path=real_data)
    frame = spark.createDataFrame(ratings.to_arrow().select([0, 1]).rename_columns(["user", "item"]))
    fitted = KomdRecommender(model="CFKOMD()").fit(frame)
    assert_same(flat(fitted.recommendForAllUsers(10, format="long")), komd.CFKOMD().fit(ratings).recommend(n=10))


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "schema", "words"),
    [
        ([("a", "x"), (None, "y")], "user string, item string", "of 2 rows 1 without a user; leave them out"),
        ([("a", "x"), ("b", None)], "user string, item string", "of 2 rows 1 without an item"),
        ([], "user string, item string", "the frame is empty"),
        ([("a", "x")], "usr string, item string", "no column 'user' for user ids; did you mean 'usr'"),
        ([("a", 0.5)], "user string, item double", "numbers with a fraction"),
        ([("a", True)], "user string, item boolean", "cannot be of type bool"),
    ],
)
def test_bad_frames_are_refused_in_words(rows, schema, words, spark):
    from komd.spark import KomdRecommender

    with pytest.raises(komd.InputError, match=words):
        KomdRecommender(model="ECFOMD()").fit(spark.createDataFrame(rows, schema))


def test_ratings_of_zero_and_less_are_taken_as_by_read(spark):
    from komd.spark import KomdRecommender

    rows = [("ana", "x", 0.0), ("ana", "y", 3.0), ("bo", "x", None), ("bo", "y", 1.0)]
    frame = spark.createDataFrame(rows, "user string, item string, rating double")
    lists = KomdRecommender(model="MSDW()").fit(frame).recommendForAllUsers(5, format="long").collect()
    assert [(row.user_id, row.item_id) for row in lists] == [("ana", "x")]
    below = spark.createDataFrame([("ana", "x", -1), ("bo", "x", 1)], "user string, item string, plays int")
    with pytest.raises(komd.InputError, match=r"ratings below 0 in 'plays' \(least -1\)"):
        KomdRecommender(model="MSDW()").fit(below)


def test_bad_requests_are_refused_in_words(spark, frame, tmp_path):
    from komd.spark import KomdRecommender, KomdRecommenderModel

    with pytest.raises(komd.InputError, match="on Spark run CFKOMD, ECFOMD, MSDW and RP3Beta, not EASE"):
        KomdRecommender(model="EASE()")
    fitted = KomdRecommender(model="ECFOMD()", sharedFolder=str(tmp_path / "m.komd")).fit(frame)
    with pytest.raises(komd.InputError, match="n must be"):
        fitted.recommendForAllUsers(0)
    with pytest.raises(komd.InputError, match="format"):
        fitted.recommendForAllUsers(3, format="wide")
    with pytest.raises(komd.InputError, match="no column 'user'"):
        fitted.recommendForUserSubset(frame.drop("user"), 3)
    (tmp_path / "m.komd").rename(tmp_path / "gone.komd")
    with pytest.raises(komd.InputError, match=r"cannot see the model folder .*m\.komd"):
        fitted.recommendForAllUsers(3)
    komd.Popularity().fit(komd.generate(users=60, items=20, activity=3, rng=0)).save(tmp_path / "p.komd")
    with pytest.raises(komd.InputError, match=r"p\.komd holds Popularity"):
        KomdRecommenderModel.load(tmp_path / "p.komd")


def test_executors_without_komd_are_named(spark, cluster, tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    (tmp_path / "bare.py").write_text(BARE)
    environment = os.environ | {"PYSPARK_PYTHON": str(tmp_path / "bare" / "bin" / "python")}
    asked = [sys.executable, str(tmp_path / "bare.py"), cluster.url]
    spare = cluster.add_worker()  # the others are taken
    try:
        done = subprocess.run(asked, capture_output=True, text=True, env=environment, timeout=240)
    finally:
        cluster.kill(spare)
    assert "REFUSED" in done.stdout, done.stderr[-2000:]
    assert "has no numpy" in done.stdout and "install komd[spark]" in done.stdout


BARE = """
import sys
import komd
from komd.spark import KomdRecommender
from pyspark.sql import SparkSession
builder = SparkSession.builder.master(sys.argv[1]).config("spark.cores.max", "1")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false")
session = builder.config("spark.executor.memory", "1g").getOrCreate()
try:
    KomdRecommender(model="ECFOMD()").fit(session.createDataFrame([("a", "x")], "user string, item string"))
except komd.InputError as error:
    print("REFUSED", error)
"""
