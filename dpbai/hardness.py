"""How hard an instance is: H = H_BAI + H_pri, eqs. (14) and (15)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.instance import Instance, check_one_best


@dataclass(frozen=True, eq=False)
class Hardness:
    """The hardness of an instance for a privacy parameter.

    Attributes
    ----------
    bai : float
        H_BAI = max i / Delta_(i)^2 over 2 <= i <= min(d^2, K); infinity if it overflows.
    pri : float
        H_pri = max i / (epsilon Delta_(i)) over the same i; 0 when epsilon is infinite.
    gaps : ndarray of shape (K,)
        Delta_(1) = 0 <= Delta_(2) <= ... <= Delta_(K).
    bai_index, pri_index : int
        The least i, counted from 1 as in the paper, that attains each maximum.
    epsilon : float
        The privacy parameter.
    """

    bai: float
    pri: float
    gaps: FloatArray
    bai_index: int
    pri_index: int
    epsilon: float

    @property
    def total(self) -> float:
        """H = H_BAI + H_pri."""
        return self.bai + self.pri

    def gap(self, index: int) -> float:
        """Return Delta_(index), counted from 1 as in the paper."""
        return float(self.gaps[index - 1])


def hardness(instance: Instance, *, epsilon: float) -> Hardness:
    """Return the hardness of `instance` at `epsilon`.

    Parameters
    ----------
    instance : Instance
        With one best arm, and features of dimension d >= 2: for d = 1 the maxima over 2 <= i <= 1
        are empty, and the paper defines no hardness.
    epsilon : float
        Privacy parameter, positive; infinity leaves H_BAI only.
    """
    epsilon = _check.epsilon(epsilon)
    if _check.kind(instance, "instance", Instance).dimension == 1:
        raise ValueError(
            "instance must have features of dimension 2 or more: "
            "the hardness is a maximum over 2 <= i <= min(d^2, K), a range that is empty for d = 1"
        )
    check_one_best(instance)
    gaps = np.sort(instance.gaps)
    gaps.setflags(write=False)
    indices = np.arange(2, min(instance.dimension**2, instance.arms) + 1)
    eligible = gaps[1 : indices[-1]]
    with np.errstate(over="ignore"):  # an overflow gives infinity
        pri = indices / eligible
        bai = pri / eligible
    return Hardness(
        bai=float(bai.max()),
        pri=0.0 if math.isinf(epsilon) else float(pri.max()) / epsilon,
        gaps=gaps,
        bai_index=int(indices[bai.argmax()]),
        pri_index=int(indices[pri.argmax()]),
        epsilon=epsilon,
    )


@dataclass(frozen=True)
class Regime:
    """A row of the paper's table of exponents, at one budget.

    Attributes
    ----------
    row : int
        1 for DP-BAI-Gauss with the exponent of the rewards, 2 for DP-BAI-Gauss with that of the
        noise, 3 for DP-BAI, 4 for DP-BAI at delta = 0.
    better : str
        "DP-BAI-Gauss" or "DP-BAI".
    laplace : float
        T / (H log d).
    gauss : float
        The exponent of DP-BAI-Gauss; 0 at delta = 0, where its noise is infinite.
    crossovers : tuple of float
        The budgets from which on rows 2 and 1 hold: L H_pri^2 log d / H and L H_pri^2 log d /
        H_BAI, with L = log(1.25/delta); infinite at delta = 0.
    """

    row: int
    better: str
    laplace: float
    gauss: float
    crossovers: tuple[float, float]


def regime(hard: Hardness, *, dimension: int, budget: int, delta: float) -> Regime:
    """Return the row of the table that holds for a hardness, d >= 2, T, and delta in [0, 1).

    Exponents are up to constants: T/(H log d) of DP-BAI, and the smaller of T/(H_BAI log d) and
    (T/(sqrt(log(1.25/delta)) H_pri log d))^2 of DP-BAI-Gauss.
    """
    dimension = _check.whole(dimension, "dimension", least=2)
    budget = _check.whole(budget, "budget")
    _check.kind(hard, "hard", Hardness)
    delta = _check.number(delta, "delta", "[0, 1)")
    scale = math.log(dimension)
    laplace = budget / (hard.total * scale)
    if delta == 0:
        return Regime(4, "DP-BAI", laplace, 0.0, (math.inf, math.inf))
    noise = (math.log(1.25) - math.log(delta)) * hard.pri**2 * scale
    crossovers = noise / hard.total, noise / hard.bai
    if budget >= crossovers[1]:
        return Regime(1, "DP-BAI-Gauss", laplace, budget / (hard.bai * scale), crossovers)
    gauss = budget**2 / (noise * scale)
    if budget >= crossovers[0]:
        return Regime(2, "DP-BAI-Gauss", laplace, gauss, crossovers)
    return Regime(3, "DP-BAI", laplace, gauss, crossovers)
