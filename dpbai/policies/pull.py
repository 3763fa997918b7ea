"""Policies seen pull by pull, as in Sec. 2: the next arm depends on the history so far.

This is the view in which the paper defines privacy: a policy maps a reward table to the law of its
output (A_1, ..., A_T, recommendation). The law is enumerated exactly, so it is for tiny budgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dpbai._check import FloatArray

History = tuple[tuple[int, float], ...]
"""The arms pulled so far, each with the reward that it gave."""

Output = tuple[int, ...]
"""The arms pulled at times 1, ..., T, then the recommended arm."""


class PullPolicy(Protocol):
    """A policy that chooses each pull anew; its choices may be random."""

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
    policy: PullPolicy, table: Sequence[Sequence[float]] | FloatArray, *, time_indexed: bool = False
) -> dict[Output, float]:
    """Return the probability of every possible output of `policy` on a fixed reward table.

    Parameters
    ----------
    policy : PullPolicy
        Its cost is up to K^(T+1) outputs.
    table : array_like of shape (K, T), rewards in [0, 1]
        A row may be shorter than T if its arm can never be pulled so often.
    time_indexed : bool, default False
        False: the n-th pull of arm i gives `table[i, n - 1]`, the decision maker of Sec. 2. True:
        the pull at time t gives `table[i, t - 1]`, the dual decision maker of the appendix on
        table-DP, so that this is the law of D(policy).

    Returns
    -------
    dict
        Positive probabilities of outputs (A_1, ..., A_T, recommendation); they sum to 1.

    Raises
    ------
    ValueError
        If `table` has not one row per arm, a row is too short, or a reward lies outside [0, 1].
    """
    rows = [np.asarray(row, dtype=np.float64) for row in table]
    if len(rows) != policy.arms:
        raise ValueError(f"table must have one row for each of {policy.arms} arms, got {len(rows)}")
    if not all(((row >= 0) & (row <= 1)).all() for row in rows):
        raise ValueError("table must hold rewards in [0, 1]")
    reached: dict[History, float] = {(): 1.0}
    for time in range(policy.budget):
        before, reached = reached, {}
        for history, probability in before.items():
            for arm, chance in enumerate(policy.next_arm(history)):
                if chance > 0:
                    read = time if time_indexed else sum(pulled == arm for pulled, _ in history)
                    if read >= len(rows[arm]):
                        raise ValueError(f"table must have more than {read} rewards of arm {arm}")
                    step = (arm, float(rows[arm][read]))
                    reached[(*history, step)] = probability * float(chance)
    return {
        (*(arm for arm, _ in history), int(choice)): probability * float(chance)
        for history, probability in reached.items()
        for choice, chance in enumerate(policy.recommend(history))
        if chance > 0
    }
