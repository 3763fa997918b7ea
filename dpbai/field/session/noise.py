"""Noise for a real release, and its privacy loss in floating point.

Laplace noise computed in floating point reaches only some of the doubles, and which ones depends on
the number that it is added to. So the low bits of a released number can rule out a neighbouring
data set, whatever epsilon is (Mironov, "On significance of the least significant bits for
differential privacy", CCS 2012). `OpenDPNoise` draws from a cryptographic generator, in exact
arithmetic and on the same grid for all numbers; `NumpyNoise` does not, and is for simulation.

A sum of doubles depends on their order, and can move by more than one reward does (Casacuberta,
Shoemate, Vadhan and Wagaman, "Widespread underestimation of sensitivity in differentially private
libraries", CCS 2022). So sums are exact here, the statistic is rounded once, and certificates count
that rounding.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbai import _check
from dpbai._check import Seed
from dpbai.noise import Gaussian, Laplace, Mechanism, Noise, NoNoise, Shift

_EPS = 2.0**-52


class ReleaseWarning(UserWarning):
    """A session uses noise that is for simulation only."""


class NumpyNoise:
    """NumPy's noise: for simulations and tests, not for a real release.

    Parameters
    ----------
    seed : int or SeedSequence, optional
        With a seed, the noise of phase p depends only on the seed and p, and anyone who knows the
        seed can subtract it. Without one it is drawn anew each time.
    """

    name = "NumPy"

    def __init__(self, seed: Seed | None = None) -> None:
        self._fixed = seed is not None
        self._seed = np.random.SeedSequence() if seed is None else _check.seed_sequence(seed)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why this noise is not fit for a real release."""
        attack = (
            "NumPy noise is for simulation: its low bits can reveal what it hides "
            "(Mironov, 2012); use OpenDPNoise for a real release"
        )
        seeded = "the noise comes from a fixed seed: anyone who knows the seed can subtract it"
        return (attack, seeded) if self._fixed else (attack,)

    def generator(self, phase: int, *use: int) -> np.random.Generator:
        """Return the generator of the noise of phase number `phase`, or of another use there."""
        root = self._seed
        key = (*root.spawn_key, phase, *use)
        return np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=key))

    def add(self, noise: Noise, statistic: Sequence[float], *, phase: int) -> tuple[float, ...]:
        """Return the statistic of phase number `phase` with `noise` on each coordinate."""
        drawn = noise.sample(self.generator(phase), (len(statistic),))
        return tuple((np.asarray(statistic, dtype=np.float64) + drawn).tolist())

    def loss(self, noise: Noise, shift: Shift, delta: float = 0.0) -> float:
        """Return the epsilon of the law of `noise`, as if it were drawn as a real number."""
        return noise.loss(shift, delta)


class OpenDPNoise:
    """Noise from a cryptographic generator in exact arithmetic, by OpenDP's measurements.

    Needs the extra `opendp`. Its epsilon is computed by OpenDP. For Laplace noise that is the
    planned epsilon plus the cost of rounding the statistic to doubles. For Gaussian noise OpenDP
    uses zero-concentrated privacy, a bound some per cent above the epsilon of the law itself.

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
        """Return the statistic with fresh `noise` on each coordinate.

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
        # Rounded up by more than it can have been rounded down.
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
        except dp.OpenDPException:  # its exponents overflow; this is the bound that it tightens
            rho = float(measurement.map(length))
            return (rho + 2 * math.sqrt(-rho * math.log(delta))) * (1 + 4 * _EPS)


def chosen(noise: Mechanism | None) -> Mechanism:
    """Return the given noise, or `OpenDPNoise`, and warn the caller's caller of its remarks."""
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
