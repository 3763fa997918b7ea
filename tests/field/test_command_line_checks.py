"""The commands holdout and misfit, and what commands say about the model."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import special

import dpbai
from dpbai.beyond import linearity
from dpbai.field.session import interval, ledger

ARMS = [f"arm {i}" for i in range(8)]
FEATURES = np.column_stack([np.ones(8), np.arange(8)])
BENT = "arm 4"
START = ["start", "run.json", "arms.csv", "--noise", "numpy"]
SUMS = ["--misfit", 1e-6]  # with 0 one number is released, and no sums
pytestmark = pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")


@pytest.fixture
def folder(tmp_path):
    table = pd.DataFrame(FEATURES, index=pd.Index(ARMS, name="arm"), columns=["one", "x"])
    table.to_csv(tmp_path / "arms.csv")
    return tmp_path


def means(off=0.0):
    """Means that are linear except for one arm."""
    values = pd.Series(0.3 + 0.04 * np.arange(8), index=ARMS)
    values[BENT] += off
    return values


@pytest.fixture
def answer(done, folder):
    """Gives a session all rewards that it requests, with sums equal to their expectations."""

    def answer(session, off=0.0):
        done("next", session, "-o", "pulls.csv")
        pulls = pd.read_csv(folder / "pulls.csv", index_col="arm")["pulls"]
        table = pd.DataFrame({"total": means(off)[pulls.index] * pulls, "count": pulls})
        table.to_csv(folder / "rewards.csv", index_label="arm")
        done("tell", session, "rewards.csv", "--seed", 1)

    return answer


@pytest.mark.parametrize(("off", "found"), [(0.0, False), (0.3, True)])
def test_a_holdout_finds_what_the_features_get_wrong(off, found, call, done, folder, answer):
    options = ["--budget", 2000, "--epsilon", 1, *SUMS, "--population", "town"]
    assert call(*START, *options)[0] == 0
    code, out, _ = call("holdout", "check.json", "run.json", BENT, "--pulls", 300, "-o", "h.csv")
    assert code == 0
    assert "When both are finished: dpbai misfit run.json check.json" in out
    run, check = (dpbai.Session.resume(folder / name) for name in ("run.json", "check.json"))
    limits = linearity.limits(run.phase, linearity.holdout([4], pulls=300, epsilon=1))
    assert pd.read_csv(folder / "h.csv").to_dict("list") == {
        "arm": [BENT], "pulls": [300], "limit": [pytest.approx(limits[0])]
    }  # fmt: skip
    assert check.requests == {BENT: 300}
    assert check.population == "town"
    assert ledger([run, check]).epsilon == pytest.approx(2)
    answer("run.json", off)
    answer("check.json", off)
    assert "a holdout recommends no arm" in call("recommend", "check.json")[2]
    assert "The holdout is finished" in call("status", "check.json")[1]
    out = done("misfit", "run.json", "check.json", "--json")
    printed = json.loads(out)
    assert printed["found"] == [BENT] * found
    (row,) = printed["arms"]
    run, check = (dpbai.Session.resume(folder / name) for name in ("run.json", "check.json"))
    assert row["phase_1"] == pytest.approx(run.released[0].estimates[4])
    assert row["again"] == pytest.approx(check.released[0].estimates[0])
    assert row["limit"] == pytest.approx(limits[0])
    out = call("misfit", "run.json", "check.json")[1]
    assert ("The means are not linear" in out) == found
    assert ("No difference exceeds its limit" in out) == (not found)
    assert "no proof" not in out


def test_later_phases_of_a_run_that_remembers_are_compared(call, done, folder, answer):
    """Phase 3 releases a difference, which determines no mean; DPDesign with a misfit."""
    options = ["--budget", 20_000, "--epsilon", 1, "--misfit", 0.04, "--reward-range", 0, 10]
    assert call(*START, *options)[0] == 0
    plan = dpbai.DPDesign(FEATURES, budget=20_000, epsilon=1, misfit=0.04)
    assert len(plan.timetable.pulls) == 3
    for _ in range(3):
        answer("run.json")
    out = done("misfit", "run.json", "-o", "misfit.csv")
    table = pd.read_csv(folder / "misfit.csv")
    run = dpbai.Session.resume(folder / "run.json")
    assert set(table["compared_with"]) == {"phase 2"}
    assert set(table["arm"]) == set(run.released[1].pulled)
    for row in table.itertuples():
        place = run.released[1].pulled.index(row.arm)
        again = run.released[1].statistic[place] / run.phases[1].pulls[place]
        assert row.again == pytest.approx(10 * again)
        assert row.difference == pytest.approx(row.again - row.phase_1)
    assert "Phase 3 released a difference of two means, and no mean." in out
    assert "no proof" not in out


def test_a_difference_in_a_later_phase_is_reported_without_a_proved_level(call, done, answer):
    options = ["--budget", 20_000, "--epsilon", 1, "--misfit", 0.04, "--reward-range", 0, 10]
    assert call(*START, *options)[0] == 0
    answer("run.json")
    answer("run.json", 4.0)
    out = done("misfit", "run.json")
    assert "The means are not linear" in out
    assert "would be at most 5% (no proof covers later phases" in " ".join(out.split())


def test_errors_of_holdout_and_misfit_say_what_can_be_checked(call, refused, folder, answer):
    call(*START, "--budget", 400, "--epsilon", 1, *SUMS)
    hold = ("holdout", "check.json", "run.json")
    run = dpbai.Session.resume(folder / "run.json")
    for arguments, said in (
        (("misfit", "run.json"), "no phase of the run has been released yet"),
        ((*hold, "arm 9", "--pulls", 5), "'arm 9' is not one of the arms"),
        ((*hold, BENT, "--pulls", 0), "pulls must be at least 1"),
    ):
        err = refused(*arguments)
        assert said in err
    assert not (folder / "check.json").exists()
    assert call(*hold, BENT, "--pulls", 5)[0] == 0
    answer("run.json")
    assert "check.json is not finished" in call("misfit", "run.json", "check.json")[2]
    assert "run.json is not a holdout" in call("misfit", "run.json", "run.json")[2]
    assert "each holdout only once" in call("misfit", "run.json", "run.json", "./run.json")[2]
    assert "each arm to hold out once" in call(*hold, BENT, BENT, "--pulls", 5)[2]
    assert "out other arms with `dpbai holdout`, such as" in call("misfit", "run.json")[1]
    for command in (("misfit", "check.json", "run.json"), ("holdout", "h", "check.json", BENT)):
        pulls = ["--pulls", 5] * (command[0] == "holdout")
        assert "check.json is a holdout: name the run" in refused(*command, *pulls)
    assert run.labels == tuple(ARMS)


def test_a_holdout_that_ends_early_is_compared_and_one_with_a_withdrawn_arm_is_not(
    call, refused, folder, answer
):
    call(*START, "--budget", 2000, "--epsilon", 1, *SUMS)
    answer("run.json")
    for name, last in (("short.json", "end-phase"), ("gone.json", "withdraw")):
        call("holdout", name, "run.json", "arm 3", BENT, "arm 5", "--pulls", 200)
        table = pd.DataFrame({"total": 50 * means()[["arm 3", BENT, "arm 5"]], "count": 50})
        table.to_csv(folder / "rewards.csv", index_label="arm")
        assert call("tell", name, "rewards.csv")[0] == 0
        assert call(last, name, *(["arm 3"] if last == "withdraw" else []))[0] == 0
    code, out, _ = call("misfit", "run.json", "short.json", "--json")
    assert code == 0
    limits = {row["arm"]: row["limit"] for row in json.loads(out)["arms"]}
    run = dpbai.Session.resume(folder / "run.json")
    plan = linearity.holdout([3, 4, 5], pulls=50, epsilon=1)  # as private as 200 pulls were to be
    expected = linearity.limits(run.phases[0], plan)
    assert [limits[f"arm {arm}"] for arm in (3, 4, 5)] == pytest.approx(expected)
    answer("gone.json")
    assert "has an arm that was withdrawn, so it cannot be compared" in refused(
        "misfit", "run.json", "gone.json"
    )


def test_a_run_with_missing_rewards_in_phase_1_is_not_checked(call, done, refused, answer):
    call(*START, "--budget", 20_000, "--epsilon", 1, "--policy", "dp-bai")
    done("withdraw", "run.json", next(iter(dpbai.Session.resume("run.json").requests)))
    answer("run.json")
    assert "rewards of phase 1 are missing, because an arm was" in refused("misfit", "run.json")
    hold = ("holdout", "check.json", "run.json", BENT, "--pulls", 5)
    assert "biased, and cannot be compared" in refused(*hold)


def test_holdouts_are_read_also_where_a_run_has_nothing_to_compare(call, refused, answer):
    assert call(*START, "--budget", 400, "--epsilon", 1, "--policy", "baseline")[0] == 0
    answer("run.json")
    assert "nosuch.json" in refused("misfit", "run.json", "nosuch.json")
    assert "run.json is not a holdout" in refused("misfit", "run.json", "run.json")


def test_the_status_of_a_holdout_recommends_and_drops_no_arm(call, done, answer):
    call(*START, "--budget", 400, "--epsilon", 1, *SUMS)
    call("holdout", "check.json", "run.json", "arm 3", BENT, "arm 5", "--pulls", 20)
    done("withdraw", "check.json", BENT)
    for state in ("in play", "released"):
        arms = json.loads(done("status", "check.json", "--json"))["arms"]
        assert [row["state"] for row in arms] == [state, "withdrawn", state]
        if state == "in play":
            answer("check.json")


def test_the_table_of_a_check_overwrites_no_session(call, refused, folder):
    call(*START, "--budget", 400, "--epsilon", 1, *SUMS)
    assert call("holdout", "check.json", "run.json", BENT, "--pulls", 5)[0] == 0
    before = {name: (folder / name).read_bytes() for name in ("run.json", "check.json")}
    for arguments in (
        ("misfit", "run.json", "check.json", "-o", "check.json"),
        ("misfit", "run.json", "-o", "run.json"),
        ("holdout", "new.json", "run.json", BENT, "--pulls", 5, "-o", "run.json"),
    ):
        assert "would be overwritten" in refused(*arguments)
    assert before == {name: (folder / name).read_bytes() for name in before}


def test_an_arm_that_is_estimated_from_its_own_rewards_is_not_held_out(call, refused, folder):
    (folder / "run.json").unlink(missing_ok=True)
    call(*START, "--budget", 400, "--epsilon", 1, "--policy", "baseline")
    err = refused("holdout", "check.json", "run.json", BENT, "--pulls", 5)
    assert "phase 1 does not estimate the mean of arm 4 from the features" in err
    assert "phase 1 does not use the features" in err


def test_means_that_are_0_by_the_model_are_checked(call, done, folder):
    """Features that are 0 for all arms: no arm is pulled, and the run ends when it begins."""
    (folder / "zero.csv").write_text("arm,x\na,0\nb,0\nc,0\n")
    options = ("--budget", 400, "--epsilon", 1, "--noise", "numpy", "--policy", "dp-bai")
    assert call("start", "run.json", "zero.csv", *options)[0] == 0
    assert "out other arms with `dpbai holdout`, such as a, b, c" in done("misfit", "run.json")
    assert call("holdout", "check.json", "run.json", "a", "--pulls", 200)[0] == 0
    (folder / "rewards.csv").write_text("arm,total,count\na,100,200\n")
    done("tell", "check.json", "rewards.csv", "--seed", 1)
    found = json.loads(done("misfit", "run.json", "check.json", "--json"))
    assert found["found"] == ["a"]


def test_one_number_determines_no_mean_and_the_error_says_how_to_get_sums(refused, call, answer):
    """With features on a line, only the two ends can be the best."""
    assert call(*START, "--budget", 400, "--epsilon", 1, "--misfit", 0)[0] == 0
    said = " ".join(refused("holdout", "check.json", "run.json", BENT, "--pulls", 5).split())
    assert "phase 1 releases one number, which determines no mean" in said
    assert "with a positive --misfit, such as 0.001, it releases sums" in said
    answer("run.json")
    said = " ".join(call("recommend", "run.json")[1].split())
    assert "one number, which determines differences of means but no mean" in said
    assert "without an estimate" not in said


def test_arms_that_one_number_says_nothing_about_have_no_estimate(call, done, folder):
    """Arm off is not on the line through a and b. Estimates of the others differ as their means."""
    features = pd.DataFrame(
        [[0.9, 0.1], [0.1, 0.9], [0.7, 0.3], [0.3, 0.3]], index=["a", "b", "between", "off"]
    )
    features.to_csv(folder / "arms.csv", index_label="arm")
    assert call(*START, "--budget", 10**6, "--epsilon", 1, "--misfit", 0)[0] == 0
    done("next", "run.json", "-o", "pulls.csv")
    pulls = pd.read_csv(folder / "pulls.csv", index_col="arm")["pulls"]
    truth = features @ [0.5, 0.3]
    table = pd.DataFrame({"total": truth[pulls.index] * pulls, "count": pulls}).round(6)
    table.to_csv(folder / "rewards.csv", index_label="arm")
    done("tell", "run.json", "rewards.csv", "--seed", 1)
    out = done("recommend", "run.json", "-o", "estimates.csv")
    assert "It says nothing about the arms without an estimate." in " ".join(out.split())
    estimates = pd.read_csv(folder / "estimates.csv", index_col="arm")
    assert estimates.index.tolist() == ["a", "between", "b", "off"]
    assert estimates.loc["off", ["estimate", "noise"]].isna().all()
    for arm in ("between", "b"):
        lead = estimates.loc["a", "estimate"] - estimates.loc[arm, "estimate"]
        assert lead == pytest.approx(truth["a"] - truth[arm], abs=1e-4)
        assert estimates.loc[arm, "noise"] > 0
    rows = json.loads(done("status", "run.json", "--json"))["arms"]
    assert [row["estimate"] is None for row in rows] == [False, False, False, True]


@pytest.mark.parametrize("options", [(), ("--misfit", "inf"), ("--one-hot",)])
def test_the_difference_of_two_arms_is_not_taken_for_a_mean(options, call, done, refused, folder):
    """Estimates are right up to a constant; as means they would wrongly contradict linearity."""
    (folder / "a2.csv").write_text("arm,x\na,0.1\nb,0.9\n")
    start = ("start", "run.json", "a2.csv", "--budget", 400, "--epsilon", 1, "--noise", "numpy")
    assert call(*start, *options)[0] == 0
    said = refused("holdout", "check.json", "run.json", "a", "--pulls", 200)
    assert "phase 1 does not estimate the mean of a from the features" in said
    assert "needs no such check" in said
    assert not (folder / "check.json").exists()
    (folder / "rewards.csv").write_text("arm,total,count\na,20,200\nb,180,200\n")
    done("tell", "run.json", "rewards.csv", "--seed", 1)
    run = dpbai.Session.resume(folder / "run.json")
    assert run.phases[0].coordinates == 1
    # A holdout as version 0.2 made it.
    check = dpbai.Session(
        linearity.Holdout([[0.1]], budget=200, epsilon=1),
        noise=dpbai.NumpyNoise(1),
        path=folder / "check.json",
        labels=["a"],
    )
    check.record_sums({"a": (20, 200)})
    said = " ".join(done("misfit", "run.json", "check.json").split())
    assert "The means are not linear" not in said
    assert "There is nothing to compare with what phase 1 estimated" in said
    assert json.loads(done("misfit", "run.json", "check.json", "--json"))["found"] == []


# What commands say about the model.


@pytest.mark.parametrize(
    ("options", "model"),
    [
        ((), "means are linear in the features, up to deviations of about 0.04"),
        (("--misfit", 0), "means are exactly linear in the features"),
        (("--misfit", "inf"), "none. The features are ignored"),
        (("--one-hot",), "none. The features allow all means"),
        (("--policy", "baseline"), "none. Each arm is estimated from its own rewards"),
        (("--policy", "dp-bai"), "means are exactly linear"),
        (("--policy", "dp-bai", "--categorical", "x"), "phase 1 pulls every arm, as baseline does"),
    ],
)
def test_plan_start_and_simulate_say_what_they_assume_about_means(options, model, call, folder):
    table = pd.read_csv(folder / "arms.csv")
    table["x"] = [0, 0, 1, 1, 2, 2, 3, 3] if "--categorical" in options else table["x"]
    table["y"] = np.arange(8) % 2 if "--categorical" in options else 0 * table["one"]
    table.drop(columns="y" if "--categorical" not in options else []).to_csv(
        folder / "arms.csv", index=False
    )
    given = ("arms.csv", "--budget", 60, "--epsilon", 1, *options)
    for command in (
        ("plan", *given),
        ("start", "run.json", *given, "--noise", "numpy"),
        ("simulate", *given, "--gap", 0.01, "--trials", 40),
    ):
        code, out, _ = call(*command)
        assert code == 0
        assert model in " ".join(out.split())
    assert "If means deviate from those in the table by about" in out


def test_a_run_that_ignores_features_has_no_notes_on_them(call, folder):
    (folder / "arms.csv").write_text("arm,x,y\na,1,2\nb,-1,-2\nc,3,6\n")
    given = ("plan", "arms.csv", "--budget", 60, "--epsilon", 1)
    code, out, _ = call(*given)
    assert (code, "with --intercept" in out, "column y is" in out) == (0, True, True)
    code, out, _ = call(*given, "--misfit", "inf")
    assert (code, "Note:" in out) == (0, False)


def test_with_two_arms_and_a_misfit_the_features_are_ignored_and_plan_says_so(done, folder):
    printed = []
    for table in ("a,1\nb,3\n", "a,5\nb,0.2\n"):
        (folder / "arms.csv").write_text(f"arm,x\n{table}")
        given = ("arms.csv", "--budget", 200, "--epsilon", 1)
        printed.append(done("plan", *given, "--misfit", 0.001))
        assert "Model: none. The features are ignored.\n" in printed[-1]
        assert "Note:" not in printed[-1]
        linear = done("plan", *given, "--misfit", 0)
        assert "Model: means are exactly linear" in linear
        assert "Note:" in linear
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    ("options", "way"),
    [
        (("--policy", "baseline"), "This run does not rely on linear means."),
        (("--misfit", "inf"), "This run does not rely on linear means."),
        (("--misfit", 0.02), "This run allows for deviations of about 0.02"),
    ],
)
def test_the_remedy_for_nonlinear_means_depends_on_the_policy(options, way, call, done, answer):
    call(*START, "--budget", 100_000, "--epsilon", 1, *options)
    while "is finished" not in done("status", "run.json"):
        answer("run.json", 0.4)
    said = " ".join(done("recommend", "run.json").split())
    assert "The releases do not fit means that are linear in the features" in said
    assert way in said


@pytest.mark.parametrize("options", [("--misfit", 0), ("--policy", "baseline"), ("--misfit", 0.03)])
def test_json_has_the_fit_that_the_text_states(options, call, done, folder, answer):
    """Both recommend and misfit give the p-value and the power of the library."""
    call(*START, "--budget", 20_000, "--epsilon", 1, *options)
    while "is finished" not in done("status", "run.json"):
        answer("run.json", 0.4)
    run = dpbai.Session.resume(folder / "run.json")
    size = 0.03 if 0.03 in options else dpbai.DPDesign(FEATURES, budget=20_000, epsilon=1).misfit
    released = [value for phase in run.released for value in phase.statistic]
    fit = linearity.fit(run.phases, released, FEATURES, misfit=size)
    for command in ("recommend", "misfit"):
        assert json.loads(done(command, "run.json", "--json"))["fit"] == (fit and vars(fit))
        said = " ".join(done(command, "run.json").split())
        power = (
            f"deviate by {size:g} of the reward range, this test detects it in {fit.power:.0%}"
            if fit
            else ""
        )
        assert power.replace("%", " %") in said
    assert (fit is None) == (options == ("--misfit", 0))


@pytest.mark.parametrize(("budget", "size"), [(60, 0.04), (4000, 0.06)])
def test_an_interval_without_a_misfit_is_also_given_for_the_usual_one(budget, size, done, folder):
    """The usual misfit is that of DPDesign with these pulls; the estimate uses other arms."""
    angles = np.arange(8) * 0.8
    features = np.column_stack([np.ones(8), np.cos(angles), np.sin(angles)])
    policy = dpbai.DPDesign(features, budget=budget, epsilon=9, phases=1, misfit=0)
    session = dpbai.Session(policy, noise=dpbai.NumpyNoise(1), path=folder / "run.json")
    truth = 0.5 + 0.3 * np.cos(angles - angles[2])
    session.record_sums({arm: (truth[arm] * n, n) for arm, n in session.requests.items()})
    off = session.interval(misfit=size)
    assert off.deviations
    said = " ".join(done("recommend", "run.json").split())
    assert (
        f"If means deviate from linear ones by about {size} of the reward range, the interval is "
        f"{off.low:.4g} to {off.high:.4g}." in said
    )
    assert dpbai.DPDesign(features, budget=budget, epsilon=9).misfit == size


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("epsilon", ["inf", 1])
def test_a_holdout_without_noise_says_that_it_is_not_private(epsilon, call):
    assert call(*START, "--budget", 400, "--epsilon", 1, *SUMS)[0] == 0
    hold = ("holdout", "check.json", "run.json", BENT, "--pulls", 5, "--epsilon", epsilon)
    code, out, _ = call(*hold)
    assert (code, "Note: a phase has no noise, so the run is not private.\n" in out) == (
        0, epsilon == "inf",
    )  # fmt: skip


def test_budget_and_epsilon_state_the_success_for_nonlinear_means(call, folder):
    (folder / "arms.csv").write_text("arm,one,x\na,1,0\nb,1,1\nc,1,2\nd,1,3\ne,1,4\n")
    assumed = ("--gap", 0.05, "--policies", "dp-bai", "--success", 0.8, "--trials", 200)
    for command, more in (("budget", ("--epsilons", 2)), ("epsilon", ("--budgets", 3000))):
        code, out, _ = call(command, "arms.csv", *assumed, *more)
        said = " ".join(out.split())
        assert code == 0
        assert "Model of dp-bai: means are exactly linear in the features." in said
        off = re.search(r"by about 0.04 of the reward range, .*: dp-bai (\S+) at", said)
        assert float(off[1]) < 0.7


def test_policies_are_compared_for_the_same_deviations(done, folder):
    """Those of --misfit, which applies to one of them; means are clipped to the reward range."""
    pd.Series([1.0, 0, 0, 0, 0, 0, 0, 0], ARMS, name="mean").to_csv(
        folder / "means.csv", index_label="arm"
    )
    policies = ("--policies", "dp-design", "baseline", "--misfit", 0.02)
    given = ("arms.csv", "--means", "means.csv", "--success", 0.6, "--trials", 20, *policies)
    said = " ".join(done("budget", *given, "--epsilons", 2).split())
    assert "If they deviate from these by about 0.02 of the reward range" in said


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("budget", "epsilon", "misfit"), [(60, 1, 0.04), (4000, 2, 0.06)])
def test_plan_and_simulate_use_the_misfit_that_the_policy_expects(budget, epsilon, misfit, done):
    plan = dpbai.DPDesign(FEATURES, budget=budget, epsilon=epsilon)
    assert plan.misfit == misfit
    given = ("arms.csv", "--gap", 0.02, "--reward-range", 0, 10, "--budget", budget)
    for more, off in (((), misfit), (("--misfit", 0.05), 0.05), (("--misfit", 0), misfit)):
        for command in ("plan", "simulate"):
            out = done(command, *given, "--epsilon", epsilon, *more, "--trials", 20)
            assert f"by about {10 * off:g}, the best arm" in " ".join(out.split())


# Intervals.


def test_an_interval_allows_for_deviations_from_linear_means():
    """By hand: the weights of other means in the estimate, times the largest of 8 deviations."""
    policy = dpbai.DPDesign(FEATURES, budget=900, epsilon=1, phases=1, misfit=0)
    phase = policy.phase(1, range(8))
    weights = np.zeros(8)
    weights[list(phase.pulled)] = phase.decoder[6] @ phase.release
    weights[6] -= 1
    quantile = -special.ndtri((1 - 0.9) / 3 / 16)
    *_, found = interval.half_widths([phase], [phase.pulls], FEATURES, 6, 0.9, 0.05)
    assert found == pytest.approx(0.05 * quantile * np.abs(weights).sum())
    assert interval.half_widths([phase], [phase.pulls], FEATURES, 6, 0.9)[2] == 0
    own = linearity.holdout(range(8), pulls=10, epsilon=1)
    assert interval.half_widths([own], [own.pulls], FEATURES, 6, 0.9, np.inf)[2] == 0


@pytest.mark.parametrize("misfit", [0.0, 0.1])
def test_for_nonlinear_means_the_interval_contains_the_mean_if_it_allows_for_a_misfit(misfit):
    """60 runs at 90 %, with negligible noise and sampling: P(fewer than 36 hits) < 1e-8."""
    angles = np.arange(8) * 2.4
    features = np.column_stack([np.ones(8), np.cos(angles), np.sin(angles)])
    policy = dpbai.DPDesign(features, budget=40_000_000, epsilon=1, phases=1, misfit=0)
    rng, hits = np.random.default_rng(2), 0
    for seed in range(60):
        session = dpbai.Session(policy, noise=dpbai.NumpyNoise(seed))
        truth = 0.4 + rng.normal(scale=0.1, size=8).clip(-0.4, 0.4)
        session.record_sums({arm: (truth[arm] * n, n) for arm, n in session.requests.items()})
        found = session.interval(0.9, misfit=misfit)
        hits += found.low <= truth[session.recommendation] <= found.high
    assert (hits >= 36) if misfit else (hits <= 30)
