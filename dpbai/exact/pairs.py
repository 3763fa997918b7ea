"""Probabilities that two linear forms are both negative, and bounds on unions of such events.

With M(s_1, s_2) = E exp(-s_1 Z_1 - s_2 Z_2) for two forms, the probability that both are negative
is, as for one form (``inversion``),

    1/(2 pi)^2 double integral of M(s_1 + i t_1, s_2 + i t_2) / ((s_1 + i t_1) (s_2 + i t_2)) dt,

with positive tilts s_1 and s_2. It is computed by the trapezoidal rule in both directions, through
the saddle point, where M(s_1, s_2) / (s_1 s_2) is least. A pair that matters little, or whose forms
are nearly equal, is only bounded: by 0, and by the least of Chernoff's bound, M(s_1, s_2), and the
probabilities of the two events.
"""

from __future__ import annotations

import math

import numpy as np

from dpbai._check import FloatArray, IntArray
from dpbai.exact.inversion import Variables
from dpbai.exact.terms import ComplexArray

_DIGITS = 9.0  # natural logarithm: probabilities of pairs have relative errors of about 1e-3
_ALLOWANCE = 0.01  # for these errors
_FACTORS = 2.0 ** np.array([-1.5, -0.8, -0.35, -0.12, 0, 0.12, 0.35, 0.8, 1.5])
_ROUNDS = 4
_RAY = 2.0 ** np.arange(-3, 0.25, 0.5)
_MOST_PAIRS = 450
_MOST_CORRELATED = 0.97
_MOST_WORK = 2**21  # nodes times terms, of all pairs together
_FIXED_COST = 150  # of a pair, in nodes
_NEGLIGIBLE = 1e-4  # relative to the largest probability of a form
_TIGHT = 1.1  # ratio of the bounds
_BELOW, _ABOVE = np.geomspace(0.02, 0.95, 16), np.linspace(0.05, 0.98, 14)
_HEIGHTS = 1.25 ** np.arange(-8, 40)


def bounds_of_union(forms: Variables, rows: IntArray, chances: FloatArray) -> tuple[float, float]:
    """Return bounds on the probability that at least one of some forms is negative.

    `rows`, shape (J,), are the forms, and `chances` their probabilities of being negative, in
    decreasing order.
    """
    first, second = np.triu_indices(rows.size, 1)
    pairs = _Pairs(forms, rows[first], rows[second])
    low, high = np.diag(chances), np.diag(chances)
    most = np.minimum(chances[second], np.exp(pairs.log_bounds))
    high[first, second] = high[second, first] = most
    bounds = union_bounds(chances, low, high)
    if bounds[1] <= _TIGHT * bounds[0]:
        return bounds
    # Pairs of the likeliest forms first.
    relevant = np.flatnonzero(most > _NEGLIGIBLE * chances[0])
    relevant = relevant[np.argsort(second[relevant], kind="stable")][:_MOST_PAIRS]
    pairs.refine(relevant)
    work = _MOST_WORK
    for pair in relevant.tolist():
        value, used = pairs.probability(pair, work // 8)
        work -= used
        if value is not None:
            i, j = int(first[pair]), int(second[pair])
            low[i, j] = low[j, i] = value * (1 - _ALLOWANCE)
            high[i, j] = high[j, i] = min(high[i, j], value * (1 + _ALLOWANCE))
    return union_bounds(chances, low, high)


class _Pairs:
    """Pairs of forms, with tilts near their saddle points."""

    def __init__(self, forms: Variables, first: IntArray, second: IntArray) -> None:
        self.forms, self.rows = forms, np.stack([first, second])
        self.limits: FloatArray = forms.terms.limits
        best = np.maximum(forms.means / forms.deviations, 1.0) / forms.deviations
        # Try tilts on the ray towards the best ones of each form alone, if the forms were normal.
        tilted = (forms.weights[self.rows] * best[self.rows][:, :, None]).sum(axis=0)
        ray = best[self.rows] / np.maximum(1, (np.abs(tilted) / self.limits).max(axis=1))
        tried = 0.95 * ray[:, :, None] * _RAY
        exponents = self.log_mgf(self.rows, tried.astype(complex)).real
        chosen = np.where(np.isfinite(exponents), exponents, np.inf).argmin(axis=1)
        every = np.arange(first.size)
        self.tilts: FloatArray = tried[:, every, chosen]
        self.levels: FloatArray = exponents[every, chosen]
        self.log_bounds: FloatArray = np.minimum(self.levels, 0.0)

    def refine(self, pairs: IntArray) -> None:
        """Move the tilts of some pairs to where M(s_1, s_2) / (s_1 s_2) is least."""
        rows, tilts = self.rows[:, pairs], self.tilts[:, pairs]
        for axis in (0, 1) * _ROUNDS:
            most = tilts[axis] + 0.9 * self._room(rows, tilts, axis)
            tried = np.repeat(tilts[:, :, None], _FACTORS.size, axis=2)
            tried[axis] = np.minimum(tried[axis] * _FACTORS, most[:, None])
            values = self.log_mgf(rows, tried.astype(complex)).real - np.log(tried).sum(axis=0)
            chosen = np.where(np.isfinite(values), values, np.inf).argmin(axis=1)
            tilts[axis] = tried[axis, np.arange(pairs.size), chosen]
        self.tilts[:, pairs] = tilts
        self.levels[pairs] = self.log_mgf(rows, tilts[:, :, None].astype(complex)).real[:, 0]

    def _room(self, rows: IntArray, tilts: FloatArray, axis: int) -> FloatArray:
        """Return by how much the tilt s_1 or s_2 may grow, shape (pairs,)."""
        weights = self.forms.weights[rows]
        tilted = np.abs((weights * tilts[:, :, None]).sum(axis=0))
        with np.errstate(divide="ignore"):
            return np.asarray(((self.limits - tilted) / np.abs(weights[axis])).min(axis=1))

    def log_mgf(self, rows: IntArray, z: ComplexArray) -> ComplexArray:
        """Return log M(z_1, z_2), shape (R, N), at `z` of shape (2, R, N), for R pairs `rows`."""
        forms = self.forms
        total: ComplexArray = np.asarray(-(forms.means[rows][:, :, None] * z).sum(axis=0))
        weights = forms.weights[rows]
        for entry in np.flatnonzero(weights.any(axis=(0, 1))).tolist():
            one, two = -weights[:, :, entry]
            at = one[:, None] * z[0] + two[:, None] * z[1]
            total = total + forms.terms.log_mgf(np.array([[entry]]), at)
        return total

    def probability(self, pair: int, most_work: int) -> tuple[float | None, int]:
        """Return the probability of one pair, or None if that fails, and the work that it took."""
        rows, tilts, level = self.rows[:, [pair]], self.tilts[:, pair], self.levels[pair]
        deviations = self.forms.deviations[rows[:, 0]]
        shares = self.forms.weights[rows[:, 0]] * self.forms.terms.deviations / deviations[:, None]
        correlation = float(shares[0] @ shares[1])
        if abs(correlation) > _MOST_CORRELATED:
            return None, 0
        steps, counts = [], []
        for axis in (0, 1):
            (room,) = self._room(rows, tilts[:, None], axis).tolist()
            if not room > 0:  # the other tilt is at its limit
                return None, 0
            moved = np.append(tilts[axis] * _BELOW, tilts[axis] + min(room, tilts[axis]) * _ABOVE)
            heights = _HEIGHTS / deviations[axis]
            z = np.tile(tilts[:, None, None].astype(complex), moved.size + heights.size)
            z[axis, 0] = np.append(moved, tilts[axis] + 1j * heights)
            logs = self.log_mgf(rows, z).real[0] - level - np.log(np.abs(z[axis, 0]) / tilts[axis])
            values, sizes = np.split(logs, [moved.size])
            gaps = moved - tilts[axis]
            ends = (np.where(np.isfinite(values), values, np.inf) + _DIGITS) / gaps
            steps.append(2 * math.pi / (ends[gaps > 0].min() - min(ends[gaps < 0].max(), 0.0)))
            relevant = np.flatnonzero(sizes > -_DIGITS)
            height = heights[min(int(relevant.max(initial=-1)) + 1, heights.size - 1)]
            counts.append(math.ceil(height / math.sqrt(1 - correlation**2) / steps[-1]) + 1)
        terms = int(np.count_nonzero(self.forms.weights[rows[:, 0]].any(axis=0)))
        work = (counts[0] * (2 * counts[1] + 1) + _FIXED_COST) * terms
        if work > most_work:
            return None, 0
        # Conjugate nodes have conjugate values, so half of the plane suffices.
        nodes = np.meshgrid(
            np.arange(counts[0]), np.arange(-counts[1], counts[1] + 1), indexing="ij"
        )
        z = (tilts + 1j * np.array(steps) * np.stack(nodes, -1)).transpose(2, 0, 1)
        kernel = np.exp(self.log_mgf(rows, z.reshape(2, 1, -1)) - level).reshape(z.shape[1:])
        kernel = (kernel * np.prod(tilts[:, None, None] / z, axis=0)).real
        total = kernel[0].sum() / 2 + kernel[1:].sum()
        scale = np.exp(level) * np.prod(steps / tilts) / (2 * math.pi**2)
        return (float(scale * total) if total > 0 else None), work


def union_bounds(chances: FloatArray, low: FloatArray, high: FloatArray) -> tuple[float, float]:
    """Return bounds on the probability of a union of events, from those of events and of pairs.

    `chances`, shape (J,), are the probabilities of the events, in decreasing order. `low` and
    `high`, shape (J, J), are bounds on those of the intersections of pairs, with `chances` on their
    diagonals. The lower bound is that of Kuai, Alajaji and Takahara (2000), which decreases with
    the probabilities of pairs. The upper bound is that of Hunter (1976): the sum over the events
    minus the sum over the pairs of a maximum spanning tree.
    """
    below = 0.0
    for size in range(1, np.count_nonzero(chances) + 1):  # fewer events may give a larger bound
        some = chances[:size]
        ratios = high[:size, :size].sum(axis=1) / some
        whole = np.floor(ratios)
        parts = ratios - whole
        below = max(below, float((some * (parts / (whole + 1) + (1 - parts) / whole)).sum()))
    joined, weight = low[0].copy(), 0.0
    left = set(range(1, chances.size))
    while left:  # Prim's algorithm
        new = max(left, key=joined.__getitem__)
        left.remove(new)
        weight += joined[new]
        joined = np.maximum(joined, low[new])
    return below, math.fsum(chances.tolist()) - weight
