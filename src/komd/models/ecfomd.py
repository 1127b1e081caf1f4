"""ECF-OMD: CF-KOMD with the linear kernel (PAPER section 3.2)."""

from __future__ import annotations

from komd.models.cfkomd import CFKOMD

__all__ = ["ECFOMD"]


class ECFOMD(CFKOMD):
    """Efficient CF-OMD: the negatives are their centroid, the kernel is the cosine.

    The paper's method and no more: parameters are those of `CFKOMD` without the kernel and its further stages. For
    these use `CFKOMD(kernel="linear", ...)`.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> komd.ECFOMD(regularization=0.1).fit(data)
    ECFOMD(regularization=0.1)  # K: 60 items, ... % full → dense, 14 kB
    """

    def __init__(
        self,
        *,
        regularization: float = 0.01,
        negatives: str = "exact",
        tolerance: float = 1e-8,
        weighting: str = "log",
        half_life: str | None = None,
        storage: str | None = None,
    ) -> None:
        super().__init__(
            kernel="linear",
            regularization=regularization,
            negatives=negatives,
            tolerance=tolerance,
            weighting=weighting,
            half_life=half_life,
            storage=storage,
        )
