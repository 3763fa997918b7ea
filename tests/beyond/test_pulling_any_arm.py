"""DPDesign's last phase, which may pull any arms to compare two survivors."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

import dpbai
from dpbai import DPDesign
from dpbai.beyond.contrast import combination, combinations
from dpbai.beyond.rehearsal import Rehearsal, Timetable
from dpbai.field import cli

RNG = np.random.default_rng(1)
SPHERE = RNG.normal(size=(60, 3))
SPHERE = np.column_stack([np.ones(60), SPHERE / np.linalg.norm(SPHERE, axis=1)[:, None]])
PAIRS = np.array([[0, 1], [5, 17], [30, 59]])


def anywhere(features=SPHERE, *, misfit=0.0, budget=1500, epsilon=0.5, allowed=True):
    """Return a policy of two phases that keeps two arms."""
    policy = DPDesign(features, budget=budget, epsilon=epsilon, misfit=misfit)
    first = round(0.6 * budget)
    timetable = Timetable((len(features), 2, 1), (first, budget - first), anywhere=allowed)
    vars(policy)["_choice"] = timetable, False
    return policy


def two_phases(policy, pair):
    first = policy.phase(1, range(len(policy.features)))
    return first, policy.phase(2, pair, (first,))


def objective(weights, covariance, contrast, variance):
    left = contrast - weights
    return left @ covariance @ left + variance * np.abs(weights).sum() ** 2


@pytest.mark.parametrize("pair", PAIRS.tolist())
def test_without_a_prior_the_weights_are_those_of_a_c_optimal_design(pair):
    """Elfving: of all weights with sum w_j a_j = a_i - a_k, those of least absolute sum."""
    contrast = SPHERE[pair[0]] - SPHERE[pair[1]]
    least = optimize.linprog(
        np.ones(120), A_eq=np.hstack([SPHERE.T, -SPHERE.T]), b_eq=contrast, method="highs"
    ).fun
    weights = combination(1e4 * SPHERE, np.zeros(60), np.array(pair), 1.0)
    np.testing.assert_allclose(weights @ SPHERE, contrast, atol=1e-3)
    assert least * 0.999 < np.abs(weights).sum() < least * 1.01
    assert least < 1.9  # against 2 for the difference of the two


@pytest.mark.parametrize("own", [0.0, 1e-3, 0.1])
def test_weights_leave_the_least_variance(own):
    """Against a general minimiser, with weights split into positive and negative parts."""
    factor, contrast = 0.3 * SPHERE[:12], np.eye(12)[0] - np.eye(12)[5]
    deviations, variance = np.full(12, own), 0.02
    covariance = factor @ factor.T + np.diag(deviations)

    def value(parts):
        left = contrast - parts[:12] + parts[12:]
        return left @ covariance @ left + variance * parts.sum() ** 2

    def slope(parts):
        left = -2 * covariance @ (contrast - parts[:12] + parts[12:])
        return np.r_[left, -left] + 2 * variance * parts.sum()

    found = optimize.minimize(
        value,
        np.full(24, 0.1),
        jac=slope,
        bounds=[(0, None)] * 24,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-12},
    )
    weights = combination(factor, deviations, np.array([0, 5]), variance)
    assert objective(weights, covariance, contrast, variance) < found.fun * 1.005
    hasty = combinations(factor, deviations, np.array([[0, 5]]), variance, 20)[0]
    assert objective(hasty, covariance, contrast, variance) < found.fun * 1.05


def test_a_large_misfit_pulls_the_two_arms_themselves():
    """Other arms are then not informative on their difference; with a small misfit they are."""
    outside = []
    for misfit in (0.0, 0.01, 0.05, 0.5):
        pulled = two_phases(anywhere(misfit=misfit), (5, 17))[1]
        pulls = dict(zip(pulled.pulled, pulled.pulls, strict=True))
        outside.append(1 - (pulls.get(5, 0) + pulls.get(17, 0)) / pulled.cost)
    assert outside == sorted(outside, reverse=True)
    assert outside[0] > 0.9
    assert outside[-1] == 0
    same = [
        two_phases(anywhere(misfit=0.5, allowed=allowed), (5, 17))[1] for allowed in (True, False)
    ]
    np.testing.assert_array_equal(same[0].release, same[1].release)
    np.testing.assert_array_equal(same[0].decoder, same[1].decoder)


@pytest.mark.parametrize("misfit", [0.0, 0.002])
@pytest.mark.parametrize("epsilon", [0.2, 3.0, math.inf])
def test_one_number_is_released_at_a_loss_of_epsilon_within_the_budget(misfit, epsilon):
    policy = anywhere(misfit=misfit, epsilon=epsilon)
    for pair in PAIRS:
        first, second = two_phases(policy, pair)
        assert second.release.shape == (1, len(second.pulled))
        assert not set(second.pulled) <= set(second.active)
        assert max(np.abs(second.release[0]) / second.pulls) == pytest.approx(1, rel=1e-12)
        assert first.cost + second.cost <= policy.budget
    for options in ({}, {"group": 3}, {"neighbours": "pull index"}):
        if math.isfinite(epsilon):
            stated = dpbai.certificate(policy, **options)
            assert stated.complete
            assert stated.covers(dpbai.certify([first, second], **options))
    assert dpbai.certificate(policy).epsilon == pytest.approx(epsilon)


@pytest.mark.parametrize("misfit", [0.0, 0.002])
def test_estimates_are_best_linear_unbiased_predictions(misfit):
    """Against kriging with dense matrices: both releases at once, theta by least squares."""
    policy, epsilon = anywhere(misfit=misfit), 0.5
    first, second = two_phases(policy, (5, 17))
    rows = np.zeros((second.remembered + 1, 60))
    rows[:-1, list(first.pulled)], rows[-1, list(second.pulled)] = first.release, second.release
    variance = np.concatenate(
        [p.release**2 @ (1 / (4 * np.array(p.pulls))) + 2 / epsilon**2 for p in (first, second)]
    )
    inverse = np.linalg.inv(misfit**2 * rows @ rows.T + np.diag(variance))
    linear = rows @ SPHERE
    theta = np.linalg.solve(linear.T @ inverse @ linear, linear.T @ inverse)
    expected = SPHERE @ theta + misfit**2 * rows.T @ inverse @ (np.eye(len(rows)) - linear @ theta)
    np.testing.assert_allclose(second.decoder, expected[[5, 17]], rtol=1e-6, atol=1e-12)


def test_nothing_distinguishes_copies_of_an_arm():
    features = np.vstack([SPHERE[:20], SPHERE[:20]])
    second = two_phases(anywhere(features), (3, 23))[1]
    assert np.ptp(second.decoder, axis=0).max() < 1e-12
    assert second.cost <= 600


def test_arms_in_another_order_are_planned_alike():
    order = np.random.default_rng(3).permutation(60)
    plans = [
        two_phases(anywhere(SPHERE[names]), np.sort(np.flatnonzero(np.isin(names, [5, 17]))))[1]
        for names in (np.arange(60), order)
    ]
    pulls = [
        {int(names[arm]): n for arm, n in zip(plan.pulled, plan.pulls, strict=True)}
        for names, plan in zip((np.arange(60), order), plans, strict=True)
    ]
    assert pulls[0] == pulls[1]


def test_the_rehearsal_chooses_it_where_it_is_better_and_predicts_by_how_much():
    """1500 pulls of 60 arms on a sphere: 3000 trials; the deviation of a difference is 0.013."""
    policy = DPDesign(SPHERE, budget=1500, epsilon=1.0, misfit=0)
    assert policy.timetable.anywhere
    theta = np.array([0.5, 0.22, 0.1, -0.05])
    instance = dpbai.Instance(SPHERE, theta, rewards=dpbai.Bernoulli)
    other = DPDesign(SPHERE, budget=1500, epsilon=1.0, misfit=0)
    vars(other)["_choice"] = replace(policy.timetable, anywhere=False), False
    rates = [
        dpbai.simulate(each, instance, trials=3000, seed=2).success_rate for each in (policy, other)
    ]
    assert rates[0] > rates[1] + 0.02


def test_the_first_phase_has_a_part_for_each_dimension_of_the_differences():
    """The second has two; a constant feature adds no dimension, in any coordinates."""
    mixed = SPHERE @ np.random.default_rng(2).normal(size=(4, 4))
    for features, dimension in ((SPHERE, 3), (mixed, 3), (SPHERE[:, 1:], 3), (SPHERE[:, 1:3], 2)):
        differences = features - features.mean(axis=0)
        assert np.linalg.matrix_rank(differences) == dimension
        policy = DPDesign(features, budget=1500, epsilon=1.0, misfit=0)
        assert policy._anywhere == pytest.approx(dimension / (dimension + 2))
    assert DPDesign(SPHERE, budget=1500, epsilon=1.0, misfit=0).timetable.pulls == (900, 600)


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
def test_a_session_asks_for_eliminated_arms_and_loses_epsilon(tmp_path):
    policy = DPDesign(SPHERE, budget=1500, epsilon=1.0, misfit=0)
    path, rng = tmp_path / "run.json", np.random.default_rng(0)
    session = dpbai.Session(policy, noise=dpbai.NumpyNoise(0), path=path)
    while session.requests:
        asked = set(session.requests)
        session.record({arm: rng.random(n) for arm, n in session.requests.items()})
        session = dpbai.Session.resume(path, noise=dpbai.NumpyNoise(0))
    first, second = session.released
    assert asked - set(first.survivors)
    assert session.recommendation in first.survivors
    assert session.certificate.epsilon == pytest.approx(1.0)
    assert len(second.statistic) == 1


def test_it_is_no_candidate_where_two_survivors_would_be_chosen_too_early():
    """Or if other arms are not informative. A basis has 4 arms, and the first phase 3/5."""

    def share(budget, epsilon, features=SPHERE):
        return DPDesign(features, budget=budget, epsilon=epsilon, misfit=0)._anywhere

    assert share(600, 1.0) == share(1334, 0.2) == pytest.approx(0.6)
    assert share(599, 1.0) == 0  # fewer than ten pulls per arm
    assert share(1333, 0.2) == 0  # the noise of a basis costs 4 * 8 / epsilon^2 = 800 pulls
    assert share(1334, 1.0, np.eye(5)) == 0
    assert not DPDesign(SPHERE, budget=1333, epsilon=0.2, misfit=0).timetable.anywhere


def test_a_further_phase_must_gain_half_a_standard_error_and_pulls_of_any_arm_be_better():
    """With 2500 runs, the standard error is at most 0.01."""
    one, two = Timetable((5, 1), (90,)), Timetable((5, 2, 1), (50, 40))
    anywhere = replace(two, anywhere=True)

    class Foreseen(Rehearsal):
        def __init__(self, *rates):
            self.candidates, self.runs = [one, two, anywhere], 2500
            self.rates = dict(zip(self.candidates, rates, strict=True))

        def success(self, timetable, runs=None):  # noqa: ARG002
            return self.rates[timetable]

    assert Foreseen(0.75, 0.754, 0.75).choice() == one
    assert Foreseen(0.75, 0.756, 0.756).choice() == two
    assert Foreseen(0.75, 0.756, 0.7561).choice() == anywhere
    assert Foreseen(0.75, 0.74, 0.7501).choice() == anywhere


def test_the_command_line_asks_for_eliminated_arms_and_lists_them_first(tmp_path, capsys):
    def run(*words):
        cli.main([str(word) for word in words])
        return capsys.readouterr().out

    table, path, sheet = tmp_path / "arms.csv", tmp_path / "run.json", tmp_path / "rewards.csv"
    lines = [f"arm {i}," + ",".join(map(str, row)) for i, row in enumerate(SPHERE.round(4))]
    table.write_text("arm,one,x,y,z\n" + "\n".join(lines))
    options = ["--budget", "1500", "--epsilon", "1", "--misfit", "0", "--noise", "numpy"]
    run("start", path, table, *options)
    for phase in (1, 2):
        asked = [line.split(",") for line in run("next", path).splitlines()[1:]]
        sheet.write_text(
            "arm,reward\n" + "".join(f"{arm},{i % 2}\n" for arm, n in asked for i in range(int(n)))
        )
        if phase == 2:
            status = run("status", path)
            listed = [line for line in status.splitlines() if "out in phase" in line]
            assert listed[0].split(" out in")[0].strip() in {arm for arm, _ in asked}
        run("tell", path, sheet)
    assert "Recommended: arm" in run("recommend", path)
