"""The choice of the number of phases, their sizes and their pulls, for a private design.

Privacy makes adaptivity expensive: if noise dominates, two half batches of one arm carry half the
information of one batch. Simulation shows what a further phase gains. A `Rehearsal` simulates all
candidates with the same synthetic parameters and noise, using normal distributions in place of the
true ones, and chooses the candidate that finds the best arm most often. It uses no rewards, and its
random numbers are the same at every call: the choice depends only on features, budget and epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbai._check import FloatArray, IntArray
from dpbai._ties import ascending
from dpbai.beyond.contrast import combinations
from dpbai.beyond.private import distinct, information
from dpbai.g_optimal import whitening
from dpbai.ranking import ROUNDING
from dpbai.scaling import pivots

_ARMS, _ENTRIES = 256, 2**17  # the most arms, and the most means in all runs
_FEW_RUNS, _MOST_RUNS = 1024, 4096  # for a first selection, and in all
# By the number of phases: sizes after the first phase, and shares of the budget for the first.
_FIRST_SHARES = (2 / 5, 3 / 5, 4 / 5)
_TRIED = {2: ((2, 3, 4, 8), _FIRST_SHARES), 3: ((4, 6), _FIRST_SHARES)}
_TRIED_WITH_MISFIT = {
    2: ((2, 4, 8), _FIRST_SHARES),
    3: ((4, 6, 16), (2 / 5, 3 / 5)),
    4: ((8, 16, 32), (2 / 5,)),
}
_OTHERS = ((12,), (1 / 2,))
_SPREAD = 0.1  # standard deviation of linear means over the arms, if there is a misfit
_LEVEL = 0.75  # success rate of a single phase at which timetables are compared
_GAIN = 0.25  # of success by a further phase, at least, over the square root of the runs
_BISECTIONS = 20  # to scale the means so that a single phase has that success rate
_STEPS = 20  # of the optimization of which arms to pull for two survivors


@dataclass(frozen=True)
class Timetable:
    """Sizes of the active sets, K first and 1 last, and the pulls of each phase.

    With `anywhere`, the last of two phases may pull any arms to compare two survivors.
    """

    sizes: tuple[int, ...]
    pulls: tuple[int, ...]
    anywhere: bool = field(default=False, repr=False)


def timetables(
    arms: int,
    budget: int,
    least: int,
    phases: int | None,
    *,
    misfit: bool = False,
    anywhere: float = 0.0,
) -> Iterator[Timetable]:
    """Yield the candidates, those with fewer phases first.

    If `phases` is None, they have one to three phases, or up to four with a misfit. The first phase
    needs at least `least` pulls, and the others need one each. `anywhere` is the first phase's
    share of the budget in the candidate that may pull any arms, which comes last; 0 leaves it out.
    """
    candidates = _TRIED_WITH_MISFIT if misfit else _TRIED
    for number in (1, *candidates) if phases is None else (phases,):
        if number == 1:
            yield Timetable((arms, 1), (budget,))
        elif number <= min(arms - 1, budget - least + 1):
            tried, shares = candidates.get(number, _OTHERS)
            for size in sorted({min(max(size, number), arms - 1) for size in tried}):
                sizes = [1]
                for p in range(1, number):
                    sizes.insert(0, max(round(size ** (p / (number - 1))), sizes[0] + 1))
                for share in shares:
                    yield Timetable((arms, *sizes), _pulls(number, share, budget, least))
    if anywhere and phases in (None, 2) and arms > 2 and budget > least:
        yield Timetable((arms, 2, 1), _pulls(2, anywhere, budget, least), anywhere=True)


def _pulls(phases: int, first_share: float, budget: int, least: int) -> tuple[int, ...]:
    first = min(max(round(first_share * budget), least), budget - phases + 1)
    rest = np.diff(np.linspace(first, budget, phases).round().astype(int))
    return first, *rest.tolist()


class Rehearsal:
    """Comparison of timetables in simulations with synthetic means.

    The synthetic parameters are normal, and their covariance is proportional to that of the
    estimates of a single phase, so that means vary most where estimates are least precise. The
    factor is such that a single phase finds the best arm in three of four runs. With more than 256
    arms, only those farthest from the centroid are used. Later phases pull survivors equally often.

    With a misfit, the synthetic means are linear means with a standard deviation of 0.1 over the
    arms, plus independent normal delta_i, and the estimates are those of `DPDesign`.

    Parameters are the vectors, shape (K, r), a design for a single phase, shape (K,), the
    `noise_ratio`, the candidates, those with fewer phases first, and the misfit.
    """

    def __init__(
        self,
        vectors: FloatArray,
        pulls: IntArray,
        noise_ratio: float,
        candidates: Sequence[Timetable],
        misfit: float = 0.0,
    ) -> None:
        rng = np.random.default_rng(0)
        self.candidates = candidates
        self.largest = max(timetable.sizes[1] for timetable in candidates)
        self.noise_ratio, self.budget = noise_ratio, int(pulls.sum())
        self.places = np.flatnonzero(pulls)
        self.pulls = pulls[pulls > 0].astype(np.float64)
        white = vectors @ whitening(vectors[pulls > 0], information(self.pulls, noise_ratio))
        # Coordinates along some of the arms, so that the result does not depend on the basis.
        white = white @ pivots(white, white.shape[1])[1].T
        self.pulled = white[pulls > 0]
        self.considered = np.arange(len(white))
        if len(white) > _ARMS:
            distance = ((white - white.mean(axis=0)) ** 2).sum(axis=1)
            self.considered = ascending(-distance)[:_ARMS]
            white = white[self.considered]
        self.arms = white
        self.runs = runs = min(_MOST_RUNS, _ENTRIES // len(white))
        most = max(len(timetable.pulls) for timetable in candidates)
        truth, self.noise = rng.standard_normal((2, runs, white.shape[1]))
        self.later = rng.standard_normal((most, runs, self.largest)).transpose(0, 2, 1)
        self.means = truth @ white.T
        self.misfit = misfit
        if misfit:
            spread, size = self.means.std(axis=1).mean(), np.abs(self.means).max()
            scale = _SPREAD / spread if spread > ROUNDING * size else 0.0
            self.means *= scale
            delta = misfit * rng.standard_normal((runs, len(vectors)))
            self.observed = scale * truth @ self.pulled.T + delta[:, pulls > 0]
            self.errors = rng.standard_normal(self.observed.shape)
            self.means += delta[:, self.considered]
        best = self.means.max(axis=1, keepdims=True)
        self.right = self.means >= best - ROUNDING * np.abs(best)  # includes copies of the best
        self.first: dict[int, tuple[NDArray[Any], ...]] = {}
        if misfit:
            return
        low, high = 2.0**-10, 2.0**10
        errors = self.noise @ white.T
        for _ in range(_BISECTIONS):
            factor = np.sqrt(low * high)
            found = (factor * self.means + errors).argmax(axis=1)
            often = self._share_right(found) > _LEVEL
            low, high = (low, factor) if often else (factor, high)
        self.means *= np.sqrt(low * high)

    def choice(self) -> Timetable:
        """Return the most successful candidate; more phases must increase success by a margin.

        For each number of phases, the two candidates that are best in some of the runs are compared
        in all runs. The candidate that may pull any arms is compared last, without a margin.
        """
        few = sorted(self.candidates, key=lambda each: -self.success(each, _FEW_RUNS))
        kinds = sorted({(each.anywhere, len(each.pulls)) for each in few})
        best, success = self.candidates[0], -1.0
        for anywhere, phases in kinds:
            same = [t for t in few if (t.anywhere, len(t.pulls)) == (anywhere, phases)]
            for candidate in same[:2]:
                found = self.success(candidate)
                more = 0 if anywhere else phases - len(best.pulls)
                if found > success + more * _GAIN / self.runs**0.5:
                    best, success = candidate, found
        return best

    def success(self, timetable: Timetable, runs: int | None = None) -> float:
        """Return the rate at which a timetable finds the best arm, in the first `runs` or all."""
        first, *others = timetable.pulls
        if timetable.anywhere:
            return self._success_anywhere(timetable, runs)
        if first not in self.first:
            estimates, factor, own = self._estimates(first)
            covariance = factor @ factor.T
            if self.misfit:
                covariance += np.diag(own)
            order = _largest(estimates, self.largest)
            best = (np.take_along_axis(each, order, axis=1).T for each in (estimates, self.means))
            self.first[first] = covariance, order.T, *best
        covariances, *ranked = self.first[first]
        active, estimates, means = (each[: timetable.sizes[1], :runs] for each in ranked)
        covariance = covariances[active[:, None], active]
        for pulls, keep, normal in zip(others, timetable.sizes[2:], self.later, strict=False):
            size = len(active)
            each, observed = pulls / size, size if size > 2 else 1
            variance = size / observed / (4 * each) + self.noise_ratio / (4 * each**2)
            if observed == 1:  # two arms release their difference
                covariance = covariance - covariance[1]
                covariance = covariance - covariance[:, 1:]
                estimates, means = estimates - estimates[1], means - means[1]
            errors = means + np.sqrt(variance) * normal[:size, :runs]
            for row in range(observed):
                shared = covariance[row]
                gain = shared / (shared[row] + variance)
                estimates = estimates + gain * (errors[row] - estimates[row])
                needed = slice(0 if keep > 1 else row + 1, None)
                covariance[needed] -= gain[needed, None] * shared
            kept = _largest(estimates.T, keep).T
            active, estimates, means = (
                np.take_along_axis(values, kept, axis=0) for values in (active, estimates, means)
            )
            covariance = np.take_along_axis(covariance, kept[:, None], axis=0)
            covariance = np.take_along_axis(covariance, kept[None], axis=1)
        return self._share_right(active[0])

    def _success_anywhere(self, timetable: Timetable, runs: int | None) -> float:
        """Return the success rate if the second phase compares two survivors by any arms."""
        first, later = timetable.pulls
        estimates, factor, own = self._estimates(first)
        estimates, means = estimates[:runs], self.means[:runs]
        pairs = np.sort(_largest(estimates, 2), axis=1)
        some, which = distinct(pairs)
        variance = 1 / float(information(later, self.noise_ratio))
        weights = combinations(factor, own, pairs[some], variance, _STEPS)[which]
        noise = np.abs(weights).sum(axis=1) * np.sqrt(variance) * self.later[0, 0, : len(pairs)]
        lead = (weights * (means - estimates)).sum(axis=1) + noise
        one, other = np.take_along_axis(estimates, pairs, axis=1).T
        found = np.where(one - other + lead > 0, pairs[:, 0], pairs[:, 1])
        return self._share_right(found)

    def _estimates(self, first: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the estimates of a first phase with `first` pulls in each run, and L and t.

        The covariance of their errors is L L' + diag(t).
        """
        share = information(self.pulls * (first / self.budget), self.noise_ratio)
        if not self.misfit:
            arms = self.arms @ whitening(self.pulled, share)
            return self.means + self.noise @ arms.T, arms, np.zeros(len(arms))
        factors = 1 / (1 + self.misfit**2 * share)
        whiten = whitening(self.pulled, share * factors)
        observed = self.observed + self.errors / np.sqrt(share)
        linear = (observed * (share * factors)) @ (self.pulled @ whiten)
        same = np.equal.outer(self.considered, self.places)
        left = 1 + same @ (factors - 1)
        arms = (self.arms @ whiten) * left[:, None]
        estimates = linear @ arms.T + (observed * (1 - factors)) @ same.T
        return estimates, arms, self.misfit**2 * left

    def _share_right(self, found: IntArray) -> float:
        """Return the share of right answers in the first `len(found)` runs."""
        return float(self.right[np.arange(len(found)), found].mean())


def _largest(values: FloatArray, count: int) -> IntArray:
    """Return the positions of the largest values of each row, the largest first."""
    if count == 1:
        return np.asarray(values.argmax(axis=1)[:, None])
    some = np.argpartition(-values, count - 1, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(values, some, axis=1), axis=1)
    return np.asarray(np.take_along_axis(some, order, axis=1))
