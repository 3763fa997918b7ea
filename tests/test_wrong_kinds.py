"""Every public name, one argument of a wrong kind at a time: an error that names the argument."""

from __future__ import annotations

import importlib
import inspect
import math
import re
import warnings
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from api_reference import locate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpbai
from dpbai import audits, beyond, lemmas, lower, noise, scaling, schedule, tails, upper
from dpbai.audits.pull import bernoulli_law, output_law
from dpbai.beyond import linearity
from dpbai.hardness import regime

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
INSTANCE = dpbai.Instance(X, [0.1, 0.2])
POLICY = dpbai.DPBAI(X, budget=9, epsilon=1.0)
PHASE = POLICY.phase(1, range(3))
PAIR = dpbai.DPBAI(np.eye(2), budget=4, epsilon=1.0)
PLAN = {"budget": 60, "epsilon": 1.0}

CALLS = {
    "DPBAI": (dpbai.DPBAI, {"features": X, "convention": "proof", "budget_rule": "strict", **PLAN}),
    "DPBAIGauss": (
        dpbai.DPBAIGauss, {"features": X, "delta": 0.1, "calibration": "analytic", **PLAN},
    ),
    "Baseline": (dpbai.Baseline, {"features": X, **PLAN}),
    "DPDesign": (dpbai.DPDesign, {"features": X, "phases": 2, **PLAN}),
    "private_design": (dpbai.private_design, {"vectors": X, "pulls": 9, "epsilon": 1.0}),
    "DPOD": (dpbai.DPOD, {"features": X, "norm": "l1", **PLAN}),
    "ODLinBAI": (dpbai.ODLinBAI, {"features": X, "budget": 60}),
    "DPBAI.phase": (POLICY.phase, {"index": 1, "active": (0, 1, 2)}),
    "ODLinBAI.phase": (dpbai.ODLinBAI(X, budget=60).phase, {"index": 1, "active": (0, 1, 2)}),
    "Phase": (
        dpbai.Phase,
        {
            "index": 1, "active": (0, 1), "pulled": (0, 1), "pulls": (2, 2),
            "noise": dpbai.Laplace(1.0), "keep": 1, "release_matrix": np.eye(2),
            "decoder_matrix": np.eye(2), "delta": 0.1,
        },
    ),
    "Schedule": (dpbai.Schedule, {"arms": 5, "dimension": 2, "budget": 60}),
    "Instance": (
        dpbai.Instance,
        {
            "features": X, "theta": [0.1, 0.2], "rewards": dpbai.Uniform, "bounded": True,
            "unique": True,
        },
    ),
    "synthetic": (dpbai.synthetic, {"omega": np.zeros(27), "seed": 0}),
    "two_armed": (dpbai.two_armed, {"x": 1.0, "y": 2.0, "gap": 0.1, "means": "printed"}),
    "hard_instances": (dpbai.hard_instances, {"arms": 4, "gamma1": 1e-4}),
    "Uniform": (dpbai.Uniform, {"mean": 0.4}),
    "Bernoulli": (dpbai.Bernoulli, {"mean": 0.4}),
    "Beta": (dpbai.Beta, {"mean": 0.4, "concentration": 2.0}),
    "Empirical": (dpbai.Empirical, {"values": [0.1, 0.2], "weights": [1.0, 2.0]}),
    "Laplace": (dpbai.Laplace, {"scale": 1.0}),
    "Gaussian": (dpbai.Gaussian, {"sigma": 1.0}),
    "NumpyNoise": (dpbai.NumpyNoise, {"seed": 0}),
    "max_det": (dpbai.max_det, {"vectors": X, "max_subsets": 9}),
    "g_optimal_design": (dpbai.g_optimal_design, {"vectors": X, "tolerance": 1e-6}),
    "simulate": (
        dpbai.simulate,
        {"policy": POLICY, "instance": INSTANCE, "trials": 2, "seed": 0, "executor": None},
    ),
    "study": (
        dpbai.study,
        {
            "policies": {"DP-BAI": dpbai.DPBAI}, "instance": INSTANCE, "budgets": [60],
            "epsilons": [1.0], "trials": 2, "seed": 0, "level": 0.9, "executor": None,
            "progress": False, "within": 0.1,
        },
    ),
    "exact_error": (
        dpbai.exact_error,
        {"policy": PAIR, "instance": dpbai.Instance(np.eye(2), [0.2, 0.4]), "rtol": 1e-3},
    ),
    "certificate": (
        dpbai.certificate,
        {"policy": POLICY, "neighbours": "reward", "group": 1, "reward_bound": 1.0, "limit": 9},
    ),
    "certify": (dpbai.certify, {"phases": [PHASE], "neighbours": "reward", "group": 1}),
    "exact_audit": (dpbai.exact_audit, {"policy": PAIR, "reward_bound": 1.0}),
    "monte_carlo_audit": (
        dpbai.monte_carlo_audit,
        {"policy": PAIR, "trials": 4, "seed": 0, "delta": 0.1, "level": 0.9, "run": None},
    ),
    "hardness": (dpbai.hardness, {"instance": INSTANCE, "epsilon": 1.0}),
    "upper_bound": (dpbai.upper_bound, {"policy": POLICY, "instance": INSTANCE}),
    "explicit_upper_bound": (dpbai.explicit_upper_bound, {"policy": POLICY, "instance": INSTANCE}),
    "Session": (
        partial(dpbai.Session, noise=dpbai.NumpyNoise(0)),
        {"policy": POLICY, "labels": ["a", "b", "c"]},
    ),
    "gauss_upper_bound": (
        dpbai.gauss_upper_bound,
        {"policy": dpbai.DPBAIGauss(X, delta=0.1, **PLAN), "instance": INSTANCE},
    ),
    "exact_success": (
        dpbai.exact_success,
        {"policy": PAIR, "instance": dpbai.Instance(np.eye(2), [0.2, 0.4]), "rtol": 1e-3},
    ),
    "pull_audit": (dpbai.pull_audit, {"policy": audits.PullByPull(PAIR), "neighbours": "reward"}),
    "smallest_budget": (
        dpbai.smallest_budget,
        {
            "make_policy": lambda budget: dpbai.DPBAI(np.eye(2), budget=budget, epsilon=1.0),
            "instance": dpbai.Instance(np.eye(2), [0.1, 0.5]), "error": 0.2, "largest": 400,
            "confidence": 0.9, "trials": 10, "seed": 0, "progress": False, "within": 0.0,
        },
    ),
    "smallest_epsilon": (
        dpbai.smallest_epsilon,
        {
            "make_policy": lambda epsilon: dpbai.DPBAI(np.eye(2), budget=90, epsilon=epsilon),
            "instance": dpbai.Instance(np.eye(2), [0.1, 0.5]), "error": 0.2, "largest": 400.0,
            "confidence": 0.9, "trials": 10, "seed": 0, "progress": False, "within": 0.0,
        },
    ),
    "Session.resume": (dpbai.Session.resume, {"path": "none.json"}),
}  # fmt: skip
HARDNESS = dpbai.hardness(INSTANCE, epsilon=1.0)
SCHEDULE = dpbai.Schedule(arms=5, dimension=2, budget=60)
LAWS = (dpbai.Uniform(0.4), dpbai.Bernoulli(0.4), dpbai.Beta(0.4), dpbai.Empirical([0.1, 0.2]))
RESULT = dpbai.simulate(POLICY, INSTANCE, trials=10)
with warnings.catch_warnings(action="ignore"):  # this noise is for rehearsals
    SESSION = dpbai.Session(POLICY, noise=dpbai.NumpyNoise(0))
STOPPED = audits.WinStay(arms=2, budget=2, epsilon=1.0)
LAW = bernoulli_law(STOPPED, [0.4, 0.6])
SECOND = dpbai.Phase(
    index=1, active=(0, 1, 2), pulled=(0, 1, 2), pulls=(3, 3, 3), noise=dpbai.Laplace(1.0), keep=1
)
BOUND = {"gap": 0.1, "count": 5}
CALLS |= {
    "linearity.holdout": (linearity.holdout, {"arms": (0, 1), "pulls": 2, "epsilon": 1.0}),
    "linearity.cannot_lead": (linearity.cannot_lead, {"features": X}),
    "linearity.fit": (
        linearity.fit,
        {
            "phases": [SECOND], "released": [0.1, 0.2, 0.3], "features": X[:3], "misfit": 0.1,
            "seed": 0,
        },
    ),
    "linearity.limits": (
        linearity.limits, {"first": PHASE, "second": SECOND, "level": 0.1, "candidates": 3},
    ),
    "linearity.misfit": (
        linearity.misfit,
        {
            "first": SECOND, "released": [0.1, 0.2, 0.3], "second": SECOND,
            "released_again": [0.1, 0.2, 0.3], "level": 0.1, "candidates": 3,
        },
    ),
    "lemmas.eliminations": (lemmas.eliminations, {"schedule": SCHEDULE, "rank": 2}),
    "lemmas.suboptimal_arm": (lemmas.suboptimal_arm, {"epsilon": 1.0, **BOUND}),
    "lemmas.suboptimal_arm_gauss": (lemmas.suboptimal_arm_gauss, {"sigma": 1.0, **BOUND}),
    "lemmas.first_stage_elimination": (
        lemmas.first_stage_elimination, {"epsilon": 1.0, "lam": 2.0, **BOUND},
    ),
    "lemmas.second_stage_elimination": (
        lemmas.second_stage_elimination, {"epsilon": 1.0, **BOUND},
    ),
    "hardness.regime": (
        regime, {"hard": HARDNESS, "dimension": 2, "budget": 9, "delta": 0.1},
    ),
    "DPHalving": (dpbai.DPHalving, {"features": X, **PLAN}),
    "beyond.joint_bound": (
        beyond.joint_bound, {"policy": POLICY, "instance": INSTANCE},
    ),
    "beyond.overtaken": (
        beyond.overtaken, {"gap": 0.1, "epsilon": 1.0, "pulls": 5, "arms": 3, "weight": 0.4},
    ),
    "lower.sharp_pri_constant": (lower.sharp_pri_constant, {"arms": 4}),
    "upper.theorem_bound": (upper.theorem_bound, {"policy": POLICY, "instance": INSTANCE}),
    "beyond.path_bound": (
        beyond.path_bound, {"policy": POLICY, "instance": INSTANCE, "limit": 100},
    ),
    "beyond.halving_bound": (
        dpbai.beyond.halving_bound,
        {"policy": dpbai.DPHalving(X, **PLAN), "instance": INSTANCE},
    ),
    "beyond.bernstein": (
        beyond.bernstein, {"deviation": 1.0, "variance": 1.0, "scale": 1.0},
    ),
    "tails.hoeffding": (tails.hoeffding, {"deviation": 1.0, "ranges": [1.0, 2.0]}),
    "tails.hoeffding_two_sided": (
        tails.hoeffding_two_sided, {"deviation": 1.0, "ranges": [1.0, 2.0]},
    ),
    "tails.SubExponential": (tails.SubExponential, {"tau": 1.0, "b": 1.0}),
    "tails.SubExponential.laplace": (tails.SubExponential.laplace, {"scale": 1.0}),
    "tails.SubExponential.combination": (
        tails.SubExponential.combination,
        {"coefficients": [1.0], "parts": [tails.SubExponential(1.0, 1.0)]},
    ),
    "tails.SubExponential.tail": (tails.SubExponential(1.0, 1.0).tail, {"deviation": 1.0}),
    "tails.laplace_sum": (tails.laplace_sum, {"coefficients": [1.0], "scale": 1.0}),
    "lower.lower_bound": (
        lower.lower_bound, {"instance": INSTANCE, "epsilon": 1.0, "budget": 9},
    ),
    "lower.lower_bound_bai": (lower.lower_bound_bai, {"instance": INSTANCE, "budget": 9}),
    "lower.lower_bound_valid_from": (lower.lower_bound_valid_from, {"arms": 4, "pri": 9.0}),
    "lower.change_of_measure": (
        lower.change_of_measure, {"epsilon": 1.0, "pulls": 2, "distance": 0.1},
    ),
    "lower.sharp_change_of_measure": (
        lower.sharp_change_of_measure, {"epsilon": 1.0, "pulls": 2, "distance": 0.1},
    ),
    "lower.case_thresholds": (lower.case_thresholds, {"beta": 0.5, "c": 1.0}),
    "audits.WinStay": (audits.WinStay, {"arms": 2, "budget": 2, "epsilon": 1.0}),
    "audits.EarlyStopping": (audits.EarlyStopping, {"policy": STOPPED, "n": 1, "arm": 0}),
    "audits.log_ratio": (audits.log_ratio, {"law": LAW, "other": LAW}),
    "pull.output_law": (
        output_law, {"policy": STOPPED, "table": [[0.1, 0.2]] * 2, "time_indexed": False},
    ),
    "pull.bernoulli_law": (bernoulli_law, {"policy": STOPPED, "means": [0.4, 0.6]}),
    "hard_gammas": (dpbai.instance.hard_gammas, {"arms": 4, "gamma1": 1e-4}),
    "schedule.dp_bai_collections": (schedule.dp_bai_collections, {"size": 5, "dimension": 2}),
    "schedule.baseline_collections": (schedule.baseline_collections, {"size": 5, "dimension": 2}),
    "schedule.pulls_max_det": (schedule.pulls_max_det, {"rank": 2, "size": 5}),
    "scaling.rank": (scaling.rank, {"vectors": X}),
    "scaling.span_coordinates": (scaling.span_coordinates, {"vectors": X}),
    "noise.gaussian_sigma": (
        noise.gaussian_sigma, {"epsilon": 1.0, "delta": 0.1, "calibration": "analytic"},
    ),
    "noise.gaussian_log_delta": (noise.gaussian_log_delta, {"epsilon": 1.0, "sigma": 1.0}),
    "Phase.loss": (PHASE.loss, {"reward_bound": 1.0}),
    "Simulation.interval": (RESULT.interval, {"level": 0.9, "method": "exact", "within": 0.1}),
    "Simulation.within": (RESULT.within, {"tolerance": 0.1}),
    "audits.run_on_table": (
        audits.run_on_table,
        {
            "policy": PAIR, "table": [[0.1] * 4] * 2, "trials": 2,
            "rng": np.random.default_rng(0),
        },
    ),
    "audits.log_survival": (
        audits.log_survival, {"phase": PHASE, "means": np.full((1, len(PHASE.pulled)), 0.1)},
    ),
    "audits.PullByPull": (audits.PullByPull, {"policy": PAIR}),
    "error_bounds": (
        dpbai.error_bounds,
        {"policy": PAIR, "instance": dpbai.Instance(np.eye(2), [0.2, 0.4]), "rtol": 1e-2},
    ),
    "session.ledger": (dpbai.field.session.ledger, {"sessions": [SESSION], "group": 1}),
    "session.release": (
        partial(dpbai.field.session.release, noise=dpbai.NumpyNoise(0)),
        {"phase": PAIR.phase(1, (0, 1)), "rewards": [[0.1], [0.2]]},
    ),
} | {
    f"{type(law).__name__}.sums": (
        partial(law.sums, rng=np.random.default_rng(0)), {"pulls": 2, "size": 2},
    )
    for law in LAWS
}  # fmt: skip
"""What to call, with arguments of which all are right."""

MADE_BY_THE_LIBRARY = {
    "Design",
    "ErrorBounds",
    "MaxDet",
    "PrivateDesign",
    "Simulation",
    "SmallestBudget",
}
WITHOUT_ARGUMENTS = {"NoNoise", "OpenDPNoise"}
NOT_CALLED = {
    "Policy",
    "ReleaseWarning",
    "SessionConflictError",
    "SessionError",
}  # a protocol, and what is raised

WRONG = {
    "None": None,
    "True": True,
    "a string": "text",
    "bytes": b"text",
    "an object": object(),
    "a class": int,
    "a function": len,
    "a complex number": 1j,
    "NaN": math.nan,
    "infinity": math.inf,
    "a negative number": -1,
    "a float": 1.5,
    "a fraction": Fraction(1, 3),
    "a huge fraction": Fraction(10**400),
    "a huge integer": 10**5000,
    "an empty list": [],
    "a list": [0.5, "a"],
    "ragged lists": [[1.0, 2.0], [3.0]],
    "lists that nest": [[[[1.0]]]],
    "a mapping": {"a": 1},
    "a set": {1, 2},
    "a 0-d array": np.array(0.5),
    "an array of objects": np.array([[None, 1], [2, 3]], dtype=object),
    "an array of strings": np.array([["1", "2"], ["3", "4"]]),
    "a complex array": np.array([[1j, 0], [0, 1]]),
    "an array of dates": np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"),
    "a masked array": np.ma.masked_equal([[1.0, 2.0], [3.0, 4.0]], 2.0),
    "NumPy's seeds of old": np.random.RandomState(0),
}


RIGHT_FOR_NOTHING = {"an object", "a complex number", "NumPy's seeds of old"}


def complaint(call, arguments, name, value):
    """Return what a call says against an argument, or None if it takes it."""
    try:
        call(**{**arguments, name: value})
    except (ValueError, TypeError) as error:
        return str(error)
    except (dpbai.SessionError, FileNotFoundError) as error:  # what a path leads to, if anything
        return f"path: {error}"
    return None


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
@pytest.mark.parametrize("called", CALLS)
def test_an_argument_of_a_wrong_kind_is_an_error_that_names_it(called, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, arguments = CALLS[called]
    bad = []
    for name in arguments:
        for kind, value in WRONG.items():
            try:
                said = complaint(call, arguments, name, value)
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            if said is None and kind in RIGHT_FOR_NOTHING:
                said = "nothing"
            # A wrong entry of `budgets` is told as a wrong budget.
            if said is not None and name.removesuffix("s") not in said:
                if name in ("make_policy", "run") and kind in ("a function", "a class"):
                    continue  # the right kind, and what it raises is its own
                bad.append((name, kind, said[:150]))
    assert not bad, "\n".join(map(str, bad))


ANYTHING = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.text(max_size=3), st.binary(max_size=3), st.integers(),
        st.floats(), st.complex_numbers(), st.fractions(), st.dates(),
    ),
    lambda entries: st.one_of(
        st.lists(entries, max_size=3), st.tuples(entries, entries),
        st.dictionaries(st.text(max_size=2), entries, max_size=2),
    ),
    max_leaves=6,
)  # fmt: skip
SLOW_OR_LARGE_FOR_SOME_RIGHT_VALUES = {
    "trials", "limit", "max_subsets", "budgets", "epsilons", "arms", "size",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
@pytest.mark.filterwarnings("ignore:the classic Gaussian calibration")
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_anything_as_an_argument_is_taken_or_is_an_error_that_names_it(data):
    called = data.draw(st.sampled_from(sorted(CALLS)))
    call, arguments = CALLS[called]
    name = data.draw(st.sampled_from(sorted(arguments)))
    value = data.draw(ANYTHING)
    if name in SLOW_OR_LARGE_FOR_SOME_RIGHT_VALUES and isinstance(value, int):
        value = -abs(value)
    said = complaint(call, arguments, name, value)
    assert said is None or name.removesuffix("s") in said


class HandingOn:
    """Hands on whatever it is asked for, but for some names."""

    def __init__(self, to, without=()):
        self._to, self._without = to, without

    def __getattr__(self, name):
        if name in self._without:
            raise AttributeError(name)
        return getattr(self._to, name)


PROTOCOLS = {
    "Policy": (POLICY, lambda policy: dpbai.certificate(policy), "features budget phase"),
    "RewardLaw": (
        LAWS[0],
        lambda law: dpbai.Instance(np.eye(2), rewards=[law, dpbai.Uniform(0.1)]),
        "mean support sums",
    ),
    "Noise": (
        dpbai.Laplace(1.0),
        lambda noise: dpbai.Phase(
            index=1, active=(0, 1), pulled=(0, 1), pulls=(1, 1), noise=noise, keep=1
        ),
        "sample loss delta_at characteristic_function standard_deviation",
    ),
    "PullPolicy": (
        STOPPED,
        lambda policy: audits.EarlyStopping(policy, n=1, arm=0),
        "arms budget next_arm recommend",
    ),
    "Mechanism": (
        dpbai.NumpyNoise(0),
        lambda mechanism: dpbai.certificate(POLICY, mechanism=mechanism),
        "name remarks loss add",
    ),
    "Mechanism of a session": (
        dpbai.NumpyNoise(0),
        lambda noise: dpbai.Session(POLICY, noise=noise),
        "name remarks loss add",
    ),
}
"""What has all that a protocol asks for, who checks it, and what that is."""


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_asks_for_its_members_no_matter_who_has_them(protocol):
    """Python 3.12 has `isinstance` look past `__getattr__`; a wrapper is right all the same."""
    right, check, members = PROTOCOLS[protocol]
    check(HandingOn(right))
    for member in members.split():
        with pytest.raises(TypeError, match=f"must be of type {protocol.split()[0]}"):
            check(HandingOn(right, without=(member,)))


HUGE = {"simulate": "trials", "study": "trials", "monte_carlo_audit": "trials",
        "smallest_budget": "trials", "smallest_epsilon": "trials",
        "audits.run_on_table": "trials"}  # fmt: skip


@pytest.mark.parametrize("called", HUGE)
def test_more_trials_than_any_machine_ends_are_refused_at_once(called):
    call, arguments = CALLS[called]
    with pytest.raises(ValueError, match="trials must be at most"):
        call(**{**arguments, HUGE[called]: 2**53})


def test_more_rewards_than_are_drawn_one_by_one_are_refused_at_once():
    with pytest.raises(ValueError, match="rewards must not be Beta for 1 sums of 9007199254740992"):
        dpbai.Beta(0.5).sums(2**53, 1, np.random.default_rng(0))


def test_every_public_function_of_the_reference_is_called_here():
    """All that book/api lists, but figures, protocols and what the library makes."""
    pages = (Path(__file__).parents[1] / "book" / "api").glob("*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in sorted(pages))
    names = set()
    for name in re.findall(r"^   (dpbai[\w.*]+)$", text, re.M):
        module = name.removesuffix(".*")
        if name.startswith("dpbai.field.figures"):
            continue
        if module == name:
            names.add(name)
        else:
            names |= {f"{module}.{entry}" for entry in public(importlib.import_module(module))}
    functions = {name for name in names if inspect.isfunction(locate(name))}
    assert len(functions) > 50
    calls = [call.func if isinstance(call, partial) else call for call, _ in CALLS.values()]
    called = {inspect.unwrap(call) for call in calls}
    missing = {name for name in functions if inspect.unwrap(locate(name)) not in called}
    assert missing == set()


def public(module):
    """Return the names that a module defines for others."""
    own = {
        name for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }  # fmt: skip
    return getattr(module, "__all__", own)


def test_every_public_name_is_called_here():
    called = {name.partition(".")[0] for name in CALLS}
    public = {name for name in dpbai.__all__ if not inspect.ismodule(getattr(dpbai, name))}
    missing = public - called - MADE_BY_THE_LIBRARY - WITHOUT_ARGUMENTS - NOT_CALLED
    assert missing == set()


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
def test_the_right_arguments_are_right():
    for called, (call, arguments) in CALLS.items():
        if called != "Session.resume":
            call(**arguments)
