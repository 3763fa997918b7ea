"""The steps of a run, each saved before it is acknowledged: tell, undo, withdraw, end-phase."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from dpbai.beyond.linearity import Holdout
from dpbai.field.cli import tables
from dpbai.field.cli.answers import Answer, show_json
from dpbai.field.cli.arguments import STANDARD_INPUT
from dpbai.field.cli.output import acknowledging
from dpbai.field.cli.run import arm_named, counted, missing, names_of, resumed
from dpbai.field.cli.sheets import listed, nearest, normal, plural, quoted
from dpbai.field.session import Session, SessionConflictError, SessionError

_KEYS = ["arm", "reward"], ["arm", "batch", "reward"]
_LONGEST_LINE = 2**16  # bytes of a line of JSON


def tell(given: argparse.Namespace) -> Answer:
    """Record rewards."""
    session = resumed(given.session, given.seed)
    if given.follow:
        if given.rewards != STANDARD_INPUT or given.batch:
            raise ValueError(
                "--follow reads lines of JSON, with their batches, from -: omit --batch, and name "
                "no other file"
            )
        for line in _lines():
            session, answer = _answer(session, given, line)
            with acknowledging():
                show_json(answer)
        return Answer()
    sums = tables.read_rewards(given, names_of(session), session.reward_range)
    count = sum(count for _, count in sums.values())

    def step(session: Session) -> str:
        session.record_sums(sums, batch=given.batch)
        return f"Recorded {plural(count, 'reward')} of {plural(len(sums), 'arm')}."

    return _take_step(given, step, session)


def undo(given: argparse.Namespace) -> Answer:
    """Remove a batch."""

    def step(session: Session) -> str:
        batches = session.batches
        session.undo(given.batch)
        removed = counted(batches[normal(given.batch)].counts.items())
        return f"Removed batch {quoted(given.batch)}: {removed}"

    return _take_step(given, step)


def withdraw(given: argparse.Namespace) -> Answer:
    """Stop asking for rewards of an arm."""

    def step(session: Session) -> str:
        session.withdraw(label := arm_named(session, given.arm))
        return f"{quoted(label)} is withdrawn."

    return _take_step(given, step)


def end_phase(given: argparse.Namespace) -> Answer:
    """End the current phase with the rewards recorded so far."""
    session = resumed(given.session, given.seed)
    phase = len(session.released)

    def step(session: Session) -> str:
        if len(session.released) > phase:
            raise SessionError(f"phase {phase + 1} was completed and released in the meantime")
        session.end_phase()
        remark = next(text for text in session.released[phase].remarks if "was ended" in text)
        return f"{remark[0].upper()}{remark[1:]}."

    return _take_step(given, step, session)


def _take_step(
    given: argparse.Namespace, step: Callable[[Session], str], session: Session | None = None
) -> Answer:
    """Take a step, which returns a report, and add the phases that it has released."""
    session = session or resumed(given.session, given.seed)
    session, before, report = _retried(session, given, step)
    released = [] if isinstance(session.policy, Holdout) else session.released[before:]
    phases = [
        f"Phase {phase.phase} is complete and released. {len(phase.survivors)} of "
        f"{len(phase.active)} arms remain{'s' * (len(phase.survivors) == 1)}: "
        f"{listed(map(quoted, phase.survivors))}"
        for phase in released
    ]
    return Answer(above=[report, *phases, missing(session)])


def _retried(
    session: Session, given: argparse.Namespace, step: Callable[[Session], Any]
) -> tuple[Session, int, Any]:
    """Take a step; if another process has changed the file, read it again and repeat.

    Return the session, how many phases had been released before, and what the step returned.
    """
    while True:
        before = len(session.released)
        try:
            return session, before, step(session)
        except SessionConflictError:
            session = resumed(given.session, given.seed)


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input, and an empty line for one that is too long."""
    if sys.stdin is None:
        raise ValueError(
            "--follow reads standard input, which is closed: pipe lines of JSON into it"
        )
    while line := sys.stdin.buffer.readline(_LONGEST_LINE):
        rest = line
        while len(rest) == _LONGEST_LINE and not rest.endswith(b"\n"):
            line, rest = b"", sys.stdin.buffer.readline(_LONGEST_LINE)
        yield line


def _answer(
    session: Session, given: argparse.Namespace, line: bytes
) -> tuple[Session, dict[str, Any]]:
    """Record one reward, {"arm": ..., "reward": ...}, perhaps with "batch"; return the answer.

    There is an answer to every line; an error quotes nothing of it except the name of a batch.
    """
    try:
        try:
            pairs = json.loads(line, object_pairs_hook=tuple)
        except (ValueError, RecursionError):
            raise ValueError("this line is not JSON") from None
        keys = [key for key, _ in pairs] if isinstance(pairs, tuple) else []
        if sorted(keys) not in _KEYS:
            raise ValueError(
                "each line must be an object with arm, reward and optionally batch, each once"
            )
        names, read = names_of(session), dict(pairs)
        arm = normal(str(read["arm"]))
        if arm not in names:
            raise ValueError(f"this is not one of the arms{nearest(arm, names)}")
        rewards, batch = {names[arm]: [read["reward"]]}, read.get("batch")
        session, before, _ = _retried(session, given, lambda now: now.record(rewards, batch=batch))
    except (ValueError, TypeError, SessionError, RecursionError, OSError) as error:
        return session, {"error": str(error)}
    answer: dict[str, Any] = {"missing": sum(session.requests.values())}
    if session.released[before:]:
        answer["released"] = len(session.released)
        answer["survivors"] = session.released[-1].survivors
    return session, answer


COMMANDS: dict[str, Callable[[argparse.Namespace], Answer]] = {
    "tell": tell,
    "undo": undo,
    "withdraw": withdraw,
    "end-phase": end_phase,
}
