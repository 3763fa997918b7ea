"""The exact law of all outputs of an elimination policy, on every small reward table.

The output is the transcript: the survivors of each phase, the last of which is recommended. Its
probability is a product over phases, and each factor depends on the sums of the rewards that the
phase reads. If phases remember earlier releases, it is one function of all these sums. The n-th
pull of an arm gives its n-th reward, so no reward is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.audits.audit import Audit, Entry, TableGrid, check_grid, check_work
from dpbai.audits.survivors import BLOCK, Survivors, log_joint_survival, survival_work
from dpbai.phase import Phase, Policy
from dpbai.plans import Reads, Stage, Transcript

_PLAN = 1e4  # the cost of a plan, in computed numbers


def exact_audit(policy: Policy, *, reward_bound: float = 1.0) -> Audit:
    """Return the exact law of the transcript on all small reward tables, and its largest loss.

    The loss is at most that of the certificate, which holds for all tables and for the releases
    themselves. With few pulls it is less. For two arms with n pulls each and Laplace noise, it is
    epsilon - log(1 + epsilon / (2 + (n - 1) epsilon)).

    Parameters
    ----------
    policy : Policy
        A policy with few arms and pulls. Its phases release independent means of any number of
        arms, or decode at most two coordinates. If they remember earlier releases and there is
        noise, all phases together release at most two coordinates.
    reward_bound : float, default 1
        The tables have entries 0 and `reward_bound`. If it exceeds 1, the audit shows the loss for
        rewards outside the model.

    Raises
    ------
    ValueError
        If the audit would take more than a minute or two, or cannot handle the policy; then there
        is `monte_carlo_audit`.
    """
    reward_bound = _check.positive(reward_bound, "reward_bound")
    first = Stage.first(policy)
    plans, computed, ends = {}, 0.0, 1.0
    for stage in first.all_from():
        phases = [*stage.remembered, stage.phase]
        reads = stage.reads[-len(phases) :]
        plans[stage.transcript] = phases, reads
        sets = math.comb(len(stage.active), stage.phase.keep)
        ends += sets - 1
        sums = math.prod(stop - start + 1.0 for read in reads for _, start, stop in read)
        work = survival_work(phases[-1], reward_bound, phases[:-1])
        computed += sums * work + sets * (stage.phase.keep > 1) * _PLAN
        check_work(computed=computed, held=sums * sets + min(sums, BLOCK) * work)
    blocks = _blocks(chain.from_iterable(reads for _, reads in plans.values()))
    grid = TableGrid(blocks, (0.0, reward_bound), len(first.active))
    check_grid(grid, outputs=ends + len(plans), computed=computed)
    # The longest paths first: they find out early if a law cannot be computed.
    laws = {past: _survival(past, *plans[past], grid) for past in sorted(plans, key=len)[::-1]}
    reached: dict[Transcript, FloatArray] = {(): np.zeros(grid.size)}
    for past in plans:  # a plan comes after those that lead to it
        if (before := reached.pop(past, None)) is not None:
            for kept, values in laws[past].items():
                reached[*past, kept] = values if len(plans[past][0]) > 1 else before + values
    return Audit(tuple(reached), np.stack(list(reached.values())), grid, grid.neighbours())


def _blocks(all_reads: Iterable[Reads]) -> tuple[tuple[Entry, ...], ...]:
    """Return blocks of consecutive rewards that each phase reads as a whole or not at all."""
    cuts: dict[int, set[int]] = {}
    for arm, start, stop in chain.from_iterable(all_reads):
        cuts.setdefault(arm, set()).update((start, stop))
    return tuple(
        tuple((arm, index) for index in range(start, stop))
        for arm in sorted(cuts)
        for start, stop in pairwise(sorted(cuts[arm]))
    )


def _survival(
    past: Transcript, phases: list[Phase], reads: Sequence[Reads], grid: TableGrid
) -> dict[Survivors, FloatArray]:
    """Return the log law of the survivors of the last phase on each table of the grid.

    With remembered phases, it is the joint law with their survivors being those in `past`.
    """
    means = []
    for phase, read in zip(phases, reads, strict=True):
        within = [
            [arm == block[0][0] and start <= block[0][1] < stop for arm, start, stop in read]
            for block in grid.blocks
        ]
        sums = grid.steps @ np.array(within, dtype=np.int64).reshape(len(within), len(read))
        means.append(sums * grid.rewards[1] / np.array(phase.pulls))
    return log_joint_survival(phases, past[: len(phases) - 1], means)
