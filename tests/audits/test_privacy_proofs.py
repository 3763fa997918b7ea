"""Steps of the paper's privacy proofs that do not hold as printed, although the propositions hold.

They are in appendices F, I and J: the proofs of Propositions 4.1, D.2 and D.3 (the last two are on
DP-BAI-Gauss).
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

import dpbai


def test_without_delta_the_gaussian_proof_claims_too_much():
    """Eq. (new_eq:objetive_dp) has no delta. A set in [0, 1] violates it, but not with delta."""
    epsilon, delta, pulls = 0.9, 0.01, 100
    policy = dpbai.DPBAIGauss(
        np.eye(2), budget=2 * pulls, epsilon=epsilon, delta=delta, calibration="classic"
    )
    noise = policy.noise(pulls)
    chi = np.array([0.2, 1.0])
    higher = np.diff(stats.norm.cdf(chi, loc=1 / pulls, scale=noise.sigma))[0]
    lower = np.diff(stats.norm.cdf(chi, loc=0, scale=noise.sigma))[0]
    assert 0 < math.exp(epsilon) * lower < higher < math.exp(epsilon) * lower + delta


def test_product_events_are_not_enough_for_approximate_privacy():
    """The Gaussian proof bounds events D_M, which are products over arms and phases.

    For delta = 0 products are enough, because bounds add over disjoint unions. With a delta they do
    not. Here every product of subsets of {0, 1} satisfies the bound with delta = 0.1, but the
    diagonal needs 0.2.
    """
    delta, epsilon = 0.1, 0.5
    here = np.array([[0.1, 0.4], [0.4, 0.1]])
    there = np.array([[0.0, 0.5], [0.5, 0.0]])
    subsets = [[0], [1], [0, 1]]
    for rows, columns in product(subsets, subsets):
        cells = np.ix_(rows, columns)
        assert here[cells].sum() <= math.exp(epsilon) * there[cells].sum() + delta + 1e-15
    assert np.trace(here) > math.exp(epsilon) * np.trace(there) + 0.19


@pytest.mark.parametrize("mean", [0.0, 0.5])
def test_noisy_means_leave_the_unit_interval(mean):
    """The events have chi in [0, 1], but a mean of 0 has a negative noisy mean half of the time."""
    policy = dpbai.DPBAI(np.eye(2), budget=9, epsilon=1.0)
    noise = policy.noise(4)
    outside = math.exp(noise.log_cdf(-mean)) + math.exp(noise.log_cdf(mean - 1))
    assert outside == pytest.approx(math.exp(-4 * mean) / 2 + math.exp(-4 * (1 - mean)) / 2)
    assert outside > 0.1


def test_means_of_arms_that_are_not_pulled_depend_on_the_changed_reward():
    """D'_p fixes the noisy means of all other arms, and its probability is said not to change.

    In the Max-Det branch, the noisy means of arms that are not pulled are combinations of the
    pulled ones.
    """
    features = np.vstack([np.eye(2), [[0.5, 0.5], [0.4, 0.5], [0.3, 0.2]]])
    policy = dpbai.DPBAI(features, budget=9, epsilon=1.0)
    phase = policy.phase(1, range(5))
    assert phase.pulled == (0, 1)
    weight = phase.decoder[2]
    assert weight == pytest.approx([0.5, 0.5])
    # P(estimate of arm 2 > 1/2) before and after one of the n rewards of arm 0 rises from 0 to 1.
    n = phase.pulls[0]
    means = np.array([[0.5, 0.5], [0.5 + 1 / n, 0.5]])
    chance = [
        math.exp(phase.noise.log_cdf_of_difference(2 * (weight @ mean - 0.5))) for mean in means
    ]
    assert chance[0] == pytest.approx(0.5)
    assert chance[1] > 0.55


def test_a_gaussian_tail_bound_needs_64_instead_of_the_printed_32():
    """Event G_2: P(N(0, s^2) >= Delta/4), s^2 = d 2 ln(1.25/delta) / (eps n)^2.

    The usual bound exp(-(Delta/4)^2 / (2 s^2)) has 64 d ln(1.25/delta) in the denominator. With 32
    it is false.
    """
    gap, rate, dimension, log_term = 1.0, 40.0, 1, math.log(1.25 / 0.01)
    deviation = math.sqrt(dimension * 2 * log_term) / rate
    tail = stats.norm.sf(gap / 4 / deviation)
    exponent = (gap * rate) ** 2 / (dimension * log_term)
    assert math.exp(-exponent / 32) < tail < math.exp(-exponent / 64)


def test_a_factor_cannot_be_moved_into_a_ceiling():
    """The lower bound ceil(T'/(M d^2))^2 on ceil(T'/(M d))^2 / d in G_2 is false for small T'."""
    features = np.random.default_rng(0).normal(size=(20, 4))
    least = dpbai.Schedule(20, 4, 10**6).least_budget
    for budget, holds in ((least, False), (1000, True)):
        schedule = dpbai.DPBAI(features, budget=budget, epsilon=1.0).schedule
        pulls = schedule.pulls(schedule.usable_budget, 4)
        printed = schedule.pulls(schedule.usable_budget, 16)
        assert (pulls**2 / 4 >= printed**2) is holds
