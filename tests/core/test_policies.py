"""The policies: plans by hand, costs and losses, and invariances."""

import math
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import FALSE_ALARM, bad_features, best_subsets, ladder, seen_by_least_squares
from plain_loop import DPBAILoop, ODLoop
from scipy import stats

import dpbai
from dpbai import DPBAI, DPOD, Baseline, DPBAIGauss, DPHalving, Laplace, NoNoise, ODLinBAI, Phase

MAKERS = {
    "DP-BAI": partial(DPBAI, epsilon=0.5),
    "DP-BAI, proof": partial(DPBAI, epsilon=0.5, convention="proof"),
    "DP-BAI-Gauss": partial(DPBAIGauss, epsilon=0.5, delta=1e-5),
    "Baseline": partial(Baseline, epsilon=0.5),
    "OD-LinBAI": ODLinBAI,
    "DP-Halving": partial(DPHalving, epsilon=0.5),
    "DP-OD": partial(DPOD, epsilon=0.5),
    "DP-OD, L1": partial(DPOD, epsilon=0.5, norm="l1"),
}

FEW = settings(max_examples=30)  # for each policy


def response(phase):
    """Return the matrix from empirical means of pulled arms to estimates of active ones."""
    return phase.decoder @ phase.release


# Sec. 3, Algorithm 1, by hand


def test_a_phase_of_max_det_by_hand():
    """K = 5, d = 2 < sqrt(5): T' = 30 - 1 * 2 = 28, 14 pulls of each of the two longest arms."""
    features = np.array([[1, 0], [0, 1], [3, 0], [0, -2], [1.5, 1]])
    policy = DPBAI(features, budget=30, epsilon=0.5)
    assert policy.schedule.sizes == (5, 1)
    phase = policy.phase(1, range(5))
    assert phase.pulled == (2, 3)
    assert phase.pulls == (14, 14)
    assert phase.cost == 28
    assert phase.noise == Laplace(1 / (0.5 * 14))  # line 10
    assert phase.keep == 1
    # Eq. (construct-others): each arm in coordinates of arms 2 and 3.
    np.testing.assert_allclose(
        phase.decoder, [[1 / 3, 0], [0, -0.5], [1, 0], [0, 1], [0.5, -0.5]], atol=1e-12
    )
    np.testing.assert_array_equal(phase.release, np.eye(2))


def test_a_phase_that_pulls_all_arms_by_hand():
    """K = 4, d = 2: 2 < sqrt(4) does not hold, line 14; T' = 31 - 2, lowered to 28."""
    features = np.array([[1, 0], [0, 1], [3, 0], [0, -2]])
    phase = DPBAI(features, budget=31, epsilon=0.5).phase(1, range(4))
    assert phase.pulled == (0, 1, 2, 3)
    assert phase.pulls == (7, 7, 7, 7)
    assert phase.noise == Laplace(1 / (0.5 * 7))  # line 16
    np.testing.assert_array_equal(response(phase), np.eye(4))
    printed = DPBAI(features, budget=31, epsilon=0.5, budget_rule="printed").phase(1, range(4))
    assert printed.pulls == (8, 8, 8, 8)  # 32 of 31


def test_later_phases_plan_for_the_arms_that_are_left():
    """ladder(): T' = 240 - 2 * 4 - 4 = 228, 76 per phase; 4 of 20 arms, all 6, both of 2."""
    instance = ladder()
    policy = DPBAI(instance.features, budget=240, epsilon=0.5)
    assert policy.schedule.usable_budget == 228
    first = policy.phase(1, range(20))
    assert first.pulls == (19,) * 4
    _, best = best_subsets(instance.features, 4)
    assert first.pulled == best[0]
    second = policy.phase(2, (1, 2, 5, 7, 11, 19))
    assert (second.pulled, second.pulls) == ((1, 2, 5, 7, 11, 19), (13,) * 6)
    third = policy.phase(3, (5, 19))
    assert (third.pulled, third.pulls, third.keep) == ((5, 19), (38, 38), 1)
    assert [first.index, second.index, third.index] == [1, 2, 3]


def test_dimension_is_that_of_the_active_arms():
    """Eq. (dim-reduce): five arms on a line in the plane; one is pulled, not two."""
    features = np.array([[1, 1], [2, 2], [-3, -3], [0, 0], [1.5, 1.5]])
    phase = DPBAI(features, budget=30, epsilon=0.5).phase(1, range(5))
    assert (phase.pulled, phase.pulls) == ((2,), (28,))
    np.testing.assert_allclose(phase.decoder[:, 0], [-1 / 3, -2 / 3, 1, 0, -0.5])


def test_baseline_pulls_every_arm_in_every_phase():
    instance = ladder()
    policy = Baseline(instance.features, budget=1000, epsilon=0.5)
    for index, active in ((1, tuple(range(20))), (2, (0, 3, 4, 8, 9, 12)), (3, (3, 8))):
        phase = policy.phase(index, active)
        assert phase.pulled == active
        np.testing.assert_array_equal(response(phase), np.eye(len(active)))
        assert phase.pulls == (phase.pulls[0],) * len(active)
        assert phase.noise == Laplace(1 / (0.5 * phase.pulls[0]))


def test_baseline_as_printed_overspends_on_the_papers_instance():
    """K = 30, d = 2, T = 100 pulls 120."""
    features = dpbai.synthetic(seed=0).features
    printed = Baseline(features, budget=100, epsilon=1.0, budget_rule="printed")
    assert printed.phase(1, range(30)).cost == 120
    assert Baseline(features, budget=100, epsilon=1.0).phase(1, range(30)).cost == 90


def test_gauss_noise_by_both_calibrations():
    """Algorithm 2, lines 10 and 16, and the exact one; 14 pulls of each arm."""
    features = np.array([[1, 0], [0, 1], [3, 0], [0, -2], [1.5, 1]])
    given = {"budget": 30, "epsilon": 0.5, "delta": 1e-3}
    classic = DPBAIGauss(features, **given, calibration="classic").phase(1, range(5)).noise
    assert classic.sigma**2 == pytest.approx(2 * math.log(1.25 / 1e-3) / (0.5 * 14) ** 2)
    phase = DPBAIGauss(features, **given).phase(1, range(5))
    assert phase.noise.sigma < classic.sigma
    assert phase.losses == pytest.approx((0.5, 0.5))


def test_od_linbai_by_hand():
    """K = 5, d = 3: R = 2, m = (T - 5 - 2) / 2 = 25; the three longest arms take all pulls."""
    features = np.vstack([3 * np.eye(3), [[1, 1, 0], [0, 0, -1]]])
    policy = ODLinBAI(features, budget=57)
    assert policy.sizes == (5, 2, 1)
    first = policy.phase(1, range(5))
    assert first.pulled == (0, 1, 2)
    assert first.pulls == (9, 9, 9)  # ceil(25/3)
    assert first.noise == NoNoise()
    np.testing.assert_array_equal(first.release, 27 * np.eye(3))  # A_B' diag(n)
    np.testing.assert_allclose(
        response(first),
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1 / 3, 1 / 3, 0], [0, 0, -1 / 3]],
        atol=1e-12,
    )
    second = policy.phase(2, (0, 3))
    assert (second.pulls, second.keep) == ((13, 13), 1)


def test_od_linbai_halves_from_half_the_dimension():
    """Sizes K, ceil(d/2), ceil(d/4), ..., 1 in R = max(1, ceil(log2 d)) phases."""
    expected = {
        1: (50, 1),
        2: (50, 1),
        3: (50, 2, 1),
        4: (50, 2, 1),
        5: (50, 3, 2, 1),
        8: (50, 4, 2, 1),
        9: (50, 5, 3, 2, 1),
    }
    for dimension, sizes in expected.items():
        assert ODLinBAI(np.ones((50, dimension)), budget=10_000).sizes == sizes
    assert ODLinBAI(np.eye(2, 5), budget=1000).sizes == (2, 2, 2, 1)


def test_pulls_of_a_design_are_rounded_up_in_exact_arithmetic():
    """In floats (1/75) * 525 is above 7, and its ceiling is 8."""
    assert math.ceil(1 / 75 * 525) == 8
    policy = ODLinBAI(np.eye(75), budget=7 * 525 + 75 + 38 + 19 + 10 + 5 + 3 + 2)
    assert policy.pulls_per_phase == 525
    assert policy.phase(1, range(75)).pulls == (7,) * 75


def test_an_excess_below_a_millionth_is_not_rounded_up():
    """The best weights of three lines at equal angles are 1/3, up to a solver's tolerance."""
    angles = np.pi * np.arange(3) / 3
    policy = ODLinBAI(np.column_stack([np.cos(angles), np.sin(angles)]), budget=33)
    assert policy.pulls_per_phase == 30
    assert policy.phase(1, range(3)).pulls == (10, 10, 10)


def test_estimates_of_od_linbai_are_least_squares():
    instance = ladder()
    phase = ODLinBAI(instance.features, budget=300).phase(1, range(20))
    pulled = instance.features[list(phase.pulled)]
    # One row for each pull, and NumPy's least squares.
    rows = np.repeat(pulled, phase.pulls, axis=0)
    means = np.random.default_rng(0).uniform(size=len(phase.pulled))
    theta = np.linalg.lstsq(rows, np.repeat(means, phase.pulls), rcond=None)[0]
    estimates = phase.estimates(phase.statistic(means))
    np.testing.assert_allclose(estimates, instance.features @ theta)
    np.testing.assert_allclose(phase.statistic(means), rows.T @ np.repeat(means, phase.pulls))


def test_noise_of_dp_od_is_the_longest_arm_over_epsilon():
    features = np.array([[3, 4], [1, 0], [0, 1]])
    assert DPOD(features, budget=50, epsilon=0.5).phase(1, range(3)).noise == Laplace(10)
    one = DPOD(features, budget=50, epsilon=0.5, norm="l1").phase(1, range(3)).noise
    assert one == Laplace(14)
    plan, public = (
        p(features, budget=50).phase(1, range(3)) for p in (partial(DPOD, epsilon=0.5), ODLinBAI)
    )
    assert (plan.pulled, plan.pulls) == (public.pulled, public.pulls)
    np.testing.assert_array_equal(plan.decoder, public.decoder)


# Against the plain loop: the same arms, the same number of times


@pytest.mark.parametrize("budget", [230, 241, 1000])
def test_plans_of_all_phases_are_those_of_the_plain_loop(budget):
    instance = ladder()
    x = instance.features
    rng = np.random.default_rng(budget)
    pairs = [
        (DPBAI(x, budget=budget, epsilon=1.0), DPBAILoop(x, budget, 1.0)),
        (Baseline(x, budget=budget, epsilon=1.0), DPBAILoop(x, budget, 1.0, pull_all=True)),
        (ODLinBAI(x, budget=budget), ODLoop(x, budget)),
    ]
    for policy, loop in pairs:
        run = loop.run(lambda _: rng.random(), rng)
        # The survivors in the loop are unknown, but all sets of one size cost the same here.
        first = policy.phase(1, range(20))
        assert run.pulls[0] == dict(zip(first.pulled, first.pulls, strict=True))
        for index, pulls in enumerate(run.pulls[1:], start=2):
            phase = policy.phase(index, sorted(pulls))
            assert pulls == dict(zip(phase.pulled, phase.pulls, strict=True))


# Privacy of a plan


@pytest.mark.parametrize("name", ["DP-BAI", "DP-BAI, proof", "DP-BAI-Gauss", "Baseline"])
@FEW
@given(features=bad_features(), more=st.integers(0, 500))
def test_each_reward_of_dp_bai_loses_exactly_epsilon(name, features, more):
    policy = MAKERS[name](features, budget=least_budget(name, features) + more)
    for phase, _ in walk(policy, seed=more):
        assert phase.losses == pytest.approx((0.5,) * len(phase.pulled))


def test_dp_od_as_printed_loses_up_to_sqrt_d_times_epsilon():
    """One reward moves U by a_i, whose L1 norm is sqrt(2) times the Euclidean norm."""
    features = np.array([[1, 1], [1, -1], [0.5, 0.5]]) / math.sqrt(2)
    printed, repaired = (
        DPOD(features, budget=50, epsilon=0.8, norm=norm).phase(1, range(3))
        for norm in ("l2", "l1")
    )
    assert printed.pulled == (0, 1)
    assert printed.losses == pytest.approx((0.8 * math.sqrt(2),) * 2)
    assert repaired.losses == pytest.approx((0.8, 0.8))
    # On the paper's own instances the two agree.
    for instance in (dpbai.synthetic(seed=0), dpbai.two_armed()):
        scales = {
            DPOD(instance.features, budget=50, epsilon=1.0, norm=norm)
            .phase(1, range(instance.arms))
            .noise.scale
            for norm in ("l2", "l1")
        }
        assert len(scales) == 1


@FEW
@given(features=bad_features(), more=st.integers(0, 500))
def test_dp_od_with_the_l1_norm_never_loses_more_than_epsilon(features, more):
    name = "DP-OD, L1"
    policy = MAKERS[name](features, budget=least_budget(name, features) + more)
    for phase, _ in walk(policy, seed=more):
        assert all(loss <= 0.5 * (1 + 1e-9) for loss in phase.losses)


def test_no_noise_means_no_privacy():
    instance = ladder()
    for maker in (
        partial(DPBAI, epsilon=math.inf),
        partial(DPOD, epsilon=math.inf),
        ODLinBAI,
        partial(DPBAIGauss, epsilon=math.inf, delta=1e-5),
    ):
        phase = maker(instance.features, budget=300).phase(1, range(20))
        assert phase.noise == NoNoise()
        assert phase.losses == (math.inf,) * len(phase.pulled)


# Budgets


def least_budget(name, features):
    """Return the least budget that the error message names."""
    try:
        MAKERS[name](features, budget=1)
    except ValueError as error:
        return int(re.search(r"budget must be at least (\d+)", str(error)).group(1))
    return 1


def walk(policy, seed):
    """Yield the phases of a run with random survivors, and their cost so far."""
    rng = np.random.default_rng(seed)
    active, spent, index = tuple(range(len(policy.features))), 0, 0
    while len(active) > 1:
        index += 1
        phase = policy.phase(index, active)
        spent += phase.cost
        yield phase, spent
        active = tuple(sorted(rng.choice(active, phase.keep, replace=False).tolist()))


@FEW
@pytest.mark.parametrize("name", MAKERS)
@given(
    features=bad_features(),
    more=st.one_of(st.integers(0, 300), st.integers(10**6, 10**12)),
    seed=st.integers(0, 2**32),
)
def test_no_path_spends_more_than_the_budget(name, features, more, seed):
    """Also, every planned arm is pulled at least once, and phases plan for active arms only."""
    policy = MAKERS[name](features, budget=least_budget(name, features) + more)
    spent = 0
    for phase, total in walk(policy, seed):
        spent = total
        assert set(phase.pulled) <= set(phase.active)
        assert len(set(phase.pulled)) == len(phase.pulled)
        assert all(n >= 1 for n in phase.pulls)
        assert phase.decoder.shape == (len(phase.active), phase.coordinates)
        assert phase.release.shape == (phase.coordinates, len(phase.pulled))
        assert np.isfinite(response(phase)).all()
    assert spent <= policy.budget


@pytest.mark.parametrize("name", MAKERS)
@FEW
@given(features=bad_features())
def test_too_small_a_budget_names_the_least_one_that_works(name, features):
    least = least_budget(name, features)
    policy = MAKERS[name](features, budget=least)
    *_, (_, spent) = walk(policy, seed=0)
    assert spent <= least
    if least > 1:
        with pytest.raises(ValueError, match=f"budget must be at least {least} "):
            MAKERS[name](features, budget=least - 1)


# Estimates, and their invariances


@pytest.mark.parametrize("name", MAKERS)
@FEW
@given(features=bad_features(max_arms=15), seed=st.integers(0, 2**32))
def test_estimates_of_noiseless_linear_means_are_those_means(name, features, seed):
    """With true means for empirical ones and no noise, each policy estimates all means exactly."""
    features = seen_by_least_squares(features)
    if len(features) < 2:
        return
    theta = np.random.default_rng(seed).normal(size=features.shape[1])
    policy = MAKERS[name](features, budget=least_budget(name, features) + 1000)
    for phase, _ in walk(policy, seed):
        means = features[list(phase.pulled)] @ theta
        estimates = phase.estimates(phase.statistic(means))
        expected = features[list(phase.active)] @ theta
        if name == "Baseline" or phase.decoder_matrix is None:
            np.testing.assert_array_equal(estimates, expected)
        np.testing.assert_allclose(estimates, expected, atol=1e-6 * np.abs(theta).sum())


def changes():
    """Return changes of coordinates: a rotation, a stretch, and a general linear map."""
    rng = np.random.default_rng(7)
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return {
        "rotation": rotation,
        "stretch": np.diag([100.0, 1, 0.1, -3]),
        "general": rng.normal(size=(4, 4)),
    }


@pytest.mark.parametrize("change", changes())
@pytest.mark.parametrize("name", ["DP-BAI", "DP-BAI, proof", "DP-BAI-Gauss", "Baseline"])
def test_dp_bai_does_not_depend_on_the_coordinates(name, change):
    """The same arms pulled as often, the same noise, the same map to estimates."""
    features = ladder().features
    budget = least_budget(name, features) + 200
    policies = [MAKERS[name](x, budget=budget) for x in (features, features @ changes()[change])]
    for plan, changed in zip(*(list(walk(policy, seed=1)) for policy in policies), strict=True):
        plan, changed = plan[0], changed[0]
        assert (plan.pulled, plan.pulls) == (changed.pulled, changed.pulls)
        assert plan.noise == changed.noise
        np.testing.assert_allclose(plan.decoder, changed.decoder, atol=1e-9)
        np.testing.assert_allclose(plan.release, changed.release)


def noise_covariance(phase):
    """Return the covariance of the noise in the estimates."""
    return phase.noise.standard_deviation**2 * phase.decoder @ phase.decoder.T


@pytest.mark.parametrize("change", changes())
def test_dp_od_depends_on_the_coordinates_and_od_linbai_does_not(change):
    """Both have the same pulls and the same response to means; the noise of DP-OD differs.

    A rotation of Laplace noise keeps its covariance, but changes its law.
    """
    features = ladder().features
    moved = features @ changes()[change]
    for maker in (partial(ODLinBAI, budget=300), partial(DPOD, budget=300, epsilon=0.5)):
        plan, changed = (maker(x).phase(1, range(20)) for x in (features, moved))
        assert plan.pulled == changed.pulled
        # The tolerance of the design may change a ceiling.
        np.testing.assert_allclose(plan.pulls, changed.pulls, atol=1)
        if plan.pulls == changed.pulls:
            np.testing.assert_allclose(response(plan), response(changed), atol=1e-8)
    same = np.allclose(noise_covariance(plan), noise_covariance(changed), rtol=0.2)
    assert same == (change == "rotation")
    # Fourth cumulants of Laplace noise add up as fourth powers, which rotations change.
    fourth = [(p.noise.standard_deviation * p.decoder) ** 4 for p in (plan, changed)]
    assert not np.allclose(*(f.sum(axis=1) for f in fourth), rtol=0.05)


@pytest.mark.parametrize("budget", [10, 99, 400, 1001])
def test_without_noise_dp_bai_and_od_linbai_pull_the_same_two_arms_on_the_papers_instance(budget):
    for seed in range(20):
        features = dpbai.synthetic(seed=seed).features
        private = DPBAI(features, budget=budget, epsilon=math.inf).phase(1, range(30))
        public = ODLinBAI(features, budget=budget).phase(1, range(30))
        assert private.pulled == public.pulled == (0, 2)
        assert abs(private.pulls[0] - public.pulls[0]) <= 1
        np.testing.assert_allclose(response(private), response(public), atol=1e-12)


# Odd shapes


@pytest.mark.parametrize("factor", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("name", MAKERS)
def test_a_common_factor_of_all_features_changes_nothing(name, factor):
    """Not even where squares would overflow; the noise of DP-OD grows by the factor."""
    features = ladder().features
    plan, changed = (
        MAKERS[name](x, budget=500).phase(1, range(20)) for x in (features, features * factor)
    )
    assert (plan.pulled, plan.pulls) == (changed.pulled, changed.pulls)
    assert plan.losses == pytest.approx(changed.losses)
    np.testing.assert_allclose(response(plan), response(changed), atol=1e-9)


def test_one_dimension_takes_one_phase_and_one_arm():
    features = np.array([[0.2], [0.9], [-0.5]])
    for name, maker in MAKERS.items():
        policy = maker(features, budget=100)
        phase = policy.phase(1, range(3))
        assert phase.keep == 1
        assert phase.pulled == ((0, 1, 2) if name == "Baseline" else (1,))


def test_arms_that_are_all_zero_are_told_apart_without_a_pull():
    """All means are zero: no pulls are needed, and all arms are equally good."""
    for name in ("DP-BAI", "OD-LinBAI", "DP-OD", "DP-OD, L1", "DP-BAI-Gauss"):
        phase = MAKERS[name](np.zeros((5, 2)), budget=100).phase(1, range(5))
        assert (phase.pulled, phase.cost, phase.losses) == ((), 0, ())
        winners = phase.survivors(np.zeros((10_000, 0)), np.random.default_rng(0))[:, 0]
        assert stats.chisquare(np.bincount(winners, minlength=5)).pvalue > FALSE_ALARM


# Phase


def plan(keep, active=(2, 3, 5, 7)):
    return Phase(1, active, active, (1,) * len(active), NoNoise(), keep)


def test_the_largest_estimates_survive_in_increasing_order_of_arms():
    estimates, rng = np.array([[0.1, 0.9, 0.5, 0.7], [3, 1, 0, 2]]), np.random.default_rng(0)
    np.testing.assert_array_equal(plan(1).survivors(estimates, rng), [[3], [2]])
    np.testing.assert_array_equal(plan(2).survivors(estimates, rng), [[3, 7], [2, 7]])
    np.testing.assert_array_equal(plan(3).survivors(estimates, rng), [[3, 5, 7], [2, 3, 7]])
    np.testing.assert_array_equal(plan(4).survivors(estimates, rng), [[2, 3, 5, 7]] * 2)


def test_cost_and_losses_come_from_the_plan_alone():
    release = np.array([[2.0, 0.0, 1.0], [4.0, -1.0, 1.0]])
    phase = Phase(1, (0, 1, 2), (0, 1, 2), (2, 5, 1), Laplace(0.5), 1, release, np.zeros((3, 2)))
    assert phase.cost == 8
    # (|2| + |4|) / 2, |-1| / 5, 1 + 1, each divided by the scale 1/2.
    assert phase.losses == pytest.approx((6, 0.4, 4))
    assert phase.coordinates == 2
    identity = Phase(1, (0, 1), (0, 1), (2, 8), Laplace(0.5), 1)
    assert identity.losses == pytest.approx((1, 0.25))


@pytest.mark.parametrize("maker", ["OD-LinBAI", "DP-OD", "DP-OD, l1"])
@pytest.mark.parametrize("scale", [4e-323, 1e-306, 1e-300, 1e300, 4e307])
@pytest.mark.parametrize("budget", [100, 10**15])
def test_od_linbai_runs_on_features_of_any_size(maker, scale, budget):
    """Moments with a budget of 10^15 would overflow; plans agree up to rounding of features."""
    make = {
        "OD-LinBAI": partial(ODLinBAI, budget=budget),
        "DP-OD": partial(DPOD, budget=budget, epsilon=1e-300),
        "DP-OD, l1": partial(DPOD, budget=budget, epsilon=1e300, norm="l1"),
    }[maker]
    features = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    plan = make(features * scale).phase(1, range(4))
    own = make(features).phase(1, range(4))
    assert (plan.pulled, plan.pulls) == (own.pulled, own.pulls)
    assert plan.losses == pytest.approx(own.losses, rel=1e-6)
    means = np.array([[0.3, 0.6]])
    np.testing.assert_allclose(
        plan.estimates(plan.statistic(means)), own.estimates(own.statistic(means)), rtol=1e-6
    )


def test_features_whose_noise_overflows_are_named():
    with pytest.raises(ValueError, match=r"^features and epsilon must give a noise scale"):
        DPOD(1e50 * np.eye(2), budget=100, epsilon=1e-300)
    with pytest.raises(ValueError, match=r"^features must not differ so much in scale"):
        ODLinBAI(np.diag([1.0, 1e-310]), budget=100).phase(1, range(2))


def test_entries_each_of_its_own_scale_are_planned_or_refused_for_their_scales():
    """Without an error of linear algebra or a warning."""
    refused = []
    for seed in (*range(6), 10, 21, 28):
        rng = np.random.default_rng(seed)
        arms, dimension = int(rng.integers(2, 8)), int(rng.integers(1, 5))
        scales = 10.0 ** rng.integers(-150, 151, size=(arms, dimension))
        features = rng.normal(size=(arms, dimension)) * scales
        for make in (partial(ODLinBAI), partial(DPOD, epsilon=1e-3), partial(DPBAI, epsilon=1.0)):
            try:
                assert 0 < make(features, budget=90).phase(1, range(arms)).cost <= 90
            except ValueError as error:
                refused.append(str(error))
    assert 0 < len(refused) < 12
    assert all("must not differ so much in scale" in message for message in refused)


@pytest.mark.parametrize("epsilon", [1, np.float32(1), np.int64(1)])
@pytest.mark.parametrize("make", [DPBAI, partial(DPBAIGauss, delta=1e-5), Baseline, DPOD])
def test_an_epsilon_of_any_type_of_number_is_kept_as_a_float(make, epsilon):
    policy = make(np.eye(3), budget=60, epsilon=epsilon)
    assert type(policy.epsilon) is float
    assert policy.epsilon == 1


@pytest.mark.parametrize("seed", [0, 4, 6, 7, 23])
def test_entries_each_of_its_own_scale_have_an_answer_or_a_clear_error(seed):
    """Seeds 0 and 6 ended in "Singular matrix", 7 in overflows of estimates and bounds."""
    rng = np.random.default_rng(seed)
    arms = int(rng.integers(2, 7))
    dimension = int(rng.integers(1, min(arms, 4) + 1))
    features = rng.normal(size=(arms, dimension))
    features *= 10.0 ** rng.uniform(-150, 150, size=features.shape)
    epsilon = 10.0 ** rng.uniform(-300, 10)
    budget = int(10 ** rng.uniform(math.log10(arms + 1), 9))
    rewards = [dpbai.Bernoulli(float(mean)) for mean in rng.random(arms)]
    instance = dpbai.Instance(features, rewards=rewards)
    for maker in (DPBAI, Baseline, ODLinBAI, DPOD, dpbai.DPHalving, dpbai.DPDesign):
        options = {} if maker is ODLinBAI else {"epsilon": epsilon}
        try:
            policy = maker(features, budget=budget, **options)
            assert dpbai.simulate(policy, instance, trials=10).trials == 10
            assert dpbai.certificate(policy).epsilon > 0
            assert "epsilon" in repr(dpbai.certificate(policy))
            if maker in (ODLinBAI, DPOD, dpbai.DPDesign):
                assert dpbai.upper_bound(policy, instance) > 0
        except ValueError as error:
            said = str(error)
        else:
            continue
        assert said.startswith(
            (
                "features must not differ so much in scale",
                "vectors must not differ so much in scale",
                "features and epsilon must give a noise scale",
                "budget must be at least",
            )
        )


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-290])
def test_dp_od_with_the_widest_noise_chooses_evenly_in_every_engine(dimension, epsilon):
    features = np.eye(dimension + 1)[:, :dimension]
    rewards = [dpbai.Bernoulli(mean) for mean in np.linspace(0.9, 0.1, dimension + 1)]
    instance = dpbai.Instance(features, rewards=rewards)
    policy = DPOD(features, budget=60, epsilon=epsilon)
    result = dpbai.simulate(policy, instance, trials=2000)
    bounds = dpbai.error_bounds(policy, instance)
    errors = stats.binomtest(2000 - result.successes, 2000).proportion_ci(1 - 1e-6)
    assert errors.low <= bounds.high
    assert bounds.low <= errors.high
    assert 0 < dpbai.certificate(policy).epsilon <= epsilon * math.sqrt(dimension) * (1 + 1e-9)
    if dimension == 1:
        assert dpbai.exact_error(policy, instance) == pytest.approx(0.5)
        audit = dpbai.exact_audit(DPOD(features, budget=4, epsilon=epsilon))
        assert audit.epsilon <= epsilon + 1e-12  # rounding errors of a logarithm
