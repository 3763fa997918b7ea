"""The mixed model of DPDesign: linear means plus independent deviations."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from remembering import walk

import dpbai
from dpbai import DPDesign
from dpbai.beyond import linearity
from dpbai.field import cli

RNG = np.random.default_rng(5)
FEATURES = RNG.normal(size=(20, 4))


@pytest.mark.parametrize(("misfit", "epsilon"), [(0.01, 0.3), (0.05, 1.0), (0.5, math.inf)])
def test_estimates_are_best_linear_unbiased_predictions(misfit, epsilon):
    """Against kriging with dense matrices: all releases at once, theta by least squares."""
    policy = DPDesign(FEATURES, budget=3000, epsilon=epsilon, misfit=misfit, phases=3)
    rows, variances = [], []
    for phase in walk(policy, seed=2):
        rows.append(np.zeros((phase.coordinates, 20)))
        rows[-1][:, list(phase.pulled)] = phase.release
        sampling = phase.release**2 @ (1 / (4 * np.array(phase.pulls)))
        variances.append(sampling + 2 / epsilon**2)
        observed = np.vstack(rows)
        inverse = np.linalg.inv(
            misfit**2 * observed @ observed.T + np.diag(np.concatenate(variances))
        )
        linear = observed @ FEATURES
        theta = np.linalg.solve(linear.T @ inverse @ linear, linear.T @ inverse)
        residuals = np.eye(len(inverse)) - linear @ theta
        expected = FEATURES @ theta + misfit**2 * observed.T @ inverse @ residuals
        size = np.abs(expected).max()
        np.testing.assert_allclose(
            phase.decoder / size, expected[list(phase.active)] / size, atol=1e-9
        )
    assert len(rows) == 3


def test_a_tiny_misfit_plans_as_none():
    """The plans of linear means are the limit of those with a misfit."""
    none, tiny = (DPDesign(FEATURES, budget=900, epsilon=0.5, misfit=m) for m in (0, 1e-9))
    vars(tiny)["_choice"] = none.timetable, False
    for one, other in zip(walk(none), walk(tiny), strict=True):
        assert (one.pulled, one.pulls) == (other.pulled, other.pulls)
        np.testing.assert_allclose(other.decoder, one.decoder, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("features", "misfit"),
    [(FEATURES[:8], math.inf), (FEATURES[:4], 0.05), ([[1.0, 2.0], [1.0, 2.0]], 0.05)],
)
def test_features_that_are_ignored_are_one_hot(features, misfit):
    """An infinite misfit; features that do not restrict the means; and two arms."""
    ours = DPDesign(features, budget=400, epsilon=0.5, misfit=misfit)
    one_hot = DPDesign(np.eye(len(features)), budget=400, epsilon=0.5, misfit=0)
    for one, other in zip(walk(ours), walk(one_hot), strict=True):
        assert sorted(one.pulls) == sorted(other.pulls)
        np.testing.assert_allclose(
            one.decoder @ one.decoder.T, other.decoder @ other.decoder.T, rtol=1e-6, atol=1e-12
        )


def test_success_rises_where_that_of_linear_means_falls():
    """At least 180 of 200 against at most 20; the best arm lies 0.15 above its linear mean."""
    line = np.column_stack([np.ones(10), np.arange(10)])
    means = 0.3 + 0.03 * np.arange(10)
    means[4] += 0.2
    instance = dpbai.Instance(line, rewards=[dpbai.Bernoulli(mean) for mean in means])
    linear, mixed = (
        dpbai.simulate(
            DPDesign(line, budget=20_000, epsilon=1, misfit=misfit), instance, trials=200
        ).successes
        for misfit in (0, None)
    )
    assert linear <= 20
    assert mixed >= 180


def test_what_an_observer_learns_is_what_is_promised():
    """By the exact audit of three arms in a plane, whose estimates allow for a misfit."""
    policy = DPDesign(
        [[1.0, 0.0], [0.0, 1.0], [0.7, 0.6]], budget=6, epsilon=0.8, misfit=0.2, phases=1
    )
    assert dpbai.certificate(policy).epsilon == pytest.approx(0.8, rel=1e-12)
    assert 0.5 < dpbai.exact_audit(policy).epsilon < 0.8


def test_arms_in_any_order_are_planned_alike_with_a_misfit():
    order = np.random.default_rng(1).permutation(20)
    one, other = (
        DPDesign(features, budget=700, epsilon=0.3, misfit=0.1)
        for features in (FEATURES, FEATURES[order])
    )
    assert one.timetable == other.timetable
    first, again = one.phase(1, range(20)), other.phase(1, range(20))
    names = [int(order[arm]) for arm in again.pulled]
    assert dict(zip(names, again.pulls, strict=True)) == dict(
        zip(first.pulled, first.pulls, strict=True)
    )
    columns = [names.index(arm) for arm in first.pulled]
    np.testing.assert_allclose(again.decoder[np.argsort(order)][:, columns], first.decoder)


def test_plans_of_many_arms_need_no_square_of_their_number():
    features = np.random.default_rng(0).normal(size=(4000, 3))
    tracemalloc.start()
    policy = DPDesign(features, budget=20_000, epsilon=1)
    assert len(list(walk(policy))) > 1
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 4000**2 / 2


@pytest.mark.parametrize("misfit", [-0.1, 1.5, math.nan])
def test_a_misfit_is_a_share_of_the_range_of_rewards_or_infinite(misfit):
    with pytest.raises(ValueError, match="misfit must"):
        DPDesign(FEATURES, budget=100, epsilon=1, misfit=misfit)


def test_the_usual_misfit_follows_the_precision_of_an_arms_own_mean():
    """It has T / K rewards with a variance of at most 1/4, and noise of variance 2 / epsilon^2."""
    found = []
    for budget, epsilon in ((100, 1), (2000, 0.1), (500, 1), (600, 1), (2000, 1), (10**6, 9)):
        each = budget / len(FEATURES)
        deviation = math.sqrt(0.25 / each + 2 / (epsilon * each) ** 2)
        found.append(DPDesign(FEATURES, budget=budget, epsilon=epsilon).misfit)
        assert abs(found[-1] - min(max(0.04, 0.0055 / deviation), 0.06)) <= 0.005
    assert found == [0.04, 0.04, 0.05, 0.05, 0.06, 0.06]


def test_the_usual_misfit_is_kept_by_replace_unless_the_usual_one_is_asked_for():
    policy = DPDesign(FEATURES, budget=100, epsilon=1)
    assert replace(policy, budget=2000).misfit == policy.misfit == 0.04
    assert replace(policy, budget=2000, misfit=None).misfit == 0.06


def test_a_session_plans_on_with_the_misfit_that_it_was_begun_with(tmp_path):
    """The file stores the number, so that it does not depend on the version that reads it."""
    path, policy = tmp_path / "run.json", DPDesign(FEATURES, budget=2000, epsilon=1)
    dpbai.Session(policy, path=path)
    assert dpbai.Session.resume(path).policy.misfit == 0.06
    assert dpbai.Session.resume(path, replace(policy, misfit=None)).policy.misfit == 0.06
    with pytest.raises(dpbai.SessionError, match="misfit differ"):
        dpbai.Session.resume(path, replace(policy, misfit=0.04))


def test_the_features_of_two_arms_count_with_misfit_0_only():
    """Of two parallel arms only the longer is pulled with 0; otherwise both are, equally often."""
    zero, *positive = (
        DPDesign([[1.0], [2.5]], budget=40, epsilon=1, misfit=misfit).phase(1, (0, 1))
        for misfit in (0, 1e-9, None, 1, math.inf)
    )
    assert zero.pulled == (1,)
    for phase in positive:
        assert (phase.pulled, phase.pulls) == ((0, 1), (20, 20))
        np.testing.assert_array_equal(phase.decoder, positive[0].decoder)


def test_releases_say_whether_means_are_linear_as_often_as_stated():
    """There are at most 36 false alarms in 300 runs: 15 are expected, with a s.d. of 3.8.

    Deviations are found in the share of runs that `power` states, within five s.d.
    """
    features = np.column_stack([np.ones(12), np.arange(12)])
    phase = DPDesign(np.eye(12), budget=6000, epsilon=1, phases=1, misfit=0).phase(1, range(12))
    means, rng = features @ [0.3, 0.02], np.random.default_rng(3)
    alarms = np.zeros(2)
    for _ in range(300):
        for off in (0, 1):
            truth = means + off * rng.normal(scale=0.04, size=12)
            sums = rng.binomial(500, truth) + rng.laplace(size=12)
            found = linearity.fit([phase], sums, features, misfit=0.04, seed=1)
            alarms[off] += found.chance < 0.05
    assert alarms[0] <= 36
    # Rewards of 0 and 1 with means of 0.3 to 0.5 have nearly the largest possible variance.
    assert abs(alarms[1] / 300 - found.power) < 5 * 0.5 / math.sqrt(300)
    assert linearity.fit([phase], sums, np.eye(12)) is None


def test_the_command_line_says_which_means_it_assumes(tmp_path, capsys):
    table = tmp_path / "arms.csv"
    table.write_text("arm,x,one\na,0,1\nb,1,1\nc,2,1\nd,3,1\n")

    def said(*more):
        options = ["--budget", "100", "--epsilon", "1", *map(str, more)]
        code = cli.main(["plan", str(table), *options])
        out, err = capsys.readouterr()
        return code, " ".join((out + err).split())

    assert "linear in the features, up to deviations of about 0.05 of" in said()[1]
    assert "exactly linear in the features" in said("--misfit", 0)[1]
    assert "The features are ignored" in said("--misfit", "inf")[1]
    code, out = said("--misfit", 0.1, "--gap", 0.05, "--trials", 40)
    assert code == 0
    assert "If means deviate from such linear ones by about 0.1, the best arm is found" in out
    assert said("--policy", "dp-bai", "--misfit", 0.1)[0] == 2
