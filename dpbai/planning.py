"""The least budget with which a policy is right often enough.

Where `exact_error` knows the error probability, the answer has no sampling noise; elsewhere each
budget is simulated until a confidence bound decides it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import scipy

from dpbai import _check
from dpbai._check import Seed
from dpbai.exact import NotExactError, exact_error
from dpbai.instance import Instance
from dpbai.policies import Policy
from dpbai.simulate import simulate

_FIRST_TRIALS = 1000
# Relative errors of exact probabilities: the next one serves where the last cannot decide.
_TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-9)

Verdict = Literal["enough", "too few", "undecided"]


@dataclass(frozen=True)
class SmallestBudget:
    """A budget with which a policy errs rarely enough, and a smaller one with which it does not.

    Attributes
    ----------
    budget : int
        The policy's error probability is at most the target here.
    too_small : int
        The largest budget below that was found not to do: the error probability exceeds the target,
        or the policy refuses the budget; 0 if none was found. It is `budget` - 1 where exact
        probabilities decided, and can be less where simulations did.
    confidence : float
        Probability that both statements hold: 1 if exact probabilities decided, else what was asked
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
    largest: int = 10**9,
    confidence: float = 0.99,
    trials: int = 100_000,
    seed: Seed = 0,
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
    largest : int, default 10**9
        Where the search ends.
    confidence : float, default 0.99
        Of all decisions by simulation together, in (0, 1).
    trials : int, default 100000
        The most trials for one budget. With more, the two budgets returned are closer.
    seed : int, SeedSequence or Generator, default 0
        Source of randomness of the simulations.

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
    The budget doubles until it is enough, then the last interval is halved. Rounding up pulls can
    make the error probability rise a little from one budget to the next. So where probabilities are
    exact, the K budgets below are tried too, and again below any that is enough. Then `budget` is
    enough, and `budget` - 1, ..., `budget` - K are not. It is the least of all unless the error
    probability falls to the target and rises again over a longer distance.

    Each decision by simulation compares a Clopper-Pearson bound with the target; the k-th of them,
    repeated looks included, may err with probability (1 - confidence) / (k (k + 1)).
    """
    if not callable(make_policy):
        raise TypeError(f"make_policy must be callable, got {type(make_policy).__name__}")
    _check.kind(instance, "instance", Instance)
    _check.proportion(error, "error")
    _check.proportion(confidence, "confidence")
    largest = _check.whole(largest, "largest")
    trials = _check.whole(trials, "trials")
    judge = _Judge(make_policy, instance, error, 1 - confidence, trials, seed)

    high = 1
    while judge(high) != "enough":
        if high == largest:
            raise ValueError(
                f"largest must be a budget with error probability at most {error}, got {largest}"
            ) from judge.refusals.get(largest)
        high = min(2 * high, largest)
    enough = _first(high // 2, high, lambda budget: judge(budget) == "enough")
    if enough not in judge.simulated:
        enough = _down_from(enough, instance.arms, judge)
    too_small = _first(0, enough, lambda budget: judge(budget) != "too few") - 1
    exact = judge.simulated.isdisjoint({enough, too_small})
    return SmallestBudget(enough, too_small, 1.0 if exact else confidence)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return where `holds` begins to hold in (low, high]; it holds at high and not at low."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _down_from(budget: int, distance: int, judge: _Judge) -> int:
    """Return a budget that is enough while none of the `distance` budgets below it is."""
    lower = budget - 1
    while lower >= max(budget - distance, 1):
        if judge(lower) == "enough":
            budget = lower
        lower -= 1
    return budget


class _Judge:
    """Decides, and remembers, whether budgets are enough."""

    def __init__(
        self,
        make_policy: Callable[[int], Policy],
        instance: Instance,
        target: float,
        risk: float,
        trials: int,
        seed: Seed,
    ) -> None:
        self.make_policy, self.instance, self.target = make_policy, instance, target
        self.risk, self.trials, self.seeds = risk, trials, _check.seed_sequence(seed)
        self.looks = 0
        self.simulated: set[int] = set()
        self.refusals: dict[int, ValueError] = {}
        self.verdicts: dict[int, Verdict] = {}
        self.errors: dict[object, float | None] = {}

    def __call__(self, budget: int) -> Verdict:
        if budget not in self.verdicts:
            self.verdicts[budget] = self._decide(budget)
        return self.verdicts[budget]

    def _decide(self, budget: int) -> Verdict:
        try:
            policy = self.make_policy(budget)
        except ValueError as refusal:
            self.refusals[budget] = refusal
            return "too few"
        _check.kind(policy, "what make_policy returns", Policy)
        error = self._exact(policy)
        if error is None:
            self.simulated.add(budget)
            return self._simulated(policy)
        return "enough" if error <= self.target else "too few"

    def _exact(self, policy: Policy) -> float | None:
        """Return the exact error probability, computed once for budgets that make the same plan."""
        phase = policy.phase(1, range(self.instance.arms))
        matrices = (phase.release.tobytes(), phase.decoder.tobytes())
        plan = (phase.pulled, phase.pulls, phase.noise, phase.keep, matrices)
        if plan not in self.errors:
            try:
                for rtol in _TOLERANCES:
                    error = exact_error(policy, self.instance, rtol=rtol)
                    if not math.isclose(error, self.target, rel_tol=10 * rtol):
                        break
                self.errors[plan] = error
            except NotExactError:
                self.errors[plan] = None
        return self.errors[plan]

    def _simulated(self, policy: Policy) -> Verdict:
        errors = done = 0
        while done < self.trials:
            more = min(max(_FIRST_TRIALS, 9 * done), self.trials - done)
            (seed,) = self.seeds.spawn(1)
            result = simulate(policy, self.instance, trials=more, seed=seed)
            errors, done = errors + more - result.successes, done + more
            self.looks += 1
            risk = self.risk / (self.looks * (self.looks + 1))
            bounds = scipy.stats.binomtest(errors, done).proportion_ci(1 - 2 * risk, method="exact")
            if bounds.high <= self.target:
                return "enough"
            if bounds.low > self.target:
                return "too few"
        return "undecided"
