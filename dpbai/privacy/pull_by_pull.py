"""An elimination policy as the paper's definitions see it: one pull at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpbai._check import FloatArray
from dpbai.policies import Policy
from dpbai.policies.phase import arms_of
from dpbai.policies.pull import History
from dpbai.privacy.plans import Stage
from dpbai.privacy.survivors import log_survival


@dataclass(frozen=True, eq=False)
class PullByPull:
    """The `PullPolicy` that pulls as an elimination policy does, for tiny budgets.

    A phase pulls its arms in turn. Its noise is not part of the history, which shows no more than
    the arms pulled; so the next arm is drawn given what is known of the survivors. Pulls that the
    policy leaves unused go to arm 0.

    Parameters
    ----------
    policy : Policy
        One that `exact_audit` can handle, and whose phases do not remember earlier releases.
    """

    policy: Policy

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
        return self._given(history, choice=0)

    def recommend(self, history: History) -> FloatArray:
        """Return the probabilities, shape (K,), of the arm recommended after T pulls."""
        return self._given(history, choice=1)

    def _given(self, history: History, choice: int) -> FloatArray:
        weights = np.zeros(self.arms)
        for weight, arms in _runs(history, Stage.first(self.policy)):
            weights[arms[choice]] += weight
        return np.asarray(weights / weights.sum())


def _runs(history: History, stage: Stage) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield the runs from a stage that pull as the history does: probability, and two arms.

    These are the next to be pulled and the recommended one, or -1 where it is not decided yet.
    """
    if len(stage.active) == 1:
        if all(arm == 0 for arm, _ in history):
            yield 1.0, (0, stage.active[0])
        return
    phase = stage.phase
    order = np.repeat(phase.pulled, phase.pulls).tolist()
    seen = [arm for arm, _ in history[: len(order)]]
    if seen != order[: len(seen)]:
        return
    if len(seen) < len(order):
        yield 1.0, (order[len(seen)], -1)
        return
    rewards = np.array([reward for _, reward in history[: len(order)]])
    parts = np.split(rewards, np.cumsum(phase.pulls)[:-1])
    means = np.array([[part.mean() for part in parts]])
    for kept, log_probability in log_survival(phase, means).items():
        for weight, arms in _runs(history[len(order) :], stage.then(kept)):
            yield math.exp(log_probability[0]) * weight, arms
