"""DPDesign: few phases, noise in the design, and nothing forgotten.

The book's own policy. It releases private sums of rewards, divides pulls by `private_design`, and
estimates by generalised least squares from all releases so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray, IntArray
from dpbai.beyond.private import Division, PrivateDesign, by_entries, distinct, fee
from dpbai.beyond.rehearsal import Rehearsal, Timetable, timetables
from dpbai.max_det import canonical_basis
from dpbai.noise import Laplace, Noise, NoNoise
from dpbai.phase import Phase, checked_step
from dpbai.ranking import ROUNDING
from dpbai.schedule import enough

Plan = tuple[tuple[int, ...], tuple[int, ...], FloatArray]


@dataclass(frozen=True, eq=False)
class DPDesign:
    """DPDesign: eliminate arms on least squares of all private sums so far; epsilon-private.

    Parameters
    ----------
    phases : int, optional
        How many phases there are, at most max(1, K - 1). By default one, two or three, see Notes.

    `features`, `budget` and `epsilon` are those of `DPBAI`.

    Notes
    -----
    *Releases.* Of each pulled arm the sum of the rewards, plus Lap(1/epsilon): one reward moves one
    sum, by at most 1, which is all that privacy needs. When two arms are left, the difference of
    their sums can do with one such noise instead of two; it is released if it is more precise. With
    two arms from the start, estimates are then right up to a constant, the same for both.

    *Estimates.* Each release is a linear function of theta plus an error of known variance, at most
    n/4 for the sum of n rewards and 2/epsilon^2 for the noise. Generalised least squares uses those
    of all phases so far.

    *Pulls.* Each phase divides its pulls among its active arms so that the largest variance of a
    contrast of two of them is small, given what was released before; see `private_design`. In which
    order the arms are listed changes neither this nor the choice of phases, but for which of equal
    arms is pulled.

    *Phases.* There is one; or two, which keep 2, 3, 4 or 8 arms after the first; or three, which
    keep 4 or 6 and then 2. The first of several takes 2/5, 3/5 or 4/5 of T, and the others share
    the rest equally. All these are rehearsed (`beyond.rehearsal`), and a further phase must add
    at least half a standard error. `phases` fixes the number, and leaves sizes and shares to the
    rehearsal; more than three take half of T first, and go from 12 arms (at least one for each
    phase) to 2 by equal factors.
    """

    features: FloatArray
    _: KW_ONLY
    budget: int
    epsilon: float
    phases: int | None = None

    remembers = True

    def __post_init__(self) -> None:
        features = _check.matrix(self.features, "features", least_rows=2)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "budget", _check.whole(self.budget, "budget"))
        object.__setattr__(self, "epsilon", _check.epsilon(self.epsilon))
        if self.phases is not None:
            object.__setattr__(self, "phases", _check.whole(self.phases, "phases"))
            arms, most = len(features), max(1, len(features) - 1)
            if self.phases > most:
                raise ValueError(
                    f"phases must be at most {most} for {arms} arms, got {self.phases}"
                )
        enough(self.budget, self.least_budget, *features.shape)

    @property
    def least_budget(self) -> int:
        """A pull for each arm of a basis, and one for each phase after the first."""
        return max(1, len(self._division.basis)) + (self.phases or 1) - 1

    @cached_property
    def timetable(self) -> Timetable:
        """Sizes of the active sets, K first and 1 last, and the pulls of each phase."""
        arms = self.features.shape[0]
        least = max(1, len(self._division.basis))
        candidates = list(timetables(arms, self.budget, least, self.phases))
        if len(candidates) == 1 or not len(
            self._division.basis
        ):  # where no pull tells anything, all are equal
            return candidates[0]
        # Survivors may be copies of one arm, so these are rehearsed, too.
        order = by_entries(self.features)
        vectors, pulls = self._vectors(order), np.zeros(arms, dtype=np.int64)
        first = np.unique(self._places[order], return_index=True)[1]
        pulls[first] = self._division.best(self.budget).pulls
        return Rehearsal(vectors, pulls, self._division.fee, candidates).choice()

    def phase(self, index: int, active: Sequence[int], past: Sequence[Phase] = ()) -> Phase:
        """Return the plan of phase `index` for the `active` arms, after all phases of `past`."""
        active, keep = checked_step(index, active, self.timetable.sizes, len(self.features))
        if len(past) != index - 1:
            raise ValueError(f"past must hold the {index - 1} phases before, got {len(past)}")
        known = self._division.known
        seen = [self._seen(phase.pulled, phase.pulls, phase.release) for phase in past]
        for release in seen:
            known = known + _information(*release)
        pulled, pulls, matrix = self._plan(index, active, known)
        seen.append(self._seen(pulled, pulls, matrix))
        arms = self._vectors(active) @ _inverse(known + _information(*seen[-1]))
        return Phase(
            index=index,
            active=active,
            pulled=pulled,
            pulls=pulls,
            noise=self._noise,
            keep=keep,
            release_matrix=matrix,
            decoder_matrix=np.hstack([arms @ rows.T * precision for rows, precision in seen]),
            remembered=sum(phase.coordinates for phase in past),
        )

    def representatives(self, index: int) -> tuple[Phase, ...]:
        """Return a plan whose release is, for privacy, that of phase `index` for any active set.

        Each pulled arm moves one coordinate by 1. At most all active arms are pulled, and no sum is
        larger than all pulls of the phase, on which its rounding depends.
        """
        arms = range(self.features.shape[0])
        if index == 1:
            return (self.phase(1, arms),)
        size, keep = self.timetable.sizes[index - 1 : index + 1]
        active, total = tuple(arms[:size]), self.timetable.pulls[index - 1]
        sums = np.diag(np.full(size, float(total)))
        return (
            Phase(index, active, active, (total,) * size, self._noise, keep, sums, np.eye(size)),
        )

    def _plan(self, index: int, active: tuple[int, ...], known: FloatArray) -> Plan:
        """Return which arms to pull, how often, and what to release of their means."""
        total = self.timetable.pulls[index - 1]
        # Of copies of an arm the first is pulled for all.
        places, first = np.unique(self._places[list(active)], return_index=True)
        arms, vectors = [active[i] for i in first], self._division.vectors[places]
        design = (
            self._first
            if index == 1
            else Division(vectors, [], self._division.fee, known).best(total)
        )
        if len(arms) == len(active) == 2 and total > 1:
            half = (total // 2,) * 2
            difference = np.diff(np.diag(half)[::-1], axis=0).astype(np.float64)
            contrast = vectors[0] - vectors[1]
            both = known + _information(*self._seen(arms, half, difference))
            if contrast @ _inverse(both) @ contrast < design.variance * (1 - ROUNDING):
                return active, half, difference
        chosen = sorted((arm, n) for arm, n in zip(arms, design.pulls.tolist(), strict=True) if n)
        pulled, pulls = zip(*chosen, strict=True) if chosen else ((), ())
        return pulled, pulls, np.diag(np.array(pulls, dtype=np.float64))

    def _seen(
        self, pulled: Sequence[int], pulls: Sequence[int], release: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return what a release tells: linear functions of theta, and the precision of each."""
        variance = release**2 @ (1 / (4 * np.array(pulls))) + self._division.fee / 4
        return release @ self._vectors(pulled), 1 / variance

    def _vectors(self, arms: Sequence[int] | IntArray) -> FloatArray:
        return np.asarray(self._division.vectors[self._places[np.asarray(arms, dtype=np.intp)]])

    @cached_property
    def _distinct(self) -> tuple[IntArray, IntArray]:
        return distinct(self.features)

    @property
    def _places(self) -> IntArray:
        return self._distinct[1]

    @cached_property
    def _division(self) -> Division:
        basis, coordinates = canonical_basis(self.features[self._distinct[0]])
        return Division(coordinates, basis, fee(self.epsilon, self.budget))

    @property
    def _noise(self) -> Noise:
        return NoNoise() if math.isinf(self.epsilon) else Laplace(1 / self.epsilon)

    @cached_property
    def _first(self) -> PrivateDesign:
        return self._division.best(self.timetable.pulls[0])


def _information(rows: FloatArray, precision: FloatArray) -> FloatArray:
    order = by_entries(rows)  # the same sum, to the last digit, in whichever order arms come
    rows, precision = rows[order], precision[order]
    return np.asarray((rows.T * precision) @ rows)


def _inverse(information: FloatArray) -> FloatArray:
    """Return the inverse where there is information: of two arms it may be on a contrast only."""
    return np.asarray(np.linalg.pinv(information, hermitian=True))
