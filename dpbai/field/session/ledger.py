"""The privacy cost of several runs together, by what their files state of shared people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpbai import _check
from dpbai.certificate import Certificate
from dpbai.field.session.live import Session


@dataclass(frozen=True)
class Ledger:
    """The largest cost of several runs for one person, by basic composition.

    Attributes
    ----------
    epsilon, delta : float
        The sums over all runs that this person may be in.
    costs : tuple of (str or None, Certificate)
        The population of each run, and its guarantee for all releases, past and to come.
    copies : tuple of int
        Indices of runs whose releases are all in another run, of which they are copies. They are
        not counted.
    """

    epsilon: float
    delta: float
    costs: tuple[tuple[str | None, Certificate], ...]
    copies: tuple[int, ...]


def ledger(sessions: Sequence[Session], *, group: int = 1) -> Ledger:
    """Return the cost of runs together.

    Runs of one population may share people, so their losses add up, and so do their deltas. Runs of
    different populations are taken to share nobody, as whoever named them stated: the largest sum
    counts. A run without a population is added to all.

    Parameters
    ----------
    sessions : sequence of Session
        At least one.
    group : int, default 1
        How many rewards one person may have given in each run.

    Raises
    ------
    ValueError
        If there is no session, or `group` cannot be accounted for, see `certificate`.
    """
    runs = [
        _check.kind(session, "sessions", Session)
        for session in _check.sequence(sessions, "sessions")
    ]
    if not runs:
        raise ValueError("sessions must hold at least one run")
    # What a copy has released, noise included, is all in another run; of equals the first counts.
    copies = tuple(
        i
        for i, run in enumerate(runs)
        if any(
            run.released == other.released[: len(run.released)] != ()
            and (len(other.released), -j) > (len(run.released), -i)
            for j, other in enumerate(runs)
        )
    )
    costs = tuple((run.population, run.group_certificate(group)) for run in runs)
    counted = [cost for i, cost in enumerate(costs) if i not in copies]
    totals = []
    for population in {whose for whose, _ in counted}:
        shared = [cost for whose, cost in counted if whose in (None, population)]
        totals.append((sum(cost.epsilon for cost in shared), sum(cost.delta for cost in shared)))
    epsilon, delta = map(max, zip(*totals, strict=True))
    return Ledger(epsilon, min(delta, 1.0), costs, copies)
