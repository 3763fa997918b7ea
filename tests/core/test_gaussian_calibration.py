"""The Gaussian mechanism: delta(epsilon) and both calibrations, by other methods.

tests/exact/test_reference.py compares their digits with the reference table.
"""

import math
import re
import warnings

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

import dpbai
from dpbai.noise import Gaussian, gaussian_log_delta, gaussian_sigma


def test_published_values():
    """Balle and Wang's value at eps = 1, delta = 1e-5; a delta near the least positive double."""
    assert gaussian_sigma(1.0, 1e-5, "analytic") == pytest.approx(3.7306, abs=1e-4)
    assert gaussian_sigma(1.0, 1e-5, "classic") == pytest.approx(4.8448, abs=1e-4)
    assert gaussian_sigma(1.0, 1e-300, "analytic") == pytest.approx(36.9, abs=0.05)


@pytest.mark.parametrize("delta", [1e-8, 1e-4, 0.05])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_calibration_agrees_with_dp_accounting(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta, "analytic")
    oracle = pld.from_gaussian_mechanism(sigma, value_discretization_interval=5e-4)
    assert oracle.get_epsilon_for_delta(delta) == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
def test_delta_is_the_integral_of_the_excess_of_two_densities(epsilon, sigma):
    def excess(x):
        here, there = stats.norm.pdf(x, 1, sigma), stats.norm.pdf(x, 0, sigma)
        return max(0.0, here - math.exp(epsilon) * there)

    start = epsilon * sigma**2 + 0.5
    value = integrate.quad(excess, start, max(start, 1) + 40 * sigma, limit=200)[0]
    assert math.exp(gaussian_log_delta(epsilon, sigma)) == pytest.approx(value, rel=1e-6)


@given(
    epsilon=st.floats(1e-3, 1e3),
    exponent=st.floats(-690, -0.01),
    shift=st.lists(st.floats(-3, 3), min_size=1, max_size=4),
)
def test_the_loss_of_a_shift_is_the_epsilon_that_it_was_made_for(epsilon, exponent, shift):
    """`loss` inverts the calibration; only the length of the shift counts."""
    length = float(np.linalg.norm(shift))
    if length < 1e-3:
        return
    delta = math.exp(exponent)
    noise = Gaussian(gaussian_sigma(epsilon, delta, "analytic") * length)
    assert noise.loss(shift, delta) == pytest.approx(epsilon, rel=1e-6)
    assert noise.loss([0.9 * s for s in shift], delta) < epsilon
    assert noise.delta_at(noise.loss(shift, delta), shift) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(("delta", "crossing"), [(1e-5, 8.4198), (1e-3, 7.4635), (0.1, 5.7426)])
def test_the_classic_calibration_fails_from_here_on(delta, crossing):
    def excess(epsilon):
        sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        return gaussian_log_delta(epsilon, sigma) - math.log(delta)

    assert optimize.brentq(excess, 4, 12) == pytest.approx(crossing, abs=1e-4)
    for epsilon, holds in ((crossing - 0.01, True), (crossing + 0.01, False)):
        sigma = gaussian_sigma(epsilon, delta, "classic")
        assert (gaussian_log_delta(epsilon, sigma) <= math.log(delta)) is holds


@given(epsilon=st.floats(0.01, 1), exponent=st.floats(-50, -1))
def test_below_epsilon_one_the_classic_calibration_holds_and_is_larger(epsilon, exponent):
    delta = math.exp(exponent)
    classic, analytic = (gaussian_sigma(epsilon, delta, c) for c in ("classic", "analytic"))
    assert gaussian_log_delta(epsilon, classic) <= exponent
    assert analytic < classic


def classic(epsilon, delta=1e-5, budget=9):
    return dpbai.DPBAIGauss(
        np.eye(2), budget=budget, epsilon=epsilon, delta=delta, calibration="classic"
    )


def test_the_classic_calibration_warns_from_epsilon_one_on_with_the_true_delta():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classic(0.999)
        classic(math.inf)
        dpbai.DPBAIGauss(np.eye(2), budget=9, epsilon=20.0, delta=1e-5)
    for epsilon, verdict in ((1.0, "within"), (9.0, "not")):
        sigma = math.sqrt(2 * math.log(1.25e5)) / epsilon
        u, v = 1 / (2 * sigma), epsilon * sigma
        holds = stats.norm.cdf(u - v) - math.exp(epsilon) * stats.norm.cdf(-u - v)
        told = f"epsilon = {epsilon:g} the true delta is {holds:.3g}, {verdict} the stated 1e-05"
        with pytest.warns(UserWarning, match=re.escape(told)) as seen:
            classic(epsilon)
        assert seen[0].filename == __file__


def test_certificate_and_outputs_show_that_the_classic_calibration_fails():
    """At epsilon = 9, delta = 0.1, the outputs of two arms need a larger delta."""
    with pytest.warns(UserWarning, match="not the stated"):
        policy = classic(9.0, delta=0.1, budget=41)
    certificate = dpbai.certificate(policy)
    assert certificate.epsilon > 9
    assert certificate.delta_at(9.0) > 0.1
    exact = dpbai.exact_audit(policy).delta_at(9.0)
    assert exact <= certificate.delta_at(9.0)
    analytic = dpbai.DPBAIGauss(np.eye(2), budget=41, epsilon=9.0, delta=0.1)
    assert dpbai.exact_audit(analytic).delta_at(9.0) <= 0.1
    assert dpbai.certificate(analytic).delta_at(9.0) == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, 1e-320, "1", True])
def test_a_bad_epsilon_is_an_error(epsilon):
    with pytest.raises((ValueError, TypeError), match="epsilon"):
        gaussian_sigma(epsilon, 0.1, "analytic")
    for make in (dpbai.DPBAI, dpbai.DPOD):
        with pytest.raises((ValueError, TypeError), match="epsilon"):
            make(np.eye(2), budget=9, epsilon=epsilon)


@pytest.mark.parametrize("delta", [0, 1, math.nan, -0.1, 2, None])
def test_a_bad_delta_is_an_error(delta):
    with pytest.raises((ValueError, TypeError), match="delta"):
        gaussian_sigma(1.0, delta, "analytic")
    with pytest.raises((ValueError, TypeError), match="delta"):
        dpbai.DPBAIGauss(np.eye(2), budget=9, epsilon=1.0, delta=delta)


def test_an_infinite_epsilon_means_no_noise():
    policy = dpbai.DPBAIGauss(np.eye(2), budget=9, epsilon=math.inf, delta=0.1)
    assert gaussian_sigma(math.inf, 0.1, "analytic") == 0
    assert policy.phase(1, (0, 1)).noise.standard_deviation == 0
    assert dpbai.certificate(policy).epsilon == math.inf


LEGAL = [1e-300, 1e-100, 1e-20, 1e-10, 1e-8, 0.5, 1.0, 1e3, 1e8, 1e100, 1e300]
DELTAS = [5e-324, 1e-300, 1e-100, 1e-10, 1e-5, 0.5, 1 - 2**-53]


@pytest.mark.filterwarnings("ignore:the classic Gaussian calibration")
@pytest.mark.parametrize("calibration", ["analytic", "classic"])
@pytest.mark.parametrize("epsilon", LEGAL)
@pytest.mark.parametrize("delta", DELTAS)
def test_every_legal_epsilon_and_delta_has_a_certificate(epsilon, delta, calibration):
    """Rounding errors in delta cause errors of about 1e-16 / (slope of delta) in epsilon.

    For huge epsilon, no double sigma has a delta between 0 and 1: then it is 0, never 1.
    """
    policy = dpbai.DPBAIGauss(
        np.eye(2), budget=100, epsilon=epsilon, delta=delta, calibration=calibration
    )
    certificate = dpbai.certificate(policy)
    assert policy.sigma > 0
    assert 0 <= certificate.delta_at(epsilon) <= 1
    if calibration == "analytic":
        assert certificate.epsilon == pytest.approx(epsilon, rel=1e-6, abs=1e-12)
        assert certificate.delta_at(epsilon) <= delta * (1 + 1e-6)
        if epsilon < 1e6:
            assert certificate.delta_at(epsilon) == pytest.approx(delta, rel=1e-6, abs=0)
