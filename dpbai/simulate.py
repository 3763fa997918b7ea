"""Monte Carlo: run a policy many times on an instance, at a cost that ignores the budget.

Policies see sums of rewards, and the reward laws offer exact sums, so a run of a billion pulls
costs what a run of a thousand does. Trials are exchangeable: what matters of them after a phase is
how many went on with which active set. So all trials that share an active set share one plan and
are one array operation; where a phase splits them over many active sets, the sums of each arm are
still drawn for all of them at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
import scipy

from dpbai import _check
from dpbai._check import FloatArray, IntArray, Seed
from dpbai._parallel import in_any_order
from dpbai.instance import Instance
from dpbai.policies import Phase, Policy
from dpbai.policies.phase import arms_of, planned

_BLOCK_ENTRIES = 2**17  # arrays of a megabyte, which stay in the cache

_PART = 10**6  # trials that share a seed

IntervalMethod = Literal["wilson", "wilsoncc", "exact"]
Batch = list[tuple[Phase, int]]


@dataclass(frozen=True, eq=False)
class Simulation:
    """What came of the trials of one policy on one instance.

    Attributes
    ----------
    recommended : ndarray of int, shape (K,)
        How many trials recommended each arm.
    best : int
        The arm that is truly the best.
    pulls : int
        The largest number of pulls of any trial.
    epsilon, delta : float
        The largest privacy loss of one reward in any phase that a trial came to, computed from the
        plans and from how far the rewards of the instance reach; no reward is used in two phases.
    """

    recommended: IntArray
    best: int
    pulls: int
    epsilon: float
    delta: float

    @property
    def trials(self) -> int:
        """How many trials were run."""
        return int(self.recommended.sum())

    @property
    def successes(self) -> int:
        """How many trials recommended the best arm."""
        return int(self.recommended[self.best])

    @property
    def success_rate(self) -> float:
        """Share of trials that recommended the best arm."""
        return self.successes / self.trials

    def interval(
        self, level: float = 0.95, *, method: IntervalMethod = "wilson"
    ) -> tuple[float, float]:
        """Return a confidence interval of the success probability.

        Parameters
        ----------
        level : float, default 0.95
            Confidence, in (0, 1).
        method : {"wilson", "wilsoncc", "exact"}
            As in `scipy.stats.binomtest`; "exact" is Clopper and Pearson's.

        Raises
        ------
        ValueError
            If `level` lies outside (0, 1) or `method` is none of these.
        """
        _check.proportion(level, "level")
        _check.choice(method, "method", get_args(IntervalMethod))
        test = scipy.stats.binomtest(self.successes, self.trials)
        low, high = test.proportion_ci(level, method=method)
        return float(low), float(high)


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
        Its features may differ from those of the instance (a policy with a wrong model), but not
        their number.
    instance : Instance
        Where rewards come from.
    trials : int
        Number of independent runs, at least 1.
    seed : int, SeedSequence or Generator, default 0
        Source of randomness; the same seed gives the same result.
    executor : concurrent.futures.Executor, optional
        More than a million trials are run in parts of a million, each with a seed of its own. This
        runs the parts, in any number of workers; the result is the same without it. A part whose
        worker died is run again in this process, with the same seed, and a `RuntimeWarning`.

    Returns
    -------
    Simulation

    Raises
    ------
    ValueError
        If `trials` is below 1, policy and instance differ in the number of arms, or a plan is not
        the one asked for or overspends.
    """
    trials = _check.whole(trials, "trials")
    arms = arms_of(policy)
    if arms != _check.kind(instance, "instance", Instance).arms:
        raise ValueError(f"policy and instance must have as many arms, got {arms}, {instance.arms}")
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
        best=instance.best,
        pulls=max(part.pulls for part in parts),
        epsilon=max(part.epsilon for part in parts),
        delta=max(part.delta for part in parts),
    )


def _simulated(policy: Policy, instance: Instance, trials: int, seed: Seed) -> Simulation:
    arms = instance.arms
    rng = _check.generator(seed)
    # How many trials reached each active set, and the most pulls of any of them on the way.
    reached = Counter({tuple(range(arms)): trials})
    spent = {tuple(range(arms)): 0}
    index, epsilon, delta = 0, 0.0, 0.0
    while any(len(active) > 1 for active in reached):
        index += 1
        plans = [
            (planned(policy, index, active, spent=spent[active]), count)
            for active, count in reached.items()
        ]
        epsilon = max(epsilon, *(phase.loss(instance.reward_bound) for phase, _ in plans))
        delta = max(delta, *(phase.noise.delta for phase, _ in plans))
        before, reached, spent = spent, Counter(), {}
        for batch in _batches(plans):
            for phase, survivors, counts in _run(batch, instance, rng):
                pulls = before[phase.active] + phase.cost
                for active, count in zip(map(tuple, survivors.tolist()), counts, strict=True):
                    reached[active] += int(count)
                    spent[active] = max(spent.get(active, 0), pulls)
    recommended = np.zeros(arms, dtype=np.int64)
    for (arm,), count in reached.items():
        recommended[arm] = count
    return Simulation(recommended, instance.best, max(spent.values()), epsilon, delta)


def _batches(plans: Batch) -> Iterator[Batch]:
    """Split plans, and the trials of one plan, into batches of bounded size."""
    batch: Batch = []
    room = _BLOCK_ENTRIES
    for phase, count in plans:
        width = max(1, len(phase.active), len(phase.pulled))
        while count:
            part = min(count, max(1, room // width))
            batch.append((phase, part))
            count -= part
            room -= part * width
            if room < width:
                yield batch
                batch, room = [], _BLOCK_ENTRIES
    if batch:
        yield batch


def _run(
    batch: Batch, instance: Instance, rng: np.random.Generator
) -> Iterator[tuple[Phase, IntArray, IntArray]]:
    """Yield each plan of the batch with the distinct surviving sets and their counts."""
    means = _empirical_means(batch, instance, rng)
    for (phase, count), mean in zip(batch, means, strict=True):
        noise = phase.noise.sample(rng, (count, phase.coordinates))
        survivors = phase.survivors(phase.statistic(mean) + noise, rng)
        if phase.keep == 1:
            tally = np.bincount(survivors[:, 0], minlength=instance.arms)
            arms = np.flatnonzero(tally)
            yield phase, arms[:, None], tally[arms]
        else:
            yield phase, *np.unique(survivors, axis=0, return_counts=True)


def _empirical_means(
    batch: Batch, instance: Instance, rng: np.random.Generator
) -> list[FloatArray]:
    """Draw the empirical means of all plans, all sums of one arm and one count at a time."""
    needed: Counter[tuple[int, int]] = Counter()
    for phase, count in batch:
        for key in zip(phase.pulled, phase.pulls, strict=True):
            needed[key] += count
    drawn = {
        (arm, pulls): instance.laws[arm].sums(pulls, count, rng) / pulls
        for (arm, pulls), count in needed.items()
    }
    used: Counter[tuple[int, int]] = Counter()
    means = []
    for phase, count in batch:
        mean = np.empty((count, len(phase.pulled)))
        for column, key in enumerate(zip(phase.pulled, phase.pulls, strict=True)):
            mean[:, column] = drawn[key][used[key] : used[key] + count]
            used[key] += count
        means.append(mean)
    return means
