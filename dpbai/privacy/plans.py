"""The plans that a run can come to."""

from __future__ import annotations

from itertools import combinations, takewhile
from math import comb
from typing import TypeGuard

import numpy as np

from dpbai import _check
from dpbai.policies import DPBAI, Baseline, DPBAIGauss, DPDesign, Phase, Policy
from dpbai.policies.phase import arms_of, path_after, planned

_OWN = (DPBAI, Baseline, DPBAIGauss, DPDesign)
_LISTED = {"phase", "representatives", "collections", "_collection", "_plan", "_noise"}


def representable(policy: Policy) -> TypeGuard[DPBAI | DPDesign]:
    """Return whether a policy lists all its releases itself, and can be believed.

    These are DP-BAI and its relatives, with any noise, and DPDesign; a class that chooses arms or
    plans phases in another way has no such list.
    """
    if not isinstance(policy, _OWN) or _LISTED & vars(policy).keys():
        return False
    below = takewhile(lambda cls: cls not in _OWN, type(policy).__mro__)
    return not any(_LISTED & vars(cls).keys() for cls in below)


def releases(policy: Policy, limit: int) -> tuple[list[list[Phase]], bool]:
    """Return plans of each phase that release whatever a run can release, and whether all of it."""
    if not representable(policy):
        return reachable(policy, limit)
    some, _ = reachable(policy, 1)
    return [
        [*phases, *policy.representatives(index)] for index, phases in enumerate(some, start=1)
    ], True


def reachable(policy: Policy, limit: int) -> tuple[list[list[Phase]], bool]:
    """Return the plans of each phase, over all active sets that may survive, and whether all.

    When a phase has more than `limit` active sets in all, some of them are drawn at random.
    """
    # The active sets that may come to a phase, each with what led there if the policy remembers it,
    # and the most pulls that any may have cost by then.
    layer: dict[tuple[tuple[int, ...], tuple[Phase, ...]], int] = {
        (tuple(range(arms_of(policy))), ()): 0
    }
    rng = np.random.default_rng(0)
    plans: list[list[Phase]] = []
    complete = True
    while any(len(active) > 1 for active, _ in layer):
        index = len(plans) + 1
        begun = sorted((key for key in layer if len(key[0]) > 1), key=lambda key: key[0])
        phases = [
            planned(policy, index, active, spent=layer[active, past], past=past)
            for active, past in begun
        ]
        _check_pure(policy, phases[0], spent=layer[begun[0]], past=begun[0][1])
        plans.append(phases)
        led = list(zip(begun, phases, strict=True))
        if sum(comb(len(phase.active), phase.keep) for phase in phases) <= limit:
            survivors = [
                (at, kept) for at in led for kept in combinations(at[1].active, at[1].keep)
            ]
        else:
            complete = False
            drawn = [led[number] for number in rng.integers(len(led), size=limit)]
            survivors = [(at, _some(at[1], rng)) for at in drawn]
        before, layer = layer, {}
        for (key, phase), kept in survivors:
            after = kept, path_after(policy, key[1], phase)
            layer[after] = max(layer.get(after, 0), before[key] + phase.cost)
    return plans, complete


def _some(phase: Phase, rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(sorted(rng.choice(phase.active, phase.keep, replace=False).tolist()))


def _check_pure(policy: Policy, phase: Phase, spent: int, past: tuple[Phase, ...]) -> None:
    """Raise ValueError if a policy plans the phase differently when it is asked again."""
    again = planned(policy, phase.index, phase.active, spent=spent, past=past)
    for name in ("pulled", "pulls", "keep", "release_matrix", "decoder_matrix", "losses"):
        if not np.array_equal(getattr(phase, name), getattr(again, name)):
            raise ValueError(
                f"policy must plan the same phase each time, and {name} of phase {phase.index} for "
                f"active {_check.told(phase.active)} changed"
            )
