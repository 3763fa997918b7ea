"""Bounds of the error probability in any dimension, against exact values, brute force, simulation.

Statistical tests are seeded, and fail by chance with probability below 1e-6 each.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from oracles import FALSE_ALARM
from plans import constants, laws, one_phase
from scipy import stats

import dpbai
from dpbai.exact import NotExactError

SYNTHETIC = dpbai.synthetic()
MAKERS = {
    "DP-BAI": partial(dpbai.DPBAI, epsilon=0.5),
    "DP-BAI, no noise": partial(dpbai.DPBAI, epsilon=math.inf),
    "DP-BAI-Gauss": partial(dpbai.DPBAIGauss, epsilon=0.5, delta=0.01),
    "Baseline": partial(dpbai.Baseline, epsilon=2.0),
    "OD-LinBAI": dpbai.ODLinBAI,
    "DP-OD": partial(dpbai.DPOD, epsilon=1.0),
}
LAWS = {
    "uniform": dpbai.Uniform,
    "bernoulli": dpbai.Bernoulli,
    "beta": partial(dpbai.Beta, concentration=5.0),
}


def least_squares(seed: int, arms: int, d: int, pulls: int, law: str) -> tuple:
    """Return a policy that fits all estimates to noisy means of 2 d arms, and an instance."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(0, 1, (arms, d))
    features *= 0.4 / features.mean(axis=1).max()
    features[0] = 0.45
    pulled = tuple(range(2 * d))
    decoder = features @ np.linalg.pinv(features[: 2 * d])
    policy = one_phase((pulls,) * (2 * d), dpbai.Laplace(1 / pulls), decoder, pulled=pulled)
    instance = dpbai.Instance(features, np.full(d, 1 / d), rewards=LAWS[law])
    return policy, instance


@pytest.mark.parametrize("budget", [400, 20_000])
@pytest.mark.parametrize("name", MAKERS)
def test_the_exact_error_lies_between_the_bounds(name, budget):
    policy = MAKERS[name](SYNTHETIC.features, budget=budget)
    low, high = dpbai.error_bounds(policy, SYNTHETIC)
    assert low <= dpbai.exact_error(policy, SYNTHETIC, rtol=1e-6) <= high
    assert high <= 1.5 * low or name == "Baseline" or high > 0.05


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("arms", "d", "pulls"), [(20, 3, 60), (60, 6, 200)])
def test_simulation_agrees_beyond_two_coordinates(law, arms, d, pulls):
    policy, instance = least_squares(1, arms, d, pulls, law)
    low, high = dpbai.error_bounds(policy, instance)
    trials = 2000 if law == "beta" else 40_000
    errors = trials - dpbai.simulate(policy, instance, trials=trials, seed=2).successes
    interval = stats.binomtest(errors, trials).proportion_ci(1 - FALSE_ALARM, method="exact")
    assert interval.low <= high
    assert interval.high >= low


@pytest.mark.parametrize("scale", [2.0, 0.1, 0.02, 0.0015])
def test_one_rival_leaves_no_gap(scale):
    """The lead is a sum of six noises of different scales: partial fractions of its transform."""
    weights, gap = np.array([1.0, 0.5, -0.9, 0.8, 0.3, 0.2]), 0.5
    release = np.zeros((6, 2))
    release[0, 0] = 1.0
    policy = one_phase((4, 4), dpbai.Laplace(scale), [weights, 0 * weights], release)
    squares = (scale * weights) ** 2
    expected = sum(
        math.exp(-gap / math.sqrt(s)) / 2 * np.prod(s / (s - squares[squares != s]))
        for s in squares
    )
    low, high = dpbai.error_bounds(policy, constants(gap, 0.0), rtol=1e-8)
    assert low <= expected * (1 + 1e-9)
    assert high >= expected * (1 - 1e-9)
    assert high <= low * (1 + 3e-8)


def test_arms_that_always_tie_with_the_best_share_its_chances():
    decoder = [[1.0, 0], [1.0, 0], [0, 1.0], [1.0, 0]]
    tied = one_phase((9, 9), dpbai.Laplace(0.1), decoder, pulled=(0, 2))
    alone = one_phase((9, 9), dpbai.Laplace(0.1), decoder[1:3], pulled=(0, 1))
    error = dpbai.exact_error(alone, laws(dpbai.Uniform(0.5), dpbai.Uniform(0.3)))
    means = (0.5, 0.2, 0.3, 0.1)
    low, high = dpbai.error_bounds(tied, laws(*map(dpbai.Uniform, means)))
    assert low == pytest.approx((2 + error) / 3, rel=1e-4)
    assert high == pytest.approx((2 + error) / 3, rel=1e-4)


def test_what_has_no_bounds_is_refused():
    two_phases = dpbai.DPBAI(np.random.default_rng(0).uniform(0, 1, (20, 5)), budget=500, epsilon=1)
    with pytest.raises(NotExactError, match="more than one phase"):
        dpbai.error_bounds(two_phases, dpbai.Instance(two_phases.features, [0.1] * 5))
    atoms = one_phase((9,) * 3, dpbai.NoNoise())
    with pytest.raises(NotExactError, match="does not decay"):
        dpbai.error_bounds(atoms, laws(*map(dpbai.Bernoulli, (0.5, 0.4, 0.3))))
    with pytest.raises(ValueError, match="rtol"):
        dpbai.error_bounds(atoms, laws(*map(dpbai.Bernoulli, (0.5, 0.4, 0.3))), rtol=0.1)
    with pytest.raises(ValueError, match="as many arms"):
        dpbai.error_bounds(atoms, SYNTHETIC)
