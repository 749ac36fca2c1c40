"""The methods that compare.py runs, each with its settings.

Every method starts from the same A(0), and sees the same tensors once each, in the same order. It gets the knowledge that a careful
user could have: that codes have a magnitude of about one, and the norm of the noise. If a library lacks something that a few lines
around it can provide (leaving out patterns that do not occur in a tensor, averaging over tensors), these lines are part of the method.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Setting = dict[str, Any]


class Method:
    """One run of a method over a stream. It needs `packages`; compare.py tries all `settings`, or with --wide all of `wide`."""

    packages: list[str] = []
    settings: list[Setting] = [{}]
    wide: list[Setting] = []

    def __init__(self, start: Array, setting: Setting, threads: int) -> None:
        self.patterns = start.copy()  # A, m x n
        self.setting = setting
        self.threads = threads

    @classmethod
    def choices(cls, noise: float, wide: bool) -> list[Setting]:
        """Return the settings to try. A setting that averages over tensors is tried only on streams with noise."""
        if wide:
            return cls.wide or cls.settings
        return [setting for setting in cls.settings if setting.get("average", noise > 0) == (noise > 0)]

    def prepare(self, tensor: Any, codes: Array) -> Any:
        """Return the tensor in the form that the method takes. Not timed. Only the oracle uses the true codes."""
        return np.array(tensor.fibers)

    def learn(self, data: Any) -> None:
        """Learn from one tensor: update `patterns`. Timed."""
        raise NotImplementedError

    def codes(self, data: Any) -> Iterator[Array]:
        """Yield the codes (fibers x patterns) of a tensor, once for each way to compute them; the best ones count."""
        raise NotImplementedError


class Ours(Method):
    """TensorNOODL with its default parameters."""

    packages = ["tensornoodl"]

    def __init__(self, start: Array, setting: Setting, threads: int) -> None:
        import tensornoodl as tn

        super().__init__(start, setting, threads)
        self.model = tn.TensorNOODL(init=start, n_jobs=threads, **setting)

    def prepare(self, tensor: Any, codes: Array) -> Any:
        return np.array(tensor.fibers), np.array(tensor.places), tensor.shape

    def tensor(self, data: Any) -> Any:
        import tensornoodl as tn

        fibers, places, shape = data
        return tn.from_fibers(fibers, places, shape[1:])

    def learn(self, data: Any) -> None:
        self.model.partial_fit(self.tensor(data))
        self.patterns = self.model.components_

    def codes(self, data: Any) -> Iterator[Array]:
        yield self.model.transform(self.tensor(data)).to_scipy().toarray()


class OursPasses(Ours):
    """TensorNOODL with as many passes over each tensor as improve the patterns."""

    settings = [{"passes": "auto"}]


class Oracle(Method):
    """Least squares with the true codes of all tensors: a bound that a method can beat only by chance."""

    def __init__(self, start: Array, setting: Setting, threads: int) -> None:
        super().__init__(start, setting, threads)
        m, n = start.shape
        self.gram, self.product = np.zeros((m, m)), np.zeros((m, n))

    def prepare(self, tensor: Any, codes: Array) -> Any:
        return np.array(tensor.fibers), codes

    def learn(self, data: Any) -> None:
        fibers, codes = data
        self.gram += codes.T @ codes
        self.product += codes.T @ fibers
        seen = np.flatnonzero(np.diag(self.gram))
        self.patterns[seen] = np.linalg.pinv(self.gram[np.ix_(seen, seen)], hermitian=True) @ self.product[seen]

    def codes(self, data: Any) -> Iterator[Array]:
        yield data[1]


class ScikitLearn(Method):
    """Fibers are samples. A tensor is one batch, so that nearly every pattern occurs in it: scikit-learn replaces unused patterns."""

    packages = ["sklearn"]
    settings = [{"alpha": 0.05, "passes": 3}, {"alpha": 0.1, "passes": 1}]
    wide = [{"alpha": a, "passes": p} for a in (0.02, 0.03, 0.05, 0.1, 0.2) for p in (1, 3)]
    wide += [{"alpha": a, "passes": p, "batch": 256} for a in (0.05, 0.1) for p in (1, 3)]

    def __init__(self, start: Array, setting: Setting, threads: int) -> None:
        from sklearn.decomposition import MiniBatchDictionaryLearning

        super().__init__(start, setting, threads)
        self.model = MiniBatchDictionaryLearning(
            n_components=len(start), alpha=setting["alpha"], dict_init=start, fit_algorithm="cd", random_state=0
        )
        self.rng = np.random.default_rng(0)

    def learn(self, data: Any) -> None:
        size = self.setting.get("batch", len(data))
        for _ in range(self.setting["passes"]):
            order = self.rng.permutation(len(data))
            for begin in range(0, len(data), size):
                self.model.partial_fit(data[order[begin : begin + size]])
        self.patterns = self.model.components_

    def codes(self, data: Any) -> Iterator[Array]:
        from sklearn.decomposition import sparse_encode

        for most in (2, 4, 6):
            yield sparse_encode(data, self.patterns, algorithm="omp", n_nonzero_coefs=most)
        for alpha in (0.02, 0.1, 0.3):
            yield sparse_encode(data, self.patterns, algorithm="lasso_cd", alpha=alpha, max_iter=10_000)


class Spams(Method):
    """Fibers are samples. Mode 2 is the Lasso with the weight lambda1; mode 4 is OMP until the squared residual is below lambda1.

    `clean` is off, because it replaces patterns that do not occur in a tensor. modeParam 2 with rho 1 forgets nothing; the default, 0,
    forgets the first steps. More passes over a tensor reduce the weight of the tensors before it.
    """

    packages = ["spams"]
    settings = [
        {"mode": 4, "lambda1": 0.7, "batch": 256, "passes": 3, "modeParam": 2, "rho": 1.0},
        {"mode": 4, "lambda1": 0.7, "batch": 1024, "passes": 5, "modeParam": 2, "rho": 1.0},
        {"mode": 4, "lambda1": 0.7, "batch": 256, "passes": 1, "modeParam": 2, "rho": 1.0},
        {"mode": 4, "lambda1": 0.7, "batch": 1024, "passes": 1, "modeParam": 2, "rho": 1.0},
        {"mode": 2, "lambda1": 0.1, "batch": 256, "passes": 1, "modeParam": 2, "rho": 1.0},
    ]
    wide = [
        {"mode": mode, "lambda1": weight, "batch": batch, "passes": passes, "modeParam": param, "rho": rho}
        for mode, weights in ((2, (0.05, 0.1, 0.2)), (3, (2,)), (4, (0.3, 0.7)))
        for weight in weights
        for batch, passes in ((64, 1), (256, 1), (256, 3), (1024, 1), (1024, 5))
        for param, rho in ((0, 1.0), (2, 1.0))
    ]

    def __init__(self, start: Array, setting: Setting, threads: int) -> None:
        super().__init__(start, setting, threads)
        self.model: Any = None

    def prepare(self, tensor: Any, codes: Array) -> Any:
        return np.asfortranarray(np.array(tensor.fibers).T)

    def learn(self, data: Any) -> None:
        import spams

        given = self.setting
        batch = min(given["batch"], data.shape[1])
        dictionary, self.model = spams.trainDL(
            data, D=np.asfortranarray(self.patterns.T), model=self.model, return_model=True,
            mode=given["mode"], lambda1=given["lambda1"], batchsize=batch, modeParam=given["modeParam"], rho=given["rho"],
            iter=max(1, round(given["passes"] * data.shape[1] / batch)), clean=False, verbose=False,
            numThreads=self.threads,
        )  # fmt: skip
        self.patterns = dictionary.T

    def codes(self, data: Any) -> Iterator[Array]:
        import spams

        dictionary = np.asfortranarray(self.patterns.T)
        for eps in (0.1, 0.3, 0.7):
            yield spams.omp(data, dictionary, eps=eps, numThreads=self.threads).toarray().T
        for weight in (0.02, 0.1, 0.3):
            yield spams.lasso(data, dictionary, lambda1=weight, mode=2, numThreads=self.threads).toarray().T


class Cp(Method):
    """CP-ALS of each tensor in the order rows x cols x features: A is last, because the first sweep overwrites the first factor.

    With start "codes", B and C are the leading singular vectors of the codes that are at least one half. Codes are computed by least
    squares, or as A'y if A has more than half as many patterns as features. Patterns without codes are left out: an absent pattern makes
    the systems singular, or takes over a part of another pattern. With start "random", B and C are Gaussian.
    "average" takes the mean of A over tensors, weighted by energy, instead of the last A.
    """

    settings = [{"start": "codes", "sweeps": 10, "tol": 1e-6, "average": average} for average in (False, True)]
    wide = [
        {"start": start, "sweeps": sweeps, "tol": tol, "average": average}
        for start in ("codes", "random")
        for sweeps, tol in ((10, 1e-6), (50, 1e-8), (200, 1e-10))
        for average in (False, True)
    ]

    def __init__(self, start: Array, setting: Setting, threads: int) -> None:
        super().__init__(start, setting, threads)
        self.rng = np.random.default_rng(0)
        self.energy = np.zeros(len(start))

    def form(self, tensor: Any) -> Any:
        """Return the tensor as rows x cols x features."""
        raise NotImplementedError

    def als(self, form: Any, factors: list[Array]) -> list[Array]:
        """Return the library's factors; any of them may contain the weights."""
        raise NotImplementedError

    def prepare(self, tensor: Any, codes: Array) -> Any:
        return self.form(tensor), np.array(tensor.fibers), np.array(tensor.places), tensor.shape

    def learn(self, data: Any) -> None:
        form, fibers, places, (_, rows, cols) = data
        if self.setting["start"] == "codes":
            m, n = self.patterns.shape
            codes = fibers @ (np.linalg.pinv(self.patterns) if 2 * m <= n else self.patterns.T)
            codes[np.abs(codes) < 0.5] = 0.0
            here = np.flatnonzero(codes.any(axis=0))
            slabs = np.zeros((len(here), rows, cols))
            slabs[:, places[:, 0], places[:, 1]] = codes[:, here].T
            c = self.rng.standard_normal((len(here), cols))
            for _ in range(4):
                b = np.einsum("mjk,mk->mj", slabs, c)
                b /= np.linalg.norm(b, axis=1, keepdims=True)
                c = np.einsum("mjk,mj->mk", slabs, b)
        else:
            here = np.arange(len(self.patterns))
            b, c = (self.rng.standard_normal((len(here), length)) for length in (rows, cols))
        b, c, found = self.als(form, [b.T.copy(), c.T.copy(), self.patterns[here].T.copy()])
        length = np.linalg.norm(found, axis=0)
        found, c = found / length, c * length
        # The library may change the order and the signs of the components.
        from scipy.optimize import linear_sum_assignment

        cosines = self.patterns[here] @ found
        _, order = linear_sum_assignment(-np.abs(cosines))
        signs = np.sign(cosines[np.arange(len(here)), order])
        found, b, c = (found[:, order] * signs).T, b[:, order], c[:, order] * signs
        energy = (b**2).sum(axis=0) * (c**2).sum(axis=0)
        self.energy[here] = energy + (self.energy[here] if self.setting["average"] else 0.0)
        patterns = self.patterns.copy()
        patterns[here] += (found - patterns[here]) * (energy / self.energy[here])[:, None]
        self.patterns = patterns / np.linalg.norm(patterns, axis=1, keepdims=True)
        self.factors = here, b, c

    def codes(self, data: Any) -> Iterator[Array]:
        here, b, c = self.factors
        codes = np.zeros((len(data[2]), len(self.patterns)))
        codes[:, here] = b[data[2][:, 0]] * c[data[2][:, 1]]
        yield codes


def dense(tensor: Any) -> Array:
    """Return the tensor as a dense array of rows x cols x features."""
    features, rows, cols = tensor.shape
    form = np.zeros((rows, cols, features))
    form[tensor.places[:, 0], tensor.places[:, 1]] = tensor.fibers
    return form


def entries(tensor: Any) -> tuple[NDArray[np.int64], Array]:
    """Return the coordinates (3 x entries: row, col, feature) and the values of a tensor."""
    features, places = tensor.shape[0], np.array(tensor.places, dtype=np.int64)
    at = [np.repeat(places[:, 0], features), np.repeat(places[:, 1], features), np.tile(np.arange(features), len(places))]
    return np.array(at), np.array(tensor.fibers).ravel()


class TensorLy(Cp):
    packages = ["tensorly"]

    def form(self, tensor: Any) -> Any:
        return dense(tensor)

    def als(self, form: Any, factors: list[Array], parafac: Any = None) -> list[Array]:
        from tensorly.decomposition import parafac as dense_parafac

        rank = factors[0].shape[1]
        _, found = (parafac or dense_parafac)(
            form, rank, init=(np.ones(rank), factors), n_iter_max=self.setting["sweeps"], tol=self.setting["tol"]
        )
        return [np.asarray(factor) for factor in found]


class TensorLySparse(TensorLy):
    packages = ["tensorly", "sparse"]

    def form(self, tensor: Any) -> Any:
        import sparse

        at, values = entries(tensor)
        return sparse.COO(at, values, (tensor.shape[1], tensor.shape[2], tensor.shape[0]))

    def als(self, form: Any, factors: list[Array], parafac: Any = None) -> list[Array]:
        from tensorly.contrib.sparse.decomposition import parafac as sparse_parafac

        return super().als(form, factors, sparse_parafac)


class Pyttb(Cp):
    packages = ["pyttb"]

    def form(self, tensor: Any) -> Any:
        import pyttb

        return pyttb.tensor(dense(tensor))

    def als(self, form: Any, factors: list[Array]) -> list[Array]:
        import pyttb

        start, rank = pyttb.ktensor(factors), factors[0].shape[1]
        given = self.setting
        found, _, _ = pyttb.cp_als(form, rank, stoptol=given["tol"], maxiters=given["sweeps"], init=start, printitn=0)
        b, c, a = found.factor_matrices
        return [b, c * found.weights, a]


class PyttbSparse(Pyttb):
    def form(self, tensor: Any) -> Any:
        import pyttb

        at, values = entries(tensor)
        return pyttb.sptensor(at.T, values[:, None], (tensor.shape[1], tensor.shape[2], tensor.shape[0]))


METHODS: dict[str, type[Method]] = {
    "tensornoodl": Ours,
    "tensornoodl, passes auto": OursPasses,
    "scikit-learn MiniBatchDictionaryLearning": ScikitLearn,
    "SPAMS trainDL": Spams,
    "TensorLy parafac, dense": TensorLy,
    "TensorLy parafac, sparse": TensorLySparse,
    "pyttb cp_als, tensor": Pyttb,
    "pyttb cp_als, sptensor": PyttbSparse,
    "oracle, told the true codes": Oracle,
}
