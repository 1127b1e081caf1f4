"""komd: top-N recommendation from implicit feedback, by kernels that maximise each user's margin.

    import komd

    data = komd.read("plays.parquet")
    model = komd.CFKOMD(kernel="tanimoto", regularization=0.01).fit(data)
    model.recommend(["ana", "bo"], n=10)
    model.recommend(histories={"guest": ["i7", "i42"]})
    model.explain("ana", "i99")

Everything below is loaded on first use, so that `import komd` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from komd import kernels, sparsity
    from komd.data import datasets, split
    from komd.data.align import align
    from komd.data.generate import generate
    from komd.data.generate_like import generate_like
    from komd.data.interactions import Interactions
    from komd.data.read import read
    from komd.engine.batch_output import recommend_to
    from komd.engine.results import Explanation, Recommendations, Scores
    from komd.engine.updates import UpdateReport
    from komd.errors import (
        FallbackWarning,
        FilterWarning,
        InputError,
        KomdError,
        ModelFileError,
        SolverError,
        TimeWarning,
        UnknownIdError,
        UnusedColumnWarning,
        UnusedWeightsWarning,
    )
    from komd.evaluation.compare import compare
    from komd.evaluation.comparison import Comparison
    from komd.evaluation.evaluate import Evaluation, evaluate
    from komd.models.bpr import BPR
    from komd.models.bprknn import BPRKNN
    from komd.models.cfkomd import CFKOMD
    from komd.models.cfomd import CFOMD
    from komd.models.ease import EASE
    from komd.models.ecfomd import ECFOMD
    from komd.models.msdw import MSDW
    from komd.models.popularity import Popularity
    from komd.models.registry import load, model_from_text
    from komd.models.rp3beta import RP3Beta
    from komd.models.saved_update import update
    from komd.models.slim import SLIM
    from komd.models.wrmf import WRMF
    from komd.tuning.tune import tune
    from komd.tuning.tuning_result import Tuning

_HOME = {
    "BPR": "komd.models.bpr",
    "BPRKNN": "komd.models.bprknn",
    "CFKOMD": "komd.models.cfkomd",
    "CFOMD": "komd.models.cfomd",
    "Comparison": "komd.evaluation.comparison",
    "EASE": "komd.models.ease",
    "ECFOMD": "komd.models.ecfomd",
    "Evaluation": "komd.evaluation.evaluate",
    "Explanation": "komd.engine.results",
    "FallbackWarning": "komd.errors",
    "FilterWarning": "komd.errors",
    "UnusedWeightsWarning": "komd.errors",
    "InputError": "komd.errors",
    "Interactions": "komd.data.interactions",
    "KomdError": "komd.errors",
    "MSDW": "komd.models.msdw",
    "ModelFileError": "komd.errors",
    "Popularity": "komd.models.popularity",
    "RP3Beta": "komd.models.rp3beta",
    "Recommendations": "komd.engine.results",
    "SLIM": "komd.models.slim",
    "Scores": "komd.engine.results",
    "SolverError": "komd.errors",
    "TimeWarning": "komd.errors",
    "Tuning": "komd.tuning.tuning_result",
    "UpdateReport": "komd.engine.updates",
    "UnknownIdError": "komd.errors",
    "UnusedColumnWarning": "komd.errors",
    "WRMF": "komd.models.wrmf",
    "align": "komd.data.align",
    "compare": "komd.evaluation.compare",
    "evaluate": "komd.evaluation.evaluate",
    "generate": "komd.data.generate",
    "generate_like": "komd.data.generate_like",
    "load": "komd.models.registry",
    "model_from_text": "komd.models.registry",
    "read": "komd.data.read",
    "recommend_to": "komd.engine.batch_output",
    "tune": "komd.tuning.tune",
    "update": "komd.models.saved_update",
}
_MODULES = {
    "datasets": "komd.data.datasets",
    "kernels": "komd.kernels",
    "sparsity": "komd.sparsity",
    "split": "komd.data.split",
}

__all__ = [
    "BPR",
    "BPRKNN",
    "CFKOMD",
    "CFOMD",
    "EASE",
    "ECFOMD",
    "MSDW",
    "SLIM",
    "WRMF",
    "Comparison",
    "Evaluation",
    "Explanation",
    "FallbackWarning",
    "FilterWarning",
    "InputError",
    "Interactions",
    "KomdError",
    "ModelFileError",
    "Popularity",
    "RP3Beta",
    "Recommendations",
    "Scores",
    "SolverError",
    "TimeWarning",
    "Tuning",
    "UnknownIdError",
    "UnusedColumnWarning",
    "UnusedWeightsWarning",
    "UpdateReport",
    "__version__",
    "align",
    "compare",
    "datasets",
    "evaluate",
    "generate",
    "generate_like",
    "kernels",
    "load",
    "model_from_text",
    "read",
    "recommend_to",
    "sparsity",
    "split",
    "tune",
    "update",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name == "__version__":
        from importlib import metadata

        value = metadata.version("komd")
    else:
        raise AttributeError(f"module 'komd' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
