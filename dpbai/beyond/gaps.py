"""Linear means in which one arm leads by a given gap, and the others are as close as can be.

The unknowns are the means x of some arms that span the features, so that all means are `rows @ x`,
in whatever units the features are. What is wanted of x are linear inequalities, and what is least
or largest is linear too: each answer is that of a linear program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from dpbai._check import FloatArray, IntArray
from dpbai.ranking import ROUNDING
from dpbai.scaling import Span

SMALLEST = 1e-6
"""The least gap for which linear programs are solved exactly enough."""

_VARIES_MOST = 0.5  # mean at which rewards in [0, 1] vary most
_SLACK = 1e-8  # by which the level may cost a larger sum of gaps, for rounding
_EXACT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def closest(
    features: FloatArray, best: int, gap: float, low: float = 0.0, high: float = 1.0
) -> FloatArray | None:
    """Return linear means in [low, high] in which arm `best` leads each other by `gap` or more.

    Of all such means, those with the smallest sum of gaps; and of these, those in which the best
    arm and one that is `gap` behind lie as evenly about 1/2 as can be, where rewards vary most and
    the best arm is hardest to find. None if there are none, for instance if another arm has the
    same features. `gap` is at least `SMALLEST`.
    """
    rows, allowed, limits = _linear(features, best, gap, low, high)
    sum_of_gaps = -allowed[: len(rows) - 1].sum(axis=0)
    found = _least(sum_of_gaps, allowed, limits)
    if found is None:
        return None
    middle = _VARIES_MOST + gap / 2
    least = sum_of_gaps @ found
    # One more unknown: how far the best arm is from there.
    distance = np.append(np.zeros(len(allowed) + 1), [-1.0, -1.0])
    levelled = _least(
        np.append(0.0 * sum_of_gaps, 1.0),
        np.c_[np.vstack([allowed, sum_of_gaps, rows[best], -rows[best]]), distance],
        np.append(limits, [least + _SLACK * max(least, gap), middle, -middle]),
    )
    found = found if levelled is None else levelled[:-1]
    return np.clip(rows @ found, low, high)


def largest(features: FloatArray, best: int, low: float = 0.0, high: float = 1.0) -> float:
    """Return the largest gap by which arm `best` can lead."""
    rows, allowed, limits = _linear(features, best, 0.0, low, high)
    leads = np.arange(len(allowed)) < len(rows) - 1
    found = _least(np.append(0.0 * rows[0], -1.0), np.c_[allowed, leads], limits)
    return 0.0 if found is None else max(0.0, float(found[-1]))


def only_two(points: FloatArray) -> IntArray | None:
    """Return the two arms that alone can be the best under linear means of at least 0, or None.

    `points`, shape (K, 2), are distinct and span the plane. Means of at least 0 have a theta in the
    dual of their cone: with p and q its edges, theta = s p + t q for s, t >= 0, and the mean of arm
    j is s x_j + t y_j with x_j = a_j'p and y_j = a_j'q, at least 0. So the best arms are corners of
    the hull of all (x_j, y_j) that lie to the upper right: one has the largest x, one the largest
    y. They are the only ones if no other arm lies beyond the line through them.
    """

    def turn(one: FloatArray, other: FloatArray) -> FloatArray:
        return np.asarray(one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0])

    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    middle = (points / np.where(lengths > 0, lengths, 1)).sum(axis=0)
    angles = np.arctan2(turn(middle, points), points @ middle)
    low, high = angles.argmin(), angles.argmax()
    if angles[high] - angles[low] > np.pi - ROUNDING:  # no theta but 0, or those of one line
        return None
    x, y = turn(points[low], points), turn(points, points[high])
    one, other = (
        int(np.where(a >= a.max() * (1 - ROUNDING), b, -1).argmax()) for a, b in ((x, y), (y, x))
    )
    height = (y[other] - y[one]) * x + (x[one] - x[other]) * y
    if one == other or (height > height[one] * (1 + ROUNDING)).any():
        return None
    return np.array([one, other])


def _linear(
    features: FloatArray, best: int, gap: float, low: float, high: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows, of which means are `rows @ x`; and what bounds x: leads first, then means."""
    span = Span(features)
    rows = span.coordinates if span.rank else np.zeros((len(features), 1))
    lead = rows[best] - np.delete(rows, best, axis=0)
    limits = np.repeat([-gap, high, -low], [len(lead), len(rows), len(rows)])
    return rows, np.vstack([-lead, rows, -rows]), limits


def _least(costs: FloatArray, rows: FloatArray, limits: FloatArray) -> FloatArray | None:
    """Return x with the least `costs @ x` among those with `rows @ x <= limits`, if any."""
    found = scipy.optimize.linprog(
        costs, A_ub=rows, b_ub=limits, bounds=(None, None), options=_EXACT
    )
    return None if found.x is None else np.asarray(found.x)
