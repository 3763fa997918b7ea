"""What a session has done so far."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpbai.policies import Phase

Label = int | str
"""What an arm is called."""


@dataclass(frozen=True)
class Released:
    """What one finished phase released: all of it may be published.

    Attributes
    ----------
    phase : int
        p, counted from 1.
    active, survivors : tuple of int or str
        Labels of the arms in play, and of those that went on.
    pulled : tuple of int or str
        Labels of the arms that were pulled.
    pulls : tuple of int
        How often each of them was.
    statistic : tuple of float
        The released statistic, noise included.
    estimates : tuple of float
        Estimated means of the `active` arms, computed from `statistic` alone.
    epsilon, delta : float
        The privacy loss of this release, by the account of what drew the noise.
    remarks : tuple of str
        What speaks against what drew the noise.
    """

    phase: int
    active: tuple[Label, ...]
    pulled: tuple[Label, ...]
    pulls: tuple[int, ...]
    statistic: tuple[float, ...]
    estimates: tuple[float, ...]
    survivors: tuple[Label, ...]
    epsilon: float
    delta: float
    remarks: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class State:
    """How far a session has come.

    Attributes
    ----------
    finished : tuple of Released
    phase : Phase or None
        The plan under way, or None when one arm is left.
    sums, counts : tuple
        Of the rewards that came in for each arm that `phase` pulls.
    """

    finished: tuple[Released, ...]
    phase: Phase | None
    sums: tuple[Fraction, ...]
    counts: tuple[int, ...]
