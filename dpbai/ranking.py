"""Who survives a phase: the arms with the largest estimates, and how ties are broken.

Estimates are `decoder @ released`. Arms whose rows of the decoder are `alike`, equal to within
rounding, always tie. Two others tie if the lead of one over the other, the difference of their rows
times the release, is 0 to within rounding: at most `ROUNDING` times the sizes of its terms, which
are the sum of the difference's `abs(row[j])` times `abs(released[j])` plus the largest size of the
statistic j (for rewards of 1). So neither units of features or arms nor nearly equal rows matter.
The rule depends on the plan and its release only, so it costs no privacy. Arms that tie for the
last places are equally likely to survive: relabelling the arms relabels the law of the survivors.

With one survivor and at most two coordinates only vertices of the convex hull of the decoder's rows
can have the largest estimate. Only they are compared, unless there may be a tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbai._check import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

ROUNDING = 2.0**-36
"""Relative: rounding errors of estimates are smaller, and true differences of estimates rarely."""

_NEAR = 1e-3  # relative distance to a vertex up to which an arm is compared, too
_MANY_ARMS, _MANY_TRIALS = 8, 2**10  # from which on excluding arms that cannot be first saves time


@dataclass(frozen=True, eq=False)
class Ranking:
    """How one phase ranks its arms; `decoder`, `reach` and `keep` are those of the plan."""

    decoder: FloatArray | None
    reach: FloatArray
    keep: int

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return len(self.reach if self.decoder is None else self.decoder)

    def tied(self, released: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Return who survives for sure, and who ties for the last places: (trials, arms) each."""
        decoder = self.decoder
        estimates = released if decoder is None else released @ decoder.T
        sizes = ROUNDING * (np.abs(released) + self.reach)
        last = self.arms - self.keep
        at = np.argpartition(estimates, last, axis=1)[:, last]
        if decoder is None:
            pairs = [np.take_along_axis(x, at[:, None], axis=1) for x in (released, sizes)]
            lead = released - pairs[0]
            equal = np.abs(lead) <= sizes + pairs[1]
            return (lead > 0) & ~equal, equal
        lead, equal = np.empty(estimates.shape), np.empty(estimates.shape, dtype=np.bool_)
        for arm in np.unique(at).tolist():
            rows, differences = at == arm, decoder - decoder[arm]
            lead[rows] = released[rows] @ differences.T
            equal[rows] = np.abs(lead[rows]) <= sizes[rows] @ np.abs(differences).T
            equal[np.ix_(rows, alike(decoder, arm))] = True
        return (lead > 0) & ~equal, equal

    def survivors(
        self, released: FloatArray, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Return some arms, and which of them survive: the others do not; shape (len, trials)."""
        trials, everyone = len(released), np.arange(self.arms)
        if self.keep == self.arms:
            return everyone, np.ones((self.arms, trials), dtype=np.bool_)
        few = trials < _MANY_TRIALS or self.arms < _MANY_ARMS
        compared, decoder = (everyone, self.decoder) if few else self._contenders
        columns = np.ascontiguousarray(released.T)
        estimates = columns if decoder is None else decoder @ columns
        sizes = np.maximum(columns.max(axis=1), -columns.min(axis=1)) + self.reach
        if decoder is not None:
            sizes = np.abs(decoder) @ sizes
        # Beyond this margin no two arms tie, including those that are not compared, whose distance
        # to a vertex is at least a share `_NEAR`.
        margin = 2 * ROUNDING / _NEAR * sizes.max()
        last = len(estimates) - self.keep
        first = self.keep == 1
        least = estimates.max(axis=0) if first else np.partition(estimates, last, axis=0)[last]
        above = estimates >= least - margin
        if np.count_nonzero(above) == trials * self.keep:
            return compared, above
        unclear = np.flatnonzero(above.sum(axis=0) > self.keep)
        kept = np.zeros((self.arms, trials), dtype=np.bool_)
        kept[compared] = above
        kept[:, unclear] = False
        kept[self._drawn(released[unclear], rng).T, unclear] = True
        return everyone, kept

    def _drawn(self, released: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return positions of the survivors, shape (trials, keep), where some arms may tie."""
        sure, equal = self.tied(released)
        order = np.where(sure, 2.0, np.where(equal, 1.0, -1.0))
        drawn = (sure | equal).sum(axis=1) > self.keep
        chance = rng.random((np.count_nonzero(drawn), self.arms))
        order[drawn] = np.where(equal[drawn], chance, order[drawn])
        return np.argpartition(-order, self.keep - 1, axis=1)[:, : self.keep]

    @cached_property
    def _contenders(self) -> tuple[IntArray, FloatArray | None]:
        """The arms that may come first, vertices and all near them, and their decoder rows."""
        if self.keep > 1 or self.decoder is None or self.decoder.shape[1] not in (1, 2):
            return np.arange(self.arms), self.decoder
        points = np.pad(self.decoder, ((0, 0), (0, 2 - self.decoder.shape[1])))
        order = np.lexsort(points.T).tolist()
        x, y = points.T.tolist()
        vertices: list[int] = []
        for way in (order, order[::-1]):  # one half of the hull, then the other
            chain: list[int] = []
            for k in way:
                while len(chain) > 1:
                    i, j = chain[-2:]
                    if (x[j] - x[i]) * (y[k] - y[i]) > (y[j] - y[i]) * (x[k] - x[i]):
                        break
                    chain.pop()
                chain.append(k)
            vertices += chain
        near = [alike(self.decoder, row, within=_NEAR) for row in set(vertices)]
        some = np.flatnonzero(np.any(near, axis=0))
        return some, self.decoder[some]


def alike(decoder: FloatArray, row: int, *, within: float = ROUNDING) -> BoolArray:
    """Return which arms tie with that of a row, whatever is released; shape (arms,)."""
    units = np.abs(decoder).max(axis=0)
    scaled = decoder / np.where(units > 0, units, 1.0)
    sizes = np.abs(scaled).sum(axis=1)
    distance = np.abs(scaled - scaled[row]).sum(axis=1)
    return np.asarray(distance <= within * (sizes + sizes[row]))


def sorted_rows(rows: NDArray[Any]) -> tuple[IntArray, BoolArray]:
    """Return an order that sorts rows, and where in it a row differs from the one before."""
    order = np.lexsort((*rows.T[::-1], np.zeros(len(rows))))
    placed, begins = rows[order], np.ones(len(rows), dtype=np.bool_)
    np.any(placed[1:] != placed[:-1], axis=1, out=begins[1:])
    return order, begins
