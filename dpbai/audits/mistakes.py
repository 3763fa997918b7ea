"""Engines with a mistake put in on purpose: what an audit must notice, and on which plans it can.

A mistake in a scale is a policy with another noise, and needs no engine. Those here break what all
plans rely on: that every coordinate gets noise of its own, and that no reward is used twice. They
are for policies that pull all active arms equally often, with Laplace noise. `engine` makes runs
for `monte_carlo_audit`; the two audits know the exact law of the transcripts.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray, IntArray
from dpbai.audits.audit import Audit, TableGrid, check_grid, check_work
from dpbai.audits.exact_audit import audited, blocks_of
from dpbai.audits.monte_carlo_audit import RewardTable, Run, runs_from
from dpbai.audits.survivors import rule
from dpbai.noise import Laplace
from dpbai.phase import Phase, Policy, arms_of
from dpbai.plans import Reads, Stage, Transcript

MISTAKES = ("none", "shared noise", "reused noise", "reused samples")


def engine(mistake: str) -> Run:
    """Return an engine for `monte_carlo_audit` with a mistake.

    Parameters
    ----------
    mistake : {"none", "shared noise", "reused noise", "reused samples"}
        All arms of a phase get the same noise; an arm keeps its noise, in units of the scale, for
        all phases; or means are over the rewards of all phases so far, with noise to match.

    Raises
    ------
    ValueError
        If `mistake` is none of these.
    """
    _check.choice(mistake, "mistake", MISTAKES)

    def run(
        policy: Policy, table: RewardTable, trials: int, rng: np.random.Generator
    ) -> Counter[Transcript]:
        kept = rng.laplace(size=(trials, arms_of(policy)))

        def noise(phase: Phase, trials: IntArray) -> FloatArray:
            _, scale = _equal(phase)
            drawn = phase.noise.sample(rng, (len(trials), len(phase.active)))
            if mistake == "shared noise":
                drawn[:] = drawn[:, :1]
            return scale * kept[trials][:, phase.active] if mistake == "reused noise" else drawn

        first = (_Reusing if mistake == "reused samples" else Stage).first(policy)
        return runs_from(first, table, trials, rng, noise)

    return run


class _Reusing(Stage):
    """A stage of an engine whose means are over all rewards so far, with noise to match."""

    @property
    def executed(self) -> Phase:
        """The plan with all these pulls, and noise that is narrower in proportion."""
        pulls, scale = _equal(self.phase)
        used = tuple(stop for _, _, stop in self.reads)
        return replace(self.phase, pulls=used, noise=Laplace(scale * pulls / used[0]))

    @property
    def reads(self) -> Reads:
        """Rewards of the phases before, and its own."""
        return tuple((arm, 0, stop) for arm, _, stop in super().reads)


def reused_samples_audit(policy: Policy) -> Audit:
    """Return the exact audit of an engine whose phases average all rewards so far.

    Raises
    ------
    ValueError
        If `policy` has other plans, or it would take too long.
    """
    return audited(_Reusing.first(policy))


def reused_noise_audit(policy: Policy) -> Audit:
    """Return the exact audit of two phases of equal pulls, of which the first keeps two arms.

    Arms keep their noise. The audit holds one transcript, arms 0 and 1 and then arm 1: by symmetry
    the others lose as much.

    Raises
    ------
    ValueError
        If `policy` has other plans, or it would take too long.

    Notes
    -----
    In units of the scale x_i = epsilon k_i + Z_i, where Z_i is the noise and k_i the sum of phase
    1; the sums of phase 2 move them. What remains is an integral over the least of x_0 and x_1.
    """
    arms = arms_of(policy)
    first = policy.phase(1, range(arms))
    if first.keep != 2:
        raise ValueError(f"policy must keep 2 arms in phase 1, got {first.keep}")
    (n, scale), (m, _) = _equal(first), _equal(policy.phase(2, (0, 1)))
    if n != m:
        raise ValueError(f"policy must pull equally often in both phases, got {n} and {m}")
    reads = tuple((arm, *span) for arm in range(arms) for span in ((0, n), (n, 2 * n)))
    grid = TableGrid(blocks_of([reads]))
    check_grid(grid, outputs=math.comb(arms, 2) * 2)
    epsilon = 1 / (scale * n)
    reach, step, kinks = 45 + epsilon * n, 24 / arms, epsilon * np.arange(-2.0 * n, 2 * n + 1)
    check_work(computed=24 * (2 * reach / step + kinks.size) * arms * float(grid.size))
    (x,), (log_weights,) = rule(np.array([-reach]), np.array([reach]), kinks[None], step)
    unit, values = Laplace(1.0), []
    for steps in grid.steps:
        k, k2 = epsilon * steps.reshape(arms, 2).T
        lead = (k[1] - k2[1]) - (k[0] - k2[0])  # arm 1 wins if x_1 - x_0 exceeds this
        dropped = unit.log_cdf(x - k[2:, None]).sum(axis=0)
        first_least = unit.log_density(x - k[0]) + unit.log_cdf(k[1] - x - max(lead, 0))
        integrand = np.exp(first_least + dropped)
        if lead < 0:
            first_between = np.exp(unit.log_cdf(x - lead - k[0])) - np.exp(unit.log_cdf(x - k[0]))
            integrand += np.exp(unit.log_density(x - k[1]) + dropped) * first_between
        values.append(math.log(np.exp(log_weights) @ integrand))
    return Audit((((0, 1), (1,)),), np.array([values]), grid, grid.neighbours())


def _equal(phase: Phase) -> tuple[int, float]:
    """Return the pulls of each arm, and the scale of the noise on its mean."""
    if phase.pulled != phase.active or len(set(phase.pulls)) != 1:
        raise ValueError("policy must pull all active arms equally often")
    if not isinstance(phase.noise, Laplace):
        raise ValueError(f"policy must have Laplace noise, got {phase.noise}")
    return phase.pulls[0], phase.noise.scale
