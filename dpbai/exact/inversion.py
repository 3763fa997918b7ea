r"""Densities and tails of linear forms of independent terms, from moment generating functions.

Such a form is a released coordinate, or the lead over a rival: it is one-dimensional whatever the
number of coordinates, and so one inversion gives the probability of a half-space.

The density of Z, its upper tail and its lower tail have the Laplace transforms M(s), M(s)/s for
s > 0 and M(s)/(-s) for s < 0, where M is the moment generating function. Each is inverted along a
vertical line, for instance

    P(Z > x) = 1/(2 pi) integral of M(s + it) exp(-(s + it) x) / (s + it) dt,

with s next to the saddle point, where the integrand does not oscillate before it has decayed. So
nothing cancels, and a tail of 1e-30 comes out with as many correct digits as one of 0.3. The
trapezoidal rule converges exponentially: its error is the sum of the aliases, the same function
(times e^(sx)) at x + k 2 pi / step, and Chernoff bounds say which step makes them negligible.

With one Laplace variate of scale b, M has poles at +-1/b. Beyond 1/b a line gives what is left of
P(Z > x) without the residue there, E exp((Z' - x)/b) / 2, where Z' is Z without that variate:

    E exp((Z' - x)/b) / 2 - P(Z > x) = E max(cosh((Z' - x)/b) - 1, 0)  over Z' > x.

Where noise is wide, that is little, and as narrow as Z'.

Results are logarithms, so that products of small numbers do not underflow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import product

import numpy as np

from dpbai._check import BoolArray, FloatArray, IntArray
from dpbai.exact.quadrature import SMALLEST_LOG, RoughDensityError
from dpbai.exact.terms import ComplexArray, Term, Terms

_MOST_WORK = 2**26
_SLICE = 2**17
_ROUNDING = 1e-12
_EPSILON = 1e-15  # relative rounding error of a sum
_EXPONENTS = 0.5  # of that, the rounding error of an exponent of size 1
_MOST_EXCESS = 1.0
_MARGIN = 3.0
_NEIGHBOURS = np.arange(-12, 13)
_LADDER = np.concatenate([0.25 * 1.4 ** np.arange(11), np.arange(9.0, 60, 2)])
_STEEP = 60 * 1.4 ** np.arange(400)
_NEXT_TO_LIMIT = 1000.0
_WIDE = 10.0
_NARROWEST = 1e-12
_HEIGHTS = 1.25 ** np.arange(-4, 116)
_DECADE = 11  # heights


class Variables:
    """R linear forms of T independent terms, with weights of shape (R, T), no row of which is 0.

    Densities and tails are arrays of shape (2, R, N) of logarithms, lower and upper bounds. The two
    are equal, with a relative error of `rtol`, at least 1e-12, except at points so far out that
    double precision cannot tilt the form there: the lower one is then -inf, the upper one
    Chernoff's.
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
            raise RoughDensityError("it is constant")
        with np.errstate(divide="ignore"):
            limits = self.terms.limits[self._index] / np.abs(self._weights)
        self.limits: FloatArray = limits.min(axis=1, initial=np.inf)
        poles = self.terms.poles[self._index] & (self._weights != 0)
        others = np.where(poles, np.inf, limits).min(axis=1, initial=np.inf)
        # Noise is wide if without it a form is much narrower.
        self._narrow = np.where(poles, 0.0, self._weights)
        self._narrowed: FloatArray = np.hypot.reduce(self._narrow * spreads, axis=1)
        wide = (poles.sum(axis=1) == 1) & (_WIDE * self._narrowed < 1 / self.limits)
        self._poles = np.where(wide & (self.limits < others), self.limits, np.nan)
        self._room = others

    def log_mgf(
        self, rows: IntArray, z: ComplexArray, weights: FloatArray | None = None
    ) -> ComplexArray:
        """Return log E exp(z (Z - mean)) of some forms, or of forms with other weights.

        `rows` has the shape of `z`, or 1 along its second axis.
        """
        weights = self._weights if weights is None else weights
        total: ComplexArray = np.zeros(z.shape, dtype=complex)
        for index, weight in zip(self._index.T, weights.T, strict=True):
            if weight.any():
                total += self.terms.log_mgf(index[rows], weight[rows] * z)
        return total

    def log_density(self, x: FloatArray, slack: FloatArray) -> FloatArray:
        """Return the logarithms of the densities at `x`, shape (N,).

        `slack`, shape (N,) or (R, N), is the logarithm of the factor, at least 1, by which relative
        errors may exceed `rtol`. Where errors may reach the size of the densities, the result is
        -inf.
        """
        offsets = x - self.means[:, None]
        slack = np.broadcast_to(slack, offsets.shape)
        result = np.zeros((2, *offsets.shape))
        left = np.ones(offsets.shape, dtype=bool)
        for sign, own in ((1, offsets >= 0), (-1, offsets < 0)):
            left &= ~self._beside_pole(
                offsets, sign, np.where(own, slack, np.inf), result, tail=False
            )
        return np.where(left, self._inverses[0](offsets, np.where(left, slack, np.inf)), result)

    def log_tail(self, x: FloatArray, side: int, slack: FloatArray) -> FloatArray:
        """Return log P(Z > x) for `side` 1, log P(Z < x) for -1, as `log_density`.

        `x` may be infinite.
        """
        offsets = x - self.means[:, None]
        result = np.tile(np.where(side * offsets == np.inf, -np.inf, 0.0), (2, 1, 1))
        asked = np.where(np.isfinite(offsets), slack, np.inf)
        offsets = np.where(np.isfinite(offsets), offsets, 0.0)
        # The smaller tail is inverted; the larger one is the rest.
        for sign in (1, -1):
            own = np.where(sign * offsets >= 0, asked, np.inf)
            if np.isinf(own).all():
                continue
            if sign != side:
                own = own + np.maximum(-self._inverses[sign].bound(offsets), 0.0)
            small = np.zeros((2, *offsets.shape))
            found = self._beside_pole(offsets, sign, own, small, tail=True)
            inverted = self._inverses[sign](offsets, np.where(found, np.inf, own))
            small = np.minimum(np.where(found, small, inverted), 0.0)
            with np.errstate(divide="ignore"):
                rest = small if sign == side else np.log1p(-np.exp(small[::-1]))
            np.copyto(result, rest, where=np.isfinite(own))
        return result

    def log_bound(self, x: FloatArray, side: int) -> FloatArray:
        """Return Chernoff bounds of `log_tail`, or of the order of the density if `side` is 0."""
        return self._inverses[side].bound(x - self.means[:, None])

    @cached_property
    def log_bounds(self) -> FloatArray:
        """Chernoff bounds of log P(Z < 0), nearly the least: shape (R,)."""
        # Around the optimal tilt of a normal form.
        best = np.maximum(self.means / self.deviations, 0.1) / self.deviations
        tilts = np.outer(best, 2.0 ** np.arange(-2, 2.5, 0.5))
        tilts = np.minimum(tilts, 0.98 * self.limits[:, None])
        rows = np.arange(len(tilts))[:, None]
        exponents = self.log_mgf(rows, -tilts.astype(complex)).real - self.means[:, None] * tilts
        return np.asarray(np.minimum(np.nan_to_num(exponents, nan=np.inf).min(axis=1), 0.0))

    def log_probabilities(self, rows: IntArray) -> FloatArray:
        """Return log P(Z < 0) for some of the forms, or raise RoughDensityError."""
        some = Variables(self.terms, self.weights[rows], self.rtol)
        low, high = some.log_tail(np.zeros(1), -1, np.zeros(1))[:, :, 0]
        if (low < high).any():
            raise RoughDensityError("an event lies beyond the reach of double precision")
        return np.asarray(high)

    def _beside_pole(
        self, offsets: FloatArray, sign: int, slack: FloatArray, result: FloatArray, *, tail: bool
    ) -> BoolArray:
        """Write what is at most half of the residue at a pole below it; return where that is."""
        if np.isnan(self._poles).all():
            return np.zeros(slack.shape, dtype=bool)
        poles, rows = self._poles[:, None], np.arange(len(self._poles))[:, None]
        rest = self.log_mgf(rows, sign * np.nan_to_num(poles) + 0j, self._narrow).real
        base = rest - sign * poles * offsets - math.log(2)
        if not tail:
            base += np.log(poles)
        beyond = self._beyond[sign, tail]
        bounds = beyond.bound(offsets)
        found = np.isfinite(slack) & (bounds < base - math.log(2))
        part = beyond(offsets, np.where(found, slack + base - bounds, np.inf))
        excess = np.where(found, part[::-1] - base, -np.inf)
        np.copyto(result, base + np.log1p(-np.exp(excess)), where=found)
        return found

    @cached_property
    def _beyond(self) -> dict[tuple[int, bool], _Inverse]:
        poles = np.nan_to_num(self._poles)
        units = np.maximum(self._narrowed, _NARROWEST * self.deviations)
        ladder = poles[:, None] + self._ladder(self._room - poles, units)
        # The accuracy relative to the residue is set by the slack in `_beside_pole`.
        return {
            (sign, tail): _Inverse(self, sign * ladder[:, ::sign], units, tail=tail)
            for sign, tail in product((1, -1), (True, False))
        }

    @staticmethod
    def _ladder(limits: FloatArray, units: FloatArray) -> FloatArray:
        """Return tilts up to next to the limits; `units` are lengths at which they differ."""
        far = np.minimum(limits * units * _NEXT_TO_LIMIT, _STEEP[-1])
        most = max(float(np.where(np.isfinite(limits), far, 60).max()), 60.0)
        ladder = np.concatenate([_LADDER, _STEEP[most > _STEEP]])[None, :] / units[:, None]
        return np.asarray(1 / (1 / ladder + 1 / limits[:, None]))

    @cached_property
    def _inverses(self) -> dict[int, _Inverse]:
        ladder = self._ladder(self.limits, self.deviations)
        both = np.hstack([-ladder[:, ::-1], np.zeros((len(ladder), 1)), ladder])
        return {
            side: _Inverse(self, grid, self.deviations, tail=side != 0)
            for side, grid in ((-1, -ladder[:, ::-1]), (0, both), (1, ladder))
        }

    @cached_property
    def knots(self) -> FloatArray:
        """Under wide noise, the points between which densities and tails may change fast."""
        wide = np.isfinite(self._poles)
        near = np.multiply.outer(self._narrowed[wide], [-8, 8]) + self.means[wide, None]
        return np.array([near.min(), near.max()]) if wide.any() else np.empty(0)

    @cached_property
    def scan(self) -> FloatArray:
        """Points less than a deviation apart, of the first form, where its density matters."""
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
    """The inverse Laplace transforms that give densities, or tails, along some vertical lines.

    The lines cross the real axis at `grid`, shape (R, L), with no pole among or between them, nor 0
    for tails; `units` are lengths, shape (R,).
    """

    def __init__(
        self, variables: Variables, grid: FloatArray, units: FloatArray, *, tail: bool
    ) -> None:
        self.variables, self.grid, self.units, self.tail = variables, grid, units, tail
        # A line away from the saddle point enlarges all errors by e^excess: rounding errors must
        # stay within the tolerance, and other errors are smaller by this factor.
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
        """Logarithms of the transforms' moduli on the real axis, shape (R, L)."""
        logs = self._logs.real
        if self.tail:
            logs = logs - np.log(np.abs(self.grid) * self.units[:, None])
        return np.where(np.isfinite(logs), logs, np.inf)

    @cached_property
    def _slopes(self) -> FloatArray:
        """Offsets at which the best line changes: the exponents are convex in the tilt."""
        with np.errstate(invalid="ignore"):
            slopes = np.diff(self.values) / np.diff(self.grid)
        slopes[np.isinf(self.values[:, :-1])] = -np.inf
        slopes[np.isinf(self.values[:, 1:])] = np.inf
        return np.asarray(np.maximum.accumulate(slopes, axis=1))

    def _best(self, offsets: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the lines next to the saddle points, log(transform(s) exp(-s x)), and `bound`."""
        pairs = zip(self._slopes, offsets, strict=True)
        line = np.array([slopes.searchsorted(x) for slopes, x in pairs])
        rows, units = self._every[:, None], self.units[:, None]
        exponents = self._at(rows, line, offsets)
        if self.tail:
            return line, exponents, exponents + np.log(np.abs(self.grid[rows, line]) * units)
        return line, exponents, exponents - np.log(units)

    def _at(self, rows: IntArray, lines: IntArray, offsets: FloatArray) -> FloatArray:
        return np.asarray(self.values[rows, lines] - self.grid[rows, lines] * offsets)

    def bound(self, offsets: FloatArray) -> FloatArray:
        """Return Chernoff bounds of tails, or the order of densities, shape (R, N)."""
        return self._best(offsets)[2]

    def __call__(self, offsets: FloatArray, slack: FloatArray) -> FloatArray:
        """Return bounds of the logarithms, shape (2, R, N), for offsets from the means."""
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
            # Farthest points first: their lines serve many nearer ones.
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
        """Return, for each line, an interval that contains nearly all of the function times e^(sx).

        Its ends are Chernoff bounds, by the other lines on either side.
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
        """Invert along one line for each of some rows, by the trapezoidal rule.

        Where rounding errors leave too few digits, far from the saddle point, bounds differ.
        """
        nodes = np.ceil(self._reach(rows, lines) / steps) + 1
        if (nodes * (served.sum(axis=1) + 16)).sum() > _MOST_WORK:  # before conversion to integers
            raise RoughDensityError(f"it would take {nodes.max():.3g} nodes")
        counts: IntArray = nodes.astype(np.int64)
        points = [offsets[row, where] for row, where in zip(rows, served, strict=True)]
        # The exponents have rounding errors, too, in proportion to these lengths.
        lengths = np.array([np.abs(x).max() for x in points])
        totals, magnitudes, squares = [np.zeros(x.size) for x in points], *np.zeros((2, rows.size))
        size = max(1, _SLICE // rows.size)
        for start in range(0, int(counts.max()), size):
            sizes = np.clip(counts - start, 0, size)
            kernels = self._kernels(rows, lines, steps, start, sizes)
            for total, kernel, step, x in zip(totals, kernels, steps, points, strict=True):
                total += _sum(kernel, step, start, x)
            for k, kernel in enumerate(kernels):
                heights = steps[k] * np.arange(start, start + kernel.size)
                sizes_of_z = np.hypot(self.grid[rows[k], lines[k]], heights)
                magnitudes[k] += np.abs(kernel).sum()
                squares[k] += ((np.abs(kernel) * sizes_of_z) ** 2).sum()
        errors = _EPSILON * (magnitudes + _EXPONENTS * lengths * np.sqrt(squares))
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
    ) -> list[ComplexArray]:
        """Return the transforms at nodes of vertical lines, divided by those at their feet.

        The node at the foot itself has half the weight.
        """
        nodes = np.concatenate([np.arange(start, start + size) for size in sizes.tolist()])
        if rows.size > 1:
            times = sizes.astype(np.intp)  # NumPy requires it on 32-bit platforms
            rows, lines = np.repeat(rows, times), np.repeat(lines, times)
            steps = np.repeat(steps, times)
        s = self.grid[rows, lines]
        z: ComplexArray = np.asarray(s + 1j * steps * nodes)
        kernels = np.exp(self.variables.log_mgf(rows, z) - self._logs[rows, lines])
        if self.tail:
            kernels *= s / z
        kernels[nodes == 0] /= 2
        return np.split(kernels, np.cumsum(sizes)[:-1])

    def _reach(self, rows: IntArray, lines: IntArray) -> FloatArray:
        """Return the heights beyond which the integrals are negligible."""
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
            # Negligible over a whole decade: isolated zeros do not count.
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
            raise RoughDensityError("its characteristic function does not decay")
        return heights[rows, lines]


def _sum(kernel: ComplexArray, step: float, start: int, x: FloatArray) -> FloatArray:
    """Return the real part of the sum of kernel[k] exp(-i (start + k) step x) at some x.

    With k = block j + l, the exponential is a product of few different factors.
    """
    block = math.isqrt(max(kernel.size - 1, 0)) + 1
    padded = np.zeros(block**2, dtype=complex)
    padded[: kernel.size] = kernel
    turns = np.multiply.outer(x, (-1j * step) * np.arange(block))
    within, across = np.exp(turns), np.exp(block * turns)
    part = np.einsum("ij,ij->i", within @ padded.reshape(block, block).T, across)
    return np.asarray((part * np.exp(-1j * step * start * x)).real)
