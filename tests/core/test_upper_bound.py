"""The upper bounds of Theorem 4.2 and of the Gaussian proposition, and where they hold."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

import dpbai
from dpbai.hardness import regime
from dpbai.lemmas import suboptimal_arm, suboptimal_arm_gauss
from dpbai.tails import laplace_sum


def _instance(arms, dimension, seed=0):
    """Random features whose means lie in [0.1, 0.9]; arm order is random."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(arms, dimension))
    means = rng.permutation(np.linspace(0.1, 0.9, arms))
    features[:, 0] = means
    return dpbai.Instance(features, np.eye(dimension)[0], rewards=dpbai.Bernoulli)


def _policy(instance, budget=100_000, epsilon=1.0, **options):
    return dpbai.DPBAI(instance.features, budget=budget, epsilon=epsilon, **options)


@pytest.mark.parametrize("convention", ["printed", "proof"])
@pytest.mark.parametrize("budget", [400, 10**6])
def test_theorem_and_finite_form_have_the_constants_65_64_12_and_4(convention, budget):
    for instance in (dpbai.synthetic(), _instance(40, 4), _instance(6, 5)):
        policy = _policy(instance, budget, 0.7, convention=convention)
        schedule = policy.schedule
        H = dpbai.hardness(instance, epsilon=0.7).total
        rate = schedule.usable_budget / (schedule.M * H)
        assert dpbai.upper_bound(policy, instance) == pytest.approx(math.exp(-rate / 65))
        explicit = dpbai.explicit_upper_bound(policy, instance)
        assert explicit.prefactor == 12 * schedule.M + 4 * schedule.M1 * schedule.lam
        assert explicit.value == pytest.approx(explicit.prefactor * math.exp(-rate / 64))
        assert explicit.usable_budget == schedule.usable_budget


def test_65_absorbs_the_prefactor_from_4160_m_h_log_of_it_on():
    for instance in (dpbai.synthetic(), _instance(40, 4)):
        policy = _policy(instance, 1000, 2.0)
        explicit = dpbai.explicit_upper_bound(policy, instance)
        scale = policy.schedule.M * dpbai.hardness(instance, epsilon=2.0).total
        assert 64 * 65 == 4160
        least = 4160 * scale * math.log(explicit.prefactor)
        assert explicit.theorem.valid_from == math.ceil(least)

        def finite_is_smaller(usable, scale=scale, prefactor=explicit.prefactor):
            return math.log(prefactor) - usable / (64 * scale) <= -usable / (65 * scale)

        assert finite_is_smaller(least * (1 + 1e-9))
        assert not finite_is_smaller(least * (1 - 1e-9))


def _proof_steps_hold(policy, instance, explicit):
    """The two steps that need a large T', evaluated on the plan of the only phase."""
    plan = policy.phase(1, range(instance.arms))
    n, hard = plan.pulls[0], dpbai.hardness(instance, epsilon=policy.epsilon)
    rank = len(plan.pulled)
    scale = 1 / (policy.epsilon * n)
    least = hard.gap(explicit.eliminations[0].index)
    linear = True
    for arm, gap in enumerate(instance.gaps):
        if gap >= least:
            for row in (plan.decoder[arm], plan.decoder[instance.best]):
                linear &= laplace_sum(row, scale).linear_from <= gap / 4 * (1 + 1e-10)
    return linear, math.ceil(policy.schedule.usable_budget / (policy.schedule.M * rank**2)) >= 2


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_every_step_holds_from_its_own_t_prime_on_and_not_before(epsilon):
    """One phase, d = 2: the conditions are checked on plans, one T' below and at each threshold."""
    # In the last one, the noise step needs most for the best arm, with coordinates (0.9, 0.9).
    leaning = dpbai.Instance([[1, 0], [0, 1], [0.9, 0.9], [0.1, 0.2], [0.2, 0.1]], [0.25, 0.25])
    for instance in (dpbai.synthetic(), _instance(12, 2, seed=3), leaning):

        def at(usable, instance=instance):
            reserve = _policy(instance, 10**6, epsilon).schedule.reserve
            policy = _policy(instance, usable + reserve, epsilon)
            assert policy.schedule.usable_budget == usable
            return _proof_steps_hold(policy, instance, dpbai.explicit_upper_bound(policy, instance))

        explicit = dpbai.explicit_upper_bound(_policy(instance, 10**6, epsilon), instance)
        steps = {step.name: step.valid_from for step in explicit.steps}
        linear = steps["linear branch of the noise's tail in phase 1"]
        rounding = steps["ceil(x - 1) >= ceil(x)/2 in phase 1"]
        assert at(linear)[0]
        assert linear == 1 or not at(linear - 1)[0]
        assert at(rounding)[1]
        assert not at(rounding - 1)[1]
        assert explicit.valid_from == max(linear, rounding) == explicit.binding.valid_from


def test_when_all_arms_are_pulled_the_noise_step_needs_8_over_epsilon_delta_pulls():
    instance = _instance(9, 3)
    policy = _policy(instance, 5000, 0.3, convention="proof")
    assert len(policy.phase(1, range(9)).pulled) == 9
    explicit = dpbai.explicit_upper_bound(policy, instance)
    steps = {step.name: step.valid_from for step in explicit.steps}
    gap = dpbai.hardness(instance, epsilon=0.3).gap(explicit.eliminations[0].index)
    least = steps["linear branch of the noise's tail in phase 1"]
    M = policy.schedule.M
    needed = 8 / (0.3 * gap)
    assert math.ceil(least / (9 * M)) >= needed * (1 - 1e-10)
    assert math.ceil((least - 1) / (9 * M)) < needed
    assert steps["ceil(x - 1) >= ceil(x)/2 in phase 1"] == 1


def test_without_privacy_the_noise_asks_for_nothing():
    instance = _instance(40, 4)
    explicit = dpbai.explicit_upper_bound(_policy(instance, epsilon=math.inf), instance)
    assert all(step.valid_from == 1 for step in explicit.steps if "noise" in step.name)


def test_later_phases_are_bounded_in_the_worst_case():
    """Phase 2 of K = 400, d = 7: any rank with r^2 < s_2 may be pulled, with coordinates of 1."""
    instance = _instance(400, 7)
    policy = _policy(instance, 10**6, 1.0, convention="proof")
    explicit = dpbai.explicit_upper_bound(policy, instance)
    steps = {step.name: step.valid_from for step in explicit.steps}
    M, size = policy.schedule.M, policy.schedule.sizes[1]
    ranks = [r for r in range(1, 8) if r * r < size]
    gap = dpbai.hardness(instance, epsilon=1.0).gap(explicit.eliminations[1].index)
    candidates = [(M * r, 8 * r / gap) for r in ranks]
    if max(ranks) < 7:
        candidates.append((M * size, 8 / gap))
    least = max(divisor * (math.ceil(pulls) - 1) + 1 for divisor, pulls in candidates)
    assert steps["linear branch of the noise's tail in phase 2"] == least
    assert steps["ceil(x - 1) >= ceil(x)/2 in phase 2"] == M * max(ranks) ** 2 + 1


def test_the_finite_form_is_proved_in_dimension_two_by_the_union_bound():
    instance = dpbai.synthetic()
    explicit = dpbai.explicit_upper_bound(_policy(instance, 10**6), instance)
    (phase,) = explicit.eliminations
    assert (phase.reason, phase.index, phase.factor) == ("union bound", 2, 29)
    count = math.ceil(explicit.usable_budget / 4)
    union = 29 * suboptimal_arm(0.05, epsilon=1.0, count=count)
    assert explicit.repaired == pytest.approx(union)
    assert math.isfinite(explicit.valid_from)


@pytest.mark.parametrize("convention", ["printed", "proof"])
@pytest.mark.parametrize("shape", [(30, 2), (3, 2), (40, 4), (6, 5), (400, 7), (12, 6)])
def test_the_repaired_bound_implies_the_finite_form_wherever_that_is_proved(convention, shape):
    instance = _instance(*shape)
    for budget in (3000, 10**5, 10**7, 10**9):
        policy = _policy(instance, budget, 0.5, convention=convention)
        explicit = dpbai.explicit_upper_bound(policy, instance)
        assert math.isfinite(explicit.valid_from)
        assert explicit.repaired <= explicit.value


def test_under_printed_sizes_some_large_instance_has_no_t_from_which_the_finite_form_is_proved():
    instance = _instance(1000, 7)
    explicit = dpbai.explicit_upper_bound(_policy(instance, convention="printed"), instance)
    assert explicit.valid_from == math.inf
    assert explicit.binding.name == "exponent of phase 2, regrouped"
    proof = dpbai.explicit_upper_bound(_policy(instance, convention="proof"), instance)
    assert math.isfinite(proof.valid_from)


def test_the_repaired_bound_lies_above_the_simulated_error():
    """False alarm below 1e-6: where the bound is below 1/2 the true error is below 0.01.

    The two arms are far apart, so that the bound is below 1 at budgets of some hundreds.
    """
    instance = dpbai.Instance(np.eye(2), [0.95, 0.05], rewards=dpbai.Bernoulli)
    seen = 0
    for budget in (150, 300, 600):
        for epsilon in (0.3, 2.0):
            policy = _policy(instance, budget, epsilon)
            bound = dpbai.explicit_upper_bound(policy, instance).repaired
            result = dpbai.simulate(policy, instance, trials=1000, seed=budget)
            assert 1 - result.success_rate <= bound
            seen += bound < 0.5
    assert seen > 1


# --- DP-BAI-Gauss


@pytest.mark.parametrize("convention", ["printed", "proof"])
def test_the_gaussian_bound_has_the_constants_of_its_proof(convention):
    epsilon, delta = 0.8, 1e-4
    L = math.log(1.25 / delta)
    for instance in (dpbai.synthetic(), _instance(40, 4), _instance(6, 5)):
        policy = dpbai.DPBAIGauss(
            instance.features,
            budget=30_000,
            epsilon=epsilon,
            delta=delta,
            calibration="classic",
            convention=convention,
        )
        s, hard = policy.schedule, dpbai.hardness(instance, epsilon=epsilon)
        scaled = s.usable_budget / (64 * s.M)
        rewards = math.exp(-scaled / hard.bai)
        noise = math.exp(-((scaled / (hard.pri * math.sqrt(L))) ** 2))
        expected = (2 * s.M1 * s.lam + 6 * (s.M - s.M1)) * (rewards + noise)
        assert dpbai.gauss_upper_bound(policy, instance) == pytest.approx(expected)
        explicit = dpbai.explicit_upper_bound(policy, instance)
        assert explicit.value == pytest.approx(expected)
        assert explicit.theorem is None
        assert not any("noise" in step.name for step in explicit.steps)
        assert explicit.repaired <= explicit.value


def test_the_repaired_gaussian_bound_sums_the_lemma_over_the_phases():
    instance = _instance(40, 4)
    policy = dpbai.DPBAIGauss(instance.features, budget=30_000, epsilon=0.8, delta=1e-4)
    explicit = dpbai.explicit_upper_bound(policy, instance)
    gaps = np.sort(instance.gaps)
    total = sum(
        phase.candidates
        / phase.excess
        * suboptimal_arm_gauss(
            gaps[phase.index - 1],
            sigma=policy.sigma,
            count=math.ceil(explicit.usable_budget / policy.schedule.M / phase.divisor),
        )
        for phase in explicit.eliminations
    )
    assert explicit.repaired == pytest.approx(total)


def test_the_gaussian_final_form_has_a_slack_of_eight_that_covers_64_for_32():
    """(k/D)^2/32 with k >= D/4 is 1/512; the paper writes 1/64^2 = 1/4096."""
    assert 64**2 / (32 * 4**2) == 8
    assert 64**2 / (64 * 4**2) == 4


def test_without_noise_the_gaussian_bound_is_that_of_the_rewards():
    instance = dpbai.synthetic()
    policy = dpbai.DPBAIGauss(instance.features, budget=5000, epsilon=math.inf, delta=0.1)
    s, hard = policy.schedule, dpbai.hardness(instance, epsilon=math.inf)
    expected = (2 * s.M1 * s.lam) * math.exp(-s.usable_budget / (64 * hard.bai))
    assert dpbai.gauss_upper_bound(policy, instance) == pytest.approx(expected)


# --- The table of regimes


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.9])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 5.0])
def test_the_regime_is_the_row_whose_condition_holds(delta, epsilon):
    hard = dpbai.hardness(dpbai.synthetic(), epsilon=epsilon)
    log_d = math.log(2)
    rows = set()
    for T in np.unique(np.geomspace(1, 1e12, 300).astype(int)):
        T = int(T)
        noise = (T / (math.sqrt(math.log(5 / (4 * delta))) * hard.pri * log_d)) ** 2
        rewards, laplace = T / (hard.bai * log_d), T / (hard.total * log_d)
        row = 1 if noise >= rewards else 2 if noise >= laplace else 3
        found = regime(hard, dimension=2, budget=T, delta=delta)
        assert found.row == row
        assert found.laplace == pytest.approx(laplace)
        assert found.gauss == pytest.approx(min(noise, rewards))
        assert found.better == ("DP-BAI-Gauss" if found.gauss >= found.laplace else "DP-BAI")
        rows.add(row)
    assert 1 in rows


def test_the_crossovers_separate_the_regimes():
    hard = dpbai.hardness(dpbai.synthetic(), epsilon=0.01)
    second, first = regime(hard, dimension=2, budget=1, delta=1e-6).crossovers
    assert 1 < second < first
    L = math.log(1.25 / 1e-6)
    assert second == pytest.approx(L * hard.pri**2 * math.log(2) / hard.total)
    assert first == pytest.approx(L * hard.pri**2 * math.log(2) / hard.bai)
    found = [
        regime(hard, dimension=2, budget=T, delta=1e-6)
        for T in (math.floor(second), math.ceil(second), math.floor(first), math.ceil(first))
    ]
    assert [regime.row for regime in found] == [3, 2, 2, 1]
    assert {regime.crossovers for regime in found} == {(second, first)}


def test_a_budget_at_a_crossover_belongs_to_the_row_that_begins_there():
    hard = dpbai.hardness(dpbai.synthetic(), epsilon=1.0)

    def found(bai, budget):
        return regime(replace(hard, bai=bai), dimension=2, budget=budget, delta=0.5)

    noise = found(1.0, 1).crossovers[1]
    at = [T for T in range(8, 100) if found(noise / T, T).crossovers[1] == T]
    assert len(at) > 10
    assert all(found(noise / T, T).row == 1 for T in at)


def test_at_delta_zero_only_dp_bai_remains():
    hard = dpbai.hardness(dpbai.synthetic(), epsilon=1.0)
    found = regime(hard, dimension=2, budget=10**9, delta=0)
    assert (found.row, found.better, found.gauss) == (4, "DP-BAI", 0)
    assert found.crossovers == (math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class WithItsOwn(dpbai.DPBAI):
    """DP-BAI with its own bound."""

    def error_bound(self, instance):
        return 1 / instance.arms


def test_a_policys_own_bound_comes_before_that_of_its_class():
    instance = dpbai.synthetic()
    policy = WithItsOwn(instance.features, budget=400, epsilon=1.0)
    assert dpbai.upper_bound(policy, instance) == 1 / instance.arms


# --- Bad input


def test_bounds_reject_policies_that_they_do_not_cover():
    instance = dpbai.synthetic()
    gauss = dpbai.DPBAIGauss(instance.features, budget=400, epsilon=1.0, delta=0.1)
    baseline = dpbai.Baseline(instance.features, budget=400, epsilon=1.0)
    with pytest.raises(TypeError, match="gauss_upper_bound"):
        dpbai.upper_bound(gauss, instance)
    with pytest.raises(TypeError, match=r"Baseline; for other policies, use `dpbai\.beyond"):
        dpbai.upper_bound(baseline, instance)
    with pytest.raises(TypeError, match="Baseline"):
        dpbai.explicit_upper_bound(baseline, instance)
    with pytest.raises(TypeError, match="DPBAIGauss"):
        dpbai.gauss_upper_bound(_policy(instance), instance)


@pytest.mark.parametrize("parent", [dpbai.DPBAI, dpbai.DPBAIGauss])
def test_bounds_reject_a_subclass_whose_noise_they_know_nothing_of(parent):
    """With a thousand times the noise the error is 0.6 where the theorem would claim 0.01."""

    class Louder(parent):
        def noise(self, pulls):
            return dpbai.Laplace(1000 / pulls)

    instance = dpbai.synthetic()
    options = {"delta": 0.1} if parent is dpbai.DPBAIGauss else {}
    policy = Louder(instance.features, budget=400, epsilon=1.0, **options)
    for bound in (dpbai.upper_bound, dpbai.explicit_upper_bound, dpbai.gauss_upper_bound):
        with pytest.raises(TypeError, match="policy must be"):
            bound(policy, instance)


def test_bounds_reject_an_instance_that_breaks_their_assumptions():
    instance = dpbai.synthetic()
    with pytest.raises(ValueError, match="same features"):
        dpbai.upper_bound(_policy(_instance(30, 2)), instance)
    printed = dpbai.two_armed()
    with pytest.raises(ValueError, match=r"rewards in \[0, 1\]"):
        dpbai.upper_bound(_policy(printed), printed)
    laws = [dpbai.Bernoulli(0.2), dpbai.Bernoulli(0.5)]
    listed = dpbai.Instance(np.eye(2), rewards=laws)
    with pytest.raises(ValueError, match="theta"):
        dpbai.upper_bound(_policy(listed), listed)
    line = dpbai.Instance([[1.0], [0.5], [0.2]], [0.5])
    with pytest.raises(ValueError, match="dimension 2 or more"):
        dpbai.upper_bound(_policy(line), line)


def test_the_regime_rejects_arguments_out_of_range():
    hard = dpbai.hardness(dpbai.synthetic(), epsilon=1.0)
    with pytest.raises(ValueError, match="dimension"):
        regime(hard, dimension=1, budget=10, delta=0.1)
    with pytest.raises(ValueError, match="delta"):
        regime(hard, dimension=2, budget=10, delta=1.0)
    with pytest.raises(ValueError, match=r"^budget must"):
        regime(hard, dimension=2, budget=0, delta=0.1)


@pytest.mark.parametrize("budget", [100, 10**9])
def test_bounds_of_extreme_instances_are_positive_and_have_no_overflow(budget):
    synthetic = dpbai.synthetic()
    calm = dpbai.DPBAI(synthetic.features, budget=10**9, epsilon=1e10)
    assert dpbai.upper_bound(calm, synthetic) > 0
    explicit = dpbai.explicit_upper_bound(calm, synthetic)
    assert explicit.value > 0
    assert explicit.repaired > 0
    # Gaps whose squares underflow: no bound holds at any budget.
    close = dpbai.Instance(np.eye(2), [1e-200, 0.0])
    hard = dpbai.hardness(close, epsilon=1.0)
    assert (hard.bai, hard.pri) == (math.inf, pytest.approx(2e200))
    policy = dpbai.DPBAI(close.features, budget=budget, epsilon=1.0)
    assert dpbai.upper_bound(policy, close) == 1.0
    explicit = dpbai.explicit_upper_bound(policy, close)
    assert explicit.value == explicit.prefactor
    assert explicit.theorem.valid_from == math.inf
    assert explicit.valid_from > 1e200


@pytest.mark.parametrize("epsilon", [1e10, 1e300, math.inf])
def test_bounds_are_positive_however_far_apart_two_arms_are(epsilon):
    """At T = 10^6 each bound would underflow, although the event is possible."""
    instance = dpbai.Instance(np.eye(2), [0.5, 0.0])
    for budget in (10**6, 10**15):
        of = {"budget": budget, "epsilon": epsilon}
        policy = dpbai.DPBAI(instance.features, **of)
        explicit = dpbai.explicit_upper_bound(policy, instance)
        assert 0 < explicit.value < 1e-300
        assert 0 < explicit.repaired < 1e-300
        assert 0 < dpbai.beyond.joint_bound(policy, instance).value < 1e-300
        for maker in (dpbai.DPBAI, dpbai.DPHalving, dpbai.DPDesign):
            assert 0 < dpbai.upper_bound(maker(instance.features, **of), instance) < 1e-300
        gauss = dpbai.DPBAIGauss(instance.features, delta=1e-5, **of)
        assert 0 < dpbai.gauss_upper_bound(gauss, instance) < 1e-300
        assert 0 < dpbai.explicit_upper_bound(gauss, instance).repaired < 1e-300
