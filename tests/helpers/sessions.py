"""Policies with ten arms and with three, and sessions with all the rewards that they request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dpbai

ARMS = 10
FEATURES = np.random.default_rng(7).normal(size=(ARMS, 3)).round(2)
DP_BAI = dpbai.DPBAI(FEATURES, budget=150, epsilon=0.5)
POLICIES = {
    "DPBAI": DP_BAI,
    "DPBAI without noise": dpbai.DPBAI(FEATURES, budget=150, epsilon=math.inf),
    "DPBAIGauss": dpbai.DPBAIGauss(FEATURES, budget=150, epsilon=0.5, delta=1e-5),
    "Baseline": dpbai.Baseline(FEATURES, budget=150, epsilon=0.5),
    "ODLinBAI": dpbai.ODLinBAI(FEATURES, budget=150),
    "DPDesign": dpbai.DPDesign(FEATURES, budget=150, epsilon=0.5, phases=3),
    "DPOD": dpbai.DPOD(FEATURES, budget=150, epsilon=0.5, norm="l1"),
}
THREE_ARMS = dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0)


def begun(
    path: Any = None, policy: dpbai.Policy = THREE_ARMS, seed: int | None = 1, **options: Any
) -> dpbai.Session:
    """Begin a session with NumPy's noise."""
    return dpbai.Session(policy, noise=dpbai.NumpyNoise(seed), path=path, **options)


def full(session: dpbai.Session, rewards: float | np.random.Generator = 0.25) -> dict[Any, Any]:
    """Return all rewards that a session requests, constant or drawn."""
    drawn = isinstance(rewards, np.random.Generator)
    return {
        arm: rewards.random(pulls) if drawn else [rewards] * pulls
        for arm, pulls in session.requests.items()
    }


def finished(session: dpbai.Session, rewards: float | np.random.Generator = 0.25) -> dpbai.Session:
    """Give a session rewards until it is finished."""
    while session.requests:
        session.record(full(session, rewards))
    return session


@dataclass(frozen=True)
class Deaf:
    """A source of noise that replaces the statistic: the release is always the same."""

    name: str = "deaf"
    remarks: tuple[str, ...] = ()

    def add(self, _noise: Any, statistic: Sequence[float], *, phase: int) -> tuple[float, ...]:
        """Return as many numbers as the statistic has."""
        return tuple(float(phase + i) for i in range(len(statistic)))

    def loss(self, noise: dpbai.Laplace, shift: Sequence[float], delta: float) -> float:
        """Return the loss by the law of the noise."""
        return noise.loss(shift, delta)
