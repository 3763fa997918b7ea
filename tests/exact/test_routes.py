"""All methods for an exact probability agree with each other and with simulation.

Laws, noise and pulls are drawn inside their ranges, at the ends, next to the ends, and outside,
where they are refused. If one method does not apply, the others must still agree.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import FALSE_ALARM
from plans import OnePhase, laws, one_phase
from scipy import stats

import dpbai
from dpbai.exact import NotExactError, error
from dpbai.exact.inversion import Variables
from dpbai.exact.lattice_form import log_negative
from dpbai.exact.quadrature import RoughDensityError
from dpbai.exact.terms import atoms, independent_terms

EXAMPLES = settings.default.max_examples // 10  # for each kind of law
TRIALS = 4000
ENDS = [0.0, 1.0, 1e-12, 1 - 1e-12, 0.5]
INSIDE = st.floats(0.02, 0.98)
MEANS = st.one_of(INSIDE, INSIDE, st.sampled_from(ENDS))


def bernoulli(mean: float) -> dpbai.rewards.RewardLaw:
    return dpbai.Bernoulli(mean)


def uniform(mean: float) -> dpbai.rewards.RewardLaw:
    return dpbai.Uniform(mean / 2)


def stretched(mean: float) -> dpbai.rewards.RewardLaw:
    return dpbai.Empirical([0.25, 0.75], [1 - mean, mean])


def three_valued(mean: float) -> dpbai.rewards.RewardLaw:
    return dpbai.Empirical([0.0, 0.5, 1.0], [(1 - mean) / 2, 0.5, mean / 2])


KINDS = {
    "Bernoulli": bernoulli,
    "uniform": uniform,
    "two values": stretched,
    "three values": three_valued,
}
PULLS = st.one_of(st.integers(1, 30), st.sampled_from([1, 2, 200, 10**4, 10**9]))
NOISES = st.tuples(
    st.sampled_from(["laplace", "laplace", "gaussian", "none"]),
    st.one_of(st.floats(-1.5, 1.5), st.sampled_from([-3.0, 3.0, 6.0])),
)


def noise_of(kind: str, log_epsilon: float, pulls: int) -> dpbai.noise.Noise:
    scale = 10**-log_epsilon / pulls
    if kind == "none":
        return dpbai.NoNoise()
    return dpbai.Laplace(scale) if kind == "laplace" else dpbai.Gaussian(scale)


def lead_chance(noise: dpbai.noise.Noise, leads: np.ndarray) -> np.ndarray:
    """Return P(lead + N - N' < 0); without noise, 1/2 for a lead of 0."""
    if isinstance(noise, dpbai.NoNoise):
        near = np.abs(leads) < 1e-12
        return np.where(near, 0.5, (leads < 0) * 1.0)
    return np.exp(noise.log_cdf_of_difference(-leads))


def outcomes(law: dpbai.rewards.RewardLaw, pulls: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the possible means of two-valued rewards, and their probabilities."""
    values, shares = atoms(law)
    if values.size == 1:
        return values, shares
    counts = np.arange(pulls + 1)
    means = values[0] + (values[1] - values[0]) * counts / pulls
    return means, stats.binom.pmf(counts, pulls, shares[1])


def by_all_outcomes(rewards: list, pulls: int, noise: dpbai.noise.Noise) -> float | None:
    if pulls > 200 or any(
        not isinstance(law, dpbai.Bernoulli | dpbai.Empirical) or atoms(law)[0].size > 2
        for law in rewards
    ):
        return None
    (first, p), (second, q) = (outcomes(law, pulls) for law in rewards)
    return float(p @ lead_chance(noise, np.subtract.outer(first, second)) @ q)


def routes(policy: OnePhase, instance: dpbai.Instance, best: int) -> dict[str, float]:
    """Return the error of two arms by each method that applies."""
    phase, rewards = policy.plan, instance.laws
    weights = np.array([1.0, -1.0]) * (1 if best == 0 else -1)
    terms = independent_terms(phase, instance)
    parts = [(w, law, phase.pulls[0]) for w, law in zip(weights, rewards, strict=True)]
    form = np.append(weights, weights)

    def by_lattice() -> float | None:
        log_error = log_negative(parts, phase.noise, weights, 1e-9)
        return None if log_error is None else math.exp(log_error)

    def by_inversion() -> float | None:
        return math.exp(Variables(terms, form[None], 1e-9).log_probabilities(np.array([0]))[0])

    def by_quadrature() -> float | None:
        return error._not_largest(phase, instance, 1e-9)

    def by_outcomes() -> float | None:
        ordered = [rewards[best], rewards[1 - best]]
        return by_all_outcomes(ordered, phase.pulls[0], phase.noise)

    found = {}
    for route in (by_lattice, by_inversion, by_quadrature, by_outcomes):
        try:
            value = route()
        except (RoughDensityError, NotExactError):
            continue
        if value is not None:
            found[route.__name__] = value
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES)
@given(st.sampled_from([*KINDS.values()]), MEANS, MEANS, PULLS, NOISES, st.integers(0, 2**32 - 1))
def test_all_routes_to_the_error_of_two_arms_agree(kind, second, one, other, pulls, noise, seed):
    rewards = [KINDS[kind](one), second(other)]
    if abs(rewards[0].mean - rewards[1].mean) < 1e-9:
        return  # no best arm
    instance = laws(*rewards)
    policy = one_phase((pulls, pulls), noise_of(*noise, pulls))
    found = routes(policy, instance, instance.best)
    try:
        found["exact_error"] = dpbai.exact_error(policy, instance)
    except NotExactError:
        # Two-valued rewards with the same step are never refused.
        assert "by_lattice" not in found
    for (name, value), (again, expected) in product(found.items(), repeat=2):
        if max(value, expected) > 1e-200:
            assert value == pytest.approx(expected, rel=2e-8, abs=0), (name, again, found)
    if found:
        result = dpbai.simulate(policy, instance, trials=TRIALS, seed=seed)
        chance = min(next(iter(found.values())), 1.0)
        p_value = stats.binomtest(TRIALS - result.successes, TRIALS, chance).pvalue
        assert p_value > FALSE_ALARM / EXAMPLES, found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES // 2)
@given(st.lists(MEANS, min_size=3, max_size=5, unique=True), PULLS, NOISES)
def test_bounds_and_exact_errors_of_more_arms_agree(kind, means, pulls, noise):
    rewards = [KINDS[kind](mean) for mean in means]
    ordered = sorted((law.mean for law in rewards), reverse=True)
    if ordered[0] - ordered[1] < 1e-9:
        return
    instance = laws(*rewards)
    policy = one_phase((pulls,) * len(rewards), noise_of(*noise, pulls))
    try:
        expected = dpbai.exact_error(policy, instance, rtol=1e-6)
        low, high = dpbai.error_bounds(policy, instance)
    except NotExactError:
        return
    assert low <= expected * (1 + 1e-5)
    assert high >= expected * (1 - 1e-5)


@pytest.mark.parametrize("deviation", [2e-4, 5e-5])
def test_no_value_of_the_best_arm_is_missed_if_the_noise_is_narrow(deviation):
    """The expected error is that without noise, by the law of the sum of five uniforms."""
    instance = laws(dpbai.Uniform(0.25), dpbai.Bernoulli(0.5), dpbai.Uniform(0.01))
    policy = one_phase((5, 5, 5), dpbai.Gaussian(deviation))
    above_two, above_four = 1 - (2**5 - 5) / 120, 1 / 120
    expected = (1 + 5 * above_two + 10 * above_four) / 2**5
    assert dpbai.exact_error(policy, instance) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("means", "pulls", "rtol"),
    [
        ((0.4, 1e-4), 20, 1e-9),
        ((0.5, 5e-9), 5, 1e-9),
        ((0.5, 5e-6), 6, 1e-4),
        ((0.5, 0.02), 20, 1e-9),
    ],
)
def test_errors_hidden_by_rounding_are_refused(means, pulls, rtol):
    """Regression: with exponents above 1e5 the result was 0, or 200 times too large.

    With n pulls each and w, the ratio of the means, below 1/n, the error is w^n E[(V_1 + .. +
    V_n)^n] / n!, with V uniform on [0, 1]: w^n n! S(2n, n) / (2n)!, S of the second kind.
    """
    instance, policy = laws(*map(dpbai.Uniform, means)), one_phase((pulls, pulls), dpbai.NoNoise())
    ways = sum(
        (-1) ** (pulls - j) * math.comb(pulls, j) * j ** (2 * pulls) for j in range(pulls + 1)
    )
    expected = (means[1] / means[0]) ** pulls * (ways / math.factorial(2 * pulls))
    for ask in (dpbai.exact_error, dpbai.error_bounds):
        if means[1] < 1e-3:
            with pytest.raises(NotExactError, match="estimate it with simulate"):
                ask(policy, instance, rtol=rtol)
        else:
            found = np.ravel(ask(policy, instance, rtol=rtol))
            assert found == pytest.approx(expected, rel=4 * rtol, abs=0)


def test_uniform_rewards_of_mean_zero_are_certain():
    others = dpbai.Bernoulli(0.5), dpbai.Bernoulli(0.2)
    policy = one_phase((1, 1, 1), dpbai.Laplace(1.0))
    found = dpbai.exact_error(policy, laws(dpbai.Uniform(0.0), *others))
    assert found == dpbai.exact_error(policy, laws(dpbai.Empirical([0.0]), *others))


def test_impossible_events_have_bounds():
    instance = laws(*(dpbai.Uniform(mean) for mean in (0.1, 0.5, 0.01)))
    policy = one_phase((4000, 4000, 4000), dpbai.Laplace(5e-6))
    low, high = dpbai.error_bounds(policy, instance)
    assert low == 0.0
    assert 1e-250 * (1 - 1e-9) <= high < 1e-249  # it is at least 1e-250


@given(st.sampled_from([-1e-12, 1 + 1e-12, -1.0, 2.0, math.nan, math.inf]))
def test_parameters_outside_their_ranges_are_refused(mean):
    for law in (dpbai.Bernoulli, dpbai.Beta):
        with pytest.raises(ValueError, match="mean"):
            law(mean)
    if not 0 <= mean < math.inf:
        with pytest.raises(ValueError, match="mean"):
            dpbai.Uniform(mean)
    for concentration in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="concentration"):
            dpbai.Beta(0.5, concentration)
