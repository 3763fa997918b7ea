"""The plans that a run can come to."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Protocol, TypeGuard

import numpy as np

from dpbai import _check
from dpbai.phase import Phase, Policy, arms_of, planned, remembers

Transcript = tuple[tuple[int, ...], ...]
"""The arms that survive phase 1, phase 2, and so on to the one recommended."""

Reads = tuple[tuple[int, int, int], ...]
"""An arm, and the first and last (excluded) index of its rewards that a phase reads, by arm."""


class Representable(Policy, Protocol):
    """A policy that lists, for each phase, plans that release all that the phase may release."""

    def representatives(self, index: int) -> tuple[Phase, ...]:
        """Return these plans of phase `index`."""


@dataclass(frozen=True, eq=False)
class Stage:
    """What a run may come to: the arms in play, and the stages before that led there."""

    policy: Policy
    active: tuple[int, ...]
    before: tuple[Stage, ...] = ()

    @classmethod
    def first(cls, policy: Policy) -> Stage:
        """Return the stage at which a run begins."""
        return cls(policy, tuple(range(arms_of(policy))))

    def then(self, kept: tuple[int, ...]) -> Stage:
        """Return the stage that follows if these arms survive."""
        return replace(self, active=kept, before=(*self.before, self))

    def all_from(self) -> Iterator[Stage]:
        """Yield the stage and all that may follow, but for the ends of runs."""
        if len(self.active) > 1:
            yield self
            for kept in combinations(self.active, self.phase.keep):
                yield from self.then(kept).all_from()

    @property
    def transcript(self) -> Transcript:
        """What has survived so far."""
        return tuple(stage.active for stage in (*self.before, self))[1:]

    @property
    def spent(self) -> int:
        """Pulls so far."""
        return sum(stage.phase.cost for stage in self.before)

    @cached_property
    def phase(self) -> Phase:
        """The plan that comes next."""
        past = tuple(stage.phase for stage in self.before)
        index = len(past) + 1
        return planned(self.policy, index, self.active, spent=self.spent, past=past)

    @property
    def reads(self) -> Reads:
        """Which rewards the engine reads for it: the next of each arm."""
        so_far: Counter[int] = Counter()
        for stage in self.before:
            so_far.update(dict(zip(stage.phase.pulled, stage.phase.pulls, strict=True)))
        rows = zip(self.phase.pulled, self.phase.pulls, strict=True)
        return tuple((arm, so_far[arm], so_far[arm] + pulls) for arm, pulls in rows)


def untouched(policy: Policy) -> bool:
    """Return whether a policy is an object of a class of this library, and nothing else.

    It is no subclass, and nothing is set on it but its parameters and what it has computed of them.
    So it plans as its class does.
    """
    kind = type(policy)
    module = sys.modules.get(kind.__module__)
    if not kind.__module__.startswith("dpbai.") or getattr(module, kind.__name__, None) is not kind:
        return False
    computed = {name for name in dir(kind) if isinstance(getattr(kind, name), cached_property)}
    return vars(policy).keys() <= computed | set(getattr(kind, "__dataclass_fields__", ()))


def representable(policy: Policy) -> TypeGuard[Representable]:
    """Return whether a policy lists all its releases itself, and can be believed.

    A class of someone else's is not: all its plans must be looked at.
    """
    return hasattr(type(policy), "representatives") and untouched(policy)


def reachable(policy: Policy, limit: int) -> tuple[list[list[Phase]], bool]:
    """Return the plans of each phase, over all active sets that may survive, and whether all.

    When a phase has more than `limit` active sets in all, some of them are drawn at random. A
    policy of someone else's is asked for each plan again in the end, in the reverse order.
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
    """Return stages that are not ends, by their arms, and one of those that plan the same.

    It is the one that has spent most: if it can go on, all of them can.
    """
    dearest: dict[tuple[tuple[int, ...], tuple[Stage, ...]], Stage] = {}
    for stage in stages:
        if len(stage.active) > 1:
            key = stage.active, stage.before if remembers(stage.policy) else ()
            dearest[key] = max(dearest.get(key, stage), stage, key=lambda stage: stage.spent)
    return sorted(dearest.values(), key=lambda stage: stage.active)


def _check_pure(stage: Stage) -> None:
    """Raise ValueError if a policy plans the phase differently when it is asked again."""
    phase, again = stage.phase, replace(stage).phase
    for name in ("pulled", "pulls", "keep", "release_matrix", "decoder_matrix", "losses"):
        if not np.array_equal(getattr(phase, name), getattr(again, name)):
            raise ValueError(
                f"policy must plan the same phase each time, and {name} of phase {phase.index} for "
                f"active {_check.told(phase.active)} changed"
            )
