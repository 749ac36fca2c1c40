"""Tests of inputs: the result does not depend on the type that holds a tensor."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import pyttb
import sparse
import xarray

import tensornoodl as tn
from tensornoodl import _inputs
from tensornoodl._inputs import as_tensor


def kinds(tensor: tn.Tensor) -> dict[str, object]:
    dense = tensor.todense()
    coo = tensor.to_sparse()
    reversed_twice = np.ascontiguousarray(dense[:, ::-1])[:, ::-1]
    wide = np.zeros((*dense.shape, 2))
    wide[..., 0] = dense
    read_only = dense.copy()
    read_only.flags.writeable = False
    return {
        "C order": dense,
        "F order": np.asfortranarray(dense),
        "negative strides": reversed_twice,
        "every second value": wide[..., 0],
        "read only": read_only,
        "big endian": dense.astype(">f8"),
        "nested lists": dense.tolist(),
        "sparse": coo,
        "sparse GCXS": sparse.GCXS.from_coo(coo),
        "sparse DOK": sparse.DOK.from_coo(coo),
        "sptensor": pyttb.sptensor(coo.coords.T.copy(), coo.data[:, None], coo.shape),
        "coords": (coo.coords, coo.data, coo.shape),
        "coords, shuffled": (coo.coords[:, ::-1], coo.data[::-1], coo.shape),
        "fibers": (tensor.fibers, tensor.places, tensor.shape[1:]),
        "fibers, F order": (np.asfortranarray(tensor.fibers), tensor.places.astype(np.int32), tensor.shape[1:]),
        "fibers, places as lists": (np.array(tensor.fibers), tensor.places.tolist(), tensor.shape[1:]),
        "xarray": xarray.DataArray(dense, dims=("f", "r", "c")),
        "xarray, sparse": xarray.DataArray(coo, dims=("f", "r", "c")),
        "xarray, sparse GCXS": xarray.DataArray(sparse.GCXS.from_coo(coo), dims=("f", "r", "c")),
        "pickled": pickle.loads(pickle.dumps(tensor)),
    }


def test_every_kind_of_tensor_gives_the_same_bits(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    tensor = planted.tensor(9)
    expected = copy.copy(fitted).partial_fit(tensor).components_
    assert not np.array_equal(expected, fitted.components_)
    for name, kind in kinds(tensor).items():
        model = copy.copy(fitted).partial_fit(kind)
        assert np.array_equal(model.components_, expected), name
        assert np.array_equal(fitted.transform(kind).todense(), fitted.transform(tensor).todense()), name


def test_single_precision_and_whole_numbers_are_accepted(fitted: tn.TensorNOODL, planted: tn.Planted) -> None:
    tensor = planted.tensor(9)
    single = fitted.transform(tensor.todense().astype(np.float32))
    assert np.abs(single.todense() - fitted.transform(tensor).todense()).max() < 1e-5
    fibers = fitted.transform((tensor.fibers.astype(np.float32), tensor.places, (30, 25)))
    assert np.array_equal(fibers.todense(), single.todense())
    counts = np.zeros((3, 4, 5), dtype=np.int64)
    counts[1, 2, 3] = 7
    assert as_tensor(counts).fibers.tolist() == [[0.0, 7.0, 0.0]]
    assert as_tensor(counts.astype(bool)).fibers.tolist() == [[0.0, 1.0, 0.0]]


def test_memory_is_shared_where_possible(planted: tn.Planted) -> None:
    fibers = np.random.default_rng(0).normal(size=(12, 7))
    places = np.array([(j, k) for k in range(3) for j in range(4)])
    tensor = tn.from_fibers(fibers, places)
    assert np.shares_memory(tensor.fibers, fibers)
    assert not tensor.fibers.flags.writeable and fibers.flags.writeable
    dense = np.asfortranarray(tensor.todense())
    assert np.shares_memory(as_tensor(dense).fibers, dense)
    assert not np.shares_memory(as_tensor(np.ascontiguousarray(dense)).fibers, dense)
    assert np.array_equal(np.asarray(tensor), tensor.todense())
    # The user may change the shape of the array afterwards.
    given = np.ones((2, 3))
    kept = tn.from_fibers(given, [[0, 0], [1, 0]])
    given.shape = (3, 2)
    assert kept.fibers.shape == (2, 3) and kept.todense().shape == (3, 2, 1)
    # Zero fibers are left out, so the others must be copied.
    dense[:, 2, 1] = 0
    assert len(as_tensor(dense).fibers) == 11


def test_labels_come_from_xarray_for_any_order_of_dimensions(planted: tn.Planted) -> None:
    tensor = planted.tensor(1)
    n, rows, cols = tensor.shape
    months = np.arange("2001-01", "2004-05", dtype="datetime64[M]").astype("datetime64[ns]")
    array = xarray.DataArray(
        tensor.todense().transpose(2, 0, 1),
        dims=("to", "month", "from"),
        coords={"month": months, "from": [f"p{j}" for j in range(rows)], "to": [f"q{k}" for k in range(cols)]},
    )
    assert n == 40
    model = tn.TensorNOODL(dims=("month", "from", "to")).fit(array)
    plain = tn.TensorNOODL().fit(tensor)
    assert np.array_equal(model.components_, plain.components_)
    assert model.feature_labels_[:2] == ["2001-01-01", "2001-02-01"]
    assert model.row_labels_[3] == "p3" and model.col_labels_[-1] == f"q{cols - 1}"
    assert model.to_xarray().attrs == {"feature": "day(month)", "row": "from", "col": "to"}
    # A fourth dimension is the stream.
    stream = xarray.concat([array, array], dim="week").assign_coords(week=["first", "second"])
    streamed = tn.TensorNOODL(dims=("month", "from", "to")).fit(stream)
    assert streamed.step_labels_ == ["first", "second"]


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (np.zeros((3, 4)), ValueError, "the array has 2 dimensions, it must have 3: features, rows and cols"),
        (np.zeros((2, 2, 2), complex), TypeError, "the array has values of type complex128, they must be real numbers"),
        (np.array([[["a"]]]), TypeError, "the array has values of type <U1, they must be real numbers"),
        (
            np.full((2, 2, 2), np.nan),
            ValueError,
            "the value at feature 0 of the fiber at row 0, col 0 is NaN: values must be finite, at most 1e100",
        ),
        (np.full((2, 2, 2), 1e200), ValueError, "values must be finite, at most 1e100"),
        (np.zeros((0, 2, 2)), ValueError, "the shape is 0 x 2 x 2: every axis must have 1 to 4294967295 entries"),
        ((1, 2, 3, 4), ValueError, "a tuple of 4 is given"),
        (([[0], [0], [9]], [1.0], (2, 2, 2)), ValueError, "entry 0 is at feature 0, row 0, col 9, outside the shape 2 x 2 x 2"),
        (([[0], [0], [-1]], [1.0], (2, 2, 2)), ValueError, "coordinates must be 0 or more"),
        (([[0], [0]], [1.0], (2, 2, 2)), ValueError, "coordinates have the shape [2, 1], it must be [3, 1]"),
        (([[0.5], [0], [0]], [1.0], (2, 2, 2)), TypeError, "coords has values of type float64, they must be whole numbers"),
        ((np.ones((2, 3)), [[0, 0], [0, 0]]), ValueError, "the fiber at row 0, col 0 is given twice: a place has one fiber"),
        ((np.ones((2, 3)), [[0, 0]]), ValueError, "places have the shape [1, 2], it must be [2, 2]"),
        ((np.ones((1, 3)), [[-1, 0]]), ValueError, "places must be from 0 to 4294967294"),
        (([[0], [0], [0]], [1.0], (2, 10**9, 2)), ValueError, "an axis without labels may have 10000000 entries"),
        (np.ones((2, 2, 0)), ValueError, "the shape is 2 x 2 x 0"),
        (np.ma.masked_less(np.ones((2, 2, 2)), 0), TypeError, "the array is masked, which is not supported"),
        ((np.ones((1, 3)), [[5, 0]], (2, 2)), ValueError, "the fiber at row 5, col 0 is outside the shape 3 x 2 x 2"),
        ((np.ones((1, 3)), [[0, 0]], (3, 2, 2)), ValueError, "it must have 2 numbers: rows and cols"),
        (([[0], [0], [0]], [1.0], (2, 2.7, 2)), TypeError, "float"),
        (object(), TypeError, "the tensor is of type object, it must be an array of features x rows x cols"),
        (None, TypeError, "the tensor is of type NoneType, it must be an array of features x rows x cols"),
        ({"a": np.ones((2, 2, 2))}, TypeError, "the tensor is of type dict, it must be an array"),
        ([None], TypeError, "fit and partial_fit also take a stream of them: a list or an iterator"),
        (np.array(3), ValueError, "the array has 0 dimensions"),
        ("a.csv", TypeError, "the tensor is of type str: tensornoodl.from_events makes tensors of tables and of CSV and Parquet files"),
        (b"a.csv", TypeError, "the tensor is of type bytes: tensornoodl.from_events"),
        (Path("a.csv"), TypeError, "Path: tensornoodl.from_events"),
        (["a.csv", "b.csv"], TypeError, "the tensor is of type str: tensornoodl.from_events"),
        (pd.DataFrame({"a": [1]}), TypeError, "DataFrame: tensornoodl.from_events"),
        ([], ValueError, "the stream has no tensor to learn from"),
        ((), ValueError, "the stream has no tensor to learn from"),
        (iter([]), ValueError, "the stream has no tensor to learn from"),
        ((np.ones((2, 2, 2)),) * 2, ValueError, "a tuple of 2 is given that begins with a tensor; a stream of tensors is a list"),
        ((sparse.COO(np.ones((2, 2, 2))),) * 3, ValueError, "a tuple of 3 is given that begins with a tensor; a stream"),
        (sparse.COO(np.ones((2, 2, 2)), fill_value=1.0), ValueError, "the fill value is 1.0, it must be 0"),
        (sparse.DOK((2, 2, 2), fill_value=1.0), ValueError, "the fill value is 1.0, it must be 0"),
        (
            xarray.DataArray(sparse.COO(np.ones((2, 2, 2)), fill_value=1.0), dims=("f", "r", "c")),
            ValueError,
            "the fill value is 1.0, it must be 0",
        ),
    ],
)
def test_inputs_that_are_not_tensors_are_refused(wrong: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        tn.TensorNOODL().fit(wrong)
    assert text in str(caught.value)


def test_a_stream_is_refused_where_one_tensor_is_needed(planted: tn.Planted, fitted: tn.TensorNOODL) -> None:
    dense = planted.tensor(1).todense()
    for ask in (tn.TensorNOODL().fit_transform, fitted.transform):
        with pytest.raises(TypeError, match="the tensor is of type generator, it must be an array .* fit and partial_fit also take"):
            ask(dense for _ in range(2))
        with pytest.raises(ValueError, match="a stream of 2 tensors is given, one is needed, such as the first"):
            ask([dense, dense])
        with pytest.raises(ValueError, match="a stream of 0 tensors is given, one is needed$"):
            ask([])
    # A list of one tensor is accepted, and so is a list of matrices.
    for clear in ([dense], list(dense)):
        assert np.array_equal(fitted.transform(clear).todense(), fitted.transform(dense).todense())


@pytest.mark.parametrize(
    ("n_jobs", "cores", "threads"), [(None, 8, 0), (-1, 8, 0), (-2, 8, 7), (np.int64(-8), 8, 1), (-99, 8, 1), (-2, 1, 1), (3, 8, 3)]
)
def test_threads_are_counted_as_joblib_does(
    n_jobs: int | None, cores: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_inputs, "_cores", lambda: cores)
    assert _inputs.jobs_of(n_jobs) == threads


def test_all_cores_but_one_learn_the_same(planted: tn.Planted) -> None:
    assert 1 <= _inputs._cores() <= (os.cpu_count() or 1)
    models = [tn.TensorNOODL(n_jobs=jobs).fit(planted.tensor(1)) for jobs in (-1, -2)]
    assert np.array_equal(models[0].components_, models[1].components_)


def test_labels_must_be_distinct_and_match_the_shape() -> None:
    fibers = np.ones((1, 2))
    with pytest.raises(ValueError, match='two of the row labels are "a"'):
        tn.from_fibers(fibers, [[0, 0]], rows=["a", "a"])
    with pytest.raises(ValueError, match="1 labels of features given, 2 needed"):
        tn.from_fibers(fibers, [[0, 0]], features=["a"])
