"""Success rates of policies against the budget or epsilon, and least budgets for an error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dpbai import _check
from dpbai._describe import visible
from dpbai.field.figures.canvas import POLICIES, SERIES, Picture, canvas, panels_in_a_grid
from dpbai.simulate import binomial_interval


def success_curves(
    table: pd.DataFrame, *, along: Literal["budget", "epsilon"], columns: int = 2
) -> Picture:
    """Draw success rates of policies with confidence bands, as in Figure 1 of the paper.

    Parameters
    ----------
    table : pandas.DataFrame
        What `dpbai.study` returns, or some rows of it.
    along : {"budget", "epsilon"}
        The horizontal axis. There is a panel for each value of the other one.
    columns : int, default 2
        The largest number of panels in a row.

    Returns
    -------
    Picture
        A policy without epsilon (infinite in all its rows) appears in every panel; along epsilon it
        is a horizontal line. Rows with the same policy, budget and epsilon, for example of several
        seeds, are one point: the success rate of all their trials, with its 95% Wilson interval.

    Raises
    ------
    ValueError
        If `along` is neither "budget" nor "epsilon", if no policy in `table` has a finite epsilon,
        or, along epsilon, if such a policy also has rows with an infinite one.
    """
    _check.one_of(along, "along", ("budget", "epsilon"))
    across = "epsilon" if along == "budget" else "budget"
    nonprivate = np.isinf(table["epsilon"].groupby(table["policy"]).min())
    private = table[~table["policy"].map(nonprivate)]
    values = sorted(private[across].unique())
    if not values:
        raise ValueError("table must have rows with a finite epsilon, got none")
    if along == "epsilon" and np.isinf(private["epsilon"]).any():
        raise ValueError(
            "table must have finite epsilons, as these are the horizontal axis: drop other rows of "
            "policies that have an epsilon"
        )
    table = _pooled(table)
    xlabel = "budget $T$ (pulls)" if along == "budget" else r"privacy parameter $\varepsilon$ (log)"
    with panels_in_a_grid(len(values), columns, xlabel, "success rate (0 to 1)") as (
        figure,
        panels,
    ):
        for panel, value in zip(panels, values, strict=True):
            for name, group in table.groupby("policy", sort=False):
                if across == "budget" or not nonprivate[name]:
                    group = group[group[across] == value]
                _curve(panel, group.sort_values(along), along, visible(str(name)))
            sign = r"\varepsilon" if across == "epsilon" else "T"
            panel.set(title=f"${sign} = {value:g}$", ylim=(0, 1.02))
            if along == "epsilon":
                panel.set_xscale("log")
    return figure


def _pooled(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each policy, budget and epsilon."""
    counts = table.groupby(["policy", "budget", "epsilon"], sort=False)[["successes", "trials"]]
    rows = counts.sum().reset_index()
    rows["success_rate"] = rows["successes"] / rows["trials"]
    pairs = zip(rows["successes"].tolist(), rows["trials"].tolist(), strict=True)
    rows[["low", "high"]] = [binomial_interval(*pair, 0.025, "wilson") for pair in pairs]
    return rows


def _curve(panel: Axes, rows: pd.DataFrame, along: str, name: str) -> None:
    """Draw one policy in one panel."""
    look = POLICIES.get(name, SERIES[-1])
    if np.isinf(rows[along]).any():
        row = rows.iloc[0]
        panel.axhspan(row["low"], row["high"], color=look["color"], alpha=0.15, linewidth=0)
        panel.axhline(
            row["success_rate"], color=look["color"], linestyle=look["linestyle"], label=name
        )
        return
    panel.fill_between(
        rows[along], rows["low"], rows["high"], color=look["color"], alpha=0.2, linewidth=0
    )
    panel.plot(rows[along], rows["success_rate"], label=name, **look)


def least_budgets(found: Sequence[tuple[str, float, int]]) -> Picture:
    """Draw least budgets against epsilon, from triples of a policy's name, an epsilon and a budget.

    The first triple of each policy is the one without privacy, with an infinite epsilon.
    """
    with canvas() as (figure, axes):
        for policy in dict.fromkeys(name for name, *_ in found):
            (_, free), *private = [(epsilon, n) for name, epsilon, n in found if name == policy]
            (line,) = axes.plot(*np.reshape(private, (-1, 2)).T, marker="o", label=policy)
            axes.axhline(free, color=line.get_color(), linestyle="--", linewidth=1)
        axes.set(xlabel="epsilon (smaller is more private)", xscale="log", yscale="log")
        ticks = sorted({epsilon for _, epsilon, _ in found if epsilon < math.inf})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_ylabel("least budget (dashed: without privacy)")
        axes.legend()
    return figure
