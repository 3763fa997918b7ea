r"""Probabilities of half-spaces: that a linear form of what is released is negative.

A linear form is one-dimensional whatever the number of coordinates, so that one inversion gives its
probability to a small relative error (see ``inversion``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dpbai._check import FloatArray, IntArray
from dpbai.exact.inversion import Variable
from dpbai.exact.quadrature import RoughDensityError
from dpbai.exact.terms import Term, mean_term, noise_term
from dpbai.instance import Instance
from dpbai.policies import Phase


def independent_terms(
    phase: Phase, instance: Instance, shift: FloatArray | None = None
) -> list[Term]:
    """Return means of the pulled arms, then the noise of the coordinates, about `shift`."""
    means = [
        mean_term(instance.laws[arm], n) for arm, n in zip(phase.pulled, phase.pulls, strict=True)
    ]
    shift = np.zeros(phase.coordinates) if shift is None else shift
    return means + [noise_term(phase.noise, by) for by in shift.tolist()]


class HalfSpaces:
    """Linear forms of independent terms, and the chances that they are negative.

    Parameters
    ----------
    terms : sequence of Term
        T of them.
    weights : ndarray of shape (R, T)
        One form a row, none of them 0.
    rtol : float
        Relative error of probabilities.
    """

    def __init__(self, terms: Sequence[Term], weights: FloatArray, rtol: float) -> None:
        self.terms, self.weights, self.rtol = terms, weights, rtol
        self.means: FloatArray = weights @ np.array([term.mean for term in terms])
        spreads = np.array([term.deviation for term in terms]) ** 2
        self.deviations: FloatArray = np.sqrt(weights**2 @ spreads)
        if not self.deviations.all():
            raise RoughDensityError("it is constant")

    @cached_property
    def log_bounds(self) -> FloatArray:
        """Chernoff bounds of the probabilities, nearly the least: shape (R,)."""
        with np.errstate(divide="ignore"):
            limits = np.array([term.limit for term in self.terms]) / np.abs(self.weights)
        # About the tilt that would be best for a normal form.
        best = np.maximum(self.means, 0.1 * self.deviations) / self.deviations**2
        tilts = np.outer(best, 2.0 ** np.arange(-2, 2.5, 0.5))
        tilts = np.minimum(tilts, 0.98 * limits.min(axis=1, keepdims=True, initial=np.inf))
        exponents = -self.means[:, None] * tilts
        for term, weight in zip(self.terms, self.weights.T, strict=True):
            used = np.flatnonzero(weight)
            exponents[used] += term.log_mgf(-weight[used, None] * tilts[used] + 0j).real
        return np.asarray(np.minimum(np.nan_to_num(exponents, nan=np.inf).min(axis=1), 0.0))

    def log_probabilities(self, rows: IntArray) -> FloatArray:
        """Return the logarithms for some of the forms.

        Raises
        ------
        RoughDensityError
            If one of them is not smooth enough, or so unlikely that no tilt within double precision
            reaches it.
        """
        found = np.empty((2, 0))
        for weights in self.weights[rows].tolist():
            pairs = zip(self.terms, weights, strict=True)
            form = Variable([term.times(weight) for term, weight in pairs if weight], self.rtol)
            found = np.append(found, form.log_below(np.zeros(1)), axis=1)
        if (found[0] < found[1]).any():
            raise RoughDensityError("an event lies beyond the reach of double precision")
        return np.asarray(found[1])
