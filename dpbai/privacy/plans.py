"""The plans that a run can come to."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Protocol, runtime_checkable

import numpy as np

from dpbai.policies import Phase, Policy


@runtime_checkable
class Representable(Protocol):
    """A policy that can list all its releases without going through all active sets."""

    def representatives(self, index: int) -> tuple[Phase, ...]:
        """Return plans of phase `index` that release what any active set can release."""


def checked(phase: Phase, index: int, active: tuple[int, ...]) -> Phase:
    """Return the plan if no reward in it can be used twice and its shapes agree.

    A phase hands over nothing but its surviving arms, and an engine gives the next one new rewards;
    what is left to check is that the plan pulls distinct active arms, and eliminates.

    Raises
    ------
    ValueError
        If the plan is not of this phase, pulls an arm twice or one that is not active, never pulls
        a listed arm, or eliminates none.
    """
    rules = {
        "be of the phase and active set asked for": (phase.index, phase.active) == (index, active),
        "pull distinct arms": len(set(phase.pulled)) == len(phase.pulled),
        "pull active arms": set(phase.pulled) <= set(active),
        "pull each arm at least once": all(n >= 1 for n in phase.pulls),
        "list pulls for each arm": len(phase.pulls) == len(phase.pulled),
        "keep some of the arms": 1 <= phase.keep < len(active),
        "release a statistic of its arms": phase.release_matrix is None
        or phase.release_matrix.shape[1] == len(phase.pulled),
    }
    for rule, kept in rules.items():
        if not kept:
            raise ValueError(f"the plan of phase {index} for active {active} must {rule}")
    return phase


def reachable(policy: Policy, limit: int) -> tuple[list[list[Phase]], bool]:
    """Return the plans of each phase, over all active sets that may survive, and whether all.

    When a phase has more than `limit` active sets in all, some of them are drawn at random.
    """
    layer = {tuple(range(policy.features.shape[0]))}
    rng = np.random.default_rng(0)
    plans: list[list[Phase]] = []
    complete = True
    while any(len(active) > 1 for active in layer):
        index = len(plans) + 1
        phases = [checked(policy.phase(index, active), index, active) for active in sorted(layer)]
        plans.append(phases)
        if sum(comb(len(phase.active), phase.keep) for phase in phases) <= limit:
            layer = {s for phase in phases for s in combinations(phase.active, phase.keep)}
        else:
            complete = False
            drawn = [phases[i] for i in rng.integers(len(phases), size=limit)]
            layer = {
                tuple(sorted(rng.choice(phase.active, phase.keep, replace=False).tolist()))
                for phase in drawn
            }
    return plans, complete
