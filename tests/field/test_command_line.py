"""The command line: whole runs in a fresh directory, and its errors."""

import errno
import io
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
from functools import partial
from importlib import metadata

import numpy as np
import pandas as pd
import pytest
from runs import requests_of, write_table

import dpbai
from dpbai.beyond import gaps, planning
from dpbai.field import cli
from dpbai.field.cli import arguments as choices
from dpbai.field.cli import experiments, sheets
from dpbai.field.cli import run as run_commands
from dpbai.plans import Stage

COMMANDS = [
    "plan", "start", "next", "tell", "status", "recommend", "simulate", "study", "budget",
]  # fmt: skip
LABELS = ["plain", "with space", 'with "quote"', "with, comma", "ünïcode", "-5"]
FEATURES = np.random.default_rng(2).uniform(0, 1, size=(6, 2)).round(2)


def write_arms(path, labels=LABELS, features=FEATURES):
    rows = ([label, *row] for label, row in zip(labels, features, strict=True))
    write_table(path, ["arm", *(f"x{i}" for i in range(features.shape[1]))], rows)


def write_rewards(path, rewards, header=("arm", "reward")):
    write_table(path, header, rewards)


@pytest.fixture
def folder(tmp_path):
    """A fresh directory with a table of arms."""
    write_arms(tmp_path / "arms.csv")
    return tmp_path


@pytest.fixture
def call(folder, call):  # noqa: ARG001
    """Runs a command in the directory with the table."""
    return call


START = ("start", "run.json", "arms.csv", "--budget", 120, "--epsilon", 1, "--policy", "dp-bai")


def leading(arm, gap):
    """Return the instance that --gap stands for if an arm is the best, or None."""
    means = gaps.closest(FEATURES, arm, gap)
    laws = [] if means is None else [dpbai.Bernoulli(mean) for mean in means.tolist()]
    return dpbai.Instance(FEATURES, rewards=laws) if laws else None


# The first run.


def test_from_two_files_to_a_recommendation_in_a_fresh_directory(done, folder):
    """All rewards of one arm are 1, all others 0. Noise reverses this with odds of e^-100."""
    write_arms(folder / "arms.csv", ["red", "green"], np.eye(2))

    options = ["--budget", 100, "--epsilon", 4]
    assert "epsilon = 4, delta = 0" in done("plan", "arms.csv", *options)
    assert "Phase 1 needs: red 50, green 50" in done("start", "run.json", "arms.csv", *options)
    steps = 0
    while asked := requests_of(done("next", "run.json")):
        rewards = [(arm, int(arm == "green")) for arm, pulls in asked.items() for _ in range(pulls)]
        write_rewards(folder / "rewards.csv", rewards)
        assert f"Recorded {len(rewards)} rewards of 2 arms." in done(
            "tell", "run.json", "rewards.csv"
        )
        steps += 1
    assert steps == 1
    # The last step runs in a process of its own, as all steps do for users.
    command = [sys.executable, "-m", "dpbai", "recommend", "run.json", "-o", "estimates.csv"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("Recommended: green\n")
    assert "Noise is drawn by OpenDP" in ended.stdout
    estimates = pd.read_csv(folder / "estimates.csv").set_index("arm")["estimate"]
    # With two arms, only their difference is released.
    assert estimates["green"] - estimates["red"] == pytest.approx(1, abs=0.5)


def test_the_console_script_and_the_module_are_one_command(done):
    done = subprocess.run(
        [sys.executable, "-m", "dpbai", "--version"], capture_output=True, text=True, check=True
    )
    (script,) = metadata.entry_points(group="console_scripts", name="dpbai")
    from dpbai import __main__ as module

    assert script.load() is module.main
    assert done.stdout == f"dpbai {dpbai.__version__}\n"


# Whole runs.


@pytest.mark.parametrize("policy", choices.POLICIES)
def test_a_run_by_commands_equals_the_run_of_a_session(policy, call, done, folder):
    """With the same rewards and the same noise, recorded in parts, as rewards or as sums."""
    options = ["--budget", 200, "--policy", policy]
    options += [] if policy == "od-linbai" else ["--epsilon", 1]
    options += ["--delta", 1e-5] if policy == "dp-bai-gauss" else []
    code, out, err = call("start", "run.json", "arms.csv", *options, "--noise", "numpy")
    assert code == 0
    assert "dpbai: note: NumPy noise is for simulation" in err
    given = cli.parser().parse_args(["plan", "arms.csv", *map(str, options)])
    made = choices.policy(given, FEATURES)
    with pytest.warns(dpbai.ReleaseWarning):
        session = dpbai.Session(made, noise=dpbai.NumpyNoise(5), labels=LABELS)
    rng = np.random.default_rng(0)
    while session.requests:
        code, out, _ = call("next", "run.json")
        assert requests_of(out) == session.requests
        batch = {arm: rng.random(pulls).round(3) for arm, pulls in session.requests.items()}
        session.record(batch)
        some = [(arm, reward) for arm, rewards in batch.items() for reward in rewards[::2]]
        rest = [
            (arm, math.fsum(rewards[1::2]), len(rewards[1::2]))
            for arm, rewards in batch.items()
            if len(rewards) > 1
        ]
        rng.shuffle(some)
        write_rewards(folder / "rewards.csv", some)
        done("tell", "run.json", "rewards.csv", "--seed", 5)
        if rest:
            write_rewards(folder / "sums.csv", rest, ("arm", "total", "count"))
            done("tell", "run.json", "sums.csv", "--seed", 5)
    out = done("recommend", "run.json", "-o", "estimates.csv")
    assert out.startswith(f"Recommended: {session.recommendation}\n")
    assert "Note: NumPy noise is for simulation" in out
    assert "Note: the noise comes from a fixed seed" in out
    assert str(session.certificate).splitlines()[0] in out
    table = pd.read_csv(folder / "estimates.csv", converters={"noise": float})
    assert set(table["arm"]) == set(LABELS)
    assert table["arm"][0] == session.recommendation
    assert table["phase"].is_monotonic_decreasing
    for arm, estimate in zip(table["arm"], table["estimate"], strict=True):
        assert estimate == pytest.approx(session.estimates[arm], abs=1e-12)
    assert dict(zip(table["arm"], table["noise"], strict=True)) == session.deviations


def test_status_shows_what_was_received_and_what_is_missing(call, done, folder):
    call(*START)
    asked = requests_of(call("next", "run.json")[1])
    arm = next(iter(asked))
    write_rewards(folder / "rewards.csv", [(arm, 0.5)] * 3)
    out = done("tell", "run.json", "rewards.csv")
    assert f"{arm} {asked[arm] - 3}" in out
    assert "None" not in done("status", "run.json", "-o", "status.csv")
    table = pd.read_csv("status.csv").set_index("arm")
    assert list(table.index) == LABELS
    assert table.loc[arm, "received"] == 3
    assert table.loc[arm, "missing"] == asked[arm] - 3
    assert (table["state"] == "in play").all()
    assert table["estimate"].isna().all()
    for other in set(LABELS) - set(asked):
        assert np.isnan(table.loc[other, "missing"])


def test_rewards_can_be_read_from_standard_input(call, done, monkeypatch):
    call(*START)
    arm, pulls = next(iter(requests_of(call("next", "run.json")[1]).items()))
    text = f"arm,total,count\n{arm},2.5,{pulls}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    out = done("tell", "run.json", "-")
    assert f"Recorded {pulls} rewards of 1 arm." in out


def test_files_as_spreadsheets_write_them_are_read(done, folder):
    """A byte order mark, carriage returns, blank lines, spaces after commas."""
    text = "\ufeffarm, x0, x1\r\n\r\na, 1, 0\r\nb , 0,1e0\r\n,,\r\n"
    (folder / "arms.csv").write_bytes(text.encode())
    out = done("start", "run.json", "arms.csv", "--budget", 20, "--epsilon", 1)
    assert "a 10, b 10" in out


# Plans.


@pytest.mark.parametrize("policy", ["dp-design", "dp-bai", "baseline", "dp-od"])
def test_plan_shows_what_the_policy_plans(policy, done, folder):
    write_arms(
        folder / "arms.csv", LABELS[:5], FEATURES[:5] @ np.random.default_rng(1).random((2, 4))
    )
    arguments = ["plan", "arms.csv", "--budget", "200", "--epsilon", "0.5", "--policy", policy]
    given = cli.parser().parse_args(arguments)
    made = choices.policy(given, run_commands.tables.read_arms(given).features)
    out = done(*arguments, "-o", "plan.csv")
    table = pd.read_csv("plan.csv", dtype=str)
    first = made.phase(1, range(5))
    assert table.loc[0, "pulled"] == str(len(first.pulled))
    assert table.loc[0, "pulls"] == str(first.cost)
    assert table.loc[0, "noise_deviation"] == f"{first.noise.standard_deviation:.4g}"
    assert f"{LABELS[first.pulled[0]]} {first.pulls[0]}" in out
    # All possible runs lie within the ranges.
    rng = np.random.default_rng(0)
    for _ in range(20):
        stage = Stage.first(made)  # it hands the phases before to a policy that remembers
        while not stage.ended:
            row = table.loc[len(stage.past)]
            low, _, high = row["pulls"].partition("..")
            assert int(low) <= stage.phase.cost <= int(high or low)
            assert len(stage.active) == int(row["arms"])
            kept = rng.choice(stage.active, stage.phase.keep, replace=False)
            stage = stage.then(tuple(sorted(kept.tolist())))
        assert len(stage.past) == len(table)


def test_a_plan_of_few_phases_counts_no_pull_twice(done, folder):
    """Twelve arms without structure: three phases, which spend the budget together."""
    write_arms(folder / "arms.csv", [f"arm {i}" for i in range(12)], np.eye(12))
    given = ("--budget", 600, "--epsilon", 1, "-o", "plan.csv")
    done("plan", "arms.csv", *given)
    table = pd.read_csv(folder / "plan.csv", dtype=str)
    assert len(table) == 3
    assert 580 < sum(int(pulls.rpartition("..")[2]) for pulls in table["pulls"]) <= 600


@pytest.mark.parametrize("arms", [2, 3])
def test_other_arms_are_mentioned_only_if_there_are_any(arms, done, folder):
    write_arms(folder / "arms.csv", [f"arm {i}" for i in range(arms)], np.eye(arms))
    said = done("plan", "arms.csv", "--budget", 90, "--epsilon", 1, "--gap", 0.2, "--trials", 100)
    assert said.count(" if it is ") == 2
    assert ("other arms" in said) == (arms == 3)


def test_a_plan_without_noise_says_that_it_is_not_private(call):
    code, out, _ = call("plan", "arms.csv", "--budget", 100, "--policy", "od-linbai")
    assert code == 0
    assert "is not private" in out


@pytest.mark.parametrize("epsilon", ["inf", 1])
def test_start_notes_that_a_run_without_noise_is_not_private(epsilon, call):
    code, out, _ = call("start", "run.json", "arms.csv", "--budget", 100, "--epsilon", epsilon)
    assert (code, "Note: a phase has no noise, so the run is not private." in out) == (
        0, epsilon == "inf",
    )  # fmt: skip


def test_the_expected_success_agrees_with_a_simulation(done):
    """Within 5 standard errors of a longer simulation (6e-7), for the hardest case."""
    out = done("plan", "arms.csv", "--budget", 300, "--epsilon", 1, "--gap", 0.1,
                          "--trials", 4000)  # fmt: skip
    found = r"it is found with probability (\S+) (?:\(.*?\) )?if it is (.*), and with"
    rate, name = re.search(found, " ".join(out.split())).groups()
    estimate, arm = float(rate), list(map(sheets.quoted, LABELS)).index(name)
    instance = leading(arm, 0.1)
    policy = dpbai.DPDesign(FEATURES, budget=300, epsilon=1)
    truth = dpbai.simulate(policy, instance, trials=100_000, seed=1).success_rate
    error = math.sqrt(truth * (1 - truth) * (1 / 4000 + 1 / 100_000))
    assert abs(estimate - truth) < 5 * error + 0.001


@pytest.mark.parametrize("name", choices.REWARDS)
def test_the_closest_instance_has_the_smallest_sum_of_gaps(name):
    """Against a fine grid of parameters."""
    law = choices.REWARDS[name]
    line = np.linspace(-2, 2, 401)
    means = np.array(np.meshgrid(line, line)).reshape(2, -1).T @ FEATURES.T
    allowed = ((means >= law.lowest) & (means <= law.highest)).all(axis=1)
    for arm in range(6):
        lead = means[:, [arm]] - np.delete(means, arm, axis=1)
        fits = allowed & (lead >= 0.08).all(axis=1)
        found = gaps.closest(FEATURES, arm, 0.08, law.lowest, law.highest)
        assert fits.any() <= (found is not None)
        if found is not None:
            assert found.argmax() == arm
            behind = found.max() - found
            assert np.sort(behind)[1] >= 0.08 - 1e-6
            assert behind.sum() <= lead[fits].sum(axis=1).min(initial=np.inf) + 1e-6
            theta = np.linalg.lstsq(FEATURES, found, rcond=None)[0]
            assert FEATURES @ theta == pytest.approx(found, abs=1e-6)


def test_no_means_exist_for_more_than_the_largest_lead():
    leads = [gaps.largest(FEATURES, arm) for arm in range(6)]
    for arm, lead in enumerate(leads):
        assert gaps.closest(FEATURES, arm, 1.001 * lead + 1e-6) is None
        assert lead == 0 or gaps.closest(FEATURES, arm, 0.999 * lead) is not None
    assert gaps.largest(np.zeros((3, 2)), 0) == gaps.largest(np.ones((3, 2)), 0) == 0


def test_a_gap_that_is_impossible_is_refused_with_the_largest_possible_one(refused, folder):
    (folder / "arms.csv").write_text("arm,x\nmiddle,1\nhigh,2\nlow,0.5\n")
    for more, said in (
        (("--gap", 0.9), "at most 0.5, got 0.9: with means that are linear in these features and "
         "lie in [0, 1], no arm can lead by more"),
        (("--gap", 0.9, "--best", "high"), "at most 0.5, got 0.9: with means that are linear in "
         "these features and lie in [0, 1], arm high cannot lead by more"),
        (("--gap", 3, "--reward-range", 1, 5), "at most 2, got 3: with means that are linear in "
         "these features and lie in [1, 5], no arm can lead by more"),
        (("--gap", 0.05, "--best", "middle"), "linear in these features and lie in [0, 1], arm "
         "middle cannot be ahead of all others: choose other features, or another arm with --best, "
         "or add a constant with --intercept"),
        (("--gap", 1e-17), "--gap must be at least 1e-06, a millionth of the reward range"),
        (("--gap", 3e-6, "--reward-range", 1, 5), "--gap must be at least 4e-06"),
    ):  # fmt: skip
        for command in (PLAN, ("simulate", *PLAN[1:])):
            err = refused(*command, *more)
            assert said in err
            assert "leads by" not in err


@pytest.mark.parametrize("gap", [1e-6, 1e-4, 0.3])
def test_means_for_a_tiny_gap_have_that_gap(gap):
    for arm in (0, 5):
        means = gaps.closest(np.c_[np.ones(6), FEATURES], arm, gap)
        if means is not None:
            assert np.sort(means[arm] - means)[1] == pytest.approx(gap, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bernoulli", [0.55, 0.45]), ("uniform", [0.5, 0.4]), ("beta", [0.55, 0.45])],
)
def test_if_the_gap_leaves_the_level_free_rewards_have_the_largest_variance(name, expected):
    """Free with orthogonal arms, and with a constant feature."""
    law = choices.REWARDS[name]
    for features in (np.eye(2), np.array([[1.0, 0.3], [1.0, 0.7]])):
        found = gaps.closest(features, 0, 0.1, law.lowest, law.highest)
        assert found == pytest.approx(expected, abs=1e-6)
    constant = np.c_[np.ones(6), FEATURES]
    highest = 0.54 if name != "uniform" else 0.5
    means = [gaps.closest(constant, arm, 0.08, law.lowest, law.highest) for arm in range(6)]
    assert 0 < sum(found is not None for found in means) < 6
    for arm, found in enumerate(means):
        assert found is None or found[arm] == pytest.approx(highest, abs=1e-6)


@pytest.mark.parametrize("units", [[1e9, 1e9], [1e-9, 1e-9], [1e12, 1e-12]])
def test_units_of_features_do_not_change_the_means_that_a_gap_stands_for(units):
    for arm in range(6):
        plain, scaled = (gaps.closest(table, arm, 0.08) for table in (FEATURES, FEATURES * units))
        assert (plain is None) == (scaled is None)
        assert plain is None or scaled == pytest.approx(plain, abs=1e-6)


def test_the_means_assumed_for_a_gap_are_printed(call, folder):
    write_arms(folder / "arms.csv", ["red", "green"], np.eye(2))
    printed = "Means assumed for --gap: red 0.55, green 0.45\n"
    options = ["--epsilon", 1, "--gap", 0.1, "--best", "red"]
    for command in ("plan", "simulate"):
        assert printed in call(command, "arms.csv", "--budget", 100, *options)[1]


# Studies.


def test_the_command_simulate_counts_what_the_function_counts(done, folder):
    means = [0.1, 0.2, 0.3, 0.4, 0.5, 0.9]
    rows = list(zip(LABELS, means, strict=True))
    write_rewards(folder / "means.csv", reversed(rows), ("arm", "mean"))
    out = done("simulate", "arms.csv", "--means", "means.csv", "--budget", 100,
                          "--epsilon", 1, "--policy", "baseline", "--trials", 300, "--seed", 4,
                          "-o", "counts.csv", "--figure", "counts.svg")  # fmt: skip
    instance = dpbai.Instance(FEATURES, rewards=[dpbai.Bernoulli(mean) for mean in means])
    policy = dpbai.Baseline(FEATURES, budget=100, epsilon=1)
    expected = dpbai.simulate(policy, instance, trials=300, seed=4)
    table = pd.read_csv("counts.csv")
    assert list(table["arm"]) == LABELS
    assert list(table["recommended"]) == expected.recommended.tolist()
    assert f"{expected.successes} of 300 runs" in out
    assert (folder / "counts.svg").read_text().startswith("<?xml")


def test_the_command_study_writes_the_table_of_the_function_and_resumes_it_in_a_pool(done, folder):
    arguments = [
        "study", "arms.csv", "--gap", 0.1, "--budgets", 60, 120, "--epsilons", 0.5, 2, "--policies",
        "dp-bai", "od-linbai", "dp-bai-gauss", "--delta", 1e-5, "--trials", 100, "--seed", 3,
        "--cells", "cells.jsonl", "-o", "table.csv",
    ]  # fmt: skip
    done(*arguments, "--figure", "figure.png")
    instances = [leading(arm, 0.1) for arm in range(6)]
    found = [instance for instance in instances if instance is not None]
    expected = dpbai.study(
        {
            "DP-BAI": dpbai.DPBAI,
            "OD-LinBAI": dpbai.ODLinBAI,
            "DP-BAI-Gauss": partial(dpbai.DPBAIGauss, delta=1e-5),
        },
        min(found, key=lambda instance: instance.gaps.sum()),
        budgets=[60, 120], epsilons=[0.5, 2], trials=100, seed=3,
    )  # fmt: skip
    pd.testing.assert_frame_equal(pd.read_csv("table.csv"), expected)
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    lines = (folder / "cells.jsonl").read_text().splitlines()
    assert len(lines) == 1 + len(expected)
    (folder / "cells.jsonl").write_text("\n".join(lines[:-2]) + "\n")
    first = (folder / "table.csv").read_bytes()
    done(*arguments, "--jobs", 2)
    assert (folder / "table.csv").read_bytes() == first


def test_budget_finds_the_smallest_budget_and_the_price_of_privacy(done, folder):
    options = ["--gap", 0.2, "--best", LABELS[1], "--success", 0.8, "--trials", 2000]
    out = done("budget", "arms.csv", *options, "--epsilons", 1, 0.5, "--policies",
                          "dp-bai", "-o", "budget.csv", "--figure", "budget.svg")  # fmt: skip
    instance = leading(1, 0.2)
    table = pd.read_csv("budget.csv")
    assert list(table["epsilon"]) == [math.inf, 1, 0.5]
    for row in table.itertuples():
        expected = dpbai.smallest_budget(
            partial(_dp_bai, row.epsilon), instance, error=1 - 0.8, trials=2000, seed=0
        )
        assert (row.budget, row.too_small) == (expected.budget, expected.too_small)
        assert row.price == row.budget / table["budget"][0]
        assert row.odds == pytest.approx(math.exp(row.epsilon))
        loss = dpbai.simulate(_dp_bai(row.epsilon, row.budget), instance, trials=1000).regret
        assert row.loss == pytest.approx(loss)
        assert any(line.split()[3:5] == [str(row.budget), str(row.too_small)]
                   for line in out.splitlines() if line.startswith("dp-bai"))  # fmt: skip
    assert "73.1 % at epsilon = 1" in out
    assert "62.2 % at epsilon = 0.5" in out
    assert "differ in one reward of one pull" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    assert (folder / "budget.svg").read_text().startswith("<?xml")


def test_budget_within_a_tolerance_is_smaller_and_compares_policies(done, folder):
    """The second arm is 0.02 below the best, and so counts as right."""
    write_arms(folder / "arms.csv", ["a", "b", "c"], np.eye(3))
    write_rewards(folder / "means.csv", [("a", 0.9), ("b", 0.88), ("c", 0.1)], ("arm", "mean"))
    out = done(
        "budget", "arms.csv", "--means", "means.csv", "--epsilon", 2, "--within", 0.05,
        "--policies", "dp-bai", "od-linbai", "--trials", 1000, "-o", "budget.csv",
    )  # fmt: skip
    assert "at most 0.05 below a" in out
    table = pd.read_csv("budget.csv")
    assert (table["budget"] < 100).all()
    assert table["epsilon"].tolist() == [math.inf, 2, math.inf]  # OD-LinBAI has none
    policy = dpbai.DPBAI(np.eye(3), budget=100, epsilon=2)
    laws = [dpbai.Bernoulli(mean) for mean in (0.9, 0.88, 0.1)]
    result = dpbai.simulate(policy, dpbai.Instance(np.eye(3), rewards=laws), trials=1000)
    assert result.success_rate < 0.9 < result.within(0.05)


def test_tied_best_means_are_simulated_and_named(done, folder):
    write_rewards(folder / "means.csv", zip(LABELS, [0.1, 0.2, 0.9, 0.3, 0.5, 0.9], strict=True),
                  ("arm", "mean"))  # fmt: skip
    out = done("simulate", "arms.csv", "--means", "means.csv", "--budget", 2000,
                          "--epsilon", 5, "--policy", "baseline", "--trials", 200,
                          "--within", 0.45)  # fmt: skip
    assert '"with \\"quote\\"" or -5, was recommended in 200 of 200 runs: 100 %' in " ".join(
        out.split()
    )
    assert "An arm at most 0.45 below it: 100 % of runs." in out
    assert "Mean loss of the answer, against the best mean: 0." in out


def _dp_bai(epsilon, budget):
    return dpbai.DPBAI(FEATURES, budget=budget, epsilon=epsilon)


# Help and errors.


def test_help_explains_each_command_and_the_columns_of_each_file(call):
    code, out, _ = call("--help")
    assert code == 0
    for command in COMMANDS:
        assert f"\n    {command}" in out
    for columns in ("arm,<feature>,<feature>", "arm,reward", "arm,total,count", "arm,mean"):
        assert columns in out
    for command in COMMANDS:
        code, out, _ = call(command, "--help")
        assert code == 0
        assert "CSV" in out
    unfolded = "".join(call("recommend", "--help")[1].split())
    assert "arm,estimate,noise,phase,state" in unfolded


PLAN = ("plan", "arms.csv", "--budget", 100, "--epsilon", 1)
MEANS = ("simulate", "arms.csv", "--budget", 100, "--epsilon", 1, "--means", "means.csv")
MISTAKES = [
    # (arguments, a file and its text, exit code, what is said)
    ((), None, 2, "COMMAND"),
    (("nonsense",), None, 2, "invalid choice: 'nonsense'"),
    (("plan",), None, 2, "required: arms.csv, --budget"),
    (("plan", "arms.csv", "--budget", "many", "--epsilon", 1), None, 2, "invalid int value"),
    (("plan", "arms.csv", "--budg", 100, "--epsilon", 1), None, 2, "required: --budget"),
    (("plan", "arms.csv", "--budget", 100), None, 2, "dp-design needs --epsilon, such as 1"),
    (("plan", "arms.csv", "--budget", 0, "--epsilon", 1), None, 2, "budget must be at least 1"),
    (("plan", "arms.csv", "--budget", 1, "--epsilon", 1), None, 2, "budget must be at least"),
    (("plan", "arms.csv", "--budget", 100, "--epsilon", 0), None, 2, "epsilon must be positive"),
    (("plan", "arms.csv", "--budget", 100, "--epsilon", "nan"), None, 2, "must not be NaN"),
    ((*PLAN, "--policy", "best"), None, 2, "invalid choice: 'best'"),
    ((*PLAN, "--policy", "dp-bai-gauss"), None, 2, "dp-bai-gauss needs --delta"),
    ((*PLAN, "--policy", "dp-bai-gauss", "--delta", 1), None, 2, "strictly between 0 and 1"),
    ((*PLAN, "--policy", "od-linbai"), None, 2, "--epsilon does not apply to od-linbai"),
    ((*PLAN, "--delta", 0.1), None, 2, "--delta applies to dp-bai-gauss only"),
    ((*PLAN, "--gap", 0), None, 2, "--gap: gap must be positive"),
    ((*PLAN, "--gap", 0.1, "--within", -1), None, 2, "--within: within must be at least 0"),
    ((*PLAN, "--gap", 0.1, "--seed", -1), None, 2, "--seed: seed must be a non-negative int"),
    ((*PLAN, "--best", "plain"), None, 2, "--best and --within can be used only with --gap"),
    ((*PLAN, "--gap", 0.1, "--reward-range", 5, 1), None, 2, "argument --reward-range: "),
    ((*PLAN, "--gap", 0.99), None, 2, "no arm can lead by more"),
    ((*PLAN, "--gap", 0.1, "--best", "nobody"), None, 2, "--best must be one of the arms"),
    ((*PLAN, "--gap", 0.1, "--trials", 0), None, 2, "trials must be at least 1"),
    (("plan", "none.csv", "--budget", 9, "--epsilon", 1), None, 2, "No such file"),
    (("plan", ".", "--budget", 9, "--epsilon", 1), None, 2, "a table must be a file, but . is"),
    (("status", "."), None, 2, "a session must be a file, but . is a directory"),
    ((*PLAN, "-o", "."), None, 2, "-o/--output: this must be a file, but . is a directory"),
    (
        (*PLAN, "-o", "none/plan.csv"),
        None,
        2,
        "-o/--output: 'none/plan.csv' cannot be written: there is no folder none",
    ),
    (PLAN, ("arms.csv", ""), 2, "a line of column names, then lines of values"),
    (PLAN, ("arms.csv", "a,b\n1,2\n"), 2, "no column arm; the columns are a, b; choose one with"),
    (PLAN, ("arms.csv", "arm\na\nb\n"), 2, "there must be features besides column arm"),
    (PLAN, ("arms.csv", "arm,x\n"), 2, "must be lines of values below the column names"),
    (PLAN, ("arms.csv", "arm,x\na,1\n"), 2, "features must have at least 2 rows"),
    (PLAN, ("arms.csv", "arm,x,x\na,1,2\nb,2,1\n"), 2, "distinct names"),
    (PLAN, ("arms.csv", "arm,x\na,1\na,2\n"), 2, "line 3: arm 'a' is already in line 2"),
    (PLAN, ("arms.csv", "arm,x\n,1\nb,2\n"), 2, "line 2: the arm has no name"),
    (PLAN, ("arms.csv", "arm,x\na,1\nb,two\n"), 2, "line 3: x of arm 'b' must be a number"),
    (PLAN, ("arms.csv", "arm,x\na,1\nb,nan\n"), 2, "line 3: x of arm 'b' must be a finite"),
    (PLAN, ("arms.csv", "arm,x\na,1\nb,1_0\n"), 2, "line 3: x of arm 'b' must be a finite"),
    (PLAN, ("arms.csv", "arm,x\na,1\nb,1,5\n"), 2, "line 3: there must be 2 values"),
    (PLAN, ("arms.csv", "arm,x\na,1\nb\n"), 2, "line 3: there must be 2 values"),
    (PLAN, ("arms.csv", "arm\na,1\n"), 2, "line 2: there must be 1 value\n"),
    (PLAN, ("arms.csv", 'arm,x\na,1\n"b,2\n'), 2, "not a CSV file"),
    (PLAN, ("arms.csv", b"arm,x\na,1\n\xff,2\n"), 2, "not text in UTF-8"),
    (MEANS, None, 2, "means.csv: No such file"),
    (MEANS, ("means.csv", "arm,mean\nplain,0.5\n"), 2, "a line, but 'with space' has none"),
    (
        MEANS,
        ("means.csv", "arm,mean\nplane,0.5\n"),
        2,
        "line 2: 'plane' is not one of the arms; did you mean plain?",
    ),
    ((*MEANS, "--best", "plain"), None, 2, "--best can be used only with --gap"),
    ((*MEANS, "--figure", "figure.gif"), None, 2, "--figure: must end in .png or .svg"),
    ((*MEANS, "--gap", 0.1), None, 2, "not allowed with argument --means"),
    (MEANS[:-2], None, 2, "one of the arguments --means --gap is required"),
    ((*START, "--noise", "numpy"), ("run.json", ""), 2, "run.json exists already"),
    (("next", "none.json"), None, 2, "does not exist"),
    (("next", "arms.csv"), None, 2, "is not a dpbai session"),
    (("status", "run.json"), ("run.json", '{"format": "dpbai session"}'), 2, "format"),
]


@pytest.mark.parametrize(("arguments", "file", "code", "said"), MISTAKES)
def test_a_mistake_ends_in_one_clear_line_and_an_exit_code(
    arguments, file, code, said, call, folder, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    if arguments[:1] == ("simulate",) and "--best" in arguments:
        write_rewards(folder / "means.csv", [(label, 0.5) for label in LABELS], ("arm", "mean"))
    if file:
        name, text = file
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    ended, out, err = call(*arguments)
    assert ended == code
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("dpbai")
    assert said in err


INSTANCE = ("--means", "means.csv", "--trials", 10)
SETTING = ("--budget", 120, "--epsilon", 1)
READ = {
    "plan": ("plan", "BAD", *SETTING),
    "start": ("start", "new.json", "BAD", *SETTING),
    "next": ("next", "BAD"),
    "tell": ("tell", "BAD", "rewards.csv"),
    "tell rewards": ("tell", "run.json", "BAD"),
    "status": ("status", "BAD"),
    "recommend": ("recommend", "BAD"),
    "simulate": ("simulate", "BAD", *SETTING, *INSTANCE),
    "simulate means": ("simulate", "arms.csv", *SETTING, "--means", "BAD"),
    "study": ("study", "BAD", "--budgets", 120, "--epsilons", 1, *INSTANCE),
    "study means": ("study", "arms.csv", "--budgets", 120, "--epsilons", 1, "--means", "BAD"),
    "study cells": (
        "study", "arms.csv", "--budgets", 120, "--epsilons", 1, *INSTANCE, "--cells", "BAD",
    ),
    "budget": ("budget", "BAD", "--epsilon", 1, *INSTANCE),
    "budget means": ("budget", "arms.csv", "--epsilon", 1, "--means", "BAD"),
}  # fmt: skip
WRITTEN = {
    "start": ("start", "BAD", "arms.csv", *SETTING),
    "plan": ("plan", "arms.csv", *SETTING, "-o", "BAD"),
    "next": ("next", "run.json", "-o", "BAD"),
    "status": ("status", "run.json", "-o", "BAD"),
    "recommend": ("recommend", "done.json", "-o", "BAD"),
    "simulate": ("simulate", "arms.csv", *SETTING, *INSTANCE, "-o", "BAD"),
    "simulate figure": ("simulate", "arms.csv", *SETTING, *INSTANCE, "--figure", "BAD.png"),
    "study": ("study", "arms.csv", "--budgets", 120, "--epsilons", 1, *INSTANCE, "-o", "BAD"),
}
NOT_THERE = ["none.csv", "none/none.csv", "arms.csv/none.csv", "x" * 300, "a\0b", ""]
NOT_SO = ["directory", "locked.csv", "binary.csv", "garbled.csv"]


@pytest.fixture
def bad_paths(call, folder):
    """A folder with the files that commands need, bad files of each kind, and unwritable paths."""
    means = [(label, 0.1 * i) for i, label in enumerate(LABELS, start=1)]
    write_rewards(folder / "means.csv", means, ("arm", "mean"))
    write_rewards(folder / "rewards.csv", [])
    for name in ("run.json", "done.json"):
        assert call("start", name, "arms.csv", *SETTING)[0] == 0
    session = dpbai.Session.resume("done.json")
    while session.requests:
        session.record({arm: [1.0] * n for arm, n in session.requests.items()})
    (folder / "directory").mkdir()
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 8)
    (folder / "garbled.csv").write_text('arm,"mean\n1,2,3')
    (folder / "locked.csv").write_text("arm,x\na,1\nb,2\n")


def lock(monkeypatch):
    """Refuse to open locked.csv, since file permissions do not stop the superuser."""
    opened = io.open

    def refuse(file, *arguments, **options):
        if "locked.csv" in str(file):
            raise PermissionError(errno.EACCES, "Permission denied", "locked.csv")
        return opened(file, *arguments, **options)

    monkeypatch.setattr(io, "open", refuse)


@pytest.mark.usefixtures("bad_paths")
def test_each_bad_path_gives_one_line_and_exit_code_2_in_each_command(call, monkeypatch):
    lock(monkeypatch)
    bad = [(READ, path) for path in (*NOT_THERE, *NOT_SO)]
    bad += [(WRITTEN, path) for path in ("none/none.csv", "arms.csv/none.csv", "x" * 300, "a\0b")]
    for commands, path in bad:
        for name, arguments in commands.items():
            if name == "study cells" and path in ("none.csv", ""):
                continue  # a file to make; and an option left empty is one left out
            code, _, err = call(*(str(word).replace("BAD", path) for word in arguments))
            assert (code, err.count("\n")) == (2, 1), (name, path, err)
            assert err.startswith("dpbai"), (name, path, err)
            assert "Errno" not in err, (name, path, err)


OVERWRITING = {
    **{name: words for name, words in WRITTEN.items() if name not in ("start", "simulate figure")},
    "budget": ("budget", "arms.csv", "--epsilon", 1, *INSTANCE, "-o", "BAD"),
    "study cells": (*WRITTEN["study"][:-2], "--cells", "BAD"),
    "simulate figure": (*WRITTEN["simulate"][:-2], "--figure", "BAD"),
}


@pytest.mark.usefixtures("bad_paths")
def test_no_command_overwrites_a_file_that_it_reads_by_any_name(call, folder):
    for name, arguments in OVERWRITING.items():
        words = list(map(str, arguments))
        for read in {"arms.csv", "means.csv", "run.json", "done.json"} & set(words):
            # A figure must end in .svg, so that it can only be a link.
            for target in ([] if "figure" in name else [read, f"./{read}"]) + [
                "link.svg",
                "hard.svg",
            ]:
                for made in ("link.svg", "hard.svg"):
                    (folder / made).unlink(missing_ok=True)
                (folder / "link.svg").symlink_to(read)
                (folder / "hard.svg").hardlink_to(folder / read)
                before = (folder / read).read_bytes()
                code, out, err = call(*(word.replace("BAD", target) for word in words))
                assert (code, out, err.count("\n")) == (2, "", 1), (name, target)
                assert "must name a file of its own" in err
                assert read in err
                assert (folder / read).read_bytes() == before, (name, target)
    for target in ("run.json.lock", "run.json.tmp"):
        assert call("next", "run.json", "-o", target)[0] == 2


@pytest.mark.usefixtures("bad_paths")
def test_no_command_writes_one_file_twice(refused, folder):
    study = [str(word) for word in WRITTEN["study"][:-2]]
    (folder / "new.svg").symlink_to("new.csv")
    for outputs in (("--cells", "c", "-o", "c"), ("-o", "new.csv", "--figure", "new.svg")):
        assert "must name a file of its own" in refused(*study, *outputs)
    assert not (folder / "c").exists()


def test_a_table_from_standard_input_is_not_overwritten(call, folder):
    before, kept = (folder / "arms.csv").read_bytes(), os.dup(0)
    try:
        with (folder / "arms.csv").open("rb") as table:
            os.dup2(table.fileno(), 0)  # as a shell does for <arms.csv
            code, _, err = call("plan", "-", *SETTING, "-o", "arms.csv")
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert (code, "-o/--output must name a file of its own" in err) == (2, True)
    assert (folder / "arms.csv").read_bytes() == before


def test_failures_that_the_user_cannot_correct_give_exit_code_1(call, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    def endless(*_, **__):
        raise RuntimeError("no design within tolerance")

    for failing in (full, endless):
        monkeypatch.setattr(dpbai, "certificate", failing)
        code, _, err = call(*PLAN)
        assert (code, err.count("\n")) == (1, 1)


def test_a_search_without_an_answer_ends_in_exit_code_1_and_says_what_to_do(call, monkeypatch):
    def in_vain(*_, **__):
        raise planning.SearchError("largest must be 0.050000000000000044")

    monkeypatch.setattr(experiments, "smallest_budget", in_vain)  # minutes for a tiny epsilon
    gap = ("--gap", 0.1, "--best", LABELS[1], "--policies", "dp-bai")
    for words, said in (
        (("budget", "arms.csv", *gap, "--epsilon", 1e-9), "no budget up to 1e+09 is enough for "
         "dp-bai at epsilon = inf: try a smaller --success"),
        (("epsilon", "arms.csv", *gap, "--budget", 9), "9 pulls are not enough for dp-bai at any "
         "epsilon: try a smaller --success"),
    ):  # fmt: skip
        code, _, err = call(*words, "--trials", 200)
        assert (code, err.count("\n")) == (1, 1)
        assert said in err
        assert "00000" not in err


def test_a_search_with_some_results_shows_and_writes_these_and_names_the_rest(
    call, folder, monkeypatch
):
    search = experiments.smallest_budget

    def searched(made, *more, **options):
        if made(1000).epsilon < 1e-6:  # which would take minutes
            raise planning.SearchError
        return search(made, *more, **options)

    monkeypatch.setattr(experiments, "smallest_budget", searched)
    means = zip(LABELS, np.linspace(0.1, 0.6, 6), strict=True)
    write_rewards(folder / "means.csv", means, ("arm", "mean"))
    given = ("arms.csv", "--means", "means.csv", "--policies", "baseline", "-o", "found.csv")
    code, out, err = call("epsilon", *given, "--budgets", 1, 9, 4000)
    assert (code, err.count("\n")) == (1, 1)
    assert "1 pull is not enough for baseline at any epsilon; 9 pulls are not enough" in err
    assert pd.read_csv("found.csv")["budget"].tolist() == [4000]
    assert "\nbaseline   4000" in out
    code, out, err = call("budget", *given, "--epsilons", 1, 1e-8, 1e-9)
    assert (code, err.count("\n")) == (1, 1)
    assert "no budget up to 1e+09 is enough for baseline at epsilon = 1e-08 or less: try" in err
    assert "--within or --trials" in err
    assert pd.read_csv("found.csv")["epsilon"].tolist() == [math.inf, 1]
    assert "What epsilon means" in out


def test_an_error_without_a_message_is_stated_by_its_name(call, monkeypatch):
    for error, said in ((MemoryError, "not enough memory"), (RuntimeError, "RuntimeError")):

        def failing(*_, error=error, **__):
            raise error

        monkeypatch.setattr(dpbai, "certificate", failing)
        code, _, err = call(*PLAN)
        assert (code, err.count("\n")) == (1, 1)
        assert said in err


def test_a_figure_that_cannot_be_drawn_is_refused_before_anything_is_computed(refused, monkeypatch):
    def never(*_, **__):
        raise AssertionError("a study was run")

    monkeypatch.setattr(experiments, "study", never)
    study = ("study", "arms.csv", "--gap", 0.1, "--budgets", 120, "--figure", "f.svg")
    for more, said in (
        (("--epsilons", 1, "--policies", "od-linbai"), "--figure needs a policy"),
        (("--epsilons", 1, "inf", "--along", "epsilon"), "needs finite --epsilons"),
    ):
        assert said in refused(*study, *more)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cannot be written: permission denied" in refused(*study, "--epsilons", 1)


def test_the_least_epsilon_for_a_budget_is_that_of_the_library(done, refused):
    words = ("epsilon", "arms.csv", "--gap", 0.2, "--best", LABELS[1], "--success", 0.8,
             "--trials", 300, "--budget", 200, 400, "-o", "epsilon.csv")  # fmt: skip
    out = done(*words, "--policies", "dp-bai", "baseline")
    table = pd.read_csv("epsilon.csv")
    assert list(zip(table["policy"], table["budget"], strict=True)) == [
        ("dp-bai", 200), ("baseline", 200), ("dp-bai", 400), ("baseline", 400),
    ]  # fmt: skip
    expected = dpbai.smallest_epsilon(
        lambda epsilon: _dp_bai(epsilon, 400), leading(1, 0.2), error=1 - 0.8, trials=300
    )
    row = table.iloc[2]
    found = row["epsilon"], row["too_small"]
    assert found == pytest.approx((expected.epsilon, expected.too_small), rel=1e-12)
    assert row["odds"] == pytest.approx(math.exp(expected.epsilon))
    assert f"at epsilon = {expected.epsilon:.4g}\n" in out
    assert "--policies must be private" in refused(*words, "--policies", "od-linbai")


def test_an_interrupt_before_a_command_has_begun_leaves_no_traceback(call, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "parser", interrupted)
    assert call(*PLAN) == (130, "", "dpbai: interrupted\n")


def interrupt(folder, ready, *command):
    """Run a command, send Ctrl-C to it and its workers when it is ready; return code and errors."""
    words = [sys.executable, "-c", ready, *map(str, command)]
    with subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        while process.stdout.readline() not in ("ready\n", ""):
            pass
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate()  # which waits until all who write there have gone
    return process.returncode, err


IMPORTING = """
import sys, time
class Slow:  # of the first import of dpbai.field.session: an import that takes its time
    def find_spec(self, name, *_):
        if name == "dpbai.field.session":
            try:
                print("ready", flush=True); time.sleep(60)
            except KeyboardInterrupt:
                raise ImportError("as NumPy makes of it") from None
sys.meta_path.insert(0, Slow())
from dpbai.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
COMPUTING = """
import importlib, sys
study = importlib.import_module("dpbai.study")
if __name__ == "__main__":
    added = study.CellFile.add
    study.CellFile.add = lambda *given: (added(*given), print('ready', flush=True))
    from dpbai.__main__ import main
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="Ctrl-C of a terminal is a signal to a group")
@pytest.mark.parametrize("when", [IMPORTING, COMPUTING], ids=["importing", "computing"])
def test_ctrl_c_ends_a_study_and_its_workers_at_once(when, folder):
    """The 600 cells would take minutes; the test ends when no process is left."""
    study = ("study", "arms.csv", "--gap", 0.1, "--budgets", *range(200, 800), "--epsilons", 1,
             "--policies", "dp-bai", "--trials", 50_000, "--jobs", 2, "--cells", "c")  # fmt: skip
    assert interrupt(folder, when, *study) == (130, "dpbai: interrupted\n")
    if when is COMPUTING:
        assert 1 < len((folder / "c").read_text().splitlines()) < 10


def test_means_outside_the_range_of_their_law_are_refused(refused, folder):
    rows = [(label, 0.1 * i) for i, label in enumerate(LABELS, start=1)]
    write_rewards(folder / "means.csv", rows, ("arm", "mean"))
    err = refused(*MEANS, "--rewards", "uniform")
    assert "mean of arm '-5' must lie in [0, 0.5] for uniform rewards, got 0.6" in err


def test_errors_of_the_session_give_exit_code_2(call, refused, folder):
    call(*START)
    err = refused("recommend", "run.json")
    assert "not finished: 118 rewards of phase 1 are missing" in err
    err = refused(*START)
    assert "exists already" in err
    while asked := requests_of(call("next", "run.json")[1]):
        write_rewards(folder / "sums.csv", [(arm, 0, n) for arm, n in asked.items()],
                      ("arm", "total", "count"))  # fmt: skip
        assert call("tell", "run.json", "sums.csv")[0] == 0
    err = refused("tell", "run.json", "sums.csv")
    assert "finished" in err
    data = json.loads((folder / "run.json").read_text())
    data["content"]["labels"].reverse()
    (folder / "run.json").write_text(json.dumps(data))
    err = refused("recommend", "run.json")
    assert "checksum does not fit" in err


def test_a_seed_is_for_rehearsals_only(call, refused, folder):
    call(*START)
    write_rewards(folder / "rewards.csv", [("plain", 0.5)])
    err = refused("tell", "run.json", "rewards.csv", "--seed", 1)
    assert "--seed is for runs that were started with --noise numpy" in err


def test_an_interrupted_command_and_a_closed_pipe_leave_no_traceback(call, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_commands.tables, "read_arms", interrupted)
    code, _, err = call(*PLAN)
    assert (code, err) == (130, "dpbai: interrupted\n")


def test_a_closed_pipe_is_not_an_error(tmp_path):
    write_arms(tmp_path / "arms.csv")
    command = [sys.executable, "-m", "dpbai", *map(str, PLAN)]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


# Invalid rewards.


SECRET = "0.7310585786300049"
BAD_REWARDS = [
    "arm,reward\nplain,1.0000001\n",
    "arm,reward\nplain,-0.1\n",
    "arm,reward\nplain,nan\n",
    "arm,reward\nplain,inf\n",
    "arm,reward\nplain,\n",
    f"arm,reward\nplain,{SECRET}x\n",
    f"arm,reward\nplain,{SECRET}\nplain,1e999\n",
    f"arm,reward\n{SECRET},plain\n",
    f"arm,reward\nplain,{SECRET},{SECRET}\n",
    f"arm,reward\nplain;{SECRET}\n",
    f"reward,arm\n{SECRET},plain\n",
    f"plain,{SECRET}\n",
    f"arm,total,count\nplain,{SECRET},0\n",
    f"arm,total,count\nplain,3,{SECRET}\n",
    f"arm,total,count\nplain,{SECRET},-1\n",
    "arm,total,count\nplain,3.1,3\n",
    "arm,total,count\nplain,1,1e1\n",
    "arm,total,count\nplain,1,\u0663\n",
    f"arm,reward\nnobody,{SECRET}\n",
    "arm,reward\n" + f"plain,{SECRET}\n" * 500,
    f'arm,reward\n"plain,{SECRET}\n',
    "",
    "arm,reward\n",
]


@pytest.mark.parametrize("text", BAD_REWARDS)
def test_a_file_with_invalid_rewards_is_refused_whole_and_never_quoted(text, call, refused, folder):
    call(*START)
    before = (folder / "run.json").read_bytes()
    (folder / "rewards.csv").write_text(text, encoding="utf-8")
    err = refused("tell", "run.json", "rewards.csv")
    assert "731" not in err
    assert (folder / "run.json").read_bytes() == before


@pytest.mark.parametrize("seed", range(8))
def test_none_of_two_hundred_malformed_files_is_accepted(seed, call, folder):
    """A valid file with one error in a random place; seeded, 25 at a time."""
    call(*START)
    before = (folder / "run.json").read_bytes()
    asked = requests_of(call("next", "run.json")[1])
    rng = random.Random(seed)
    for _ in range(25):
        rows = [[arm, repr(rng.random())] for arm in asked for _ in range(rng.randint(1, 3))]
        row = rng.choice(rows)
        kind = rng.randrange(6)
        if kind == 0:
            row[1] = rng.choice(["", "x", "nan", "-inf", "1.5", "-1e-9", "1,0", "0x1", "1_0", "½"])
        elif kind == 1:
            row[0] = rng.choice(["", "nobody", "PLAIN", row[1]])
        elif kind == 2:
            row.append(row[1])
        elif kind == 3:
            row.pop(rng.randrange(2))
        elif kind == 4:
            rows += [[row[0], "0.5"]] * asked[row[0]]
        header = ("arm", "reward") if kind < 5 else rng.choice([("arm",), ("arm", "rewards"), ()])
        write_rewards(folder / "rewards.csv", rows, header)
        code, out, err = call("tell", "run.json", "rewards.csv")
        assert (code, out, err.count("\n")) == (2, "", 1), rows
        secrets = [cell for row in rows for cell in row if cell.startswith("0.")]
        assert not any(secret in err for secret in secrets)
    assert (folder / "run.json").read_bytes() == before
