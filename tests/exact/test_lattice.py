"""Two-valued means plus Laplace noise, against the mixture summed point by point."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special, stats

from dpbai.exact import lattice
from dpbai.exact.lattice import LatticeVariable
from dpbai.exact.quadrature import RoughDensityError, log_integral


def mixture(function, x, start, step, count, share, scale):
    """Return the log of the sum over lattice points of binomial times Laplace probabilities."""
    points = np.arange(count + 1)
    parts = function(np.subtract.outer(x, start + step * points), scale=scale)
    return special.logsumexp(parts + stats.binom.logpmf(points, count, share), axis=1)


def off(variable, x, *law):
    """Return the largest error of the three functions where the mixture is above 1e-250."""
    pairs = (
        (variable.log_density, stats.laplace.logpdf),
        (partial(variable.log_tail, side=1), stats.laplace.logsf),
        (partial(variable.log_tail, side=-1), stats.laplace.logcdf),
    )
    worst = 0.0
    for function, oracle in pairs:
        (lower, upper), expected = function(x)[:, 0], mixture(oracle, x, *law)
        assert (lower == upper).all()
        seen = expected > -575
        worst = max(worst, np.abs(lower[seen] - expected[seen]).max(initial=0.0))
    return worst


LAWS = st.tuples(
    st.floats(-1, 1),
    st.floats(0.01, 3),
    st.integers(0, 300),
    st.floats(0, 1),
    st.floats(0.005, 30),
)


@given(LAWS, st.integers(0, 2**32 - 1))
@example((0.0, 0.5, 0, 0.3, 0.1), 0)
@example((-1.0, 0.1, 40, 0.0, 0.1), 0)
@example((-1.0, 0.1, 40, 1.0, 0.1), 0)
def test_density_and_tails_are_those_of_the_mixture(law, seed):
    start, step, count, _, scale = law
    inside = start + step * np.arange(count + 1)
    rng = np.random.default_rng(seed)
    x = rng.uniform(start - 20 * scale, inside[-1] + 20 * scale, 40)
    x = np.concatenate([x, inside[:3], inside[-3:], start + scale * np.array([-500, -100, 100])])
    # The tolerance is that of the binomial probabilities of the oracle.
    assert off(LatticeVariable(*law), x, *law) < 1e-9


def test_points_omitted_from_a_long_lattice_are_negligible():
    law = (0.0, 1e-5, 100_000, 0.3, 2e-5)
    variable = LatticeVariable(*law)
    assert variable.knots.size < 20_000
    x = np.array([0.25, 0.29, 0.3, 0.3000055, 0.31, 0.34])
    assert off(variable, x, *law) < 1e-8


def test_tails_at_infinity_are_zero_and_one():
    variable = LatticeVariable(0.0, 0.1, 10, 0.4, 0.2)
    x = np.array([-np.inf, np.inf])
    assert np.exp(variable.log_tail(x, 1)[0, 0]) == pytest.approx([1, 0], abs=1e-15)
    assert np.exp(variable.log_tail(x, -1)[1, 0]) == pytest.approx([0, 1], abs=1e-15)


def test_a_lattice_of_too_many_points_is_refused():
    with pytest.raises(RoughDensityError, match="lattice"):
        LatticeVariable(0.0, 1e-12, 10**12, 0.5, 1e-12)


@pytest.mark.parametrize("mutant", [0.5, 2.0])
def test_another_decay_from_point_to_point_is_caught(monkeypatch, mutant):
    law = (0.0, 0.1, 20, 0.4, 0.2)
    filtered = lattice.scipy.signal.lfilter
    monkeypatch.setattr(
        lattice.scipy.signal,
        "lfilter",
        lambda b, a, values: filtered(b, [a[0], -((-a[1]) ** mutant)], values),
    )
    assert off(LatticeVariable(*law), np.linspace(-1, 3, 30), *law) > 1e-3


@pytest.mark.parametrize("at", [0.01, 0.5, 0.99])
def test_an_integral_includes_a_spike_between_two_knots_however_narrow(at):
    """The integrand is 1 on the unit interval, plus a narrow spike of weight 1."""
    knots = at + np.array([0.0, 1e-9])

    def log_spike(x, _slack=None):
        inside = (knots[0] < x) & (x < knots[1])
        return np.tile(np.where(inside, math.log1p(1 / np.diff(knots)[0]), 0.0), (2, 1))

    scan = np.linspace(0, 1, 50)
    found = log_integral(log_spike, lambda x: log_spike(x)[0], scan, knots, 1e-8)
    assert found == pytest.approx(math.log(2), abs=1e-7)
