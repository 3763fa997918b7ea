"""The lower bound of Theorem 4.7: its hard instances, every constant, and its three cases."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpbai
from dpbai.audits import EarlyStopping, WinStay, bernoulli_law
from dpbai.instance import hard_gammas
from dpbai.lower import (
    case_thresholds,
    change_of_measure,
    lower_bound,
    lower_bound_bai,
    lower_bound_valid_from,
    sharp_pri_constant,
)

LIMIT = {4: 4.0**-6, 5: 5.0**-7, 8: 8.0**-10, 10: 10.0**-12}


@pytest.mark.parametrize("arms", LIMIT)
def test_the_hard_instances_are_those_of_the_proof(arms):
    gamma1 = 0.95 * LIMIT[arms]
    gammas = gamma1 * arms ** np.arange(arms)
    instances = dpbai.hard_instances(arms, gamma1)
    assert len(instances) == arms + 1
    for j, instance in enumerate(instances):
        assert np.array_equal(instance.features @ instance.features.T, np.eye(arms))
        assert instance.best == max(j - 1, 0)
        assert all(isinstance(law, dpbai.Bernoulli) for law in instance.laws)
        sign = np.where(np.arange(1, arms + 1) == j, 1, -1)
        assert np.allclose(instance.means - 0.5, sign * gammas, rtol=2e-4)


@pytest.mark.parametrize("arms", LIMIT)
def test_total_variation_between_neighbouring_hard_instances_is_two_gamma(arms):
    gamma1 = 0.95 * LIMIT[arms]
    base, *others = dpbai.hard_instances(arms, gamma1)
    gammas = hard_gammas(arms, gamma1)
    for i, other in enumerate(others):
        moved = np.flatnonzero(other.means != base.means)
        assert moved.tolist() == [i]
        p, q = base.means[i], other.means[i]
        distance = 0.5 * (abs(p - q) + abs((1 - p) - (1 - q)))
        assert distance == pytest.approx(2 * gammas[i], rel=2e-4)
        twelve = 12 * 0.3 * 7 * gammas[i]
        factor = change_of_measure(epsilon=0.3, pulls=7, distance=distance)
        assert factor == pytest.approx(twelve, rel=2e-4)


def _exact_pri(arms, i):
    """Epsilon gamma_1 H_pri(v^(i)), i >= 1, in exact arithmetic."""
    gamma = [Fraction(arms) ** k for k in range(arms)]
    gaps = sorted([Fraction(0), *(gamma[i - 1] + gamma[k] for k in range(arms) if k != i - 1)])
    return max(rank / gaps[rank - 1] for rank in range(2, arms + 1))


@pytest.mark.parametrize("arms", [4, 5, 8, 13, 30])
def test_h_pri_of_the_ith_hard_instance_is_at_most_i_over_epsilon_gamma_i(arms):
    for i in range(1, arms + 1):
        scale = Fraction(arms) ** (i - 1)
        assert _exact_pri(arms, i) <= Fraction(i) / scale
        assert _exact_pri(arms, i) > Fraction(i - 1) / scale  # i - 1 would be too small


@pytest.mark.parametrize("arms", LIMIT)
def test_the_library_computes_the_hardness_of_hard_instances(arms):
    gamma1 = 0.95 * LIMIT[arms]
    for i, instance in enumerate(dpbai.hard_instances(arms, gamma1)[1:], start=1):
        pri = dpbai.hardness(instance, epsilon=0.2).pri
        assert pri == pytest.approx(float(_exact_pri(arms, i)) / (0.2 * gamma1), rel=3e-4)


def _shares_are_few(arms, constant, trials=200):
    """Whether min n_i eps gamma_i H_pri <= constant T / log K over i >= 2, for sums n of 4 T."""
    rng = np.random.default_rng(arms)
    product = np.array(
        [float(_exact_pri(arms, i) * Fraction(arms) ** (i - 1)) for i in range(2, arms + 1)]
    )
    worst = 1 / product  # the n_i that make all products equal
    shares = [worst, *rng.dirichlet(np.ones(arms - 1), trials)]
    return all(
        (4 * n / n.sum() * product).min() <= constant / math.log(arms) * (1 + 1e-12) for n in shares
    )


@pytest.mark.parametrize("arms", [4, 5, 10, 40])
def test_some_arm_has_few_pulls_eight_t_over_log_k(arms):
    assert _shares_are_few(arms, 8)
    assert not _shares_are_few(arms, 4)


def test_log_k_less_log_two_is_at_least_half_of_log_k_from_four_arms_on():
    assert all(math.log(K) - math.log(2) >= math.log(K) / 2 - 1e-15 for K in range(4, 1000))
    assert math.log(3) - math.log(2) < math.log(3) / 2
    for K in range(4, 300):
        assert math.log(K) - math.log(2) < sum(1 / i for i in range(2, K + 1))


def test_the_quarter_is_one_less_a_half_less_a_quarter_and_markov_needs_its_four():
    """P(N >= 4 E N) <= 1/4 is sharp: N = 4 with probability 1/4. For 3 E N it is 1/3."""
    assert 1 - Fraction(1, 4) - Fraction(1, 2) == Fraction(1, 4)
    outcomes = {4: Fraction(1, 4), 0: Fraction(3, 4)}
    mean = sum(n * p for n, p in outcomes.items())
    assert sum(p for n, p in outcomes.items() if n >= 4 * mean) == Fraction(1, 4)
    assert sum(p for n, p in outcomes.items() if n >= 3 * mean) > Fraction(1, 5)
    # The paper sets n_i = 4 E N_i and then writes P(N >= 4 n_i): that would be P(N >= 16 E N).
    assert sum(p for n, p in outcomes.items() if n >= 16 * mean) == 0


@pytest.mark.parametrize("arms", [4, 7, 20])
@pytest.mark.parametrize("pri", [2.0, 1e5])
def test_97_covers_96_and_the_quarter_and_rounding_from_valid_from_on(arms, pri):
    scale = math.log(arms) * pri
    assert 12 * 8 == 96

    def log_proved(T):  # n_i rounded up: their sum is at most 4 T + K - 1
        return math.log(1 / 4) - 12 * 2 * (4 * T + arms - 1) / scale

    least = lower_bound_valid_from(arms=arms, pri=pri)
    assert log_proved(least) == pytest.approx(-97 * least / scale)
    assert log_proved(1.001 * least) > -97 * 1.001 * least / scale
    assert log_proved(0.999 * least) < -97 * 0.999 * least / scale
    # Without rounding, as printed, log(4) log(K) H_pri is enough.
    printed = math.log(4) * scale
    assert math.log(1 / 4) - 96 * printed / scale == pytest.approx(-97 * printed / scale)
    assert least == pytest.approx(printed + 24 * (arms - 1))


def test_lower_bounds_have_the_constants_97_and_401():
    instance = dpbai.hard_instances(4, 2e-4)[2]
    hard = dpbai.hardness(instance, epsilon=0.5)
    T = 10_000
    expected = math.exp(-97 * T / (math.log(4) * hard.pri))
    assert lower_bound(instance, epsilon=0.5, budget=T) == pytest.approx(expected)
    expected = math.exp(-401 * T / (math.log(4) * hard.bai))
    assert lower_bound_bai(instance, budget=T) == pytest.approx(expected)


def test_dp_bai_errs_more_than_the_lower_bound_on_some_hard_instance():
    """In logarithms: where the bound applies, it is below 4^-97, far below the error.

    False alarm below 1e-6: errors near 0.41 (v^(0)) and 0.33 (v^(2)), 2000 trials each; the
    probability that the first exceeds 1/2 or that the second does not occur is below 1e-14.
    """
    arms, epsilon, T = 4, 0.5, 300_000
    instances = dpbai.hard_instances(arms, 2.4e-4)
    pri = max(dpbai.hardness(v, epsilon=epsilon).pri for v in instances[2:])
    assert lower_bound_valid_from(arms=arms, pri=pri) <= T
    error = {}
    for i in (0, 2):
        policy = dpbai.DPBAI(instances[i].features, budget=T, epsilon=epsilon)
        error[i] = 1 - dpbai.simulate(policy, instances[i], trials=2_000, seed=i).success_rate
    assert error[0] < 1 / 2  # as the proof requires of a consistent policy
    bound = lower_bound(instances[2], epsilon=epsilon, budget=T)
    assert bound < 4.0**-97 < error[2]


def _case_holds(case, log_x, beta, c):
    """The inequality of a case at log log K, log H_BAI or log H_pri, in 60 digits."""
    with localcontext(prec=60):
        x = Decimal(log_x).exp()  # log K, H_BAI or H_pri: each case is about x / constant
        constant = {1: 401, 2: 401, 3: 97}[case]
        return x / constant > 2 * Decimal(c) * x ** Decimal(beta)


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("c", [0.01, 0.5, 1.0, 30.0])
def test_the_three_cases_hold_from_their_thresholds_on_and_not_before(beta, c):
    thresholds = case_thresholds(beta=beta, c=c)
    for case, log_x in (
        (1, thresholds.log_log_arms),
        (2, thresholds.log_bai),
        (3, thresholds.log_pri),
    ):
        assert _case_holds(case, log_x + 1e-9, beta, c)
        assert _case_holds(case, log_x + 5, beta, c)
        assert not _case_holds(case, log_x - 1e-9, beta, c)


def test_the_thresholds_are_the_printed_ones_but_for_the_number_of_arms():
    beta, c = 0.5, 3.0
    thresholds = case_thresholds(beta=beta, c=c)
    assert math.exp(thresholds.log_bai) == pytest.approx((802 * c) ** (1 / (1 - beta)))
    assert math.exp(thresholds.log_pri) == pytest.approx((194 * c) ** (1 / (1 - beta)))
    printed = 401 ** (1 / (1 - beta)) * (2 * c) ** (beta / (1 - beta))
    assert math.exp(thresholds.printed_log_log_arms) == pytest.approx(printed)


def test_the_printed_number_of_arms_is_too_small_when_2_c_exceeds_1():
    """Its exponent of 2 c is beta/(1 - beta), where 1/(1 - beta) is right."""
    for beta in (0.0, 0.5, 0.9):
        for c in (0.6, 1.0, 30.0):
            printed = case_thresholds(beta=beta, c=c).printed_log_log_arms
            assert not _case_holds(1, printed + 1e-9, beta, c)
        printed = case_thresholds(beta=beta, c=0.4).printed_log_log_arms
        assert _case_holds(1, printed + 1e-9, beta, 0.4)


def test_thresholds_do_not_overflow():
    thresholds = case_thresholds(beta=0.9999, c=1e6)
    assert math.isfinite(thresholds.log_log_arms)
    assert thresholds.log_bai > 1e5


def test_a_smaller_power_weakens_the_bound_only_while_the_hardness_exceeds_one():
    """The reduction to three cases needs H_pri >= 1, but two of them let epsilon tend to infinity.

    There H_pri < 1, and H_pri^beta > H_pri; H_BAI^b + H_pri^b <= 2 (H_BAI + H_pri) repairs it.
    """
    bai, beta = 50.0, 0.5
    for pri in (1.0, 3.0, 1e4):
        assert bai**beta + pri**beta <= bai + pri
    tiny = 1e-3
    assert bai + tiny**beta > bai + tiny
    assert bai + tiny**beta <= 2 * (bai + tiny)
    # P' requires epsilon < 1, and then H_pri > 2: H_pri < H_BAI^beta fails for small beta.
    assert all(bai**b < 2 for b in (0.0, 0.1))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="arms"):
        dpbai.hard_instances(3, 1e-4)
    for gamma1 in (0, -1, 4.0**-6, math.nan):
        with pytest.raises(ValueError, match="gamma1"):
            dpbai.hard_instances(4, gamma1)
    with pytest.raises(ValueError, match=r"2\^-40"):
        dpbai.hard_instances(12, 1e-16)
    instance = dpbai.hard_instances(4, 2e-4)[1]
    with pytest.raises(ValueError, match="epsilon"):
        lower_bound(instance, epsilon=math.inf, budget=10)
    with pytest.raises(ValueError, match="budget"):
        lower_bound(instance, epsilon=1.0, budget=0)
    with pytest.raises(ValueError, match="beta"):
        case_thresholds(beta=1.0, c=1.0)
    with pytest.raises(ValueError, match="c must"):
        case_thresholds(beta=0.5, c=0.0)
    with pytest.raises(ValueError, match="pri"):
        lower_bound_valid_from(arms=4, pri=0.0)
    with pytest.raises(ValueError, match="arms"):
        lower_bound_valid_from(arms=3, pri=1.0)


def test_coupled_rewards_change_few_enough_that_privacy_bounds_the_factor():
    """P'(E) >= e^(-epsilon m) (P(E) - P(k > m)), k the number of rewards that differ, for all E."""
    epsilon, pulls, means = 0.7, 4, (0.8, 0.35)
    policy = EarlyStopping(WinStay(2, 6, epsilon), pulls, 0)
    law = bernoulli_law(policy, means)
    for changed in (0.6, 0.2):
        other = bernoulli_law(policy, (changed, means[1]))
        for m in range(pulls + 1):
            tail = stats.binom.sf(m, pulls, abs(changed - means[0]))
            factor = math.exp(-epsilon * m)
            # The worst event consists of the outputs with a positive difference.
            worst = sum(max(0.0, factor * law[x] - other.get(x, 0.0)) for x in law)
            assert worst <= factor * tail + 1e-12
    # Without the tail it fails: in some runs more than m rewards differ.
    factor = math.exp(-epsilon * 1)
    other = bernoulli_law(policy, (0.0, means[1]))
    assert any(other.get(x, 0.0) < factor * law[x] for x in law)


@pytest.mark.parametrize("arms", [2, 4, 30])
def test_the_sharp_constant_is_two_over_the_whole_harmonic_sum(arms):
    sharp = sharp_pri_constant(arms)
    assert sharp == pytest.approx(2 * math.log(arms) / sum(1 / i for i in range(2, arms + 1)))
    if arms == 4:
        assert sharp == pytest.approx(2.5593, abs=1e-4)
    # For every allocation, some arm gets this few pulls.
    rng = np.random.default_rng(0)
    for _ in range(200):
        shares = rng.dirichlet(np.full(arms, 0.3))
        terms = shares[1:] * np.arange(
            2, arms + 1
        )  # n_i epsilon gamma_i H_i / T for the largest H_i
        assert 2 * terms.min() * math.log(arms) <= sharp * (1 + 1e-12)
