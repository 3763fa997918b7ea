"""Bounds on the error probability, against exact values, brute force and simulation.

Statistical tests are seeded, and fail by chance with probability below 1e-6 each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import FALSE_ALARM
from plans import constants, laws, one_phase
from scipy import stats

import dpbai
from dpbai.exact import NotExactError, pairs
from dpbai.exact.inversion import Variables
from dpbai.exact.terms import independent_terms
from dpbai.noise import Gaussian
from dpbai.phase import Phase

SYNTHETIC = dpbai.synthetic()
MAKERS = {
    "DP-BAI": partial(dpbai.DPBAI, epsilon=0.5),
    "DP-BAI, no noise": partial(dpbai.DPBAI, epsilon=math.inf),
    "DP-BAI-Gauss": partial(dpbai.DPBAIGauss, epsilon=0.5, delta=0.01),
    "Baseline": partial(dpbai.Baseline, epsilon=2.0),
    "OD-LinBAI": dpbai.ODLinBAI,
    "DP-OD": partial(dpbai.DPOD, epsilon=1.0),
}
LAWS = {
    "uniform": dpbai.Uniform,
    "bernoulli": dpbai.Bernoulli,
}


def least_squares(seed: int, arms: int, d: int, pulls: int, law: str) -> tuple:
    """Return a policy that fits all estimates to noisy means of 2 d arms, and an instance."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(0, 1, (arms, d))
    features *= 0.4 / features.mean(axis=1).max()
    features[0] = 0.45
    pulled = tuple(range(2 * d))
    decoder = features @ np.linalg.pinv(features[: 2 * d])
    policy = one_phase((pulls,) * (2 * d), dpbai.Laplace(1 / pulls), decoder, pulled=pulled)
    instance = dpbai.Instance(features, np.full(d, 1 / d), rewards=LAWS[law])
    return policy, instance


@pytest.mark.parametrize("budget", [400, 20_000])
@pytest.mark.parametrize("name", MAKERS)
def test_the_exact_error_lies_between_the_bounds(name, budget):
    policy = MAKERS[name](SYNTHETIC.features, budget=budget)
    low, high = dpbai.error_bounds(policy, SYNTHETIC)
    assert low <= dpbai.exact_error(policy, SYNTHETIC, rtol=1e-6) <= high
    assert high <= 1.5 * low or name == "Baseline" or high > 0.05


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("arms", "d", "pulls"), [(20, 3, 60), (60, 6, 200)])
def test_simulation_agrees_beyond_two_coordinates(law, arms, d, pulls):
    policy, instance = least_squares(1, arms, d, pulls, law)
    low, high = dpbai.error_bounds(policy, instance)
    trials = 20_000
    errors = trials - dpbai.simulate(policy, instance, trials=trials, seed=2).successes
    interval = stats.binomtest(errors, trials).proportion_ci(1 - FALSE_ALARM, method="exact")
    assert interval.low <= high
    assert interval.high >= low


@pytest.mark.parametrize("scale", [2.0, 0.1, 0.02, 0.0015])
def test_one_rival_leaves_no_gap(scale):
    """The lead is a sum of six noises of different scales, with a law by partial fractions."""
    weights, gap = np.array([1.0, 0.5, -0.9, 0.8, 0.3, 0.2]), 0.5
    release = np.zeros((6, 2))
    release[0, 0] = 1.0
    policy = one_phase((4, 4), dpbai.Laplace(scale), [weights, 0 * weights], release)
    squares = (scale * weights) ** 2
    expected = sum(
        math.exp(-gap / math.sqrt(s)) / 2 * np.prod(s / (s - squares[squares != s]))
        for s in squares
    )
    low, high = dpbai.error_bounds(policy, constants(gap, 0.0), rtol=1e-8)
    assert low <= expected * (1 + 1e-9)
    assert high >= expected * (1 - 1e-9)
    assert high <= low * (1 + 3e-8)


@pytest.mark.parametrize(("rivals", "pulls"), [(3, 60), (9, 90), (29, 200)])
def test_bounds_for_many_equal_rivals_are_tight(rivals, pulls):
    """The leads share the best arm's estimate, so the sum and the maximum are poor bounds."""
    policy = one_phase((pulls,) * (rivals + 1), dpbai.Laplace(0.5 / pulls))
    instance = laws(dpbai.Uniform(0.5), *[dpbai.Uniform(0.3)] * rivals)
    error = dpbai.exact_error(policy, instance, rtol=1e-4)
    low, high = dpbai.error_bounds(policy, instance)
    assert low <= error * (1 + 1e-4)
    assert high >= error * (1 - 1e-4)
    assert error < 1e-4
    assert high <= 1.5 * low


@pytest.mark.parametrize("law", LAWS)
def test_bounds_are_tight_where_errors_are_rare(law):
    policy, instance = least_squares(3, 200, 5, 1500, law)
    low, high = dpbai.error_bounds(policy, instance)
    assert 0 < low <= high <= 1.5 * low
    assert high < 1e-4


@pytest.mark.parametrize("law", ["uniform", "bernoulli"])
def test_the_probability_of_a_pair_is_that_of_the_intersection(law):
    decoder = [[0.95, 0.96], [1.0, 0.0], [0.0, 1.0]]
    policy = one_phase((12, 12), dpbai.Laplace(0.1), decoder, pulled=(1, 2))
    instance = laws(*map(LAWS[law], (0.5, 0.4, 0.35)))
    leads = (policy.plan.decoder[0] - policy.plan.decoder)[1:]
    forms = Variables(independent_terms(policy.plan, instance), np.hstack([leads, leads]), 1e-8)
    first, second = np.exp(forms.log_probabilities(np.arange(2)))
    both = pairs._Pairs(forms, np.array([0]), np.array([1]))
    both.refine(np.array([0]))
    value, _ = both.probability(0, 2**22)
    expected = first + second - dpbai.exact_error(policy, instance, rtol=1e-8)
    assert value == pytest.approx(expected, rel=2e-3)


@given(st.integers(0, 2**32 - 1))
def test_bounds_of_a_union_hold_for_any_events(seed):
    rng = np.random.default_rng(seed)
    outcomes = rng.dirichlet(np.full(30, 0.3))
    events = rng.random((int(rng.integers(1, 8)), 30)) < rng.choice([0.05, 0.3, 0.8])
    events[:, 0] = True  # no event is impossible
    both = (events[:, None] & events) @ outcomes
    slack = np.where(np.eye(len(events)), 0, rng.uniform(0, 0.2, both.shape))
    low, high = pairs.union_bounds(
        np.diag(both), both * (1 - slack - slack.T), np.minimum(both * (1 + slack + slack.T), 1)
    )
    assert low <= outcomes[events.any(axis=0)].sum() + 1e-12
    assert high >= outcomes[events.any(axis=0)].sum() - 1e-12


def test_arms_that_always_tie_with_the_best_share_its_chances():
    decoder = [[1.0, 0], [1.0, 0], [0, 1.0], [1.0, 0]]
    tied = one_phase((9, 9), dpbai.Laplace(0.1), decoder, pulled=(0, 2))
    alone = one_phase((9, 9), dpbai.Laplace(0.1), decoder[1:3], pulled=(0, 1))
    error = dpbai.exact_error(alone, laws(dpbai.Uniform(0.5), dpbai.Uniform(0.3)))
    means = (0.5, 0.2, 0.3, 0.1)
    low, high = dpbai.error_bounds(tied, laws(*map(dpbai.Uniform, means)))
    assert low == pytest.approx((2 + error) / 3, rel=1e-4)
    assert high == pytest.approx((2 + error) / 3, rel=1e-4)


FOUR = dpbai.Instance(np.eye(4), [0.5, 0.35, 0.3, 0.1])
SEVERAL_PHASES = {
    "DP-BAI": (partial(dpbai.DPBAI, epsilon=1.0), 200),
    "OD-LinBAI": (dpbai.ODLinBAI, 60),
    "DPDesign, remembering": (partial(dpbai.DPDesign, epsilon=0.5, phases=2), 150),
}


@pytest.mark.parametrize("name", SEVERAL_PHASES)
def test_with_several_phases_the_upper_bound_holds(name):
    maker, budget = SEVERAL_PHASES[name]
    policy = maker(FOUR.features, budget=budget)
    assert (
        policy.phase(1, range(4), ()).keep > 1 if "DPD" in name else policy.phase(1, range(4)).keep
    )
    low, high = dpbai.error_bounds(policy, FOUR)
    trials = 20_000
    errors = trials - dpbai.simulate(policy, FOUR, trials=trials, seed=4).successes
    assert low == 0.0
    assert high < 0.5
    assert (
        stats.binomtest(errors, trials).proportion_ci(1 - FALSE_ALARM, method="exact").low <= high
    )
    # The bound falls with the budget as the error does.
    assert dpbai.error_bounds(maker(FOUR.features, budget=20 * budget), FOUR).high < 1e-6


def test_the_probability_of_a_form_does_not_depend_on_the_number_of_forms():
    policy = one_phase((12, 12), dpbai.Laplace(0.1))
    terms = independent_terms(policy.plan, laws(dpbai.Uniform(0.5), dpbai.Uniform(0.3)))
    lead = np.array([[1.0, -1.0, 1.0, -1.0]])
    (alone,) = Variables(terms, lead, 1e-12).log_probabilities(np.arange(1))
    many = Variables(terms, np.tile(lead, (200, 1)), 1e-12).log_probabilities(np.arange(200))
    np.testing.assert_allclose(many, alone, rtol=1e-12)


def test_if_any_set_may_survive_with_the_best_arm_there_are_too_many_sets():
    """The best of twelve arms almost surely survives, with any five of the equal other arms."""
    instance = dpbai.Instance(np.eye(12), [0.9] + [0.5] * 11, rewards=dpbai.Bernoulli)
    with pytest.raises(NotExactError, match="too many sets of arms may survive phase 1"):
        dpbai.error_bounds(dpbai.DPBAI(instance.features, budget=5000, epsilon=1.0), instance)


def test_policies_without_bounds_are_refused():
    many = np.random.default_rng(0).uniform(0, 1, (20, 5))
    with pytest.raises(NotExactError, match="too many"):
        dpbai.error_bounds(
            dpbai.DPBAI(many, budget=500, epsilon=1), dpbai.Instance(many, [0.1] * 5)
        )
    atoms = one_phase((9,) * 3, dpbai.NoNoise())
    with pytest.raises(NotExactError, match="does not decay"):
        dpbai.error_bounds(atoms, laws(*map(dpbai.Bernoulli, (0.5, 0.4, 0.3))))
    with pytest.raises(ValueError, match="rtol"):
        dpbai.error_bounds(atoms, laws(*map(dpbai.Bernoulli, (0.5, 0.4, 0.3))), rtol=0.1)
    with pytest.raises(ValueError, match="same number of arms"):
        dpbai.error_bounds(atoms, SYNTHETIC)


SKEWED = np.array([(2.0, 3.0), (0.0, 1.0), (1.0, -1.0), (-2.0, 3.0)])


@pytest.mark.parametrize("units", [1.0, 1e-80, 1e80])
@pytest.mark.parametrize("epsilon", [1e-300, 0.1, 1.0])
@pytest.mark.parametrize("maker", [dpbai.DPDesign, dpbai.DPBAI])
def test_bounds_hold_for_any_noise_and_units_of_columns(maker, epsilon, units):
    """Regression: errors if the tilts of a pair could not grow, and if squares overflowed."""
    features = SKEWED * [units, 1 / units]
    rewards = [dpbai.Bernoulli(mean) for mean in (0.69, 0.91, 0.27, 0.26)]
    instance = dpbai.Instance(features, rewards=rewards)
    policy = maker(features, budget=31, epsilon=epsilon)
    low, high = dpbai.error_bounds(policy, instance)
    result = dpbai.simulate(policy, instance, trials=4000)
    chance = stats.binomtest(4000 - result.successes, 4000).proportion_ci(1 - FALSE_ALARM)
    assert chance.low <= high
    assert low <= chance.high


@pytest.mark.parametrize("gap", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("sigma", [0.02, 0.01, 0.001])
def test_logarithms_of_the_bounds_are_bounds_of_the_logarithm(gap, sigma):
    """However small the error is: (0, 0) would contain no logarithm but minus infinity."""
    policy = one_phase((4, 4), Gaussian(sigma))
    with np.errstate(divide="ignore"):
        low, high = np.log(dpbai.error_bounds(policy, constants(gap, 0.0)))
    exact = stats.norm.logsf(gap / sigma / math.sqrt(2))
    assert low <= exact + 1e-9
    assert exact - 1e-9 <= high < max(exact, -575) + 0.01
    assert low > exact - 0.01 or (low == -math.inf and exact < -575)


@dataclass(frozen=True, eq=False)
class TwoPhases:
    """A policy that keeps two arms, and then one: by new, precise releases or by the old ones."""

    arms: int
    noise: dpbai.noise.Noise
    decoder: Sequence[Sequence[float]] | None = None
    remembers: bool = False
    pulls: int = 4
    budget: int = 10**6

    @property
    def features(self) -> np.ndarray:
        return np.eye(self.arms)

    def phase(self, index: int, active: Sequence[int], past: tuple[Phase, ...] = ()) -> Phase:
        active = tuple(active)
        if past:
            rows = np.eye(self.arms)[list(active)]
            return Phase(index, active, (), (), self.noise, 1, None, rows, remembered=self.arms)
        if self.decoder is not None and index == 1:
            rows = np.array(self.decoder)
            pulled = tuple(range(rows.shape[1]))
            pulls = (self.pulls,) * len(pulled)
            return Phase(index, active, pulled, pulls, self.noise, 2, decoder_matrix=rows)
        noise = self.noise if index == 1 else dpbai.Laplace(1e-3)
        return Phase(index, active, active, (self.pulls,) * len(active), noise, 3 - index)


def test_an_arm_is_lost_if_all_its_rivals_are_ahead_together():
    """Two rivals have the same estimate, so that Markov's bound is attained."""
    noise = dpbai.Laplace(0.1)
    p = dpbai.exact_error(one_phase((4, 4), noise), constants(0.9, 0.5))
    policy = TwoPhases(3, noise, [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert p <= dpbai.error_bounds(policy, constants(0.9, 0.5, 0.5)).high < 1.01 * p


def test_unlikely_rivals_count_in_the_first_of_two_phases():
    """All rivals are pairs of copies, and some unlikely pairs are bounded, not left out."""
    noise, rivals = Gaussian(0.025), [dpbai.Uniform(0.25)] + [dpbai.Uniform(0.2)] * 10
    best, rows = dpbai.Uniform(0.45), np.vstack([np.eye(12), np.eye(12)[1:]])
    error = dpbai.exact_error(one_phase((1000,) * 12, noise), laws(best, *rivals))
    policy = TwoPhases(23, noise, rows.tolist(), pulls=1000)
    high = dpbai.error_bounds(policy, laws(best, *rivals, *rivals), rtol=1e-8).high
    assert error <= high < 1.02 * error


def test_two_copies_may_take_both_places_of_the_best_arm():
    """Three arms tie for two places, so that the best one is lost with probability 1/3."""
    policy = TwoPhases(4, dpbai.Laplace(0.01), [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    low, high = dpbai.error_bounds(policy, constants(0.1, 0.9, 0.5, 0.5))
    assert low == 0.0
    assert 1 / 3 <= high <= 1.0


@pytest.mark.parametrize("rivals", [4, 5])
def test_remembered_releases_add_the_errors_of_all_sets_of_survivors(rivals):
    """Phase 2 uses the estimates of phase 1, so the error is that of a single phase.

    The errors with the different sets of survivors are nearly disjoint events. Their maximum, which
    is a bound for new releases, would not do.
    """
    noise = dpbai.Gaussian(0.1)
    instance = constants(0.9, *[0.2] * rivals)
    policy = TwoPhases(rivals + 1, noise, remembers=True)
    error = dpbai.exact_error(one_phase((4,) * (rivals + 1), noise), instance)
    assert error <= dpbai.error_bounds(policy, instance).high < 3 * error


def test_rivals_beyond_the_pairs_that_are_computed_count():
    policy = one_phase((200,) * 80, Gaussian(0.02))
    instance = laws(dpbai.Uniform(0.5), *[dpbai.Uniform(0.3)] * 79)
    error = dpbai.exact_error(policy, instance, rtol=1e-4)
    low, high = dpbai.error_bounds(policy, instance)
    assert low <= error <= high < 1.2 * error


def test_unlikely_rivals_count():
    """Thirty rivals together have a small part of the error; they are bounded, not left out."""
    policy = one_phase((200,) * 32, Gaussian(0.02))
    instance = laws(dpbai.Uniform(0.5), dpbai.Uniform(0.38), *[dpbai.Uniform(0.29)] * 30)
    error = dpbai.exact_error(policy, instance)
    low, high = dpbai.error_bounds(policy, instance, rtol=1e-8)
    assert low <= error <= high < 1.01 * error


def test_an_arm_between_two_others_on_a_line_loses_on_either_side():
    policy = one_phase((5,), dpbai.Laplace(0.1), [[0.5], [1.0], [-1.0]], pulled=(0,))
    instance = laws(*map(dpbai.Uniform, (0.5, 0.4, 0.3)))
    assert dpbai.exact_error(policy, instance) == 1.0
    low, high = dpbai.error_bounds(policy, instance)
    assert 0.99 < low <= high == 1.0


def test_the_upper_bound_of_a_union_subtracts_the_pairs_of_a_maximum_spanning_tree():
    """Of three events, the pairs of 0.3 and of 0.2 are such a tree, without that of 0.1."""
    chances = np.full(3, 0.4)
    both = np.array([[0.4, 0.1, 0.3], [0.1, 0.4, 0.2], [0.3, 0.2, 0.4]])
    assert pairs.union_bounds(chances, both, both)[1] == pytest.approx(1.2 - 0.3 - 0.2)
