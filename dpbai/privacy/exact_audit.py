"""The exact law of everything that an elimination policy lets out, on every small reward table.

The output is the transcript: the survivors of each phase, the last of them recommended. Its
probability is a product over phases, each a function of the sums of the rewards that the phase
reads; or, if phases remember earlier releases, one function of all these sums. The n-th pull of an
arm gives its n-th reward, so no reward is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations, pairwise

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.policies import Phase, Policy
from dpbai.policies.phase import arms_of, planned, remembers
from dpbai.privacy.audit import Audit, check_grid, check_work
from dpbai.privacy.survivors import BLOCK, Survivors, log_joint_survival, survival_work
from dpbai.privacy.tables import Entry, TableGrid

_PLAN = 1e4  # to plan a phase takes as long as to compute so many numbers

Transcript = tuple[Survivors, ...]
"""The arms that survive phase 1, phase 2, and so on to the one recommended."""

Reads = tuple[tuple[int, int, int], ...]
"""An arm, and the first and last (excluded) index of its rewards that a phase reads, by arm."""

Executed = Callable[[Phase, Sequence[int]], tuple[Phase, Reads]]
"""What an engine makes of a plan, and reads for it, after so many pulls of each arm."""


def exact_audit(policy: Policy, *, reward_bound: float = 1.0) -> Audit:
    """Return the exact law of the transcript on all small reward tables, and its largest loss.

    Parameters
    ----------
    policy : Policy
        Few arms and pulls: time and memory grow fast, and what would take more than a minute or two
        is refused. Phases release independent means of any number of arms, or decode at most two
        coordinates. If they remember, all phases together release at most two coordinates, unless
        there is no noise.
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
        If the plans are too large, or decode more coordinates; `monte_carlo_audit` takes them.

    Notes
    -----
    With few pulls the output gives away less than the release: with two arms, n pulls of each, and
    Laplace noise, the loss is epsilon - log(1 + epsilon / (2 + (n - 1) epsilon)).
    """
    return audited(policy, _as_planned, _check.positive(reward_bound, "reward_bound"))


def audited(policy: Policy, executed: Executed, reward_bound: float = 1.0) -> Audit:
    """Return the exact audit of an engine, which may make a mistake (`mistakes`)."""
    arms = arms_of(policy)
    plans, computed, ends = {}, 0.0, 1.0
    for past, (phases, reads) in _plans(policy, executed, (), (0,) * arms, (), ()):
        plans[past] = phases, reads
        phase = phases[-1]
        sets = math.comb(len(phase.active), phase.keep)
        ends += sets - 1
        sums = math.prod(stop - start + 1.0 for read in reads for _, start, stop in read)
        work = survival_work(phase, reward_bound, phases[:-1])
        computed += sums * work + sets * (phase.keep > 1) * _PLAN
        check_work(computed=computed, held=sums * sets + min(sums, BLOCK) * work)
    grid = TableGrid(blocks_of(reads for _, reads in plans.values()), (0.0, reward_bound), arms)
    check_grid(grid, outputs=ends + len(plans), computed=computed)
    # The longest paths first: what has no exact law is refused before much has been computed.
    laws = {past: _survival(past, *plans[past], grid) for past in sorted(plans, key=len)[::-1]}
    reached: dict[Transcript, FloatArray] = {(): np.zeros(grid.size)}
    for past in plans:  # in which what leads to a plan comes before it
        if (before := reached.pop(past, None)) is not None:
            for kept, values in laws[past].items():
                reached[*past, kept] = values if remembers(policy) else before + values
    return Audit(tuple(reached), np.stack(list(reached.values())), grid, grid.neighbours())


def _as_planned(phase: Phase, pulled: Sequence[int]) -> tuple[Phase, Reads]:
    rows = zip(phase.pulled, phase.pulls, strict=True)
    return phase, tuple((arm, pulled[arm], pulled[arm] + pulls) for arm, pulls in rows)


def _plans(
    policy: Policy,
    executed: Executed,
    past: Transcript,
    pulled: tuple[int, ...],
    phases: tuple[Phase, ...],
    reads: tuple[Reads, ...],
) -> Iterator[tuple[Transcript, tuple[tuple[Phase, ...], tuple[Reads, ...]]]]:
    """Yield each beginning of a transcript with the plan that follows and the rewards it reads.

    The phases that are remembered stand before it, with what they read.
    """
    active = past[-1] if past else tuple(range(arms_of(policy)))
    if len(active) == 1:
        return
    planned_phase = planned(policy, len(past) + 1, active, spent=sum(pulled), past=phases)
    phase, read = executed(planned_phase, pulled)
    path = (*phases, phase), (*reads, read)
    yield past, path
    after = list(pulled)
    for arm, _, stop in read:
        after[arm] = stop
    for kept in combinations(active, phase.keep):
        known = path if remembers(policy) else ((), ())
        yield from _plans(policy, executed, (*past, kept), tuple(after), *known)


def blocks_of(all_reads: Iterable[tuple[Reads, ...]]) -> tuple[tuple[Entry, ...], ...]:
    """Return the runs of rewards of each arm that phases read as a whole or not at all."""
    cuts: dict[int, set[int]] = {}
    for path in all_reads:
        for arm, start, stop in chain.from_iterable(path):
            cuts.setdefault(arm, set()).update((start, stop))
    return tuple(
        tuple((arm, index) for index in range(start, stop))
        for arm in sorted(cuts)
        for start, stop in pairwise(sorted(cuts[arm]))
    )


def _survival(
    past: Transcript, phases: tuple[Phase, ...], reads: tuple[Reads, ...], grid: TableGrid
) -> dict[Survivors, FloatArray]:
    """Return the log law of the survivors of the last phase on each table of the grid.

    If phases are remembered, it is the joint law with what they keep, as in `past`.
    """
    columns = list(chain.from_iterable(reads))
    counts = np.zeros((grid.size, len(columns)), dtype=np.int64)
    for axis, block in enumerate(grid.blocks):
        arm, index = block[0]
        for column, (read, start, stop) in enumerate(columns):
            if arm == read and start <= index < stop:
                counts[:, column] += grid.steps[:, axis]
    ends = np.cumsum([len(read) for read in reads])[:-1]
    means = [
        sums * grid.rewards[1] / np.array(phase.pulls)
        for phase, sums in zip(phases, np.split(counts, ends, axis=1), strict=True)
    ]
    return log_joint_survival(phases, past[: len(phases) - 1], means)
