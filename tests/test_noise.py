"""Noise: its law, the loss that it buys, and the calibration of the Gaussian."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import FALSE_ALARM
from scipy import integrate, stats

from dpbai import Gaussian, Laplace, NoNoise
from dpbai.noise import gaussian_log_delta, gaussian_sigma

mpmath.mp.dps = 80


def exact_log_delta(epsilon, sigma):
    """Return log(Phi(u - v) - e^epsilon Phi(-u - v)) to 80 digits (Balle and Wang, Theorem 8)."""
    epsilon, sigma = mpmath.mpf(epsilon), mpmath.mpf(sigma)
    u, v = 1 / (2 * sigma), epsilon * sigma
    return float(mpmath.log(mpmath.ncdf(u - v) - mpmath.exp(epsilon) * mpmath.ncdf(-u - v)))


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.01, 0.5, 1.0, 8.0, 100.0, 1e4])
@pytest.mark.parametrize("sigma", [1e-3, 0.05, 0.4, 0.5, 0.6, 1.0, 3.0, 40.0, 1e3])
def test_log_delta_of_the_gaussian_is_exact(epsilon, sigma):
    expected = exact_log_delta(epsilon, sigma)
    # An absolute error in log delta is a relative one in delta.
    assert gaussian_log_delta(epsilon, sigma) == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.75, 8.42, 100.0, 1e4])
@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-5, 1e-15, 1e-100, 1e-300])
def test_analytic_sigma_gives_exactly_the_delta_asked_for(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta, "analytic")
    assert exact_log_delta(epsilon, sigma) == pytest.approx(math.log(delta), rel=1e-9)
    assert exact_log_delta(epsilon, sigma * (1 - 1e-6)) > math.log(delta)


def test_analytic_sigma_at_known_points():
    """The classic one at (1, 1e-5) is 4.85; at 1e-300 only log-space arithmetic finds a root."""
    assert gaussian_sigma(1, 1e-5, "analytic") == pytest.approx(3.73, abs=0.005)
    assert gaussian_sigma(1, 1e-300, "analytic") == pytest.approx(36.9, abs=0.05)


def test_classic_sigma_is_the_papers():
    assert gaussian_sigma(1, 1e-5, "classic") == pytest.approx(4.85, abs=0.006)
    for epsilon, delta in ((0.5, 0.1), (2.0, 1e-300)):
        variance = 2 * math.log(1.25 / delta) / epsilon**2
        assert gaussian_sigma(epsilon, delta, "classic") == pytest.approx(math.sqrt(variance))


@pytest.mark.parametrize(("delta", "threshold"), [(1e-5, 8.42), (1e-3, 7.47), (0.1, 5.75)])
def test_classic_calibration_fails_for_large_epsilon(delta, threshold):
    """The delta that truly holds, to 80 digits, on both sides of the threshold."""
    for epsilon, fails in ((threshold - 0.01, False), (threshold + 0.01, True)):
        sigma = gaussian_sigma(epsilon, delta, "classic")
        assert (exact_log_delta(epsilon, sigma) > math.log(delta)) == fails


@given(epsilon=st.floats(1e-4, 1e4), log_delta=st.floats(-690, -0.01))
def test_the_smallest_noise_is_never_above_the_classic_where_that_is_proved(epsilon, log_delta):
    delta = math.exp(log_delta)
    analytic = gaussian_sigma(epsilon, delta, "analytic")
    assert math.isfinite(analytic)
    assert analytic > 0
    if epsilon < 1:
        assert analytic < gaussian_sigma(epsilon, delta, "classic")


def test_infinite_epsilon_needs_no_gaussian_noise():
    for calibration in ("classic", "analytic"):
        assert gaussian_sigma(math.inf, 1e-5, calibration) == 0


@given(epsilon=st.floats(1e-3, 1e3), delta=st.floats(1e-12, 0.9), scale=st.floats(1e-6, 1e6))
def test_gaussian_loss_is_the_epsilon_that_sigma_was_made_for(epsilon, delta, scale):
    sigma = gaussian_sigma(epsilon, delta, "analytic")
    noise = Gaussian(sigma * scale)
    assert noise.loss([scale], delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-9)


def test_gaussian_loss_is_measured_in_the_l2_norm():
    noise = Gaussian(2.0)
    assert noise.loss([3, -4], 1e-5) == pytest.approx(noise.loss([5], 1e-5))
    assert noise.loss([0, 0], 1e-5) == 0
    assert noise.loss([1]) == math.inf  # at delta = 0
    assert Gaussian(1e6).loss([1], 0.5) == 0  # total variation below delta: nothing shows


def test_laplace_loss_is_measured_in_the_l1_norm():
    assert Laplace(0.5).loss([3, -4]) == pytest.approx(14)
    assert Laplace(0.5).loss([0.0]) == 0


@pytest.mark.parametrize("shift", [[0.3], [0.5, -0.2], [1.0, 1.0]])
def test_laplace_loss_is_the_largest_log_ratio_of_densities(shift):
    """Brute force on a grid; at points beyond the shift in every coordinate it is attained."""
    scale = 0.7
    axes = np.meshgrid(*[np.linspace(-3, 3, 61)] * len(shift))
    ratio = sum(
        stats.laplace.logpdf(x, scale=scale) - stats.laplace.logpdf(x, loc=s, scale=scale)
        for x, s in zip(axes, shift, strict=True)
    )
    assert Laplace(scale).loss(shift) == pytest.approx(ratio.max())


def test_gaussian_delta_is_the_mass_beyond_the_loss():
    """Delta = integral of (p - e^eps q)+, numerically."""
    sigma, epsilon = 0.8, 0.9

    def excess(x):
        return max(
            0.0, stats.norm.pdf(x, 1, sigma) - math.exp(epsilon) * stats.norm.pdf(x, 0, sigma)
        )

    root = 0.5 + epsilon * sigma**2
    assert math.exp(gaussian_log_delta(epsilon, sigma)) == pytest.approx(
        integrate.quad(excess, root, 12)[0], rel=1e-8
    )


def test_no_noise_hides_nothing():
    assert NoNoise().loss([1e-300]) == math.inf
    assert NoNoise().loss([0.0, 0.0]) == 0
    assert NoNoise().delta_at(3.0, [1e-300]) == 1
    assert NoNoise().delta_at(3.0, [0.0, 0.0]) == 0
    assert not NoNoise().sample(np.random.default_rng(0), (3, 2)).any()
    assert NoNoise().standard_deviation == 0


NOISES = {"laplace": Laplace(0.3), "gaussian": Gaussian(0.3), "none": NoNoise()}


@pytest.mark.parametrize(("name", "law"), [("laplace", stats.laplace), ("gaussian", stats.norm)])
def test_samples_have_the_law_with_that_scale(name, law):
    """A variance taken for a deviation, or 1/scale for scale, would fail. KS at 1e-6."""
    sample = NOISES[name].sample(np.random.default_rng(1), (100, 200))
    assert sample.shape == (100, 200)
    assert stats.kstest(sample.ravel(), law(scale=0.3).cdf).pvalue > FALSE_ALARM
    assert NOISES[name].standard_deviation == pytest.approx(law(scale=0.3).std())
    # The kurtosis of Laplace noise is 6, so 6 standard errors of a variance are 6 sqrt(5/n).
    assert sample.var() == pytest.approx(law(scale=0.3).var(), rel=6 * math.sqrt(5 / sample.size))


@pytest.mark.parametrize("t", [0.0, 0.7, -3.0, 20.0, 1j, -2j, 2 + 3j])
@pytest.mark.parametrize("name", NOISES)
def test_characteristic_functions_are_the_integrals_that_define_them(name, t):
    """At complex arguments too, within the strip where Laplace's exists, abs(imag t) < 1/scale."""
    if name == "none":
        expected = 1.0
    else:
        law = {"laplace": stats.laplace, "gaussian": stats.norm}[name](scale=0.3)

        def part(pick, sign):
            def integrand(x):
                return pick(np.exp(1j * t * sign * x)) * law.pdf(x)

            return integrate.quad(integrand, 0, 60 if name == "laplace" else 6, limit=2000)[0]

        expected = sum(part(np.real, s) + 1j * part(np.imag, s) for s in (1, -1))
    value = NOISES[name].characteristic_function(t)
    assert value == pytest.approx(expected, rel=1e-7, abs=1e-9)
    np.testing.assert_allclose(NOISES[name].characteristic_function([[t, 0]]), [[value, 1]])


def test_what_hides_a_shift_hides_it_never_wholly():
    """The delta and epsilon of a shift are positive, however small: they are rounded up."""
    assert Gaussian(1.0).delta_at(100.0, [1.0]) > 0
    assert Gaussian(1e-5).delta_at(1e300, [1e-5]) > 0
    assert Laplace(1e308).loss([1e-20]) > 0
    for noise in (Gaussian(1.0), Laplace(1.0)):
        assert noise.delta_at(math.inf, [1.0]) == noise.loss([0.0]) == 0
