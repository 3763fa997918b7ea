"""The plans that a run can come to: one walk of the tree of phases, for all engines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from dpbai import _check
from dpbai.instance import Instance
from dpbai.phase import Phase, Policy, declared, remembers

Transcript = tuple[tuple[int, ...], ...]
"""The arms that survive phase 1, phase 2, and so on to the one recommended."""

Reads = tuple[tuple[int, int, int], ...]
"""An arm, and the first and last (excluded) index of its rewards that a phase reads, by arm."""


def arms_of(policy: Policy) -> int:
    """Return K, the number of arms of a policy; TypeError if it is none."""
    features = _check.kind(policy, "policy", Policy).features
    if np.ndim(features) != 2 or not len(features):
        raise ValueError("policy must have features of shape (K, d)")
    return len(features)


@dataclass(frozen=True, eq=False)
class Stage:
    """The state of a run: the active arms, and the phases executed before, oldest first.

    Every engine walks the tree of phases by `first`, `phase` and `then`.
    """

    policy: Policy
    active: tuple[int, ...]
    past: tuple[Phase, ...] = ()

    @classmethod
    def first(cls, policy: Policy) -> Stage:
        """Return the stage at which a run begins."""
        return cls(policy, tuple(range(arms_of(policy))))

    @classmethod
    def on(cls, policy: Policy, instance: Instance) -> Stage:
        """Return the first stage of a run on an instance, if it has as many arms as the policy."""
        arms = arms_of(policy)
        if arms != (others := _check.kind(instance, "instance", Instance).arms):
            raise ValueError(f"policy and instance must have as many arms, got {arms}, {others}")
        return cls.first(policy)

    def then(self, kept: tuple[int, ...]) -> Stage:
        """Return the stage that follows if these arms survive."""
        return Stage(self.policy, kept, (*self.past, self.phase))

    def all_from(self) -> Iterator[Stage]:
        """Yield the stage and all that may follow, except the ends of runs."""
        if not self.ended:
            yield self
            for kept in combinations(self.active, self.phase.keep):
                yield from self.then(kept).all_from()

    @property
    def ended(self) -> bool:
        """Whether the run is over: one arm is left after a phase."""
        return len(self.active) == 1 and bool(self.past)

    @property
    def remembered(self) -> tuple[Phase, ...]:
        """The phases before whose releases are decoded: none if the policy does not remember."""
        return self.past if remembers(self.policy) else ()

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[Phase, ...]]:
        """What stages with the same plan have in common."""
        return self.active, self.remembered

    @property
    def transcript(self) -> Transcript:
        """What has survived so far."""
        return (*(phase.active for phase in self.past), self.active)[1:]

    @cached_property
    def spent(self) -> int:
        """Pulls so far."""
        return sum(phase.cost for phase in self.past)

    @cached_property
    def phase(self) -> Phase:
        """The plan that comes next, if it is one that an engine may execute."""
        known = [self.past] if remembers(self.policy) else []
        return self.fitting(self.policy.phase(len(self.past) + 1, self.active, *known))

    def fitting(self, phase: Phase) -> Phase:
        """Return a plan of the policy, made now or saved before, if an engine may execute it.

        `Phase` has checked the plan by itself; a policy may still plan another phase, overspend, or
        never end.
        """
        policy, index, active = self.policy, len(self.past) + 1, self.active
        if type(phase) is not Phase:
            raise TypeError(
                f"policy must plan a Phase, got {type(phase).__name__} for phase {index}"
            )
        phase = declared(phase)
        if (phase.index, phase.active) != (index, active):
            raise ValueError(
                f"policy must plan phase {index} for active {_check.quoted(active)} when asked to, "
                f"and planned phase {phase.index} for active {_check.quoted(phase.active)}"
            )
        arms = arms_of(policy)
        if max(phase.pulled, default=0) >= arms:
            raise ValueError(
                f"policy must pull arms of 0..{arms - 1}, and phase {index} pulls "
                f"{_check.quoted(phase.pulled)}"
            )
        released = sum(before.coordinates for before in self.remembered)
        if phase.remembered != released:
            raise ValueError(
                f"policy must plan phase {index} for the {released} coordinates that are "
                f"remembered, and planned it for {phase.remembered}"
            )
        most = policy.budget
        if self.spent + phase.cost > most:
            most = getattr(policy, "most_pulls", most)
        if self.spent + phase.cost > most:
            raise ValueError(
                f"policy must never pull more than its budget, {most}, and phase {index} takes "
                f"{phase.cost} pulls after {self.spent} in the phases before"
            )
        if phase.keep == len(active) and (not phase.cost or index > most + arms):
            raise ValueError(f"policy must end, and phase {index} leaves all {len(active)} arms")
        return phase

    @property
    def reads(self) -> tuple[Reads, ...]:
        """Which rewards each phase reads, from the first to the next: the next of each arm."""
        so_far: Counter[int] = Counter()
        found = []
        for phase in (*self.past, self.phase):
            rows = dict(zip(phase.pulled, phase.pulls, strict=True))
            found.append(tuple((arm, so_far[arm], so_far[arm] + n) for arm, n in rows.items()))
            so_far.update(rows)
        return tuple(found)


def untouched(policy: Policy) -> bool:
    """Return whether a policy is an object of a class of this library, not modified.

    It is no subclass, and has no attributes but its parameters and what it has computed from them.
    """
    kind = type(policy)
    module = sys.modules.get(kind.__module__)
    if not kind.__module__.startswith("dpbai.") or getattr(module, kind.__name__, None) is not kind:
        return False
    computed = {name for name in dir(kind) if isinstance(getattr(kind, name), cached_property)}
    return vars(policy).keys() <= computed | set(getattr(kind, "__dataclass_fields__", ()))


def representatives(policy: Policy) -> Callable[[int], tuple[Phase, ...]] | None:
    """Return what gives, for a phase, plans that release all that it may; None of most policies."""
    return getattr(policy, "representatives", None) if untouched(policy) else None


def covering(policy: Policy, limit: int) -> tuple[list[list[Phase]], bool]:
    """Return plans of each phase whose releases are all that there may be, and whether they are.

    As `reachable`, unless the policy lists its releases itself.
    """
    listed = representatives(policy)
    if listed is None:
        return reachable(policy, limit)
    plans, _ = reachable(policy, 1)
    return [[*some, *listed(p)] for p, some in enumerate(plans, start=1)], True


def reachable(policy: Policy, limit: int) -> tuple[list[list[Phase]], bool]:
    """Return the plans of each phase, over all active sets that may survive, and whether all.

    When a phase has more than `limit` active sets, some of them are drawn at random. A policy of a
    foreign class must make each plan again in the end, in reverse order.
    """
    rng = np.random.default_rng(0)
    stages, plans, complete = [Stage.first(policy)], [], True
    visited: list[Stage] = []
    while stages := _distinct(stages):
        visited += stages
        plans.append([stage.phase for stage in stages])
        if sum(comb(len(phase.active), phase.keep) for phase in plans[-1]) <= limit:
            ways = [(at, combinations(at.active, at.phase.keep)) for at in stages]
            stages = [at.then(kept) for at, sets in ways for kept in sets]
        else:
            complete = False
            drawn = [stages[number] for number in rng.integers(len(stages), size=limit)]
            kept = [rng.choice(stage.active, stage.phase.keep, replace=False) for stage in drawn]
            stages = [at.then(tuple(sorted(k.tolist()))) for at, k in zip(drawn, kept, strict=True)]
    if not untouched(policy):
        for stage in reversed(visited):
            _check_pure(stage)
    return plans, complete


def _distinct(stages: list[Stage]) -> list[Stage]:
    """Return, of stages with the same plan, the one with the most pulls; no ends of runs."""
    chosen: dict[object, Stage] = {}
    for stage in stages:
        if not stage.ended:
            other = chosen.get(stage.key, stage)
            chosen[stage.key] = max(other, stage, key=lambda stage: stage.spent)
    return sorted(chosen.values(), key=lambda stage: stage.active)


def _check_pure(stage: Stage) -> None:
    """Raise ValueError if a policy plans the phase differently the second time."""
    phase, again = stage.phase, replace(stage).phase
    for name in ("pulled", "pulls", "keep", "release_matrix", "decoder_matrix", "losses", "delta"):
        if not np.array_equal(getattr(phase, name), getattr(again, name)):
            raise ValueError(
                f"policy must plan the same phase each time, and {name} of phase {phase.index} for "
                f"active {_check.quoted(phase.active)} changed"
            )
