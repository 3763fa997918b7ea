"""Linear means in which one arm leads by a given gap and the others are as close as possible.

The unknowns are the means x of some arms whose features span those of all, so that all means are
`rows @ x`, whatever the units of the features. Constraints and objectives are linear in x, and each
function solves linear programs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from dpbai._check import FloatArray, IntArray
from dpbai.ranking import ROUNDING
from dpbai.scaling import Span

SMALLEST = 1e-6
"""The smallest gap for which linear programs are solved accurately enough."""

_LARGEST_VARIANCE = 0.5  # mean at which rewards in [0, 1] can have the largest variance
_SLACK = 1e-8  # relative tolerance on the sum of gaps in the second linear program
_EXACT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def closest(
    features: FloatArray, best: int, gap: float, low: float = 0.0, high: float = 1.0
) -> FloatArray | None:
    """Return linear means in [low, high] in which arm `best` leads all others by `gap` or more.

    Among all such means, the sum of gaps is minimal. If this leaves a choice, the midpoint between
    the best mean and the mean that is `gap` below it is as close to 1/2 as possible, where the
    variance of rewards can be largest and the best arm is hardest to find. None if there are no
    such means, for instance if another arm has the same features. `gap` is at least `SMALLEST`.
    """
    rows, allowed, limits = _linear(features, best, gap, low, high)
    sum_of_gaps = -allowed[: len(rows) - 1].sum(axis=0)
    found = _least(sum_of_gaps, allowed, limits)
    if found is None:
        return None
    middle = _LARGEST_VARIANCE + gap / 2
    least = sum_of_gaps @ found
    # One more unknown, the distance of the best mean from there, is minimized.
    distance = np.append(np.zeros(len(allowed) + 1), [-1.0, -1.0])
    centred = _least(
        np.append(0.0 * sum_of_gaps, 1.0),
        np.c_[np.vstack([allowed, sum_of_gaps, rows[best], -rows[best]]), distance],
        np.append(limits, [least + _SLACK * max(least, gap), middle, -middle]),
    )
    found = found if centred is None else centred[:-1]
    return np.clip(rows @ found, low, high)


def largest(features: FloatArray, best: int, low: float = 0.0, high: float = 1.0) -> float:
    """Return the largest gap by which arm `best` can lead under linear means in [low, high]."""
    rows, allowed, limits = _linear(features, best, 0.0, low, high)
    leads = np.arange(len(allowed)) < len(rows) - 1
    found = _least(np.append(0.0 * rows[0], -1.0), np.c_[allowed, leads], limits)
    return 0.0 if found is None else max(0.0, float(found[-1]))


def only_two(points: FloatArray) -> IntArray | None:
    """Return the only two arms that can be the best under nonnegative linear means, or None.

    The rows of `points`, shape (K, 2), are distinct and span the plane. Means are nonnegative if
    theta lies in the dual of the cone of the points: theta = s p + t q for s, t >= 0, where p and q
    are its edges. The mean of arm j is then s x_j + t y_j with x_j = a_j'p >= 0 and y_j = a_j'q >=
    0. So the arms that can be the best are vertices of the upper right part of the convex hull of
    all (x_j, y_j). These include an arm with the largest x and an arm with the largest y, and there
    are no others if no arm lies above the line through these two.
    """

    def cross(one: FloatArray, other: FloatArray) -> FloatArray:
        return np.asarray(one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0])

    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    middle = (points / np.where(lengths > 0, lengths, 1)).sum(axis=0)
    angles = np.arctan2(cross(middle, points), points @ middle)
    low, high = angles.argmin(), angles.argmax()
    if angles[high] - angles[low] > np.pi - ROUNDING:  # only theta = 0, or thetas on one line
        return None
    x, y = cross(points[low], points), cross(points, points[high])
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
    """Return rows such that means are `rows @ x`, and the constraints on leads and on means."""
    span = Span(features)
    rows = span.coordinates if span.rank else np.zeros((len(features), 1))
    lead = rows[best] - np.delete(rows, best, axis=0)
    limits = np.repeat([-gap, high, -low], [len(lead), len(rows), len(rows)])
    return rows, np.vstack([-lead, rows, -rows]), limits


def _least(costs: FloatArray, rows: FloatArray, limits: FloatArray) -> FloatArray | None:
    """Return x that minimizes `costs @ x` subject to `rows @ x <= limits`, or None."""
    found = scipy.optimize.linprog(
        costs, A_ub=rows, b_ub=limits, bounds=(None, None), options=_EXACT
    )
    return None if found.x is None else np.asarray(found.x)
