"""The commands of a run: plan, start, next, tell, status, recommend."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable
from itertools import chain

import dpbai
from dpbai import privacy
from dpbai._check import FloatArray
from dpbai.cli import choices, experiments, tables
from dpbai.cli.commands import PHASE_COLUMNS
from dpbai.cli.tables import Table
from dpbai.noise import NoNoise
from dpbai.policies import Policy
from dpbai.privacy.plans import reachable, representable
from dpbai.session import NumpyNoise, ReleaseWarning, Session, SessionError

_LIMIT = 200  # active sets looked at for the ranges of a phase


def plan(given: argparse.Namespace) -> None:
    """Show what a run would do."""
    labels, features = tables.read_arms(given.arms)
    policy = _policy(given, features)
    name = choices.POLICIES[given.policy][0]
    table = _phases(policy)
    arms, dimension = features.shape
    print(f"{name}: {arms} arms of dimension {dimension}, at most {policy.budget} pulls.")
    tables.show(table)
    first = policy.phase(1, range(arms))
    asked = (f"{labels[arm]} {n}" for arm, n in zip(first.pulled, first.pulls, strict=True))
    print(f"Phase 1 pulls: {', '.join(asked)}")
    certificate = privacy.certificate(policy)
    print(
        f"Guarantee for each one reward: epsilon = {certificate.epsilon:.6g}, "
        f"delta = {certificate.delta:.6g}"
    )
    if isinstance(first.noise, NoNoise):
        print("There is no noise, and so no privacy.")
    if not certificate.complete:
        print("(There are too many active sets to list; this is the largest of those looked at.)")
    tables.write(table, given.output)
    if given.gap is not None:
        experiments.show_expected(given, policy, labels)


def start(given: argparse.Namespace) -> None:
    """Begin a run."""
    labels, features = tables.read_arms(given.arms)
    policy = _policy(given, features)
    noise = getattr(dpbai, choices.NOISE[given.noise])()
    session = Session(policy, noise=noise, path=given.session, labels=labels)
    print(f"{given.session} is ready.")
    _show_missing(session)


def following(given: argparse.Namespace) -> None:
    """Show which arms to pull now."""
    session = _resumed(given.session)
    table = Table(["arm", "pulls"], list(session.requests.items()))
    if given.output is None:
        tables.write_to(sys.stdout, table)
    tables.write(table, given.output)


def tell(given: argparse.Namespace) -> None:
    """Take rewards."""
    session = _resumed(given.session, seed=given.seed)
    sums = tables.read_rewards(given.rewards, [str(label) for label in session.labels])
    before = len(session.released)
    session.record_sums(sums)
    count = sum(count for _, count in sums.values())
    print(f"Took {count} reward(s) of {len(sums)} arm(s).")
    for released in session.released[before:]:
        left = ", ".join(map(str, released.survivors))
        print(
            f"Phase {released.phase} is complete and released. "
            f"{len(released.survivors)} of {len(released.active)} arms stay: {left}"
        )
    _show_missing(session)


def status(given: argparse.Namespace) -> None:
    """Show how far a run has come."""
    session = _resumed(given.session)
    requests = session.requests
    phase = session.phase
    pulls = dict(zip(phase.pulled, phase.pulls, strict=True)) if phase else {}
    gone = {
        label: f"out in phase {released.phase}"
        for released in session.released
        for label in set(released.active) - set(released.survivors)
    }
    rows = [
        (
            label,
            "recommended" if label == session.recommendation else gone.get(label, "in play"),
            session.estimates.get(label),
            pulls[arm] - requests.get(label, 0) if arm in pulls else None,
            requests.get(label, 0) if arm in pulls else None,
        )
        for arm, label in enumerate(session.labels)
    ]
    table = Table(["arm", "state", "estimate", "received", "missing"], rows)
    tables.show(table)
    tables.write(table, given.output)
    _show_missing(session)


def recommend(given: argparse.Namespace) -> None:
    """Show the answer, the estimates and the guarantee."""
    session = _resumed(given.session)
    if not session.finished:
        missing = sum(session.requests.values())
        raise SessionError(
            f"the run is not finished: {missing} rewards of phase {len(session.released) + 1} are "
            "missing, see `dpbai next`"
        )
    print(f"Recommended: {session.recommendation}")
    last = {label: released.phase for released in session.released for label in released.active}
    estimates = session.estimates
    rows = [(label, estimates[label], last[label]) for label in session.labels]
    table = Table(["arm", "estimate", "phase"], rows)
    tables.show(table)
    print(session.certificate)
    tables.write(table, given.output)


def _policy(given: argparse.Namespace, features: FloatArray) -> Policy:
    return choices.policy(
        given.policy,
        features,
        budget=given.budget,
        epsilon=given.epsilon,
        delta=given.delta,
    )


def _resumed(path: str, seed: int | None = None) -> Session:
    """Go on with a session; what has to be said of its noise was said at the start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReleaseWarning)
        session = Session.resume(path)
        if seed is None:
            return session
        if not isinstance(session.noise, NumpyNoise):
            raise ValueError("--seed is for runs that were started with --noise numpy")
        return Session.resume(path, noise=NumpyNoise(seed))


def _show_missing(session: Session) -> None:
    if session.finished:
        print(f"The run is finished: see `dpbai recommend`. Recommended: {session.recommendation}")
        return
    missing = (f"{label} {n}" for label, n in session.requests.items())
    print(f"Phase {len(session.released) + 1} needs: {', '.join(missing)}")


def _phases(policy: Policy) -> Table:
    """Return a row for each phase, with ranges over the active sets that may survive."""
    plans, complete = reachable(policy, _LIMIT)
    if representable(policy) and not complete:
        later = (policy.representatives(index) for index in range(2, len(plans) + 1))
        plans = [plans[0], *map(list, later)]
    rows = [
        (
            index,
            len(phases[0].active),
            _range(len(phase.pulled) for phase in phases),
            _range(chain.from_iterable(phase.pulls for phase in phases)),
            _range(phase.cost for phase in phases),
            type(phases[0].noise).__name__,
            _range(phase.noise.standard_deviation for phase in phases),
        )
        for index, phases in enumerate(plans, start=1)
    ]
    return Table(PHASE_COLUMNS, rows)


def _range(values: Iterable[float]) -> str:
    """Return the least and the largest value as text, or the one value."""
    low, *_, high = [f"{value:.4g}" for value in sorted(values)] * 2
    return low if low == high else f"{low}..{high}"
