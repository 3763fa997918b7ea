"""Sessions against what may lie in wait: planted files, interrupts, copies, other processes."""

import contextlib
import copy
import enum
import io
import itertools
import linecache
import math
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from plans import Triangular

import dpbai
from dpbai.field.session import OpenDPNoise, Session, SessionError, live, store
from dpbai.noise import Gaussian

POLICY = dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0)


class Counting:
    """Noise that never comes twice, drawn from a counter that outlives every session."""

    name = "counting"
    remarks = ()
    drawn = itertools.count(1)

    def add(self, _noise, statistic, *, phase):  # noqa: ARG002
        return tuple(value + 10 * next(self.drawn) for value in statistic)

    def loss(self, _noise, _shift, _delta):
        return 0.0


def begun(path=None, policy=POLICY):
    return Session(policy, noise=Counting(), path=path)


def full(session, reward=0.25):
    return {arm: [reward] * pulls for arm, pulls in session.requests.items()}


# What lies beside the file.


@pytest.mark.parametrize("suffix", [".tmp", ".lock"])
def test_a_link_in_the_place_of_a_file_beside_the_session_is_not_followed(suffix, tmp_path):
    path, target = tmp_path / "session.json", tmp_path / "target"
    target.write_text("precious")
    session = begun(path)
    beside = path.with_name(path.name + suffix)
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    if suffix == ".tmp":
        session.record({0: [0.5]})
        assert not beside.exists()
    else:
        with pytest.raises(OSError, match="symbolic link"):
            session.record({0: [0.5]})
    assert target.read_text() == "precious"
    assert not path.is_symlink()


def test_a_file_in_the_place_of_the_temporary_one_lends_the_session_no_mode(tmp_path):
    path = tmp_path / "session.json"
    planted = tmp_path / "session.json.tmp"
    planted.write_text("")
    planted.chmod(0o666)
    with planted.open() as reader:
        begun(path).record({0: [0.5]})
        assert reader.read() == ""
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_planted_between_the_removal_and_the_opening_stops_the_step(tmp_path, monkeypatch):
    path = tmp_path / "session.json"
    session = begun(path)
    before, opened = path.read_bytes(), os.open

    def plant(file, flags, mode=0o777):
        if str(file).endswith(".tmp"):
            Path(file).write_text("planted")
        return opened(file, flags, mode)

    monkeypatch.setattr(os, "open", plant)
    with pytest.raises(SessionError, match=r"session\.json\.tmp was made by another process"):
        session.record({0: [0.5]})
    assert path.read_bytes() == before
    assert (tmp_path / "session.json.tmp").read_text() == "planted"


@pytest.mark.parametrize(("mode", "kept"), [(0o400, 0o400), (0o600, 0o600), (0o666, 0o600)])
def test_a_stricter_mode_of_the_file_is_kept(mode, kept, tmp_path):
    path = tmp_path / "session.json"
    session = begun(path)
    path.chmod(mode)
    session.record({0: [0.5]})
    assert path.stat().st_mode & 0o777 == kept


def test_reading_needs_no_right_to_write_and_writes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "session.json"
    begun(path).record({0: [0.5]})
    (tmp_path / "session.json.lock").unlink()
    (tmp_path / "session.json.tmp").write_text("left by a crash")
    before = sorted((entry.name, entry.read_bytes()) for entry in tmp_path.iterdir())
    opened, opened_by_io = os.open, io.open

    def read_only(file, flags, *rest):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError("read-only")
        return opened(file, flags, *rest)

    def read_only_io(file, mode="r", *rest, **options):
        if set(mode) & set("wax+"):
            raise PermissionError("read-only")
        return opened_by_io(file, mode, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(io, "open", read_only_io)
    session = Session.resume(path, noise=Counting())
    assert session.requests[0] == POLICY.phase(1, range(3)).pulls[0] - 1
    assert sorted((entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()) == before
    with pytest.raises(PermissionError):
        session.record({0: [0.5]})


# Interrupts, copies, processes.


def record_interrupted(session, batch, step):
    """Record, with an interrupt at a step of the code that saves and remembers; say if it came.

    Steps are lines, and where the session is told of what has been saved, instructions. (Python
    delivers no signal where a `with` is left, before it lets go of what it holds.)
    """
    count = 0
    steps = {"_record", "_step", "_keep", "save", "_write", "_locked", "_sync_directory"}

    def trace(frame, event, _):
        nonlocal count
        code = frame.f_code
        if code.co_filename not in (live.__file__, store.__file__) or code.co_name not in steps:
            return None
        frame.f_trace_opcodes = code.co_name == "_keep"
        line = linecache.getline(code.co_filename, frame.f_lineno).split()
        if event == ("opcode" if frame.f_trace_opcodes else "line") and line[0] != "with":
            count += 1
            if count == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        session.record(batch)
        came = False
    except KeyboardInterrupt:
        came = True
    sys.settrace(before)
    return came


def test_an_interrupt_at_any_step_lets_no_session_release_twice(tmp_path):
    interrupted = 0
    for step in itertools.count(1):
        path = tmp_path / f"{step}.json"
        session = begun(path)
        batch = full(session)
        came = record_interrupted(session, batch, step)
        between = Session.resume(path, noise=Counting())
        # Recorded already, or the file has gone on without this object.
        with contextlib.suppress(SessionError, ValueError):
            session.record(batch)
        shown = (between, session, Session.resume(path, noise=Counting()))
        seen = {released.statistic for one in shown for released in one.released[:1]}
        assert len(seen) == 1, step
        if not came:
            break
        interrupted += 1
    assert interrupted > 20


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"]
)
def test_a_session_is_not_copied(copied, saved, tmp_path):
    session = begun(tmp_path / "session.json" if saved else None)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copied(session)


@pytest.mark.parametrize("saved", [True, False])
def test_a_fork_of_a_session_releases_nothing_that_its_other_half_released(saved, tmp_path):
    """Played by another number of the process: what is seen by both comes from one of them."""
    session = begun(tmp_path / "session.json" if saved else None)
    other = object.__new__(Session)
    other.__dict__.update(session.__dict__, _process=-1)
    batch = full(session)
    session.record(batch)
    with pytest.raises(SessionError, match=r"process that began it|changed since"):
        other.record(batch)
    assert other.released == ()


# Labels.


class Colour(str, enum.Enum):  # noqa: UP042  (the older kind, whose str() is its own name)
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (list(Colour), ("red", "green", "blue")),
        (np.array(["red", "green", "blue"]), ("red", "green", "blue")),
        (np.arange(3, dtype=np.uint8), (0, 1, 2)),
        (enum.IntEnum("Number", "ONE TWO THREE"), (1, 2, 3)),
        (["caf\u00e9", "cafe", "the\u0301"], ("caf\u00e9", "cafe", "th\u00e9")),
    ],
    ids=["enum", "numpy strings", "numpy integers", "integer enum", "accents"],
)
def test_labels_are_kept_as_plain_names_and_found_under_the_ones_given(labels, kept, tmp_path):
    path = tmp_path / "session.json"
    Session(POLICY, noise=Counting(), path=path, labels=labels)
    session = Session.resume(path, noise=Counting())
    assert session.labels == kept
    assert {type(label) for label in session.labels} <= {int, str}
    asked = session.requests
    session.record({given: [0.5] for given in labels})
    assert session.requests == {name: pulls - 1 for name, pulls in asked.items()}


def test_two_names_of_one_arm_add_up():
    one, two = "caf\u00e9", "cafe\u0301"
    session = Session(POLICY, noise=Counting(), labels=[one, "tea", "milk"])
    before = session.requests[one]
    session.record({one: [0.5], two: [0.5]})
    assert session.requests[one] == before - 2
    with pytest.raises(ValueError, match="needs"):
        session.record({one: [0.5] * (before - 2), two: [0.5]})


# Noise.


class Odd:
    """A law that no source of noise of this library knows, from the second phase on."""

    def __init__(self, inner):
        self.features, self.budget, self.inner = inner.features, inner.budget, inner

    def phase(self, index, active):
        plan = self.inner.phase(index, active)
        if index == 1:
            return plan
        noise = Triangular(plan.noise.scale)
        object.__setattr__(plan, "noise", noise)
        return plan


def test_noise_that_the_source_lacks_is_refused_at_the_start(monkeypatch):
    original = OpenDPNoise.loss

    def picky(self, noise, shift, delta):
        if isinstance(noise, Triangular):
            raise TypeError("OpenDP has no measurement for Triangular noise")
        return original(self, noise, shift, delta)

    monkeypatch.setattr(OpenDPNoise, "loss", picky)
    wide = dpbai.DPBAI(np.eye(3), budget=60, epsilon=1.0)
    Session(wide)
    with pytest.raises(TypeError, match="no measurement for Triangular"):
        Session(Odd(wide))


@pytest.mark.parametrize("epsilon", [1e3, 1e5, 1e6, 1e9])
def test_gaussian_noise_has_a_certificate_at_every_epsilon(epsilon):
    """Against the law of the noise: never below it, and above by the price of concentration."""
    policy = dpbai.DPBAIGauss(
        np.eye(3), budget=40, epsilon=epsilon, delta=1e-5, calibration="analytic"
    )
    session = Session(policy)
    session.record(full(session))
    certificate = session.certificate
    assert certificate.planned_epsilon <= certificate.epsilon <= 1.2 * certificate.planned_epsilon
    assert math.isfinite(session.released[0].epsilon)
    assert isinstance(policy.phase(1, range(3)).noise, Gaussian)
