"""The smallest budget, against a search of every budget and against long simulations.

Statistical tests are seeded, and fail by chance with probability below 1e-6 each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from plans import OnePhase, one_phase
from scipy import optimize, stats

import dpbai
from dpbai.beyond import SmallestBudget, planning

WIDE = dpbai.two_armed(gap=0.3, means="in-range")
SYNTHETIC = dpbai.synthetic()
BERNOULLI = dpbai.Instance(SYNTHETIC.features, SYNTHETIC.theta, rewards=dpbai.Bernoulli)
# Five orthogonal arms: DP-BAI has two phases.
ORTHOGONAL = dpbai.Instance(np.eye(5), [0.45, 0.2, 0.2, 0.1, 0.1])


def dp_bai(budget: int) -> dpbai.DPBAI:
    return dpbai.DPBAI(WIDE.features, budget=budget, epsilon=1.0)


@pytest.mark.parametrize("error", [0.2, 0.05, 0.001])
def test_it_is_the_least_of_all_budgets_when_each_is_tried(error):
    found = dpbai.smallest_budget(dp_bai, WIDE, error=error)
    brute = next(
        budget
        for budget in range(1, 200)
        if is_possible(budget) and dpbai.exact_error(dp_bai(budget), WIDE, rtol=1e-6) <= error
    )
    assert found == SmallestBudget(brute, brute - 1, 1.0)


def is_possible(budget: int, make=dp_bai) -> bool:
    try:
        make(budget)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("policy", "instance"),
    [(dpbai.DPBAI, SYNTHETIC), (dpbai.DPBAI, BERNOULLI), (dpbai.DPOD, WIDE)],
    ids=["DP-BAI", "DP-BAI, Bernoulli", "DP-OD"],
)
def test_it_is_enough_and_the_budgets_just_below_are_not(policy, instance):
    def make(budget: int) -> dpbai.Policy:
        return policy(instance.features, budget=budget, epsilon=1.0)

    found = dpbai.smallest_budget(make, instance, error=0.25)
    assert found.confidence == 1
    assert found.too_small == found.budget - 1
    assert dpbai.exact_error(make(found.budget), instance) <= 0.25
    for below in (1, 2):
        assert dpbai.exact_error(make(found.budget - below), instance) > 0.25


LATTICE = dpbai.Instance(
    [(1, 0), (0, 1), (0.9, 0.9), (0.1, 0.2), (0.2, 0.1)], (0.95, 0.15), rewards=dpbai.Bernoulli
)


@pytest.mark.parametrize(("error", "least"), [(0.19, 91), (0.24, 53), (0.28, 17)])
def test_it_is_the_least_although_sums_on_a_lattice_make_the_error_rise_and_fall(error, least):
    found = dpbai.smallest_budget(
        lambda budget: dpbai.DPBAI(LATTICE.features, budget=budget, epsilon=30),
        LATTICE,
        error=error,
    )
    assert found == SmallestBudget(least, least - 1, 1.0)


def first_in_a_search_of_every_budget(make, instance, error):
    errors: dict = {}
    for budget in range(1, 2000):
        try:
            policy = make(budget)
        except ValueError:
            continue
        pulls = policy.phase(1, range(instance.arms)).pulls
        if pulls not in errors:
            errors[pulls] = dpbai.exact_error(policy, instance, rtol=1e-3)
        if errors[pulls] <= error:
            return budget
    raise AssertionError


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, 7, 8])
def test_it_is_the_least_of_all_on_random_instances(seed):
    """Bernoulli, empirical and uniform rewards; little and much noise; cones and Baseline."""
    rng = np.random.default_rng(seed)
    kind = seed % 3
    features = rng.uniform(0, 1, size=(5, 2)) if seed % 2 else np.diag(rng.uniform(0.5, 1, 2))
    theta = rng.uniform(0.1, 0.45 if kind == 2 else 0.9, 2) / 2
    means = (features @ theta).tolist()
    laws = [
        (dpbai.Bernoulli(m), dpbai.Empirical([0, 0.6], [0.6 - m, m]), dpbai.Uniform(m))[kind]
        for m in means
    ]
    instance = dpbai.Instance(features, rewards=laws)
    maker = (dpbai.DPBAI, dpbai.Baseline)[seed % 4 == 0]

    epsilon, error = ((10.0, 0.3), (0.5, 0.42))[seed % 2]

    def make(budget: int) -> dpbai.Policy:
        return maker(features, budget=budget, epsilon=epsilon)

    found = dpbai.smallest_budget(make, instance, error=error, seed=seed)
    least = first_in_a_search_of_every_budget(make, instance, error)
    assert (found.budget, found.too_small) == (least, least - 1)


def test_of_several_budgets_with_one_plan_it_is_the_least():
    """For three budgets each of two arms is pulled once; the error is not monotone."""

    def make(budget: int) -> OnePhase:
        if budget < 3:
            raise ValueError("budget must be at least 3")
        n = budget // 3
        return one_phase((n, n), dpbai.Laplace(0.03 / n), LATTICE.features, pulled=(0, 1))

    for error in (0.19, 0.22, 0.24, 0.26, 0.28):
        found = dpbai.smallest_budget(make, LATTICE, error=error)
        least = first_in_a_search_of_every_budget(make, LATTICE, error)
        assert (found.budget, found.too_small) == (least, least - 1)


NEAR = dpbai.Instance(np.diag([1.0, 0.8]), [0.5, 0.5], rewards=dpbai.Bernoulli)


@pytest.mark.parametrize(
    ("policy", "options", "instance", "error"),
    [
        (dpbai.DPBAI, {"epsilon": 0.05}, NEAR, 0.1),
        (dpbai.DPBAI, {"epsilon": 0.5}, SYNTHETIC, 0.01),
        (dpbai.DPBAIGauss, {"epsilon": 0.5, "delta": 1e-3}, NEAR, 0.1),
    ],
    ids=["two arms", "a cone", "Gaussian noise"],
)
def test_plans_that_a_bound_excludes_err_too_often(monkeypatch, policy, options, instance, error):
    """Each plan that the search skips is checked, and most plans are skipped."""
    strides = []
    excluded = planning._Judge._excluded

    def watched(self, low, high):
        done = excluded(self, low, high)
        if done:
            strides.append((low, high))
        return done

    monkeypatch.setattr(planning._Judge, "_excluded", watched)

    def make(budget: int) -> dpbai.Policy:
        return policy(instance.features, budget=budget, **options)

    found = dpbai.smallest_budget(make, instance, error=error)
    skipped = [budget for low, high in strides for budget in range(low + 1, high)]
    assert len(skipped) > found.budget / 2
    for budget in skipped[:: len(skipped) // 15]:
        assert dpbai.exact_error(make(budget), instance, rtol=1e-2) > error


@pytest.mark.parametrize("law", [dpbai.Bernoulli, dpbai.Uniform])
@pytest.mark.parametrize("noise", [dpbai.Laplace(0.1), dpbai.Gaussian(0.05)])
@pytest.mark.parametrize("gap", [0.0, 0.02, 0.2])
def test_the_bound_on_leads_that_are_used_up_exceeds_simulated_ones(law, noise, gap):
    """It is at most five times as large, so that plans can be skipped."""
    pulls, extra, runs = 20, 6, 10**5
    instance = dpbai.Instance(np.eye(2), rewards=[law(0.5), law(0.5 - gap)], unique=False)
    phase = one_phase((pulls, pulls), noise, np.eye(2)).phase(1, (0, 1))
    rng = np.random.default_rng(0)
    first, more = (
        instance.laws[0].sums(n, runs, rng) - instance.laws[1].sums(n, runs, rng)
        for n in (pulls, extra)
    )
    lead = first / pulls + noise.sample(rng, (runs, 2)) @ [1, -1]
    lost = np.count_nonzero((lead > 0) & (lead + more / pulls <= 0))
    low, high = stats.binomtest(lost, runs).proportion_ci(1 - 1e-7, method="exact")
    (bound,) = planning._crossings(phase, np.array([[1.0, -1.0]]), extra / pulls, instance)
    assert low <= bound <= 5 * high


def test_a_policy_that_pulls_less_for_a_larger_budget_is_tried_at_every_budget():
    # Odd budgets use only half of their pulls, so that the even budget before may be enough.
    def make(budget: int) -> dpbai.Policy:
        return dp_bai(budget if budget % 2 == 0 else budget // 2)

    found = dpbai.smallest_budget(make, WIDE)
    assert found.budget % 2 == 0
    assert found.too_small == found.budget - 1
    for below in (1, 2):
        assert dpbai.exact_error(make(found.budget - below), WIDE) > 0.05


def test_a_budget_that_the_policy_refuses_is_too_small():
    found = dpbai.smallest_budget(dp_bai, WIDE, error=0.9)
    assert not is_possible(found.too_small)
    assert is_possible(found.budget)


@pytest.mark.parametrize("policy", [partial(dpbai.DPDesign, misfit=0), dpbai.DPOD, dpbai.DPBAI])
def test_a_policy_that_pulls_nothing_is_enough_where_one_guess_of_three_is(policy):
    """If features do not distinguish the arms, exact errors and bounds are those of a guess."""
    instance = dpbai.Instance(np.eye(3), [0.45, 0.3, 0.1])

    def blind(budget):
        return policy(np.zeros((3, 2)), budget=budget, epsilon=1.0)

    least = next(budget for budget in range(1, 20) if is_possible(budget, blind))
    found = dpbai.smallest_budget(blind, instance, error=0.7, trials=5000)
    assert (found.budget, found.too_small) == (least, least - 1)
    with pytest.raises(ValueError, match="largest must be a budget with error probability"):
        dpbai.smallest_budget(blind, instance, error=0.6, largest=50, trials=5000)


def test_a_policy_with_exact_errors_at_some_budgets_only_is_simulated_at_the_others():
    """DP-OD sums both arms in each coordinate, so that these depend; DP-BAI does not."""

    def either(budget):
        if budget < 30:
            return dpbai.DPOD([[1, 0.3], [0.2, 1]], budget=budget, epsilon=1.0)
        return dp_bai(budget)

    exact = dpbai.smallest_budget(dp_bai, WIDE, error=0.02)
    assert exact.budget > 31
    found = dpbai.smallest_budget(either, WIDE, error=0.02, trials=1000)
    assert found == SmallestBudget(exact.budget, exact.too_small, 0.99)


def test_simulated_bounds_hold_in_a_long_simulation():
    def make(budget: int) -> dpbai.Policy:
        return dpbai.DPBAI(ORTHOGONAL.features, budget=budget, epsilon=1.0)

    found = dpbai.smallest_budget(
        make, ORTHOGONAL, error=0.1, confidence=1 - 1e-7, trials=20_000, seed=1
    )
    assert found.confidence == 1 - 1e-7
    assert 0 < found.too_small < found.budget < 2 * found.too_small
    trials = 200_000
    for budget, side in ((found.budget, "greater"), (found.too_small, "less")):
        result = dpbai.simulate(make(budget), ORTHOGONAL, trials=trials, seed=2)
        errors = trials - result.successes
        assert stats.binomtest(errors, trials, 0.1, alternative=side).pvalue > 1e-7


def test_more_trials_bring_the_two_budgets_closer():
    def make(budget: int) -> dpbai.Policy:
        return dpbai.DPBAI(ORTHOGONAL.features, budget=budget, epsilon=1.0)

    widths = [
        found.budget - found.too_small
        for trials in (1000, 100_000)
        for found in [dpbai.smallest_budget(make, ORTHOGONAL, error=0.1, trials=trials)]
    ]
    assert widths[1] < widths[0] / 2


def test_more_confidence_takes_the_two_budgets_apart():
    def make(budget: int) -> dpbai.Policy:
        return dpbai.DPBAI(ORTHOGONAL.features, budget=budget, epsilon=1.0)

    widths = [
        found.budget - found.too_small
        for confidence in (0.5, 1 - 1e-9)
        for found in [
            dpbai.smallest_budget(
                make, ORTHOGONAL, error=0.1, confidence=confidence, trials=2000, seed=1
            )
        ]
    ]
    assert widths[0] * 1.3 < widths[1]


def test_without_noise_the_answer_agrees_with_the_sum_over_both_counts():
    means = (0.5, 0.2)
    instance = dpbai.Instance(WIDE.features, rewards=[dpbai.Bernoulli(mean) for mean in means])

    def make(budget: int) -> dpbai.Policy:
        return dpbai.DPBAI(WIDE.features, budget=budget, epsilon=math.inf)

    found = dpbai.smallest_budget(make, instance, error=0.02)
    assert found == SmallestBudget(found.budget, found.budget - 1, 1.0)
    for budget in (found.budget, found.too_small):
        pulls, _ = make(budget).phase(1, (0, 1)).pulls
        first, second = (stats.binom.pmf(np.arange(pulls + 1), pulls, mean) for mean in means)
        error = np.sum(first * (1 - np.cumsum(second) + second / 2))
        assert (error <= 0.02) == (budget == found.budget)


def test_a_budget_is_simulated_as_often_as_trials_say_at_most(monkeypatch):
    counts: dict = {}

    def counted(policy, instance, *, trials, seed):
        counts[policy.budget] = counts.get(policy.budget, 0) + trials
        return dpbai.simulate(policy, instance, trials=trials, seed=seed)

    monkeypatch.setattr(planning, "simulate", counted)
    dpbai.smallest_budget(dp_bai, WIDE, error=0.1, within=0.1, trials=300, seed=5)
    assert max(counts.values()) == 300


def test_the_same_seed_gives_the_same_answer():
    def make(budget: int) -> dpbai.Policy:
        return dpbai.DPBAI(ORTHOGONAL.features, budget=budget, epsilon=1.0)

    first, second = (
        dpbai.smallest_budget(make, ORTHOGONAL, error=0.1, trials=2000, seed=5) for _ in range(2)
    )
    assert first == second


def test_a_largest_budget_that_is_not_enough_is_an_error():
    with pytest.raises(ValueError, match=r"largest must be .* got 20"):
        dpbai.smallest_budget(dp_bai, WIDE, error=1e-6, largest=20)


def test_bounds_in_place_of_exact_probabilities_of_many_pulls_change_no_result(monkeypatch):
    expected = dpbai.smallest_budget(dp_bai, WIDE, error=0.01)
    monkeypatch.setattr(planning, "_MANY_PULLS", 1)
    bounds, decided = planning.error_bounds, []

    def counted(policy, *given, **options):
        found = bounds(policy, *given, **options)._replace(high=1.0)  # also where bounds are loose
        decided.append(found.low > 0.01)
        return found

    monkeypatch.setattr(planning, "error_bounds", counted)
    assert dpbai.smallest_budget(dp_bai, WIDE, error=0.01) == expected
    assert any(decided)


def test_a_tiny_epsilon_is_refused_without_exact_probabilities_of_many_pulls(monkeypatch):
    """With a budget of 10**9 each of them would take minutes."""
    exact, tried = planning.exact_error, []

    def counted(policy, *given, **options):
        tried.append(policy.budget)
        return exact(policy, *given, **options)

    monkeypatch.setattr(planning, "exact_error", counted)
    monkeypatch.setattr(planning, "_MANY_PULLS", 2**7)
    with pytest.raises(planning.SearchError, match="got 1024"):
        dpbai.smallest_budget(
            lambda budget: dpbai.DPBAI(SYNTHETIC.features, budget=budget, epsilon=1e-9),
            BERNOULLI,
            largest=2**10,
        )
    assert tried
    assert max(tried) < 2**8


def test_a_policy_that_refuses_every_budget_shows_why():
    def make(budget: int) -> dpbai.Policy:
        return dpbai.DPBAI(WIDE.features, budget=budget, epsilon=-1.0)

    with pytest.raises(ValueError, match="largest must") as caught:
        dpbai.smallest_budget(make, WIDE, largest=1000)
    assert "epsilon must be positive" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"error": 0.0}, "error"),
        ({"error": 1.0}, "error"),
        ({"confidence": 1.0}, "confidence"),
        ({"trials": 0}, "trials"),
        ({"largest": 0}, "largest"),
    ],
)
def test_arguments_out_of_range_are_errors(options, name):
    with pytest.raises(ValueError, match=name):
        dpbai.smallest_budget(dp_bai, WIDE, **options)


def test_within_a_tolerance_fewer_pulls_are_enough():
    """Arms 1 and 2 are within 0.05 of the best one, so that only the last arm is wrong."""
    instance = dpbai.Instance(np.eye(4), [0.45, 0.42, 0.41, 0.05])

    def make(budget: int) -> dpbai.Policy:
        return dpbai.Baseline(np.eye(4), budget=budget, epsilon=1.0)

    found = dpbai.smallest_budget(
        make, instance, error=0.1, within=0.05, confidence=1 - 1e-7, trials=5000
    )
    assert found.confidence == 1 - 1e-7
    assert dpbai.simulate(make(found.budget), instance, trials=1000).success_rate < 0.8
    trials = 100_000
    for budget, side in ((found.budget, "greater"), (found.too_small, "less")):
        right = dpbai.simulate(make(budget), instance, trials=trials, seed=3).within(0.05)
        wrong = trials - round(right * trials)
        assert stats.binomtest(wrong, trials, 0.1, alternative=side).pvalue > 1e-7


ONE_SHOT = np.vstack([np.eye(3), np.random.default_rng(0).random((3, 3)) / 4])


@dataclass
class OneShot:
    """A policy that pulls three basis arms equally often in one phase."""

    budget: int
    features = ONE_SHOT

    def __post_init__(self):
        if self.budget < 3:
            raise ValueError("budget must be at least 3")

    def phase(self, index, active):
        pulls = self.budget // 3
        return dpbai.Phase(
            index=index, active=tuple(active), pulled=(0, 1, 2), pulls=(pulls,) * 3,
            noise=dpbai.Laplace(2 / pulls), keep=1, decoder_matrix=ONE_SHOT,
        )  # fmt: skip


def test_bounds_decide_without_trials_where_they_can():
    """Three coordinates and a decoder: no exact probability; far from the target, no simulation."""
    instance = dpbai.Instance(ONE_SHOT, [0.9, 0.1, 0.1], rewards=dpbai.Bernoulli)
    make = OneShot
    with pytest.raises(dpbai.exact.NotExactError):
        dpbai.exact_error(make(100), instance)
    found = dpbai.smallest_budget(make, instance, error=0.05, trials=1000)
    assert dpbai.error_bounds(make(found.budget), instance).low <= 0.05
    assert dpbai.error_bounds(make(found.too_small), instance).high > 0.05
    easy = dpbai.smallest_budget(make, instance, error=1e-9, trials=1)
    assert easy.confidence == 1  # one trial could decide nothing
    assert dpbai.error_bounds(make(easy.budget), instance).high <= 1e-9
    assert dpbai.error_bounds(make(easy.too_small), instance).low > 1e-9


# Epsilon.


@pytest.mark.parametrize("error", [0.2, 0.05, 1e-6])
def test_the_smallest_epsilon_is_where_the_exact_error_meets_the_target(error):
    """With two arms and one phase the error decreases in epsilon, so that it is a root."""

    def make(epsilon: float) -> dpbai.Policy:
        return dpbai.DPBAI(WIDE.features, budget=200, epsilon=epsilon)

    found = dpbai.smallest_epsilon(make, WIDE, error=error)
    assert found.confidence == 1
    assert found.too_small < found.epsilon < 1.00101 * found.too_small
    least = optimize.brentq(
        lambda epsilon: dpbai.exact_error(make(epsilon), WIDE, rtol=1e-6) - error, 1e-3, 10
    )
    assert found.too_small <= least * (1 + 1e-5)
    assert least <= found.epsilon * (1 + 1e-5)


def test_budget_and_epsilon_that_are_enough_agree():
    """At the smallest budget for epsilon = 1, the smallest epsilon is at most 1 and close to it."""
    budget = dpbai.smallest_budget(dp_bai, WIDE, error=0.05).budget
    found = dpbai.smallest_epsilon(
        lambda epsilon: dpbai.DPBAI(WIDE.features, budget=budget, epsilon=epsilon), WIDE
    )
    assert 0.9 < found.epsilon <= 1.001


def test_where_simulations_decide_both_epsilons_are_what_they_are_said_to_be():
    """Against longer simulations, within 6 standard errors (2e-9)."""

    def make(epsilon: float) -> dpbai.Policy:
        return dpbai.DPBAI(ORTHOGONAL.features, budget=400, epsilon=epsilon)

    found = dpbai.smallest_epsilon(make, ORTHOGONAL, error=0.2, trials=3000)
    assert (found.confidence, found.too_small < found.epsilon) == (0.99, True)
    assert found.epsilon < 2 * found.too_small
    for epsilon, side in ((found.epsilon, 1), (found.too_small, -1)):
        rate = dpbai.simulate(make(epsilon), ORTHOGONAL, trials=20_000, seed=9).success_rate
        assert side * (rate - 0.8) > -6 * math.sqrt(0.16 / 20_000)
    again = dpbai.smallest_epsilon(make, ORTHOGONAL, error=0.2, trials=3000)
    assert again == found


def test_an_epsilon_that_no_search_finds_is_an_error_of_its_own():
    def make(epsilon: float) -> dpbai.Policy:
        return dpbai.DPBAI(WIDE.features, budget=6, epsilon=epsilon)

    for call, message in (
        (lambda: dpbai.smallest_epsilon(make, WIDE, error=0.01), "a larger budget is needed"),
        (lambda: dpbai.smallest_budget(dp_bai, WIDE, error=1 - 0.95, largest=9),
         "error probability at most 0.05, got 9"),
    ):  # fmt: skip
        with pytest.raises(planning.SearchError, match=message):
            call()
    assert dpbai.smallest_epsilon(make, WIDE, error=0.9).too_small == 0
    with pytest.raises(ValueError, match="largest must lie in"):
        dpbai.smallest_epsilon(make, WIDE, largest=0.0)
