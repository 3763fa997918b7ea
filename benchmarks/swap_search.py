"""The swap search of `max_det`: its time, and how close its volume is to the largest.

The time is compared with one column-pivoted QR decomposition of the same matrix plus one solve; the
target is at most 10 times. The volume is compared with that of an exact search, on small sets.
"""

from functools import partial

import numpy as np
from scipy import linalg
from timing import interleaved, table

import dpbai

TARGET = 10


def decomposition(vectors: np.ndarray) -> None:
    """Decompose and solve, the minimum that any search requires."""
    basis = linalg.qr(vectors.T, mode="r", pivoting=True)[1][: vectors.shape[1]]
    np.linalg.solve(vectors[basis].T, vectors.T)


def main() -> None:
    rows = []
    for arms, dimension in ((10**4, 16), (10**4, 4), (10**5, 16), (10**5, 32)):
        vectors = np.random.default_rng(0).normal(size=(arms, dimension))
        seconds = interleaved(
            {
                "search": partial(dpbai.max_det, vectors, max_subsets=0),
                "bare": partial(decomposition, vectors),
            },
            repeats=7 if arms < 10**5 else 3,
        )
        ratio = seconds["search"] / seconds["bare"]
        rows.append((arms, dimension, 1e3 * seconds["search"], ratio, TARGET))
    table(("K", "d", "ms", "times QR and solve", "target"), rows)
    print()

    rows = []
    for arms, dimension in ((30, 2), (20, 3), (25, 4), (18, 6)):
        rng = np.random.default_rng(arms)
        ratios = []
        for _ in range(100):
            vectors = rng.normal(size=(arms, dimension))
            swapped = dpbai.max_det(vectors, max_subsets=0).log_abs_det
            ratios.append(np.exp(swapped - dpbai.max_det(vectors).log_abs_det))
        ratios = np.array(ratios)
        best = float((ratios > 1 - 1e-9).mean())
        rows.append((arms, dimension, float(ratios.min()), float(np.median(ratios)), best))
    table(("K", "d", "least volume", "median volume", "share that is largest"), rows)


if __name__ == "__main__":
    main()
