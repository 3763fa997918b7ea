"""The library against a table of 30 digits that `tools/reference_table.py` made by mpmath."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from plans import laws, one_phase

import dpbai
from dpbai.noise import gaussian_log_delta

ROWS = json.loads((Path(__file__).parents[1] / "reference.json").read_text(encoding="utf-8"))
WEDGE = ((0.95, 0.96), (1.0, 0.0), (0.0, 1.0))
NOISES = {
    "laplace": dpbai.Laplace,
    "gaussian": lambda sigma: dpbai.Gaussian(sigma),
}
LAWS = {"bernoulli": dpbai.Bernoulli, "uniform": dpbai.Uniform}
ARM_WITHOUT_REWARD = dpbai.Empirical([0.0])


def law(kind: str, *parameters: float) -> dpbai.rewards.RewardLaw:
    return LAWS[kind](*parameters)


def one_arm(rewards: list, pulls: int, epsilon: float) -> float:
    policy = one_phase((pulls,), dpbai.Laplace(1 / (epsilon * pulls)), [[1.0], [0.0]], arms=2)
    return dpbai.exact_error(policy, laws(law(*rewards), ARM_WITHOUT_REWARD))


def duel(rewards: list, pulls: int, noise: list) -> float:
    policy = one_phase((pulls, pulls), NOISES[noise[0]](noise[1]))
    return dpbai.exact_error(policy, laws(*(law(*one) for one in rewards)))


def wedge(means: list, pulls: int, scale: float) -> float:
    policy = one_phase((pulls, pulls), dpbai.Laplace(scale), WEDGE, pulled=(1, 2))
    best = dpbai.Empirical([2.0])  # it is not pulled, and may have any mean
    return dpbai.exact_error(policy, laws(best, *map(dpbai.Bernoulli, means), bounded=False))


def maximum(means: list, pulls: int, scale: float) -> float:
    policy = one_phase((pulls,) * len(means), dpbai.Laplace(scale))
    return dpbai.exact_error(policy, laws(*map(dpbai.Bernoulli, means)))


def laplace_delta(epsilon: float, shift: float, scale: float) -> float:
    return dpbai.Laplace(scale).delta_at(epsilon, [shift])


CALLS: dict[str, Callable[..., float]] = {
    "one_arm": one_arm,
    "duel": duel,
    "wedge": wedge,
    "maximum": maximum,
    "gaussian_log_delta": gaussian_log_delta,
    "laplace_delta": laplace_delta,
}


def deviation(row: dict) -> float:
    """Return the relative deviation of the library; where the table is below 1e-250, 0 is right."""
    value = CALLS[row["kind"]](*row["arguments"])
    expected = float(row["value"])
    if abs(expected) < 1e-250:
        return 0.0 if value == 0 else math.inf
    return abs(value / expected - 1)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']} {row['arguments']}")
def test_the_library_agrees_with_the_reference_table(row):
    assert deviation(row) <= row["rtol"]


def test_the_table_has_the_hard_corners():
    assert len(ROWS) >= 60
    assert Counter(row["kind"] for row in ROWS).keys() == CALLS.keys()
    values = [abs(float(row["value"])) for row in ROWS]
    assert min(value for value in values if value > 1e-250) < 1e-100
    text = json.dumps(ROWS)
    for corner in ('["bernoulli", 1.0]', "1000000000,"):
        assert corner in text
