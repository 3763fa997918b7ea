"""Reward tables and their neighbours, run (Sec. 2 and the appendix on table-DP).

A table holds the reward of each arm at each index: of its n-th pull, or of time t for the dual
decision maker. Audits go through all tables of two rewards, low and high, on a grid. Where the
order of some rewards cannot matter, because they are summed, the grid counts the high ones only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbai._check import IntArray

Table = tuple[tuple[float, ...], ...]
"""The rewards of each arm; rows may differ in length."""

Entry = tuple[int, int]
"""An arm, and the index of a reward in its row, both from 0."""


@dataclass(frozen=True)
class TableGrid:
    """All reward tables with entries low and high, up to order within blocks of rewards.

    Parameters
    ----------
    blocks : sequence of sequences of (arm, index)
        Each entry of the table in one block. A block of n rewards is one axis of the grid, with
        n + 1 steps: at step k its first k rewards are high.
    rewards : (float, float), default (0, 1)
        The low and the high reward.
    arms : int, default 0
        Tables have at least so many rows; those of arms that are in no block are empty.
    """

    blocks: tuple[tuple[Entry, ...], ...]
    rewards: tuple[float, float] = (0.0, 1.0)
    arms: int = 0

    @classmethod
    def full(cls, arms: int, budget: int) -> TableGrid:
        """Return the grid of all 2^(K T) tables, each entry a block of its own."""
        return cls(tuple(((arm, index),) for index in range(budget) for arm in range(arms)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Steps of each axis."""
        return tuple(len(block) + 1 for block in self.blocks)

    @property
    def size(self) -> int:
        """The number of tables."""
        return math.prod(self.shape)

    @cached_property
    def steps(self) -> IntArray:
        """How many rewards of each block are high, shape (size, blocks)."""
        return np.indices(self.shape).reshape(len(self.blocks), -1).T

    def table(self, position: int) -> Table:
        """Return the table at a position of the grid, 0 to size - 1."""
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
        """Return the pairs that differ in rewards of one index, of any arms (table-DP).

        Meant for `full` grids, where each entry is a block of its own.
        """
        columns: dict[int, list[int]] = {}
        for axis, ((_, index),) in enumerate(self.blocks):
            columns.setdefault(index, []).append(axis)
        return self._pairs(columns.values(), lambda count: np.triu_indices(count, 1))

    def _pairs(
        self,
        groups: Iterable[list[int]],
        chosen: Callable[[int], tuple[IntArray, IntArray]],
    ) -> IntArray:
        """Return pairs of tables that differ along the axes of one group, in the steps chosen."""
        positions = np.arange(self.size).reshape(self.shape)
        pairs = [np.empty((0, 2), dtype=np.int64)]
        for axes in groups:
            count = math.prod(self.shape[axis] for axis in axes)
            lines = np.moveaxis(positions, axes, range(len(axes))).reshape(count, -1)
            pairs.append(lines[np.array(chosen(count))].reshape(2, -1).T)
        return np.concatenate(pairs)
