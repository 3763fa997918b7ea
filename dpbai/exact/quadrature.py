"""Integrals of positive functions in logarithms, which may have kinks or jumps at known points."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import linalg

from dpbai._check import FloatArray

SMALLEST_LOG = -575.0
"""Logarithm of 1e-250: products and sums with it are still normal doubles."""

_MOST_PANELS = 2**13


class RoughDensityError(ValueError):
    """The distribution is not smooth enough for an integral over it."""


# Gauss' rules of two orders: the finer one gives the integral, and both of them its error.
_COARSE, _FINE = (np.polynomial.legendre.leggauss(order) for order in (10, 16))
_NODES = np.concatenate([_COARSE[0], _FINE[0]])
_WEIGHTS = linalg.block_diag(_COARSE[1], _FINE[1])


def log_integral(
    log_function: Callable[[FloatArray, FloatArray], FloatArray],
    log_bound: Callable[[FloatArray], FloatArray],
    scan: FloatArray,
    knots: FloatArray,
    rtol: float,
) -> float:
    """Return the logarithm of the integral of a positive function; -inf below 1e-250.

    `log_function` returns lower and upper bounds of the logarithm of the integrand, shape (2, N),
    at points of shape (N,), with a slack as in `Variables`; all panels of a round are one call.
    `log_bound` is its order of magnitude, cheaper. The increasing points `scan` are close enough to
    find where the integrand is not negligible; it may have kinks or jumps at `knots`.
    RoughDensityError is raised if it does not converge, or if its bounds differ by more than
    `rtol`, the relative error at which the panels are fine enough.
    """
    rough = log_bound(scan)
    peak = float(rough.max())
    if peak + math.log(scan[-1] - scan[0]) < SMALLEST_LOG:
        return -math.inf
    kept = np.flatnonzero(rough > peak + math.log(rtol) - 10)
    first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, scan.size - 1)
    edges = scan[np.linspace(first, last, 7).astype(int)]
    inside = knots[(edges[0] < knots) & (knots < edges[-1])]
    edges = np.unique(np.concatenate([edges, inside]))
    most_panels = max(_MOST_PANELS, 4 * edges.size)
    left, right = edges[:-1], edges[1:]

    def panels(left: FloatArray, right: FloatArray) -> FloatArray:
        """Return the integrals by both rules, shape (rules, bounds, panels)."""
        nodes = (left + right)[:, None] / 2 + np.multiply.outer((right - left) / 2, _NODES)
        x = nodes.ravel()
        logs = log_function(x, np.maximum(peak - log_bound(x), 0.0))
        values = np.exp(logs - peak).reshape(2, *nodes.shape)
        return np.asarray((values @ _WEIGHTS.T * (right - left)[:, None] / 2).transpose(2, 0, 1))

    done = np.zeros(2)
    while left.size:
        if left.size > most_panels:
            raise RoughDensityError("the integral over it does not converge")
        coarse, fine = panels(left, right)
        # All panels are refined together, except those that have converged.
        tolerance = rtol / 30 * (done[1] + fine[1].sum())
        good = (np.abs(fine - coarse) <= tolerance).all(axis=0)
        done += fine[:, good].sum(axis=1)
        left, right = left[~good], right[~good]
        middle = (left + right) / 2
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    with np.errstate(divide="ignore"):
        low, high = (peak + np.log(done)).tolist()
    if high < SMALLEST_LOG:
        return -math.inf
    if high - low > rtol:
        raise RoughDensityError("too much of it lies near the end of its support")
    return float(high)
