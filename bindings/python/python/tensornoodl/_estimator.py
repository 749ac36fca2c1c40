"""The factorization of streams of three-way tensors."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import _core
from ._core import Codes, Events, Tensor
from ._inputs import Floats, not_fitted, as_codes, as_stream, as_tensor, jobs_of, options, patterns_of

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    import xarray
    from typing_extensions import Self

#: What happened in a step.
Record = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Rows and cols that share a pattern in the last step, strongest first."""

    #: The share of the pattern's energy that it holds.
    share: float
    #: Labels of rows, and their factors.
    rows: list[tuple[str, float]]
    #: The same for cols.
    cols: list[tuple[str, float]]
    #: What most of them are known to belong to, where anything is known.
    known: str | None = None
    #: How many of them do not.
    others: int | None = None
    #: How many there are, rows and cols with the same label counted once.
    size: int | None = None


class TensorNOODL:
    """Learns the patterns of a stream of sparse tensors, and who takes part in them.

    Each step brings a tensor of n features x J rows x K cols that mixes a few patterns, ``Z = sum_i A_i o B_i o C_i``. The patterns
    A stay; the sparse row and col factors B and C are new each time. All three are found exactly, while the data arrives.

    Parameters
    ----------
    n_patterns
        How many patterns at most, or ``"auto"`` to let the data speak.
    passes
        Passes over each tensor: a number, or ``"auto"``, as long as they help. None: 1 in a stream, and ``"auto"`` for one tensor.
    eta_a
        None for the adaptive step, which has nothing to tune; a number for the paper's step of this size.
    eta_x, tau, code_floor
        The paper's step size, threshold and constant C of the codes, in units of the smallest codes of the data, which are found;
        with ``eta_a`` or ``init`` in the units of the data.
    forgetting
        What is forgotten with every tensor, for patterns that drift.
    recipe
        What is done to each tensor first: ``log2``, ``scale``, ``center``, with commas between. None: nothing, or what ``init`` has.
    dims
        Names of the feature, row and col dimensions of xarray's arrays; their order, unless given.
    init
        Patterns to start from: an array (m, n), a CP tensor ``(weights, [A, B, C])``, or a fitted TensorNOODL to go on from. None: they
        are searched in the first tensor.
    random_state
        Seed of the search. The same seed gives the same bits, for any number of threads.
    n_jobs
        Threads; None or -1 for as many as there are cores, -2 for all but one, and so on.
    callback
        Called after every step with what happened in it, a dictionary as in ``history_``.
    progress
        Show a bar over the steps; needs tqdm.

    Attributes
    ----------
    components_ : array (m, n)
        The patterns, of unit length.
    row_factors_, col_factors_ : arrays (J, m) and (K, m)
        Of the last step.
    n_patterns_, n_features_in_, n_steps_ : int
    feature_labels_, row_labels_, col_labels_, step_labels_ : lists of str
    evidence_ : array (m,)
        How clear each pattern was when it was found; above 1, clearer than what chance finds.
    history_ : list of dict
        What happened in every step: fibers, fit (the relative error), change of the patterns, patterns found and lost, and so on.
    """

    def __init__(
        self,
        n_patterns: int | Literal["auto"] = "auto",
        *,
        passes: int | Literal["auto"] | None = None,
        eta_a: float | None = None,
        eta_x: float = 0.2,
        tau: float = 0.1,
        code_floor: float = 1.0,
        forgetting: float = 0.0,
        recipe: str | None = None,
        dims: tuple[str, str, str] | None = None,
        init: Any = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        callback: Callable[[Record], object] | None = None,
        progress: bool = False,
    ) -> None:
        self.n_patterns = n_patterns
        self.passes = passes
        self.eta_a = eta_a
        self.eta_x = eta_x
        self.tau = tau
        self.code_floor = code_floor
        self.forgetting = forgetting
        self.recipe = recipe
        self.dims = dims
        self.init = init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.progress = progress

    # Learning.

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a tensor, or from all tensors of a stream, and forget what was learned before.

        Parameters
        ----------
        X
            One tensor: an array (n, J, K), a ``sparse.COO``, ``(coords, values, shape)``, ``(fibers, places)``, an xarray.DataArray, or a
            :class:`Tensor`; ``(fibers, places, (J, K))`` where the last rows or cols may be empty. Or a stream of them: :class:`Events`, a list, or an iterator.
        """
        return self._learn(X, None, alone=True)

    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Go on learning: from the next tensor of a stream, or from several of them.

        Ctrl-C ends it at once; what was learned from the tensors before stays.
        """
        return self._learn(X, self._fitted, alone=False)

    def _learn(self, X: Any, model: _core.Model | None, alone: bool) -> Self:
        tensors, count, several = as_stream(X, self.dims)
        # A tensor that comes alone to ``fit`` is all that there will be.
        stream = several or not alone
        given = self._options(stream)
        for tensor in self._watched(tensors, count):
            if model is None:
                model = self._begin(tensor, X if isinstance(X, Events) else None, given)
            lost = model.learn(tensor, given, tensor.step if stream else "all")
            # What was learned before stays until there is something new.
            self._model = model
            _warn_of_lost(lost)
            if self.callback is not None:
                record = model.last()
                assert record is not None
                self.callback(record)
        if model is None:
            raise ValueError("the stream has no tensor to learn from")
        if not stream and self.n_patterns != "auto" and self.n_patterns_ < int(self.n_patterns):
            warnings.warn(f"{self.n_patterns} patterns were asked for, there are {self.n_patterns_}", stacklevel=3)
        return self

    def _begin(self, tensor: Tensor, events: Events | None, given: dict[str, Any]) -> _core.Model:
        if self.init is not None and self.n_patterns != "auto":
            raise ValueError(f"n_patterns is {self.n_patterns!r}, it must be 'auto' where init has the patterns")
        start: Any = None
        if isinstance(self.init, TensorNOODL):
            start = self.init._known
        elif self.init is not None:
            start = patterns_of(self.init)
        return _core.Model.begin(tensor, given, self.recipe, start, events)

    def _options(self, stream: bool) -> dict[str, Any]:
        return options(
            patterns=self.n_patterns,
            passes=self.passes,
            eta_a=self.eta_a,
            eta_x=self.eta_x,
            tau=self.tau,
            code_floor=self.code_floor,
            forgetting=self.forgetting,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            stream=stream,
            name="n_patterns",
        )

    def _watched(self, tensors: Iterator[Tensor], count: int | None) -> Iterable[Tensor]:
        if not self.progress:
            return tensors
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ImportError("progress=True shows a bar of tqdm, which is not installed: pip install tqdm") from None
        bar: Iterable[Tensor] = tqdm(tensors, total=count, unit="step")
        return bar

    # Using what was learned.

    def transform(self, X: Any) -> Codes:
        """The codes of a tensor: which patterns are where, and how strongly, as a sparse tensor of m patterns x J rows x K cols."""
        codes, lost = self._known.encode(as_tensor(X, self.dims), jobs_of(self.n_jobs))
        _warn_of_lost(lost)
        return codes

    def fit_transform(self, X: Any, y: None = None) -> Codes:
        """Learn from one tensor, and return its codes."""
        tensor = as_tensor(X, self.dims)
        return self.fit(tensor).transform(tensor)

    def inverse_transform(self, X: Any) -> Tensor:
        """The tensor that codes (m x J x K) stand for; where there is a recipe, what it makes of tensors."""
        return self._known.decode(as_codes(X))

    # What was learned.

    @property
    def _fitted(self) -> _core.Model | None:
        return self.__dict__.get("_model")

    @property
    def _known(self) -> _core.Model:
        model = self._fitted
        if model is None:
            raise not_fitted("TensorNOODL")
        return model

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn asks for them, so it is there.
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        shape = InputTags(two_d_array=False, three_d_array=True, sparse=True)
        target = TargetTags(required=False)
        return Tags(estimator_type=None, target_tags=target, transformer_tags=TransformerTags(), input_tags=shape)

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    @property
    def components_(self) -> Floats:
        """The patterns (m, n), of unit length."""
        patterns = self._known.patterns()
        # A copy; changes would be lost.
        patterns.flags.writeable = False
        return patterns

    @property
    def row_factors_(self) -> Floats:
        """B of the last step (J, m)."""
        return self.factors()[0]

    @property
    def col_factors_(self) -> Floats:
        """C of the last step (K, m)."""
        return self.factors()[1]

    @property
    def n_features_in_(self) -> int:
        """Length of a pattern."""
        return self._known.lengths()[0]

    @property
    def n_patterns_(self) -> int:
        """Number of patterns."""
        return self._known.lengths()[3]

    @property
    def n_steps_(self) -> int:
        """Tensors learned from."""
        return self._known.lengths()[4]

    @property
    def feature_labels_(self) -> list[str]:
        """Labels of the features."""
        return self._known.labels()[0]

    @property
    def row_labels_(self) -> list[str]:
        """Labels of the rows, those of all tensors so far."""
        return self._known.labels()[1]

    @property
    def col_labels_(self) -> list[str]:
        """Labels of the cols, those of all tensors so far."""
        return self._known.labels()[2]

    @property
    def step_labels_(self) -> list[str]:
        """Labels of the steps."""
        return self._known.labels()[3]

    @property
    def history_(self) -> list[Record]:
        """What happened in every step."""
        return self._known.history()

    @property
    def evidence_(self) -> Floats:
        """For every pattern that was found in the data, how clear it was: above 1, clearer than what chance finds. Empty with ``init``."""
        return self._known.evidence()

    def factors(self, step: int | str = -1) -> tuple[Floats, Floats, Floats]:
        """Of a step, by its number or label: B (J, m), C (K, m), and for every pattern the share of its energy that they hold, 1 if the model is right."""
        return self._known.factors(self._step(step))

    def _step(self, step: int | str) -> int:
        if isinstance(step, str):
            labels = self.step_labels_
            if step not in labels:
                raise IndexError(f"step is {step!r}, there is none of this name")
            return labels.index(step)
        count = self.n_steps_
        if not -count <= step < count:
            raise IndexError(f"step is {step}, there are {count} of them")
        return step % count

    def _pattern(self, pattern: int) -> int:
        count = self.n_patterns_
        if not -count <= pattern < count:
            raise IndexError(f"pattern is {pattern}, there are {count} of them")
        return pattern % count

    def groups(self, pattern: int) -> list[Group]:
        """The groups of rows and cols that share a pattern in the last step, those that hold most of it first."""
        found = self._known.groups(self._pattern(pattern))
        return [
            Group(share, rows, cols, *(known or (None, None, None)))
            for share, rows, cols, known in found
        ]

    def leading(self, pattern: int) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """Rows and cols that take part in a pattern over all steps, strongest first, each with its label and strength."""
        number = self._pattern(pattern)
        return self._known.leading(number, 0), self._known.leading(number, 1)

    def cp_tensor(self, step: int | str = -1) -> tuple[Floats, list[Floats]]:
        """Weights, and [A, B, C] with columns of unit length, of a step: what TensorLy calls a CP tensor."""
        rows, cols, _ = self.factors(step)
        lengths = [np.linalg.norm(factor, axis=0) for factor in (rows, cols)]
        # A pattern that the step does not show has no length.
        rows, cols = (factor / np.where(length > 0, length, 1) for factor, length in zip((rows, cols), lengths))
        return lengths[0] * lengths[1], [self.components_.T.copy(), rows, cols]

    def to_ktensor(self, step: int | str = -1) -> Any:
        """The same as a ``pyttb.ktensor``."""
        pyttb = _needs("pyttb", "to_ktensor")
        weights, factors = self.cp_tensor(step)
        return pyttb.ktensor([np.asfortranarray(factor) for factor in factors], weights)

    def to_xarray(self, all_steps: bool = False) -> xarray.Dataset:
        """Patterns, row and col factors with their labels; of the last step, or with a dimension ``step`` of all."""
        xarray_ = _needs("xarray", "to_xarray")
        features, rows, cols, steps = self._known.labels()
        numbers = np.arange(1, self.n_patterns_ + 1)
        taken = range(self.n_steps_) if all_steps else [self.n_steps_ - 1]
        pairs = [self.factors(step) for step in taken]
        stacked = [np.stack([pair[at].T for pair in pairs]) for at in (0, 1)]
        data = xarray_.Dataset(
            {
                "components": (("pattern", "feature"), self.components_),
                "row_factors": (("step", "pattern", "row"), stacked[0]),
                "col_factors": (("step", "pattern", "col"), stacked[1]),
                "rank_one": (("step", "pattern"), np.stack([pair[2] for pair in pairs])),
            },
            coords={
                "pattern": numbers,
                "feature": features,
                "row": rows,
                "col": cols,
                "step": [steps[step] for step in taken],
            },
            # What they are made of.
            attrs=dict(zip(("feature", "row", "col"), self._known.axes())),
        )
        taken_out: xarray.Dataset = data if all_steps else data.isel(step=0)
        return taken_out

    def to_frame(self) -> pandas.DataFrame:
        """All that is not zero, one value in each line: step, pattern (from 1), axis (feature, row or col), label, value."""
        pandas_ = _needs("pandas", "to_frame")
        features, rows, cols, steps = self._known.labels()
        (axis, step, pattern, index), value = self._known.entries()
        names = [np.array(labels, dtype=object) for labels in (rows, cols)]
        label = np.empty(len(value), dtype=object)
        for number, labels in enumerate(names):
            label[axis == number] = labels[index[axis == number]]
        patterns = self.components_
        at, feature = np.nonzero(patterns)
        parts = [
            pandas_.DataFrame(
                {
                    "step": None,
                    "pattern": at + 1,
                    "axis": "feature",
                    "label": np.array(features, dtype=object)[feature],
                    "value": patterns[at, feature],
                }
            ),
            pandas_.DataFrame(
                {
                    "step": np.array(steps, dtype=object)[step],
                    "pattern": pattern + 1,
                    "axis": np.array(["row", "col"], dtype=object)[axis],
                    "label": label,
                    "value": value,
                }
            ),
        ]
        frame: pandas.DataFrame = pandas_.concat(parts, ignore_index=True)
        return frame

    # Files and pictures.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, which the program ``noodl`` reads, too. Whatever happens, the file is whole."""
        self._known.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model file, of this class or of the program ``noodl``."""
        model = _core.Model.load(os.fspath(path))
        estimator = cls(**model.told())
        estimator._model = model
        return estimator

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page about the model, which needs no network."""
        self._known.report(os.fspath(path))

    def plot(self, pattern: int | Sequence[int] | None = None, *, top: int = 10) -> matplotlib.figure.Figure:
        """A figure of one pattern, of some, or of all: what it extends over, drawn as its kind asks for, and who takes part most."""
        from ._plot import plot

        some = range(self.n_patterns_) if pattern is None else [int(pattern)] if isinstance(pattern, (int, np.integer)) else pattern
        if not len(some):
            raise ValueError("there is no pattern to draw")
        return plot(self, [self._pattern(one) for one in some], top)

    def _repr_html_(self) -> str:
        if self._fitted is None:
            return f"<code>{self!r}</code> has learned nothing yet"
        return self._known.cards(12)

    # What estimators have.

    @classmethod
    def _names(cls) -> list[str]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return [parameter.name for parameter in parameters if parameter.name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn does."""
        for name, value in params.items():
            if name not in self._names():
                raise ValueError(f"there is no parameter {name!r}; there are {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> Self:
        # A fitted model in ``init`` stays fitted.
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        usual = inspect.signature(type(self).__init__).parameters
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not (value is usual[name].default or isinstance(value, (int, float, str)) and value == usual[name].default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        if self._fitted is not None:
            function, arguments = self._fitted.__reduce__()
            other._model = function(*arguments)
        return other


def load(path: str | os.PathLike[str]) -> TensorNOODL:
    """Read a model file, of Python or of the program ``noodl``."""
    return TensorNOODL.load(path)


def _warn_of_lost(lost: int) -> None:
    if lost:
        cells = "1 cell has a feature" if lost == 1 else f"{lost} cells have features"
        warnings.warn(f"{cells} that the model does not know; left out", stacklevel=4)


def _needs(module: str, what: str) -> Any:
    try:
        return __import__(module)
    except ImportError:
        raise ImportError(f"{what} needs {module}, which is not installed: pip install {module}") from None
