"""The number of pulls from which a sum of uniforms is drawn faster bit by bit than by rewards.

The library's threshold is `rewards._DIRECT_BELOW`.
"""

from functools import partial

import numpy as np
from timing import interleaved, table

from dpbai import rewards

TRIALS = 20_000


def main() -> None:
    law = rewards.Uniform(0.5)
    threshold = rewards._DIRECT_BELOW
    rng = np.random.default_rng(0)

    def sums(pulls: int, threshold: int) -> None:
        rewards._DIRECT_BELOW = threshold
        law.sums(pulls, TRIALS, rng)

    rows = []
    for pulls in (100, 200, 300, 400, 500, 600, 700, 800, 1000, 1500, 3000):
        seconds = interleaved(
            {
                "rewards": partial(sums, pulls, pulls + 1),
                "bits": partial(sums, pulls, pulls),
            },
            repeats=5,
        )
        chosen = "rewards" if pulls < threshold else "bits"
        per_sum = [1e6 * s / TRIALS for s in seconds.values()]
        rows.append((pulls, *per_sum, per_sum[0] / per_sum[1], chosen))
    table(("pulls", "us by rewards", "us by bits", "ratio", "the library uses"), rows)


if __name__ == "__main__":
    main()
