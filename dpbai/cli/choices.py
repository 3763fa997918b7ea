"""The policies and the laws of rewards that the command line offers, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpbai._check import FloatArray
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, ODLinBAI, Policy
from dpbai.rewards import Bernoulli, Beta, RewardLaw, Uniform

# DP-OD with the norm that keeps what epsilon promises.
POLICIES: dict[str, tuple[str, Callable[..., Policy]]] = {
    "dp-bai": ("DP-BAI", DPBAI),
    "dp-bai-gauss": ("DP-BAI-Gauss", DPBAIGauss),
    "baseline": ("Baseline", Baseline),
    "dp-od": ("DP-OD", partial(DPOD, norm="l1")),
    "od-linbai": ("OD-LinBAI", ODLinBAI),
}
NOT_PRIVATE = "od-linbai"
WITH_DELTA = "dp-bai-gauss"


@dataclass(frozen=True)
class Law:
    """A law of rewards in [0, 1], and the means that it can have."""

    make: Callable[[float], RewardLaw]
    lowest: float
    highest: float


REWARDS = {
    "bernoulli": Law(Bernoulli, 0.0, 1.0),
    "uniform": Law(Uniform, 0.0, 0.5),
    "beta": Law(Beta, 0.001, 0.999),
}


def maker(name: str, delta: float | None) -> Callable[..., Policy]:
    """Return the maker of a policy, which takes features, `budget` and, if private, `epsilon`."""
    make: Callable[..., Policy] = POLICIES[name][1]
    if name != WITH_DELTA:
        return make
    if delta is None:
        raise ValueError(f"--delta is needed for {WITH_DELTA}")
    return partial(make, delta=delta)


def policy(
    name: str, features: FloatArray, *, budget: int, epsilon: float | None, delta: float | None
) -> Policy:
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
