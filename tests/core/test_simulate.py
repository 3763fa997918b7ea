"""Simulation: success rates against the plain loop, seeds, batches, intervals, odd shapes.

The plain loop draws one reward at a time, with another generator and its own planning. Fisher's
exact test compares both success rates; its p-value is below 1e-6 with probability at
most 1e-6. With 3000 runs against 20000 trials this is a band of 0.05 around a rate of one half, and
with 1000 runs one of 0.08.
"""

import math
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import FALSE_ALARM, case, ladder, oblique, synthetic
from scipy import stats

import dpbai
from dpbai import DPBAI, Baseline, Bernoulli, Beta, Empirical, NoNoise, ODLinBAI, Phase

engine = import_module("dpbai.simulate")  # the name `dpbai.simulate` is the function
Simulation = engine.Simulation

ONE_PHASE = [
    ("DP-BAI", 120, 0.9),
    ("DP-BAI-Gauss", 120, 0.9),
    ("OD-LinBAI", 120, 0.9),
    ("DP-OD", 120, 0.9),
    ("DP-OD, L1", 120, 0.9),
    ("Baseline", 619, 4.0),
    ("Baseline as printed", 619, 4.0),
]
SEVERAL_PHASES = [
    ("DP-BAI", 240, 1.5),
    ("DP-BAI-Gauss", 240, 3.0),
    ("Baseline", 240, 3.0),
    ("OD-LinBAI", 90, 1.0),
    ("DP-OD", 240, 1.5),
    ("DP-OD, L1", 240, 1.5),
]


@pytest.mark.filterwarnings("ignore:the classic Gaussian calibration")
@pytest.mark.parametrize(("name", "budget", "epsilon"), ONE_PHASE)
def test_one_phase_success_rates_are_those_of_the_plain_loop(name, budget, epsilon):
    runs = 3000 if budget < 200 else 1000
    assert case(synthetic(), name, budget, epsilon).p_value(runs=runs) > FALSE_ALARM


@pytest.mark.filterwarnings("ignore:the classic Gaussian calibration")
@pytest.mark.parametrize(("name", "budget", "epsilon"), SEVERAL_PHASES)
@pytest.mark.parametrize("instance", [ladder, oblique])
def test_success_rates_over_several_phases_are_those_of_the_plain_loop(
    instance, name, budget, epsilon
):
    trials = 5000 if name == "Baseline" else 20_000  # each active set has its own plan
    checked = case(instance(), name, budget, epsilon)
    assert checked.p_value(runs=2000, trials=trials) > FALSE_ALARM


def test_a_single_reward_decides_between_two_arms():
    """One pull of each of two Bernoulli arms, no noise: P(arm 0) by hand, ties included."""
    instance = dpbai.Instance(np.eye(2), [0.7, 0.4], rewards=Bernoulli)
    policy = Baseline(instance.features, budget=3, epsilon=math.inf)
    assert policy.phase(1, (0, 1)).pulls == (1, 1)
    result = dpbai.simulate(policy, instance, trials=100_000, seed=1)
    wins = 0.7 * 0.6 + (0.7 * 0.4 + 0.3 * 0.6) / 2  # half of the ties
    assert stats.binomtest(result.successes, 100_000, wins).pvalue > FALSE_ALARM


def test_laplace_noise_alone_decides_by_its_closed_form():
    """Constant rewards, n pulls: P(error) = (2 + y) e^-y / 4 with y = gap n epsilon."""
    instance = dpbai.Instance(np.eye(2), rewards=[Empirical([0.5]), Empirical([0.4])])
    policy = DPBAI(instance.features, budget=20, epsilon=1.2)
    (pulls, _) = policy.phase(1, (0, 1)).pulls
    y = 0.1 * pulls * 1.2
    result = dpbai.simulate(policy, instance, trials=100_000, seed=2)
    error = (2 + y) * math.exp(-y) / 4
    assert stats.binomtest(result.trials - result.successes, 100_000, error).pvalue > FALSE_ALARM


def test_empirical_means_are_sums_divided_by_pulls():
    """Eq. (empirical-mean-update), of rewards that are certain: each mean is its arm's reward."""
    instance = dpbai.Instance(np.eye(3), rewards=[Empirical([v]) for v in (0.25, 0.75, 0.5)])
    phase = Phase(1, (0, 1, 2), (2, 0), (1000, 3), NoNoise(), 1, decoder_matrix=np.eye(3, 2))
    (means,) = engine._empirical_means([(phase, 4)], instance, np.random.default_rng(0))
    np.testing.assert_array_equal(means, [[0.5, 0.25]] * 4)


@pytest.mark.parametrize("law", [Bernoulli, Beta])
def test_other_reward_laws_run_through_all_phases(law):
    instance = ladder()
    other = dpbai.Instance(instance.features, instance.theta, rewards=law)
    result = dpbai.simulate(
        DPBAI(instance.features, budget=2000, epsilon=5.0), other, trials=300, seed=0
    )
    assert result.success_rate > 0.5  # the rate of uniform rewards at this budget is 0.97


def test_counts_add_up_and_pulls_stay_within_the_budget():
    instance = ladder()
    for maker in (DPBAI, Baseline):
        result = dpbai.simulate(
            maker(instance.features, budget=300, epsilon=1.0), instance, trials=777, seed=3
        )
        assert result.recommended.sum() == result.trials == 777
        assert result.recommended.shape == (20,)
        assert result.successes == result.recommended[instance.best]
        assert result.success_rate == result.successes / 777
        assert result.pulls <= 300


class Uneven:
    """A policy whose last phase costs 14 pulls if arm 0 is left, else 2; the first costs 3."""

    features = np.eye(3)
    budget = 17

    def phase(self, index, active):
        active = tuple(active)
        times = 1 if index == 1 or 0 not in active else 7
        return Phase(index, active, active, (times,) * len(active), NoNoise(), 3 - index)


@pytest.mark.parametrize(
    ("rewards", "pulls"),
    [
        ([[0.1], [0.2], [0.3]], 5),
        ([[0.3], [0.2], [0.1]], 17),
        ([[0.0, 0.4], [0.2], [0.3]], 17),
    ],
)
def test_pulls_are_the_largest_of_any_trial(rewards, pulls):
    instance = dpbai.Instance(np.eye(3), rewards=[Empirical(values) for values in rewards])
    result = dpbai.simulate(Uneven(), instance, trials=100, seed=0)
    assert result.pulls == pulls


def test_same_seed_same_counts():
    instance = ladder()
    policy = DPBAI(instance.features, budget=240, epsilon=1.0)

    def counts(seed):
        return dpbai.simulate(policy, instance, trials=500, seed=seed).recommended.tolist()

    assert counts(5) == counts(5) == counts(np.random.SeedSequence(5))
    assert counts(5) == counts(np.random.default_rng(5))
    assert counts(5) != counts(6)
    generator = np.random.default_rng(5)
    assert counts(generator) != counts(generator)  # a generator advances


def test_global_random_state_is_left_alone():
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    dpbai.simulate(DPBAI(np.eye(2), budget=9, epsilon=1.0), dpbai.two_armed(), trials=9, seed=0)
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    assert after["state"]["pos"] == state["state"]["pos"]
    np.testing.assert_array_equal(after["state"]["key"], state["state"]["key"])


@pytest.mark.parametrize("entries", [1, 50, 5000])
@pytest.mark.parametrize("instance", [synthetic, ladder])
def test_batches_of_any_size_run_every_trial_once(instance, entries, monkeypatch):
    """The law is the same, too: chi-square test of recommended arms against one batch, at 1e-6."""
    instance = instance()
    policy = DPBAI(instance.features, budget=240, epsilon=0.3)
    whole = dpbai.simulate(policy, instance, trials=3000, seed=0).recommended
    monkeypatch.setattr(engine, "_BLOCK_ENTRIES", entries)
    parts = dpbai.simulate(policy, instance, trials=1000, seed=1).recommended
    assert parts.sum() == 1000
    seen = whole + parts > 20
    table = [whole[seen], parts[seen]]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


@pytest.mark.parametrize("epsilon", [0.5, math.inf])  # without noise, Bernoulli means tie
def test_groups_that_are_executed_together_have_the_results_of_each_alone(epsilon, monkeypatch):
    """In every trial, with the same rewards, noise and ties."""
    means = np.linspace(0.8, 0.3, 12)
    instance = dpbai.Instance(np.eye(12), means, rewards=dpbai.Bernoulli)
    policy = DPBAI(np.eye(12), budget=400, epsilon=epsilon)
    together = dpbai.simulate(policy, instance, trials=400, seed=3)
    monkeypatch.setattr(engine, "_unlabelled", id)
    alone = dpbai.simulate(policy, instance, trials=400, seed=3)
    assert together.recommended.tolist() == alone.recommended.tolist()
    assert np.count_nonzero(together.recommended) > 2


def test_trials_that_part_ways_do_not_share_rewards():
    """Two plans of one batch draw one block of sums and cut it: all 2400 sums are different."""
    instance = synthetic()
    phase = DPBAI(instance.features, budget=240, epsilon=1.0).phase(1, range(30))
    rng = np.random.default_rng(0)
    first, second = engine._empirical_means([(phase, 500), (phase, 700)], instance, rng)
    assert first.shape == (500, 2)
    assert second.shape == (700, 2)
    assert len(np.unique(np.concatenate([first, second]))) == 2400


@given(budget=st.integers(3, 10**12), trials=st.integers(1, 50), seed=st.integers(0, 2**32))
def test_any_budget_runs(budget, trials, seed):
    instance = dpbai.two_armed(means="in-range")
    policy = DPBAI(instance.features, budget=budget, epsilon=1.0)
    result = dpbai.simulate(policy, instance, trials=trials, seed=seed)
    assert result.trials == trials
    assert result.pulls <= budget
    if budget > 10**6:
        assert result.success_rate == 1


def test_one_dimension_finds_the_best_arm():
    """Not arm 0 without a pull."""
    instance = dpbai.Instance([[0.2], [0.9], [0.5]], [0.5])
    for maker in (
        lambda x: DPBAI(x, budget=1000, epsilon=1.0),
        lambda x: ODLinBAI(x, budget=1000),
        lambda x: dpbai.DPOD(x, budget=1000, epsilon=1.0),
        lambda x: Baseline(x, budget=1000, epsilon=1.0),
    ):
        result = dpbai.simulate(maker(instance.features), instance, trials=200, seed=0)
        assert (result.successes, instance.best) == (200, 1)


def test_a_wrong_model_is_run_on_the_true_rewards():
    """With other features than the instance, the policy finds another best arm."""
    instance = dpbai.Instance(np.eye(6)[:, :5] + 0.1, [0.3, 0.1, 0.1, 0.1, 0.1])
    wrong = np.vstack([np.ones((1, 1)), np.arange(2.0, 7.0)[:, None]])
    policy = DPBAI(wrong, budget=10_000, epsilon=10.0)
    result = dpbai.simulate(policy, instance, trials=50, seed=0)
    assert result.recommended[5] == 50  # the longest arm, whose reward is positive


def test_intervals_are_wilsons_and_clopper_pearsons():
    def result(successes, trials):
        return Simulation(
            np.array([successes, trials - successes]), np.array([0.0, 0.1]), 1, 1.0, 0.0
        )

    n, p, z = 200, 0.35, stats.norm.ppf(0.975)
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert result(70, n).interval() == pytest.approx((centre - half, centre + half))
    low, high = result(70, n).interval(0.99, method="exact")
    assert stats.binom.sf(69, n, low) == pytest.approx(0.005)
    assert stats.binom.cdf(70, n, high) == pytest.approx(0.005)
    assert result(0, n).interval()[0] == pytest.approx(0, abs=1e-15)
    assert result(n, n).interval()[1] == pytest.approx(1)
    for successes in (0, 1, 70, n - 1, n):
        for method in ("wilson", "exact"):
            low, high = stats.binomtest(successes, n).proportion_ci(0.999, method=method)
            found = result(successes, n).interval(0.999, method=method)
            assert found == pytest.approx((low, high), abs=1e-11)


def test_regret_and_tolerance_weigh_each_answer_by_its_gap():
    """Compared with sums over single trials."""
    means = np.array([0.6, 0.55, 0.5, 0.1])
    instance = dpbai.Instance(np.eye(4), means, rewards=dpbai.Bernoulli)
    policy = dpbai.DPBAI(np.eye(4), budget=40, epsilon=1.0)
    result = dpbai.simulate(policy, instance, trials=500, seed=1)
    answers = np.repeat(np.arange(4), result.recommended)
    assert len(set(answers)) == 4
    assert result.regret == pytest.approx(np.mean([0.6 - means[answer] for answer in answers]))
    for tolerance, right in (
        (0.0, [0]),
        (0.049, [0]),
        (0.05, [0, 1]),
        (0.1, [0, 1, 2]),
        (1, means),
    ):
        share = np.mean([answer < len(right) for answer in answers])
        assert result.within(tolerance) == pytest.approx(share)
    assert result.within(0) == result.success_rate
    with pytest.raises(ValueError, match="tolerance"):
        result.within(-0.1)


def test_any_of_several_best_arms_is_a_right_answer_where_ties_are_admitted():
    """The third arm certainly loses; random ties give each of the others probability 1/2."""
    with pytest.raises(ValueError, match="unique"):
        dpbai.Instance(np.eye(3), [1, 1, 0], rewards=dpbai.Bernoulli)
    instance = dpbai.Instance(np.eye(3), [1, 1, 0], rewards=dpbai.Bernoulli, unique=False)
    assert (instance.best, instance.ties, instance.gaps.tolist()) == (0, (0, 1), [0, 0, 1])
    policy = dpbai.Baseline(np.eye(3), budget=30, epsilon=math.inf)
    result = dpbai.simulate(policy, instance, trials=10_000, seed=2)
    assert (result.success_rate, result.regret, result.within(0.3)) == (1, 0, 1)
    assert abs(result.recommended[0] - 5000) < 5 * 50  # false alarm 6e-7
    for ask in (
        lambda: dpbai.exact_error(policy, instance),
        lambda: dpbai.error_bounds(policy, instance),
        lambda: dpbai.hardness(instance, epsilon=1.0),
    ):
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            ask()
