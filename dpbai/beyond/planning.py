"""The smallest budget, or epsilon, at which a policy's error probability meets a target.

Budgets that lead to the same first plan have the same verdict, and few plans are distinct. Success
is not monotone in the budget, because pulls are rounded and sums lie on lattices. So if
`exact_error` can compute the error probability, all smaller plans are checked too, many at a time.
Otherwise bounds on the error probability decide, or else simulations.
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

_LEAST_EPSILON, _STEP = 1e-6, 1e-3  # smallest epsilon of a search, and its relative steps
_FIRST_TRIALS = 100  # of the first simulation at one budget
# Relative tolerances of exact probabilities, each used if the one before cannot decide.
_TOLERANCES = (1e-4, 1e-6, 1e-9)
_COARSE = 1e-2  # relative tolerance of bounds on probabilities
_GROWTH = 4  # factor by which the budget rises until it is enough
_COARSEST = 1 / 8  # largest relative distance of the two budgets that are returned
_PLANS_KEPT = 2**12  # size of a cache
_NODES = 200  # points of a numerical integral
_MANY_PULLS = 2**16  # with more, bounds are faster than exact probabilities

Verdict = Literal["enough", "too few", "undecided"]
_Plan = tuple[Policy, Phase, object]
"""A policy, its first plan, and a key that is the same for equal plans."""


class SearchError(ValueError):
    """No value in the range of a search meets the target."""


@dataclass(frozen=True)
class SmallestBudget:
    """A budget at which a policy's error probability meets a target, and one that is too small.

    Attributes
    ----------
    budget : int
        A budget at which the policy's error probability is at most the target. If exact
        probabilities decided, it is the smallest such budget.
    too_small : int
        The largest smaller budget that was found not to be enough, because the error probability
        exceeds the target or the policy does not accept the budget; 0 if none was found. If exact
        probabilities decided, it is `budget` - 1, and no smaller budget is enough either. If
        simulations decided, it can be less.
    confidence : float
        Probability that these statements hold: 1 if no simulation was needed, otherwise the
        requested confidence.
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
    """Find the smallest budget T at which a policy's error probability is at most `error`.

    Parameters
    ----------
    make_policy : callable
        `make_policy(budget)` returns the policy with that budget. It raises `ValueError` if the
        budget is too small.
    instance : Instance
        The source of rewards.
    error : float, default 0.05
        The target, in (0, 1).
    within : float, default 0
        An answer whose mean is at most this much below the best counts as right. If it is positive,
        simulations decide, since exact probabilities are available only for the best arm.
    largest : int, default 10**9
        The largest budget to try.
    confidence : float, default 0.99
        Joint confidence of all decisions by simulation, in (0, 1).
    trials : int, default 100000
        The largest number of trials for one budget. With more, the two budgets returned are closer.
    seed : int, SeedSequence or Generator, default 0
        Source of randomness of the simulations.
    progress : bool, default False
        Show the number of plans computed so far on stderr.

    Returns
    -------
    SmallestBudget

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong type or out of range.
    SearchError
        If `largest` is not enough. It is a `ValueError` too, and the policy's own exception is its
        cause if the policy did not accept that budget.

    Notes
    -----
    The budget is multiplied by four until it is enough, and then the last interval is bisected. If
    probabilities are exact, all smaller budgets are checked as well, since rounding of pulls and
    the lattice of sums can increase the error probability from one budget to the next. The result
    is then the smallest budget of all. This assumes that a larger budget never leads to fewer
    pulls, which holds for every policy of this library. If a policy is found to violate it, every
    budget is tried.

    Plans that pull all arms equally often and are otherwise the same can be excluded many at a
    time. A plan with k fewer pulls of each arm errs at least as often, except for the probability
    that just these pulls turn a right answer into a wrong one. Let D be the lead of the best arm
    over a rival, and S the contribution of the k pulls. Then this probability is P(0 < D <= -S),
    which is at most E max(-S, 0) times the largest density of D. The density is at most the
    integral of the modulus of its transform along a line through the saddle point, so that the
    bound is small if the probability is.

    If probabilities are not exact, budgets below `too_small` are not tried. A few trials decide
    budgets that are far from the target. Then `error_bounds` decides with certainty if it can,
    until more trials have once decided where it could not. Increasingly many trials decide the
    rest. Each time, a Clopper-Pearson bound is compared with the target, and the k-th comparison in
    all may be wrong with probability (1 - confidence) / (k (k + 1)). The search ends when the two
    budgets differ by half of the relative standard error of `trials` trials at the target, since
    most budgets in between would stay undecided.
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
    """An epsilon at which a policy's error probability meets a target, and one too small.

    Attributes
    ----------
    epsilon : float
        An epsilon at which the policy's error probability is at most the target.
    too_small : float
        The largest smaller epsilon that was found not to be enough; 0 if none was found.
    confidence : float
        Probability that these statements hold: 1 if no simulation was needed, otherwise the
        requested confidence.
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
    """Find the smallest epsilon at which a policy's error probability is at most `error`.

    Parameters
    ----------
    make_policy : callable
        `make_policy(epsilon)` returns the policy at that epsilon, for instance with a fixed budget.
        It raises `ValueError` if the epsilon is too small.
    instance : Instance
        The source of rewards.
    error, within, confidence, trials, seed, progress
        As in `smallest_budget`.
    largest : float, default 10**6
        The largest epsilon to try.

    Returns
    -------
    SmallestEpsilon

    Raises
    ------
    TypeError, ValueError
        If an argument is of a wrong type or out of range.
    SearchError
        If `largest` is not enough, so that a larger budget is needed. It is a `ValueError` too.

    Notes
    -----
    The search is that of `smallest_budget`, over epsilons from 1e-6 on in steps of 0.1 %. Success
    need not increase with epsilon, since a policy may choose another plan, and noise can break ties
    of sums in its favour. So an epsilon below `too_small`, which was not tried, may be enough too.
    The statements about `epsilon` and `too_small` themselves hold.
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
    """A policy whose latest plans are cached, for repeated simulations."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.phase = policy, lru_cache(_PLANS_KEPT)(policy.phase)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)


class _Judge:
    """Decides whether budgets, or other parameters, are enough, and stores the verdicts.

    The parameters are `at(1)`, `at(2)`, ...; the methods take the arguments 1, 2, ..., and call
    them budgets. The other arguments are those of `smallest_budget`; they are checked here.
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
        self.comparisons, self.bounds_decide = 0, True
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
        """Return a budget that is enough, by raising it and bisecting the last interval."""
        low, high = 0, 1
        while self(high) != "enough":
            if high == largest:
                goal = f"error probability at most {self.target:.10g}"
                raise SearchError(f"largest must be {needed.format(goal)}") from self.refusal
            low, high = high, min(_GROWTH * high, largest)
        return self.bisected(low, high, {"enough"})[1]

    def too_small(self, enough: int) -> int:
        """Return the largest budget below `enough` that is found to be too small."""
        if enough not in self.simulated and self(enough - 1) == "too few":
            return enough - 1
        few = (budget for budget, verdict in self.verdicts.items() if verdict == "too few")
        low = max(budget for budget in few if budget < enough)
        return self.bisected(low, enough, {"enough", "undecided"})[0]

    def bisected(self, low: int, high: int, above: set[Verdict]) -> tuple[int, int]:
        """Return adjacent budgets of low..high such that the verdict on the upper is in `above`.

        If simulations decide, the two need not be adjacent.
        """
        while high - low > max(1, self.coarse(high) if self.simulated & {low, high} else 1):
            middle = (low + high) // 2
            low, high = (low, middle) if self(middle) in above else (middle, high)
        return low, high

    def _decide(self, budget: int) -> Verdict:
        plan = self._plan(budget)
        if plan is None or self._excluded_by_bounds(plan):
            return "too few"
        exact = self.exact(budget)
        if exact is not None:
            return "enough" if exact[0] <= self.target else "too few"
        policy, verdict = _Planned(plan[0]), self._verdict(0.0, 1.0)
        errors = done = 0
        while verdict == "undecided" and done < self.trials:
            more = min(max(_FIRST_TRIALS, 3 * done), self.trials - done)
            (seed,) = self.seeds.spawn(1)
            result = simulate(policy, self.instance, trials=more, seed=seed)
            errors, done = errors + more - round(result.within(self.within) * more), done + more
            self.comparisons += 1
            verdict = self._simulated_verdict(errors, done)
            if verdict != "undecided":
                self.bounds_decide &= done == more
            # A few trials cost less than bounds, and bounds cost less than many trials. Bounds do
            # not include answers that count as right because of `within`.
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
                break  # even all trials would probably not decide
        self.simulated.add(budget)
        return verdict

    def _excluded_by_bounds(self, plan: _Plan) -> bool:
        """Return whether bounds show that a plan with many pulls is not enough.

        Exact probabilities would show the same, but slowly: with 10**9 pulls, each takes minutes.
        If there are none, as with `within`, simulations decide.
        """
        policy, phase, same = plan
        exact = any(error is not None for error in self.errors.values())
        if phase.cost < _MANY_PULLS or phase.keep > 1 or not exact or same in self.errors:
            return False
        with suppress(NotExactError):
            return error_bounds(policy, self.instance, rtol=_COARSE).low > self.target
        return False

    def _simulated_verdict(self, errors: int, trials: int) -> Verdict:
        """Return the verdict of a simulation, at the risk allotted to the latest comparison."""
        risk = self.risk / (self.comparisons * (self.comparisons + 1))
        return self._verdict(*binomial_interval(errors, trials, risk, "exact"))

    def _verdict(self, low: float, high: float) -> Verdict:
        if high <= self.target:
            return "enough"
        return "too few" if low > self.target else "undecided"

    def _plan(self, budget: int) -> _Plan | None:
        """Return the policy and its first plan, or None if it does not accept the budget."""
        if budget not in self.plans:
            self.bar.update()
            self.bar.set_description(f"at {self.at(budget):.6g}")
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
        """Return the exact error probability and its tolerance, or None; cached for each plan."""
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
        """Return the smallest budget that is enough, given one with an exact probability."""
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
    """Return the weights of sums of rewards and of standard noise in estimates, times the pulls."""
    noise = phase.noise.standard_deviation * max(phase.pulls, default=0)
    return np.hstack([phase.decoder @ phase.release, noise * phase.decoder])


def _gain(first: Phase, last: Phase, instance: Instance) -> float:
    """Bound by how much less often a plan between two can err than the last one.

    See Notes of `smallest_budget`. The bound is infinite without noise, and if the plans differ in
    more than the number of pulls of each arm.
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
    """Bound the probabilities that up to `extra` times as many pulls reduce leads D below 0.

    A bound is the largest density of D, tilted by exp(-tilt D), times a bound on the mean of
    max(exp(-tilt S) - 1, 0) / tilt, where S is the contribution of the pulls. Without a tilt the
    latter is max(-S, 0).
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
            # The modulus is known to decrease only up to here.
            low, high = instance.laws[phase.pulled[k]].support
            falls = t[used] * np.abs(weight) * (high - low) <= math.pi * phase.pulls[k]
            logs[:, 2:] = np.where(falls, logs[:, 2:], logs[:, 1:2])
        size[used] += logs[:, 1:]
    # The larger of two neighbouring values bounds those in between.
    size = np.exp(np.hstack([size, size[:, -1:]]))
    steps = np.diff(t, prepend=0.0, append=3 * t[:, -1:])
    density = (steps * np.maximum(size[:, :-1], size[:, 1:])).sum(axis=1) / math.pi
    twice, once = added
    with np.errstate(over="ignore"):
        growth, rise = np.exp(np.maximum(once, 0.0)), np.expm1(once)
        spread = growth * np.sqrt(np.expm1(np.maximum(twice - 2 * once, 0.0)))
    return np.asarray(density * growth * (np.hypot(spread, rise) + rise) / 2 / tilt[:, 0])
