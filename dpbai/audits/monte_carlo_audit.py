"""A lower bound on the privacy loss of any policy, from many runs on two neighbouring tables.

One half of the runs chooses an event, and the other half bounds its probabilities on the two
tables. No exact law is needed, and plans may be of any size. Bounds are often well below the loss,
because the events with the largest loss may be too rare to be observed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray, IntArray, Seed
from dpbai.audits.pull import RewardTable, rows_of
from dpbai.phase import Policy, remembers
from dpbai.plans import Stage, Transcript, arms_of
from dpbai.ranking import sorted_rows
from dpbai.simulate import clopper_pearson

Run = Callable[[Policy, RewardTable, int, np.random.Generator], Counter[Transcript]]
Pair = tuple[RewardTable, RewardTable]


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on epsilon; for any smaller one, the policy is not (epsilon, delta)-private.

    Attributes
    ----------
    epsilon, delta, level : float
        The bound, the delta for which it holds, and its confidence level.
    event : frozenset of transcripts
        The event that was tested.
    hits : (int, int)
        How often it occurred on the table on which it is more likely, and on the other one.
    runs : int
        The number of runs on each table that tested it.
    """

    epsilon: float
    delta: float
    level: float
    event: frozenset[Transcript] = field(repr=False)  # may be very large
    hits: tuple[int, int]
    runs: int


def monte_carlo_audit(
    policy: Policy,
    tables: Pair | None = None,
    *,
    trials: int,
    delta: float = 0.0,
    level: float = 0.95,
    seed: Seed = 0,
    run: Run | None = None,
) -> LowerBound:
    """Return a lower bound on the epsilon of `policy`, from runs on two neighbouring tables.

    It is log((P - delta) / P') with Clopper-Pearson limits for the probabilities P and P' of an
    event, each with confidence (1 + level) / 2, as in Jagielski, Ullman and Oprea (2020).

    Parameters
    ----------
    policy : Policy
        A policy of any size.
    tables : pair of tables, optional
        Reward tables that differ in one reward, such as `Audit.tables`. Row i lists the rewards of
        arm i in the order of its pulls. By default all rewards are 0, except that on one of the
        tables the first reward of the last arm pulled in phase 1 is 1.
    trials : int
        The number of runs on each table, at least 2. One half of them chooses the event, and the
        other half tests it.
    delta : float, default 0
        The delta of (epsilon, delta)-privacy, in [0, 1).
    level : float, default 0.95
        The confidence level of the bound, in (0, 1).
    seed : int, SeedSequence or Generator, default 0
        The source of randomness; the same seed gives the same result.
    run : callable, default `run_on_table`
        The engine to audit: `run(policy, table, trials, rng)` returns a counter of transcripts.

    Raises
    ------
    ValueError
        If an argument is out of range, the tables are not neighbours, or a row is too short.
    """
    delta, level = _check.number(delta, "delta", "[0, 1)"), _check.proportion(level, "level")
    half = _check.trials(trials, least=2) // 2
    pair = _default_tables(policy) if tables is None else _checked_tables(policy, tables)
    rng, run = _check.generator(seed), run_on_table if run is None else run
    if not callable(run):
        raise TypeError(f"run must be callable, got {_check.quoted(run)}")
    chosen, tested = (
        [run(policy, table, runs, rng) for table in pair] for runs in (half, trials - half)
    )
    events = [_best_event(chosen[k], chosen[1 - k], half, delta, level) for k in (0, 1)]
    first = int(events[1][0] > events[0][0])
    event, runs = events[first][1], trials - half
    likely, other = (sum(tested[k][kept] for kept in event) for k in (first, 1 - first))
    epsilon = _log_ratio_bound(np.array(likely), np.array(other), runs, delta, level)
    return LowerBound(max(0.0, float(epsilon)), delta, level, event, (likely, other), runs)


def run_on_table(
    policy: Policy, table: RewardTable, trials: int, rng: np.random.Generator
) -> Counter[Transcript]:
    """Return how often each transcript occurred in the runs on a fixed reward table."""
    _check.kind(rng, "rng", np.random.Generator)
    first = Stage.first(policy)
    rows, trials = rows_of(table, len(first.active)), _check.trials(trials)
    # The trials that have reached a stage: their releases, which are empty if not remembered.
    reached = [(first, np.empty((trials, 0)))]
    ended: Counter[Transcript] = Counter()
    while reached:
        stage, earlier = reached.pop()
        if len(stage.active) == 1:
            ended[stage.transcript] = len(earlier)
            continue
        phase, means = stage.phase, []
        for arm, start, stop in stage.reads[-1]:
            if len(rows[arm]) < stop:
                raise ValueError(
                    f"tables must have at least {stop} rewards of arm {arm}, got {len(rows[arm])}"
                )
            means.append(rows[arm][start:stop].mean())
        noise = phase.noise.sample(rng, (len(earlier), phase.coordinates))
        released = np.hstack([earlier, phase.statistic(np.array(means)) + noise])
        survivors = phase.survivors(released, rng)
        order, begins = sorted_rows(survivors)
        for here in np.split(order, np.flatnonzero(begins)[1:]):
            kept = tuple(survivors[here[0]].tolist())
            reached.append((stage.then(kept), (released if remembers(policy) else earlier)[here]))
    return ended


def _default_tables(policy: Policy) -> Pair:
    first = Stage.first(policy)
    nothing, once = np.zeros(policy.budget), np.zeros(policy.budget)
    once[0] = 1
    tables = [nothing] * len(first.active), [nothing] * len(first.active)
    tables[1][max(first.phase.pulled, default=0)] = once
    return tables


def _checked_tables(policy: Policy, tables: Pair) -> Pair:
    """Return the tables if they are neighbours; error messages contain no reward."""
    arms, pair = arms_of(policy), _check.sequence(tables, "tables")
    if len(pair) != 2:
        raise ValueError(f"tables must be a pair of tables of rewards, got {len(pair)}")
    first, second = (rows_of(table, arms) for table in pair)
    if [row.shape for row in first] != [row.shape for row in second]:
        raise ValueError("tables must have rows of the same lengths")
    if sum(np.count_nonzero(a != b) for a, b in zip(first, second, strict=True)) != 1:
        raise ValueError("tables must differ in exactly one reward")
    return first, second


def _best_event(
    likely: Counter[Transcript], other: Counter[Transcript], runs: int, delta: float, level: float
) -> tuple[float, frozenset[Transcript]]:
    """Return the largest bound that an event attains with these counts, and the event.

    An event consists of the outputs with the largest ratios of counts.
    """
    outputs = sorted(likely, key=lambda output: (likely[output] + 0.5) / (other[output] + 0.5))
    outputs.reverse()
    first, second = (np.cumsum([hits[output] for output in outputs]) for hits in (likely, other))
    bounds = _log_ratio_bound(first, second, runs, delta, level)
    best = int(np.argmax(bounds))
    return float(bounds[best]), frozenset(outputs[: best + 1])


def _log_ratio_bound(
    first: IntArray, second: IntArray, runs: int, delta: float, level: float
) -> FloatArray:
    """Return a lower bound on log((P - delta) / P') from the hits in `runs` runs on each table."""
    risk = (1 - level) / 2
    low, high = clopper_pearson(first, runs, risk)[0], clopper_pearson(second, runs, risk)[1]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0)) - np.log(high))
