"""A lower bound on the privacy loss of any policy, from many runs on two neighbouring tables.

It needs no law and sets no limit on the size of the plans: an event is chosen on one half of the
runs, where it looks most telling, and its two probabilities are bounded on the other half. The
bound can only be too low: rare events, in which the loss is largest, are not seen often enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from dpbai import _check
from dpbai._check import FloatArray, IntArray, Seed
from dpbai.policies import Phase, Policy
from dpbai.policies.phase import arms_of, path_after, planned
from dpbai.privacy.exact_audit import Transcript

Run = Callable[[Policy, "RewardTable", int, np.random.Generator], Counter[Transcript]]
_Reached = tuple[Transcript, tuple[int, ...], tuple[Phase, ...], FloatArray]
"""A transcript so far, the pulls of each arm, and what is remembered: the phases and releases."""

RewardTable = Sequence[Sequence[float] | FloatArray] | FloatArray


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on epsilon, at a stated confidence.

    Attributes
    ----------
    epsilon : float
        The policy is not (e, delta)-private for any e below this, unless the runs fell out as they
        do with probability 1 - level or less.
    delta, level : float
        As asked for.
    event : frozenset of transcripts
        The event that was tested.
    hits : (int, int)
        How often it happened on the table that favours it, and on the other.
    runs : int
        Of how many runs on each.
    """

    epsilon: float
    delta: float
    level: float
    event: frozenset[Transcript]
    hits: tuple[int, int]
    runs: int


def monte_carlo_audit(
    policy: Policy,
    tables: tuple[RewardTable, RewardTable] | None = None,
    *,
    trials: int,
    delta: float = 0.0,
    level: float = 0.95,
    seed: Seed = 0,
    run: Run | None = None,
) -> LowerBound:
    """Return a lower bound on the epsilon of `policy`, from runs on two neighbouring tables.

    Parameters
    ----------
    policy : Policy
        Of any size.
    tables : pair of tables, optional
        Reward tables that differ in one reward, such as `Audit.tables`. Row i lists the rewards of
        arm i in the order of its pulls, as many as the policy may need. By default all rewards are
        0, but for the first reward of the last arm of phase 1: 1 in one of the tables.
    trials : int
        Runs on each table, at least 2. One half chooses the event, the other tests it.
    delta : float, default 0
        Bound the epsilon of (epsilon, delta)-privacy; in [0, 1).
    level : float, default 0.95
        Confidence that the bound is not too high, in (0, 1).
    seed : int, SeedSequence or Generator, default 0
        Source of randomness; the same seed gives the same result.
    run : callable, default `run_on_table`
        What executes the policy: `run(policy, table, trials, rng)` counts transcripts. Pass another
        engine to audit it rather than the plans.

    Returns
    -------
    LowerBound

    Raises
    ------
    ValueError
        If an argument is out of range, the tables are no neighbours, or a row is too short.

    Notes
    -----
    Both probabilities have Clopper-Pearson limits at confidence (1 + level) / 2, as in Jagielski,
    Ullman and Oprea (2020).
    """
    delta, level = _check.number(delta, "delta"), _check.proportion(level, "level")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta}")
    half = _check.trials(trials, least=2) // 2
    pair = _default_tables(policy) if tables is None else _checked_tables(policy, tables)
    rng, run = _check.generator(seed), run_on_table if run is None else run
    if not callable(run):
        raise TypeError(f"run must be callable, got {_check.told(run)}")
    chosen, tested = (
        [run(policy, table, runs, rng) for table in pair] for runs in (half, trials - half)
    )
    events = [_telling_event(chosen[k], chosen[1 - k], half, delta, level) for k in (0, 1)]
    favours = int(events[1][0] > events[0][0])
    event = events[favours][1]
    hits = tuple(sum(tested[k][output] for output in event) for k in (favours, 1 - favours))
    runs = trials - half
    epsilon = float(_log_ratio_bound(np.array(hits[0]), np.array(hits[1]), runs, delta, level))
    return LowerBound(max(0.0, epsilon), delta, level, event, (hits[0], hits[1]), runs)


def run_on_table(
    policy: Policy, table: RewardTable, trials: int, rng: np.random.Generator
) -> Counter[Transcript]:
    """Return how often each transcript came of so many runs on a fixed reward table.

    Raises
    ------
    ValueError
        If an arm is pulled more often than its row has rewards.
    """
    arms, trials = arms_of(policy), _check.trials(trials)
    _check.kind(rng, "rng", np.random.Generator)
    rows = [_check.vector(row, "table") for row in _check.sequence(table, "table")]
    if len(rows) != arms:
        raise ValueError(f"table must have a row for each of {arms} arms, got {len(rows)}")
    none, nothing = (0,) * arms, np.empty((trials, 0))
    reached: list[_Reached] = [((), none, (), nothing)]
    ended: Counter[Transcript] = Counter()
    while reached:
        transcript, pulled, past, before = reached.pop()
        active = transcript[-1] if transcript else tuple(range(arms))
        if len(active) == 1:
            ended[transcript] = len(before)
            continue
        index = len(transcript) + 1
        phase = planned(policy, index, active, spent=sum(pulled), past=past)
        means, after = _read(phase, rows, pulled)
        noise = phase.noise.sample(rng, (len(before), phase.coordinates))
        released = np.hstack([before, phase.statistic(means) + noise])
        survivors = phase.survivors(released, rng)
        path = path_after(policy, past, phase)
        known = released if path else before
        sets, where = np.unique(survivors, axis=0, return_inverse=True)
        for number, kept in enumerate(sets.tolist()):
            trial = where.ravel() == number
            reached.append(((*transcript, tuple(kept)), after, path, known[trial]))
    return ended


def _read(
    phase: Phase, rows: list[FloatArray], pulled: tuple[int, ...]
) -> tuple[FloatArray, tuple[int, ...]]:
    """Return the means of the next rewards of each pulled arm, and the pulls of all arms after."""
    after = list(pulled)
    means = np.empty(len(phase.pulled))
    for column, (arm, pulls) in enumerate(zip(phase.pulled, phase.pulls, strict=True)):
        rewards = rows[arm][pulled[arm] : pulled[arm] + pulls]
        if len(rewards) < pulls:
            raise ValueError(
                f"tables must have at least {pulled[arm] + pulls} rewards of arm {arm}, "
                f"got {len(rows[arm])}"
            )
        means[column] = rewards.mean()
        after[arm] += pulls
    return means, tuple(after)


def _default_tables(policy: Policy) -> tuple[RewardTable, RewardTable]:
    arms = arms_of(policy)
    pulled = planned(policy, 1, range(arms)).pulled
    nothing, once = np.zeros(policy.budget), np.zeros(policy.budget)
    once[0] = 1
    changed = pulled[-1] if pulled else 0
    return [nothing] * arms, [once if arm == changed else nothing for arm in range(arms)]


def _checked_tables(
    policy: Policy, tables: tuple[RewardTable, RewardTable]
) -> tuple[RewardTable, RewardTable]:
    """Return the tables, if they are neighbours; the message repeats no reward."""
    arms = arms_of(policy)
    first, second = ([np.asarray(row, dtype=np.float64) for row in table] for table in tables)
    if len(first) != arms or len(second) != arms:
        raise ValueError(f"tables must have one row for each of {arms} arms")
    if not all(np.isfinite(row).all() for row in (*first, *second)):
        raise ValueError("tables must hold finite rewards")
    if [row.shape for row in first] != [row.shape for row in second]:
        raise ValueError("tables must have rows of the same lengths")
    if sum(np.count_nonzero(a != b) for a, b in zip(first, second, strict=True)) != 1:
        raise ValueError("tables must differ in exactly one reward")
    return first, second


def _telling_event(
    likely: Counter[Transcript],
    other: Counter[Transcript],
    runs: int,
    delta: float,
    level: float,
) -> tuple[float, frozenset[Transcript]]:
    """Return the largest bound that an event attains on these counts, and the event.

    The outputs are taken in the order of their ratio, as many as give the largest bound.
    """
    outputs = sorted(likely, key=lambda output: (likely[output] + 0.5) / (other[output] + 0.5))
    outputs.reverse()
    first = np.cumsum([likely[output] for output in outputs])
    second = np.cumsum([other[output] for output in outputs])
    bounds = _log_ratio_bound(first, second, runs, delta, level)
    best = int(np.argmax(bounds))
    return float(bounds[best]), frozenset(outputs[: best + 1])


def _log_ratio_bound(
    first: IntArray, second: IntArray, runs: int, delta: float, level: float
) -> FloatArray:
    """Return a lower bound on log((P - delta) / P') from hits of so many runs each."""
    miss, beta = (1 - level) / 2, scipy.stats.beta
    low = np.where(first > 0, beta.ppf(miss, np.maximum(first, 1), runs - first + 1), 0.0)
    high = np.where(
        second < runs, beta.ppf(1 - miss, second + 1, np.maximum(runs - second, 1)), 1.0
    )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0)) - np.log(high))
