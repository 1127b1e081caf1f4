"""Compile what a service needs, for an image: fit small models, save them, and ask as the service does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import komd
from komd.serve.model_snapshot import ModelSnapshot
from komd.serve.user_row import UserRow

MODELS = (
    komd.CFKOMD(half_life="30d", dislikes_weight=0.5, storage="dense"),
    komd.CFKOMD(kernel="linear", user_damping=0.5, popularity=0.2, storage="sparse"),
    komd.CFKOMD(storage="streamed"),
    komd.ECFOMD(),
    komd.RP3Beta(),
    komd.Popularity(),
)


def main() -> None:
    plain = komd.generate(users=200, items=100, activity=10, rng=0)
    pairs = {"user": plain.users.take(plain.rows), "item": plain.items.take(plain.indices)}
    valued = {"plays": np.full(plain.pairs, 2.0), "time": 1_700_000_000 + np.arange(plain.pairs)}
    timed = komd.read(pa.table({**pairs, **valued}), weight="plays", time="time")
    items = np.arange(12, dtype=np.int32)
    weighted = UserRow(items, np.ones(12, np.float32), np.zeros(12, np.int64), np.array([20], np.int32))
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            path = Path(folder) / "warm.komd"
            model.fit(timed if "half_life" in model.text else plain).save(path)
            snapshot = ModelSnapshot.load(path, "warm", None)
            snapshot.recommend([weighted, UserRow(items[:2])], n=10, at=1, reasons=3)
    print(f"compiled for {len(MODELS)} models")


if __name__ == "__main__":
    main()
