"""The estimator that factorizes streams of three-way tensors."""

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

#: Record of a step, as in ``TensorNOODL.history_``.
Record = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Rows and cols that share a pattern in the last step, or for counts in the latest steps, strongest first."""

    #: The share of the pattern's energy that the group holds. For counts, the share of its events.
    share: float
    #: Labels of the rows, with their factors. For counts, with the numbers of events that they have in the group, in all patterns.
    rows: list[tuple[str, float]]
    #: Labels of the cols, with their factors. For counts, with the numbers of events that they have in the group, in all patterns.
    cols: list[tuple[str, float]]
    #: The known group that most members belong to, or None if no groups are known.
    known: str | None = None
    #: The number of members outside the known group.
    others: int | None = None
    #: The number of members; a row and a col with the same label count once.
    size: int | None = None
    #: The number of the group, from 1. A group of counts has the same number in all patterns that it shares.
    number: int = 1


@dataclass(frozen=True)
class Rung:
    """A number of patterns, and how much better it predicts cells that were hidden than the number on the rung below."""

    #: Number of patterns.
    patterns: int
    #: Gain in the log-likelihood of the hidden cells, in nats; 0 on the first rung.
    gain: float
    #: Standard error of the gain, in nats; NaN if there is too little data for one.
    error: float


@dataclass(frozen=True)
class Excess:
    """A feature that is too many at a place."""

    #: Label of the feature.
    feature: str
    #: Number of events with this feature.
    events: float
    #: Expected number of them.
    expected: float


@dataclass(frozen=True)
class Surprise:
    """How unlikely the events of a place are, judged by what the model learned from the steps before."""

    #: Label of the step.
    step: str
    #: Label of the row.
    row: str
    #: Label of the col.
    col: str
    #: Number of events.
    events: float
    #: Expected number of events.
    expected: float
    #: The p-value of the number of events.
    p_total: float
    #: The p-value of the features of the events, given their number.
    p_shape: float
    #: Whether the place is too unlikely for chance, given the number of places of the step.
    significant: bool
    #: The features that are too many, the most striking first.
    too_many: list[Excess]


@dataclass(frozen=True)
class Repeat:
    """The result of learning again with another seed."""

    #: The seed.
    seed: int
    #: Number of patterns that were found.
    patterns: int
    #: The agreement with the patterns of the model, from 0 to 1.
    agreement: float


@dataclass(frozen=True)
class Stability:
    """Whether learning again, with other seeds or from halves of the places, finds the same patterns.

    The agreement of two sets of patterns is the mean cosine between a pattern and the most similar pattern of the other set, over the
    patterns of both: 1 if all patterns come again.
    """

    #: What other seeds found.
    seeds: list[Repeat]
    #: The mean agreement of the other seeds with the model; None without other seeds.
    seeds_agreement: float | None
    #: The numbers of patterns of two random halves of the places.
    halves: tuple[int, int]
    #: The agreement of the patterns of both halves with each other.
    halves_agreement: float
    #: The agreement in words.
    sentence: str

    def __str__(self) -> str:
        return self.sentence


class TensorNOODL:
    """Learns the patterns of a stream of sparse tensors, and the rows and cols that take part in them.

    Each step brings a tensor of n features x J rows x K cols that is a sum of a few patterns, ``Z = sum_i A_i o B_i o C_i``. The
    patterns A are the same in all steps; the sparse row and col factors B and C are new in each step.

    There are two models. The exact model is that of the paper: if values follow it, all factors are recovered exactly, while the data
    arrives. The counts model is for numbers of events: patterns are shares of features, which sum to 1, and codes are numbers of events.

    Parameters
    ----------
    n_patterns
        Number of patterns, or ``"auto"``: the data determines it. If there can be no such number, because there are too few features
        or fibers, ``fit`` warns. In a stream the exact model may reach the number later, or not at all.
    model
        ``"counts"``, ``"exact"``, or ``"auto"``: the counts model if the cells of a table count events (``from_events`` with
        ``value="count"``) and the recipe keeps counts (none, or ``log2``, ``sqrt``, ``presence``), otherwise the exact model. The
        values of an array need not count anything, even if they are whole numbers, so ``"auto"`` takes the exact model for arrays.
        With ``"counts"``, values that are negative or not whole are a ValueError, unless ``polish`` is True.
    passes
        Passes over each tensor: a number, or ``"auto"`` for as many as improve the patterns. None means 1 in a stream, and ``"auto"``
        for one tensor.
    eta_a
        None for the adaptive step, which needs no tuning; a number for the paper's step of this size, which belongs to the exact model.
    eta_x, tau, code_floor
        For the exact model: the paper's step size, threshold and constant C of the codes. Their unit is the size of the smallest codes, which is estimated
        from the data; with ``eta_a`` or ``init`` it is the unit of the data.
    forgetting
        The share of the past that is forgotten with every tensor, at least 0 and below 1; for patterns that drift.
    polish
        Whether ``fit`` ends with a fit of patterns, rows and cols together, none of them negative. It is for one tensor in which similar
        patterns occur in the same fibers, such as spectra of mixtures. Negative values count as 0, and a warning says how many there are.
        If several groups share a pattern, a warning says that the patterns stay as they were learned.
    recipe
        Transformations that are applied to each tensor first: ``log2``, ``sqrt``, ``presence``, ``scale``, ``center``, separated by
        commas; None for none. The counts model takes the first three. ``"auto"``: counts are damped by ``sqrt``, ``log2`` or
        ``presence`` if that predicts significantly better in which cells of the first tensor there are events; other values stay as they
        are, as do counts with ``polish``. With a fitted TensorNOODL as ``init``, ``"auto"`` is its recipe.
    dims
        Names of the feature, row and col dimensions of xarray's arrays. None means the order of the array.
    init
        Patterns to start from: an array (m, n), a CP tensor ``(weights, [A, B, C])``, or a fitted TensorNOODL to continue from. None
        means that patterns are searched for in the first tensor. Only a fitted TensorNOODL can start the counts model.
    random_state
        Seed of the search. Equal seeds give bit-identical results, for any number of threads.
    n_jobs
        Number of threads; None or -1 for one per core, -2 for all cores but one, and so on.
    callback
        A function that is called after every step with its record, a dictionary as in ``history_``.
    progress
        Whether to show a progress bar over the steps; needs tqdm.

    Attributes
    ----------
    model_ : "counts" or "exact"
        The model that was taken.
    model_reason_ : str
        Why it was taken: the end of a sentence that begins with "because".
    recipe_ : str or None
        The recipe that was taken; None for none.
    recipe_reason_ : str
        Why it was taken: the end of a sentence that begins with "because".
    components_ : array (m, n)
        The patterns: of unit length in the exact model, with sum 1 in the counts model.
    row_factors_, col_factors_ : arrays (J, m) and (K, m)
        The row and col factors of the last step.
    n_patterns_, n_features_in_, n_steps_ : int
    feature_labels_, row_labels_, col_labels_, step_labels_ : lists of str
    evidence_ : array (m,)
        How clear each pattern was when it was found. In the exact model, above 1 is clearer than chance; in the counts model, it is the
        significance in standard errors.
    errors_ : array (m,)
        The expected distance of each pattern from the true one, relative to its length, if the data follows the model: 0.03 is 3 %. NaN
        where it is not known: for patterns that fewer than four tensors have shown, for data without noise, with ``eta_a``, for fewer than
        six features, and for counts that the recipe has damped.
    ladder_ : list of Rung
        What decided on the number of patterns of counts. It is empty for the exact model and where the number was given.
    history_ : list of dict
        A record of every step: fibers, fit, change of the patterns, patterns found, lost, retired and returned, and so on. ``1 - fit**2`` is the share that
        is explained: of the energy in the exact model, of the deviance from the mean shares of the features in the counts model.
        ``surprises`` are the places of counts that were too unlikely for chance, judged before the step was learned: see ``surprise``.
    warnings_ : list of str
        What is doubtful about the model, and what to try. ``fit`` gives these warnings, too.
    news_ : list of str
        The latest steps in which something changed, and the patterns that are not seen any more.
    stability_ : Stability or None
        What ``stability`` has measured.
    """

    def __init__(
        self,
        n_patterns: int | Literal["auto"] = "auto",
        *,
        model: Literal["auto", "counts", "exact"] = "auto",
        passes: int | Literal["auto"] | None = None,
        eta_a: float | None = None,
        eta_x: float = 0.2,
        tau: float = 0.1,
        code_floor: float = 1.0,
        forgetting: float = 0.0,
        polish: bool = False,
        recipe: str | None = "auto",
        dims: tuple[str, str, str] | None = None,
        init: Any = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        callback: Callable[[Record], object] | None = None,
        progress: bool = False,
    ) -> None:
        self.n_patterns = n_patterns
        self.model = model
        self.passes = passes
        self.eta_a = eta_a
        self.eta_x = eta_x
        self.tau = tau
        self.code_floor = code_floor
        self.forgetting = forgetting
        self.polish = polish
        self.recipe = recipe
        self.dims = dims
        self.init = init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.progress = progress

    # Learning.

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a tensor or from all tensors of a stream, and discard what was learned before.

        If the result is doubtful, warnings say why and what to try: there are nearly as many patterns as features, most patterns are a
        single feature, less than a third is explained, no pattern was found, and so on. ``warnings_`` has them after ``partial_fit``, too.

        Parameters
        ----------
        X
            One tensor: an array (n, J, K), a ``sparse.COO``, ``(coords, values, shape)``, ``(fibers, places)``, an xarray.DataArray, or a
            :class:`Tensor`; use ``(fibers, places, (J, K))`` if the last rows or cols may be empty. Or a stream of tensors:
            :class:`Events`, a list, or an iterator.
        """
        return self._learn(X, None, alone=True)

    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Continue to learn: from the next tensor of a stream, or from several of them.

        Ctrl-C interrupts the current step; the model keeps what it learned in the steps before.
        """
        return self._learn(X, self._model_or_none, alone=False)

    def _learn(self, X: Any, model: _core.Model | None, alone: bool) -> Self:
        tensors, count, several = as_stream(X, self.dims)
        # A single tensor given to ``fit`` is not followed by others.
        stream = several or not alone
        given = self._options(stream)
        begins = model is None
        for tensor in self._with_progress(tensors, count):
            if model is None:
                model = self._begin(tensor, X if isinstance(X, Events) else None, given)
            left_out, note = model.learn(tensor, given, tensor.step if stream else "all")
            # Set after the first step, so that a ``fit`` that fails does not discard the earlier model.
            self._model = model
            _warn_of_left_out(left_out, stacklevel=4)
            if note is not None:
                warnings.warn(note, stacklevel=3)
            if self.callback is not None:
                last = model.last()
                assert last is not None
                self.callback(_record(last))
        if model is None:
            raise ValueError("the stream has no tensor to learn from")
        # A stream that goes on may bring more patterns, but not more features.
        if alone or (begins and self._limit(model) == "features"):
            self._warn_of_fewer(model)
        if alone:
            for text in model.warnings():
                warnings.warn(text, stacklevel=3)
        return self

    def _limit(self, model: _core.Model) -> str | None:
        """Return what limits the number of patterns of counts to less than was asked for, or None."""
        record = model.last()
        if self.n_patterns == "auto" or model.choice()[0] == "exact" or record is None:
            return None
        counts = {"features": model.lengths()[0], "fibers": record["fibers"]}
        return next((name for name, count in counts.items() if count < self.n_patterns), None)

    def _warn_of_fewer(self, model: _core.Model) -> None:
        found = model.lengths()[3]
        if self.n_patterns == "auto" or found >= self.n_patterns:
            return
        limit = self._limit(model)
        reason = "no further pattern was found" if limit is None else f"the counts model has no more patterns than {limit}"
        warnings.warn(f"{self.n_patterns} patterns were asked for, there are {found}, because {reason}", stacklevel=4)

    def _begin(self, tensor: Tensor, events: Events | None, given: dict[str, Any]) -> _core.Model:
        if self.init is not None and self.n_patterns != "auto":
            raise ValueError(f"n_patterns is {self.n_patterns!r}, it must be 'auto' where init has the patterns")
        start: Any = None
        if isinstance(self.init, TensorNOODL):
            start = self.init._fitted_model
        elif self.init is not None:
            start = patterns_of(self.init)
        return _core.Model.begin(tensor, given, self.recipe, start, events)

    def _options(self, stream: bool) -> dict[str, Any]:
        return options(
            model=self.model,
            patterns=self.n_patterns,
            passes=self.passes,
            eta_a=self.eta_a,
            eta_x=self.eta_x,
            tau=self.tau,
            code_floor=self.code_floor,
            forgetting=self.forgetting,
            polish=self.polish,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            stream=stream,
            name="n_patterns",
        )

    def _with_progress(self, tensors: Iterator[Tensor], count: int | None) -> Iterable[Tensor]:
        if not self.progress:
            return tensors
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ImportError("progress=True needs tqdm, which is not installed: pip install tqdm") from None
        bar: Iterable[Tensor] = tqdm(tensors, total=count, unit="step")
        return bar

    # Use of the patterns.

    def transform(self, X: Any) -> Codes:
        """Return the codes of a tensor: a sparse tensor of m patterns x J rows x K cols that holds the strength of each pattern at each place.

        In the counts model, the strength is a number of events: after the recipe, if there is one.
        """
        codes, left_out = self._fitted_model.encode(as_tensor(X, self.dims), jobs_of(self.n_jobs))
        _warn_of_left_out(left_out, stacklevel=3)
        return codes

    def fit_transform(self, X: Any, y: None = None) -> Codes:
        """Learn from one tensor and return its codes."""
        tensor = as_tensor(X, self.dims)
        return self.fit(tensor).transform(tensor)

    def inverse_transform(self, X: Any) -> Tensor:
        """Return the tensor that codes (m x J x K) stand for. With a recipe, this is the tensor after the recipe.

        In the counts model, it holds the expected numbers of events.
        """
        return self._fitted_model.decode(as_codes(X))

    def surprise(self, X: Any) -> list[Surprise]:
        """Return how unlikely the events of each place of a tensor or of a stream are, the worst place first.

        Each tensor is judged as the next step of the model, which does not change and must not have learned from it. There are two
        p-values: of the number of events at the place, and of their features, given this number. Needs the counts model. A place is
        significant if it is too unlikely for chance, given the number of places of its tensor. ``pandas.DataFrame(model.surprise(X))``
        is a table.
        """
        model = self._fitted_model
        tensors, count, _ = as_stream(X, self.dims)
        found, left_out = [], 0
        for number, tensor in enumerate(tensors, 1):
            label = tensor.step or ("all" if count == 1 else str(number))
            places, unknown = model.surprises(tensor, label, jobs_of(self.n_jobs))
            found += [_surprise(place) for place in places]
            left_out += unknown
        _warn_of_left_out(left_out, stacklevel=3)
        return sorted(found, key=lambda it: min(it.p_total, it.p_shape))

    def stability(self, X: Any, *, seeds: int = 3) -> Stability:
        """Learn again with other seeds and from two random halves of the places, and return whether the patterns are the same.

        It takes ``seeds`` + 2 times as long as ``fit``, and learns with the parameters of the estimator. A model file does not have
        ``n_patterns`` and ``polish``: set them after ``load``, if they were given. ``init`` must be None. If the patterns are not the same, warnings say so. The result is also in
        ``stability_`` and in the model file, until the model learns from a further tensor.

        Parameters
        ----------
        X
            The tensor or the stream that the model has learned from, as it was given to ``fit``.
        seeds
            Number of other seeds, at least 0.
        """
        model = self._fitted_model
        if isinstance(seeds, bool) or not isinstance(seeds, (int, np.integer)) or not 0 <= seeds < 2**32:
            raise ValueError(f"seeds is {seeds!r}, it must be a whole number, at least 0 and below 2**32")
        if self.init is not None:
            raise ValueError("init is given, it must be None: stability needs a model whose patterns were all found in its own data")
        tensors, _, several = as_stream(X, self.dims)
        for text in model.measure_stability(list(tensors), self._options(several), int(seeds)):
            warnings.warn(text, stacklevel=2)
        measured = self.stability_
        assert measured is not None
        return measured

    # Results.

    @property
    def _model_or_none(self) -> _core.Model | None:
        return self.__dict__.get("_model")

    @property
    def _fitted_model(self) -> _core.Model:
        model = self._model_or_none
        if model is None:
            raise not_fitted("TensorNOODL")
        return model

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this method, so it is installed.
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        shape = InputTags(two_d_array=False, three_d_array=True, sparse=True)
        target = TargetTags(required=False)
        return Tags(estimator_type=None, target_tags=target, transformer_tags=TransformerTags(), input_tags=shape)

    def __sklearn_is_fitted__(self) -> bool:
        return self._model_or_none is not None

    @property
    def model_(self) -> Literal["counts", "exact"]:
        """The model that was taken."""
        return self._fitted_model.choice()[0]

    @property
    def model_reason_(self) -> str:
        """Why the model was taken: the end of a sentence that begins with "because"."""
        return self._fitted_model.choice()[1]

    @property
    def recipe_(self) -> str | None:
        """The recipe that was taken; None for none."""
        return self._fitted_model.recipe()[0]

    @property
    def recipe_reason_(self) -> str:
        """Why the recipe was taken: the end of a sentence that begins with "because"."""
        return self._fitted_model.recipe()[1]

    @property
    def warnings_(self) -> list[str]:
        """What is doubtful about the model, and what to try."""
        return self._fitted_model.warnings()

    @property
    def news_(self) -> list[str]:
        """Sentences about the latest steps in which something changed, and about patterns that are not seen any more."""
        return self._fitted_model.news()

    @property
    def stability_(self) -> Stability | None:
        """What ``stability`` has measured; None if it was not called since the last step."""
        found = self._fitted_model.stability()
        if found is None:
            return None
        repeats, agreement, halves, halves_agreement, sentence = found
        return Stability([Repeat(*repeat) for repeat in repeats], agreement, halves, halves_agreement, sentence)

    @property
    def components_(self) -> Floats:
        """The patterns (m, n): of unit length in the exact model, with sum 1 in the counts model."""
        patterns = self._fitted_model.patterns()
        # Read-only, because it is a copy: changes of it would not reach the model.
        patterns.flags.writeable = False
        return patterns

    @property
    def row_factors_(self) -> Floats:
        """The row factors B (J, m) of the last step."""
        return self.factors()[0]

    @property
    def col_factors_(self) -> Floats:
        """The col factors C (K, m) of the last step."""
        return self.factors()[1]

    @property
    def n_features_in_(self) -> int:
        """Number of features: the length of a pattern."""
        return self._fitted_model.lengths()[0]

    @property
    def n_patterns_(self) -> int:
        """Number of patterns."""
        return self._fitted_model.lengths()[3]

    @property
    def n_steps_(self) -> int:
        """Number of tensors that the model has learned from."""
        return self._fitted_model.lengths()[4]

    @property
    def feature_labels_(self) -> list[str]:
        """Labels of the features."""
        return self._fitted_model.labels()[0]

    @property
    def row_labels_(self) -> list[str]:
        """Labels of the rows of all tensors so far."""
        return self._fitted_model.labels()[1]

    @property
    def col_labels_(self) -> list[str]:
        """Labels of the cols of all tensors so far."""
        return self._fitted_model.labels()[2]

    @property
    def step_labels_(self) -> list[str]:
        """Labels of the steps."""
        return self._fitted_model.labels()[3]

    @property
    def history_(self) -> list[Record]:
        """Records of all steps."""
        return [_record(step) for step in self._fitted_model.history()]

    @property
    def evidence_(self) -> Floats:
        """For every pattern that was found in the data, how clear it was. Empty with an array as ``init``.

        In the exact model, above 1 is clearer than chance. In the counts model, it is the significance with which the patterns that were
        found together predict hidden cells, in standard errors.
        """
        return self._fitted_model.evidence()

    @property
    def errors_(self) -> Floats:
        """For every pattern, its expected distance from the true one, relative to its length. NaN where it is not known.

        If the data follows the model, it is the root of the mean square. It needs four tensors that show the pattern, and noise.
        """
        return self._fitted_model.errors()

    @property
    def ladder_(self) -> list[Rung]:
        """The rungs of the last decision on the number of patterns of counts, fewest patterns first.

        It is empty for the exact model and where the number was given.
        """
        return [Rung(*rung) for rung in self._fitted_model.ladder()]

    def factors(self, step: int | str = -1) -> tuple[Floats, Floats, Floats]:
        """Return the factors of a step, given by its index or label.

        These are B (J, m), C (K, m), and for every pattern the share of its energy that they hold: 1 if the data follows the model.
        """
        return self._fitted_model.factors(self._step_index(step))

    def _step_index(self, step: int | str) -> int:
        if isinstance(step, str):
            labels = self.step_labels_
            if step not in labels:
                raise IndexError(f"step is {step!r}, there is no step with this label")
            return labels.index(step)
        count = self.n_steps_
        if not -count <= step < count:
            raise IndexError(f"step is {step}, there are {count} steps")
        return step % count

    def _pattern_index(self, pattern: int) -> int:
        count = self.n_patterns_
        if not -count <= pattern < count:
            raise IndexError(f"pattern is {pattern}, there are {count} patterns")
        return pattern % count

    def groups(self, pattern: int) -> list[Group]:
        """Return the groups of rows and cols that share a pattern, in descending order of their share.

        The groups are those of the last step. For counts they are those of the latest steps, and every row and col with events is in a
        group; they are found when they are asked for first, which takes about as long as to find the patterns.
        """
        found = self._fitted_model.groups(self._pattern_index(pattern))
        groups = []
        for number, share, rows, cols, known in found:
            name, others, size = known or (None, None, None)
            groups.append(Group(share, rows, cols, name, others, size, number))
        return groups

    def leading(self, pattern: int) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """Return the rows and the cols that take part in a pattern over all steps, strongest first: label and strength of each."""
        number = self._pattern_index(pattern)
        return self._fitted_model.leading(number, 0), self._fitted_model.leading(number, 1)

    def cp_tensor(self, step: int | str = -1) -> tuple[Floats, list[Floats]]:
        """Return the CP tensor of a step as TensorLy defines it: weights, and [A, B, C] with columns of unit length."""
        rows, cols, _ = self.factors(step)
        patterns = self.components_.T.copy()
        lengths = [np.linalg.norm(factor, axis=0) for factor in (rows, cols)]
        # A pattern that does not occur in the step has factors of length 0.
        rows, cols = (factor / np.where(length > 0, length, 1) for factor, length in zip((rows, cols), lengths))
        weights = lengths[0] * lengths[1]
        if self.model_ == "counts":
            # These patterns have sum 1.
            length = np.linalg.norm(patterns, axis=0)
            weights, patterns = weights * length, patterns / length
        return weights, [patterns, rows, cols]

    def to_ktensor(self, step: int | str = -1) -> Any:
        """Return the CP tensor of a step as a ``pyttb.ktensor``."""
        pyttb = _require("pyttb", "to_ktensor")
        weights, factors = self.cp_tensor(step)
        return pyttb.ktensor([np.asfortranarray(factor) for factor in factors], weights)

    def to_xarray(self, all_steps: bool = False) -> xarray.Dataset:
        """Return patterns, row factors and col factors with their labels: of the last step, or of all steps along a dimension ``step``."""
        xarray_ = _require("xarray", "to_xarray")
        features, rows, cols, steps = self._fitted_model.labels()
        numbers = np.arange(1, self.n_patterns_ + 1)
        indices = range(self.n_steps_) if all_steps else [self.n_steps_ - 1]
        pairs = [self.factors(step) for step in indices]
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
                "step": [steps[step] for step in indices],
            },
            # The expressions of the axes, such as month(time).
            attrs=dict(zip(("feature", "row", "col"), self._fitted_model.axes())),
        )
        chosen: xarray.Dataset = data if all_steps else data.isel(step=0)
        return chosen

    def to_frame(self) -> pandas.DataFrame:
        """Return all nonzero values, one in each line: step, pattern (from 1), axis (feature, row or col), label, value."""
        pandas_ = _require("pandas", "to_frame")
        features, rows, cols, steps = self._fitted_model.labels()
        (axis, step, pattern, index), value = self._fitted_model.entries()
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
        """Write the model file, which the program ``noodl`` reads, too. The file is replaced atomically."""
        self._fitted_model.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model file that this class or the program ``noodl`` has written."""
        model = _core.Model.load(os.fspath(path))
        estimator = cls(**model.told())
        estimator._model = model
        return estimator

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write an HTML page about the model, which works without a network."""
        self._fitted_model.report(os.fspath(path))

    def plot(self, pattern: int | Sequence[int] | None = None, *, top: int = 10) -> matplotlib.figure.Figure:
        """Return a figure of one pattern, of several, or of all.

        Each is drawn over its features, as a line, a map or bars, beside its ``top`` strongest rows and cols.
        """
        from ._plot import plot

        chosen = range(self.n_patterns_) if pattern is None else [int(pattern)] if isinstance(pattern, (int, np.integer)) else pattern
        if not len(chosen):
            raise ValueError("there is no pattern to draw: the list of patterns is empty")
        return plot(self._fitted_model, [self._pattern_index(one) for one in chosen], top)

    def _repr_html_(self) -> str:
        if self._model_or_none is None:
            return f"<code>{self!r}</code> has learned nothing yet"
        return self._fitted_model.cards(12)

    # Protocols of scikit-learn and Python.

    @classmethod
    def _parameter_names(cls) -> list[str]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return [parameter.name for parameter in parameters if parameter.name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, as scikit-learn requires."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn requires."""
        for name, value in params.items():
            if name not in self._parameter_names():
                raise ValueError(f"there is no parameter {name!r}; there are {', '.join(self._parameter_names())}")
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> Self:
        # The default clone would copy a fitted model in ``init`` without what it has learned.
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not (value is defaults[name].default or isinstance(value, (int, float, str)) and value == defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        if self._model_or_none is not None:
            function, arguments = self._model_or_none.__reduce__()
            other._model = function(*arguments)
        return other


def load(path: str | os.PathLike[str]) -> TensorNOODL:
    """Read a model file that this package or the program ``noodl`` has written."""
    return TensorNOODL.load(path)


def _surprise(place: _core._Surprise) -> Surprise:
    step, row, col, events, expected, p_total, p_shape, significant, too_many = place
    features = [Excess(*feature) for feature in too_many]
    return Surprise(step, row, col, events, expected, p_total, p_shape, significant, features)


def _record(step: Record) -> Record:
    """Return the record of a step with its surprises as objects."""
    return step | {"surprises": [_surprise(place) for place in step["surprises"]]}


def _warn_of_left_out(count: int, stacklevel: int) -> None:
    if count:
        cells = "1 cell has a feature" if count == 1 else f"{count} cells have features"
        warnings.warn(f"{cells} that the model does not know; left out", stacklevel=stacklevel)


def _require(module: str, what: str) -> Any:
    """Import a module that a method needs."""
    try:
        return __import__(module)
    except ImportError:
        raise ImportError(f"{what} needs {module}, which is not installed: pip install {module}") from None
