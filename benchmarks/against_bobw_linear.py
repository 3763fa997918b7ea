"""OD-LinBAI by `simulate`, against the public implementation in the repository bobw_linear.

The latter is the code of "A/B Testing and Best-arm Identification for Linear Bandits with
Robustness to Non-stationarity", on GitHub as FFTypeZero/bobw_linear. It is not part of this
project.

    python benchmarks/against_bobw_linear.py CHECKOUT

runs it unchanged on the paper's instance of Sec. 5, one reward at a time, and prints the time of
one trial of each, their ratio, and how often each finds the best arm.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time

import numpy as np
from timing import table

import dpbai

BUDGETS = (10**3, 10**4, 10**5)
THEIR_TRIALS = 5
OUR_TRIALS = 100_000


def main(checkout: Path) -> None:
    sys.path.insert(0, str(checkout))
    from algorithms.od_linbai import OD_LinBAI

    instance = dpbai.synthetic(seed=0)
    generator = np.random.default_rng(0)
    features, theta = instance.features, instance.theta

    def reward(arm: np.ndarray, _time: int) -> float:
        return float(generator.uniform(0, 2 * arm @ theta))

    rows = []
    for budget in BUDGETS:
        np.random.seed(0)  # noqa: NPY002  (their code uses the global state)
        start = process_time()
        answers = [OD_LinBAI(features, budget, reward).run() for _ in range(THEIR_TRIALS)]
        theirs = (process_time() - start) / THEIR_TRIALS
        found = np.mean([np.array_equal(answer, features[instance.best]) for answer in answers])
        policy = dpbai.ODLinBAI(features, budget=budget)
        start = process_time()
        result = dpbai.simulate(policy, instance, trials=OUR_TRIALS, seed=0)
        ours = (process_time() - start) / OUR_TRIALS
        rows.append((budget, theirs, ours, theirs / ours, float(found), result.success_rate))
    header = ("T", "theirs, s a trial", "simulate, s a trial", "ratio", "theirs finds", "we find")
    table(header, rows)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(Path(sys.argv[1]))
    else:
        print("needs a checkout of bobw_linear: python benchmarks/against_bobw_linear.py CHECKOUT")
