"""What all pictures share: their look, and the canvas they are drawn on."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

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
def panels_in_a_grid(
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
