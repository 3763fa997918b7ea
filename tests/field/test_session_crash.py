"""A session killed at any line of its code loses no reward and draws no noise a second time.

Run as a script, this file forks a child for every line that a session executes where it touches its
file or changes what it shows. The child notes each state that its session shows, the moment it can
be seen, and kills itself at that line; the parent resumes from the file, finishes the session, and
writes all of it down as JSON. The tests check what was written.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import dpbai
from dpbai.field.session import Session, live, store

POLICY = dpbai.DPBAI(np.eye(3), budget=20, epsilon=1.0)


class Fresh:
    """Noise that never comes twice: whole numbers from the operating system."""

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
    """Give a session rewards of all arms that it asks for: a share of each, or the rest."""
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


# What likely mistakes would do.


def write_in_place(self, content):
    data = self._encoded(content)
    with self.path.open("wb") as file:
        file.write(data[:100])
        file.flush()
        file.write(data[100:])
    return data


def show_before_saving(self, run):
    before, data = self._at
    self._at = run, data
    self._at = run, self._store.save(run, before, data)


def rename_before_writing(self, content):
    data = self._encoded(content)
    self._temporary.touch()
    self._temporary.replace(self.path)
    self.path.write_bytes(data)
    return data


MUTANTS = {
    "none": lambda: None,
    "write in place": lambda: setattr(store.Store, "_write", write_in_place),
    "rename before writing": lambda: setattr(store.Store, "_write", rename_before_writing),
    "show before saving": lambda: setattr(live.Session, "_keep", show_before_saving),
}

# Where a session touches its file or changes what it shows: all else is computing.
STEPS = {"__init__", "resume", "_record", "_step", "_keep", "save", "load", "_locked", "_write"}
STEPS |= {"_sync_directory", "write_in_place", "rename_before_writing", "show_before_saving"}
CODE = {live.__file__, store.__file__, __file__}

# Killing needs no disk, and saving is faster in memory.
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None


# The script.


def child(path, log, share, line):
    """Take one step of the session in `path`, note in `log` what it shows, and die at a line."""
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
    """Return what a new process finds, and how it ends."""
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


# The beginning, a part and the rest of phase 1, and phase 2: what of the rewards is told.
SHARES = (None, 0.5, 1.0, 1.0)


def main(mutant, root, only):
    """Kill all steps at each line, or only one of them; the others then run to their ends."""
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


# The tests.


def run(mutant, only=""):
    """Yield what came of each kill; to stop listening ends the script."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as root:
        command = [sys.executable, __file__, mutant, root, only]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as script:
            try:
                yield from map(json.loads, script.stdout)
            except GeneratorExit:
                script.kill()
                raise
    assert script.returncode == 0


def faults(kills):
    """Return what is wrong with the outcomes, as a set of claims that do not hold."""
    wrong = set()
    for kill in kills:
        seen, found = kill["seen"], kill["found"]
        if found is None:
            # Only a session that had shown nothing yet may leave nothing.
            if seen or not kill["first"] or kill["error"] != "FileNotFoundError":
                wrong.add("the file is lost")
            continue
        final = kill["final"]
        if seen:
            last = seen[-1]
            shown_releases = last["released"]
            if found["released"][: len(shown_releases)] != shown_releases:
                wrong.add("noise was drawn again")
            if (found["phase"], -found["missing"]) < (last["phase"], -last["missing"]):
                wrong.add("rewards were lost")
        if final["released"][: found["phase"]] != found["released"]:
            wrong.add("noise was drawn again")
        for phase, (pulled, pulls) in enumerate(final["pulled"], start=1):
            for arm, number, value in zip(pulled, pulls, final["released"][phase - 1], strict=True):
                mean = sum(reward(phase, arm, n) for n in range(number)) / number
                if abs((value - mean + 0.5) % 1 - 0.5) > 1e-6:
                    wrong.add("rewards were lost")
        if final["recommendation"] is None or kill["files"] != [
            "session.json",
            "session.json.lock",
        ]:
            wrong.add("it did not end well")
    return wrong


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills children by fork")


@needs_fork
@pytest.mark.parametrize("step", range(len(SHARES)))
def test_a_kill_at_any_line_loses_no_reward_and_draws_no_noise_again(step):
    kills = list(run("none", str(step)))
    assert faults(kills) == set()
    assert sum(not kill["killed"] for kill in kills) == step + 1
    assert len(kills) > 30
    # Where a phase ends, kills fell on both sides of the saving of its release.
    seen = [kill for kill in kills if kill["seen"] and kill["killed"]]
    phases = {kill["found"]["phase"] - kill["seen"][-1]["phase"] for kill in seen}
    assert phases == (set(), {0}, {0, 1}, {0, 1})[step]


@needs_fork
@pytest.mark.parametrize(
    ("mutant", "step", "claims"),
    [
        ("write in place", "0", {"the file is lost"}),
        ("rename before writing", "0", {"the file is lost"}),
        ("show before saving", "2", {"noise was drawn again", "rewards were lost"}),
    ],
)
def test_the_kills_would_find_a_session_that_does_it_otherwise(mutant, step, claims):
    kills = run(mutant, step)
    found = set()
    for kill in kills:
        found |= faults([kill])
        if claims <= found:
            break
    kills.close()
    assert claims <= found


def test_a_document_is_on_the_disk_before_it_is_renamed_and_its_name_before_it_is_shown(
    tmp_path, monkeypatch
):
    """Against a loss of power, which no kill can play: the order of the calls."""
    order = []
    session = Session(POLICY, noise=Fresh(), path=tmp_path / "session.json")
    before = shown(session)

    def recorded(name):
        original = getattr(os, name)

        def call(*arguments):
            assert shown(session) == before
            target = arguments[0]
            if isinstance(target, int):
                target = Path(f"/proc/self/fd/{target}").readlink()
            order.append((name, Path(target).name))
            return original(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(store.os, name, recorded(name))
    deliver(session)
    temporary = "session.json.tmp"
    expected = [("fsync", temporary), ("replace", temporary), ("fsync", tmp_path.name)]
    expected += [("fsync", "session.json.lock")]  # the number of the phases released
    assert order == expected
    assert shown(session) != before


if __name__ == "__main__":
    main(*sys.argv[1:])
