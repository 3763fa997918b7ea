"""Instances in which the best arm leads by a given gap, and the others are as close as can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from dpbai._check import FloatArray
from dpbai.cli.arguments import Law
from dpbai.designs.max_det import basis_coordinates
from dpbai.designs.scaling import span_coordinates
from dpbai.instance import Instance
from dpbai.session.rewards import UNIT, Range

_VARIES_MOST = 0.5  # mean at which rewards of each law of the command line vary most
_SLACK = 1e-8  # by which the level may cost a larger sum of gaps, for rounding


def closest(features: FloatArray, best: int, gap: float, law: Law) -> Instance | None:
    """Return an instance with linear means in which arm `best` leads each other by `gap` or more.

    Of all such means, those with the smallest sum of gaps; and of these, those in which the best
    arm and one that is `gap` behind lie as evenly about 1/2 as can be, where rewards of these laws
    vary most and the best arm is hardest to find. None if there are none, for instance if another
    arm has the same features.
    """
    rows, allowed, limits = _linear(features, best, gap, law)
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
    means = np.clip(rows @ found, law.lowest, law.highest)
    return Instance(features, rewards=[law.make(mean) for mean in means.tolist()])


def _linear(
    features: FloatArray, best: int, gap: float, law: Law
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows, of which means are `rows @ x`; and what bounds x: leads first, then means."""
    reduced = span_coordinates(features)
    # The unknowns are the means of some arms that span the others: units have no say in that.
    rows = basis_coordinates(reduced)[1] if reduced.shape[1] else np.zeros((len(features), 1))
    lead = rows[best] - np.delete(rows, best, axis=0)
    limits = np.repeat([-gap, law.highest, -law.lowest], [len(lead), len(rows), len(rows)])
    return rows, np.vstack([-lead, rows, -rows]), limits


def largest(features: FloatArray, best: int, law: Law) -> float:
    """Return the largest gap by which arm `best` can lead."""
    rows, allowed, limits = _linear(features, best, 0.0, law)
    leads = np.arange(len(allowed)) < len(rows) - 1
    found = _least(np.append(0.0 * rows[0], -1.0), np.c_[allowed, leads], limits)
    return 0.0 if found is None else max(0.0, float(found[-1]))


def _least(costs: FloatArray, rows: FloatArray, limits: FloatArray) -> FloatArray | None:
    """Return x with the least `costs @ x` among those with `rows @ x <= limits`, if any."""
    found = scipy.optimize.linprog(costs, A_ub=rows, b_ub=limits, bounds=(None, None))
    return None if found.x is None else np.asarray(found.x)


def every(
    features: FloatArray, arms: Sequence[int], gap: float, law: Law, scale: Range = UNIT
) -> dict[int, Instance]:
    """Return `closest` instances for those of `arms` that can lead by `gap`, told on a scale."""
    found = {arm: closest(features, arm, gap / scale.width, law) for arm in arms}
    instances = {arm: instance for arm, instance in found.items() if instance is not None}
    if not instances:
        low, high = map(scale.shown, (law.lowest, law.highest))
        leads = "this arm leads" if len(arms) == 1 else "none of these arms leads"
        most = scale.width * max(largest(features, arm, law) for arm in arms)
        raise ValueError(
            f"gap must be one that linear means in [{low:g}, {high:g}] allow, but with these "
            f"features {leads} by {gap:g}; the largest lead is {most:.3g}"
        )
    return instances
