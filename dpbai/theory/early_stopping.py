"""Policies pull by pull over tables of rewards, and their early stopping (Sec. 4.3).

A table fixes in advance what each pull of each arm would yield; the outputs of a policy on it are
its pulls and its recommendation (Sec. 2). On tiny tables all outputs can be listed with their exact
probabilities, and with them differential privacy, Lemma 4.3 and its corollary, and the change of
measure between two instances. The cost grows exponentially with the horizon.

Arms are 0-based here, so that the paper's auxiliary arm 0 is `AUXILIARY`, -1.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dpbai import _check

AUXILIARY = -1

History = tuple[tuple[int, float], ...]
Law = Mapping[int, float]
Output = tuple[int, ...]
Table = Sequence[Sequence[float]]


class PullPolicy(Protocol):
    """A policy that decides pull by pull: laws of the next arm and of the recommendation.

    A history lists the pulled arms with their rewards, in order.
    """

    @property
    def arms(self) -> int:
        """K."""

    @property
    def horizon(self) -> int:
        """T."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many rewards of each arm the policy can read: the shape of its tables."""

    def next_arm_distribution(self, history: History) -> Law:
        """Return P(A_t = arm) given the history, for the arms of positive probability."""

    def recommendation_distribution(self, history: History) -> Law:
        """Return P(recommendation = arm) given the full history."""


@dataclass(frozen=True)
class WinStay:
    """Stay with an arm that pays, else go on to the next one; epsilon-private on rewards in [0, 1].

    The policy stays after a reward x with probability (1 + (e^epsilon - 1) x) / (1 + e^epsilon),
    randomized response for x in {0, 1}. It recommends the arm that it would have pulled next. As
    each reward decides one output and no other, no reward shows by more than epsilon.

    Parameters
    ----------
    arms : int
        K, at least 2.
    horizon : int
        T, the number of pulls.
    epsilon : float
        Privacy parameter, positive; infinity leaves nothing to chance.
    """

    arms: int
    horizon: int
    epsilon: float

    def __post_init__(self) -> None:
        _check.whole(self.arms, "arms", least=2)
        _check.whole(self.horizon, "horizon")
        _check.epsilon(self.epsilon)

    @property
    def lengths(self) -> tuple[int, ...]:
        """T for each arm."""
        return (self.horizon,) * self.arms

    def next_arm_distribution(self, history: History) -> Law:
        """Return the law of the next arm; the first is arm 0."""
        if not history:
            return {0: 1.0}
        arm, reward = history[-1]
        if not 0 <= reward <= 1:
            raise ValueError("history must hold rewards in [0, 1]")
        lie = math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))
        stay = lie + (1 - 2 * lie) * reward
        return {arm: stay, (arm + 1) % self.arms: 1 - stay}

    def recommendation_distribution(self, history: History) -> Law:
        """Return the law of the recommendation."""
        return self.next_arm_distribution(history)


@dataclass(frozen=True)
class EarlyStopping:
    """ES(policy, n, arm): once `arm` has been pulled n times, pull the auxiliary arm to the end.

    It recommends the auxiliary arm if it ever pulled it, else what `policy` does. It reads n
    rewards of `arm`, no more. (The paper's prose has it pull `arm` "with certainty" at that point;
    its formula, the auxiliary arm.)

    Parameters
    ----------
    policy : PullPolicy
        The policy to stop.
    n : int
        At least 1.
    arm : int
        Of 0..K-1.

    Raises
    ------
    ValueError
        If `n` is below 1, or there is no such arm.
    """

    policy: PullPolicy
    n: int
    arm: int

    def __post_init__(self) -> None:
        _check.whole(self.n, "n")
        if _check.whole(self.arm, "arm", least=0) >= self.policy.arms:
            raise ValueError(f"arm must be one of 0..{self.policy.arms - 1}, got {self.arm}")

    @property
    def arms(self) -> int:
        """K, without the auxiliary arm."""
        return self.policy.arms

    @property
    def horizon(self) -> int:
        """T, that of the policy."""
        return self.policy.horizon

    @property
    def lengths(self) -> tuple[int, ...]:
        """Those of the policy, but n for `arm`."""
        lengths = list(self.policy.lengths)
        lengths[self.arm] = min(self.n, lengths[self.arm])
        return tuple(lengths)

    def next_arm_distribution(self, history: History) -> Law:
        """Return the policy's law until `arm` has its n pulls, eq. (sampling-early-stopping)."""
        if sum(arm == self.arm for arm, _ in history) >= self.n:
            return {AUXILIARY: 1.0}
        return self.policy.next_arm_distribution(history)

    def recommendation_distribution(self, history: History) -> Law:
        """Return the policy's law unless it was stopped, eq. (recommendation-early-stopping)."""
        if any(arm == AUXILIARY for arm, _ in history):
            return {AUXILIARY: 1.0}
        return self.policy.recommendation_distribution(history)


def output_distribution(policy: PullPolicy, table: Table) -> dict[Output, float]:
    """Return the probability of every output (A_1, ..., A_T, recommendation) on a table.

    Parameters
    ----------
    policy : PullPolicy
        The policy.
    table : sequence of sequences of float
        The rewards of the pulls of each arm, in order; the auxiliary arm always yields 0.

    Raises
    ------
    ValueError
        If the policy pulls an arm more often than the table has rewards for it.
    """
    return _outputs(policy, lambda history, arm: {_reward(table, history, arm): 1.0})


def _outputs(
    policy: PullPolicy, rewards: Callable[[History, int], Mapping[float, float]]
) -> dict[Output, float]:
    """Sum over all histories; `rewards` gives the law of the next reward of an arm."""
    histories: list[tuple[History, float]] = [((), 1.0)]
    for _ in range(policy.horizon):
        histories = [
            ((*history, (arm, reward)), probability * share * chance)
            for history, probability in histories
            for arm, share in policy.next_arm_distribution(history).items()
            if share > 0
            for reward, chance in rewards(history, arm).items()
            if chance > 0
        ]
    law: defaultdict[Output, float] = defaultdict(float)
    for history, probability in histories:
        pulled = tuple(arm for arm, _ in history)
        for arm, share in policy.recommendation_distribution(history).items():
            if share > 0:
                law[*pulled, arm] += probability * share
    return dict(law)


def _reward(table: Table, history: History, arm: int) -> float:
    if arm == AUXILIARY:
        return 0.0
    done = sum(pulled == arm for pulled, _ in history)
    if done >= len(table[arm]):
        raise ValueError(f"table must hold more than {done} rewards of arm {arm}")
    return table[arm][done]


def binary_tables(lengths: Sequence[int]) -> Iterator[tuple[tuple[float, ...], ...]]:
    """Yield every table of zeros and ones with the given numbers of rewards."""
    rows = [list(itertools.product((0.0, 1.0), repeat=length)) for length in lengths]
    return itertools.product(*rows)


def output_law(policy: PullPolicy, means: Sequence[float]) -> dict[Output, float]:
    """Return the probability of every output when the arms yield Bernoulli rewards.

    Parameters
    ----------
    policy : PullPolicy
        The policy.
    means : sequence of float
        The K means, in [0, 1].

    Raises
    ------
    ValueError
        If `means` are not K numbers in [0, 1].
    """
    if len(means) != policy.arms or not all(0 <= mean <= 1 for mean in means):
        raise ValueError(f"means must be {policy.arms} numbers in [0, 1], got {list(means)}")
    laws = {arm: {1.0: mean, 0.0: 1 - mean} for arm, mean in enumerate(means)}
    laws[AUXILIARY] = {0.0: 1.0}
    return _outputs(policy, lambda history, arm: laws[arm])  # noqa: ARG005


def table_privacy_loss(policy: PullPolicy) -> float:
    """Return the least epsilon at which the policy is private on all tables of zeros and ones.

    The largest log-ratio of the probabilities of an output on two tables that differ in one entry;
    infinite if an output is possible on one of them only.
    """
    laws = {table: output_distribution(policy, table) for table in binary_tables(policy.lengths)}
    loss = 0.0
    for table, law in laws.items():
        for arm, row in enumerate(table):
            for entry in range(len(row)):
                flipped = (*row[:entry], 1.0 - row[entry], *row[entry + 1 :])
                other = laws[*table[:arm], flipped, *table[arm + 1 :]]
                loss = max(loss, log_ratio(law, other))
    return loss


def log_ratio(law: Mapping[Output, float], other: Mapping[Output, float]) -> float:
    """Return the largest log(P(S) / Q(S)) over sets S of outputs: a single output attains it."""
    if any(output not in other for output in law):
        return math.inf
    return max(math.log(probability / other[output]) for output, probability in law.items())
