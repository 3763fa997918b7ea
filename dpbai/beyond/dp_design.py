"""DPDesign: few phases, noise in the design, and nothing forgotten.

The book's own policy. It releases private sums of rewards, divides pulls by `private_design`, and
estimates by generalised least squares from all releases so far.

Means need not be linear: mean_i = a_i' theta + delta_i, with theta free and independent delta_i of
standard deviation tau (`misfit`). Let w_i be the precision with which the first phase observes arm
i, 0 if it does not pull it. Given theta, its observation predicts delta_i with the factor
1 - f_i, f_i = 1 / (1 + tau^2 w_i). So that phase knows theta with information sum f_i w_i a_i a_i',
and leaves

    mean_i = estimate_i + f_i a_i' x + tau f_i^(1/2) z_i,

with x the error of theta and z_i independent of it, of variance 1. Later phases are then least
squares with the vectors (f_i a_i, tau f_i^(1/2) e_i) and prior information; with tau = 0 they are
those with the vectors a_i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from dpbai import _check
from dpbai._check import FloatArray, IntArray
from dpbai._threads import one_thread
from dpbai.beyond.contrast import combination, shortest
from dpbai.beyond.gaps import only_two
from dpbai.beyond.private import (
    Division,
    PrivateDesign,
    distinct,
    every_sum,
    information,
    laplace,
    noise_ratio,
    whole_pulls,
)
from dpbai.beyond.rehearsal import Rehearsal, Timetable, timetables
from dpbai.g_optimal import whitening
from dpbai.phase import Phase, checked_step
from dpbai.ranking import ROUNDING, sorted_rows
from dpbai.scaling import Span
from dpbai.schedule import enough

MISFIT = 0.04  # by default, with few pulls or much noise; see Notes of `DPDesign`
_MOST_MISFIT, _CAUTION = 0.06, 0.0055
_MOST_ARMS = 256  # that a first phase pulls equally often
_WORTH = 0.01  # what pulls of other arms must take off a variance
_PULLS_TO_AN_ARM = 10
_LEAST = 1e-100
_SMALL = 1e-6  # of the lead: so far all others stay behind two arms that alone can lead
_MOST_PHASES = 64  # a plan decodes what all before it released

Plan = tuple[tuple[int, ...], tuple[int, ...], FloatArray]


@dataclass
class Posterior:
    """Estimates of the means of some arms: mean_i = vector_i' x, with information on x.

    `releases` has, for each release so far, a matrix L of shape (q, coordinates) and precisions p:
    x is estimated by information^-1 sum of L @ (p * release).
    """

    arms: tuple[int, ...]
    vectors: FloatArray
    information: FloatArray
    noise_ratio: float
    releases: list[tuple[FloatArray, FloatArray]]

    def vectors_of(self, arms: Sequence[int]) -> FloatArray:
        """Return the vectors of some of the arms."""
        return np.asarray(self.vectors[[self._places[arm] for arm in arms]])

    def observation(self, plan: Plan) -> tuple[FloatArray, FloatArray]:
        """Return the linear functions of x that a release observes, and the precision of each."""
        pulled, pulls, release = plan
        variance = release**2 @ (1 / (4 * np.array(pulls))) + self.noise_ratio / 4
        return release @ self.vectors_of(pulled), 1 / variance

    def observe(self, plan: Plan) -> None:
        """Add the information of a release."""
        rows, precision = self.observation(plan)
        self.information = self.information + _information(rows, precision)
        self.releases.append((rows.T, precision))

    def variance(self, plan: Plan, pair: Sequence[int]) -> float:
        """Return the variance of the contrast of two arms if a plan is executed."""
        one, other = self.vectors_of(pair)
        both = self.information + _information(*self.observation(plan))
        return float((one - other) @ _inverse(both) @ (one - other))

    def decoder(self, arms: Sequence[int]) -> FloatArray:
        """Return the matrix that makes estimated means of all releases."""
        estimated = self.vectors_of(arms) @ _inverse(self.information)
        return np.hstack([estimated @ linear * precision for linear, precision in self.releases])

    @cached_property
    def _places(self) -> dict[int, int]:
        return {arm: place for place, arm in enumerate(self.arms)}


@dataclass(frozen=True, eq=False)
class DPDesign:
    """DPDesign: eliminate arms on least squares of all private sums so far; epsilon-private.

    `features`, `budget` and `epsilon` are those of `DPBAI`.

    Parameters
    ----------
    phases : int, optional
        How many phases there are, at most max(1, K - 1), and 64. By default one to four, see
        Notes.
    misfit : float, optional
        tau, by how much means are expected to differ from linear ones: a standard deviation, in
        units of the range of the rewards, in [0, 1] or infinite. By default 0.04 to 0.06, see
        Notes. With 0 means are taken to be linear, with infinity features are ignored, as if they
        were one-hot. A positive misfit, however small, also admits other candidates than 0 does.
        The attribute is the number that is used, which `Session` saves and `dataclasses.replace`
        keeps: ``replace(policy, budget=n, misfit=None)`` has the default for n pulls.

    Notes
    -----
    *Model.* mean_i = a_i' theta + delta_i, with theta free and independent delta_i of mean 0 and
    standard deviation tau: a linear mixed model. An estimate is the best linear unbiased prediction
    of a mean. What an arm's own rewards say counts for more, the more there are of them. Where the
    features have rank K they leave all means free, and tau makes no difference. For two arms all
    positive values are the same: their features are ignored. With 0 they are used.

    tau is not estimated. Private releases say little of it before the budget is spent, and rewards
    that vary less than they could look like means that are linear. The default depends on w, the
    precision of an arm's own mean after T/K pulls: it is 0.0055 sqrt(w), rounded to hundredths, but
    at least 0.04 and at most 0.06. Where noise is large, features are what an answer rests on, and
    larger misfits cost success; where it is small, caution costs little, and trust in features
    costs most. On linear means the default loses some thousandths, and on means that are off by up
    to 0.1 it saves most of what trust would cost; `real_arms` in the book has the measurements.
    With tau = 0, success falls as the budget grows if means are not linear.

    *Releases.* Of each pulled arm the sum of the rewards, plus Lap(1/epsilon): one reward moves one
    sum, by at most 1, which is all that privacy needs. When two arms are left, the difference of
    their sums can do with one such noise instead of two; it is released if it is more precise. With
    two arms from the start, estimates are then right up to a constant, the same for both.

    *Arms that cannot lead.* Rewards lie in [0, 1], and so do the means. If features span a plane,
    this may leave two arms that alone can be the best under linear means: so it does on the paper's
    instance, or if means change along a line with a dose. With `misfit=0`,
    noise and `phases=None`, the run is then that of two arms: all pulls go into one number that
    tells them apart, of the rewards of the arms by which it is most precise. It determines no mean:
    estimates of the two, and of arms on the line through them, are right up to a constant, and
    those of others lie in between and say nothing. With `phases=1` sums are released.

    *Estimates.* Each release is a linear function of the means plus an error of known variance, at
    most n/4 for the sum of n rewards and 2/epsilon^2 for the noise. Generalised least squares uses
    those of all phases so far.

    *Pulls.* Each phase divides its pulls among its active arms so that the largest variance of a
    contrast of two of them is small, given what was released before; see `private_design`. The
    first phase divides them as for linear means or, with a misfit, equally among all arms, if the
    rehearsal says so; later phases of more than two arms then do the same. In which order the arms
    are listed changes neither this nor the choice of phases, but for which of equal arms is pulled.

    The last of two phases may pull any arms, also those that are out, in place of the two that are
    left: in the proportions in which a combination of their means tells the two apart best
    (`beyond.contrast`), and their sums are released as this one number, with one noise. `misfit`
    counts what such arms do not tell of the two.

    *Phases.* There is one; or two, which keep 2, 3, 4 or 8 arms after the first; or three, which
    keep 4 or 6 and then 2; with a misfit also more, up to 32 arms after the first and four phases.
    The first of several takes 2/5, 3/5 or 4/5 of T, and the others share the rest equally. All
    these are rehearsed (`beyond.rehearsal`), where a further phase must add at least half a
    standard error; and two phases of which the last pulls any arms, if they are better than all
    others. `phases` fixes the number, and leaves sizes and shares to the rehearsal; more phases
    than are tried otherwise take half of T first, and go from 12 arms (at least one for each phase)
    to 2 by equal factors.
    """

    features: FloatArray
    _: KW_ONLY
    budget: int
    epsilon: float
    phases: int | None = None
    misfit: float | None = None

    remembers = True

    def __post_init__(self) -> None:
        features = _check.matrix(self.features, "features", least_rows=2)
        budget, epsilon = _check.whole(self.budget, "budget"), _check.epsilon(self.epsilon)
        misfit = usual_misfit(len(features), budget, epsilon)
        if self.misfit is not None:
            misfit = _check.non_negative(self.misfit, "misfit")
        if 1 < misfit < math.inf:
            raise ValueError(f"misfit must lie in [0, 1] or be infinite, got {misfit}")
        vars(self).update(features=features, budget=budget, epsilon=epsilon, misfit=misfit)
        if self.phases is not None:
            arms, phases = len(features), _check.whole(self.phases, "phases")
            most = min(_MOST_PHASES, max(1, arms - 1))
            if phases > most:
                raise ValueError(f"phases must be at most {most} for {arms} arms, got {phases}")
            vars(self)["phases"] = phases
        enough(self.budget, self.least_budget, *features.shape)

    @property
    def least_budget(self) -> int:
        """A pull for each arm of a basis, and one for each phase after the first."""
        return max(1, len(self._division.basis)) + (self.phases or 1) - 1

    @property
    def timetable(self) -> Timetable:
        """Sizes of the active sets, K first and 1 last, and the pulls of each phase."""
        return self._choice[0]

    @cached_property
    @one_thread
    def _choice(self) -> tuple[Timetable, bool]:
        """The timetable, and whether the first phase pulls all arms equally often."""
        arms = self.features.shape[0]
        least = max(1, len(self._division.basis))
        misfit, anywhere = self._tau > 0, self._anywhere
        candidates = list(
            timetables(arms, self.budget, least, self.phases, misfit=misfit, anywhere=anywhere)
        )
        # Where no pull has information, or two arms alone can lead, there is nothing to rehearse.
        if len(candidates) == 1 or not len(self._division.basis) or self._two is not None:
            return candidates[0], False
        # Survivors may be copies of one arm, so these are rehearsed, too.
        order, begins = sorted_rows(self._model)
        vectors, pulls = self._prior(order).vectors, np.zeros((2, arms), dtype=np.int64)
        pulls[0, begins] = self._division.best(self.budget).pulls
        pulls[1] = self.budget // arms
        fewest = min(timetable.pulls[0] for timetable in candidates)
        even = misfit and arms <= min(fewest, _MOST_ARMS)
        rehearsals = [
            Rehearsal(vectors, each, self._division.noise_ratio, candidates, self._tau)
            for each in pulls[: 1 + even]
        ]
        choices = [(rehearsal, rehearsal.choice()) for rehearsal in rehearsals]
        success = [rehearsal.success(choice) for rehearsal, choice in choices]
        best = int(np.argmax(success))
        return choices[best][1], best > 0

    @property
    def _anywhere(self) -> float:
        """The first share of the candidate that tells two survivors apart by pulls of any arms.

        The first phase estimates as many unknowns as the differences of features have dimensions,
        q, and the second a difference of two arms: they have q and 2 parts of the pulls.

        0, no candidate, where no other arm says anything of the two, or where they would be chosen
        too early, which made-up arms, of which one often leads by far, do not show: where the noise
        on the sums of a basis costs more pulls than the first phase has, or there are fewer than
        ten pulls to an arm.
        """
        vectors = self._division.vectors
        arms, rank = vectors.shape
        if self.budget < _PULLS_TO_AN_ARM * len(self.features) or (arms <= rank and not self._tau):
            return 0.0
        constant = np.linalg.lstsq(vectors, np.ones(arms), rcond=None)[0]
        share = 1 - 2 / (rank + 2 - np.allclose(vectors @ constant, 1, rtol=0, atol=ROUNDING))
        return share if rank * self._division.noise_ratio <= share * self.budget else 0.0

    @one_thread
    def phase(self, index: int, active: Sequence[int], past: Sequence[Phase] = ()) -> Phase:
        """Return the plan of phase `index` for the `active` arms, after all phases of `past`."""
        active, keep = checked_step(index, active, self.timetable.sizes, len(self.features))
        if len(past) != index - 1:
            raise ValueError(f"past must hold the {index - 1} phases before, got {len(past)}")
        if self._two is not None:
            return self._told_apart(active, self._two)
        plans: list[Plan] = [(phase.pulled, phase.pulls, phase.release) for phase in past]
        if past:
            arms = past[1].active if index > 2 else active
            posterior = self._posterior(plans[0], arms, arms)
            for plan in plans[1:]:
                posterior.observe(plan)
            plan = self._plan(index, active, posterior)
            if self.timetable.anywhere:
                plan, posterior = self._better(plan, posterior, active, plans[0])
            posterior.observe(plan)
        else:
            plan = self._plan(index, active, self._prior(active))
            posterior = self._posterior(plan, active, plan[0])
        pulled, pulls, matrix = plan
        return Phase(
            index=index,
            active=active,
            pulled=pulled,
            pulls=pulls,
            noise=laplace(self.epsilon),
            keep=keep,
            release_matrix=matrix,
            decoder_matrix=posterior.decoder(active),
            remembered=sum(phase.coordinates for phase in past),
        )

    def representatives(self, index: int) -> tuple[Phase, ...]:
        """Return a plan whose release is, for privacy, that of phase `index` for any active set.

        Each pulled arm moves one coordinate by 1. At most all active arms are pulled, and no sum is
        larger than all pulls of the phase, on which its rounding depends.
        """
        arms = tuple(range(len(self.features)))
        if index == 1:
            return (self.phase(1, arms),)
        sizes, total = self.timetable.sizes, self.timetable.pulls[index - 1]
        plan = every_sum(index, sizes, total, self.epsilon)
        if not self.timetable.anywhere:
            return (plan,)
        # One number, to which all arms may add.
        every, release = (total,) * len(arms), np.full((1, len(arms)), float(total))
        decoder = np.zeros((len(plan.active), 1))
        other = replace(
            plan, pulled=arms, pulls=every, release_matrix=release, decoder_matrix=decoder
        )
        return plan, other

    def _plan(self, index: int, active: tuple[int, ...], posterior: Posterior) -> Plan:
        """Return which arms to pull, how often, and what to release of their means."""
        total = self.timetable.pulls[index - 1]
        arms = tuple(sorted(active, key=self._places.__getitem__))
        if not (self._choice[1] if index == 1 else self._tau):
            # Of copies of an arm the first is pulled for all.
            first = np.unique(self._places[list(active)], return_index=True)[1]
            arms = tuple(active[i] for i in first)
        vectors = posterior.vectors_of(arms)
        if index == 1:
            design = self._first
        elif self._choice[1] and len(arms) > 2:
            design = _even(len(arms), total)
        else:
            ratio = self._division.noise_ratio
            design = Division(vectors, [], ratio, posterior.information).best(total)
        if len(arms) == len(active) == 2 and total > 1:
            half = (total // 2,) * 2
            difference = np.diff(np.diag(half)[::-1], axis=0).astype(np.float64)
            variance = posterior.variance((arms, half, difference), arms)
            if variance < design.variance * (1 - ROUNDING):
                return active, half, difference
        chosen = sorted((arm, n) for arm, n in zip(arms, design.pulls.tolist(), strict=True) if n)
        pulled, pulls = zip(*chosen, strict=True) if chosen else ((), ())
        return pulled, pulls, np.diag(np.array(pulls, dtype=np.float64))

    def _better(
        self, plan: Plan, posterior: Posterior, active: tuple[int, ...], first: Plan
    ) -> tuple[Plan, Posterior]:
        """Return the plan, or one that tells two arms apart by pulls of any arms, if it is better.

        With it comes the posterior of all arms that it pulls.
        """
        if self._tau:
            arms = np.argsort(self._places, kind="stable")
            pair = np.argsort(arms)[list(active)]
        else:  # of copies of an arm the first is pulled for all
            arms, pair = self._distinct[0], self._places[list(active)]
        total, before = self.timetable.pulls[1], self._posterior(first, arms, ())
        weights = combination(
            before.vectors @ whitening(before.vectors[:0], np.empty(0), before.information),
            self._tau**2 * self._left(first)[arms],
            pair,
            1 / float(information(total, self._division.noise_ratio)),
        )
        shares = np.abs(weights)
        shares *= total / max(shares.sum(), _LEAST)
        shares[shares < 1 / 2] = 0
        if not shares.any():
            return plan, posterior
        candidate = _one_number(weights, shares, arms, total)
        concerned = sorted({*active, *candidate[0]})
        other = self._posterior(first, concerned, concerned)
        better = other.variance(candidate, active) < posterior.variance(plan, active) * (1 - _WORTH)
        return (candidate, other) if better else (plan, posterior)

    def _told_apart(self, active: tuple[int, ...], pair: IntArray) -> Phase:
        """Return the only phase where two arms alone can lead: one number tells them apart."""
        vectors, first = self._division.vectors, self._distinct[0]
        contrast = vectors[pair[0]] - vectors[pair[1]]
        weights = shortest(vectors, contrast)
        shares = np.abs(weights) * (self.budget / np.abs(weights).sum())
        pulled, pulls, release = _one_number(weights, shares, first, self.budget)
        # The mean of an arm on the line through the two is that of a point between them.
        place = (vectors - vectors[pair].mean(axis=0)) @ contrast / (contrast @ contrast)
        place = np.clip(place, _SMALL - 1 / 2, 1 / 2 - _SMALL)
        place[pair] = 1 / 2, -1 / 2
        unit = np.abs(weights).max() / np.abs(release).max()
        decoder = unit * place[self._places, None]
        return Phase(1, active, pulled, pulls, laplace(self.epsilon), 1, release, decoder)

    def _prior(self, arms: Sequence[int] | IntArray) -> Posterior:
        vectors = np.asarray(self._division.vectors[self._places[np.asarray(arms, dtype=np.intp)]])
        return Posterior(tuple(arms), vectors, self._division.prior, self._division.noise_ratio, [])

    def _posterior(
        self, first: Plan, arms: Sequence[int] | IntArray, own: Sequence[int]
    ) -> Posterior:
        """Return what the first release tells of `arms`, if delta counts for those of `own` only.

        An arm that is never pulled has no release that depends on its delta.
        """
        pulled, _, matrix = first
        rows, precision = self._prior(pulled).observation(first)
        prior, left = self._prior(arms), self._left(first)
        factors = left[list(pulled)] if self._tau else 1.0
        vectors, linear, precision = prior.vectors, rows.T, precision * factors
        information = prior.information + _information(rows, precision)
        if self._tau:
            left = left[list(arms), None]
            columns = np.equal.outer(arms, own) * self._tau * np.sqrt(left)
            vectors = np.hstack([vectors * left, columns])
            information = linalg.block_diag(information, np.eye(len(own)))
            each = self._tau * np.linalg.norm(matrix, axis=1) / np.sqrt(factors)
            linear = np.vstack([linear, np.equal.outer(own, pulled) * each])
        releases = [(linear, precision)]
        return Posterior(tuple(arms), vectors, information, prior.noise_ratio, releases)

    def _left(self, first: Plan) -> FloatArray:
        """Return f_i of all arms: which part of the variance of delta_i the first phase leaves."""
        pulled, _, matrix = first
        _, precision = self._prior(pulled).observation(first)
        left = np.ones(len(self.features))
        left[list(pulled)] = 1 / (
            1 + self._tau**2 * precision * np.linalg.norm(matrix, axis=1) ** 2
        )
        return left

    @cached_property
    def _tau(self) -> float:
        """The misfit that counts: none where features leave the means free."""
        arms, rank = len(self.features), self._division.vectors.shape[1]
        assert self.misfit is not None
        return 0.0 if arms in {2, rank} else self.misfit

    @cached_property
    def _model(self) -> FloatArray:
        """The features that plans are computed from."""
        arms = len(self.features)
        alone = arms == 2 or not self.features.any()
        one_hot = self.misfit == math.inf or (self.misfit and alone)
        return np.eye(arms) if one_hot else self.features

    @cached_property
    def _two(self) -> IntArray | None:
        """The two distinct vectors that alone can lead, if the plan is for them."""
        vectors = self._division.vectors
        if self.phases or self._tau or math.isinf(self.epsilon):
            return None  # without noise, rewards of 0 and 1 can make all arms tie
        return only_two(vectors) if len(self.features) > 2 == vectors.shape[1] else None

    @cached_property
    def _distinct(self) -> tuple[IntArray, IntArray]:
        return distinct(self._model)

    @property
    def _places(self) -> IntArray:
        return self._distinct[1]

    @cached_property
    def _division(self) -> Division:
        basis, coordinates = Span(self._model[self._distinct[0]]).canonical
        return Division(coordinates, basis, noise_ratio(self.epsilon, self.budget))

    @cached_property
    def _first(self) -> PrivateDesign:
        timetable, even = self._choice
        if even:
            arms = len(self.features)
            return _even(arms, timetable.pulls[0] // arms * arms)
        return self._division.best(timetable.pulls[0])


def _one_number(weights: FloatArray, shares: FloatArray, arms: IntArray, total: int) -> Plan:
    """Return a plan that releases the weighted sum of the means of arms that have shares of pulls.

    Its unit is the most that one reward can move it.
    """
    pulls = whole_pulls(shares, total)[0]
    chosen = np.flatnonzero(pulls)[np.argsort(arms[pulls > 0])]
    counts, pulled = pulls[chosen].tolist(), arms[chosen].tolist()
    release = weights[chosen] / np.abs(weights[chosen] / counts).max()
    return tuple(pulled), tuple(counts), release[None]


def usual_misfit(arms: int, budget: int, epsilon: float) -> float:
    """Return the default misfit of `DPDesign`, by how precisely pulls can tell an arm's mean."""
    own = float(information(budget / arms, noise_ratio(epsilon, budget)))
    return round(min(max(MISFIT, _CAUTION * math.sqrt(own)), _MOST_MISFIT), 2)


def _even(arms: int, pulls: int) -> PrivateDesign:
    """Return pulls that are the same for all arms, but for one more of the first ones."""
    each = np.full(arms, pulls // arms)
    each[: pulls % arms] += 1
    return PrivateDesign(each, math.nan, math.nan)


def _information(rows: FloatArray, precision: FloatArray) -> FloatArray:
    order, _ = sorted_rows(rows)  # the same sum, to the last digit, in whichever order arms come
    rows, precision = rows[order], precision[order]
    return np.asarray((rows.T * precision) @ rows)


def _inverse(information: FloatArray) -> FloatArray:
    """Return the inverse where there is information: of two arms it may be on a contrast only."""
    return np.asarray(np.linalg.pinv(information, hermitian=True))
