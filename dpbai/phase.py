"""The plan of one phase, and the protocol of a policy, which plans phases.

All policies of the paper eliminate arms phase by phase, and what they do in a phase depends on its
number and on the active set only. A `Phase` describes it completely. No policy draws random numbers
or reads rewards, and all engines execute the same plan. A policy may also decode the releases of
earlier phases, and plan for the sequence of active sets. These are public, so this costs no
privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from dpbai import _check
from dpbai._check import BoolArray, FloatArray, IntArray
from dpbai.noise import LAWS, Noise
from dpbai.ranking import Ranking

_LARGEST_EXPONENT = 950  # of an estimate, so that sums and rare draws do not overflow
_SMALLEST_NORMAL = 2.0**-1022  # smaller doubles have fewer digits


@dataclass(frozen=True, eq=False)
class Phase:
    """The plan of one phase.

    It releases `release @ empirical_means + noise`. The estimated means of the active arms are
    `decoder @ released`, and the `keep` arms with the largest estimates survive (``ranking``). The
    decoder may apply to the releases of all phases so far, oldest first.

    Attributes
    ----------
    index : int
        p, counted from 1.
    active : tuple of int
        The active arms, in increasing order.
    pulled : tuple of int
        The m distinct arms to pull. They need not be active: an eliminated arm may help to compare
        the active ones.
    pulls : tuple of int
        The number of pulls of each of them, at least 1.
    noise : Noise
        Law of the independent noise on each of the q released coordinates.
    keep : int
        s_{p+1}, the number of arms that survive. It may be all (as in OD-LinBAI with few arms).
    release_matrix : ndarray of shape (q, m) or None
        None stands for the identity, q = m.
    decoder_matrix : ndarray of shape (len(active), remembered + q) or None
        None stands for the identity: nothing is remembered, and q = len(active).
    remembered : int, default 0
        The number of coordinates released in earlier phases, if these are decoded too.
    delta : float, default 0
        The delta at which the privacy losses hold, in [0, 1): 0 for Laplace noise.
    """

    index: int
    active: tuple[int, ...]
    pulled: tuple[int, ...]
    pulls: tuple[int, ...]
    noise: Noise
    keep: int
    release_matrix: FloatArray | None = None
    decoder_matrix: FloatArray | None = None
    remembered: int = 0
    delta: float = 0.0

    def __init_subclass__(cls) -> None:
        # A subclass could execute another plan than the one that its privacy is computed from.
        raise TypeError("Phase cannot be subclassed: describe the plan by its attributes")

    def __post_init__(self) -> None:
        active = _check.active_set(self.active, _check.LARGEST_COUNT)
        pulled = _check.whole_numbers(self.pulled, "pulled", least=0)
        pulls = _check.whole_numbers(self.pulls, "pulls", least=1)
        if len(set(pulled)) < len(pulled):
            raise ValueError(f"pulled must be distinct arms, got {_check.quoted(pulled)}")
        if len(pulls) != len(pulled):
            raise ValueError(f"pulls must list {len(pulled)} numbers, one for each pulled arm")
        _check.kind(self.noise, "noise", Noise)
        keep = _check.whole(self.keep, "keep")
        if keep > len(active):
            raise ValueError(f"keep must be at most {len(active)} (all active arms), got {keep}")
        remembered = _check.whole(self.remembered, "remembered", least=0)
        vars(self).update(
            index=_check.whole(self.index, "index"),
            active=active,
            pulled=pulled,
            pulls=pulls,
            keep=keep,
            remembered=remembered,
            delta=_check.number(self.delta, "delta", "[0, 1)"),
        )
        if self.release_matrix is not None:
            release = _check.shaped(self.release_matrix, "release_matrix", (None, len(pulled)))
            vars(self)["release_matrix"] = release
        shape = len(active), remembered + self.coordinates
        if self.decoder_matrix is not None:
            decoder = _check.shaped(self.decoder_matrix, "decoder_matrix", shape)
            vars(self)["decoder_matrix"] = decoder
        elif remembered or len(active) != self.coordinates:
            raise ValueError(
                f"decoder_matrix must have shape {shape}, for the coordinates that are remembered "
                "and released; None stands for the identity, with nothing remembered"
            )

    @property
    def release(self) -> FloatArray:
        """The matrix of shape (q, m) that maps empirical means to the statistic."""
        return np.eye(len(self.pulled)) if self.release_matrix is None else self.release_matrix

    @property
    def decoder(self) -> FloatArray:
        """The matrix of shape (len(active), remembered + q) that maps releases to estimates."""
        return np.eye(len(self.active)) if self.decoder_matrix is None else self.decoder_matrix

    @property
    def coordinates(self) -> int:
        """q, the number of released coordinates."""
        matrix = self.release_matrix
        return len(self.pulled) if matrix is None else matrix.shape[0]

    @property
    def cost(self) -> int:
        """The total number of pulls."""
        return sum(self.pulls)

    def shifts(self, factor: float = 1.0) -> tuple[FloatArray, ...]:
        """Return how far a change of one reward by `factor` moves the statistic, by pulled arm.

        It moves the mean of its arm j by `factor` / n_j, and so the statistic by abs(release[:, j])
        factor / n_j. Coordinates that do not move may be omitted.
        """
        if self.release_matrix is None:
            by_pulls = {n: _rounded_up(np.array([1 / n]) * factor) for n in set(self.pulls)}
            return tuple(by_pulls[n] for n in self.pulls)
        moves = self.release_matrix != 0
        with np.errstate(over="ignore", invalid="ignore"):
            shifts = _rounded_up(np.abs(self.release_matrix) / np.array(self.pulls)) * factor
        return tuple(np.where(moves, _rounded_up(shifts), 0.0).T)

    @cached_property
    def losses(self) -> tuple[float, ...]:
        """The privacy loss of one reward of each pulled arm: epsilon, at `delta`."""
        return self._losses(1.0)

    def loss(self, reward_bound: float = 1.0) -> float:
        """Return the largest privacy loss of one reward, for rewards in [0, `reward_bound`]."""
        return max(self._losses(_check.positive(reward_bound, "reward_bound")), default=0.0)

    def _losses(self, reward_bound: float) -> tuple[float, ...]:
        shifts = self.shifts(reward_bound)
        distinct = {id(shift): shift for shift in shifts}
        losses = {key: self.noise.loss(shift, self.delta) for key, shift in distinct.items()}
        return tuple(losses[id(shift)] for shift in shifts)

    def statistic(self, means: FloatArray) -> FloatArray:
        """Return the statistic before noise; `means` has shape (..., m), the result (..., q)."""
        return means if self.release_matrix is None else means @ self.release_matrix.T

    def estimates(self, released: FloatArray) -> FloatArray:
        """Return estimated means, shape (..., len(active)), of releases (..., remembered + q)."""
        return released if self.decoder_matrix is None else released @ self.decoder_matrix.T

    @cached_property
    def reach(self) -> FloatArray:
        """The largest absolute value of each coordinate of the statistic, for rewards in [0, 1].

        Its shape is (remembered + q,), with 0 for remembered coordinates, whose sizes are unknown.
        """
        sizes = np.zeros(self.remembered + self.coordinates)
        matrix = self.release_matrix
        sizes[self.remembered :] = 1 if matrix is None else np.abs(matrix).sum(axis=1)
        return sizes

    def tied(self, released: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Return which arms certainly survive, and which tie for the remaining places.

        Shapes are (trials, len(active)), for releases of shape (trials, remembered + q).
        """
        return self._ranking.tied(released)

    def survivors(self, released: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return the surviving arms, increasing, shape (trials, keep).

        `released` has shape (trials, remembered + q). Arms that tie for the last places are equally
        likely to survive; `rng` is used for ties only.
        """
        kept = self._ranking.survivors(released, rng)
        arms: IntArray = np.asarray(self.active, dtype=np.int64)
        if self.keep > 1:
            return arms[np.nonzero(kept.T)[1]].reshape(len(released), self.keep)
        numbers = np.arange(len(arms), dtype=np.float64)  # a product of floats is fast
        return arms[(numbers @ kept).astype(np.int64)][:, None]

    def survivals(self, released: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return in how many trials each active arm survives; shape and ties as in `survivors`."""
        kept = self._ranking.survivors(released, rng)
        return np.array([np.count_nonzero(row) for row in kept])

    @cached_property
    def _ranking(self) -> Ranking:
        decoder = self.decoder_matrix
        if decoder is not None:
            # A larger unit avoids overflow of the estimates, and does not change their order.
            sizes = [np.abs(decoder).max(initial=0.0), self.noise.standard_deviation]
            excess = int(np.frexp(sizes)[1].sum()) - _LARGEST_EXPONENT
            decoder = np.ldexp(decoder, -excess) if excess > 0 else decoder
        return Ranking(decoder, self.reach, self.keep)


def declared(phase: Phase) -> Phase:
    """Return a copy of a plan with the declared attributes of `Phase` only.

    Engines and certificates use such copies, so other attributes and later changes of a plan have
    no effect.
    """
    values = {field.name: getattr(phase, field.name) for field in fields(Phase)}
    noise = values["noise"]
    if type(noise) in LAWS:
        values["noise"] = replace(noise)
    return Phase(**values)


def _rounded_up(shifts: FloatArray) -> FloatArray:
    """Round subnormal shifts up, because their relative rounding error may be large."""
    return np.where(shifts < _SMALLEST_NORMAL, np.nextafter(shifts, math.inf), shifts)


def checked_step(
    index: int, active: Sequence[int], sizes: Sequence[int], arms: int
) -> tuple[tuple[int, ...], int]:
    """Check the arguments of `Policy.phase`; return the active set, and how many arms survive.

    `sizes` lists the numbers of active arms in phases 1, 2, ..., then 1.
    """
    active = _check.active_set(active, arms)
    _check.whole(index, "index")
    if index >= len(sizes):
        raise ValueError(f"index must be a phase in 1..{len(sizes) - 1}, got {index}")
    size, keep = sizes[index - 1 : index + 1]
    if len(active) != size:
        raise ValueError(f"active must hold {size} arms in phase {index}, got {len(active)}")
    return active, keep


@runtime_checkable
class Policy(Protocol):
    """A planner of phases.

    A plan depends on the arguments of `phase` only, so that it can be cached, inspected and
    audited. A run recommends one arm; its releases also give estimates of all arms. The budget
    counts pulls, not their costs. If a policy has a method `error_bound(instance)`, `upper_bound`
    returns that bound.
    """

    @property
    def features(self) -> FloatArray:
        """Feature vectors, shape (K, d)."""

    @property
    def budget(self) -> int:
        """T, the largest number of pulls of a run.

        A policy that may exceed it, as with the paper's own T', has a property `most_pulls`.
        """

    def phase(self, index: int, active: Sequence[int]) -> Phase:
        """Return the plan of phase `index`, counted from 1, for the `active` arms."""


def remembers(policy: Policy) -> bool:
    """Return whether a policy plans for the sequence of active sets, and decodes all releases.

    Such a policy has `remembers = True`, and its `phase` takes earlier phases as third argument.
    """
    return getattr(policy, "remembers", False) is True
