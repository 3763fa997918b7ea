"""The commands of a run: plan, start, next, tell, undo, end-phase, status, and so on."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import chain
from typing import Any

import dpbai
from dpbai.field.cli import advice, arguments, tables
from dpbai.field.cli.arguments import STANDARD_INPUT
from dpbai.field.cli.commands import PHASE_COLUMNS
from dpbai.field.cli.output import acknowledging
from dpbai.field.cli.sheets import listed, nearest, normal, quoted
from dpbai.field.cli.tables import Table, say
from dpbai.field.session import (
    Batch,
    Interval,
    NumpyNoise,
    ReleaseWarning,
    Session,
    SessionConflictError,
    SessionError,
)
from dpbai.field.session import ledger as session_ledger
from dpbai.field.session.records import Label
from dpbai.phase import Policy
from dpbai.plans import reachable, representable

TOLD_OF_A_CERTIFICATE = ("epsilon", "delta", "planned_epsilon", "mechanism", "remarks")
_SHORT = 54  # characters of a list behind some words
_LIMIT = 200  # active sets looked at for the ranges of a phase
_KEYS = {"arm", "reward", "batch"}
_LONGEST_LINE = 2**16  # bytes of a line of JSON
_EXPLANATION = """\
noise: standard deviation of the noise in the estimate. phase: the last one that
estimated the arm. Compare within a phase only: a later one has new rewards and
new noise, so an arm that is out may show more than the one recommended."""


def plan(given: argparse.Namespace) -> Table:
    """Show what a run would do."""
    from dpbai.field.cli import (
        experiments,  # with what simulates, which no other command here needs
    )

    table = tables.read_arms(given)
    labels, features = table.labels, table.features
    policy = arguments.policy(given, features)
    if given.gap is None and (given.best is not None or given.within):
        raise ValueError("--best and --within go with --gap")
    instances = experiments.leading(given, labels, features) if given.gap is not None else {}
    phases = _phases(policy)
    name = arguments.POLICIES[given.policy][0]
    arms, dimension = features.shape
    print(f"{name}: {arms} arms of dimension {dimension}, at most {policy.budget} pulls.")
    tables.show(phases)
    first = policy.phase(1, range(arms))
    asked = (f"{quoted(labels[a])} {n}" for a, n in zip(first.pulled, first.pulls, strict=True))
    print(f"Phase 1 pulls: {listed(asked, _SHORT)}")
    print(dpbai.certificate(policy))
    say(advice.model(policy))
    _advise(given, table)
    if instances:
        experiments.show_expected(given, policy, labels, instances)
    return phases


def start(given: argparse.Namespace) -> None:
    """Begin a run."""
    table = tables.read_arms(given)
    session = Session(
        arguments.policy(given, table.features),
        noise=getattr(dpbai, arguments.NOISE[given.noise])(),
        path=given.session,
        labels=table.labels,
        reward_range=given.reward_range,
        population=given.population,
    )
    with acknowledging():
        print(f"{given.session} is ready.")
        say(advice.model(session.policy))
        _advise(given, table)
        _show_missing(session)


def following(given: argparse.Namespace) -> Table:
    """Show which arms to pull now."""
    session = _resumed(given.session)
    table = Table(["arm", "pulls"], list(session.requests.items()))
    if given.json:
        tables.show_json(tables.records(table))
    elif given.output is None:
        tables.write(table, sys.stdout)
    return table


def tell(given: argparse.Namespace) -> None:
    """Take rewards."""
    session = _resumed(given.session, given.seed)
    names = {normal(str(label)): label for label in session.labels}
    if given.follow:
        if given.rewards != STANDARD_INPUT or given.batch:
            raise ValueError("--follow reads lines of JSON from -, and goes without other options")
        for line in _lines():
            session, answer = _answer(session, given, names, line)
            with acknowledging():
                tables.show_json(answer)
        return
    sums = tables.read_rewards(given, names, session.reward_range)
    session, before = _step(session, given, lambda now: now.record_sums(sums, batch=given.batch))
    count = sum(count for _, count in sums.values())
    with acknowledging():
        print(f"Took {count} reward(s) of {len(sums)} arm(s).")
        _show_released(session, before)


def undo(given: argparse.Namespace) -> None:
    """Take a batch back."""
    taken: dict[str, Batch] = {}

    def step(session: Session) -> None:
        taken.update(session.batches)
        session.undo(given.batch)

    session, before = _step(_resumed(given.session), given, step)
    counts = taken[normal(given.batch)].counts.items()
    with acknowledging():
        told = listed((f"{quoted(label)} {n}" for label, n in counts), _SHORT)
        print(f"Took back batch {quoted(given.batch)}: {told}")
        _show_released(session, before)


def withdraw(given: argparse.Namespace) -> None:
    """Ask for no more rewards of an arm."""
    session = _resumed(given.session, given.seed)
    names = {normal(str(label)): label for label in session.labels}
    if (arm := normal(given.arm)) not in names:
        raise ValueError(f"{given.arm!r} is none of the arms{nearest(arm, names)}")
    session, before = _step(session, given, lambda now: now.withdraw(names[arm]))
    with acknowledging():
        print(f"{quoted(arm)} is withdrawn.")
        _show_released(session, before)


def end_phase(given: argparse.Namespace) -> None:
    """End the phase under way with the rewards that came in."""
    session = _resumed(given.session, given.seed)
    phase = len(session.released) + 1

    def step(session: Session) -> None:
        if len(session.released) >= phase:
            raise SessionError(f"phase {phase} was completed in the meantime, and is released")
        session.end_phase()

    session, before = _step(session, given, step)
    with acknowledging():
        remark = next(text for text in session.released[before].remarks if "was ended" in text)
        say(f"{remark[0].upper()}{remark[1:]}.")
        _show_released(session, before)


def status(given: argparse.Namespace) -> Table:
    """Show how far a run has come."""
    session = _resumed(given.session)
    requests, estimates, phase = session.requests, session.estimates, session.phase
    pulls = dict(zip(phase.pulled, phase.pulls, strict=True)) if phase else {}
    rows: list[tuple[object, ...]] = []
    for arm, label in enumerate(session.labels):
        missing = requests.get(label, 0) if arm in pulls else None
        received = None if missing is None else pulls[arm] - missing
        rows.append((label, _state(session, label), estimates.get(label), received, missing))
    rows.sort(key=lambda row: str(row[1]).startswith("out"))
    table = Table(["arm", "state", "estimate", "received", "missing"], rows)
    if given.json:
        told = {"phase": phase.index if phase else None, "missing": sum(requests.values())}
        batches = {name: dict(vars(batch)) for name, batch in session.batches.items()}
        tables.show_json({**told, "batches": batches, "arms": tables.records(table)})
        return table
    tables.show(table)
    if session.batches:
        say(f"Batches so far: {listed(map(quoted, session.batches))}")
    _show_missing(session)
    return table


def recommend(given: argparse.Namespace) -> Table:
    """Show the answer, the estimates and the guarantee."""
    session = _resumed(given.session)
    if not session.finished:
        missing = sum(session.requests.values())
        raise SessionError(
            f"the run is not finished: {missing} rewards of phase {len(session.released) + 1} are "
            "missing, see `dpbai next`, or `dpbai end-phase` if no more will come"
        )
    last = {label: released.phase for released in session.released for label in released.active}
    estimates, deviations = session.estimates, session.deviations
    order = sorted(session.labels, key=lambda label: (-last[label], -estimates[label]))
    order.sort(key=lambda label: label != session.recommendation)
    rows = [
        (label, estimates[label], deviations[label], last[label], _state(session, label))
        for label in order
    ]
    columns = ["arm", "estimate", "noise", "phase", "state"]
    table = Table(columns, rows, lambda: import_module("dpbai.field.figures").run_trace(session))
    certificate, interval = session.group_certificate(given.group), _interval(session)
    if given.json:
        told = {name: getattr(certificate, name) for name in TOLD_OF_A_CERTIFICATE}
        answer = {"recommended": session.recommendation, "reward_range": session.reward_range}
        found = {"interval": interval and vars(interval), **told}
        tables.show_json({**answer, **found, "estimates": tables.records(table)})
        return table
    print(f"Recommended: {session.recommendation}")
    tables.show(table)
    print(_EXPLANATION)
    if interval is None:
        print("Of means only differences were released, and no mean is known.")
    else:
        say(
            f"Mean of {quoted(session.recommendation)}: {interval.low:.4g} to {interval.high:.4g}, "
            f"with {100 * interval.confidence:g} % confidence whichever arm is recommended; off by "
            f"noise at most {interval.noise:.4g}, by sampling at most {interval.sampling:.4g}."
        )
    say(advice.model(session.policy))
    say(advice.fitted(session))
    print(certificate)
    return table


def ledger(given: argparse.Namespace) -> Table:
    """Show what several runs cost together."""
    sessions = [_resumed(path) for path in given.sessions]
    book = session_ledger(sessions, group=given.group)
    rows = [
        (path, whose, account.epsilon, account.delta, account.released)
        for path, (whose, account) in zip(given.sessions, book.costs, strict=True)
    ]
    table = Table(["run", "population", "epsilon", "delta", "released"], rows)
    copies = [given.sessions[place] for place in book.copies]
    if given.json:
        told = {"epsilon": book.epsilon, "delta": book.delta, "copies": copies}
        tables.show_json({**told, "runs": tables.records(table)})
        return table
    tables.show(table)
    if copies:
        say(f"Not counted, as copies of others: {listed(map(quoted, copies))}")
    say(
        f"Together, for who may be in most of them: epsilon = {book.epsilon:.6g}, delta = "
        f"{book.delta:.6g}, for all releases of these runs, past and to come. Losses add up over "
        "runs of the same population, and of none; those of different populations share nobody, "
        "by the word of who named them."
    )
    return table


def _interval(session: Session) -> Interval | None:
    try:
        return session.interval()
    except SessionError:  # only differences were released
        return None


def _step(
    session: Session, given: argparse.Namespace, step: Callable[[Session], object]
) -> tuple[Session, int]:
    """Take a step, with the file read again as often as another process was faster.

    Return the session, and how many phases had been released before.
    """
    while True:
        before = len(session.released)
        try:
            step(session)
        except SessionConflictError:
            session = _resumed(given.session, vars(given).get("seed"))
        else:
            return session, before


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input, and of one that is too long nothing."""
    if sys.stdin is None:
        raise ValueError("--follow reads standard input, and that is closed")
    while line := sys.stdin.buffer.readline(_LONGEST_LINE):
        rest = line
        while len(rest) == _LONGEST_LINE and not rest.endswith(b"\n"):
            line, rest = b"", sys.stdin.buffer.readline(_LONGEST_LINE)
        yield line


def _answer(
    session: Session, given: argparse.Namespace, names: Mapping[str, Label], line: bytes
) -> tuple[Session, dict[str, Any]]:
    """Take one reward, {"arm": ..., "reward": ...}, perhaps with "batch"; return what to answer.

    Whatever a line holds, it is answered, and no part of it is repeated but the name of a batch.
    """
    try:
        try:
            told = json.loads(line, object_pairs_hook=_each_once)
        except (ValueError, RecursionError):
            raise ValueError("this is no line of JSON") from None
        if not isinstance(told, dict) or not {"arm", "reward"} <= told.keys() <= _KEYS:
            raise ValueError("each line must be an object of arm, reward and perhaps batch")
        arm = normal(str(told["arm"]))
        if arm not in names:
            raise ValueError(f"this is none of the arms{nearest(arm, names)}")
        rewards, batch = {names[arm]: [told["reward"]]}, told.get("batch")
        session, before = _step(session, given, lambda now: now.record(rewards, batch=batch))
    except (ValueError, TypeError, SessionError, RecursionError, OSError) as error:
        return session, {"error": str(error)}
    answer: dict[str, Any] = {"missing": sum(session.requests.values())}
    if session.released[before:]:
        answer["released"] = len(session.released)
        answer["survivors"] = session.released[-1].survivors
    return session, answer


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise TypeError("each of arm, reward and batch may stand once in a line")
    return found


def _state(session: Session, label: Label) -> str:
    if label == session.recommendation:
        return "recommended"
    if label in session.withdrawn:
        return "withdrawn"
    gone = (r.phase for r in session.released if label in set(r.active) - set(r.survivors))
    phase = next(gone, None)
    return "in play" if phase is None else f"out in phase {phase}"


def _advise(given: argparse.Namespace, table: tables.Arms) -> None:
    if given.policy != arguments.BASELINE:  # which looks at no feature
        for note in advice.notes(table):
            say(f"Note: {note}.", hang="  ")


def _show_released(session: Session, before: int) -> None:
    for released in session.released[before:]:
        say(
            f"Phase {released.phase} is complete and released. "
            f"{len(released.survivors)} of {len(released.active)} arms stay: "
            f"{listed(map(quoted, released.survivors))}",
        )
    _show_missing(session)


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
    missing = (f"{quoted(label)} {n}" for label, n in session.requests.items())
    print(f"Phase {len(session.released) + 1} needs: {listed(missing, _SHORT)}")


def _phases(policy: Policy) -> Table:
    """Return a row for each phase, with ranges over the active sets that may survive."""
    plans, complete = reachable(policy, _LIMIT)
    # What stands for all plans of DPDesign does so in what it releases, not in its pulls.
    if representable(policy) and not (complete or isinstance(policy, dpbai.DPDesign)):
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
    """Return the least and the largest value as text, or the one value; 0 if there is none."""
    low, *_, high = [f"{value:.4g}" for value in sorted(values) or [0]] * 2
    return low if low == high else f"{low}..{high}"
