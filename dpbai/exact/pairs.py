"""Probabilities that two linear forms are negative at once, and bounds of unions made of them.

A pair has a density in the plane, inverted like that of one form (``inversion``): by a trapezoidal
rule in both directions, through the saddle point of M(s_1, s_2) / (s_1 s_2). Where a pair matters
little, or its forms are nearly the same, it is bounded by 0 and by the least of both probabilities
and Chernoff's bound.
"""

from __future__ import annotations

import math

import numpy as np

from dpbai._check import FloatArray, IntArray
from dpbai.exact.inversion import Variables
from dpbai.exact.terms import ComplexArray

_DIGITS = 9.0  # logarithms: the pairs are known to about 1e-3
_ALLOWANCE = 0.01
_FACTORS = 2.0 ** np.array([-1.5, -0.8, -0.35, -0.12, 0, 0.12, 0.35, 0.8, 1.5])
_ROUNDS = 4
_RAY = 2.0 ** np.arange(-3, 0.25, 0.5)
_MOST_PAIRS = 450
_MOST_ALIKE = 0.97  # correlation
_MOST_WORK = 2**21  # nodes times terms, of all pairs together
_SET_UP = 150  # nodes, the fixed cost of a pair
_HARDLY = 1e-4
_TIGHT = 1.1
_BELOW, _ABOVE = np.geomspace(0.02, 0.95, 16), np.linspace(0.05, 0.98, 14)
_HEIGHTS = 1.25 ** np.arange(-8, 40)


def bounds_of_union(forms: Variables, rows: IntArray, chances: FloatArray) -> tuple[float, float]:
    """Return bounds of the probability that one of some forms is negative.

    `rows`, shape (J,), are the forms, and `chances` that each is negative, in decreasing order.
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
    relevant_pairs = np.flatnonzero(most > _HARDLY * chances[0])
    relevant_pairs = relevant_pairs[np.argsort(second[relevant_pairs], kind="stable")][:_MOST_PAIRS]
    pairs.refine(relevant_pairs)
    work = _MOST_WORK
    for pair in relevant_pairs.tolist():
        value, used = pairs.probability(pair, work // 8)
        work -= used
        if value is not None:
            i, j = int(first[pair]), int(second[pair])
            low[i, j] = low[j, i] = value * (1 - _ALLOWANCE)
            high[i, j] = high[j, i] = min(high[i, j], value * (1 + _ALLOWANCE))
    return union_bounds(chances, low, high)


class _Pairs:
    """Pairs of forms, each tilted to its saddle point."""

    def __init__(self, forms: Variables, first: IntArray, second: IntArray) -> None:
        self.forms, self.rows = forms, np.stack([first, second])
        self.limits: FloatArray = forms.terms.limits
        best = np.maximum(forms.means / forms.deviations, 1.0) / forms.deviations
        # Along the ray to the optimal tilts of each form, as if normal.
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
        """Return by how much one of the tilts may grow."""
        weights = self.forms.weights[rows]
        tilted = np.abs((weights * tilts[:, :, None]).sum(axis=0))
        with np.errstate(divide="ignore"):
            return np.asarray(((self.limits - tilted) / np.abs(weights[axis])).min(axis=1))

    def log_mgf(self, rows: IntArray, z: ComplexArray) -> ComplexArray:
        """Return log E exp(z_1 Z_1 + z_2 Z_2), Z minus the forms: shape (R, N) of z (2, R, N)."""
        forms = self.forms
        total: ComplexArray = np.asarray(-(forms.means[rows][:, :, None] * z).sum(axis=0))
        weights = forms.weights[rows]
        for entry in np.flatnonzero(weights.any(axis=(0, 1))).tolist():
            one, two = -weights[:, :, entry]
            at = one[:, None] * z[0] + two[:, None] * z[1]
            total = total + forms.terms.log_mgf(np.array([[entry]]), at)
        return total

    def probability(self, pair: int, most_work: int) -> tuple[float | None, int]:
        """Return the chance of one pair to about 1e-3, or None, and the work that it took."""
        rows, tilts, level = self.rows[:, [pair]], self.tilts[:, pair], self.levels[pair]
        deviations = self.forms.deviations[rows[:, 0]]
        shares = self.forms.weights[rows[:, 0]] * self.forms.terms.deviations / deviations[:, None]
        alike = float(shares[0] @ shares[1])
        if abs(alike) > _MOST_ALIKE:
            return None, 0
        steps, counts = [], []
        for axis in (0, 1):
            (room,) = self._room(rows, tilts[:, None], axis).tolist()
            if not room > 0:  # the other tilt is at its limit
                return None, 0
            moved = np.append(tilts[axis] * _BELOW, tilts[axis] + min(room, tilts[axis]) * _ABOVE)
            other = (np.ones((2, 1, moved.size)) * tilts[:, None, None]).astype(complex)
            other[axis] = moved
            values = self.log_mgf(rows, other).real[0] - np.log(moved / tilts[axis])
            gaps = moved - tilts[axis]
            ends = (np.where(np.isfinite(values), values, np.inf) - level + _DIGITS) / gaps
            steps.append(2 * math.pi / (ends[gaps > 0].min() - min(ends[gaps < 0].max(), 0.0)))
            heights = _HEIGHTS / deviations[axis]
            z = (np.ones((2, 1, heights.size)) * tilts[:, None, None]).astype(complex)
            z[axis] += 1j * heights
            sizes = self.log_mgf(rows, z).real[0] - level - np.log(np.abs(z[axis, 0]) / tilts[axis])
            relevant = np.flatnonzero(sizes > -_DIGITS)
            height = (
                heights[min(relevant[-1] + 1, heights.size - 1)] if relevant.size else heights[0]
            )
            counts.append(math.ceil(height / math.sqrt(1 - alike**2) / steps[-1]) + 1)
        terms = int(np.count_nonzero(self.forms.weights[rows[:, 0]].any(axis=0)))
        work = (counts[0] * (2 * counts[1] + 1) + _SET_UP) * terms
        if work > most_work:
            return None, 0
        # Conjugate nodes have conjugate values: half of the plane suffices.
        t = np.meshgrid(
            steps[0] * np.arange(counts[0]),
            steps[1] * np.arange(-counts[1], counts[1] + 1),
            indexing="ij",
        )
        z = tilts[:, None, None] + 1j * np.stack(t).reshape(2, 1, -1)
        kernel = np.exp(self.log_mgf(rows, z)[0] - level) * np.prod(
            tilts[:, None] / z[:, 0], axis=0
        )
        kernel = kernel.real.reshape(t[0].shape)
        total = kernel[0].sum() / 2 + kernel[1:].sum()
        scale = np.exp(level) * np.prod(steps / tilts) / (2 * math.pi**2)
        return (float(scale * total) if total > 0 else None), work


def union_bounds(chances: FloatArray, low: FloatArray, high: FloatArray) -> tuple[float, float]:
    """Return bounds of the probability of a union, from the chances of events and bounds of pairs.

    The diagonals of `low` and `high`, shape (J, J), are the chances, shape (J,). Below: Kuai,
    Alajaji and Takahara (2000), which decreases in the pairs. Above: Hunter (1976), the sum less
    the pairs of the heaviest spanning tree.
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
