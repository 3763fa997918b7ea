"""One phase, released by itself: for instance a `dpbai.linearity.holdout` beside a run."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from numpy.typing import ArrayLike

from dpbai import _check
from dpbai.policies import Phase
from dpbai.privacy.certificate import certify
from dpbai.session.noise import ReleaseNoise, chosen, exact_statistic
from dpbai.session.records import Release
from dpbai.session.rewards import array_sum

_OF_NO_SESSION = 0  # sessions count their phases from 1


def noisy_release(
    phase: Phase, sums: Sequence[Fraction], source: ReleaseNoise, number: int
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
    phase: Phase, rewards: Sequence[ArrayLike], *, noise: ReleaseNoise | None = None
) -> Release:
    """Release the statistic of a phase that belongs to no session.

    Parameters
    ----------
    phase : Phase
        The plan, for instance a `dpbai.linearity.holdout`.
    rewards : sequence of array_like
        For each arm of `phase.pulled`, as many rewards in [0, 1] as `phase.pulls` says.
    noise : ReleaseNoise, optional
        What draws the noise; by default `OpenDPNoise`. A `NumpyNoise` that a session uses too draws
        other noise here, but with a seed it draws the same at each call: release once with it.

    Returns
    -------
    Release
        Call this once: each further call on the same rewards is a further release of them.

    Raises
    ------
    TypeError, ValueError
        If the rewards are not such numbers. What they are is not told.
    """
    _check.kind(phase, "phase", Phase)
    source = chosen(noise)
    given = [array_sum(values) for values in _check.sequence(rewards, "rewards")]
    if (counts := tuple(count for _, count in given)) != tuple(phase.pulls):
        raise ValueError(
            f"rewards must be as many as the phase's pulls, {tuple(phase.pulls)}, got {counts}"
        )
    return noisy_release(phase, [total for total, _ in given], source, _OF_NO_SESSION)
