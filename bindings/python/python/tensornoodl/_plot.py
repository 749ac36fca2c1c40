"""Patterns as figures of matplotlib, each drawn as its kind asks for."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle, Rectangle
except ImportError:
    raise ImportError("plot needs matplotlib, which is not installed: pip install matplotlib") from None

if TYPE_CHECKING:
    from ._estimator import TensorNOODL
    from ._inputs import Floats

#: White at 0, blue above and orange below: told apart by the colour-blind too.
ABOVE, BELOW = "#0b6e99", "#c2571a"
#: Lines and words that stay behind.
FAINT, WORDS = "#999999", "#555555"

#: Inches.
WIDTH, BAR = 10.0, 0.2


class Picture(Figure):
    """A figure that shows itself in a notebook, also where pyplot is not in use."""

    def _repr_png_(self) -> bytes:
        png = io.BytesIO()
        self.savefig(png, format="png")
        return png.getvalue()


def plot(model: TensorNOODL, patterns: Sequence[int] | range, top: int) -> Figure:
    _, row, col = model._known.axes()
    kind, _ = model._known.kind()
    members = [[part[:top] for part in model.leading(pattern)] for pattern in patterns]
    bars = max((len(part) for pair in members for part in pair), default=0)
    if kind == "bars":
        bars = max(bars, min(top, model.n_features_in_))
    height = max(2.8 if kind == "grid" else 1.9, BAR * bars + 0.7)
    figure = Picture(figsize=(WIDTH, height * max(len(patterns), 1)), layout="constrained")
    # A map is about as high as it is wide.
    ratios = (1.05 if kind == "grid" else 1.8, 1, 1)
    axes = figure.subplots(len(patterns), 3, squeeze=False, width_ratios=ratios)
    for (picture, rows, cols), pattern, (senders, receivers) in zip(axes, patterns, members):
        _pattern(picture, model, pattern, bars)
        picture.set_title(f"pattern {pattern + 1}", loc="left", fontsize=11, fontweight="bold")
        for part, those, title in ((rows, senders, _title(row, "rows")), (cols, receivers, _title(col, "cols"))):
            _bars(part, those, bars)
            part.set_title(title, loc="left", fontsize=10, color=WORDS, parse_math=False)
    below = any(value < 0 for pair in members for part in pair for _, value in part)
    if below or kind == "bars" and model.components_.min() < 0:
        figure.supxlabel("orange: with the opposite sign", x=0.99, ha="right", fontsize=8, color=BELOW)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    return figure


def _pattern(axes: Axes, model: TensorNOODL, pattern: int, room: int) -> None:
    values, labels = model.components_[pattern], model.feature_labels_
    kind, grid = model._known.kind()
    feature, _, _ = model._known.axes()
    colors = LinearSegmentedColormap.from_list("noodl", [BELOW, "white", ABOVE])
    most = float(np.abs(values).max())
    if grid is not None:
        (across, up), ((left, right), (low, high)) = grid
        shown = values.reshape(up, across)
        extent = (left, right, low, high)
        # A map keeps its proportions, unless that would make it a thread.
        fits = 1 / 3 < (right - left) / (high - low) < 3
        image = axes.imshow(shown, cmap=colors, vmin=-most, vmax=most, origin="lower", extent=extent)
        axes.set_aspect("equal" if fits else "auto")
        if feature.startswith("court("):
            _court(axes)
        else:
            axes.tick_params(labelsize=8, color=FAINT, labelcolor=WORDS)
        axes.spines[:].set_color(FAINT)
        bar = axes.figure.colorbar(image, ax=axes, shrink=0.8, aspect=18, ticks=(-most, 0, most), format="%.1f")
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8, length=0, labelcolor=WORDS)
    elif kind == "week" and len(values) == 7 * 24:
        axes.imshow(values.reshape(7, 24), cmap=colors, vmin=-most, vmax=most, aspect="auto")
        axes.set_yticks(range(7), ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
        axes.set_xticks(range(0, 24, 6), ["0:00", "6:00", "12:00", "18:00"])
        axes.tick_params(labelsize=8, color=FAINT, labelcolor=WORDS)
        axes.spines[:].set_color(FAINT)
    elif kind == "bars":
        strongest = np.argsort(-np.abs(values), kind="stable")[:room]
        _bars(axes, [(labels[at], float(values[at])) for at in strongest], room)
    else:
        _line(axes, values, labels)


def _line(axes: Axes, values: Floats, labels: list[str]) -> None:
    at = np.arange(len(values))
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.fill_between(at, values, color=ABOVE, alpha=0.15, linewidth=0)
    axes.plot(at, values, color=ABOVE, linewidth=1.6)
    # As many labels as have room beside each other.
    room = max(2, int(60 / (max(map(len, labels)) + 2)))
    every = -(-len(labels) // room)
    axes.set_xticks(at[::every], [_short(label) for label in labels[::every]], parse_math=False)
    axes.locator_params(axis="y", nbins=4)
    axes.margins(x=0.02)
    _plain(axes)


def _bars(axes: Axes, members: list[tuple[str, float]], room: int) -> None:
    at = np.arange(len(members))
    values = np.array([value for _, value in members])
    axes.barh(at, np.abs(values), height=0.72, color=np.where(values >= 0, ABOVE, BELOW))
    axes.set_yticks(at, [_short(label) for label, _ in members], parse_math=False)
    # Bars are equally thick wherever there are fewer of them.
    axes.set_ylim(max(room, 1) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=4)
    _plain(axes)
    axes.tick_params(axis="y", length=0, labelcolor="black")


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(labelsize=8, color=FAINT, labelcolor=WORDS)


def _court(axes: Axes) -> None:
    """The lines of a court of the league, in tenths of feet from the hoop."""
    look: dict[str, Any] = {"fill": False, "color": "#222222", "linewidth": 0.9}
    corner = np.arccos(220.0 / 237.5)
    turn = np.linspace(corner, np.pi - corner, 60)
    x = np.concatenate([[220], 237.5 * np.cos(turn), [-220]])
    y = np.concatenate([[-52.5], 237.5 * np.sin(turn), [-52.5]])
    axes.plot(x, y, color="#222222", linewidth=0.9)
    axes.add_patch(Circle((0, 0), 7.5, **look))
    axes.add_patch(Rectangle((-80, -52.5), 160, 190, **look))
    axes.add_patch(Circle((0, 137.5), 60, **look))
    axes.set_xlim(-250, 250)
    axes.set_ylim(-52.5, 417.5)
    axes.set_xticks([])
    axes.set_yticks([])


def _title(axis: str, otherwise: str) -> str:
    """What an axis is made of; arrays have numbers there, also for dimensions that have only a name."""
    if axis.startswith("bin(") and axis.endswith(",1)"):
        axis = axis[4:-3]
    return otherwise if axis.isdigit() else axis


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"
