"""Privacy losses of outputs whose law is known on every reward table of a grid.

A table holds the rewards of each arm by their index: that of the n-th pull of the arm or, for the
dual decision maker, that of time t. Audits enumerate all tables whose rewards are either low or
high. If the rewards of a block are summed, their order does not matter, and the grid has one table
for each number of high rewards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray, IntArray

Table = tuple[tuple[float, ...], ...]
"""The rewards of each arm, in rows that may differ in length."""

Entry = tuple[int, int]
"""An arm, and the index of a reward in its row, both from 0."""

LARGEST_WORK = 5e8  # numbers that an audit may compute, in about one or two minutes
LARGEST_MEMORY = 2.0**28  # numbers that it may hold at once, in 2 GiB


@dataclass(frozen=True)
class TableGrid:
    """All reward tables with low and high entries, up to the order within blocks of rewards.

    Parameters
    ----------
    blocks : sequence of sequences of (arm, index)
        The entries of the table, each in one block. A block of n rewards is one axis of the grid,
        with n + 1 steps: at step k its first k rewards are high.
    rewards : (float, float), default (0, 1)
        The low and the high reward.
    arms : int, default 0
        The least number of rows; the rows of arms without a block are empty.
    """

    blocks: tuple[tuple[Entry, ...], ...]
    rewards: tuple[float, float] = (0.0, 1.0)
    arms: int = 0

    @classmethod
    def full(cls, arms: int, budget: int) -> TableGrid:
        """Return the grid of all 2^(K T) tables, in which each entry is a block."""
        return cls(tuple(((arm, index),) for index in range(budget) for arm in range(arms)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of steps on each axis."""
        return tuple(len(block) + 1 for block in self.blocks)

    @property
    def size(self) -> int:
        """The number of tables."""
        return math.prod(self.shape)

    @cached_property
    def steps(self) -> IntArray:
        """The number of high rewards in each block, shape (size, blocks)."""
        return np.indices(self.shape).reshape(len(self.blocks), -1).T

    def table(self, position: int) -> Table:
        """Return the table at a position in the grid, from 0 to size - 1."""
        low, high = self.rewards
        steps = np.unravel_index(position, self.shape)
        entries = sorted(
            (*entry, high if rank < step else low)
            for block, step in zip(self.blocks, steps, strict=True)
            for rank, entry in enumerate(block)
        )
        arms = max(self.arms, *(arm + 1 for arm, *_ in entries), 0)
        return tuple(tuple(value for at, _, value in entries if at == arm) for arm in range(arms))

    def neighbours(self) -> IntArray:
        """Return the pairs of tables that differ in one reward, shape (pairs, 2)."""
        axes = [[axis] for axis in range(len(self.blocks))]
        return self._pairs(axes, lambda count: (np.arange(count - 1), np.arange(1, count)))

    def column_neighbours(self) -> IntArray:
        """Return the pairs of tables of a `full` grid that differ at one index only (table-DP)."""
        columns: dict[int, list[int]] = {}
        for axis, ((_, index),) in enumerate(self.blocks):
            columns.setdefault(index, []).append(axis)
        return self._pairs(columns.values(), lambda count: np.triu_indices(count, 1))

    def _pairs(
        self, groups: Iterable[list[int]], chosen: Callable[[int], tuple[IntArray, IntArray]]
    ) -> IntArray:
        """Return pairs of tables that differ in one group of axes, by steps given by `chosen`."""
        positions = np.arange(self.size).reshape(self.shape)
        pairs = [np.empty((0, 2), dtype=np.int64)]
        for axes in groups:
            count = math.prod(self.shape[axis] for axis in axes)
            lines = np.moveaxis(positions, axes, range(len(axes))).reshape(count, -1)
            pairs.append(lines[np.array(chosen(count))].reshape(2, -1).T)
        return np.concatenate(pairs)


@dataclass(frozen=True, eq=False)
class Audit:
    """The exact law of the outputs on each table of a grid, and the largest privacy loss.

    Attributes
    ----------
    outputs : tuple
        The possible outputs of the policy.
    log_probabilities : ndarray of shape (outputs, tables)
        The log probability of each output on each table of the grid.
    grid : TableGrid
        The tables.
    pairs : ndarray of int, shape (pairs, 2)
        The positions of the neighbouring tables in the grid.
    """

    outputs: tuple[Hashable, ...]
    log_probabilities: FloatArray
    grid: TableGrid
    pairs: IntArray

    def __repr__(self) -> str:  # without the arrays, which are long
        return (
            f"Audit(epsilon={self.epsilon:.6g}, event={self.event}, outputs={len(self.outputs)}, "
            f"tables={self.grid.size})"
        )

    @cached_property
    def _worst(self) -> tuple[float, int, IntArray]:
        """The largest log ratio, its output, and the pair of tables, the more likely one first."""
        worst = (0.0, 0, np.zeros(2, dtype=np.int64))
        for output, values in enumerate(self.log_probabilities):
            first, second = values[self.pairs.T]
            with np.errstate(invalid="ignore"):
                ratios = np.where(first == second, 0.0, first - second)
            if np.abs(ratios).max(initial=worst[0]) > worst[0]:
                at = int(np.argmax(np.abs(ratios)))
                pair = self.pairs[at] if ratios[at] > 0 else self.pairs[at][::-1]
                worst = (float(abs(ratios[at])), output, pair)
        return worst

    @property
    def epsilon(self) -> float:
        """The largest log ratio of the probabilities of an output on neighbouring tables.

        No set of several outputs has a larger log ratio. It is infinite if an output is impossible
        on only one of the two tables.
        """
        return self._worst[0]

    @property
    def event(self) -> Hashable:
        """The output that attains `epsilon`."""
        return self.outputs[self._worst[1]]

    @property
    def tables(self) -> tuple[Table, Table]:
        """The neighbouring tables that attain `epsilon`; `event` is more likely on the first."""
        likelier, other = self._worst[2].tolist()
        return self.grid.table(likelier), self.grid.table(other)

    def delta_at(self, epsilon: float) -> float:
        """Return the least delta for which the outputs are (epsilon, delta)-private on the grid.

        It is the maximum, over neighbouring tables, of the sum of max(0, P - e^epsilon P') over all
        outputs. `epsilon` is at least 0.
        """
        epsilon = _check.non_negative(epsilon, "epsilon")
        worst = 0.0
        for pairs in (self.pairs.T, self.pairs.T[::-1]):
            total = np.zeros(len(self.pairs))
            for values in self.log_probabilities:
                this, other = values[pairs]
                # In logarithms, since e^epsilon may overflow.
                with np.errstate(invalid="ignore"):
                    below = np.where(np.isneginf(other), -math.inf, epsilon + other - this)
                total += np.exp(this) * -np.expm1(np.minimum(below, 0))
            worst = max(worst, float(total.max(initial=0.0)))
        return worst


def check_work(*, computed: float = 0.0, held: float = 0.0) -> None:
    """Raise ValueError if an exact audit would take too much time or memory."""
    for count, most, what in ((computed, LARGEST_WORK, "compute"), (held, LARGEST_MEMORY, "hold")):
        if count > most:
            raise ValueError(
                f"an exact audit may {what} at most {most:.3g} numbers, and this one would {what} "
                f"{count:.3g} or more. Use fewer arms or pulls, or monte_carlo_audit"
            )


def check_grid(
    grid: TableGrid, *, outputs: float, neighbours: float = 0.0, computed: float = 0.0
) -> None:
    """Raise ValueError if the laws of the outputs on all tables and pairs are too much work.

    Each table has so many `neighbours`, by default two on each axis of the grid. `computed` numbers
    are computed for the laws.
    """
    tables = math.prod(map(float, grid.shape))
    pairs = tables * (neighbours or 2 * len(grid.blocks)) / 2
    check_work(computed=computed + pairs * outputs, held=6 * pairs + 2 * tables * outputs)
