"""The least budget, or epsilon, with which a policy is right often enough.

What decides is the first plan, and few plans are distinct: budgets that make the same plan have the
same verdict. Success is not monotone in the budget, because of rounding and of lattices of sums.
So where `exact_error` knows the error probability, every smaller plan is decided too, many of them
at a time; elsewhere bounds of it decide, or simulations as long as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray, Seed
from dpbai.exact import NotExactError, error_bounds, exact_error
from dpbai.exact.error import cone, independent
from dpbai.exact.inversion import Variables
from dpbai.exact.terms import independent_terms
from dpbai.instance import Instance
from dpbai.phase import Phase, Policy
from dpbai.plans import Stage
from dpbai.simulate import binomial_interval, simulate

_LEAST_EPSILON, _STEP = 1e-6, 1e-3  # where a search for epsilon begins, and its relative steps
_FIRST_TRIALS = 100
# Relative errors of exact probabilities: the next one serves where the last cannot decide.
_TOLERANCES = (1e-4, 1e-6, 1e-9)
_COARSE = 1e-2
_GROWTH = 4
_COARSEST = 1 / 8
_PLANS_KEPT = 2**12
_NODES = 200

Verdict = Literal["enough", "too few", "undecided"]
_Plan = tuple[Policy, Phase, object]
"""A policy, its first plan, and what the plans of two budgets have in common if they are equal."""


class SearchError(ValueError):
    """No value in the range of a search is enough."""


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
        If an argument is of a wrong kind or out of range.
    SearchError
        If `largest` is not enough, a `ValueError` too; the policy's own exception is the cause if
        it refused that budget.

    Notes
    -----
    The budget rises fourfold until it is enough, then the last interval is halved. Where
    probabilities are exact, all smaller budgets are then decided, since rounding up pulls and the
    lattice of sums can make the error probability rise from one budget to the next: the answer is
    the least of all. This takes for granted that a larger budget never means fewer pulls, as for
    every policy of this library; one that is seen to break it is tried at every single budget.

    Of plans that pull each arm equally often and differ in nothing else, many are excluded at once.
    With k pulls less of each arm a plan errs at least as often, but for the chance that just these
    pulls turn a right answer into a wrong one. Let D be the lead of the best arm over a rival, and
    S what the k pulls add to it: that is P(0 < D <= -S), at most E max(-S, 0) times the largest
    density of D. The density is at most the integral of the modulus of its transform, along a line
    through the saddle point, which makes small chances small.

    Where probabilities are not exact, budgets below `too_small` are not looked at. A few trials
    tell what is far from the target, `error_bounds` decides what it can with certainty until trials
    are found to tell more, and more and more trials decide the rest. Each of these looks compares a
    Clopper-Pearson bound with the target; the k-th of them all may err with probability
    (1 - confidence) / (k (k + 1)). The search ends where budgets are as near as half of the
    relative standard error that `trials` leave in the target, since most of them between
    `too_small` and `budget` stay undecided anyway.
    """
    largest = _check.whole(largest, "largest")
    judge = _Judge(make_policy, int, instance, error, within, confidence, trials, seed, progress)
    with judge.bar:
        enough = judge.enough(largest, f"a budget with {{}}, got {largest}")
        exact = judge.exact(enough) is not None
        if exact:
            enough = judge.least(enough)
        too_small = judge.too_small(enough)
    decisive = range(1, enough + 1) if exact else (too_small, enough)
    simulated = any(budget in decisive for budget in judge.simulated)
    return SmallestBudget(enough, too_small, confidence if simulated else 1.0)


@dataclass(frozen=True)
class SmallestEpsilon:
    """An epsilon at which a policy errs rarely enough, and a smaller one at which it does not.

    Attributes
    ----------
    epsilon : float
        The policy's error probability is at most the target here.
    too_small : float
        The largest epsilon below that was found not to be enough; 0 if none was found.
    confidence : float
        Probability that these statements hold: 1 if no simulation was needed, else what was asked
        for.
    """

    epsilon: float
    too_small: float
    confidence: float


def smallest_epsilon(
    make_policy: Callable[[float], Policy],
    instance: Instance,
    *,
    error: float = 0.05,
    within: float = 0.0,
    largest: float = 1e6,
    confidence: float = 0.99,
    trials: int = 100_000,
    seed: Seed = 0,
    progress: bool = False,
) -> SmallestEpsilon:
    """Find how private a policy can be with an error probability of at most `error`.

    Parameters
    ----------
    make_policy : callable
        `make_policy(epsilon)` returns the policy at that epsilon, for instance with a budget that
        is fixed. It raises `ValueError` if that epsilon is too small for it.
    instance : Instance
        Where rewards come from.
    error, within, confidence, trials, seed, progress
        As in `smallest_budget`.
    largest : float, default 10**6
        Where the search ends.

    Returns
    -------
    SmallestEpsilon

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong kind or out of range.
    SearchError
        If `largest` is not enough, a `ValueError` too: the budget is too small.

    Notes
    -----
    The search of `smallest_budget`, over epsilons from 1e-6 on in steps of 0.1 %. As with budgets,
    success need not rise with epsilon: a policy may plan otherwise, and noise can break ties of
    sums to its advantage. So an epsilon below `too_small`, which was not tried, may be enough
    too; at `epsilon` and at `too_small`, the answer is what it says.
    """
    largest = _check.number(largest, "largest", f"[{_LEAST_EPSILON}, 1e300]")

    def at(step: int) -> float:
        return min(_LEAST_EPSILON * math.exp(_STEP * (step - 1)), largest)

    judge = _Judge(make_policy, at, instance, error, within, confidence, trials, seed, progress)
    judge.coarse = lambda _: judge.grain / _STEP
    with judge.bar:
        last = math.ceil(math.log(largest / _LEAST_EPSILON) / _STEP) + 1
        enough = judge.enough(
            last, f"an epsilon with {{}}, got {largest:g}: a larger budget is needed"
        )
        too_small = judge.too_small(enough)
    simulated = bool(judge.simulated & {enough, too_small})
    found = at(enough), at(too_small) if too_small else 0.0
    return SmallestEpsilon(*found, confidence if simulated else 1.0)


class _Planned:
    """A policy that makes each of its latest plans once, however often it is simulated."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.phase = policy, lru_cache(_PLANS_KEPT)(policy.phase)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)


class _Judge:
    """Decides, and remembers, whether budgets are enough, or other parameters: `at` of 1, 2, ...

    The other arguments are those of `smallest_budget`, which are checked here.
    """

    def __init__(
        self,
        make_policy: Callable[[Any], Policy],
        at: Callable[[int], Any],
        instance: Instance,
        error: float,
        within: float,
        confidence: float,
        trials: int,
        seed: Seed,
        progress: bool,
    ) -> None:
        if not callable(make_policy):
            raise TypeError(f"make_policy must be callable, got {type(make_policy).__name__}")
        self.make_policy, self.at = make_policy, at
        self.instance = _check.kind(instance, "instance", Instance)
        self.target = _check.proportion(error, "error")
        self.within = _check.non_negative(within, "within")
        self.risk = 1 - _check.proportion(confidence, "confidence")
        self.trials, self.seeds = _check.trials(trials), _check.seed_sequence(seed)
        from tqdm import tqdm

        self.bar = tqdm(disable=not _check.flag(progress, "progress"), unit=" plans", leave=False)
        # Half of the relative standard error of the error probability.
        self.grain = min(0.5 / math.sqrt(self.trials * self.target), _COARSEST)
        self.coarse: Callable[[int], float] = lambda high: high * self.grain
        self.looks, self.bounds_decide = 0, True
        self.simulated: set[int] = set()
        self.refusal: ValueError | None = None
        self.plans: dict[int, _Plan | None] = {0: None}
        self.verdicts: dict[int, Verdict] = {0: "too few"}
        self.errors: dict[object, tuple[float, float] | None] = {}

    def __call__(self, budget: int) -> Verdict:
        if budget not in self.verdicts:
            self.verdicts[budget] = self._decide(budget)
        return self.verdicts[budget]

    def enough(self, largest: int, needed: str) -> int:
        """Return a budget that is enough, by raising it and halving the last interval."""
        low, high = 0, 1
        while self(high) != "enough":
            if high == largest:
                goal = f"error probability at most {self.target:.10g}"
                raise SearchError(f"largest must be {needed.format(goal)}") from self.refusal
            low, high = high, min(_GROWTH * high, largest)
        return self.halved(low, high, {"enough"})[1]

    def too_small(self, enough: int) -> int:
        """Return the largest budget below one that is enough that is found to be too small."""
        if enough not in self.simulated and self(enough - 1) == "too few":
            return enough - 1
        few = (budget for budget, verdict in self.verdicts.items() if verdict == "too few")
        low = max(budget for budget in few if budget < enough)
        return self.halved(low, enough, {"enough", "undecided"})[0]

    def halved(self, low: int, high: int, above: set[Verdict]) -> tuple[int, int]:
        """Return two budgets of low..high, next to each other, the upper one with such a verdict.

        Where simulations decide, they need not be neighbours.
        """
        while high - low > max(1, self.coarse(high) if self.simulated & {low, high} else 1):
            middle = (low + high) // 2
            low, high = (low, middle) if self(middle) in above else (middle, high)
        return low, high

    def _decide(self, budget: int) -> Verdict:
        plan, exact = self._plan(budget), self.exact(budget)
        if plan is None:
            return "too few"
        if exact is not None:
            return "enough" if exact[0] <= self.target else "too few"
        policy, verdict = _Planned(plan[0]), self._verdict(0.0, 1.0)
        errors = done = 0
        while verdict == "undecided" and done < self.trials:
            more = min(max(_FIRST_TRIALS, 3 * done), self.trials - done)
            (seed,) = self.seeds.spawn(1)
            result = simulate(policy, self.instance, trials=more, seed=seed)
            errors, done = errors + more - round(result.within(self.within) * more), done + more
            self.looks += 1
            verdict = self._simulated_verdict(errors, done)
            if verdict != "undecided":
                self.bounds_decide &= done == more
            # A few trials cost less than bounds, and bounds less than many trials. Of other answers
            # that are right, bounds do not know.
            elif (
                done == more
                and (self.bounds_decide or self._simulated_verdict(0, self.trials) == "undecided")
                and not (self.within and errors > self.target * done)
            ):
                with suppress(NotExactError):
                    low, high = error_bounds(policy, self.instance, rtol=_COARSE)
                    bounded = self._verdict(0.0 if self.within else low, high)
                    if bounded != "undecided":
                        return bounded
            expected = round(errors / done * self.trials)
            if (
                4 * done >= self.trials
                and self._simulated_verdict(expected, self.trials) == "undecided"
            ):
                break  # all trials would hardly decide
        self.simulated.add(budget)
        return verdict

    def _simulated_verdict(self, errors: int, trials: int) -> Verdict:
        """Decide by simulated errors, at the risk of the latest look."""
        risk = self.risk / (self.looks * (self.looks + 1))
        return self._verdict(*binomial_interval(errors, trials, risk, "exact"))

    def _verdict(self, low: float, high: float) -> Verdict:
        if high <= self.target:
            return "enough"
        return "too few" if low > self.target else "undecided"

    def _plan(self, budget: int) -> _Plan | None:
        """Return the policy and its first plan, or None if it refuses the budget."""
        if budget not in self.plans:
            self.bar.update()
            self.plans[budget] = self.refusal = None
            try:
                policy = self.make_policy(self.at(budget))
            except ValueError as refusal:
                self.refusal = refusal
            else:
                _check.kind(policy, "what make_policy returns", Policy)
                phase = Stage(policy, tuple(range(self.instance.arms))).phase
                same = phase.pulled, phase.pulls, phase.noise, phase.keep, _form(phase).tobytes()
                self.plans[budget] = policy, phase, same
        return self.plans[budget]

    def exact(self, budget: int) -> tuple[float, float] | None:
        """Return the exact error probability and its tolerance, once for each plan, or None."""
        plan = self._plan(budget)
        if plan is None or self.within:
            return None
        policy, _, same = plan
        if same not in self.errors:
            found = None
            with suppress(NotExactError):
                for rtol in _TOLERANCES:
                    error = exact_error(policy, self.instance, rtol=rtol)
                    if not math.isclose(error, self.target, rel_tol=10 * rtol):
                        break
                found = error, rtol
            self.errors[same] = found
        return self.errors[same]

    def least(self, enough: int) -> int:
        """Return the least budget that is enough, given one with an exact probability."""
        found = high = enough
        stride = 0
        while self._plan(high):
            found = high if self(high) == "enough" else found
            stride = 2 * stride + 1
            while stride and not self._excluded(max(high - stride, 1), high):
                stride //= 2
            high = max(high - stride, 1) - 1
        costs = [plan[1].cost if plan else 0 for _, plan in sorted(self.plans.items())]
        if any(more < less for less, more in pairwise(costs)):
            return next(budget for budget in range(1, enough + 1) if self(budget) == "enough")
        return found

    def _excluded(self, low: int, high: int) -> bool:
        """Return whether all plans of low..high are known to err more often than the target."""
        first, last, exact = self._plan(low), self._plan(high), self.exact(high)
        if first is None or last is None or exact is None:
            return False
        spare = exact[0] * (1 - 2 * exact[1]) - self.target
        if spare <= 0 or first[2] == last[2]:
            return spare > 0
        with suppress(NotExactError):
            return _gain(independent(first[1]), independent(last[1]), self.instance) < spare
        return False


def _form(phase: Phase) -> FloatArray:
    """Return how sums of rewards and standard noise make estimates, times the pulls of an arm."""
    noise = phase.noise.standard_deviation * max(phase.pulls, default=0)
    return np.hstack([phase.decoder @ phase.release, noise * phase.decoder])


def _gain(first: Phase, last: Phase, instance: Instance) -> float:
    """Return by how much plans between two may err less often than the last one does.

    See Notes of `smallest_budget`. It is infinite without noise, and if the plans differ in more
    than how often they pull all arms.
    """
    best, decoder = instance.best, first.decoder
    few = first.coordinates <= 2
    normals = cone(decoder, best) if few else decoder[best] - np.delete(decoder, best, axis=0)
    kinds = {(p.pulled, p.keep, type(p.noise), p.coordinates) for p in (first, last)}
    alike = len(kinds) == len(set(first.pulls)) == len(set(last.pulls)) == 1
    if (
        normals is None
        or not (alike and first.noise.standard_deviation)
        or not np.allclose(_form(first), _form(last), rtol=1e-9, atol=0)
    ):
        return math.inf
    extra = last.pulls[0] / first.pulls[0] - 1
    return float(_crossings(first, normals, extra, instance).sum())


def _crossings(phase: Phase, normals: FloatArray, extra: float, instance: Instance) -> FloatArray:
    """Return bounds of the chances that up to `extra` times as many pulls use up leads D.

    A bound is the largest density of D, tilted by exp(-tilt D), times a bound of the mean of
    max(exp(-tilt S) - 1, 0) / tilt, S what the pulls add; without a tilt that is max(-S, 0).
    """
    terms = independent_terms(phase, instance)
    weights = np.hstack([normals @ phase.release, normals])
    leads = Variables(terms, weights, _COARSE)
    means, deviations = leads.means[:, None], leads.deviations[:, None]
    coarse = phase.noise.standard_deviation * np.abs(normals).max(axis=1)
    tilt = np.maximum(means, deviations / 10) / deviations**2
    tilt = np.minimum(tilt, 0.4 * leads.limits[:, None])
    t = np.geomspace(0.01 / leads.deviations, 1000 / coarse, _NODES, axis=1)
    z = np.hstack([-2 * tilt, -tilt, -tilt + 1j * t])
    added, size = np.zeros((2, len(t))), np.tile(-tilt * means, _NODES + 1)
    for k, term in enumerate(terms):
        used = np.flatnonzero(weights[:, k])
        weight = weights[used, k, None]
        logs = term.log_mgf(weight * z[used]).real
        if k < len(phase.pulled):
            added[:, used] += extra * (logs[:, :2] + term.mean * weight * z[used, :2].real).T
            # What is known is that its modulus falls up to here.
            low, high = instance.laws[phase.pulled[k]].support
            falls = t[used] * np.abs(weight) * (high - low) <= math.pi * phase.pulls[k]
            logs[:, 2:] = np.where(falls, logs[:, 2:], logs[:, 1:2])
        size[used] += logs[:, 1:]
    # The larger of two neighbours bounds what is between.
    size = np.exp(np.hstack([size, size[:, -1:]]))
    steps = np.diff(t, prepend=0.0, append=3 * t[:, -1:])
    density = (steps * np.maximum(size[:, :-1], size[:, 1:])).sum(axis=1) / math.pi
    twice, once = added
    with np.errstate(over="ignore"):
        growth, rise = np.exp(np.maximum(once, 0.0)), np.expm1(once)
        spread = growth * np.sqrt(np.expm1(np.maximum(twice - 2 * once, 0.0)))
    return np.asarray(density * growth * (np.hypot(spread, rise) + rise) / 2 / tilt[:, 0])
