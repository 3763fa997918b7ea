"""Pictures that the chapters share.

Each function draws one figure and returns it, closed, so that a notebook shows it once. Series
differ in colour, marker and line style, so that they can be told apart without colour; backgrounds
are opaque and light; nothing in a picture depends on the moment or the machine.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from PIL import Image

from dpbai import _check
from dpbai.maxdet import MaxDet
from dpbai.policies import Phase
from dpbai.schedule import Schedule

# Colours of Okabe and Ito, and a grey that is legible on white.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
BLACK, GREY = "#000000", "#767676"

SERIES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "marker": "o", "linestyle": "-"},
    {"color": ORANGE, "marker": "s", "linestyle": "--"},
    {"color": BLACK, "marker": "^", "linestyle": "-."},
    {"color": GREEN, "marker": "D", "linestyle": ":"},
    {"color": PURPLE, "marker": "v", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
)
"""How the first, second, ... series of a plot look."""

_NAMES = ("DP-BAI", "Baseline", "OD-LinBAI", "DP-OD", "DP-BAI-Gauss")
POLICIES = dict(zip(_NAMES, SERIES, strict=True))
"""How each policy looks, the same in every chapter."""

WIDTH = 5.8
"""Width of a figure in inches: text stays legible where a phone shrinks it."""

_STYLE: Any = {
    "figure.dpi": 120,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
    "svg.hashsalt": "dpbai",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


class Picture(Figure):
    """A figure that a notebook stores as a small PNG: 64 colours are enough for a plot."""

    def png(self) -> bytes:
        """Return the figure as a PNG file, the same bytes each time."""
        drawn, reduced = io.BytesIO(), io.BytesIO()
        self.savefig(drawn, format="png", bbox_inches="tight")
        Image.open(drawn).convert("RGB").quantize(64).save(reduced, "PNG", optimize=True)
        return reduced.getvalue()

    def _ipython_display_(self) -> None:
        """Show these bytes: Matplotlib's own hook for notebooks would go before a `_repr_png_`."""
        data = base64.b64encode(self.png()).decode()
        bundle = {"image/png": data, "text/plain": repr(self)}
        display(bundle, raw=True)  # type: ignore[no-untyped-call]


@contextmanager
def canvas(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = (WIDTH, 3.4), **options: Any
) -> Iterator[tuple[Picture, Any]]:
    """Open a figure in the style of the book; it is closed at the end, ready to be shown.

    Parameters
    ----------
    rows, columns : int, default 1
        Grid of axes.
    size : (float, float), default (5.8, 3.4)
        Width and height in inches.
    **options
        As in `matplotlib.pyplot.subplots`.

    Yields
    ------
    Picture, and its axes as `subplots` gives them.
    """
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(rows, columns, figsize=size, FigureClass=Picture, **options)
        try:
            yield figure, axes
            # The layout settles on the first drawing and moves on the next: fix it here.
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        finally:
            plt.close(figure)


@contextmanager
def _panels(
    count: int, columns: int, xlabel: str, ylabel: str
) -> Iterator[tuple[Picture, list[Axes]]]:
    """Open a grid of panels that share their axes, their labels and one legend."""
    columns = min(columns, count)
    rows = -(-count // columns)
    options = {"sharex": True, "sharey": True, "squeeze": False}
    with canvas(rows, columns, size=(WIDTH, 0.9 + 2.1 * rows), **options) as (figure, axes):
        yield figure, list(axes.flat[:count])
        for column, spare in enumerate(axes[-1]):
            if (rows - 1) * columns + column >= count:
                spare.set_axis_off()
                axes[-2, column].tick_params(labelbottom=True)
        figure.supxlabel(xlabel, fontsize=10)
        figure.supylabel(ylabel, fontsize=10)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4)


def success_curves(
    table: pd.DataFrame, *, along: Literal["budget", "epsilon"], columns: int = 2
) -> Picture:
    """Draw success rates of policies with their confidence bands, as in Figure 1 of the paper.

    Parameters
    ----------
    table : pandas.DataFrame
        What `dpbai.study` returns, or some rows of it.
    along : {"budget", "epsilon"}
        The horizontal axis. There is a panel for each value of the other one.
    columns : int, default 2
        Number of panels side by side, at most.

    Returns
    -------
    Picture
        A policy without epsilon appears in every panel; along epsilon it is a level line.

    Raises
    ------
    ValueError
        If `along` is neither, or `table` has no row with an epsilon.
    """
    _check.choice(along, "along", ("budget", "epsilon"))
    across = "epsilon" if along == "budget" else "budget"
    private = table[table["epsilon"].notna()]
    values = sorted(private[across].unique())
    if not values:
        raise ValueError("table must have rows with an epsilon, got none")
    xlabel = "budget $T$ (pulls)" if along == "budget" else r"privacy parameter $\varepsilon$ (log)"
    with _panels(len(values), columns, xlabel, "success rate (0 to 1)") as (figure, panels):
        for panel, value in zip(panels, values, strict=True):
            for name, group in table.groupby("policy", sort=False):
                here = group[(group[across] == value) | group[across].isna()]
                _curve(panel, here.sort_values(along), along, str(name))
            sign = r"\varepsilon" if across == "epsilon" else "T"
            panel.set(title=f"${sign} = {value:g}$", ylim=(0, 1.02))
            if along == "epsilon":
                panel.set_xscale("log")
    return figure


def _curve(panel: Axes, rows: pd.DataFrame, along: str, name: str) -> None:
    """Draw one policy in one panel."""
    look = POLICIES.get(name, SERIES[-1])
    if rows[along].isna().any():
        row = rows.iloc[0]
        panel.axhspan(row["low"], row["high"], color=look["color"], alpha=0.15, linewidth=0)
        panel.axhline(
            row["success_rate"], color=look["color"], linestyle=look["linestyle"], label=name
        )
        return
    panel.fill_between(
        rows[along], rows["low"], rows["high"], color=look["color"], alpha=0.2, linewidth=0
    )
    panel.plot(rows[along], rows["success_rate"], label=name, **look)


def arms_in_the_plane(vectors: ArrayLike, found: MaxDet, *, names: Sequence[str]) -> Picture:
    """Draw arms in the plane with a Max-Det pair, and all arms in coordinates of that pair.

    Parameters
    ----------
    vectors : array_like of shape (K, 2)
        Feature vectors.
    found : MaxDet
        What `dpbai.max_det` returns for them; a pair.
    names : sequence of str
        What to call the two arms of the pair.

    Returns
    -------
    Picture
        Left as given, right in coordinates of the pair; in both, the box of all points whose
        coordinates lie in [-1, 1].

    Raises
    ------
    ValueError
        If the vectors are not in the plane, or the collection is not a pair of them.
    """
    array = _check.matrix(vectors, "vectors", least_rows=2)
    if array.shape[1] != 2 or found.coordinates.shape != array.shape:
        raise ValueError(f"vectors must be K x 2 with a pair found, got shape {array.shape}")
    with canvas(1, 2, size=(WIDTH, 3.2)) as (figure, (left, right)):
        box = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
        for panel, points in ((left, array), (right, found.coordinates)):
            pair = points[found.indices]
            panel.fill(*(box @ pair).T, color=BLUE, alpha=0.1)
            panel.plot(*(box @ pair).T, color=BLACK, linestyle="--", linewidth=1, label="the box")
            rest = np.delete(points, found.indices, axis=0)
            panel.plot(*rest.T, "o", color=GREY, markersize=4, label="other arms")
            panel.plot(*pair.T, "D", color=ORANGE, markersize=7, label="Max-Det pair")
            for point, name in zip(pair, names, strict=True):
                panel.annotate("", point, (0, 0), arrowprops={"arrowstyle": "->", "color": ORANGE})
                panel.annotate(name, point, (6, 6), textcoords="offset points", color=BLACK)
            panel.margins(0.15)
        left.set(xlabel="first feature", ylabel="second feature", title="as given")
        right.set(
            xlabel=f"coordinate along {names[0]} (-1 to 1)",
            ylabel=f"coordinate along {names[1]} (-1 to 1)",
            title="in coordinates of the pair",
            aspect="equal",
        )
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure


def sizes(schedules: Mapping[str, Schedule]) -> Picture:
    """Draw the number of active arms s_p against the phase p, for each named schedule.

    The sizes come from eq. (s-p) of the paper, the last being the one arm that is returned. The
    line at ceil(d^2/4), where the first stage ends, is that of the first schedule.
    """
    with canvas() as (figure, axes):
        first = next(iter(schedules.values()))
        axes.axhline(first.target, color=GREY, linewidth=1)
        axes.annotate(
            rf"$\lceil d^2/4 \rceil = {first.target}$",
            (1, first.target),
            (0, 4),
            textcoords="offset points",
            color=BLACK,
        )
        for (name, schedule), look in zip(schedules.items(), SERIES, strict=False):
            phases = range(1, len(schedule.sizes) + 1)
            axes.plot(phases, schedule.sizes, label=name, **look)
        longest = max(len(schedule.sizes) for schedule in schedules.values())
        axes.set(
            yscale="log",
            xlabel="phase $p$ (the last point is the arm that is returned)",
            ylabel="active arms $s_p$ (log)",
            xticks=range(1, longest + 1),
        )
        axes.legend()
    return figure


def estimates(
    phases: Sequence[Phase],
    estimated: Sequence[ArrayLike],
    means: ArrayLike,
    *,
    columns: int = 3,
) -> Picture:
    """Draw what one run estimated in each phase against the truth, with the scale of its noise.

    Parameters
    ----------
    phases : sequence of Phase
        The plans of the run, in order.
    estimated : sequence of array_like
        For each phase, its estimates of the active arms.
    means : array_like of shape (K,)
        True means of all arms.
    columns : int, default 3
        Number of panels side by side.

    Returns
    -------
    Picture
        Bars are one standard deviation of the privacy noise on each estimate, from the plan alone.
    """
    truth = np.asarray(means, dtype=float)
    with _panels(len(phases), columns, "true mean (0 to 1)", "private estimate") as (
        figure,
        panels,
    ):
        for panel, phase, values in zip(panels, phases, estimated, strict=True):
            _phase(panel, phase, np.asarray(values, dtype=float), truth)
    return figure


def _phase(panel: Axes, phase: Phase, values: Any, truth: Any) -> None:
    """Draw one phase of a run."""
    active = np.array(phase.active)
    deviations = phase.noise.standard_deviation * np.linalg.norm(phase.decoder, axis=1)
    keeps = np.isin(active, phase.survivors(values[None])[0])
    best = active == truth.argmax()
    panel.axline((0.5, 0.5), slope=1, color=GREY, linewidth=1)
    for chosen, label, look in (
        (~keeps & ~best, "dropped", {"marker": "x", "color": GREY}),
        (keeps & ~best, "kept", {"marker": "o", "color": BLUE}),
        (best, "best arm", {"marker": "*", "color": ORANGE, "markersize": 11}),
    ):
        panel.errorbar(
            truth[active[chosen]],
            values[chosen],
            deviations[chosen],
            linestyle="none",
            linewidth=0.8,
            label=label,
            **look,
        )
    panel.set_title(f"phase {phase.index}: {len(active)} to {phase.keep}")
