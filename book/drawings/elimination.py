"""What a run does: the arms it pulls, the sizes of its active sets, its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbai import Phase, Schedule
from dpbai.field.figures.canvas import BLACK, BLUE, GREY, ORANGE, SERIES, WIDTH, Picture, canvas
from dpbai.max_det import MaxDet


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
    with canvas(1, 2, size=(WIDTH, 3.2)) as (figure, (left, right)):
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
            panel.margins(0.15)
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
                panel.plot(positions, column, label=name, markevery=4, **look)
        left.set(title=r"sampling error ($\sigma/\sqrt{T}$)", ylim=(0, 4.2))
        right.set(title=r"privacy noise ($1/(\varepsilon T)$)")
        for panel in (left, right):
            panel.set_xlabel("third arm $(t, t)$")
        left.legend(loc="lower left")
    return figure


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


_DROPPED: Any = {"marker": "x", "color": GREY, "markersize": 3.5}
_KEPT: Any = {"marker": "o", "color": BLUE}
_BEST: Any = {"marker": "*", "color": ORANGE, "markersize": 11, "zorder": 3}
_GOES_ON: Any = {"color": BLUE, "alpha": 0.45}
_FOLLOWED: Any = {"color": ORANGE, "linewidth": 2}


def funnel(
    phases: Sequence[Phase], estimated: Sequence[ArrayLike], answer: int, *, best: int
) -> Picture:
    """Draw one run as a row of strips, one for each phase, in which survivors are joined.

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
    """
    shown = [
        dict(zip(phase.active, np.asarray(values, dtype=float).tolist(), strict=True))
        for phase, values in zip(phases, estimated, strict=True)
    ]
    going_on = [*(set(phase.active) for phase in phases[1:]), {answer}]
    # Arms stand side by side in a strip that is as wide as they are many.
    at = [
        {
            arm: place + 0.5 * (number / len(phase.active) - 0.5) * min(1, len(phase.active) / 30)
            for number, arm in enumerate(phase.active)
        }
        for place, phase in enumerate(phases)
    ]
    with canvas(size=(WIDTH, 3.6)) as (figure, axes):
        for place, (phase, values, kept) in enumerate(zip(phases, shown, going_on, strict=True)):
            deviations = np.linalg.norm(phase.decoder * phase.noise.standard_deviation, axis=1)
            bars = dict(zip(phase.active, deviations.tolist(), strict=True))
            for label, arms, look in (
                ("dropped", set(phase.active) - kept - {best}, _DROPPED),
                ("kept", kept - {best}, _KEPT),
                ("the best arm", {best} & set(phase.active), _BEST),
            ):
                chosen = sorted(arms)
                x = [at[place][arm] for arm in chosen]
                y, noise = ([of[arm] for arm in chosen] for of in (values, bars))
                named = {"label": label} if not place else {}
                axes.errorbar(x, y, noise, linestyle="none", linewidth=0.7, **named, **look)
            for arm in sorted(kept) if place + 1 < len(phases) else ():
                ends = [at[place][arm], at[place + 1][arm]], [values[arm], shown[place + 1][arm]]
                axes.plot(*ends, zorder=1.5, **(_FOLLOWED if arm == best else _GOES_ON))
        counts = [f"phase {phase.index}\n{len(phase.active)} arms" for phase in phases]
        axes.set(
            xticks=range(len(phases)),
            xticklabels=counts,
            ylabel="private estimate of the mean reward",
        )
        axes.grid(visible=False, axis="x")
        axes.annotate(
            f"arm {answer}",
            (len(phases) - 1, shown[-1][answer]),
            (9, 0),
            textcoords="offset points",
            va="center",
            weight="bold",
        )
        axes.set_xlim(-0.3, len(phases) - 0.4)
        figure.legend(loc="outside upper center", ncols=3)
    return figure
