"""Which of DP-BAI and DP-BAI-Gauss has the better bound, and where it changes (Table comparison).

The table compares exponents up to constants: DP-BAI's T/(H log d) with DP-BAI-Gauss's, the smaller
of T/(H_BAI log d) and (T/(sqrt(log(1.25/delta)) H_pri log d))^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbai import _check
from dpbai.theory.hardness import Hardness


@dataclass(frozen=True)
class Regime:
    """A row of the paper's table, at one budget.

    Attributes
    ----------
    row : int
        1 to 3: Gauss with the exponent of the rewards, Gauss with that of the noise, DP-BAI; 4 is
        DP-BAI at delta = 0.
    better : str
        "DP-BAI-Gauss" or "DP-BAI".
    laplace : float
        T / (H log d).
    gauss : float
        The exponent of DP-BAI-Gauss; 0 at delta = 0, where its noise is infinite.
    crossovers : tuple of float
        The T from which rows 2 and 1 hold: L H_pri^2 log d / H and L H_pri^2 log d / H_BAI, with
        L = log(1.25/delta); infinite at delta = 0.
    """

    row: int
    better: str
    laplace: float
    gauss: float
    crossovers: tuple[float, float]


def regime(hard: Hardness, *, dimension: int, budget: int, delta: float) -> Regime:
    """Return the row of the table for a hardness (which holds epsilon), d, T and delta.

    Parameters
    ----------
    hard : Hardness
        H, H_BAI and H_pri at the epsilon in question.
    dimension : int
        d, at least 2.
    budget : int
        T.
    delta : float
        In [0, 1).
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
