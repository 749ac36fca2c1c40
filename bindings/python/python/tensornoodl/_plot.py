"""Patterns as figures of matplotlib, each drawn as its kind asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

    from ._estimator import TensorNOODL

#: White at 0, blue above and orange below: told apart by the colour-blind too.
ABOVE, BELOW = "#0b6e99", "#c2571a"


def plot(model: TensorNOODL, patterns: Sequence[int] | range, top: int) -> matplotlib.figure.Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot needs matplotlib, which is not installed: pip install matplotlib") from None
    figure = Figure(figsize=(11, 2.6 * max(len(patterns), 1)), layout="constrained")
    try:
        # In a notebook it shows itself; elsewhere it can be saved.
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        FigureCanvasAgg(figure)
    except ImportError:
        pass
    axes = figure.subplots(len(patterns), 3, squeeze=False, width_ratios=(2, 1, 1))
    for (picture, rows, cols), pattern in zip(axes, patterns):
        _pattern(picture, model, pattern)
        members = model.leading(pattern)
        _members(rows, members[0][:top], "rows")
        _members(cols, members[1][:top], "cols")
    return figure


def _pattern(axes: matplotlib.axes.Axes, model: TensorNOODL, pattern: int) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    values, labels = model.components_[pattern], model.feature_labels_
    kind, grid = model._known.kind()
    axes.set_title(f"pattern {pattern + 1}", loc="left")
    colors = LinearSegmentedColormap.from_list("noodl", [BELOW, "white", ABOVE])
    most = np.abs(values).max()
    if grid is not None:
        (across, up), ((left, right), (low, high)) = grid
        shown = values.reshape(up, across)
        image = axes.imshow(shown, cmap=colors, vmin=-most, vmax=most, origin="lower", extent=(left, right, low, high))
        axes.figure.colorbar(image, ax=axes, shrink=0.8)
    elif kind == "week" and len(values) == 7 * 24:
        axes.imshow(values.reshape(7, 24), cmap=colors, vmin=-most, vmax=most, aspect="auto")
        axes.set_yticks(range(7), ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
        axes.set_xlabel("hour")
    else:
        at = np.arange(len(values))
        if kind == "bars":
            axes.bar(at, values, color=np.where(values >= 0, ABOVE, BELOW))
        else:
            axes.plot(at, values, color=ABOVE)
            axes.fill_between(at, values, color=ABOVE, alpha=0.15)
        axes.axhline(0, color="#999", linewidth=0.8)
        every = max(1, -(-len(labels) // 8))
        axes.set_xticks(at[::every], [_short(label) for label in labels[::every]], rotation=30, ha="right", fontsize=8)


def _members(axes: matplotlib.axes.Axes, members: list[tuple[str, float]], title: str) -> None:
    axes.set_title(title, loc="left", color="#555")
    at = np.arange(len(members))
    values = np.array([value for _, value in members])
    axes.barh(at, np.abs(values), color=np.where(values >= 0, ABOVE, BELOW))
    axes.set_yticks(at, [_short(label) for label, _ in members], fontsize=8)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)


def _short(label: Any) -> str:
    text = str(label)
    return text if len(text) <= 24 else text[:23] + "…"
