"""The upper bound on the error of DP-BAI, with every constant of its proof (Theorem 4.2).

The theorem is exp(-T'/(65 M H)) "for all sufficiently large T". Its proof gives a finite form,
(12 M + 4 M_1 lambda) exp(-T'/(64 M H)), which `explicit_upper_bound` evaluates together with the
least T' from which each step holds. `regime` tells which of DP-BAI and DP-BAI-Gauss has the better
bound: the row of the paper's table of exponents up to constants, T/(H log d) against the smaller of
T/(H_BAI log d) and (T/(sqrt(log(1.25/delta)) H_pri log d))^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpbai import _check
from dpbai.hardness import Hardness, hardness
from dpbai.instance import Instance
from dpbai.lemmas import (
    FINITE_CONSTANT,
    Elimination,
    eliminations,
    suboptimal_arm,
    suboptimal_arm_gauss,
)
from dpbai.phase import Phase
from dpbai.policies import DPBAI, DPBAIGauss
from dpbai.scaling import rank
from dpbai.schedule import Schedule, ceil_div, pulls_max_det

THEOREM_CONSTANT = 65
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Step:
    """A step of the proof, and the least T' from which it holds (infinity: from none)."""

    name: str
    valid_from: float


@dataclass(frozen=True)
class ExplicitBound:
    """The upper bound in its finite form.

    Attributes
    ----------
    value : float
        The bound at the policy's T'. It can exceed 1.
    prefactor : float
        12 M + 4 M_1 lambda; for DP-BAI-Gauss 2 M_1 lambda + 6 (M - M_1).
    repaired : float
        The sum over phases of factor * `suboptimal_arm`: what the same proof gives before its last
        rounding, with its gaps closed. It holds for every T', under either convention.
    usable_budget : int
        T'.
    eliminations : tuple of Elimination
        How each phase can drop the best arm.
    steps : tuple of Step
        The steps that ask something of T'.
    theorem : Step or None
        The last step of Theorem 4.2, from 64 with the prefactor to 65 without. None for
        DP-BAI-Gauss, whose proposition leaves its constant open.
    """

    value: float
    prefactor: float
    repaired: float
    usable_budget: int
    eliminations: tuple[Elimination, ...]
    steps: tuple[Step, ...]
    theorem: Step | None

    @property
    def binding(self) -> Step:
        """The step that holds last."""
        return max(self.steps, key=lambda step: step.valid_from)

    @property
    def valid_from(self) -> float:
        """The least T' from which every step holds; infinity if one never does."""
        return self.binding.valid_from


def upper_bound(policy: DPBAI, instance: Instance) -> float:
    """Return the bound of Theorem 4.2 on the error of DP-BAI, exp(-T' / (65 M H)).

    It is proved "for all sufficiently large T" only: see `explicit_upper_bound`, whose arguments it
    takes, but no DP-BAI-Gauss.
    """
    if isinstance(policy, DPBAIGauss):
        raise TypeError("policy must be DPBAI; use gauss_upper_bound for DPBAIGauss")
    hard = _checked_hardness(policy, instance)
    schedule = policy.schedule
    return math.exp(-schedule.usable_budget / (THEOREM_CONSTANT * schedule.M * hard.total))


def explicit_upper_bound(policy: DPBAI, instance: Instance) -> ExplicitBound:
    """Return the finite form of Theorem 4.2, and from which T' each step of its proof holds.

    Parameters
    ----------
    policy : DPBAI
        DP-BAI, or DP-BAI-Gauss for the finite form of its proposition (see `gauss_upper_bound`).
    instance : Instance
        With the policy's features, linear means and rewards in [0, 1].

    Raises
    ------
    TypeError
        If `policy` is neither, or a subclass, whose noise or pulls may be other ones.
    ValueError
        If policy and instance do not match, the rewards leave [0, 1], or d = 1 (see `hardness`).

    Notes
    -----
    For the active sets of later phases, which the budget and the rewards decide, steps are taken at
    their worst: any rank, and coordinates of -1 and 1.
    """
    hard = _checked_hardness(policy, instance)
    schedule = policy.schedule
    phases = eliminations(schedule, rank=rank(policy.features))
    first = policy.phase(1, range(instance.arms))
    sigma, arm = None, partial(suboptimal_arm, epsilon=policy.epsilon)
    if isinstance(policy, DPBAIGauss):
        sigma, arm = policy.sigma, partial(suboptimal_arm_gauss, sigma=policy.sigma)
    # For DP-BAI the terms of rewards and of noise are bounded alike: it has each phase twice.
    second = schedule.M if sigma is None else schedule.M - schedule.M1
    allowed = 2 * schedule.M1 * schedule.lam + 6 * second
    prefactor = 2 * allowed if sigma is None else allowed
    budget = schedule.usable_budget
    steps = []
    for phase in phases:  # 16 min(d_Q^2, s_p) <= 64 i, so that it decays as exp(-T'/(64 M H))
        least = 1 if phase.constant <= FINITE_CONSTANT else math.inf
        steps.append(Step(f"exponent of phase {phase.phase}, {phase.reason}", least))
    least = 1 if sum(2 * phase.factor for phase in phases) <= allowed else math.inf
    steps.append(Step("prefactor", least))
    for phase in phases:
        plans = _plans(phase, first, instance, hard.gap(phase.index), rank(policy.features))
        # It needs x = T'/(M d_Q^2) > 1, in phases that pull a Max-Det set.
        least = max((_reaches(schedule, m**2, 2) for m, _ in plans if m < phase.size), default=1)
        steps.append(Step(f"ceil(x - 1) >= ceil(x)/2 in phase {phase.phase}", least))
        if sigma is None:
            least = max(_reaches(schedule, m, 8 / hard.epsilon * spread) for m, spread in plans)
            steps.append(Step(f"linear branch of the noise's tail in phase {phase.phase}", least))
    # From there on exp(-T'/(64 M H)) with the prefactor is below exp(-T'/(65 M H)).
    product = FINITE_CONSTANT * THEOREM_CONSTANT / (THEOREM_CONSTANT - FINITE_CONSTANT)
    least = math.ceil(product * schedule.M * hard.total * math.log(prefactor))
    theorem = Step("65 for 64 absorbs the prefactor", least) if sigma is None else None
    return ExplicitBound(
        value=prefactor * _decay(schedule, hard, sigma),
        prefactor=prefactor,
        repaired=sum(
            phase.factor
            * arm(hard.gap(phase.index), count=ceil_div(budget, schedule.M * phase.divisor))
            for phase in phases
        ),
        usable_budget=budget,
        eliminations=phases,
        steps=tuple(steps),
        theorem=theorem,
    )


def gauss_upper_bound(policy: DPBAIGauss, instance: Instance) -> float:
    """Return the bound of the proposition on the error of DP-BAI-Gauss, with its constants.

    (2 M_1 lambda + 6 (M - M_1)) (exp(-T'/(64 M H_BAI)) + exp(-(T'/(64 M H_pri sqrt L))^2)),
    L = log(1.25/delta), the last lines of the proof before its Omega. Under the analytic
    calibration L is (epsilon sigma)^2 / 2, which is log(1.25/delta) under the classic one.
    Arguments are those of `explicit_upper_bound`, but no DP-BAI.
    """
    _check.kind(policy, "policy", DPBAIGauss)
    return explicit_upper_bound(policy, instance).value


def _checked_hardness(policy: DPBAI, instance: Instance) -> Hardness:
    if type(policy) not in (DPBAI, DPBAIGauss):  # a subclass may add noise that the proof ignores
        raise TypeError(
            f"policy must be DPBAI or DPBAIGauss itself, which the paper's bounds are about, "
            f"got {type(policy).__name__}"
        )
    _check.kind(instance, "instance", Instance)
    if not np.array_equal(policy.features, instance.features):
        raise ValueError("policy and instance must have the same features")
    if instance.theta is None:
        raise ValueError("instance must have linear means: give it a theta")
    if instance.reward_bound > 1:
        raise ValueError(
            f"instance must have rewards in [0, 1] for these bounds, "
            f"but they reach {instance.reward_bound:.6g}"
        )
    return hardness(instance, epsilon=policy.epsilon)


def _decay(schedule: Schedule, hard: Hardness, sigma: float | None) -> float:
    """Return what multiplies the prefactor of the finite form."""
    scaled = schedule.usable_budget / (FINITE_CONSTANT * schedule.M)
    if sigma is None:
        return math.exp(-scaled / hard.total)
    # H_pri sqrt(L), with L = (epsilon sigma)^2 / 2, is H_pri epsilon times sigma / sqrt(2).
    spread = hard.pri_index / hard.gap(hard.pri_index) * sigma / math.sqrt(2)
    ratio = scaled / spread if spread else math.inf
    return math.exp(-scaled / hard.bai) + math.exp(-ratio * ratio)


def _reaches(schedule: Schedule, pulled: int, pulls: float) -> int:
    """Return the least T' with ceil(T' / (M pulled)) >= pulls, up to rounding in `pulls`."""
    return schedule.M * pulled * max(0, math.ceil(pulls * (1 - _ROUNDING)) - 1) + 1


def _plans(
    phase: Elimination, first: Phase, instance: Instance, gap: float, rank: int
) -> list[tuple[int, float]]:
    """Return how many arms a phase may pull, each with the spread over Delta that its noise meets.

    The noise's tail is on its linear branch, for every arm of the lemma, when epsilon n / 8 reaches
    that. If all active arms are pulled n times, Delta/2 must reach tau^2/b = 4/(epsilon n). Else
    Delta/4 must reach (2/(epsilon n)) (sum alpha^2 / max abs(alpha)), for the coordinates alpha of
    the arm and for those of the best arm.
    """
    known = phase.phase == first.index
    if known and first.decoder_matrix is not None:
        largest = np.abs(first.decoder).max(axis=1)
        spread = (first.decoder**2).sum(axis=1) / np.where(largest > 0, largest, 1)
        arms = instance.gaps >= gap
        worst = max(spread[instance.best] / gap, (spread[arms] / instance.gaps[arms]).max())
        return [(len(first.pulled), float(worst))]
    ranks = (rank,) if known else range(1, min(rank, phase.size) + 1)
    return [(r, r / gap) if pulls_max_det(r, phase.size) else (phase.size, 1 / gap) for r in ranks]


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
