r"""Logarithms of moment generating functions of centred rewards, log E exp(w (X - mean)).

The mean of n rewards has n times such a logarithm, and so n times its rounding error; n may be
10^9. So each is computed to a small *relative* error, however near 0 its argument: from sums of
e^x - 1 - x, in which nothing cancels for real x.

That of the Beta distribution is Kummer's function, which libraries compute for small arguments and
shapes only. Here it is an integral, in the logit of the reward, by a rule that checks itself.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpbai._check import FloatArray

ComplexArray = NDArray[np.complex128]
BoolArray = NDArray[np.bool_]

_SERIES_BELOW = 0.25
_SERIES = 1 / special.factorial(np.arange(2, 15))
_MOMENTS = 30
_NEGLIGIBLE = 40.0  # e^-40 is 4e-18
_TERMS = 20
_STEP = 0.45  # in units of the narrowest peak; a rule that is too wide is halved
_ROUNDING = 2e-16
_CANCELS = 100.0
_CHECK = 1e-12
_TINY = 1e-300
_AGREE = 1e-8  # of a rule with one of twice the step: its own error is about the square
_HALVINGS = 6
_COARSE = np.geomspace(1e-6, 1, 200)
_ROUND = 16  # steps by which paths differ in length
_BLOCK = 2**14
_SAME_STEP = 1e-9


class InaccurateError(ValueError):
    """A special function could not be computed to its stated accuracy."""


def second_order(x: ComplexArray) -> ComplexArray:
    """Return e^x - 1 - x, to a small relative error."""
    result: ComplexArray = np.asarray(np.exp(x) - (1 + x))
    small = np.abs(x) < _SERIES_BELOW
    near = x[small]
    result[small] = near**2 * np.polynomial.polynomial.polyval(near, _SERIES)
    return result


def discrete_log_mgf(w: ComplexArray, deviations: FloatArray, shares: FloatArray) -> ComplexArray:
    """Return log E exp(w Y) for Y of mean 0 with few values, up to multiples of 2 pi i.

    Parameters
    ----------
    w : ndarray
        Complex; real parts times deviations below 700.
    deviations, shares : ndarray of shape (m,)
        Values of Y, and their probabilities.
    """
    excess = np.zeros(w.shape, dtype=complex)
    for deviation, share in zip(deviations, shares, strict=True):
        excess += share * second_order(w * deviation)
    with np.errstate(divide="ignore"):
        return np.asarray(special.log1p(excess))


def beta_log_mgf(w: ComplexArray, first: float, second: float) -> ComplexArray:
    """Return log E exp(w (X - mean)) for X ~ Beta(first, second), up to multiples of 2 pi i.

    Its error is a small part of that of real arguments: of E exp(Re w (X - mean)) where abs(w) is
    large, of E exp(abs(w (X - mean))) - 1 - abs(w (X - mean)) where it is small.

    Raises
    ------
    InaccurateError
        If the rule does not agree with itself.

    Notes
    -----
    With c = first + second, m = first/c and X = m e^u / (1 - m + m e^u), the density of u is
    proportional to exp(-c L(u)), L the function above of Bernoulli(m): analytic for
    abs(Im u) < pi, and exponential at both ends. So the trapezoidal rule, whose two ends are
    geometric series, converges exponentially for all shapes. Where w = s + it oscillates, the path
    goes through a saddle point instead, at which Im u is between 0 and pi/2.
    """
    law = _beta(first, second)
    flat = np.asarray(w, dtype=complex).ravel()
    result = np.empty(flat.size, dtype=complex)
    near = np.abs(flat) <= law.radius
    small = flat[near]
    result[near] = special.log1p(small**2 * np.polynomial.polynomial.polyval(small, law.series))
    below = flat.imag < 0
    upper = np.where(below, flat.conj(), flat)
    result[~near] = law.integrals(upper[~near])
    result[below & ~near] = result[below & ~near].conj()
    return result.reshape(np.shape(w))


class _Beta:
    """Trapezoidal rules for one Beta distribution."""

    def __init__(self, first: float, second: float) -> None:
        self.first, self.second = first, second
        self.total = first + second
        self.mean, self.rest = first / self.total, second / self.total
        # By Marchal and Arbel (2017), E exp(s Y) <= exp(s^2 / (8 (c + 1))): at four radii it is at
        # most 26 on either side, and so the k-th term of the series is at most 50 / 4^k.
        self.radius = math.sqrt(1.6 * (self.total + 1))
        # Arguments on one line come back to the same paths.
        self._path = lru_cache(self._path_on)
        self._ladder = lru_cache(self._ladder_to)
        self.step = _STEP / math.sqrt(self.total * self.mean * self.rest + 3)

    @cached_property
    def series(self) -> FloatArray:
        """Coefficients of E exp(w Y) in w, from the square on."""
        powers = np.arange(2, _MOMENTS)
        logs, deviations, weights = self._nodes(0.0, self.step / 2, self.total, 0.0)
        probabilities = np.exp(logs.real) * weights[0]
        moments = probabilities @ deviations.real[:, None] ** powers / probabilities.sum()
        return np.asarray(moments / special.factorial(powers))

    def integrals(self, w: ComplexArray) -> ComplexArray:
        """Return the logarithms for arguments of the upper half-plane, shape (N,)."""
        result, told = self._by_ends(w)
        first = np.flatnonzero(told)[:1]  # the series has to agree with the integral once
        told &= np.isclose(result[first], self._by_paths(w[first]), rtol=0, atol=_CHECK).all()
        result[~told] = self._by_paths(w[~told])
        return result

    def _by_ends(self, w: ComplexArray) -> tuple[ComplexArray, BoolArray]:
        """Return the logarithms by asymptotic series (DLMF 13.7.2), and where their terms vanish.

        Far out, each end of [0, 1] has a series of its own.
        """
        value = np.zeros(w.size, dtype=complex)
        last, largest = np.zeros(w.size), np.zeros(w.size)
        for shape, other, z, rise in (
            (self.first, self.second, -w, -self.mean * w),
            (self.second, self.first, w, self.rest * w),
        ):
            with np.errstate(all="ignore"):
                scale = special.gammaln(shape) - special.betaln(shape, other)
                term = np.exp(scale - shape * np.log(z) + rise)
                value += term
                for s in range(_TERMS):
                    largest = np.maximum(largest, np.abs(term))
                    term = term * (shape + s) * (1 - other + s) / ((s + 1) * z)
                    value += term
                last += np.abs(term)
        size = np.abs(value)
        with np.errstate(all="ignore"):
            # A series that ends, as for whole shapes, may cancel nearer in.
            return np.log(value), (last <= _ROUNDING * size) & (largest <= _CANCELS * size)

    def _by_paths(self, w: ComplexArray) -> ComplexArray:
        result = np.empty(w.size, dtype=complex)
        angles = self._angles(w)
        for angle in np.unique(angles).tolist():
            group = np.flatnonzero(angles == angle)
            for part in np.array_split(group, math.ceil(group.size / _BLOCK)):
                result[part] = self._integral(angle, w[part])
        return result

    def _angles(self, w: ComplexArray) -> FloatArray:
        """Return Im u of each argument's path: that of its saddle point, or a little less."""
        levels = math.ceil(max(8.0, math.sqrt(self.total) / 2))
        slope = self.total - w
        root = np.sqrt(slope**2 + 4 * w * self.first)
        outer = -(slope + np.where((slope.conj() * root).real < 0, -root, root)) / 2
        saddles = np.stack([outer / w, -self.first / outer])
        turns = np.abs(np.angle(saddles * (1 - saddles).conj())).min(axis=0) / (math.pi / 2)
        turns = np.where(w.imag == 0, 0.0, np.minimum(turns, 1.0))
        return np.asarray(np.floor(turns * levels) / levels * (math.pi / 2))

    def _integral(self, angle: float, w: ComplexArray) -> ComplexArray:
        tilts, which = np.unique(w.real, return_inverse=True)
        reach, step = float(np.abs(w).max()) + self.total, self.step
        tilt = float(np.abs(tilts).max())
        corners = np.array([[s, t] for s in (0, -1) for t in (w.imag.min(), w.imag.max())])
        for _ in range(_HALVINGS):
            logs, deviations, weights = self._nodes(0.0, step, reach, tilt)
            probabilities = np.exp(logs.real) * weights
            exponents = logs.real + np.multiply.outer(tilts, deviations.real)
            peaks = exponents.max(axis=1)
            total = probabilities.sum(axis=1)
            real = np.exp(exponents - peaks[:, None]) @ weights.T / total
            if angle:
                logs, deviations, weights = self._nodes(angle, step, reach, tilt)
            height = np.max(
                [
                    (logs + complex(tilts[int(s)], t) * deviations).real - peaks[int(s)]
                    for s, t in corners
                ],
                axis=0,
            )
            # Peaks of tilts between the corners' lie between theirs.
            seen = np.flatnonzero(height > -_NEGLIGIBLE)
            kept = slice(int(seen.min(initial=height.size)), int(seen.max(initial=-1)) + 1)
            path = logs[kept], deviations[kept], weights[:, kept] / total[:, None]
            sums = np.empty((w.size, 2), dtype=complex)
            for run in _runs(w):
                _sum_along(*path, w[run], peaks[which[run]], sums[run])
            # The rule of twice the step has an error of which that of the finer is the square.
            off = np.abs(sums[:, 0] - sums[:, 1]) / real[which, 0]
            if off.max() < _AGREE:
                # A modulus below e^-690 of the largest is as good as that.
                return np.asarray(np.log(sums[:, 0] + _TINY) + peaks[which])
            step /= 2
        raise InaccurateError(
            f"the characteristic function of Beta({self.first}, {self.second}) is not known to "
            f"enough digits at {w[off.argmax()]}"
        )

    def _nodes(
        self, angle: float, step: float, reach: float, tilt: float
    ) -> tuple[ComplexArray, ComplexArray, FloatArray]:
        """Return log densities and deviations at nodes of a path, and the weights of two rules.

        The second rule has twice the step. The path ends where X, or 1 - X, times `reach` is
        negligible; beyond, the density is exponential, and the sum a geometric series.
        """
        u, heights = self._ladder(math.ceil(math.log2(1 + reach)))
        # abs(1 - m + m e^u) falls to cos(Im u / 2) of its real value at most.
        most = _NEGLIGIBLE + 2 * tilt - self.total * math.log(math.cos(angle / 2))
        seen = np.flatnonzero(heights < most)
        low, high = u[max(seen[0] - 1, 0)], u[min(seen[-1] + 1, u.size - 1)]
        unit = _ROUND * step
        return self._path(angle, step, math.floor(low / unit), math.ceil(high / unit))

    def _path_on(
        self, angle: float, step: float, low: int, high: int
    ) -> tuple[ComplexArray, ComplexArray, FloatArray]:
        u: ComplexArray = np.asarray(step * np.arange(_ROUND * low, _ROUND * high + 1) + 1j * angle)
        logs = -self.total * self._bernoulli(u)
        rise = np.expm1(u) / (self.rest + self.mean * np.exp(u))
        deviations: ComplexArray = np.asarray(self.mean * self.rest * rise)
        weights = np.ones((2, u.size))
        weights[1, 0::2], weights[1, 1::2] = 2.0, 0.0
        for end, shape in ((0, self.first), (-1, self.second)):
            weights[:, end] /= -np.expm1(-shape * step * np.array([1, 2]))
        return logs, deviations, weights

    def _ladder_to(self, bits: int) -> tuple[FloatArray, FloatArray]:
        """Return real u where a path may end, and how small the density is there."""
        low, high = 40 + bits * math.log(2) - np.log([self.rest, self.mean])
        u = np.concatenate([-low * _COARSE[::-1], [0.0], high * _COARSE])
        heights = np.logaddexp(math.log(self.rest), math.log(self.mean) + u) - self.mean * u
        return u, np.asarray(self.total * heights)

    def _bernoulli(self, u: ComplexArray) -> ComplexArray:
        deviations, shares = np.array([-self.mean, self.rest]), np.array([self.rest, self.mean])
        return discrete_log_mgf(u, deviations, shares)


def _runs(w: ComplexArray) -> list[slice]:
    """Return stretches of equally spaced points."""
    steps = np.diff(w)
    bends = np.abs(np.diff(steps)) > _SAME_STEP * np.abs(steps[1:])
    cuts = [0, *(np.flatnonzero(bends) + 2).tolist(), w.size]
    return [
        slice(start, min(start + _BLOCK, stop))
        for first, stop in pairwise(cuts)
        for start in range(first, stop, _BLOCK)
    ]


def _sum_along(
    logs: ComplexArray,
    deviations: ComplexArray,
    weights: FloatArray,
    w: ComplexArray,
    peaks: FloatArray,
    sums: ComplexArray,
) -> None:
    """Write sums over a path of weights times exp(logs + w deviations - peak), shape (N, rules).

    The arguments w are equally spaced, so that the exponential is a product: few are taken.
    """
    block = math.isqrt(w.size)
    step = (w[-1] - w[0]) / max(w.size - 1, 1)
    starts = np.exp(np.multiply.outer(w[::block], deviations) + logs - peaks[::block, None])
    turns = np.exp(np.multiply.outer(step * np.arange(block), deviations))
    for rule, its in enumerate(weights):
        used = np.flatnonzero(its)
        products = (starts[:, used] * its[used]) @ turns[:, used].T
        sums[:, rule] = products.ravel()[: w.size]


@lru_cache(maxsize=256)
def _beta(first: float, second: float) -> _Beta:
    return _Beta(first, second)
