"""Exact probabilities against closed forms, high precision and simulation; and mutants.

Statistical tests are seeded, and fail by chance with probability below 1e-6 each.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import OnePhase, constants, laws, one_phase
from reference import WEDGE, contrast, contrast_of, deviation, rows_of
from scipy import integrate, stats

import dpbai
from dpbai.exact import NotExactError, inversion, quadrature, terms
from dpbai.exact import error as exact

BAND = 5.2  # standard errors: two-sided normal tails of 2e-7

SLOPES = (0.05 / 0.96, 0.95 / 0.04)


# Closed forms


@pytest.mark.parametrize("scales", [0.05, 1, 7, 30, 100, 500])
def test_laplace_against_laplace_is_the_closed_form_down_to_1e_200(scales):
    policy = one_phase((3, 3), dpbai.Laplace(0.25 / scales))
    error = dpbai.exact_error(policy, constants(0.75, 0.5))
    assert error == pytest.approx((2 + scales) / 4 * math.exp(-scales), rel=1e-8, abs=0)


def test_a_single_coordinate_wins_on_a_half_line():
    # d = 1 and K = 2: DP-BAI pulls one arm, and errs when its noisy mean is negative.
    policy = dpbai.DPBAI([[1.0], [0.5]], budget=5, epsilon=2.0)
    (pulls,) = policy.phase(1, (0, 1)).pulls
    error = dpbai.exact_error(policy, constants(0.6, 0.3), rtol=1e-7)
    assert error == pytest.approx(math.exp(-0.6 * 2 * pulls) / 2, rel=1e-7)


@pytest.mark.parametrize("pulls", [1, 2, 3])
def test_irwin_hall_without_noise_is_the_piecewise_polynomial(pulls):
    mu = (0.5, 0.4)
    policy = one_phase((pulls, pulls), dpbai.NoNoise())
    # P(sum of w_i U_i <= 0), after U -> 1 - U for the weights below 0 (Bradley and Gupta, 2002).
    widths = [2 * mu[0]] * pulls + [2 * mu[1]] * pulls
    level = 2 * mu[1] * pulls
    signed = (
        (-1) ** sum(corner) * max(0.0, level - np.dot(corner, widths)) ** (2 * pulls)
        for corner in product((0, 1), repeat=2 * pulls)
    )
    expected = math.fsum(signed) / math.factorial(2 * pulls) / math.prod(widths)
    instance = laws(*map(dpbai.Uniform, mu))
    error = dpbai.exact_error(policy, instance, rtol=1e-7 if pulls == 1 else 1e-9)
    assert error == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("gap", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_gaussian_noise_between_constants_is_the_normal_tail(gap, epsilon):
    policy = dpbai.DPBAIGauss(np.eye(2), budget=20, epsilon=epsilon, delta=1e-5)
    sigma = policy.phase(1, (0, 1)).noise.standard_deviation
    expected = stats.norm.sf(gap / (math.sqrt(2) * sigma))
    assert dpbai.exact_error(policy, constants(gap, 0.0)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("means", [(0.9, 0.5), (0.51, 0.5), (1.0, 0.3), (0.7, 0.0)])
def test_bernoulli_without_noise_counts_half_of_the_ties(means):
    counts = np.arange(10)
    pmf = np.outer(*(stats.binom.pmf(counts, 9, mean) for mean in means))
    lead = np.subtract.outer(counts, counts)
    expected = pmf[lead < 0].sum() + pmf[lead == 0].sum() / 2
    policy = one_phase((9, 9), dpbai.NoNoise())
    assert dpbai.exact_error(policy, laws(*map(dpbai.Bernoulli, means))) == pytest.approx(expected)


@pytest.mark.parametrize("law", [dpbai.Bernoulli(0.3), dpbai.Empirical([0.1, 0.7], [3, 1])])
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 500.0])
def test_one_two_valued_arm_in_one_dimension(law, epsilon):
    """The policy errs if the noisy mean of the arm is negative."""
    policy = dpbai.DPBAI([[1.0], [0.5]], budget=20, epsilon=epsilon)
    (pulls,) = policy.phase(1, (0, 1)).pulls
    low, high = law.support if isinstance(law, dpbai.Empirical) else (0.0, 1.0)
    share = (law.mean - low) / (high - low)
    points = pulls * low + (high - low) * np.arange(pulls + 1)
    expected = stats.binom.pmf(np.arange(pulls + 1), pulls, share) @ np.exp(-epsilon * points) / 2
    error = dpbai.exact_error(policy, laws(law, dpbai.Empirical([0.05])))
    assert error == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 1e4])
@pytest.mark.parametrize("budget", [2 * 10**8, 2 * 10**12])
def test_two_bernoulli_arms_at_any_number_of_pulls(budget, epsilon):
    """For means near one half, the sums are normal with an error of order 1/n."""
    n = budget // 2
    gap = 2 / math.sqrt(n)
    policy = one_phase((n, n), dpbai.Laplace(1 / (n * epsilon)))
    error = dpbai.exact_error(
        policy, laws(dpbai.Bernoulli(0.5 + gap / 2), dpbai.Bernoulli(0.5 - gap / 2))
    )
    variance = (0.5 - gap**2 / 2) / n + 4 / (n * epsilon) ** 2
    assert error == pytest.approx(stats.norm.sf(gap / math.sqrt(variance)), rel=30 / n)


@pytest.mark.parametrize("law", [dpbai.Bernoulli, dpbai.Uniform])
@pytest.mark.parametrize("maker", [dpbai.DPBAI, dpbai.Baseline, dpbai.ODLinBAI])
def test_an_error_too_small_for_a_double_is_zero(maker, law):
    options = {} if maker is dpbai.ODLinBAI else {"epsilon": 50.0}
    instance = dpbai.Instance(np.eye(2), [0.49, 0.01], rewards=law)
    policy = maker(instance.features, budget=100_000, **options)
    assert dpbai.exact_error(policy, instance) == 0.0
    wide = dpbai.Instance(FIVE.features, [0.03, 0.45], rewards=law)
    if law is dpbai.Bernoulli and maker is dpbai.ODLinBAI:
        return  # a wedge of two lattices without noise
    assert dpbai.exact_error(maker(wide.features, budget=4_000_000, **options), wide) == 0.0


@pytest.mark.parametrize("epsilon", [36.0, 40.0, 41.0, 300.0])
@pytest.mark.parametrize("best", [1.0, 1 - 1e-12])
def test_bernoulli_means_at_and_next_to_one_with_little_noise(best, epsilon):
    # The best arm's rewards are almost surely 1. It ties only if the other has 20 ones.
    policy = dpbai.DPBAI(np.eye(2), budget=41, epsilon=epsilon)
    error = dpbai.exact_error(policy, laws(dpbai.Bernoulli(best), dpbai.Bernoulli(0.9)))
    pulls = policy.phase(1, (0, 1)).pulls[0]
    assert pulls == 20
    assert error == pytest.approx(0.9**pulls / 2, rel=1e-9)


@pytest.mark.parametrize("pulls", [5, 60])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_bernoulli_with_laplace_noise_is_the_sum_over_both_counts(pulls, epsilon):
    p = (0.8, 0.35)
    counts = np.arange(pulls + 1)
    pmf = np.outer(stats.binom.pmf(counts, pulls, p[0]), stats.binom.pmf(counts, pulls, p[1]))
    lead = epsilon * np.subtract.outer(counts, counts)
    tail = (2 + np.abs(lead)) / 4 * np.exp(-np.abs(lead))
    expected = (pmf * np.where(lead > 0, tail, 1 - tail)).sum()
    policy = one_phase((pulls, pulls), dpbai.Laplace(1 / (epsilon * pulls)))
    instance = laws(*map(dpbai.Bernoulli, p))
    assert dpbai.exact_error(policy, instance) == pytest.approx(expected, rel=1e-8)


def test_gaussian_noise_smooths_atoms_in_a_wedge():
    pulls, sigma = 6, 0.1
    policy = one_phase((pulls,) * 2, dpbai.Gaussian(sigma), WEDGE, pulled=(1, 2))
    instance = laws(dpbai.Uniform(0.5), dpbai.Bernoulli(0.4), dpbai.Empirical([0.0, 0.4]))
    counts = np.arange(pulls + 1)
    x = np.linspace(-2, 3, 20_001)
    first, second = (
        [(w, c) for w, c in zip(stats.binom.pmf(counts, pulls, p), unit * counts, strict=True)]
        for p, unit in ((0.4, 1 / pulls), (0.5, 0.4 / pulls))
    )
    density = sum(w * stats.norm.pdf(x, c, sigma) for w, c in first)
    low, high = (sum(w * stats.norm.cdf(k * x, c, sigma) for w, c in second) for k in SLOPES)
    expected = 1 - integrate.trapezoid(np.where(x > 0, density * (high - low), 0), x)
    assert dpbai.exact_error(policy, instance) == pytest.approx(expected, rel=1e-6)


# High precision; see also test_reference


@pytest.mark.parametrize("sigma", [0.3, 0.06, 0.04, 0.02])
def test_gaussian_noise_on_constants_agrees_with_quadrature_down_to_1e_80(sigma):
    noise, (x0, y0, z0) = dpbai.Gaussian(sigma), (0.9, 0.45, 0.4)
    x = np.linspace(0, 4, 400_001)
    below, above = stats.norm.logcdf, stats.norm.logsf
    outside = np.logaddexp(below(SLOPES[0] * x, y0, sigma), above(SLOPES[1] * x, y0, sigma))
    expected = integrate.simpson(np.exp(stats.norm.logpdf(x, z0, sigma) + outside), x=x)
    expected += stats.norm.cdf(0, z0, sigma)
    wedge_policy = one_phase((3, 3), noise, WEDGE, pulled=(1, 2))
    instance = constants(x0, z0, y0)
    assert dpbai.exact_error(wedge_policy, instance) == pytest.approx(expected, rel=1e-8, abs=0)

    x = np.linspace(-3, 5, 400_001)
    exceeded = np.logaddexp(above(x, y0, sigma), above(x, z0, sigma) + below(x, y0, sigma))
    expected = integrate.simpson(np.exp(stats.norm.logpdf(x, x0, sigma) + exceeded), x=x)
    maximum_policy = one_phase((3, 3, 3), noise)
    assert dpbai.exact_error(maximum_policy, instance) == pytest.approx(expected, rel=1e-8, abs=0)


def test_a_billion_pulls_are_as_exact_as_few():
    # A difference of two sums of n symmetric variates is normal up to O(1/n).
    budget = 2 * 10**9
    for gap in (2e-5, 1e-4):
        instance = dpbai.two_armed(gap=gap, means="in-range")
        policy = dpbai.DPBAI(instance.features, budget=budget, epsilon=1.0)
        phase = policy.phase(1, (0, 1))
        variance = sum(mean**2 / 3 / phase.pulls[0] for mean in instance.means)
        variance += 2 * phase.noise.standard_deviation**2
        expected = stats.norm.sf(gap / math.sqrt(variance))
        assert dpbai.exact_error(policy, instance) == pytest.approx(expected, rel=3e-7)


def test_the_cost_does_not_grow_with_the_budget(monkeypatch):
    evaluations: list[int] = []

    def counted(z, *law):
        evaluations[-1] += np.size(z)
        return original(z, *law)

    original = terms._uniform_log_mgf
    monkeypatch.setattr(terms, "_uniform_log_mgf", counted)
    features = FIVE.features
    for budget in (10**4, 10**9):
        evaluations.append(0)
        # The gap shrinks with the budget, so that the error probability stays.
        theta = [(0.5 - 1 / math.sqrt(budget)) / 10, 0.5]
        policy = dpbai.DPBAI(features, budget=budget, epsilon=1.0)
        assert 0.005 < dpbai.exact_error(policy, dpbai.Instance(features, theta)) < 0.05
    assert evaluations[1] < 2 * evaluations[0]


# Simulation

SYNTHETIC = dpbai.synthetic()
FIVE = dpbai.Instance([[0, 1], [0, 0.9], [10, 0], [1, 0.3], [1, 0.5]], [0.045, 0.5])
ON_SYNTHETIC = {
    "DP-BAI": lambda f: dpbai.DPBAI(f, budget=400, epsilon=0.5),
    "DP-BAI, few pulls": lambda f: dpbai.DPBAI(f, budget=12, epsilon=5.0),
    "DP-BAI, no noise": lambda f: dpbai.DPBAI(f, budget=100, epsilon=math.inf),
    "DP-BAI-Gauss": lambda f: dpbai.DPBAIGauss(f, budget=400, epsilon=0.5, delta=0.01),
    "Baseline": lambda f: dpbai.Baseline(f, budget=700, epsilon=2.0),
    "Baseline, no noise": lambda f: dpbai.Baseline(f, budget=400, epsilon=math.inf),
    "OD-LinBAI": lambda f: dpbai.ODLinBAI(f, budget=150),
    "DP-Halving": lambda f: dpbai.DPHalving(f, budget=150, epsilon=1.0),
    "DP-OD": lambda f: dpbai.DPOD(f, budget=600, epsilon=1.0),
    "DP-OD, L1": lambda f: dpbai.DPOD(f, budget=600, epsilon=1.0, norm="l1"),
    "DP-OD, no noise": lambda f: dpbai.DPOD(f, budget=100, epsilon=math.inf),
}
ON_TWO_ARMED = {
    "DP-BAI": lambda f: dpbai.DPBAI(f, budget=300, epsilon=0.3),
    "Baseline": lambda f: dpbai.Baseline(f, budget=300, epsilon=0.3),
    "DP-BAI-Gauss": lambda f: dpbai.DPBAIGauss(f, budget=300, epsilon=0.5, delta=0.01),
    "OD-LinBAI": lambda f: dpbai.ODLinBAI(f, budget=50),
    "DP-OD": lambda f: dpbai.DPOD(f, budget=300, epsilon=1.0),
    "DP-OD, L1": lambda f: dpbai.DPOD(f, budget=300, epsilon=1.0, norm="l1"),
}


def standard_errors(policy: dpbai.Policy, instance: dpbai.Instance, trials: int) -> float:
    success = dpbai.exact_success(policy, instance)
    result = dpbai.simulate(policy, instance, trials=trials, seed=3)
    return (result.success_rate - success) / math.sqrt(success * (1 - success) / trials)


@pytest.mark.parametrize("name", ON_SYNTHETIC)
def test_simulation_agrees_on_the_instance_of_section_5(name):
    policy = ON_SYNTHETIC[name](SYNTHETIC.features)
    assert abs(standard_errors(policy, SYNTHETIC, 100_000)) < BAND


@pytest.mark.parametrize("name", ON_TWO_ARMED)
@pytest.mark.parametrize("means", ["printed", "in-range"])
def test_simulation_agrees_on_the_two_armed_instance(name, means):
    instance = dpbai.two_armed(means=means)
    policy = ON_TWO_ARMED[name](instance.features)
    assert abs(standard_errors(policy, instance, 100_000)) < BAND


def random_cone(seed: int) -> tuple[OnePhase, dpbai.Instance]:
    rng = np.random.default_rng(seed)
    arms = int(rng.integers(2, 7))
    decoder = rng.normal(size=(arms, 2))
    release = np.diag(rng.uniform(0.5, 20, 2) * rng.choice([-1, 1], 2))
    if seed % 2:
        release = release[::-1]
    pulls = tuple(rng.integers(4, 30, 2).tolist())
    noise = dpbai.Laplace(float(rng.uniform(0.02, 2)))
    # The best arm may be any; only the laws of the two pulled arms matter.
    means = rng.uniform(0.1, 0.45, arms)
    means[rng.integers(arms)] = 0.5
    policy = one_phase(pulls, noise, decoder, release, pulled=(0, 1))
    return policy, laws(*map(dpbai.Uniform, means.tolist()))


def brute_force(policy: OnePhase, instance: dpbai.Instance, trials: int, seed: int) -> float:
    """Return the share of released points at which another arm has the larger estimate."""
    rng = np.random.default_rng(seed)
    phase = policy.plan
    means = [
        rng.uniform(0, 2 * instance.laws[arm].mean, (n, trials)).mean(axis=0)
        for arm, n in zip(phase.pulled, phase.pulls, strict=True)
    ]
    released = phase.release @ means + rng.laplace(scale=phase.noise.scale, size=(2, trials))
    lead = (phase.decoder[instance.best] - phase.decoder) @ released
    lead[instance.best] = np.inf
    return float((lead <= 0).any(axis=0).mean())


def cones_off(seeds: range, trials: int = 20_000) -> list[int]:
    """Return the seeds of random cones whose probability differs from that of brute force."""
    off = []
    for seed in seeds:
        policy, instance = random_cone(seed)
        error = dpbai.exact_error(policy, instance, rtol=1e-6)
        share = brute_force(policy, instance, trials, seed)
        # Binomial p-values are valid even if the error is near 0 or 1.
        p_value = stats.binomtest(round(share * trials), trials, min(error, 1.0)).pvalue
        if p_value < 1e-6 / len(seeds):
            off.append(seed)
    return off


def test_random_cones_agree_with_brute_force():
    assert cones_off(range(30)) == []


# Relations


def test_success_and_error_add_up_to_one():
    policy = ON_SYNTHETIC["DP-BAI"](SYNTHETIC.features)
    total = dpbai.exact_success(policy, SYNTHETIC) + dpbai.exact_error(policy, SYNTHETIC)
    assert total == pytest.approx(1, abs=1e-15)


def test_half_plane_wedge_and_maximum_agree():
    # A third arm that nearly repeats the second, or almost never wins, changes nothing.
    noise, pulls = dpbai.Gaussian(0.05), 8
    rewards = (dpbai.Uniform(0.5), dpbai.Uniform(0.4))
    half_plane = dpbai.exact_error(one_phase((pulls,) * 2, noise), laws(*rewards))
    twin = one_phase((pulls,) * 2, noise, [[1, 0], [0, 1], [1e-9, 1]], pulled=(0, 1))
    wedge_like = dpbai.exact_error(twin, laws(*rewards, dpbai.Uniform(0.4)))
    maximum_like = dpbai.exact_error(
        one_phase((pulls,) * 3, noise), laws(*rewards, dpbai.Empirical([-9.0]), bounded=False)
    )
    assert wedge_like == pytest.approx(half_plane, rel=1e-7)
    assert maximum_like == pytest.approx(half_plane, rel=1e-8)


@settings(max_examples=25)
@given(st.permutations(range(5)), st.floats(0.1, 10), st.floats(0.1, 10))
def test_the_order_of_arms_and_the_units_of_coordinates_do_not_matter(order, first, second):
    features, theta = FIVE.features, FIVE.theta
    expected = dpbai.exact_error(dpbai.DPBAI(features, budget=60, epsilon=1.0), FIVE, rtol=1e-7)
    units = np.array([first, second])
    shuffled = features[order] * units
    instance = dpbai.Instance(shuffled, theta / units)
    policy = dpbai.DPBAI(shuffled, budget=60, epsilon=1.0)
    assert dpbai.exact_error(policy, instance, rtol=1e-7) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scale", [0.01, 3.0, 1000.0])
def test_scaling_the_release_with_its_noise_changes_nothing(scale):
    instance = laws(dpbai.Uniform(0.5), dpbai.Uniform(0.4), dpbai.Uniform(0.3))
    errors = [
        dpbai.exact_error(
            one_phase((9, 7), dpbai.Laplace(0.05 * s), WEDGE, np.diag([s, s]), pulled=(1, 2)),
            instance,
            rtol=1e-7,
        )
        for s in (1.0, scale)
    ]
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)


@pytest.mark.parametrize("name", ["DP-BAI", "Baseline", "OD-LinBAI", "DP-OD"])
def test_more_pulls_and_less_privacy_mean_fewer_errors(name):
    maker = {
        "DP-BAI": dpbai.DPBAI,
        "Baseline": dpbai.Baseline,
        "OD-LinBAI": lambda f, budget, epsilon: dpbai.ODLinBAI(f, budget=budget),  # noqa: ARG005
        "DP-OD": dpbai.DPOD,
    }[name]

    def error(budget: int, epsilon: float) -> float:
        policy = maker(FIVE.features, budget=budget, epsilon=epsilon)
        return dpbai.exact_error(policy, FIVE, rtol=1e-6)

    by_budget = [error(budget, 0.8) for budget in (300, 1000, 3000)]
    assert by_budget == sorted(by_budget, reverse=True)
    by_epsilon = [error(600, epsilon) for epsilon in (0.2, 1.0, 5.0, math.inf)]
    # OD-LinBAI has no noise, and its errors are equal.
    assert all(b <= a for a, b in pairwise(by_epsilon))
    assert (by_epsilon[-1] < by_epsilon[0]) == (name != "OD-LinBAI")


@pytest.mark.parametrize(
    ("pulls", "noise"),
    [
        ((1200, 1200), dpbai.NoNoise()),
        ((9000, 9), dpbai.NoNoise()),
        ((19, 4_000_000), dpbai.NoNoise()),
        ((200_000, 20), dpbai.Gaussian(0.001)),
        ((50, 700), dpbai.Laplace(0.002)),
        ((40, 40), dpbai.Laplace(0.3)),
    ],
)
def test_which_coordinate_is_integrated_last_does_not_matter(pulls, noise):
    # With errors from 0.8 to 1e-110, and scales that differ by a factor of up to 500.
    narrow, wide = [[0.995, 0.02], [1, 0], [0.9, 0.1]], [[0.9, 0.3], [1, 0], [0.2, 0.9]]
    for decoder in (np.array(narrow), np.array(wide)):
        instance = laws(*map(dpbai.Uniform, (0.45, 0.23, 0.1)))
        errors = [
            dpbai.exact_error(
                one_phase(pulls[::turn], noise, decoder[:, ::turn], pulled=(1, 2)[::turn]), instance
            )
            for turn in (1, -1)
        ]
        assert errors[0] == pytest.approx(errors[1], rel=1e-8, abs=0)


# Ties and degenerate plans


def test_nothing_pulled_means_equal_chances():
    policy = one_phase((), dpbai.NoNoise(), np.zeros((3, 0)))
    for best in range(3):
        means = [0.5 if arm == best else 0.2 for arm in range(3)]
        assert dpbai.exact_error(policy, laws(*map(dpbai.Uniform, means))) == 2 / 3


@pytest.mark.parametrize("twin", [0, 2])
@pytest.mark.parametrize("rounding", [0.0, 1e-16, -1e-16])
def test_an_arm_with_the_same_row_has_the_same_chance(twin, rounding):
    decoder = np.zeros((3, 1))
    decoder[[1, twin], 0] = 1.0, 1 + 2 * rounding
    policy = one_phase((5,), dpbai.Laplace(0.2), decoder, pulled=(1,))
    instance = laws(*map(dpbai.Uniform, (0.2, 0.5, 0.3)))
    error = dpbai.exact_error(policy, instance)
    decoder[twin] = 0.0
    alone = dpbai.exact_error(one_phase((5,), dpbai.Laplace(0.2), decoder, pulled=(1,)), instance)
    assert error == pytest.approx(1 - (1 - alone) / 2, rel=1e-12)
    simulated = dpbai.simulate(policy, instance, trials=10_000)
    assert stats.binomtest(10_000 - simulated.successes, 10_000, error).pvalue > 1e-6


def test_an_arm_that_wins_nowhere_has_error_one():
    # The best arm's row is the mean of the two others.
    policy = one_phase((5, 5), dpbai.Laplace(0.1), [[1, 0], [0.5, 0.5], [0, 1]], pulled=(0, 2))
    assert dpbai.exact_error(policy, laws(*map(dpbai.Uniform, (0.3, 0.5, 0.4)))) == 1.0


def test_without_noise_od_linbai_needs_no_independent_moments():
    turn = np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
    turned = dpbai.Instance(SYNTHETIC.features @ turn, SYNTHETIC.theta @ turn)
    straight = dpbai.exact_error(dpbai.ODLinBAI(SYNTHETIC.features, budget=80), SYNTHETIC)
    policy = dpbai.ODLinBAI(turned.features, budget=80)
    assert dpbai.exact_error(policy, turned) == pytest.approx(straight, rel=1e-8)


@pytest.mark.parametrize("scale", [2.0, -0.5])
def test_two_valued_rewards_are_bernoulli_rewards_moved_and_stretched(scale):
    noise, pulls = 0.03, 40
    first, second = (dpbai.Empirical([0.25, 0.75], [1 - p, p]) for p in (0.4, 0.7))
    moved = dpbai.exact_error(
        one_phase(
            (pulls,) * 2,
            dpbai.Laplace(noise * abs(scale)),
            np.array(WEDGE) / scale,
            np.diag([scale, scale]),
            pulled=(1, 2),
        ),
        laws(dpbai.Bernoulli(0.9), first, second),
    )
    x = np.arange(pulls + 1)
    points = 0.25 + 0.5 * x / pulls
    y = np.linspace(-1, 2, 60_001)
    weights = stats.binom.pmf(x, pulls, 0.4)
    tails = stats.binom.pmf(x, pulls, 0.7)
    density = sum(w * stats.laplace.pdf(y, c, noise) for w, c in zip(weights, points, strict=True))
    low, high = (
        sum(w * stats.laplace.cdf(k * y, c, noise) for w, c in zip(tails, points, strict=True))
        for k in SLOPES
    )
    expected = 1 - integrate.trapezoid(np.where(y > 0, density * (high - low), 0), y)
    assert moved == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-6])
def test_loose_tolerances_hold(rtol):
    """Regression: with a loose tolerance, lines far from the saddle point gave large errors."""
    policies = [
        dpbai.Baseline(SYNTHETIC.features, budget=budget, epsilon=epsilon)
        for budget, epsilon in [(1000, math.inf), (7110, math.inf), (30_000, math.inf), (300, 1.0)]
    ]
    policies += [
        dpbai.ODLinBAI(SYNTHETIC.features, budget=100),
        dpbai.ODLinBAI(SYNTHETIC.features, budget=400),
        dpbai.DPOD(SYNTHETIC.features, budget=400, epsilon=2.0),
    ]
    for policy in policies:
        expected = dpbai.exact_error(policy, SYNTHETIC)
        assert dpbai.exact_error(policy, SYNTHETIC, rtol=rtol) == pytest.approx(expected, rel=rtol)


def test_a_line_far_from_the_saddle_is_caught(monkeypatch):
    monkeypatch.setattr(inversion, "_MOST_EXCESS", 20.0)
    original = inversion._Inverse.__init__

    def without_allowance(self, *arguments, **options):
        original(self, *arguments, **options)
        self.digits -= self.excess

    monkeypatch.setattr(inversion._Inverse, "__init__", without_allowance)
    with pytest.raises(AssertionError):
        test_loose_tolerances_hold(1e-4)


def test_the_rule_integrates_all_polynomials_up_to_degree_31_at_real_points():
    """Since NumPy 2.5, eigenvalues are complex, and so are roots of polynomials."""
    nodes, (gauss, kronrod) = quadrature._NODES, quadrature._WEIGHTS
    assert np.isrealobj(nodes)
    for degree in range(32):
        integral = 2 / (degree + 1) if degree % 2 == 0 else 0.0
        assert nodes**degree @ kronrod == pytest.approx(integral, abs=1e-14)
        assert degree > 19 or nodes**degree @ gauss == pytest.approx(integral, abs=1e-14)
    assert abs(nodes**32 @ kronrod - 2 / 33) > 1e-13


# Refusals


def refusal(policy: dpbai.Policy, instance: dpbai.Instance, **options) -> str:
    with pytest.raises(NotExactError) as caught:
        dpbai.exact_error(policy, instance, **options)
    message = str(caught.value)
    assert "simulate" in message
    return message


def test_more_than_one_phase_is_refused():
    features = np.random.default_rng(0).uniform(0, 1, (20, 5))
    instance = dpbai.Instance(features, [0.1] * 5)
    policy = dpbai.DPBAI(features, budget=500, epsilon=1.0)
    assert "more than one phase" in refusal(policy, instance)


def test_dependent_coordinates_are_refused():
    turn = np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
    turned = dpbai.Instance(SYNTHETIC.features @ turn, SYNTHETIC.theta @ turn)
    policy = dpbai.DPOD(turned.features, budget=400, epsilon=1.0)
    assert "enters two released coordinates" in refusal(policy, turned)


def test_three_coordinates_with_a_decoder_are_refused():
    policy = one_phase((9,) * 3, dpbai.Laplace(1.0), 2 * np.eye(3) + 0.1)
    assert "more than 2" in refusal(policy, laws(*map(dpbai.Uniform, (0.5, 0.4, 0.3))))


@pytest.mark.parametrize(
    ("instance", "noise", "pulls"),
    [
        (laws(*(dpbai.Empirical([0, 0.3, m]) for m in (0.9, 0.5, 0.4))), dpbai.Laplace(0.1), 9),
        (laws(*map(dpbai.Bernoulli, (0.9, 0.5, 0.4))), dpbai.NoNoise(), 9),
        (laws(*map(dpbai.Uniform, (0.5, 0.4, 0.3))), dpbai.NoNoise(), 1),
    ],
)
def test_rough_distributions_are_refused(instance, noise, pulls):
    for policy in (
        one_phase((pulls,) * 2, noise, WEDGE, pulled=(1, 2)),
        one_phase((pulls,) * 3, noise),
    ):
        assert "not smooth enough" in refusal(policy, instance)


@pytest.mark.parametrize("law", [dpbai.Uniform, dpbai.Bernoulli])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-12])
@pytest.mark.parametrize(("policy", "limit"), [(dpbai.DPBAI, 3 / 8), (dpbai.Baseline, 1 / 30)])
def test_very_wide_noise_alone_determines_the_error(policy, limit, epsilon, law):
    """The limits are 1/30 for 30 equal arms, and P(x > max(0, y)) for Laplace variates x and y."""
    planned = policy(SYNTHETIC.features, budget=400, epsilon=epsilon)
    instance = dpbai.Instance(SYNTHETIC.features, SYNTHETIC.theta, rewards=law)
    assert dpbai.exact_success(planned, instance) == pytest.approx(limit, rel=1e-9)


@pytest.mark.parametrize("row", rows_of("contrast"), ids=lambda row: str(row["arguments"]))
def test_the_error_of_a_noisy_contrast_has_the_tolerance_at_any_width_of_the_noise(row):
    """Regression: the difference from the residue had too few digits, twice."""
    expected = float(row["value"])
    assert contrast(*row["arguments"], rtol=1e-4) == pytest.approx(expected, rel=1e-4)
    low, high = dpbai.error_bounds(*contrast_of(*row["arguments"]))
    assert low <= expected <= high <= low * 1.001


def test_the_error_of_a_contrast_with_wide_noise_is_right():
    policy = dpbai.DPDesign(np.eye(2), budget=5, epsilon=1e-5)
    assert policy.phase(1, (0, 1), ()).coordinates == 1
    uniform, bernoulli = (
        dpbai.Instance(np.eye(2), [high, 0.25], rewards=law)
        for high, law in ((0.5, dpbai.Uniform), (0.75, dpbai.Bernoulli))
    )
    assert dpbai.exact_error(policy, uniform) == pytest.approx(0.49999750001, rel=1e-9)
    make = partial(dpbai.DPDesign, np.eye(2), epsilon=1e-3)
    # The error is just below one half.
    low, high = dpbai.error_bounds(make(budget=2), bernoulli)
    assert low <= 0.499750 <= high
    assert dpbai.exact_error(make(budget=2), bernoulli) == pytest.approx(0.49975, abs=2e-7)
    found = dpbai.smallest_budget(lambda budget: make(budget=budget), bernoulli, error=0.4996)
    assert (found.budget, found.confidence) == (4, 1.0)


@pytest.mark.parametrize("pulls", [1, 50])
def test_two_bernoulli_means_with_laplace_noise_of_any_width_agree_with_enumeration(pulls):
    counts = np.arange(pulls + 1)
    chances = [stats.binom.pmf(counts, pulls, mean) for mean in (0.75, 0.25)]
    lead = np.subtract.outer(counts, counts)
    instance = laws(dpbai.Bernoulli(0.75), dpbai.Bernoulli(0.25))
    for epsilon in (1e-300, 1e-100, 1e-12, 1e-6, 1e-5, 1e-3, 0.1, 3.0):
        policy = one_phase((pulls, pulls), dpbai.Laplace(1 / (epsilon * pulls)))
        lost = (2 + epsilon * np.abs(lead)) / 4 * np.exp(-epsilon * np.abs(lead))
        expected = chances[0] @ np.where(lead >= 0, lost, 1 - lost) @ chances[1]
        assert dpbai.exact_error(policy, instance) == pytest.approx(expected, rel=1e-9)


PAIRS = [row for row in rows_of("maximum", "uniform") if len(row["arguments"][0]) == 2]


@pytest.mark.parametrize("row", PAIRS, ids=lambda row: str(row["arguments"]))
def test_an_arm_with_a_copy_has_the_error_of_two_arms_at_any_width_of_the_noise(row):
    (first, second), pulls, scale = row["arguments"]
    decoder = [[1, 0], [0, 1], [0, 1]]
    policy = one_phase((pulls, pulls), dpbai.Laplace(scale), decoder, pulled=(0, 1))
    error = dpbai.exact_error(policy, laws(*map(dpbai.Uniform, (first[1], second[1], 0.2))))
    assert error == pytest.approx(float(row["value"]), rel=1e-8)


class Doubled(dpbai.Uniform):
    def _sums(self, pulls, size, rng):
        return 2 * super()._sums(pulls, size, rng)


@pytest.mark.parametrize("law", [dpbai.Beta(0.5), Doubled(0.25)])
def test_rewards_of_another_law_are_refused(law):
    """A subclass may change what it inherits, and no transform of Beta rewards is implemented."""
    instance = laws(dpbai.Uniform(0.6), law, dpbai.Uniform(0.3), bounded=False)
    policy = one_phase((9, 9), dpbai.Laplace(0.1), WEDGE, pulled=(1, 2))
    assert f"generating function of {type(law).__name__} rewards" in refusal(policy, instance)
    with pytest.raises(NotExactError, match="estimate it with simulate"):
        dpbai.error_bounds(policy, instance)


def test_a_noise_of_another_kind_is_refused():
    heavy = SimpleNamespace(
        characteristic_function=lambda t: np.exp(-abs(t)),
        **dict.fromkeys(("sample", "loss", "delta_at", "standard_deviation"), len),
    )
    instance = laws(*map(dpbai.Uniform, (0.5, 0.4)))
    assert "SimpleNamespace noise" in refusal(one_phase((9, 9), heavy), instance)


@pytest.mark.parametrize("rtol", [0.0, 1e-13, 0.1, math.nan])
def test_rtol_out_of_range_is_an_error(rtol):
    policy = one_phase((9, 9), dpbai.Laplace(0.1))
    with pytest.raises(ValueError, match="rtol"):
        dpbai.exact_error(policy, laws(*map(dpbai.Uniform, (0.5, 0.4))), rtol=rtol)


def test_another_number_of_arms_is_an_error():
    with pytest.raises(ValueError, match="same number of arms"):
        dpbai.exact_error(one_phase((9, 9), dpbai.Laplace(0.1)), SYNTHETIC)


# Mutants: likely mistakes, each of which must fail one of the checks above.


def half_a_cone(decoder, best):
    normals = ORIGINAL_CONE(decoder, best)
    return normals if normals is None else normals[:1]


def first_two_rows(decoder, best):
    return np.delete(decoder[best] - decoder, best, axis=0)[:2]


ORIGINAL_CONE = exact.cone
NOISE_TERM, MEAN_TERM = terms.noise_term, terms.mean_term
TAIL = inversion.Variables.log_tail


@pytest.mark.parametrize("mutant", [half_a_cone, first_two_rows])
def test_wrong_cones_are_caught(monkeypatch, mutant):
    monkeypatch.setattr(exact, "cone", mutant)
    assert cones_off(range(20))


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (terms, "noise_term", lambda noise: NOISE_TERM(dpbai.Laplace(noise.scale / 2))),
        (terms, "mean_term", lambda law, n: MEAN_TERM(dpbai.Uniform(0.9 * law.mean), n)),
        (inversion.Variables, "log_tail", lambda self, x, side, slack: TAIL(self, x, -side, slack)),
    ],
    ids=["noise of the wrong scale", "smaller rewards", "the wrong tail"],
)
def test_wrong_transforms_are_caught(monkeypatch, owner, name, mutant):
    monkeypatch.setattr(owner, name, mutant)
    assert any(deviation(row) > row["rtol"] for row in rows_of("maximum", "uniform"))


def test_a_mean_of_one_pull_too_many_is_caught(monkeypatch):
    monkeypatch.setattr(terms, "mean_term", lambda law, pulls: MEAN_TERM(law, pulls + 1))
    assert any(deviation(row) > row["rtol"] for row in rows_of("duel", "uniform"))


def test_the_error_is_that_of_breaking_ties_if_nothing_else_is_random():
    """Without noise, all three arms tie if the pulled arm only has rewards of 0."""
    features = [[1.0], [2.0], [-1.0]]
    instance = dpbai.Instance(features, rewards=[dpbai.Uniform(m) for m in (0.4, 0.0, 0.2)])
    linear = dpbai.ODLinBAI(features, budget=10)
    assert dpbai.exact_error(linear, instance) == pytest.approx(2 / 3)
    result = dpbai.simulate(linear, instance, trials=10_000)
    assert stats.binomtest(10_000 - result.successes, 10_000, 2 / 3).pvalue > 1e-6
    certain = one_phase((9,) * 3, dpbai.NoNoise())
    assert dpbai.exact_error(certain, constants(0.5, 0.4, 0.3)) == 0.0


@pytest.mark.parametrize("apart", [1e-13, 1e-11, 3e-11, 1e-10, 1e-8, 1e-4])
def test_nearly_equal_arms_tie_in_every_engine_or_in_none(apart):
    features = np.array([[1.0], [1 + apart]])
    instance = dpbai.Instance(features, rewards=[dpbai.Bernoulli(0.2), dpbai.Bernoulli(0.2001)])
    policy = dpbai.DPBAI(features, budget=1000, epsilon=1.0)
    error = dpbai.exact_error(policy, instance)
    low, high = dpbai.error_bounds(policy, instance)
    assert low <= error <= high
    assert error == 0.5 if apart < 2e-11 else error < 1e-50
    result = dpbai.simulate(policy, instance, trials=4000)
    assert stats.binomtest(4000 - result.successes, 4000, error).pvalue > 1e-6


def test_a_mean_with_many_fine_steps_has_no_spikes():
    """Regression: all values of the mean of 10^9 rewards were enumerated."""
    instance = laws(dpbai.Uniform(0.25), dpbai.Bernoulli(0.5), dpbai.Bernoulli(0.4))
    release = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]])
    decoder = [[1, 0.0], [0, 1], [-1, 0]]
    policy = one_phase((5, 3, 10**9), dpbai.Laplace(1e-2), decoder, release)
    found = dpbai.exact_error(policy, instance, rtol=1e-4)
    thin = one_phase((5, 3, 10**9), dpbai.Laplace(1e-4), decoder, release)
    assert "not smooth enough" in refusal(thin, instance)
    result = dpbai.simulate(policy, instance, trials=10_000)
    assert stats.binomtest(10_000 - result.successes, 10_000, found).pvalue > 1e-6


def test_an_exact_error_is_a_float():
    policy = dpbai.DPBAI(np.eye(2), budget=9, epsilon=1.0)
    for law in (dpbai.Uniform, dpbai.Bernoulli):
        error = dpbai.exact_error(policy, dpbai.Instance(np.eye(2), [0.5, 0.4], rewards=law))
        assert type(error) is float


@pytest.mark.parametrize("rtol", [1e-12, 1e-2])
def test_the_range_of_tolerances_includes_its_ends(rtol):
    instance = dpbai.Instance(np.eye(2), [0.5, 0.4])
    policy = dpbai.DPBAI(np.eye(2), budget=20, epsilon=1.0)
    error = dpbai.exact_error(policy, instance, rtol=rtol)
    assert error == pytest.approx(dpbai.exact_error(policy, instance), rel=rtol + 1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1e-5, 1e-6, 1e-9])
@pytest.mark.parametrize("means", [(0.5, 0.75, 0.25), (0.2, 0.9, 0.3, 0.4)])
def test_noise_far_below_a_reward_only_breaks_ties(means, scale):
    """Each arm has one Bernoulli reward; the noise chooses among the arms with the largest."""
    policy = one_phase((1,) * len(means), dpbai.Laplace(scale))
    best, expected = np.argmax(means), 0.0
    for ones in product((0, 1), repeat=len(means)):
        winners = np.flatnonzero(np.equal(ones, max(ones)))
        lost = 1 - (best in winners) / winners.size
        expected += lost * np.prod(np.where(ones, means, np.subtract(1, means)))
    found = dpbai.exact_error(policy, laws(*map(dpbai.Bernoulli, means)))
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("pulls", [1, 4, 9])
def test_all_arms_tie_on_the_edge_of_a_half_plane(pulls):
    """One mean is released without noise. If it is 0, all five arms tie, and otherwise two of them.

    The best arm and its copy win if the mean is positive.
    """
    decoder = [[1.0], [1.0], [0.5], [0.2], [-1.0]]
    policy = one_phase((pulls,), dpbai.NoNoise(), decoder, pulled=(0,))
    instance = laws(dpbai.Bernoulli(0.3), *map(dpbai.Uniform, (0.1, 0.2, 0.05, 0.02)))
    zero = 0.7**pulls
    expected = zero * 4 / 5 + (1 - zero) / 2
    assert dpbai.exact_error(policy, instance) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("pulls", range(1, 12))
def test_two_valued_means_that_are_equal_up_to_rounding_tie(pulls):
    """The lower arm only ties, and only if all of its rewards are high and the others are low."""
    rewards = dpbai.Empirical([0.6, 0.9], [19, 1]), dpbai.Empirical([0.3, 0.6], [1, 9])
    error = dpbai.exact_error(one_phase((pulls, pulls), dpbai.NoNoise()), laws(*rewards))
    assert error == pytest.approx((0.95 * 0.9) ** pulls / 2, rel=1e-9)


@pytest.mark.parametrize("exponent", [100, 160, 300])
def test_the_transform_of_laplace_noise_does_not_overflow(exponent):
    """At z = iy, log 1/(1 - z^2) is -2 log y up to terms of order y^-2."""
    term = terms.noise_term(dpbai.Laplace(1.0))
    (found,) = term.log_mgf(np.array([10.0**exponent * 1j]))
    assert found.real == pytest.approx(-2 * exponent * math.log(10), rel=1e-12)


def test_integrals_that_rounding_errors_hide_are_refused():
    """The other arms can only win if the mean of the best one is almost 0."""
    policy = one_phase((6,) * 3, dpbai.NoNoise())
    instance = laws(*map(dpbai.Uniform, (0.5, 1e-6, 1e-6)))
    assert "rounding errors are large" in refusal(policy, instance, rtol=1e-4)
