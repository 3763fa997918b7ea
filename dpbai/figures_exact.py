"""Exact curves over the points that were sampled."""

from __future__ import annotations

import pandas as pd

from dpbai.figures import POLICIES, Picture, canvas


def exact_over_sampled(exact: pd.DataFrame, sampled: pd.DataFrame) -> Picture:
    """Draw exact success probabilities against the budget, and sampled rates with their intervals.

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
    with canvas(size=(6.4, 3.6)) as (figure, axes):
        for name, curve in exact.groupby("policy", sort=False):
            look = POLICIES[str(name)]
            rows = sampled[sampled["policy"] == name]
            rate = rows["success_rate"]
            axes.plot(
                curve["budget"],
                curve["success"],
                color=look["color"],
                linestyle=look["linestyle"],
                label=name,
            )
            axes.errorbar(
                rows["budget"],
                rate,
                [rate - rows["low"], rows["high"] - rate],
                color=look["color"],
                marker=look["marker"],
                linestyle="none",
                linewidth=1,
            )
        axes.set(xlabel="budget $T$ (pulls)", ylabel="success probability (0 to 1)", ylim=(0, 1.02))
        figure.legend(loc="outside upper center", ncols=4)
    return figure
