"""Tests of the counts model, and of the choice between it and the exact one."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorly
import xarray
from sklearn.base import clone

import tensornoodl as tn

Array = np.ndarray

#: The numbers of tickets that three teams get of each of nine categories; a team has four agents and two products.
TEAMS = 0.4 * np.array(
    [[4.0, 3, 2, 0.2, 0, 0, 0, 0, 0.5], [0, 0.2, 0, 4, 3, 3, 0, 0, 0.5], [0.2, 0, 0, 0, 0, 0.5, 5, 4, 0.5]]
)
WEEKS = 8

AXES: dict[str, Any] = {"feature": "category", "row": "agent", "col": "product"}


@pytest.fixture(scope="module")
def tickets() -> pd.DataFrame:
    """Support tickets of eight weeks, one in each line."""
    rng = np.random.default_rng(0)
    lines = []
    for week in range(WEEKS):
        date = pd.Timestamp("2024-01-01") + pd.Timedelta(weeks=week)
        for agent in range(12):
            for product in range(6):
                rate = TEAMS[agent // 4] * (1.0 if agent // 4 == product // 2 else 0.02)
                for category, count in enumerate(rng.poisson(rate)):
                    line = (str(date.date()), f"category {category}", f"agent {agent:02}", f"product {product}", 0.5)
                    lines += [line] * int(count)
    return pd.DataFrame(lines, columns=["date", "category", "agent", "product", "hours"])


@pytest.fixture(scope="module")
def weeks(tickets: pd.DataFrame) -> tn.Events:
    return tn.from_events(tickets, **AXES, step="week(date)")


@pytest.fixture(scope="module")
def year(tickets: pd.DataFrame) -> tn.Events:
    return tn.from_events(tickets, **AXES)


@pytest.fixture(scope="module")
def fitted_counts(weeks: tn.Events) -> tn.TensorNOODL:
    """A model of the stream of counts. Tests must copy it before they change it."""
    return tn.TensorNOODL().fit(weeks)


def likeness(patterns: Array) -> Array:
    """Return the largest cosine of each team with a pattern."""
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (TEAMS, patterns)]
    return np.asarray((unit[0] @ unit[1].T).max(axis=1))


def test_counts_of_a_table_get_the_counts_model(year: tn.Events, weeks: tn.Events, fitted_counts: tn.TensorNOODL) -> None:
    whole = tn.TensorNOODL().fit(year)
    for model, events in ((whole, year), (fitted_counts, weeks)):
        assert (model.model_, model.model_reason_) == ("counts", "the cells count events")
        assert model.n_patterns_ == 3 and likeness(model.components_).min() > 0.97
        assert model.components_.min() >= 0 and np.allclose(model.components_.sum(axis=1), 1, atol=1e-12)
        tensor = events[0]
        codes = model.transform(tensor)
        # Each event belongs to a pattern, and every place that has events has a code.
        assert codes.values.min() > 0 and np.isclose(codes.values.sum(), tensor.fibers.sum())
        assert np.allclose(codes.todense().sum(axis=0), tensor.todense().sum(axis=0))
        back = model.inverse_transform(codes)
        assert back.todense().min() >= 0 and np.isclose(back.todense().sum(), tensor.fibers.sum())
        assert np.allclose(back.todense(), np.einsum("mn,mjk->njk", model.components_, codes.todense()))
        assert 0 < model.history_[-1]["fit"] < 1 and len(model.evidence_) == 3 and model.evidence_.min() > 0
        assert model.row_factors_.shape == (12, 3) and model.col_factors_.shape == (6, 3)


def test_the_choice_has_a_reason(tickets: pd.DataFrame) -> None:
    def chosen(value: str = "count", average_over: str | None = None, **params: Any) -> tuple[str, str]:
        events = tn.from_events(tickets, **AXES, value=value, average_over=average_over)
        model = tn.TensorNOODL(params.pop("n_patterns", "auto"), **params).fit(events)
        return model.model_, model.model_reason_

    counted = ("counts", "the cells count events")
    for recipe in (None, "", "log2", "sqrt", "presence", "sqrt,log2"):
        assert chosen(recipe=recipe) == counted, recipe
    assert chosen(recipe="log2,scale") == ("exact", "the recipe log2,scale makes other values of the counts")
    assert chosen("sum(hours)") == ("exact", "the cells hold sum(hours), which need not count anything")
    assert chosen("mean(hours)", n_patterns=1) == ("exact", "the cells hold mean(hours), which need not count anything")
    assert chosen(average_over="date") == ("exact", "the counts are averaged over date")
    assert chosen(eta_a=1.0) == ("exact", "eta_a belongs to it")
    assert chosen(model="exact") == ("exact", "it was asked for")
    assert chosen(model="counts") == ("counts", "it was asked for")


def test_tensors_of_a_table_know_that_they_count(weeks: tn.Events, fitted_counts: tn.TensorNOODL) -> None:
    """The steps of a table give the same model, one by one, as a list, and pickled."""
    steps = tn.TensorNOODL()
    for week in weeks:
        steps.partial_fit(week)
    pickled = tn.TensorNOODL().fit([pickle.loads(pickle.dumps(week)) for week in weeks])
    for model in (steps, tn.TensorNOODL().fit(list(weeks)), pickled):
        assert model.model_reason_ == "the cells count events"
        assert np.array_equal(model.components_, fitted_counts.components_)
        assert model.history_ == fitted_counts.history_


def test_arrays_count_only_if_the_user_says_so(year: tn.Events) -> None:
    tensor = year[0]
    dense = tensor.todense()
    whole = tn.TensorNOODL().fit(year)
    kinds: dict[str, object] = {
        "array": dense,
        "whole numbers": dense.astype(np.int64),
        "single precision": dense.astype(np.float32),
        "sparse": tensor.to_sparse(),
        "fibers": (tensor.fibers, tensor.places, tensor.shape[1:]),
        "xarray": xarray.DataArray(dense, dims=("category", "agent", "product")),
    }
    for name, kind in kinds.items():
        plain = tn.TensorNOODL(2).fit(kind)
        assert (plain.model_, plain.model_reason_) == ("exact", "the values of an array need not count anything"), name
        model = tn.TensorNOODL(model="counts").fit(kind)
        assert (model.model_, model.model_reason_) == ("counts", "it was asked for"), name
        assert np.array_equal(model.components_, whole.components_), name
        assert np.array_equal(model.transform(kind).todense(), whole.transform(tensor).todense()), name


@pytest.mark.parametrize("value", [-1.0, 0.5, float("nan"), float("inf")])
def test_values_that_are_no_counts_are_refused(value: float, weeks: tn.Events, fitted_counts: tn.TensorNOODL) -> None:
    wrong = weeks[0].todense()
    wrong[2, 3, 1] = value
    named = xarray.DataArray(
        wrong,
        dims=("category", "agent", "product"),
        coords={"category": weeks.features, "agent": weeks.rows, "product": weeks.cols},
    )
    model = copy.copy(fitted_counts)
    for call in (tn.TensorNOODL(model="counts").fit, model.partial_fit, model.fit, model.transform):
        if np.isfinite(value):
            place = "the cell of feature \"category 2\", row \"agent 03\", col \"product 1\" is"
            rule = "the counts model needs whole numbers that are not negative"
            remedy = "use model='exact', or count events with from_events(..., value='count')"
        else:
            place = "the value at feature 2 of the fiber at row 3, col 1 is"
            rule = "values must be finite"
            remedy = "fill missing values first" if np.isnan(value) else "at most 1e100"
        with pytest.raises(ValueError) as caught:
            model.set_params(model="counts")
            call(named)
        text = str(caught.value)
        assert place in text and rule in text and remedy in text
        assert f"is {'NaN' if np.isnan(value) else 'inf' if np.isinf(value) else f'{value:g}'}:" in text
    # Nothing has changed.
    assert np.array_equal(model.components_, fitted_counts.components_) and model.n_steps_ == WEEKS
    assert model.row_labels_ == fitted_counts.row_labels_ and model.step_labels_ == fitted_counts.step_labels_


def test_values_of_tables_that_are_no_counts_are_refused(tickets: pd.DataFrame) -> None:
    for value, recipe in (("sum(hours)", None), ("mean(hours)", "log2")):
        events = tn.from_events(tickets, **AXES, value=value)
        with pytest.raises(ValueError, match=r"the cell of feature \"category 0\", row \"agent 00\", .* needs whole numbers"):
            tn.TensorNOODL(model="counts", recipe=recipe).fit(events)
    # Sums that are whole numbers count if the user says so.
    doubled = tn.from_events(tickets.assign(hours=2.0), **AXES, value="sum(hours)")
    assert tn.TensorNOODL(model="counts").fit(doubled).n_patterns_ == 3
    # Values are checked before the recipe: damped counts are no whole numbers.
    damped = tn.TensorNOODL(recipe="sqrt").fit(tn.from_events(tickets, **AXES))
    assert damped.model_ == "counts" and likeness(damped.components_).min() > 0.9


@pytest.mark.parametrize(
    ("params", "error", "text"),
    [
        ({"model": "poisson"}, ValueError, "model is poisson, it must be auto, counts or exact"),
        ({"model": None}, TypeError, "model is None, it must be 'auto', 'counts' or 'exact'"),
        ({"model": "counts", "recipe": "log2,scale"}, ValueError, "recipe is 'log2,scale', it may only have log2, sqrt and presence"),
        ({"model": "counts", "eta_a": 2.0}, ValueError, "eta_a is 2, it must be None with the counts model"),
        (
            {"model": "counts", "init": np.eye(9)},
            ValueError,
            "model is 'counts', it must be 'exact' or 'auto': the exact model is needed, because init has patterns of unit length",
        ),
    ],
)
def test_parameters_of_another_model_are_refused(
    params: dict[str, Any], error: type[Exception], text: str, year: tn.Events
) -> None:
    with pytest.raises(error) as caught:
        tn.TensorNOODL(**params).fit(year)
    assert text in str(caught.value)


def test_a_model_stays_what_it_is(weeks: tn.Events, fitted_counts: tn.TensorNOODL) -> None:
    exact = tn.TensorNOODL(3, model="exact").fit(weeks[0])
    for fitted, other in ((fitted_counts, "exact"), (exact, "counts")):
        kind = fitted.model_
        text = f"model is '{other}', it must be '{kind}' or 'auto': the {kind} model is needed, because "
        model = copy.copy(fitted).set_params(model=other)
        with pytest.raises(ValueError, match=text + "the patterns so far were learned with it"):
            model.partial_fit(weeks[1])
        assert model.n_steps_ == fitted.n_steps_
        with pytest.raises(ValueError, match=text + "init was learned with it"):
            tn.TensorNOODL(init=fitted, model=other).fit(weeks)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="eta_a is 2, it must be None with the counts model"):
        copy.copy(fitted_counts).set_params(eta_a=2.0).partial_fit(weeks[1])
    with pytest.raises(ValueError, match="eta_a is 2, it must be None with the counts model"):
        tn.TensorNOODL(init=fitted_counts, eta_a=2.0).fit(weeks)
    # fit begins anew, and may take the other model.
    model = copy.copy(fitted_counts).set_params(model="exact", n_patterns=3)
    assert model.fit(weeks[0]).model_ == "exact"


def test_learning_continues_from_a_fitted_model(weeks: tn.Events) -> None:
    first = tn.TensorNOODL().fit(weeks[:4])
    on = tn.TensorNOODL(init=first).fit(weeks[4:])
    assert (on.model_, on.model_reason_, on.n_steps_) == ("counts", "init was learned with it", 4)
    whole = copy.copy(first).partial_fit(weeks[4:])
    assert np.array_equal(on.components_, whole.components_)
    # An array continues a model of counts, too.
    arrays = copy.copy(first)
    for week in weeks[4:]:
        arrays.partial_fit(week.todense())
    assert np.array_equal(arrays.components_, whole.components_)


@pytest.mark.parametrize("model", ["counts", "exact"])
def test_files_and_copies_continue_with_the_same_bits(model: Any, weeks: tn.Events, tmp_path: Path) -> None:
    whole = tn.TensorNOODL(model=model).fit(weeks)
    first = tn.TensorNOODL(model=model).fit(weeks[:3])
    first.save(tmp_path / "first.safetensors")
    loaded = tn.load(tmp_path / "first.safetensors")
    assert (loaded.model, loaded.model_, loaded.model_reason_) == (model, model, "the model file has it")
    assert loaded.ladder_ == first.ladder_
    again = pickle.loads(pickle.dumps(first))
    assert (again.model_, again.model_reason_) == (model, "it was asked for")
    for part in (loaded, again, copy.deepcopy(first)):
        assert np.array_equal(part.transform(weeks[5]).todense(), first.transform(weeks[5]).todense())
        for week in weeks[3:]:
            part.partial_fit(week)
        assert np.array_equal(part.components_, whole.components_)
        assert np.array_equal(part.evidence_, whole.evidence_)
        assert part.history_ == whole.history_ and part.ladder_ == whole.ladder_
        assert np.array_equal(part.row_factors_, whole.row_factors_)


def test_the_ladder_tells_what_each_pattern_gains(year: tn.Events, fitted_counts: tn.TensorNOODL) -> None:
    for model in (tn.TensorNOODL().fit(year), fitted_counts):
        ladder = model.ladder_
        assert [rung.patterns for rung in ladder][:4] == [1, 2, 3, 4]
        assert (ladder[0].gain, ladder[0].error) == (0, 0)
        assert all(rung.gain > 3 * rung.error > 0 for rung in ladder[1:3])
        assert ladder[3].gain < 3 * ladder[3].error
    assert tn.TensorNOODL(3).fit(year).ladder_ == []
    assert tn.TensorNOODL(3, model="exact").fit(year).ladder_ == []


def test_the_number_of_patterns_is_what_was_asked_for(year: tn.Events, recwarn: pytest.WarningsRecorder) -> None:
    for count in (1, 2, 4, 8, 9):
        assert tn.TensorNOODL(count).fit(year).n_patterns_ == count
    # Doubts about such a number are other warnings.
    assert not any("asked for" in str(it.message) for it in recwarn.list)


def test_fewer_patterns_than_requested_give_a_warning_with_the_reason(year: tn.Events, weeks: tn.Events) -> None:
    text = "12 patterns were asked for, there are 9, because the counts model has no more patterns than features"
    for call in (tn.TensorNOODL(12).fit, tn.TensorNOODL(12).partial_fit, tn.TensorNOODL(12).fit_transform):
        with pytest.warns(UserWarning, match=text) as caught:
            call(year)
        assert sum("asked for" in str(it.message) for it in caught) == 1
    tensor = year[0]
    few = (tensor.fibers[:3], tensor.places[:3], tensor.shape[1:])
    with pytest.warns(UserWarning, match="5 patterns were asked for, there are 3, .* no more patterns than fibers"):
        tn.TensorNOODL(5, model="counts").fit(few)
    # A stream may bring more fibers.
    model = tn.TensorNOODL(5, model="counts").partial_fit(few)
    assert model.n_patterns_ == 3
    for week in weeks:
        model.partial_fit(week.todense())
    assert model.n_patterns_ == 5


def test_warnings_name_the_line_of_the_user(year: tn.Events) -> None:
    with pytest.warns(UserWarning, match="12 patterns") as caught:
        tn.TensorNOODL(12).fit(year)
    assert caught[0].filename == __file__


def test_bits_do_not_depend_on_threads(weeks: tn.Events) -> None:
    one, two = (tn.TensorNOODL(n_jobs=jobs).fit(weeks) for jobs in (1, 2))
    assert np.array_equal(one.components_, two.components_) and one.history_ == two.history_


def test_a_cp_tensor_has_columns_of_unit_length(fitted_counts: tn.TensorNOODL) -> None:
    weights, factors = fitted_counts.cp_tensor()
    for factor in factors:
        assert np.allclose(np.linalg.norm(factor, axis=0), 1)
    rows, cols, _ = fitted_counts.factors()
    whole = np.einsum("mn,jm,km->njk", fitted_counts.components_, rows, cols)
    assert np.allclose(tensorly.cp_to_tensor((weights, factors)), whole)


def test_protocols_frames_and_pictures(fitted_counts: tn.TensorNOODL, tmp_path: Path) -> None:
    model = tn.TensorNOODL(model="counts")
    assert repr(model) == "TensorNOODL(model='counts')" and clone(model).model == "counts"
    for ask in (lambda: model.model_, lambda: model.model_reason_, lambda: model.ladder_):
        with pytest.raises(tn.NotFittedError):
            ask()
    assert np.allclose(fitted_counts.to_frame().query("axis == 'feature'").groupby("pattern").value.sum(), 1)
    assert np.allclose(fitted_counts.to_xarray().components.sum("feature"), 1)
    fitted_counts.plot().savefig(tmp_path / "counts.png")
    fitted_counts.report(tmp_path / "counts.html")
    assert fitted_counts._repr_html_().count("<svg") == 3


def test_tensors_of_tables_take_memory_for_their_events_only() -> None:
    """A dense array of these fibers would take 3.2 GB."""
    code = """
import resource, sys
import numpy as np, pyarrow as pa, tensornoodl as tn
labels = np.arange(20000)
table = pa.table({"f": labels, "r": labels, "c": labels % 7})
events = tn.from_events(table, feature="f", row="r", col="c")
model = tn.TensorNOODL(2).fit(events)
codes = model.transform(events)
assert model.model_ == "counts" and model.n_patterns_ == 2 and len(codes.places) == 20000
assert events[0].to_sparse().nnz == 20000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 600


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_an_interrupted_step_changes_nothing(weeks: tn.Events) -> None:
    rng = np.random.default_rng(0)
    large = tn.from_fibers(rng.poisson(0.5, size=(40_000, 200)).astype(float), [(j, 0) for j in range(40_000)])
    model = tn.TensorNOODL(30, model="counts", passes=1000)
    threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.fit(large)
    assert time.monotonic() - begun < 30
    with pytest.raises(tn.NotFittedError):
        model.model_  # noqa: B018
    assert model.set_params(n_patterns="auto", passes=None).fit(weeks).n_patterns_ == 3


# The program.


@pytest.mark.skipif("NOODL" not in os.environ, reason="the environment variable NOODL does not name the program")
@pytest.mark.parametrize(
    ("recipe", "step", "seed", "model", "patterns"),
    [
        ("", "week(date)", 0, "auto", "auto"),
        ("", None, 1, "auto", "auto"),
        ("sqrt", "week(date)", 2, "auto", "auto"),
        ("", "week(date)", 0, "counts", 4),
        ("", "week(date)", 3, "exact", 3),
    ],
)
def test_the_program_and_the_package_have_the_same_bits(
    recipe: str, step: str | None, seed: int, model: Any, patterns: Any, tickets: pd.DataFrame, tmp_path: Path
) -> None:
    noodl = os.environ["NOODL"]
    table, theirs_path = tmp_path / "tickets.csv", tmp_path / "program.safetensors"
    tickets.to_csv(table, index=False)
    query = ["--feature", "category", "--row", "agent", "--col", "product", *(["--step", step] if step else [])]
    how = ["--recipe", recipe, "--seed", str(seed), "--model", model, "--patterns", str(patterns)]
    said = subprocess.run(
        [noodl, "learn", table, *query, *how, "-o", theirs_path], check=True, capture_output=True, text=True
    ).stderr
    theirs = tn.load(theirs_path)
    events = tn.from_events(table, **AXES, step=step)
    ours = tn.TensorNOODL(patterns, model=model, recipe=recipe, random_state=seed).fit(events)
    assert f"the {ours.model_} model is used, because {ours.model_reason_}" in said
    assert theirs.model_ == ours.model_
    assert np.array_equal(theirs.components_, ours.components_)
    assert np.array_equal(theirs.evidence_, ours.evidence_)
    assert theirs.history_ == ours.history_ and theirs.ladder_ == ours.ladder_
    for at in range(ours.n_steps_):
        assert all(np.array_equal(a, b) for a, b in zip(theirs.factors(at), ours.factors(at)))
    assert np.array_equal(theirs.transform(events[0]).todense(), ours.transform(events[0]).todense())


@pytest.mark.skipif("NOODL" not in os.environ, reason="the environment variable NOODL does not name the program")
def test_the_program_resumes_what_the_package_began(tickets: pd.DataFrame, tmp_path: Path) -> None:
    noodl = os.environ["NOODL"]
    table, path = tmp_path / "tickets.csv", tmp_path / "model.safetensors"
    tickets.to_csv(table, index=False)
    weeks = tn.from_events(table, **AXES, step="week(date)")
    tn.TensorNOODL().fit(weeks[:3]).save(path)
    query = ["--feature", "category", "--row", "agent", "--col", "product", "--step", "week(date)"]
    subprocess.run([noodl, "learn", table, *query, "-o", path, "--resume", "-q"], check=True)
    resumed, whole = tn.load(path), tn.TensorNOODL().fit(weeks)
    assert np.array_equal(resumed.components_, whole.components_) and resumed.history_ == whole.history_
    assert resumed.step_labels_ == whole.step_labels_


# Samples x features.


def documents(count: int = 400, seed: int = 0) -> Array:
    """Samples that count words: each belongs to one team, and some have no words at all."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(3 * TEAMS[rng.integers(3, size=count)]).astype(float)
    X[::50] = 0
    return X


def test_samples_may_count() -> None:
    X = documents()
    model = tn.NOODL(model="counts").fit(X)
    assert (model.model_, model.model_reason_) == ("counts", "it was asked for")
    assert model.n_components_ == 3 and likeness(model.components_).min() > 0.97
    assert np.allclose(model.components_.sum(axis=1), 1) and model.components_.min() >= 0
    assert model.ladder_[0].patterns == 1 and model.ladder_[1].gain > 0
    codes = model.transform(X)
    # Samples without events have no codes, and do not move the others.
    assert codes.shape == (400, 3) and not codes[::50].any()
    assert np.allclose(codes.sum(axis=1), X.sum(axis=1)) and codes.min() >= 0
    sparse = clone(model).set_params(sparse_codes=True).fit(X).transform(X)
    assert np.array_equal(sparse.toarray(), codes)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.transform(X), codes) and again.model_reason_ == "it was asked for"
    more = documents(seed=1)
    assert np.array_equal(again.partial_fit(more).components_, model.partial_fit(more).components_)
    single = tn.NOODL(model="counts").fit(X.astype(np.float32))
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    plain = tn.NOODL(2).fit(X)
    assert (plain.model_, plain.ladder_) == ("exact", [])
    assert plain.model_reason_ == "the values of an array need not count anything"


@pytest.mark.parametrize("value", [-1.0, 0.5])
def test_samples_that_do_not_count_are_refused(value: float) -> None:
    X = documents()
    model = tn.NOODL(model="counts").fit(X)
    before = model.components_
    X[7, 2] = value
    for call in (model.fit, model.partial_fit, model.transform):
        with pytest.raises(ValueError) as caught:
            call(X)
        text = f"feature 2 of sample 7 is {value:g}: the counts model needs whole numbers that are not negative; use model='exact'"
        assert text in str(caught.value)
    assert model.components_ is before
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(X)


def test_parameters_of_samples_that_count() -> None:
    X = documents()
    for count in (1, 2, 5, 9):
        assert tn.NOODL(count, model="counts").fit(X).n_components_ == count
    with pytest.warns(UserWarning, match="12 atoms were asked for, there are 9, .* no more atoms than features") as caught:
        tn.NOODL(12, model="counts").fit(X)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="5 atoms were asked for, there are 2, .* no more atoms than samples with events"):
        tn.NOODL(5, model="counts").fit(X[49:52])
    with pytest.raises(ValueError, match="the exact model is needed, because dict_init has atoms of unit length"):
        tn.NOODL(model="counts", dict_init=TEAMS).fit(X)
    with pytest.raises(ValueError, match="eta_a is 1, it must be None with the counts model"):
        tn.NOODL(model="counts", eta_a=1.0, passes=1).fit(X)
    fitted = tn.NOODL(model="counts").fit(X)
    with pytest.raises(ValueError, match="the counts model is needed, because the atoms so far were learned with it"):
        fitted.set_params(model="exact").partial_fit(X)
    with pytest.raises(TypeError, match="model is 3, it must be"):
        tn.NOODL(model=3).fit(X)  # type: ignore[arg-type]
