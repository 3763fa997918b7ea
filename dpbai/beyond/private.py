r"""Which arms to pull, and how often, when each arm's sum is released with Laplace noise.

This design is the book's own, not the paper's. Of an arm that is pulled n times the sum of the
rewards is released with noise Lap(1/epsilon). Its mean is then known with a variance of at most
1/(4n) + 2/(n epsilon)^2, and carries the information

    w(n) = n^2 / (n/4 + 2/epsilon^2) = 4 n^2 / (n + c),    c = 8 / epsilon^2.

For large n that is 4 (n - c), so that c, the `noise_ratio`, acts as a fixed cost in pulls of each
arm that is pulled. The design divides N pulls so that the largest variance of a contrast of two
arms is small, that is max (a_i - a_k)' V^-1 (a_i - a_k) with V = sum w(n_j) a_j a_j'. Without noise
this is an XY-optimal design (Soare, Lazaric and Munos, 2014), a convex problem. With much noise few
arms are pulled: a basis, as in a Max-Det collection.
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

_AT_ONCE = 64  # so many arms are weighed together
_ROUNDS, _MORE_ROUNDS, _NEWCOMERS = 5, 15, 24
_STAGES = (1 / 16, 1 / 4, 1.0)
_STEPS, _STEPS_OF_STAGE = 20, 8
_PATIENCE, _GREAT_PATIENCE = 3, 10  # steps that gain next to nothing
_DIVISIONS = 1025  # of pulls between two arms that are compared
_GAP = 0.02  # between value and bound, at which the problem without noise is solved
_LARGEST_RATIO = 1e12  # over all pulls: beyond, designs are the same
_SMALL = 1e-3
_LEAST = 1e-100
_FEW, _FEW_MORE = 8, 5  # arms of which all supports are tried, without prior and with
_CANDIDATES, _EXCHANGES, _HASTY_EXCHANGES = 8, 12, 3
_ENTRIES = 2**14  # contrasts in all games that are played at once
_NEAR = (1.5, 1.2, 1.1)  # times the best: candidates that are this near are played on
_SINGLY, _MOVES = 16, 20  # up to so many pulls of each arm, pulls are moved one by one
_RIDGE, _HOPELESS, _PARALLEL = 1e-13, 1e9, 1e-12


@dataclass(frozen=True, eq=False)
class PrivateDesign:
    """How to divide pulls among K arms whose sums are released with noise.

    Attributes
    ----------
    pulls : ndarray of int, shape (K,)
        How often to pull each arm.
    variance : float
        The largest variance of a contrast of two arms under these pulls; of more than 64 arms, the
        256 that lie farthest out are compared.
    bound : float
        No division of the pulls, in fractions or not, makes every variance smaller than this. It is
        sharp without noise; the more noise, the looser, since only one arm has a fixed cost in it.
    """

    pulls: IntArray
    variance: float
    bound: float


def noise_ratio(epsilon: float, pulls: int) -> float:
    """Return 8 / epsilon^2, the variance of a noise over the largest variance of a reward.

    It is at most 10^12 times all `pulls`.
    """
    return float(min(np.sqrt(8) / epsilon, np.sqrt(_LARGEST_RATIO * pulls)) ** 2)


def private_design(vectors: ArrayLike, *, pulls: int, epsilon: float) -> PrivateDesign:
    """Divide pulls among arms so that the largest variance of a contrast is small.

    Parameters
    ----------
    vectors : array_like of shape (K, d)
        Feature vectors of K >= 1 arms, of any rank r.
    pulls : int
        N, how many pulls there are; at least r.
    epsilon : float
        Privacy parameter, positive; infinity means no noise.

    Returns
    -------
    PrivateDesign
        It spends all pulls but a few that would make no largest variance smaller. Of copies of an
        arm, the first in the list is pulled for all.

    Notes
    -----
    Only the longest of parallel arms is worth a pull, and an arm and its negative are parallel.

    Two players take turns. The weight of a contrast grows in proportion to its variance; the pulls
    of an arm grow with what one more pull takes off the weighted variance, to the power 0.4.
    Without noise that converges to the optimum, and the weights bound the distance: the inverse of
    the weighted variance is a concave function of the pulls. With noise, w(n) lies below its chord
    from 0 to N, and the problem of the chord is one without noise.

    With noise there are many local optima. Of at most 8 arms all supports are tried. Of more, the
    search begins at the chord's solution, with the noise raised in stages, and at a swap-optimal
    basis. It drops arms while that makes the largest variance smaller, then drops, exchanges or
    adds one at a time. What it finds is rounded by largest remainders, and single pulls are moved.

    Against the best of all supports and divisions of 12 to 20 pulls, on 538 small cases (0/1 and
    +-1 cubes, simplices, factorials, tables with dummy columns, copies, normal vectors) the largest
    variance was on average 0.2 % above, and at worst 10 %.
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
    """Return Lap(1/(epsilon n)), the noise on a mean of n pulls, or for 1 on a sum; or none."""
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
    """Return the first of each set of equal rows, in the order of `sorted_rows`, and places in it.

    Row i equals the row `first[places[i]]`.
    """
    order, begins = sorted_rows(vectors)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum(begins) - 1
    return order[begins], places


def information(pulls: ArrayLike, noise_ratio: float) -> FloatArray:
    """Return w(n), the information that the released sum of n pulls of an arm carries."""
    n = np.asarray(pulls, dtype=np.float64)
    return 4 * n**2 / np.maximum(n + noise_ratio, _LEAST)


class Position(NamedTuple):
    """Where the two players stand in each of B games.

    Pulls of m arms, shape (B, m), some of them 0, which they stay; weights on the contrasts of n
    rivals, shape (B, n, n); and the largest variances of a contrast, shape (B,).
    """

    pulls: FloatArray
    weights: FloatArray
    values: FloatArray

    @classmethod
    def begin(cls, pulls: FloatArray, weights: FloatArray) -> Position:
        """Return games that begin at the pulls, of shape (B, m), with the same weights for all."""
        return cls(pulls, np.repeat(weights, len(pulls), axis=0), np.full(len(pulls), np.inf))

    def some(self, games: IntArray | list[int]) -> Position:
        """Return some of the games."""
        return Position(*(each[games] for each in self))


@dataclass(frozen=True, eq=False)
class Game:
    """Pulls of arms `pulled` against contrasts of arms `facing`, with a `share` of the noise.

    `prior` is the information on theta before any pull, and `total` the pulls to divide.
    """

    pulled: FloatArray
    facing: FloatArray
    prior: FloatArray
    total: int
    noise_ratio: float
    patience: int
    share: float = 1.0

    @property
    def scale(self) -> float:
        """What makes the information of all pulls on one arm the same at all stages."""
        return 4 * (self.total + self.share * self.noise_ratio) / (self.total + self.noise_ratio)

    def information(self, pulls: FloatArray | IntArray) -> FloatArray:
        """Return the information that the pulls of each arm carry, with the share of the noise."""
        return information(pulls, self.share * self.noise_ratio) * (self.scale / 4)

    def moments(self, pulls: FloatArray | IntArray) -> FloatArray:
        """Return V for each of B divisions, shape (B, r, r)."""
        each = self.information(pulls)
        moments = self.prior + (self.pulled.T * each[:, None, :]) @ self.pulled
        # Where pulls do not tell all contrasts, variances are to be very large, not infinite.
        ridge = _RIDGE * moments.diagonal(axis1=1, axis2=2).max(axis=1)
        return np.asarray(moments + ridge[:, None, None] * np.eye(moments.shape[1]))

    def contrasts(self, pulls: FloatArray | IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return variances of the rivals' contrasts, and what whitens vectors, and the rivals."""
        whiten = np.linalg.inv(np.linalg.cholesky(self.moments(pulls))).transpose(0, 2, 1)
        white = self.facing @ whiten
        gram = white @ white.transpose(0, 2, 1)
        square = gram.diagonal(axis1=1, axis2=2)
        variances = square[:, :, None] + square[:, None, :] - 2 * gram
        return np.maximum(variances, 0.0), whiten, white

    def play(self, start: Position, steps: int) -> Position:
        """Let the two players move until neither gains much; return their best positions."""
        pulls, weights, values = start
        best, stale = start._replace(values=np.full_like(values, np.inf)), np.zeros(len(values))
        ratio = self.share * self.noise_ratio
        for _ in range(steps):
            variances, whiten, white = self.contrasts(pulls)
            values = variances.max(axis=(1, 2))
            stale = np.where(values < best.values * (1 - _SMALL), 0, stale + 1)
            # Without noise the last position is as good as any, and the play goes on from there.
            better = (values < best.values * (1 - TIE)) | (self.share == 0)
            moved = zip((pulls, weights, values), best, strict=True)
            best = Position(
                *(np.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in moved)
            )
            if ((stale >= self.patience) & (self.share > 0) | (values == 0)).all():
                break
            weights = weights * (variances / np.maximum(values, _LEAST)[:, None, None])
            weights *= 2 / np.maximum(weights.sum(axis=(1, 2)), _LEAST)[:, None, None]
            slope = pulls * (pulls + 2 * ratio) / np.maximum(pulls + ratio, _LEAST) ** 2
            grown = pulls * (_gains(weights, white, self.pulled @ whiten) * slope) ** 0.4
            sums = grown.sum(axis=1, keepdims=True)
            # Of arms alike only rounding errors are left to play for.
            pulls = np.where(sums > 0, grown * (self.total / np.maximum(sums, _LEAST)), pulls)
        return best

    def race(self, pulls: FloatArray, weights: FloatArray) -> Position:
        """Play from B divisions at once, and play on those that are near the best."""
        found = Position.begin(pulls, weights)
        most = self.at_once
        for within in _NEAR:
            found = self.play(found, _STEPS_OF_STAGE)
            near = ascending(found.values)[:most]
            found = found.some(near[found.values[near] <= found.values.min() * within])
            most = max(1, most // 2)
        return self.play(found, _STEPS)

    @property
    def at_once(self) -> int:
        """How many games are played at once after the first steps."""
        return max(2, _ENTRIES // len(self.facing) ** 2)

    def all_supports(self, least: int) -> Position:
        """Play on all sets of at least so many arms, each begun with equal pulls."""
        arms = np.arange(len(self.pulled))
        some = np.arange(2 ** len(arms))[:, None] >> arms & 1
        some = some[some.sum(axis=1) >= least]
        pulls = some * (self.total / some.sum(axis=1, keepdims=True))
        weights = _even(len(self.facing))
        values = self._weighted(pulls, weights)
        return self.race(pulls[values <= _HOPELESS * values.min()], weights)

    def drop(self, best: Position) -> Position:
        """Drop the arms of the fewest pulls, then one at a time, while the variance falls."""
        few = best.pulls <= _SMALL * self.total
        near = np.where(few, 0.0, best.pulls)
        near *= self.total / near.sum()
        while len(near):
            least = first_smallest(self._weighted(near, best.weights))
            fewer = self.play(Position.begin(near[[least]], best.weights), 2 * _STEPS_OF_STAGE)
            if fewer.values[0] > best.values[0] * (1 + TIE):
                break
            best, near = fewer, self._without_one(fewer.pulls[0])
        return best

    def exchange(self, best: Position) -> Position:
        """Drop, exchange or add an arm while that makes the largest variance smaller.

        Returns the best position first, and after it what the last round came to.
        """
        played = best
        for _ in range(_EXCHANGES if self.at_once >= _CANDIDATES else _HASTY_EXCHANGES):
            weights = (best.weights + _even(len(self.facing))) / 2
            near, values = self._neighbours(best.pulls[0], weights)
            tried = ascending(values)[: min(_CANDIDATES, self.at_once)]
            tried = tried[values[tried] <= 2 * self._weighted(best.pulls, weights)]
            if not tried.size:
                break
            played = self.race(near[tried], weights)
            found = first_smallest(played.values)
            if not played.values[found] < best.values[0] * (1 - _SMALL):
                break
            best = played.some([found])
        return Position(*map(np.concatenate, zip(best, played, strict=True)))

    def rounded(self, found: Position) -> IntArray:
        """Return the best division in whole pulls that is near the positions found."""
        near = ascending(found.values)[: 2 * _CANDIDATES]
        near = near[found.values[near] <= found.values[near[0]] * _NEAR[-1]]
        whole = [each for pulls in found.pulls[near] for each in whole_pulls(pulls, self.total)]
        moved = [self._moved(each) for each in whole]
        return moved[first_smallest([value for _, value in moved])][0]

    def _moved(self, whole: IntArray) -> tuple[IntArray, float]:
        """Move single pulls from arm to arm while that makes the largest variance smaller."""
        value = float(self.contrasts(whole[None])[0].max())
        each = np.eye(len(whole), dtype=np.int64)
        for _ in range(_MOVES):
            arms = np.flatnonzero(whole)
            games = len(arms) * len(whole)
            if self.total > _SINGLY * len(arms) or games > _SINGLY * self.at_once:
                break
            near = whole + (each[:, None] - each[arms]).reshape(-1, len(whole))
            values = self.contrasts(near)[0].max(axis=(1, 2))
            least = first_smallest(values)
            if not values[least] < value * (1 - TIE):
                break
            whole, value = near[least], float(values[least])
        return whole, value

    def _weighted(self, pulls: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the weighted mean of the variances under each of B divisions."""
        inverse = np.linalg.inv(self.moments(pulls))
        return np.asarray((inverse * _weighted_contrasts(weights, self.facing)).sum(axis=(1, 2)))

    def _without_one(self, pulls: FloatArray) -> FloatArray:
        """Return divisions with one arm less; the others share its pulls by theirs."""
        some = np.flatnonzero(pulls)
        if some.size == 1:
            return np.empty((0, len(pulls)))
        near = np.where(np.arange(len(pulls)) == some[:, None], 0.0, pulls)
        return np.asarray(near * (self.total / near.sum(axis=1, keepdims=True)))

    def _neighbours(self, pulls: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return divisions with an arm less, more, or in place of another, and weighted means."""
        some, others = np.flatnonzero(pulls), np.flatnonzero(pulls == 0)
        each, size = np.eye(len(pulls)), len(some)
        more = (pulls * size + self.total * each[others]) / (size + 1)
        near = np.vstack([self._without_one(pulls), more])
        values = self._weighted(near, weights)
        # A swap changes V by rank two: U = (a_in, a_out), V + U D U' with D = diag(w, -w). By
        # Woodbury's identity tr(V^-1 M) falls by tr((D^-1 + U' V^-1 U)^-1 U' V^-1 M V^-1 U).
        inverse = np.linalg.inv(self.moments(pulls[None]))[0]
        weighted = _weighted_contrasts(weights, self.facing)[0]
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
        swaps = pulls - (moved * each[some])[:, None] + moved[:, None] * each[others]
        near = np.vstack([near, swaps.reshape(-1, len(pulls))])
        return near, np.append(values, ((inverse * weighted).sum() - falls).ravel())


class Division:
    """A search for the best division of pulls; see `private_design`.

    The vectors are distinct, in coordinates of order one. One pull each of the arms of the basis
    tells all contrasts, which is of no account if there is information on theta already, positive
    definite. An object does not change: what it keeps is the same whoever computes it.
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
        self.fresh = prior is None
        self.prior = np.zeros((vectors.shape[1],) * 2) if prior is None else prior
        self.hurried = not self.fresh or len(vectors) > _AT_ONCE

    @one_thread
    def best(self, pulls: int) -> PrivateDesign:
        """Return a division of so many pulls, at least as many as the basis has arms."""
        if not self.vectors.any():
            return PrivateDesign(np.zeros(len(self.vectors), dtype=np.int64), 0.0, 0.0)
        if not self.fresh and len(self.vectors) == 2:
            return self._of_two(pulls)
        arms, rivals, position, bound = self._chord if self.fresh else self._start
        game = self._game(arms, rivals, pulls)
        position = position._replace(pulls=position.pulls * pulls)
        if len(arms) <= (_FEW if self.fresh else _FEW_MORE):
            found = game.all_supports(max(1, len(self.basis)))
        else:
            for share in _STAGES if self.fresh else (0.0, *_STAGES):
                steps = {0.0: _STEPS, 1.0: 2 * _STEPS}.get(share, _STEPS_OF_STAGE)
                position = replace(game, share=share).play(position, steps)
            found = game.drop(position)
            if self.fresh:
                found = self._exchanged(game, found, np.isin(arms, self.basis))
        whole = np.zeros(len(self.vectors), dtype=np.int64)
        whole[arms] = game.rounded(found)
        bound /= float(information(pulls, self.noise_ratio))
        return PrivateDesign(whole, self._largest(rivals, whole), bound)

    def _exchanged(self, game: Game, found: Position, basis: NDArray[np.bool_]) -> Position:
        """Return what exchanges come to, from what was found, or from the basis, or from both."""
        equal = basis[None] * (game.total / np.count_nonzero(basis))
        start = Position.begin(equal, _even(len(game.facing)))
        starts = [found, game.drop(game.play(start, 2 * _STEPS))]
        if len(game.facing) > _AT_ONCE / 2:
            starts = [starts[first_smallest([each.values[0] for each in starts])]]
        ends = [game.exchange(each) for each in starts]
        return Position(*map(np.concatenate, zip(*ends, strict=True)))

    def _game(self, arms: IntArray, rivals: IntArray, pulls: int, share: float = 1.0) -> Game:
        patience = _PATIENCE if self.hurried else _GREAT_PATIENCE
        pulled, facing = self.vectors[arms], self.vectors[rivals]
        return Game(pulled, facing, self.prior, pulls, self.noise_ratio, patience, share)

    def _of_two(self, pulls: int) -> PrivateDesign:
        """Compare all divisions between two arms, or a thousand of them.

        Estimates with covariance C = (p, q; q, r) so far will have (C^-1 + diag(w))^-1.
        """
        first = np.unique(np.linspace(0, pulls, _DIVISIONS).round())
        one, other = (information(n, self.noise_ratio) for n in (first, pulls - first))
        # p + r - 2 q and p r - q^2 come from the contrast: as differences they would have no digits
        # left where arms are nearly alike.
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
    def _start(self) -> tuple[IntArray, IntArray, Position, float]:
        """Where a search begins, with shares of the pulls for pulls: all share alike."""
        if self.fresh and len(self.vectors) > _AT_ONCE:  # the basis, and the ends of all axes
            ends = self.vectors.argmax(axis=0), self.vectors.argmin(axis=0)
            arms = rivals = np.unique(np.concatenate([self.basis, *ends]))
        else:
            arms, rivals = _longest(self.vectors), np.arange(len(self.vectors))
        shares = np.full((1, len(arms)), 1 / len(arms))
        return arms, rivals, Position.begin(shares, _even(len(rivals))), 0.0

    @cached_property
    def _chord(self) -> tuple[IntArray, IntArray, Position, float]:
        """Solve the problem of w's chord; of many arms, let in those that are missing by rounds.

        Without prior information it does not depend on the number of pulls. Returns the arms to
        pull, the arms whose contrasts count, the position, with shares of the pulls for pulls, and
        the bound times w(N).
        """
        arms, rivals, position, bound = self._start
        for _ in range(_ROUNDS if self.hurried else _MORE_ROUNDS):
            game = self._game(arms, rivals, 1, share=0.0)
            position = game.play(position, _STEPS)
            pulls, weights, values = position
            variances, whiten, white = game.contrasts(pulls)
            everyone = self.vectors @ whiten[0]
            gains = _gains(weights, white, everyone[None])[0] * game.scale
            mean = float((weights * variances).sum() / 2)
            slack = gains.max() - pulls[0] @ gains[arms]
            bound = max(bound, mean**2 / (mean + slack) if mean > 0 else 0.0)
            if values[0] <= bound * (1 + _GAP):
                break
            if len(rivals) == len(self.vectors):
                continue
            far = ((everyone - weights[0].sum(axis=1) @ white[0] / 2) ** 2).sum(axis=1)
            new_rivals = _newcomers(far, rivals, values[0] / 4)
            new_arms = _newcomers(gains, arms, gains[arms].max() * (1 + _SMALL))
            arms, rivals = np.append(arms, new_arms), np.append(rivals, new_rivals)
            shares = np.append(pulls[0], np.full(new_arms.size, 1 / len(arms)))
            even = _even(len(rivals))
            even[:, : len(weights[0]), : len(weights[0])] += weights[0]
            position = Position.begin(shares[None] / shares.sum(), even / 2)
        return arms, rivals, position, bound * float(information(1, self.noise_ratio))

    def _largest(self, rivals: IntArray, pulls: IntArray) -> float:
        """Return `PrivateDesign.variance`, the largest of a contrast."""
        each = information(pulls[pulls > 0], self.noise_ratio)
        white = self.vectors @ whitening(self.vectors[pulls > 0], each, self.prior)
        if len(rivals) < len(white):
            far = ((white - white[rivals].mean(axis=0)) ** 2).sum(axis=1)
            rivals = np.argsort(-far)[: 4 * _AT_ONCE]
        gram = white[rivals] @ white[rivals].T
        square = gram.diagonal()
        return max(0.0, float((square[:, None] + square - 2 * gram).max()))


def whole_pulls(pulls: FloatArray, total: int) -> list[IntArray]:
    """Round to whole pulls, at least one for each arm of any, by largest remainders.

    Where arms with equal remainders would have to share pulls unevenly, there are two answers:
    without these pulls, and with them.
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
    if left < 0:  # rounding errors of as many pulls as a double can count
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
    """Return the longest of each set of parallel vectors, the first of several; none that is 0."""
    lengths = np.linalg.norm(vectors, axis=1)
    units = vectors / np.maximum(lengths, _LEAST)[:, None]
    parallel = (units @ units.T) ** 2 >= 1 - _PARALLEL
    longer = lengths > lengths[:, None] * (1 + TIE)
    before = np.tri(len(vectors), k=-1, dtype=np.bool_) & ~longer.T
    beaten = (parallel & (longer | before)).any(axis=1)
    return np.flatnonzero(~beaten & (lengths > 0))


def _even(rivals: int) -> FloatArray:
    """Return equal weights on all contrasts of so many arms, for one game."""
    return np.asarray((1 - np.eye(rivals)) / max(1, rivals * (rivals - 1) / 2))[None]


def _weighted_contrasts(weights: FloatArray, rivals: FloatArray) -> FloatArray:
    """Return the sum of weight_ik (a_i - a_k) (a_i - a_k)' over pairs, for each game."""
    spread = weights.sum(axis=2)[:, :, None] * rivals - weights @ rivals
    return np.asarray(np.swapaxes(rivals, -1, -2) @ spread)


def _gains(weights: FloatArray, white: FloatArray, pulled: FloatArray) -> FloatArray:
    """Return what a unit of information on each arm takes off the weighted variance."""
    contrasts = _weighted_contrasts(weights, white)
    return np.asarray(np.maximum(((pulled @ contrasts) * pulled).sum(axis=2), 0.0))


def _newcomers(merit: FloatArray, present: IntArray, above: float) -> IntArray:
    """Return the few arms of the largest merit that are not yet present."""
    merit = merit.copy()
    merit[present] = -np.inf
    order = ascending(-merit)[:_NEWCOMERS]
    return order[merit[order] > above]
