"""Tests of the estimator TensorNOODL."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import pyttb
import sklearn.exceptions
import tensorly
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import tensornoodl as tn


def test_a_planted_stream_is_recovered_exactly(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    match = tn.match(fitted.components_, planted.patterns)
    assert fitted.n_patterns_ == 6 and match.error < 1e-10
    tensor, truth = planted.tensor(8), planted.codes(8)
    codes = fitted.transform(tensor)
    assert codes.shape == truth.shape == (6, 30, 25)
    assert match.same_support(codes, truth) and match.error_codes(codes, truth) < 1e-10
    back = fitted.inverse_transform(codes)
    assert np.abs(back.todense() - tensor.todense()).max() < 1e-10
    # inverse_transform takes codes in any form.
    for other in (codes.todense(), codes.to_sparse()):
        assert np.array_equal(fitted.inverse_transform(other).todense(), back.todense())
    rows, cols, share = codes.factors()
    rebuilt = np.einsum("in,ji,ki->njk", fitted.components_, rows, cols)
    assert np.abs(rebuilt - tensor.todense()).max() < 1e-10 and np.allclose(share[share > 0], 1)
    matrix = codes.to_scipy()
    assert matrix.shape == (len(codes.places), 6) and matrix.nnz == len(codes.values)
    assert np.abs(matrix @ fitted.components_ - tensor.fibers).max() < 1e-10


def test_errors_are_known_where_there_is_noise() -> None:
    noisy = tn.Planted(features=40, patterns=6, rows=30, cols=25, alpha=0.15, beta=0.15, noise=0.1)
    model = tn.TensorNOODL().fit(noisy.tensor(t) for t in range(1, 9))
    error = tn.match(model.components_, noisy.patterns).error
    assert model.errors_.shape == (6,) and 0.7 < np.sqrt((model.errors_**2).mean()) / error < 1.4
    # A single tensor says little about the noise.
    assert np.isnan(tn.TensorNOODL().fit(noisy.tensor(1)).errors_).all()


def test_errors_are_not_known_without_noise(fitted: tn.TensorNOODL) -> None:
    assert fitted.errors_.shape == (6,) and np.isnan(fitted.errors_).all()


def test_fit_is_partial_fit_step_by_step(planted: tn.Planted) -> None:
    tensors = [planted.tensor(t) for t in range(1, 5)]
    whole = tn.TensorNOODL().fit(tensors)
    steps = tn.TensorNOODL()
    for tensor in tensors:
        assert steps.partial_fit(tensor) is steps
    assert np.array_equal(whole.components_, steps.components_)
    assert whole.n_steps_ == steps.n_steps_ == 4 and whole.step_labels_ == ["1", "2", "3", "4"]
    # fit discards what was learned before.
    assert np.array_equal(whole.fit(tensors[:2]).components_, tn.TensorNOODL().fit(tensors[:2]).components_)


def test_bits_do_not_depend_on_threads(planted: tn.Planted) -> None:
    large = tn.Planted(features=80, patterns=60, rows=150, cols=150)
    one, two = (tn.TensorNOODL(n_jobs=jobs).fit([large.tensor(1), large.tensor(2)]) for jobs in (1, 2))
    assert np.array_equal(one.components_, two.components_)
    assert np.array_equal(one.row_factors_, two.row_factors_)


def test_attributes_have_their_shapes_and_labels(fitted: tn.TensorNOODL) -> None:
    assert fitted.components_.shape == (6, 40)
    assert np.allclose(np.linalg.norm(fitted.components_, axis=1), 1)
    assert fitted.row_factors_.shape == (30, 6) and fitted.col_factors_.shape == (25, 6)
    assert fitted.n_features_in_ == 40 and fitted.n_steps_ == 5
    assert fitted.feature_labels_ == [str(i) for i in range(40)]
    assert len(fitted.evidence_) == 6 and fitted.evidence_.min() > 1
    record = fitted.history_[-1]
    assert record["step"] == "5" and record["patterns"] == 6 and record["fit"] < 1e-10
    frame = fitted.to_frame()
    assert list(frame.columns) == ["step", "pattern", "axis", "label", "value"]
    last = frame[(frame.step == "5") & (frame.axis == "row") & (frame.pattern == 2)]
    assert np.array_equal(last.value, fitted.row_factors_[:, 1][fitted.row_factors_[:, 1] != 0])
    data = fitted.to_xarray(all_steps=True)
    assert data.row_factors.dims == ("step", "pattern", "row") and data.sizes["step"] == 5
    assert np.array_equal(data.sel(step="5", pattern=2).row_factors, fitted.row_factors_[:, 1])
    rows, cols = fitted.leading(0)
    assert abs(rows[0][1]) >= abs(rows[-1][1]) and cols
    groups = fitted.groups(0)
    assert groups[0].share > 0.999 and groups[0].known is None


def test_factors_are_exchanged_with_tensorly_and_pyttb(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    tensor = planted.tensor(5).todense()
    weights, factors = fitted.cp_tensor()
    assert np.abs(tensorly.cp_to_tensor((weights, factors)) - tensor).max() < 1e-10
    tensorly.cp_tensor.CPTensor((weights, factors))
    ktensor = fitted.to_ktensor()
    assert isinstance(ktensor, pyttb.ktensor)
    assert np.abs(ktensor.full().data - tensor).max() < 1e-10
    # init takes the CP tensors of both packages.
    for start in (tensorly.cp_tensor.CPTensor((weights, factors)), ktensor):
        again = tn.TensorNOODL(init=start).fit([planted.tensor(6)])
        assert tn.match(again.components_, planted.patterns).error < 1e-10


def test_init_is_used_and_not_changed(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    start = planted.start(0.3)
    kept = start.copy()
    model = tn.TensorNOODL(init=start).fit(planted.tensor(t) for t in range(1, 9))
    assert np.array_equal(start, kept) and model.n_patterns_ == 6
    assert tn.match(model.components_, planted.patterns).error < 1e-10
    before = fitted.components_
    on = tn.TensorNOODL(init=fitted).fit(planted.tensor(t) for t in (7, 8))
    assert on.n_steps_ == 2 and np.array_equal(fitted.components_, before)
    with pytest.raises(ValueError, match="n_patterns is 3, it must be 'auto' where init has the patterns"):
        tn.TensorNOODL(3, init=start).fit(planted.tensor(1))
    with pytest.raises(ValueError, match="the tensor has 40 features, the dictionary has 7"):
        tn.TensorNOODL(init=np.ones((2, 7))).fit(planted.tensor(1))


def test_a_fitted_model_continues_on_data_with_other_labels(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    tensor = planted.tensor(7)
    rows = [f"p{j}" for j in range(30)]
    named = tn.from_fibers(tensor.fibers, tensor.places, (30, 25), rows=rows)
    on = tn.TensorNOODL(init=fitted).fit([named])
    assert on.row_labels_ == rows and on.n_steps_ == 1
    with pytest.raises(ValueError, match="init was learned with the recipe '', it must be the same"):
        tn.TensorNOODL(init=fitted, recipe="scale").fit([named])


def test_load_restores_the_parameters(tmp_path: Path, planted: tn.Planted) -> None:
    model = tn.TensorNOODL(init=planted.start(0.3), eta_a=4.0, tau=0.2, recipe="scale", random_state=5)
    model.fit([planted.tensor(1)]).save(tmp_path / "m")
    told = tn.load(tmp_path / "m").get_params()
    expected = {"eta_a": 4.0, "tau": 0.2, "recipe": "scale", "random_state": 5}
    assert {name: told[name] for name in expected} == expected


def test_steps_are_found_by_index_or_label_and_patterns_have_a_positive_peak(fitted: tn.TensorNOODL) -> None:
    assert np.array_equal(fitted.factors("3")[0], fitted.factors(2)[0])
    for wrong in ("9", 5, -6):
        with pytest.raises(IndexError, match="step is"):
            fitted.factors(wrong)
    # The sign of a pattern is arbitrary, so it is chosen such that the largest entry is positive.
    largest = np.abs(fitted.components_).argmax(axis=1)
    assert (fitted.components_[np.arange(6), largest] > 0).all()


def test_tuples_of_tensors_reprs_and_wrong_arguments_of_planted_and_match(fitted: tn.TensorNOODL, planted: tn.Planted) -> None:
    tensors = (planted.tensor(1), planted.tensor(2))
    assert np.array_equal(tn.TensorNOODL().fit(tensors).components_, tn.TensorNOODL().fit(list(tensors)).components_)
    assert repr(planted).startswith("<tensornoodl.Planted: 6 patterns, 40 x 30 x 25")
    assert "error" in repr(tn.match(fitted.components_, planted.patterns))
    with pytest.raises(MemoryError, match="one tensor of this takes about"):
        tn.Planted(features=10**6, patterns=10**7)
    for wrong in (0, -1):
        for ask in (planted.tensor, planted.codes):
            with pytest.raises(ValueError, match=f"step is {wrong}, it must be at least 1"):
                ask(wrong)
        with pytest.raises(ValueError, match=f"late_step is {wrong}, it must be at least 1"):
            tn.Planted(late_step=wrong)
    with pytest.raises(ValueError, match="found patterns have 3 features, true ones 40"):
        tn.match(np.ones((2, 3)), planted.patterns)


def test_the_papers_step_learns(planted: tn.Planted) -> None:
    stream = [planted.tensor(t) for t in range(1, 30)]
    model = tn.TensorNOODL(init=planted.start(0.3), eta_a=4.0).fit(stream)
    errors = tn.match(model.components_, planted.patterns).error
    assert errors < 0.1 and model.n_patterns_ == 6


def test_parameters_may_change_between_steps(planted: tn.Planted) -> None:
    model = tn.TensorNOODL().fit(planted.tensor(1))
    assert model.history_[-1]["passes"] > 1
    model.partial_fit(planted.tensor(2))
    assert model.history_[-1]["passes"] == 1
    model.set_params(passes=3).partial_fit(planted.tensor(3))
    assert model.history_[-1]["passes"] == 3


def test_a_fit_that_fails_changes_nothing(planted: tn.Planted) -> None:
    model = tn.TensorNOODL().fit(planted.tensor(1))
    before = model.components_
    for wrong in (None, np.zeros((2, 2)), np.full((2, 2, 2), np.nan)):
        with pytest.raises((ValueError, TypeError)):
            model.fit(wrong)
    assert np.array_equal(model.components_, before)
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        model.components_[0] = 0


def test_features_must_be_those_of_the_model(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    for wrong in (np.ones((3, 4, 5)), np.ones((80, 4, 5)), planted.tensor(1).todense().transpose(1, 2, 0)):
        with pytest.raises(ValueError, match="features, the dictionary has 40"):
            fitted.transform(wrong)
        with pytest.raises(ValueError, match="features, the dictionary has 40"):
            copy.copy(fitted).partial_fit(wrong)
    other = tn.from_fibers([[1.0, 2.0]], [[0, 0]], features=["a", "b"])
    with pytest.raises(ValueError, match="it must be one with features that the model has"):
        fitted.transform(other)


def test_fewer_patterns_than_requested_give_a_warning(planted: tn.Planted) -> None:
    with pytest.warns(UserWarning, match="99 patterns were asked for, there are"):
        tn.TensorNOODL(99).fit(planted.tensor(1))


def test_labels_of_steps_are_distinct(planted: tn.Planted) -> None:
    tensor = planted.tensor(2)
    model = tn.TensorNOODL().fit([tensor, tensor.todense(), tensor])
    assert model.step_labels_ == ["2", "2 (2)", "2 (3)"]


def test_new_rows_and_cols_are_appended(planted: tn.Planted) -> None:
    tensor = planted.tensor(1)

    def named(first: int) -> tn.Tensor:
        rows = [f"p{first + j}" for j in range(30)]
        cols = [f"q{first + k}" for k in range(25)]
        return tn.from_fibers(tensor.fibers, tensor.places, (30, 25), rows=rows, cols=cols)

    model = tn.TensorNOODL().fit([named(0), named(10)])
    assert model.row_labels_ == [f"p{j}" for j in range(40)] and len(model.col_labels_) == 35
    first, second = model.factors(0)[0], model.factors(1)[0]
    assert np.allclose(np.abs(second[10:]), np.abs(first[:30]), atol=1e-6) and not second[:10].any()
    # Known labels are recognized in any order.
    model.partial_fit(named(0))
    assert len(model.row_labels_) == 40 and model.n_steps_ == 3


def test_features_are_aligned_by_label(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    tensor = planted.tensor(3)
    order = np.random.default_rng(1).permutation(40)
    other = tn.from_fibers(
        np.ascontiguousarray(tensor.fibers[:, order]), tensor.places, (30, 25), features=order.astype(str)
    )
    assert np.array_equal(fitted.transform(other).todense(), fitted.transform(tensor).todense())
    unknown = tn.from_fibers([[1.0, 2.0]], [[0, 0]], features=["3", "elsewhere"])
    with pytest.warns(UserWarning, match="1 cell has a feature that the model does not know; left out"):
        fitted.transform(unknown)


def test_files_are_atomic_and_damaged_files_are_refused(tmp_path: Path, planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    for loaded in (tn.load(path), tn.TensorNOODL.load(str(path))):
        assert np.array_equal(loaded.components_, fitted.components_)
        assert loaded.history_ == fitted.history_
    # A loaded model continues to learn exactly as the original does.
    loaded = tn.load(path).partial_fit(planted.tensor(6))
    assert np.array_equal(loaded.components_, copy.copy(fitted).partial_fit(planted.tensor(6)).components_)
    page = tmp_path / "model.html"
    fitted.report(page)
    assert "<svg" in page.read_text() and "http://" not in page.read_text().replace("http://www.w3.org", "")
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["model.html", "model.safetensors"]
    with pytest.raises(FileNotFoundError):
        tn.load(tmp_path / "none")
    with pytest.raises(OSError):
        fitted.save(tmp_path / "no" / "folder.safetensors")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="cannot be read as a model"):
        tn.load(path)
    fitted.save(path)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="is damaged: its checksum is"):
        tn.load(path)


def test_a_model_of_format_2_is_read_with_a_warning(tmp_path: Path) -> None:
    old = Path(__file__).parents[3] / "crates/tensornoodl-data/tests/models/format-2.safetensors"
    with pytest.warns(UserWarning, match="its format is 2, which has no checksum"):
        model = tn.load(old)
    assert model.n_patterns_ == 2
    model.save(tmp_path / "new.safetensors")
    assert np.array_equal(tn.load(tmp_path / "new.safetensors").components_, model.components_)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_independent(again: object, planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    assert callable(again)
    other = again(fitted)
    before = fitted.components_
    assert np.array_equal(other.components_, before)
    other.partial_fit(planted.tensor(6))
    assert np.array_equal(fitted.components_, before) and not np.array_equal(other.components_, before)


def test_the_protocols_of_scikit_learn(fitted: tn.TensorNOODL) -> None:
    model = tn.TensorNOODL(4, recipe="scale", n_jobs=1)
    assert repr(model) == "TensorNOODL(n_patterns=4, recipe='scale', n_jobs=1)"
    other = clone(model)
    assert other is not model and other.get_params() == model.get_params()
    again = clone(tn.TensorNOODL(init=fitted))
    assert again.init is fitted
    with pytest.raises(sklearn.exceptions.NotFittedError):
        again.components_  # noqa: B018
    assert model.set_params(n_patterns=5).n_patterns == 5
    with pytest.raises(ValueError, match="there is no parameter 'rank'; there are n_patterns, "):
        model.set_params(rank=3)
    check_is_fitted(fitted)
    for ask in (lambda: model.components_, lambda: model.transform(np.ones((2, 2, 2))), lambda: model.save("x")):
        with pytest.raises(tn.NotFittedError, match="has learned nothing yet"):
            ask()
    assert "learned nothing yet" in model._repr_html_()
    html = fitted._repr_html_()
    assert html.count("<svg") == 6 and "6 patterns over 40 features explain 100 %" in html


@pytest.mark.parametrize(
    ("params", "error", "text"),
    [
        ({"n_patterns": 0}, ValueError, "n_patterns is 0, it must be at least 1"),
        ({"n_patterns": "many"}, ValueError, "n_patterns is 'many', it must be a number above 0 or 'auto'"),
        ({"n_patterns": 2.5}, TypeError, "n_patterns is 2.5, it must be"),
        ({"eta_x": 1.5}, ValueError, "eta_x is 1.5, it must be above 0 and below 1"),
        ({"eta_x": "fast"}, TypeError, "eta_x is 'fast', it must be a number"),
        ({"tau": float("nan")}, ValueError, "tau is NaN, it must be above 0 and finite"),
        ({"forgetting": 1}, ValueError, "forgetting is 1, it must be at least 0 and below 1"),
        ({"recipe": "log2,root"}, ValueError, 'the recipe has "root", actions are log2, sqrt, presence, scale, center'),
        ({"passes": 0}, ValueError, "passes is 0, it must be at least 1"),
        ({"eta_a": 1.0, "passes": "auto"}, ValueError, "passes is auto, it must be a number with the paper's step"),
        ({"n_jobs": 0}, ValueError, "n_jobs is 0, it must be at least 1"),
        ({"random_state": -1}, ValueError, "random_state is -1, it must be at least 0"),
        ({"random_state": "x"}, TypeError, "random_state is of type str"),
    ],
)
def test_wrong_parameters_are_refused(
    params: dict[str, object], error: type[Exception], text: str, planted: tn.Planted
) -> None:
    with pytest.raises(error) as caught:
        tn.TensorNOODL(**params).fit(planted.tensor(1))  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_noise_has_no_patterns() -> None:
    noise = np.random.default_rng(0).normal(size=(50, 20, 20))
    with pytest.raises(ValueError, match="no pattern is clearer than chance .* use n_patterns=N to accept the N strongest"):
        tn.TensorNOODL().fit(noise)
    with pytest.raises(ValueError, match="no two fibers share anything"):
        tn.TensorNOODL(2).fit(noise)
    # A stream may begin without patterns, because later tensors may have some.
    assert tn.TensorNOODL().partial_fit(noise).components_.shape == (0, 50)


def test_callbacks_and_progress(planted: tn.Planted, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[dict[str, object]] = []
    stream = [planted.tensor(t) for t in range(1, 4)]
    model = tn.TensorNOODL(callback=seen.append).fit(stream)
    assert seen == model.history_
    assert capfd.readouterr() == ("", "")
    tn.TensorNOODL(progress=True).fit(stream)
    out, err = capfd.readouterr()
    assert out == "" and "3/3" in err

    def stop(record: dict[str, object]) -> None:
        if record["step"] == "2":
            raise RuntimeError("enough")

    model = tn.TensorNOODL(callback=stop)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(stream)
    assert model.n_steps_ == 2


def test_figures_of_every_kind(tmp_path: Path, fitted: tn.TensorNOODL) -> None:
    figure = fitted.plot()
    assert len(figure.axes) >= 18
    figure.savefig(tmp_path / "all.png")
    fitted.plot(2).savefig(tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 5000
    with pytest.raises(IndexError, match="pattern is 6, there are 6 patterns"):
        fitted.plot(6)


def test_threads_may_share_a_model() -> None:
    """Several threads learn, encode and read at the same time without a deadlock."""
    code = '''
import threading, tensornoodl as tn
p = tn.Planted(features=100, patterns=100, rows=200, cols=200)
t = p.tensor(1)
model = tn.TensorNOODL(init=p.start(0.2), n_jobs=2).partial_fit(t)
work = [lambda: model.partial_fit(t), lambda: model.transform(t), lambda: model.components_.sum()]
threads = [threading.Thread(target=lambda one=one: [one() for _ in range(25)]) for one in 2 * work]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(model.n_steps_)
'''
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "51\n", done.stderr


def test_other_threads_run_while_one_learns() -> None:
    large = tn.Planted(features=200, patterns=200, rows=200, cols=200)
    model, tensor = tn.TensorNOODL(init=large.start()), large.tensor(1)
    model.partial_fit(tensor)
    counted, done = 0, threading.Event()
    model.set_params(passes=30)

    def work() -> None:
        model.partial_fit(tensor)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0.001)
    thread.join()
    assert counted > 50 and model.n_steps_ == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_an_interrupted_step_changes_nothing() -> None:
    large = tn.Planted(features=300, patterns=600, rows=400, cols=400)
    tensor = large.tensor(1)
    model = tn.TensorNOODL(init=large.start(), passes=1000)
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.fit(tensor)
    assert time.monotonic() - begun < 10
    # The model is as before fit, and can be fitted again.
    with pytest.raises(tn.NotFittedError):
        model.components_  # noqa: B018
    model.set_params(passes=1).fit(tensor)
    before = model.components_
    few = tn.from_fibers(tensor.fibers[:200], tensor.places[:200], tensor.shape[1:])
    codes = model.transform(few).todense()
    # The parameters of an interrupted step are discarded.
    model.set_params(passes=1000, tau=3.0)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(tensor)
    assert model.n_steps_ == 1 and np.array_equal(model.components_, before)
    assert np.array_equal(model.transform(few).todense(), codes)
    small = tn.Planted(features=30, patterns=3, rows=20, cols=20, alpha=0.2, beta=0.2)
    assert tn.TensorNOODL().fit(small.tensor(1)).n_steps_ == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_it_works_in_a_child_process(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    expected = fitted.transform(planted.tensor(2)).todense()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        same = np.array_equal(fitted.transform(planted.tensor(2)).todense(), expected)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_import_loads_only_numpy() -> None:
    """Large packages are imported only when a function needs them."""
    code = (
        "import sys, tensornoodl, numpy\n"
        "heavy = {'sklearn', 'scipy', 'pandas', 'xarray', 'matplotlib', 'sparse', 'polars', 'pyarrow'}\n"
        "print(heavy & set(sys.modules))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()" and out.stderr == ""


@pytest.mark.parametrize("model", ["exact", "counts"])
def test_polish_tells_similar_patterns_apart(model):
    """Spectra of mixtures overlap; patterns, rows and cols together determine them."""
    random = np.random.default_rng(3)

    def bells(length):
        at = np.arange(length)[:, None] / length
        return np.exp(-(((at - np.array([0.3, 0.5, 0.75])) / 0.15) ** 2))

    spectra = bells(40)
    clean = np.einsum("fi,ji,ki->fjk", spectra, random.random((9, 3)), bells(25))
    values = clean + 0.01 * random.normal(size=clean.shape)
    with pytest.warns(UserWarning, match="% of the values are negative; they count as 0"):
        learned = tn.TensorNOODL(3, model=model, polish=True).fit(100 * values)
    spectra /= np.linalg.norm(spectra, axis=0)
    patterns = learned.components_ / np.linalg.norm(learned.components_, axis=1, keepdims=True)
    assert (patterns @ spectra).max(axis=0).min() > 0.999
    assert learned.row_factors_.min() >= 0 and learned.col_factors_.min() >= 0
    with pytest.raises(ValueError, match="polish is True, it must be False for a stream"):
        tn.TensorNOODL(3, polish=True).fit([values, values])
