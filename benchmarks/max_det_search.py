"""What a Max-Det search costs, and what the swap search gives away.

- The swap search at K = 10^4, d = 16 against one column-pivoted QR of the matrix and one solve.
- The volume of the swap search against the largest one, over random sets of arms.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from ratios import header, ratios, row
from scipy import linalg

import dpbai


def yardstick(vectors: np.ndarray) -> np.ndarray:
    """Factorise, and solve for the coordinates in the basis that was found."""
    basis = linalg.qr(vectors.T, mode="r", pivoting=True)[1][: vectors.shape[1]]
    return np.linalg.solve(vectors[basis].T, vectors.T)


def main() -> None:
    header("Swap search, K = 10^4, d = 16")
    for seed in range(3):
        vectors = np.random.default_rng(seed).normal(size=(10**4, 16))
        pair = ratios(partial(dpbai.max_det, vectors), partial(yardstick, vectors))
        row(f"against QR and solve, seed {seed}", pair, "<= 10")

    header("Volume of the swap search over the largest, 200 sets")
    for arms, dimension in ((30, 2), (20, 3), (16, 5)):
        volumes = []
        for seed in range(200):
            vectors = np.random.default_rng(seed).normal(size=(arms, dimension))
            exact, swap = dpbai.max_det(vectors), dpbai.max_det(vectors, max_subsets=0)
            volumes.append(float(np.exp(swap.log_abs_det - exact.log_abs_det)))
        row(f"K = {arms}, d = {dimension}", sorted(volumes), "1 at best")


if __name__ == "__main__":
    main()
