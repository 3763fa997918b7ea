r"""Which arms to pull, and how often, when each arm's sum is released with Laplace noise.

This design is the book's own, not the paper's. For an arm that is pulled n times, the sum of the
rewards is released with noise Lap(1/epsilon). The estimate of its mean has a variance of at most
1/(4n) + 2/(n epsilon)^2, and so carries the information

    w(n) = n^2 / (n/4 + 2/epsilon^2) = 4 n^2 / (n + c),    c = 8 / epsilon^2.

For large n this is about 4 (n - c), so that c, the `noise_ratio`, acts as a fixed cost, in pulls,
of each arm that is pulled. The design divides N pulls so that the largest variance of a contrast of
two arms is small, that is max (a_i - a_k)' V^-1 (a_i - a_k) with V = sum w(n_j) a_j a_j'. Without
noise this is an XY-optimal design (Soare, Lazaric and Munos, 2014), a convex problem. With much
noise few arms are pulled: a basis, as in a Max-Det collection.

A `Minimax` problem minimizes that largest variance over pulls, for a given set of arms to pull and
a given set of arms to compare. A `Division` chooses these sets and the starting points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbai import _check
from dpbai._check import FloatArray, IntArray
from dpbai._threads import one_thread
from dpbai._ties import TIE, ascending, first_smallest
from dpbai.g_optimal import whitening
from dpbai.noise import Laplace, Noise, NoNoise
from dpbai.phase import Phase
from dpbai.ranking import sorted_rows
from dpbai.scaling import Span

# Sizes of problems.
_MANY = 64  # with more arms than this, the search begins with some of them and stops earlier
_FEW, _FEW_WITH_PRIOR = 8, 5  # up to this many arms, all supports are tried
_ENTRIES = 2**14  # variances of contrasts that are held in memory at once
_SINGLY = 16  # up to this many pulls per pulled arm, single pulls are exchanged
_DIVISIONS = 1025  # of the pulls between two arms that are compared, at most
_LARGEST_RATIO = 1e12  # noise ratio over all pulls; designs are the same beyond

# Multiplicative updates: how many, and when they stop.
_STAGES = (1 / 16, 1 / 4, 1.0)  # shares of the noise ratio, raised from one solution to the next
_STEPS, _STEPS_OF_STAGE = 20, 8  # the most updates in the last stage, and in earlier ones
_PATIENCE, _QUICK_PATIENCE = 10, 3  # updates without progress after which they stop
_PROGRESS = 1e-3  # relative decrease of the largest variance that counts as progress
_NEAR = (1.5, 1.2, 1.1)  # starts are given up if this many times worse than the best so far

# The problem without noise, which arms enter in rounds.
_ROUNDS, _QUICK_ROUNDS = 15, 5  # the most rounds
_ENTERING = 24  # the most arms that enter in one round
_GAP = 0.02  # relative optimality gap at which the problem counts as solved

# The local search by exchanges of arms, then of single pulls.
_SMALL_SHARE = 1e-3  # arms with a smaller share of the pulls are dropped first
_NEIGHBOURS = 8  # neighbours of a division from which updates are started
_EXCHANGES, _QUICK_EXCHANGES = 12, 3  # the most exchanges of arms
_MOVES = 20  # the most exchanges of single pulls

# Numerical safeguards.
_LEAST = 1e-100  # keeps denominators positive
_RIDGE = 1e-13  # relative addition to V's diagonal
_SINGULAR = 1e9  # supports this many times worse than the best do not determine all contrasts
_PARALLEL = 1e-12  # 1 - cos^2 of two vectors that count as parallel


@dataclass(frozen=True, eq=False)
class PrivateDesign:
    """How to divide pulls among K arms whose sums are released with noise.

    Attributes
    ----------
    pulls : ndarray of int, shape (K,)
        How often to pull each arm.
    variance : float
        The largest variance of a contrast of two arms under these pulls. With more than 64 arms,
        only the 256 that lie farthest out are compared.
    bound : float
        A lower bound on the largest variance under any division of the pulls, in whole numbers or
        fractions. It is sharp without noise and becomes looser with more noise, since it includes
        the fixed cost of only one arm.
    """

    pulls: IntArray
    variance: float
    bound: float


def noise_ratio(epsilon: float, pulls: int) -> float:
    """Return 8 / epsilon^2, the variance of the noise over the largest variance of a reward.

    The result is at most 10^12 times the number of `pulls`.
    """
    return float(min(np.sqrt(8) / epsilon, np.sqrt(_LARGEST_RATIO * pulls)) ** 2)


def private_design(vectors: ArrayLike, *, pulls: int, epsilon: float) -> PrivateDesign:
    """Divide pulls among arms so that the largest variance of a contrast is small.

    Parameters
    ----------
    vectors : array_like of shape (K, d)
        Feature vectors of K >= 1 arms, of any rank r.
    pulls : int
        N, the number of pulls to divide; at least r.
    epsilon : float
        Privacy parameter, positive; infinity means no noise.

    Returns
    -------
    PrivateDesign
        All pulls are spent, except a few that would not decrease the largest variance. If arms
        have equal feature vectors, only the first of them is pulled.

    Notes
    -----
    Of parallel arms, only the longest is pulled. An arm and its negative are parallel.

    The minimax problem is solved by multiplicative weights. The weight of a contrast is multiplied
    by its variance, and the pulls of an arm by the rate at which the weighted variance decreases
    with them, to the power 0.4. Without noise this converges to the optimum, and the weights
    give a lower bound, since the inverse of the weighted variance is a concave function of the
    pulls. With noise, w(n) lies below its chord from 0 to N, and replacing w by the chord leaves a
    problem without noise.

    With noise there are many local optima. With at most 8 arms, all supports are tried. With more
    arms, the search starts from the solution for the chord, raising the noise in stages, and from a
    swap-optimal basis. It drops arms while the largest variance decreases, and then drops,
    exchanges or adds one arm at a time. The result is rounded by largest remainders, and single
    pulls are exchanged.

    The result was compared with the best of all supports and divisions of 12 to 20 pulls in 538
    small cases (0/1 and +-1 cubes, simplices, factorials, tables with dummy columns, copies, normal
    vectors). The largest variance was 0.2 % larger on average, and 10 % larger at worst.
    """
    array = _check.matrix(vectors, "vectors", least_rows=1)
    first, _ = distinct(array)
    basis, coordinates = Span(array[first]).canonical
    pulls = _check.whole(pulls, "pulls", least=max(1, len(basis)))
    ratio = noise_ratio(_check.epsilon(epsilon), pulls)
    design = Division(coordinates, basis, ratio).best(pulls)
    whole = np.zeros(len(array), dtype=np.int64)
    whole[first] = design.pulls
    return replace(design, pulls=whole)


def laplace(epsilon: float, pulls: int = 1) -> Noise:
    """Return Lap(1/(epsilon n)), the noise on a mean of n `pulls` (n = 1: on a sum), or none."""
    return NoNoise() if math.isinf(epsilon) else Laplace(1 / epsilon / pulls)


def every_sum(index: int, sizes: Sequence[int], pulls: int, epsilon: float) -> Phase:
    """Return a plan of phase `index` that releases the sum of `pulls` rewards of each arm.

    `sizes` lists the numbers of active arms in phases 1, 2, ..., then 1.
    """
    size, keep = sizes[index - 1 : index + 1]
    arms, sums = tuple(range(size)), np.diag(np.full(size, float(pulls)))
    each, noise = (pulls,) * size, laplace(epsilon)
    return Phase(index, arms, arms, each, noise, keep, sums, np.eye(size))


def distinct(vectors: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Return `first`, the index of the first of each set of equal rows, and `places`.

    The sets are in the order of `sorted_rows`, and row i equals row `first[places[i]]`.
    """
    order, begins = sorted_rows(vectors)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum(begins) - 1
    return order[begins], places


def information(pulls: ArrayLike, noise_ratio: float) -> FloatArray:
    """Return w(n), the information that the released sum of n pulls of an arm carries."""
    n = np.asarray(pulls, dtype=np.float64)
    return 4 * n**2 / np.maximum(n + noise_ratio, _LEAST)


class Iterate(NamedTuple):
    """Iterates of multiplicative weights from B starts, which are updated together.

    Pulls of m arms, shape (B, m), where zeros stay zeros; weights on the contrasts of n arms, shape
    (B, n, n); and the largest variance of a contrast, shape (B,).
    """

    pulls: FloatArray
    weights: FloatArray
    values: FloatArray

    @classmethod
    def start(cls, pulls: FloatArray, weights: FloatArray) -> Iterate:
        """Return starts at these pulls, of shape (B, m), all with the same weights."""
        return cls(pulls, np.repeat(weights, len(pulls), axis=0), np.full(len(pulls), np.inf))

    def take(self, starts: IntArray | list[int]) -> Iterate:
        """Return the iterates from some of the starts."""
        return Iterate(*(each[starts] for each in self))


@dataclass(frozen=True, eq=False)
class Minimax:
    """Minimize the largest variance of a contrast of `compared` arms by pulls of `pulled` arms.

    Both are arrays of feature vectors. `prior` is the information on theta before any pull, `total`
    the number of pulls, and `noise_share` the share of the noise ratio that is applied.
    """

    pulled: FloatArray
    compared: FloatArray
    prior: FloatArray
    total: int
    noise_ratio: float
    patience: int
    noise_share: float = 1.0

    @property
    def scale(self) -> float:
        """A factor that makes the information of all pulls on one arm the same in all stages."""
        ratio = self.noise_share * self.noise_ratio
        return 4 * (self.total + ratio) / (self.total + self.noise_ratio)

    def information(self, pulls: FloatArray | IntArray) -> FloatArray:
        """Return the information that the pulls of each arm carry at this share of the noise."""
        return information(pulls, self.noise_share * self.noise_ratio) * (self.scale / 4)

    def moments(self, pulls: FloatArray | IntArray) -> FloatArray:
        """Return V for each of B divisions, shape (B, r, r)."""
        each = self.information(pulls)
        moments = self.prior + (self.pulled.T * each[:, None, :]) @ self.pulled
        # Variances of contrasts that the pulls do not determine become very large, not infinite.
        ridge = _RIDGE * moments.diagonal(axis1=1, axis2=2).max(axis=1)
        return np.asarray(moments + ridge[:, None, None] * np.eye(moments.shape[1]))

    def contrasts(self, pulls: FloatArray | IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the variances of the contrasts, the whitening matrix, and the whitened arms."""
        whiten = np.linalg.inv(np.linalg.cholesky(self.moments(pulls))).transpose(0, 2, 1)
        white = self.compared @ whiten
        gram = white @ white.transpose(0, 2, 1)
        square = gram.diagonal(axis1=1, axis2=2)
        variances = square[:, :, None] + square[:, None, :] - 2 * gram
        return np.maximum(variances, 0.0), whiten, white

    def solve(self, start: Iterate, steps: int) -> Iterate:
        """Update pulls and weights in turn, at most `steps` times; return the best iterates."""
        pulls, weights, values = start
        best, stalled = start._replace(values=np.full_like(values, np.inf)), np.zeros(len(values))
        ratio = self.noise_share * self.noise_ratio
        for _ in range(steps):
            variances, whiten, white = self.contrasts(pulls)
            values = variances.max(axis=(1, 2))
            stalled = np.where(values < best.values * (1 - _PROGRESS), 0, stalled + 1)
            # Without noise, the last iterate is returned: later calls continue from it.
            better = (values < best.values * (1 - TIE)) | (self.noise_share == 0)
            pairs = zip((pulls, weights, values), best, strict=True)
            best = Iterate(
                *(np.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs)
            )
            if ((stalled >= self.patience) & (self.noise_share > 0) | (values == 0)).all():
                break
            weights = weights * (variances / np.maximum(values, _LEAST)[:, None, None])
            weights *= 2 / np.maximum(weights.sum(axis=(1, 2)), _LEAST)[:, None, None]
            slope = pulls * (pulls + 2 * ratio) / np.maximum(pulls + ratio, _LEAST) ** 2
            updated = pulls * (_gains(weights, white, self.pulled @ whiten) * slope) ** 0.4
            sums = updated.sum(axis=1, keepdims=True)
            # The sum is 0 if all arms are alike, so that no pull decreases any variance.
            pulls = np.where(sums > 0, updated * (self.total / np.maximum(sums, _LEAST)), pulls)
        return best

    def solve_from(self, pulls: FloatArray, weights: FloatArray) -> Iterate:
        """Solve from B divisions, giving up those that fall behind the best."""
        found = Iterate.start(pulls, weights)
        most = self.batch
        for within in _NEAR:
            found = self.solve(found, _STEPS_OF_STAGE)
            near = ascending(found.values)[:most]
            found = found.take(near[found.values[near] <= found.values.min() * within])
            most = max(1, most // 2)
        return self.solve(found, _STEPS)

    @property
    def batch(self) -> int:
        """The largest number of starts that are continued after the first updates."""
        return max(2, _ENTRIES // len(self.compared) ** 2)

    def all_supports(self, least: int) -> Iterate:
        """Solve on all sets of at least `least` arms, starting from equal pulls of each."""
        arms = np.arange(len(self.pulled))
        some = np.arange(2 ** len(arms))[:, None] >> arms & 1
        some = some[some.sum(axis=1) >= least]
        pulls = some * (self.total / some.sum(axis=1, keepdims=True))
        weights = _equal_weights(len(self.compared))
        values = self._mean_variance(pulls, weights)
        return self.solve_from(pulls[values <= _SINGULAR * values.min()], weights)

    def eliminate(self, best: Iterate) -> Iterate:
        """Drop arms with hardly any pulls, then one at a time while the variance decreases."""
        few = best.pulls <= _SMALL_SHARE * self.total
        near = np.where(few, 0.0, best.pulls)
        near *= self.total / near.sum()
        while len(near):
            least = first_smallest(self._mean_variance(near, best.weights))
            fewer = self.solve(Iterate.start(near[[least]], best.weights), 2 * _STEPS_OF_STAGE)
            if fewer.values[0] > best.values[0] * (1 + TIE):
                break
            best, near = fewer, self._without_one(fewer.pulls[0])
        return best

    def exchange(self, best: Iterate) -> Iterate:
        """Drop, exchange or add an arm while this decreases the largest variance.

        Returns the best iterate, followed by those of the last round.
        """
        solved = best
        for _ in range(_EXCHANGES if self.batch >= _NEIGHBOURS else _QUICK_EXCHANGES):
            weights = (best.weights + _equal_weights(len(self.compared))) / 2
            near, values = self._neighbours(best.pulls[0], weights)
            tried = ascending(values)[: min(_NEIGHBOURS, self.batch)]
            tried = tried[values[tried] <= 2 * self._mean_variance(best.pulls, weights)]
            if not tried.size:
                break
            solved = self.solve_from(near[tried], weights)
            found = first_smallest(solved.values)
            if not solved.values[found] < best.values[0] * (1 - _PROGRESS):
                break
            best = solved.take([found])
        return Iterate(*map(np.concatenate, zip(best, solved, strict=True)))

    def rounded(self, found: Iterate) -> IntArray:
        """Return the best whole pulls that rounding and exchanges of pulls make of iterates."""
        near = ascending(found.values)[: 2 * _NEIGHBOURS]
        near = near[found.values[near] <= found.values[near[0]] * _NEAR[-1]]
        whole = [each for pulls in found.pulls[near] for each in whole_pulls(pulls, self.total)]
        improved = [self._exchange_pulls(each) for each in whole]
        return improved[first_smallest([value for _, value in improved])][0]

    def _exchange_pulls(self, whole: IntArray) -> tuple[IntArray, float]:
        """Move single pulls between arms while this decreases the largest variance."""
        value = float(self.contrasts(whole[None])[0].max())
        each = np.eye(len(whole), dtype=np.int64)
        for _ in range(_MOVES):
            arms = np.flatnonzero(whole)
            moves = len(arms) * len(whole)
            if self.total > _SINGLY * len(arms) or moves > _SINGLY * self.batch:
                break
            near = whole + (each[:, None] - each[arms]).reshape(-1, len(whole))
            values = self.contrasts(near)[0].max(axis=(1, 2))
            least = first_smallest(values)
            if not values[least] < value * (1 - TIE):
                break
            whole, value = near[least], float(values[least])
        return whole, value

    def _mean_variance(self, pulls: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the weighted mean of the variances under each of B divisions."""
        inverse = np.linalg.inv(self.moments(pulls))
        return np.asarray((inverse * _weighted_contrasts(weights, self.compared)).sum(axis=(1, 2)))

    def _without_one(self, pulls: FloatArray) -> FloatArray:
        """Return divisions with one arm less, the pulls of the others scaled up to the total."""
        some = np.flatnonzero(pulls)
        if some.size == 1:
            return np.empty((0, len(pulls)))
        near = np.where(np.arange(len(pulls)) == some[:, None], 0.0, pulls)
        return np.asarray(near * (self.total / near.sum(axis=1, keepdims=True)))

    def _neighbours(self, pulls: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return divisions with an arm dropped, added or exchanged, and their mean variances."""
        some, others = np.flatnonzero(pulls), np.flatnonzero(pulls == 0)
        each, size = np.eye(len(pulls)), len(some)
        more = (pulls * size + self.total * each[others]) / (size + 1)
        near = np.vstack([self._without_one(pulls), more])
        values = self._mean_variance(near, weights)
        # An exchange changes V to V + U D U' with U = (a_in, a_out) and D = diag(w, -w). By
        # Woodbury's identity tr(V^-1 M) falls by tr((D^-1 + U' V^-1 U)^-1 U' V^-1 M V^-1 U).
        inverse = np.linalg.inv(self.moments(pulls[None]))[0]
        weighted = _weighted_contrasts(weights, self.compared)[0]
        half = self.pulled @ inverse
        shared, gained = half @ self.pulled.T, half @ weighted @ half.T
        price = 1 / np.maximum(self.information(pulls[some]), _LEAST)
        into = price[:, None] + shared.diagonal()[others]
        out = (shared.diagonal()[some] - price)[:, None]
        both = np.ix_(some, others)
        determinant = np.minimum(into * out - shared[both] ** 2, -_LEAST)
        falls = gained.diagonal()[others] * out + gained.diagonal()[some][:, None] * into
        falls = (falls - 2 * gained[both] * shared[both]) / determinant
        moved = pulls[some][:, None]
        exchanges = pulls - (moved * each[some])[:, None] + moved[:, None] * each[others]
        near = np.vstack([near, exchanges.reshape(-1, len(pulls))])
        return near, np.append(values, ((inverse * weighted).sum() - falls).ravel())


class Division:
    """A search for the best division of pulls among arms; see `private_design`.

    The `vectors` are distinct, in coordinates of order one. One pull of each arm of the `basis`
    determines all contrasts; with a `prior`, positive definite information on theta before any
    pull, the basis is not used.
    """

    def __init__(
        self,
        vectors: FloatArray,
        basis: ArrayLike,
        noise_ratio: float,
        prior: FloatArray | None = None,
    ) -> None:
        self.vectors, self.noise_ratio = vectors, noise_ratio
        self.basis = np.asarray(basis, dtype=np.int64)
        self.has_prior = prior is not None
        self.prior = np.zeros((vectors.shape[1],) * 2) if prior is None else prior
        self.quick = self.has_prior or len(vectors) > _MANY

    @one_thread
    def best(self, pulls: int) -> PrivateDesign:
        """Return the best division found of `pulls`, at least as many as the basis has arms."""
        if not self.vectors.any():
            return PrivateDesign(np.zeros(len(self.vectors), dtype=np.int64), 0.0, 0.0)
        if self.has_prior and len(self.vectors) == 2:
            return self._of_two(pulls)
        arms, compared, start, bound = self._initial if self.has_prior else self._chord_solution
        problem = self._problem(arms, compared, pulls)
        found = start._replace(pulls=start.pulls * pulls)
        if len(arms) <= (_FEW_WITH_PRIOR if self.has_prior else _FEW):
            found = problem.all_supports(max(1, len(self.basis)))
        else:
            for share in (0.0, *_STAGES) if self.has_prior else _STAGES:
                steps = {0.0: _STEPS, 1.0: 2 * _STEPS}.get(share, _STEPS_OF_STAGE)
                found = replace(problem, noise_share=share).solve(found, steps)
            found = problem.eliminate(found)
            if not self.has_prior:
                found = self._exchanged(problem, found, np.isin(arms, self.basis))
        whole = np.zeros(len(self.vectors), dtype=np.int64)
        whole[arms] = problem.rounded(found)
        bound /= float(information(pulls, self.noise_ratio))
        return PrivateDesign(whole, self._largest(compared, whole), bound)

    def _exchanged(self, problem: Minimax, found: Iterate, basis: NDArray[np.bool_]) -> Iterate:
        """Exchange arms from two starts, `found` and the basis; with many arms from the better."""
        equal = basis[None] * (problem.total / np.count_nonzero(basis))
        start = Iterate.start(equal, _equal_weights(len(problem.compared)))
        starts = [found, problem.eliminate(problem.solve(start, 2 * _STEPS))]
        if len(problem.compared) > _MANY / 2:
            starts = [starts[first_smallest([each.values[0] for each in starts])]]
        ends = [problem.exchange(each) for each in starts]
        return Iterate(*map(np.concatenate, zip(*ends, strict=True)))

    def _problem(
        self, arms: IntArray, compared: IntArray, pulls: int, noise_share: float = 1.0
    ) -> Minimax:
        patience = _QUICK_PATIENCE if self.quick else _PATIENCE
        vectors = self.vectors[arms], self.vectors[compared]
        return Minimax(*vectors, self.prior, pulls, self.noise_ratio, patience, noise_share)

    def _of_two(self, pulls: int) -> PrivateDesign:
        """Compare all divisions between two arms, or about a thousand of them.

        If the estimates so far have covariance C = (p, q; q, r), it becomes (C^-1 + diag(w))^-1.
        """
        first = np.unique(np.linspace(0, pulls, _DIVISIONS).round())
        one, other = (information(n, self.noise_ratio) for n in (first, pulls - first))
        # p + r - 2 q and p r - q^2 are computed from the contrast: as differences they would lose
        # all digits where the two arms are nearly equal.
        whiten = whitening(self.vectors, np.zeros(2), self.prior)
        arm, contrast = self.vectors[0] @ whiten, (self.vectors[1] - self.vectors[0]) @ whiten
        p, shared, gap = arm @ arm, arm @ contrast, contrast @ contrast
        r, determinant = p + 2 * shared + gap, max(p * gap - shared**2, 0.0)
        variances = (gap + determinant * (one + other)) / (
            1 + p * one + r * other + determinant * one * other
        )
        best = first_smallest(variances)
        whole = np.array([first[best], pulls - first[best]], dtype=np.int64)
        return PrivateDesign(whole, float(variances[best]), 0.0)

    @cached_property
    def _initial(self) -> tuple[IntArray, IntArray, Iterate, float]:
        """The first arms to pull and to compare, equal shares of the pulls, and the bound 0."""
        if not self.has_prior and len(self.vectors) > _MANY:  # the basis, and the ends of all axes
            ends = self.vectors.argmax(axis=0), self.vectors.argmin(axis=0)
            arms = compared = np.unique(np.concatenate([self.basis, *ends]))
        else:
            arms, compared = _longest(self.vectors), np.arange(len(self.vectors))
        shares = np.full((1, len(arms)), 1 / len(arms))
        return arms, compared, Iterate.start(shares, _equal_weights(len(compared))), 0.0

    @cached_property
    def _chord_solution(self) -> tuple[IntArray, IntArray, Iterate, float]:
        """The solution with w replaced by its chord; many arms enter the problem in rounds.

        Without prior information it does not depend on the number of pulls: the arms to pull, the
        arms to compare, the iterate in shares of the pulls, and the bound times w(N).
        """
        arms, compared, found, bound = self._initial
        for _ in range(_QUICK_ROUNDS if self.quick else _ROUNDS):
            problem = self._problem(arms, compared, 1, noise_share=0.0)
            found = problem.solve(found, _STEPS)
            pulls, weights, values = found
            variances, whiten, white = problem.contrasts(pulls)
            every = self.vectors @ whiten[0]
            gains = _gains(weights, white, every[None])[0] * problem.scale
            mean = float((weights * variances).sum() / 2)
            slack = gains.max() - pulls[0] @ gains[arms]
            bound = max(bound, mean**2 / (mean + slack) if mean > 0 else 0.0)
            if values[0] <= bound * (1 + _GAP):
                break
            if len(compared) == len(self.vectors):
                continue
            far = ((every - weights[0].sum(axis=1) @ white[0] / 2) ** 2).sum(axis=1)
            new_compared = _entering(far, compared, values[0] / 4)
            new_arms = _entering(gains, arms, gains[arms].max() * (1 + _PROGRESS))
            arms, compared = np.append(arms, new_arms), np.append(compared, new_compared)
            shares = np.append(pulls[0], np.full(new_arms.size, 1 / len(arms)))
            equal = _equal_weights(len(compared))
            equal[:, : len(weights[0]), : len(weights[0])] += weights[0]
            found = Iterate.start(shares[None] / shares.sum(), equal / 2)
        return arms, compared, found, bound * float(information(1, self.noise_ratio))

    def _largest(self, compared: IntArray, pulls: IntArray) -> float:
        """Return `PrivateDesign.variance`, the largest variance of a contrast."""
        each = information(pulls[pulls > 0], self.noise_ratio)
        white = self.vectors @ whitening(self.vectors[pulls > 0], each, self.prior)
        if len(compared) < len(white):
            far = ((white - white[compared].mean(axis=0)) ** 2).sum(axis=1)
            compared = np.argsort(-far)[: 4 * _MANY]
        gram = white[compared] @ white[compared].T
        square = gram.diagonal()
        return max(0.0, float((square[:, None] + square - 2 * gram).max()))


def whole_pulls(pulls: FloatArray, total: int) -> list[IntArray]:
    """Round to whole pulls by largest remainders, with at least one for each arm that has any.

    If pulls are left over for some, but not all, of the arms with equal remainders, there are two
    answers: without these pulls, and with them.
    """
    arms = np.flatnonzero(pulls)
    arms = arms[ascending(-pulls[arms])[:total]]
    above = np.maximum(pulls[arms] - 1, 0) + _LEAST
    above *= (total - len(arms)) / above.sum()
    tie = min(0.25, TIE * max(1.0, float(above.max())))
    down = np.floor(above + tie).astype(np.int64)
    left = total - len(arms) - int(down.sum())
    remainders = above - down
    order = ascending(-np.maximum(remainders, 0.0))
    answers = [down.copy()]
    if left < 0:  # from rounding errors, near the largest number of pulls that a double can count
        answers[0][ascending(-above)[:-left]] -= 1
    elif left:
        last = remainders[order[min(left, len(arms) - 1)]]
        answers[0] += (remainders > last + tie) | (left >= len(arms))
        answers.append(down)
        answers[1][order[:left]] += 1
    whole = np.zeros((len(answers), len(pulls)), dtype=np.int64)
    whole[:, arms] = 1 + np.array(answers)
    return list(whole)


def _longest(vectors: FloatArray) -> IntArray:
    """Return the index of the longest of each set of parallel vectors, leaving out zeros."""
    lengths = np.linalg.norm(vectors, axis=1)
    units = vectors / np.maximum(lengths, _LEAST)[:, None]
    parallel = (units @ units.T) ** 2 >= 1 - _PARALLEL
    longer = lengths > lengths[:, None] * (1 + TIE)
    before = np.tri(len(vectors), k=-1, dtype=np.bool_) & ~longer.T
    dominated = (parallel & (longer | before)).any(axis=1)
    return np.flatnonzero(~dominated & (lengths > 0))


def _equal_weights(arms: int) -> FloatArray:
    """Return equal weights on all contrasts of the arms, shape (1, arms, arms)."""
    return np.asarray((1 - np.eye(arms)) / max(1, arms * (arms - 1) / 2))[None]


def _weighted_contrasts(weights: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return the sum over pairs of weight_ik (a_i - a_k) (a_i - a_k)', shape (B, r, r)."""
    spread = weights.sum(axis=2)[:, :, None] * vectors - weights @ vectors
    return np.asarray(np.swapaxes(vectors, -1, -2) @ spread)


def _gains(weights: FloatArray, white: FloatArray, pulled: FloatArray) -> FloatArray:
    """Return the rates at which information on each arm decreases the weighted variance."""
    contrasts = _weighted_contrasts(weights, white)
    return np.asarray(np.maximum(((pulled @ contrasts) * pulled).sum(axis=2), 0.0))


def _entering(scores: FloatArray, present: IntArray, above: float) -> IntArray:
    """Return the arms that enter: those with the largest scores that are not yet present."""
    scores = scores.copy()
    scores[present] = -np.inf
    order = ascending(-scores)[:_ENTERING]
    return order[scores[order] > above]
