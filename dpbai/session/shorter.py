"""A phase that ends with fewer rewards than it was planned for, at no more privacy loss.

One reward of n moves the mean of an arm by 1/n: with fewer of them, by more. The noise is widened
as the largest such move is, over all arms that the phase pulls, so that the loss of the phase stays
what it was. What is released and how it is decoded stay too: estimates are linear in the means of
the arms, so they are as unbiased, only less precise. All of this follows from how many rewards came
in, and from no reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpbai._check import FloatArray
from dpbai.noise import Gaussian, Laplace, Noise, NoNoise
from dpbai.policies import Phase

_ROUNDING = 2.0**-48  # of the factor, upwards


def shortened(phase: Phase, pulls: Sequence[int]) -> Phase:
    """Return the plan with `pulls` in place of as many as planned, or more.

    Parameters
    ----------
    phase : Phase
        With `Laplace` noise, `Gaussian` noise or none.
    pulls : sequence of int
        For each pulled arm at least 1, and at most what was planned.

    Returns
    -------
    Phase
        With the same release and decoder, and a loss no larger than that of `phase`.

    Raises
    ------
    TypeError
        If the noise is of another kind: how to widen that is not known.
    ValueError
        If `pulls` are not such numbers.
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
    norm = 1 if isinstance(noise, Laplace) else 2
    before, after = (
        max(float(np.linalg.norm(shift, norm)) for shift in plan.shifts())
        for plan in (phase, fewer)
    )
    factor = after / before * (1 + _ROUNDING)
    if isinstance(noise, Laplace):
        return replace(noise, scale=noise.scale * factor)
    return replace(noise, sigma=noise.sigma * factor)


def noise_deviations(phases: Sequence[Phase]) -> FloatArray:
    """Return the standard deviation of the noise in each estimate of the last of some phases.

    Parameters
    ----------
    phases : sequence of Phase
        Those of a run, in order, as they were executed.
    """
    decoder = phases[-1].decoder
    coordinates = np.concatenate(
        [np.full(phase.coordinates, phase.noise.standard_deviation) for phase in phases]
    )
    return np.asarray(np.linalg.norm(decoder * coordinates[-decoder.shape[1] :], axis=1))
