"""The largest memory of two heavy calls, each in a process of its own: under 1 GiB is aimed at.

The first line is what the imports alone take.
"""

from __future__ import annotations

import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import dpbai


def imports_alone() -> None:
    pass


def million_trials() -> None:
    instance = dpbai.synthetic()
    for maker in (dpbai.DPBAI, dpbai.Baseline):
        policy = maker(instance.features, budget=400, epsilon=0.5)
        dpbai.simulate(policy, instance, trials=10**6)


def large_max_det() -> None:
    dpbai.max_det(np.random.default_rng(0).normal(size=(10**5, 32)))


CALLS = {
    "imports alone": imports_alone,
    "10^6 trials of DP-BAI, and of Baseline": million_trials,
    "max_det, K = 10^5, d = 32": large_max_det,
}


def largest_gibibytes(name: str) -> float:
    """Run a call and return the largest resident memory of this process."""
    CALLS[name]()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    print(f"{'call':58} {'GiB':>10}   target")
    for name in CALLS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            print(f"{name:58} {pool.submit(largest_gibibytes, name).result():10.3f}   <= 1")


if __name__ == "__main__":
    main()
