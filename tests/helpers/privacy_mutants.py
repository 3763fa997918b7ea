"""Mistakes that an implementation of the paper's policies could make, put in on purpose.

Those that keep the engine's contract are policies with another noise. The others need engines of
their own, and are in `book/mistakes.py`.
"""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np

import dpbai
from dpbai.noise import Laplace, NoNoise


class ScaleOffBySqrt2(dpbai.DPBAI):
    """The standard deviation was taken for the scale."""

    def noise(self, pulls):
        return Laplace(1 / self.epsilon / pulls / math.sqrt(2))


class ScaleOffBy2(dpbai.DPBAI):
    """Sensitivity of a centred reward, 1/2."""

    def noise(self, pulls):
        return Laplace(1 / self.epsilon / pulls / 2)


class Inverted(dpbai.DPBAI):
    """epsilon / sensitivity in place of sensitivity / epsilon."""

    def noise(self, pulls):
        return Laplace(self.epsilon * pulls)


class InvertedDPOD(dpbai.DPOD):
    """The same for DP-OD, whose sensitivity is a norm."""

    def noise(self, vectors):
        return Laplace(self.epsilon / np.abs(vectors).sum(axis=1).max())


class Argmax(dpbai.DPBAI):
    """The means as they are."""

    def noise(self, pulls):  # noqa: ARG002
        return NoNoise()


def all_events(outputs):
    """Every set of outputs."""
    return [event for size in range(len(outputs) + 1) for event in combinations(outputs, size)]


def binary_tables(arms, pulls):
    """Every table of 0 and 1 with rows of equal length."""
    return [
        tuple(map(tuple, np.reshape(t, (arms, pulls))))
        for t in product((0, 1), repeat=arms * pulls)
    ]
