"""Which arms survive a phase: those with the largest estimates, where ties are broken at random.

Estimates are `decoder @ released`. Arms whose rows of the decoder are equal to within rounding
(`alike`) always tie. Two other arms tie if the difference of their rows, times the release, is 0 to
within rounding: at most `ROUNDING` times the sum over j of `abs(difference[j])` times
`abs(released[j]) + reach[j]`, where `reach[j]` bounds the statistic for rewards in [0, 1]. So the
units of features and arms do not matter, nor does cancellation between nearly equal rows. The rule
depends on the plan and its release only, so it costs no privacy. Arms that tie for the last places
are equally likely to survive, so relabelling the arms relabels the law of the survivors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbai._check import BoolArray, FloatArray, IntArray

ROUNDING = 2.0**-36
"""Relative. Rounding errors of estimates are smaller, and true differences are rarely smaller."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ranking of the arms in a phase, with `decoder`, `reach` and `keep` of its plan."""

    decoder: FloatArray | None
    reach: FloatArray
    keep: int

    @property
    def arms(self) -> int:
        """The number of active arms."""
        return len(self.reach if self.decoder is None else self.decoder)

    def tied(self, released: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Return which arms surely survive, and which tie for the last places, (trials, arms)."""
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

    def survivors(self, released: FloatArray, rng: np.random.Generator) -> BoolArray:
        """Return which arms survive, shape (arms, trials)."""
        if self.keep == self.arms:
            return np.ones((self.arms, len(released)), dtype=np.bool_)
        columns = np.ascontiguousarray(released.T)
        estimates, sizes = columns, np.maximum(columns.max(axis=1), -columns.min(axis=1))
        sizes = sizes + self.reach
        if self.decoder is not None:
            estimates, sizes = self.decoder @ columns, np.abs(self.decoder) @ sizes
        # Arms that tie, including those whose rows are alike, have estimates that differ by less.
        margin = 4 * ROUNDING * len(columns) * sizes.max()
        last = self.arms - self.keep
        first = self.keep == 1
        least = estimates.max(axis=0) if first else np.partition(estimates, last, axis=0)[last]
        kept = np.asarray(estimates >= least - margin)
        if np.count_nonzero(kept) > self.keep * len(released):
            unclear = np.flatnonzero(kept.sum(axis=0) > self.keep)
            kept[:, unclear] = self._drawn(released[unclear], rng).T
        return kept

    def _drawn(self, released: FloatArray, rng: np.random.Generator) -> BoolArray:
        """Return which arms survive in trials in which some may tie, shape (trials, arms)."""
        sure, equal = self.tied(released)
        order = np.where(sure, 2.0, np.where(equal, 1.0, -1.0))
        drawn = (sure | equal).sum(axis=1) > self.keep
        chance = rng.random((np.count_nonzero(drawn), self.arms))
        order[drawn] = np.where(equal[drawn], chance, order[drawn])
        kept = np.zeros(order.shape, dtype=np.bool_)
        chosen = np.argpartition(-order, self.keep - 1, axis=1)[:, : self.keep]
        np.put_along_axis(kept, chosen, True, axis=1)
        return kept


def alike(decoder: FloatArray, row: int) -> BoolArray:
    """Return which rows of a decoder are equal to a given row within rounding; shape (arms,)."""
    units = np.abs(decoder).max(axis=0)
    scaled = decoder / np.where(units > 0, units, 1.0)
    sizes = np.abs(scaled).sum(axis=1)
    distance = np.abs(scaled - scaled[row]).sum(axis=1)
    return np.asarray(distance <= ROUNDING * (sizes + sizes[row]))


def sorted_rows(rows: NDArray[Any]) -> tuple[IntArray, BoolArray]:
    """Return an order that sorts rows, and where in it a row differs from the one before."""
    order = np.lexsort((*rows.T[::-1], np.zeros(len(rows))))
    placed, begins = rows[order], np.ones(len(rows), dtype=np.bool_)
    np.any(placed[1:] != placed[:-1], axis=1, out=begins[1:])
    return order, begins
