"""Pictures of the chapters on DP-OD and on what the paper does not show.

They follow the style of `dpbai.figures`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbai.figures import BLACK, BLUE, GREY, ORANGE, POLICIES, SERIES, Picture, canvas


def ratio_panels(table: pd.DataFrame, *, columns: int = 2) -> Picture:
    """Draw success against y/x, a panel for each budget and epsilon, as in App. DP-OD.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns policy, ratio, budget, epsilon, success_rate, low, high and exact. Where
        `success_rate` is NaN there is no point, and the exact curve alone is drawn.
    columns : int, default 2
        Number of panels side by side.

    Returns
    -------
    Picture
        Points with their confidence intervals on the curves of exact probabilities.
    """
    groups = list(table.groupby(["budget", "epsilon"]))
    rows = -(-len(groups) // columns)
    with canvas(
        rows, columns, size=(6.4, 0.9 + 2.2 * rows), sharex=True, sharey=True, squeeze=False
    ) as (figure, axes):
        for panel, ((budget, epsilon), group) in zip(axes.flat, groups, strict=False):
            panel.axhline(0.5, color=GREY, linewidth=0.8)
            for name, part in group.groupby("policy", sort=False):
                look = POLICIES[str(name)]
                run = part.dropna(subset=["success_rate"])
                panel.plot(
                    part["ratio"],
                    part["exact"],
                    color=look["color"],
                    linestyle=look["linestyle"],
                    label=f"{name}, exact",
                )
                panel.errorbar(
                    run["ratio"],
                    run["success_rate"],
                    np.abs(run[["low", "high"]].sub(run["success_rate"], axis=0)).T,
                    color=look["color"],
                    marker=look["marker"],
                    linestyle="none",
                    capsize=2,
                    label=f"{name}, simulated",
                )
            panel.set(
                title=rf"$T = {budget}$, $\varepsilon = {epsilon:g}$",
                xscale="log",
                ylim=(0.4, 1.02),
            )
        figure.supxlabel("ratio $y/x$ of the lengths (log)", fontsize=10)
        figure.supylabel("success rate (0 to 1)", fontsize=10)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure


def ratio_frame(
    estimates: Mapping[str, ArrayLike], means: ArrayLike, success: Mapping[str, float]
) -> Picture:
    """Draw private estimates of two means, for each policy, with the line that decides.

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
    with canvas(1, len(estimates), size=(6.4, 3.2), sharex=True, sharey=True, squeeze=False) as (
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
    points: tuple[str, ArrayLike, ArrayLike],
    xlabel: str,
    ylabel: str,
    mark: tuple[str, float],
) -> Picture:
    """Draw exponents, or other positive values, as lines on log axes, with points that check them.

    Parameters
    ----------
    x : array_like of shape (n,)
        Positive.
    lines : mapping of (str, str) to array_like of shape (n,)
        For a policy and what is told of it ("bound" lines have markers), its values.
    points : (str, array_like, array_like)
        What to call the points, where they lie, and their values.
    xlabel, ylabel : str
        Names of the axes.
    mark : (str, float)
        Text of a vertical line, and where it is.
    """
    with canvas(size=(6.4, 3.9)) as (figure, axes):
        for (policy, what), values in lines.items():
            look = POLICIES[policy] | ({"markevery": 5} if what == "bound" else {"marker": ""})
            axes.plot(x, values, label=f"{policy}, {what}", **look)
        name, where, values = points
        axes.plot(where, values, "o", color=BLACK, markerfacecolor="white", label=name)
        axes.axvline(mark[1], color=GREY, linewidth=1)
        axes.annotate(
            mark[0],
            (mark[1], 0.02),
            (4, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            color=BLACK,
        )
        axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
        figure.legend(loc="outside upper center", ncols=2)
    return figure


def losses_by_angle(
    degrees: ArrayLike, curves: Mapping[str, ArrayLike], audited: Mapping[str, ArrayLike]
) -> Picture:
    """Draw the privacy loss in units of epsilon against the angle by which features are turned.

    Parameters
    ----------
    degrees : array_like of shape (n,)
        Angles.
    curves, audited : mapping of str to array_like of shape (n,)
        By the same names, what the plan implies, and what an exact audit finds.
    """
    with canvas(size=(6.4, 3.4)) as (figure, axes):
        axes.axhline(1, color=GREY, linewidth=1)
        looks = (SERIES[1], SERIES[0])
        for (name, values), look in zip(curves.items(), looks, strict=True):
            axes.plot(degrees, values, label=f"{name}, from the plan", **(look | {"marker": ""}))
            axes.plot(
                degrees,
                audited[name],
                look["marker"],
                color=look["color"],
                markerfacecolor="white",
                label=f"{name}, exact audit",
            )
        axes.set(
            xlabel="angle by which the features are turned (degrees)",
            ylabel=r"privacy loss (in units of $\varepsilon$)",
            ylim=(0.6, 1.55),
        )
        figure.legend(loc="outside upper center", ncols=2)
    return figure


def by_dimension(table: pd.DataFrame) -> Picture:
    """Draw success against the budget for each dimension, and against the budget over M H.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns dimension, budget, scaled (T' over M times H), success_rate, low and high.
    """
    with canvas(1, 2, size=(6.4, 3.5), sharey=True) as (figure, axes):
        for (dimension, part), look in zip(table.groupby("dimension"), SERIES, strict=True):
            for panel, column in zip(axes, ("budget", "scaled"), strict=True):
                panel.fill_between(
                    part[column],
                    part["low"],
                    part["high"],
                    color=look["color"],
                    alpha=0.2,
                    linewidth=0,
                )
                panel.plot(part[column], part["success_rate"], label=f"$d = {dimension}$", **look)
        axes[0].set(xscale="log", xlabel="budget $T$ (pulls, log)", ylim=(0, 1.02))
        axes[0].set_ylabel("success rate (0 to 1)")
        axes[1].set(xscale="log", xlabel="$T' / (M H)$ (log)")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=5)
    return figure


def draws(near: ArrayLike, panels: Mapping[str, ArrayLike]) -> Picture:
    """Draw something of each of many instances against the number of near rivals, in panels.

    Parameters
    ----------
    near : array_like of shape (n,)
        The number of rivals near the best arm.
    panels : mapping of str to array_like of shape (n,)
        Names of vertical axes, and values.
    """
    with canvas(1, len(panels), size=(6.4, 3.2), squeeze=False) as (figure, axes):
        for panel, (name, values), look in zip(axes.flat, panels.items(), SERIES, strict=False):
            panel.plot(near, values, look["marker"], color=look["color"], alpha=0.7, markersize=4)
            panel.set(ylabel=name, xlabel="rivals within 0.1 of the best")
    return figure


def misfits(
    table: pd.DataFrame, alarms: pd.DataFrame, *, markers: Sequence[tuple[str, float]] = ()
) -> Picture:
    """Draw success, and how often a misfit is found, against how far the means are from linear.

    Parameters
    ----------
    table : pandas.DataFrame
        Success of policies (columns) by the size of the misfit (index).
    alarms : pandas.DataFrame
        Share of runs in which each check (columns) finds something, by the same index.
    markers : sequence of (str, float)
        Vertical lines, with their text.
    """
    with canvas(1, 2, size=(6.4, 3.6), sharex=True, sharey=True) as (figure, (left, right)):
        for name in table:
            left.plot(table.index, table[name], label=name, **POLICIES[str(name)])
        for name, color, marker, style in zip(
            alarms, (BLACK, ORANGE), "xP", ("-", "--"), strict=True
        ):
            right.plot(
                alarms.index, alarms[name], color=color, marker=marker, linestyle=style, label=name
            )
        right.plot(
            table.index, 1 - table["DP-BAI"], color=BLUE, linestyle=":", label="error of DP-BAI"
        )
        for text, where in markers:
            for panel in (left, right):
                panel.axvline(where, color=GREY, linewidth=1)
            left.annotate(
                text,
                (where, 0.02),
                (-4, 0),
                textcoords="offset points",
                ha="right",
                rotation=90,
                color=BLACK,
            )
        left.set(ylabel="share of runs (0 to 1)", ylim=(-0.02, 1.04), title="best arm found")
        right.set(title="misfit found")
        for panel in (left, right):
            panel.set_xlabel(r"misfit $\zeta$ (largest $|\eta_i|$)")
        handles = [line for panel in (left, right) for line in panel.get_legend_handles_labels()[0]]
        figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure
