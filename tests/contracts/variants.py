"""Every model, and the parametrisations of it that all contracts hold to the same promises."""

from __future__ import annotations

import importlib.util

from komd.models.registry import MODELS
from tests.budget import THOROUGH

# By model; one that is not named here joins with its defaults.
VARIANTS = {
    "CFKOMD": [
        {},
        {"kernel": "linear", "negatives": "mean"},
        {"kernel": "rbf", "regularization": 1.0},
        {"kernel": "jaccard", "regularization": 0.0},
        {"user_damping": 0.5, "popularity": 0.2, "negatives_weight": 0.5},
        {"kernel": "linear", "user_damping": 0.5, "popularity": 0.1, "ridge": 3.0, "negatives_weight": 0.0},
        {"user_damping": 0.5, "ridge": 30.0, "rank": 12, "storage": "sparse"},
        {"popularity": 0.2, "ridge": 30.0, "rank": 12, "prior": 0.01, "storage": "streamed"},
        {"user_damping": 0.5, "prior": 0.003, "prior_power": 1.0, "negatives_weight": 0.5, "storage": "sparse"},
        {
            "user_damping": 0.5,
            "ridge": 3.0,
            "rank": 12,
            "head": 1.0,
            "prior": 0.003,
            "target": 0.3,
            "negatives_weight": 0.0,
            "storage": "sparse",
        },
        {"rank": 12, "head": 0.5, "target": -0.2, "negatives_weight": 0.5, "storage": "streamed"},
    ],
    "EASE": [{}, {"storage": "dual"}],
    "CFOMD": [{}, {"kernel": "tanimoto", "regularization_negatives": 0.1}],
    # Learned by gradient steps: enough of them for data this small.
    "BPR": [{"factors": 8, "iterations": 300, "learning_rate": 0.05, "regularization": 0.001}],
    "BPRKNN": [{"epochs": 60, "learning_rate": 0.02}],
    "WRMF": [{"factors": 4}],
}
EVERY = [model(**params) for name, model in MODELS.items() for params in VARIANTS.get(name, [{}])]
# For what runs in processes of its own, which do the same for every parametrisation: one of each model in `make test`.
FIRST = [model for model in EVERY if THOROUGH or model.text == next(m.text for m in EVERY if type(m) is type(model))]
PERSONAL = [model for model in EVERY if type(model).__name__ != "Popularity"]
# One matrix product for a block of users rounds by the size of the block: equal to rounding, not to the last bit.
ROUNDS_BY_BLOCK = {"BPR", "WRMF"}
RIVALS = {"BPR", "WRMF"}  # the extra that may not be installed
UNEXPLAINED = {"BPR"}  # no part of a score belongs to an item of the history: refused with the reason
HAS_IMPLICIT = importlib.util.find_spec("implicit") is not None
