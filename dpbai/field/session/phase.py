"""The release of one phase on real rewards, and its plan for fewer rewards.

One reward of n moves the mean of an arm by 1/n, so with fewer rewards by more. The noise is widened
in proportion to the largest such move, so that the loss of the phase stays the same. What is
released and how it is decoded stay too: estimates are unbiased, and less precise. All of this
depends on the number of rewards only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.certificate import certify
from dpbai.field.session.noise import chosen
from dpbai.field.session.records import Release
from dpbai.field.session.rewards import array_sum
from dpbai.noise import Gaussian, Laplace, Mechanism, NoNoise
from dpbai.phase import Phase, declared

_OF_NO_SESSION = 0  # sessions count their phases from 1
_ROUNDING = 2.0**-48  # of the factor, upwards


def noisy_release(
    phase: Phase, sums: Sequence[Fraction], source: Mechanism, number: int
) -> Release:
    """Release exact sums of rewards, with noise for phase `number` of a run."""
    account = certify([phase], mechanism=source)
    return Release(
        statistic=source.add(phase.noise, exact_statistic(phase, sums), phase=number),
        epsilon=account.epsilon,
        delta=account.delta,
        remarks=account.notes,
    )


def release(
    phase: Phase, rewards: Sequence[ArrayLike], *, noise: Mechanism | None = None
) -> Release:
    """Release the statistic of a phase outside a session.

    Parameters
    ----------
    phase : Phase
        The plan, for instance a `dpbai.beyond.linearity.holdout`.
    rewards : sequence of array_like
        For each arm of `phase.pulled`, as many rewards in [0, 1] as `phase.pulls` says.
    noise : Mechanism, optional
        What draws the noise; by default `OpenDPNoise`. A `NumpyNoise` that a session uses too draws
        other noise here, but with a seed the same at each call: release only once with it.

    Returns
    -------
    Release
        Call this once: each further call on the same rewards is a further release of them.

    Raises
    ------
    TypeError, ValueError
        If the rewards are not such numbers; they are not quoted.
    """
    phase = declared(_check.kind(phase, "phase", Phase))
    source = chosen(noise)
    given = [array_sum(values) for values in _check.sequence(rewards, "rewards")]
    if (counts := tuple(count for _, count in given)) != tuple(phase.pulls):
        raise ValueError(
            f"rewards must be as many as the phase's pulls, {tuple(phase.pulls)}, got {counts}"
        )
    return noisy_release(phase, [total for total, _ in given], source, _OF_NO_SESSION)


def exact_statistic(phase: Phase, sums: Sequence[Fraction]) -> tuple[float, ...]:
    """Return `phase.release @ means` of exact sums of rewards, rounded once, shape (q,)."""
    means = [total / pulls for total, pulls in zip(sums, phase.pulls, strict=True)]
    if phase.release_matrix is None:
        return tuple(float(mean) for mean in means)
    return tuple(
        float(sum(Fraction(entry) * mean for entry, mean in zip(row, means, strict=True)))
        for row in phase.release_matrix.tolist()
    )


def shortened(phase: Phase, pulls: Sequence[int]) -> Phase:
    """Return the plan with fewer pulls, none of them 0, and with a loss that is no larger.

    TypeError if the noise is none of this library; ValueError if `pulls` are more than planned.
    """
    fewer, noise = replace(phase, pulls=tuple(pulls)), phase.noise
    if any(few > planned for few, planned in zip(fewer.pulls, phase.pulls, strict=True)):
        raise ValueError("pulls must be at most those that were planned")
    if fewer.pulls == phase.pulls or isinstance(noise, NoNoise):
        return fewer
    if not isinstance(noise, Laplace | Gaussian):
        raise TypeError(f"a phase with {type(noise).__name__} noise cannot be ended early")
    length = math.fsum if isinstance(noise, Laplace) else lambda shift: math.hypot(*shift)
    before, after = (max(length(shift.tolist()) for shift in p.shifts()) for p in (phase, fewer))
    factor = after / before * (1 + _ROUNDING) if before else 1.0
    if isinstance(noise, Laplace):
        return replace(fewer, noise=replace(noise, scale=noise.scale * factor))
    return replace(fewer, noise=replace(noise, sigma=noise.sigma * factor))


def decoded(phases: Sequence[Phase]) -> list[tuple[Phase, FloatArray]]:
    """Return the phases that the last one decodes, oldest first, with their columns of its decoder.

    Their shapes are (active arms of the last phase, coordinates of each).
    """
    last = phases[-1]
    used = phases if last.remembered else [last]
    ends = np.cumsum([phase.coordinates for phase in used])[:-1]
    return list(zip(used, np.split(last.decoder, ends, axis=1), strict=True))


def noise_deviations(phases: Sequence[Phase]) -> FloatArray:
    """Return the standard deviation of the noise in each estimate of the last phase of a run."""
    parts = [weights * phase.noise.standard_deviation for phase, weights in decoded(phases)]
    return np.asarray(np.linalg.norm(np.hstack(parts), axis=1))
