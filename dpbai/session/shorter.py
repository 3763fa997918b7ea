"""A phase that ends with fewer rewards than it was planned for, at no more privacy loss.

One reward of n moves the mean of an arm by 1/n: with fewer of them, by more. The noise is widened
as the largest such move is, over all arms that the phase pulls, so that the loss of the phase stays
what it was. What is released and how it is decoded stay too: estimates are linear in the means of
the arms, so they are as unbiased, only less precise. All of this follows from how many rewards came
in, and from no reward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpbai._check import FloatArray
from dpbai.noise import Gaussian, Laplace, Noise, NoNoise
from dpbai.policies import Phase

_ROUNDING = 2.0**-48  # of the factor, upwards


def shortened(phase: Phase, pulls: Sequence[int]) -> Phase:
    """Return the plan with `pulls` in place of as many, or more, and a loss that is no larger.

    TypeError if the noise is neither `Laplace` nor `Gaussian` nor none: how to widen another is not
    known. ValueError if `pulls` are not at least 1 for each pulled arm, and at most what it had.
    """
    fewer = replace(phase, pulls=tuple(pulls))
    if fewer.pulls == phase.pulls:
        return phase
    if any(few > planned for few, planned in zip(fewer.pulls, phase.pulls, strict=True)):
        raise ValueError("pulls must be at most those that were planned")
    return replace(fewer, noise=_widened(phase, fewer))


def _widened(phase: Phase, fewer: Phase) -> Noise:
    noise = phase.noise
    if isinstance(noise, NoNoise):
        return noise
    if not isinstance(noise, Laplace | Gaussian):
        raise TypeError(f"a phase with {type(noise).__name__} noise cannot be ended early")
    length = math.fsum if isinstance(noise, Laplace) else lambda shift: math.hypot(*shift)
    before, after = (max(length(shift.tolist()) for shift in p.shifts()) for p in (phase, fewer))
    factor = after / before * (1 + _ROUNDING) if before else 1.0
    if isinstance(noise, Laplace):
        return replace(noise, scale=noise.scale * factor)
    return replace(noise, sigma=noise.sigma * factor)


def noise_deviations(phases: Sequence[Phase]) -> FloatArray:
    """Return the standard deviation of the noise in each estimate of the last phase of a run."""
    decoder = phases[-1].decoder
    coordinates = np.repeat(
        [phase.noise.standard_deviation for phase in phases],
        [phase.coordinates for phase in phases],
    )
    return np.asarray(np.linalg.norm(decoder * coordinates[-decoder.shape[1] :], axis=1))
