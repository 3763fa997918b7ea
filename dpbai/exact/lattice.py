r"""Densities and tails of a mean of two-valued rewards plus Laplace noise, in closed form.

The mean lies on a lattice, and its points j = 0, 1, ... have binomial probabilities p_j. Let s be
the distance of neighbouring points, b the scale of the noise, and r = s/b. Between points k and k +
1, at a distance of u s from point k, the density f of the sum Z of mean and noise is

    2 b f = A_k e^(-r u) + C_{k+1} e^(-r (1 - u)),
    A_k = sum over j <= k of p_j e^(-r (k - j)),   C_k = sum over j >= k of p_j e^(-r (j - k)),

and its upper tail is

    P(Z > x) = sum over j > k of p_j + (A_k e^(-r u) - C_{k+1} e^(-r (1 - u))) / 2.

The subtracted part is at most half of the first sum, so nothing cancels. A_k and C_k come from
recursions. Density and tails have kinks at the lattice points, and none elsewhere.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import scipy

from dpbai._check import FloatArray
from dpbai.exact.quadrature import SMALLEST_LOG, RoughDensityError

_FLANK = 40.0  # in scales of the noise: a spike of the density is narrower on either side
_MOST_POINTS = 2**19


class LatticeVariable:
    """The sum of start + step * Binomial(count, share) and Laplace noise of a scale.

    It has the methods of `inversion.Variables`, exact to rounding except that probabilities below
    1e-300 are 0. `step` and `scale` are positive, and `share` is in [0, 1].
    """

    def __init__(self, start: float, step: float, count: int, share: float, scale: float) -> None:
        share = share if share > 1e-300 else 0.0  # below, SciPy's probabilities overflow
        # By Bernstein's inequality, points outside low..high have a probability below 1e-250.
        variance = count * share * (1 - share)
        reach = -SMALLEST_LOG / 3
        reach += math.sqrt(reach**2 - 2 * SMALLEST_LOG * variance)
        low = max(0, math.floor(count * share - reach))
        high = min(count, math.ceil(count * share + reach))
        if high - low > _MOST_POINTS:
            raise RoughDensityError(
                f"a sum over a lattice of {high - low} points would take too long"
            )
        points = np.arange(low, high + 1)
        self._points: FloatArray = start + step * points.astype(np.float64)
        # The kinks of the density, and the ends of narrow spikes, which quadrature could miss.
        flank = _FLANK * scale
        spike = np.array([-flank, 0.0, flank] if 2 * flank < step else [0.0])
        self.knots: FloatArray = np.add.outer(self._points, spike).ravel()
        self._scale = scale
        self.means = np.array([start + step * count * share])
        self._deviation = math.hypot(step * math.sqrt(variance), math.sqrt(2) * scale)
        chances = scipy.stats.binom.pmf(points, count, share)

        def sums(values: FloatArray) -> list[FloatArray]:
            """Return sums of the values up to each one: plain, and decayed by the distance."""
            recursions = ([1.0, -factor] for factor in (1.0, math.exp(-step / scale)))
            return [np.append(0.0, scipy.signal.lfilter([1.0], a, values)) for a in recursions]

        # Entry k + 1 of the left sums is over points up to k, that of the right over the others.
        self._left, self._left_decayed = sums(chances)
        self._right, self._right_decayed = (part[::-1] for part in sums(chances[::-1]))

    def log_density(self, x: FloatArray, _slack: FloatArray | None = None) -> FloatArray:
        """Return the logarithm of the density, shape (2, 1, N), at `x`, shape (N,)."""
        _, left, right = self._parts(x)
        return self._logs((left + right) / self._scale)

    def log_tail(self, x: FloatArray, side: int, _slack: FloatArray | None = None) -> FloatArray:
        """Return log P(Z > x) if `side` is 1, log P(Z < x) if it is -1; `x` may be infinite."""
        at, left, right = self._parts(x)
        tail = self._right[at] - right + left if side > 0 else self._left[at] - left + right
        return self._logs(np.minimum(tail, 1.0))

    def log_bound(self, x: FloatArray, side: int) -> FloatArray:
        """Return the log tail on that side, or the log density if `side` is 0, shape (1, N)."""
        return np.asarray((self.log_tail(x, side) if side else self.log_density(x))[0])

    @cached_property
    def scan(self) -> FloatArray:
        """The lattice, and beyond it points at most a standard deviation apart, while f matters."""
        farthest = -SMALLEST_LOG * self._scale
        count = math.ceil(farthest / self._deviation) + 1
        beyond = np.linspace(farthest, 0.0, count, endpoint=False)
        ends = self._points[0] - beyond, self._points[-1] + beyond[::-1]
        return np.concatenate([ends[0], self._points, ends[1]])

    def _parts(self, x: FloatArray) -> tuple[np.ndarray, FloatArray, FloatArray]:
        """Return the number of points up to x, and half of the decayed sums on either side."""
        at = np.searchsorted(self._points, x, side="right")
        after_left = x - self._points[np.maximum(at - 1, 0)]
        before_right = self._points[np.minimum(at, self._points.size - 1)] - x
        # If there is no point on a side, the sum is 0, whatever the distance.
        left = self._left_decayed[at] * np.exp(-np.maximum(after_left, 0) / self._scale)
        right = self._right_decayed[at] * np.exp(-np.maximum(before_right, 0) / self._scale)
        return at, left / 2, right / 2

    @staticmethod
    def _logs(values: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.tile(np.log(np.maximum(values, 0.0)), (2, 1, 1))
