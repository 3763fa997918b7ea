"""Corollary C.3: which part of the output must be private when column t of the table changes.

The paper requires privacy of the marginal law of the outputs after time t. That is not enough,
because earlier outputs can reveal the meaning of later ones. Privacy of their conditional law given
the earlier outputs is enough.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pytest

import dpbai
from dpbai.audits import log_ratio
from dpbai.audits.pull import PullPolicy, output_law


@dataclass(frozen=True)
class Masked:
    """Recommends arm 0 or 1 by the reward at time 2 and a random bit, shown by the first pull."""

    arms: int = 2
    budget: int = 2

    def next_arm(self, history):
        return np.array([1.0, 0.0]) if history else np.array([0.5, 0.5])

    def recommend(self, history):
        (first, _), (_, reward) = history
        chance = reward if first == 0 else 1 - reward
        return np.array([chance, 1 - chance])


@dataclass(frozen=True)
class Responder:
    """Win-stay, lose-shift by a randomised response to each reward."""

    truthful: float = 0.8
    arms: int = 2
    budget: int = 2

    def next_arm(self, history):
        if not history:
            return np.array([0.3, 0.7])
        arm, reward = history[-1]
        stay = self.truthful if reward else 1 - self.truthful
        return np.where(np.arange(2) == arm, stay, 1 - stay)

    recommend = next_arm


def column_neighbours(arms: int, budget: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield t and two tables of zeros and ones that differ in column t."""
    for t in range(1, budget + 1):
        for rest in product((0.0, 1.0), repeat=arms * (budget - 1)):
            others = np.reshape(rest, (arms, budget - 1))
            for columns in combinations(product((0.0, 1.0), repeat=arms), 2):
                yield t, *(np.insert(others, t - 1, column, axis=1) for column in columns)


def losses(policy: PullPolicy) -> tuple[float, float]:
    """Return the losses of the outputs after time t: marginal, and given those up to time t."""
    alone = given = 0.0
    for t, *tables in column_neighbours(policy.arms, policy.budget):
        laws = [output_law(policy, table, time_indexed=True) for table in tables]
        after = [Counter(), Counter()]
        for law, total in zip(laws, after, strict=True):
            for output, probability in law.items():
                total[output[t:]] += probability
        alone = max(alone, log_ratio(*after), log_ratio(*after[::-1]))
        for prefix in {output[:t] for output in laws[0]}:
            # The probability of the prefix is the same on both tables, and cancels.
            parts = [{o: p for o, p in law.items() if o[:t] == prefix} for law in laws]
            given = max(given, log_ratio(*parts), log_ratio(*parts[::-1]))
    return alone, given


def table_dp_loss(policy: PullPolicy) -> float:
    return dpbai.pull_audit(policy, neighbours="column", time_indexed=True).epsilon


def test_outputs_after_time_t_can_have_no_loss_when_all_outputs_have_an_infinite_one():
    assert losses(Masked())[0] == pytest.approx(0, abs=1e-12)
    assert table_dp_loss(Masked()) == math.inf


@pytest.mark.parametrize("policy", [Masked(), Responder(), Responder(1.0)])
def test_the_conditional_law_after_time_t_has_the_loss_of_table_dp(policy):
    assert losses(policy)[1] == pytest.approx(table_dp_loss(policy))


def test_the_outputs_after_time_t_have_at_most_the_loss_of_all_outputs():
    assert 0.1 < losses(Responder())[0] <= table_dp_loss(Responder()) + 1e-12
