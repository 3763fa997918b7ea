"""The total privacy loss of several runs, some of which may share people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpbai import _check
from dpbai.certificate import Certificate
from dpbai.field.session.live import Session


@dataclass(frozen=True)
class Ledger:
    """The largest total privacy loss of several runs for one person, by basic composition.

    Attributes
    ----------
    epsilon, delta : float
        The largest sums over runs that may share this person.
    costs : tuple of (str or None, Certificate)
        The population of each run, and its guarantee for all past and future releases.
    copies : tuple of int
        Indices of runs that are copies of another run, which has all their releases. Copies are
        not counted.
    """

    epsilon: float
    delta: float
    costs: tuple[tuple[str | None, Certificate], ...]
    copies: tuple[int, ...]


def ledger(sessions: Sequence[Session], *, group: int = 1) -> Ledger:
    """Return the total privacy loss of several runs.

    Runs of the same population may share people, so their losses are added, and so are their
    deltas. Runs of different populations share nobody, according to those who named the
    populations, so the largest sum counts. A run without a population is added to every sum.

    Parameters
    ----------
    sessions : sequence of Session
        At least one.
    group : int, default 1
        The largest number of rewards that one person may have given in each run.

    Raises
    ------
    ValueError
        If there is no session, or the guarantee for `group` rewards is not known (see
        `Session.group_certificate`).
    """
    runs = [
        _check.kind(session, "sessions", Session)
        for session in _check.sequence(sessions, "sessions")
    ]
    if not runs:
        raise ValueError("sessions must contain at least one run")
    # All releases of a copy, including their noise, are in another run. Of equal runs the first
    # counts.
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
    for population in {name for name, _ in counted}:
        shared = [cost for name, cost in counted if name in (None, population)]
        totals.append((sum(cost.epsilon for cost in shared), sum(cost.delta for cost in shared)))
    epsilon, delta = map(max, zip(*totals, strict=True))
    return Ledger(epsilon, min(delta, 1.0), costs, copies)
