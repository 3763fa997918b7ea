"""The commands of a run: plan, start, next, tell, undo, end-phase, status, and so on."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any

import dpbai
from dpbai.beyond.linearity import Holdout
from dpbai.field.cli import advice, arguments, tables
from dpbai.field.cli.answers import Answer, records, show_json, write
from dpbai.field.cli.arguments import STANDARD_INPUT
from dpbai.field.cli.output import acknowledging
from dpbai.field.cli.sheets import listed, nearest, normal, quoted
from dpbai.field.session import (
    NumpyNoise,
    ReleaseWarning,
    Session,
    SessionConflictError,
    SessionError,
)
from dpbai.field.session import ledger as session_ledger
from dpbai.field.session.records import Label
from dpbai.phase import Policy
from dpbai.plans import reachable, representatives

_ACCOUNT = ("epsilon", "delta", "planned_epsilon", "mechanism", "remarks")
_SHORT = 54  # characters of a list behind some words
_LIMIT = 200  # active sets looked at for the ranges of a phase
_KEYS = {"arm", "reward", "batch"}
_LONGEST_LINE = 2**16  # bytes of a line of JSON
_EXPLANATION = """\
noise: standard deviation of the noise in the estimate. phase: the last one that
estimated the arm. Compare within a phase only: a later one has new rewards and
new noise, so an arm that is out may show more than the one recommended."""


def plan(given: argparse.Namespace) -> Answer:
    """Show what a run would do."""
    if given.gap is None and (given.best is not None or given.within):
        raise ValueError("--best and --within go with --gap")
    arms = tables.read_arms(given)
    policy = arguments.policy(given, arms.features)
    expected: list[str] = []
    if given.gap is not None:
        from dpbai.field.cli import experiments  # with all that simulates

        expected = experiments.expected(given, policy, arms)
    count, dimension = arms.features.shape
    name, first = arguments.POLICIES[given.policy][0], policy.phase(1, range(count))
    pulls = ((arms.labels[arm], n) for arm, n in zip(first.pulled, first.pulls, strict=True))
    return Answer(
        _phases(policy),
        above=[f"{name}: {count} arms of dimension {dimension}, at most {policy.budget} pulls."],
        below=[
            f"Phase 1 pulls: {_counts(pulls)}",
            str(dpbai.certificate(policy)),
            *advice.advise(policy, arms),
            *expected,
        ],
    )


def start(given: argparse.Namespace) -> Answer:
    """Begin a run."""
    arms = tables.read_arms(given)
    policy = arguments.policy(given, arms.features)
    advised = advice.advise(policy, arms)
    session = Session(
        policy,
        noise=arguments.NOISE[given.noise](),
        path=given.session,
        labels=arms.labels,
        reward_range=given.reward_range,
        population=given.population,
    )
    return Answer(above=[f"{given.session} is ready.", *advised, missing(session)])


def following(given: argparse.Namespace) -> Answer:
    """Show which arms to pull now, as CSV."""
    rows = list(resumed(given.session).requests.items())
    if given.json:
        show_json(records(given.columns, rows))
    elif given.output is None:
        write(given.columns, rows, sys.stdout)
    return Answer(rows, shown=False)


def tell(given: argparse.Namespace) -> Answer:
    """Record rewards."""
    session = resumed(given.session, given.seed)
    if given.follow:
        if given.rewards != STANDARD_INPUT or given.batch:
            raise ValueError("--follow reads lines of JSON from -, and goes without other options")
        for line in _lines():
            session, answer = _answer(session, given, line)
            with acknowledging():
                show_json(answer)
        return Answer()
    sums = tables.read_rewards(given, _names(session), session.reward_range)
    count = sum(count for _, count in sums.values())

    def step(session: Session) -> str:
        session.record_sums(sums, batch=given.batch)
        return f"Recorded {count} reward(s) of {len(sums)} arm(s)."

    return _stepped(given, step, session)


def undo(given: argparse.Namespace) -> Answer:
    """Remove a batch."""

    def step(session: Session) -> str:
        batches = session.batches
        session.undo(given.batch)
        removed = _counts(batches[normal(given.batch)].counts.items())
        return f"Removed batch {quoted(given.batch)}: {removed}"

    return _stepped(given, step)


def withdraw(given: argparse.Namespace) -> Answer:
    """Stop asking for rewards of an arm."""

    def step(session: Session) -> str:
        session.withdraw(label := arm_named(session, given.arm))
        return f"{quoted(label)} is withdrawn."

    return _stepped(given, step)


def end_phase(given: argparse.Namespace) -> Answer:
    """End the current phase with the rewards recorded so far."""
    session = resumed(given.session, given.seed)
    phase = len(session.released)

    def step(session: Session) -> str:
        if len(session.released) > phase:
            raise SessionError(f"phase {phase + 1} was completed in the meantime, and is released")
        session.end_phase()
        remark = next(text for text in session.released[phase].remarks if "was ended" in text)
        return f"{remark[0].upper()}{remark[1:]}."

    return _stepped(given, step, session)


def status(given: argparse.Namespace) -> Answer:
    """Show the progress of a run."""
    session = resumed(given.session)
    requests, estimates, phase = session.requests, session.estimates, session.phase
    pulls = dict(zip(phase.pulled, phase.pulls, strict=True)) if phase else {}
    rows: list[tuple[object, ...]] = []
    for arm, label in enumerate(session.labels):
        left = requests.get(label, 0) if arm in pulls else None
        received = None if left is None else pulls[arm] - left
        rows.append((label, _state(session, label), estimates.get(label), received, left))
    # Arms that are out come last, unless the phase pulls them.
    rows.sort(key=lambda row: row[3] is None and str(row[1]).startswith("out"))
    batches = session.batches
    recorded = [f"Batches so far: {listed(map(quoted, batches))}"] if batches else []
    return Answer(
        rows,
        below=[*recorded, missing(session)],
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
        raise ValueError("a holdout recommends no arm: compare it with its run by `dpbai misfit`")
    if not session.finished:
        raise SessionError(
            f"the run is not finished: {sum(session.requests.values())} rewards of phase "
            f"{len(session.released) + 1} are missing, see `dpbai next`, or `dpbai end-phase` if "
            "no more will come"
        )
    best, estimates, deviations = session.recommendation, session.estimates, session.deviations
    last = {label: released.phase for released in session.released for label in released.active}
    certificate = session.group_certificate(given.group)
    try:
        interval = session.interval()
    except SessionError:  # only differences were released
        interval = None
    return Answer(
        [
            (label, estimates[label], deviations[label], last[label], _state(session, label))
            for label in sorted(last, key=lambda arm: (arm != best, -last[arm], -estimates[arm]))
        ],
        above=[f"Recommended: {best}"],
        below=[
            _EXPLANATION,
            advice.model(session.policy),
            *advice.mean_of_answer(session, interval),
            advice.fitted(session),
            str(certificate),
        ],
        facts={
            "recommended": best,
            "reward_range": session.reward_range,
            "interval": interval and vars(interval),
            **{name: getattr(certificate, name) for name in _ACCOUNT},
        },
        name="estimates",
        draw=lambda: import_module("dpbai.field.figures").run_trace(session),
    )


def ledger(given: argparse.Namespace) -> Answer:
    """Show the privacy cost of several runs together."""
    book = session_ledger([resumed(path) for path in given.sessions], group=given.group)
    copies = [given.sessions[place] for place in book.copies]
    not_counted = f"Not counted, as copies of others: {listed(map(quoted, copies))}"
    return Answer(
        [
            (path, population, account.epsilon, account.delta, account.released)
            for path, (population, account) in zip(given.sessions, book.costs, strict=True)
        ],
        below=[
            *([not_counted] if copies else []),
            f"Together, at most, for any one person: epsilon = {book.epsilon:.6g}, "
            f"delta = {book.delta:.6g}, for all releases of these runs, past and to come. Losses "
            "add up over runs of the same population, and over runs without one. Different "
            "populations are taken to share nobody, as whoever named them stated.",
        ],
        facts={"epsilon": book.epsilon, "delta": book.delta, "copies": copies},
        name="runs",
    )


def resumed(path: str, seed: int | None = None) -> Session:
    """Return a session from its file, without the warning about noise that `start` gave."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReleaseWarning)
        session = Session.resume(path)
        if seed is None:
            return session
        if not isinstance(session.noise, NumpyNoise):
            raise ValueError("--seed is for runs that were started with --noise numpy")
        return Session.resume(path, noise=NumpyNoise(seed))


def arm_named(session: Session, name: str) -> Label:
    """Return the label of an arm that is written like this."""
    names = _names(session)
    if (arm := normal(name)) not in names:
        raise ValueError(f"{name!r} is none of the arms{nearest(arm, names)}")
    return names[arm]


def missing(session: Session) -> str:
    """Return which rewards come next, or the answer."""
    if session.finished and isinstance(session.policy, Holdout):
        return "The holdout is finished: compare it with its run by `dpbai misfit`."
    if session.finished:
        return f"The run is finished: see `dpbai recommend`. Recommended: {session.recommendation}"
    return f"Phase {len(session.released) + 1} needs: {_counts(session.requests.items())}"


def _names(session: Session) -> dict[str, Label]:
    return {normal(str(label)): label for label in session.labels}


def _counts(numbers: Iterable[tuple[Label, int]]) -> str:
    """Return arms and numbers on one line."""
    return listed((f"{quoted(label)} {n}" for label, n in numbers), _SHORT)


def _state(session: Session, label: Label) -> str:
    if label == session.recommendation:
        return "recommended"
    if label in session.withdrawn:
        return "withdrawn"
    out = (r.phase for r in session.released if label in set(r.active) - set(r.survivors))
    phase = next(out, None)
    return "in play" if phase is None else f"out in phase {phase}"


def _stepped(
    given: argparse.Namespace, step: Callable[[Session], str], session: Session | None = None
) -> Answer:
    """Take a step, which returns what to say of it, and add what it has released."""
    session = session or resumed(given.session, given.seed)
    session, before, said = _step(session, given, step)
    released = [
        f"Phase {released.phase} is complete and released. {len(released.survivors)} of "
        f"{len(released.active)} arms stay: {listed(map(quoted, released.survivors))}"
        for released in session.released[before:]
        if not isinstance(session.policy, Holdout)
    ]
    return Answer(above=[said, *released, missing(session)])


def _step(
    session: Session, given: argparse.Namespace, step: Callable[[Session], Any]
) -> tuple[Session, int, Any]:
    """Take a step, and read the file again as often as another process has changed it.

    Return the session, how many phases had been released before, and what the step returned.
    """
    while True:
        before = len(session.released)
        try:
            return session, before, step(session)
        except SessionConflictError:
            session = resumed(given.session, given.seed)


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input; of one that is too long, an empty line."""
    if sys.stdin is None:
        raise ValueError("--follow reads standard input, which is closed")
    while line := sys.stdin.buffer.readline(_LONGEST_LINE):
        rest = line
        while len(rest) == _LONGEST_LINE and not rest.endswith(b"\n"):
            line, rest = b"", sys.stdin.buffer.readline(_LONGEST_LINE)
        yield line


def _answer(
    session: Session, given: argparse.Namespace, line: bytes
) -> tuple[Session, dict[str, Any]]:
    """Record one reward, {"arm": ..., "reward": ...}, perhaps with "batch"; return the answer.

    Any line is answered, and an error quotes nothing of it but the name of a batch.
    """
    try:
        try:
            read = json.loads(line, object_pairs_hook=_each_once)
        except (ValueError, RecursionError):
            raise ValueError("this is no line of JSON") from None
        if not isinstance(read, dict) or not {"arm", "reward"} <= read.keys() <= _KEYS:
            raise ValueError("each line must be an object of arm, reward and perhaps batch")
        names, arm = _names(session), normal(str(read["arm"]))
        if arm not in names:
            raise ValueError(f"this is none of the arms{nearest(arm, names)}")
        rewards, batch = {names[arm]: [read["reward"]]}, read.get("batch")
        session, before, _ = _step(session, given, lambda now: now.record(rewards, batch=batch))
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


def _phases(policy: Policy) -> list[tuple[object, ...]]:
    """Return a row for each phase, with ranges over the active sets that may survive."""
    plans, complete = reachable(policy, _LIMIT)
    # What stands for all plans of DPDesign does so in what it releases, not in its pulls.
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
    """Return the least and the largest value as text, or the one value; 0 if there is none."""
    low, *_, high = [f"{value:.4g}" for value in sorted(values) or [0]] * 2
    return low if low == high else f"{low}..{high}"


COMMANDS: dict[str, Callable[[argparse.Namespace], Answer]] = {
    "plan": plan,
    "start": start,
    "next": following,
    "tell": tell,
    "undo": undo,
    "withdraw": withdraw,
    "end-phase": end_phase,
    "status": status,
    "recommend": recommend,
    "ledger": ledger,
}
