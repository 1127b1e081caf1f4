"""What the paper prints: Polato & Aiolli, "Exploiting sparsity to build efficient kernel based collaborative …"."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A mean over five rounds, and the standard deviation over them."""

    mean: float
    std: float


class Size(NamedTuple):
    users: int
    items: int
    pairs: int


class Density(NamedTuple):
    """In percent: of R, of the linear kernel K, and the estimate d(K)."""

    R: float
    K: float
    d: float


TITLES = {
    "ml-1m": "MovieLens 1M",
    "netflix": "Netflix",
    "filmtrust": "FilmTrust",
    "ciao": "Ciao",
    "ml-10m": "MovieLens 10M",
    "delicious": "Delicious",
    "lastfm": "LastFM",
    "book-crossing": "Book-Crossing",
    "msd": "MSD",
}

# Table "Brief description of the used datasets"; 1M, 3.3M and the figures of MSD are rounded in print.
SIZES = {
    "ml-1m": Size(6040, 3706, 1_000_000),
    "msd": Size(1_200_000, 380_000, 48_000_000),
    "ciao": Size(17_615, 16_121, 72_664),
    "netflix": Size(93_705, 3_561, 3_300_000),
    "filmtrust": Size(1_508, 2_071, 35_496),
}

# Table "AUC results of our framework against state-of-the-art methods".
DATA = ("ml-1m", "netflix", "filmtrust", "ciao")
_AUC = {
    "MSDW α=0": ((0.867, 0.001), (0.939, 0.0002), (0.961, 0.004), (0.824, 0.008)),
    "MSDW α=.25": ((0.870, 0.001), (0.939, 0.0002), (0.960, 0.005), (0.813, 0.01)),
    "MSDW α=.5": ((0.875, 0.001), (0.936, 0.0006), (0.959, 0.005), (0.805, 0.01)),
    "MSDW α=.75": ((0.862, 0.001), (0.912, 0.0001), (0.955, 0.005), (0.793, 0.008)),
    "MSDW α=1": ((0.458, 0.007), (0.409, 0.019), (0.833, 0.011), (0.784, 0.009)),
    "ECF-OMD": ((0.895, 0.0003), (0.943, 0.001), (0.961, 0.005), (0.718, 0.006)),
    "CF-K polynomial c=.5": ((0.893, 0.0003), (0.937, 0.001), (0.961, 0.006), (0.731, 0.003)),
    "CF-K polynomial c=1": ((0.893, 0.0003), (0.937, 0.001), (0.960, 0.006), (0.730, 0.003)),
    "CF-K polynomial c=2": ((0.894, 0.0003), (0.938, 0.001), (0.959, 0.006), (0.721, 0.003)),
    "CF-K polynomial c=4": ((0.896, 0.0003), (0.938, 0.001), (0.958, 0.006), (0.718, 0.003)),
    "CF-K Tanimoto": ((0.895, 0.0004), (0.941, 0.001), (0.964, 0.005), (0.734, 0.004)),
    "WRMF": ((0.870, 0.006), (0.804, 0.002), (0.947, 0.007), (0.565, 0.004)),
    "BPR": ((0.854, 0.005), (0.843, 0.001), (0.954, 0.008), (0.549, 0.004)),
}
AUC = {method: {data: Figure(*cell) for data, cell in zip(DATA, cells, strict=True)} for method, cells in _AUC.items()}
"""method → data set → figure."""

# Table "Ranking accuracy on MSD".
MSD = {
    "MSDW α=.15 q=3": {"map@500": 0.16881, "auc": 0.97342},
    "ECF-OMD": {"map@500": 0.16391, "auc": 0.97034},
    "CF-K polynomial c=1": {"map@500": 0.15967, "auc": 0.97065},
}

# Table "Analysis of the sparsity of the linear kernel".
DENSITY = {
    "delicious": Density(0.08, 0.128, 0.13),
    "lastfm": Density(0.28, 0.85, 1.48),
    "book-crossing": Density(0.003, 0.687, 0.011),
    "ml-10m": Density(1.34, 85.56, 99.99),
    "netflix": Density(0.99, 98.03, 99.99),
    "ciao": Density(0.025, 2.51, 0.12),
    "filmtrust": Density(1.13, 11.11, 17.74),
}
