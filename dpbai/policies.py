"""The policies of the paper: DP-BAI, DP-BAI-Gauss, Baseline, OD-LinBAI and DP-OD.

An argument out of its range raises `ValueError`; if a budget is too small, the message states the
least one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai._gaussian import CALIBRATIONS, gaussian_log_delta, gaussian_sigma
from dpbai.g_optimal import g_optimal_design, least_squares
from dpbai.max_det import max_det
from dpbai.noise import Gaussian, Laplace, Noise, NoNoise
from dpbai.phase import Phase, checked_step
from dpbai.scaling import Span
from dpbai.schedule import (
    Schedule,
    baseline_collections,
    check_budget,
    dp_bai_collections,
    pulls_max_det,
)

Arms = tuple[int, ...]
_LARGEST_SCALE = 1e305
_ROUNDING = Fraction(1, 10**6)
_MAX_EXPONENT = 200  # of the largest feature; otherwise features are scaled


@dataclass(frozen=True, eq=False)
class _Planner:
    """The parameters that all policies here share."""

    features: FloatArray
    _: KW_ONLY
    budget: int

    def __post_init__(self) -> None:
        features = _check.matrix(self.features, "features", least_rows=2)
        vars(self).update(features=features, budget=_check.whole(self.budget, "budget"))


@dataclass(frozen=True, eq=False)
class DPBAI(_Planner):
    """DP-BAI: eliminate arms by noisy means of a Max-Det collection (Algorithm 1).

    Parameters
    ----------
    features : array_like of shape (K, d)
        Feature vectors of K >= 2 arms; they need not span R^d.
    budget : int
        T, the largest number of pulls.
    epsilon : float
        Privacy parameter, positive; infinity means no noise.
    convention : {"printed", "proof"}
        Which of the paper's two sequences of sizes to use, see `Schedule`.
    budget_rule : {"strict", "printed"}
        "strict" never pulls more than `budget`; "printed" uses the paper's T', and may.
    """

    _: KW_ONLY
    epsilon: float
    convention: str = "printed"
    budget_rule: str = "strict"

    collections: ClassVar[Callable[[int, int], Iterable[int]]] = staticmethod(dp_bai_collections)

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self)["epsilon"] = _check.epsilon(self.epsilon)
        self.schedule.usable_budget  # noqa: B018  (raises if the budget is too small)

    @cached_property
    def schedule(self) -> Schedule:
        """Sizes of the active sets, M, and the usable budget T'."""
        arms, dimension = self.features.shape
        rules = self.convention, self.budget_rule, type(self).collections
        return Schedule(arms, dimension, self.budget, *rules)

    @cached_property
    def most_pulls(self) -> int:
        """The most pulls of any run: `budget`, or more where `budget_rule` is "printed"."""
        return max(self.budget, self.schedule.dearest(self.schedule.usable_budget))

    def noise(self, pulls: int) -> Noise:
        """Return the noise on a mean of `pulls` rewards: Lap(1/(epsilon n)), lines 10 and 16."""
        return NoNoise() if math.isinf(self.epsilon) else Laplace(1 / self.epsilon / pulls)

    def phase(self, index: int, active: Sequence[int]) -> Phase:
        """Return the plan of phase `index` for s_p `active` arms (Algorithm 1, lines 3 to 20)."""
        active, _ = checked_step(index, active, self.schedule.sizes, len(self.features))
        return self._planned(index, active, *self._collection(active))

    def representatives(self, index: int) -> tuple[Phase, ...]:
        """Return a plan of phase `index` for each number of arms that it may pull.

        The release and its noise depend on the active set through that number only, so these plans
        have the privacy losses of all plans of the phase.
        """
        size = self.schedule.sizes[index - 1]
        active = tuple(range(size))
        return tuple(
            self._planned(index, active, active[:m], None if m == size else np.eye(size, m))
            for m in sorted(self.schedule.collections(size, self.schedule.dimension))
        )

    def _planned(self, index: int, active: Arms, pulled: Arms, decoder: FloatArray | None) -> Phase:
        pulls = self.schedule.pulls(self.schedule.usable_budget, len(pulled)) if pulled else 1
        each, noise, keep = (pulls,) * len(pulled), self.noise(pulls), self.schedule.sizes[index]
        delta = getattr(self, "delta", 0.0)
        return Phase(index, active, pulled, each, noise, keep, decoder_matrix=decoder, delta=delta)

    def _collection(self, active: Arms) -> tuple[Arms, FloatArray | None]:
        """Return the arms to pull, and the coordinates of all active arms in them."""
        arms, dimension = len(active), self.schedule.dimension
        if self.schedule.collections(arms, dimension) == {arms}:  # for any features
            return active, None
        span = Span(self.features[list(active)])
        if not pulls_max_det(span.rank, arms):
            return active, None
        found = max_det(span)
        return tuple(active[i] for i in found.indices), found.coordinates


@dataclass(frozen=True, eq=False)
class Baseline(DPBAI):
    """Baseline: DP-BAI that ignores the features and pulls every active arm (Sec. 5).

    Parameters are those of `DPBAI`. With the paper's T', it exceeds the budget on the paper's own
    instance; with the default rule "strict" it does not.
    """

    collections: ClassVar[Callable[[int, int], Iterable[int]]] = staticmethod(baseline_collections)


@dataclass(frozen=True, eq=False)
class DPBAIGauss(DPBAI):
    """DP-BAI-Gauss: DP-BAI with Gaussian noise, (epsilon, delta)-private (Algorithm 2).

    Other parameters are those of `DPBAI`.

    Parameters
    ----------
    delta : float
        Privacy parameter, in (0, 1).
    calibration : {"analytic", "classic"}
        "classic" is the paper's variance 2 ln(1.25/delta) / (epsilon n)^2, proved for epsilon < 1;
        otherwise a `UserWarning` states the true delta. "analytic" is the least variance that
        suffices, for every epsilon (Balle and Wang, 2018).
    """

    _: KW_ONLY
    delta: float
    calibration: str = "analytic"

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self)["delta"] = _check.proportion(self.delta, "delta")
        _check.one_of(self.calibration, "calibration", CALIBRATIONS)
        if self.calibration == "classic" and 1 <= self.epsilon < math.inf:
            holds = math.exp(gaussian_log_delta(self.epsilon, self.sigma))
            warnings.warn(
                f"the classic Gaussian calibration is proved for epsilon < 1 only: at "
                f"epsilon = {self.epsilon:g} the true delta is {holds:.3g}, "
                f"{'not' if holds > self.delta else 'within'} the stated {self.delta:g}",
                stacklevel=3,
            )

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise on a single reward in [0, 1]."""
        return gaussian_sigma(self.epsilon, self.delta, self.calibration)

    def noise(self, pulls: int) -> Noise:
        """Return the noise on a mean of `pulls` rewards (Algorithm 2, lines 10 and 16)."""
        return NoNoise() if math.isinf(self.epsilon) else Gaussian(self.sigma / pulls)


@dataclass(frozen=True, eq=False)
class ODLinBAI(_Planner):
    """OD-LinBAI: eliminate arms on least-squares estimates from G-optimal designs; not private.

    The policy of Yang and Tan (2022) releases the moment vector U = sum of a x over all pulls. It
    has R = max(1, ceil(log2 d)) phases of m pulls each before rounding, m = (T - min(K, d(d+1)/2) -
    sum_{r<R} ceil(d/2^r)) / R. Phase r pulls arm i ceil(pi_r(i) m) times and keeps ceil(d/2^r)
    arms, or all if there are fewer; the last phase keeps one. A design of rank r has a support of
    at most r(r+1)/2 arms, so the budget suffices for rounding up.

    `features` and `budget` are those of `DPBAI`. If the largest feature is above 2^200 or below
    2^-200, features, release and noise are scaled by a power of two.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.budget, self.least_budget, *self.features.shape)

    @cached_property
    def scaled_features(self) -> FloatArray:
        """The features that the moment vector is computed from, scaled if they are extreme."""
        exponent = int(np.frexp(np.abs(self.features).max())[1])
        if abs(exponent) <= _MAX_EXPONENT:
            return self.features
        return np.asarray(np.ldexp(self.features, -exponent))

    @property
    def dimension(self) -> int:
        """d, the length of the feature vectors."""
        return int(self.features.shape[1])

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the active sets, then 1: K, ceil(d/2), ceil(d/4), ..., 1; never more than K."""
        arms = len(self.features)
        return (arms, *(min(arms, size) for size in self._halved), 1)

    @property
    def _halved(self) -> list[int]:
        d = self.dimension
        return [math.ceil(d / 2**r) for r in range(1, (d - 1).bit_length())]

    @property
    def least_budget(self) -> int:
        """The least budget for which `pulls_per_phase` is positive."""
        support = self.dimension * (self.dimension + 1) // 2
        return min(len(self.features), support) + sum(self._halved) + 1

    @property
    def pulls_per_phase(self) -> Fraction:
        """m, the pulls of one phase before rounding up."""
        return Fraction(self.budget + 1 - self.least_budget, len(self.sizes) - 1)

    def noise(self, vectors: FloatArray) -> Noise:  # noqa: ARG002
        """Return the noise on the moment vector of active `vectors`: none."""
        return NoNoise()

    def phase(self, index: int, active: Sequence[int]) -> Phase:
        """Return the plan of phase `index` for the `active` arms, `sizes[index - 1]` of them."""
        active, keep = checked_step(index, active, self.sizes, len(self.features))
        span = Span(self.scaled_features[list(active)])
        scales = f"features must not differ so much in scale, for active {_check.quoted(active)}: "
        try:
            vectors, design = span.reduced, g_optimal_design(span)
        except (RuntimeError, np.linalg.LinAlgError) as error:
            raise ValueError(f"{scales}{error}") from error
        support = design.support
        # ceil(pi_i m) in exact arithmetic, ignoring an excess below a millionth
        shares = [Fraction(weight) for weight in design.weights[support].tolist()]
        scale = self.pulls_per_phase / (sum(shares) or 1)
        counts = [max(1, math.ceil(share * scale - _ROUNDING)) for share in shares]
        pulls = np.array(counts, dtype=np.int64)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            release = vectors[support].T * pulls
            decoder = least_squares(vectors[span.basis], span.coordinates, support, pulls)
        if not (np.isfinite(release).all() and np.isfinite(decoder).all()):
            raise ValueError(f"{scales}least squares overflows")
        pulled, noise = tuple(active[i] for i in support), self.noise(vectors)
        return Phase(index, active, pulled, tuple(pulls.tolist()), noise, keep, release, decoder)


@dataclass(frozen=True, eq=False)
class DPOD(ODLinBAI):
    """DP-OD: OD-LinBAI with Laplace noise on each coordinate of the moment vector (App. E).

    The noise depends on the coordinates of the features: rotating or rescaling them changes the
    policy. Active arms that span fewer dimensions are released in an orthonormal basis of the span.
    `features` and `budget` are those of `ODLinBAI`.

    Parameters
    ----------
    epsilon : float
        Privacy parameter, positive; infinity means no noise.
    norm : {"l2", "l1"}
        Norm in L = max_i ||a_i||, with noise Lap(L/epsilon). "l2" is as printed. But one reward
        moves the moment vector by a_i, and the loss of Laplace noise depends on the L1 norm, so it
        can reach sqrt(d) epsilon. "l1" guarantees the stated epsilon.
    """

    _: KW_ONLY
    epsilon: float
    norm: str = "l2"

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self)["epsilon"] = _check.epsilon(self.epsilon)
        _check.one_of(self.norm, "norm", ("l2", "l1"))
        self.noise(self.scaled_features)  # raises if the scale overflows

    def noise(self, vectors: FloatArray) -> Noise:
        """Return Lap(L/epsilon), with L over all K arms for "l2", over active ones for "l1"."""
        if math.isinf(self.epsilon) or not vectors.any():
            return NoNoise()
        arms, order = (self.scaled_features, 2) if self.norm == "l2" else (vectors, 1)
        length = float(np.linalg.norm(arms, order, axis=1).max())
        if not 0 < length / self.epsilon < _LARGEST_SCALE:
            raise ValueError(
                f"features and epsilon must give a noise scale L / epsilon below "
                f"{_LARGEST_SCALE:g}, got L = {length:.6g} and epsilon = {self.epsilon:g}"
            )
        return Laplace(length / self.epsilon)
