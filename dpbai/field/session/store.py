"""A session's file: one JSON document, replaced as a whole or not at all, and the run in it.

A document is written beside its file, forced to the disk, and renamed over it, so that a crash at
any moment leaves the old document or the new one. The file is in one canonical form with a checksum
over it: cut short or edited, it is refused. (The checksum is against accidents; whoever computes it
anew can forge a document.) A lock beside the file keeps processes apart while they write, and no
document is replaced but the one that the writer says it saw. Reading writes nothing.

It holds the policy (its class and parameters, so that no other plan can take it over), the name of
what draws the noise, the labels of the arms, the range of rewards, the names of batches, what each
finished phase released, and of the phase under way sums and counts.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from operator import gt
from pathlib import Path
from typing import Any

import numpy as np

from dpbai import _check
from dpbai._describe import class_name, plain, restored
from dpbai.beyond import DPDesign
from dpbai.field.session.noise import NumpyNoise, OpenDPNoise, ReleaseNoise
from dpbai.field.session.phase import shortened
from dpbai.field.session.records import Label, Released, SessionError
from dpbai.field.session.run import Run
from dpbai.phase import Phase, Policy
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, DPHalving, ODLinBAI

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_OWN = (DPBAI, DPBAIGauss, Baseline, DPDesign, DPHalving, ODLinBAI, DPOD)
_TOLERANCE = 1e-9
_canonical = partial(json.dumps, allow_nan=False)
# What comes of a content that was edited, with a checksum to match.
_UNFIT = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, SessionError)

KIND, VERSION = "dpbai session", 2
Content = Mapping[str, Any]


class Store:
    """The file at `path`.

    `<path>.lock` stays beside it, `<path>.tmp` only after a crash. A file that cannot be taken for
    what it should be is a `SessionError`, and is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _check.path(path, "path").resolve()

    def load(self, policy: Policy | None, noise: ReleaseNoise | None) -> tuple[Run, bytes]:
        """Return the run, and the bytes of the document; FileNotFoundError if there is no file."""
        if not self.path.exists():
            raise FileNotFoundError(f"{self.path} does not exist")
        data = self.path.read_bytes()
        content = self._decoded(data)
        # A crash may have left a document that was never shown to anyone: now it never will be. Who
        # may not write here may read all the same, and writes nothing.
        with suppress(OSError):
            if os.path.lexists(self._temporary):
                with self._locked():
                    self._temporary.unlink(missing_ok=True)
        try:
            return _run_in(content, policy, noise), data
        except _UNFIT as error:
            raise SessionError(f"{self.path} is refused: {error}") from error

    def save(self, run: Run, seen: bytes | None) -> bytes:
        """Write a run in the place of the one whose bytes were `seen`; return its bytes.

        FileExistsError if none was and there is a file; SessionError if the file is not that
        document any more.
        """
        with self._locked():
            before = self.path.read_bytes() if self.path.exists() else None
            if before is not None and seen is None:
                raise FileExistsError(f"{self.path} exists already, and is left as it is")
            if before != seen:
                raise SessionError(
                    f"{self.path} was changed since it was read or saved here: load it again"
                )
            return self._write(_content(run))

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(self.path.name + ".tmp")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock; the operating system lets go of it if this process dies."""
        lock = self.path.with_name(self.path.name + ".lock")
        with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600), "rb") as file:
            if sys.platform == "win32":
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, content: Any) -> bytes:
        data = self._encoded(content)
        # For its owner alone, or for no one, if the file is. What lies at this name is a crash's or
        # a stranger's: it is removed, not opened, and a link there is not followed.
        mode = 0o600 & self.path.stat().st_mode if self.path.exists() else 0o600
        self._temporary.unlink(missing_ok=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
            with os.fdopen(os.open(self._temporary, flags, mode), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._temporary, self.path)  # noqa: PTH105  (as all of these calls)
        except FileExistsError:
            raise SessionError(f"{self._temporary} was put there by someone else") from None
        except BaseException:
            self._temporary.unlink(missing_ok=True)
            raise
        _sync_directory(self.path.parent)
        return data

    def _encoded(self, content: Any) -> bytes:
        text = _canonical(content)
        checksum = hashlib.sha256(text.encode()).hexdigest()
        head = {"format": KIND, "version": VERSION, "checksum": checksum}
        return f'{_canonical(head)[:-1]}, "content": {text}}}\n'.encode()

    def _decoded(self, data: bytes) -> Any:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise SessionError(f"{self.path} was cut short or is no {KIND}") from None
        if not isinstance(document, dict) or document.get("format") != KIND:
            raise SessionError(f"{self.path} is no {KIND}")
        if document.get("version") != VERSION:
            raise SessionError(
                f"{self.path} has version {document.get('version')!r} of the format, "
                f"but this program reads version {VERSION}"
            )
        try:
            same = self._encoded(document["content"]) == data
        except (KeyError, ValueError, RecursionError):
            same = False
        if not same:
            raise SessionError(f"{self.path} was edited or damaged: its checksum does not fit")
        return document["content"]


def _content(run: Run) -> Content:
    current = None
    if run.phase is not None:
        sums = [str(total) for total in run.sums]
        current = {**_plan(run.phase, run.labels), "counts": list(run.counts), "sums": sums}
    return {
        "policy": _described(run.policy),
        "noise": run.noise.name,
        "labels": list(run.labels),
        "reward_range": list(run.reward_range),
        "batches": dict(run.batches),
        "finished": [plain(vars(released)) for released in run.finished],
        "current": current,
    }


def _run_in(content: Content, policy: Policy | None, noise: ReleaseNoise | None) -> Run:
    """Return the run that a content tells of; one of `_UNFIT` if it does not fit together."""
    policy, noise = _policy_of(content["policy"], policy), _noise_of(content["noise"], noise)
    run = Run.begun(policy, noise, content["labels"], content["reward_range"])
    for entry in restored(content["finished"]):
        released, planned = Released(**entry), _plan(run.plan, run.labels)
        # Another version may plan otherwise: what it released must not be decoded by this one.
        alike = all(entry[key] == restored(planned[key]) for key in ("phase", "active", "pulled"))
        if alike := alike and not any(map(gt, released.pulls, run.plan.pulls)):
            executed = shortened(run.plan, released.pulls)
            alike = run.follows(released, executed)
        if not alike:
            raise ValueError(
                f"phase {run.plan.index} was finished with another plan than this version makes"
            )
        run = run.after(released, executed)
    sums, counts = _received(content, run.phase)
    batches = {name: int(phase) for name, phase in content["batches"].items()}
    return replace(run, sums=sums, counts=counts, batches=batches)


def _noise_of(name: str, given: ReleaseNoise | None) -> ReleaseNoise:
    """Return the noise that a file was begun with: if none is given, one of this library's."""
    if given is None:
        sources = {source.name: source for source in (OpenDPNoise, NumpyNoise)}
        if name not in sources:
            raise ValueError(f"it was begun with noise from {name}: pass that noise")
        return sources[name]()
    if _check.kind(given, "noise", ReleaseNoise).name != name:
        raise ValueError(f"it was begun with noise from {name}")
    return given


def _received(
    content: Content, phase: Phase | None
) -> tuple[tuple[Fraction, ...], tuple[int, ...]]:
    """Return the sums and counts of the phase under way; ValueError if they do not fit its plan."""
    stored = content["current"]
    if phase is None or stored is None:
        if phase is not stored:
            raise ValueError("the phase under way does not follow from the finished ones")
        return (), ()
    planned = _plan(phase, content["labels"])
    noise, wanted = _named(stored["noise"]), planned["noise"]
    # A noise scale may come from linear algebra, which differs in the last bits between machines.
    same_noise = noise.keys() == wanted.keys() and all(
        noise[key] == wanted[key] or math.isclose(noise[key], wanted[key], rel_tol=_TOLERANCE)
        for key in noise
    )
    if not same_noise or any(stored[key] != planned[key] for key in planned.keys() - {"noise"}):
        raise ValueError(f"phase {phase.index} was begun with another plan than this version makes")
    try:
        sums, counts = tuple(map(Fraction, stored["sums"])), tuple(stored["counts"])
        rows = zip(counts, sums, phase.pulls, strict=True)
        fit = all(0 <= total <= count <= pulls for count, total, pulls in rows)
    except (ValueError, TypeError, ArithmeticError):  # which would tell what the sums are
        fit = False
    if not fit:
        raise ValueError("its sums and counts do not fit its plan")
    return sums, counts


def _policy_of(made_for: Content, given: Policy | None) -> Policy:
    """Return the policy that a file was made for: if none is given, one of this library's classes.

    ValueError if the one given has other parameters, or there is none of that class.
    """
    made_for = _named(made_for)
    if given is None:
        makers: dict[str, Any] = {class_name(maker): maker for maker in _OWN}
        if made_for["class"] not in makers:
            raise ValueError("its policy is none of this library: pass that policy")
        parameters = restored(made_for)
        maker = makers[parameters.pop("class")]
        given = maker(np.array(parameters.pop("features"), dtype=np.float64), **parameters)
    own = _described(given)
    differing = [key for key in {**made_for, **own} if made_for.get(key) != own.get(key)]
    if differing:
        raise ValueError(f"it was made for another plan: {', '.join(differing)} differ")
    return given


def _named(described: Content) -> Content:
    """Return a description with the class by its name now; version 0.2 wrote its module, too."""
    name = described["class"]
    ours = name.startswith("dpbai.")
    return {**described, "class": f"dpbai.{name.rpartition('.')[2]}" if ours else name}


def _described(policy: Policy) -> Content:
    """Return the class and the parameters of a policy; TypeError if it is no dataclass of these."""
    if not hasattr(policy, "__dataclass_fields__"):
        raise TypeError("policy must be a dataclass, so that its parameters can be saved")
    description: Content = plain(policy)
    return description


def _plan(phase: Phase, labels: Sequence[Label]) -> Content:
    return {
        "phase": phase.index,
        "active": [labels[arm] for arm in phase.active],
        "pulled": [labels[arm] for arm in phase.pulled],
        "pulls": list(phase.pulls),
        "noise": plain(phase.noise),
    }


def _sync_directory(path: Path) -> None:
    """Force the renaming to the disk as well; Windows offers no such call."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
