"""Upper bounds on the error of DP-BAI: Theorem 4.2, and its finite form with all constants.

The theorem is exp(-T'/(65 M H)) "for all sufficiently large T". Its proof gives a finite form,
(12 M + 4 M_1 lambda) exp(-T'/(64 M H)), which `explicit_upper_bound` evaluates together with the
least T' from which each step holds. `dpbai.upper_bound`, in ``beyond``, chooses a bound by the
kind of policy.
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
from dpbai.noise import exp_bound
from dpbai.phase import Phase, Policy
from dpbai.policies import DPBAI, DPBAIGauss
from dpbai.scaling import rank
from dpbai.schedule import Schedule, ceil_div, dp_bai_collections, pulls_max_det

__all__ = [
    "ExplicitBound",
    "Step",
    "explicit_upper_bound",
    "gauss_upper_bound",
    "theorem_bound",
]

THEOREM_CONSTANT = 65
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Step:
    """A step of the proof, and the T' from which on it holds; infinity if it never does."""

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
        The sum over phases of factor * `suboptimal_arm`: the result of the same proof before it is
        simplified, with its gaps closed. It holds for every T', under either convention.
    usable_budget : int
        T'.
    eliminations : tuple of Elimination
        How each phase can eliminate the best arm.
    steps : tuple of Step
        The steps that need T' to be large enough.
    theorem : Step or None
        The last step of Theorem 4.2, which replaces 64 and the prefactor by 65. None for
        DP-BAI-Gauss, whose proposition does not state its constant.
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
        """The step that needs the largest T'."""
        return max(self.steps, key=lambda step: step.valid_from)

    @property
    def valid_from(self) -> float:
        """The T' from which on every step holds; infinity if one never does."""
        return self.binding.valid_from


def theorem_bound(policy: DPBAI, instance: Instance) -> float:
    """Return exp(-T' / (65 M H)), Theorem 4.2, which is proved for sufficiently large T only.

    `explicit_upper_bound` gives bounds for every T. Arguments and exceptions are those of
    `explicit_upper_bound`, except that `policy` must not be `DPBAIGauss`: see `gauss_upper_bound`.
    """
    if isinstance(policy, DPBAIGauss):
        raise TypeError("policy must be DPBAI; use gauss_upper_bound for DPBAIGauss")
    hard, schedule = checked_hardness(policy, instance), policy.schedule
    return exp_bound(-schedule.usable_budget / (THEOREM_CONSTANT * schedule.M * hard.total))


def explicit_upper_bound(policy: DPBAI, instance: Instance) -> ExplicitBound:
    """Return the finite form of Theorem 4.2, and the T' from which on each step of its proof holds.

    The active sets of later phases are random, so the worst case is assumed: any rank, and
    coordinates of -1 and 1.

    Parameters
    ----------
    policy : DPBAI
        DP-BAI, or DP-BAI-Gauss for the finite form of its proposition (see `gauss_upper_bound`).
    instance : Instance
        With the policy's features, linear means and rewards in [0, 1].

    Raises
    ------
    TypeError
        If `policy` is neither, or is a subclass, which may have other noise or pulls.
    ValueError
        If policy and instance do not match, the rewards leave [0, 1], or d = 1 (see `hardness`).
    """
    hard = checked_hardness(policy, instance)
    schedule = policy.schedule
    dimension = rank(policy.features)
    phases = eliminations(schedule, rank=dimension)
    first = policy.phase(1, range(instance.arms))
    sigma, arm = None, partial(suboptimal_arm, epsilon=policy.epsilon)
    if isinstance(policy, DPBAIGauss):
        sigma, arm = policy.sigma, partial(suboptimal_arm_gauss, sigma=policy.sigma)
    # For DP-BAI the terms of rewards and noise have the same bound: each phase counts twice.
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
        plans = _spreads(phase, first, instance, hard.gap(phase.index), dimension)
        # This needs x = T'/(M d_Q^2) > 1, in phases that pull a Max-Det collection.
        least = max(
            (_least_budget(schedule, m**2, 2) for m, _ in plans if m < phase.size), default=1
        )
        steps.append(Step(f"ceil(x - 1) >= ceil(x)/2 in phase {phase.phase}", least))
        if sigma is None:
            least = max(
                _least_budget(schedule, m, 8 / hard.epsilon * spread) for m, spread in plans
            )
            steps.append(Step(f"linear branch of the noise's tail in phase {phase.phase}", least))
    # From this T' on, prefactor exp(-T'/(64 M H)) is below exp(-T'/(65 M H)).
    product = FINITE_CONSTANT * THEOREM_CONSTANT / (THEOREM_CONSTANT - FINITE_CONSTANT)
    least = whole_budget(product * schedule.M * hard.total * math.log(prefactor))
    theorem = Step("65 instead of 64 absorbs the prefactor", least) if sigma is None else None
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

    The bound is (2 M_1 lambda + 6 (M - M_1)) (exp(-T'/(64 M H_BAI)) + exp(-(T'/(64 M H_pri sqrt
    L))^2)) with L = log(1.25/delta), from the end of the proof, before its Omega. In general, L is
    (epsilon sigma)^2 / 2, which is log(1.25/delta) under the classic calibration. Arguments are
    those of `explicit_upper_bound`, except that `policy` must be `DPBAIGauss`.
    """
    _check.kind(policy, "policy", DPBAIGauss)
    return explicit_upper_bound(policy, instance).value


def check_match(policy: Policy, instance: Instance, *, linear: bool = False) -> None:
    """Raise an error unless the features agree, rewards lie in [0, 1], and means are linear."""
    _check.kind(policy, "policy", Policy)
    _check.kind(instance, "instance", Instance)
    if not np.array_equal(policy.features, instance.features):
        raise ValueError("policy and instance must have the same features")
    if instance.reward_bound > 1:
        raise ValueError(
            f"instance must have rewards in [0, 1] for these bounds, "
            f"but they reach {instance.reward_bound:.6g}"
        )
    if linear and instance.theta is None:
        raise ValueError("instance must have linear means: create it with a theta")


def checked_hardness(policy: DPBAI, instance: Instance) -> Hardness:
    """Return the hardness of an instance, if the paper bounds the error of the policy on it."""
    if type(policy) not in (DPBAI, DPBAIGauss):  # a subclass may have other noise
        raise TypeError(
            "policy must be DPBAI or DPBAIGauss and not a subclass, for the paper's bounds, got "
            f"{type(policy).__name__}; for other policies, use `dpbai.beyond.path_bound`"
        )
    check_match(policy, instance, linear=True)
    return hardness(instance, epsilon=policy.epsilon)


def _decay(schedule: Schedule, hard: Hardness, sigma: float | None) -> float:
    """Return the exponential terms of the finite form, without the prefactor."""
    scaled = schedule.usable_budget / (FINITE_CONSTANT * schedule.M)
    if sigma is None:
        return exp_bound(-scaled / hard.total)
    # H_pri sqrt(L), with L = (epsilon sigma)^2 / 2, is H_pri epsilon times sigma / sqrt(2).
    spread = hard.pri_index / hard.gap(hard.pri_index) * sigma / math.sqrt(2)
    ratio = scaled / spread if spread else math.inf
    return exp_bound(-scaled / hard.bai) + exp_bound(-ratio * ratio)


def _least_budget(schedule: Schedule, pulled: int, pulls: float) -> float:
    """Return the least T' with ceil(T' / (M pulled)) >= pulls, up to rounding in `pulls`."""
    return schedule.M * pulled * max(0, whole_budget(pulls * (1 - _ROUNDING)) - 1) + 1


def whole_budget(budget: float) -> float:
    """Round up to an integer; infinity, which comes from gaps near 0, is returned unchanged."""
    return math.ceil(budget) if math.isfinite(budget) else budget


def _spreads(
    phase: Elimination, first: Phase, instance: Instance, gap: float, rank: int
) -> list[tuple[int, float]]:
    """Return how many arms a phase may pull, and for each number the spread over Delta.

    For every arm of the lemma, the noise's tail is on its linear branch if epsilon n / 8 is at
    least the spread over Delta. If all active arms are pulled n times, this means Delta/2 >=
    tau^2/b = 4/(epsilon n). Otherwise it means Delta/4 >= (2/(epsilon n)) (sum alpha^2 / max
    abs(alpha)), for the coordinates alpha of the arm and for those of the best arm.
    """
    if phase.phase == first.index and first.decoder_matrix is not None:
        largest = np.abs(first.decoder).max(axis=1)
        spread = (first.decoder**2).sum(axis=1) / np.where(largest > 0, largest, 1)
        arms = instance.gaps >= gap
        worst = max(spread[instance.best] / gap, (spread[arms] / instance.gaps[arms]).max())
        return [(len(first.pulled), float(worst))]
    return [(m, (m if m < phase.size else 1) / gap) for m in collections_of(phase, rank)]


def collections_of(phase: Elimination, rank: int) -> set[int]:
    """Return the numbers of arms that a phase may pull, for any survivors of this rank."""
    if phase.phase > 1:
        return dp_bai_collections(phase.size, rank)
    return {rank if pulls_max_det(rank, phase.size) else phase.size}
