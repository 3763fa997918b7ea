"""DPDesign if only two arms can be the best under linear means in [0, 1]."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import dpbai
from dpbai import DPDesign
from dpbai.beyond import cannot_lead
from dpbai.beyond.gaps import only_two

DOSES = np.column_stack([np.ones(5), [0.0, 0.1, 0.4, 0.7, 1.0]])
LONG = np.array([[3.0, 0.5], [0.5, 3.0], [3.0, 0.0], [0.0, 2.9], [0.6, 0.5]])
"""Only arms 0 and 1 can be the best, and arms 2 and 3 are most informative on them."""


@settings(max_examples=10)
@example([(0, 1), (2, 0), (1, 1), (0, 0)])
@example([(1, -1), (1, 1), (1, 0)])
@example([(1, 1), (-1, 1), (0, -1)])
@example([(-1, -1), (-1, 3), (2, 0), (2, 1)])
@example([(2, 1), (1, 2), (1, 1), (0, 1)])
@given(st.lists(st.tuples(st.integers(-2, 4), st.integers(0, 4)), min_size=3, max_size=6))
def test_it_finds_what_linear_programs_find(arms):
    points = np.unique(np.array(arms, dtype=float), axis=0)
    if np.linalg.matrix_rank(points) < 2:
        return
    able = sorted(set(range(len(points))) - set(cannot_lead(points)))
    two = only_two(points)
    assert (len(able) == 2) == (two is not None)
    assert two is None or sorted(two.tolist()) == able


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_run_is_that_of_two_arms(epsilon):
    """Only arms 0 and 2 of the paper's instance can be the best."""
    paper = dpbai.synthetic(seed=0)
    policy = DPDesign(paper.features, budget=200, epsilon=epsilon, misfit=0)
    pair = dpbai.Instance(np.eye(2), paper.means[[0, 2]], rewards=dpbai.Bernoulli)
    error = dpbai.exact_error(DPDesign(np.eye(2), budget=200, epsilon=epsilon), pair, rtol=1e-6)
    coins = dpbai.Instance(paper.features, paper.theta, rewards=dpbai.Bernoulli)
    assert dpbai.exact_error(policy, coins, rtol=1e-6) == pytest.approx(error, rel=1e-5)
    bounds = dpbai.error_bounds(policy, coins)
    assert bounds.low <= error <= bounds.high <= 1.001 * error
    two = dpbai.upper_bound(DPDesign(np.eye(2), budget=200, epsilon=epsilon), pair)
    assert dpbai.upper_bound(policy, coins) == pytest.approx(two)
    answers = dpbai.simulate(policy, coins, trials=1000).recommended
    assert answers[[0, 2]].sum() == 1000


@pytest.mark.parametrize("features", [DOSES, LONG, LONG.repeat(2, axis=0)])
def test_no_unbiased_number_is_more_precise(features):
    """All pairs of arms are tried; in the plane two arms are enough (Elfving)."""
    policy = DPDesign(features, budget=1000, epsilon=0.1, misfit=0)
    phase = policy.phase(1, range(len(features)))
    one, other = phase.decoder.argmax(), phase.decoder.argmin()
    contrast = features[one] - features[other]
    unit = phase.decoder[one, 0] - phase.decoder[other, 0]
    weights = unit * phase.release[0]
    np.testing.assert_allclose(weights @ features[list(phase.pulled)], contrast, atol=1e-9)
    sums = [
        np.abs(np.linalg.solve(features[list(pair)].T, contrast)).sum()
        for pair in combinations(range(len(features)), 2)
        if abs(np.linalg.det(features[list(pair)])) > 1e-9
    ]
    assert np.abs(weights).sum() == pytest.approx(min(sums))
    assert phase.cost == 1000
    deviation = unit * phase.noise.standard_deviation
    assert deviation == pytest.approx(min(sums) * math.sqrt(2) / (0.1 * 1000), rel=0.01)


@pytest.mark.parametrize(("budget", "epsilon"), [(6, 0.5), (6, 2.0), (7, 2.0)])
def test_it_loses_all_of_epsilon_and_no_more(budget, epsilon):
    policy = DPDesign(DOSES, budget=budget, epsilon=epsilon, misfit=0)
    assert policy.phase(1, range(5)).pulled == (0, 4)
    assert dpbai.certificate(policy).epsilon == pytest.approx(epsilon)
    assert dpbai.exact_audit(policy).epsilon == pytest.approx(epsilon, rel=1e-6)


def error_of_two(pulls, means, epsilon):
    """Return the probability of choosing the arm with the smaller of two Bernoulli means.

    The difference of the empirical means has Laplace noise of the scale that privacy requires.
    """
    first, second = (
        stats.binom.pmf(np.arange(n + 1), n, p) for n, p in zip(pulls, means, strict=True)
    )
    lead = np.subtract.outer(*(np.arange(n + 1) / n for n in pulls))
    chance = stats.laplace.cdf(-lead, scale=1 / min(pulls) / epsilon)
    return float(first @ chance @ second)


@pytest.mark.parametrize(
    ("budget", "epsilon", "pulls"),
    [(3, 30.0, [1, 2]), (7, 5.0, [3, 4]), (7, 0.1, [3, 3]), (301, 30.0, [150, 150])],
)
def test_an_odd_pull_is_made_where_it_decreases_the_error(budget, epsilon, pulls):
    """On average over four pairs of means, and over which of the two arms gets the odd pull."""
    phase = DPDesign(DOSES, budget=budget, epsilon=epsilon, misfit=0).phase(1, range(5))
    assert (phase.pulled, sorted(phase.pulls)) == ((0, 4), pulls)
    equal, unequal = (
        np.mean([
            error_of_two(n, means, epsilon)
            for means in ((0.6, 0.5), (0.9, 0.5), (0.8, 0.3), (0.3, 0.1))
            for n in ((budget // 2, more), (more, budget // 2))
        ])
        for more in (budget // 2, budget - budget // 2)
    )  # fmt: skip
    assert (equal - unequal > 0.003) == (sum(pulls) == budget)


@pytest.mark.parametrize("options", [{"misfit": 0.01}, {"phases": 1}, {"epsilon": math.inf}])
def test_one_number_is_for_linear_means_with_noise_unless_phases_are_given(options):
    policy = DPDesign(DOSES, **{"budget": 1000, "epsilon": 0.5, "misfit": 0, **options})
    assert policy.phase(1, range(5)).coordinates > 1


def test_on_a_line_all_estimates_are_right_up_to_a_constant():
    phase = DPDesign(DOSES, budget=100, epsilon=0.5, misfit=0).phase(1, range(5))
    means = DOSES @ [0.2, 0.5]
    errors = phase.estimates(phase.statistic(means[list(phase.pulled)])) - means
    assert np.ptp(errors) < 1e-12


def test_the_number_determines_no_mean():
    first = DPDesign(LONG, budget=1000, epsilon=0.5, misfit=0).phase(1, range(5))
    with pytest.raises(ValueError, match="a difference of means"):
        dpbai.beyond.limits(first, first)


@pytest.mark.parametrize("apart", [1e-6, 1e-8, 1e-10])
def test_two_arms_are_distinguished_however_close_they_are(apart):
    """The solver of linear programs treats numbers below 1e-7 as 0.

    The features are rounded, and so their difference is known up to 2^-52 only.
    """
    features = np.array([[1, 0], [0, 1], [1, 1], [1 + apart, 1 - apart]])
    phase = DPDesign(features, budget=400, epsilon=0.5, misfit=0).phase(1, range(4))
    assert (phase.pulled, phase.pulls) == ((0, 1), (200, 200))
    np.testing.assert_allclose(phase.release, [[200, -200]], rtol=max(1e-7, 2**-51 / apart))
    assert (phase.decoder.argmax(), phase.decoder.argmin()) == (3, 2)
