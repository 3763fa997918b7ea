"""`simulate` against one pull at a time (`plain_loop`) at T = 10^5; target: 10000 times faster.

The loop is a straightforward one with NumPy, `rng.uniform(0, 2 * mean)` for each pull. In the last
row, rewards come from the standard library instead, which makes the loop about as fast as possible
in Python.
"""

import random
from functools import partial

import numpy as np
from plain_loop import DPBAILoop, ODLoop, uniform_rewards
from timing import interleaved, table

import dpbai

BUDGET = 10**5
TRIALS = 10_000
TARGET = 10_000


def main() -> None:
    instance = dpbai.synthetic(seed=0)
    features, means = instance.features, instance.means.tolist()
    rng = np.random.default_rng(0)
    numpy_pull = uniform_rewards(means, rng)
    draw, scales = random.Random(0).random, [2 * mean for mean in means]

    def plain_pull(arm: int) -> float:
        return scales[arm] * draw()

    policies = {
        "DP-BAI": (
            dpbai.DPBAI(features, budget=BUDGET, epsilon=1.0),
            DPBAILoop(features, BUDGET, 1.0),
            numpy_pull,
        ),
        "OD-LinBAI": (
            dpbai.ODLinBAI(features, budget=BUDGET),
            ODLoop(features, BUDGET),
            numpy_pull,
        ),
        "DP-OD": (
            dpbai.DPOD(features, budget=BUDGET, epsilon=1.0),
            ODLoop(features, BUDGET, 1.0),
            numpy_pull,
        ),
        "DP-BAI, standard library": (
            dpbai.DPBAI(features, budget=BUDGET, epsilon=1.0),
            DPBAILoop(features, BUDGET, 1.0),
            plain_pull,
        ),
    }
    rows = []
    for name, (policy, loop, pull) in policies.items():
        seconds = interleaved(
            {
                "library": partial(dpbai.simulate, policy, instance, trials=TRIALS, seed=0),
                "loop": partial(loop.run, pull, rng),
            },
            repeats=5,
        )
        trial = seconds["library"] / TRIALS
        rows.append((name, 1e6 * trial, 1e3 * seconds["loop"], seconds["loop"] / trial, TARGET))
    table(("policy", "us per trial", "ms per run of the loop", "times faster", "target"), rows)


if __name__ == "__main__":
    main()
