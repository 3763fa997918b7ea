"""Pictures of the chapters on the theory: bounds, errors, exponents, and what is lost where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dpbai.figures.canvas import BLACK, BLUE, GREY, ORANGE, SERIES, WIDTH, Picture, canvas


def bounds(
    budgets: ArrayLike,
    curves: Mapping[str, ArrayLike],
    *,
    floor: float,
    marks: Mapping[str, float],
) -> Picture:
    """Draw error probabilities and bounds on them against the budget, both on log axes.

    Parameters
    ----------
    budgets : array_like of shape (n,)
        Values of T.
    curves : mapping of str to array_like of shape (n,)
        What to call each curve, and its values; NaN leaves a gap.
    floor : float
        The lowest value shown, in (0, 1).
    marks : mapping of str to float
        Budgets to mark by a vertical line, with the text beside it.

    Returns
    -------
    Picture
        The part above 1, where a bound says nothing, is shaded.
    """
    with canvas(size=(WIDTH, 4.0)) as (figure, axes):
        axes.axhspan(1, 1e4, color=GREY, alpha=0.15, linewidth=0)
        for (name, values), look in zip(curves.items(), SERIES, strict=False):
            axes.plot(budgets, values, label=name, **look)
        for text, budget in marks.items():
            axes.axvline(budget, color=GREY, linewidth=1)
            axes.annotate(
                text,
                (budget, floor),
                (-4, 6),
                textcoords="offset points",
                ha="right",
                rotation=90,
                color=BLACK,
            )
        axes.set(
            xscale="log",
            yscale="log",
            ylim=(floor, 1e4),
            xlabel="budget $T$ (pulls, log)",
            ylabel="error probability, or bound on it (log)",
        )
        figure.legend(loc="outside upper center", ncols=2)
    return figure


def exponents(
    epsilons: ArrayLike,
    lines: Mapping[str, ArrayLike],
    *,
    points: tuple[str, ArrayLike, ArrayLike],
    kink: float,
) -> Picture:
    """Draw how fast errors and bounds decay in the budget, against epsilon, both on log axes.

    Parameters
    ----------
    epsilons : array_like of shape (n,)
        Privacy parameters.
    lines : mapping of str to array_like of shape (n,)
        What to call each line, and its exponents per pull.
    points : (str, array_like, array_like)
        Name, privacy parameters and exponents of measured values.
    kink : float
        The epsilon to mark by a vertical line.
    """
    with canvas(size=(WIDTH, 3.6)) as (figure, axes):
        axes.axvline(kink, color=GREY, linewidth=1)
        for (name, values), look in zip(lines.items(), SERIES, strict=False):
            axes.plot(epsilons, values, label=name, **{**look, "marker": None})
        name, at, measured = points
        axes.plot(at, measured, "o", color=BLUE, markersize=6, label=name)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel=r"privacy parameter $\varepsilon$ (log)",
            ylabel="exponent per pull (log)",
        )
        figure.legend(loc="outside upper center", ncols=2)
    return figure


def bound_losses(table: pd.DataFrame) -> Picture:
    """Draw which step of a proof loses which factor.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each step, in order; a column for each case, with the factors, at least 1.

    Returns
    -------
    Picture
        Bars on a logarithmic axis, so that lengths add up to that of the whole.
    """
    with canvas(size=(WIDTH, 0.9 + 0.4 * len(table))) as (figure, axes):
        height = 0.8 / len(table.columns)
        rows = np.arange(len(table))
        for number, (name, factors) in enumerate(table.items()):
            at = rows + (number - (len(table.columns) - 1) / 2) * height
            axes.barh(
                at,
                factors,
                0.9 * height,
                color=(BLUE, ORANGE)[number % 2],
                hatch=("", "////")[number % 2],
                edgecolor="white",
                linewidth=0,
                label=name,
            )
            for place, factor in zip(at, factors, strict=True):
                axes.annotate(
                    f"{factor:.2f}",
                    (factor, place),
                    (3, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                )
        axes.set(
            xscale="log",
            xlim=(1, 1.15 * table.to_numpy().max()),
            xlabel="factor lost in the exponent (log)",
            xticks=[1, 2, 3, 4],
            xticklabels=["1", "2", "3", "4"],
            yticks=rows,
            yticklabels=table.index,
        )
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside upper center", ncols=len(table.columns))
    return figure


def between_bounds(table: pd.DataFrame, *, titles: Sequence[str], floor: float) -> Picture:
    """Draw measured errors on instances between a lower and an upper bound, on log axes.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns `instance`, `budget`, `error`, `low` and `high` (of the confidence interval),
        `lower` and `upper` (the bounds).
    titles : sequence of str
        Of the panels, one for each instance, in order.
    floor : float
        The lowest error shown.
    """
    groups = list(table.groupby("instance", sort=False))
    with canvas(1, len(groups), sharey=True) as (figure, axes):
        for panel, title, (_, rows) in zip(axes, titles, groups, strict=True):
            _between(panel, rows)
            panel.set(
                title=title, xscale="log", yscale="log", ylim=(floor, 2), xlabel="budget $T$ (log)"
            )
        axes[0].set_ylabel("error probability (log)")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure


def _between(panel: Axes, rows: pd.DataFrame) -> None:
    """Draw one instance."""
    upper, lower, measured = SERIES[1], SERIES[2], SERIES[0]
    for column, name, look in (("upper", "upper bound", upper), ("lower", "lower bound", lower)):
        panel.plot(rows["budget"], rows[column], label=name, **{**look, "marker": None})
    panel.fill_between(rows["budget"], rows["low"], rows["high"], color=BLUE, alpha=0.25, lw=0)
    panel.plot(rows["budget"], rows["error"], label="measured, DP-BAI", **measured)
