"""The policies and the laws of rewards that the command line offers, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import dpbai

if TYPE_CHECKING:
    import argparse

    from dpbai._check import FloatArray
    from dpbai.rewards import RewardLaw

# Title, and name in `dpbai`, where the class is looked up only when it is used.
POLICIES = {
    "dp-design": ("DP-Design", "DPDesign"),
    "dp-bai": ("DP-BAI", "DPBAI"),
    "dp-bai-gauss": ("DP-BAI-Gauss", "DPBAIGauss"),
    "baseline": ("Baseline", "Baseline"),
    "dp-od": ("DP-OD", "DPOD"),
    "od-linbai": ("OD-LinBAI", "ODLinBAI"),
}
NOISE = {"opendp": "OpenDPNoise", "numpy": "NumpyNoise"}
DEFAULT = "dp-design"
NOT_PRIVATE = "od-linbai"
WITH_DELTA = "dp-bai-gauss"


class Law(NamedTuple):
    """A law of rewards in [0, 1], and the means that it can have."""

    name: str
    lowest: float
    highest: float

    def make(self, mean: float) -> RewardLaw:
        """Return the law with this mean."""
        law: RewardLaw = getattr(dpbai, self.name)(mean)
        return law


REWARDS = {
    "bernoulli": Law("Bernoulli", 0.0, 1.0),
    "uniform": Law("Uniform", 0.0, 0.5),
    "beta": Law("Beta", 0.001, 0.999),
}


def maker(name: str, delta: float | None) -> Callable[..., dpbai.Policy]:
    """Return the maker of a policy, which takes features, `budget` and, if private, `epsilon`."""
    make: Callable[..., dpbai.Policy] = getattr(dpbai, POLICIES[name][1])
    if name == "dp-od":
        return partial(make, norm="l1")  # the norm that keeps what epsilon promises
    if name != WITH_DELTA:
        return make
    if delta is None:
        raise ValueError(f"--delta is needed for {WITH_DELTA}")
    return partial(make, delta=delta)


def policy(given: argparse.Namespace, features: FloatArray) -> dpbai.Policy:
    """Return the policy that the options ask for; ValueError if one is missing or too much."""
    if given.delta is not None and given.policy != WITH_DELTA:
        raise ValueError(f"--delta is for {WITH_DELTA} only")
    make = maker(given.policy, given.delta)
    if given.policy == NOT_PRIVATE:
        if given.epsilon is not None:
            raise ValueError(f"--epsilon is not for {NOT_PRIVATE}, which is not private")
        return make(features, budget=given.budget)
    if given.epsilon is None:
        raise ValueError(f"--epsilon is needed for {given.policy}")
    return make(features, budget=given.budget, epsilon=given.epsilon)
