"""Tests of NOODL, the scikit-learn estimator for samples x features."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import tensornoodl as tn
from tensornoodl import _core

Array = np.ndarray


def samples(count: int = 3000, seed: int = 0) -> tuple[Array, Array, Array]:
    """Return samples, their atoms (10 x 40), and their codes, about two in each sample."""
    rng = np.random.default_rng(7)
    atoms = rng.normal(size=(10, 40))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    rng = np.random.default_rng(seed)
    codes = rng.choice([-1.0, 1.0], size=(count, 10)) * (rng.random((count, 10)) < 0.2)
    return codes @ atoms, atoms, codes


@pytest.mark.parametrize("estimator", [tn.NOODL(), tn.NOODL(3), tn.NOODL(sparse_codes=False, n_jobs=1)])
def test_scikit_learns_checks_pass(estimator: tn.NOODL) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None)
    # This check needs an environment variable that SciPy reads at import.
    allowed = {"check_array_api_input"}
    wrong = {r["check_name"] for r in results if r["status"] != "passed"} - allowed
    assert not wrong and len(results) >= 40


def test_atoms_and_codes_are_exact() -> None:
    X, atoms, codes = samples()
    model = tn.NOODL().fit(X)
    match = tn.match(model.components_, atoms)
    assert model.n_components_ == 10 and match.error < 1e-10
    found = model.transform(X)
    order = [at for at in match.order if at is not None]
    assert np.abs(found[:, order] * match.signs - codes).max() < 1e-10
    assert np.abs(model.inverse_transform(found) - X).max() < 1e-10
    assert model.score(X) > 1 - 1e-12
    assert np.array_equal(tn.NOODL().fit_transform(X), found)


def test_codes_may_be_sparse_and_keep_their_dtype() -> None:
    X, _, _ = samples(500)
    model = tn.NOODL(sparse_codes=True).fit(X)
    codes = model.transform(X)
    assert issparse(codes) and codes.format == "csr" and codes.shape == (500, 10)
    dense = model.set_params(sparse_codes=False).transform(X)
    assert np.array_equal(codes.toarray(), dense)
    assert np.abs(model.inverse_transform(codes) - X).max() < 1e-6
    single = tn.NOODL().fit(X.astype(np.float32))
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32


def test_partial_fit_continues_with_further_samples() -> None:
    X, atoms, _ = samples()
    model = tn.NOODL()
    seen: list[int] = []
    model.callback = lambda record: seen.append(record["step"])
    for batch in np.array_split(X, 6):
        model.partial_fit(batch)
    assert model.n_steps_ == 6 and seen == [1, 2, 3, 4, 5, 6]
    assert tn.match(model.components_, atoms).error < 1e-6


def test_it_replaces_mini_batch_dictionary_learning() -> None:
    """NOODL has the methods and shapes of MiniBatchDictionaryLearning, and a smaller error."""
    X, atoms, _ = samples()
    near = atoms + np.random.default_rng(1).normal(size=atoms.shape) * 0.05
    theirs = MiniBatchDictionaryLearning(n_components=10, random_state=0, max_iter=20, dict_init=near)
    ours = tn.NOODL(n_components=10, random_state=0, dict_init=near)
    errors = []
    for model in (theirs, ours):
        codes = model.fit(X).transform(X)
        assert model.components_.shape == (10, 40) and codes.shape == (3000, 10)
        assert list(model.get_feature_names_out())[0].endswith("0")
        errors.append(tn.match(model.components_, atoms).error)
    assert errors[1] < 1e-6 * errors[0]


def test_pipelines_and_grids() -> None:
    X, _, codes = samples(1500)
    pipeline = make_pipeline(tn.NOODL(), StandardScaler(), LogisticRegression())
    grid = GridSearchCV(pipeline, {"noodl__n_components": ["auto", 2]}, cv=3)
    grid.fit(X, np.where(codes[:, 0] > 0, 1, 0))
    assert grid.best_params_ == {"noodl__n_components": "auto"} and grid.best_score_ > 0.99
    alone = GridSearchCV(tn.NOODL(), {"n_components": [2, 10]}, cv=2, n_jobs=2).fit(X)
    assert alone.best_params_ == {"n_components": 10} and alone.best_score_ > 0.99
    assert pipeline.set_output(transform="pandas") is pipeline


def test_noise_gets_a_warning() -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.warns(UserWarning, match="no atom is clearer than chance; the clearest one was accepted"):
        model = tn.NOODL().fit(X)
    assert model.n_components_ == 1
    # These samples have nothing in common.
    X = np.random.default_rng(0).normal(size=(300, 20))
    for start in (tn.NOODL(), tn.NOODL(3)):
        with pytest.warns(UserWarning, match="no atom is clearer than chance; there are no atoms") as caught:
            model = start.fit(X)
        assert len(caught) == 1 and caught[0].filename == __file__
        assert model.n_components_ == 0 and model.transform(X).shape == (300, 0)


def state(model: tn.NOODL) -> dict[str, bytes]:
    return {name: pickle.dumps(value) for name, value in vars(model).items()}


def slow_samples() -> Array:
    """Return samples from which learning takes much longer than the tests wait."""
    return np.random.default_rng(0).normal(size=(20000, 100))


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_an_interrupt_changes_nothing(learn: str) -> None:
    X, _, _ = samples(500)
    long = slow_samples()
    start = np.random.default_rng(1).normal(size=(300, 100))

    def interrupted(model: tn.NOODL, X: object) -> None:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            getattr(model, learn)(X)

    unfitted = tn.NOODL(passes=100_000, dict_init=start)
    before = state(unfitted)
    interrupted(unfitted, pd.DataFrame(long).add_prefix("x"))
    assert state(unfitted) == before
    with pytest.raises(NotFittedError):
        unfitted.transform(long)
    # The names of the features and the number of steps do not change either.
    fitted = tn.NOODL().fit(pd.DataFrame(X).add_prefix("x"))
    fitted.set_params(passes=100_000, tau=0.9, dict_init=start if learn == "fit" else None)
    before = state(fitted)
    interrupted(fitted, long if learn == "fit" else pd.DataFrame(np.tile(X, (40, 1))).add_prefix("x"))
    assert state(fitted) == before and fitted.n_features_in_ == 40 and fitted.n_steps_ == 1


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_an_interrupt_after_the_core_is_done_changes_nothing(learn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come after the core has finished a step, and before the estimator has stored the result."""
    X, _, _ = samples(500)
    model = tn.NOODL().fit(X)
    before = state(model)

    class Late:
        """A learner that is interrupted right after it has learned."""

        def __init__(self, learner: _core.Learner) -> None:
            self.learner = learner

        def learn(self, *given: object) -> None:
            self.learner.learn(*given)  # type: ignore[arg-type]
            raise KeyboardInterrupt

    real = tn.NOODL._learn
    monkeypatch.setattr(tn.NOODL, "_learn", lambda self, learner, *rest: real(self, Late(learner), *rest))
    with pytest.raises(KeyboardInterrupt):
        getattr(model, learn)(samples(500, seed=1)[0])
    assert state(model) == before


def test_a_fit_that_fails_changes_nothing() -> None:
    X, _, _ = samples(500)
    model = tn.NOODL().fit(pd.DataFrame(X).add_prefix("x"))
    before = state(model)
    for wrong in (np.full((3, 2), np.nan), pd.DataFrame(np.full((3, 2), np.nan)).add_prefix("y"), X[:1], None):
        with pytest.raises((ValueError, TypeError)):
            model.fit(wrong)
        assert state(model) == before
    # An error in a callback does not undo the step.
    model.callback = lambda record: 1 / 0
    with pytest.raises(ZeroDivisionError):
        model.fit(X[:, :30])
    assert model.n_features_in_ == 30 and model.components_.shape[1] == 30


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_components": 0}, "n_components is 0, it must be at least 1"),
        ({"tau": -1}, "tau is -1, it must be above 0 and finite"),
        (
            {"n_components": 3, "dict_init": np.ones((10, 40))},
            "n_components is 3, it must be 10 or 'auto' where dict_init has 10 atoms",
        ),
        ({"dict_init": np.ones((2, 3))}, "the tensor has 40 features, the dictionary has 3"),
    ],
)
def test_wrong_parameters_are_refused(params: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        tn.NOODL(**params).fit(samples(100)[0])
    assert text in str(caught.value)


def test_errors_are_known_after_four_batches() -> None:
    rng = np.random.default_rng(3)
    atoms = rng.normal(size=(4, 30))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    model = tn.NOODL(dict_init=atoms)
    for batch in range(8):
        assert batch == 0 or np.isfinite(model.errors_).all() == (batch >= 4)
        codes = rng.choice([-1.0, 0.0, 1.0], size=(100, 4), p=[0.2, 0.6, 0.2])
        model.partial_fit(codes @ atoms + 0.02 * rng.normal(size=(100, 30)))
    error = np.sqrt(((model.components_ - atoms) ** 2).sum(axis=1).mean())
    assert 0.6 < np.sqrt((model.errors_**2).mean()) / error < 1.6
