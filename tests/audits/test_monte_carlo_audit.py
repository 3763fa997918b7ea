"""The Monte Carlo audit: bounds hold at their confidence level, and runs have the exact law."""

import math

import numpy as np
import pytest
from scipy import stats

import dpbai
from dpbai.audits import run_on_table

SURE = 1 - 1e-6
ZEROS = np.zeros((2, 9))
ONE = np.zeros((2, 9))
ONE[0, 0] = 1.0


def test_runs_on_a_table_have_the_exact_law():
    """Binomial tests at level 1e-8 of each transcript of two phases, on four tables."""
    policy = dpbai.DPBAI(np.eye(3), budget=14, epsilon=1.0)
    audit = dpbai.exact_audit(policy)
    rng = np.random.default_rng(0)
    for position in (0, 111, 222, 333):
        counts = run_on_table(policy, audit.grid.table(position), 20_000, rng)
        assert set(counts) <= set(audit.outputs)
        for output, values in zip(audit.outputs, audit.log_probabilities, strict=True):
            probability = math.exp(values[position])
            assert stats.binomtest(counts[output], 20_000, probability).pvalue > 1e-8


def test_the_representation_of_an_audit_is_short():
    """The event of many runs would have a million characters."""
    policy = dpbai.DPBAI(np.random.default_rng(0).random((12, 3)), budget=90, epsilon=1.0)
    found = dpbai.monte_carlo_audit(policy, trials=400)
    small = dpbai.exact_audit(dpbai.DPBAI(np.eye(3), budget=14, epsilon=1.0))
    for audit in (found, small):
        assert len(repr(audit)) < 1000


def test_the_bound_is_below_the_loss_with_the_stated_confidence():
    """Each of 100 bounds at level 0.5 exceeds the exact loss with probability at most 1/2.

    More than 75 of them do so with probability below 1e-7. The mean of the bounds must be at least
    nine tenths of the loss.
    """
    policy = dpbai.DPBAI(np.eye(2), budget=3, epsilon=1.0)
    audit = dpbai.exact_audit(policy)
    bounds = [
        dpbai.monte_carlo_audit(policy, audit.tables, trials=8000, level=0.5, seed=seed).epsilon
        for seed in range(100)
    ]
    assert sum(bound > audit.epsilon for bound in bounds) <= 75
    assert np.mean(bounds) > 0.9 * audit.epsilon


def test_without_a_loss_only_bounds_from_reused_runs_are_positive():
    """On two tables with nearly equal laws, an event that fits the first runs fails on new ones.

    Each of 40 bounds is positive with probability at most 1/2, and more than 36 of them with
    probability below 1e-6. The mutant tests the event on the runs that chose it.
    """
    policy = dpbai.DPBAI(np.eye(4), budget=12, epsilon=1e-6)

    def same_runs_twice(policy, table, trials, rng):  # noqa: ARG001
        return run_on_table(policy, table, trials, np.random.default_rng(int(np.sum(table))))

    def positive(run):
        bounds = (
            dpbai.monte_carlo_audit(policy, trials=400, level=0.5, seed=seed, run=run)
            for seed in range(40)
        )
        return sum(bound.epsilon > 1e-6 for bound in bounds)

    assert positive(run_on_table) <= 36
    assert positive(same_runs_twice) == 40


@pytest.mark.parametrize("level", [0.5, 0.95, SURE])
def test_the_limits_are_those_of_clopper_and_pearson(level):
    policy = dpbai.DPBAI(np.eye(2), budget=5, epsilon=1.0)
    bound = dpbai.monte_carlo_audit(policy, trials=10_000, level=level)
    each = 2 * (1 + level) / 2 - 1  # of the two-sided interval that misses (1 - level)/2 per side
    low = stats.binomtest(bound.hits[0], bound.runs).proportion_ci(each, "exact").low
    high = stats.binomtest(bound.hits[1], bound.runs).proportion_ci(each, "exact").high
    assert bound.epsilon == pytest.approx(math.log(low / high))
    assert bound.runs == 5000
    shifted = dpbai.monte_carlo_audit(policy, trials=10_000, level=level, delta=0.05)
    assert shifted.epsilon < bound.epsilon


@pytest.mark.parametrize("order", [1, -1])
def test_few_runs_detect_a_policy_without_noise(order):
    """One reward of 1 makes its arm win; without it, the two arms tie."""
    tables, policy = (ZEROS, ONE)[::order], dpbai.ODLinBAI(np.eye(2), budget=9)
    bound = dpbai.monte_carlo_audit(policy, tables, trials=4000, level=SURE)
    assert bound.hits[1] == 0
    assert stats.binomtest(bound.hits[0], 2000, 0.5).pvalue > 1e-6
    assert bound.epsilon > 3


def test_the_runs_that_choose_the_event_and_those_that_test_it_add_up_to_the_trials():
    runs = []

    def counted(policy, table, trials, rng):
        runs.append(trials)
        return run_on_table(policy, table, trials, rng)

    policy = dpbai.ODLinBAI(np.eye(2), budget=9)
    assert dpbai.monte_carlo_audit(policy, trials=5, run=counted).runs == 3
    assert runs == [2, 2, 3, 3]


def test_the_default_tables_differ_in_the_first_reward_of_the_last_arm():
    policy = dpbai.DPBAI(np.eye(2), budget=9, epsilon=1.0)
    found = dpbai.monte_carlo_audit(policy, trials=1000)
    assert found == dpbai.monte_carlo_audit(policy, (ZEROS, ONE[::-1]), trials=1000)
    assert found != dpbai.monte_carlo_audit(policy, (ZEROS, ONE), trials=1000)


def test_large_plans_are_audited_too():
    """The instance of Sec. 5 with thousands of pulls; the certificate is an upper bound."""
    policy = dpbai.DPBAI(dpbai.synthetic().features, budget=8000, epsilon=1.0)
    bound = dpbai.monte_carlo_audit(policy, trials=20_000, level=SURE)
    assert 0.5 < bound.epsilon <= dpbai.certificate(policy).epsilon


def test_the_bound_for_gaussian_noise_allows_for_delta():
    policy = dpbai.DPBAIGauss(np.eye(2), budget=5, epsilon=1.0, delta=0.05)
    exact = dpbai.exact_audit(policy)
    bound = dpbai.monte_carlo_audit(policy, exact.tables, trials=40_000, delta=0.05, level=SURE)
    assert bound.delta == 0.05
    assert exact.delta_at(bound.epsilon) >= 0.05 or bound.epsilon == 0


def test_the_tables_of_an_exact_audit_can_be_run():
    """Of five arms in the plane two are pulled; the rows of the others are empty."""
    features = np.array([[1.0, 0], [0, 1], [0.5, 0.5], [0.4, 0.5], [0.3, 0.2]])
    policy = dpbai.DPBAI(features, budget=9, epsilon=1.0)
    audit = dpbai.exact_audit(policy)
    assert [len(row) for row in audit.tables[0]] == [4, 4, 0, 0, 0]
    bound = dpbai.monte_carlo_audit(policy, audit.tables, trials=4000, level=SURE)
    assert bound.epsilon <= audit.epsilon


def test_the_same_seed_gives_the_same_bound():
    policy = dpbai.DPBAI(np.eye(3), budget=14, epsilon=1.0)
    first, second = (dpbai.monte_carlo_audit(policy, trials=500, seed=7) for _ in range(2))
    assert first == second
    generator = np.random.default_rng(7)
    assert dpbai.monte_carlo_audit(policy, trials=500, seed=generator) == first


@pytest.mark.parametrize(
    ("tables", "rule"),
    [
        ((), "tables must be a pair of tables of rewards, got 0"),
        ((ZEROS, ONE, ZEROS), "tables must be a pair of tables of rewards, got 3"),
        ((ZEROS, ZEROS), "exactly one reward"),
        ((ZEROS, np.ones((2, 9))), "exactly one reward"),
        ((ZEROS[:1], ONE[:1]), "one row for each of 2 arms"),
        ((ZEROS, ONE[:, :8]), "rows of the same lengths"),
        ((ZEROS, np.where(ONE, np.nan, 0)), "finite"),
        ((ZEROS[:, :2], ONE[:, :2]), "at least 4 rewards of arm 0, got 2"),
    ],
)
def test_tables_must_be_neighbours(tables, rule):
    policy = dpbai.DPBAI(np.eye(2), budget=9, epsilon=1.0)
    with pytest.raises(ValueError, match=rule):
        dpbai.monte_carlo_audit(policy, tables, trials=10)


def test_error_messages_contain_no_reward():
    secret = ONE * 0.1234567
    with pytest.raises(ValueError, match="tables") as error:
        dpbai.monte_carlo_audit(
            dpbai.DPBAI(np.eye(2), budget=9, epsilon=1.0), (secret, secret), trials=10
        )
    assert "0.1234567" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"trials": 1}, "trials"),
        ({"trials": 1e3}, "trials"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -0.1}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"level": 1.0}, "level"),
        ({"level": 0}, "level"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_arguments_are_named(options, name):
    policy = dpbai.DPBAI(np.eye(2), budget=9, epsilon=1.0)
    with pytest.raises((ValueError, TypeError), match=name):
        dpbai.monte_carlo_audit(policy, **{"trials": 100} | options)
