"""The tail bounds of the appendix of useful facts, against exact probabilities.

Each check takes the bound as an argument, so that the same check can be shown to fail with a
wrong constant.
"""

import math

import numpy as np
import pytest
from scipy import stats

from dpbai.lemmas import suboptimal_arm, suboptimal_arm_gauss
from dpbai.tails import SubExponential, hoeffding, hoeffding_two_sided, laplace_sum

ROUNDING = 1 + 1e-12


def _bernoulli_tails():
    """Yield n, deviation, exact P(S - E S >= x) and P(abs(S - E S) >= x) for Binomial(n, p)."""
    for n in (1, 2, 5, 30, 400):
        for p in (0.5, 0.1, 0.9):
            for count in range(math.floor(n * p) + 1, n + 1, max(1, n // 40)):
                deviation = count - n * p
                upper = stats.binom.sf(count - 1, n, p)
                lower = stats.binom.cdf(math.floor(n * p - deviation + 1e-9), n, p)
                yield n, deviation, upper, upper + lower


def _hoeffding_holds(bound, two_sided=False):
    return all(
        (both if two_sided else upper) <= bound(deviation, np.ones(n)) * ROUNDING
        for n, deviation, upper, both in _bernoulli_tails()
    )


def test_hoeffding_bounds_binomial_tails_and_needs_its_two():
    assert _hoeffding_holds(hoeffding)
    assert not _hoeffding_holds(lambda x, widths: hoeffding(x, widths) ** 1.5)  # 3 for 2


def test_two_sided_hoeffding_bounds_both_tails_and_needs_its_factor_two():
    assert _hoeffding_holds(hoeffding_two_sided, two_sided=True)
    assert not _hoeffding_holds(hoeffding, two_sided=True)


@pytest.mark.parametrize("deviation", ["1", None, [1.0], 0.0, -1.0, math.nan])
def test_a_deviation_that_is_no_positive_number_is_named(deviation):
    with pytest.raises((TypeError, ValueError), match=r"^deviation must"):
        hoeffding(deviation, [1.0])


def test_hoeffding_depends_on_the_ranges_not_on_how_many_they_are():
    assert hoeffding(1.5, [1, 2, 3]) == pytest.approx(math.exp(-2 * 1.5**2 / 14))
    assert hoeffding(1.5, [0, 0]) == 0


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_laplace_is_sub_exponential_with_tau_and_b_of_two_scales(scale):
    def holds(tau, b):
        t = np.linspace(-1, 1, 2001)[1:-1] / b
        log_mgf = -np.log1p(-np.minimum((scale * t) ** 2, 1 - 1e-15))
        return bool((log_mgf <= (t * tau) ** 2 / 2 * ROUNDING).all())

    law = SubExponential.laplace(scale)
    assert (law.tau, law.b) == (2 * scale, 2 * scale)
    assert holds(law.tau, law.b)
    assert not holds(math.sqrt(2) * scale, 2 * scale)  # tau^2 as the variance
    assert not holds(2 * scale, scale)  # b as the scale


def test_a_combination_is_sub_exponential_with_the_parameters_of_the_lemma():
    law = SubExponential.combination(
        [1, -2, 0], [SubExponential(3, 5), SubExponential(4, 2)] + [SubExponential(9, 9)]
    )
    assert law.tau == pytest.approx(math.sqrt(9 + 64))
    assert law.b == 5
    weights, scale = [0.9, -0.5, 0.3], 0.7
    law = laplace_sum(weights, scale)
    for t in np.linspace(-0.999, 0.999, 201) / law.b:
        log_mgf = -sum(math.log1p(-((w * scale * t) ** 2)) for w in weights)
        assert log_mgf <= (t * law.tau) ** 2 / 2 * ROUNDING


def laplace_sum_tail(weights, scale, x):
    """Exact P(sum_i w_i Z_i >= x), x >= 0, for distinct abs(w_i): partial fractions of the mgf."""
    squares = np.abs(weights) ** 2
    total = 0.0
    for k, own in enumerate(squares):
        others = np.delete(squares, k)
        total += np.prod(own / (own - others)) * 0.5 * math.exp(-x / (math.sqrt(own) * scale))
    return total


WEIGHTS = [[1.0], [1.0, 0.6], [1.0, 0.93, 0.87, 0.8], [0.4, 0.2], [1, 0.97, 0.94, 0.91, 0.88, 0.85]]


def _sum_tails_hold(law_of):
    return all(
        laplace_sum_tail(np.array(weights), scale, x) <= law_of(weights, scale).tail(x) * ROUNDING
        for weights in WEIGHTS
        for scale in (0.2, 1.0)
        for x in np.linspace(0, 60, 400) * scale
    )


def test_the_tail_of_weighted_laplace_sums_is_bounded_on_both_branches():
    assert _sum_tails_hold(laplace_sum)
    assert not _sum_tails_hold(lambda w, s: laplace_sum(w, s / 4))  # 1/2 for 2 in tau = b = 2 s


def test_each_branch_of_the_tail_bound_needs_its_two():
    """A Gaussian is sub-exponential for any b, and Lap(1) for b near 1 and a suitable tau."""
    b = 1.01
    tau = b * math.sqrt(-2 * math.log1p(-(b**-2)))  # the least tau for abs(t) < 1/b

    def holds(gaussian, laplace):
        x = np.linspace(0.01, 8, 300)
        quadratic = all(stats.norm.sf(v) <= gaussian(v) for v in x)
        return quadratic and all(0.5 * math.exp(-v) <= laplace(v) for v in 10 * x)

    gaussian, laplace = SubExponential(1, 1e-3), SubExponential(tau, b)
    assert holds(gaussian.tail, laplace.tail)
    assert not holds(lambda v: gaussian.tail(v) ** 2, laplace.tail)  # exp(-x^2 / tau^2)
    assert not holds(gaussian.tail, lambda v: laplace.tail(v) ** 4)  # exp(-2 x / b)


def test_the_branches_meet():
    law = SubExponential(3.0, 0.5)
    assert law.linear_from == 18
    assert law.tail(18) == pytest.approx(math.exp(-18))
    assert law.tail(18 + 1e-9) == pytest.approx(math.exp(-18))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="deviation"):
        hoeffding(0, [1])
    with pytest.raises(ValueError, match="ranges"):
        hoeffding(1, [-1])
    with pytest.raises(ValueError, match="tau"):
        SubExponential(0, 1)
    with pytest.raises(ValueError, match="b of SubExponential must"):
        SubExponential(1, math.inf)
    with pytest.raises(ValueError, match="deviation"):
        SubExponential(1, 1).tail(-1)


@pytest.mark.parametrize("unit", [1e-200, 1e200, 1e300])
def test_tail_bounds_do_not_depend_on_the_unit(unit):
    """Their squares overflow or underflow."""
    assert hoeffding(1.5 * unit, [unit, 2 * unit]) == pytest.approx(hoeffding(1.5, [1, 2]))
    own, law = laplace_sum([1, 0.5], 1.0), laplace_sum([1, 0.5], unit)
    for deviation in (0.5, 2.0, 9.0):
        assert law.tail(deviation * unit) == pytest.approx(own.tail(deviation))


def test_tail_bounds_far_out_have_no_overflow():
    assert hoeffding(math.inf, [1.0]) == SubExponential(1, 1).tail(math.inf) == 0
    assert hoeffding(1e300, [1.0]) < 1e-300
    assert SubExponential(1, 1).tail(1e300) < 1e-300
    assert suboptimal_arm(1e300, epsilon=1.0, count=5) < 1e-300
    assert suboptimal_arm_gauss(1e300, sigma=1.0, count=5) < 1e-300


def test_an_upper_bound_for_a_possible_event_is_positive():
    """A bound on a possible event that would underflow is rounded up."""
    assert SubExponential(1.0, 1.0).tail(1e5) > 0
    assert SubExponential(1.0, 1e-3).tail(99.0) > 0
    assert laplace_sum([1.0, -1.0], 1e-300).tail(1.0) > 0
    assert hoeffding(1e3, [1.0]) > 0
    assert suboptimal_arm(1.0, epsilon=1.0, count=10**6) > 0
    assert suboptimal_arm_gauss(1.0, sigma=1e-3, count=10**6) > 0
    assert hoeffding(math.inf, [1.0]) == hoeffding(1.0, [0.0]) == 0  # impossible events
