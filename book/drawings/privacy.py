"""Figures of the chapters on privacy: output laws, losses, true deltas, and the better policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbai.field.figures.canvas import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    POLICIES,
    PURPLE,
    SERIES,
    WIDTH,
    Picture,
    canvas,
    name_lines,
)
from drawings._shared import between, broken_above, curve, ramp

_MISTAKES = tuple(
    {"color": color, "marker": marker, "linestyle": "--"}
    for color, marker in (
        (ORANGE, "s"),
        (BLACK, "^"),
        (PURPLE, "v"),
        ("#8C510A", "X"),
        ("#6A3D9A", "P"),
    )
)
"""Styles of engines with a mistake, none of which is the style of a correct policy."""


def privacy_losses(panels: Mapping[str, pd.DataFrame], *, stated: float) -> Picture:
    """Draw the exact privacy loss of policies against the pulls of each arm.

    Parameters
    ----------
    panels : mapping of str to pandas.DataFrame
        Title and losses of each panel: a row for each number of pulls, a column for each policy;
        NaN where there is none.
    stated : float
        The stated epsilon; losses above it are on shaded ground.

    Returns
    -------
    Picture
    """
    with canvas(1, len(panels), size=(WIDTH, 3.6), sharey=True) as (figure, axes):
        names = dict.fromkeys(str(name) for table in panels.values() for name in table)
        mistakes = iter(_MISTAKES)
        looks = {
            name: POLICIES.get(name.removesuffix(" as printed")) or next(mistakes) for name in names
        }
        for panel, (title, table) in zip(axes, panels.items(), strict=True):
            broken_above(panel, stated, 2 * stated)
            for name in table.columns:
                column = table[name].dropna()
                panel.plot(column.index, column, label=name, **looks[str(name)])
            panel.set(title=title, ylim=(0.4 * stated, 2 * stated), xlabel="pulls $n$ (log)")
            panel.set_xscale("log")
            panel.set_xticks(table.index, [str(n) for n in table.index])
            panel.minorticks_off()
            panel.margins(x=0.12)
        axes[0].set_ylabel("exact privacy loss of the output")
        name_lines(*axes)
    return figure


def lead_losses(
    threshold: ArrayLike, chances: Mapping[str, ArrayLike], *, stated: float
) -> Picture:
    """Draw the privacy loss of the event that a noisy lead exceeds a threshold, for each threshold.

    Parameters
    ----------
    threshold : array_like of shape (n,)
        Noisy leads of an arm, increasing, from below 0 to above.
    chances : mapping of str to array_like of shape (2, n)
        For each policy, logarithms of the chances of a larger lead on two neighbouring tables, of
        which the first makes it likelier.
    stated : float
        The stated epsilon; losses above it are on shaded ground.

    Returns
    -------
    Picture
        Left, the chances of the first policy, on a log axis; right, the distance of the two curves
        for each policy. At 0, the vertical line, is what the recommendation gives away.
    """
    x = np.asarray(threshold, dtype=float)
    curves = {name: np.asarray(pair, dtype=float) for name, pair in chances.items()}
    first = next(iter(curves))
    with canvas(1, 2, size=(WIDTH, 3.6)) as (figure, (left, right)):
        likelier, other = curves[first]
        left.fill_between(x, *np.exp(curves[first]), where=x >= 0, color=GREY, alpha=0.25)
        left.plot(x, np.exp(likelier), color=BLACK, label="one table")
        left.plot(x, np.exp(other), color=BLACK, linestyle=":", label="its neighbour")
        ends = [float(np.exp(np.interp(0, x, curve))) for curve in curves[first]]
        arrow = {"arrowstyle": "<->", "color": BLACK, "shrinkA": 0, "shrinkB": 0}
        left.annotate("", (0, ends[0]), (0, ends[1]), arrowprops=arrow)
        left.set(title=f"chance of a larger lead: {first}", yscale="log")
        broken_above(right, stated, 2 * stated)
        for (name, pair), look in zip(curves.items(), SERIES, strict=False):
            loss = pair[0] - pair[1]
            right.plot(x, loss, label=name, **curve(look))
            right.plot(0, np.interp(0, x, loss), look["marker"], color=look["color"], markersize=7)
        right.set(title="log ratio of the chances", ylim=(0, 2 * stated))
        for panel in (left, right):
            panel.axvline(0, color=GREY, linewidth=1, zorder=0)
            panel.set_xlabel("noisy lead (rewards)")
            panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return figure


def paired_laws(laws: Mapping[str, tuple[float, float]], *, epsilon: float) -> Picture:
    """Draw the chance of each output on two neighbouring tables, with the factor between them.

    A thin bar shows which chances on the second table the first allows.

    Parameters
    ----------
    laws : mapping of str to (float, float)
        For each output, its probabilities on the two tables.
    epsilon : float
        No factor may exceed e^epsilon.
    """
    with canvas(size=(WIDTH, 1.1 + 0.75 * len(laws))) as (figure, axes):
        for row, pair in enumerate(laws.values()):
            for chance, shift, colour in zip(pair, (-0.19, 0.19), (BLUE, ORANGE), strict=True):
                axes.barh(row + shift, chance, 0.34, color=colour)
                look = {"va": "center", "fontsize": 9, "color": "white", "weight": "bold"}
                axes.text(0.015, row + shift, f"{chance:.3f}", **look)
            reach = [pair[0] * np.exp(-epsilon), min(1, pair[0] * np.exp(epsilon))]
            axes.plot(reach, [row + 0.31] * 2, color=BLACK, marker="|", markersize=7)
            axes.text(1.05, row, f"factor {max(pair) / min(pair):.3f}", va="center")
        axes.barh([0, 0], [0, 0], color=[BLUE, ORANGE])
        axes.set(
            yticks=range(len(laws)),
            yticklabels=list(laws),
            xlim=(0, 1.42),
            xticks=np.arange(0, 1.1, 0.2),
            xlabel=rf"probability; allowed factor $e^\varepsilon$ = {np.exp(epsilon):.3f}",
        )
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        figure.legend(
            [*axes.patches[:2], axes.lines[0]],
            ["on one table", "on its neighbour", "allowed there"],
            loc="outside upper center",
            ncols=3,
        )
    return figure


def laplace_pair(scale: float, *, shift: float) -> Picture:
    """Draw the Laplace densities of two tables that differ in one reward, on a log axis.

    Their distance there is constant outside the two peaks: the loss, shift / scale.

    Parameters
    ----------
    scale : float
        Of the noise.
    shift : float
        How far one reward moves what is released.
    """
    x = np.linspace(-4 * scale, shift + 4 * scale, 401)
    with canvas(size=(WIDTH, 2.8)) as (figure, axes):
        for name, centre, colour in (("one table", 0.0, BLUE), ("its neighbour", shift, ORANGE)):
            density = np.exp(-np.abs(x - centre) / scale) / (2 * scale)
            axes.plot(x, density, color=colour, label=name)
        at = -2 * scale
        ends = [np.exp(-abs(at - centre) / scale) / (2 * scale) for centre in (0, shift)]
        arrow = {"arrowstyle": "<->", "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (at, ends[0]), (at, ends[1]), arrowprops=arrow)
        loss = rf"$\varepsilon = {shift / scale:.3g}$  "
        axes.text(at, max(ends), loss, va="bottom", ha="right")
        axes.set(yscale="log", xlabel="released mean", ylabel="density (log)")
        name_lines(axes)
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
        broken_above(axes, 1, 1e4)
        for (name, values), color in zip(ratios.items(), ramp(len(ratios)), strict=True):
            axes.plot(epsilons, values, label=name, color=color)
            axes.plot(crossings[name], 1, marker="o", color=color)
        axes.set(
            xscale="log",
            yscale="log",
            ylim=(1e-3, 1e4),
            xlabel=r"privacy parameter $\varepsilon$ (log)",
            ylabel=r"true over stated $\delta$ (log)",
        )
        name_lines(axes)
    return figure


def winners(ratios: Mapping[float, pd.DataFrame], crossovers: Mapping[float, ArrayLike]) -> Picture:
    """Draw over budget and delta whose error is smaller, DP-BAI's or DP-BAI-Gauss's.

    Parameters
    ----------
    ratios : mapping of float to pandas.DataFrame
        For each epsilon, log10 of the error of DP-BAI over that of DP-BAI-Gauss: a row for each
        delta, a column for each budget.
    crossovers : mapping of float to array_like
        For each epsilon, the budget for each of these delta from which the paper's table recommends
        DP-BAI-Gauss.

    Returns
    -------
    Picture
        A panel for each epsilon. The smaller error is that of the policy whose colour there is.
    """
    with canvas(1, len(ratios), size=(WIDTH, 4.0), sharey=True) as (figure, axes):
        for panel, (epsilon, table) in zip(axes, ratios.items(), strict=True):
            # One tile for each computed pair: only the line of equal errors is interpolated.
            grid = table.columns, table.index, np.clip(table, -2, 2)
            tiles = {"shading": "nearest", "edgecolors": "white", "linewidth": 0.3}
            colors = between(POLICIES["DP-BAI"]["color"], POLICIES["DP-BAI-Gauss"]["color"])
            shades = panel.pcolormesh(*grid, cmap=colors, vmin=-2, vmax=2, **tiles)
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
                    fontsize=9,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
                )
            panel.set(
                xscale="log",
                yscale="log",
                title=rf"$\varepsilon = {epsilon:g}$",
                xlabel="budget $T$ (pulls, log)",
                xlim=(min(table.columns), max(table.columns)),
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


def rival_errors(
    panels: Mapping[str, pd.DataFrame], crossovers: Mapping[str, float], *, floor: float
) -> Picture:
    """Draw the errors of policies against the budget, and from where on the paper ticks one.

    Parameters
    ----------
    panels : mapping of str to pandas.DataFrame
        Title and errors of each panel: a row for each budget, a column for each policy.
    crossovers : mapping of str to float
        For the same titles, the budget from which the paper's table recommends DP-BAI-Gauss.
    floor : float
        Errors below it are not shown.

    Returns
    -------
    Picture
        Where the table recommends DP-BAI-Gauss, the ground is shaded.
    """
    with canvas(1, len(panels), size=(WIDTH, 3.6), sharey=True, squeeze=False) as (
        figure,
        (axes,),
    ):
        for panel, (title, table) in zip(axes, panels.items(), strict=True):
            ends = min(table.index), max(table.index)
            start = min(max(crossovers[title], ends[0]), ends[1])
            shade = panel.axvspan(start, ends[1], color=GREY, alpha=0.18, linewidth=0)
            for name, column in table.items():
                panel.plot(table.index, column, label=name, **POLICIES[str(name)])
            panel.set(title=title, xscale="log", xlim=ends, xlabel="budget $T$ (pulls, log)")
            panel.set(yscale="log", ylim=(floor, 1))
        axes[0].set_ylabel("exact error probability (log)")
        name_lines(*axes)
        figure.legend(
            [shade], ["the paper's table recommends DP-BAI-Gauss"], loc="outside upper center"
        )
    return figure


def guesses(epsilons: ArrayLike, before: Sequence[float], *, marked: Sequence[float]) -> Picture:
    """Draw how certain a guess about one reward can become, for several prior probabilities.

    Parameters
    ----------
    epsilons : array_like of shape (n,)
        Privacy parameters.
    before : sequence of float
        Probabilities of the guess before the output is seen.
    marked : sequence of float
        Values of epsilon to mark, for the first guess.
    """
    x = np.asarray(epsilons, dtype=float)
    with canvas(size=(WIDTH, 3.0)) as (figure, axes):
        for sure, color in zip(before, ramp(len(before)), strict=True):
            after = sure * np.exp(x) / (1 + sure * np.expm1(x))
            axes.plot(x, after, color=color, label=f"{sure:.0%} sure before")
        first = before[0]
        for epsilon in marked:
            height = first * np.exp(epsilon) / (1 + first * np.expm1(epsilon))
            axes.plot(epsilon, height, "o", color=BLACK)
            where, side = ((6, -12), "left") if height < 0.9 else ((-6, 5), "right")
            place = {"xytext": where, "ha": side, "textcoords": "offset points", "fontsize": 9}
            axes.annotate(f"{height:.0%} at {epsilon:g}", (epsilon, height), **place)
        axes.set(xscale="log", xlabel=r"privacy parameter $\varepsilon$ (log)", ylim=(0, 1.1))
        axes.set_ylabel("sure after, at most")
        ticks = [0.01, 0.1, 1, 10]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        name_lines(axes)
    return figure
