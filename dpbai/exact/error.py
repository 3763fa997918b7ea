"""Exact error probabilities of policies with one phase.

The recommended arm is the one whose row of the decoder has the largest product with the release. If
the released coordinates are independent (each pulled arm enters one of them), the probability that
it is the best one is an integral over one or two of them:

- at most two coordinates: the best arm wins in a cone of the plane, bounded by two rays (Sec. 5's
  instance, where all policies but Baseline pull two arms; and App. E's);
- the decoder is the identity: the best arm wins if its coordinate is the largest (Baseline).

The error is summed from positive parts, whose densities and tails have small relative errors
(``inversion``; ``lattice`` for two-valued rewards), so errors of 1e-30 are as accurate as errors of
0.3. The cost does not grow with the budget, except like its square root where rewards have atoms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

_BLOCK = 64  # coordinates that are inverted together
_MOST_SPIKES = 2**12


def exact_success(policy: Policy, instance: Instance, *, rtol: float = 1e-9) -> float:
    """Return the probability that `policy` recommends the best arm: 1 - `exact_error`."""
    return 1 - exact_error(policy, instance, rtol=rtol)


def exact_error(policy: Policy, instance: Instance, *, rtol: float = 1e-9) -> float:
    """Return the probability that `policy` does not recommend the best arm; 0 below 1e-250.

    Parameters
    ----------
    policy : Policy
        With one phase, in which each pulled arm enters one released coordinate, and either at most
        two coordinates are released or the decoder is the identity.
    instance : Instance
        Where rewards come from; its features may differ from those of the policy.
    rtol : float, default 1e-9
        Relative error to aim at, in [1e-12, 1e-2].

    Raises
    ------
    NotExactError
        A `ValueError` that names the condition that fails. The distribution of the coordinates must
        also be smooth: rewards with atoms need two values (`Bernoulli`) and Laplace noise, each
        mean for itself; or Gaussian noise; or two arms (a single half-plane), and noise or a common
        lattice. With few pulls and little noise, even uniform rewards may need a larger `rtol`.
    ValueError
        If `rtol` is out of range, or policy and instance differ in the number of arms.
    """
    phase = first_stage(policy, instance, rtol, "[1e-12, 1e-2]").phase
    if phase.keep > 1:
        raise NotExactError(f"phase 1 keeps {phase.keep} arms, so there is more than one phase")
    phase = independent(phase)
    settled = _settled(phase, instance)
    if settled is not None:
        return settled
    wrong = _outside_cone if phase.coordinates <= 2 else _not_largest
    try:
        return min(float(wrong(phase, instance, rtol)), 1.0)
    except RoughDensityError as reason:
        raise NotExactError(
            "the released coordinates are not smooth enough (rewards with atoms, or few pulls and "
            f"little noise) for a relative error of {rtol}: {reason}"
        ) from reason


def first_stage(policy: Policy, instance: Instance, rtol: float, interval: str) -> Stage:
    """Return the first stage of a run, for an instance with one best arm."""
    _check.number(rtol, "rtol", interval)
    first = Stage.on(policy, instance)
    if len(instance.ties) > 1:
        raise NotExactError(f"arms {list(instance.ties)} tie for the best")
    return first


def independent(phase: Phase) -> Phase:
    """Return a plan with the same answer and independent coordinates, or raise NotExactError."""
    if isinstance(phase.noise, NoNoise) and phase.decoder_matrix is not None:
        # Without noise, the empirical means may be released themselves.
        decoder = phase.decoder @ phase.release
        phase = replace(phase, release_matrix=None, decoder_matrix=decoder)
    if (np.count_nonzero(phase.release, axis=0) > 1).any():
        raise NotExactError("a pulled arm enters two released coordinates, which makes them depend")
    if phase.coordinates > 2 and phase.decoder_matrix is not None:
        raise NotExactError(
            f"there are {phase.coordinates} released coordinates, more than 2, and the decoder is "
            "not the identity"
        )
    return phase


def _settled(phase: Phase, instance: Instance) -> float | None:
    """Return the error where only the breaking of ties is random; elsewhere None."""
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
    """Return the probability that the released point lies outside the best arm's cone.

    Inside it the best arm wins, or ties with all arms that have its row of the decoder.
    """
    normals = cone(phase.decoder, instance.best)
    if normals is None:
        laws = [instance.laws[arm] for arm in phase.pulled]
        if isinstance(phase.noise, NoNoise) and any(
            isinstance(law, Empirical) or two_values(law) is not None for law in laws
        ):
            raise NotExactError("without noise, the best arm may win where several arms tie")
        return 1.0
    tied = np.count_nonzero(alike(phase.decoder, instance.best))
    outside = 0.0
    if len(normals) == 1:
        # Inside, the best arm fails with probability 1 - 1/tied; on the edge, where all arms tie,
        # with 1 - 1/arms: as if this share of the edge were outside.
        edge = 1 - tied / len(phase.decoder)
        outside = _half_plane(phase, instance, normals[0], rtol, edge)
    elif len(normals):
        outside = _outside_wedge(phase, instance, normals, rtol)
    return (outside + (tied - 1)) / tied


def _outside_wedge(phase: Phase, instance: Instance, normals: FloatArray, rtol: float) -> float:
    """Return the probability that a product with one of two normals is negative."""
    (first,), (second,) = (_coordinates(phase, instance, rtol, [k]) for k in (0, 1))
    kinks = [-along / across * second.knots for across, along in normals if across]
    spikes = _spikes(first, phase, instance, 0)
    knots = np.concatenate([[0.0], spikes, *kinks])

    def ends(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return between which values the second coordinate must be to stay inside the cone."""
        low, high = np.full(x.size, -np.inf), np.full(x.size, np.inf)
        for across, along in normals:
            if along > 0:
                low = np.maximum(low, -across / along * x)
            elif along < 0:
                high = np.minimum(high, -across / along * x)
            else:
                low[across * x <= 0] = np.inf
        return low, np.maximum(low, high)

    def log_bounds(x: FloatArray) -> FloatArray:
        low, high = ends(x)
        return np.concatenate([second.log_bound(low, -1), second.log_bound(high, 1)])

    def log_outside(x: FloatArray, slack: FloatArray) -> FloatArray:
        low, high = ends(x)
        tails = second.log_tail(low, -1, slack[:1]), second.log_tail(high, 1, slack[1:])
        return np.asarray(np.logaddexp(*tails)[:, 0])

    return _integral(first, log_bounds, log_outside, knots, rtol)


def _integral(
    last: Variables | LatticeVariable,
    log_bounds: Callable[[FloatArray], FloatArray],
    log_any: Callable[[FloatArray, FloatArray], FloatArray],
    knots: FloatArray,
    rtol: float,
) -> float:
    """Return the probability that one of some events occurs, given one coordinate at points x.

    `log_bounds(x)` bounds the log probability of each event, `log_any(x, slack)` is that of their
    union, with a slack as in `Variables` for each. Densities and tails may have kinks at `knots`.
    """

    def log_bound(x: FloatArray) -> FloatArray:
        any_occurs = np.logaddexp.reduce(np.minimum(log_bounds(x), 0.0))
        return np.asarray(last.log_bound(x, 0)[0] + np.minimum(any_occurs, 0.0))

    def log_error(x: FloatArray, slack: FloatArray) -> FloatArray:
        bounds = np.clip(log_bounds(x), 4 * SMALLEST_LOG, 0.0)
        log_given = np.minimum(log_any(x, slack + bounds.max(axis=0) - bounds), 0.0)
        return np.asarray(last.log_density(x, slack)[:, 0] + log_given)

    return math.exp(log_integral(log_error, log_bound, last.scan, knots, rtol))


def _half_plane(
    phase: Phase, instance: Instance, normal: FloatArray, rtol: float, edge: float
) -> float:
    """Return the probability that the product with a normal is negative, or on a share of 0."""
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
    """Return weight, law and number of rewards of each mean that is not weighted by 0."""
    return [
        (float(weights[k]), instance.laws[phase.pulled[k]], phase.pulls[k])
        for k in np.flatnonzero(weights).tolist()
    ]


def _below_support(parts: list[Part], noise: Noise, noise_weights: FloatArray) -> float | None:
    """Return the log probability that one Laplace noise outweighs means that are never negative.

    By the exponential tail of the noise it is E exp(-form / scale) / 2. Elsewhere it is None.
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
    """Return inward normals of the half-planes that bound the best arm's winning set, shape (k, q).

    They are k <= 2 of the rows of `decoder[best] - decoder`, q <= 2: where all are positive on the
    release, no other arm has a larger estimate. Rows that are alike, which always tie, are left
    out. None if the set is empty.
    """
    normals: FloatArray = (decoder[best] - decoder)[~alike(decoder, best)]
    if not len(normals):
        return normals
    # Units of the coordinates change rounding errors, not the order of the angles.
    units = np.abs(normals).max(axis=0)
    x, y = np.pad(normals / np.where(units > 0, units, 1), ((0, 0), (0, 2 - units.size))).T
    angles = np.arctan2(y, x)
    # Relative to the first, so that a fan of less than half a turn does not cross the branch cut.
    turned = (angles - angles[0] + np.pi) % (2 * np.pi) - np.pi
    low, high = int(turned.argmin()), int(turned.argmax())
    if turned[high] - turned[low] >= np.pi:
        return None
    ends = [low] if turned[high] == turned[low] else [low, high]
    return np.asarray(normals[ends])


def _not_largest(phase: Phase, instance: Instance, rtol: float) -> float:
    """Return the probability that another independent coordinate exceeds the best arm's."""
    (best,) = _coordinates(phase, instance, rtol, [instance.best])
    rivals = [k for k in range(phase.coordinates) if k != instance.best]
    others = _coordinates(phase, instance, rtol, rivals)
    sizes = np.cumsum([len(other.means) for other in others])[:-1]
    spikes = _spikes(best, phase, instance, instance.best)
    knots = np.concatenate([spikes, *(other.knots for other in others)])

    def log_bounds(x: FloatArray) -> FloatArray:
        return np.concatenate([other.log_bound(x, 1) for other in others])

    def log_any(x: FloatArray, slack: FloatArray) -> FloatArray:
        log_none = np.zeros((2, x.size))
        with np.errstate(divide="ignore"):
            for other, its in zip(others, np.split(slack, sizes), strict=True):
                log_none += np.log1p(-np.exp(other.log_tail(x, 1, its))).sum(axis=1)
            return np.asarray(np.log(-np.expm1(log_none)))

    return _integral(best, log_bounds, log_any, knots, rtol)


def _coordinates(
    phase: Phase, instance: Instance, rtol: float, chosen: list[int]
) -> list[Variables | LatticeVariable]:
    """Return some released coordinates: in closed form where there is one, the others in blocks."""
    lattices = {k: _on_lattice(phase, instance, k) for k in chosen}
    found: list[Variables | LatticeVariable] = [
        lattice for lattice in lattices.values() if lattice is not None
    ]
    rest = np.array([k for k, lattice in lattices.items() if lattice is None], dtype=np.int64)
    if rest.size:
        terms = Terms(independent_terms(phase, instance))
        for some in np.array_split(rest, math.ceil(rest.size / _BLOCK)):
            noises = some[:, None] == np.arange(phase.coordinates)
            found.append(Variables(terms, np.hstack([phase.release[some], noises]), rtol))
    return found


def _on_lattice(phase: Phase, instance: Instance, coordinate: int) -> LatticeVariable | None:
    """Return a weighted mean of two-valued rewards with Laplace noise; None for others."""
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


def _spikes(
    variable: Variables | LatticeVariable, phase: Phase, instance: Instance, coordinate: int
) -> FloatArray:
    """Return where the density of a released coordinate has kinks, or narrow spikes.

    There is a spike about each sum of its discrete rewards if noise and other rewards are narrow
    compared with the distances of these sums. An integral could miss them.
    """
    width, discrete = phase.noise.standard_deviation, []
    for weight, law, pulls in _parts(phase, instance, phase.release[coordinate]):
        deviation, step = abs(weight) * mean_term(law, pulls).deviation, 0.0
        values = np.zeros(0)
        if isinstance(law, Bernoulli | Empirical):
            values = np.sort(weight / pulls * atoms(law)[0])
            step = float(np.diff(values).max(initial=0.0))
        discrete.append((step, deviation, values, pulls))
    # Rewards with steps narrower than a smooth density only smooth it further.
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
        raise RoughDensityError("noise is far thinner than the many steps of its rewards")
    return np.asarray(np.add.outer(points, width * np.array([-30, -8, 8, 30])).ravel())
