"""The least budget with which a policy is right often enough.

What decides is the first plan, and few plans are distinct: budgets that make the same plan stand or
fall together. Success is not monotone in the budget, because of rounding and of lattices of sums.
So where `exact_error` knows the error probability, every smaller plan is decided too, many of them
at a time; elsewhere bounds of it decide, or simulations as long as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy

from dpbai import _check
from dpbai._check import Seed
from dpbai.exact import NotExactError, error_bounds, exact_error
from dpbai.exact.error import cone
from dpbai.instance import Instance
from dpbai.noise import Gaussian, Laplace, NoNoise
from dpbai.policies import Phase, Policy
from dpbai.policies.phase import planned
from dpbai.rewards import Bernoulli, Empirical, RewardLaw, Uniform
from dpbai.simulate import simulate

_FIRST_TRIALS = 100
# Relative errors of exact probabilities: the next one serves where the last cannot decide.
_TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-9)
_GRAIN = 256
_FEWEST = 4  # pulls of an arm between two plans, from which on a bound can save work
_RISK = 0.01  # of the target: the probability that such a bound gives away
_STEPS = 20

Verdict = Literal["enough", "too few", "undecided"]


@dataclass(frozen=True)
class SmallestBudget:
    """A budget with which a policy errs rarely enough, and a smaller one with which it does not.

    Attributes
    ----------
    budget : int
        The policy's error probability is at most the target here. Where exact probabilities
        decided, it is the least such budget.
    too_small : int
        The largest budget below that was found not to do: the error probability exceeds the target,
        or the policy refuses the budget; 0 if none was found. It is `budget` - 1 where exact
        probabilities decided, and none below does either; it can be less where simulations did.
    confidence : float
        Probability that these statements hold: 1 if no simulation was needed, else what was asked
        for.
    """

    budget: int
    too_small: int
    confidence: float


def smallest_budget(
    make_policy: Callable[[int], Policy],
    instance: Instance,
    *,
    error: float = 0.05,
    within: float = 0.0,
    largest: int = 10**9,
    confidence: float = 0.99,
    trials: int = 100_000,
    seed: Seed = 0,
    progress: bool = False,
) -> SmallestBudget:
    """Find the least budget T at which a policy's error probability is at most `error`.

    Parameters
    ----------
    make_policy : callable
        `make_policy(budget)` returns the policy with that budget, and raises `ValueError` if it is
        too small for it.
    instance : Instance
        Where rewards come from.
    error : float, default 0.05
        The target, in (0, 1).
    within : float, default 0
        An answer whose mean is at most this much below the best counts as right. Beyond 0,
        simulations decide, since exact probabilities are those of the best arm.
    largest : int, default 10**9
        Where the search ends.
    confidence : float, default 0.99
        Of all decisions by simulation together, in (0, 1).
    trials : int, default 100000
        The most trials for one budget. With more, the two budgets returned are closer.
    seed : int, SeedSequence or Generator, default 0
        Source of randomness of the simulations.
    progress : bool, default False
        Count the plans that have been looked at, on stderr.

    Returns
    -------
    SmallestBudget

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong kind or out of range, or `largest` is not enough; then the
        policy's own exception is the cause if it refused that budget.

    Notes
    -----
    The budget doubles until it is enough, then the last interval is halved, down to 0.4 % of it
    where simulations decide. Where probabilities are exact, all smaller budgets are then decided,
    since rounding up pulls and the lattice of sums can make the error probability rise from one
    budget to the next: the answer is the least of all. Plans are told apart by bisection, which
    takes for granted that a larger budget never means fewer pulls, as for every policy of this
    library; a policy that is seen to break this is tried at every single budget.

    Of plans that pull each arm equally often and differ in nothing else, many are excluded at once.
    Let W_n be the released sums after n pulls of each arm, noise included, in units of the noise.
    Those after n + k pulls are W_n plus k more rewards of each arm, of which Hoeffding's inequality
    bounds how far they push towards a right answer. If n + k pulls err too often even when all
    rewards are shifted by that much in favour of the best arm, then so do n, ..., n + k.

    Where probabilities are not exact, budgets below `too_small` are not looked at. `error_bounds`
    decides what it can, with certainty. Each decision by simulation compares a Clopper-Pearson
    bound with the target; the k-th of them, repeated looks included, may err with probability
    (1 - confidence) / (k (k + 1)).
    """
    if not callable(make_policy):
        raise TypeError(f"make_policy must be callable, got {type(make_policy).__name__}")
    _check.kind(instance, "instance", Instance)
    _check.proportion(error, "error")
    within = _check.non_negative(within, "within")
    _check.proportion(confidence, "confidence")
    largest = _check.whole(largest, "largest")
    trials = _check.trials(trials)
    _check.flag(progress, "progress")
    from tqdm import tqdm

    with tqdm(disable=not progress, unit=" plans", leave=False) as bar:
        judge = _Judge(make_policy, instance, error, within, 1 - confidence, trials, seed, bar)
        enough = _enough(judge, largest)
    decisive = {enough}
    if judge.exact(enough) is not None:
        enough = judge.least(enough)
        decisive = set(range(1, enough + 1))
    too_small = enough - 1
    if judge(too_small) != "too few":
        too_small, _ = _halved(judge, 0, enough, lambda verdict: verdict != "too few")
    exact = judge.simulated.isdisjoint(decisive | {too_small})
    return SmallestBudget(enough, too_small, 1.0 if exact else confidence)


def _enough(judge: _Judge, largest: int) -> int:
    """Return a budget that is enough, by doubling it and halving the last interval."""
    high = 1
    while judge(high) != "enough":
        if high == largest:
            raise ValueError(
                f"largest must be a budget with error probability at most {judge.target}, "
                f"got {largest}"
            ) from judge.refusals.get(largest)
        high = min(2 * high, largest)
    return _halved(judge, high // 2, high, lambda verdict: verdict == "enough")[1]


def _halved(
    judge: _Judge, low: int, high: int, holds: Callable[[Verdict], bool]
) -> tuple[int, int]:
    """Return two budgets of low..high, next to each other: `holds` is false, then true.

    Where simulations decide, they need not be neighbours: 0.4 % apart will do.
    """
    while high - low > (high // _GRAIN if judge.simulated & {low, high} else 0) + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(judge(middle)) else (middle, high)
    return low, high


class _Judge:
    """Decides, and remembers, whether budgets are enough."""

    def __init__(
        self,
        make_policy: Callable[[int], Policy],
        instance: Instance,
        target: float,
        within: float,
        risk: float,
        trials: int,
        seed: Seed,
        bar: Any,  # tqdm's
    ) -> None:
        self.make_policy, self.instance = make_policy, instance
        self.target, self.within = target, within
        self.risk, self.trials, self.seeds = risk, trials, _check.seed_sequence(seed)
        self.looks, self.bar = 0, bar
        self.simulated: set[int] = set()
        self.refusals: dict[int, ValueError] = {}
        self.plans: dict[int, tuple[Policy, Phase] | None] = {0: None}
        self.verdicts: dict[int, Verdict] = {0: "too few"}
        self.errors: dict[object, float | None] = {}

    def __call__(self, budget: int) -> Verdict:
        if budget not in self.verdicts:
            self.verdicts[budget] = self._decide(budget)
        return self.verdicts[budget]

    def _decide(self, budget: int) -> Verdict:
        plan = self._plan(budget)
        if plan is None:
            return "too few"
        error = self.exact(budget)
        if error is not None:
            return "enough" if error <= self.target else "too few"
        verdict = self._bounded(plan[0])
        if verdict == "undecided":
            self.simulated.add(budget)
            verdict = self._simulated(plan[0])
        return verdict

    def _bounded(self, policy: Policy) -> Verdict:
        """Decide by bounds of the error, if these are known."""
        try:
            low, high = error_bounds(policy, self.instance, rtol=_TOLERANCES[0])
        except NotExactError:
            return "undecided"
        if high <= self.target:
            return "enough"  # and more so if other answers are right too
        return "too few" if low > self.target and not self.within else "undecided"

    def _plan(self, budget: int) -> tuple[Policy, Phase] | None:
        """Return the policy and its first plan, or None if it refuses the budget."""
        if budget not in self.plans:
            self.bar.update()
            try:
                policy = self.make_policy(budget)
            except ValueError as refusal:
                self.refusals[budget], self.plans[budget] = refusal, None
            else:
                _check.kind(policy, "what make_policy returns", Policy)
                self.plans[budget] = policy, planned(policy, 1, range(self.instance.arms))
        return self.plans[budget]

    def _key(self, budget: int) -> object:
        """Return what two budgets have in common if they make the same plan."""
        plan = self._plan(budget)
        if plan is None:
            return None
        phase = plan[1]
        matrices = (phase.release.tobytes(), phase.decoder.tobytes())
        return (phase.pulled, phase.pulls, phase.noise, phase.keep, matrices)

    def exact(self, budget: int) -> float | None:
        """Return the exact error probability, computed once for each plan, or None."""
        plan, key = self._plan(budget), self._key(budget)
        if plan is None or self.within:
            return None
        if key not in self.errors:
            try:
                for rtol in _TOLERANCES:
                    error = exact_error(plan[0], self.instance, rtol=rtol)
                    if not math.isclose(error, self.target, rel_tol=10 * rtol):
                        break
                self.errors[key] = error
            except NotExactError:
                self.errors[key] = None
        return self.errors[key]

    def least(self, enough: int) -> int:
        """Return the least budget that is enough, given one with an exact probability."""
        found = self._walked_down(enough)
        costs = [plan[1].cost if plan else 0 for _, plan in sorted(self.plans.items())]
        if any(more < less for less, more in pairwise(costs)):
            return next(budget for budget in range(1, enough + 1) if self(budget) == "enough")
        return found

    def _walked_down(self, enough: int) -> int:
        """Walk down in strides that a bound excludes, and plan by plan where it cannot."""
        plan = self._plan(enough)
        floor = stride = _FEWEST * len(plan[1].pulled) if plan else 1
        found, high, steps, pause = enough, enough, 1, 1
        while self._plan(high):
            low = max(high - stride, 1)
            if steps:
                low = self._first_alike(high)
                found = low if self(high) == "enough" else found
                high, steps = low - 1, steps - 1
            elif self._excluded(low, high):
                high, stride, pause = low - 1, 2 * stride, 1
            elif stride > floor:
                stride = max(stride // 2, floor)
            else:
                steps, pause = pause, 2 * pause
        return found

    def _first_alike(self, budget: int) -> int:
        """Return the least budget that makes the same plan."""
        key, step = self._key(budget), 1
        while step < budget and self._key(budget - step) == key:
            step *= 2
        low, high = max(budget - step, 0), budget
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._key(middle) == key else (middle, high)
        return high

    def _excluded(self, low: int, high: int) -> bool:
        """Return whether all plans of low..high are known to err more often than the target."""
        first, last = self._plan(low), self._plan(high)
        if first is None or last is None:
            return False
        risk, rtol = _RISK * self.target, _TOLERANCES[0]
        favoured = _favoured(first[1], last[1], self.instance, risk)
        if favoured is None:
            return False
        try:
            error = exact_error(last[0], favoured, rtol=rtol)
        except NotExactError:
            return False
        return bool(error * (1 - 2 * rtol) - risk > self.target)

    def _simulated(self, policy: Policy) -> Verdict:
        errors = done = 0
        while done < self.trials:
            more = min(max(_FIRST_TRIALS, 9 * done), self.trials - done)
            (seed,) = self.seeds.spawn(1)
            result = simulate(policy, self.instance, trials=more, seed=seed)
            right = round(result.within(self.within) * more)
            errors, done = errors + more - right, done + more
            self.looks += 1
            risk = self.risk / (self.looks * (self.looks + 1))
            bounds = scipy.stats.binomtest(errors, done).proportion_ci(1 - 2 * risk, method="exact")
            if bounds.high <= self.target:
                return "enough"
            if bounds.low > self.target:
                return "too few"
        return "undecided"


def _favoured(first: Phase, last: Phase, instance: Instance, risk: float) -> Instance | None:
    """Return an instance on which `last` is right, but for `risk`, if any plan between is here.

    See Notes of `smallest_budget`. None if the plans differ in more than how often they pull all
    arms, or in too little of that, or if the rewards have a law that cannot be shifted.
    """
    if not _differ_in_pulls_only(first, last) or last.pulls[0] - first.pulls[0] < _FEWEST:
        return None
    best, pulled = instance.best, list(last.pulled)
    if last.coordinates <= 2:
        normals = cone(last.decoder, best)
    else:  # those of the identity, the only decoder of which more coordinates are exact
        normals = np.delete(np.eye(instance.arms)[best] - np.eye(instance.arms), best, axis=0)
    if normals is None or not len(normals):
        return None
    laws = [instance.laws[arm] for arm in pulled]
    ranges = np.array([law.support[1] - law.support[0] for law in laws])
    leads = normals @ last.release  # over those who may win instead, as weights of sums of rewards
    widths = np.sqrt(((leads * ranges) ** 2).sum(axis=1))
    if last.coordinates <= 2:
        direction = (leads / np.maximum(widths, 1e-300)[:, None]).sum(axis=0) * ranges**2
    else:
        direction = np.eye(instance.arms)[best]
    pulls, extra = last.pulls[0], last.pulls[0] - first.pulls[0]
    drift = np.minimum(extra * leads @ [law.mean for law in laws], 0)
    rise = leads @ direction
    if not (rise > 0).all():
        return None
    log_odds = math.log(len(leads) / risk)
    size = float(((widths * math.sqrt(extra * log_odds / 2) - drift) / rise).max())
    for _ in range(_STEPS):
        shifted = [
            _shifted(law, by) for law, by in zip(laws, size / pulls * direction, strict=True)
        ]
        reach = [law.support[1] - law.support[0] for law in shifted if law]
        if len(reach) < len(laws):
            return None
        # A law that is stretched, not shifted, is shifted on average: Hoeffding's sum has more.
        more = np.abs(reach - ranges)
        squares = (pulls - extra) * (leads * more) ** 2 + extra * (leads * (ranges + more)) ** 2
        height = size * rise + drift
        if np.exp(-2 * height**2 / squares.sum(axis=1)).sum() <= risk:
            break
        size *= 1.1
    else:
        return None
    means = [law.mean for law in shifted if law]
    others: RewardLaw = Empirical(np.array([min(means) - 1]))
    every = [others] * instance.arms
    every[best] = Empirical(np.array([max(means) + 1]))
    for arm, law in zip(pulled, shifted, strict=True):
        every[arm] = law or others
    found = Instance(instance.features, rewards=every, bounded=False)
    return found if found.best == best else None


def _differ_in_pulls_only(first: Phase, last: Phase) -> bool:
    """Return whether, in units of the noise, plans sum the same rewards and decode them alike."""
    kinds = {(phase.pulled, phase.keep, type(phase.noise)) for phase in (first, last)}
    equal = all(len(set(phase.pulls)) == 1 for phase in (first, last))
    if len(kinds) > 1 or not equal or not isinstance(first.noise, Laplace | Gaussian | NoNoise):
        return False
    weights, decoders = [], []
    for phase in (first, last):
        unit = phase.noise.standard_deviation * phase.pulls[0] or np.abs(phase.release).max()
        weights.append(phase.release / unit)
        decoders.append(phase.decoder / (np.abs(phase.decoder).max() or 1.0))
    return weights[0].shape == weights[1].shape and all(
        np.allclose(one, other, rtol=1e-9, atol=0.0) for one, other in (weights, decoders)
    )


def _shifted(law: RewardLaw, by: float) -> RewardLaw | None:
    """Return the law of a reward raised by `by`, of a uniform one stretched to it; or None."""
    if isinstance(law, Bernoulli):
        law = Empirical(np.array([0.0, 1.0]), np.array([1 - law.mean, law.mean]))
    if isinstance(law, Empirical):
        return Empirical(law.values + by, law.weights)
    return Uniform(law.mean + by) if isinstance(law, Uniform) and law.mean + by >= 0 else None
