"""The problem of `simplex.py` by whole faces: find which items keep weight, then solve for all of them at once.

A face of the simplex is the set of weights that are zero outside some items. Steps along the projected gradient find
the face of the answer within a few products with K; conjugate gradients then go to the minimum on it. Where that
minimum has negative weights, the face shrinks; where an item outside the face wants weight, another step along the
projected gradient lets it in. Most problems are solved by the first or second face. The few others (K nearly flat, an
endless exchange of items) are left to steps between pairs of items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from komd._core.compile import inner
from komd._core.row_sums import add_rows
from komd._core.symmetric_part import copy_part
from komd._core.vector_sums import above, dot, fill, padded

if TYPE_CHECKING:
    from komd._core.simplex import SimplexScratch

__all__ = ["LINES", "descend_by_faces"]

_GRADIENT_STEPS = 8  # along the projected gradient before the first face, at most
_FACES = 30  # how many are tried
_PRODUCTS = 100  # of conjugate gradients on one face
_ROUGH = 1e-1  # of the square of the residual: enough to see which weights turn negative
_ENOUGH = (
    0.6  # of the gap asked for: what the norm of the residual on a face is brought to (the gap is at most √2 times it)
)
_FIRST = 0.5  # length of the first step along the projected gradient, in units of the inverse diagonal
_FLAT = 1e-9  # curvature, beside that of single items, below which a direction is flat
_MANY = 4  # a face that has lost one in so many items is packed anew

# Rows of `SimplexScratch.lines`, after those of `simplex.py`: of all items, ...
_ALPHA, _G, _DIAGONAL, _PER_DIAGONAL, _V, _C, _X, _G_X = range(14, 22)
# ... and of the items of a face.
_WEIGHT, _Q, _LAM, _INVERSE, _RESIDUAL, _SEARCH, _PRODUCT, _Z = range(22, 30)
LINES = 30


@inner
def descend_by_faces(
    K: np.ndarray, q: np.ndarray, g: np.ndarray, lam: np.ndarray, alpha: np.ndarray, tol: float, scratch: SimplexScratch
) -> bool:
    """Solve the problem of `solve_simplex`. If it is not solved to a gap of `tol`, `alpha` and `g` stay as they are.

    `alpha` and `g` arrive belonging together. Rows of K may go on with zeros, up to the length of a padded line. Items
    without a diagonal (nobody chose them, and λ is 0) have no step of their own: such problems are not solved here.
    """
    m = alpha.shape[0]
    for k in range(m):
        if not np.float64(K[k, k]) + lam[k] > 0.0:
            return False
    lines, wide = scratch.lines, padded(m)
    total = _copy_start(K, g, lam, alpha, lines[:, :wide])
    if _gap(m, lines) <= tol:
        return True
    length = _FIRST
    size = m
    for step in range(_GRADIENT_STEPS):
        before = size
        length, size = _gradient_step(K, q, lam, length, total, scratch)
        if size == before and step > 0:
            break
    for _ in range(_FACES):
        size = _take_face(K, q, lam, scratch)
        curved, ended = _minimum_on_face(size, total, tol, scratch)
        _scatter_weights(m, size, total, scratch)
        if not ended:
            continue
        _gradient(K, q, lam, lines[_ALPHA], scratch.kept[0, :size], lines[_WEIGHT], lines[_G, :wide])
        if _gap(m, lines) <= tol:
            for k in range(m):
                alpha[k] = lines[_ALPHA, k]
                g[k] = lines[_G, k]
            return True
        if not curved:
            break
        _gradient_step(K, q, lam, _FIRST, total, scratch)
    return False


@inner
def _scatter_weights(m: int, size: int, total: float, scratch: SimplexScratch) -> None:
    """The weights on the face as weights of all items; what rounding did to their sum is put right."""
    lines = scratch.lines
    held = 0.0
    for i in range(size):
        held += lines[_WEIGHT, i]
    for k in range(m):
        lines[_ALPHA, k] = 0.0
    for i in range(size):
        lines[_WEIGHT, i] *= total / held
        lines[_ALPHA, scratch.kept[0, i]] = lines[_WEIGHT, i]


@inner
def _copy_start(K: np.ndarray, g: np.ndarray, lam: np.ndarray, alpha: np.ndarray, lines: np.ndarray) -> float:
    """Copy the start; returns the sum of the weights. Places beyond the items stay zero in every line."""
    total = 0.0
    m = alpha.shape[0]
    for k in range(m):
        lines[_ALPHA, k] = alpha[k]
        lines[_G, k] = g[k]
        lines[_DIAGONAL, k] = np.float64(K[k, k]) + lam[k]
        lines[_PER_DIAGONAL, k] = 1.0 / lines[_DIAGONAL, k]
        total += alpha[k]
    for k in range(m, lines.shape[1]):
        lines[_ALPHA, k] = 0.0
        lines[_G, k] = 0.0
        lines[_DIAGONAL, k] = 0.0
        lines[_PER_DIAGONAL, k] = 0.0
    return total


@inner
def _gap(m: int, lines: np.ndarray) -> float:
    """The KKT gap; infinite if a number is none, or no item has weight."""
    low = np.inf
    high = -np.inf
    for k in range(m):
        x = lines[_G, k]
        if np.isnan(x) or np.isnan(lines[_ALPHA, k]):
            return np.inf
        low = x if x < low else low
        high = x if lines[_ALPHA, k] > 0.0 and x > high else high
    return high - low if high > -np.inf else np.inf


@inner
def _gradient(
    K: np.ndarray, q: np.ndarray, lam: np.ndarray, x: np.ndarray, rows: np.ndarray, weights: np.ndarray, out: np.ndarray
) -> None:
    """out = K x + lam x - q, where `weights` are those of x that are not zero, and `rows` their places."""
    m = q.shape[0]
    fill(out, 0.0)
    add_rows(K, rows, weights, 0, out[: min(K.shape[1], out.shape[0])])
    for k in range(m):
        out[k] = (out[k] + lam[k] * x[k]) - q[k]


@inner
def _raise(v: np.ndarray, c: np.ndarray, level: float, total: float, out: np.ndarray) -> None:
    """out = max(0, v + level c) with the level at which it sums to `total`: Newton on a piecewise linear function."""
    for _ in range(100):
        held, slope = above(v, c, level)
        change = (held - total) / slope
        level -= change
        if abs(held - total) <= 1e-14 * total:
            break
    for k in range(v.shape[0]):
        x = v[k] + level * c[k]
        out[k] = x if x > 0.0 else 0.0


@inner
def _gradient_step(
    K: np.ndarray, q: np.ndarray, lam: np.ndarray, length: float, total: float, scratch: SimplexScratch
) -> tuple[float, int]:
    """Go to the point of the simplex nearest to alpha - length · g / diagonal, or as far towards it as f falls.

    Returns the length that fits the curvature found, and the number of items with weight there.
    """
    m = q.shape[0]
    lines, wide = scratch.lines, padded(m)
    alpha, g, diagonal, inverse = (
        lines[_ALPHA, :wide],
        lines[_G, :wide],
        lines[_DIAGONAL, :wide],
        lines[_PER_DIAGONAL, :wide],
    )
    v, c, x, at, scaled = lines[_V, :wide], lines[_C, :wide], lines[_X, :wide], lines[_G_X, :wide], lines[_Z, :wide]
    for k in range(v.shape[0]):
        c[k] = length * inverse[k]
        v[k] = alpha[k] - c[k] * g[k]
    _raise(v, c, dot(alpha, g) / total, total, x)
    rows, weights = scratch.kept[0], lines[_SEARCH]
    size = 0
    for k in range(m):
        rows[size] = k
        weights[size] = x[k]
        size += x[k] > 0.0
    _gradient(K, q, lam, x, rows[:size], weights, at)
    for k in range(v.shape[0]):
        v[k] = x[k] - alpha[k]
        c[k] = at[k] - g[k]
        scaled[k] = v[k] * diagonal[k]
    fall, curvature = -dot(v, g), dot(v, c)
    step = fall / curvature if fall < 0.6 * curvature else 1.0
    for k in range(v.shape[0]):
        alpha[k] = alpha[k] + step * v[k] if step < 1.0 else x[k]
        g[k] = g[k] + step * c[k] if step < 1.0 else at[k]
    return dot(v, scaled) / curvature if curvature > 0.0 else length, size


@inner
def _take_face(K: np.ndarray, q: np.ndarray, lam: np.ndarray, scratch: SimplexScratch) -> int:
    """Pack K, q, λ and the weights of the items with weight; returns their number."""
    kept, lines = scratch.kept[0], scratch.lines
    size = 0
    for k in range(q.shape[0]):
        kept[size] = k
        size += lines[_ALPHA, k] > 0.0
    wide = padded(size)
    K_kept = scratch.K_kept[: size * wide].reshape(size, wide)
    copy_part(K, kept[:size], K_kept)
    for i in range(size):
        k = kept[i]
        for j in range(size, wide):
            K_kept[i, j] = 0.0
        lines[_WEIGHT, i] = lines[_ALPHA, k]
        lines[_INVERSE, i] = lines[_PER_DIAGONAL, k]
        lines[_Q, i] = q[k]
        lines[_LAM, i] = lam[k]
    for i in range(size, wide):
        lines[_WEIGHT, i] = 0.0
        lines[_INVERSE, i] = 0.0
        lines[_Q, i] = 0.0
        lines[_LAM, i] = 0.0
    return size


@inner
def _minimum_on_face(size: int, total: float, tol: float, scratch: SimplexScratch) -> tuple[bool, bool]:
    """Go to the minimum on the face. Items whose weight would turn negative leave it, and the search begins anew.

    Says whether no direction was flat; and whether it ended, or so many items left that the rest is to be packed anew.
    """
    wide = padded(size)
    x, inverse, v = scratch.lines[_WEIGHT, :wide], scratch.lines[_INVERSE, :wide], scratch.lines[_V, :wide]
    left = 0
    for _ in range(_FACES):
        curved = _conjugate_gradients(size, tol, scratch)
        if not _some_negative(x):
            return curved, True
        for i in range(wide):
            v[i] = x[i]
        _raise(v, inverse, 0.0, total, x)
        for i in range(size):
            if x[i] == 0.0 and inverse[i] > 0.0:
                inverse[i] = 0.0  # takes no part any more
                left += 1
        if _MANY * left > size:
            return True, False
    return False, True


@inner
def _some_negative(x: np.ndarray) -> bool:
    found = 0
    for i in range(x.shape[0]):
        found += x[i] < 0.0
    return found > 0


@inner
def _conjugate_gradients(size: int, tol: float, scratch: SimplexScratch) -> bool:
    """Towards the minimum of the problem among weights of the same sum, of any sign, and zero where `_INVERSE` is.

    Conjugate gradients on K + diag(lam), preconditioned by the diagonal. They end early if it can be seen that a weight
    turns negative. Returns False if a direction is flat.
    """
    wide = padded(size)
    lines, places = scratch.lines, scratch.kept[1, :size]
    K_kept = scratch.K_kept[: size * wide].reshape(size, wide)
    x, inverse, lam, q = lines[_WEIGHT, :wide], lines[_INVERSE, :wide], lines[_LAM, :wide], lines[_Q, :wide]
    r, p, Hp, z = lines[_RESIDUAL, :wide], lines[_SEARCH, :wide], lines[_PRODUCT, :wide], lines[_Z, :wide]
    for i in range(wide):
        r[i] = lam[i] * x[i] - q[i]
        p[i] = 0.0
    add_rows(K_kept, places, x, 0, r)
    scale = 0.0
    most = 0.0
    for i in range(wide):
        r[i] = -r[i]
        scale += inverse[i]
        most = inverse[i] if inverse[i] > most else most
    enough = (_ENOUGH * tol * most) ** 2
    rough = 0.0
    before = 1.0
    for step in range(_PRODUCTS):
        mean = dot(r, inverse) / scale
        for i in range(wide):
            r[i] -= mean  # else `now` would be rounded as the mean is
            z[i] = r[i] * inverse[i]
        now, left = dot(r, z), dot(z, z)
        if left <= enough:
            return True
        if step == 0:
            rough = _ROUGH * left
        elif left <= rough:
            rough = 0.0
            if _some_negative(x):
                return True
        ratio = now / before if step > 0 else 0.0
        before = now
        for i in range(wide):
            p[i] = z[i] + ratio * p[i]
            Hp[i] = lam[i] * p[i]
        add_rows(K_kept, places, p, 0, Hp)
        curvature = dot(p, Hp)
        if curvature <= _FLAT * dot(p, p) / most:
            return False
        along = now / curvature
        for i in range(wide):
            x[i] += along * p[i]
            r[i] -= along * Hp[i]
    return True
