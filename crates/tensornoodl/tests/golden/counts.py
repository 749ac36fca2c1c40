"""Golden numbers of the counts model, from a dense NumPy reading of docs/counts.md and of the formulas at the head of
the files in src that docs/paper-map.md names. make.py writes them as counts.json.

Written from the formulas alone, to be obvious and not fast. Matrices are stored as lists of columns.
"""

import math

import numpy as np

MASK = (1 << 64) - 1


def place_shares(past, w, place):
    """[counts:place] What earlier fibers of the row and the col lead to expect; None if neither is known."""
    known = []
    for axis in (0, 1):
        codes = [x for at, x in past if at[axis] == place[axis]]
        known.append(np.sum(codes, axis=0) if codes else None)
    if known[0] is None and known[1] is None:
        return None
    # One event with the usual shares is added to each row and col.
    r, c = [(w + (0 if x is None else x)) / (1 + (0 if x is None else x.sum())) for x in known]
    share = r * c / w
    return np.maximum(share / share.sum(), 1e-6)


def usual_shares(past, w, place):
    """The usual shares at a place, and the weight of the prior: half of it is what the place leads to expect."""
    own = place_shares(past, w, place)
    return (w, 0.1) if own is None else (0.5 * own + 0.5 * w, 0.5)


def soft_code(A, w, a, y):
    """[counts:soft] A code on all patterns, by 30 iterations, or fewer if no entry moves by 1/1000 of the events."""
    N, x = y.sum(), np.full(A.shape[1], y.sum() / A.shape[1])
    for _ in range(30):
        before, x = x, (a + x * (A.T @ (y / (A @ x)))) / (a / (N * w) + 1)
        if np.abs(x - before).max() <= 1e-3 * N:
            break
    return x


def posterior(A, w, a, y, x):
    """What the soft code maximizes: the Poisson log-likelihood, and a Gamma prior of weight a and mean N w."""
    return y @ np.log(A @ x) - x.sum() + (a * np.log(x) - a * x / (y.sum() * w)).sum()


def support_codes(A, w, a, y):
    """[counts:codes] The supports that may explain a fiber: (probability, code), the most probable one first."""
    N, m = y.sum(), A.shape[1]
    cost = 2.5**2 / 2 + math.log(max(N, 1)) / 2
    found = [(y @ np.log(A[:, i] * N) - N + math.log(w[i]), N * np.eye(m)[i]) for i in range(m)]
    x = soft_code(A, w, a, y)
    x = np.where(x > 0.5, x, 0.0)
    while np.count_nonzero(x) > 1:
        for _ in range(12):
            x = x * (A.T @ (y / (A @ x)))
        score = y @ np.log(A @ x) - x.sum() - cost * (np.count_nonzero(x) - 1) + math.log(w @ x / N)
        found.append((score, x))
        left = x.copy()
        left[np.flatnonzero(x)[np.argmin(x[x > 0])]] = 0.0
        x = left * x.sum() / left.sum()
    best = max(score for score, _ in found)
    found = sorted((f for f in found if f[0] > best - 7), key=lambda f: -f[0])
    total = sum(math.exp(score - best) for score, _ in found)
    return [(math.exp(score - best) / total, code) for score, code in found]


def poisson_factors(M):
    """[counts:factors] B, C of a pattern, and the share of the events that they have at the right places."""
    r, c, N = M.sum(axis=1), M.sum(axis=0), M.sum()
    return r / math.sqrt(N), c / math.sqrt(N), np.minimum(M, np.outer(r, c) / N).sum() / N


def update(A, S, features, Y, codes, forgetting):
    """[counts:update] S and the events of each feature after a tensor, A, and the root of what is not explained."""
    S, features = (1 - forgetting) * S, (1 - forgetting) * features + Y.sum(axis=1)
    n, own, whole = len(features), 0.0, 0.0
    mean = (features + 0.5 / n) / (features.sum() + 0.5)
    for y, supports in zip(Y.T, codes):
        for p, x in supports:
            S = S + p * A * x * (y / (A @ x))[:, None]
        seen = y > 0
        own += (y[seen] * np.log(y[seen] / (A @ supports[0][1])[seen])).sum()
        whole += (y[seen] * np.log(y[seen] / (y.sum() * mean[seen]))).sum()
    next_A = S + mean[:, None]
    return S, features, next_A / next_A.sum(axis=0), math.sqrt(own / whole)


def split_mix(number, seed):
    """The finalizer of SplitMix64."""
    z = number ^ ((seed + 1) * 0x9E3779B97F4A7C15 & MASK)
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def place_hash(row, col):
    """The finalizer of MurmurHash3 of the place."""
    z = row | col << 32
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        z = (z ^ z >> 33) * factor & MASK
    return z ^ z >> 33


def hidden_cells(n, places, seed, rotation):
    """[counts:hidden] M: the cells that are hidden (n x p), by folds of features and places."""
    folds = min(n, 10)
    fold = np.empty(n, int)
    fold[sorted(range(n), key=lambda f: split_mix(f, seed))] = np.arange(n) % folds
    of_place = [(split_mix(place_hash(*place), seed) % folds + rotation) % folds for place in places]
    return fold[:, None] == np.array(of_place)[None, :]


def masked_em(A, S_past, Y, M, iterations):
    """[counts:masked] Expectation-maximization where the cells M are missing."""
    seen = np.where(M, 0.0, Y)
    mean = (seen.sum(axis=1) + 0.5 / len(Y)) / (seen.sum() + 0.5)
    N = seen.sum(axis=0) / np.maximum(1 - mean @ M, 0.05)
    X = np.tile(N / A.shape[1], (A.shape[1], 1))
    for _ in range(iterations):
        w = X.sum(axis=1, keepdims=True) / X.sum()
        R = seen / (A @ X)
        S = A * (R @ X.T)
        X = (0.1 + X * (A.T @ R)) / (0.1 / (N * w) + 1 - A.T @ M)
        E = (~M) @ X.T
        A = (S_past + S + mean[:, None]) / (S_past.sum(axis=0) + E + 1)
        A = A / A.sum(axis=0)
    return A, X


def hidden_score(A, X, Y, M):
    """[counts:score] For each fiber, the log-likelihood of its hidden events, given how many events it has in all."""
    scores = []
    for y, x, hidden in zip(Y.T, X.T, M.T):
        share = A @ x / x.sum()
        events = y[~hidden].sum()
        score = (y[hidden] * np.log(share[hidden])).sum() + events * math.log(share[~hidden].sum())
        scores.append(score if events > 0 else 0.0)
    return np.array(scores)


def seen_likelihood(A, X, Y, M):
    """The Poisson log-likelihood of the cells that are not hidden, without terms that do not depend on the fit."""
    L = A @ X
    return np.where(M, 0.0, Y * np.log(L) - L).sum()


def negative_binomial(mean, size, count):
    """[counts:tails] ln P(N = count), P(N < count), P(N > count), and the two-sided mid-p-value."""
    def log_p(k):
        ways = math.lgamma(k + size) - math.lgamma(size) - math.lgamma(k + 1)
        return ways + size * math.log(size / (size + mean)) + k * math.log(mean / (size + mean))
    p = math.exp(log_p(count))
    below = math.fsum(math.exp(log_p(k)) for k in range(count))
    above = math.fsum(math.exp(log_p(k)) for k in range(count + 1, count + 4000))
    return [log_p(count), below, above, min(1.0, 2 * min(below + p / 2, above + p / 2))]


def columns(M):
    return [[float(x) for x in column] for column in np.asarray(M).T]


def make():
    rng = np.random.default_rng(11)
    n, m = 12, 5
    A = rng.dirichlet(np.full(n, 0.5), m).T + 0.01
    A /= A.sum(axis=0)
    w = rng.dirichlet(np.full(m, 3.0))
    places = [(j, k) for k in range(5) for j in range(6)]
    X = rng.gamma(0.4, 1.0, (m, len(places))) * rng.choice([3, 30, 400], len(places))
    Y = rng.poisson(A @ X).astype(float)
    Y[:, 0], Y[3, 0] = 0.0, 1.0
    kept = Y.sum(axis=0) > 0
    Y, places = Y[:, kept], [place for place, keep in zip(places, kept) if keep]
    golden = {"dictionary": columns(A), "shares": list(w), "fibers": columns(Y), "places": places}

    # Stage I. Earlier fibers were in rows 0 to 2 and in cols 0 and 1.
    past = [((j, k), rng.gamma(0.5, 8.0, m)) for j, k in [(0, 0), (1, 0), (2, 1), (0, 1)]]
    golden["past"] = [{"place": place, "code": list(x)} for place, x in past]
    usual = [usual_shares(past, w, place) for place in places]
    soft = [soft_code(A, *of, y) for of, y in zip(usual, Y.T)]
    for of, y, x in zip(usual, Y.T, soft):
        limit, even = x, np.full(m, y.sum() / m)
        for _ in range(5000):
            limit = (of[1] + limit * (A.T @ (y / (A @ limit)))) / (of[1] / (y.sum() * of[0]) + 1)
        start, end, best = (posterior(A, *of, y, code) for code in (even, x, limit))
        assert best - end <= 0.01 * (best - start), "soft codes are nearly the maximum"
    golden["soft"] = columns(np.array(soft).T)
    codes = [support_codes(A, *of, y) for of, y in zip(usual, Y.T)]
    assert any(np.count_nonzero(of[0][1]) > 2 for of in codes) and any(len(of) > 3 for of in codes)
    assert any(a is None for a in (place_shares(past, w, place) for place in places))
    golden["codes"] = [[{"probability": p, "code": list(x)} for p, x in of] for of in codes]

    # Stage II on the strongest pattern.
    best = np.zeros((m, 6, 5))
    for (j, k), of in zip(places, codes):
        best[:, j, k] = of[0][1]
    M = best[np.argmax(best.sum(axis=(1, 2)))]
    B, C, right = poisson_factors(M)
    golden["factors"] = {"matrix": columns(M), "rows": list(B), "cols": list(C), "rank_one": right}

    # Stage III after some events of earlier tensors.
    S, features = rng.gamma(1.0, 20.0, (n, m)) * A, rng.gamma(2.0, 50.0, n)
    after, after_features, next_A, fit = update(A, S, features, Y, codes, 0.25)
    golden["update"] = {
        "before": columns(S), "before_features": list(features), "forgetting": 0.25, "after": columns(after),
        "after_features": list(after_features), "dictionary": columns(next_A), "fit": fit,
    }

    # Fits with hidden cells: two known patterns with a past, and one without.
    M = hidden_cells(n, places, 5, 3)
    assert (Y[M] > 0).any() and M.any(axis=0).all()
    S_past = S[:, :3] * [1.0, 1.0, 0.0]
    fit_A, fit_X = masked_em(A[:, :3], S_past, Y, M, 12)
    golden["masked"] = {
        "seed": 5, "rotation": 3, "iterations": 12, "past": columns(S_past), "start": columns(A[:, :3]),
        "hidden": columns(M), "dictionary": columns(fit_A), "codes": columns(fit_X),
        "scores": list(hidden_score(fit_A, fit_X, Y, M)), "seen": seen_likelihood(fit_A, fit_X, Y, M),
    }
    cases = [(2.5, 0.7, 0), (2.5, 0.7, 9), (40.0, 8.0, 21), (40.0, 8.0, 90), (0.02, 3.0, 2), (300.0, 1e4, 290)]
    golden["tails"] = [[*case, *negative_binomial(*case)] for case in cases]
    return golden
