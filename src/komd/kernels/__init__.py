"""Kernels between items, and the item-item matrices they make."""

from komd.kernels.functions import (
    RBF,
    DotProduct,
    Jaccard,
    Kernel,
    Linear,
    Polynomial,
    Tanimoto,
    kernel_named,
)

__all__ = ["RBF", "DotProduct", "Jaccard", "Kernel", "Linear", "Polynomial", "Tanimoto", "kernel_named"]
