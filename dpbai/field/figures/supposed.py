"""Figures of what the command line finds on supposed means."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpbai.field.figures.canvas import BLUE, GREY, Picture, canvas
from dpbai.field.figures.own_arms import MOST_ROWS, rows_of_arms


def least_budgets(found: Sequence[tuple[str, float, int]]) -> Picture:
    """Draw least budgets against epsilon, given the name of a policy, an epsilon and a budget each.

    The first of each policy is the one without privacy, with an infinite epsilon.
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


def recommended_counts(labels: Sequence[str], recommended: Sequence[int], best: int) -> Picture:
    """Draw in how many runs each arm was recommended: the best arm, and those with the most."""
    arms = sorted(range(len(labels)), key=lambda arm: (arm != best, -recommended[arm]))
    arms = sorted(arms[:MOST_ROWS])
    with rows_of_arms([labels[arm] for arm in arms]) as (figure, (panel,)):
        colors = [BLUE if arm == best else GREY for arm in arms]
        panel.barh(range(len(arms)), [recommended[arm] for arm in arms], color=colors)
        rest = "" if len(arms) == len(labels) else "; arms recommended less are left out"
        panel.set_xlabel(f"runs that recommended the arm (the best one in blue{rest})")
    return figure
