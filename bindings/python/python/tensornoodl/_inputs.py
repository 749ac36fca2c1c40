"""Conversion of inputs: arrays, sparse arrays, labelled arrays, fibers and tables of events to tensors; parameters to options."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._core import Codes, Events, Match, Tensor

Floats = NDArray[np.float64]

#: Names of the axes of a labelled array: feature, row, col.
Dims = Sequence[str]


class HasItems(Protocol):
    """A mapping, or a pandas Series."""

    def items(self) -> Iterable[tuple[Any, Any]]: ...


class NotFittedError(ValueError, AttributeError):
    """A result was requested before ``fit``."""


def not_fitted(what: str) -> Exception:
    """Return the error of an estimator that is not fitted. If scikit-learn is imported, it is also scikit-learn's NotFittedError."""
    error: type[Exception] = NotFittedError
    if "sklearn" in sys.modules:
        from sklearn.exceptions import NotFittedError as Theirs

        error = type("NotFittedError", (NotFittedError, Theirs), {})
    return error(f"this {what} has learned nothing yet: call fit or partial_fit first")


def from_events(
    table: Any,
    *,
    feature: str,
    row: str,
    col: str,
    step: str | None = None,
    value: str = "count",
    where: str | Sequence[str] = (),
    average_over: str | None = None,
    keep_rows: int | None = None,
    max_features: int | None = None,
    square: bool = False,
    names: str | HasItems | None = None,
    groups: str | HasItems | None = None,
) -> Events:
    """Count the events of a table into a stream of labelled tensors.

    Parameters
    ----------
    table
        Anything with an Arrow C stream, such as a DataFrame of pandas (which needs pyarrow) or Polars, or a pyarrow table; or the path
        of a CSV file (optionally compressed by gzip) or a Parquet file.
    feature, row, col
        The three axes: what a pattern extends over, who takes part, and with whom. Each is a column or an expression: ``month(c)``, ``week(c)``, ``day(c)``,
        ``hour(c)``, ``weekday(c)``, ``weekhour(c)``, ``every(c,20min)``, ``slot(c,20min)``, ``bin(c,10)``, ``grid(x,y,12x10)``, ``court(x,y,12x10)``.
    step
        The axis of the stream, one tensor for each of its values; None for a single tensor. Times are taken as they are written; times
        with a time zone are converted to UTC.
    value
        The value of a cell: ``count``, ``sum(column)`` or ``mean(column)``. Counts get the counts model, unless they are averaged or a
        recipe makes other values of them.
    where
        One or more conditions that events must meet, such as ``"points>=2"`` or ``"sender!=@receiver"`` (@ marks a column).
    average_over
        A column; each cell is divided by the number of distinct values of this column at its place.
    keep_rows
        The number of rows to keep; those with the most events are kept.
    max_features
        The largest number of features; more are refused. None for 1,000,000; for times and bins, which also have the labels between
        those with events, None is for 10,000, or for ten times the number of labels with events if that is more.
    square
        Whether rows and cols are the same set: both axes then get the labels of both.
    names, groups
        Names of the rows and cols, and the groups that they are known to belong to: a mapping, such as a dictionary or a pandas
        Series, or a column of a second table, such as ``"people.csv(id,name)"``.
    """
    filters = [where] if isinstance(where, str) else list(where)
    path = os.fspath(table) if isinstance(table, (str, os.PathLike)) else None
    source: Any = path
    if path is None:
        if _is_of(table, "polars", "LazyFrame"):
            raise TypeError(f"the table is of type {_type_name(table)}, which is not computed yet: call collect() first")
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(
                f"the table is of type {_type_name(table)}, it must be a path, or have an Arrow C stream, as DataFrames of pandas and "
                "Polars and tables of pyarrow have"
            )
        source = table
    return _core.from_events(
        source,
        feature=feature,
        row=row,
        col=col,
        step=step,
        value=value,
        filters=filters,
        average_over=average_over,
        keep_rows=None if keep_rows is None else _count("keep_rows", keep_rows),
        max_features=None if max_features is None else _count("max_features", max_features),
        square=square,
        names=_label_map(names),
        groups=_label_map(groups),
    )


def from_fibers(
    fibers: ArrayLike,
    places: ArrayLike,
    shape: tuple[int, int] | None = None,
    *,
    features: Iterable[object] | None = None,
    rows: Iterable[object] | None = None,
    cols: Iterable[object] | None = None,
    step: str | None = None,
) -> Tensor:
    """Return the tensor with these fibers (p x n) at these places (p x 2: row and col).

    ``shape`` has the numbers of rows and cols; without it, the labels or the largest row and col determine them. Fibers in C order,
    float64, are not copied.
    """
    array = _floats("fibers", fibers, 2)
    at = _ints("places", places, 2)
    labels = (_labels(features), _labels(rows), _labels(cols))
    if shape is not None and len(shape) != 2:
        raise ValueError(f"the shape is {tuple(shape)}, it must have 2 numbers: rows and cols")
    lengths = [None if names is None else len(names) for names in labels[1:]] if shape is None else shape
    return Tensor.from_fibers(array, at, lengths[0], lengths[1], labels=labels, step=step)


def match(found: ArrayLike, truth: ArrayLike) -> Match:
    """Assign found patterns to true ones (both m x n), and measure their error up to order and sign."""
    return Match(_floats("found", found, 2), _floats("truth", truth, 2))


def as_tensor(X: Any, dims: Dims | None = None) -> Tensor:
    """Convert anything that holds one tensor to a tensor of n features x J rows x K cols."""
    if isinstance(X, Tensor):
        return X
    if isinstance(X, Events) or _is_stream(X):
        if len(X) != 1:
            such = ", such as the first, [0]" if len(X) else ""
            raise ValueError(f"a stream of {len(X)} tensors is given, one is needed{such}")
        return as_tensor(X[0], dims)
    if _is_of(X, "xarray", "DataArray"):
        return _from_xarray(X, dims)
    if isinstance(X, tuple):
        if _is_array(X[0]):
            raise ValueError(
                f"a tuple of {len(X)} is given that begins with a tensor; a stream of tensors is a list, [first, second]"
            )
        if len(X) == 2 or (len(X) == 3 and np.ndim(X[1]) == 2):
            return from_fibers(*X)
        if len(X) == 3:
            coords, values, shape = X
            return _from_coords(coords, values, shape)
        raise ValueError(
            f"a tuple of {len(X)} is given, it must be (coords, values, shape), (fibers, places) or (fibers, places, shape)"
        )
    # pyttb.sptensor.
    if hasattr(X, "subs") and hasattr(X, "vals"):
        return _from_coords(np.asarray(X.subs).T, np.asarray(X.vals)[:, 0], X.shape)
    if isinstance(X, Codes):
        raise TypeError("codes are given, a tensor is needed: inverse_transform makes one of them")
    coo = _coo(X)
    if coo is not None:
        return _from_coords(coo.coords, coo.data, coo.shape)
    if isinstance(X, (str, bytes, os.PathLike)) or hasattr(X, "__arrow_c_stream__"):
        raise TypeError(
            f"the tensor is of type {_type_name(X)}: tensornoodl.from_events makes tensors of tables and of CSV and Parquet files, "
            "numpy.load reads arrays"
        )
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.ndim == 0 and array is not X:
        raise TypeError(
            f"the tensor is of type {_type_name(X)}, it must be an array of features x rows x cols, a sparse.COO, (coords, values, shape), "
            "(fibers, places) or an xarray.DataArray; fit and partial_fit also take a stream of them: a list or an iterator"
        )
    if array.ndim != 3:
        raise ValueError(
            f"the array has {array.ndim} dimensions, it must have 3: features, rows and cols"
        )
    return Tensor.from_dense(_as_float("the array", array))


def as_codes(X: Any) -> Codes:
    """Convert anything that holds one tensor to codes of m patterns x J rows x K cols."""
    return X if isinstance(X, Codes) else Codes.from_tensor(as_tensor(X))


def as_stream(X: Any, dims: Dims | None = None) -> tuple[Iterator[Tensor], int | None, bool]:
    """Return the tensors of a stream or of a single tensor, their number if it is known, and whether the input is a stream."""
    if isinstance(X, Events):
        return (X[t] for t in range(len(X))), len(X), X.is_stream
    if _is_of(X, "xarray", "DataArray") and dims is not None and X.ndim == 4 and set(dims) <= set(X.dims):
        for along in set(X.dims) - set(dims):
            parts = (X.isel({along: t}) for t in range(X.sizes[along]))
            return (as_tensor(part, dims) for part in parts), X.sizes[along], True
    if _is_stream(X) or (isinstance(X, list) and not isinstance(X[0], (list, int, float))):
        return (as_tensor(one, dims) for one in X), len(X), True
    # A generator, or any other iterable that is not a tensor itself.
    not_streams = (Tensor, list, tuple, str, bytes, Mapping)
    if isinstance(X, Iterable) and not isinstance(X, not_streams) and not hasattr(X, "shape"):
        return (as_tensor(one, dims) for one in X), None, True
    return iter([as_tensor(X, dims)]), 1, False


def _is_stream(X: Any) -> bool:
    """Whether the input certainly is a list of tensors; an empty list is one, too."""
    if not isinstance(X, (list, tuple)) or not X:
        return isinstance(X, (list, tuple))
    return isinstance(X[0], Tensor) or (isinstance(X, list) and _is_array(X[0]))


def _is_array(X: Any) -> bool:
    """Whether the input is an array of three dimensions, of NumPy or another package."""
    return isinstance(X, Tensor) or getattr(X, "ndim", None) == 3


def _coo(X: Any) -> Any:
    """Convert an array of the package sparse to COO; return None for anything else."""
    if isinstance(X, np.ndarray):
        return None
    if not hasattr(X, "coords"):
        # sparse.GCXS and sparse.DOK.
        convert = getattr(X, "tocoo", getattr(X, "to_coo", None))
        X = X if convert is None else convert()
    if not (hasattr(X, "coords") and hasattr(X, "data") and hasattr(X, "shape")):
        return None
    fill = getattr(X, "fill_value", 0)
    if fill != 0:
        raise ValueError(f"the fill value is {fill}, it must be 0")
    return X


def seed_of(random_state: Any) -> int:
    """Return the seed; a generator draws one, which changes its state."""
    if random_state is None:
        return 0
    if isinstance(random_state, (int, np.integer)):
        if not 0 <= random_state < 2**64:
            raise ValueError(f"random_state is {random_state}, it must be at least 0 and below 2**64")
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise TypeError(
        f"random_state is of type {_type_name(random_state)}, it must be a whole number, None, or a generator of NumPy"
    )


def options(
    *,
    model: str,
    patterns: int | str,
    passes: int | str | None,
    eta_a: float | None,
    eta_x: float,
    tau: float,
    code_floor: float,
    forgetting: float,
    random_state: Any,
    n_jobs: int | None,
    stream: bool,
    name: str,
    polish: bool = False,
) -> dict[str, Any]:
    """Return the parameters as the core takes them; ``name`` is the name of the parameter ``patterns`` in messages."""
    if not isinstance(model, str):
        raise TypeError(f"model is {model!r}, it must be 'auto', 'counts' or 'exact'")
    count = None if isinstance(patterns, str) and patterns == "auto" else _count(name, patterns)
    if polish and stream:
        raise ValueError("polish is True, it must be False for a stream: rows and cols change from step to step; use fit with one tensor")
    if passes is None:
        # A single tensor is passed over until the patterns no longer improve.
        pass_count = 1 if stream else None if eta_a is None else 100
    else:
        pass_count = None if isinstance(passes, str) and passes == "auto" else _count("passes", passes)
    return {
        "model": model,
        "patterns": count,
        "passes": pass_count,
        "eta_a": None if eta_a is None else _real("eta_a", eta_a),
        "eta_x": _real("eta_x", eta_x),
        "tau": _real("tau", tau),
        "code_floor": _real("code_floor", code_floor),
        "forgetting": _real("forgetting", forgetting),
        "seed": seed_of(random_state),
        "stream": stream,
        "polish": bool(polish),
        "jobs": jobs_of(n_jobs),
    }


def jobs_of(n_jobs: int | None) -> int:
    """Return the number of threads; 0 means one for each core."""
    if n_jobs is None:
        return 0
    if isinstance(n_jobs, (int, np.integer)) and n_jobs < 0:
        # As in joblib: -1 is all cores, -2 all but one.
        return 0 if n_jobs == -1 else max(_cores() + 1 + int(n_jobs), 1)
    return _count("n_jobs", n_jobs)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def patterns_of(init: Any) -> Floats:
    """Return the patterns (m x n) of an array, of a CP tensor (weights, [A, B, C]), or of a pyttb.ktensor."""
    if isinstance(init, np.ndarray):
        return _floats("init", init, 2)
    factors = getattr(init, "factors", getattr(init, "factor_matrices", None))
    if factors is None and isinstance(init, tuple) and len(init) == 2:
        factors = init[1]
    if factors is not None:
        return np.ascontiguousarray(_floats("init", factors[0], 2).T)
    return _floats("init", init, 2)


def _from_coords(coords: Any, values: Any, shape: Any, **names: Any) -> Tensor:
    at = _ints("coords", coords, 2)
    data = _floats("values", values, 1)
    if len(shape) != 3:
        raise ValueError(f"the shape is {tuple(shape)}, it must have 3 numbers: features, rows and cols")
    lengths = (operator.index(shape[0]), operator.index(shape[1]), operator.index(shape[2]))
    if min(lengths) < 0:
        raise ValueError(f"the shape is {lengths}, its numbers must be at least 1")
    return Tensor.from_coords(at, data.astype(np.float64, copy=False), lengths, **names)


def _from_xarray(X: Any, dims: Dims | None) -> Tensor:
    names = tuple(X.dims) if dims is None else tuple(dims)
    if len(names) != 3 or set(names) != set(X.dims):
        raise ValueError(f"the array has the dimensions {tuple(X.dims)}, they must be feature, row and col: {names}")
    X = X.transpose(*names)
    feature, row, col = names
    labels = (_coordinate(X, feature), _coordinate(X, row), _coordinate(X, col))
    axes = (_axis(X, feature), _axis(X, row), _axis(X, col))
    steps = [name for name in X.coords if name not in names and X.coords[name].ndim == 0]
    step = _text(X.coords[steps[0]].values[()]) if len(steps) == 1 else None
    data = X.data
    coo = _coo(data)
    if coo is not None:
        return _from_coords(coo.coords, coo.data, coo.shape, labels=labels, dims=axes, step=step)
    return Tensor.from_dense(_as_float("the array", np.asarray(data)), labels=labels, dims=axes, step=step)


def _coordinate(X: Any, name: str) -> list[str] | None:
    return [_text(value) for value in X.coords[name].values] if name in X.coords else None


def _axis(X: Any, name: str) -> str:
    """Return the expression of an axis, which shows that times and numbers have an order."""
    if name not in X.coords:
        return f"bin({name},1)"
    kind = X.coords[name].dtype.kind
    return f"day({name})" if kind == "M" else f"bin({name},1)" if kind in "iuf" else str(name)


def _text(value: Any) -> str:
    if isinstance(value, np.datetime64):
        text = str(np.datetime_as_string(value, unit="s"))
        return text.removesuffix("T00:00:00")
    return str(value)


def _labels(labels: Iterable[object] | None) -> list[str] | None:
    return None if labels is None else [str(label) for label in labels]


def _label_map(known: Any) -> Any:
    """Return a mapping from text to text; labels with a missing value are left out."""
    if known is None or isinstance(known, str):
        return known
    if not hasattr(known, "items"):
        raise TypeError(f"names and groups are of type {_type_name(known)}, they must be a mapping or 'people.csv(id,name)'")
    return {str(label): str(name) for label, name in known.items() if name is not None and name == name}


def _floats(what: str, values: ArrayLike, ndim: int) -> NDArray[Any]:
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.ndim != ndim:
        raise ValueError(f"{what}: the array has {array.ndim} dimensions, it must have {ndim}")
    return _as_float(what, array)


def _as_float(what: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as float64 or float32 in native byte order; other real numbers are converted to float64."""
    # The type is compared first, because accessing np.ma takes as long as a small step.
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{what} is masked, which is not supported: fill it first")
    if array.dtype in (np.float64, np.float32) and array.dtype.isnative:
        return np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} has values of type {array.dtype}, they must be real numbers")
    return array.astype(np.float64)


def _ints(what: str, values: ArrayLike, ndim: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{what} has values of type {array.dtype}, they must be whole numbers")
    if array.ndim != ndim:
        raise ValueError(f"{what}: the array has {array.ndim} dimensions, it must have {ndim}")
    return array.astype(np.int64, copy=False)


def _count(name: str, value: Any) -> int:
    if isinstance(value, (bool, str)) or not isinstance(value, (int, np.integer)):
        rules = {
            "n_jobs": "a number above 0, -1 for all cores, -2 for all but one, or None",
            "keep_rows": "a number above 0 or None",
            "max_features": "a number above 0 or None",
        }
        rule = rules.get(name, "a number above 0 or 'auto'")
        raise (ValueError if isinstance(value, str) else TypeError)(f"{name} is {value!r}, it must be {rule}")
    if not 1 <= value < 2**63:
        raise ValueError(f"{name} is {value}, it must be at least 1 and below 2**63")
    return int(value)


def _real(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}, it must be a number") from None


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _is_of(value: object, module: str, name: str) -> bool:
    """Whether a value is an instance of a class of a module, without importing the module."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))
