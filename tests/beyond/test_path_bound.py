"""Bernstein's inequality for rewards and Laplace noise, and the bound along paths of plans."""

import math
from itertools import combinations

import numpy as np
import pytest
from oracles import FALSE_ALARM
from plans import one_phase
from scipy import stats

import dpbai
from dpbai.beyond import bernstein, path_bound


def _linear(arms, seed, dimension=3):
    """Arms with a constant and random features, and means from 0.2 to 0.8."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([np.ones(arms), rng.normal(size=(arms, dimension - 1))])
    values = features[:, 1:] @ (theta := rng.normal(size=dimension - 1))
    slope = 0.6 / np.ptp(values)
    theta = np.append(0.2 - slope * values.min(), slope * theta)
    return dpbai.Instance(features, theta, rewards=dpbai.Bernoulli)


def _surely_below(bound, errors, trials):
    """Return whether the number of errors refutes a bound on their rate, at level 1e-6."""
    return stats.binom.sf(errors - 1, trials, min(1.0, bound)) > FALSE_ALARM


@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
def test_rewards_and_laplace_noise_have_the_moments_that_bernstein_asks_for(mean):
    rng = np.random.default_rng(0)
    for _ in range(50):
        rewards, noise = rng.normal(size=6), rng.normal(size=3) * rng.uniform(0.1, 5)
        variance = (rewards**2).sum() / 4 + 2 * (noise**2).sum()
        scale = np.abs(noise).max()
        for t in np.linspace(0, 1 / scale, 50)[:-1]:
            tilted = np.log1p(mean * np.expm1(t * rewards)) - t * mean * rewards
            log_mgf = tilted.sum() - np.log1p(-((t * noise) ** 2)).sum()
            assert log_mgf <= t * t * variance / (2 * (1 - t * scale)) + 1e-12


def test_bernsteins_inequality_bounds_the_tails_of_laplace_and_normal_variables_and_needs_its_two():
    x = np.linspace(0, 30, 200)
    assert (np.exp(-x) / 2 <= bernstein(x, 2.0, 1.0)).all()
    assert (stats.norm.sf(x) <= bernstein(x, 1.0, 0.0)).all()
    assert not (stats.norm.sf(x) <= bernstein(x, 1.0, 0.0) ** 1.2).all()
    assert bernstein(-1.0, 2.0, 1.0) == bernstein(0.0, 0.0, 0.0) == 1
    assert bernstein(1.0, 0.0, 0.0) == 0


def test_two_arms_in_one_phase_have_the_closed_form_by_hand():
    """One noise on the difference of 50 and 50 rewards: v = 1/200 + 2/25^2, b = 1/25."""
    pair = dpbai.Instance(np.eye(2), [0.7, 0.4], rewards=dpbai.Bernoulli)
    policy = dpbai.DPDesign(np.eye(2), budget=100, epsilon=0.5)
    variance, scale = 100 / 4 / 50**2 + 2 / 25**2, 1 / 25
    expected = math.exp(-(0.3**2) / (2 * (variance + 0.3 * scale)))
    assert dpbai.upper_bound(policy, pair) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_in_one_phase_the_bound_is_above_the_exact_error(seed):
    instance = _linear(5, seed)
    for epsilon in (0.3, 2.0):
        policy = dpbai.DPDesign(instance.features, budget=150, epsilon=epsilon, phases=1)
        assert dpbai.error_bounds(policy, instance).high <= dpbai.upper_bound(policy, instance)


@pytest.mark.parametrize("phases", [2, 3])
def test_along_all_paths_the_bound_is_above_the_simulated_error(phases):
    instance = _linear(6, seed=1)
    for budget in (300, 3000):
        policy = dpbai.DPDesign(instance.features, budget=budget, epsilon=1.0, phases=phases)
        bound = dpbai.upper_bound(policy, instance)
        runs = dpbai.simulate(policy, instance, trials=4000, seed=1)
        assert _surely_below(bound, runs.trials - runs.successes, runs.trials)
    assert bound < 0.5


def test_the_bound_counts_what_a_misfit_adds_to_the_estimates():
    """The best arm of the nonlinear instance is never pulled, so that it is never found."""
    linear = _linear(12, seed=2)
    policy = dpbai.DPDesign(linear.features, budget=10_000, epsilon=1.0, phases=1)
    means, pulled = linear.means.copy(), policy.phase(1, range(12)).pulled
    arm = next(arm for arm in np.argsort(means).tolist() if arm not in pulled)
    means[arm] = 0.9
    bent = dpbai.Instance(linear.features, rewards=[dpbai.Bernoulli(mean) for mean in means])
    assert dpbai.upper_bound(policy, linear) < 0.01
    runs = dpbai.simulate(policy, bent, trials=500, seed=1)
    assert runs.success_rate < 0.5
    assert dpbai.upper_bound(policy, bent) >= 1 - runs.success_rate


def test_a_policy_that_forgets_is_bounded_by_its_worst_active_set():
    instance = dpbai.Instance(np.eye(4), [0.8, 0.3, 0.2, 0.1], rewards=dpbai.Bernoulli)
    policy = dpbai.DPBAI(np.eye(4), budget=400, epsilon=1.0)
    bound = path_bound(policy, instance)
    first = policy.phase(1, range(4))
    scale = 1 / first.pulls[0]
    variance = 2 / (4 * first.pulls[0]) + 4 * scale**2
    ahead = np.sort(bernstein(instance.gaps[1:], variance, scale))[::-1]
    lost = min(ahead.sum() / 2, ahead[1:].sum())
    last = max(
        bernstein(instance.gaps[rival], 2 / (4 * n) + 4 / n**2, 1 / n)
        for rival in (1, 2, 3)
        for n in [policy.phase(2, (0, rival)).pulls[0]]
    )
    assert bound == pytest.approx(lost + last, rel=1e-9)
    runs = dpbai.simulate(policy, instance, trials=4000, seed=1)
    assert _surely_below(bound, runs.trials - runs.successes, runs.trials)


def test_leaving_out_the_likeliest_rivals_is_right_for_every_joint_law():
    """Random distributions of the set of rivals that are ahead, out of four; keep = 2."""
    rng = np.random.default_rng(3)
    subsets = [set(some) for size in range(5) for some in combinations(range(4), size)]
    for _ in range(200):
        law = rng.dirichlet(np.full(len(subsets), 0.2))
        chances = [sum(p for p, s in zip(law, subsets, strict=True) if k in s) for k in range(4)]
        ahead = np.sort(chances)[::-1]
        lost = sum(p for p, s in zip(law, subsets, strict=True) if len(s) >= 2)
        assert lost <= min(ahead.sum() / 2, ahead[1:].sum()) + 1e-12


def test_more_paths_than_the_limit_are_refused_with_their_number():
    instance = _linear(12, seed=1)
    policy = dpbai.DPDesign(instance.features, budget=3000, epsilon=1.0, phases=3)
    with pytest.raises(ValueError, match=r"limit must be at least \d+ to follow all paths"):
        path_bound(policy, instance, limit=2)


@pytest.mark.parametrize("lead", [0.0, 1e-16, -1e-16])
def test_a_copy_of_the_best_arm_wins_as_often_whatever_rounding_leaves_of_the_contrast(lead):
    means = [0.7, 0.2, 0.5]
    decoder = np.array([[1.0 + lead], [-1.0], [1.0]])
    policy = one_phase((400,), dpbai.NoNoise(), decoder, pulled=(0,))
    rewards = [dpbai.Bernoulli(mean) for mean in means]
    instance = dpbai.Instance(policy.features, rewards=rewards)
    assert path_bound(policy, instance) >= 0.5
