"""komd on Spark: Spark schedules, stores and retries tasks; komd's compiled code runs in its Python workers.

from komd.spark import KomdRecommender

model = KomdRecommender(model="CFKOMD()", userCol="user", itemCol="item").fit(plays)
model.recommendForAllUsers(10)
"""

from __future__ import annotations

from komd.errors import InputError, install

try:
    import pyspark
except ImportError as error:  # pragma: no cover (the tests install it)
    raise InputError(f"komd.spark needs Spark for Python: {install('spark')}") from error
if int(pyspark.__version__.split(".")[0]) < 4:  # pragma: no cover
    raise InputError(f"komd.spark needs pyspark 4 or later, this is {pyspark.__version__}: {install('spark')}")

from komd.spark.estimator import KomdRecommender
from komd.spark.spark_model import KomdRecommenderModel, UnknownIdsWarning

__all__ = ["KomdRecommender", "KomdRecommenderModel", "UnknownIdsWarning"]
