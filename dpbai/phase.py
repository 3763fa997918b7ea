"""The plan of one phase, and what a policy is: a planner of phases.

All policies of the paper eliminate arms phase by phase, and what they do in a phase depends on its
number and on the active set alone. A `Phase` states it completely. No policy draws a random number
or reads a reward; all engines execute the same plan. A policy may also remember: decode all
releases so far, and plan for the path of active sets. These are public, so it costs no privacy.
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
_SMALLEST_NORMAL = 2.0**-1022  # doubles below have fewer digits


@dataclass(frozen=True, eq=False)
class Phase:
    """The plan of one phase.

    It releases `release @ empirical_means + noise`; the estimated means of the active arms are
    `decoder @ released`; the `keep` arms with the largest estimates survive (``ranking``). A phase
    that remembers decodes the releases of all phases so far, oldest first.

    Attributes
    ----------
    index : int
        p, counted from 1.
    active, pulled : tuple of int
        Arms in play, increasing; and the m arms to pull, distinct, since no reward is used twice.
        They need not be active: an arm that is out may help to compare the active ones.
    pulls : tuple of int
        How often to pull each of them, each at least 1.
    noise : Noise
        Law of the independent noise on each of the q released coordinates.
    keep : int
        s_{p+1}, how many arms survive: all of them at most (OD-LinBAI plans that for few arms).
    release_matrix : ndarray of shape (q, m) or None
        None stands for the identity, q = m.
    decoder_matrix : ndarray of shape (len(active), remembered + q) or None
        None stands for the identity: nothing is remembered, and q = len(active).
    remembered : int, default 0
        How many coordinates the phases before have released, if their releases are decoded too.
    delta : float, default 0
        The delta at which its privacy losses are stated, in [0, 1): 0 for Laplace noise.
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
        raise TypeError("Phase cannot be subclassed: all that a phase may do is in its attributes")

    def __post_init__(self) -> None:
        active = _check.active_set(self.active, _check.LARGEST_COUNT)
        pulled = _check.whole_numbers(self.pulled, "pulled", least=0)
        pulls = _check.whole_numbers(self.pulls, "pulls", least=1)
        if len(set(pulled)) < len(pulled):
            raise ValueError(f"pulled must be distinct arms, got {_check.quoted(pulled)}")
        if len(pulls) != len(pulled):
            raise ValueError(f"pulls must list {len(pulled)} numbers, one for each pulled arm")
        _check.kind(self.noise, "noise", Noise)
        keep, remembered = self.keep, self.remembered
        if _check.whole(keep, "keep") > len(active):
            raise ValueError(f"keep must be at most {len(active)} active arms, got {keep}")
        vars(self).update(
            index=_check.whole(self.index, "index"),
            active=active,
            pulled=pulled,
            pulls=pulls,
            keep=int(keep),
            remembered=_check.whole(remembered, "remembered", least=0),
            delta=_check.number(self.delta, "delta", "[0, 1)"),
        )
        for name, shape in (
            ("release_matrix", (None, len(pulled))),
            ("decoder_matrix", (len(active), None)),
        ):
            if getattr(self, name) is not None:
                vars(self)[name] = _check.shaped(getattr(self, name), name, shape)
        decoded = len(active) if self.decoder_matrix is None else self.decoder_matrix.shape[1]
        if decoded != remembered + self.coordinates or (remembered and self.decoder_matrix is None):
            raise ValueError(
                f"decoder_matrix must decode as many coordinates as are remembered and released, "
                f"{remembered} + {self.coordinates}, and "
                f"{'without one' if self.decoder_matrix is None else 'it'} decodes {decoded}"
            )

    @property
    def release(self) -> FloatArray:
        """The matrix of shape (q, m) by which the empirical means are released."""
        return np.eye(len(self.pulled)) if self.release_matrix is None else self.release_matrix

    @property
    def decoder(self) -> FloatArray:
        """The matrix of shape (len(active), remembered + q) by which releases are decoded."""
        return np.eye(len(self.active)) if self.decoder_matrix is None else self.decoder_matrix

    @property
    def coordinates(self) -> int:
        """q, the number of released coordinates."""
        matrix = self.release_matrix
        return len(self.pulled) if matrix is None else matrix.shape[0]

    @property
    def cost(self) -> int:
        """Pulls in all."""
        return sum(self.pulls)

    def shifts(self, factor: float = 1.0) -> tuple[FloatArray, ...]:
        """Return how far one reward of each pulled arm, moved by `factor`, moves the statistic.

        It moves the mean of its arm j by `factor` / n_j, and so the release by at most
        abs(release[:, j]) factor / n_j. Coordinates that do not move may be omitted.
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
        """The largest size of each own statistic, for rewards in [0, 1]; shape (remembered + q,).

        It is 0 for remembered coordinates, whose size is not known here.
        """
        sizes = np.zeros(self.remembered + self.coordinates)
        matrix = self.release_matrix
        sizes[self.remembered :] = 1 if matrix is None else np.abs(matrix).sum(axis=1)
        return sizes

    def tied(self, released: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Return which arms survive for sure, and which tie for the remaining places.

        Shapes are (trials, len(active)), for releases of shape (trials, remembered + q).
        """
        return self._ranking.tied(released)

    def survivors(self, released: FloatArray, rng: np.random.Generator) -> IntArray:
        """Return the surviving arms, increasing, shape (trials, keep).

        `released` has shape (trials, remembered + q). Of arms that tie for the last places, all are
        equally likely to survive; `rng` is used only then.
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
            # Estimates that could overflow are computed in a larger unit: their order is the same.
            sizes = [np.abs(decoder).max(initial=0.0), self.noise.standard_deviation]
            beyond = int(np.frexp(sizes)[1].sum()) - _LARGEST_EXPONENT
            decoder = np.ldexp(decoder, -beyond) if beyond > 0 else decoder
        return Ranking(decoder, self.reach, self.keep)


def declared(phase: Phase) -> Phase:
    """Return a copy of a plan, made from the declared attributes of a `Phase` only.

    Engines execute, and certificates account for, such copies only. So other attributes that were
    set on a plan have no effect, nor do later changes of it.
    """
    values = {field.name: getattr(phase, field.name) for field in fields(Phase)}
    noise = values["noise"]
    if type(noise) in LAWS:
        values["noise"] = replace(noise)
    return Phase(**values)


def _rounded_up(shifts: FloatArray) -> FloatArray:
    """Return shifts, with subnormal ones rounded up: their relative rounding error is large."""
    return np.where(shifts < _SMALLEST_NORMAL, np.nextafter(shifts, math.inf), shifts)


def checked_step(
    index: int, active: Sequence[int], sizes: Sequence[int], arms: int
) -> tuple[tuple[int, ...], int]:
    """Return the active set, checked, and how many arms phase `index` keeps of it.

    `sizes` lists the numbers of active arms in phases 1, 2, ..., then 1.
    """
    active = _check.active_set(active, arms)
    _check.whole(index, "index")
    if index >= len(sizes):
        raise ValueError(f"index must be a phase of 1..{len(sizes) - 1}, got {index}")
    size, keep = sizes[index - 1 : index + 1]
    if len(active) != size:
        raise ValueError(f"active must hold {size} arms in phase {index}, got {len(active)}")
    return active, keep


@runtime_checkable
class Policy(Protocol):
    """A planner of phases; pure, so that plans can be cached, inspected and audited.

    A run recommends one arm; estimates of all arms are among its releases. A budget counts pulls,
    whatever each of them costs. A policy may have a method `error_bound(instance)`, a bound on its
    error, which `upper_bound` then returns.
    """

    @property
    def features(self) -> FloatArray:
        """Feature vectors, shape (K, d)."""

    @property
    def budget(self) -> int:
        """T, which the pulls of all phases together never exceed.

        A policy that may exceed it, as with the paper's own T', has a property `most_pulls`.
        """

    def phase(self, index: int, active: Sequence[int]) -> Phase:
        """Return the plan of phase `index`, counted from 1, for the `active` arms."""


def remembers(policy: Policy) -> bool:
    """Return whether a policy plans with the path of active sets, and decodes all releases.

    It then has `remembers = True`, and its `phase` takes the phases before as a third argument.
    """
    return getattr(policy, "remembers", False) is True
