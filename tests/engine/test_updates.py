"""After any sequence of additions and removals a model equals one fitted from scratch on what remains."""

import copy
import pickle
import threading
import warnings
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd.engine.saved_catalogue import catalogue_arrays
from komd.errors import InputError, ModelFileError, UnknownIdError
from tests.budget import repeats

MODELS = {
    "Popularity": lambda storage: komd.Popularity(),
    "MSDW": lambda storage: komd.MSDW(alpha=0.2, locality=3, storage=storage),
    "RP3Beta": lambda storage: komd.RP3Beta(alpha=0.7, beta=0.4, storage=storage),
    "ECFOMD": lambda storage: komd.ECFOMD(storage=storage),
    "tanimoto": lambda storage: komd.CFKOMD(storage=storage),
    "damped": lambda storage: komd.CFKOMD(kernel="linear", user_damping=0.5, storage=storage),
    "damped rbf": lambda storage: komd.CFKOMD(kernel="rbf", user_damping=1.3, negatives="mean", storage=storage),
    "jaccard": lambda storage: komd.CFKOMD(kernel="jaccard", target=0.3, negatives_weight=0.0, storage=storage),
    "popularity": lambda storage: komd.CFKOMD(popularity=0.4, user_damping=0.5, storage=storage),
    "polynomial": lambda storage: komd.CFKOMD(kernel="polynomial", popularity=0.2, target=-0.2, storage=storage),
    "prior": lambda storage: komd.CFKOMD(prior=0.02, user_damping=0.5, storage=storage),
    "prior and popularity": lambda storage: komd.CFKOMD(prior=0.02, popularity=0.3, storage=storage),
    "weighted kernel": lambda storage: komd.CFKOMD(weighted_kernel=True, user_damping=0.5, storage=storage),
    "weighted linear": lambda storage: komd.CFKOMD(kernel="linear", weighted_kernel=True, storage=storage),
    "half-life": lambda storage: komd.CFKOMD(half_life="2d", dislikes_weight=0.3, storage=storage),
    "ridge": lambda storage: komd.CFKOMD(ridge=3.0, storage=storage),
    "head": lambda storage: komd.CFKOMD(ridge=3.0, head=0.5, rank=3, popularity=0.2, storage=storage),
}
STORAGES = ("dense", "sparse", "streamed")
WEIGHTED = ("weighted kernel", "weighted linear", "half-life")


def learned(model):
    """Everything that a saved model consists of."""
    model = model.view()
    arrays, ids = catalogue_arrays(model.catalogue)
    return arrays | model.learned_arrays(), ids


def assert_equal(model, other):
    """Two models are the same: arrays, ids, lists and scores, to the last bit."""
    (arrays, ids), (expected, expected_ids) = learned(model), learned(other)
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert arrays[name].dtype == array.dtype and np.array_equal(arrays[name], array), name
    assert all(ids[name].equals(values) for name, values in expected_ids.items())
    assert model.recommend(n=4).to_arrow().equals(other.recommend(n=4).to_arrow())
    stranger = {"stranger": [other.catalogue.items[0]]}
    assert model.recommend(histories=stranger).to_arrow().equals(other.recommend(histories=stranger).to_arrow())


class World:
    """Pairs that come and go, with weights and times, and the same as a plain dictionary."""

    def __init__(self, rng, *, weighted, text):
        self.rng, self.weighted, self.text = rng, weighted, text
        self.users, self.items = int(rng.integers(2, 20)), int(rng.integers(2, 18))
        self.pairs = {}
        while len(self.pairs) < 2:
            self.add(int(rng.integers(2, 60)))

    def pair(self):
        u, i = int(self.rng.integers(self.users)), int(self.rng.integers(self.items))
        return (f"user {u}", f"item {i}") if self.text else (u, 3 * i - 20)

    def add(self, count):
        """Pairs that came, as (user, item, weight, time), into the dictionary as well; weights of repeated ones add."""
        rows = []
        for _ in range(count):
            pair, weight, time = self.pair(), int(self.rng.integers(1, 9)), int(self.rng.integers(10**9, 2 * 10**9))
            before = self.pairs.get(pair)
            self.pairs[pair] = (weight, time) if before is None else (before[0] + weight, min(before[1], time))
            rows.append((*pair, weight, time))
        return rows

    def remove(self, share):
        gone = [pair for pair in self.pairs if self.rng.random() < share]
        gone = gone if len(gone) < len(self.pairs) else gone[1:]
        for pair in gone:
            del self.pairs[pair]
        return gone

    def read(self, rows):
        users, items, weights, times = zip(*rows, strict=True)
        table = pa.table({"user": users, "item": items, "weight": weights, "time": times})
        options = {"weight": "weight", "time": "time", "time_unit": "s"} if self.weighted else {"weight": False}
        return komd.read(table.select(["user", "item"]) if not self.weighted else table, **options)

    def data(self):
        return self.read([(*pair, *held) for pair, held in self.pairs.items()])


def random_updates(model, world, rng):
    """A few updates in a row, some read in between."""
    for _ in range(int(rng.integers(1, 5))):
        kind = int(rng.integers(4))
        gone = world.remove(float(rng.choice([0.05, 0.3, 0.9]))) if kind in (0, 1) else []
        users = []
        if kind == 3 and len({user for user, _ in world.pairs}) > 1:
            user = sorted({user for user, _ in world.pairs})[0]
            users = [user]
            for pair in [pair for pair in world.pairs if pair[0] == user]:
                del world.pairs[pair]
        if rng.random() < 0.2:
            world.users += 3
            world.items += 2
        came = world.add(int(rng.integers(1, 8))) if kind in (1, 2) or not world.pairs else []
        added = world.read(came) if came and (world.weighted or rng.random() < 0.5) else [row[:2] for row in came]
        model.update(added if came else None, gone, removed_users=users)
        if rng.random() < 0.4:
            model.refresh()


@pytest.mark.parametrize(("name", "storage"), list(product(MODELS, STORAGES)))
@settings(deadline=None, max_examples=repeats(4, 12))
@given(seed=st.integers(0, 2**32 - 1))
def test_an_updated_model_equals_one_fitted_to_what_remains(name, storage, seed):
    rng = np.random.default_rng(seed)
    world = World(rng, weighted=name in WEIGHTED, text=bool(rng.integers(2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[name](storage).fit(world.data())
        random_updates(model, world, rng)
        assert_equal(model, MODELS[name](storage).fit(world.data()))
        random_updates(model, world, rng)
        assert_equal(model, MODELS[name](storage).fit(world.data()))


@pytest.fixture
def data():
    return komd.generate(users=60, items=40, activity=8, rng=3)


def events(data, count, rng=0):
    """Random pairs of a data set's users and items."""
    rng = np.random.default_rng(rng)
    users, items = data.users.values.to_pylist(), data.items.values.to_pylist()
    return [(users[rng.integers(len(users))], items[rng.integers(len(items))]) for _ in range(count)]


@pytest.mark.parametrize("storage", [None, *STORAGES])
def test_saved_and_loaded_in_between(data, storage, tmp_path):
    model = komd.CFKOMD(storage=storage).fit(data)
    came = events(data, 30)
    model.update(added=came[:15]).save(tmp_path / "model")
    model = komd.load(tmp_path / "model").update(added=came[15:])
    model.save(tmp_path / "again")
    fresh = komd.CFKOMD(storage=storage).fit(
        komd.read([*zip(*data.to_arrow().to_pydict().values(), strict=True), *came])
    )
    fresh.save(tmp_path / "fresh")
    assert_equal(model, fresh)
    files = {path.name for path in (tmp_path / "fresh").iterdir()}
    assert {path.name for path in (tmp_path / "again").iterdir()} == files  # named by their content
    assert (tmp_path / "again" / "manifest.json").read_text() == (tmp_path / "fresh" / "manifest.json").read_text()


def test_what_happened_is_said(data):
    model = komd.CFKOMD().fit(data)
    user, item = data.users[0], data.items[0]
    model.update(added=[("somebody", item), ("somebody", "a new item")]).refresh()
    assert model.last_update.rebuilt is None and model.last_update.renewed_items == 2
    assert str(model.last_update) == "pairs +2 −0, users +1 −0, items +1 −0; 2 rows of K renewed"
    model.update(removed_users=["somebody", user]).refresh()
    assert (model.last_update.dropped_users, model.last_update.dropped_items) == (2, 1)
    filtered = komd.CFKOMD(ridge=5.0).fit(data).update(added=[("somebody", item)]).refresh()
    assert str(filtered.last_update).endswith("K built anew: the filter is made of all of K")
    assert komd.Popularity().fit(data).update(added=[("somebody", item)]).refresh().last_update.added == 1


def test_a_view_and_a_matrix_that_somebody_holds_stay_as_they_are(data):
    model = komd.CFKOMD(storage="dense").fit(data)
    view, held, before = model.view(), model.matrix, model.matrix.values.copy()
    lists = view.recommend().to_arrow()
    for pair in events(data, 20):
        model.update(added=[pair]).refresh()
        assert np.array_equal(held.values, before)
    assert view.recommend().to_arrow().equals(lists)
    assert not model.recommend().to_arrow().equals(lists)
    del view, held
    values = model.matrix.values
    address = values.ctypes.data
    model.update(added=[events(data, 1, rng=9)[0]]).refresh()
    assert model.matrix.values.ctypes.data != address  # `values` is held here
    address = model.matrix.values.ctypes.data
    del values
    model.update(removed=[events(data, 1, rng=9)[0]]).refresh()
    assert model.matrix.values.ctypes.data == address  # nobody else holds it: changed where it is


def test_models_can_be_pickled_and_copied(data):
    model = komd.CFKOMD(storage="dense").fit(data)
    model.update(added=[("somebody", data.items[0])])
    again, twin = pickle.loads(pickle.dumps(model)), copy.deepcopy(model)
    for each in (again, twin):
        assert_equal(each, model)
        each.update(added=[("somebody else", data.items[0])]).refresh()
    assert "somebody else" not in model.catalogue.users


def test_reading_while_others_update(data):
    """Every list is that of some state in between: never of a mixture."""
    model = komd.CFKOMD(storage="dense").fit(data)
    user, came = data.users[5], events(data, 25, rng=5)
    twin, allowed = komd.CFKOMD(storage="dense").fit(data), []
    allowed.append(twin.recommend(user).to_arrow())
    for pair in came:
        allowed.append(twin.update(added=[pair]).recommend(user).to_arrow())
    found, done = [], threading.Event()

    def read():
        while not done.is_set():
            found.append(model.recommend(user).to_arrow())

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for pair in came:
            model.update(added=[pair]).refresh()
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert found and all(any(table.equals(other) for other in allowed) for table in found)


def test_repeated_pairs_follow_the_rule():
    def read(rows, **options):
        names = ("user", "item", "plays", "time")
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        return komd.read(pa.table(columns), weight="plays", time="time", time_unit="s", **options)

    old = [("ana", "x", 2, 1000), ("ana", "y", 5, 3000), ("bo", "x", 1, 2000), ("bo", "z", 1, 2000)]
    new = [("ana", "x", 3, 500), ("ana", "x", 7, 4000), ("ana", "y", 1, 2000), ("cy", "z", 4, 100)]
    for rule in ("sum", "max", "last", "count"):
        model = komd.ECFOMD().fit(read(old)).update(read(new, repeated=rule), repeated=rule)
        if rule == "count":  # what was read before counted by its weights, what is added by its rows
            rows = [*old, *((*row[:2], 1, row[3]) for row in new)]
            assert_equal(model, komd.ECFOMD().fit(read(rows)))
            continue
        assert_equal(model, komd.ECFOMD().fit(read([*old, *new], repeated=rule)))


def test_weights_that_come_to_count():
    """While all weights are 1, a weighted K is counted as one without; the first other weight changes all of it."""
    pairs = [(f"user {k % 7}", f"item {(k * k) % 11}") for k in range(40)]
    ones = komd.read(
        pa.table({"u": [u for u, _ in pairs], "i": [i for _, i in pairs], "w": [1] * 40}),
        user="u",
        item="i",
        weight="w",
        repeated="max",
    )
    heavy = komd.read(pa.table({"u": ["user 1"], "i": ["item 5"], "w": [6]}), user="u", item="i", weight="w")
    for storage in STORAGES:
        model = (
            komd.CFKOMD(weighted_kernel=True, user_damping=0.5, storage=storage).fit(ones).update(heavy, repeated="max")
        )
        joined = komd.read(
            pa.table(
                {"u": [u for u, _ in pairs] + ["user 1"], "i": [i for _, i in pairs] + ["item 5"], "w": [1] * 40 + [6]}
            ),
            user="u",
            item="i",
            weight="w",
            repeated="max",
        )
        assert_equal(model, model.clone().fit(joined))
        assert model.last_update.rebuilt == "weights came to count, or ceased to"


def test_the_way_k_is_held_is_chosen_again(monkeypatch):
    monkeypatch.setattr("komd.matrix.storage._SMALL", 12)
    data = komd.generate(users=100, items=12, activity=3, rng=1)
    model = komd.CFKOMD().fit(data)
    assert model.matrix.storage == "dense"
    came = [(f"someone {k}", f"something {k}") for k in range(30)]
    pairs = list(zip(*data.to_arrow().to_pydict().values(), strict=True))
    assert_equal(model.update(added=came), komd.CFKOMD().fit(komd.read([*pairs, *came])))
    assert model.last_update.rebuilt == "it is held sparse now, it was dense"


def test_sums_of_a_streamed_kernel_follow(monkeypatch):
    """Few changed rows: what they add to the sums of the others is replaced, not all sums are made anew."""
    pairs = list(
        zip(*komd.generate(users=400, items=300, activity=6, rng=1).to_arrow().to_pydict().values(), strict=True)
    )
    data = komd.read(pairs)
    model = komd.CFKOMD(storage="streamed", user_damping=0.5).fit(data)
    rare = [data.items[int(i)] for i in np.argsort(data.popularity)[:6]]
    came = [("user-00001", rare[0]), ("somebody", rare[1]), ("somebody", "something")]
    expected = model.clone().fit(komd.read([*pairs, *came]))
    monkeypatch.setattr("komd.matrix.streamed.StreamedMatrix.sums", lambda *_: pytest.fail("all sums were made anew"))
    assert np.array_equal(model.update(added=came).S, expected.S)
    model.update(removed=came).refresh()
    monkeypatch.undo()
    assert_equal(model, model.clone().fit(data))


def test_dislikes_and_low_ratings_come_and_go():
    def read(rows, **options):
        columns = dict(zip(("user", "item", "rating"), zip(*rows, strict=True), strict=True))
        return komd.read(pa.table(columns), liked=4, disliked=2, **options)

    old = [("ana", "x", 5), ("ana", "y", 1), ("bo", "y", 4), ("bo", "z", 3), ("cy", "z", 5), ("cy", "x", 2)]
    new = [("ana", "z", 1), ("bo", "x", 5), ("bo", "z", 4), ("cy", "y", 3), ("ana", "y", 3), ("dee", "x", 1)]
    model = komd.CFKOMD(dislikes_weight=0.2).fit(read(old)).update(read(new, every_id=True))
    assert_equal(model, komd.CFKOMD(dislikes_weight=0.2).fit(read([*old, *new])))
    assert_equal(
        komd.CFKOMD(dislikes_weight=0.2).fit(read(old)).update(read(new[:1], every_id=True)),
        komd.CFKOMD(dislikes_weight=0.2).fit(read([*old, new[0]])),
    )
    model.update(removed=[("ana", "y"), ("bo", "z"), ("cy", "x")])
    left = [row for row in [*old, *new] if row[:2] not in {("ana", "y"), ("bo", "z"), ("cy", "x")}]
    assert_equal(model, komd.CFKOMD(dislikes_weight=0.2).fit(read(left)))


def test_many_batches_before_one_reading(data):
    came = events(data, 400, rng=2)
    one, many = komd.MSDW().fit(data), komd.MSDW().fit(data)
    one.update(added=came)
    for pair in came:
        many.update(added=[pair])
    for pair in came[:40]:
        if pair not in came[40:]:
            one.update(removed=[pair], on_unknown="skip")
            many.update(removed=[pair], on_unknown="skip")
    assert_equal(one, many)


def test_ids_of_other_kinds():
    numbers = komd.ECFOMD().fit(komd.read([(1, 7), (1, 8), (2, 7)]))
    text = komd.ECFOMD().fit(komd.read([("1", "a"), ("1", "b"), ("2", "a")]))
    assert numbers.update(added=[("3", "8")]).catalogue.users.values.to_pylist() == [1, 2, 3]
    assert text.update(added=[(3, "b")]).catalogue.users.values.to_pylist() == ["1", "2", "3"]
    with pytest.raises(InputError, match="'x3' is not a user id: these are integers"):
        numbers.update(added=[("x3", "8")])
    with pytest.raises(InputError, match="item ids of this model are integers, like 7"):
        numbers.update(added=pa.table({"user": [1], "item": pa.array([b"x"])}))
    assert numbers.catalogue.users.values.to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, InputError, "nothing to update"),
        ({"removed": [("nobody", "x")]}, UnknownIdError, "unknown user 'nobody'"),
        ({"removed": [("ana", "nothing")]}, UnknownIdError, "unknown item 'nothing'"),
        ({"removed": [("bo", "y")]}, UnknownIdError, "the pair of user 'bo' and item 'y' is not in the model"),
        ({"removed_users": ["nobody"]}, UnknownIdError, "unknown user 'nobody'"),
        ({"removed_users": "ana"}, InputError, "is a list of user ids"),
        ({"removed_users": ["ana", "bo"]}, InputError, "would remove all pairs"),
        ({"added": [("ana", "x")], "repeated": "twice"}, InputError, "repeated"),
        ({"added": [("ana", "x")], "on_unknown": "ask"}, InputError, "on_unknown"),
        ({"added": [("ana",)]}, InputError, "column"),
        ({"added": [("ana", None)]}, InputError, "missing"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(options, error, words):
    model = komd.ECFOMD().fit(komd.read([("ana", "x"), ("ana", "y"), ("bo", "x")]))
    lists = model.recommend(n=3, exclude_seen=False).to_arrow()
    with pytest.raises(error, match=words):
        model.update(**options)
    assert model.recommend(n=3, exclude_seen=False).to_arrow().equals(lists)
    assert model.last_update is None


def test_weights_and_times_must_fit():
    table = pa.table({"user": ["ana", "ana", "bo"], "item": ["x", "y", "x"], "plays": [1, 2, 3], "time": [10, 20, 30]})
    plain = komd.ECFOMD().fit(komd.read(table.select(["user", "item"])))
    with pytest.raises(InputError, match="fitted without weights"):
        plain.update(added=komd.read(table, weight="plays"))
    timed = komd.ECFOMD().fit(komd.read(table, weight=False, time="time", time_unit="s"))
    with pytest.raises(InputError, match="knows when each pair happened"):
        timed.update(added=[("bo", "y")])
    timed.update(removed=[("ana", "x")])  # removals need no time
    assert timed.last_update is None and len(timed.catalogue.histories.indices) == 2
    weighted = komd.ECFOMD().fit(komd.read(table, weight="plays"))
    weighted.update(added=[("bo", "y")])  # counts 1
    assert weighted.catalogue.histories.weights.sum() == 7


@pytest.mark.parametrize("name", ["EASE", "SLIM", "CFOMD", "WRMF", "BPR"])
def test_other_models_say_that_they_cannot(name, data):
    model = komd.model_from_text(name)
    with pytest.raises(InputError, match=f"{name} cannot be updated, only fitted again; CFKOMD, ECFOMD"):
        model.update(added=[("ana", "x")])


def test_an_unfitted_model_is_refused_and_a_fit_ends_what_waits(data):
    with pytest.raises(InputError, match="not fitted yet"):
        komd.CFKOMD().update(added=[("ana", "x")])
    model = komd.CFKOMD().fit(data).update(added=[("ana", data.items[0])])
    assert "ana" not in model.fit(data).catalogue.users
    model.update(added=[("ana", data.items[0])]).set_params(regularization=3.0)
    assert not model.fitted


def test_a_record_that_is_no_update_is_refused(data):
    with pytest.raises(ModelFileError, match="no update"):
        komd.CFKOMD().fit(data).replay([b"nonsense"])
