"""The commands that start runs and show their state: plan, start, next, status, and so on."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import dpbai
from dpbai import _check, field
from dpbai.beyond.linearity import Holdout
from dpbai.field.cli import advice, arguments, tables
from dpbai.field.cli.answers import Answer, records, show_json, write
from dpbai.field.cli.sheets import listed, nearest, normal, plural, quoted
from dpbai.field.session import (
    NumpyNoise,
    ReleaseWarning,
    Session,
    SessionError,
)
from dpbai.field.session import ledger as session_ledger
from dpbai.field.session.interval import comparable
from dpbai.field.session.records import Label
from dpbai.phase import Policy
from dpbai.plans import reachable, representatives

_ACCOUNT = ("epsilon", "delta", "planned_epsilon", "mechanism", "remarks")
_SHORT = 54  # characters of a list that follows some words
_LIMIT = 200  # active sets that are planned for the ranges of a phase
_EXPLANATION = """\
noise: standard deviation of the noise in the estimate. phase: the last phase
that estimated the arm. Compare estimates of the same phase only: a later phase
has new rewards and new noise, so an arm that is out may have a larger estimate
than the recommended one."""


def plan(given: argparse.Namespace) -> Answer:
    """Show what a run would do."""
    if given.gap is None and (given.best is not None or given.within):
        raise ValueError("--best and --within can be used only with --gap")
    arms = tables.read_arms(given)
    policy = arguments.policy(given, arms.features)
    successes: list[str] = []
    if given.gap is not None:
        from dpbai.field.cli.experiments import expected  # with all that simulates

        successes = expected(given, policy, arms)
    count, dimension = arms.features.shape
    name, first = arguments.POLICIES[given.policies[0]][0], policy.phase(1, range(count))
    pulls = ((arms.labels[arm], n) for arm, n in zip(first.pulled, first.pulls, strict=True))
    return Answer(
        _phases(policy),
        above=[
            f"{name}: {count} arms, {plural(dimension, 'feature')}, at most {policy.budget} pulls."
        ],
        below=[
            f"Phase 1 pulls: {counted(pulls)}",
            str(dpbai.certificate(policy)),
            *advice.advise(policy, arms),
            *successes,
        ],
    )


def start(given: argparse.Namespace) -> Answer:
    """Start a run."""
    arms = tables.read_arms(given)
    policy = arguments.policy(given, arms.features)
    remarks = (f"Note: {remark}." for remark in dpbai.certificate(policy).remarks)
    advised = [*remarks, *advice.advise(policy, arms)]
    session = Session(
        policy,
        noise=NumpyNoise() if given.noise == "numpy" else None,
        path=given.session,
        labels=arms.labels,
        reward_range=given.reward_range,
        population=given.population,
    )
    ready = f"{given.session} is ready: `dpbai next {given.session}` shows what to pull."
    return Answer(above=[ready, *advised, missing(session)])


def next_pulls(given: argparse.Namespace) -> Answer:
    """Show which arms to pull now, as CSV."""
    rows = list(resumed(given.session).requests.items())
    if given.json:
        show_json(records(given.columns, rows))
    elif given.output is None:
        write(given.columns, rows, sys.stdout)
    return Answer(rows, shown=False)


def status(given: argparse.Namespace) -> Answer:
    """Show the progress of a run."""
    session = resumed(given.session)
    requests, estimates, phase = session.requests, comparable(session), session.phase
    pulls = dict(zip(phase.pulled, phase.pulls, strict=True)) if phase else {}
    rows: list[tuple[object, ...]] = []
    for arm, label in enumerate(session.labels):
        left = requests.get(label, 0) if arm in pulls else None
        received = None if left is None else pulls[arm] - left
        rows.append((label, _state(session, label), estimates.get(label), received, left))
    # Arms that are out are listed last, unless the phase pulls them.
    rows.sort(key=lambda row: row[3] is None and str(row[1]).startswith("out"))
    batches = session.batches
    return Answer(
        rows,
        below=[
            f"Batches so far: {listed(map(quoted, batches))}" if batches else None,
            missing(session),
        ],
        facts={
            "phase": phase.index if phase else None,
            "missing": sum(requests.values()),
            "batches": {name: dict(vars(batch)) for name, batch in batches.items()},
        },
    )


def recommend(given: argparse.Namespace) -> Answer:
    """Show the answer, the estimates and the guarantee."""
    session = resumed(given.session)
    if isinstance(session.policy, Holdout):
        raise ValueError("a holdout recommends no arm: `dpbai misfit` compares it with its run")
    if left := sum(session.requests.values()):
        raise SessionError(
            f"the run is not finished: {plural(left, 'reward')} of phase "
            f"{len(session.released) + 1} {'is' if left == 1 else 'are'} missing. `dpbai "
            "next` lists them; if no more will come, use `dpbai end-phase`"
        )
    best, estimates = session.recommendation, comparable(session)
    deviations = {arm: size for arm, size in session.deviations.items() if arm in estimates}
    last = {label: released.phase for released in session.released for label in released.active}

    def order(arm: Label) -> tuple[object, ...]:
        return arm != best, -last[arm], arm not in estimates, -estimates.get(arm, 0.0)

    certificate = session.group_certificate(given.group)
    fit_text, fit = advice.fitted(session)
    interval = None
    with suppress(SessionError):  # if the releases determine no mean
        interval = session.interval()
    return Answer(
        [
            (arm, estimates.get(arm), deviations.get(arm), last[arm], _state(session, arm))
            for arm in sorted(last, key=order)
        ],
        above=[f"Recommended: {best}"],
        below=[
            _EXPLANATION,
            advice.model(session.policy),
            *advice.mean_of_answer(session, interval),
            fit_text,
            str(certificate),
        ],
        facts={
            "recommended": best,
            "reward_range": session.reward_range,
            "interval": interval and vars(interval),
            "fit": fit and vars(fit),
            **{name: getattr(certificate, name) for name in _ACCOUNT},
        },
        name="estimates",
        draw=lambda: field.figures.run_trace(session),
    )


def ledger(given: argparse.Namespace) -> Answer:
    """Show the privacy loss of several runs together."""
    check_named_once(given.sessions, "name each run only once: its loss would be counted twice")
    book = session_ledger([resumed(path) for path in given.sessions], group=given.group)
    copies = [given.sessions[place] for place in book.copies]
    return Answer(
        [
            (path, population, account.epsilon, account.delta, account.released)
            for path, (population, account) in zip(given.sessions, book.costs, strict=True)
        ],
        below=[
            f"Not counted, as they are copies: {listed(map(quoted, copies))}" if copies else None,
            f"For any one person, at most: epsilon = {book.epsilon:.6g}, delta = {book.delta:.6g}, "
            "for all releases of these runs together, past and future. Losses add up over runs "
            "of the same population and runs without one. Runs of different populations are "
            "assumed to share no people, as stated when they were started.",
        ],
        facts={"epsilon": book.epsilon, "delta": book.delta, "copies": copies},
        name="runs",
    )


def check_named_once(paths: Sequence[str], rule: str) -> None:
    """Raise ValueError, with this message, if two paths name the same file."""
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise ValueError(rule)


def resumed(path: str, seed: int | None = None) -> Session:
    """Return the session in a file, without the warning about noise that `start` has given."""
    _check.path(path, "a session")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReleaseWarning)
        session = Session.resume(path)
        if seed is None:
            return session
        if not isinstance(session.noise, NumpyNoise):
            raise ValueError("--seed is for runs that were started with --noise numpy")
        return Session.resume(path, noise=NumpyNoise(seed))


def arm_named(session: Session, name: str) -> Label:
    """Return the label of the arm with this name."""
    names = names_of(session)
    if (arm := normal(name)) not in names:
        raise ValueError(f"{name!r} is not one of the arms{nearest(arm, names)}")
    return names[arm]


def missing(session: Session) -> str:
    """Return which rewards are missing or, of a finished run, the answer."""
    if session.finished and isinstance(session.policy, Holdout):
        return "The holdout is finished: `dpbai misfit` compares it with its run."
    if session.finished:
        return f"The run is finished: see `dpbai recommend`. Recommended: {session.recommendation}"
    return f"Phase {len(session.released) + 1} needs: {counted(session.requests.items())}"


def names_of(session: Session) -> dict[str, Label]:
    """Return the labels of a session by their names on the command line."""
    return {normal(str(label)): label for label in session.labels}


def counted(numbers: Iterable[tuple[Label, int]]) -> str:
    """Return arms and numbers on one line."""
    return listed((f"{quoted(label)} {n}" for label, n in numbers), _SHORT)


def _state(session: Session, label: Label) -> str:
    holdout = isinstance(session.policy, Holdout)
    if label == session.recommendation and not holdout:
        return "recommended"
    if label in session.withdrawn:
        return "withdrawn"
    if holdout:  # which eliminates no arm
        return "released" if session.finished else "in play"
    out = {arm: r.phase for r in session.released for arm in set(r.active) - set(r.survivors)}
    return f"out in phase {out[label]}" if label in out else "in play"


def _phases(policy: Policy) -> list[tuple[object, ...]]:
    """Return a row for each phase, with ranges over its possible active sets."""
    plans, complete = reachable(policy, _LIMIT)
    # Those of DPDesign represent its plans in what they release only, not in their pulls.
    listed = representatives(policy)
    if listed and not (complete or isinstance(policy, dpbai.DPDesign)):
        plans = [plans[0], *(list(listed(index)) for index in range(2, len(plans) + 1))]
    return [
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


def _range(values: Iterable[float]) -> str:
    """Return the range of some values as text: one number if they are equal, 0 for none."""
    low, *_, high = [f"{value:.4g}" for value in sorted(values) or [0]] * 2
    return low if low == high else f"{low}..{high}"


COMMANDS: dict[str, Callable[[argparse.Namespace], Answer]] = {
    "plan": plan,
    "start": start,
    "next": next_pulls,
    "status": status,
    "recommend": recommend,
    "ledger": ledger,
}
