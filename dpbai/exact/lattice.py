r"""Densities and tails of a mean of two-valued rewards plus Laplace noise, in closed form.

The mean lies on a lattice, and the binomial probabilities p_j of its points decide all. Between
neighbouring points k and k + 1 the density is that of two exponentials: with noise of scale b,
spacing s, r = s/b, and u for the distance to point k in units of s,

    2 b f = A_k e^(-r u) + C_{k+1} e^(-r (1 - u)),
    A_k = sum over j <= k of p_j e^(-r (k - j)),   C_k = sum over j >= k of p_j e^(-r (j - k)).

All sums are of positive parts. The functions have kinks at the lattice points, and none elsewhere.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import scipy

from dpbai._check import FloatArray
from dpbai.exact.quadrature import SMALLEST_LOG, RoughDensityError

_FLANK = 40.0  # scales of the noise, beyond which a point contributes nothing
_MOST_POINTS = 2**19


class LatticeVariable:
    """The sum of start + step Binomial(count, share), and noise Lap(scale).

    It has the methods of `inversion.Variables`, correct to rounding; below 1e-300 all is 0. `step`
    and `scale` are positive, and `share` is in [0, 1].
    """

    def __init__(self, start: float, step: float, count: int, share: float, scale: float) -> None:
        share = share if share > 1e-300 else 0.0  # below, SciPy's probabilities overflow
        # Bernstein's inequality: beyond these points there is less than 1e-250.
        variance = count * share * (1 - share)
        reach = -SMALLEST_LOG / 3
        reach += math.sqrt(reach**2 - 2 * SMALLEST_LOG * variance)
        low = max(0, math.floor(count * share - reach))
        high = min(count, math.ceil(count * share + reach))
        if high - low > _MOST_POINTS:
            raise RoughDensityError(
                f"a lattice of {high - low} points is too large for a sum over it"
            )
        points = np.arange(low, high + 1)
        self._points: FloatArray = start + step * points.astype(np.float64)
        # The kinks of the density, and the ends of narrow spikes, which a rule could miss.
        flank = _FLANK * scale
        feet = np.array([-flank, 0.0, flank] if 2 * flank < step else [0.0])
        self.knots: FloatArray = np.add.outer(self._points, feet).ravel()
        self._step, self._scale, self._rate = step, scale, step / scale
        self.means = np.array([start + step * count * share])
        self._deviation = math.hypot(step * math.sqrt(variance), math.sqrt(2) * scale)
        chances = scipy.stats.binom.pmf(points, count, share)
        decay = [1.0, -math.exp(-self._rate)]

        def from_left(values: FloatArray) -> tuple[FloatArray, FloatArray]:
            sums = np.cumsum(values), scipy.signal.lfilter([1.0], decay, values)
            return np.append(0.0, sums[0]), np.append(0.0, sums[1])

        # Entry k + 1 counts the points up to k on the left, those from k + 1 on the right.
        self._left, self._left_decayed = from_left(chances)
        self._right, self._right_decayed = (sums[::-1] for sums in from_left(chances[::-1]))

    def log_density(self, x: FloatArray, _slack: FloatArray | None = None) -> FloatArray:
        """Return the logarithm of the density, shape (2, 1, N), at `x`, shape (N,)."""
        _, left, right = self._parts(x)
        return self._logs((left + right) / self._scale)

    def log_tail(self, x: FloatArray, side: int, _slack: FloatArray | None = None) -> FloatArray:
        """Return log P(Z > x) for `side` 1, log P(Z < x) for -1; infinities are allowed."""
        at, left, right = self._parts(x)
        tail = self._right[at] - right + left if side > 0 else self._left[at] - left + right
        return self._logs(np.minimum(tail, 1.0))

    def log_bound(self, x: FloatArray, side: int) -> FloatArray:
        """Return the tail on that side, or the density if `side` is 0: shape (1, N)."""
        return np.asarray((self.log_tail(x, side) if side else self.log_density(x))[0])

    @cached_property
    def scan(self) -> FloatArray:
        """Points less than a deviation apart, as far out as the density is not negligible."""
        beyond = -SMALLEST_LOG * self._scale
        count = math.ceil(beyond / self._deviation) + 1
        left = np.linspace(self._points[0] - beyond, self._points[0], count, endpoint=False)
        right = np.linspace(self._points[-1] + beyond, self._points[-1], count, endpoint=False)[
            ::-1
        ]
        return np.concatenate([left, self._points, right])

    def _parts(self, x: FloatArray) -> tuple[np.ndarray, FloatArray, FloatArray]:
        """Return how many points lie up to x, and half the decayed sums from left and right."""
        at = np.searchsorted(self._points, x, side="right")
        after_left = x - self._points[np.maximum(at - 1, 0)]
        before_right = self._points[np.minimum(at, self._points.size - 1)] - x
        # Where there is no point on a side, the sum is 0, whatever the distance.
        left = self._left_decayed[at] * np.exp(-np.maximum(after_left, 0) / self._scale)
        right = self._right_decayed[at] * np.exp(-np.maximum(before_right, 0) / self._scale)
        return at, left / 2, right / 2

    @staticmethod
    def _logs(values: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.tile(np.log(np.maximum(values, 0.0)), (2, 1, 1))
