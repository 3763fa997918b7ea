"""Laws of noise, and their losses."""

import math

import numpy as np
import pytest
from oracles import FALSE_ALARM
from scipy import integrate, stats

from dpbai import Gaussian, Laplace, NoNoise
from dpbai.noise import gaussian_sigma


def test_classic_sigma_is_the_papers():
    assert gaussian_sigma(1, 1e-5, "classic") == pytest.approx(4.85, abs=0.006)
    for epsilon, delta in ((0.5, 0.1), (2.0, 1e-300)):
        variance = 2 * math.log(1.25 / delta) / epsilon**2
        assert gaussian_sigma(epsilon, delta, "classic") == pytest.approx(math.sqrt(variance))


def test_gaussian_loss_is_measured_in_the_l2_norm():
    noise = Gaussian(2.0)
    assert noise.loss([3, -4], 1e-5) == pytest.approx(noise.loss([5], 1e-5))
    assert noise.loss([0, 0], 1e-5) == 0
    assert noise.loss([1]) == math.inf  # at delta = 0
    assert Gaussian(1e6).loss([1], 0.5) == 0  # total variation below delta


def test_laplace_loss_is_measured_in_the_l1_norm():
    assert Laplace(0.5).loss([3, -4]) == pytest.approx(14)
    assert Laplace(0.5).loss([0.0]) == 0


@pytest.mark.parametrize("shift", [[0.3], [0.5, -0.2], [1.0, 1.0]])
def test_laplace_loss_is_the_largest_log_ratio_of_densities(shift):
    """Brute force on a grid; points above the shift in every coordinate attain the maximum."""
    scale = 0.7
    axes = np.meshgrid(*[np.linspace(-3, 3, 61)] * len(shift))
    ratio = sum(
        stats.laplace.logpdf(x, scale=scale) - stats.laplace.logpdf(x, loc=s, scale=scale)
        for x, s in zip(axes, shift, strict=True)
    )
    assert Laplace(scale).loss(shift) == pytest.approx(ratio.max())


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


def test_the_delta_and_epsilon_of_a_shift_are_positive():
    """The delta and epsilon of any shift are positive: they are rounded up."""
    assert Gaussian(1.0).delta_at(100.0, [1.0]) > 0
    assert Gaussian(1e-5).delta_at(1e300, [1e-5]) > 0
    assert Laplace(1e308).loss([1e-20]) > 0
    for noise in (Gaussian(1.0), Laplace(1.0)):
        assert noise.delta_at(math.inf, [1.0]) == noise.loss([0.0]) == 0
