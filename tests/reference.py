"""The slow twins: each function here is the paper's formula and nothing else, for small inputs and suspicious readers.

Everything is float64, dense and unblocked. `R` is a dense 0/1 matrix, users × items, or `item_vectors`. A kernel is a
function of the cosine; `x` and `y` below are columns of R divided by their length. Where the printed text is wrong the
correction of PAPER.md is used, and the docstring says so.
"""

from __future__ import annotations

import math

import numpy as np

# ---- items and kernels ------------------------------------------------------------------------------------------


def cooccurrence(R):
    """|U_i ∩ U_j| for all pairs of items, by intersecting sets of users."""
    users = [set(np.flatnonzero(column)) for column in np.asarray(R).T]
    return np.array([[len(a & b) for b in users] for a in users], dtype=np.int64).reshape(len(users), len(users))


def weighted_cooccurrence(R, weights):
    """Σ_{v ∈ U_i ∩ U_j} weight_v, users ascending."""
    m = R.shape[1]
    out = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            for v in range(len(R)):
                if R[v, i] and R[v, j]:
                    out[i, j] += weights[v]
    return out


def item_vectors(R, H, gamma):
    """x_i(v) = √(a_v^−γ) h_vi where user v chose item i, else 0: users × items, a_v being how many items v chose."""
    activity = np.maximum(np.asarray(R).sum(axis=1, keepdims=True), 1)
    return np.where(R, np.sqrt(activity ** -float(gamma)) * np.asarray(H, float), 0.0)


def dot_products(X):
    """Σ_v x_i(v) x_j(v) over users who have both, users ascending."""
    m = X.shape[1]
    out = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            for v in range(len(X)):
                if X[v, i] and X[v, j]:
                    out[i, j] += float(X[v, i]) * float(X[v, j])
    return out


def unit_items(R):
    """x_i = r_i / ‖r_i‖, one row per item; zero for an item nobody chose."""
    X = np.asarray(R, float).T
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return np.divide(X, length, out=np.zeros_like(X), where=length > 0)


def linear(x, y):
    return float(x @ y)


def polynomial(degree, c):
    return lambda x, y: float((x @ y + c) ** degree)


def rbf(gamma):
    return lambda x, y: math.exp(-gamma * float(((x - y) ** 2).sum()))


def tanimoto(x, y):
    """x·y / (‖x‖² + ‖y‖² − x·y): squared norms in the denominator (correction 3)."""
    below = float(x @ x + y @ y - x @ y)
    return float(x @ y) / below if below > 0 else 0.0


def series(coefficients):
    """Σ_s a_s (x·y)^s."""
    return lambda x, y: sum(a * float(x @ y) ** s for s, a in enumerate(coefficients))


def polynomial_series(degree, c):
    """a_s = C(d, s) c^(d−s) (correction 1)."""
    return [math.comb(degree, s) * c ** (degree - s) for s in range(degree + 1)]


def rbf_series(gamma, terms):
    """a_s = e^(−2γ) (2γ)^s / s! (correction 2)."""
    return [math.exp(-2 * gamma + s * math.log(2 * gamma) - math.lgamma(s + 1)) for s in range(terms)]


def tanimoto_series(terms):
    """a_0 = 0, a_s = 2^(−s) (correction 3)."""
    return [0.0] + [2.0**-s for s in range(1, terms)]


def reduced(kernel):
    """(k(x, y) − k₀) / (k(x, x) − k₀) on unit vectors, k₀ being the value at x·y = 0: no degree 0, and K(i, i) = 1."""
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    nothing, all_ = kernel(east, north), kernel(east, east)
    return lambda x, y: (kernel(x, y) - nothing) / (all_ - nothing)


def gram(R, kernel):
    """K(i, j) of a reduced kernel on unit vectors; rows and columns of items nobody chose are zero."""
    X = unit_items(R)
    chosen = np.asarray(R).sum(axis=0) > 0
    k = reduced(kernel)
    m = len(X)
    K = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            if chosen[i] and chosen[j]:
                K[i, j] = k(X[i], X[j])
    return K


def jaccard_gram(R):
    """|U_i ∩ U_j| / |U_i ∪ U_j|: Tanimoto on the raw binary columns."""
    columns = np.asarray(R, float).T
    return np.array([[tanimoto(x, y) for y in columns] for x in columns]).reshape(len(columns), len(columns))


def density(R):
    """The share of non-zeros of the linear kernel."""
    counts = cooccurrence(R)
    return np.count_nonzero(counts) / counts.size


# ---- one user's problem -----------------------------------------------------------------------------------------


def q_exact(K, history):
    """q_ui = (1/m_u−) Σ_{j∉I_u} K(i, j) for i in the history; zero where nothing is left."""
    rest = [j for j in range(len(K)) if j not in set(history)]
    return np.array([sum(K[i, j] for j in rest) / len(rest) if rest else 0.0 for i in history])


def q_mean(K, history):
    """q̃_i = (1/m) Σ_j K(i, j)."""
    return np.array([K[i].sum() / len(K) for i in history])


def objective(K, q, lam, alpha):
    """αᵀKα + Σ λ_i α_i² − 2αᵀq; λ is a number, or one for each item."""
    return float(alpha @ K @ alpha + (lam * alpha) @ alpha - 2 * alpha @ q)


def kkt_gap(K, q, lam, alpha):
    """How far alpha is from optimal: the largest (half) gradient among items with weight, less the least of all.

    Also refuses alphas outside the simplex.
    """
    assert (alpha >= 0).all()
    assert abs(alpha.sum() - 1) < 1e-9
    g = K @ alpha + lam * alpha - q
    return float(g[alpha > 0].max() - g.min())


def assert_optimal(K, q, lam, alpha, tol):
    """`alpha` has a KKT gap of at most `tol`, and no answer of cvxopt is better than that allows."""
    K = K.astype(np.float64)
    gap = kkt_gap(K, q, lam, alpha)
    assert gap <= tol + 1e-12
    ours, theirs = (objective(K, q, lam, a) for a in (alpha, solve_simplex(K, q, lam)))
    # Convexity: no point of the simplex is lower than `ours` by more than twice the gap.
    assert theirs - 1e-8 * abs(theirs) - 1e-12 <= ours + 2 * gap
    assert ours <= theirs + 1e-8 * abs(theirs) + 1e-10  # of a value next to nothing no share can be asked


def move_between(K, q, lam, alpha, low, high):
    """The weights with as much moved from `high` to `low` as makes `objective` least."""
    toward = np.zeros(len(alpha))
    toward[low] += 1.0
    toward[high] -= 1.0
    gradient = K @ alpha + lam * alpha - q
    curvature = max(toward @ (K @ toward) + (lam * toward) @ toward, 1e-12)
    return alpha + min(-(gradient @ toward) / curvature, alpha[high]) * toward


def solve_simplex(K, q, lam):
    """argmin of `objective` over the simplex by cvxopt's interior points, as tightly as they go."""
    m = len(q)
    return _quadratic_program(2 * (K + lam * np.eye(m)), -2 * np.asarray(q, float), np.ones((1, m)))


def solve_two_simplexes(K, positive, lam_p, lam_n):
    """CF-OMD: argmin αᵀ(YKY + Λ)α, the positives summing to one and the negatives summing to one."""
    positive = np.asarray(positive, bool)
    y = np.where(positive, 1.0, -1.0)
    P = y[:, None] * K * y[None, :] + np.diag(np.where(positive, lam_p, lam_n))
    return _quadratic_program(2 * P, np.zeros(len(y)), np.array([positive, ~positive], float))


def two_simplex_objective(K, positive, lam_p, lam_n, alpha):
    """αᵀ(YKY + Λ)α."""
    y = np.where(positive, 1.0, -1.0)
    return float((y * alpha) @ K @ (y * alpha) + (np.where(positive, lam_p, lam_n) * alpha**2).sum())


def two_simplex_gap(K, positive, lam_p, lam_n, alpha):
    """α'∇ − the least it could be on either side: by convexity, at least the distance to the optimum."""
    y = np.where(positive, 1.0, -1.0)
    gradient = 2 * (y * (K @ (y * alpha)) + np.where(positive, lam_p, lam_n) * alpha)
    return float(alpha @ gradient - gradient[positive].min() - gradient[~positive].min())


def _quadratic_program(P, q, A):
    import cvxopt

    m = len(q)
    equalities = (cvxopt.matrix(np.array(A, float)), cvxopt.matrix(np.ones(len(A)))) if len(A) else ()
    problem = (
        cvxopt.matrix(np.array(P, float)),
        cvxopt.matrix(np.array(q, float)),
        cvxopt.matrix(-np.eye(m)),
        cvxopt.matrix(np.zeros(m)),
        *equalities,
    )
    for tolerance in (1e-13, 1e-10, 1e-7):
        tight = {"abstol": tolerance, "reltol": tolerance, "feastol": max(tolerance, 1e-12)}
        options = {"show_progress": False, "maxiters": 200} | tight
        try:
            answer = cvxopt.solvers.qp(*problem, options=options)
            break
        except ZeroDivisionError:  # the gap became 0 before the residual was as small as asked for
            if tolerance == 1e-7:
                raise
    alpha = np.maximum(np.array(answer["x"]).ravel(), 0.0)
    for row in np.asarray(A) > 0:  # back onto the simplex: interior points leave it by a rounding or two
        alpha[row] /= alpha[row].sum()
    return alpha


def project_simplex(v):
    """The nearest point of the simplex, by sorting (Held, Wolfe & Crowder)."""
    v = np.asarray(v, float)
    u = np.sort(v)[::-1]
    above = np.cumsum(u) - 1.0
    k = np.flatnonzero(u - above / np.arange(1, len(v) + 1) > 0)[-1]
    return np.maximum(v - above[k] / (k + 1), 0.0)


# ---- scores and lists -------------------------------------------------------------------------------------------


def scores(M, S, history, weights, offset):
    """Σ_{i∈I_u} w_i M(i, j) − b S_j for every item j."""
    return np.array(
        [sum(w * float(M[i, j]) for i, w in zip(history, weights, strict=True)) - offset * S[j] for j in range(len(S))]
    )


def komd_scores(K, history, lam, exact=True):
    """CF-KOMD from the paper's definition: Σ α_i K(i, j) − the mean of K(k, j) over the negatives k (or over all)."""
    history = list(history)
    q = q_exact(K, history) if exact else q_mean(K, history)
    alpha = solve_simplex(K[np.ix_(history, history)], q, lam)
    rest = [j for j in range(len(K)) if j not in set(history)] if exact else range(len(K))
    centroid = K[list(rest)].mean(axis=0) if len(list(rest)) else np.zeros(len(K))
    return alpha @ K[history] - centroid


def top(values, candidates, n):
    """The n best candidates, best first, equal ones by lower number; minus infinity is never taken."""
    able = [j for j in candidates if values[j] > -np.inf]
    return sorted(able, key=lambda j: (-values[j], j))[:n]


def area_under_curve(positives, negatives, tie):
    """The share of pairs in the right order, equal ones counting `tie`."""
    won = sum(1.0 if p > x else tie if p == x else 0.0 for p in positives for x in negatives)
    return won / (len(positives) * len(negatives)) if len(positives) and len(negatives) else math.nan


def area_in_order(positives, negatives):
    """The same of (score, place) pairs: of equal scores the smaller place wins; equal places count one half."""
    pairs = [((p, -a), (x, -b)) for p, a in positives for x, b in negatives]
    return sum((p > x) + 0.5 * (p == x) for p, x in pairs) / len(pairs) if pairs else math.nan


# ---- random numbers and rows --------------------------------------------------------------------------------------


def mixed(z):
    """The output function of splitmix64, in Python's integers."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & (1 << 64) - 1
    return z ^ (z >> 31)


def splitmix64(state):
    """The next state and the output of splitmix64, in Python's integers."""
    state = state + 0x9E3779B97F4A7C15 & (1 << 64) - 1
    return state, mixed(state)


def choices(seed, user, wanted, given, line, bounds, strength):
    """The row of one synthetic user, straight from the docstrings of `_core/synthetic_choices.py`."""

    def uniforms():
        state = mixed(seed ^ mixed((user + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1))
        while True:
            state, word = splitmix64(state)
            yield (word >> 11) / 2**53

    def place(values, x):
        return min(sum(v <= x for v in values), len(values) - 1)

    stream = uniforms()
    ends = [line[end - 1] for end in bounds[1:]]
    liked, weights = [], []
    for _ in range(1 + int(next(stream) * 5)):
        liked.append(place(ends, next(stream)))
        weights.append(-np.log(1 - next(stream)))
    row, repeats = [], 0
    while len(row) < wanted - len(given):
        if repeats >= 32:
            item = int(next(stream) * len(line))
        elif repeats >= 16 or next(stream) >= strength:
            item = place(line, next(stream))
        else:
            t = liked[place(np.cumsum(weights), next(stream) * sum(weights))]
            low, high = bounds[t], bounds[t + 1]
            below = line[low - 1] if low else 0.0
            item = low + place(line[low:high], below + next(stream) * (ends[t] - below))
        if item in row or item in given:
            repeats += 1
        else:
            repeats = 0
            row.append(item)
    return row + given[::-1]


def merge_repeated(pairs, times, weights, how):
    """The distinct pairs in the order of their first appearance, each with one time and one weight.

    `times` and `weights` may be None. `how`: "sum", "max", "last" or "count".
    """
    groups = {}
    for k, pair in enumerate(pairs):
        groups.setdefault(pair, []).append(k)
    merged = {}
    for pair, rows in groups.items():
        last = rows[-1] if times is None else max(rows, key=lambda k: (times[k], k))
        time = None if times is None else times[last] if how == "last" else min(times[k] for k in rows)
        weight = None
        if how == "count":
            weight = float(len(rows))
        elif weights is not None:
            values = [weights[k] for k in rows]
            weight = {"sum": sum(values), "max": max(values), "last": weights[last]}[how]
        merged[pair] = (time, weight)
    return merged


def hash_value(value):
    """The hash of a byte string in `_core/numbering.py`, in Python's integers."""
    mask, mix = (1 << 64) - 1, 0x9E3779B97F4A7C15
    h = len(value) * mix & mask
    whole = len(value) - len(value) % 8
    for at in range(0, whole, 8):
        h = (h ^ int.from_bytes(value[at : at + 8], "little")) * mix & mask
        h ^= h >> 32
    h = (h ^ int.from_bytes(value[whole:], "big")) * 0xD6E8FEB86659FD93 & mask
    h ^= h >> 29
    h = h * mix & mask
    return h ^ (h >> 32)


# ---- gradient and coordinate steps --------------------------------------------------------------------------------


def bpr_steps(rows, items, rate, lam_i, lam_j, steps, state):
    """BPR-kNN's update rules one entry at a time, in double precision; returns C and the mean loss met."""
    C = np.zeros((items, items))
    pairs = [(u, i) for u, row in enumerate(rows) for i in row]
    losses = []
    for _ in range(steps):
        state, z = splitmix64(state)
        u, i = pairs[z % len(pairs)]
        if len(rows[u]) == items:
            continue
        while True:
            state, z = splitmix64(state)
            j = z % items
            if j not in rows[u]:
                break
        x = sum(C[i, l] for l in rows[u] if l != i) - sum(C[j, l] for l in rows[u])
        slope = 1 / (1 + math.exp(x))
        losses.append(math.log(1 + math.exp(-x)))
        for l in rows[u]:
            if l != i:
                C[i, l] += rate * (slope - lam_i * C[i, l])
            C[j, l] += rate * (-slope - lam_j * C[j, l])
    return C, sum(losses) / len(losses) if losses else 0.0


def coordinate_sweep(G, b, l1, l2, w):
    """One sweep of exact steps on ½w'Gw − w'b + l1 Σw + ½ l2 w'w over w >= 0, from scratch."""
    w = np.array(w, float)
    for i in range(len(w)):
        rest = b[i] - sum(G[i, k] * w[k] for k in range(len(w)) if k != i)
        w[i] = max(0.0, (rest - l1) / (G[i, i] + l2))
    return w


def regress_item(G, j, l1, l2):
    """SLIM's weights of item j by cvxopt: minimise ½w'Gw − w'g_j + l1 Σw + ½ l2 w'w, w >= 0, w_j = 0."""
    others = [i for i in range(len(G)) if i != j and G[i, i] > 0]
    w = np.zeros(len(G))
    if others:
        P = G[np.ix_(others, others)] + l2 * np.eye(len(others))
        w[others] = _quadratic_program(P, l1 - G[others, j], np.zeros((0, len(others))))
    return w


def item_weights(column_of, V):
    """W between items from the weights V (from, to) between their distinct columns: w_jj = 0."""
    W = V[np.ix_(column_of, column_of)]
    np.fill_diagonal(W, 0.0)
    return W
