"""Are the means linear? A check that costs no privacy, because it reads releases only.

The model of the paper (Sec. 2) says mu_i = a_i' theta, and a policy that pulls few arms relies on
it for all others. Two phases that use different rewards estimate the same mean twice. If it is
linear, the law of the difference is known but for the distribution of the rewards, and that one is
bounded by Hoeffding's lemma. So a difference beyond `limits` speaks against linearity, whatever the
means are.

The second phase may be one of the run, or a `holdout` of arms that the run would not pull.
`cannot_lead` names the arms that the model rules out before anything is pulled. The paper has
neither. An argument outside the range that is stated for it is a `ValueError`.
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
from dpbai.schedule import enough

_DEVIATION = 0.5  # Hoeffding's lemma: E exp(t (X - E X)) <= exp(t^2 / 8) for X in [0, 1]
_SIMULATIONS = 2000
_ROUNDS, _POINTS = 6, 17  # each leaves an eighth of an interval; the minimum is flat
_DIRECTIONS = 2000
_COPY, _TIE = 1e-6, 1e-8  # distance of arms, and lead, up to which they count as equal


@dataclass(frozen=True, eq=False)
class Misfit:
    """Two estimates of the same means, compared.

    Attributes
    ----------
    arms : tuple of int
        The arms that both phases estimate, increasing.
    differences : ndarray of shape (len(arms),)
        The second estimate less the first.
    limits : ndarray of shape (len(arms),)
        What no difference exceeds if all means are linear, but for the stated probability.
    """

    arms: tuple[int, ...]
    differences: FloatArray
    limits: FloatArray

    @property
    def found(self) -> bool:
        """Whether some difference exceeds its limit: the means are not linear, or chance is rare.

        If nothing is found, the means may still be far from linear: see Notes of `misfit`.
        """
        return bool((np.abs(self.differences) > self.limits).any())


def holdout(arms: Sequence[int], *, pulls: int, epsilon: float) -> Phase:
    """Plan to pull some arms beside a run, and to release the mean of each with Laplace noise.

    Parameters
    ----------
    arms : sequence of int
        The arms to hold out, increasing.
    pulls : int
        How often to pull each of them; they come on top of the run's budget.
    epsilon : float
        Privacy parameter. The holdout has rewards of its own, so a run at the same epsilon and its
        holdout are epsilon-private together.

    Returns
    -------
    Phase
        With one released coordinate per arm; `dpbai.field.session.release` releases it.
    """
    arms = _check.active_set(arms, _check.LARGEST_COUNT, "arms")
    pulls, epsilon = _check.whole(pulls, "pulls"), _check.epsilon(epsilon)
    return Phase(1, arms, arms, (pulls,) * len(arms), laplace(epsilon, pulls), keep=len(arms))


@dataclass(frozen=True, eq=False)
class Holdout:
    """A policy of one phase that pulls its arms equally often: a `holdout` as a `dpbai.Session`.

    Parameters
    ----------
    features : array_like of shape (m, d)
        Of the arms that are held out, one or more of those of the run. Nothing is computed from it.
    budget : int
        Pulls of all of them together, at least m.
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
        enough(self.budget, len(self.features), *self.features.shape)

    def phase(self, index: int, active: Sequence[int]) -> Phase:
        """Return the `holdout` of all arms; it keeps the one with the largest estimate."""
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
        Two phases of one run, or a phase and a `holdout`. Of a phase that remembers, such as the
        second of `DPDesign`, its own release alone counts: the means of the arms that have a
        coordinate of their own. (Its estimates share the noise of the phases before.)
    released, released_again : array_like of shape (coordinates,)
        What each of them released, noise included.
    level, candidates
        As in `limits`.

    Returns
    -------
    Misfit

    Raises
    ------
    ValueError
        If a release has not as many numbers as its phase has coordinates, or there is no arm whose
        mean both phases release; one that releases only differences of means releases none.

    Notes
    -----
    If the means are linear, something is `found` with probability at most `level`. If they are not,
    an arm whose two estimates differ by twice its limit in expectation is missed with probability
    at most `level`. An arm is compared only if both phases estimate it: the survivors of a phase
    say nothing about an arm that it dropped because the model underestimated its mean.

    This is proved for second phases whose estimate of an arm does not depend on which others
    survive: a holdout, and a phase of `DPBAI` that pulls all its arms. Where it does, as in a phase
    with a Max-Det collection of survivors, or of `DPDesign`, which divides its pulls by what has
    survived, the limits do not allow for the choice.
    """
    threshold = limits(first, second, level=level, candidates=candidates)
    arms, decoder, other = _common(first, second)
    estimate = decoder @ _check.vector(released, "released", first.coordinates)
    again = other @ _check.vector(released_again, "released_again", second.coordinates)
    return Misfit(arms, again - estimate, threshold)


def limits(
    first: Phase, second: Phase, *, level: float = 0.05, candidates: int | None = None
) -> FloatArray:
    """Return how far two estimates of each mean may lie apart if the means are linear.

    It is known before anything is pulled, and shows how large a misfit the plans can find.

    Parameters
    ----------
    first, second : Phase
        Two phases that use different rewards in [0, 1]; see `misfit`.
    level : float, default 0.05
        The probability that any difference exceeds its limit although the means are linear is at
        most this.
    candidates : int, optional
        How many arms might have been compared. By default as many as are: right for arms that were
        chosen beforehand. If the second phase holds survivors of the first, it is the number of
        arms that were active in the first, since the first release chose among them.

    Returns
    -------
    ndarray
        For the arms that both phases estimate, increasing.

    Raises
    ------
    ValueError
        If there is no arm whose mean both phases release, as in `misfit`.

    Notes
    -----
    The difference is a sum of independent terms, the empirical means and the noise of both phases
    with known weights. With K(t) a bound on its log moment generating function, Chernoff's bound
    and a union bound give the limit min_t (K(t) + log(2 candidates / level)) / t.
    """
    level = _check.proportion(level, "level")
    arms, *decoders = _common(first, second)
    candidates = _check.whole(
        len(arms) if candidates is None else candidates, "candidates", least=len(arms)
    )
    log_odds = math.log(2 * candidates / level)
    terms = list(zip((first, second), decoders, strict=True))
    # Deviations, whose squares may be beyond the doubles.
    sampling, noise = np.zeros(len(arms)), np.zeros(len(arms))
    for phase, decoder in terms:
        means = _DEVIATION * (decoder @ phase.release) / np.sqrt(phase.pulls)
        sampling = np.hypot(sampling, np.hypot.reduce(means, axis=1))
        deviations = phase.noise.standard_deviation * decoder
        noise = np.hypot(noise, np.hypot.reduce(deviations, axis=1))
    spread = np.hypot(sampling, noise)
    known = spread == 0
    # The minimum lies below that of Gaussian terms of the same variances.
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
    """How well all that a run released fits means that are linear in the features.

    Attributes
    ----------
    chance : float
        The share of runs in which releases differ from linear means by as much, or more, by chance
        alone. A small one speaks against linear means.
    power : float
        The share of runs in which `chance` would be below 0.05, if the means were off by `misfit`.
    misfit : float
        A standard deviation, in units of the range of the rewards.
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
    """Compare all releases of a run with means that are linear in the features.

    Parameters
    ----------
    phases : sequence of Phase
        The finished phases of a run.
    released : array_like of shape (coordinates,)
        What they released, one after the other, noise included.
    features : array_like of shape (K, d)
    misfit : float, default 0.04
        The deviation from linear means for which `power` is computed, positive.
    seed : int, SeedSequence or Generator, default 0
        Of the simulations that stand for chance.

    Returns
    -------
    Fit or None
        None if so few arms were pulled that linear means fit any releases.

    Raises
    ------
    ValueError
        If there is no phase, a phase pulls an arm without features, or `released` has another
        number of values than the phases have coordinates.

    Notes
    -----
    Generalised least squares leaves residuals; the sum of their squares, in units of their
    variances, is compared with what noise and sampling leave in simulations. The variances of
    rewards are taken at their bound, 1/4: with rewards that vary less, a misfit is found less
    often, and no misfit is claimed more often. That survivors were chosen by what was released is
    not allowed for.
    """
    features = _check.matrix(features, "features", least_rows=2)
    misfit = _check.positive(misfit, "misfit")
    sums = [_check.kind(phase, "phases", Phase) for phase in _check.sequence(phases, "phases")]
    if not sums:
        raise ValueError("phases must hold a finished phase at least")
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
            "first and second must have an arm in common, got none whose mean both of them release "
            "by themselves: differences of means, as DPDesign releases of two arms, determine none"
        )
    first_rows, second_rows = (np.array([its[arm] for arm in common]) for its in (rows, others))
    return common, first_rows, second_rows


def _own(phase: Phase) -> dict[int, FloatArray]:
    """Return rows that decode a phase's own release, for the arms whose means that determines."""
    release = phase.release
    if not phase.remembered:
        # Differences determine no means, and what is decoded from them is right up to a constant;
        # nor does one number of several arms, which tells two means apart.
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
        Increasing. A policy that relies on linear means never has to find one of these arms; if
        one may be the best all the same, the features are wrong for it.

    Notes
    -----
    Arm i leads if a_i' theta > a_j' theta for all j whose features differ. Some theta achieves this
    if and only if a_i is a vertex of the convex hull of all features: else a_i is a convex
    combination of other arms, one of which has at least its mean. Arms with equal features have
    equal means and lead together.

    If a combination of the features is constant, all means can be moved and scaled into [0, 1].
    Otherwise an arm may lead only where other means are negative, and does not count; features that
    have mean 0 then allow no means in [0, 1] but 0, and no arm leads.

    With a constant, most vertices are found as the best arms in random directions. For each other
    arm a linear program finds its largest lead (`gaps.largest`), first over these vertices, then
    over all arms. Coordinates are relative to a basis among the arms, so that units do not matter;
    in them, arms within 1e-6 of each other count as equal, and a lead of 1e-8 counts as none.
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
