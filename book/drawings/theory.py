"""Figures of the chapters on the theory: bounds, errors, exponents, and losses of proofs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dpbai.field.figures.canvas import (
    BLACK,
    BLUE,
    EXACT,
    GREY,
    SERIES,
    WIDTH,
    Picture,
    canvas,
    name_lines,
)
from dpbai.hardness import Hardness
from drawings._shared import curve, mark


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
            axes.plot(budgets, values, label=name, **curve(look, bound="exact" not in name))
        for text, budget in marks.items():
            mark(axes, text, budget)
        axes.set(
            xscale="log",
            yscale="log",
            ylim=(floor, 1e4),
            xlabel="budget $T$ (pulls, log)",
            ylabel="error probability, or bound on it (log)",
        )
        name_lines(axes)
    return figure


def exponents(
    epsilons: ArrayLike,
    lines: Mapping[str, ArrayLike],
    *,
    points: tuple[ArrayLike, ArrayLike],
    kink: float,
) -> Picture:
    """Draw how fast errors and bounds decay in the budget, against epsilon, both on log axes.

    Parameters
    ----------
    epsilons : array_like of shape (n,)
        Privacy parameters.
    lines : mapping of str to array_like of shape (n,)
        What to call each line, and its exponents per pull; "true" ones are solid.
    points : (array_like, array_like)
        Privacy parameters and exponents of measured values.
    kink : float
        The epsilon to mark by a vertical line.
    """
    with canvas(size=(WIDTH, 3.6)) as (figure, axes):
        axes.axvline(kink, color=GREY, linewidth=1)
        for (name, values), look in zip(lines.items(), SERIES, strict=False):
            axes.plot(epsilons, values, label=name, **curve(look, bound="true" not in name))
        axes.plot(*points, "o", color=BLUE, markersize=6, markerfacecolor="white")
        axes.set(
            xscale="log",
            yscale="log",
            xlabel=r"privacy parameter $\varepsilon$ (log)",
            ylabel="exponent per pull (log)",
        )
        name_lines(axes)
    return figure


def bound_losses(table: pd.DataFrame) -> Picture:
    """Draw the factor that each step of a proof loses, as a waterfall from 1 to the total loss.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each step, in order; a column for each case, with the factors, at least 1.

    Returns
    -------
    Picture
        A panel for each case. Each bar begins where the one above ends, on a logarithmic axis; the
        last is the whole loss.
    """
    steps = np.arange(len(table))
    whole = len(table)
    with canvas(
        1,
        len(table.columns),
        size=(WIDTH, 1.4 + 0.34 * len(table)),
        sharey=True,
        sharex=True,
        squeeze=False,
    ) as (figure, (panels,)):
        for panel, (name, factors) in zip(panels, table.items(), strict=True):
            ends = np.cumprod(factors.to_numpy(dtype=float))
            starts = np.append(1.0, ends[:-1])
            panel.barh(steps, ends - starts, 0.6, left=starts, color=BLUE)
            panel.vlines(ends, steps, steps + 1, color=GREY, linewidth=0.8)
            panel.barh(whole, ends[-1] - 1, 0.6, left=1, color=BLACK)
            panel.text(1.15, whole, f"{ends[-1]:.0f}", color="white", va="center", weight="bold")
            for place, factor, end in zip(steps, factors, ends, strict=True):
                panel.annotate(
                    f"× {factor:.2f}",
                    (end, place),
                    (3, 0),
                    va="center",
                    fontsize=9,
                    textcoords="offset points",
                )
            panel.set(
                xscale="log",
                title=name,
                yticks=range(whole + 1),
                yticklabels=[*table.index, "in all"],
            )
            panel.minorticks_off()
            panel.grid(visible=False, axis="y")
        panels[0].set_xlim(1, 6 * table.prod().max())
        panels[0].invert_yaxis()
        figure.supxlabel("factor lost in the exponent so far (log)", fontsize=10)
    return figure


def hardness_terms(hardness: Hardness, *, count: int) -> Picture:
    """Draw i / gap^2 and i / (epsilon gap) against i: the largest of each are the two hardnesses.

    Parameters
    ----------
    hardness : Hardness
        What `dpbai.hardness` returns, at a finite epsilon.
    count : int
        min(d^2, K), up to which i runs in the paper; the terms beyond are pale.
    """
    i = np.arange(2, hardness.gaps.size + 1)
    gaps = hardness.gaps[1:]
    with canvas(size=(WIDTH, 3.2)) as (figure, axes):
        for name, values, look, largest in (
            (r"$i / \Delta_{(i)}^2$", i / gaps**2, SERIES[0], hardness.bai_index),
            (
                r"$i / (\varepsilon \Delta_{(i)})$",
                i / gaps / hardness.epsilon,
                SERIES[1],
                hardness.pri_index,
            ),
        ):
            solid = look | {"linestyle": EXACT}
            pale = solid | {"alpha": 0.25, "marker": ""}
            axes.plot(i[count - 2 :], values[count - 2 :], label=name, **pale)
            axes.plot(i[: count - 1], values[: count - 1], **solid)
            axes.plot(
                largest,
                values[largest - 2],
                "o",
                markersize=13,
                fillstyle="none",
                color=look["color"],
            )
        axes.set(
            yscale="log",
            xlabel="$i$, arms in the order of their gaps",
            ylabel="pulls, up to a constant (log)",
        )
        name_lines(axes)
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
        name_lines(*axes)
        axes[0].set_ylabel("error probability (log)")
    return figure


def _between(panel: Axes, rows: pd.DataFrame) -> None:
    """Draw one instance."""
    upper, lower, measured = SERIES[1], SERIES[2], SERIES[0]
    for column, name, look in (("upper", "upper bound", upper), ("lower", "lower bound", lower)):
        panel.plot(rows["budget"], rows[column], label=name, **curve(look, bound=True))
    panel.fill_between(rows["budget"], rows["low"], rows["high"], color=BLUE, alpha=0.25, lw=0)
    panel.plot(
        rows["budget"], rows["error"], label="measured, DP-BAI", **measured | {"linestyle": EXACT}
    )
