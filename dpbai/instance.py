"""Problem instances: arms with known features, and rewards with linear means (Sec. 2).

An instance holds theta, the means and the best arm, while policies receive its features only. An
argument out of its stated range raises `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dpbai import _check
from dpbai._check import FloatArray, Seed
from dpbai.rewards import Bernoulli, RewardLaw, Uniform

_ROUNDING = 1e-9
_SHORTEST, _LONGEST = 1e-300, 1e300  # of a feature vector, so that theta does not overflow
_TIE = 1e-12  # relative: means that are mathematically equal may differ by rounding


@dataclass(frozen=True, eq=False)
class Instance:
    """Arms with features, a parameter theta, and a reward law for each arm.

    Parameters
    ----------
    features : array_like of shape (K, d)
        Feature vectors a_i, K >= 2; they need not span R^d.
    theta : array_like of shape (d,), optional
        theta*, with means a_i' theta*. It may be omitted when `rewards` lists a law for each arm;
        the means are then those of the laws, and need not be linear in the features.
    rewards : callable or sequence, default Uniform
        A callable that makes the law of an arm from its mean (`Uniform`, `Bernoulli`,
        `functools.partial(Beta, concentration=5)`), or the K laws.
    unique : bool, default True
        Whether the best arm must be unique. If False, recommending any of the best arms is a
        success, and functions that need a unique one (exact probabilities, the theory) raise.
    bounded : bool, default True
        Whether rewards must lie in [0, 1], as the paper and its privacy statements require. False
        allows any bounded law, as in the experiment of App. E.

    Attributes
    ----------
    laws : tuple of RewardLaw
    means : ndarray of shape (K,)
    best : int
        The arm with the largest mean; the first one if there are several.
    gaps : ndarray of shape (K,)
        Delta_i, the largest mean less the mean of arm i; 0 for the best arms.

    Raises
    ------
    ValueError
        If features, theta or a mean is out of range, lengths do not agree, or several arms are
        best.
    """

    features: FloatArray
    theta: FloatArray | None = None
    rewards: Callable[[float], RewardLaw] | Sequence[RewardLaw] = Uniform
    bounded: bool = True
    unique: bool = True
    laws: tuple[RewardLaw, ...] = field(init=False, repr=False)
    means: FloatArray = field(init=False)
    best: int = field(init=False)
    gaps: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        features = _check.matrix(self.features, "features", least_rows=2)
        _check.flag(self.bounded, "bounded")
        _check.flag(self.unique, "unique")
        theta = linear = None
        if self.theta is not None:
            theta = _check.vector(self.theta, "theta", features.shape[1])
            linear = features @ theta
        laws = self._laws(linear, features.shape[0])
        means = np.array([law.mean for law in laws])
        if linear is not None and not np.allclose(means, linear, rtol=_ROUNDING, atol=_ROUNDING):
            raise ValueError(
                "rewards must have the means features @ theta, unless theta is omitted"
            )
        tied = np.flatnonzero(means >= means.max() - _TIE * abs(means.max())).tolist()
        if self.unique and len(tied) > 1:
            raise ValueError(
                f"the best arm must be unique, but arms {tied} share the largest mean; change "
                "features, theta or rewards, or use unique=False"
            )
        gaps = means.max() - means
        gaps[tied] = 0
        for array in (means, gaps):
            array.setflags(write=False)
        vars(self).update(
            features=features, theta=theta, laws=laws, means=means, best=tied[0], gaps=gaps
        )

    def _laws(self, means: FloatArray | None, arms: int) -> tuple[RewardLaw, ...]:
        if not callable(self.rewards):
            laws = _check.sequence(self.rewards, "rewards, unless it makes a law from a mean,")
            if len(laws) != arms:
                raise ValueError(
                    f"rewards must list one law for each of {arms} arms, got {len(laws)}"
                )
        elif means is None:
            raise ValueError("theta must be given unless rewards lists a law for each arm")
        else:
            laws = tuple(map(self._law, range(arms), means.tolist()))
        for arm, law in enumerate(laws):
            _check.kind(law, f"rewards of arm {arm}", RewardLaw)
            low, high = law.support
            # A support may exceed 1 by rounding errors of the mean.
            if self.bounded and (low < -_ROUNDING or high > 1 + _ROUNDING):
                raise ValueError(
                    f"rewards of arm {arm} (mean {law.mean:.6g}) must lie in [0, 1], but "
                    f"{type(law).__name__} rewards range over [{low:.6g}, {high:.6g}]"
                )
        return laws

    def _law(self, arm: int, mean: float) -> RewardLaw:
        assert callable(self.rewards)
        try:
            return self.rewards(mean)
        except ValueError as error:
            raise ValueError(
                f"theta gives arm {arm} a mean that its reward law does not allow: {error}"
            ) from error
        except TypeError as error:
            raise TypeError(f"rewards must map a mean to a law: {error}") from error

    @property
    def arms(self) -> int:
        """K, the number of arms."""
        return int(self.features.shape[0])

    @property
    def dimension(self) -> int:
        """d, the length of the feature vectors."""
        return int(self.features.shape[1])

    @property
    def ties(self) -> tuple[int, ...]:
        """The best arms: one, unless `unique` is False."""
        return tuple(np.flatnonzero(self.gaps == 0).tolist())

    @property
    def reward_bound(self) -> float:
        """The largest change of one reward: 1, or more if rewards are not bounded by [0, 1]."""
        ranges = (law.support[1] - min(0.0, law.support[0]) for law in self.laws)
        return 1.0 if self.bounded else max(1.0, *ranges)


def check_one_best(instance: Instance) -> None:
    """Raise ValueError if several arms are best."""
    if len(instance.ties) > 1:
        raise ValueError(f"instance must have one best arm, got {list(instance.ties)}")


def synthetic(omega: ArrayLike | None = None, *, seed: Seed = 0) -> Instance:
    """Return the instance of Sec. 5: K = 30, d = 2, arm 0 the best, arms 1 and 2 with gap 0.05.

    Parameters
    ----------
    omega : array_like of shape (27,), optional
        The second features omega_i of arms 3..29, in [0, 0.8]; drawn uniformly by default.
    seed : int, SeedSequence or Generator, default 0
        Source of randomness for omega.
    """
    rng = _check.generator(seed)
    values = _check.vector(rng.uniform(0, 0.8, 27) if omega is None else omega, "omega", 27)
    if not ((values >= 0) & (values <= 0.8)).all():
        raise ValueError("omega must lie in [0, 0.8]")
    named = np.array([[0, 1], [0, 0.9], [10, 0]])
    features = np.vstack([named, np.column_stack([np.ones(27), values])])
    return Instance(features, np.array([0.045, 0.5]))


def two_armed(
    x: float = 1.0, y: float = 10.0, gap: float = 0.05, means: str = "printed"
) -> Instance:
    """Return the two-armed instance of App. E: a_1 = (x, 0), a_2 = (0, y), arm 0 the best.

    Parameters
    ----------
    x, y : float
        Lengths of the two feature vectors, in [1e-300, 1e300].
    gap : float
        Delta, in (0, 1/2].
    means : {"printed", "in-range"}
        "printed": 0.5 + gap and 0.5, with uniform rewards up to 1 + 2 gap, outside the model of the
        paper. "in-range": 0.5 and 0.5 - gap, with rewards in [0, 1].
    """
    lengths = f"[{_SHORTEST}, {_LONGEST}]"
    x, y = _check.number(x, "x", lengths), _check.number(y, "y", lengths)
    gap = _check.number(gap, "gap", "(0, 0.5]")
    _check.one_of(means, "means", ("printed", "in-range"))
    best = 0.5 + gap if means == "printed" else 0.5
    theta = np.array([best / x, (best - gap) / y])
    return Instance(np.diag([x, y]), theta, bounded=means == "in-range")


def hard_gammas(arms: int, gamma1: float) -> FloatArray:
    """Return gamma_1, ..., gamma_K of `hard_instances`, for `gamma1` in (0, K^-(K+2))."""
    arms = _check.whole(arms, "arms", least=4)
    gamma1 = _check.number(gamma1, "gamma1", f"(0, {float(arms) ** -float(arms + 2)})")
    return np.asarray(gamma1 * float(arms) ** np.arange(arms))


def hard_instances(arms: int, gamma1: float) -> list[Instance]:
    """Return the instances v^(0), ..., v^(K) of the lower bound, eq. (95).

    Features are orthogonal (K = d > 3), and rewards are Bernoulli. In v^(0), the paper's arm i,
    which is arm i - 1 here, has mean 1/2 - gamma_i with gamma_i = gamma_1 K^(i - 1), so the first
    arm is the best. In v^(i), i >= 1, arm i has mean 1/2 + gamma_i instead, and is the best.

    Parameters
    ----------
    arms : int
        K, at least 4.
    gamma1 : float
        In [2^-40, K^-(K+2)), where rounding 1/2 - gamma1 to a double changes gamma1 by a share of
        at most 2^-15. The interval is empty for more than 10 arms.
    """
    gammas = hard_gammas(arms, gamma1)
    if gamma1 < 2.0**-40:
        raise ValueError(
            f"gamma1 must be at least 2^-40 for means 1/2 - gamma1 in double precision, "
            f"got {gamma1}"
        )
    signs = np.vstack([np.ones(arms), 1 - 2 * np.eye(arms)])
    return [Instance(np.eye(arms), 0.5 - row * gammas, rewards=Bernoulli) for row in signs]
