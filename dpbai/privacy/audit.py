"""What the output of a policy gives away, when its law is known on every table of a grid."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray, IntArray
from dpbai.policies.pull import Output, PullPolicy, output_law
from dpbai.privacy.tables import Table, TableGrid

LARGEST_WORK = 5e8
"""How many numbers an audit may compute, which takes about a minute or two."""

_HISTORY = 200.0  # to go on with a history takes as long as to compute so many numbers

LARGEST_MEMORY = 2.0**28
"""How many numbers it may hold at once, 2 GiB."""


@dataclass(frozen=True, eq=False)
class Audit:
    """The exact law of the outputs on a grid of tables, and the largest loss in it.

    Attributes
    ----------
    outputs : tuple
        What the policy may put out.
    log_probabilities : ndarray of shape (outputs, tables)
        Log probability of each output on each table of the grid.
    grid : TableGrid
        The tables.
    pairs : ndarray of int, shape (pairs, 2)
        Positions of the neighbouring tables.
    """

    outputs: tuple[Hashable, ...]
    log_probabilities: FloatArray
    grid: TableGrid
    pairs: IntArray

    @cached_property
    def _worst(self) -> tuple[float, int, IntArray]:
        """The largest log ratio, its output, and the pair of tables, the likelier one first."""
        worst = (0.0, 0, np.zeros(2, dtype=np.int64))
        for output, values in enumerate(self.log_probabilities):
            first, second = values[self.pairs.T]
            with np.errstate(invalid="ignore"):
                ratios = np.where(first == second, 0.0, first - second)
            if not ratios.size:
                continue
            at = int(np.argmax(np.abs(ratios)))
            if abs(ratios[at]) > worst[0]:
                pair = self.pairs[at] if ratios[at] > 0 else self.pairs[at][::-1]
                worst = (float(abs(ratios[at])), output, pair)
        return worst

    @property
    def epsilon(self) -> float:
        """The largest log ratio of the probabilities of an output on neighbouring tables.

        No event, made of several outputs, has a larger one. Infinity means that an output that is
        possible on one table is impossible on the other.
        """
        return self._worst[0]

    @property
    def event(self) -> Hashable:
        """The output that attains `epsilon`."""
        return self.outputs[self._worst[1]]

    @property
    def tables(self) -> tuple[Table, Table]:
        """The neighbouring tables that attain `epsilon`; on the first, `event` is likelier."""
        likelier, other = self._worst[2].tolist()
        return self.grid.table(likelier), self.grid.table(other)

    def delta_at(self, epsilon: float) -> float:
        """Return the least delta for which the outputs are (epsilon, delta)-private on the grid.

        It is the largest sum over outputs of max(0, P - e^epsilon P') of neighbouring tables.

        Raises
        ------
        ValueError
            If `epsilon` is negative or NaN.
        """
        epsilon = _check.non_negative(epsilon, "epsilon")
        worst = 0.0
        for pairs in (self.pairs.T, self.pairs.T[::-1]):
            total = np.zeros(len(self.pairs))
            for values in self.log_probabilities:
                this, other = values[pairs]
                # In logarithms: e^epsilon may be no double where its product with P' is one.
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
                f"{count:.3g} or more: take fewer arms or pulls, or monte_carlo_audit"
            )


def check_grid(
    grid: TableGrid, *, outputs: float, neighbours: float = 0.0, computed: float = 0.0
) -> None:
    """Raise ValueError if the outputs on all tables, and pairs of these, would be too many.

    A table has `neighbours`, or else two on each axis of the grid; to find the law of the outputs
    takes `computed` numbers.
    """
    tables = math.prod(map(float, grid.shape))
    pairs = tables * (neighbours or 2 * len(grid.blocks)) / 2
    check_work(computed=computed + pairs * outputs, held=6 * pairs + 2 * tables * outputs)


def pull_audit(
    policy: PullPolicy, *, neighbours: str = "reward", time_indexed: bool = False
) -> Audit:
    """Return the exact audit of a policy that chooses pull by pull, on all tables of 0 and 1.

    Parameters
    ----------
    policy : PullPolicy
        For K arms and T pulls there are 2^(K T) tables and up to K^(T+1) outputs.
    neighbours : {"reward", "column"}
        Whether neighbouring tables differ in one reward (Definition 2.1) or in the rewards of all
        arms at one index (the definition of table-DP).
    time_indexed : bool, default False
        Whether to audit D(policy), whose dual decision maker reads the reward of the time t instead
        of that of the n-th pull of the arm.

    Raises
    ------
    TypeError, ValueError
        If `policy` is no such policy, `neighbours` is none of these, or it would take too long.
    """
    _check.kind(policy, "policy", PullPolicy)
    _check.choice(neighbours, "neighbours", ("reward", "column"))
    grid = TableGrid.full(policy.arms, policy.budget)
    alike = 2.0 * len(grid.blocks) if neighbours == "reward" else policy.budget * 2.0**policy.arms
    check_grid(grid, outputs=1, neighbours=alike)
    laws: list[dict[Output, float]] = []
    histories = 0
    for position in range(grid.size):
        laws.append(output_law(policy, grid.table(position), time_indexed=time_indexed))
        histories += len(laws[-1]) * policy.budget
        check_work(computed=histories / len(laws) * grid.size * _HISTORY)
    outputs = tuple(sorted(set().union(*laws)))
    check_grid(grid, outputs=len(outputs), neighbours=alike)
    probabilities = np.array([[law.get(output, 0.0) for law in laws] for output in outputs])
    with np.errstate(divide="ignore"):
        log_probabilities = np.log(probabilities)
    pairs = grid.neighbours() if neighbours == "reward" else grid.column_neighbours()
    return Audit(outputs, log_probabilities, grid, pairs)
