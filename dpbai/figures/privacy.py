"""Pictures of the chapters on privacy: losses against pulls, true deltas, and who wins where."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbai.figures.canvas import BLACK, GREY, SERIES, WIDTH, Picture, canvas


def privacy_losses(panels: Mapping[str, pd.DataFrame], *, promised: float) -> Picture:
    """Draw the exact privacy loss of policies against the pulls of each arm.

    Parameters
    ----------
    panels : mapping of str to pandas.DataFrame
        Title and losses of each panel: a row for each number of pulls, a column for each policy;
        NaN where there is none.
    promised : float
        The epsilon that was promised; losses above it, on shaded ground, are breaches.

    Returns
    -------
    Picture
    """
    with canvas(1, len(panels), size=(WIDTH, 3.9), sharey=True) as (figure, axes):
        for panel, (title, table) in zip(axes, panels.items(), strict=True):
            panel.axhspan(promised, 2 * promised, color=GREY, alpha=0.18, linewidth=0)
            panel.axhline(promised, color=BLACK, linewidth=1)
            for name, look in zip(table.columns, SERIES, strict=False):
                column = table[name].dropna()
                panel.plot(column.index, column, label=name, **look)
            panel.set(title=title, ylim=(0.4 * promised, 2 * promised), xlabel="pulls $n$ (log)")
            panel.set_xscale("log")
            panel.set_xticks(table.index, [str(n) for n in table.index])
            panel.minorticks_off()
            panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
        axes[0].set_ylabel("exact privacy loss of the output")
    return figure


def true_delta(
    epsilons: ArrayLike, ratios: Mapping[str, ArrayLike], crossings: Mapping[str, float]
) -> Picture:
    """Draw true over stated delta of a calibration against epsilon, on log axes.

    Parameters
    ----------
    epsilons : array_like of shape (n,)
        Values of epsilon.
    ratios : mapping of str to array_like of shape (n,)
        What to call each curve, and its ratios.
    crossings : mapping of str to float
        For the same names, the epsilon at which the ratio reaches 1.

    Returns
    -------
    Picture
        Ratios above 1, where the guarantee is broken, lie on shaded ground.
    """
    with canvas(size=(WIDTH, 3.6)) as (figure, axes):
        axes.axhspan(1, 1e4, color=GREY, alpha=0.18, linewidth=0)
        axes.axhline(1, color=BLACK, linewidth=1)
        for (name, values), look in zip(ratios.items(), SERIES, strict=False):
            axes.plot(epsilons, values, label=name, **{**look, "marker": None})
            axes.plot(crossings[name], 1, marker=look["marker"], color=look["color"])
        axes.set(
            xscale="log",
            yscale="log",
            ylim=(1e-3, 1e4),
            xlabel=r"privacy parameter $\varepsilon$ (log)",
            ylabel=r"true over stated $\delta$ (log)",
        )
        axes.legend(loc="upper left")
    return figure


def winners(ratios: Mapping[float, pd.DataFrame], crossovers: Mapping[float, ArrayLike]) -> Picture:
    """Draw over budget and delta whose error is smaller, DP-BAI's or DP-BAI-Gauss's.

    Parameters
    ----------
    ratios : mapping of float to pandas.DataFrame
        For each epsilon, log10 of the error of DP-BAI over that of DP-BAI-Gauss: a row for each
        delta, a column for each budget.
    crossovers : mapping of float to array_like
        For each epsilon, the budget for each of these delta from which the paper's table ticks
        DP-BAI-Gauss.

    Returns
    -------
    Picture
        A panel for each epsilon. DP-BAI-Gauss has the smaller error where the colour is blue.
    """
    with canvas(1, len(ratios), size=(WIDTH, 4.0), sharey=True) as (figure, axes):
        for panel, (epsilon, table) in zip(axes, ratios.items(), strict=True):
            grid = (table.columns, table.index, np.clip(table, -2, 2))
            shades = panel.contourf(*grid, levels=np.linspace(-2, 2, 17), cmap="RdBu")
            line = panel.contour(*grid, levels=[0], colors=BLACK, linewidths=2)
            dashed = panel.plot(crossovers[epsilon], table.index, "--", color=BLACK)
            for corner, side, name in (
                ((0.98, 0.97), "top", "DP-BAI-Gauss better"),
                ((0.98, 0.03), "bottom", "DP-BAI better"),
            ):
                panel.text(
                    *corner,
                    name,
                    transform=panel.transAxes,
                    ha="right",
                    va=side,
                    fontsize=8,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
                )
            panel.set(
                xscale="log",
                yscale="log",
                xlim=(min(table.columns), max(table.columns)),
                ylim=(min(table.index), max(table.index)),
                title=rf"$\varepsilon = {epsilon:g}$",
                xlabel="budget $T$ (pulls, log)",
            )
        axes[0].set_ylabel(r"privacy parameter $\delta$ (log)")
        figure.colorbar(
            shades,
            ax=axes,
            location="bottom",
            ticks=[-2, -1, 0, 1, 2],
            label="log10 of error of DP-BAI over error of DP-BAI-Gauss (cut at ±2)",
        )
        figure.legend(
            [line.legend_elements()[0][0], dashed[0]],
            ["equal errors", "the paper's table"],
            loc="outside upper center",
            ncols=2,
        )
    return figure
