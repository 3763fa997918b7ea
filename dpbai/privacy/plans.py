"""The plans that a run can come to."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import comb
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from dpbai.policies import Phase, Policy
from dpbai.policies.phase import arms_of, planned


@runtime_checkable
class Representable(Policy, Protocol):
    """A policy that can list all its releases without going through all active sets."""

    def representatives(self, index: int) -> tuple[Phase, ...]:
        """Return plans of phase `index` that release what any active set can release."""


def representable(policy: Policy) -> TypeGuard[Representable]:
    """Return whether a policy lists all its releases itself.

    A class that inherits the list and plans its phases anew has no list of these.
    """
    if not isinstance(policy, Representable) or "phase" in vars(policy):
        return False
    classes = type(policy).__mro__
    listing, planning = (
        next(depth for depth, cls in enumerate(classes) if name in vars(cls))
        for name in ("representatives", "phase")
    )
    return listing <= planning


def reachable(policy: Policy, limit: int) -> tuple[list[list[Phase]], bool]:
    """Return the plans of each phase, over all active sets that may survive, and whether all.

    When a phase has more than `limit` active sets in all, some of them are drawn at random.
    """
    # The active sets that may come to a phase, and the most pulls that any may have cost by then.
    layer = {tuple(range(arms_of(policy))): 0}
    rng = np.random.default_rng(0)
    plans: list[list[Phase]] = []
    complete = True
    while any(len(active) > 1 for active in layer):
        index = len(plans) + 1
        phases = [
            planned(policy, index, active, spent=layer[active])
            for active in sorted(layer)
            if len(active) > 1
        ]
        plans.append(phases)
        survivors: Iterable[tuple[Phase, tuple[int, ...]]]
        if sum(comb(len(phase.active), phase.keep) for phase in phases) <= limit:
            survivors = ((p, kept) for p in phases for kept in combinations(p.active, p.keep))
        else:
            complete = False
            drawn = [phases[i] for i in rng.integers(len(phases), size=limit)]
            survivors = (
                (p, tuple(sorted(rng.choice(p.active, p.keep, replace=False).tolist())))
                for p in drawn
            )
        before, layer = layer, {}
        for phase, kept in survivors:
            layer[kept] = max(layer.get(kept, 0), before[phase.active] + phase.cost)
    return plans, complete
