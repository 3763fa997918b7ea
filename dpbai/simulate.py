"""Monte Carlo simulation of a policy on an instance, at a cost independent of the budget.

Policies use sums of rewards, which the reward laws draw exactly. Trials with the same active set
share a plan and are executed as one array operation. If a phase splits the trials over many active
sets, the sums of each arm are drawn for all of them at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Literal, get_args

import numpy as np
from scipy import special  # scipy.stats has the intervals, but is slow to import

from dpbai import _check
from dpbai._check import FloatArray, IntArray, Seed
from dpbai._parallel import in_any_order
from dpbai._threads import one_thread
from dpbai.instance import Instance
from dpbai.noise import Noise
from dpbai.phase import Phase, Policy, remembers
from dpbai.plans import Stage
from dpbai.ranking import sorted_rows

_BLOCK_ENTRIES = 2**17  # a megabyte, to fit the cache
_ROUNDING = 1e-12  # of a gap that equals a tolerance
_PART = 10**6  # trials that share a seed

IntervalMethod = Literal["wilson", "exact"]
Group = tuple[Stage, FloatArray]
"""A stage, and the releases of its trials that will be decoded, shape (trials, coordinates)."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """The outcomes of the trials of one policy on one instance.

    Attributes
    ----------
    recommended : ndarray of int, shape (K,)
        How many trials recommended each arm.
    gaps : ndarray of shape (K,)
        The largest true mean minus that of each arm.
    pulls : int
        The largest number of pulls of any trial.
    epsilon, delta : float
        The largest privacy loss of one reward in any phase that a trial executed, computed from the
        plans and the bound on rewards.
    """

    recommended: IntArray
    gaps: FloatArray
    pulls: int
    epsilon: float
    delta: float

    @property
    def trials(self) -> int:
        """The number of trials."""
        return int(self.recommended.sum())

    @property
    def successes(self) -> int:
        """The number of trials that recommended the best arm, or one of several best arms."""
        return int(self.recommended[self.gaps == 0].sum())

    @property
    def success_rate(self) -> float:
        """Share of trials that recommended the best arm."""
        return self.successes / self.trials

    @property
    def regret(self) -> float:
        """Simple regret: the mean of the gaps of the recommended arms."""
        return float(self.recommended @ self.gaps) / self.trials

    def within(self, tolerance: float) -> float:
        """Return the share of trials that recommended an arm at most `tolerance` below the best."""
        near = self.gaps <= _check.non_negative(tolerance, "tolerance") + _ROUNDING
        return int(self.recommended[near].sum()) / self.trials

    def interval(
        self, level: float = 0.95, *, method: IntervalMethod = "wilson", within: float = 0.0
    ) -> tuple[float, float]:
        """Return a confidence interval for the success probability.

        Parameters
        ----------
        level : float, default 0.95
            Confidence, in (0, 1).
        method : {"wilson", "exact"}
            Wilson's, or that of Clopper and Pearson, whose coverage is at least `level`.
        within : float, default 0
            The largest gap of a recommended arm that counts as a success.
        """
        level = _check.proportion(level, "level")
        _check.non_negative(within, "within")
        _check.one_of(method, "method", get_args(IntervalMethod))
        near = round(self.within(within) * self.trials)
        return binomial_interval(near, self.trials, (1 - level) / 2, method)


def binomial_interval(
    successes: int, trials: int, risk: float, method: IntervalMethod
) -> tuple[float, float]:
    """Return a confidence interval for a probability, with error probability `risk` per side."""
    if method == "exact":
        low, high = clopper_pearson(successes, trials, risk)
        return float(low), float(high)
    failures, z = trials - successes, -float(special.ndtri(risk))
    centre = (successes + z**2 / 2) / (trials + z**2)
    half = z * math.sqrt(successes * failures / trials + z**2 / 4) / (trials + z**2)
    return centre - half if successes else 0.0, centre + half if failures else 1.0


def clopper_pearson(
    successes: int | IntArray, trials: int, risk: float
) -> tuple[FloatArray, FloatArray]:
    """Return the limits of Clopper and Pearson, each of which is wrong with probability `risk`."""
    hits, misses = np.asarray(successes), trials - np.asarray(successes)
    low = special.betaincinv(np.maximum(hits, 1), misses + 1, risk)
    high = special.betainccinv(hits + 1, np.maximum(misses, 1), risk)
    return np.where(hits > 0, low, 0.0), np.where(misses > 0, high, 1.0)


def simulate(
    policy: Policy,
    instance: Instance,
    *,
    trials: int,
    seed: Seed = 0,
    executor: Executor | None = None,
) -> Simulation:
    """Run `policy` on `instance` many times.

    Parameters
    ----------
    policy : Policy
        It must have as many arms as the instance, but its features may differ (a wrong model).
    instance : Instance
        Generates the rewards.
    trials : int
        Number of independent runs, at least 1.
    seed : int, SeedSequence or Generator, default 0
        Source of randomness; the same seed gives the same result.
    executor : concurrent.futures.Executor, optional
        Runs parts of a million trials, each with its own seed, so the result is the same without
        it. A part whose worker dies is run again in this process, with a `RuntimeWarning`.

    Raises
    ------
    ValueError
        If `trials` is below 1, policy and instance differ in the number of arms, or a plan is
        for another phase or exceeds the budget.
    """
    trials = _check.trials(trials)
    Stage.on(policy, instance)
    if executor is not None:
        _check.kind(executor, "executor", Executor)
    if trials <= _PART:
        return _simulated(policy, instance, trials, seed)
    sizes = [min(_PART, trials - done) for done in range(0, trials, _PART)]
    seeds = _check.seed_sequence(seed).spawn(len(sizes))
    calls = [
        partial(_simulated, policy, instance, size, child)
        for size, child in zip(sizes, seeds, strict=True)
    ]
    parts = [part for _, part in in_any_order(calls, executor)]
    return Simulation(
        recommended=np.sum([part.recommended for part in parts], axis=0),
        gaps=instance.gaps,
        pulls=max(part.pulls for part in parts),
        epsilon=max(part.epsilon for part in parts),
        delta=max(part.delta for part in parts),
    )


@one_thread
def _simulated(policy: Policy, instance: Instance, trials: int, seed: Seed) -> Simulation:
    rng = _check.generator(seed)
    first = Stage.first(policy)
    reached: dict[object, list[Group]] = {first.key: [(first, np.empty((trials, 0)))]}
    recommended = np.zeros(instance.arms, dtype=np.int64)
    pulls, epsilon, delta = 0, 0.0, 0.0
    previous: tuple[Noise, tuple[int, ...]] | None = None
    while reached:
        groups: list[Group] = []
        for parts in reached.values():  # all parts share a plan
            stage = max((stage for stage, _ in parts), key=lambda stage: stage.spent)
            pulls = max(pulls, stage.spent)
            if len(stage.active) == 1:
                recommended[stage.active[0]] += sum(len(released) for _, released in parts)
                continue
            groups.append((stage, np.concatenate([released for _, released in parts])))
            phase = stage.phase
            if phase.release_matrix is not None or previous != (phase.noise, phase.pulls):
                previous = phase.noise, phase.pulls  # most plans of a phase have the same loss
                epsilon = max(epsilon, phase.loss(instance.reward_bound))
                delta = max(delta, phase.delta)
        reached = {}
        for batch in _batches(groups):
            for stage, released in _run(batch, instance, rng):
                reached.setdefault(stage.key, []).append((stage, released))
    return Simulation(recommended, instance.gaps, pulls, epsilon, delta)


def _batches(groups: list[Group]) -> Iterator[list[Group]]:
    """Split groups, and the trials of one group, into batches of bounded size."""
    batch: list[Group] = []
    room = _BLOCK_ENTRIES
    for stage, released in groups:
        phase = stage.phase
        width = max(1, len(phase.active), len(phase.pulled), phase.remembered)
        while len(released):
            part = max(1, room // width)
            batch.append((stage, released[:part]))
            room -= len(released[:part]) * width
            released = released[part:]
            if room < width:
                yield batch
                batch, room = [], _BLOCK_ENTRIES
    if batch:
        yield batch


def _run(batch: list[Group], instance: Instance, rng: np.random.Generator) -> Iterator[Group]:
    """Execute the phases of groups, and yield the groups that follow.

    Groups whose plans differ in the labels of arms only are executed as one.
    """
    plans = [(stage.phase, len(released)) for stage, released in batch]
    means_of = zip(batch, _empirical_means(plans, instance, rng), strict=True)
    executed = ((stage, released, means) for (stage, released), means in means_of)
    for _, alike in groupby(executed, key=lambda group: _unlabelled(group[0].phase)):
        stages, earlier, means = zip(*alike, strict=True)
        phase, trials, several = stages[0].phase, list(map(len, earlier)), len(stages) > 1
        noise = phase.noise.sample(rng, (sum(trials), phase.coordinates))
        released = phase.statistic(np.concatenate(means) if several else means[0]) + noise
        if phase.remembered:
            released = np.hstack([earlier[0], released])
        if phase.keep == 1 and not several:
            times = phase.survivals(released, rng).tolist()
            for arm, count in zip(phase.active, times, strict=True):
                if count:
                    yield stages[0].then((arm,)), np.empty((count, 0))
            continue
        survivors = phase.survivors(released, rng)
        if several:  # translate positions to the active set of each stage
            owners = np.repeat(np.arange(len(stages)), trials)[:, None]
            active = np.array([stage.active for stage in stages])
            places = np.searchsorted(phase.active, survivors)
            survivors = np.hstack([owners, active[owners, places]])
        if not remembers(stages[0].policy):
            released = released[:, :0]
        order, begins = sorted_rows(survivors)
        starts = np.flatnonzero(begins)
        ends = [*starts[1:].tolist(), len(order)]
        for row, start, end in zip(survivors[order[starts]].tolist(), starts, ends, strict=True):
            stage = stages[row.pop(0) if several else 0]
            yield stage.then(tuple(row)), released[order[start:end]]


def _unlabelled(phase: Phase) -> object:
    """Return a key that is the same for plans that differ in the labels of arms only."""
    if phase.release_matrix is None and phase.decoder_matrix is None:
        return phase.noise, phase.coordinates, phase.keep
    return id(phase)


def _empirical_means(
    plans: list[tuple[Phase, int]], instance: Instance, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Draw the empirical means for all plans; sums of the same arm and count are drawn at once."""
    needed: Counter[tuple[int, int]] = Counter()
    for phase, count in plans:
        for key in zip(phase.pulled, phase.pulls, strict=True):
            needed[key] += count
    means = {
        (arm, pulls): instance.laws[arm].sums(pulls, count, rng) / pulls
        for (arm, pulls), count in needed.items()
    }
    used = dict.fromkeys(needed, 0)
    for phase, count in plans:
        rows = []
        for key in zip(phase.pulled, phase.pulls, strict=True):
            used[key] += count
            rows.append(means[key][used[key] - count : used[key]])
        yield np.array(rows).reshape(-1, count).T
