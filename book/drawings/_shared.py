"""Helpers that several modules of figures use, in addition to those of the canvas."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_hex
from numpy.typing import ArrayLike

from dpbai.field.figures.canvas import BLACK, BOUND, EXACT, GREY


def curve(look: dict[str, Any], *, bound: bool = False) -> dict[str, Any]:
    """Return the look of a series as a curve without marks: a bound dashed, all else solid."""
    return look | {"marker": "", "linestyle": BOUND if bound else EXACT}


def ramp(count: int) -> list[str]:
    """Return colours from dark to light for an ordered parameter, all legible on white."""
    return [to_hex(color) for color in mpl.colormaps["viridis"](np.linspace(0, 0.55, count))]


def between(low: str, high: str) -> Colormap:
    """Return a colour map from one colour over white to another, for signed differences."""
    return LinearSegmentedColormap.from_list("between", [low, "white", high])


def mark(axes: Axes, text: str, where: float) -> None:
    """Draw a vertical line, with its text along it."""
    axes.axvline(where, color=GREY, linewidth=1)
    axes.annotate(
        text,
        (where, 0.02),
        (-4, 0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right",
        rotation=90,
        color=BLACK,
    )


def rates(
    axes: Axes, x: ArrayLike, rows: pd.DataFrame, look: dict[str, Any], *, cap: float = 2
) -> None:
    """Draw sampled rates as points, with bars from `low` to `high`, and caps on the bars."""
    rate = rows["success_rate"]
    reach = [rate - rows["low"], rows["high"] - rate]
    axes.errorbar(x, rate, reach, capsize=cap, linewidth=1, **look | {"linestyle": "none"})


def name_end(axes: Axes, text: str, end: tuple[float, float], color: Any) -> None:
    """Write the name of a line in its colour, to the right of its last point."""
    look = {"color": color, "va": "center", "fontsize": 9}
    axes.annotate(text, end, (8, 0), textcoords="offset points", **look)


def broken_above(axes: Axes, stated: float, top: float) -> None:
    """Shade where a loss exceeds the stated one, up to the top of the axes, and name it."""
    axes.axhspan(stated, top, color=GREY, alpha=0.18, linewidth=0)
    axes.axhline(stated, color=BLACK, linewidth=1)
    axes.text(0.03, 0.97, "guarantee violated", va="top", style="italic", transform=axes.transAxes)
