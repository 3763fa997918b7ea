"""The exact law of everything that an elimination policy lets out, on every small reward table.

The output is the transcript: the survivors of each phase, the last of them recommended. Its
probability is a product over phases, each a function of the sums of the rewards that the phase
reads. The n-th pull of an arm gives its n-th reward, so no reward is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.policies import Phase, Policy
from dpbai.policies.phase import arms_of, planned
from dpbai.privacy.audit import Audit, check_grid, check_work
from dpbai.privacy.survivors import BLOCK, Survivors, log_survival, survival_work
from dpbai.privacy.tables import Entry, TableGrid

_PLAN = 1e4  # to plan a phase takes as long as to compute so many numbers

Transcript = tuple[Survivors, ...]
"""The arms that survive phase 1, phase 2, and so on to the one recommended."""

Reads = tuple[tuple[int, int, int], ...]
"""An arm, and the first and last (excluded) index of its rewards that a phase reads, by arm."""


def exact_audit(policy: Policy, *, reward_bound: float = 1.0) -> Audit:
    """Return the exact law of the transcript on all small reward tables, and its largest loss.

    Parameters
    ----------
    policy : Policy
        Few arms and pulls: time and memory grow fast, and what would take more than a minute or two
        is refused. Phases release independent means of any number of arms, or decode at most two
        coordinates.
    reward_bound : float, default 1
        Tables have entries 0 and `reward_bound`; beyond 1 the audit shows what rewards outside the
        model cost.

    Returns
    -------
    Audit
        Its `epsilon` never exceeds that of the certificate, which holds for all tables and for the
        releases themselves.

    Raises
    ------
    ValueError
        If the plans are too large, or a phase decodes more than two coordinates.

    Notes
    -----
    With few pulls the output gives away less than the release: with two arms, n pulls of each, and
    Laplace noise, the loss is epsilon - log(1 + epsilon / (2 + (n - 1) epsilon)).
    """
    reward_bound = _check.positive(reward_bound, "reward_bound")
    arms = arms_of(policy)
    plans, computed, ends = {}, 0.0, 1.0
    for past, (phase, reads) in _plans(policy, (), (0,) * arms):
        plans[past] = phase, reads
        sets = math.comb(len(phase.active), phase.keep)
        ends += sets - 1
        sums = math.prod(pulls + 1.0 for pulls in phase.pulls)
        work = survival_work(phase, reward_bound)
        computed += sums * work + sets * (phase.keep > 1) * _PLAN
        check_work(computed=computed, held=sums * sets + min(sums, BLOCK) * work)
    blocks = _blocks(reads for _, reads in plans.values())
    grid = TableGrid(blocks, (0.0, reward_bound), arms)
    check_grid(grid, outputs=ends + len(plans), computed=computed)
    laws = {past: _survival(phase, reads, grid) for past, (phase, reads) in plans.items()}
    outputs, rows = zip(*_transcripts(laws, (), np.zeros(grid.size)), strict=True)
    return Audit(outputs, np.stack(rows), grid, grid.neighbours())


def _plans(
    policy: Policy, past: Transcript, pulled: tuple[int, ...]
) -> Iterator[tuple[Transcript, tuple[Phase, Reads]]]:
    """Yield each beginning of a transcript with the plan that follows and the rewards it reads."""
    active = past[-1] if past else tuple(range(arms_of(policy)))
    if len(active) == 1:
        return
    index = len(past) + 1
    phase = planned(policy, index, active, spent=sum(pulled))
    reads = tuple(
        (arm, pulled[arm], pulled[arm] + pulls)
        for arm, pulls in zip(phase.pulled, phase.pulls, strict=True)
    )
    yield past, (phase, reads)
    after = list(pulled)
    for arm, _, stop in reads:
        after[arm] = stop
    for kept in combinations(active, phase.keep):
        yield from _plans(policy, (*past, kept), tuple(after))


def _blocks(all_reads: Iterator[Reads]) -> tuple[tuple[Entry, ...], ...]:
    """Return the runs of rewards of each arm that phases read as a whole or not at all."""
    cuts: dict[int, set[int]] = {}
    for reads in all_reads:
        for arm, start, stop in reads:
            cuts.setdefault(arm, set()).update((start, stop))
    return tuple(
        tuple((arm, index) for index in range(start, stop))
        for arm in sorted(cuts)
        for start, stop in pairwise(sorted(cuts[arm]))
    )


def _survival(phase: Phase, reads: Reads, grid: TableGrid) -> dict[Survivors, FloatArray]:
    """Return the log law of the survivors of the phase on each table of the grid."""
    counts = np.zeros((grid.size, len(reads)), dtype=np.int64)
    for axis, block in enumerate(grid.blocks):
        arm, index = block[0]
        for column, (read, start, stop) in enumerate(reads):
            if arm == read and start <= index < stop:
                counts[:, column] += grid.steps[:, axis]
    distinct, where = np.unique(counts, axis=0, return_inverse=True)
    means = distinct * grid.rewards[1] / np.array(phase.pulls)
    law = log_survival(phase, means)
    return {kept: values[where.ravel()] for kept, values in law.items()}


def _transcripts(
    laws: dict[Transcript, dict[Survivors, FloatArray]], past: Transcript, reached: FloatArray
) -> Iterator[tuple[Transcript, FloatArray]]:
    """Yield each transcript that goes on from `past`, with its log probability on each table."""
    if past not in laws:
        yield past, reached
        return
    for kept, values in laws[past].items():
        yield from _transcripts(laws, (*past, kept), reached + values)
