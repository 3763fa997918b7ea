"""A plan is the same on every processor, with any number of threads, and from any thread."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np

import dpbai

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
