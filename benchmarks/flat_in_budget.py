"""The time of a trial against the budget; target: at most 2 times that at T = 10^4.

Each time is that of 1000 trials of DP-BAI on the instance of Sec. 5.
"""

from functools import partial

from timing import interleaved, table

import dpbai

TARGET = 2


def main() -> None:
    instance = dpbai.synthetic(seed=0)
    policies = {
        budget: dpbai.DPBAI(instance.features, budget=budget, epsilon=1.0)
        for budget in (10**4, 10**5, 10**6, 10**9, 10**12)
    }

    seconds = interleaved(
        {
            f"{budget:.0e}": partial(dpbai.simulate, policy, instance, trials=1000, seed=0)
            for budget, policy in policies.items()
        },
        repeats=21,
    )
    first = next(iter(seconds.values()))
    table(
        ("budget", "ms", "times 1e+04", "target"),
        [(name, 1e3 * s, s / first, TARGET) for name, s in seconds.items()],
    )


if __name__ == "__main__":
    main()
