r"""Probabilities of half-spaces: that a linear form of what is released is negative.

A linear form is one-dimensional whatever the number of coordinates, so that one inversion gives its
probability to a small relative error (see ``inversion``, whose reasons hold here too),

    P(Z > 0) = 1/(2 pi) integral of M(s + it) / (s + it) dt,   Z = minus the form,

with s at the saddle point of M(s)/s. Many forms of the same terms are inverted at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dpbai._check import FloatArray, IntArray
from dpbai._transforms import ComplexArray
from dpbai.exact.quadrature import RoughDensityError
from dpbai.exact.terms import Term, mean_term, noise_term
from dpbai.instance import Instance
from dpbai.policies import Phase

_LADDER = np.geomspace(1e-2, 1e4, 48)
_NEXT_TO_LIMIT = 1 - 0.5 ** np.arange(0.5, 12, 0.5)
_HEIGHTS = 1.2 ** np.arange(-10, 130)
_FINER = 15
_DECADE = 12  # of those heights
_MOST_NODES = 2**23
_BLOCK = 2**16
_ROUNDING = 1e-15


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
        self.digits = 4 - math.log(rtol)
        self.means: FloatArray = weights @ np.array([term.mean for term in terms])
        spreads = np.array([term.deviation for term in terms]) ** 2
        self.deviations: FloatArray = np.sqrt(weights**2 @ spreads)
        if not self.deviations.all():
            raise RoughDensityError("it is constant")
        with np.errstate(divide="ignore"):
            limits = np.array([term.limit for term in terms]) / np.abs(weights)
        self.limits: FloatArray = np.minimum(limits.min(axis=1), _LADDER[-1] / self.deviations)

    def log_mgf(self, rows: IntArray, z: ComplexArray, *, decaying: bool = False) -> ComplexArray:
        """Return log E exp(z Z) for those forms, one row of `z` each; or of its smooth terms."""
        total: ComplexArray = -self.means[rows, None] * z
        for term, weight in zip(self.terms, self.weights[rows].T, strict=True):
            if term.decays or not decaying:
                used = np.flatnonzero(weight)
                total[used] += term.log_mgf(-weight[used, None] * z[used])
        return total

    @cached_property
    def log_bounds(self) -> FloatArray:
        """Chernoff bounds of the probabilities, nearly the least: shape (R,)."""
        # About the tilt that would be best for a normal form.
        best = np.maximum(self.means, 0.1 * self.deviations) / self.deviations**2
        tilts = np.outer(best, 2.0 ** np.arange(-2, 2.5, 0.5))
        tilts = np.minimum(tilts, 0.98 * self.limits[:, None])
        every = np.arange(len(tilts))
        exponents = self.log_mgf(every, tilts.astype(complex)).real
        return np.asarray(np.minimum(np.nan_to_num(exponents, nan=np.inf).min(axis=1), 0.0))

    def log_probabilities(self, rows: IntArray) -> FloatArray:
        """Return the logarithms for some of the forms.

        Raises
        ------
        RoughDensityError
            If one of them is not smooth enough, or so unlikely that no tilt within double precision
            reaches it.
        """
        tilts, values, steps, counts = self._lines(rows)
        result = np.empty(rows.size)
        order = np.argsort(counts)
        while order.size:  # forms of like many nodes together
            size = max(1, _BLOCK // int(counts[order[-1]]))
            part, order = order[-size:], order[:-size]
            result[part] = self._invert(rows[part], tilts[part], steps[part], counts[part])
        return np.asarray(np.minimum(values + result, 0.0))

    def _lines(self, rows: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Return the tilt of each form, log M(s)/s there, and step and number of nodes."""
        limits, deviations = self.limits[rows, None], self.deviations[rows, None]
        grid = np.concatenate(
            [np.minimum(_LADDER / deviations, limits / 2), limits * _NEXT_TO_LIMIT], axis=1
        )
        grid, values, best = self._searched(rows, np.sort(grid, axis=1))
        if (best == grid.shape[1] - 1).any():
            raise RoughDensityError("an event lies beyond the reach of double precision")
        every = np.arange(rows.size)
        # A finer grid about the best tilt, whose neighbours can be far from it in likelihood.
        low, high = grid[every, np.maximum(best - 1, 0)], grid[every, best + 1]
        grid = np.sort(np.concatenate([grid, np.linspace(low, high, _FINER).T], axis=1), axis=1)
        grid, values, best = self._searched(rows, grid)
        tilts, least = grid[every, best], values[every, best]
        gaps = grid - tilts[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = (values - least[:, None] + self.digits) / gaps
        high = np.where(gaps > 0, ends, np.inf).min(axis=1)
        low = np.where(gaps < 0, ends, -np.inf).max(axis=1)
        spans = np.maximum(high, 0) - np.minimum(low, 0)
        if not np.isfinite(spans).all():
            raise RoughDensityError("its tilts have no room")
        steps = 2 * math.pi / spans
        counts = np.ceil(self._reach(rows, tilts) / steps).astype(np.int64) + 1
        if counts.max() > _MOST_NODES:
            raise RoughDensityError(f"it would take {counts.max()} nodes")
        return tilts, least, steps, counts

    def _searched(
        self, rows: IntArray, grid: FloatArray
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return a grid of tilts, log M(s)/s there, and where it is least."""
        values = self.log_mgf(rows, grid.astype(complex)).real - np.log(grid)
        values = np.where(np.isfinite(values), values, np.inf)
        return grid, values, values.argmin(axis=1)

    def _reach(self, rows: IntArray, tilts: FloatArray) -> FloatArray:
        """Return the heights beyond which the integrals are negligible."""
        heights = np.append(0.0, _HEIGHTS) / self.deviations[rows, None]
        z = tilts[:, None] + 1j * heights
        sizes = self.log_mgf(rows, z, decaying=True).real
        sizes = sizes[:, 1:] - sizes[:, :1] - np.log(np.abs(z[:, 1:] / tilts[:, None]))
        sizes += np.log(_HEIGHTS)
        windows = np.lib.stride_tricks.sliding_window_view(sizes < -self.digits, _DECADE, axis=1)
        negligible = np.asarray(windows.all(axis=2))
        if not negligible.any(axis=1).all():
            raise RoughDensityError("its characteristic function does not decay")
        first = negligible.argmax(axis=1) + 1
        return np.asarray(1.2 * heights[np.arange(rows.size), first])

    def _invert(
        self, rows: IntArray, tilts: FloatArray, steps: FloatArray, counts: IntArray
    ) -> FloatArray:
        """Return the logarithms of the integrals, divided by M(s)/s."""
        level = self.log_mgf(rows, tilts[:, None].astype(complex)).real
        total, size = np.zeros(rows.size), np.zeros(rows.size)
        for start in range(0, int(counts.max()), _BLOCK):
            nodes = np.arange(start, min(start + _BLOCK, int(counts.max())))
            z = tilts[:, None] + 1j * np.multiply.outer(steps, nodes)
            kernel = np.exp(self.log_mgf(rows, z) - level) * tilts[:, None] / z
            if start == 0:
                kernel[:, 0] /= 2
            total += kernel.real.sum(axis=1)
            size += np.abs(kernel).sum(axis=1)
        if (total < _ROUNDING / self.rtol * size).any():
            raise RoughDensityError("rounding is too large a part of it")
        return np.asarray(np.log(steps / math.pi * total))
