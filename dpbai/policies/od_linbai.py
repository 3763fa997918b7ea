"""OD-LinBAI (Yang and Tan, NeurIPS 2022): a G-optimal design in each phase, and least squares.

It is not private; DP-OD adds noise to the moment vector U = sum of a x over all pulls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy import linalg

from dpbai import _check
from dpbai._check import FloatArray, IntArray
from dpbai.designs.g_optimal import design_in_basis
from dpbai.designs.scaling import span_coordinates
from dpbai.noise import Noise, NoNoise
from dpbai.policies.phase import Phase, checked_step
from dpbai.policies.schedule import ceil_div, enough

_OWN_UNIT = 200  # up to 2^200, moments keep the unit of the features


@dataclass(frozen=True, eq=False)
class ODLinBAI:
    """OD-LinBAI: eliminate arms on least-squares estimates from G-optimal designs; not private.

    `features` and `budget` are those of `DPBAI`.

    Notes
    -----
    R = max(1, ceil(log2 d)) phases of m pulls each before rounding, m = (T - min(K, d(d+1)/2) -
    sum_{r<R} ceil(d/2^r)) / R. Phase r pulls arm i ceil(pi_r(i) m) times and keeps ceil(d/2^r)
    arms, the last phase one. The support of a design in rank r is at most r(r+1)/2, so that
    rounding up stays within what m leaves.

    With fewer than ceil(d/2^r) arms, phase r pulls and keeps all of them. Features all beyond 2^200
    or all below 2^-200 are taken in a unit that is a power of two; release and noise are in it too.
    """

    features: FloatArray
    _: KW_ONLY
    budget: int

    def __post_init__(self) -> None:
        features = _check.matrix(self.features, "features", least_rows=2)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "budget", _check.whole(self.budget, "budget"))
        enough(self.budget, self.least_budget, *features.shape)

    @cached_property
    def scaled_features(self) -> FloatArray:
        """The features in the unit that moments are released in: their own, unless it is huge."""
        exponent = int(np.frexp(np.abs(self.features).max())[1])
        own = abs(exponent) <= _OWN_UNIT
        return self.features if own else np.asarray(np.ldexp(self.features, -exponent))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the active sets, then 1: K, ceil(d/2), ceil(d/4), ..., 1; never more than K."""
        arms = len(self.features)
        return (arms, *(min(arms, size) for size in self._halved), 1)

    @property
    def _halved(self) -> list[int]:
        dimension = self.features.shape[1]
        return [ceil_div(dimension, 2**r) for r in range(1, (dimension - 1).bit_length())]

    @property
    def least_budget(self) -> int:
        """The least budget that leaves something to pull after what rounding up may cost."""
        arms, dimension = self.features.shape
        return int(min(arms, dimension * (dimension + 1) // 2)) + sum(self._halved) + 1

    @property
    def pulls_per_phase(self) -> Fraction:
        """m, the pulls of one phase before rounding up."""
        return Fraction(self.budget + 1 - self.least_budget, len(self.sizes) - 1)

    def noise(self, vectors: FloatArray) -> Noise:  # noqa: ARG002
        """Return the noise on the moment vector of active `vectors`: none."""
        return NoNoise()

    def phase(self, index: int, active: Sequence[int]) -> Phase:
        """Return the plan of phase `index` for the `active` arms, as many as it has."""
        active, keep = checked_step(index, active, self.sizes, len(self.features))
        vectors = span_coordinates(self.scaled_features[list(active)])
        design, basis, coordinates = design_in_basis(vectors)
        support = design.support
        pulls = self._rounded_up(design.weights[support])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            release = vectors[support].T * pulls
            decoder = _least_squares(vectors[basis], coordinates, support, pulls)
        if not (np.isfinite(release).all() and np.isfinite(decoder).all()):
            raise ValueError(
                "features must not differ so much in scale: least squares overflows for active "
                f"{_check.told(active)}"
            )
        return Phase(
            index=index,
            active=active,
            pulled=tuple(active[i] for i in support),
            pulls=tuple(pulls.tolist()),
            noise=self.noise(vectors),
            keep=keep,
            release_matrix=release,
            decoder_matrix=decoder,
        )

    def _rounded_up(self, weights: FloatArray) -> IntArray:
        """Return ceil(pi_i m) in exact arithmetic: floats would round 7 up to 8, or overspend."""
        shares = [Fraction(weight) for weight in weights.tolist()]
        scale = self.pulls_per_phase / (sum(shares) or 1)
        return np.array([math.ceil(share * scale) for share in shares], dtype=np.int64)


def _least_squares(
    edges: FloatArray, coordinates: FloatArray, support: IntArray, pulls: IntArray
) -> FloatArray:
    """Return the matrix that makes estimates of the moment vector U = B' diag(n) x.

    They are A V^-1 U, V = B' diag(n) B. In coordinates C of a basis E, A = C E, that is
    C W^-1 E^-T U with W = C_B' diag(n) C_B, and no ill-conditioned E is squared.
    """
    if not support.size:
        return coordinates
    triangle = np.linalg.qr(np.sqrt(pulls)[:, None] * coordinates[support], mode="r")
    moments = linalg.lapack.dpotrs(triangle, coordinates.T)[0]  # W = triangle' triangle
    columns = np.abs(edges).max(axis=0)
    edges = edges / columns
    rows = np.abs(edges).max(axis=1, keepdims=True)
    return np.asarray(np.linalg.solve(edges / rows, moments / rows).T / columns)
