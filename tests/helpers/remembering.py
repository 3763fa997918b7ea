"""Tiny policies that remember, their plain loop, and a path through the plans of any such one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

import dpbai
from dpbai.phase import Phase


@dataclass(frozen=True, eq=False)
class Remembering:
    """Estimates that are averages over all phases: each pulls the active arms, and drops one.

    The arm that the path dropped last decides how often the others are pulled, so that plans depend
    on the path. A mean over n rewards is released with Lap(1 / (n epsilon)), and weighs n.
    """

    features: np.ndarray
    _: KW_ONLY
    budget: int
    epsilon: float
    remembers = True

    def phase(self, index: int, active: Sequence[int], past: tuple[Phase, ...] = ()) -> Phase:
        active = tuple(active)
        dropped = set(past[-1].active) - set(active) if past else {0}
        pulls = 2 + min(dropped) % 2
        columns = [(arm, p.pulls[0]) for p in past for arm in p.pulled]
        columns += [(arm, pulls) for arm in active]
        weights = np.array([[n * (arm == row) for arm, n in columns] for row in active], float)
        noise = (
            dpbai.NoNoise() if math.isinf(self.epsilon) else dpbai.Laplace(1 / pulls / self.epsilon)
        )
        return Phase(
            index=index,
            active=active,
            pulled=active,
            pulls=(pulls,) * len(active),
            noise=noise,
            keep=len(active) - 1,
            decoder_matrix=weights / weights.sum(axis=1, keepdims=True),
            remembered=sum(p.coordinates for p in past),
        )


def plain_loop(epsilon: float, draw, rng: np.random.Generator, arms: int) -> list[tuple[int, ...]]:
    """Run the same policy reward by reward: the survivors of each phase."""
    active, dropped, total, count = list(range(arms)), 0, [0.0] * arms, [0] * arms
    transcript = []
    while len(active) > 1:
        pulls = 2 + dropped % 2
        for arm in active:
            total[arm] += sum(draw(arm) for _ in range(pulls))
            total[arm] += 0 if math.isinf(epsilon) else rng.laplace(scale=1 / epsilon)
            count[arm] += pulls
        dropped = min(active, key=lambda arm: (total[arm] / count[arm], rng.random()))
        active.remove(dropped)
        transcript.append(tuple(active))
    return transcript


@dataclass(frozen=True, eq=False)
class TwoCoordinates:
    """Three arms on a line, two phases of one released mean each, so that the law is an integral.

    The first phase pulls arm 0 and keeps two arms, by its sign alone; the second pulls one of these
    and decodes both means with rows that are not parallel.
    """

    features: np.ndarray
    _: KW_ONLY
    budget: int
    epsilon: float
    gaussian: bool = False
    remembers = True

    @property
    def delta(self) -> float:
        return 1e-2 if self.gaussian else 0.0

    def noise(self, pulls: int) -> dpbai.noise.Noise:
        if math.isinf(self.epsilon):
            return dpbai.NoNoise()
        if self.gaussian:
            return dpbai.Gaussian(1 / pulls / self.epsilon)
        return dpbai.Laplace(1 / pulls / self.epsilon)

    def phase(self, index: int, active: Sequence[int], past: tuple[Phase, ...] = ()) -> Phase:
        active = tuple(active)
        if not past:
            rows = np.array([[1.0], [0.2], [-0.5]])
            one = np.array([[1.0]])
            return Phase(index, active, (0,), (2,), self.noise(2), 2, one, rows, delta=self.delta)
        arm, pulls = active[-1], 1 + active[0]
        rows = np.array([[1.0, -0.4], [0.3, 0.9]])
        return Phase(
            index,
            active,
            (arm,),
            (pulls,),
            self.noise(pulls),
            1,
            np.array([[1.0]]),
            rows,
            remembered=1,
            delta=self.delta,
        )


def walk(policy: dpbai.DPDesign, seed: int = 0) -> Iterator[Phase]:
    """Yield the phases on a path whose survivors are drawn at random."""
    rng = np.random.default_rng(seed)
    active, past = tuple(range(len(policy.features))), ()
    while len(active) > 1:
        past += (policy.phase(len(past) + 1, active, past),)
        yield past[-1]
        active = tuple(sorted(rng.choice(active, past[-1].keep, replace=False).tolist()))
