"""Upper bounds on the error: Theorem 4.2 with every constant of its proof, and some of our own.

The theorem is exp(-T'/(65 M H)) "for all sufficiently large T". Its proof gives a finite form,
(12 M + 4 M_1 lambda) exp(-T'/(64 M H)), which `explicit_upper_bound` evaluates together with the
least T' from which each step holds. Not in the paper: the same with 17 and 16, for both sequences
of sizes; a bound for DP-Halving; and one for any policy whose plans can be listed, `path_bound`.

`regime` tells which of DP-BAI and DP-BAI-Gauss has the better
bound: the row of the paper's table of exponents up to constants, T/(H log d) against the smaller of
T/(H_BAI log d) and (T/(sqrt(log(1.25/delta)) H_pri log d))^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.hardness import Hardness, hardness
from dpbai.instance import Instance
from dpbai.lemmas import (
    FINITE_CONSTANT,
    TOGETHER_CONSTANT,
    Elimination,
    eliminations,
    overtaken,
    suboptimal_arm,
    suboptimal_arm_gauss,
)
from dpbai.noise import Gaussian, Laplace, NoNoise, exp_bound
from dpbai.phase import Phase, Policy, remembers
from dpbai.plans import Stage
from dpbai.policies import DPBAI, DPBAIGauss, DPHalving
from dpbai.ranking import alike
from dpbai.scaling import rank
from dpbai.schedule import Schedule, ceil_div, pulls_max_det
from dpbai.tails import bernstein

THEOREM_CONSTANT = 65
_ROUNDING = 1e-12
_DESIGN = 1 + 1e-8  # what the variance of a computed G-optimal design may exceed the rank by


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
    together : float or None
        The sum over phases of factor * `overtaken`: rewards and noise bounded together. It holds
        for every T', under either convention; not in the paper. None for DP-BAI-Gauss.
    sharper : Step or None
        From which T' on exp(-T'/(17 M H)) bounds the error, under either convention; not in the
        paper. None for DP-BAI-Gauss.
    """

    value: float
    prefactor: float
    repaired: float
    usable_budget: int
    eliminations: tuple[Elimination, ...]
    steps: tuple[Step, ...]
    theorem: Step | None
    together: float | None = None
    sharper: Step | None = None

    @property
    def binding(self) -> Step:
        """The step that holds last."""
        return max(self.steps, key=lambda step: step.valid_from)

    @property
    def valid_from(self) -> float:
        """The least T' from which every step holds; infinity if one never does."""
        return self.binding.valid_from


def upper_bound(policy: Policy, instance: Instance) -> float:
    """Return an upper bound on the error of a policy, from its plans and the instance alone.

    Parameters
    ----------
    policy : Policy
        For `DPBAI` it is that of Theorem 4.2, exp(-T' / (65 M H)), which is proved "for all
        sufficiently large T" only: `explicit_upper_bound` has what holds for every T. For
        `DPHalving` it is `halving_bound`, and for others `path_bound`, such as `DPDesign`; neither
        is in the paper, and both hold for every T.
    instance : Instance
        With the policy's features and rewards in [0, 1]; for DP-BAI and DP-Halving with linear
        means.

    Raises
    ------
    TypeError
        For `DPBAIGauss`, which has `gauss_upper_bound`, and other subclasses of `DPBAI`.
    ValueError
        If policy and instance do not match, or `path_bound` has too many paths to follow.
    """
    if isinstance(policy, DPBAIGauss):
        raise TypeError("policy must be DPBAI; use gauss_upper_bound for DPBAIGauss")
    if type(policy) is DPHalving:
        return halving_bound(policy, instance).value
    if not isinstance(policy, DPBAI):
        return path_bound(policy, instance)
    hard = _checked_hardness(policy, instance)
    schedule = policy.schedule
    return exp_bound(-schedule.usable_budget / (THEOREM_CONSTANT * schedule.M * hard.total))


@dataclass(frozen=True)
class HalvingBound:
    """An upper bound on the error of DP-Halving.

    Attributes
    ----------
    value : float
        The bound, the sum over phases; it can exceed 1.
    exponent : float
        The least exponent of a phase, in proportion to `DPHalving.pulls_per_phase`.
    """

    value: float
    exponent: float


def halving_bound(policy: DPHalving, instance: Instance) -> HalvingBound:
    """Bound the error of DP-Halving, for every T; not in the paper.

    Parameters
    ----------
    policy : DPHalving
    instance : Instance
        With the policy's features, linear means, one best arm and rewards in [0, 1].

    Notes
    -----
    A phase from s arms of rank r to k, m pulls before rounding up, drops the best arm with
    probability at most (s - k) (4/3)^min(s, r(r+1)/2) exp(-m min(Delta^2 / (2r), epsilon Delta /
    (8r))), with Delta = Delta_(k+1): by Kiefer and Wolfowitz a released sum has a weight of at most
    2r/m in any contrast.
    """
    if type(policy) is not DPHalving:  # a subclass may add noise that the proof ignores
        raise TypeError(f"policy must be DPHalving itself, got {type(policy).__name__}")
    if _matching(policy, instance).theta is None:
        raise ValueError("instance must have linear means: give it a theta")
    if len(instance.ties) > 1:
        raise ValueError(f"instance must have one best arm, got {list(instance.ties)}")
    gaps, pulls = np.sort(instance.gaps), float(policy.pulls_per_phase)
    value, exponents = 0.0, []
    for size, keep in pairwise(policy.sizes):
        if keep < size:
            rank, gap = min(policy.dimension, size), float(gaps[keep])
            spread = 2 * rank * _DESIGN
            exponents.append(pulls * min(gap * gap, policy.epsilon * gap / 4) / spread)
            sums = 0 if math.isinf(policy.epsilon) else min(size, rank * (rank + 1) // 2)
            value += (size - keep) * (4 / 3) ** sums * exp_bound(-exponents[-1])
    return HalvingBound(value, min(exponents))


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
    least = _whole(product * schedule.M * hard.total * math.log(prefactor))
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
        together=None if sigma else sum(_together(phase, policy, hard) for phase in phases),
        sharper=None if sigma else _sharper(schedule, hard),
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
    if _matching(policy, instance).theta is None:
        raise ValueError("instance must have linear means: give it a theta")
    return hardness(instance, epsilon=policy.epsilon)


def _matching(policy: Policy, instance: Instance) -> Instance:
    """Return the instance, if it has the policy's features and rewards in [0, 1]."""
    _check.kind(policy, "policy", Policy)
    _check.kind(instance, "instance", Instance)
    if not np.array_equal(policy.features, instance.features):
        raise ValueError("policy and instance must have the same features")
    if instance.reward_bound > 1:
        raise ValueError(
            f"instance must have rewards in [0, 1] for these bounds, "
            f"but they reach {instance.reward_bound:.6g}"
        )
    return instance


def _decay(schedule: Schedule, hard: Hardness, sigma: float | None) -> float:
    """Return what multiplies the prefactor of the finite form."""
    scaled = schedule.usable_budget / (FINITE_CONSTANT * schedule.M)
    if sigma is None:
        return exp_bound(-scaled / hard.total)
    # H_pri sqrt(L), with L = (epsilon sigma)^2 / 2, is H_pri epsilon times sigma / sqrt(2).
    spread = hard.pri_index / hard.gap(hard.pri_index) * sigma / math.sqrt(2)
    ratio = scaled / spread if spread else math.inf
    return exp_bound(-scaled / hard.bai) + exp_bound(-ratio * ratio)


def _together(phase: Elimination, policy: DPBAI, hard: Hardness) -> float:
    """Return the best of some choices of i, for the rank at which they are worst."""
    schedule, size = policy.schedule, phase.size
    most = min(rank(policy.features), size)
    plans = {(size, 2, 1.0)}  # how many arms are pulled, how many count, their weight
    if pulls_max_det(most, size):
        plans = {(most, most, 2.0)}
    if phase.phase > 1:
        plans |= {(r, r, 2.0) for r in range(1, most + 1) if pulls_max_det(r, size)}
    bounds = []
    for index in {2, phase.index, min(schedule.g[1], phase.keep) + 1, phase.keep + 1}:
        of = {"gap": hard.gap(index), "epsilon": policy.epsilon}
        chances = [
            overtaken(**of, pulls=schedule.pulls(schedule.usable_budget, m), arms=arms, weight=w)
            for m, arms, w in plans
        ]
        bounds.append(max(chances) * (size - index + 1) / (phase.keep - index + 2))
    return min(bounds)


def _sharper(schedule: Schedule, hard: Hardness) -> Step:
    """Return from where 17 absorbs M K ((d^2 + 8)/8)^d, the prefactor of the form with 16."""
    d, constant = schedule.dimension, TOGETHER_CONSTANT
    prefactor = math.log(schedule.M * schedule.arms) + d * math.log1p(d * d / 8)
    least = constant * (constant + 1) * schedule.M * hard.total * prefactor
    return Step("17 for 16 absorbs the prefactor", _whole(least))


def path_bound(policy: Policy, instance: Instance, *, limit: int = 4096) -> float:
    """Bound the error of any policy by what its plans say, along every path of active sets.

    Parameters
    ----------
    policy : Policy
        One whose noise is Laplace or Gaussian, or none.
    instance : Instance
        With the policy's number of arms, one best arm, and rewards in [0, 1]; its means need not be
        linear, so that what a misfit adds to the estimates is counted.
    limit : int
        How many paths there may be; a plan takes about a millisecond.

    Returns
    -------
    float
        It can exceed 1. Ties to within rounding, of a policy without noise, are not counted.

    Raises
    ------
    ValueError
        If there are more paths, or policy and instance do not match.

    Notes
    -----
    Not in the paper. Given the active sets up to it, what an estimate is off by is a sum of rewards
    and noise with known weights, and `bernstein` bounds the chance that a rival is ahead. Of the
    rivals ahead of a best arm that is dropped, as many as are kept, all but j remain when the j
    likeliest are left out, so that Markov's inequality applies to the others, for any j. A policy
    that remembers uses one release on many paths, and its bound is a sum over them; one that
    forgets has fresh rewards in each phase, and its bound is that of the worst active set.
    """
    if len(_matching(policy, instance).ties) > 1:
        raise ValueError(f"instance must have one best arm, got {list(instance.ties)}")
    return _lost(Stage.first(policy), instance, 1, _check.whole(limit, "limit"))


def _lost(stage: Stage, instance: Instance, paths: int, limit: int) -> float:
    """Bound the chance that the best arm is dropped in a phase or later, on one of many `paths`."""
    phase, active = stage.phase, stage.active
    best, rivals = instance.best, [arm for arm in active if arm != instance.best]
    bound = 0.0
    if phase.keep < len(active):
        ahead = np.sort(_ahead(instance, (*stage.known, phase)))[::-1]
        beyond = np.cumsum(ahead[::-1])[::-1][: phase.keep]  # without the 0, 1, 2, ... likeliest
        bound = float((beyond / np.arange(phase.keep, 0, -1)).min())
    if phase.keep == 1:
        return bound
    paths *= math.comb(len(rivals), phase.keep - 1)
    if paths > limit:
        raise ValueError(
            f"limit must be at least {paths} to follow all paths to phase {phase.index + 1}, got "
            f"{limit}; a policy with fewer phases has fewer paths"
        )
    later = [
        _lost(stage.then(tuple(sorted((best, *others)))), instance, paths, limit)
        for others in combinations(rivals, phase.keep - 1)
    ]
    return bound + (sum(later) if remembers(stage.policy) else max(later))


def _ahead(instance: Instance, phases: Sequence[Phase]) -> FloatArray:
    """Bound, for each active rival, the chance that its last estimate reaches the best arm's."""
    last = phases[-1]
    place = last.active.index(instance.best)
    contrasts = last.decoder[place] - np.delete(last.decoder, place, axis=0)
    lead, variance, scale = np.zeros((3, len(contrasts)))
    start = 0
    for phase in phases:
        part = contrasts[:, start : start + phase.coordinates]
        start += phase.coordinates
        weights = part @ phase.release  # of the empirical means
        lead += weights @ instance.means[list(phase.pulled)]
        variance += weights**2 @ (1 / (4 * np.array(phase.pulls, dtype=np.float64)))
        if isinstance(phase.noise, Laplace | Gaussian):
            with np.errstate(over="ignore"):  # so much noise that nothing is known
                noise = np.abs(phase.noise.standard_deviation * part)
                variance += (noise**2).sum(axis=1)
            if isinstance(phase.noise, Laplace):
                scale = np.maximum(scale, noise.max(axis=1, initial=0.0) / math.sqrt(2))
        elif not isinstance(phase.noise, NoNoise):
            raise TypeError(
                f"policy must have Laplace or Gaussian noise, or none, got {phase.noise}"
            )
    # What rounding leaves of a contrast of arms that always tie says nothing.
    tied = np.delete(alike(last.decoder, place), place)
    return np.where(tied, 1.0, bernstein(lead, variance, scale))


def _reaches(schedule: Schedule, pulled: int, pulls: float) -> float:
    """Return the least T' with ceil(T' / (M pulled)) >= pulls, up to rounding in `pulls`."""
    return schedule.M * pulled * max(0, _whole(pulls * (1 - _ROUNDING)) - 1) + 1


def _whole(budget: float) -> float:
    """Return the least whole number that is no less; infinity, for gaps near 0, stays."""
    return math.ceil(budget) if math.isfinite(budget) else budget


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
