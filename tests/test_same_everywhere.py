"""A plan is the same on every processor, with any number of threads, and from any thread."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import dpbai
from dpbai._threads import one_thread

KERNELS = ("SkylakeX 1", "Haswell 1", "Prescott 1", "SkylakeX 2")
"""Kernels of OpenBLAS, which sum in different orders, and numbers of threads.

A processor that lacks the instructions of one takes the next that it has."""

PLANS = """
import itertools, json
import numpy as np
import dpbai
cross = itertools.product(range(2), range(3))
arms = [
    [[1, *row] for row in itertools.product((-1, 0, 1), repeat=3)],
    [[1, first, second == 1, second == 2] for first, second in cross],
    np.vstack([np.eye(4), np.zeros(4)]),
    np.hstack([np.kron(np.eye(3), np.ones((3, 1))), np.tile(np.eye(3), (3, 1))]),
    list(itertools.product((-1, 1), repeat=3)),
]
for features in arms:
    features = np.array(features, dtype=float)
    for policy in (
        dpbai.DPDesign(features, budget=2000, epsilon=0.1),
        dpbai.ODLinBAI(features, budget=500),
        dpbai.DPOD(features, budget=500, epsilon=0.5),
        dpbai.DPBAI(features, budget=500, epsilon=0.5),
    ):
        plan = policy.phase(1, range(len(features)))
        noise = plan.noise.standard_deviation
        numbers = [round(noise, 9), *np.round(plan.decoder + 0.0, 9).ravel().tolist()]
        print(json.dumps([plan.pulled, plan.pulls, plan.keep, numbers]))
"""


def test_a_plan_does_not_depend_on_the_kernel_or_the_threads_of_linear_algebra():
    """Symmetric arms: many choices are between numbers that are equal but for rounding."""
    children = []
    for kernel in KERNELS:
        name, threads = kernel.split()
        own = {"OPENBLAS_CORETYPE": name, "OPENBLAS_NUM_THREADS": threads}
        command = [sys.executable, "-c", PLANS]
        children.append(
            subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.PIPE)
        )
    first, *others = (
        [json.loads(line) for line in child.communicate()[0].splitlines()] for child in children
    )
    assert len(first) == 20
    for other in others:
        for one, two in zip(first, other, strict=True):
            assert one[:3] == two[:3]
            np.testing.assert_allclose(one[3], two[3], atol=2e-9)


def test_threads_that_share_a_policy_plan_as_one_does():
    features = np.random.default_rng(0).normal(size=(12, 3))

    def plan(policy: dpbai.DPDesign) -> tuple[tuple[int, ...], tuple[int, ...]]:
        first = policy.phase(1, range(12))
        second = policy.phase(2, range(policy.timetable.sizes[1]), (first,))
        return first.pulls, second.pulls

    alone = plan(dpbai.DPDesign(features, budget=300, epsilon=0.5, phases=2))
    shared = dpbai.DPDesign(features, budget=300, epsilon=0.5, phases=2)
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(plan, [shared] * 8)) == {alone}


def test_a_simulation_in_threads_is_that_of_one(monkeypatch):
    """Each part of it plans with the same policy."""
    monkeypatch.setattr(import_module("dpbai.simulate"), "_PART", 50)
    arms = dpbai.Instance(np.random.default_rng(1).random(size=(8, 3)), [0.1, 0.2, 0.1])

    def successes(executor: ThreadPoolExecutor | None) -> list[int]:
        policy = dpbai.DPDesign(arms.features, budget=200, epsilon=0.5, phases=2)
        found = dpbai.simulate(policy, arms, trials=200, seed=3, executor=executor)
        return found.recommended.tolist()

    with ThreadPoolExecutor(2) as threads:
        assert successes(threads) == successes(None)


def blas_threads() -> set[int]:
    """Return how many threads NumPy's and SciPy's libraries would use now."""
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("dpbai.beyond.private.Minimax.solve", dpbai.private_design),
        ("dpbai.beyond.dp_design.Posterior.decoder", dpbai.DPDesign),
        ("dpbai.beyond.rehearsal.Rehearsal.choice", dpbai.DPDesign),
        ("dpbai.g_optimal._exchange", dpbai.g_optimal_design),
        ("dpbai.simulate._run", dpbai.simulate),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_plans_and_simulations_use_one_thread_and_leave_their_number_as_it_was(
    where, what, monkeypatch
):
    """Of two that BLAS is allowed; what uses it says how many it has."""
    features, seen = np.random.default_rng(2).normal(size=(12, 3)), []
    module, _, name = where.rpartition(".")
    owner, _, part = module.rpartition(".")
    home = getattr(import_module(owner), part) if part[0].isupper() else import_module(module)
    original = getattr(home, name)

    def spy(*given, **named):
        seen.append(blas_threads())
        return original(*given, **named)

    monkeypatch.setattr(home, name, spy)
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        if what is dpbai.private_design:
            what(features, pulls=300, epsilon=1)
        elif what is dpbai.DPDesign:
            what(features, budget=300, epsilon=1).phase(1, range(12))
        elif what is dpbai.g_optimal_design:
            what(features)
        else:
            arms = dpbai.Instance(features / 20 + 0.5, [0.1, 0.2, 0.3])
            what(dpbai.DPBAI(arms.features, budget=300, epsilon=1), arms, trials=10, seed=0)
        assert blas_threads() == before == {2}
    assert seen
    assert all(each == {1} for each in seen)


def test_the_last_to_leave_gives_the_threads_back():
    """As where two threads plan, and neither waits for the other."""
    with threadpool_limits(limits=2, user_api="blas"):
        one_thread.__enter__()
        with one_thread:
            assert blas_threads() == {1}
        assert blas_threads() == {1}
        one_thread.__exit__()
        assert blas_threads() == {2}


FORK = """
import os, signal, sys, threading, time
from dpbai._threads import one_thread
held = threading.Event()
def hold():
    with one_thread._lock:
        held.set()
        time.sleep(0.1)
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(10)
    with one_thread:
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="where processes are forked")
def test_a_process_that_is_forked_while_another_thread_plans_can_plan():
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    assert subprocess.run(command, capture_output=True, check=True).stdout.split() == [b"7"]


def test_exponents_are_what_numpy_takes_where_a_c_long_has_32_bits(monkeypatch):
    """On Windows, and on 32-bit platforms: an int64 is refused there."""
    original, taken = np.ldexp, []

    def narrow(values, exponents):
        taken.append(np.asarray(exponents).dtype.itemsize if np.ndim(exponents) else 4)
        return original(values, exponents)

    monkeypatch.setattr(np, "ldexp", narrow)
    plain = np.random.default_rng(4).normal(size=(9, 3))
    for features in (plain, plain * [1, 1e30, 1e-30]):
        for policy in (
            dpbai.DPDesign(features, budget=300, epsilon=1),
            dpbai.ODLinBAI(features, budget=300),
            dpbai.DPBAI(features, budget=300, epsilon=1),
        ):
            policy.phase(1, range(9))
    assert set(taken) == {4}
