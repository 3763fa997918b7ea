"""Policies that choose each pull from the history so far, as in Sec. 2.

The paper defines privacy for these policies: a policy maps a reward table to the law of its output
(A_1, ..., A_T, recommendation). For tiny budgets, laws are computed exactly by enumeration. A law
is a dictionary of the outputs that are possible, with their probabilities.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from dpbai import _check
from dpbai._check import FloatArray

History = tuple[tuple[int, float], ...]
"""The arms pulled so far, each with its reward."""

Output = tuple[int, ...]
"""The arms pulled at times 1, ..., T, then the recommended arm."""

RewardTable = Sequence[Sequence[float] | FloatArray] | FloatArray
"""The rewards of each arm, in rows that may differ in length."""

MOST_HISTORIES = 2**18
"""The largest number of histories of the same length, for which a law takes seconds."""


@runtime_checkable
class PullPolicy(Protocol):
    """A policy that chooses each pull separately, possibly at random.

    Its methods return arrays of K probabilities. They may have one more entry, the probability of
    an auxiliary arm, numbered K, whose rewards are 0 (see `dpbai.audits.EarlyStopping`).
    """

    @property
    def arms(self) -> int:
        """K, the number of arms, counted from 0."""

    @property
    def budget(self) -> int:
        """T, the number of pulls."""

    def next_arm(self, history: History) -> FloatArray:
        """Return the probabilities, shape (K,), of the arm to pull after `history`."""

    def recommend(self, history: History) -> FloatArray:
        """Return the probabilities, shape (K,), of the arm recommended after T pulls."""


def output_law(
    policy: PullPolicy, table: RewardTable, *, time_indexed: bool = False
) -> dict[Output, float]:
    """Return the probability of every possible output of `policy` on a fixed reward table.

    Parameters
    ----------
    policy : PullPolicy
        A policy with at most `MOST_HISTORIES` histories; it has up to K^(T+1) outputs.
    table : array_like of shape (K, T), rewards in [0, 1]
        The rewards. A row may be shorter if its arm is never pulled T times.
    time_indexed : bool, default False
        If False, the n-th pull of arm i gives `table[i, n - 1]`, as for the decision maker of
        Sec. 2. If True, the pull at time t gives `table[i, t - 1]`, as for the dual decision maker
        D(policy) of table-DP.
    """
    _check.kind(policy, "policy", PullPolicy)
    _check.flag(time_indexed, "time_indexed")
    rows = rows_of(table, policy.arms)
    if not all(((row >= 0) & (row <= 1)).all() for row in rows):
        raise ValueError("table must hold rewards in [0, 1]")

    def reward(history: History, arm: int) -> Mapping[float, float]:
        read = len(history) if time_indexed else sum(pulled == arm for pulled, _ in history)
        if read >= len(rows[arm]):
            raise ValueError(f"table must have more than {read} rewards of arm {arm}")
        return {float(rows[arm][read]): 1.0}

    return _output_law(policy, reward)


def rows_of(table: RewardTable, arms: int) -> list[FloatArray]:
    """Return the rows of a reward table, which must be finite, and one for each arm."""
    rows = [_check.vector(row, "table") for row in _check.sequence(table, "table")]
    if len(rows) != arms:
        raise ValueError(f"table must have one row for each of {arms} arms, got {len(rows)}")
    return rows


def bernoulli_law(policy: PullPolicy, means: Sequence[float]) -> dict[Output, float]:
    """Return the probability of every possible output when the arms yield Bernoulli rewards.

    Parameters
    ----------
    policy : PullPolicy
        A policy with at most `MOST_HISTORIES` histories, of which there may be up to (2 K)^T.
    means : sequence of float
        The K means, in [0, 1].
    """
    _check.kind(policy, "policy", PullPolicy)
    means = _check.vector(means, "means").tolist()
    if len(means) != policy.arms or not all(0 <= mean <= 1 for mean in means):
        raise ValueError(f"means must be {policy.arms} numbers in [0, 1], got {means}")
    laws = [{1.0: mean, 0.0: 1 - mean} for mean in means]
    return _output_law(policy, lambda history, arm: laws[arm])  # noqa: ARG005


def _output_law(
    policy: PullPolicy, rewards: Callable[[History, int], Mapping[float, float]]
) -> dict[Output, float]:
    """Sum over all histories; `rewards` gives the law of the next reward of an arm."""
    reached: dict[History, float] = {(): 1.0}
    for _ in range(policy.budget):
        before, reached = reached, {}
        for history, probability in before.items():
            for arm, chance in enumerate(policy.next_arm(history)):
                if chance > 0:
                    law_of_reward = rewards(history, arm) if arm < policy.arms else {0.0: 1.0}
                    for reward, share in law_of_reward.items():
                        if share > 0:
                            reached[*history, (arm, reward)] = probability * float(chance) * share
            if len(reached) > MOST_HISTORIES:
                raise ValueError(
                    f"policy must have at most {MOST_HISTORIES} histories, since all are "
                    f"enumerated, and has more in {policy.budget} pulls. Use a smaller budget"
                )
    law: defaultdict[Output, float] = defaultdict(float)
    for history, probability in reached.items():
        for choice, chance in enumerate(policy.recommend(history)):
            if chance > 0:
                law[*(arm for arm, _ in history), choice] += probability * float(chance)
    return dict(law)
