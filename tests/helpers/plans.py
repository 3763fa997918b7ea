"""Policies of one given phase, and instances of given laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import dpbai


@dataclass(frozen=True)
class Triangular:
    """Noise of a kind that the library does not know, with all that noise must have."""

    scale: float

    def __getattr__(self, name: str) -> object:
        return getattr(dpbai.Laplace(self.scale), name)


@dataclass(frozen=True, eq=False)
class OnePhase:
    """A policy whose only phase is given."""

    plan: dpbai.Phase

    @property
    def features(self) -> np.ndarray:
        return np.zeros((len(self.plan.active), 1))

    @property
    def budget(self) -> int:
        return self.plan.cost

    def phase(self, index: int, active: Sequence[int]) -> dpbai.Phase:
        assert (index, tuple(active)) == (1, self.plan.active)
        return self.plan


def one_phase(pulls, noise, decoder=None, release=None, pulled=None, arms=None) -> OnePhase:
    pulled = tuple(range(len(pulls))) if pulled is None else pulled
    arms = arms or (len(pulls) if decoder is None else len(decoder))
    plan = dpbai.Phase(
        1,
        tuple(range(arms)),
        pulled,
        tuple(pulls),
        noise,
        keep=1,
        release_matrix=None if release is None else np.asarray(release, float),
        decoder_matrix=None if decoder is None else np.asarray(decoder, float),
    )
    return OnePhase(plan)


def laws(*rewards, bounded: bool = True) -> dpbai.Instance:
    return dpbai.Instance(np.eye(len(rewards)), rewards=rewards, bounded=bounded)


def constants(*values: float) -> dpbai.Instance:
    return laws(*(dpbai.Empirical([value]) for value in values))
