"""DPDesign, a private policy with few phases whose estimates use all releases so far.

This is the book's own policy. It releases private sums of rewards, divides pulls by
`private_design`, and estimates means by generalised least squares from all releases so far.

Means need not be linear: mean_i = a_i' theta + delta_i, with theta free and independent delta_i of
standard deviation tau (`misfit`). Let w_i be the precision with which the first phase observes arm
i, 0 if it does not pull it. Given theta, the observation predicts delta_i with the factor 1 - f_i,
where f_i = 1 / (1 + tau^2 w_i). So the first phase has information sum f_i w_i a_i a_i' on theta,
and afterwards

    mean_i = estimate_i + f_i a_i' x + tau f_i^(1/2) z_i,

where x is the error of the estimate of theta, and z_i is independent of it with variance 1. Later
phases are then least squares with the vectors (f_i a_i, tau f_i^(1/2) e_i) and prior information.
With tau = 0 the vectors are a_i.
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
from dpbai.schedule import check_budget

# The default misfit is _MISFIT_FACTOR times the root of an arm's precision, between two limits.
MISFIT, _LARGEST_MISFIT, _MISFIT_FACTOR = 0.04, 0.06, 0.0055
_MOST_EQUAL = 256  # arms that a first phase may pull equally often
_GAIN = 0.01  # relative decrease of a variance that justifies other, or unequal, pulls
_PULLS_PER_ARM = 10  # least budget per arm at which the last phase may pull other arms
_MARGIN = 1e-6  # by which the estimates of all others stay behind the two that can be the best
_MOST_PHASES = 64  # each plan decodes the releases of all earlier phases
_LEAST = 1e-100  # keeps denominators positive

Plan = tuple[tuple[int, ...], tuple[int, ...], FloatArray]


@dataclass
class Posterior:
    """Estimates of the means of some arms: mean_i = vector_i' x, with information on x.

    `releases` holds, for each release so far, a matrix L of shape (q, coordinates) and precisions
    p. The estimate of x is information^-1 times the sum of L @ (p * release).
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
        """Return the linear functions of x that a release observes, and their precisions."""
        pulled, pulls, release = plan
        variance = release**2 @ (1 / (4 * np.array(pulls))) + self.noise_ratio / 4
        return release @ self.vectors_of(pulled), 1 / variance

    def observe(self, plan: Plan) -> None:
        """Add the information of a release."""
        rows, precision = self.observation(plan)
        self.information = self.information + _information(rows, precision)
        self.releases.append((rows.T, precision))

    def variance(self, plan: Plan, pair: Sequence[int]) -> float:
        """Return the variance of the contrast of two arms after a plan is executed."""
        one, other = self.vectors_of(pair)
        both = self.information + _information(*self.observation(plan))
        return float((one - other) @ _inverse(both) @ (one - other))

    def decoder(self, arms: Sequence[int]) -> FloatArray:
        """Return the matrix that maps all releases to estimated means."""
        estimated = self.vectors_of(arms) @ _inverse(self.information)
        return np.hstack([estimated @ linear * precision for linear, precision in self.releases])

    @cached_property
    def _places(self) -> dict[int, int]:
        return {arm: place for place, arm in enumerate(self.arms)}


@dataclass(frozen=True, eq=False)
class DPDesign:
    """DPDesign: eliminate arms by least squares on all private sums so far; epsilon-private.

    `features`, `budget` and `epsilon` are those of `DPBAI`.

    Parameters
    ----------
    phases : int, optional
        The number of phases, at most max(1, K - 1) and at most 64. By default it is chosen from one
        to four; see Notes.
    misfit : float, optional
        tau, the standard deviation by which means are expected to differ from linear ones, in units
        of the range of the rewards; in [0, 1] or infinite. By default 0.04 to 0.06; see Notes. With
        0, means are taken to be linear. With infinity, features are ignored, as if they were
        one-hot. A positive misfit, however small, also admits other timetables than 0 does. The
        attribute is the number that is used, which `Session` saves and `dataclasses.replace` keeps.
        For the default at n pulls, write ``replace(policy, budget=n, misfit=None)``.

    Notes
    -----
    *Model.* mean_i = a_i' theta + delta_i, with theta free and independent delta_i of mean 0 and
    standard deviation tau: a linear mixed model. Estimates are best linear unbiased predictions of
    the means. The more rewards of its own an arm has, the more weight they get. If the features
    have rank K, they do not restrict the means, and tau makes no difference. For two arms, all
    positive values are equivalent and features are ignored; with 0, features are used.

    tau is not estimated. Private releases contain little information about it before the budget is
    spent, and if rewards vary less than they could, nonlinear means could look linear. The default
    is 0.0055 sqrt(w) rounded to two decimals, but at least 0.04 and at most 0.06, where w is the
    precision of an arm's own mean after T/K pulls. With much noise, the answer depends on features,
    and larger misfits reduce success. With little noise, a larger misfit costs little, and wrong
    features cost most. On linear means the default reduces the success rate by a few thousandths.
    On means that are off by up to 0.1 it avoids most of the loss that tau = 0 has; `real_arms` in
    the book has the measurements. With tau = 0, success falls as the budget grows if means are not
    linear.

    *Releases.* For each pulled arm, the sum of the rewards plus Lap(1/epsilon) is released. One
    reward changes one sum, by at most 1, which is all that privacy requires. When two arms are
    left, the difference of their sums needs one such noise instead of two; it is released if it is
    more precise. If there are two arms from the start, the estimates are then correct up to a
    constant that both share.

    *Arms that cannot be the best.* Rewards lie in [0, 1], and so do the means. If the features span
    a plane, it can follow that only two arms can be the best under linear means. This holds for the
    paper's instance, and if means change along a line with a dose. With `misfit=0`, noise and
    `phases=None`, the run then only compares these two: all pulls contribute to one released
    number, an estimate of the difference of their means from the arms that make it most precise. It
    determines no single mean. Estimates of the two arms, and of arms on the line through them, are
    correct up to a constant; the other estimates lie between those two and have no meaning. With
    `phases=1`, sums are released instead. They are less precise, but for some means they find the
    best arm more often, mostly with few pulls and a large epsilon.

    *Estimates.* Each release is a linear function of the means plus an error with a known bound on
    its variance: n/4 for the sum of n rewards, and 2/epsilon^2 for the noise. Generalised least
    squares uses the releases of all phases so far.

    *Pulls.* Each phase divides its pulls among its active arms so that the largest variance of a
    contrast of two of them is small, given the earlier releases; see `private_design`. With a
    misfit, the first phase may instead pull all arms equally often, if this does better in the
    rehearsal; later phases with more than two arms then do the same. The order of the arms affects
    neither this nor the choice of phases. It decides only which of several equal arms is pulled.

    The last of two phases may pull any arms, including eliminated ones, instead of the two that are
    left. The pulls are divided so that a combination of the arms' means estimates the difference of
    the two most precisely (`beyond.contrast`), and this combination is released as one number with
    one noise. `misfit` accounts for the part of the difference that other arms do not determine.

    *Phases.* The candidates are one phase; two, which keep 2, 3, 4 or 8 arms after the first; and
    three, which keep 4 or 6 and then 2. With a misfit there are also some with up to four phases
    and up to 32 arms after the first. The first of several phases gets 2/5, 3/5 or 4/5 of T, and
    the others share the rest equally. All candidates are simulated on synthetic arms
    (`beyond.rehearsal`), where a further phase must increase success by at least half a standard
    error. One more candidate, two phases of which the last may pull any arms, is chosen only if it
    is better than all others. `phases` fixes the number of phases, and leaves sizes and shares to
    the rehearsal. More phases than are tried otherwise get half of T for the first, and sizes that
    decrease from 12 arms (at least one for each phase) to 2 by equal factors.
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
        check_budget(self.budget, self.least_budget, *features.shape)

    @property
    def least_budget(self) -> int:
        """The least budget: a pull for each arm of a basis and for each phase after the first."""
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
        # If no pull is informative, or only two arms can be the best, there is nothing to compare.
        if len(candidates) == 1 or not len(self._division.basis) or self._only_two is not None:
            return candidates[0], False
        # Survivors may be copies of one arm, so the rehearsal includes copies.
        order, begins = sorted_rows(self._model)
        vectors, pulls = self._prior(order).vectors, np.zeros((2, arms), dtype=np.int64)
        pulls[0, begins] = self._division.best(self.budget).pulls
        pulls[1] = self.budget // arms
        fewest = min(timetable.pulls[0] for timetable in candidates)
        even = misfit and arms <= min(fewest, _MOST_EQUAL)
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
        """The first phase's share of the budget if the second may pull any arms, or 0.

        The first phase estimates q unknowns, the dimension of the differences of features, and the
        second a difference of two arms: their shares are q/(q + 2) and 2/(q + 2).

        The value is 0, for no such candidate, if other arms contain no information on the two. It
        is also 0 if the two would be chosen too early: if the noise on the sums of a basis costs
        more pulls than the first phase has, or there are fewer than ten pulls per arm. The
        rehearsal does not show this, since one of its synthetic arms is often far ahead.
        """
        vectors = self._division.vectors
        arms, rank = vectors.shape
        if self.budget < _PULLS_PER_ARM * len(self.features) or (arms <= rank and not self._tau):
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
        if self._only_two is not None:
            return self._one_number_phase(active, self._only_two)
        plans: list[Plan] = [(phase.pulled, phase.pulls, phase.release) for phase in past]
        if past:
            arms = past[1].active if index > 2 else active
            posterior = self._posterior(plans[0], arms, arms)
            for plan in plans[1:]:
                posterior.observe(plan)
            plan = self._plan(index, active, posterior)
            if self.timetable.anywhere:
                plan, posterior = self._improved(plan, posterior, active, plans[0])
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
        """Return plans that for privacy represent those of phase `index` for every active set.

        Each pulled arm changes one coordinate by 1. At most all active arms are pulled. Rounding
        depends on the size of a sum, which is at most the number of pulls of the phase.
        """
        arms = tuple(range(len(self.features)))
        if index == 1:
            return (self.phase(1, arms),)
        sizes, total = self.timetable.sizes, self.timetable.pulls[index - 1]
        plan = every_sum(index, sizes, total, self.epsilon)
        if not self.timetable.anywhere:
            return (plan,)
        # One number to which all arms may contribute.
        every, release = (total,) * len(arms), np.full((1, len(arms)), float(total))
        decoder = np.zeros((len(plan.active), 1))
        other = replace(
            plan, pulled=arms, pulls=every, release_matrix=release, decoder_matrix=decoder
        )
        return plan, other

    def _plan(self, index: int, active: tuple[int, ...], posterior: Posterior) -> Plan:
        """Return the arms to pull, their pulls, and the matrix that maps means to releases."""
        total = self.timetable.pulls[index - 1]
        arms = tuple(sorted(active, key=self._places.__getitem__))
        if not (self._choice[1] if index == 1 else self._tau):
            # Of arms with equal features, only the first is pulled.
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

    def _improved(
        self, plan: Plan, posterior: Posterior, active: tuple[int, ...], first: Plan
    ) -> tuple[Plan, Posterior]:
        """Return the plan, or one that compares the two active arms by pulls of any arms.

        The second is returned if it is more precise, with the posterior of all arms that it pulls.
        """
        if self._tau:
            arms = np.argsort(self._places, kind="stable")
            pair = np.argsort(arms)[list(active)]
        else:  # of arms with equal features, only the first is pulled
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
        candidate = _one_number(weights, shares, arms, total, self._division.noise_ratio)
        involved = sorted({*active, *candidate[0]})
        other = self._posterior(first, involved, involved)
        better = other.variance(candidate, active) < posterior.variance(plan, active) * (1 - _GAIN)
        return (candidate, other) if better else (plan, posterior)

    def _one_number_phase(self, active: tuple[int, ...], pair: IntArray) -> Phase:
        """Return the only phase if just two arms can be the best; it releases one number."""
        vectors, first = self._division.vectors, self._distinct[0]
        contrast = vectors[pair[0]] - vectors[pair[1]]
        weights = shortest(vectors, contrast)
        shares = np.abs(weights) * (self.budget / np.abs(weights).sum())
        ratio = self._division.noise_ratio
        pulled, pulls, release = _one_number(weights, shares, first, self.budget, ratio)
        # An arm on the line through the two has a mean that is interpolated between theirs.
        place = (vectors - vectors[pair].mean(axis=0)) @ contrast / (contrast @ contrast)
        place = np.clip(place, _MARGIN - 1 / 2, 1 / 2 - _MARGIN)
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
        """Return the posterior of `arms` after the first release, with delta for `own` only.

        No release depends on the delta of an arm that is never pulled.
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
        """Return f_i for all arms, the share of delta_i's variance left by the first phase."""
        pulled, _, matrix = first
        _, precision = self._prior(pulled).observation(first)
        left = np.ones(len(self.features))
        left[list(pulled)] = 1 / (
            1 + self._tau**2 * precision * np.linalg.norm(matrix, axis=1) ** 2
        )
        return left

    @cached_property
    def _tau(self) -> float:
        """The misfit that is used: 0 if features do not restrict the means."""
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
    def _only_two(self) -> IntArray | None:
        """The only two distinct vectors that can be the best, if the plan is for them."""
        vectors = self._division.vectors
        if self.phases or self._tau or math.isinf(self.epsilon):
            return None  # without noise, all arms can tie if rewards are 0 or 1
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


def _one_number(
    weights: FloatArray, shares: FloatArray, arms: IntArray, total: int, noise_ratio: float
) -> Plan:
    """Return a plan that releases the weighted sum of the means of the arms that get pulls.

    It is scaled so that one reward changes it by at most 1. Arms with equal shares get equal pulls,
    for which more error probabilities can be computed exactly, unless one more pull of some of them
    decreases the variance of the release enough.
    """

    def variance(pulls: IntArray) -> float:
        """Return the variance of the weighted sum, in units of a reward's largest variance."""
        some = np.abs(weights[pulls > 0])
        means = some / pulls[pulls > 0]
        return float(some @ means + noise_ratio * means.max() ** 2)

    pulls, *others = whole_pulls(shares, total)
    for unequal in others:
        if variance(unequal) < variance(pulls) * (1 - _GAIN):
            pulls = unequal
    chosen = np.flatnonzero(pulls)[np.argsort(arms[pulls > 0])]
    counts, pulled = pulls[chosen].tolist(), arms[chosen].tolist()
    release = weights[chosen] / np.abs(weights[chosen] / counts).max()
    return tuple(pulled), tuple(counts), release[None]


def usual_misfit(arms: int, budget: int, epsilon: float) -> float:
    """Return the default misfit of `DPDesign`; see its Notes."""
    own = float(information(budget / arms, noise_ratio(epsilon, budget)))
    return round(min(max(MISFIT, _MISFIT_FACTOR * math.sqrt(own)), _LARGEST_MISFIT), 2)


def _even(arms: int, pulls: int) -> PrivateDesign:
    """Return equal pulls of all arms; the first arms get one more if some are left over."""
    each = np.full(arms, pulls // arms)
    each[: pulls % arms] += 1
    return PrivateDesign(each, math.nan, math.nan)


def _information(rows: FloatArray, precision: FloatArray) -> FloatArray:
    order, _ = sorted_rows(rows)  # the sum is the same to the last digit in any order of the arms
    rows, precision = rows[order], precision[order]
    return np.asarray((rows.T * precision) @ rows)


def _inverse(information: FloatArray) -> FloatArray:
    """Return the pseudoinverse: of two arms, only the contrast may have information."""
    return np.asarray(np.linalg.pinv(information, hermitian=True))
