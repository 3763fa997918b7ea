"""The exact audit of policies that choose each pull separately, including elimination policies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.audits.audit import Audit, TableGrid, check_grid, check_work
from dpbai.audits.pull import History, Output, PullPolicy, output_law
from dpbai.audits.survivors import log_survival
from dpbai.phase import Policy
from dpbai.plans import Stage, arms_of

_HISTORY = 200.0  # the cost of a history, in computed numbers


def pull_audit(
    policy: PullPolicy, *, neighbours: str = "reward", time_indexed: bool = False
) -> Audit:
    """Return the exact audit of a policy that chooses each pull, on all tables of zeros and ones.

    Parameters
    ----------
    policy : PullPolicy
        A policy for a tiny budget: for K arms and T pulls there are 2^(K T) tables and up to
        K^(T+1) outputs.
    neighbours : {"reward", "column"}
        Whether neighbouring tables differ in one reward (Definition 2.1), or in the rewards of all
        arms at one index (table-DP).
    time_indexed : bool, default False
        Whether to audit the dual decision maker D(policy), to which the table gives the reward at
        time t instead of that of the n-th pull of an arm.
    """
    _check.kind(policy, "policy", PullPolicy)
    _check.one_of(neighbours, "neighbours", ("reward", "column"))
    grid = TableGrid.full(policy.arms, policy.budget)
    count = 2.0 * len(grid.blocks) if neighbours == "reward" else policy.budget * 2.0**policy.arms
    check_grid(grid, outputs=1, neighbours=count)
    laws: list[dict[Output, float]] = []
    histories = 0
    for position in range(grid.size):
        laws.append(output_law(policy, grid.table(position), time_indexed=time_indexed))
        histories += len(laws[-1]) * policy.budget
        check_work(computed=histories / len(laws) * grid.size * _HISTORY)
    outputs = tuple(sorted(set().union(*laws)))
    check_grid(grid, outputs=len(outputs), neighbours=count)
    with np.errstate(divide="ignore"):
        log_probabilities = np.log([[law.get(output, 0.0) for law in laws] for output in outputs])
    pairs = grid.neighbours() if neighbours == "reward" else grid.column_neighbours()
    return Audit(outputs, log_probabilities, grid, pairs)


@dataclass(frozen=True, eq=False)
class PullByPull:
    """An elimination policy as a `PullPolicy`, for tiny budgets.

    A phase pulls its arms in turn. The history contains the pulls but not the noise, so the next
    arm has its conditional law given the pulls so far. Unused pulls go to arm 0.

    Parameters
    ----------
    policy : Policy
        A policy that `exact_audit` can handle, whose phases do not remember earlier releases.
    """

    policy: Policy
    # Laws by history, which audits need again for other tables, and by choice.
    _laws: dict[tuple[History, int], FloatArray] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        arms_of(self.policy)

    @property
    def arms(self) -> int:
        """K, the number of arms."""
        return arms_of(self.policy)

    @property
    def budget(self) -> int:
        """T, the number of pulls."""
        return self.policy.budget

    def next_arm(self, history: History) -> FloatArray:
        """Return the probabilities, shape (K,), of the arm to pull after `history`."""
        return self._given(history, 0)

    def recommend(self, history: History) -> FloatArray:
        """Return the probabilities, shape (K,), of the arm recommended after T pulls."""
        return self._given(history, 1)

    def _given(self, history: History, choice: int) -> FloatArray:
        if (history, choice) not in self._laws:
            weights = np.zeros(self.arms)
            for weight, arms in _runs(history, Stage.first(self.policy)):
                weights[arms[choice]] += weight
            self._laws[history, choice] = _check.vector(weights / weights.sum(), "weights")
        return self._laws[history, choice]


def _runs(history: History, stage: Stage) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield the runs from a stage that agree with the history: their probability, and two arms.

    These are the next arm to pull and the recommended arm, which is -1 if it is not decided yet.
    """
    if len(stage.active) == 1:
        if all(arm == 0 for arm, _ in history):
            yield 1.0, (0, stage.active[0])
        return
    phase = stage.phase
    order = np.repeat(phase.pulled, phase.pulls).tolist()
    pulled = [arm for arm, _ in history[: len(order)]]
    if pulled != order[: len(pulled)]:
        return
    if len(pulled) < len(order):
        yield 1.0, (order[len(pulled)], -1)
        return
    rewards = np.array([reward for _, reward in history[: len(order)]])
    parts = np.split(rewards, np.cumsum(phase.pulls)[:-1])
    means = np.array([[part.mean() for part in parts]])
    for kept, log_probability in log_survival(phase, means).items():
        for weight, arms in _runs(history[len(order) :], stage.then(kept)):
            yield math.exp(log_probability[0]) * weight, arms
