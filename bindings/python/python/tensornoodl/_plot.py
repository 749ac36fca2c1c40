"""Figures of patterns, by matplotlib. The feature axis determines whether a pattern is drawn as a line, a map or bars."""

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
    from . import _core
    from ._inputs import Floats

#: Colors of positive and negative values; 0 is white. Color-blind people can tell these apart, too.
ABOVE, BELOW = "#0b6e99", "#c2571a"
#: Colors of axes, and of secondary text.
FAINT, TEXT = "#999999", "#555555"

#: Width of a figure, and height of a bar with its gap, in inches.
WIDTH, BAR = 10.0, 0.2


class Picture(Figure):
    """A figure that notebooks display, also if pyplot is not imported."""

    def _repr_png_(self) -> bytes:
        png = io.BytesIO()
        self.savefig(png, format="png")
        return png.getvalue()


def plot(model: _core.Model, patterns: Sequence[int] | range, top: int) -> Figure:
    """Draw patterns, one below the other, each beside its ``top`` strongest rows and cols."""
    _, row, col = model.axes()
    kind, _ = model.kind()
    members = [[model.leading(pattern, axis)[:top] for axis in (0, 1)] for pattern in patterns]
    bars = max((len(part) for pair in members for part in pair), default=0)
    if kind == "bars":
        bars = max(bars, min(top, model.lengths()[0]))
    height = max(2.8 if kind == "grid" else 1.9, BAR * bars + 0.7)
    figure = Picture(figsize=(WIDTH, height * max(len(patterns), 1)), layout="constrained")
    # A map needs less width, because it is about as high as it is wide.
    ratios = (1.05 if kind == "grid" else 1.8, 1, 1)
    axes = figure.subplots(len(patterns), 3, squeeze=False, width_ratios=ratios)
    for (picture, rows, cols), pattern, (row_members, col_members) in zip(axes, patterns, members):
        _pattern(picture, model, pattern, bars)
        picture.set_title(f"pattern {pattern + 1}", loc="left", fontsize=11, fontweight="bold")
        for part, strongest, title in ((rows, row_members, _title(row, "rows")), (cols, col_members, _title(col, "cols"))):
            _bars(part, strongest, bars)
            part.set_title(title, loc="left", fontsize=10, color=TEXT, parse_math=False)
    negative = any(value < 0 for pair in members for part in pair for _, value in part)
    if negative or kind == "bars" and model.patterns().min() < 0:
        figure.supxlabel("orange: with the opposite sign", x=0.99, ha="right", fontsize=8, color=BELOW)
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    return figure


def _pattern(axes: Axes, model: _core.Model, pattern: int, room: int) -> None:
    """Draw the values of a pattern over its features; bars leave space for ``room`` of them."""
    values, labels = model.patterns()[pattern], model.labels()[0]
    kind, grid = model.kind()
    feature, _, _ = model.axes()
    colors = LinearSegmentedColormap.from_list("noodl", [BELOW, "white", ABOVE])
    largest = float(np.abs(values).max())
    if grid is not None:
        (across, up), ((left, right), (low, high)) = grid
        shown = values.reshape(up, across)
        extent = (left, right, low, high)
        # A map keeps its proportions, unless it would be very narrow.
        fits = 1 / 3 < (right - left) / (high - low) < 3
        image = axes.imshow(shown, cmap=colors, vmin=-largest, vmax=largest, origin="lower", extent=extent)
        axes.set_aspect("equal" if fits else "auto")
        if feature.startswith("court("):
            _court(axes)
        else:
            axes.tick_params(labelsize=8, color=FAINT, labelcolor=TEXT)
        axes.spines[:].set_color(FAINT)
        bar = axes.figure.colorbar(image, ax=axes, shrink=0.8, aspect=18, ticks=(-largest, 0, largest), format="%.1f")
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8, length=0, labelcolor=TEXT)
    elif kind == "week" and len(values) == 7 * 24:
        axes.imshow(values.reshape(7, 24), cmap=colors, vmin=-largest, vmax=largest, aspect="auto")
        axes.set_yticks(range(7), ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
        axes.set_xticks(range(0, 24, 6), ["0:00", "6:00", "12:00", "18:00"])
        axes.tick_params(labelsize=8, color=FAINT, labelcolor=TEXT)
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
    # As many labels as fit beside each other.
    room = max(2, int(60 / (max(map(len, labels)) + 2)))
    every = -(-len(labels) // room)
    axes.set_xticks(at[::every], [_short(label) for label in labels[::every]], parse_math=False)
    axes.locator_params(axis="y", nbins=4)
    axes.margins(x=0.02)
    _plain_frame(axes)


def _bars(axes: Axes, members: list[tuple[str, float]], room: int) -> None:
    at = np.arange(len(members))
    values = np.array([value for _, value in members])
    axes.barh(at, np.abs(values), height=0.72, color=np.where(values >= 0, ABOVE, BELOW))
    axes.set_yticks(at, [_short(label) for label, _ in members], parse_math=False)
    # With limits for ``room`` bars, all axes of a figure have bars of equal thickness.
    axes.set_ylim(max(room, 1) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=4)
    _plain_frame(axes)
    axes.tick_params(axis="y", length=0, labelcolor="black")


def _plain_frame(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(labelsize=8, color=FAINT, labelcolor=TEXT)


def _court(axes: Axes) -> None:
    """Draw the lines of an NBA court, in tenths of feet from the hoop."""
    style: dict[str, Any] = {"fill": False, "color": "#222222", "linewidth": 0.9}
    corner = np.arccos(220.0 / 237.5)
    angle = np.linspace(corner, np.pi - corner, 60)
    x = np.concatenate([[220], 237.5 * np.cos(angle), [-220]])
    y = np.concatenate([[-52.5], 237.5 * np.sin(angle), [-52.5]])
    axes.plot(x, y, color="#222222", linewidth=0.9)
    axes.add_patch(Circle((0, 0), 7.5, **style))
    axes.add_patch(Rectangle((-80, -52.5), 160, 190, **style))
    axes.add_patch(Circle((0, 137.5), 60, **style))
    axes.set_xlim(-250, 250)
    axes.set_ylim(-52.5, 417.5)
    axes.set_xticks([])
    axes.set_yticks([])


def _title(axis: str, otherwise: str) -> str:
    """Return the title of an axis: its expression, its name if it is numbered, or ``otherwise`` if it has no name."""
    if axis.startswith("bin(") and axis.endswith(",1)"):
        axis = axis[4:-3]
    return otherwise if axis.isdigit() else axis


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"
