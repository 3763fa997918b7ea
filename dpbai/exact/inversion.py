r"""Densities and tails of sums of independent variables, from their moment generating functions.

The density of Z, its upper tail and its lower tail have the Laplace transforms M(s), M(s)/s for
s > 0 and M(s)/(-s) for s < 0, where M is the moment generating function. Each is inverted along a
vertical line, for instance

    P(Z > x) = 1/(2 pi) integral of M(s + it) exp(-(s + it) x) / (s + it) dt,

with s next to the saddle point, where the integrand does not oscillate before it has decayed. So
nothing cancels, and a tail of 1e-30 comes out with as many correct digits as one of 0.3. The
trapezoidal rule converges exponentially: its error is the sum of the aliases, the same function
(times e^(sx)) at x + k 2 pi / step, and Chernoff bounds say which step makes them negligible.

Results are logarithms, so that products of small numbers do not underflow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpbai._check import FloatArray
from dpbai._transforms import ComplexArray
from dpbai.exact.quadrature import SMALLEST_LOG, RoughDensityError
from dpbai.exact.terms import Term

_MOST_WORK = 2**27
_LARGEST_BLOCK = 256
_ROUNDING = 1e-12
_MOST_EXCESS = 1.0
_KERNELS_KEPT = 8


@dataclass(frozen=True, eq=False)
class Variable:
    """A sum of independent terms.

    Its density and tails come as arrays of shape (2, N) of logarithms, lower and upper bounds. The
    two are equal, and mean a relative error of `rtol`, except at points so far out that double
    precision cannot tilt the variable there: the lower one is then -inf, the upper one Chernoff's.

    Parameters
    ----------
    terms : sequence of Term
    rtol : float
        Relative error of densities and tails that is aimed at, at least 1e-12.
    """

    terms: Sequence[Term]
    rtol: float

    def log_mgf(self, z: ComplexArray) -> ComplexArray:
        """Return log E exp(z (Z - mean)), up to multiples of 2 pi i."""
        return np.asarray(sum(term.log_mgf(z) for term in self.terms))

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return the logarithm of the density, shape (2, N), at `x`, shape (N,)."""
        return self._inverses[0](x)

    def log_above(self, x: FloatArray) -> FloatArray:
        """Return log P(Z > x), shape (2, N), for `x` of shape (N,), infinities allowed."""
        return self._tail(x, 1)

    def log_below(self, x: FloatArray) -> FloatArray:
        """Return log P(Z < x), shape (2, N), for `x` of shape (N,), infinities allowed."""
        return self._tail(x, -1)

    def log_bound(self, x: FloatArray, side: int) -> FloatArray:
        """Return a Chernoff bound: of P(Z > x) if `side` is 1, of P(Z < x) if it is -1.

        With `side` 0 it is of the order of the density.
        """
        bound = self._inverses[side].exponents(x).min(axis=0)
        return np.asarray(bound if side else bound - math.log(self.deviation))

    def _tail(self, x: FloatArray, side: int) -> FloatArray:
        result = np.tile(np.where(side * x == np.inf, -np.inf, 0.0), (2, 1))
        # The smaller tail is inverted; the larger one is the rest.
        for sign in (1, -1):
            where = np.flatnonzero(np.isfinite(x) & (sign * (x - self.mean) >= 0))
            if sign != side:  # what cannot be seen beside 1 is not worth its nodes
                where = where[self.log_bound(x[where], sign) > math.log(self.rtol) - 5]
            small = np.minimum(self._inverses[sign](x[where]), 0.0)
            with np.errstate(divide="ignore"):
                rest = np.log1p(-np.exp(small[::-1]))
            result[:, where] = small if sign == side else rest
        return result

    @cached_property
    def _inverses(self) -> dict[int, _Inverse]:
        return {side: _Inverse(self, side) for side in (-1, 0, 1)}

    @cached_property
    def mean(self) -> float:
        """Expected value."""
        return sum(term.mean for term in self.terms)

    @cached_property
    def deviation(self) -> float:
        """Standard deviation."""
        return math.hypot(*(term.deviation for term in self.terms))

    @cached_property
    def lines(self) -> tuple[FloatArray, FloatArray]:
        """Real parts of the vertical lines to choose from, increasing, and `log_mgf` there.

        Neighbours differ by few units of 1/deviation of the tilted variable, also next to a pole.
        """
        if self.deviation == 0:
            raise RoughDensityError("it is constant")
        limit = min(term.limit for term in self.terms)
        count = math.ceil(math.log(max(limit * self.deviation / 0.02, 2)) / math.log(1.4))
        ladder = 0.02 / self.deviation * 1.4 ** np.arange(min(count, 400))
        positive = np.union1d(ladder, np.arange(8, 60, 2) / self.deviation)
        positive = positive[positive < limit]
        if math.isfinite(limit):
            positive = np.union1d(positive, limit * (1 - 0.5 ** np.arange(1, 12, 0.5)))
        grid = np.concatenate([-positive[::-1], [0.0], positive])
        values = self.log_mgf(grid.astype(complex)).real
        return grid[np.isfinite(values)], values[np.isfinite(values)]

    @property
    def knots(self) -> FloatArray:
        """Where density or tails have kinks: nowhere."""
        return np.empty(0)

    @cached_property
    def scan(self) -> FloatArray:
        """Points less than a deviation apart, as far out as a double can tell the density from 0.

        If the lines do not reach so far, the ends are where the bounds fall steeply.
        """
        grid, values = self.lines
        tilted_means = np.diff(values) / np.diff(grid)
        fine = np.arange(0, tilted_means.size - 1, 1 / 8)
        points = np.interp(fine, np.arange(tilted_means.size), tilted_means)
        ends = points[0] + 50 / grid[0], points[-1] + 50 / grid[-1]
        points = self.mean + np.unique([ends[0], *points, ends[1]])
        return points[self.log_bound(points, 0) > 2 * SMALLEST_LOG]


class _Inverse:
    """The inverse Laplace transform that gives the density (side 0) or a tail (side 1 or -1)."""

    def __init__(self, variable: Variable, side: int) -> None:
        self.variable, self.side = variable, side
        # A line far from a point's saddle makes all errors larger, by e^excess: those of rounding
        # must stay within the tolerance, the others are kept smaller by as much.
        self.excess = min(math.log(variable.rtol / _ROUNDING), _MOST_EXCESS)
        self.digits = 4 - math.log(variable.rtol) + self.excess
        grid, values = variable.lines
        use = slice(None) if side == 0 else side * grid > 0
        self.grid, self.values = grid[use], values[use]
        if side:
            self.values = self.values - np.log(np.abs(self.grid))
        # Rounds of an integration come back to the same lines and steps.
        self._kernel = lru_cache(_KERNELS_KEPT)(self._kernel_on)
        self._reach = lru_cache(None)(self._height)

    def exponents(self, x: FloatArray) -> FloatArray:
        """Return log(transform(s) exp(-s x)), shape (lines, points)."""
        return np.asarray(
            self.values[:, None] - np.multiply.outer(self.grid, x - self.variable.mean)
        )

    def __call__(self, x: FloatArray) -> FloatArray:
        result = np.stack([np.full(x.size, -np.inf), self.variable.log_bound(x, self.side)])
        exponents = self.exponents(x)
        x = x - self.variable.mean
        low, high = self._extents
        good = exponents <= exponents.min(axis=0) + self.excess
        cost = np.where(good, (high - low)[:, None], np.inf)
        # Farthest points first: the lines that they need serve many nearer ones.
        pending = np.flatnonzero(np.isfinite(cost).any(axis=0))
        while pending.size:
            line = int(cost[:, pending[np.abs(x[pending]).argmax()]].argmin())
            served = good[line, pending]
            where, pending = pending[served], pending[~served]
            span = max(high[line], x[where].max()) - min(low[line], x[where].min())
            result[:, where] = self._along(line, 2 * math.pi / span, x[where])
        return result

    @cached_property
    def _extents(self) -> tuple[FloatArray, FloatArray]:
        """Return, for each line, what the function times e^(sx) lies between, but for a trifle.

        These are Chernoff bounds, by the other lines on either side.
        """
        gaps = self.grid - self.grid[:, None]
        with np.errstate(divide="ignore"):
            bounds = (self.values - self.values[:, None] + self.digits) / gaps
        low = np.where(gaps < 0, bounds, -np.inf).max(axis=1)
        high = np.where(gaps > 0, bounds, np.inf).min(axis=1)
        return low, high

    def _along(self, line: int, step: float, x: FloatArray) -> FloatArray:
        """Invert along one line, by the trapezoidal rule; `x` counts from the mean."""
        s, value = float(self.grid[line]), float(self.values[line])
        count = math.ceil(self._reach(s) / step) + 1
        if count * (x.size + 16) > _MOST_WORK:
            raise RoughDensityError(f"it would take {count} nodes")
        total = np.zeros(x.size)
        # exp(-i t x) for t = step (block j + k), as a product, so that few exponentials are taken.
        block = min(math.isqrt(count) + 1, _LARGEST_BLOCK)
        turns = np.multiply.outer(-1j * step * x, np.arange(block))
        within, across = np.exp(turns), np.exp(block * turns)
        for start in range(0, count, block**2):
            kernel = self._kernel(s, step, start, block**2)
            part = ((within @ kernel.reshape(block, block).T) * across).sum(axis=1)
            total += (part * np.exp(-1j * step * start * x)).real
        with np.errstate(divide="ignore"):
            return np.asarray(value - s * x + np.log(step / math.pi * np.maximum(total, 0.0)))

    def _kernel_on(self, s: float, step: float, start: int, size: int) -> ComplexArray:
        """Return the transform at nodes of a vertical line, divided by that at its foot s.

        The node at the foot itself has half the weight.
        """
        z: ComplexArray = np.asarray(s + 1j * step * np.arange(start, start + size))
        level = self.variable.log_mgf(np.array([s + 0j])).real
        kernel = np.exp(self.variable.log_mgf(z) - level)
        if self.side:
            kernel *= s / z
        if start == 0:
            kernel[0] /= 2
        return np.asarray(kernel)

    def _height(self, s: float) -> float:
        """Return the height beyond which the integral is negligible."""
        t = 1.1 ** np.arange(-10, 260) / self.variable.deviation
        z: ComplexArray = s + 1j * np.append(0.0, t)
        size = np.log(t * self.variable.deviation)
        for term in self.variable.terms:
            if term.decays:
                logs = term.log_mgf(z).real
                size += logs[1:] - logs[0]
        if self.side:
            size -= np.log(np.abs(z[1:] / s))
        # Negligible from where it is so over a decade; isolated zeros do not count.
        negligible = np.lib.stride_tricks.sliding_window_view(size < -self.digits, 25).all(axis=1)
        if not negligible.any():
            raise RoughDensityError("its characteristic function does not decay")
        return 1.5 * float(t[negligible.argmax()])
