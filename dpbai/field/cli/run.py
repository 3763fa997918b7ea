"""The commands of a run: plan, start, next, tell, undo, end-phase, status, and so on."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import dpbai
from dpbai.beyond.linearity import Holdout
from dpbai.field.cli import advice, arguments, tables
from dpbai.field.cli.arguments import STANDARD_INPUT
from dpbai.field.cli.commands import PHASE_COLUMNS
from dpbai.field.cli.output import acknowledging
from dpbai.field.cli.sheets import listed, nearest, normal, quoted
from dpbai.field.cli.tables import Answer, Table
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
from dpbai.plans import reachable, representable

ACCOUNT = ("epsilon", "delta", "planned_epsilon", "mechanism", "remarks")
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
    first = policy.phase(1, range(count))
    pulls = zip(first.pulled, first.pulls, strict=True)
    return Answer(
        _phases(policy),
        above=[
            f"{arguments.POLICIES[given.policy][0]}: {count} arms of dimension {dimension}, at "
            f"most {policy.budget} pulls."
        ],
        below=[
            f"Phase 1 pulls: {listed((f'{quoted(arms.labels[a])} {n}' for a, n in pulls), _SHORT)}",
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
    table = Table(["arm", "pulls"], list(resumed(given.session).requests.items()))
    if given.json:
        tables.show_json(tables.records(table))
    elif given.output is None:
        tables.write(table, sys.stdout)
    return Answer(table, shown=False)


def tell(given: argparse.Namespace) -> Answer:
    """Record rewards."""
    session = resumed(given.session, given.seed)
    if given.follow:
        if given.rewards != STANDARD_INPUT or given.batch:
            raise ValueError("--follow reads lines of JSON from -, and goes without other options")
        for line in _lines():
            session, answer = _answer(session, given, line)
            with acknowledging():
                tables.show_json(answer)
        return Answer()
    sums = tables.read_rewards(given, _names(session), session.reward_range)
    count = sum(count for _, count in sums.values())
    return _stepped(
        given,
        lambda session: session.record_sums(sums, batch=given.batch),
        lambda _: f"Recorded {count} reward(s) of {len(sums)} arm(s).",
        session,
    )


def undo(given: argparse.Namespace) -> Answer:
    """Remove a batch."""
    removed: list[str] = []

    def step(session: Session) -> None:
        batches = session.batches
        session.undo(given.batch)
        counts = batches[normal(given.batch)].counts.items()
        removed.append(listed((f"{quoted(label)} {n}" for label, n in counts), _SHORT))

    return _stepped(given, step, lambda _: f"Removed batch {quoted(given.batch)}: {removed[-1]}")


def withdraw(given: argparse.Namespace) -> Answer:
    """Stop asking for rewards of an arm."""
    return _stepped(
        given,
        lambda session: session.withdraw(arm_named(session, given.arm)),
        lambda session: f"{quoted(arm_named(session, given.arm))} is withdrawn.",
    )


def end_phase(given: argparse.Namespace) -> Answer:
    """End the current phase with the rewards recorded so far."""
    session = resumed(given.session, given.seed)
    phase = len(session.released)

    def step(session: Session) -> None:
        if len(session.released) > phase:
            raise SessionError(f"phase {phase + 1} was completed in the meantime, and is released")
        session.end_phase()

    def said(session: Session) -> str:
        remark = next(text for text in session.released[phase].remarks if "was ended" in text)
        return f"{remark[0].upper()}{remark[1:]}."

    return _stepped(given, step, said, session)


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
        Table(["arm", "state", "estimate", "received", "missing"], rows),
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
    last = {label: released.phase for released in session.released for label in released.active}
    estimates, deviations = session.estimates, session.deviations
    order = sorted(session.labels, key=lambda label: (-last[label], -estimates[label]))
    order.sort(key=lambda label: label != session.recommendation)
    rows = [
        (label, estimates[label], deviations[label], last[label], _state(session, label))
        for label in order
    ]
    certificate = session.group_certificate(given.group)
    try:
        interval = session.interval()
    except SessionError:  # only differences were released
        interval = None
    return Answer(
        Table(["arm", "estimate", "noise", "phase", "state"], rows, lambda: _trace(session)),
        above=[f"Recommended: {session.recommendation}"],
        below=[
            _EXPLANATION,
            advice.model(session.policy),
            *advice.mean_of_answer(session, interval),
            advice.fitted(session),
            str(certificate),
        ],
        facts={
            "recommended": session.recommendation,
            "reward_range": session.reward_range,
            "interval": interval and vars(interval),
            **{name: getattr(certificate, name) for name in ACCOUNT},
        },
        rows="estimates",
    )


def _trace(session: Session) -> Any:
    from dpbai.field.figures import run_trace

    return run_trace(session)


def ledger(given: argparse.Namespace) -> Answer:
    """Show the privacy cost of several runs together."""
    book = session_ledger([resumed(path) for path in given.sessions], group=given.group)
    rows = [
        (path, population, account.epsilon, account.delta, account.released)
        for path, (population, account) in zip(given.sessions, book.costs, strict=True)
    ]
    copies = [given.sessions[place] for place in book.copies]
    not_counted = f"Not counted, as copies of others: {listed(map(quoted, copies))}"
    return Answer(
        Table(["run", "population", "epsilon", "delta", "released"], rows),
        below=[
            *([not_counted] if copies else []),
            f"Together, at most, for any one person: epsilon = {book.epsilon:.6g}, "
            f"delta = {book.delta:.6g}, for all releases of these runs, past and to come. Losses "
            "add up over runs of the same population, and over runs without one. Different "
            "populations are taken to share nobody, as whoever named them stated.",
        ],
        facts={"epsilon": book.epsilon, "delta": book.delta, "copies": copies},
        rows="runs",
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
    entries = (f"{quoted(label)} {n}" for label, n in session.requests.items())
    return f"Phase {len(session.released) + 1} needs: {listed(entries, _SHORT)}"


def _names(session: Session) -> dict[str, Label]:
    return {normal(str(label)): label for label in session.labels}


def _state(session: Session, label: Label) -> str:
    if label == session.recommendation:
        return "recommended"
    if label in session.withdrawn:
        return "withdrawn"
    out = (r.phase for r in session.released if label in set(r.active) - set(r.survivors))
    phase = next(out, None)
    return "in play" if phase is None else f"out in phase {phase}"


def _stepped(
    given: argparse.Namespace,
    step: Callable[[Session], object],
    said: Callable[[Session], str],
    session: Session | None = None,
) -> Answer:
    """Take a step of a session, and return what to say of it."""
    seed = vars(given).get("seed")
    session, before = _step(session or resumed(given.session, seed), given, step)
    released = [
        f"Phase {released.phase} is complete and released. {len(released.survivors)} of "
        f"{len(released.active)} arms stay: {listed(map(quoted, released.survivors))}"
        for released in session.released[before:]
        if not isinstance(session.policy, Holdout)
    ]
    return Answer(above=[said(session), *released, missing(session)])


def _step(
    session: Session, given: argparse.Namespace, step: Callable[[Session], object]
) -> tuple[Session, int]:
    """Take a step, and read the file again as often as another process has changed it.

    Return the session, and how many phases had been released before.
    """
    while True:
        before = len(session.released)
        try:
            step(session)
        except SessionConflictError:
            session = resumed(given.session, vars(given).get("seed"))
        else:
            return session, before


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
