"""Instances in which the best arm leads by a given gap, and the others are as close as can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import optimize

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.cli.choices import Law
from dpbai.instance import Instance


def closest(features: FloatArray, best: int, gap: float, law: Law) -> Instance | None:
    """Return an instance with linear means in which arm `best` leads each other by `gap` or more.

    Of all such means, those with the smallest sum of gaps: a linear program in theta. None if there
    are none, for instance if another arm has the same features.
    """
    lead = features[best] - np.delete(features, best, axis=0)
    arms = len(features)
    found = optimize.linprog(
        lead.sum(axis=0),
        A_ub=np.vstack([-lead, features, -features]),
        b_ub=np.repeat([-gap, law.highest, -law.lowest], [arms - 1, arms, arms]),
        bounds=(None, None),
    )
    if found.x is None:
        return None
    means = np.clip(features @ found.x, law.lowest, law.highest)
    return Instance(features, rewards=[law.make(mean) for mean in means.tolist()])


def every(features: FloatArray, arms: Sequence[int], gap: float, law: Law) -> dict[int, Instance]:
    """Return `closest` instances for each of `arms` that can lead by `gap`.

    Raises
    ------
    ValueError
        If none of them can.
    """
    _check.proportion(gap, "gap")
    found = {arm: closest(features, arm, gap, law) for arm in arms}
    instances = {arm: instance for arm, instance in found.items() if instance is not None}
    if not instances:
        leads = "this arm leads" if len(arms) == 1 else "none of these arms leads"
        raise ValueError(
            f"gap must be one that linear means in [{law.lowest:g}, {law.highest:g}] allow, but "
            f"with these features {leads} by {gap:g}"
        )
    return instances
