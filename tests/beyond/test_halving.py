"""DP-Halving: noise on sums, the plans of OD-LinBAI, and a bound with a larger exponent."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import FALSE_ALARM
from scipy import stats

import dpbai
from dpbai import DPHalving
from dpbai.beyond import halving_bound, path_bound


def _instance(arms, dimension, seed=0):
    """Random features; one of the means is the best."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(arms, dimension))
    features[:, 0] = rng.permutation(np.linspace(0.1, 0.9, arms) ** rng.uniform(0.3, 2))
    return dpbai.Instance(features, np.eye(dimension)[0], rewards=dpbai.Bernoulli)


def _phases(policy, rng):
    """Return the plans of one run whose survivors are drawn at random."""
    active = tuple(range(len(policy.features)))
    for index, keep in enumerate(policy.sizes[1:], start=1):
        yield policy.phase(index, active)
        active = tuple(sorted(rng.choice(active, keep, replace=False).tolist()))


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 60), st.integers(0, 2**16))
def test_no_run_pulls_more_than_the_budget(arms, dimension, more, seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(arms, dimension))
    budget = 200
    with pytest.raises(ValueError, match="budget must be at least") as refused:
        DPHalving(features, budget=1, epsilon=1.0)
    budget = int(str(refused.value).split("at least ")[1].split()[0]) + more
    policy = DPHalving(features, budget=budget, epsilon=1.0)
    assert sum(phase.cost for phase in _phases(policy, rng)) <= budget


@pytest.mark.parametrize("shape", [(8, 3), (20, 6), (5, 5)])
def test_without_noise_it_is_od_linbai(shape):
    instance = _instance(*shape)
    rng = np.random.default_rng(1)
    public = dpbai.ODLinBAI(instance.features, budget=500)
    private = DPHalving(instance.features, budget=500, epsilon=math.inf)
    for phase in _phases(private, rng):
        other = public.phase(phase.index, phase.active)
        assert (phase.pulled, phase.pulls, phase.keep) == (other.pulled, other.pulls, other.keep)
        np.testing.assert_allclose(
            phase.decoder @ phase.release, other.decoder @ other.release, atol=1e-9
        )


def test_the_number_of_phases_is_that_of_the_rank():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 9))
    assert DPHalving(features, budget=200, epsilon=1.0).sizes == (30, 2, 1)
    assert DPHalving(np.eye(3, 64), budget=200, epsilon=1.0).sizes == (3, 2, 1)


@pytest.mark.parametrize("shape", [(60, 5), (9, 9)])
def test_the_certificate_is_complete_and_says_epsilon(shape):
    certificate = dpbai.certificate(DPHalving(_instance(*shape).features, budget=2000, epsilon=0.7))
    assert certificate.complete
    assert certificate.epsilon == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize("features", [np.eye(2), np.array([[1, 0], [0.5, 0.5], [0, 1]])])
def test_the_exact_audit_finds_no_larger_loss(features):
    audit = dpbai.exact_audit(DPHalving(features, budget=10, epsilon=0.8))
    assert 0.4 < audit.epsilon <= 0.8 * (1 + 1e-9)


def test_an_attack_on_several_phases_stays_below_epsilon():
    policy = DPHalving(np.eye(3), budget=12, epsilon=0.8)
    assert len(policy.sizes) == 3
    attack = dpbai.monte_carlo_audit(policy, trials=20_000, seed=1)
    assert attack.epsilon <= 0.8


@pytest.mark.parametrize("shape", [(40, 4), (12, 6), (7, 7)])
def test_a_released_sum_has_a_weight_of_at_most_2r_over_m_in_any_contrast(shape):
    """Kiefer and Wolfowitz: also sum u^2 n <= 4r/m."""
    policy = DPHalving(_instance(*shape, seed=2).features, budget=3000, epsilon=1.0)
    pulls = float(policy.pulls_per_phase)
    for phase in _phases(policy, np.random.default_rng(0)):
        rank = min(policy.dimension, len(phase.active))
        contrasts = (phase.decoder[:, None] - phase.decoder).reshape(-1, phase.coordinates)
        assert np.abs(contrasts).max() <= 2 * rank / pulls * (1 + 1e-7)
        assert (contrasts**2 @ np.array(phase.pulls)).max() <= 4 * rank / pulls * (1 + 1e-7)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 5.0])
@pytest.mark.parametrize("shape", [(40, 4), (12, 6), (7, 7)])
def test_weighted_least_squares_has_the_weights_of_ordinary_with_fewer_pulls(shape, epsilon):
    """Corollary: the same bounds with N / (1 + rho) pulls, rho = 8 m r / (epsilon^2 N)."""
    features, total = np.random.default_rng(2).normal(size=shape), 400
    pulls = np.ceil(dpbai.g_optimal_design(features).weights * total)
    features, rank, pulled = features[pulls > 0], shape[1], pulls[pulls > 0]
    weights = 1 / (pulled / 4 + 2 / epsilon**2)
    rows = features * pulled[:, None]
    moments = (rows.T * weights) @ rows
    everyone = np.random.default_rng(2).normal(size=shape)
    contrasts = (everyone[:, None] - everyone).reshape(-1, rank)
    found = contrasts @ np.linalg.solve(moments, rows.T * weights)
    np.testing.assert_allclose(found @ rows, contrasts, atol=1e-9)  # without bias
    fewer = total / (1 + 8 * len(pulled) * rank / (epsilon**2 * total))
    assert np.abs(found).max() <= 2 * rank / fewer * (1 + 1e-7)
    assert (found**2 @ pulled).max() <= 4 * rank / fewer * (1 + 1e-7)


def test_the_bound_lies_above_the_exact_error_in_one_phase():
    instance = _instance(6, 2)
    for budget in (100, 3000):
        policy = DPHalving(instance.features, budget=budget, epsilon=1.0)
        exact = dpbai.error_bounds(policy, instance, rtol=1e-3)
        bound = dpbai.upper_bound(policy, instance)
        assert exact.high <= path_bound(policy, instance) < bound
        assert bound == halving_bound(policy, instance).value
    assert dpbai.upper_bound(policy, instance) < 0.5


@pytest.mark.parametrize("shape", [(12, 4), (5, 5)])
def test_the_bound_lies_above_the_simulated_error_of_several_phases(shape):
    instance = _instance(*shape, seed=1)
    policy = DPHalving(instance.features, budget=8000, epsilon=1.0)
    runs = dpbai.simulate(policy, instance, trials=4000, seed=1)
    bound = min(1.0, dpbai.upper_bound(policy, instance))
    assert stats.binom.sf(runs.trials - runs.successes - 1, runs.trials, bound) > FALSE_ALARM
    assert path_bound(policy, instance) <= dpbai.upper_bound(policy, instance)


@given(st.integers(2, 40), st.integers(2, 9), st.floats(1e-3, 10), st.integers(0, 2**16))
def test_its_exponent_dominates_those_of_theorem_4_2_with_65_and_with_17(arms, d, epsilon, seed):
    instance = _instance(arms, d, seed)
    policy = DPHalving(instance.features, budget=10**9, epsilon=epsilon)
    exponent = halving_bound(policy, instance).exponent
    total = dpbai.hardness(instance, epsilon=epsilon).total
    for convention in ("printed", "proof"):
        other = dpbai.Schedule(arms, d, 10**9, convention)
        assert len(policy.sizes) - 1 <= other.M
        assert exponent >= other.usable_budget / (17 * other.M * total)


def test_its_exponent_is_that_of_the_theorem_by_hand():
    """d = 4, K = 9: phases keep 2 and 1; i = 3 with rank 4, and i = 2 with rank 2."""
    instance = _instance(9, 4)
    gaps = np.sort(instance.gaps)
    policy = DPHalving(instance.features, budget=1000, epsilon=0.3)
    assert policy.sizes == (9, 2, 1)
    m = (1000 - 9 - 2) / 2 / (1 + 1e-8) / (1 + 1e-6)
    terms = [min(g**2 / (2 * r), 0.3 * g / (8 * r)) for g, r in ((gaps[2], 4), (gaps[1], 2))]
    bound = halving_bound(policy, instance)
    assert bound.exponent == pytest.approx(m * min(terms), rel=1e-12)
    sizes = [
        (s - k) * (4 / 3) ** sums for (s, k), sums in zip(pairwise((9, 2, 1)), (9, 2), strict=True)
    ]
    value = sum(size * math.exp(-m * term) for size, term in zip(sizes, terms, strict=True))
    assert bound.value == pytest.approx(value, rel=1e-12)


def test_a_subclass_has_no_bound():
    class Noisier(DPHalving):
        pass

    instance = _instance(6, 2)
    with pytest.raises(TypeError, match="policy must be DPHalving itself, got Noisier"):
        halving_bound(Noisier(instance.features, budget=100, epsilon=1.0), instance)
