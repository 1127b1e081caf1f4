"""ECF-OMD: CF-KOMD with the linear kernel (PAPER section 3.2)."""

from __future__ import annotations

from komd.models.cfkomd import CFKOMD

__all__ = ["ECFOMD"]


class ECFOMD(CFKOMD):
    """Efficient CF-OMD (ECF-OMD): the kernel is the cosine, the negatives are replaced by their centroid.

    This is the paper's method as published. It is `CFKOMD` with the linear kernel and without further stages; use
    `CFKOMD(kernel="linear", ...)` for those.

    Parameters
    ----------
    regularization : float
        λ_p >= 0. Larger values spread the weights more evenly over the history.
    negatives : {"exact", "mean"}
        As in `CFKOMD`.
    tolerance : float
        KKT gap to which every problem is solved.
    weighting : {"log", "sqrt", "linear", "none"}
        As in `CFKOMD`.
    half_life : str, optional
        As in `CFKOMD`.
    storage : {"dense", "sparse", "streamed"}, optional
        As in `CFKOMD`.

    Raises
    ------
    InputError
        If a parameter is not of its kind or outside of its range.

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
