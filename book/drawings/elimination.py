"""Figures of a run: the arms pulled, the sizes of the active sets, and the estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from dpbai import Phase, Schedule
from dpbai.field.figures.canvas import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    SERIES,
    WIDTH,
    Picture,
    canvas,
    name_lines,
)
from dpbai.max_det import MaxDet
from drawings._shared import curve


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
        coordinates lie in [-1, 1], and shaded the area that the pair spans.

    Raises
    ------
    ValueError
        If the vectors are not in the plane, or the collection is not a pair of them.
    """
    array = np.asarray(vectors, dtype=float)
    if array.shape[1:] != (2,) or found.coordinates.shape != array.shape:
        raise ValueError(f"vectors must be K x 2 with a pair found, got shape {array.shape}")
    shares = {"gridspec_kw": {"width_ratios": (1.25, 1)}}
    with canvas(1, 2, size=(WIDTH, 3.1), **shares) as (figure, (left, right)):
        box = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
        # The arm that points more to the right does so in both panels.
        first, second = np.abs(array[found.indices])
        order = [0, 1] if first[0] - first[1] >= second[0] - second[1] else [1, 0]
        corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        for panel, points in ((left, array), (right, found.coordinates[:, order])):
            pair = points[found.indices]
            panel.fill(*(corners @ pair).T, color=BLUE, alpha=0.18)
            panel.plot(*(box @ pair).T, color=BLACK, linestyle="--", linewidth=1, label="the box")
            rest = np.delete(points, found.indices, axis=0)
            panel.plot(*rest.T, "o", color=GREY, markersize=4, label="other arms")
            panel.plot(*pair.T, "D", color=ORANGE, markersize=7, label="Max-Det pair")
            for point, name in zip(pair, names, strict=True):
                panel.annotate("", point, (0, 0), arrowprops={"arrowstyle": "->", "color": ORANGE})
                panel.annotate(name, point, (6, 6), textcoords="offset points", color=BLACK)
            panel.margins(0.1)
        # What points up, or to the right, does so in both panels.
        if array[found.indices][order[0], 0] < 0:
            right.invert_xaxis()
        if array[found.indices][order[1], 1] < 0:
            right.invert_yaxis()
        left.set(xlabel="first feature", ylabel="second feature", title="as given")
        if np.ptp(array, axis=0).max() < 4 * np.ptp(array, axis=0).min():
            left.set_aspect("equal")
        right.set(
            xlabel=f"coordinate along {names[order[0]]} (-1 to 1)",
            ylabel=f"coordinate along {names[order[1]]} (-1 to 1)",
            title="in coordinates of the pair",
            aspect="equal",
        )
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure


def design_errors(positions: ArrayLike, errors: Mapping[str, ArrayLike]) -> Picture:
    """Draw the worst errors of designs against the position of a third arm.

    Parameters
    ----------
    positions : array_like of shape (n,)
        The t of the arm (t, t).
    errors : mapping of str to array_like of shape (n, 2)
        For each design, its sampling error in units of sigma/sqrt(T) and its privacy noise in units
        of 1/(epsilon T).

    Returns
    -------
    Picture
        Sampling error on the left, noise on the right.
    """
    with canvas(1, 2, size=(WIDTH, 3.0), sharey=True) as (figure, (left, right)):
        for (name, values), look in zip(errors.items(), SERIES[1::-1], strict=True):
            for panel, column in zip((left, right), np.transpose(values), strict=True):
                panel.plot(positions, column, label=name, **curve(look))
        place, low, high = _jump(positions, np.transpose(next(iter(errors.values())))[1])
        arrow = {"arrowstyle": "->", "color": BLACK, "shrinkA": 0, "shrinkB": 0}
        right.annotate("", (place - 0.02, high), (place - 0.02, low), arrowprops=arrow)
        rise = f"+{100 * (high / low - 1):.0f} %"
        right.text(place - 0.03, (low + high) / 2, rise, ha="right", va="center")
        left.set(title=r"sampling error ($\sigma/\sqrt{T}$)", ylim=(0, 4.2))
        right.set(title=r"privacy noise ($1/(\varepsilon T)$)")
        for panel in (left, right):
            panel.set_xlabel("third arm $(t, t)$")
        name_lines(left, right)
    return figure


def _jump(x: ArrayLike, values: ArrayLike) -> tuple[float, float, float]:
    """Return where a curve has its largest jump, and its values before and after it."""
    column = np.asarray(values, dtype=float)
    after = int(np.diff(column).argmax()) + 1
    return float(np.asarray(x)[after]), float(column[after - 1]), float(column[after])


def sizes(schedules: Mapping[str, Schedule]) -> Picture:
    """Draw the number of active arms s_p against the phase p, for each named schedule.

    The sizes come from eq. (7) of the paper, the last being the one arm that is returned. The
    line at ceil(d^2/4), where the first stage ends, is that of the first schedule.
    """
    with canvas() as (figure, axes):
        first = next(iter(schedules.values()))
        axes.axhline(first.target, color=GREY, linewidth=1)
        axes.annotate(
            rf"$\lceil d^2/4 \rceil = {first.target}$",
            (1, first.target),
            (-2, 4),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
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
        axes.minorticks_off()
        name_lines(axes)
    return figure


_DROPPED: Any = {"marker": "x", "color": GREY, "markersize": 3.5}
_KEPT: Any = {"marker": "o", "color": BLUE}
_BEST: Any = {"marker": "*", "color": ORANGE, "markersize": 12, "zorder": 3}
_GOES_ON: Any = {"color": BLUE, "alpha": 0.45}
_FOLLOWED: Any = {"color": ORANGE, "linewidth": 2}
_SMALL = 8.5
"""Font size in points where the usual one does not fit."""


def funnel(
    phases: Sequence[Phase], estimated: Sequence[ArrayLike], answer: int, *, best: int
) -> Picture:
    """Draw one run as a strip for each phase, as wide as its number of arms, with survivors joined.

    Parameters
    ----------
    phases : sequence of Phase
        The plans of the run, in order, each of which reads no release but its own.
    estimated : sequence of array_like
        For each phase, its estimates of the active arms.
    answer : int
        The arm that the run returned.
    best : int
        The arm that is truly the best, which is followed through the run.

    Returns
    -------
    Picture
        Bars are one standard deviation of the privacy noise on each estimate, from the plan alone.
        Below each strip stand its numbers, with the rank of the best arm among the estimates.
    """
    shown = [
        dict(zip(phase.active, np.asarray(values, dtype=float).tolist(), strict=True))
        for phase, values in zip(phases, estimated, strict=True)
    ]
    going_on = [*(set(phase.active) for phase in phases[1:]), {answer}]
    widths = np.array([5 + len(phase.active) ** 0.85 for phase in phases])
    starts = np.append(0, np.cumsum(widths + 1.5))
    at = [
        dict(zip(phase.active, start + _spread(len(phase.active), width), strict=True))
        for phase, start, width in zip(phases, starts, widths, strict=False)
    ]
    with canvas(size=(WIDTH, 4.0)) as (figure, axes):
        for place, (phase, values, kept) in enumerate(zip(phases, shown, going_on, strict=True)):
            deviations = np.linalg.norm(phase.decoder * phase.noise.standard_deviation, axis=1)
            bars = dict(zip(phase.active, deviations.tolist(), strict=True))
            axes.axvspan(
                starts[place], starts[place] + widths[place], color=GREY, alpha=0.1, linewidth=0
            )
            for arms, look in (
                (set(phase.active) - kept - {best}, _DROPPED),
                (kept - {best}, _KEPT),
                ({best} & set(phase.active), _BEST),
            ):
                chosen = sorted(arms)
                x = [at[place][arm] for arm in chosen]
                y, noise = (np.array([of[arm] for arm in chosen]) for of in (values, bars))
                axes.plot(x, y, linestyle="none", **look)
                reach = np.stack([y - noise, y + noise, np.full_like(y, np.nan)], axis=1)
                axes.plot(np.repeat(x, 3), reach.ravel(), color=look["color"], linewidth=0.7)
            for arm in sorted(kept) if place + 1 < len(phases) else ():
                ends = [at[place][arm], at[place + 1][arm]], [values[arm], shown[place + 1][arm]]
                axes.plot(*ends, zorder=1.5, **(_FOLLOWED if arm == best else _GOES_ON))
            below = [
                f"{phase.index}",
                f"{len(phase.active)}",
                f"{len(phase.pulled)}" + f" for {len(phase.active)}" * (len(phase.active) > 9),
                f"±{deviations.mean():.2f}".replace("0.", ".") if deviations.any() else "none",
                _rank(values, best),
            ]
            for line, text in enumerate(below):
                lost = best in values and best not in kept and line == len(below) - 1
                _under(axes, starts[place] + widths[place] / 2, line, text, bold=lost)
        for line, text in enumerate(("phase", "arms", "pulled", "noise", "star is")):
            _under(axes, -1.0, line, text, ha="right")
        axes.set(xlim=(-1, starts[-1]), xticks=[], ylabel="private estimate of the mean")
        axes.grid(visible=False, axis="x")
        axes.spines["bottom"].set_visible(False)
        _explain(axes)
        end = at[-1][answer], shown[-1][answer]
        _note(axes, f"arm {answer}", end, (8, 0), color=ORANGE if answer == best else BLUE)
        for place, (values, kept) in enumerate(zip(shown, going_on, strict=True)):
            if best in values and best not in kept:
                low = starts[place] + widths[place] / 2, axes.get_ylim()[0]
                _note(axes, "best arm dropped", low, (0, 6), color=ORANGE, ha="center")
    return figure


def _spread(count: int, width: float) -> NDArray[np.float64]:
    """Return places side by side within a strip, away from its edges."""
    return width * (np.arange(count) + 0.5) / count


def _rank(values: Mapping[int, float], arm: int) -> str:
    """Return the place of an arm in the order of the estimates, such as 2nd."""
    if arm not in values:
        return "out"
    rank = 1 + sum(value > values[arm] for value in values.values())
    teen = 10 < rank % 100 < 14
    return f"{rank}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(rank % 10, 'th')}"


def _under(
    axes: Axes, x: float, line: int, text: str, *, ha: str = "center", bold: bool = False
) -> None:
    """Write a number below a strip."""
    axes.annotate(
        text,
        (x, 0),
        (0, -5 - 12 * line),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha=ha,
        va="top",
        fontsize=_SMALL,
        color=ORANGE if bold else BLACK,
        weight="bold" if bold else "normal",
        annotation_clip=False,
    )


def _note(
    axes: Axes, text: str, point: tuple[float, float], away: tuple[float, float], **look: Any
) -> None:
    """Write a label beside a point."""
    ground: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
    look = {"va": "center", "fontsize": _SMALL, "weight": "bold", "bbox": ground, **look}
    axes.annotate(text, point, away, textcoords="offset points", zorder=4, **look)


def _explain(axes: Axes) -> None:
    """Write a legend of the marks above the first strip."""
    for place, text, color in (
        (0.0, "$\\bullet$ kept", BLUE),
        (0.13, "$\\times$ dropped", "#5a5a5a"),
        (0.32, "$\\bigstar$ the best arm", ORANGE),
    ):
        axes.text(
            place,
            1.02,
            text,
            transform=axes.transAxes,
            color=color,
            fontsize=_SMALL,
            weight="bold",
        )
