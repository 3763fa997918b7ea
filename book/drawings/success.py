"""Success of policies along the budget or dimension, over draws and misfits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from numpy.typing import ArrayLike

from dpbai.field.figures.canvas import (
    BLUE,
    GREEN,
    GREY,
    POLICIES,
    PURPLE,
    SERIES,
    WIDTH,
    Picture,
    canvas,
    name_lines,
)
from drawings._shared import curve, mark, name_end, ramp, rates


def exact_over_sampled(exact: pd.DataFrame, sampled: pd.DataFrame) -> Picture:
    """Draw exact error probabilities against the budget, and sampled rates with their intervals.

    On a log axis curves that would lie on each other near a success of 1 stand apart; where no
    trial failed there is no point.

    Parameters
    ----------
    exact : pandas.DataFrame
        Columns policy, budget and success.
    sampled : pandas.DataFrame
        Rows of a `dpbai.study` table, at one epsilon.

    Returns
    -------
    Picture
    """
    with canvas(size=(WIDTH, 3.8)) as (figure, axes):
        for name, line in exact.groupby("policy", sort=False):
            look = POLICIES[str(name)]
            rows = sampled[(sampled["policy"] == name) & (sampled["success_rate"] < 1)]
            failed = 1 - rows[["success_rate", "low", "high"]]
            failed = failed.rename(columns={"low": "high", "high": "low"})
            axes.plot(line["budget"], 1 - line["success"], label=name, **curve(look))
            rates(axes, rows["budget"], failed, look)
        axes.set(yscale="log", ylim=(2e-4, 1.2))
        axes.set(xlabel="budget $T$ (pulls)", ylabel="error probability (log)")
        name_lines(axes)
    return figure


def by_misfit(table: pd.DataFrame) -> Picture:
    """Draw the success of DP-Design against the budget, with intervals, for each misfit.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns misfit, budget, success_rate, low and high.
    """
    with canvas(size=(WIDTH, 3.4)) as (figure, axes):
        for (misfit, part), look in zip(table.groupby("misfit"), SERIES, strict=False):
            rates(axes, part["budget"], part, look)
            axes.plot(part["budget"], part["success_rate"], **look)
            end = part[["budget", "success_rate"]].iloc[-1]
            name_end(axes, f"misfit {misfit:g}", tuple(end), look["color"])
        axes.set(xscale="log", xlabel="budget $T$ (pulls, log)", ylim=(-0.04, 1.04))
        axes.set_ylabel("success rate (0 to 1)")
        budgets = table["budget"].unique().tolist()
        axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
        axes.minorticks_off()
    return figure


def frontier(losses: pd.DataFrame, success: pd.DataFrame) -> Picture:
    """Draw what each misfit costs where means are linear, and what it saves where they are not.

    Parameters
    ----------
    losses : pandas.DataFrame
        Mean loss above that of the best other policy, by misfit (index, names) and by how far the
        means are from linear (columns).
    success : pandas.DataFrame
        Columns misfit (those names, and perhaps more), cell, success_rate, low and high.
    """
    with canvas(1, 2, size=(WIDTH, 3.4)) as (figure, (left, right)):
        for tau, look in zip(losses, SERIES, strict=False):
            left.plot(losses.index, losses[tau], label=f"off by {tau:g}", **look)
        left.axhline(0, color=GREY, linewidth=0.8)
        left.margins(y=0.2)  # room for names below the lowest line
        left.set_ylabel("loss above the best other policy")
        order = list(losses.index) + sorted({*success["misfit"]} - {*losses.index})
        for (cell, part), look in zip(success.groupby("cell", sort=False), SERIES, strict=False):
            ordered = part.set_index("misfit").loc[order]
            rates(right, order, ordered, look)
            right.plot(order, ordered["success_rate"], label=cell, **look)
        right.set(ylabel="success rate on the reactions", ylim=(0, 1.04))
        for panel in (left, right):
            panel.set_xlabel("misfit")
        name_lines(left, right)
    return figure


def by_dimension(table: pd.DataFrame) -> Picture:
    """Draw success against the budget for each dimension, and against the budget over M H.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns dimension, budget, scaled (T' over M times H), success_rate, low and high.
    """
    with canvas(1, 2, size=(WIDTH, 3.4), sharey=True) as (figure, axes):
        parts = list(table.groupby("dimension"))
        for (dimension, part), color in zip(parts, ramp(len(parts)), strict=True):
            for panel, column in zip(axes, ("budget", "scaled"), strict=True):
                panel.fill_between(
                    part[column],
                    part["low"],
                    part["high"],
                    color=color,
                    alpha=0.2,
                    linewidth=0,
                )
                panel.plot(
                    part[column], part["success_rate"], color=color, label=f"$d = {dimension}$"
                )
        axes[0].set(xscale="log", xlabel="budget $T$ (pulls, log)", ylim=(0, 1.02))
        axes[0].set_ylabel("success rate (0 to 1)")
        axes[1].set(xscale="log", xlabel="$T' / (M H)$ (log)")
        name_lines(*axes)
    return figure


def price(table: pd.DataFrame, *, aimed: float) -> Picture:
    """Draw success against the budget for several levels of privacy.

    Parameters
    ----------
    table : pandas.DataFrame
        Success rates: a row for each budget, a column for each level, from no privacy on.
    aimed : float
        The success rate that is aimed at, drawn as a line.
    """
    with canvas(size=(WIDTH, 3.2)) as (figure, axes):
        axes.axhline(aimed, color=GREY, linewidth=1)
        for (name, rates_of), color in zip(table.items(), ramp(table.shape[1]), strict=True):
            axes.plot(table.index, rates_of, color=color, marker="o", label=name)
        axes.set(xscale="log", xlabel="budget $T$ (people, log)", ylabel="success rate (0 to 1)")
        ticks = table.index[::2]
        axes.set_xticks(ticks, [f"{budget}" for budget in ticks])
        axes.minorticks_off()
        name_lines(axes)
    return figure


def draws(near: ArrayLike, panels: Mapping[str, ArrayLike]) -> Picture:
    """Draw a quantity of many instances against the number of near rivals, in panels.

    Parameters
    ----------
    near : array_like of shape (n,)
        The number of rivals near the best arm.
    panels : mapping of str to array_like of shape (n,)
        Names of vertical axes, and values.
    """
    with canvas(1, len(panels), size=(WIDTH, 3.2), squeeze=False) as (figure, axes):
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
    with canvas(1, 2, size=(WIDTH, 3.6), sharex=True, sharey=True) as (figure, (left, right)):
        for name in table:
            left.plot(table.index, table[name], label=name, **POLICIES[str(name)])
        for name, color, marker, style in zip(
            alarms, (GREEN, PURPLE), "xP", ("-", "--"), strict=True
        ):
            right.plot(
                alarms.index, alarms[name], color=color, marker=marker, linestyle=style, label=name
            )
        right.plot(
            table.index, 1 - table["DP-BAI"], color=BLUE, linestyle=":", label="error of DP-BAI"
        )
        for text, where in markers:
            mark(left, text, where)
            mark(right, "", where)
        left.set(ylabel="share of runs (0 to 1)", ylim=(-0.02, 1.04), title="best arm found")
        right.set(title="misfit found")
        for panel in (left, right):
            panel.set_xlabel(r"misfit $\zeta$ (largest $|\eta_i|$)")
        handles = [line for panel in (left, right) for line in panel.get_legend_handles_labels()[0]]
        figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure
