"""Studies: one row for each cell of the grid, with its own random stream in any process."""

import math
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from oracles import synthetic

import dpbai
from dpbai import simulate

study = import_module("dpbai.study")

POLICIES = {"DP-BAI": dpbai.DPBAI, "OD-LinBAI": dpbai.ODLinBAI, "DP-OD": dpbai.DPOD}
BUDGETS = [50, 100]
EPSILONS = [0.5, 1.0, 2.0]


def table(**changes):
    arguments = {"budgets": BUDGETS, "epsilons": EPSILONS, "trials": 100, "seed": 0}
    return dpbai.study(POLICIES, synthetic(), **(arguments | changes))


def test_rows_are_the_grid_in_order():
    rows = table()
    private = [(budget, epsilon) for budget in BUDGETS for epsilon in EPSILONS]
    assert rows.columns.tolist() == [
        "policy", "budget", "epsilon", "trials", "successes", "success_rate", "low", "high",
        "pulls", "regret", "within",
    ]  # fmt: skip
    assert rows["policy"].tolist() == ["DP-BAI"] * 6 + ["OD-LinBAI"] * 2 + ["DP-OD"] * 6
    assert rows["budget"].tolist() == [b for b, _ in private] + BUDGETS + [b for b, _ in private]
    assert np.isinf(rows["epsilon"]).tolist() == [False] * 6 + [True] * 2 + [False] * 6
    assert rows["epsilon"][:6].tolist() == [e for _, e in private]
    assert (rows["trials"] == 100).all()
    assert (rows["success_rate"] == rows["successes"] / 100).all()
    assert (rows["low"] <= rows["success_rate"]).all()
    assert (rows["success_rate"] <= rows["high"]).all()
    assert (rows["pulls"] <= rows["budget"]).all()


def test_each_cell_is_the_simulation_with_its_spawned_seed():
    seeds = np.random.SeedSequence(0).spawn(14)
    rows = table()
    for number, (epsilon, budget) in {0: (0.5, 50), 5: (2.0, 100)}.items():
        policy = dpbai.DPBAI(synthetic().features, budget=budget, epsilon=epsilon)
        alone = dpbai.simulate(policy, synthetic(), trials=100, seed=seeds[number])
        row = rows.iloc[number]
        assert (row["successes"], row["pulls"]) == (alone.successes, alone.pulls)
        assert (row["low"], row["high"]) == alone.interval(0.95)


def test_any_number_of_worker_processes_gives_the_same_table():
    """A worker that inherited the parent's stream would repeat its draws."""
    serial = table()
    context = get_context("forkserver")
    context.set_forkserver_preload(["dpbai"])
    for workers in (1, 3):
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            pd.testing.assert_frame_equal(table(executor=pool), serial)


def test_cells_never_share_a_stream(monkeypatch):
    seeds = []

    def spy(policy, instance, *, trials, seed):
        seeds.append(seed)
        return simulate(policy, instance, trials=trials, seed=seed)

    monkeypatch.setattr(study, "simulate", spy)
    table()
    table(seed=1)
    firsts = {tuple(np.random.default_rng(seed).integers(2**63, size=2)) for seed in seeds}
    assert len(seeds) == len(firsts) == 28


def test_equal_cells_are_independent():
    """The same policy under 40 names: with shared streams, all rows would be equal."""
    same = {f"copy {i}": dpbai.DPBAI for i in range(40)}
    rows = dpbai.study(same, synthetic(), budgets=[50], epsilons=[0.5], trials=1000, seed=0)
    rates = rows["success_rate"]
    assert rates.nunique() > 10
    # 39 times a sample variance over p(1-p)/n is chi-square; 120 has probability 1e-9.
    assert 39 * rates.var() / (rates.mean() * (1 - rates.mean()) / 1000) < 120


def test_same_seed_same_table():
    pd.testing.assert_frame_equal(table(seed=7), table(seed=7))
    pd.testing.assert_frame_equal(
        table(seed=np.random.default_rng(3)), table(seed=np.random.default_rng(3))
    )
    assert not table(seed=7).equals(table(seed=8))


def test_makers_may_be_partial():
    rows = dpbai.study(
        {"gauss": partial(dpbai.DPBAIGauss, delta=1e-3), "strict": partial(dpbai.DPOD, norm="l1")},
        synthetic(),
        budgets=[60],
        epsilons=[0.5, math.inf],
        trials=50,
    )
    assert rows["policy"].tolist() == ["gauss", "gauss", "strict", "strict"]


def test_level_widens_the_intervals():
    narrow, wide = table(level=0.5), table(level=0.999)
    assert (wide["low"] < narrow["low"]).all()
    assert (wide["high"] > narrow["high"]).all()
    assert (wide["successes"] == narrow["successes"]).all()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"trials": 0}, "trials must be at least 1"),
        ({"level": 1.0}, "level must lie strictly between 0 and 1"),
        ({"budgets": []}, "must not be empty"),
        ({"budgets": [100, 2]}, "budget must be at least"),
        ({"epsilons": [1.0, -1.0]}, "epsilon must be positive"),
        ({"within": -0.1}, "within must"),
    ],
)
def test_a_bad_cell_is_an_error_before_anything_is_run(changes, match, monkeypatch):
    def never(*_, **__):
        raise AssertionError("a cell was run")

    monkeypatch.setattr(study, "simulate", never)
    with pytest.raises(ValueError, match=match):
        table(**changes)


def test_progress_bar_counts_cells(capsys):
    table(progress=True)
    assert "14/14" in capsys.readouterr().err
    table()
    assert capsys.readouterr().err == ""


def with_options(features, **options):
    return dpbai.DPBAI(features, **options)


@pytest.mark.parametrize(
    "maker",
    [
        with_options,
        partial(with_options, convention="proof"),
        lambda features, **options: dpbai.DPBAI(features, **options),
        partial(dpbai.DPBAI, epsilon=9.0),
        partial(partial(dpbai.DPBAI, convention="proof"), budget_rule="strict"),
    ],
)
def test_a_maker_that_takes_any_option_is_given_epsilon(maker):
    """Otherwise it would run without epsilon, or with one epsilon in all cells."""
    instance = dpbai.synthetic()
    rows = dpbai.study({"one": maker}, instance, budgets=[100, 200], epsilons=[0.5, 2.0], trials=5)
    assert list(rows["epsilon"]) == [0.5, 2.0] * 2


def test_a_path_that_is_a_directory_is_refused_before_anything_is_run(tmp_path):
    with pytest.raises(ValueError, match="path must be a file"):
        dpbai.study({"one": dpbai.DPBAI}, dpbai.synthetic(), budgets=[100], epsilons=[0.5],
                    trials=5, path=tmp_path)  # fmt: skip
