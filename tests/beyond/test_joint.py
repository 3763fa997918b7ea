"""Theorem 4.2 with 17 in place of 65, for both sequences of sizes, by a joint bound."""

import math

import numpy as np
import pytest
from oracles import FALSE_ALARM
from scipy import stats

import dpbai
from dpbai.beyond import joint_bound, overtaken

WIDE = dpbai.Instance(
    np.random.default_rng(5).normal(size=(60, 3)) @ np.diag([0.1, 0.1, 0.1]) + [0.5, 0, 0],
    [1.0, 0.5, 0.2],
    rewards=dpbai.Bernoulli,
)


@pytest.mark.parametrize("weight", [1.0, 2.0])
@pytest.mark.parametrize("epsilon", [0.02, 1.0, 50.0])
def test_overtaken_is_the_least_of_chernoffs_bounds(weight, epsilon):
    for gap, pulls, arms in ((0.05, 500, 2), (0.3, 40, 5), (0.9, 600, 3)):
        t = np.linspace(0, epsilon / weight, 100_001)[:-1]
        rewards = -pulls * (t * gap - t * t * arms * weight**2 / 8)
        least = (rewards - arms * np.log1p(-((t * weight / epsilon) ** 2))).min()
        bound = overtaken(gap, epsilon=epsilon, pulls=pulls, arms=arms, weight=weight)
        assert math.log(bound) == pytest.approx(least, rel=1e-3, abs=1e-4)
        assert math.log(bound) <= least + 1e-9


def test_without_noise_overtaken_is_hoeffdings_inequality():
    bound = overtaken(0.3, epsilon=math.inf, pulls=70, arms=3, weight=2.0)
    assert bound == pytest.approx(math.exp(-2 * (70 * 0.3) ** 2 / (70 * 3 * 2**2)))
    for epsilon in (1e8, 1e12, 1e100, 1e300):  # practically no noise, and no overflow
        least = overtaken(0.3, epsilon=epsilon, pulls=70, arms=3, weight=2.0)
        assert least == pytest.approx(bound, rel=1e-10)
        assert least >= bound * (1 - 1e-12)


@pytest.mark.parametrize("gap", [5e-324, 1e-200, 1.0])
@pytest.mark.parametrize("epsilon", [1e-300, 1.0, 1e300])
def test_overtaken_is_a_chance_however_small_gap_and_epsilon_are(gap, epsilon):
    assert 0 < overtaken(gap, epsilon=epsilon, pulls=10**9, arms=10, weight=2.0) <= 1 + 1e-12


def test_with_much_noise_overtaken_is_above_the_exact_tail_and_has_its_exponent():
    """The difference of two Laplace variables exceeds y with probability (2 + y) e^-y / 4."""
    for y in (5.0, 50.0):
        gap, pulls = 0.5, 10**7
        of = {"epsilon": y / (gap * pulls), "pulls": pulls, "arms": 2, "weight": 1.0}
        exact = (2 + y) / 4 * math.exp(-y)
        assert exact < overtaken(gap, **of) < 50 * y**2 * exact


@pytest.mark.parametrize("convention", ["printed", "proof"])
def test_every_phase_allows_a_constant_of_16(convention):
    """The exponents of `overtaken` at t <= (1 - eta) epsilon / w, with 1 - eta = d^2/(d^2 + 8)."""
    for d in (*range(2, 13), 40):
        left = d * d / (d * d + 8)
        for arms in (2, 3, 4, 5, 7, 9, 16, 30, 100, 1000, 10**5):
            schedule = dpbai.Schedule(arms, d, 10**7, convention)
            for phase, size in enumerate(schedule.sizes[:-1], start=1):
                first = phase <= schedule.M1
                index = 1 + (schedule.g[1] if first else schedule.sizes[phase])
                assert 2 <= index <= min(schedule.sizes[phase] + 1, d * d, arms)
                for rank in range(1, min(d, size) + 1):
                    if rank * rank < size:
                        needed = max(2 * rank**2, 4 * rank / left)
                    else:
                        needed = max(size, 2 * size / left)
                    assert needed <= 16 * index * (1 + 1e-12)


def test_where_65_is_open_for_the_printed_sizes_17_is_proved():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1000, 7))
    features[:, 0] = rng.permutation(np.linspace(0.1, 0.9, 1000))
    instance = dpbai.Instance(features, np.eye(7)[0], rewards=dpbai.Bernoulli)
    policy = dpbai.DPBAI(instance.features, budget=10**7, epsilon=1.0)
    assert math.isinf(dpbai.explicit_upper_bound(policy, instance).valid_from)
    assert math.isfinite(joint_bound(policy, instance).valid_from)


@pytest.mark.parametrize("convention", ["printed", "proof"])
def test_from_its_threshold_on_17_is_above_what_is_proved_for_every_budget(convention):
    for instance in (dpbai.synthetic(), WIDE):
        small = dpbai.DPBAI(instance.features, budget=1000, epsilon=1.0, convention=convention)
        least = joint_bound(small, instance).valid_from
        budget = least + small.schedule.reserve + instance.arms * small.schedule.M
        policy = dpbai.DPBAI(instance.features, budget=budget, epsilon=1.0, convention=convention)
        usable = policy.schedule.usable_budget
        assert usable >= least
        total = dpbai.hardness(instance, epsilon=1.0).total
        bound = joint_bound(policy, instance).value
        assert bound <= math.exp(-usable / (17 * policy.schedule.M * total))


@pytest.mark.parametrize("means", [(0.8, 0.5, 0.49, 0.48), (0.8, 0.7, 0.3, 0.3)])
def test_the_bound_of_four_one_hot_arms_is_a_sum_of_two_phases_by_hand(means):
    """Two of 4 arms survive: the bound is for two of three rivals ahead, or one of the last two.

    Then one of 2 survives: both are pulled, or one of two on a line, with coordinates 1 and -1.
    """
    instance = dpbai.Instance(np.eye(4), means, rewards=dpbai.Bernoulli)
    policy = dpbai.DPBAI(np.eye(4), budget=400, epsilon=1.0)
    usable = policy.schedule.usable_budget

    def ahead(gap, pulled, arms, weight):
        pulls = math.ceil(usable / (2 * pulled))
        return overtaken(gap, epsilon=1.0, pulls=pulls, arms=arms, weight=weight)

    second, third = (means[0] - mean for mean in means[1:3])
    first_phase = min(3 / 2 * ahead(second, 4, 2, 1.0), 2 * ahead(third, 4, 2, 1.0))
    last_phase = max(ahead(second, 2, 2, 1.0), ahead(second, 1, 1, 2.0))
    assert policy.schedule.sizes == (4, 2, 1)
    assert joint_bound(policy, instance).value == pytest.approx(first_phase + last_phase, rel=1e-9)


def test_the_bound_lies_above_the_exact_error_and_far_below_the_lemmas():
    paper = dpbai.synthetic()
    for budget in (400, 12_800, 100_000):
        policy = dpbai.DPBAI(paper.features, budget=budget, epsilon=1.0)
        lemmas = dpbai.explicit_upper_bound(policy, paper).repaired
        bound = joint_bound(policy, paper).value
        assert bound < lemmas
        assert dpbai.exact_error(policy, paper) < bound
    assert bound < lemmas**3


def test_the_bound_lies_above_the_simulated_error_of_several_phases():
    policy = dpbai.DPBAI(WIDE.features, budget=60_000, epsilon=1.0)
    runs = dpbai.simulate(policy, WIDE, trials=4000, seed=1)
    bound = min(1.0, joint_bound(policy, WIDE).value)
    assert stats.binom.sf(runs.trials - runs.successes - 1, runs.trials, bound) > FALSE_ALARM


def test_the_gaussian_variant_has_no_such_bound():
    policy = dpbai.DPBAIGauss(WIDE.features, budget=5000, epsilon=1.0, delta=1e-5)
    with pytest.raises(TypeError, match="policy must be DPBAI itself, with Laplace noise"):
        joint_bound(policy, WIDE)


def test_no_other_policy_has_this_bound():
    baseline = dpbai.Baseline(WIDE.features, budget=5000, epsilon=1.0)
    for policy in (baseline, 3):
        with pytest.raises(TypeError, match=f"not a subclass, got {type(policy).__name__}"):
            joint_bound(policy, WIDE)
