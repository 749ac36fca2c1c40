"""The dictionary learner for samples x features, as a scikit-learn estimator."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._estimator import Rung
from ._inputs import jobs_of, options

if TYPE_CHECKING:
    from typing_extensions import Self

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError("NOODL needs scikit-learn 1.6 or newer: pip install scikit-learn") from None


class NOODL(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns a dictionary in which samples have sparse codes, and recovers it exactly if they do; or the topics of counts.

    It replaces :class:`sklearn.decomposition.MiniBatchDictionaryLearning`, and needs no tuning: there is no penalty that biases the
    codes and no batch size, and the data can determine the number of atoms.

    Parameters
    ----------
    n_components
        Largest number of atoms; ``"auto"``: the data determines it; None: the number of features. With ``dict_init`` it must be the
        number of its atoms, ``"auto"`` or None. The counts model has exactly this number of atoms, but no more than features and samples
        with events; if there are fewer than were asked for, it warns.
    model
        ``"exact"``, or ``"counts"`` for samples that count events: whole numbers that are not negative. ``"auto"`` is ``"exact"``,
        because the values of an array need not count anything.
    passes
        Passes over the samples: a number, or ``"auto"`` for as many as improve the atoms.
    dict_init : array (n_components, n_features)
        Atoms to start from. With it, ``code_floor`` and ``tau`` are in the units of the data.
    sparse_codes
        Whether ``transform`` returns a ``scipy.sparse.csr_array`` instead of a dense array.
    eta_a, eta_x, tau, code_floor, forgetting, random_state, n_jobs, callback
        As in :class:`tensornoodl.TensorNOODL`.

    Attributes
    ----------
    components_ : array (n_components_, n_features)
        The atoms: of unit length in the exact model, with sum 1 in the counts model, where codes are numbers of events.
    model_, model_reason_, ladder_, errors_
        As in :class:`tensornoodl.TensorNOODL`. Each call of ``partial_fit`` counts as a tensor.
    n_components_, n_features_in_, n_iter_, n_steps_ : int
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] | None = "auto",
        *,
        model: Literal["auto", "counts", "exact"] = "auto",
        passes: int | Literal["auto"] = "auto",
        dict_init: NDArray[Any] | None = None,
        sparse_codes: bool = False,
        eta_a: float | None = None,
        eta_x: float = 0.2,
        tau: float = 0.1,
        code_floor: float = 1.0,
        forgetting: float = 0.0,
        random_state: Any = None,
        n_jobs: int | None = None,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        self.n_components = n_components
        self.model = model
        self.passes = passes
        self.dict_init = dict_init
        self.sparse_codes = sparse_codes
        self.eta_a = eta_a
        self.eta_x = eta_x
        self.tau = tau
        self.code_floor = code_floor
        self.forgetting = forgetting
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn the atoms of samples (n_samples, n_features)."""
        with self._unchanged_unless_done():
            # An atom is something that two samples have in common.
            samples = self._samples(X, reset=True, ensure_min_samples=2)
            given = self._options(samples, stream=False)
            learner, clear = self._begin(samples, given)
            record = self._learn(learner, samples, given, clear)
        return self._call_back(record)

    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Continue to learn from further samples; atoms that occur for the first time are added.

        Ctrl-C interrupts it, and leaves the estimator as it was.
        """
        first = not hasattr(self, "_learner")
        with self._unchanged_unless_done():
            samples = self._samples(X, reset=first)
            given = self._options(samples, stream=True)
            # A copy, because Ctrl-C may come after the core has finished the step and before its result is stored here.
            learner, clear = self._begin(samples, given) if first else (copy.copy(self._learner), True)
            record = self._learn(learner, samples, given, clear)
        return self._call_back(record)

    def transform(self, X: Any) -> Any:
        """Return the sparse codes of samples: (n_samples, n_components_)."""
        check_is_fitted(self, "_learner")
        samples = self._samples(X, reset=False)
        starts, indices, values = self._learner.encode(_double(samples), jobs_of(self.n_jobs))
        shape = (len(samples), self.n_components_)
        values = values.astype(samples.dtype, copy=False)
        if self.sparse_codes:
            from scipy.sparse import csr_array

            return csr_array((values, indices, starts), shape=shape)
        codes = np.zeros(shape, dtype=samples.dtype)
        codes[np.repeat(np.arange(len(samples)), np.diff(starts)), indices] = values
        return codes

    def inverse_transform(self, X: Any) -> Any:
        """Return the samples that codes stand for."""
        check_is_fitted(self, "_learner")
        return X @ self.components_

    def score(self, X: Any, y: None = None) -> float:
        """Return the share of the samples' energy that their codes explain, at most 1."""
        samples = self._samples(X, reset=False)
        residual = samples - self.inverse_transform(self.transform(samples))
        energy = float((samples**2).sum())
        return 1.0 - float((residual**2).sum()) / energy if energy > 0 else 0.0

    def _samples(self, X: Any, reset: bool, **checks: Any) -> NDArray[Any]:
        dtypes = [np.float64, np.float32]
        array: NDArray[Any] = validate_data(self, X, reset=reset, dtype=dtypes, order="C", **checks)
        return array

    def _options(self, samples: NDArray[Any], stream: bool) -> dict[str, Any]:
        patterns = samples.shape[1] if self.n_components is None else self.n_components
        return options(
            model=self.model,
            patterns=patterns,
            passes=self.passes,
            eta_a=self.eta_a,
            eta_x=self.eta_x,
            tau=self.tau,
            code_floor=self.code_floor,
            forgetting=self.forgetting,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            stream=stream,
            name="n_components",
        )

    @contextmanager
    def _unchanged_unless_done(self) -> Iterator[None]:
        """Restore all attributes if the block fails or is interrupted."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _begin(self, samples: NDArray[Any], given: dict[str, Any]) -> tuple[_core.Learner, bool]:
        """Return a new learner, and whether its atoms are clearer than chance."""
        start = None if self.dict_init is None else np.ascontiguousarray(self.dict_init, dtype=np.float64)
        if start is not None and self.n_components is not None and given["patterns"] not in (None, len(start)):
            count = len(start)
            raise ValueError(
                f"n_components is {self.n_components!r}, it must be {count} or 'auto' where dict_init has {count} atoms"
            )
        # Samples are never refused: if no atom is clearer than chance, accept the clearest one; if samples have nothing in common,
        # begin without atoms.
        for weaker in ({}, {"patterns": 1}, {"stream": True}):
            try:
                return _core.Learner.begin(_double(samples), {**given, **weaker}, start), not weaker
            except _core.NoPattern:
                pass
        raise AssertionError("a learner of a stream can begin without atoms")

    def _learn(
        self, learner: _core.Learner, samples: NDArray[Any], given: dict[str, Any], clear: bool
    ) -> dict[str, Any]:
        record = learner.learn(_double(samples), given)
        self._learner = learner
        self.components_ = learner.patterns().astype(samples.dtype, copy=False)
        self.n_components_ = len(self.components_)
        self.model_, self.model_reason_ = learner.choice()
        self.ladder_ = [Rung(*rung) for rung in learner.ladder()]
        self.n_steps_ = record["step"]
        self.n_iter_ = record["passes"]
        if not clear:
            taken = "the clearest one was accepted" if self.n_components_ else "there are no atoms"
            warnings.warn(f"no atom is clearer than chance; {taken}", stacklevel=3)
        asked = self.n_components
        if self.model_ == "counts" and asked is not None and asked != "auto" and self.n_components_ < asked:
            limit = "features" if self.n_features_in_ < asked else "samples with events"
            text = f"{asked} atoms were asked for, there are {self.n_components_}"
            warnings.warn(f"{text}, because the counts model has no more atoms than {limit}", stacklevel=3)
        return record

    def _call_back(self, record: dict[str, Any]) -> Self:
        if self.callback is not None:
            self.callback(record)
        return self

    @property
    def errors_(self) -> NDArray[np.float64]:
        """For every atom, its expected distance from the true one, relative to its length. NaN where it is not known."""
        check_is_fitted(self, "_learner")
        return self._learner.errors()

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.positive_only = self.model == "counts"
        return tags


def _double(samples: NDArray[Any]) -> NDArray[np.float64]:
    return samples.astype(np.float64, copy=False)
