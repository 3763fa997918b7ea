"""The style of all figures, and the canvas that they are drawn on."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import NullLocator
from matplotlib.transforms import Bbox, Transform
from scipy.spatial.distance import cdist

from dpbai._check import FloatArray

# The colours of Okabe and Ito with a darker purple, and a grey.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#B3487F"
BLACK, GREY = "#000000", "#767676"
_LETTERS = {ORANGE: "#B34A00", GREEN: "#007D5B"}  # darker: text needs a contrast of 4.5 with white

SERIES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "marker": "o", "linestyle": "-"},
    {"color": ORANGE, "marker": "s", "linestyle": "--"},
    {"color": BLACK, "marker": "^", "linestyle": "-."},
    {"color": GREEN, "marker": "D", "linestyle": ":"},
    {"color": PURPLE, "marker": "v", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
)
"""Styles of the first, second, ... series of a plot."""

EXACT, BOUND = "-", "--"
"""Line styles: exact values are solid, bounds dashed; sampled values have a band or bars."""

_NAMES = ("DP-BAI", "Baseline", "OD-LinBAI", "DP-OD", "DP-BAI-Gauss")
POLICIES = {
    name: {**look, "linestyle": EXACT} for name, look in zip(_NAMES, SERIES, strict=True)
} | {
    "DP-Design": {"color": "#6A3D9A", "marker": "P", "linestyle": EXACT},
    "DP-Halving": {"color": "#8C510A", "marker": "X", "linestyle": EXACT},
}
"""The colour and the marker of each policy, the same in every chapter."""

WIDTH = 5.8
"""Width of a figure in inches. Text is still legible on the screen of a phone."""

_MOST_POINTS = 20_000
_CLEARANCE = 6  # pixels between a name and anything else that is drawn
# Where a name may stand: above, below or beside a point of its line; if none is free, at a corner.
_SIDES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
_CORNERS = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
_LONG_AXIS = 1e4  # a log axis that spans a larger factor has ticks only at powers
_DIGITS = 8  # of the hash of a figure: two of a thousand figures share it with probability 1e-4
_UNDATED = {"Date": None, "Creator": None}
_STYLE: Any = {
    "figure.dpi": 120,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
    "svg.hashsalt": "dpbai",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.facecolor": "none",
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
    """A figure that a notebook stores as a small SVG, sharp on every screen and in print."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.named: list[tuple[Axes, ...]] = []  # groups of panels from `name_lines`
        self._names: list[Text] = []

    def write_names(self) -> None:
        """Write the names that `name_lines` requests, and remove those written before.

        Call this if the limits of axes have changed after the `canvas` was closed.
        """
        for text in self._names:
            text.remove()
        with plt.rc_context(_STYLE):
            self._names = [text for panels in self.named for text in _name_lines(panels)]

    def svg(self) -> str:
        """Return the figure as SVG, with the same bytes each time.

        Text is drawn as outlines, so that it looks the same everywhere. The background is
        transparent, so that a page in dark mode can invert the colours.
        """
        drawn = io.StringIO()
        ground, dpi = self.patch.get_facecolor(), self.dpi
        try:
            self.patch.set_facecolor("none")
            for text in self.findobj(Text):
                text.set_color(_LETTERS.get(to_hex(text.get_color()).upper(), text.get_color()))
            with plt.rc_context(_STYLE):  # `savefig` would draw everything twice
                printer: Any = FigureCanvasSVG(self)
                printer.print_svg(drawn, metadata=_UNDATED)
        finally:
            self.patch.set_facecolor(ground)
            self.dpi = dpi
        return _slim(drawn.getvalue())

    def _ipython_display_(self) -> None:
        """Show the SVG; the hook that Matplotlib sets takes precedence over a `_repr_svg_`."""
        from IPython.display import display

        bundle = {"image/svg+xml": self.svg(), "text/plain": repr(self)}
        display(bundle, raw=True)  # type: ignore[no-untyped-call]


def _slim(text: str) -> str:
    """Return an SVG from Matplotlib at less than half its length, with the same look."""
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace("xlink:href", "href").replace('<g id="', '<g data-id="')
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([\w-]+)', text))
    # All figures of a page share one namespace, so identifiers begin with a hash of the figure.
    own = "p" + hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    short = {name: f"{own}-{number:x}" for number, name in enumerate(used)}
    text = re.sub(r' data-id="[^"]*"', "", text)
    text = re.sub(r'(?<=[ #"(])[\w-]+(?=[")])', lambda name: short.get(name[0], name[0]), text)
    text = re.sub(r' (?:d|x|y|transform)="[^"]*"', _rounded, text)
    text = re.sub(r"(?<=<svg )[^>]*?(?=viewBox)", _enlarged, text)
    return re.sub(r"\s*(?:<!--.*?-->)?\s*\n\s*", "\n", text)


def _rounded(attribute: re.Match[str]) -> str:
    """Return an attribute with coordinates rounded to 0.01 points, and scales unchanged."""
    long = r"(?<![\d.(])-?\d+\.\d{3,}|(?<=translate\()-?\d+\.\d{3,}"
    short = re.sub(long, lambda x: f"{float(x[0]):.2f}".rstrip("0").rstrip("."), attribute[0])
    return re.sub(r"\s*\n\s*", " ", short)


def _enlarged(size: re.Match[str]) -> str:
    """Return the size of an SVG, given in points of 1/72 inch, in dots at the style's dpi."""
    scale = _STYLE["figure.dpi"] / 72
    dots = re.sub(r'"([\d.]+)pt"', lambda points: f'"{scale * float(points[1]):.0f}"', size[0])
    return re.sub(r"xmlns:\S* ", "", dots)


@contextmanager
def canvas(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = (WIDTH, 3.4), **options: Any
) -> Iterator[tuple[Picture, Any]]:
    """Open a figure in the style of the book; it is laid out and closed on exit.

    Parameters
    ----------
    rows, columns : int, default 1
        Shape of the grid of axes.
    size : (float, float), default (5.8, 3.4)
        Width and height in inches.
    **options
        As in `matplotlib.pyplot.subplots`.

    Yields
    ------
    Picture, and its axes as `subplots` returns them.
    """
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(rows, columns, figsize=size, FigureClass=Picture, **options)
        try:
            yield figure, axes
            for axis in (side for each in figure.axes for side in (each.xaxis, each.yaxis)):
                low, high = sorted(axis.get_view_interval())
                if axis.get_scale() == "log" and high > _LONG_AXIS * low:
                    axis.set_minor_locator(NullLocator())  # too many ticks
            # Fix the layout, which would otherwise be computed again each time it is drawn.
            cast(LayoutEngine, figure.get_layout_engine()).execute(figure)
            figure.set_layout_engine("none")
            figure.write_names()
        finally:
            plt.close(figure)


@contextmanager
def panels_in_a_grid(
    count: int, columns: int, xlabel: str, ylabel: str
) -> Iterator[tuple[Picture, list[Axes]]]:
    """Open a grid of panels with shared axes and axis labels, and write the names of lines."""
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
        name_lines(*axes.flat[:count])


def name_lines(*panels: Axes) -> None:
    """Write the label of each line beside it, in its colour and as near to its end as possible.

    Of panels whose lines have the same labels, only the panel whose lines are farthest apart shows
    them. The labels are written when the `canvas` is closed, after the layout.
    """
    cast(Picture, panels[0].figure).named.append(panels)


def _name_lines(panels: Sequence[Axes]) -> list[Text]:
    """Write the names of the lines of some panels, and return the texts that stay."""
    groups: dict[tuple[str, ...], list[tuple[float, list[Text]]]] = {}
    for panel in panels:
        texts, distance = _panel_names(panel)
        groups.setdefault(tuple(text.get_text() for text in texts), []).append((distance, texts))
    kept = []
    for choices in groups.values():
        best = max(choices, key=lambda choice: choice[0])
        for choice in choices:
            for text in choice[1] if choice is not best else ():
                text.remove()
        kept += best[1]
    return kept


def _panel_names(axes: Axes) -> tuple[list[Text], float]:
    """Write the names of the lines of one panel.

    Return them, and the mean distance between the two lines that are closest, in pixels.
    """
    frame = axes.get_window_extent()
    lines = axes.get_lines()
    paths = [
        _path_points(
            line.get_xydata(), line.get_transform(), frame, joined=line.get_linestyle() != "None"
        )
        for line in lines
    ]
    bars = [
        _path_points(segment, each.get_transform(), frame)
        for each in axes.collections
        if isinstance(each, LineCollection)
        for segment in each.get_segments()
    ]
    occupied = np.concatenate([*paths, *bars, *(_text_points(text) for text in axes.texts)])
    names = [str(line.get_label()) for line in lines]  # Matplotlib's own begin with _
    named = [row for row in zip(names, lines, paths, strict=True) if row[0][:1] != "_"]
    pairs = combinations([path for *_, path in named if len(path)], 2)
    distance = min((float(cdist(*pair).min(axis=1).mean()) for pair in pairs), default=math.inf)
    written = []
    for name, line, path in named:
        look: dict[str, Any] = {"color": line.get_color(), "ha": "center", "va": "center"}
        text = axes.text(0.5, 0.5, name, transform=axes.transAxes, fontsize=9, **look)
        written.append(text)
        box = text.get_window_extent()
        half = np.array([box.width, box.height]) / 2
        # Near the line or a little farther away, within the frame.
        reach = half + np.array([[4], [8], [14]])
        offsets = [(reach[:, None] * way).reshape(-1, 2) for way in (_SIDES, _CORNERS)]
        centres = np.concatenate([(path[::-4, None] + each).reshape(-1, 2) for each in offsets])
        low, high = frame.p0 + half + 1, frame.p1 - half - 1
        centres = centres[((centres >= low) & (centres <= high)).all(axis=1)]
        if not len(centres):
            text.set_visible(False)
            distance = -math.inf
            continue
        across, along = (
            np.abs(np.subtract.outer(centres[:, k], occupied[:, k])) - half[k] for k in (0, 1)
        )
        gaps = np.minimum(np.maximum(across, along).min(axis=1), _CLEARANCE)
        text.set_position(axes.transAxes.inverted().transform(centres[gaps.argmax()]).tolist())
        occupied = np.concatenate([occupied, _text_points(text)])
    return written, distance


def _text_points(text: Text) -> FloatArray:
    """Return a grid of points in the box of a text, in pixels."""
    box = text.get_window_extent()
    sides = [
        np.linspace(low, high, math.ceil((high - low) / _CLEARANCE) + 1)
        for low, high in (box.intervalx, box.intervaly)
    ]
    return np.stack(np.meshgrid(*sides), -1).reshape(-1, 2)


def _path_points(
    data: Any, transform: Transform, frame: Bbox, *, joined: bool = True
) -> FloatArray:
    """Return points along a path, in pixels and a few pixels apart, that lie in a frame.

    For markers that no line joins, these are their positions.
    """
    data = np.asarray(data, dtype=float)
    points = transform.transform(data[np.isfinite(data).all(axis=1)])
    if joined and len(points):  # a policy that never failed has empty error bars
        steps = np.append(0, np.cumsum(np.hypot(*np.diff(points, axis=0).T)))
        along = np.linspace(0, steps[-1], min(math.ceil(steps[-1] / 3) + 2, _MOST_POINTS))
        points = np.column_stack([np.interp(along, steps, points[:, k]) for k in (0, 1)])
    return np.asarray(points[((points >= frame.p0) & (points <= frame.p1)).all(axis=1)])
