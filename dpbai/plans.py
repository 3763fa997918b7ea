"""The plans that a run can have: the tree of phases, which all engines traverse."""

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
"""The arms that survive phase 1, phase 2, and so on; the last set is the recommended arm."""

Reads = tuple[tuple[int, int, int], ...]
"""For each pulled arm: the arm, and the first and last (excluded) index of the rewards read."""


def arms_of(policy: Policy) -> int:
    """Return K, the number of arms of a policy; TypeError if it is not a `Policy`."""
    features = _check.kind(policy, "policy", Policy).features
    if np.ndim(features) != 2 or not len(features):
        raise ValueError("policy must have features of shape (K, d)")
    return len(features)


@dataclass(frozen=True, eq=False)
class Stage:
    """The state of a run: the active arms, and the phases executed so far, oldest first.

    Every engine traverses the tree of phases by `first`, `phase` and `then`.
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
            raise ValueError(
                f"policy and instance must have the same number of arms, got {arms} and {others}"
            )
        return cls.first(policy)

    def then(self, kept: tuple[int, ...]) -> Stage:
        """Return the stage that follows if these arms survive."""
        return Stage(self.policy, kept, (*self.past, self.phase))

    def all_from(self) -> Iterator[Stage]:
        """Yield this stage and all that may follow, except ends of runs."""
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
        """The earlier phases whose releases are decoded: none unless the policy remembers."""
        return self.past if remembers(self.policy) else ()

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[Phase, ...]]:
        """A key that stages with the same plan share."""
        return self.active, self.remembered

    @property
    def transcript(self) -> Transcript:
        """The arms that have survived each phase so far."""
        return (*(phase.active for phase in self.past), self.active)[1:]

    @cached_property
    def spent(self) -> int:
        """Pulls so far."""
        return sum(phase.cost for phase in self.past)

    @cached_property
    def phase(self) -> Phase:
        """The next plan, checked."""
        past = [self.past] if remembers(self.policy) else []
        return self.checked(self.policy.phase(len(self.past) + 1, self.active, *past))

    def checked(self, phase: Phase) -> Phase:
        """Return a copy of the policy's plan, new or saved, if an engine may execute it.

        `Phase` has checked the plan on its own. It could still be the plan of another phase, exceed
        the budget, or prevent the run from ending.
        """
        policy, index, active = self.policy, len(self.past) + 1, self.active
        if type(phase) is not Phase:
            raise TypeError(f"policy must plan a Phase, got {type(phase).__name__}")
        phase = declared(phase)
        if (phase.index, phase.active) != (index, active):
            raise ValueError(
                f"policy must plan phase {index} for active {_check.quoted(active)}, got a plan of "
                f"phase {phase.index} for active {_check.quoted(phase.active)}"
            )
        arms = arms_of(policy)
        if max(phase.pulled, default=0) >= arms:
            raise ValueError(
                f"policy must pull arms in 0..{arms - 1}, but phase {index} pulls "
                f"{_check.quoted(phase.pulled)}"
            )
        released = sum(before.coordinates for before in self.remembered)
        if phase.remembered != released:
            raise ValueError(
                f"policy must plan phase {index} with remembered={released}, the number of "
                f"coordinates released before, got {phase.remembered}"
            )
        most = policy.budget
        if self.spent + phase.cost > most:
            most = getattr(policy, "most_pulls", most)
        if self.spent + phase.cost > most:
            raise ValueError(
                f"policy must not pull more than its budget, {most}, but phase {index} takes "
                f"{phase.cost} pulls after {self.spent} in earlier phases"
            )
        if phase.keep == len(active) and (not phase.cost or index > most + arms):
            raise ValueError(f"policy must end, but phase {index} keeps all {len(active)} arms")
        return phase

    @property
    def reads(self) -> tuple[Reads, ...]:
        """The rewards that each phase reads, up to the next one: the next unread ones of an arm."""
        read: Counter[int] = Counter()
        found = []
        for phase in (*self.past, self.phase):
            pulls = dict(zip(phase.pulled, phase.pulls, strict=True))
            found.append(tuple((arm, read[arm], read[arm] + n) for arm, n in pulls.items()))
            read.update(pulls)
        return tuple(found)


def _unmodified(policy: Policy) -> bool:
    """Return whether a policy is an unmodified instance of a class of this library.

    It is not of a subclass, and has no attributes except its parameters and cached properties.
    """
    kind = type(policy)
    module = sys.modules.get(kind.__module__)
    if not kind.__module__.startswith("dpbai.") or getattr(module, kind.__name__, None) is not kind:
        return False
    computed = {name for name in dir(kind) if isinstance(getattr(kind, name), cached_property)}
    return vars(policy).keys() <= computed | set(getattr(kind, "__dataclass_fields__", ()))


def representatives(policy: Policy) -> Callable[[int], tuple[Phase, ...]] | None:
    """Return a policy's method that lists plans with all privacy losses of a phase, or None."""
    return getattr(policy, "representatives", None) if _unmodified(policy) else None


def covering(policy: Policy, limit: int) -> tuple[list[list[Phase]], bool]:
    """Return plans of each phase with all privacy losses it may have, and whether these are all.

    As `reachable`, unless the policy lists such plans itself.
    """
    listed = representatives(policy)
    if listed is None:
        return reachable(policy, limit)
    plans, _ = reachable(policy, 1)
    return [[*some, *listed(p)] for p, some in enumerate(plans, start=1)], True


def reachable(policy: Policy, limit: int) -> tuple[list[list[Phase]], bool]:
    """Return the plans of each phase for all active sets that may survive, and whether all are.

    If a phase has more than `limit` active sets, this number of them is drawn at random. The plans
    of a user's policy are computed a second time, in reverse order, and must be the same.
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
    if not _unmodified(policy):
        for stage in reversed(visited):
            _check_pure(stage)
    return plans, complete


def _distinct(stages: list[Stage]) -> list[Stage]:
    """Keep one of several stages with the same plan, the one with the most pulls so far.

    Ends of runs are removed.
    """
    chosen: dict[object, Stage] = {}
    for stage in stages:
        if not stage.ended:
            other = chosen.get(stage.key, stage)
            chosen[stage.key] = max(other, stage, key=lambda stage: stage.spent)
    return sorted(chosen.values(), key=lambda stage: stage.active)


def _check_pure(stage: Stage) -> None:
    """Raise ValueError if a policy does not plan the same phase a second time."""
    phase, again = stage.phase, replace(stage).phase
    for name in ("pulled", "pulls", "keep", "release_matrix", "decoder_matrix", "losses", "delta"):
        if not np.array_equal(getattr(phase, name), getattr(again, name)):
            raise ValueError(
                f"policy must plan the same phase each time, but {name} of phase {phase.index} for "
                f"active {_check.quoted(phase.active)} changed"
            )
