"""Figures of private designs: their pulls and their success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from dpbai.field.figures.canvas import (
    BLACK,
    GREY,
    ORANGE,
    POLICIES,
    SERIES,
    WIDTH,
    Picture,
    canvas,
    name_lines,
)
from drawings._shared import between, ramp, rates


def divided_pulls(
    points: ArrayLike, pulls: ArrayLike, marked: Sequence[int], title: str
) -> Picture:
    """Draw arms in the plane, each as large as its share of the pulls.

    Parameters
    ----------
    points : array_like of shape (K, 2)
    pulls : array_like of shape (K,)
    marked : sequence of int
        Arms with a ring around them: a Max-Det collection.
    title : str
    """
    points, shares = np.asarray(points), np.asarray(pulls) / np.sum(pulls)
    with canvas(size=(4.2, 3.9)) as (figure, axes):
        axes.plot(*points.T, "o", color=GREY, markersize=3, label="arms")
        ringed = points[list(marked)]
        axes.plot(*ringed.T, "o", mfc="none", mec=BLACK, markersize=17, label="Max-Det collection")
        pulled = shares > 0
        axes.scatter(*points[pulled].T, s=900 * shares[pulled], color=ORANGE, alpha=0.75, zorder=3)
        axes.scatter([], [], s=60, color=ORANGE, alpha=0.75, label="pulled: area is share")
        axes.set(xlabel="first feature", ylabel="second feature", title=title, aspect="equal")
        axes.margins(0.12)
        figure.legend(loc="outside lower center", ncols=3, fontsize=8, handletextpad=0.3)
    return figure


def success_along(table: pd.DataFrame, xlabel: str) -> Picture:
    """Draw success rates of policies as lines, with their intervals.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns policy, group, success_rate, low and high; groups are numbers.
    xlabel : str
        What the groups are.
    """
    with canvas(size=(WIDTH, 3.4)) as (figure, axes):
        for name, rows in table.groupby("policy", sort=False):
            look = POLICIES.get(str(name), SERIES[-1])
            axes.plot(rows["group"], rows["success_rate"], label=name, **look)
            rates(axes, rows["group"], rows, look)
        axes.set_xticks(table["group"].unique())
        axes.set(xlabel=xlabel, ylabel="success rate (0 to 1)", ylim=(0, 1.04))
        name_lines(axes)
    return figure


def information(
    pulls: ArrayLike, curves: Mapping[str, ArrayLike], costs: Sequence[float]
) -> Picture:
    """Draw the information of n pulls against n, and where each curve's asymptote begins.

    Parameters
    ----------
    pulls : array_like
        n.
    curves : mapping of str to array_like
        By name, the information for each n; the first is that without noise.
    costs : sequence of float
        The fixed cost of each further curve, in pulls.
    """
    pulls = np.asarray(pulls)
    with canvas() as (figure, axes):
        colors = ramp(len(curves))
        for (name, values), color in zip(curves.items(), colors, strict=True):
            axes.plot(pulls, values, label=name, color=color)
        for cost, color in zip(costs, colors[1:], strict=True):
            line = 4 * (pulls - cost)
            axes.plot(pulls[line >= 0], line[line >= 0], ":", color=color, linewidth=1)
            if cost < pulls.max():
                axes.plot(cost, 0, "|", color=color, markersize=12, clip_on=False)
                place = {"xytext": (3, 4), "textcoords": "offset points", "fontsize": 8.5}
                over_lines = [withStroke(linewidth=3, foreground="white")]
                style = {"color": color, "path_effects": over_lines, "zorder": 3}
                axes.annotate(f"cost {cost:.0f}", (cost, 0), **style, **place)
        axes.set(xlabel="pulls $n$ of an arm", ylabel="information $w(n)$")
        axes.set(xlim=(0, pulls.max()), ylim=(0, None))
        name_lines(axes)
    return figure


def leads(table: pd.DataFrame, title: str) -> Picture:
    """Draw a table of differences of success rates as tiles, each with its number.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each epsilon, a column for each budget.
    title : str
    """
    with canvas(size=(5.2, 0.7 + 0.45 * len(table))) as (figure, axes):
        most = 0.05 * np.ceil(np.abs(table.to_numpy()).max() / 0.05)
        colors = between(POLICIES["DP-BAI"]["color"], POLICIES["DP-Design"]["color"])
        axes.imshow(table, cmap=colors, vmin=-most, vmax=most, aspect="auto")
        for (row, column), value in np.ndenumerate(table.to_numpy()):
            dark = abs(value) > 0.6 * most
            axes.text(
                column, row, f"{value:+.2f}", ha="center", va="center",
                color="white" if dark else BLACK, fontsize=9,
            )  # fmt: skip
        axes.set_xticks(range(table.shape[1]), [str(name) for name in table.columns])
        axes.set_yticks(range(len(table)), [f"{name:g}" for name in table.index])
        axes.set(xlabel="budget $T$", ylabel=r"$\varepsilon$", title=title)
        axes.grid(visible=False)
        axes.tick_params(length=0)
    return figure


def peers(table: pd.DataFrame) -> Picture:
    """Draw success rates of many policies on several instances, a row of points for each instance.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns policy, epsilon, instance, success_rate, low and high. Filled points are of private
        policies, those with a finite epsilon.
    """
    looks = {
        "DP-Design": POLICIES["DP-Design"],
        "DP-BAI": POLICIES["DP-BAI"],
        "DP-Halving": POLICIES["DP-Halving"],
        "OD-LinBAI": POLICIES["OD-LinBAI"],
        "G-BAI": {"color": GREY, "marker": "^"},
        "G-BAI, rounded": {"color": BLACK, "marker": "s"},
        "elimination": {"color": GREY, "marker": "v"},
        "oracle": {"color": BLACK, "marker": "|"},
    }
    instances = list(table["instance"].unique())
    runs = list(dict.fromkeys(zip(table["policy"], table["epsilon"], strict=True)))
    with canvas(size=(WIDTH, 4.6)) as (figure, axes):
        for number, (policy, epsilon) in enumerate(runs):
            rows = table[(table["policy"] == policy) & (table["epsilon"] == epsilon)]
            offset = 0.36 - 0.72 * number / max(1, len(runs) - 1)
            places = [len(instances) - instances.index(name) + offset for name in rows["instance"]]
            private = np.isfinite(epsilon)
            color, marker = looks[policy]["color"], looks[policy]["marker"]
            axes.hlines(places, rows["low"], rows["high"], color=color, linewidth=1)
            face = color if private else "white"
            name = rf"{policy}, $\varepsilon = {epsilon:g}$" if private else policy
            style = {"color": color, "mfc": face, "markersize": 5, "linestyle": "none"}
            axes.plot(rows["success_rate"], places, marker, label=name, **style)
        for place in range(1, len(instances)):
            axes.axhline(place + 0.5, color=GREY, linewidth=0.3)
        axes.set_yticks(range(len(instances), 0, -1), instances)
        axes.set(xlabel="success rate (0 to 1)", xlim=(0, 1.02))
        figure.legend(loc="outside upper center", ncols=3, fontsize=8)
    return figure
