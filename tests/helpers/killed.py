"""A script that kills a session at any line of its code, also in versions with likely mistakes.

It forks a child for every executed line of the functions that access the file or change what the
session shows. The child logs each state of its session as soon as it is visible, and kills itself
at that line. The parent resumes the session from the file, finishes it, and prints the outcome as
JSON, which the tests check.
"""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np

import dpbai
from dpbai.field.session import Session, live, store

POLICY = dpbai.DPBAI(np.eye(3), budget=20, epsilon=1.0)


class Fresh:
    """Noise that does not repeat: integers from the operating system."""

    name = "fresh"
    remarks = ()

    def add(self, _noise, statistic, *, phase):  # noqa: ARG002
        return tuple(value + int.from_bytes(os.urandom(4), "big") for value in statistic)

    def loss(self, _noise, _shift, _delta):
        return 0.0


def reward(phase, arm, number):
    """The reward of the n-th pull of an arm in a phase; means differ by 1/32 or more."""
    return (5 * phase + 3 * arm + number) % 9 / 8


def deliver(session, share=1.0):
    """Record a share of the missing rewards of each arm, at least one; by default all."""
    plan = session.phase
    batch = {}
    for arm, missing in session.requests.items():
        done = plan.pulls[plan.pulled.index(arm)] - missing
        numbers = range(done, done + max(1, int(missing * share)))
        batch[arm] = [reward(plan.index, arm, number) for number in numbers]
    session.record(batch)


def shown(session):
    """All that a session shows."""
    finished = [list(released.statistic) for released in session.released]
    pulled = [[released.pulled, released.pulls] for released in session.released]
    return {
        "phase": len(finished),
        "missing": sum(session.requests.values()),
        "released": finished,
        "pulled": pulled,
        "recommendation": session.recommendation,
    }


# Likely mistakes.


def write_in_place(self, data):
    with self.path.open("wb") as file:
        file.write(data[:100])
        file.flush()
        file.write(data[100:])


def show_before_saving(self, step):
    before, data = self._at
    run = step(before)
    self._at = run, data
    self._at = run, self._store.save(run, before, data)


def rename_before_writing(self, data):
    self._temporary.touch()
    self._temporary.replace(self.path)
    self.path.write_bytes(data)


MUTANTS = {
    "none": lambda: None,
    "write in place": lambda: setattr(store.Store, "_write", write_in_place),
    "rename before writing": lambda: setattr(store.Store, "_write", rename_before_writing),
    "show before saving": lambda: setattr(live.Session, "_step", show_before_saving),
}


# The functions that access the file or change what the session shows.
STEPS = {"__init__", "resume", "_record", "_step", "save", "load", "_locked", "_write"}


STEPS |= {"write_in_place", "rename_before_writing", "show_before_saving"}


CODE = {live.__file__, store.__file__, __file__}


# The script.


def child(path, log, share, line):
    """Take one step of the session in `path`, log what it shows, and die at a line."""
    session, last, count = None, None, 0

    def note():
        nonlocal last
        if session is not None and session._at[0] is not last:
            last = session._at[0]
            os.write(log, (json.dumps(shown(session)) + "\n").encode())

    def trace(frame, event, _):
        nonlocal count
        if frame.f_code.co_filename not in CODE or frame.f_code.co_name not in STEPS:
            return None
        if event == "line":
            count += 1
            sys.settrace(None)
            note()
            if count == line:
                os.kill(os.getpid(), signal.SIGKILL)
            sys.settrace(trace)
        return trace

    sys.settrace(trace)
    if share is None:
        session = Session(POLICY, noise=Fresh(), path=path)
    else:
        session = Session.resume(path, noise=Fresh())
        deliver(session, share)
    sys.settrace(None)
    note()
    os._exit(0)


def aftermath(path):
    """Return what a new process finds in the file, and how the run ends."""
    try:
        session = Session.resume(path, noise=Fresh())
        found = shown(session)
        while session.requests:
            deliver(session)
    except Exception as error:
        return {"found": None, "error": type(error).__name__}
    return {
        "found": found,
        "final": shown(session),
        "files": sorted(entry.name for entry in path.parent.iterdir()),
    }


# The steps: begin, record half and the rest of phase 1, and phase 2.
SHARES = (None, 0.5, 1.0, 1.0)


def main(mutant, root, only):
    """Kill each step at each of its lines, or only one step after the others have ended."""
    MUTANTS[mutant]()
    before = None
    for step, share in enumerate(SHARES[: int(only) + 1] if only else SHARES):
        line, killed = 1 if only in ("", str(step)) else -1, True
        while killed:
            with tempfile.TemporaryDirectory(dir=root) as folder:
                path = Path(folder, "session.json")
                if before:
                    path.write_bytes(before)
                log = Path(folder, "log")
                descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
                pid = os.fork()
                if not pid:
                    child(path, descriptor, share, line)
                killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
                os.close(descriptor)
                seen = [json.loads(entry) for entry in log.read_text().splitlines()]
                log.unlink()
                after = path.read_bytes() if path.exists() else None
                kill = {"first": share is None, "killed": killed, "seen": seen}
                print(json.dumps({**kill, **aftermath(path)}), flush=True)
            line += 1
        before = after


if __name__ == "__main__":
    main(*sys.argv[1:])
