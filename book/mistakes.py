"""Engines with a mistake that an audit must notice, and the exact laws of two.

A mistake in a scale is a policy with another noise, and needs no engine. Those here
break what all plans rely on: that every coordinate gets noise of its own, and that
no reward is used twice. They are for policies that pull all active arms equally
often, with Laplace noise. `engine` makes runs for `dpbai.monte_carlo_audit`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbai import Laplace, Phase, Policy
from dpbai.audits import Audit, TableGrid, log_survival

MISTAKES = ("none", "shared noise", "reused noise", "reused samples")
Transcript = tuple[tuple[int, ...], ...]


def engine(mistake: str) -> Callable[..., Counter[Transcript]]:
    """Return an engine for `monte_carlo_audit` with a mistake.

    Parameters
    ----------
    mistake : {"none", "shared noise", "reused noise", "reused samples"}
        All arms of a phase get the same noise; an arm keeps its noise, in units of
        the scale, for all phases; or means are over the rewards of all phases so
        far, with noise to match.
    """
    if mistake not in MISTAKES:
        raise ValueError(f"mistake must be one of {MISTAKES}, got {mistake!r}")

    def run(
        policy: Policy, table: Any, trials: int, rng: np.random.Generator
    ) -> Counter[Transcript]:
        arms = len(policy.features)
        kept = rng.laplace(size=(trials, arms))
        ended: Counter[Transcript] = Counter()
        reached: list[tuple[tuple[int, ...], Transcript, int, NDArray[np.int64]]]
        reached = [(tuple(range(arms)), (), 0, np.arange(trials))]
        while reached:
            active, transcript, used, trial = reached.pop()
            if len(active) == 1:
                ended[transcript] = len(trial)
                continue
            phase = policy.phase(len(transcript) + 1, active)
            pulls, scale = _equal(phase)
            start, stop = 0 if mistake == "reused samples" else used, used + pulls
            means = np.array([np.mean(table[arm][start:stop]) for arm in active])
            noise = rng.laplace(size=(len(trial), len(active)))
            if mistake == "shared noise":
                noise[:] = noise[:, :1]
            if mistake == "reused noise":
                noise = kept[trial][:, active]
            released = means + noise * scale * pulls / (stop - start)
            survivors = phase.survivors(released, rng)
            for stay in np.unique(survivors, axis=0):
                here = (survivors == stay).all(axis=1)
                left = tuple(stay.tolist())
                reached.append((left, (*transcript, left), stop, trial[here]))
        return ended

    return run


def reused_samples_audit(policy: Policy) -> Audit:
    """Return the exact audit of an engine that averages all rewards so far."""
    arms = tuple(range(len(policy.features)))
    spans: list[tuple[int, int]] = []
    stop = 0
    for _, phase in _paths(policy, arms):
        if phase.index > len(spans):
            spans.append((stop, stop + _equal(phase)[0]))
            stop = spans[-1][1]
    grid = TableGrid(
        tuple(
            tuple((arm, index) for index in range(*span))
            for arm in arms
            for span in spans
        )
    )
    steps = grid.steps.reshape(grid.size, len(arms), len(spans))
    reached: dict[Transcript, NDArray[np.float64]] = {(): np.zeros(grid.size)}
    for transcript, phase in _paths(policy, arms):
        (pulls, scale), used = _equal(phase), spans[phase.index - 1][1]
        sums = steps[:, phase.active, : phase.index].sum(axis=2)
        noise = Laplace(scale * pulls / used)
        executed = replace(phase, pulls=(used,) * len(phase.pulled), noise=noise)
        before = reached.pop(transcript)
        for left, values in log_survival(executed, sums / used).items():
            reached[*transcript, left] = before + values
    values = np.stack(list(reached.values()))
    return Audit(tuple(reached), values, grid, grid.neighbours())


def _paths(
    policy: Policy, active: tuple[int, ...], past: Transcript = ()
) -> Iterator[tuple[Transcript, Phase]]:
    """Yield the plans of a policy and what survived before, early plans first."""
    if len(active) > 1:
        phase = policy.phase(len(past) + 1, active)
        yield past, phase
        for left in combinations(active, phase.keep):
            yield from _paths(policy, left, (*past, left))


def reused_noise_audit(policy: Policy) -> Audit:
    """Return the exact audit of an engine that keeps the noise of each arm.

    It is for two phases of equal pulls, of which the first keeps two arms. The
    audit holds one transcript, arms 0 and 1 and then arm 1: by symmetry the others
    lose as much.

    Notes
    -----
    In units of the scale x_i = epsilon k_i + Z_i, where Z_i is the noise and k_i
    the sum of phase 1; the sums of phase 2 move them. What remains is an integral
    over the least of x_0 and x_1.
    """
    arms = len(policy.features)
    first = policy.phase(1, range(arms))
    if first.keep != 2:
        raise ValueError(f"policy must keep 2 arms in phase 1, got {first.keep}")
    (n, scale), (m, _) = _equal(first), _equal(policy.phase(2, (0, 1)))
    if n != m:
        raise ValueError(
            f"policy must pull equally often in both phases, got {n} and {m}"
        )
    grid = TableGrid(
        tuple(
            tuple((arm, index) for index in range(start, start + n))
            for arm in range(arms)
            for start in (0, n)
        )
    )
    epsilon = 1 / (scale * n)
    kinks, reach = epsilon * np.arange(-2.0 * n, 2 * n + 1), 45 + epsilon * n
    x, weights = _rule(kinks, reach, 24 / arms)
    unit, values = Laplace(1.0), []
    for steps in grid.steps:
        k, k2 = epsilon * steps.reshape(arms, 2).T
        lead = (k[1] - k2[1]) - (
            k[0] - k2[0]
        )  # arm 1 wins if x_1 - x_0 exceeds this
        dropped = unit.log_cdf(x - k[2:, None]).sum(axis=0)
        least = unit.log_density(x - k[0]) + unit.log_cdf(k[1] - x - max(lead, 0))
        integrand = np.exp(least + dropped)
        if lead < 0:
            between = np.exp(unit.log_cdf(x - lead - k[0])) - np.exp(
                unit.log_cdf(x - k[0])
            )
            integrand += np.exp(unit.log_density(x - k[1]) + dropped) * between
        values.append(math.log(weights @ integrand))
    return Audit((((0, 1), (1,)),), np.array([values]), grid, grid.neighbours())


def _rule(
    kinks: NDArray[np.float64], reach: float, step: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of Gauss's rule between the kinks, up to `reach`."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    edges = np.union1d(
        kinks, np.linspace(-reach, reach, math.ceil(2 * reach / step) + 1)
    )
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * weights).ravel()


def _equal(phase: Phase) -> tuple[int, float]:
    """Return the pulls of each arm, and the scale of the noise on its mean."""
    if phase.pulled != phase.active or len(set(phase.pulls)) != 1:
        raise ValueError("policy must pull all active arms equally often")
    if not isinstance(phase.noise, Laplace):
        raise ValueError(f"policy must have Laplace noise, got {phase.noise}")
    return phase.pulls[0], phase.noise.scale
