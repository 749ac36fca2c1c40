"""Golden numbers for tests/golden.rs, from an independent, dense NumPy reading of the paper, and those of the counts
model for src/golden.rs, from counts.py.

    python3 make.py            writes golden.json and counts.json beside this file
    python3 make.py --check    compares both files with a fresh computation, fails if they differ

Written from the equations alone (labels of the paper in brackets), to be obvious and not fast.
Matrices are stored as lists of columns.
"""

import json
import pathlib
import sys

import numpy as np

import counts

HERE = pathlib.Path(__file__).parent


def hard_threshold(z, t):
    """HT_t keeps the entries with |z| >= t."""
    return np.where(np.abs(z) >= t, z, 0.0)


def iht(A, Y, eta_x, tau, C, R):
    """[alg:coeff_init], then R times [alg:coeff_iht]."""
    X = hard_threshold(A.T @ Y, C / 2)
    for _ in range(R):
        X = hard_threshold(X - eta_x * A.T @ (A @ X - Y), tau)
    return X


def limit(A, Y, eta_x, tau, C):
    """The limit of iht, approximated by 3000 steps."""
    return iht(A, Y, eta_x, tau, C, 3000)


def believed(A, X, Y, least):
    """What the adaptive step learns from: codes of at least `least`, fitted again without the others."""
    X = X.copy()
    for f in range(Y.shape[1]):
        while np.any((X[:, f] != 0) & (np.abs(X[:, f]) < least)):
            S = np.flatnonzero(np.abs(X[:, f]) >= least)
            X[:, f] = 0.0
            if len(S):
                X[S, f] = np.linalg.lstsq(A[:, S], Y[:, f], rcond=None)[0]
    return X


def unit(A):
    return A / np.linalg.norm(A, axis=0)


def paper_step(A, X, Y, eta_a):
    """[eq:emp_grad_est, eq:apx_grad] and normalisation."""
    g = (A @ X - Y) @ np.sign(X).T / Y.shape[1]
    return unit(A - eta_a * g)


class Adaptive:
    """Recursive least squares with a variance per pattern, as ../../src/update/adaptive.rs describes it."""

    def __init__(self, m):
        self.P = np.full(m, np.nan)
        self.rss = self.dof = 0.0
        self.prior = np.zeros(3)
        self.t = 0

    def step(self, A, X, Y):
        n, m = A.shape
        self.t += 1
        size = (X != 0).sum(axis=0)
        keep = size > 0
        X, Y, size = X[:, keep], Y[:, keep], size[keep]
        R = Y - A @ X
        w = (n - size) / np.maximum((R**2).sum(axis=0), 1e-24 * (Y**2).sum(axis=0))
        act = np.flatnonzero((X != 0).any(axis=1))
        k = len(act)
        Xa = X[act]
        G = (R * w) @ Xa.T
        E = (Xa * w) @ Xa.T
        d = np.diag(E)
        count = (Xa != 0).sum(axis=1)
        tail = max(1.0, np.log(m * self.t**2))

        H = np.linalg.solve(E + np.diag(1e-10 * d), G.T).T
        residual = (w * (R**2).sum(axis=0)).sum()
        rss = max(residual - (H * G).sum(), 0)
        dof = (n - size).sum() - (n - 1) * k
        if dof > 0:
            spread = 2 * np.sqrt(tail / dof)
            same = self.dof > 0 and 1 - spread < (rss / dof) / (self.rss / self.dof) < 1 + spread + spread**2 / 2
            self.rss, self.dof = (self.rss + rss, self.dof + dof) if same else (rss, dof)
        v = n * max(self.rss / self.dof if self.dof > 0 else 0, 1e-14)

        U = H / np.linalg.norm(H, axis=0)
        off = ((U.T @ U) ** 2).sum() - k
        freedom = np.clip(k * (k - 1) / off, 1, n) if k > 1 and off > 0 else n
        significant = 1 + 2 * np.sqrt(tail / freedom) + 2 * tail / freedom

        square = (G**2).sum(axis=0)
        fresh = np.isnan(self.P[act])
        self.prior += [square[fresh].sum(), v * d[fresh].sum(), (d[fresh] ** 2).sum()]
        first = max(self.prior[0] - self.prior[1], np.sqrt(2 / n) * self.prior[1]) / max(self.prior[2], 1e-300)
        P = np.where(fresh, first * (1 + first * d / v), self.P[act])
        resets = 0
        for _ in range(3):
            expected = v * d + E**2 @ P
            reset = (square > significant * expected) & (count >= 2)
            resets += reset.sum()
            P = np.where(reset, P + (square - expected) / d**2, P)

        M = np.linalg.inv(E + np.diag(v / P))
        new = A.copy()
        new[:, act] = unit(A[:, act] + G @ M)
        moved = ((new - A)[:, act] ** 2).sum(axis=0)
        shared = (w * Xa**2 * (size - 1)).sum(axis=1)
        others = (E - np.diag(d)) ** 2 @ moved
        self.P[act] = v * np.diag(M) + (shared / d * moved + others / d**2) / n
        return new, int(resets)


def draw(rng, J, K, m, alpha, beta):
    """Sparse factors whose values are not +-1, and S = (C khatri-rao B)', column j + J k [eq:dep_str]."""
    B = (rng.random((J, m)) < alpha) * rng.choice([-1, 1], (J, m)) * rng.uniform(0.8, 1.5, (J, m))
    C = (rng.random((K, m)) < beta) * rng.choice([-1, 1], (K, m)) * rng.uniform(0.9, 1.2, (K, m))
    S = np.stack([np.kron(C[:, i], B[:, i]) for i in range(m)])
    return B, C, S


def columns(M):
    return [[float(x) for x in column] for column in np.asarray(M).T]


def make():
    rng = np.random.default_rng(7)
    n, m, J, K = 24, 10, 7, 6
    A_true = unit(rng.standard_normal((n, m)))
    A0 = unit(A_true + 0.25 * unit(rng.standard_normal((n, m))))
    B, C, S = draw(rng, J, K, m, 0.35, 0.35)
    at = np.flatnonzero(np.abs(S).sum(axis=0))
    Y = A_true @ S[:, at] + 0.05 * rng.standard_normal((n, len(at))) / np.sqrt(n)
    places = [[int(c % J), int(c // J)] for c in at]
    golden = {
        "shape": [n, J, K],
        "start": columns(A0),
        "fibers": columns(Y),
        "places": places,
        "eta_x": 0.15, "tau": 0.12, "code_floor": 0.7, "iht_steps": 9, "eta_a": 3.5,
    }
    eta_x, tau, floor, R, eta_a = 0.15, 0.12, 0.7, 9, 3.5
    X = iht(A0, Y, eta_x, tau, floor, R)
    golden["iht_codes"] = columns(X)
    golden["direct_codes"] = columns(limit(A0, Y, eta_x, tau, floor))
    golden["paper_step"] = columns(paper_step(A0, X, Y, eta_a))
    diagonal = [f for f, (j, k) in enumerate(places) if j == k]
    golden["paper_step_independent"] = columns(paper_step(A0, X[:, diagonal], Y[:, diagonal], eta_a))

    # Stage II on the codes above: not of rank one, because of noise and wrong entries.
    full = np.zeros((m, J * K))
    full[:, at] = X
    rows, cols, share = np.zeros((J, m)), np.zeros((K, m)), np.zeros(m)
    for i in range(m):
        M = full[i].reshape(K, J).T
        if not M.any():
            continue
        U, s, Vt = np.linalg.svd(M)
        u, v = U[:, 0], Vt[0]
        first = np.flatnonzero(np.abs(v) >= np.abs(v).max() / 2)[0]
        sign = np.sign(v[first])
        rows[:, i], cols[:, i] = sign * np.sqrt(s[0]) * u, sign * np.sqrt(s[0]) * v
        share[i] = s[0] ** 2 / (s**2).sum()
    golden["row_factor"], golden["col_factor"] = columns(rows), columns(cols)
    golden["rank_one"] = [float(x) for x in share]

    # The adaptive step over six tensors with noise; a pattern changes before the fifth.
    A, truth, rule, stream, resets, dropped = A0, A_true.copy(), Adaptive(m), [], 0, 0
    for t in range(6):
        if t == 4:
            truth[:, 0] = unit(truth[:, :1] + 0.7 * unit(rng.standard_normal((n, 1))))[:, 0]
        _, _, S = draw(rng, J, K, m, 0.3, 0.3)
        at = np.flatnonzero(np.abs(S).sum(axis=0))
        Y = truth @ S[:, at] + 0.1 * rng.standard_normal((n, len(at))) / np.sqrt(n)
        X = limit(A, Y, eta_x, tau, floor)
        Xb = believed(A, X, Y, floor / 2)
        dropped += int((X != 0).sum() - (Xb != 0).sum())
        A, reset = rule.step(A, Xb, Y)
        resets += reset
        stream.append({
            "fibers": columns(Y),
            "places": [[int(c % J), int(c // J)] for c in at],
            "dictionary": columns(A),
        })
    assert resets > 0 and dropped > 0, "the stream must show the test a reset and a code that is not believed"
    golden["stream"] = stream
    return golden


def largest_difference(a, b):
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        return max(largest_difference(a[key], b[key]) for key in a)
    if isinstance(a, list):
        assert len(a) == len(b)
        return max((largest_difference(x, y) for x, y in zip(a, b)), default=0.0)
    return abs(a - b)


if __name__ == "__main__":
    differs = False
    for name, golden in [("golden.json", make()), ("counts.json", counts.make())]:
        path, text = HERE / name, json.dumps(golden)
        if "--check" in sys.argv:
            difference = largest_difference(json.loads(text), json.loads(path.read_text()))
            print(f"{name} differs from a fresh computation by {difference:.1e}")
            differs |= difference > 1e-10
        else:
            path.write_text(text)
    sys.exit(differs)
