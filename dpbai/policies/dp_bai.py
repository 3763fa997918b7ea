"""DP-BAI, DP-BAI-Gauss and Baseline (Algorithms 1 and 2, Sec. 5).

The three share everything but the noise (Gauss) and the choice of arms to pull (Baseline).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.designs.max_det import max_det
from dpbai.designs.scaling import rank
from dpbai.noise import (
    CALIBRATIONS,
    Gaussian,
    Laplace,
    Noise,
    NoNoise,
    gaussian_log_delta,
    gaussian_sigma,
)
from dpbai.policies.phase import Phase, checked_step
from dpbai.policies.schedule import (
    Schedule,
    baseline_collections,
    dp_bai_collections,
    pulls_max_det,
)


@dataclass(frozen=True, eq=False)
class DPBAI:
    """DP-BAI: eliminate arms on noisy means of a Max-Det collection (Algorithm 1).

    Parameters
    ----------
    features : array_like of shape (K, d)
        Feature vectors of K >= 2 arms; they need not span R^d.
    budget : int
        T, how many pulls there may be in all.
    epsilon : float
        Privacy parameter, positive; infinity means no noise.
    convention : {"printed", "proof"}
        Which of the paper's two sequences of sizes to use, see `Schedule`.
    budget_rule : {"strict", "printed"}
        "strict" never pulls more than `budget`; "printed" keeps the paper's T', which may.
    """

    features: FloatArray
    _: KW_ONLY
    budget: int
    epsilon: float
    convention: str = "printed"
    budget_rule: str = "strict"

    collections: ClassVar[Callable[[int, int], Iterable[int]]] = staticmethod(dp_bai_collections)

    def __post_init__(self) -> None:
        features = _check.matrix(self.features, "features", least_rows=2)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "budget", _check.whole(self.budget, "budget"))
        object.__setattr__(self, "epsilon", _check.epsilon(self.epsilon))
        self.schedule.usable_budget  # noqa: B018  (a budget that is too small fails here)

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
        active, keep = checked_step(index, active, self.schedule.sizes, len(self.features))
        return self._planned(index, active, keep, *self._collection(active))

    def representatives(self, index: int) -> tuple[Phase, ...]:
        """Return a plan of phase `index` for each number of arms that it may pull.

        What a phase releases, and how noisily, depends on its active set through that number alone:
        these few plans stand for all active sets where privacy is concerned.
        """
        size, keep = self.schedule.sizes[index - 1 : index + 1]
        active = tuple(range(size))
        return tuple(
            self._planned(index, active, keep, active[:m], None if m == size else np.eye(size, m))
            for m in sorted(type(self).collections(size, self.features.shape[1]))
        )

    def _planned(
        self,
        index: int,
        active: tuple[int, ...],
        keep: int,
        pulled: tuple[int, ...],
        decoder: FloatArray | None,
    ) -> Phase:
        pulls = self.schedule.pulls(self.schedule.usable_budget, len(pulled)) if pulled else 1
        each, noise = (pulls,) * len(pulled), self.noise(pulls)
        return Phase(index, active, pulled, each, noise, keep, decoder_matrix=decoder)

    def _collection(self, active: tuple[int, ...]) -> tuple[tuple[int, ...], FloatArray | None]:
        """Return the arms to pull, and the coordinates of all active arms in them."""
        vectors = self.features[list(active)]
        if not pulls_max_det(rank(vectors), len(active)):
            return active, None
        found = max_det(vectors)
        return tuple(active[i] for i in found.indices), found.coordinates


@dataclass(frozen=True, eq=False)
class Baseline(DPBAI):
    """Baseline: DP-BAI that ignores the features and pulls every active arm (Sec. 5).

    Parameters are those of `DPBAI`. The T' of the paper overspends on its own instance; the default
    rule "strict" does not.
    """

    collections: ClassVar[Callable[[int, int], Iterable[int]]] = staticmethod(baseline_collections)

    def _collection(self, active: tuple[int, ...]) -> tuple[tuple[int, ...], FloatArray | None]:
        return active, None


@dataclass(frozen=True, eq=False)
class DPBAIGauss(DPBAI):
    """DP-BAI-Gauss: DP-BAI with Gaussian noise, (epsilon, delta)-private (Algorithm 2).

    Parameters
    ----------
    delta : float
        Privacy parameter, in (0, 1).
    calibration : {"analytic", "classic"}
        "classic" is the paper's variance 2 ln(1.25/delta) / (epsilon n)^2, which is proved only for
        epsilon < 1 and does not give the stated delta for large epsilon. "analytic" is the exact
        calibration of Balle and Wang (2018), right for every epsilon and smaller.

    The others are those of `DPBAI`.

    Warns
    -----
    UserWarning
        From epsilon = 1 on for the classic calibration; it tells the delta that truly holds.
    """

    _: KW_ONLY
    delta: float
    calibration: str = "analytic"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "delta", _check.proportion(self.delta, "delta"))
        _check.choice(self.calibration, "calibration", CALIBRATIONS)
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
        if math.isinf(self.epsilon):
            return NoNoise()
        return Gaussian(self.sigma / pulls, self.delta)
