"""Reward laws: sums of any number of rewards have the right law; characteristic functions."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import FALSE_ALARM
from scipy import integrate, stats

import dpbai
from dpbai import Bernoulli, Beta, Empirical, Uniform, rewards

VALUES = [0.0, 0.1, 0.1, 0.5, 1.0]
LAWS = {
    "uniform": Uniform(0.3),
    "bernoulli": Bernoulli(0.3),
    "beta": Beta(0.3, concentration=1.5),
    "empirical": Empirical(VALUES, weights=[1, 2, 3, 0, 2]),
}
# One reward of each law, drawn without any code of the library.
DIRECT = {
    "uniform": lambda rng, shape: 0.6 * rng.random(shape),
    "bernoulli": lambda rng, shape: (rng.random(shape) < 0.3) * 1.0,
    "beta": lambda rng, shape: rng.beta(0.45, 1.05, shape),
    "empirical": lambda rng, shape: rng.choice(VALUES, shape, p=np.array([1, 2, 3, 0, 2]) / 8),
}
MOMENTS = {
    "uniform": lambda k: 0.6**k / (k + 1),
    "bernoulli": lambda k: 0.3 if k else 1.0,
    "beta": lambda k: math.prod((0.45 + i) / (1.5 + i) for i in range(k)),
    "empirical": lambda k: (0.0**k + 5 * 0.1**k + 2) / 8,
}


def cumulants(name):
    """Return the first four cumulants of one reward."""
    m1, m2, m3, m4 = (MOMENTS[name](k) for k in range(1, 5))
    variance = m2 - m1**2
    third = m3 - 3 * m1 * m2 + 2 * m1**3
    fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4 - 3 * variance**2
    return m1, variance, third, fourth


@pytest.fixture(params=[True, False], ids=["few pulls", "bits"])
def bits_from_one_pull(request, monkeypatch):
    """Run with the usual threshold, and with sums of bits for any number of pulls."""
    if not request.param:
        monkeypatch.setattr(rewards, "_DIRECT_BELOW", 1)


@pytest.mark.usefixtures("bits_from_one_pull")
@pytest.mark.parametrize("pulls", [1, 2, 3, 30, 999, 3000])
@pytest.mark.parametrize("name", LAWS)
def test_sums_are_distributed_like_sums_of_single_rewards(name, pulls):
    """Two-sample Kolmogorov-Smirnov test; a p-value is below 1e-6 with probability 1e-6."""
    rng = np.random.default_rng(pulls)
    size = 500 if pulls > 30 else 10_000
    direct = DIRECT[name](rng, (size, pulls)).sum(axis=1)
    sums = LAWS[name].sums(pulls, size, rng)
    # Equal sums computed in different orders differ by rounding.
    assert stats.ks_2samp(direct.round(9), sums.round(9), method="asymp").pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("name", "pulls"),
    [
        *product(["uniform", "bernoulli", "empirical"], [1, 2, 5, 30, 500, 1000, 10**6, 10**12]),
        *product(["beta"], [1, 2, 5, 30, 500]),  # drawn reward by reward, however many there are
    ],
)
def test_sums_have_the_moments_of_sums_to_the_fourth(name, pulls):
    """Means of Z, Z^2, Z^3, Z^4 of standardised sums within 6 standard errors (2e-9 each)."""
    mean, variance, third, fourth = cumulants(name)
    rng = np.random.default_rng(pulls)
    size = 2000 if name == "beta" and pulls > 100 else 20_000
    sums = LAWS[name].sums(pulls, size, rng)
    z = (sums - pulls * mean) / math.sqrt(pulls * variance)
    skewness = third / variance**1.5 / math.sqrt(pulls)
    kurtosis = 3 + fourth / variance**2 / pulls
    for power, expected in enumerate([0, 1, skewness, kurtosis], start=1):
        error = (z**power).std() / math.sqrt(size)
        assert abs((z**power).mean() - expected) < 6 * error, power


@pytest.mark.parametrize("pulls", [10**5, 10**6, 10**9])
@pytest.mark.parametrize("name", ["uniform", "bernoulli", "empirical"])
def test_sums_of_many_rewards_are_normal(name, pulls):
    """Central limit theorem: by Berry and Esseen, the two laws differ by less than 0.01.

    Twice the Dvoretzky-Kiefer-Wolfowitz bound at 1e-6 for 40000 sums is 0.0270.
    """
    mean, variance, *_ = cumulants(name)
    sums = LAWS[name].sums(pulls, 40_000, np.random.default_rng(pulls))
    z = (sums - pulls * mean) / math.sqrt(pulls * variance)
    assert stats.kstest(z, "norm").statistic < math.sqrt(math.log(2 / FALSE_ALARM) / 80_000) + 0.01


@pytest.mark.usefixtures("bits_from_one_pull")
def test_one_uniform_reward_is_a_53_bit_number():
    sums = Uniform(0.5).sums(1, 1000, np.random.default_rng(0))
    np.testing.assert_array_equal(np.ldexp(sums, 53) % 1, 0)
    assert sums.min() >= 0
    assert sums.max() < 1
    # All bits are used: the last of 53 is 1 in about half of the draws (6 standard errors).
    odd = int((np.ldexp(sums, 53) % 2).sum())
    assert abs(odd - 500) < 6 * math.sqrt(250)


@pytest.mark.parametrize("block", [1, 7, 64])
@pytest.mark.parametrize("name", ["uniform", "beta"])
def test_sums_do_not_depend_on_how_they_are_cut_into_blocks(name, block, monkeypatch):
    """Kolmogorov-Smirnov at 1e-6; a lost or repeated block moves the mean by several sigmas."""
    monkeypatch.setattr(rewards, "_BLOCK", block)
    rng = np.random.default_rng(block)
    sums = LAWS[name].sums(20, 300, rng)
    direct = DIRECT[name](rng, (5000, 20)).sum(axis=1)
    assert stats.ks_2samp(sums, direct, method="asymp").pvalue > FALSE_ALARM


@given(
    name=st.sampled_from(["uniform", "bernoulli", "empirical"]),
    pulls=st.integers(1, 2**53),
    seed=st.integers(0, 2**32),
)
def test_sums_stay_within_the_support(name, pulls, seed):
    law = LAWS[name]
    low, high = law.support
    sums = law.sums(pulls, 5, np.random.default_rng(seed))
    assert sums.shape == (5,)
    assert (sums >= low * pulls * (1 - 1e-15)).all()
    assert (sums <= high * pulls * (1 + 1e-15)).all()


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_rewards_that_are_certain_sum_exactly(mean):
    rng = np.random.default_rng(0)
    for law in (Bernoulli(mean), Empirical([mean]), Empirical([0.2, mean], weights=[0, 3])):
        np.testing.assert_array_equal(law.sums(10**12, 4, rng), mean * 10**12)
    np.testing.assert_array_equal(Uniform(0).sums(10**6, 4, rng), 0)


@pytest.mark.parametrize("t", [0.0, 1e-9, 0.7, -3.0, 40.0, 1j, -2j, 2 + 3j, 5 - 1j])
@pytest.mark.parametrize("name", ["uniform", "bernoulli", "empirical"])
def test_characteristic_functions_are_the_integrals_that_define_them(name, t):
    if name == "uniform":

        def part(pick):
            return integrate.quad(lambda x: pick(np.exp(1j * t * x)) / 0.6, 0, 0.6, limit=200)[0]

        expected = part(np.real) + 1j * part(np.imag)
    elif name == "bernoulli":
        expected = 0.7 + 0.3 * np.exp(1j * t)
    else:
        expected = (1 + 5 * np.exp(0.1j * t) + 2 * np.exp(1j * t)) / 8
    value = LAWS[name].characteristic_function(t)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(LAWS[name].characteristic_function([[t, 0]]), [[value, 1]])


def test_mean_and_support_are_those_of_the_law():
    assert Uniform(0.3).support == (0, 0.6)
    assert Bernoulli(0.3).support == Beta(0.3).support == (0, 1)
    law = Empirical([3, 1, 2, 2, 9], weights=[1, 1, 1, 1, 0])
    assert law.support == (1, 3)
    assert law.mean == 2
    np.testing.assert_array_equal(law.values, [1, 2, 3])
    np.testing.assert_allclose(law.shares, [0.25, 0.5, 0.25])


def test_beta_has_the_variance_that_it_states():
    law = partial(Beta, concentration=4)(0.25)
    first, second = law.shapes
    assert stats.beta(first, second).mean() == pytest.approx(0.25)
    assert stats.beta(first, second).var() == pytest.approx(0.25 * 0.75 / 5)


def test_all_laws_serve_in_an_instance():
    instance = dpbai.Instance(np.eye(4), rewards=list(LAWS.values()))
    np.testing.assert_allclose(instance.means, [0.3, 0.3, 0.3, (0.5 + 2) / 8])


def test_beta_sums_that_would_take_hours_are_refused_with_what_to_do():
    instance = dpbai.Instance(np.eye(2), [0.5, 0.4], rewards=Beta)
    policy = dpbai.DPBAI(np.eye(2), budget=10**8, epsilon=1.0)
    with pytest.raises(ValueError, match=r"Beta for 1000 sums of 49999999 rewards.*fewer trials"):
        dpbai.simulate(policy, instance, trials=1000)
