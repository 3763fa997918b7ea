"""The policies and the laws of rewards that the command line offers, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import dpbai

if TYPE_CHECKING:
    from dpbai._check import FloatArray
    from dpbai.rewards import RewardLaw

# Title, and name in `dpbai`, where the class is looked up only when it is used.
POLICIES = {
    "dp-design": ("DPDesign", "DPDesign"),
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


def policy(
    name: str, features: FloatArray, *, budget: int, epsilon: float | None, delta: float | None
) -> dpbai.Policy:
    """Return the policy that the options ask for.

    Raises
    ------
    ValueError
        If an option is missing, too much or out of range.
    """
    parameters: dict[str, Any] = {"budget": budget}
    if name == NOT_PRIVATE:
        if epsilon is not None:
            raise ValueError(f"--epsilon is not for {NOT_PRIVATE}, which is not private")
    elif epsilon is None:
        raise ValueError(f"--epsilon is needed for {name}")
    else:
        parameters["epsilon"] = epsilon
    if delta is not None and name != WITH_DELTA:
        raise ValueError(f"--delta is for {WITH_DELTA} only")
    return maker(name, delta)(features, **parameters)
