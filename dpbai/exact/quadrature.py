"""Integrals of positive functions in logarithms, which may have kinks or jumps at known points."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy import optimize

from dpbai._check import FloatArray

LogFunction = Callable[[FloatArray], FloatArray]
SlackFunction = Callable[[FloatArray, FloatArray], FloatArray]

SMALLEST_LOG = -575.0
"""Logarithm of 1e-250: products and sums with it are still normal doubles."""

_MOST_PANELS = 2**13
_GAUSS = 10


class RoughDensityError(ValueError):
    """The distribution is not smooth enough for an integral over it."""


def _gauss_kronrod() -> tuple[FloatArray, FloatArray]:
    """Return 21 nodes, and weights of Gauss' rule on 10 of them and of Kronrod's on all.

    Kronrod's other nodes are the zeros of a polynomial E of degree 11 (Stieltjes), one on either
    side of each zero of Legendre's P of degree 10, such that P E is orthogonal to all degrees up to
    10.
    """
    legendre = np.polynomial.legendre
    x, w = legendre.leggauss(2 * _GAUSS)
    values = legendre.legvander(x, _GAUSS + 1)
    moments = (values.T * (w * values[:, _GAUSS])) @ values
    stieltjes = np.append(np.linalg.lstsq(moments[:-1, :-1], -moments[:-1, -1], rcond=None)[0], 1.0)
    gauss, weights = legendre.leggauss(_GAUSS)
    others = [
        optimize.brentq(legendre.legval, *ends, args=(stieltjes,), xtol=1e-16, rtol=1e-15)
        for ends in pairwise([-1.0, *gauss, 1.0])
    ]
    nodes = np.concatenate([gauss, others])
    integrals = np.append(2.0, np.zeros(2 * _GAUSS))
    kronrod = np.linalg.solve(legendre.legvander(nodes, 2 * _GAUSS).T, integrals)
    return nodes, np.stack([np.append(weights, np.zeros(_GAUSS + 1)), kronrod])


_NODES, _WEIGHTS = _gauss_kronrod()


def log_integral(
    log_function: SlackFunction,
    log_bound: LogFunction,
    scan: FloatArray,
    knots: FloatArray,
    rtol: float,
) -> float:
    """Return the logarithm of the integral of a positive function; -inf below 1e-250.

    Parameters
    ----------
    log_function : callable
        Lower and upper bound of the logarithm of the integrand, shape (2, N), at points of shape
        (N,), with a slack as in `Variables`. All panels of a round are one call.
    log_bound : callable
        Its order of magnitude, cheaper.
    scan : ndarray
        Increasing points, close enough to find where the integrand is not negligible.
    knots : ndarray
        Where it may have kinks or jumps.
    rtol : float
        Relative error at which the panels are fine enough.

    Raises
    ------
    RoughDensityError
        If it does not converge, or if the bounds leave a larger relative error.
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
