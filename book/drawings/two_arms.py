"""Pictures of the chapter on DP-OD: the two-armed counterexample and the turned arms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbai.field.figures.canvas import (
    BLACK,
    GREY,
    POLICIES,
    SERIES,
    WIDTH,
    Picture,
    canvas,
    name_lines,
    panels_in_a_grid,
)
from drawings._shared import curve, mark, rates


def ratio_panels(table: pd.DataFrame, *, beside: pd.DataFrame) -> Picture:
    """Draw success against y/x, a panel for each budget and epsilon, as in App. E.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns policy, ratio, budget, epsilon, success_rate, low, high and exact.
    beside : pandas.DataFrame
        The same of another instance, of which the exact curves are drawn, pale.

    Returns
    -------
    Picture
        Points with their confidence intervals on the curves of exact probabilities.
    """
    keys = ["budget", "epsilon", "policy"]
    other = dict(list(beside.groupby(keys)))
    groups = list(table.groupby(keys[:2]))
    xlabel = "ratio $y/x$ of the lengths (log)"
    with panels_in_a_grid(len(groups), 2, xlabel, "success rate (0 to 1)") as (figure, panels):
        for panel, ((budget, epsilon), group) in zip(panels, groups, strict=True):
            panel.axhline(0.5, color=GREY, linewidth=0.8)
            for name, part in group.groupby("policy", sort=False):
                look = POLICIES[str(name)]
                pale = other[budget, epsilon, name]
                panel.plot(pale["ratio"], pale["exact"], color=look["color"], lw=3, alpha=0.3)
                panel.plot(part["ratio"], part["exact"], label=name, **curve(look))
                rates(panel, part["ratio"], part, look, cap=0)
            panel.set(
                title=rf"$T = {budget}$, $\varepsilon = {epsilon:g}$",
                xscale="log",
                ylim=(0.4, 1.02),
            )
    return figure


def ratio_frame(
    estimates: Mapping[str, ArrayLike], means: ArrayLike, success: Mapping[str, float]
) -> Picture:
    """Draw private estimates of two means, for each policy, with the line that separates decisions.

    Parameters
    ----------
    estimates : mapping of str to array_like of shape (runs, 2)
        For each policy, pairs of estimates.
    means : array_like of shape (2,)
        The true means; the first arm is the best.
    success : mapping of str to float
        For each policy, the probability below the diagonal.

    Returns
    -------
    Picture
        A panel per policy. Axes are the same for all, so that frames can be compared.
    """
    low, high = 0.0, 1.0
    with canvas(1, len(estimates), size=(WIDTH, 3.2), sharex=True, sharey=True, squeeze=False) as (
        figure,
        axes,
    ):
        for panel, (name, pairs) in zip(axes.flat, estimates.items(), strict=True):
            look = POLICIES[name]
            panel.fill_between([low, high], [low, high], low, color=GREY, alpha=0.12, linewidth=0)
            panel.plot([low, high], [low, high], color=GREY, linewidth=1)
            panel.plot(
                *np.asarray(pairs).T, look["marker"], color=look["color"], markersize=2.5, alpha=0.6
            )
            panel.plot(*np.asarray(means), "*", color=BLACK, markersize=12)
            panel.set(
                title=f"{name}: success {success[name]:.3f}",
                xlabel="estimate of arm 1",
                xlim=(low, high),
                ylim=(low, high),
                aspect="equal",
            )
        axes[0, 0].set_ylabel("estimate of arm 2")
    return figure


def decay(
    x: ArrayLike,
    lines: Mapping[tuple[str, str], ArrayLike],
    *,
    points: tuple[ArrayLike, ArrayLike],
    xlabel: str,
    ylabel: str,
    marked: tuple[str, float],
) -> Picture:
    """Draw exponents, or other positive values, as lines on log axes, with points that check them.

    Parameters
    ----------
    x : array_like of shape (n,)
        Positive.
    lines : mapping of (str, str) to array_like of shape (n,)
        For a policy and what the line shows of it (a "bound" is dashed), its values.
    points : (array_like, array_like)
        Where the points lie, and their values.
    xlabel, ylabel : str
        Names of the axes.
    marked : (str, float)
        Text of a vertical line, and where it is.
    """
    with canvas(size=(WIDTH, 3.9)) as (figure, axes):
        for (policy, what), values in lines.items():
            look = curve(POLICIES[policy], bound=what == "bound")
            axes.plot(x, values, label=f"{policy}, {what}", **look)
        axes.plot(*points, "o", color=BLACK, markerfacecolor="white")
        mark(axes, *marked)
        axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
        name_lines(axes)
    return figure


def losses_by_angle(
    degrees: ArrayLike,
    curves: Mapping[str, ArrayLike],
    audited: Mapping[str, tuple[ArrayLike, ArrayLike]],
) -> Picture:
    """Draw the privacy loss in units of epsilon against the angle by which features are turned.

    Parameters
    ----------
    degrees : array_like of shape (n,)
        Angles of the curves.
    curves : mapping of str to array_like of shape (n,)
        By name, the loss that the plan implies.
    audited : mapping of str to (array_like, array_like)
        By the same names, angles, and the losses that an exact audit finds there.
    """
    with canvas(size=(WIDTH, 3.2)) as (figure, axes):
        axes.axhline(1, color=GREY, linewidth=1)
        for (name, values), look in zip(curves.items(), (SERIES[1], SERIES[3]), strict=True):
            axes.plot(degrees, values, label=name, **curve(look))
            points = {"color": look["color"], "markerfacecolor": "white"}
            axes.plot(*audited[name], look["marker"], **points)
        axes.set(
            xlabel="angle by which the features are turned (degrees)",
            ylabel=r"privacy loss (in units of $\varepsilon$)",
            ylim=(0.8, 1.5),
        )
        name_lines(axes)
    return figure
