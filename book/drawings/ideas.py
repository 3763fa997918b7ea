"""Figures that explain one idea each, such as the schedule, norms and releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse, Rectangle
from numpy.typing import ArrayLike

from dpbai import Schedule
from dpbai.field.figures.canvas import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    POLICIES,
    SERIES,
    WIDTH,
    Picture,
    canvas,
)

_ARROW: Any = {"arrowstyle": "-|>", "linewidth": 1.8, "shrinkA": 0, "shrinkB": 2}
_BOX: Any = {"boxstyle": "round,pad=0.45", "linewidth": 1.2, "facecolor": "white"}


def _say(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """Write a label, in the middle of its place unless `look` says otherwise."""
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9.5} | look
    axes.text(x, y, text, **style)


def _boxed(axes: Axes, x: float, y: float, text: str, color: str = GREY, **look: Any) -> None:
    """Write a label with a frame around it."""
    _say(axes, x, y, text, bbox=_BOX | {"edgecolor": color}, **look)


def bars_of(schedule: Schedule) -> Picture:
    """Draw the sizes of a schedule as bars of logarithmic width, with the factors between them.

    Parameters
    ----------
    schedule : Schedule
        Its two stages are bracketed.
    """
    sizes = schedule.sizes
    with canvas(size=(WIDTH, 0.6 + 0.36 * len(sizes))) as (figure, axes):
        widths = np.log10(sizes) + 0.12
        fast = schedule.M1
        for row, (size, width) in enumerate(zip(sizes, widths, strict=True)):
            color = BLUE if row < fast else ORANGE
            axes.barh(
                row, width, 0.74, left=-width / 2, color=color if row < len(sizes) - 1 else GREY
            )
            if width > 1:
                _say(axes, 0, row, f"{size:,}", color="white", weight="bold")
            else:
                _say(axes, width / 2 + 0.1, row, f"{size:,}", ha="left", weight="bold")
            phase = f"phase {row + 1}" if row < schedule.M else "returned"
            _say(axes, -2.35, row, phase, ha="right")
        for row, (before, after) in enumerate(pairwise(sizes)):
            factor = f"÷ {before / after:.1f}".removesuffix(".0")
            _say(axes, 2.35, row + 0.5, factor, ha="left")
        for first, last, name, color in (
            (0, fast, "fast", BLUE),
            (fast, schedule.M, "halve", ORANGE),
        ):
            if last == first:
                continue
            x = 3.2
            ends = first + 0.25, last - 0.2
            axes.plot([x, x + 0.1, x + 0.1, x], np.repeat(ends, 2), color=color)
            _say(axes, x + 0.2, sum(ends) / 2, name, ha="left", color=color, weight="bold")
        axes.set(xlim=(-3.2, 4.1), ylim=(len(sizes) - 0.5, -0.5))
        axes.set_axis_off()
    return figure


def deciding_plane(
    means: ArrayLike, covariances: Mapping[str, ArrayLike], missed: Mapping[str, float]
) -> Picture:
    """Draw where two estimates make arm 1 win, with the spread of the estimates of policies.

    Parameters
    ----------
    means : array_like of shape (2,)
        True means of arms 1 and 3.
    covariances : mapping of str to array_like of shape (2, 2)
        For each policy, the covariance of its two estimates; its ellipse is two deviations wide.
    missed : mapping of str to float
        For each policy, the probability that the two estimates lie outside the region.
    """
    low, high = -0.12, 0.92
    with canvas(size=(WIDTH, 3.9)) as (figure, axes):
        region = [(0, low), (0, 0), (high, high), (high, low)]
        axes.fill(*np.transpose(region), color=GREY, alpha=0.16, linewidth=0)
        axes.plot([0, 0, high], [low, 0, high], color=GREY, linewidth=1)
        axes.text(0.02, low + 0.02, "arm 1 is recommended: x > max(0, y)", fontsize=9)
        for row, (name, covariance) in enumerate(covariances.items()):
            values, vectors = np.linalg.eigh(np.asarray(covariance, dtype=float))
            angle = np.degrees(np.arctan2(*vectors[::-1, -1]))
            width, height = 4 * np.sqrt(values[::-1])
            color = POLICIES[name]["color"]
            place = tuple(np.asarray(means, dtype=float).tolist())
            look: dict[str, Any] = {"fill": False, "edgecolor": color, "linewidth": 2}
            axes.add_patch(Ellipse(place, width, height, angle=angle, **look))
            told = f"{name}\n{missed[name]:.1%} outside"
            look = {"transform": axes.transAxes, "color": color, "weight": "bold"}
            _say(axes, 1.03, 0.9 - 0.16 * row, told, ha="left", va="top", **look)
        axes.plot(*np.asarray(means, dtype=float), "*", color=ORANGE, markersize=7, zorder=3)
        axes.set(
            xlim=(low, high),
            ylim=(low, high),
            xlabel="estimate $x$ of arm 1",
            ylabel="estimate $y$ of arm 3",
            aspect="equal",
        )
    return figure


def turned_arm(degrees: float) -> Picture:
    """Draw an arm of Euclidean length 1 in the diamond of L1 norm 1 and in the unit circle.

    Parameters
    ----------
    degrees : float
        Angle of the arm with the first axis.
    """
    arm = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    norm = float(np.abs(arm).sum())
    edge = arm / norm
    around = np.linspace(0, 2 * np.pi, 181)
    with canvas(size=(WIDTH, 3.7)) as (figure, axes):
        axes.plot(np.cos(around), np.sin(around), color=BLACK, linewidth=1, linestyle="--")
        diamond = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
        axes.fill(*diamond.T, color=BLUE, alpha=0.15, linewidth=0)
        axes.plot(*diamond[[0, 1, 2, 3, 0]].T, color=BLUE, linewidth=1)
        axes.annotate("", edge, (0, 0), arrowprops={**_ARROW, "arrowstyle": "-", "color": BLUE})
        axes.annotate("", arm, edge, arrowprops={**_ARROW, "color": ORANGE, "linewidth": 2.6})
        axes.annotate("$a_i$", arm, 9 * arm - 5, textcoords="offset points", color=ORANGE)
        for x, y, text, color in (
            (0.0, -0.42, "the noise hides a step\nwithin the diamond", BLUE),
            (1.2, -0.75, "circle: Euclidean length 1,\nwhat DP-OD assumes", BLACK),
            (1.2, 0.75, f"L1 norm {norm:.2f}:\nloss {norm:.2f} ε", ORANGE),
        ):
            _say(axes, x, y, text, color=color, ha="left" if x else "center")
        axes.set(xlim=(-1.15, 2.6), ylim=(-1.1, 1.2), aspect="equal", xticks=[-1, 0, 1])
        axes.set(yticks=[-1, 0, 1], xlabel="first coordinate", ylabel="second coordinate")
        axes.xaxis.set_label_coords(0.3, -0.1)
        axes.grid(visible=False)
    return figure


def releases(rewards: Sequence[int], epsilon: float, *, reused: str) -> Picture:
    """Draw which releases one reward of the second phase enters.

    Parameters
    ----------
    rewards : sequence of int
        How many each phase draws; a dot stands for ten.
    epsilon : float
        The loss of each release to the rewards that it is made of.
    reused : {"nothing", "rewards", "releases"}
        What later phases use again.

    Returns
    -------
    Picture
        A column for each phase: its rewards, and below them the box of its release.
    """
    last = len(rewards) - 1
    entered = range(1, last + 1) if reused == "rewards" else range(1, 2)
    with canvas(size=(WIDTH, 3.3)) as (figure, axes):
        for place, (count, look) in enumerate(zip(rewards, SERIES, strict=False)):
            dots = np.arange(round(count / 10))
            x, y = place + 0.12 * (dots % 6 - 2.5), 1 + 0.13 * (dots // 6)
            axes.plot(x, y, "o", color=look["color"], markersize=4, alpha=0.55)
            hit = place in entered
            face = look["color"] if hit else "white"
            axes.add_patch(
                Rectangle((place - 0.38, -0.35), 0.76, 0.4, facecolor=face, edgecolor=look["color"])
            )
            color = ("black" if place == 4 else "white") if hit else BLACK
            _say(axes, place, -0.15, f"release {place + 1}", color=color, fontsize=9)
            told = rf"loss {epsilon:g}" if hit else "loss 0"
            _say(axes, place, -0.55, told, weight="bold" if hit else "normal", fontsize=9)
            _say(axes, place, 1.75, f"phase {place + 1}", fontsize=9)
        dot = 1 + 0.12 * 0.5, 1.0
        axes.plot(*dot, "o", color=BLACK, markersize=7)
        for place in entered:
            axes.annotate("", (place, 0.06), dot, arrowprops={**_ARROW, "color": BLACK})
        for place in range(1, last) if reused == "releases" else ():
            ends = (place + 0.62, -0.15), (place + 0.38, -0.15)
            axes.annotate("", *ends, arrowprops={**_ARROW, "color": GREY})
        total = epsilon * len(entered)
        lost = f"this reward loses {total:g} in all, {epsilon:g} is stated"
        color = ORANGE if total > epsilon else BLACK
        _say(axes, last / 2, -0.92, lost, weight="bold", color=color)
        axes.set(xlim=(-0.5, last + 0.5), ylim=(-1.0, 1.85))
        axes.set_axis_off()
    return figure


def decision_tree(steps: Sequence[tuple[str, str, str]], last: str) -> Picture:
    """Draw questions one below the other, each with the answer that ends the search beside it.

    Parameters
    ----------
    steps : sequence of (str, str, str)
        A question, the answer that leads to the right, and what stands there. Any other answer
        leads to the next question.
    last : str
        What stands below the last question.
    """
    with canvas(size=(WIDTH, 0.75 * (len(steps) + 1))) as (figure, axes):
        for row, (question, answer, leaf) in enumerate(steps):
            other = {"yes": "no", "no": "yes"}[answer]
            axes.annotate("", (0.62, row), (0.35, row), arrowprops=_ARROW | {"color": GREY})
            axes.annotate(
                "", (0.2, row + 0.72), (0.2, row + 0.28), arrowprops=_ARROW | {"color": GREY}
            )
            _say(axes, 0.48, row - 0.08, answer, va="bottom")
            _say(axes, 0.225, row + 0.5, other, ha="left")
            _boxed(axes, 0.2, row, question)
            _boxed(axes, 0.8, row, leaf, BLUE)
        _boxed(axes, 0.2, len(steps), last, ORANGE, weight="bold")
        axes.set(xlim=(0, 1), ylim=(len(steps) + 0.4, -0.5))
        axes.axis("off")
    return figure


_ARMS = (BLUE, ORANGE, GREEN)
"""Colours of the arms of a timeline, from arm 0 on."""


def timelines(rows: Mapping[str, Sequence[int]], *, stopped: int, cut: str) -> Picture:
    """Draw runs as rows of squares, a square for each pull and one for the recommendation.

    Parameters
    ----------
    rows : mapping of str to sequence of int
        By name, the arms pulled and the arm recommended, all of the same length.
    stopped : int
        After so many pulls there is a vertical line.
    cut : str
        What the line says.
    """
    length = len(next(iter(rows.values())))
    with canvas(size=(WIDTH, 1.0 + 0.62 * len(rows))) as (figure, axes):
        for row, (name, arms) in enumerate(rows.items()):
            _say(axes, -0.2, row, name, ha="right")
            for place, arm in enumerate(arms):
                left = place + 0.7 * (place == length - 1)
                color = _ARMS[arm]
                axes.add_patch(Rectangle((left, row - 0.38), 0.84, 0.76, color=color, linewidth=0))
                _say(axes, left + 0.42, row, str(arm), color="white", weight="bold")
        for place in range(length - 1):
            _say(axes, place + 0.42, -0.65, str(place + 1), fontsize=8.5)
        _say(axes, -0.2, -0.65, "time", ha="right", fontsize=8.5)
        _say(axes, length + 0.12, -0.65, "answer", fontsize=8.5)
        axes.plot([stopped - 0.08] * 2, [-0.5, len(rows) - 0.4], color=BLACK, linewidth=1.5)
        _say(axes, stopped - 0.08, len(rows) - 0.2, cut, va="top")
        axes.set(xlim=(-3.2, length + 0.9), ylim=(len(rows) + 0.1, -0.9))
        axes.set_axis_off()
    return figure


def grid_map(
    cells: Sequence[Sequence[str]], rows: Sequence[str], columns: Sequence[str]
) -> Picture:
    """Draw a table of boxes with the middle of its first row marked.

    Parameters
    ----------
    cells : sequence of sequence of str
        What stands in each box; an empty one is pale.
    rows, columns : sequence of str
        Their names.
    """
    with canvas(size=(WIDTH, 0.5 + 1.0 * len(rows))) as (figure, axes):
        for row, texts in enumerate(cells):
            _say(axes, -0.06, row + 0.5, rows[row], ha="right", weight="bold")
            for column, text in enumerate(texts):
                ours = (row, column) == (0, 1)
                look: Any = {"facecolor": "white" if text else "#ececec", "linewidth": 1.2}
                look |= {"edgecolor": ORANGE, "linewidth": 2.5} if ours else {"edgecolor": GREY}
                axes.add_patch(Rectangle((column + 0.03, row + 0.05), 0.94, 0.9, **look))
                _say(axes, column + 0.5, row + 0.5, text or "none found", fontsize=8.5)
        for column, name in enumerate(columns):
            _say(axes, column + 0.5, -0.12, name, weight="bold")
        axes.set(xlim=(-0.62, len(columns)), ylim=(len(rows) + 0.02, -0.3))
        axes.set_axis_off()
    return figure


def chain(links: Sequence[tuple[str, str]], *, private: int) -> Picture:
    """Draw how rewards become an answer, from left to right, with who sees what.

    Parameters
    ----------
    links : sequence of (str, str)
        What each step holds, and what stands below it.
    private : int
        The first so many steps hold what must stay private; noise stands between them and the rest.
    """
    with canvas(size=(WIDTH, 1.9)) as (figure, axes):
        edge = private - 0.5
        axes.axvspan(-0.5, edge, ymin=0.05, ymax=0.86, color=ORANGE, alpha=0.12, linewidth=0)
        axes.axvspan(edge, len(links) - 0.5, ymin=0.05, ymax=0.86, color=BLUE, alpha=0.1, lw=0)
        _say(axes, edge / 2 - 0.25, 0.92, "must stay private", color=ORANGE, weight="bold")
        _say(
            axes,
            (edge + len(links)) / 2 - 0.25,
            0.92,
            "may be published",
            color=BLUE,
            weight="bold",
        )
        for place, (text, below) in enumerate(links):
            _boxed(axes, place, 0.45, text, ORANGE if place < private else BLUE, fontsize=9)
            _say(axes, place, -0.3, below, fontsize=8.5)
            if place + 1 < len(links):
                arrow = _ARROW | {"color": BLACK, "linewidth": 1.2}
                axes.annotate("", (place + 0.6, 0.45), (place + 0.42, 0.45), arrowprops=arrow)
        axes.plot([edge] * 2, [-0.55, 0.8], color=BLACK, linestyle="--", linewidth=1)
        axes.set(xlim=(-0.5, len(links) - 0.5), ylim=(-0.62, 1.02))
        axes.set_axis_off()
    return figure
