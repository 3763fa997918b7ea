"""The release of a phase: the source of its noise, its privacy loss, its plan for fewer rewards.

Laplace noise computed in floating point reaches only some of the doubles, and which ones depends on
the number that it is added to. The low bits of a released number can therefore rule out a
neighbouring data set, whatever epsilon is (Mironov, "On significance of the least significant bits
for differential privacy", CCS 2012). `OpenDPNoise` draws from a cryptographic generator, in exact
arithmetic and on the same grid for all numbers. `NumpyNoise` does not, and is for simulation only.

A floating-point sum depends on the order of its terms, and can change by more than the one reward
that changes (Casacuberta, Shoemate, Vadhan and Wagaman, "Widespread underestimation of sensitivity
in differentially private libraries", CCS 2022). Sums are therefore exact here, the statistic is
rounded once, and certificates account for that rounding.

One of n rewards changes the mean of an arm by at most 1/n, which is more if there are fewer
rewards. The noise is then widened in proportion to the largest such change, so that the privacy
loss of the phase stays the same. The released statistic and its decoder stay the same too, so
estimates are unbiased, but less precise. All of this depends only on the number of rewards.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbai import _check
from dpbai._check import Seed
from dpbai.certificate import certify
from dpbai.field.session.records import Release
from dpbai.field.session.rewards import array_sum
from dpbai.noise import Gaussian, Laplace, Mechanism, Noise, NoNoise, Shift
from dpbai.phase import Phase, declared

_EPS = 2.0**-52
_OUTSIDE_A_SESSION = 0  # the phases of a session are numbered from 1
_ROUNDING = 2.0**-48  # by which the factor of the noise is rounded up


class ReleaseWarning(UserWarning):
    """The noise of a session or release is for simulation only."""


class NumpyNoise:
    """Noise from NumPy's generator, for simulations and tests, not for real releases.

    Parameters
    ----------
    seed : int or SeedSequence, optional
        With a seed, the noise of phase p depends only on the seed and p, and anyone who knows the
        seed can subtract it. By default the seed is random.
    """

    name = "NumPy"

    def __init__(self, seed: Seed | None = None) -> None:
        self._seed = np.random.SeedSequence() if seed is None else _check.seed_sequence(seed)
        self.remarks: tuple[str, ...] = (
            "NumPy noise is for simulation: its low bits can reveal what it hides "
            "(Mironov, 2012); use OpenDPNoise for a real release",
        )
        if seed is not None:
            self.remarks += (
                "the noise comes from a fixed seed: anyone who knows the seed can subtract it",
            )

    def generator(self, phase: int, *use: int) -> np.random.Generator:
        """Return the generator of the noise of phase number `phase`, or of another use in it."""
        root = self._seed
        key = (*root.spawn_key, phase, *use)
        return np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=key))

    def add(self, noise: Noise, statistic: Sequence[float], *, phase: int) -> tuple[float, ...]:
        """Return the statistic of phase number `phase` with `noise` added to each coordinate."""
        drawn = noise.sample(self.generator(phase), (len(statistic),))
        return tuple((np.asarray(statistic, dtype=np.float64) + drawn).tolist())

    def loss(self, noise: Noise, shift: Shift, delta: float = 0.0) -> float:
        """Return the epsilon of the law of `noise`, as if it were drawn in real arithmetic."""
        return noise.loss(shift, delta)


class OpenDPNoise:
    """Noise from a cryptographic generator in exact arithmetic, by OpenDP's measurements.

    It requires the extra `opendp`. OpenDP also computes the epsilon. For Laplace noise this is the
    planned epsilon plus the loss due to rounding the statistic to doubles. For Gaussian noise
    OpenDP uses zero-concentrated differential privacy, a bound some per cent above the epsilon of
    the law itself.

    Raises
    ------
    ImportError
        If OpenDP is not installed.
    """

    name = "OpenDP"
    remarks: tuple[str, ...] = ()

    def __init__(self) -> None:
        _opendp()

    def add(self, noise: Noise, statistic: Sequence[float], *, phase: int) -> tuple[float, ...]:  # noqa: ARG002
        """Return the statistic with new `noise` added to each coordinate.

        Raises
        ------
        TypeError
            If OpenDP has no measurement for this law.
        """
        if isinstance(noise, NoNoise):
            return tuple(statistic)
        return tuple(_measurement(noise)(list(statistic)))

    def loss(self, noise: Noise, shift: Shift, delta: float = 0.0) -> float:
        """Return OpenDP's epsilon, for `Gaussian` noise at `delta`; never rounded down."""
        if isinstance(noise, NoNoise) or not any(shift):
            return NoNoise().loss(shift)
        measurement = _measurement(noise)
        length = math.hypot(*shift) if isinstance(noise, Gaussian) else sum(shift)
        # Rounded up by more than the sum or the norm can have been rounded down.
        length = math.nextafter(length * (1 + (len(shift) + 1) * _EPS), math.inf)
        if math.isinf(length):
            return math.inf
        if not isinstance(noise, Gaussian):
            return float(measurement.map(length))
        if delta == 0:
            return math.inf
        dp = _opendp()
        try:
            return float(dp.c.make_zCDP_to_approxDP(measurement).map(length).epsilon(delta))
        except dp.OpenDPException:  # its exponents overflow; use the bound that it improves
            rho = float(measurement.map(length))
            return (rho + 2 * math.sqrt(-rho * math.log(delta))) * (1 + 4 * _EPS)


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
        The source of the noise; by default `OpenDPNoise`. A `NumpyNoise` that a session uses too
        draws other noise here, but the same noise at each call, so call this only once with it.

    Returns
    -------
    Release
        Each call with the same rewards is another release of them, so call this only once.

    Raises
    ------
    TypeError, ValueError
        If the rewards are not valid. The message does not quote them.
    """
    phase = declared(_check.kind(phase, "phase", Phase))
    source = chosen(noise)
    given = [array_sum(values) for values in _check.sequence(rewards, "rewards")]
    if (counts := tuple(count for _, count in given)) != tuple(phase.pulls):
        raise ValueError(
            f"rewards must be as many for each arm as its pulls, {tuple(phase.pulls)}, got {counts}"
        )
    return noisy_release(phase, [total for total, _ in given], source, _OUTSIDE_A_SESSION)


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
    """Return the plan with fewer pulls, all positive, and a privacy loss that is no larger.

    TypeError if the law of the noise is not part of this library; ValueError if `pulls` are more
    than planned.
    """
    fewer, noise = replace(phase, pulls=tuple(pulls)), phase.noise
    if any(few > planned for few, planned in zip(fewer.pulls, phase.pulls, strict=True)):
        raise ValueError("pulls must be at most those that were planned")
    if fewer.pulls == phase.pulls or isinstance(noise, NoNoise):
        return fewer
    if not isinstance(noise, Laplace | Gaussian):
        raise TypeError(
            f"a phase with {type(noise).__name__} noise cannot be ended early: record all rewards"
        )
    length = math.fsum if isinstance(noise, Laplace) else lambda shift: math.hypot(*shift)
    before, after = (max(length(shift.tolist()) for shift in p.shifts()) for p in (phase, fewer))
    factor = after / before * (1 + _ROUNDING) if before else 1.0
    if isinstance(noise, Laplace):
        return replace(fewer, noise=replace(noise, scale=noise.scale * factor))
    return replace(fewer, noise=replace(noise, sigma=noise.sigma * factor))


def chosen(noise: Mechanism | None) -> Mechanism:
    """Return the given noise or `OpenDPNoise`; warn the caller's caller of its remarks."""
    source = OpenDPNoise() if noise is None else _check.kind(noise, "noise", Mechanism)
    for remark in source.remarks:
        warnings.warn(remark, ReleaseWarning, stacklevel=3)
    return source


def _opendp() -> Any:
    try:
        import opendp.prelude
    except ImportError as error:
        raise ImportError(
            "OpenDP noise needs the package opendp: pip install 'dpbai[opendp]'"
        ) from error
    opendp.prelude.enable_features("contrib")
    return opendp.prelude


def _measurement(noise: Noise) -> Any:
    """Return OpenDP's measurement that adds `noise` to each entry of a list of doubles."""
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    if isinstance(noise, Laplace):
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=noise.scale)
    if isinstance(noise, Gaussian):
        return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=noise.sigma)
    raise TypeError(f"OpenDP has no measurement for {type(noise).__name__} noise")
