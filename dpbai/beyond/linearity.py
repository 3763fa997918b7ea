"""Checks of whether the means are linear, which cost no privacy because they use only releases.

The paper's model (Sec. 2) is mu_i = a_i' theta, and a policy that pulls few arms relies on it for
all others. Two phases that use different rewards estimate the same mean twice. If the means are
linear, the distribution of the difference is known except for that of the rewards, for which
Hoeffding's lemma gives a bound. So a difference beyond `limits` is evidence against linearity,
whatever the means are.

The second phase may be one of the run, or a `holdout` of arms that the run would not pull.
`cannot_lead` returns the arms that the model rules out before anything is pulled. Neither is in the
paper. All functions raise `ValueError` for arguments outside their stated ranges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbai import _check
from dpbai._check import FloatArray, Seed
from dpbai.beyond import gaps
from dpbai.beyond.private import laplace
from dpbai.phase import Phase, checked_step
from dpbai.ranking import ROUNDING
from dpbai.scaling import Span
from dpbai.schedule import check_budget

_DEVIATION = 0.5  # Hoeffding's lemma: E exp(t (X - E X)) <= exp(t^2 / 8) for X in [0, 1]
_SIMULATIONS = 2000
_ROUNDS, _POINTS = 6, 17  # of a grid search; each round reduces the interval to an eighth
_DIRECTIONS = 2000  # random ones, in which most vertices of a convex hull are found
_COPY, _TIE = 1e-6, 1e-8  # distance and lead up to which arms count as equal


@dataclass(frozen=True, eq=False)
class Misfit:
    """Comparison of two estimates of the same means.

    Attributes
    ----------
    arms : tuple of int
        The arms that both phases estimate, increasing.
    differences : ndarray of shape (len(arms),)
        The second estimate minus the first.
    limits : ndarray of shape (len(arms),)
        If all means are linear, some difference exceeds its limit with at most the stated
        probability.
    """

    arms: tuple[int, ...]
    differences: FloatArray
    limits: FloatArray

    @property
    def found(self) -> bool:
        """Whether some difference exceeds its limit, which is evidence against linear means.

        If it is False, the means may still be far from linear; see Notes of `misfit`.
        """
        return bool((np.abs(self.differences) > self.limits).any())


def holdout(arms: Sequence[int], *, pulls: int, epsilon: float) -> Phase:
    """Plan to pull some arms in addition to a run and release each mean with Laplace noise.

    Parameters
    ----------
    arms : sequence of int
        The arms to hold out, increasing.
    pulls : int
        How often to pull each of them. These pulls are in addition to the run's budget.
    epsilon : float
        Privacy parameter. The holdout uses its own rewards, so that a run at the same epsilon and
        its holdout together are epsilon-private.

    Returns
    -------
    Phase
        A phase with one released coordinate per arm. `dpbai.field.session.release` makes the
        release.
    """
    arms = _check.active_set(arms, _check.LARGEST_COUNT, "arms")
    pulls, epsilon = _check.whole(pulls, "pulls"), _check.epsilon(epsilon)
    return Phase(1, arms, arms, (pulls,) * len(arms), laplace(epsilon, pulls), keep=len(arms))


@dataclass(frozen=True, eq=False)
class Holdout:
    """A one-phase policy that pulls its arms equally often, to run a `holdout` as a `Session`.

    Parameters
    ----------
    features : array_like of shape (m, d)
        Feature vectors of the arms that are held out. They do not affect the plan.
    budget : int
        Total number of pulls, at least m.
    epsilon : float
        Privacy parameter, as in `holdout`.
    """

    features: FloatArray
    _: KW_ONLY
    budget: int
    epsilon: float

    def __post_init__(self) -> None:
        vars(self).update(
            features=_check.matrix(self.features, "features", least_rows=1),
            budget=_check.whole(self.budget, "budget"),
            epsilon=_check.epsilon(self.epsilon),
        )
        check_budget(self.budget, len(self.features), *self.features.shape)

    def phase(self, index: int, active: Sequence[int]) -> Phase:
        """Return the `holdout` of all arms, which keeps the arm with the largest estimate."""
        arms = len(self.features)
        active, keep = checked_step(index, active, (arms, 1), arms)
        return replace(holdout(active, pulls=self.budget // arms, epsilon=self.epsilon), keep=keep)


def misfit(
    first: Phase,
    released: ArrayLike,
    second: Phase,
    released_again: ArrayLike,
    *,
    level: float = 0.05,
    candidates: int | None = None,
) -> Misfit:
    """Compare the estimates of two phases that use different rewards.

    Parameters
    ----------
    first, second : Phase
        Two phases of one run, or a phase and a `holdout`. For a phase that remembers, such as the
        second of `DPDesign`, only its own release is used, that is the means of arms that have a
        coordinate of their own, since its estimates share the noise of earlier phases.
    released, released_again : array_like of shape (coordinates,)
        The releases of the two phases, including noise.
    level, candidates
        As in `limits`.

    Returns
    -------
    Misfit

    Raises
    ------
    ValueError
        If the length of a release differs from its phase's number of coordinates, or there is no
        arm whose mean both phases release. A phase that releases only differences of means releases
        no mean.

    Notes
    -----
    If the means are linear, `found` is true with probability at most `level`. If they are not, an
    arm whose two estimates differ by twice its limit in expectation is missed with probability at
    most `level`. An arm is compared only if both phases estimate it. So an arm that was dropped
    because the model underestimated its mean is not checked.

    This is proved for second phases whose estimate of an arm does not depend on which other arms
    survive: a holdout, and a phase of `DPBAI` that pulls all its arms. It is not proved if the
    estimate does depend on the survivors, as in a phase that pulls a Max-Det collection of them, or
    in `DPDesign`, which divides pulls according to them.
    """
    threshold = limits(first, second, level=level, candidates=candidates)
    arms, decoder, other = _common(first, second)
    estimate = decoder @ _check.vector(released, "released", first.coordinates)
    again = other @ _check.vector(released_again, "released_again", second.coordinates)
    return Misfit(arms, again - estimate, threshold)


def limits(
    first: Phase, second: Phase, *, level: float = 0.05, candidates: int | None = None
) -> FloatArray:
    """Return how much two estimates of each mean may differ if the means are linear.

    The limits are known before anything is pulled. They show how large a misfit must be to be found
    with these plans.

    Parameters
    ----------
    first, second : Phase
        Two phases that use different rewards in [0, 1]; see `misfit`.
    level : float, default 0.05
        The probability that any difference exceeds its limit although the means are linear is at
        most this.
    candidates : int, optional
        The number of arms that might have been compared. The default, the number that are compared,
        is right if these were chosen beforehand. If the second phase holds survivors of the first,
        use the number of arms that were active in the first, since the first release chose among
        them.

    Returns
    -------
    ndarray
        The limits for the arms that both phases estimate, in increasing order of the arms.

    Raises
    ------
    ValueError
        If there is no arm whose mean both phases release; see `misfit`.

    Notes
    -----
    The difference is a sum of independent terms with known weights, the empirical means and the
    noise of both phases. If K(t) bounds its log moment generating function, Chernoff's bound and a
    union bound give the limit min_t (K(t) + log(2 candidates / level)) / t.
    """
    level = _check.proportion(level, "level")
    arms, *decoders = _common(first, second)
    candidates = _check.whole(
        len(arms) if candidates is None else candidates, "candidates", least=len(arms)
    )
    log_odds = math.log(2 * candidates / level)
    terms = list(zip((first, second), decoders, strict=True))
    # Standard deviations, since their squares could overflow.
    sampling, noise = np.zeros(len(arms)), np.zeros(len(arms))
    for phase, decoder in terms:
        means = _DEVIATION * (decoder @ phase.release) / np.sqrt(phase.pulls)
        sampling = np.hypot(sampling, np.hypot.reduce(means, axis=1))
        deviations = phase.noise.standard_deviation * decoder
        noise = np.hypot(noise, np.hypot.reduce(deviations, axis=1))
    spread = np.hypot(sampling, noise)
    known = spread == 0
    # The minimizing t is smaller than that for Gaussian terms of the same variances.
    high = math.sqrt(2 * log_odds) / np.where(known, 1.0, spread)

    def height(t: FloatArray) -> FloatArray:
        exponent = (sampling * t) ** 2 / 2 + log_odds
        for phase, decoder in terms:
            with np.errstate(divide="ignore", invalid="ignore"):
                moment = phase.noise.characteristic_function(-1j * t[..., None] * decoder).real
            exponent += np.log(np.where(moment > 0, moment, np.inf)).sum(axis=-1)  # past a pole
        return np.asarray(exponent / t)

    everywhere = np.arange(len(arms))
    low = high * 1e-6
    for _ in range(_ROUNDS):
        t = np.linspace(low, high, _POINTS)
        least = height(t).argmin(axis=0)
        low = t[np.maximum(least - 1, 0), everywhere]
        high = t[np.minimum(least + 1, _POINTS - 1), everywhere]
    return np.where(known, 0.0, height((low + high) / 2))


@dataclass(frozen=True)
class Fit:
    """How well all releases of a run fit means that are linear in the features.

    Attributes
    ----------
    chance : float
        The p-value: the share of runs with linear means in which the releases differ from linear
        means by as much or more. A small value is evidence against linear means.
    power : float
        The share of runs in which `chance` would be below 0.05 if the means were off by `misfit`.
    misfit : float
        The standard deviation of the means from linear ones that `power` assumes, in units of the
        range of the rewards.
    """

    chance: float
    power: float
    misfit: float


def fit(
    phases: Sequence[Phase],
    released: ArrayLike,
    features: ArrayLike,
    *,
    misfit: float = 0.04,
    seed: Seed = 0,
) -> Fit | None:
    """Test all releases of a run against means that are linear in the features.

    Parameters
    ----------
    phases : sequence of Phase
        The finished phases of a run.
    released : array_like of shape (coordinates,)
        Their releases, concatenated, including noise.
    features : array_like of shape (K, d)
    misfit : float, default 0.04
        The standard deviation from linear means for which `power` is computed, positive.
    seed : int, SeedSequence or Generator, default 0
        Source of randomness of the simulations.

    Returns
    -------
    Fit or None
        None if so few arms were pulled that linear means fit any releases.

    Raises
    ------
    ValueError
        If there is no phase, a phase pulls an arm without features, or the length of `released` is
        not the total number of coordinates of the phases.

    Notes
    -----
    The sum of squared residuals of generalised least squares, in units of their variances, is
    compared with that of simulated noise and sampling errors. The variances of rewards are taken at
    their upper bound, 1/4. If rewards vary less, a misfit is found less often, but false alarms do
    not become more frequent. The test does not account for the fact that the releases determined
    which arms survived.
    """
    features = _check.matrix(features, "features", least_rows=2)
    misfit = _check.positive(misfit, "misfit")
    sums = [_check.kind(phase, "phases", Phase) for phase in _check.sequence(phases, "phases")]
    if not sums:
        raise ValueError("phases must hold at least one finished phase")
    values = _check.vector(released, "released", sum(phase.coordinates for phase in sums))
    if max(max(phase.pulled, default=0) for phase in sums) >= len(features):
        raise ValueError("features must have a row for each arm that the phases pull")
    rows = np.vstack([phase.release @ np.eye(len(features))[list(phase.pulled)] for phase in sums])
    sampling = np.concatenate([p.release**2 @ (1 / (4 * np.array(p.pulls))) for p in sums])
    deviations = np.concatenate([np.full(p.coordinates, p.noise.standard_deviation) for p in sums])
    scale = np.sqrt(sampling + deviations**2)
    linear = (rows @ features) / scale[:, None]
    basis, sizes, _ = np.linalg.svd(linear)
    rank = int((sizes > sizes.max(initial=0.0) * 1e-9).sum())
    rest = basis[:, rank:].T / scale
    if not len(rest):
        return None
    rng = _check.generator(seed)
    shape = (_SIMULATIONS, len(scale))
    chance = np.sqrt(sampling) * rng.standard_normal(shape)
    chance += deviations * rng.laplace(scale=math.sqrt(0.5), size=shape)
    off = misfit * rng.standard_normal((_SIMULATIONS, len(features))) @ rows.T

    def squares(releases: FloatArray) -> FloatArray:
        return np.asarray(((releases @ rest.T) ** 2).sum(axis=-1))

    null = squares(chance)
    power = (squares(chance + off) > np.quantile(null, 0.95)).mean()
    return Fit(float((null >= squares(values)).mean()), float(power), misfit)


def _common(first: Phase, second: Phase) -> tuple[tuple[int, ...], FloatArray, FloatArray]:
    """Return the arms that both phases estimate, and the decoders of their own releases."""
    rows = _own(_check.kind(first, "first", Phase))
    others = _own(_check.kind(second, "second", Phase))
    common = tuple(sorted(rows.keys() & others.keys()))
    if not common:
        raise ValueError(
            "first and second must have an arm in common whose mean each of them releases, got "
            "none: a difference of means, as DPDesign releases for two arms, determines no mean"
        )
    first_rows, second_rows = (np.array([its[arm] for arm in common]) for its in (rows, others))
    return common, first_rows, second_rows


def _own(phase: Phase) -> dict[int, FloatArray]:
    """Return rows that decode a phase's own release, for the arms whose means it determines."""
    release = phase.release
    if not phase.remembered:
        # Differences determine no means: estimates decoded from them are right up to a constant.
        # Nor does one number from several arms, which estimates the difference of two means.
        sizes = np.abs(release).sum(axis=1)
        differences = (np.abs(release.sum(axis=1)) <= ROUNDING * sizes).all()
        if phase.pulled and (differences or phase.coordinates == 1 < len(phase.pulled)):
            return {}
        return dict(zip(phase.active, phase.decoder, strict=True))
    rows, columns = np.nonzero(release * (np.count_nonzero(release, axis=1) == 1)[:, None])
    columns, first = np.unique(columns, return_index=True)
    return {
        phase.pulled[column]: (np.arange(phase.coordinates) == row) / release[row, column]
        for row, column in zip(rows[first].tolist(), columns.tolist(), strict=True)
    }


def cannot_lead(features: ArrayLike) -> tuple[int, ...]:
    """Return the arms that are not the best arm under any linear means in [0, 1].

    Parameters
    ----------
    features : array_like of shape (K, d)
        A row for each arm.

    Returns
    -------
    tuple of int
        Increasing. Under linear means, none of these arms is ever the best. If one of them may
        nevertheless be the best, the features do not describe it correctly.

    Notes
    -----
    Arm i leads if a_i' theta > a_j' theta for all j whose features differ. Such a theta exists if
    and only if a_i is a vertex of the convex hull of all features. Otherwise a_i is a convex
    combination of other arms, and one of these has at least its mean. Arms with equal features have
    equal means and lead together.

    If a combination of the features is constant, all means can be shifted and scaled into [0, 1].
    Otherwise it can happen that an arm leads only if other means are negative; such an arm is
    returned too. If the features then average to 0, the only linear means in [0, 1] are 0, and no
    arm leads.

    With a constant, most vertices are found as the best arms in random directions. For each other
    arm, a linear program finds its largest lead (`gaps.largest`), first over these vertices, then
    over all arms. Coordinates are relative to a basis among the arms, so that the units of the
    features do not matter. In these coordinates, arms within 1e-6 of each other count as equal, and
    leads up to 1e-8 count as 0.
    """
    vectors = _check.matrix(features, "features", least_rows=1)
    whole, centred = Span(vectors), Span(vectors - vectors.mean(axis=0))
    if not centred.rank:
        return ()
    points = whole.coordinates
    tops = []
    if centred.rank < whole.rank:  # with a constant
        directions = np.random.default_rng(0).normal(size=(_DIRECTIONS, centred.rank))
        tops = np.unique((centred.coordinates @ directions.T).argmax(axis=0)).tolist()
    found = np.zeros(len(points), dtype=bool)
    for top in tops:
        found |= _distances(points, top) <= _COPY

    def leads(arm: int, others: NDArray[Any]) -> bool:
        others = others[_distances(points, arm)[others] > _COPY]
        return gaps.largest(points[[arm, *others]], 0) > _TIE

    vertices, every = np.flatnonzero(found), np.arange(len(points))
    return tuple(
        arm
        for arm in every[~found].tolist()
        if not ((not tops or leads(arm, vertices)) and leads(arm, every))
    )


def _distances(points: FloatArray, arm: int) -> FloatArray:
    return np.asarray(np.abs(points - points[arm]).max(axis=1))
