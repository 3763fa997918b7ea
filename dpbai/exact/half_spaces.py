r"""Probabilities of half-spaces: that a linear form of what is released is negative.

A linear form is one-dimensional whatever the number of coordinates, so that one inversion gives its
probability to a small relative error (see ``inversion``).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dpbai._check import FloatArray, IntArray
from dpbai.exact.inversion import Variables
from dpbai.exact.quadrature import RoughDensityError


class HalfSpaces(Variables):
    """Linear forms of independent terms, and the chances that they are negative."""

    @cached_property
    def log_bounds(self) -> FloatArray:
        """Chernoff bounds of the probabilities, nearly the least: shape (R,)."""
        # About the tilt that would be best for a normal form.
        best = np.maximum(self.means, 0.1 * self.deviations) / self.deviations**2
        tilts = np.outer(best, 2.0 ** np.arange(-2, 2.5, 0.5))
        tilts = np.minimum(tilts, 0.98 * self.limits[:, None])
        rows = np.arange(len(tilts))[:, None]
        exponents = self.log_mgf(rows, -tilts.astype(complex)).real - self.means[:, None] * tilts
        return np.asarray(np.minimum(np.nan_to_num(exponents, nan=np.inf).min(axis=1), 0.0))

    def log_probabilities(self, rows: IntArray) -> FloatArray:
        """Return the logarithms for some of the forms.

        Raises
        ------
        RoughDensityError
            If one of them is not smooth enough, or so unlikely that no tilt within double precision
            reaches it.
        """
        some = Variables(self.terms, self.weights[rows], self.rtol)
        low, high = some.log_below(np.zeros(1), np.zeros(1))[:, :, 0]
        if (low < high).any():
            raise RoughDensityError("an event lies beyond the reach of double precision")
        return np.asarray(high)
