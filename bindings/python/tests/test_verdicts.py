"""Tests of what a model says about itself and about data: recipes that are chosen, surprises, warnings, news and stability."""

from __future__ import annotations

import copy
import csv
import os
import pickle
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray

import tensornoodl as tn

Array = np.ndarray

#: The mean numbers of tickets of nine kinds that an agent of each of three teams gets from a product of the team.
TEAMS = np.array([[4.0, 3, 2, 0.2, 0, 0, 0, 0, 0.5], [0, 0.2, 0, 4, 3, 3, 0, 0, 0.5], [0.2, 0, 0, 0, 0, 0.5, 5, 4, 0.5]])
KINDS = [f"kind {kind}" for kind in range(9)]
AGENTS = [f"agent {agent:02}" for agent in range(12)]
PRODUCTS = [f"product {product}" for product in range(6)]


def labelled(counts: Array, step: str | None = None) -> xarray.DataArray:
    coords: dict[str, Any] = {"kind": KINDS, "agent": AGENTS, "product": PRODUCTS}
    if step is not None:
        coords["week"] = step
    return xarray.DataArray(counts, dims=("kind", "agent", "product"), coords=coords)


def tickets(seed: int, rate: float = 1.0, teams: Array = TEAMS) -> Array:
    """Tickets of a week: four agents and two products belong to each team, and others hardly ever meet."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((9, 12, 6))
    for agent in range(12):
        for product in range(6):
            own = agent // 4 == product // 2
            counts[:, agent, product] = rng.poisson(rate * teams[agent // 4] * (1.0 if own else 0.02))
    return counts


def weeks(count: int, rate: float = 0.4) -> list[xarray.DataArray]:
    return [labelled(tickets(week, rate), f"week {week:02}") for week in range(count)]


def bursts(seed: int = 0, features: int = 30, rows: int = 40, cols: int = 12) -> Array:
    """Counts of three teams whose events come in bursts: where there are events, there may be one of them or hundreds."""
    rng = np.random.default_rng(seed)
    there = rng.random((features, rows, cols)) < 0.01
    for row in range(rows):
        part = slice(row % 3 * features // 3, (row % 3 + 1) * features // 3)
        there[part, row] |= rng.random((features // 3, cols)) < 0.5
    return np.where(there, np.ceil(np.exp(rng.normal(0, 1.75, there.shape))), 0.0)


@pytest.fixture(scope="module")
def learned() -> tn.TensorNOODL:
    """A model of sixteen weeks. Tests must copy it before they change it."""
    return tn.TensorNOODL(model="counts").fit(weeks(16))


def content(model: tn.TensorNOODL) -> bytes:
    """Return the bytes of the model file."""
    return model._fitted_model.__reduce__()[1][0]


# Recipes.


def test_a_recipe_has_a_reason() -> None:
    X = tickets(0)

    def chosen(n_patterns: Any = "auto", **params: Any) -> tuple[str | None, str]:
        model = tn.TensorNOODL(n_patterns, **params).fit(X)
        return model.recipe_, model.recipe_reason_

    assert tn.TensorNOODL().recipe == "auto"
    assert chosen(model="counts") == (None, "no damping predicts better where events are")
    assert chosen(3, model="counts") == (None, "no damping predicts better where events are")
    auto, plain = (tn.TensorNOODL(model="counts", recipe=recipe).fit(X) for recipe in ("auto", None))
    assert tn.match(auto.components_, plain.components_).error < 0.01 and auto.ladder_ == plain.ladder_
    assert len(auto.evidence_) == 3 and auto.evidence_.min() > 2.5
    assert chosen(model="counts", recipe=None) == chosen(model="counts", recipe="") == (None, "it was asked for")
    assert chosen(model="counts", recipe="sqrt") == ("sqrt", "it was asked for")
    assert chosen(3) == (None, "the exact model takes values as they are")
    assert chosen(3, recipe="log2,scale") == ("log2,scale", "it was asked for")
    with pytest.warns(UserWarning, match="There is a single pattern"):
        assert chosen(1, model="counts") == (None, "one pattern is the mean of the counts")


def test_bursts_are_damped(tmp_path: Path) -> None:
    X = bursts()
    model = tn.TensorNOODL(model="counts").fit(X)
    assert model.recipe_ in ("sqrt", "log2", "presence")
    assert model.recipe_reason_.startswith("that predicts better where events are (gain ")
    # Each team has its own third of the features.
    thirds = model.components_.reshape(model.n_patterns_, 3, 10).sum(axis=2)
    assert model.n_patterns_ == 3 and (thirds.max(axis=1) > 0.8).all() and set(thirds.argmax(axis=1)) == {0, 1, 2}
    assert [rung.patterns for rung in model.ladder_][:3] == [1, 2, 3]
    # The choice is the only difference from the same recipe, if it is given.
    given = tn.TensorNOODL(3, model="counts", recipe=model.recipe_).fit(X)
    assert np.array_equal(given.components_, model.components_)
    # A recipe that is given is kept.
    plain = tn.TensorNOODL(3, model="counts", recipe=None).fit(X)
    assert plain.recipe_ is None and not np.array_equal(plain.components_, model.components_)
    # Pickles have the reason; files have the recipe only.
    again = pickle.loads(pickle.dumps(model))
    assert (again.recipe, again.recipe_, again.recipe_reason_) == ("auto", model.recipe_, model.recipe_reason_)
    model.save(tmp_path / "model.safetensors")
    loaded = tn.load(tmp_path / "model.safetensors")
    assert (loaded.recipe, loaded.recipe_, loaded.recipe_reason_) == (model.recipe_, model.recipe_, "the model file has it")
    for other in (again, loaded):
        assert np.array_equal(other.transform(X).todense(), model.transform(X).todense())


def test_polish_takes_counts_as_they_are() -> None:
    X = bursts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tn.TensorNOODL(3, model="counts", polish=True).fit(X)
        given = tn.TensorNOODL(3, model="counts", polish=True, recipe="sqrt").fit(X)
    reason = "damped values are no products of patterns, rows and cols, which polish fits"
    assert (model.recipe_, model.recipe_reason_) == (None, reason)
    assert (given.recipe_, given.recipe_reason_) == ("sqrt", "it was asked for")


def test_learning_continues_with_the_recipe() -> None:
    first = tn.TensorNOODL(3, model="counts").fit([bursts(0)])
    assert first.recipe_ is not None
    on = tn.TensorNOODL(init=first).fit([bursts(1)])
    assert (on.recipe_, on.recipe_reason_) == (first.recipe_, "init was learned with it")
    whole = copy.copy(first).partial_fit([bursts(1)])
    assert (whole.recipe_, whole.recipe_reason_) == (first.recipe_, first.recipe_reason_)
    assert np.array_equal(on.components_, whole.components_)
    # The same recipe may be given.
    assert np.array_equal(tn.TensorNOODL(init=first, recipe=first.recipe_).fit([bursts(1)]).components_, on.components_)
    text = f"init was learned with the recipe '{first.recipe_}', it must be the same.* recipe='auto' takes that of init"
    for recipe in (None, "", "scale", "sqrt,log2"):
        with pytest.raises(ValueError, match=text):
            tn.TensorNOODL(init=first, recipe=recipe).fit([bursts(1)])


def test_a_stream_keeps_the_recipe_of_its_first_tensor() -> None:
    streams = [bursts(0), bursts(1)], [tickets(0), tickets(1)]
    for stream, damped in zip(streams, (True, False)):
        model = tn.TensorNOODL(3, model="counts").fit(stream)
        assert (model.recipe_ is not None) == damped
        steps = tn.TensorNOODL(3, model="counts").partial_fit(stream[0]).partial_fit(stream[1])
        assert steps.recipe_ == model.recipe_ and np.array_equal(steps.components_, model.components_)


def test_recipes_are_parameters() -> None:
    assert repr(tn.TensorNOODL()) == repr(tn.TensorNOODL(recipe="auto")) == "TensorNOODL()"
    assert repr(tn.TensorNOODL(recipe=None)) == "TensorNOODL(recipe=None)"
    for recipe in ("auto,log2", "automatic"):
        with pytest.raises(ValueError, match="auto"):
            tn.TensorNOODL(model="counts", recipe=recipe).fit(tickets(0))
    model = tn.TensorNOODL()
    for name in ("recipe_", "recipe_reason_", "warnings_", "news_", "stability_"):
        with pytest.raises(tn.NotFittedError):
            getattr(model, name)
    for call in (model.surprise, model.stability):
        with pytest.raises(tn.NotFittedError):
            call([])


# Surprises.


def anomaly() -> xarray.DataArray:
    """A week in which an agent gets 20 tickets of another team, and another agent, who is usually busy, gets none."""
    counts = tickets(16, 0.4)
    counts[4, 1, 5] += 20
    counts[:, 10, 4] = 0
    return labelled(counts, "week 16")


def test_a_planted_anomaly_is_found(learned: tn.TensorNOODL) -> None:
    X = anomaly()
    before = pickle.dumps(learned), content(learned)
    found = learned.surprise(X)
    assert (pickle.dumps(learned), content(learned)) == before
    worst = found[0]
    assert isinstance(worst, tn.Surprise)
    assert (worst.step, worst.row, worst.col, worst.significant) == ("week 16", "agent 01", "product 5", True)
    assert worst.events == X.sel(agent="agent 01", product="product 5").sum() >= 20
    assert worst.expected < 2 and worst.p_total < 1e-3
    assert isinstance(worst.too_many[0], tn.Excess)
    assert worst.too_many[0].feature == "kind 4" and worst.too_many[0].events == 20 and worst.too_many[0].expected < 1
    silent = next(it for it in found if (it.row, it.col) == ("agent 10", "product 4"))
    assert silent.events == 0 and silent.expected > 2 and silent.too_many == []
    # The worst comes first; few of the others are more than chance.
    smaller = [min(it.p_total, it.p_shape) for it in found]
    assert smaller == sorted(smaller) and 0 <= smaller[0] and smaller[-1] <= 1
    assert sum(it.significant for it in found) <= 2
    assert sum(it.significant for it in learned.surprise(labelled(tickets(16, 0.4)))) == 0
    table = pd.DataFrame(found)
    assert list(table.columns[:4]) == ["step", "row", "col", "events"] and len(table) == len(found)


def test_surprises_do_not_depend_on_the_kind_of_input(learned: tn.TensorNOODL) -> None:
    X = anomaly()
    found = learned.surprise(X)
    # An array without labels has the rows and cols of the model.
    plain = learned.surprise(X.values)
    assert [(it.row, it.col, it.p_total, it.p_shape) for it in plain] == [(it.row, it.col, it.p_total, it.p_shape) for it in found]
    assert {it.step for it in plain} == {"all"}
    # Each tensor of a stream is judged alone, as the next step.
    several = learned.surprise([X.values, labelled(tickets(17, 0.4)).values])
    assert {it.step for it in several} == {"1", "2"}
    first = [(it.row, it.col, it.p_total, it.p_shape, it.significant) for it in several if it.step == "1"]
    assert first == [(it.row, it.col, it.p_total, it.p_shape, it.significant) for it in found]
    assert learned.surprise(iter([X])) == found
    # Other places, and the order of the rows.
    assert learned.surprise(X[:, ::-1]) == found
    assert learned.surprise([]) == []
    for jobs in (1, 2):
        assert copy.copy(learned).set_params(n_jobs=jobs).surprise(X) == found


def test_surprises_are_refused_with_a_reason(learned: tn.TensorNOODL) -> None:
    X = anomaly()
    exact = tn.TensorNOODL(3).fit(tickets(0))
    with pytest.raises(ValueError, match="surprises need the counts model, and this one is exact; .* model='counts'"):
        exact.surprise(X)
    with pytest.raises(ValueError, match="'person 0' and col 'product 0', .* it must have rows and cols that the model knows"):
        learned.surprise(X.assign_coords(agent=[f"person {at}" for at in range(12)]))
    with pytest.raises(ValueError, match="needs whole numbers"):
        learned.surprise(X + 0.5)
    with pytest.raises(ValueError, match="feature"):
        learned.surprise(X.values[:5])
    with pytest.warns(UserWarning, match="cells have features that the model does not know; left out") as caught:
        learned.surprise(X.assign_coords(kind=[*KINDS[:8], "kind 99"]))
    assert len(caught) == 1 and caught[0].filename == __file__


def test_records_have_the_surprises_of_their_step(learned: tn.TensorNOODL, tmp_path: Path) -> None:
    X = anomaly()
    judged = [it for it in learned.surprise(X) if it.significant]
    assert all(step["surprises"] == [] for step in learned.history_)
    records: list[dict[str, Any]] = []
    model = copy.copy(learned).set_params(callback=records.append).partial_fit(X)
    assert judged and model.history_[-1]["surprises"] == records[-1]["surprises"] == judged
    model.save(tmp_path / "model.safetensors")
    for again in (tn.load(tmp_path / "model.safetensors"), copy.copy(model)):
        assert again.history_ == model.history_
    # What was judged as the next step is not what it is after it was learned.
    assert model.surprise(X) != learned.surprise(X)
    assert tn.TensorNOODL(3).fit(tickets(0)).history_[-1]["surprises"] == []


# Warnings and news.


def warned(model: tn.TensorNOODL, X: Any) -> list[str]:
    """Return the warnings of ``fit``, which must be those of ``warnings_`` and name the line that called it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    assert [str(it.message) for it in caught] == model.warnings_
    assert all(it.filename == __file__ and it.category is UserWarning for it in caught)
    # Remedies are spelled as in Python.
    assert not any("--" in text or "noodl " in text for text in model.warnings_)
    return model.warnings_


def test_a_doubtful_model_warns_and_the_advice_helps(learned: tn.TensorNOODL) -> None:
    X = tickets(0)
    assert learned.warnings_ == warned(tn.TensorNOODL(model="counts"), X) == []
    many = warned(tn.TensorNOODL(9, model="counts"), X)
    assert many[0] == (
        "9 patterns for 9 features describe the features and not what they have in common. "
        "Try n_patterns=5 or fewer, or an axis with more features."
    )
    assert not any(" features describe " in text for text in warned(tn.TensorNOODL(5, model="counts"), X))
    unused = warned(tn.TensorNOODL(4, model="counts"), X)
    assert unused == ["1 of 4 patterns occurs at no place. Try n_patterns=3 or fewer."]
    assert warned(tn.TensorNOODL(3, model="counts"), X) == []
    # A table of counts, and the exact model.
    lines = [(at, *place) for *place, at in np.argwhere(np.ones((12, 6, 9))) for _ in range(int(X[(at, *place)]))]
    table = pd.DataFrame(lines, columns=["kind", "agent", "product"])
    events = tn.from_events(table, feature="kind", row="agent", col="product")
    exact = warned(tn.TensorNOODL(1, model="exact"), events)
    assert exact[0].endswith(" Try model='counts' without a recipe, because the cells count events.")
    assert warned(tn.TensorNOODL(), events) == []


def test_warnings_of_data_that_patterns_do_not_explain() -> None:
    rng = np.random.default_rng(0)
    chance = rng.poisson(0.7, (30, 20, 10)).astype(float)
    little = warned(tn.TensorNOODL(4, model="counts"), chance)
    assert [text for text in little if text.startswith("The patterns explain only")], little
    assert little[-1].endswith("of the deviance. Try rows and cols that have more events at each place.")
    single = warned(tn.TensorNOODL(model="counts"), chance)
    assert single == [
        "There is a single pattern, so that all places look alike. Try rows and cols that have more events at each place."
    ]
    stream = warned(tn.TensorNOODL(model="counts"), list(rng.poisson(0.7, (3, 30, 20, 10)).astype(float)))
    assert stream[0].endswith(" Try one tensor instead of a stream, or rows and cols that have more events at each place.")
    noisy = tn.Planted(features=40, patterns=12, rows=30, cols=25, alpha=0.15, beta=0.15, noise=1.0).tensor(1)
    model = tn.TensorNOODL(2)
    exact = warned(model, noisy)
    share = round(100 * (1 - model.history_[-1]["fit"] ** 2))
    advice = "Try another number of patterns; 1 - fit**2 in history_ is what it explains."
    assert exact == [f"The patterns explain only {share} % of the energy. {advice}"]
    # Steps of a stream do not warn, because more may follow.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = tn.TensorNOODL(model="counts").partial_fit(chance)
    assert model.warnings_


def test_an_end_and_a_change_are_news(learned: tn.TensorNOODL) -> None:
    assert learned.news_ == []
    ended = copy.copy(learned)
    for week in range(16, 36):
        counts = tickets(week, 0.4)
        counts[:, 8:] = 0
        ended.partial_fit(labelled(counts, f"week {week:02}"))
    last = int(np.argmax(learned.components_ @ TEAMS[2]))
    assert ended.news_ == [f"pattern {last + 1} was not seen since week 15"]
    changed = copy.copy(learned).partial_fit(labelled(tickets(16, 0.4, TEAMS[:, [6, 3, 0, 7, 1, 4, 2, 5, 8]]), "week 16"))
    assert len(changed.news_) == 1
    assert changed.news_[0].startswith("in week 16 the patterns explained ") and changed.news_[0].endswith(": something changed")


# Stability.


def test_planted_patterns_are_stable(tmp_path: Path) -> None:
    X = tickets(0, 2.0)
    model = tn.TensorNOODL(model="counts").fit(X)
    assert model.stability_ is None
    patterns, history = model.components_, model.history_
    stable = model.stability(X, seeds=2)
    assert isinstance(stable, tn.Stability) and stable == model.stability_
    assert [(it.seed, it.patterns) for it in stable.seeds] == [(1, 3), (2, 3)]
    assert all(isinstance(it, tn.Repeat) and 0.99 < it.agreement <= 1 for it in stable.seeds)
    assert stable.seeds_agreement == pytest.approx(np.mean([it.agreement for it in stable.seeds]))
    assert stable.halves == (3, 3) and 0.97 < stable.halves_agreement <= 1
    assert str(stable) == stable.sentence and str(stable).startswith("seeds agree: 1.00 (3, 3 patterns); halves agree: ")
    # The patterns are as before, and nothing is doubtful.
    assert np.array_equal(model.components_, patterns) and model.history_ == history and model.warnings_ == []
    # Files and pickles have it.
    model.save(tmp_path / "model.safetensors")
    for again in (tn.load(tmp_path / "model.safetensors"), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert again.stability_ == stable
    # It is about the patterns of the last step.
    assert copy.copy(model).partial_fit(tickets(1, 2.0)).stability_ is None
    assert model.fit(X).stability_ is None
    # Without other seeds, there are the halves.
    halves = model.stability(X, seeds=0)
    assert (halves.seeds, halves.seeds_agreement) == ([], None)
    assert (halves.halves, halves.halves_agreement) == (stable.halves, stable.halves_agreement)
    assert str(halves).startswith("halves agree: ")


def test_the_stability_of_a_stream(learned: tn.TensorNOODL) -> None:
    bits = set()
    for jobs in (1, 2):
        model = copy.copy(learned).set_params(n_jobs=jobs)
        found = model.stability(weeks(16), seeds=np.int64(1))
        assert found.seeds[0].patterns == 3 and found.seeds[0].agreement > 0.98 and found.halves_agreement > 0.95
        bits.add(content(model))
    assert len(bits) == 1 and bits != {content(learned)}
    # Any kind of stream, one tensor after the other.
    steps = tn.TensorNOODL(model="counts")
    for week in weeks(16):
        steps.partial_fit(week)
    assert steps.stability(iter(weeks(16)), seeds=1) == found


@pytest.mark.parametrize("params", [{}, {"polish": True}, {"model": "counts"}, {"model": "counts", "recipe": "sqrt"}])
def test_the_stability_of_other_models(params: dict[str, Any]) -> None:
    X = tickets(0, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tn.TensorNOODL(3, **params).fit(X)
        found = model.stability(X, seeds=1)
    assert found.seeds[0].patterns == 3 and found.seeds[0].agreement > 0.95
    assert found.halves == (3, 3) and found.halves_agreement > 0.9


def test_chance_is_not_stable() -> None:
    chance = np.random.default_rng(0).poisson(0.1, (30, 20, 10)).astype(float)
    with pytest.warns(UserWarning, match="The patterns explain only"):
        model = tn.TensorNOODL(6, model="counts").fit(chance)
    with pytest.warns(UserWarning) as caught:
        found = model.stability(chance, seeds=2)
    texts = [str(it.message) for it in caught]
    assert texts == [
        f"Other seeds find other patterns: their agreement is {found.seeds_agreement:.2f}. "
        "Trust only the patterns that come again (tensornoodl.match).",
        f"The halves of the places have different patterns: their agreement is {found.halves_agreement:.2f}. "
        "Try more data, and trust the patterns for this table only.",
    ]
    assert all(it.filename == __file__ for it in caught)
    # They are warnings of the model from now on.
    assert model.warnings_[-2:] == texts


def test_stability_is_refused_with_a_reason(learned: tn.TensorNOODL) -> None:
    model = copy.copy(learned)
    before = content(model)

    def refuse(text: str, X: Any, **params: Any) -> None:
        with pytest.raises(ValueError, match=text):
            model.stability(X, **params)

    stream = weeks(16)
    refuse("15 tensors are given, the model has learned from 16: stability needs all of them, in their order", stream[:15])
    refuse("1 tensors are given, the model has learned from 16", stream[0])
    refuse("0 tensors are given", [])
    for seeds in (True, False, -1, 1.0, "1", None, 2**32):
        refuse("seeds is .*, it must be a whole number, at least 0 and below 2\\*\\*32", stream, seeds=seeds)
    few = stream[3].copy()
    few[:, 0] = 0
    refuse("the tensor of step 'week 03' has .* places, .* the model has learned from, which has", [*stream[:3], few, *stream[4:]])
    other = stream[3].assign_coords(product=[*PRODUCTS[:5], "product 9"])
    refuse("the tensor of step 'week 03' has the col 'product 9', .* no such col", [*stream[:3], other, *stream[4:]])
    refuse("needs whole numbers", [stream[0] + 0.5, *stream[1:]])
    # Parameters of another model.
    model.set_params(model="exact")
    refuse("model is 'exact', it must be 'counts' or 'auto'", stream)
    model.set_params(model="auto", eta_a=1.0)
    refuse("eta_a is 1, it must be None with the counts model", stream)
    assert model.stability_ is None and content(model) == before


def test_stability_needs_patterns_that_were_found(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    stream = [planted.tensor(6), planted.tensor(7)]
    for init in (planted.patterns, fitted):
        model = tn.TensorNOODL(init=init).fit(stream)
        with pytest.raises(ValueError, match="init is given, it must be None: stability needs"):
            model.stability(stream)
        # The parameter may have gone, but the model has not changed.
        with pytest.raises(ValueError, match="the model began with init: stability needs"):
            model.set_params(init=None).stability(stream)
    found = tn.TensorNOODL().fit(stream)
    assert found.stability(stream, seeds=1).seeds_agreement == pytest.approx(1)


# The program.


@pytest.mark.skipif("NOODL" not in os.environ, reason="the environment variable NOODL does not name the program")
def test_the_program_says_the_same(tmp_path: Path) -> None:
    noodl, table, path = os.environ["NOODL"], tmp_path / "table.csv", tmp_path / "program.safetensors"
    X = bursts()
    lines = [place for place in np.argwhere(X > 0) for _ in range(int(min(X[tuple(place)], 300)))]
    names = ["kind", "agent", "product"]
    pd.DataFrame(lines, columns=names).to_csv(table, index=False)
    axes = ["--feature", "kind", "--row", "agent", "--col", "product"]
    said = subprocess.run(
        [noodl, "learn", table, *axes, "--stability", "2", "-o", path], check=True, capture_output=True, text=True
    )
    theirs = tn.load(path)
    events = tn.from_events(table, **dict(zip(("feature", "row", "col"), names)))
    ours = tn.TensorNOODL().fit(events)
    assert ours.recipe_ is not None and theirs.recipe_ == ours.recipe_
    assert f"the counts are damped by {ours.recipe_}, because {ours.recipe_reason_}" in said.stderr
    assert np.array_equal(theirs.components_, ours.components_) and theirs.history_ == ours.history_
    stable = ours.stability(events, seeds=2)
    assert theirs.stability_ == stable and str(stable) in said.stdout
    assert theirs.warnings_ == ours.warnings_
    judged = tmp_path / "judged.csv"
    subprocess.run([noodl, "encode", path, table, "--surprise", "-o", judged], check=True)
    found = ours.surprise(events)
    with judged.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["row"], row["col"]) for row in rows] == [(it.row, it.col) for it in found]
    assert [float(row["events"]) for row in rows] == [it.events for it in found]
