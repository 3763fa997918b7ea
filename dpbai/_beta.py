"""The characteristic function of the Beta distribution: Kummer's function at imaginary arguments.

`scipy.special.hyp1f1` computes it for small arguments only; at 60 i it can be off by more than its
value. Further out, Gauss-Jacobi quadrature has the distribution itself for its weight, and far out
the two ends of [0, 1] give an asymptotic series each (DLMF 13.7.2).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpbai._check import FloatArray

_SMALL, _MIDDLE = 10.0, 64.0
_TERMS = 20

ComplexArray = NDArray[np.complex128]


def beta_characteristic_function(first: float, second: float, t: ArrayLike) -> ComplexArray:
    """Return E exp(i t X) for X ~ Beta(first, second) and real or complex `t`, of any shape."""
    argument = np.asarray(t, dtype=complex)
    flat, result = argument.ravel(), np.empty(argument.size, dtype=complex)
    size = np.abs(flat)
    far = max(200.0, 4 * (first + second) ** 2)
    near = size <= _SMALL
    result[near] = special.hyp1f1(first, first + second, 1j * flat[near])
    for low, high in ((_SMALL, _MIDDLE), (_MIDDLE, far)):
        between = (size > low) & (size <= high)
        if between.any():
            nodes, weights = _quadrature(first, second, int(48 + 0.75 * high))
            result[between] = np.exp(1j * np.multiply.outer(flat[between], nodes)) @ weights
    beyond = size > far
    z = 1j * flat[beyond]
    result[beyond] = _end(first, second, -z) + np.exp(z) * _end(second, first, z)
    return result.reshape(argument.shape)


@lru_cache(maxsize=64)
def _quadrature(first: float, second: float, count: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes in [0, 1] and probabilities that integrate polynomials against the law."""
    nodes, weights = special.roots_jacobi(count, second - 1, first - 1)
    return (1 + nodes) / 2, weights / weights.sum()


def _end(first: float, second: float, z: ComplexArray) -> ComplexArray:
    """Return what the end 0 contributes to E exp(-z X), for large abs(z)."""
    term = np.ones_like(z)
    total = term.copy()
    for s in range(_TERMS):
        term = term * (first + s) * (1 - second + s) / ((s + 1) * z)
        total += term
    scale = special.gammaln(first) - special.betaln(first, second)
    return np.asarray(np.exp(scale - first * np.log(z)) * total)
