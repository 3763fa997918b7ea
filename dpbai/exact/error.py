"""Exact error probabilities of policies with one phase.

The recommended arm is the one whose row of the decoder has the largest product with the release. If
the released coordinates are independent, which they are if each pulled arm enters only one of them,
the probability that this is not the best arm is an integral over one coordinate x, in two cases:

- At most two coordinates are released. The best arm wins in a cone of the plane, and given x the
  other coordinate must lie in an interval (the instance of Sec. 5, where all policies except
  Baseline pull two arms, and that of App. E). If the cone is a half-plane, no integral is needed:
  one linear form must be positive.
- The decoder is the identity. The best arm has coordinate x, and another one must exceed it
  (Baseline).

The integrands are sums and products of densities and tails with small relative errors
(``inversion``; ``lattice`` for two-valued rewards), and nothing cancels in them, so that errors of
1e-30 are as accurate as errors of 0.3. The cost does not grow with the budget, except in proportion
to its square root if rewards have atoms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.exact.inversion import Variables
from dpbai.exact.lattice import LatticeVariable
from dpbai.exact.lattice_form import Part, log_negative
from dpbai.exact.quadrature import SMALLEST_LOG, RoughDensityError, log_integral
from dpbai.exact.terms import (
    NotExactError,
    Terms,
    atoms,
    independent_terms,
    mean_term,
    two_values,
)
from dpbai.instance import Instance
from dpbai.noise import Laplace, Noise, NoNoise
from dpbai.phase import Phase, Policy
from dpbai.plans import Stage
from dpbai.ranking import alike
from dpbai.rewards import Bernoulli, Empirical

Coordinate = Variables | LatticeVariable

_BLOCK = 64  # coordinates that are inverted together
_MOST_SPIKES = 2**12


def exact_success(policy: Policy, instance: Instance, *, rtol: float = 1e-9) -> float:
    """Return the probability that `policy` recommends the best arm: 1 - `exact_error`."""
    return 1 - exact_error(policy, instance, rtol=rtol)


def exact_error(policy: Policy, instance: Instance, *, rtol: float = 1e-9) -> float:
    """Return the probability that `policy` does not recommend the best arm.

    Probabilities below 1e-250 are returned as 0.

    Parameters
    ----------
    policy : Policy
        A policy with one phase, in which each pulled arm enters only one released coordinate. At
        most two coordinates are released, or the decoder is the identity.
    instance : Instance
        The source of the rewards; its features may differ from those of the policy.
    rtol : float, default 1e-9
        The relative error to aim at, in [1e-12, 1e-2].

    Raises
    ------
    NotExactError
        If the probability cannot be computed; it is a `ValueError` that states why. Besides the
        conditions above, the released coordinates must have smooth distributions. So rewards with
        atoms need Gaussian noise; or two values (`Bernoulli`), Laplace noise and one mean in each
        coordinate. If the best arm wins in a half-plane, as it does with two arms, they need any
        noise, or two values with the same step. With few pulls and little noise, even uniform
        rewards may need a larger `rtol`.
    ValueError
        If `rtol` is out of range, or policy and instance differ in the number of arms.
    """
    phase = first_stage(policy, instance, rtol, "[1e-12, 1e-2]").phase
    if phase.keep > 1:
        raise NotExactError(f"phase 1 keeps {phase.keep} arms, so there is more than one phase")
    phase = independent(phase)
    certain = _certain_error(phase, instance)
    if certain is not None:
        return certain
    integral = _outside_cone if phase.coordinates <= 2 else _not_largest
    try:
        return min(float(integral(phase, instance, rtol)), 1.0)
    except RoughDensityError as reason:
        raise not_smooth(rtol, reason) from reason


def not_smooth(rtol: float, reason: RoughDensityError) -> NotExactError:
    """Return the error that a release cannot be integrated or inverted for some reason."""
    return NotExactError(
        "the released coordinates are not smooth enough (rewards with atoms, or few pulls and "
        f"little noise) for a relative error of {rtol}: {reason}"
    )


def first_stage(policy: Policy, instance: Instance, rtol: float, interval: str) -> Stage:
    """Return the first stage of a run, or raise NotExactError if several arms are best."""
    _check.number(rtol, "rtol", interval)
    first = Stage.on(policy, instance)
    if len(instance.ties) > 1:
        raise NotExactError(f"arms {list(instance.ties)} tie for the best")
    return first


def independent(phase: Phase) -> Phase:
    """Return an equivalent phase with independent coordinates, or raise NotExactError."""
    if isinstance(phase.noise, NoNoise) and phase.decoder_matrix is not None:
        # Without noise, releasing the empirical means themselves is equivalent.
        decoder = phase.decoder @ phase.release
        phase = replace(phase, release_matrix=None, decoder_matrix=decoder)
    if (np.count_nonzero(phase.release, axis=0) > 1).any():
        raise NotExactError(
            "a pulled arm enters two released coordinates, which are therefore dependent"
        )
    if phase.coordinates > 2 and phase.decoder_matrix is not None:
        raise NotExactError(
            f"there are {phase.coordinates} released coordinates, more than 2, and the decoder is "
            "not the identity"
        )
    return phase


def _certain_error(phase: Phase, instance: Instance) -> float | None:
    """Return the error if nothing but the breaking of ties is random, otherwise None."""
    laws = [instance.laws[arm] for arm in phase.pulled]
    values = [two_values(law) for law in laws]
    if not isinstance(phase.noise, NoNoise) or any(v is None or v[0] < v[1] for v in values):
        return None
    sure, tied = phase.tied(phase.statistic(np.array([[law.mean for law in laws]])))
    if sure.any():
        return 0.0 if sure[0, instance.best] else 1.0
    count = int(tied.sum())
    return (count - 1) / count if tied[0, instance.best] else 1.0


def _outside_cone(phase: Phase, instance: Instance, rtol: float) -> float:
    """Return the probability that the best arm loses, which it does outside a cone.

    Inside the cone it wins, or ties with the arms whose rows of the decoder are the same.
    """
    normals = cone(phase.decoder, instance.best)
    if normals is None:
        laws = [instance.laws[arm] for arm in phase.pulled]
        if isinstance(phase.noise, NoNoise) and any(
            isinstance(law, Empirical) or two_values(law) is not None for law in laws
        ):
            raise NotExactError(
                "without noise, the best arm wins only where several arms tie, with a probability "
                "that is not computed"
            )
        return 1.0
    tied = np.count_nonzero(alike(phase.decoder, instance.best))
    outside = 0.0
    if len(normals) == 1:
        # Inside, the best arm loses with probability 1 - 1/tied. On the edge all arms tie, and it
        # loses with probability 1 - 1/arms, as if this share of the edge were outside.
        edge = 1 - tied / len(phase.decoder)
        outside = _half_plane(phase, instance, normals[0], rtol, edge)
    elif len(normals):
        outside = _outside_wedge(phase, instance, normals, rtol)
    return (outside + (tied - 1)) / tied


def _outside_wedge(phase: Phase, instance: Instance, normals: FloatArray, rtol: float) -> float:
    """Return the probability that the product of the release with a normal is negative."""
    (first,), (second,) = (_coordinates(phase, instance, rtol, [k]) for k in (0, 1))
    kinks = [-along / across * second.knots for across, along in normals if across]
    knots = np.concatenate([[0.0], _spikes(first, phase, instance, 0), *kinks])

    def ends(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return between which values the second coordinate is inside the cone, given the first."""
        low, high = np.full(x.size, -np.inf), np.full(x.size, np.inf)
        for across, along in normals:
            if along > 0:
                low = np.maximum(low, -across / along * x)
            elif along < 0:
                high = np.minimum(high, -across / along * x)
            else:
                low[across * x <= 0] = np.inf
        return low, np.maximum(low, high)

    events = [(second, lambda x: ends(x)[0], -1), (second, lambda x: ends(x)[1], 1)]
    return _integral(first, events, lambda tails: np.logaddexp(*tails)[:, 0], knots, rtol)


def _integral(
    last: Coordinate,
    events: Sequence[tuple[Coordinate, Callable[[FloatArray], FloatArray], int]],
    log_union: Callable[[list[FloatArray]], FloatArray],
    knots: FloatArray,
    rtol: float,
) -> float:
    """Return the probability that one of some events occurs, by an integral over a coordinate x.

    The density of x is that of `last`. Given x, an event (coordinates, end, side) is that any of
    the coordinates is above end(x), if the side is 1, or below it, if it is -1. `log_union` returns
    the log probability of their union, given those of the tails. There may be kinks at `knots`.
    """
    sizes = np.cumsum([len(coordinates.means) for coordinates, *_ in events])[:-1]

    def log_bounds(x: FloatArray) -> FloatArray:
        return np.concatenate([others.log_bound(end(x), side) for others, end, side in events])

    def log_bound(x: FloatArray) -> FloatArray:
        any_occurs = np.logaddexp.reduce(np.minimum(log_bounds(x), 0.0))
        return np.asarray(last.log_bound(x, 0)[0] + np.minimum(any_occurs, 0.0))

    def log_error(x: FloatArray, slack: FloatArray) -> FloatArray:
        bounds = np.clip(log_bounds(x), 4 * SMALLEST_LOG, 0.0)
        slacks = np.split(slack + bounds.max(axis=0) - bounds, sizes)
        tails = [
            others.log_tail(end(x), side, its)
            for (others, end, side), its in zip(events, slacks, strict=True)
        ]
        log_given = np.minimum(log_union(tails), 0.0)
        return np.asarray(last.log_density(x, slack)[:, 0] + log_given)

    return math.exp(log_integral(log_error, log_bound, last.scan, knots, rtol))


def _half_plane(
    phase: Phase, instance: Instance, normal: FloatArray, rtol: float, edge: float
) -> float:
    """Return the probability that the product of the release with a normal is negative.

    To it the share `edge` of the probability that the product is 0 is added.
    """
    weights = normal @ phase.release
    parts, noises = _parts(phase, instance, weights), normal[normal != 0]
    log_error = _below_support(parts, phase.noise, noises)
    if log_error is None:
        log_error = log_negative(parts, phase.noise, noises, rtol, edge)
    if log_error is None:
        form = np.append(weights, normal)[None]
        half_space = Variables(independent_terms(phase, instance), form, rtol)
        log_error = float(half_space.log_bounds[0])
        if log_error > SMALLEST_LOG:
            (log_error,) = half_space.log_probabilities(np.zeros(1, dtype=np.int64)).tolist()
    return math.exp(log_error) if log_error > SMALLEST_LOG else 0.0


def _parts(phase: Phase, instance: Instance, weights: FloatArray) -> list[Part]:
    """Return the weight, the law and the number of the rewards of each mean in a weighted sum."""
    return [
        (float(weights[k]), instance.laws[phase.pulled[k]], phase.pulls[k])
        for k in np.flatnonzero(weights).tolist()
    ]


def _below_support(parts: list[Part], noise: Noise, noise_weights: FloatArray) -> float | None:
    """Return the log probability that a nonnegative sum S of means plus a Laplace variate is < 0.

    The variate has an exponential lower tail, so this is E exp(-S / scale) / 2. Return None if S
    may be negative, or if the noise is of another kind.
    """
    if not isinstance(noise, Laplace) or noise_weights.size > 1:
        return None
    tilt = 1 / (noise.scale * abs(noise_weights[0]))
    log_error = -math.log(2)
    for weight, law, pulls in parts:
        term = mean_term(law, pulls)
        if min(weight * end for end in law.support) < 0 or tilt * abs(weight) >= term.limit:
            return None
        log_mgf = term.log_mgf(np.array([-tilt * weight + 0j]))
        log_error += float(log_mgf[0].real) - tilt * weight * term.mean
    return log_error


def cone(decoder: FloatArray, best: int) -> FloatArray | None:
    """Return the inward normals, shape (k, q), of the cone of releases for which the best arm wins.

    They are k <= 2 of the rows of `decoder[best] - decoder`, of q <= 2 coordinates. Where their
    products with the release are positive, no other arm has a larger estimate; arms that always tie
    with the best one are left out. Return None if the cone is empty.
    """
    normals: FloatArray = (decoder[best] - decoder)[~alike(decoder, best)]
    if not len(normals):
        return normals
    # Dividing by units changes rounding errors, but not the order of the angles.
    units = np.abs(normals).max(axis=0)
    x, y = np.pad(normals / np.where(units > 0, units, 1), ((0, 0), (0, 2 - units.size))).T
    angles = np.arctan2(y, x)
    # Relative to the first, angles within half a turn of each other do not cross the branch cut.
    turned = (angles - angles[0] + np.pi) % (2 * np.pi) - np.pi
    low, high = int(turned.argmin()), int(turned.argmax())
    if turned[high] - turned[low] >= np.pi:
        return None
    ends = [low] if turned[high] == turned[low] else [low, high]
    return np.asarray(normals[ends])


def _not_largest(phase: Phase, instance: Instance, rtol: float) -> float:
    """Return the probability that another coordinate exceeds that of the best arm."""
    (best,) = _coordinates(phase, instance, rtol, [instance.best])
    rivals = [k for k in range(phase.coordinates) if k != instance.best]
    others = _coordinates(phase, instance, rtol, rivals)
    spikes = _spikes(best, phase, instance, instance.best)
    knots = np.concatenate([spikes, *(other.knots for other in others)])

    def log_union(tails: list[FloatArray]) -> FloatArray:
        with np.errstate(divide="ignore"):
            log_none = sum(np.log1p(-np.exp(tail)).sum(axis=1) for tail in tails)
            return np.asarray(np.log(-np.expm1(log_none)))

    return _integral(best, [(each, lambda x: x, 1) for each in others], log_union, knots, rtol)


def _coordinates(
    phase: Phase, instance: Instance, rtol: float, chosen: list[int]
) -> list[Coordinate]:
    """Return the chosen coordinates: in closed form where possible, otherwise in blocks."""
    lattices = {k: _on_lattice(phase, instance, k) for k in chosen}
    found: list[Coordinate] = [known for known in lattices.values() if known is not None]
    rest = np.array([k for k, lattice in lattices.items() if lattice is None], dtype=np.int64)
    if rest.size:
        terms = Terms(independent_terms(phase, instance))
        for some in np.array_split(rest, math.ceil(rest.size / _BLOCK)):
            noises = some[:, None] == np.arange(phase.coordinates)
            found.append(Variables(terms, np.hstack([phase.release[some], noises]), rtol))
    return found


def _on_lattice(phase: Phase, instance: Instance, coordinate: int) -> LatticeVariable | None:
    """Return a coordinate that is a weighted two-valued mean plus Laplace noise, or else None."""
    parts = _parts(phase, instance, phase.release[coordinate])
    if not isinstance(phase.noise, Laplace) or len(parts) != 1:
        return None
    ((weight, law, pulls),) = parts
    values = two_values(law)
    if values is None:
        return None
    low, high, share = values
    low, high = sorted((weight * low, weight * high))
    count, step = (pulls, (high - low) / pulls) if low < high else (0, 1.0)
    share = share if weight > 0 else 1 - share
    return LatticeVariable(low, step, count, share, phase.noise.scale)


def _spikes(variable: Coordinate, phase: Phase, instance: Instance, coordinate: int) -> FloatArray:
    """Return the kinks of the density of a released coordinate, and points around narrow spikes.

    Quadrature could miss the spikes. There is one at each sum of discrete rewards if the noise and
    the other rewards are narrow compared with the distances between these sums.
    """
    width, discrete = phase.noise.standard_deviation, []
    for weight, law, pulls in _parts(phase, instance, phase.release[coordinate]):
        deviation, step = abs(weight) * mean_term(law, pulls).deviation, 0.0
        values = np.zeros(0)
        if isinstance(law, Bernoulli | Empirical):
            values = np.sort(weight / pulls * atoms(law)[0])
            step = float(np.diff(values).max(initial=0.0))
        discrete.append((step, deviation, values, pulls))
    # Rewards whose steps are small compared with the width so far only add to it.
    discrete.sort(key=lambda part: part[0])
    while discrete and discrete[0][0] <= 4 * width:
        width = math.hypot(width, discrete.pop(0)[1])
    if isinstance(variable, LatticeVariable) or width == 0 or not discrete:
        return variable.knots
    points = np.zeros(1)
    for _, _, values, pulls in discrete:
        for _ in range(pulls):
            points = np.unique(np.round(np.add.outer(points, values) / width)) * width
            if points.size > _MOST_SPIKES:
                break
    if np.diff(points).max() <= 4 * width:
        return variable.knots
    if points.size > _MOST_SPIKES:
        raise RoughDensityError("the noise is much narrower than the many steps of the rewards")
    return np.asarray(np.add.outer(points, width * np.array([-30, -8, 8, 30])).ravel())
