"""Densities and tails of linear forms of independent terms, by inversion of Laplace transforms.

A form Z is a released coordinate, or the lead of one arm over another. The probability of a
half-space of releases is the tail of one form, whatever the number of coordinates.

Let M(s) = E exp(s Z) be the moment generating function. As functions of x, the density of Z, its
upper tail P(Z > x) and its lower tail P(Z < x) have the two-sided Laplace transforms M(s), M(s)/s
for s > 0, and M(s)/(-s) for s < 0. Each is inverted by an integral along a vertical line,

    P(Z > x) = 1/(2 pi) integral of M(s + it) exp(-(s + it) x) / (s + it) dt,

and likewise for the others. If s, the tilt, is near the saddle point, where M(s) exp(-s x) / s is
least, the integrand decays before it oscillates. Then nothing cancels, and a tail of 1e-30 has as
many correct digits as one of 0.3.

The trapezoidal rule with steps of h in t is applied. By Poisson's summation formula, it replaces
g(x) = e^(s x) P(Z > x) by the sum of g(x + 2 pi k / h) over all integers k. Chernoff bounds at
other tilts give an interval outside which g is negligible; 2 pi / h is its length.

If one of the terms is a Laplace variate of scale b, and Z' the sum of the others, M has poles at
+-1/b. A line beyond 1/b does not give the tail but its difference from the residue at 1/b,

    E exp((Z' - x)/b) / 2 - P(Z > x) = E[cosh((Z' - x)/b) - 1; Z' > x],

and for the density the same with sinh((Z' - x)/b) / b. If the noise is much wider than Z', this
difference is small, and it takes few nodes: it varies with x as fast as the law of Z' does.

All results are logarithms, so that products of small numbers do not underflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product

import numpy as np

from dpbai._check import BoolArray, FloatArray, IntArray
from dpbai.exact.quadrature import SMALLEST_LOG, RoughDensityError
from dpbai.exact.terms import ComplexArray, Term, Terms

_MOST_WORK = 2**26  # nodes times points
_NODES_AT_ONCE = 2**17
_ROUNDING = 1e-12  # relative rounding error of an inversion along the best line
_SUM_ERROR = 1e-15  # relative rounding error of a sum
_EXPONENT_ERROR = 0.5  # rounding error of an exponent of size 1, in units of _SUM_ERROR
_MOST_EXCESS = 1.0
_MARGIN = 3.0
_NEIGHBOURS = np.arange(-12, 13)  # of the line next to a saddle point: lines that are considered
# Tilts, and heights t, in units of 1 / standard deviation.
_TILTS = np.concatenate([0.25 * 1.4 ** np.arange(11), np.arange(9.0, 60, 2)])
_LARGE_TILTS = 60 * 1.4 ** np.arange(400)
_HEIGHTS = 1.25 ** np.arange(-4, 116)
_DECADE = 11  # heights, over which they grow tenfold
_NEXT_TO_LIMIT = 1000.0  # the largest tilt may be so many times as large as its distance to a limit
_WIDE = 10.0  # times the standard deviation of the other terms: the scale of wide noise
_NARROWEST = 1e-12


class Variables:
    """R linear forms Z of T independent terms, with weights of shape (R, T), no row of which is 0.

    Densities and tails at N points are arrays of shape (2, R, N): lower and upper bounds on their
    logarithms. They are equal, with a relative error of at most `rtol`, which is at least 1e-12,
    except far out, where rounding errors may be too large for that. The lower bound may be -inf
    there, and the upper one that of Chernoff.
    """

    def __init__(self, terms: Sequence[Term] | Terms, weights: FloatArray, rtol: float) -> None:
        self.terms = terms if isinstance(terms, Terms) else Terms(terms)
        self.weights, self.rtol = weights, rtol
        self.means: FloatArray = weights @ self.terms.means
        used = weights != 0
        count = int(used.sum(axis=1).max(initial=0))
        self._index: IntArray = np.argsort(~used, axis=1, kind="stable")[:, :count]
        self._weights = np.take_along_axis(weights, self._index, axis=1)
        spreads = self.terms.deviations[self._index]
        self.deviations: FloatArray = np.hypot.reduce(self._weights * spreads, axis=1)
        if not self.deviations.all():
            raise RoughDensityError("a linear form of the release is constant")
        with np.errstate(divide="ignore"):
            limits = self.terms.limits[self._index] / np.abs(self._weights)
        self.limits: FloatArray = limits.min(axis=1, initial=np.inf)
        poles = self.terms.poles[self._index] & (self._weights != 0)
        # The rest is Z', the form without its Laplace variates.
        self._rest_weights = np.where(poles, 0.0, self._weights)
        self._rest_limits = np.where(poles, np.inf, limits).min(axis=1, initial=np.inf)
        self._rest_deviations: FloatArray = np.hypot.reduce(self._rest_weights * spreads, axis=1)
        wide = (poles.sum(axis=1) == 1) & (_WIDE * self._rest_deviations < 1 / self.limits)
        self._poles = np.where(wide & (self.limits < self._rest_limits), self.limits, np.nan)

    def log_mgf(
        self, rows: IntArray, z: ComplexArray, weights: FloatArray | None = None
    ) -> ComplexArray:
        """Return log E exp(z (Z - mean)) for the forms `rows`, or for forms with other weights.

        The shape of `rows` is that of `z`, or has a second dimension of 1.
        """
        weights = self._weights if weights is None else weights
        total: ComplexArray = np.zeros(z.shape, dtype=complex)
        for index, weight in zip(self._index.T, weights.T, strict=True):
            if weight.any():
                total += self.terms.log_mgf(index[rows], weight[rows] * z)
        return total

    def log_density(self, x: FloatArray, slack: FloatArray) -> FloatArray:
        """Return the log densities at `x`, shape (N,).

        `slack`, shape (N,) or (R, N), is the logarithm of the factor, at least 1, by which relative
        errors may exceed `rtol`. The result is -inf where they may be as large as the density.
        """
        offsets = x - self.means[:, None]
        above, below = (
            self._inverted(offsets, sign, np.where(sign * offsets >= 0, slack, np.inf), tail=False)
            for sign in (1, -1)
        )
        return np.where(offsets >= 0, above, below)

    def log_tail(self, x: FloatArray, side: int, slack: FloatArray) -> FloatArray:
        """Return log P(Z > x) if `side` is 1, log P(Z < x) if it is -1; see `log_density`.

        `x` may be infinite.
        """
        offsets = x - self.means[:, None]
        result = np.tile(np.where(side * offsets == np.inf, -np.inf, 0.0), (2, 1, 1))
        slack = np.where(np.isfinite(offsets), slack, np.inf)
        offsets = np.where(np.isfinite(offsets), offsets, 0.0)
        # The smaller tail is computed; the larger one is 1 less that.
        for sign in (1, -1):
            here = np.where(sign * offsets >= 0, slack, np.inf)
            if np.isinf(here).all():
                continue
            if sign != side:
                here = here + np.maximum(-self._inverses[sign].bound(offsets), 0.0)
            small = np.minimum(self._inverted(offsets, sign, here, tail=True), 0.0)
            with np.errstate(divide="ignore"):
                tail = small if sign == side else np.log1p(-np.exp(small[::-1]))
            np.copyto(result, tail, where=np.isfinite(here))
        return result

    def log_bound(self, x: FloatArray, side: int) -> FloatArray:
        """Return Chernoff's bounds on `log_tail`, or the order of the density if `side` is 0."""
        return self._inverses[side].bound(x - self.means[:, None])

    @cached_property
    def log_bounds(self) -> FloatArray:
        """Chernoff's bounds on log P(Z < 0) at nearly the best tilts, shape (R,)."""
        # Tilts around the one that would be best if the form were normal.
        best = np.maximum(self.means / self.deviations, 0.1) / self.deviations
        tilts = np.outer(best, 2.0 ** np.arange(-2, 2.5, 0.5))
        tilts = np.minimum(tilts, 0.98 * self.limits[:, None])
        rows = np.arange(len(tilts))[:, None]
        exponents = self.log_mgf(rows, -tilts.astype(complex)).real - self.means[:, None] * tilts
        return np.asarray(np.minimum(np.nan_to_num(exponents, nan=np.inf).min(axis=1), 0.0))

    def log_probabilities(self, rows: IntArray) -> FloatArray:
        """Return log P(Z < 0) for the forms `rows`, or raise RoughDensityError."""
        some = Variables(self.terms, self.weights[rows], self.rtol)
        low, high = some.log_tail(np.zeros(1), -1, np.zeros(1))[:, :, 0]
        if (low < high).any():
            raise RoughDensityError(
                "double precision is not enough for the probability of an event"
            )
        return np.asarray(high)

    def _inverted(
        self, offsets: FloatArray, sign: int, slack: FloatArray, *, tail: bool
    ) -> FloatArray:
        """Return log densities, or log tails on the side `sign`, where the slack is finite.

        The residue at the pole is used where it is at most twice as large as the result.
        """
        inverse = self._inverses[sign * tail]
        if np.isnan(self._poles).all():
            return inverse(offsets, slack)
        poles, rows = self._poles[:, None], np.arange(len(self._poles))[:, None]
        rest = self.log_mgf(rows, sign * np.nan_to_num(poles) + 0j, self._rest_weights).real
        residue = rest - sign * poles * offsets - math.log(2)
        if not tail:
            residue += np.log(poles)
        beyond = self._differences[sign, tail]
        bounds = beyond.bound(offsets)
        found = np.isfinite(slack) & (bounds < residue - math.log(2))
        difference = beyond(offsets, np.where(found, slack + residue - bounds, np.inf))
        ratio = np.where(found, difference[::-1] - residue, -np.inf)
        inverted = inverse(offsets, np.where(found, np.inf, slack))
        return np.where(found, residue + np.log1p(-np.exp(ratio)), inverted)

    @cached_property
    def _differences(self) -> dict[tuple[int, bool], _Inverse]:
        """Inverses beyond the poles, by the sign of the tilts, of tails and of densities."""
        poles = np.nan_to_num(self._poles)
        units = np.maximum(self._rest_deviations, _NARROWEST * self.deviations)
        tilts = poles[:, None] + self._tilts(self._rest_limits - poles, units)
        # The accuracy relative to the residue is set by the slack in `_inverted`.
        return {
            (sign, tail): _Inverse(self, sign * tilts[:, ::sign], units, tail=tail)
            for sign, tail in product((1, -1), (True, False))
        }

    @staticmethod
    def _tilts(limits: FloatArray, units: FloatArray) -> FloatArray:
        """Return tilts from 0 to the limits, exclusive, that are dense in units of 1 / `units`."""
        far = np.minimum(limits * units * _NEXT_TO_LIMIT, _LARGE_TILTS[-1])
        most = max(float(np.where(np.isfinite(limits), far, 60).max()), 60.0)
        tilts = np.concatenate([_TILTS, _LARGE_TILTS[most > _LARGE_TILTS]])[None] / units[:, None]
        return np.asarray(1 / (1 / tilts + 1 / limits[:, None]))

    @cached_property
    def _inverses(self) -> dict[int, _Inverse]:
        """Inverses of the lower tail, -1, of the density, 0, and of the upper tail, 1."""
        tilts = self._tilts(self.limits, self.deviations)
        both = np.hstack([-tilts[:, ::-1], np.zeros((len(tilts), 1)), tilts])
        return {
            side: _Inverse(self, grid, self.deviations, tail=side != 0)
            for side, grid in ((-1, -tilts[:, ::-1]), (0, both), (1, tilts))
        }

    @cached_property
    def knots(self) -> FloatArray:
        """If noise is wide, two points between which densities and tails may change fast."""
        wide = np.isfinite(self._poles)
        near = np.multiply.outer(self._rest_deviations[wide], [-8, 8]) + self.means[wide, None]
        return np.array([near.min(), near.max()]) if wide.any() else np.empty(0)

    @cached_property
    def scan(self) -> FloatArray:
        """Points less than a standard deviation apart, where the first form's density matters."""
        inverse = self._inverses[0]
        finite = np.isfinite(inverse.values[0])
        grid, values = inverse.grid[0, finite], inverse.values[0, finite]
        tilted_means = np.diff(values) / np.diff(grid)
        fine = np.arange(0, tilted_means.size - 1, 1 / 4)
        points = np.interp(fine, np.arange(tilted_means.size), tilted_means)
        ends = points[0] + 50 / grid[0], points[-1] + 50 / grid[-1]
        points = self.means[0] + np.unique([ends[0], *points, ends[1]])
        return np.asarray(points[self.log_bound(points, 0)[0] > 2 * SMALLEST_LOG])


class _Inverse:
    """Inverses of the Laplace transforms of R densities, or of R tails, along vertical lines.

    For each form there are L lines, which cross the real axis at increasing tilts, a row of `grid`.
    There is no pole between the first and the last one and, for tails, they have the same sign.
    `units`, shape (R,), are lengths.
    """

    def __init__(
        self, variables: Variables, grid: FloatArray, units: FloatArray, *, tail: bool
    ) -> None:
        self.variables, self.grid, self.units, self.tail = variables, grid, units, tail
        # At a point for which a line is not the best one, the integrand is larger by e^excess, and
        # so are all errors. With the largest excess, rounding errors are within the tolerance; the
        # other errors are made smaller by that factor.
        self.excess = min(math.log(variables.rtol / _ROUNDING), _MOST_EXCESS)
        self.digits = 4 - math.log(variables.rtol) + self.excess
        self.most_slack = 6 - math.log(variables.rtol)
        self._every = np.arange(len(grid))
        self._heights = np.full(grid.shape, np.nan)

    @cached_property
    def _logs(self) -> ComplexArray:
        return self.variables.log_mgf(self._every[:, None], self.grid.astype(complex))

    @cached_property
    def values(self) -> FloatArray:
        """Logarithms of the transforms on the real axis, shape (R, L)."""
        logs = self._logs.real
        if self.tail:
            logs = logs - np.log(np.abs(self.grid) * self.units[:, None])
        return np.where(np.isfinite(logs), logs, np.inf)

    @cached_property
    def _slopes(self) -> FloatArray:
        """Offsets at which the next line becomes the best one: `values` are convex in the tilt."""
        with np.errstate(invalid="ignore"):
            slopes = np.diff(self.values) / np.diff(self.grid)
        slopes[np.isinf(self.values[:, :-1])] = -np.inf
        slopes[np.isinf(self.values[:, 1:])] = np.inf
        return np.asarray(np.maximum.accumulate(slopes, axis=1))

    def _best(self, offsets: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the best lines, next to the saddle points, their exponents, and `bound`."""
        pairs = zip(self._slopes, offsets, strict=True)
        line = np.array([slopes.searchsorted(x) for slopes, x in pairs])
        rows, units = self._every[:, None], self.units[:, None]
        exponents = self._at(rows, line, offsets)
        if self.tail:
            return line, exponents, exponents + np.log(np.abs(self.grid[rows, line]) * units)
        return line, exponents, exponents - np.log(units)

    def _at(self, rows: IntArray, lines: IntArray, offsets: FloatArray) -> FloatArray:
        """Return exponents, log(transform(s) exp(-s x)), of lines at real s."""
        return np.asarray(self.values[rows, lines] - self.grid[rows, lines] * offsets)

    def bound(self, offsets: FloatArray) -> FloatArray:
        """Return Chernoff's bounds on log tails, or the order of log densities, shape (R, N)."""
        return self._best(offsets)[2]

    def __call__(self, offsets: FloatArray, slack: FloatArray) -> FloatArray:
        """Return bounds on the logarithms, shape (2, R, N), at some offsets from the means."""
        result = np.full((2, *slack.shape), -np.inf)
        where = slack < self.most_slack
        if not where.any():
            return result
        allowed = self.excess + np.where(where, np.maximum(slack - _MARGIN, 0.0), 0.0)
        best, least, bounds = self._best(offsets)
        result[1] = np.where(where, bounds, -np.inf)
        low, high = self._extents
        chosen: list[tuple[IntArray, ...]] = []
        pending = where.copy()
        while pending.any():
            # The line of the farthest point can serve many nearer ones, too.
            rows = np.flatnonzero(pending.any(axis=1))
            farthest = np.where(pending, np.abs(offsets), -1.0)[rows].argmax(axis=1)
            near = np.clip(best[rows, farthest, None] + _NEIGHBOURS, 0, self.grid.shape[1] - 1)
            excess = self._at(rows[:, None], near, offsets[rows, farthest, None])
            cost = (high - low)[rows[:, None], near]
            cost[excess > (least + allowed)[rows, farthest, None]] = np.inf
            choice = cost.argmin(axis=1)
            line = near[np.arange(rows.size), choice]
            reachable = np.isfinite(cost[np.arange(rows.size), choice])
            excess = self._at(rows[:, None], line[:, None], offsets[rows])
            served = pending[rows] & (excess <= (least + allowed)[rows]) & reachable[:, None]
            pending[rows, farthest] = False
            pending[rows] &= ~served
            chosen.append((rows[reachable], line[reachable], served[reachable]))
        rows, line, served = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
        if rows.size:
            ends = offsets[rows]
            span = np.maximum(high[rows, line], np.where(served, ends, -np.inf).max(axis=1))
            span -= np.minimum(low[rows, line], np.where(served, ends, np.inf).min(axis=1))
            self._along(rows, line, 2 * math.pi / span, offsets, served, slack, result)
        return result

    @cached_property
    def _extents(self) -> tuple[FloatArray, FloatArray]:
        """The ends, for each line, of an interval outside which g is negligible.

        They are Chernoff's bounds at the tilts of the other lines on either side.
        """
        gaps = self.grid[:, None, ::3] - self.grid[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            rise = self.values[:, None, ::3] - self.values[:, :, None] + self.digits
            bounds = rise / gaps
        low = np.where(gaps < 0, bounds, -np.inf).max(axis=2)
        high = np.where(gaps > 0, bounds, np.inf).min(axis=2)
        return low, high

    def _along(
        self,
        rows: IntArray,
        lines: IntArray,
        steps: FloatArray,
        offsets: FloatArray,
        served: BoolArray,
        slack: FloatArray,
        result: FloatArray,
    ) -> None:
        """Invert along one line for each of some rows, by the trapezoidal rule, into `result`.

        The bounds differ where rounding errors, of lines far from the saddle point, are too large.
        """
        nodes = np.ceil(self._reach(rows, lines) / steps) + 1
        if (nodes * (served.sum(axis=1) + 16)).sum() > _MOST_WORK:  # before conversion to integers
            raise RoughDensityError(f"an inversion would take {nodes.max():.3g} nodes")
        counts = nodes.astype(np.intp)
        points = [offsets[row, where] for row, where in zip(rows, served, strict=True)]
        totals, magnitudes, squares = [np.zeros(x.size) for x in points], *np.zeros((2, rows.size))
        size = max(1, _NODES_AT_ONCE // rows.size)
        for start in range(0, int(counts.max()), size):
            sizes = np.clip(counts - start, 0, size)
            for k, (kernel, z) in enumerate(self._kernels(rows, lines, steps, start, sizes)):
                totals[k] += _sum(kernel, steps[k], start, points[k])
                magnitudes[k] += np.abs(kernel).sum()
                squares[k] += (np.abs(kernel * z) ** 2).sum()
        # An exponent z x has a rounding error in proportion to the moduli of z and x.
        lengths = np.array([np.abs(x).max() for x in points])
        errors = _SUM_ERROR * (magnitudes + _EXPONENT_ERROR * lengths * np.sqrt(squares))
        for row, line, step, total, x, where, error in zip(
            rows, lines, steps, totals, points, served, errors, strict=True
        ):
            scale = step * self.units[row] ** self.tail / math.pi
            precise = total * np.exp(slack[row, where]) * self.variables.rtol > error
            low, high = total - np.where(precise, 0, error), total + np.where(precise, 0, error)
            with np.errstate(divide="ignore"):
                logs = np.log(scale * np.maximum([low, high], 0.0))
            result[:, row, where] = self._at(row, line, x) + logs

    def _kernels(
        self, rows: IntArray, lines: IntArray, steps: FloatArray, start: int, sizes: IntArray
    ) -> Iterator[tuple[ComplexArray, ComplexArray]]:
        """Return kernels and nodes of each line: transforms, divided by those on the real axis.

        The nodes are number `start` and the next ones of the trapezoidal rule from the real axis
        upwards. The first one of all has half the weight.
        """
        numbers = np.concatenate([np.arange(start, start + size) for size in sizes.tolist()])
        if rows.size > 1:
            rows, lines = np.repeat(rows, sizes), np.repeat(lines, sizes)
            steps = np.repeat(steps, sizes)
        s = self.grid[rows, lines]
        z: ComplexArray = np.asarray(s + 1j * steps * numbers)
        kernels = np.exp(self.variables.log_mgf(rows, z) - self._logs[rows, lines])
        if self.tail:
            kernels *= s / z
        kernels[numbers == 0] /= 2
        ends = np.cumsum(sizes)[:-1]
        return zip(np.split(kernels, ends), np.split(z, ends), strict=True)

    def _reach(self, rows: IntArray, lines: IntArray) -> FloatArray:
        """Return the heights t on some lines above which the integrals are negligible."""
        heights = self._heights
        unknown: BoolArray = np.isnan(heights[rows, lines])
        for stop in (36, 60, _HEIGHTS.size):
            if not unknown.any():
                break
            some, where = rows[unknown], lines[unknown]
            t = _HEIGHTS[:stop] / self.units[some, None]
            s = self.grid[some, where][:, None]
            z: ComplexArray = s + 1j * np.hstack([np.zeros((some.size, 1)), t])
            smooth = np.where(
                self.variables.terms.decay[self.variables._index], self.variables._weights, 0.0
            )
            logs = self.variables.log_mgf(some[:, None], z, smooth).real
            sizes = logs[:, 1:] - logs[:, :1] + np.log(_HEIGHTS[:stop])
            if self.tail:
                sizes -= np.log(np.abs(z[:, 1:] / s))
            # Negligible over a whole decade, since there may be isolated zeros.
            windows = np.lib.stride_tricks.sliding_window_view(
                sizes < -self.digits, _DECADE, axis=1
            )
            negligible: BoolArray = np.asarray(windows.all(axis=2))
            done: BoolArray = np.asarray(negligible.any(axis=1))
            first = negligible.argmax(axis=1)
            found = np.where(done, 1.3 * t[np.arange(some.size), first], np.nan)
            heights[some, where] = found
            unknown[unknown] = ~done
        if unknown.any():
            raise RoughDensityError("a characteristic function does not decay")
        return heights[rows, lines]


def _sum(kernel: ComplexArray, step: float, start: int, x: FloatArray) -> FloatArray:
    """Return the real part of the sum of kernel[k] exp(-i (start + k) step x), for each x.

    With k = block * j + l the exponential is a product of two factors, for j and for l, so that few
    exponentials are computed.
    """
    block = math.isqrt(max(kernel.size - 1, 0)) + 1
    padded = np.zeros(block**2, dtype=complex)
    padded[: kernel.size] = kernel
    turns = np.multiply.outer(x, (-1j * step) * np.arange(block))
    within, across = np.exp(turns), np.exp(block * turns)
    part = np.einsum("ij,ij->i", within @ padded.reshape(block, block).T, across)
    return np.asarray((part * np.exp(-1j * step * start * x)).real)
