"""Checks of linearity: limits, false alarms, detection, and arms that cannot be the best."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import spatial, stats

import dpbai
from dpbai._check import FloatArray
from dpbai.beyond import linearity
from dpbai.noise import Laplace
from dpbai.phase import Phase

TRAITS = np.random.default_rng(7).normal(size=(60, 5))
TRAITS /= np.linalg.norm(TRAITS, axis=1, keepdims=True)
FEATURES = np.column_stack([np.ones(60), TRAITS])
MEANS = FEATURES @ [0.5, 0.4, 0, 0, 0, 0]


def release(phase: Phase, means: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Run one phase with rewards of 0 or 1."""
    sums = rng.binomial(phase.pulls, means[list(phase.pulled)])
    noise = phase.noise.sample(rng, (phase.coordinates,))
    return np.asarray(phase.statistic(sums / np.array(phase.pulls)) + noise)


def two_phases(
    policy: dpbai.DPBAI, means: FloatArray, rng: np.random.Generator
) -> tuple[Phase, FloatArray, Phase, FloatArray]:
    """Run the first two phases of a policy."""
    first = policy.phase(1, range(policy.features.shape[0]))
    released = release(first, means, rng)
    survivors = first.survivors(released[None], rng)[0]
    second = policy.phase(2, survivors)
    return first, released, second, release(second, means, rng)


def test_without_noise_limits_are_hoeffdings_inequality() -> None:
    policy = dpbai.DPBAI(FEATURES, budget=6000, epsilon=math.inf)
    first = policy.phase(1, range(60))
    second = linearity.holdout([3, 40], pulls=70, epsilon=math.inf)
    coordinates = np.linalg.solve(FEATURES[list(first.pulled)].T, FEATURES[[3, 40]].T).T
    squares = (coordinates**2).sum(axis=1) / first.pulls[0] + 1 / 70
    # P(|S - E S| >= x) <= 2 exp(-2 x^2 / sum of squared ranges), set equal to level / candidates.
    expected = np.sqrt(squares / 2 * math.log(2 * 2 / 0.05))
    assert linearity.limits(first, second) == pytest.approx(expected, rel=1e-6)


def test_an_arm_whose_mean_the_model_determines_has_the_limit_0() -> None:
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.9, 0.2], [0.0, 0.0]])
    first, second = (
        dpbai.DPBAI(features, budget=budget, epsilon=1.0).phase(1, range(5)) for budget in (60, 90)
    )
    limits = linearity.limits(first, second)
    assert limits[4] == 0  # its mean is 0, whatever theta is
    assert (limits[:4] > 0).all()


def test_gaussian_noise_adds_its_variance() -> None:
    policy = dpbai.DPBAIGauss(FEATURES, budget=6000, epsilon=1, delta=1e-3)
    first, second = policy.phase(1, range(60)), policy.phase(2, range(14))
    coordinates = np.linalg.solve(FEATURES[list(first.pulled)].T, FEATURES[:14].T).T
    length = (coordinates**2).sum(axis=1)
    variance = length / (4 * first.pulls[0]) + 1 / (4 * second.pulls[0])
    for phase, weight in ((first, length), (second, 1.0)):
        variance += weight * phase.noise.standard_deviation**2
    expected = np.sqrt(2 * variance * math.log(2 * 60 / 0.01))
    found = linearity.limits(first, second, level=0.01, candidates=60)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 5])
def test_limits_with_laplace_noise_are_the_best_chernoff_bound(epsilon: float) -> None:
    policy = dpbai.DPBAI(FEATURES, budget=3000, epsilon=epsilon)
    first = policy.phase(1, range(60))
    arm = next(arm for arm in range(60) if arm not in first.pulled)
    second = linearity.holdout([arm], pulls=40, epsilon=epsilon)
    row = np.linalg.solve(FEATURES[list(first.pulled)].T, FEATURES[arm])
    scales = np.append(row / (epsilon * first.pulls[0]), 1 / (epsilon * 40))
    ranges = np.append(row / first.pulls[0], np.full(1, 1 / 40))
    counts = np.append(np.full(len(row), first.pulls[0]), 40)
    t = np.linspace(0, 1 / np.abs(scales).max(), 200_001)[1:-1]
    exponent = (ranges**2 * counts).sum() * t**2 / 8
    exponent -= np.log1p(-((scales[:, None] * t) ** 2)).sum(axis=0)
    expected = ((exponent + math.log(2 / 0.05)) / t).min()
    assert linearity.limits(first, second)[0] == pytest.approx(expected, rel=1e-5)


def share_found(means: FloatArray, runs: int, factor: float = 1.0) -> float:
    """Return in which share of two-phase runs a difference exceeds `factor` times its limit."""
    rng = np.random.default_rng(11)
    policy = dpbai.DPBAI(FEATURES, budget=6000, epsilon=1)
    found = 0
    for _ in range(runs):
        result = linearity.misfit(*two_phases(policy, means, rng), candidates=60)
        found += bool((np.abs(result.differences) > factor * result.limits).any())
    return found / runs


def test_linear_means_raise_no_more_false_alarms_than_stated_among_survivors() -> None:
    # At a rate of 5 %, more than 40 of 250 would have a probability below 1e-9.
    assert stats.binom.sf(40, 250, 0.05) < 1e-9
    assert share_found(MEANS, 250) <= 40 / 250


def test_limits_too_small_on_purpose_raise_false_alarms() -> None:
    assert share_found(MEANS, 50, factor=0.4) > 0.2


def test_a_misfit_of_twice_the_limit_is_found() -> None:
    rng = np.random.default_rng(5)
    policy = dpbai.DPBAI(FEATURES, budget=6000, epsilon=1)
    first = policy.phase(1, range(60))
    arm = next(arm for arm in range(60) if arm not in first.pulled and MEANS[arm] < 0.3)
    second = linearity.holdout([arm], pulls=500, epsilon=1)
    means = MEANS.copy()
    means[arm] += 2 * linearity.limits(first, second)[0]
    assert means[arm] < 1
    missed = 0
    for _ in range(250):
        seen = release(first, means, rng), release(second, means, rng)
        missed += not linearity.misfit(first, seen[0], second, seen[1]).found
    # At a rate of at most 5 %, more than 40 of 250 would have a probability below 1e-9.
    assert missed <= 40


def test_without_chance_dp_bai_finds_the_best_arm_if_max_det_phases_bear_the_misfit() -> None:
    """With deviations of up to zeta, Delta_(s_(p+1) + 1) > 2 (d_p + 1) zeta is sufficient."""
    rng = np.random.default_rng(0)
    found = {True: [], False: []}  # by whether the condition holds
    for _ in range(80):
        dimension = rng.integers(2, 4)
        features = np.column_stack([np.ones(20), rng.normal(size=(20, dimension - 1))])
        linear = features @ rng.normal(size=dimension)
        zeta = np.ptp(linear) * 10 ** rng.uniform(-3, 0)
        means = linear + zeta * rng.uniform(-1, 1, size=20)
        gaps = np.sort(means.max() - means)
        policy = dpbai.DPBAI(features, budget=900, epsilon=math.inf)
        active, bears = np.arange(20), True
        for index, keep in enumerate(policy.schedule.sizes[1:], start=1):
            phase = policy.phase(index, active.tolist())
            if phase.decoder_matrix is not None:
                bears &= bool(gaps[keep] > 2 * (len(phase.pulled) + 1) * zeta)
            estimates = phase.decoder @ phase.statistic(means[list(phase.pulled)])
            active = np.sort(active[np.argsort(-estimates)[:keep]])
        found[bears].append(active[0] == means.argmax())
    assert all(found[True])
    assert len(found[True]) > 10
    assert not all(found[False])


def test_a_holdout_loses_its_epsilon_and_eliminates_no_arm() -> None:
    phase = linearity.holdout([3, 40], pulls=70, epsilon=0.7)
    assert phase.losses == pytest.approx((0.7, 0.7))
    assert phase.survivors(np.zeros((1, 2)), np.random.default_rng(0)).tolist() == [[3, 40]]
    assert phase.cost == 140


def remembered_run(
    policy: dpbai.DPDesign, means: FloatArray, rng: np.random.Generator
) -> tuple[list[Phase], list[FloatArray]]:
    """Run all phases of DPDesign."""
    phases: list[Phase] = []
    releases: list[FloatArray] = []
    active = tuple(range(len(means)))
    while len(active) > 1:
        phases.append(policy.phase(len(phases) + 1, active, phases))
        releases.append(release(phases[-1], means, rng))
        known = np.concatenate(releases)[None]
        active = tuple(phases[-1].survivors(known, rng)[0].tolist())
    return phases, releases


@pytest.mark.parametrize("misfit", [0, 0.1])
def test_phases_that_remember_are_compared_by_their_own_releases(misfit: float) -> None:
    """False alarms and power; for the latter both arms of phase 2 are off by twice their limits."""
    features = np.column_stack([np.ones(12), np.arange(12) % 4, np.arange(12) // 4])
    policy = dpbai.DPDesign(features, budget=3000, epsilon=1, phases=3, misfit=misfit)
    rng, linear = np.random.default_rng(3), features @ [0.2, 0.02, 0.05]
    found, missed = 0, 0
    for _ in range(100):
        phases, releases = remembered_run(policy, linear, rng)
        assert phases[1].remembered == len(releases[0])
        result = linearity.misfit(
            phases[0], releases[0], phases[1], releases[1], candidates=len(features)
        )
        found += result.found
        assert set(result.arms) <= set(phases[1].pulled)
        off = linear.copy()
        off[list(result.arms)] += 2 * result.limits
        again = release(phases[1], off, rng)
        missed += not linearity.misfit(
            phases[0], releases[0], phases[1], again, candidates=len(features)
        ).found
    # At rates of at most 5 %, more than 23 of 100 would have a probability below 1e-9.
    assert stats.binom.sf(23, 100, 0.05) < 1e-9
    assert found <= 23
    assert missed <= 23
    if misfit:
        assert phases[2].coordinates == 1  # the difference of the last two arms
        with pytest.raises(ValueError, match="a difference of means"):
            linearity.limits(phases[0], phases[2])


def test_a_holdout_is_a_policy_for_one_arm_or_more() -> None:
    for arms in (1, 3):
        policy = linearity.Holdout(FEATURES[:arms], budget=10 * arms + arms - 1, epsilon=0.7)
        plan = policy.phase(1, range(arms))
        assert (plan.pulls, plan.keep) == ((10,) * arms, 1)
        assert dpbai.certificate(policy).losses == pytest.approx((0.7,))
    with pytest.raises(ValueError, match="budget must be at least 3"):
        linearity.Holdout(FEATURES[:3], budget=2, epsilon=1)


@pytest.mark.parametrize("arms", [2, 3])
def test_a_phase_that_releases_only_differences_is_not_compared(arms: int) -> None:
    """Estimates from differences are right up to a constant, and would cause false alarms."""
    differences = np.diff(np.eye(arms), axis=0)
    every = tuple(range(arms))
    first = Phase(
        1, every, every, (90,) * arms, Laplace(0.01), 1, 90 * differences,
        np.linalg.pinv(90 * differences),
    )  # fmt: skip
    means = np.full(arms, 0.5)
    assert np.abs(first.decoder @ first.statistic(means)).max() < 1e-12  # not 0.5
    second = linearity.holdout(every, pulls=90, epsilon=1)
    for pair in ((first, second), (second, first)):
        with pytest.raises(ValueError, match="a difference of means, as DPDesign"):
            linearity.limits(*pair)
    released = first.statistic(means), second.statistic(means)
    with pytest.raises(ValueError, match="first and second must have an arm in common"):
        linearity.misfit(first, released[0], second, released[1])
    # A difference and one of the means determine the other mean.
    with_mean = replace(first, release_matrix=np.eye(arms) - np.eye(arms, k=-1),
                        decoder_matrix=np.tri(arms))  # fmt: skip
    assert len(linearity.limits(with_mean, second)) == arms


def test_bad_input_is_named() -> None:
    first = dpbai.DPBAI(FEATURES, budget=6000, epsilon=1).phase(1, range(60))
    second = linearity.holdout([3, 40], pulls=70, epsilon=1)
    good = np.zeros(6)
    with pytest.raises(ValueError, match=r"released must have shape \(6,\)"):
        linearity.misfit(first, np.zeros(5), second, np.zeros(2))
    with pytest.raises(ValueError, match=r"released_again must have shape \(2,\)"):
        linearity.misfit(first, good, second, np.zeros(3))
    with pytest.raises(ValueError, match="released must be finite"):
        linearity.misfit(first, np.full(6, np.nan), second, np.zeros(2))
    with pytest.raises(ValueError, match="an arm in common"):
        linearity.limits(linearity.holdout([1], pulls=2, epsilon=1), second)
    with pytest.raises(ValueError, match="candidates must be at least 2"):
        linearity.limits(first, second, candidates=1)
    with pytest.raises(ValueError, match="level must lie strictly"):
        linearity.limits(first, second, level=0)
    with pytest.raises(ValueError, match="increasing order"):
        linearity.holdout([4, 3], pulls=2, epsilon=1)


@pytest.mark.parametrize(("arms", "dimension"), [(40, 2), (60, 3), (25, 4)])
def test_arms_that_cannot_lead_are_those_that_are_no_vertex_of_the_convex_hull(
    arms: int, dimension: int
) -> None:
    """Against Qhull, for any units, if a combination of the features is constant."""
    rng = np.random.default_rng(arms)
    points = rng.normal(size=(arms, dimension))
    inside = sorted({*range(arms)} - set(spatial.ConvexHull(points).vertices.tolist()))
    assert 0 < len(inside) < arms
    features = np.c_[np.ones(arms), points]
    for same in (
        features,
        features * np.geomspace(1e-9, 1e9, dimension + 1),
        features @ rng.normal(size=(dimension + 1, 2 * dimension)),
    ):
        assert linearity.cannot_lead(same) == tuple(inside)


def test_without_a_constant_an_arm_leads_only_where_no_mean_is_negative() -> None:
    """Against a fine grid of directions; none has nonnegative means if features surround 0."""
    points = np.random.default_rng(4).normal(size=(15, 2)) + [2, 1]
    angles = np.linspace(0, 2 * np.pi, 200_001)
    means = points @ [np.cos(angles), np.sin(angles)]
    leads = {*means[:, means.min(axis=0) >= 0].argmax(axis=0).tolist()}
    hull = set(spatial.ConvexHull(points).vertices.tolist())
    assert 0 < len(leads) < len(hull)
    assert linearity.cannot_lead(points) == tuple(sorted({*range(15)} - leads))
    assert linearity.cannot_lead(points - points.mean(axis=0)) == tuple(range(15))


def test_on_a_grid_only_the_corners_lead() -> None:
    """An arm on an edge is never better than both corners."""
    grid = np.array([[1, x, y] for x in range(4) for y in range(4)])
    assert set(range(16)) - set(linearity.cannot_lead(grid)) == {0, 3, 12, 15}


def test_copies_lead_together() -> None:
    features = np.c_[np.ones(20), np.random.default_rng(0).normal(size=(20, 2))]
    out = linearity.cannot_lead(features)
    twice = linearity.cannot_lead(np.vstack([features, features]))
    assert twice == (*out, *(arm + 20 for arm in out))
    jitter = features * (1 + 1e-13)
    assert linearity.cannot_lead(np.vstack([features, jitter])) == twice
    assert linearity.cannot_lead(np.ones((5, 3))) == linearity.cannot_lead([[2.0]]) == ()


def test_an_arm_that_cannot_lead_never_does_and_the_others_do_somewhere() -> None:
    """With features of 0 and 1, in a dimension in which Qhull is slow."""
    rng = np.random.default_rng(3)
    mixtures = rng.dirichlet(np.ones(8), size=6) @ (corners := rng.integers(0, 2, size=(8, 6)))
    features = np.c_[np.ones(14), np.vstack([corners, mixtures])]
    out = linearity.cannot_lead(features)
    assert set(range(8, 14)) <= set(out)
    means = features @ rng.normal(size=(7, 20_000))
    best = set(np.unique(means.argmax(axis=0)).tolist())
    assert best.isdisjoint(out)
    assert {tuple(features[arm]) for arm in best} == {
        tuple(features[arm]) for arm in range(14) if arm not in out
    }


def test_features_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="features must be 2-D"):
        linearity.cannot_lead([1.0, 2.0])


@pytest.mark.parametrize("epsilon", [1e-300, 1e-160, 1e-10])
def test_limits_grow_as_the_noise_does_beyond_squares_of_doubles(epsilon: float) -> None:
    arms = dpbai.synthetic().features

    def limits(level: float) -> FloatArray:
        phase = dpbai.DPBAI(arms, budget=400, epsilon=level).phase(1, range(30))
        return linearity.limits(phase, linearity.holdout(range(5), pulls=3, epsilon=level))

    assert limits(epsilon) * epsilon == pytest.approx(limits(1e-9) * 1e-9, rel=1e-6)


def test_a_fit_needs_the_features_of_all_pulled_arms() -> None:
    phase = dpbai.Baseline(np.eye(5), budget=50, epsilon=1).phase(1, range(5))
    with pytest.raises(ValueError, match="features must have a row for each arm"):
        linearity.fit([phase], np.zeros(5), np.eye(5)[:3])
