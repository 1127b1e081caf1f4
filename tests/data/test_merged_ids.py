import datetime
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.data.ids import Ids
from komd.data.merged_ids import conformed, merged
from komd.data.new_ids import NewIds
from komd.errors import InputError, UnknownIdError

KINDS = {
    "integers": lambda k: 3 * k - 50,
    "text": lambda k: f"{k:03d}" + "éz" * (k % 3),
    "UUIDs": lambda k: uuid.UUID(int=k * 2**100 + 7),
    "bytes": lambda k: bytes([k, 255 - k]),
    "dates": lambda k: datetime.date(2020, 1, 1) + datetime.timedelta(days=k),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_ids_are_put_in_at_their_places(kind, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(100)
    cut = int(rng.integers(1, 99))
    held, came = (sorted(numbers[:cut].tolist()), numbers[cut:].tolist()[: int(rng.integers(0, 99 - cut + 1))])
    ids = Ids.from_arrow([KINDS[kind](k) for k in held])
    dropped = rng.random(len(held)) < 0.3
    added = conformed(ids, Ids.from_arrow([KINDS[kind](k) for k in came]).values) if came else pa.array([], ids.type)
    order = [added[k].as_py() for k in range(len(added))]
    found, source = merged(ids, added, dropped)
    left = [ids[k] for k in range(len(ids)) if not dropped[k]]
    assert list(found) == sorted([*left, *order])
    assert [ids[int(s)] if s >= 0 else order[-1 - int(s)] for s in source] == list(found)
    assert found.type == ids.type


def test_ids_become_ids_of_the_same_kind():
    numbers, text = Ids.from_arrow([3, 5]), Ids.from_arrow(["a", "b"], noun="item")
    assert conformed(numbers, pa.array(["7", "-2"])).to_pylist() == [7, -2]
    assert conformed(text, pa.array([7])).to_pylist() == ["7"]
    assert conformed(numbers, pa.array([7], pa.uint8())).type == pa.int64()
    assert conformed(text, pa.array([], pa.null())).type == text.type
    with pytest.raises(InputError, match=r"item ids of this model are text, like 'a'; 1\.5 is not one of that kind"):
        conformed(text, pa.array([1.5]))
    with pytest.raises(InputError, match="'x' is not a id id: these are integers"):
        conformed(numbers, pa.array(["x"]))


def test_new_ids_follow_and_can_be_taken_back():
    new = NewIds(Ids.from_arrow(["ana", "bo"], noun="user"))
    assert new.find(pa.array(["cy", "bo", "cy", "dee"]), "error", grow=True).tolist() == [2, 1, 2, 3]
    assert new.values.to_pylist() == ["cy", "dee"]
    new.mark = 1
    assert new.find(pa.array(["cy", "dee"]), "skip").tolist() == [2, -1]
    with pytest.raises(UnknownIdError, match="unknown user 'dee'"):
        new.find(pa.array(["dee"]), "error")
