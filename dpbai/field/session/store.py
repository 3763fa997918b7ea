"""A session's file: one JSON document, replaced as a whole or not at all, and the run in it.

A document is written beside its file, forced to the disk, and renamed over it, so that a crash at
any moment leaves the old document or the new one. The file is in one canonical form with a checksum
over it: cut short or edited, it is refused. (The checksum is against accidents; whoever computes it
anew can forge a document.) A lock beside the file keeps processes apart while they write, and no
document is replaced but the one that the writer says it saw. The lock file stays, and holds how
many phases were released: no document with fewer goes on. Reading writes nothing.

A document holds the policy (its class and parameters, so that no other can take it over), the name
of what draws the noise, the labels of the arms, the range of rewards, batches, the guarantee that
was stated at the beginning, what each finished phase released, and of the phase under way sums and
counts. It holds the plans of all of these, too, and they are executed as they were made: linear
algebra differs between machines. What holds them to the policy is the account of their privacy and
of the budget.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai._describe import class_name, plain, restored
from dpbai.beyond import DPDesign
from dpbai.certificate import Certificate
from dpbai.field.session.noise import NumpyNoise, OpenDPNoise
from dpbai.field.session.records import Batch, Released, SessionConflictError, SessionError
from dpbai.field.session.run import Run
from dpbai.halving import DPHalving
from dpbai.noise import LAWS, Mechanism
from dpbai.phase import Phase, Policy
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, ODLinBAI

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_BUSY = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_FAR = 2**20  # the byte that is locked: where it is, all others can be read on Windows, too
_PATIENCE = 1.0  # seconds until it is said that a lock is waited for
_OWN = (DPBAI, DPBAIGauss, Baseline, DPDesign, DPHalving, ODLinBAI, DPOD)
_LAWS = {class_name(law): law for law in LAWS}
_canonical = partial(json.dumps, allow_nan=False)
# What comes of a content that was edited, with a checksum to match.
_UNFIT = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, SessionError)

KIND, VERSION = "dpbai session", 3
Content = Mapping[str, Any]


class Store:
    """The file at `path`.

    `<path>.lock` stays beside it, `<path>.tmp` only after a crash. A file that cannot be taken for
    what it should be is a `SessionError`, and is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _check.path(path, "path").resolve()

    def load(self, policy: Policy | None, noise: Mechanism | None) -> tuple[Run, bytes]:
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
            run = _run_in(content, policy, noise)
        except _UNFIT as error:
            raise SessionError(f"{self.path} is refused: {error}") from error
        with (
            suppress(OSError),
            os.fdopen(os.open(self._lock, os.O_RDONLY | _NO_LINK), "rb") as lock,
        ):
            self._check_newest(run, lock)
        return run, data

    def save(self, run: Run, before: Run, seen: bytes | None) -> bytes:
        """Write a run in the place of the one `before`, whose bytes were `seen`; return its bytes.

        FileExistsError if none was and there is a file; SessionConflictError if the file is not
        that document any more; SessionError if it is an older copy, or has a second name.
        """
        with self._locked() as lock:
            old = self.path.read_bytes() if self.path.exists() else None
            if old is not None and seen is None:
                raise FileExistsError(f"{self.path} exists already, and is left as it is")
            if old != seen:
                raise SessionConflictError(
                    f"{self.path} was changed since it was read or saved here: load it again"
                )
            if seen is None:
                lock.truncate(0)  # it may be left from a run whose file was removed
            else:
                self._check_newest(before, lock)
                if self.path.stat().st_nlink > 1:
                    raise SessionError(
                        f"{self.path} has a second name (a hard link), under which the same "
                        "rewards could be released again: remove one of the two"
                    )
            data = self._write(_content(run))
            if len(run.finished) > len(before.finished):
                lock.seek(0)
                lock.write(str(len(run.finished)).encode())
                lock.flush()
                os.fsync(lock.fileno())
            return data

    def _check_newest(self, run: Run, lock: BinaryIO) -> None:
        """Raise SessionError if the lock file knows of a phase that a run has not released."""
        lock.seek(0)
        known = lock.read(_FAR).strip()
        if known and not known.isdigit():
            raise SessionError(f"{self._lock} is no lock file of a session")
        if int(known or 0) > len(run.finished):
            raise SessionError(
                f"{self.path} is an older copy: phase {int(known)} has been released since, as "
                f"{self._lock.name} says, and going on would release the same rewards again; put "
                "the newer file back, or begin another run"
            )

    @property
    def _lock(self) -> Path:
        return self.path.with_name(self.path.name + ".lock")

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(self.path.name + ".tmp")

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """Hold the lock; the operating system lets go of it if this process dies."""
        flags = os.O_RDWR | os.O_CREAT | _NO_LINK
        with os.fdopen(os.open(self._lock, flags, 0o600), "r+b") as file:
            started, told = time.monotonic(), False
            while not _lock_now(file):
                if not told and time.monotonic() - started > _PATIENCE:
                    told = True
                    logging.getLogger(__name__).warning(
                        "waiting for another process that holds %s", self._lock
                    )
                time.sleep(0.01)
            yield file

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
        except BaseException as error:
            self._temporary.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno == errno.EBUSY:
                raise SessionError(
                    f"{self.path} cannot be replaced, as it is a mount of a single file: mount its "
                    "folder instead"
                ) from None
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
                f"{self.path} has version {document.get('version')!r} of the format, but this "
                f"program reads version {VERSION}: go on with the version of dpbai that began the "
                "run (0.2 for version 2 of the format)"
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
        parts = {
            name: [[label, str(total)] for label, total in part.items()]
            for name, part in run.parts.items()
        }
        sums = [str(total) for total in run.sums]
        counts = list(run.counts)
        current = {"plan": _saved(run.phase), "counts": counts, "sums": sums, "batches": parts}
    finished = [
        {"plan": _saved(phase), **plain(vars(released))}
        for phase, released in zip(run.past, run.finished, strict=True)
    ]
    return {
        "policy": _described(run.policy),
        "noise": run.noise.name,
        "labels": list(run.labels),
        "reward_range": list(run.reward_range),
        "population": run.population,
        "stated": _fields(run.stated),
        "withdrawn": list(run.withdrawn),
        "batches": {
            name: [batch.phase, [list(item) for item in batch.counts.items()]]
            for name, batch in run.batches.items()
        },
        "finished": finished,
        "current": current,
    }


def _run_in(content: Content, policy: Policy | None, noise: Mechanism | None) -> Run:
    """Return the run that a content tells of; one of `_UNFIT` if it does not fit together."""
    policy, noise = _policy_of(content["policy"], policy), _noise_of(content["noise"], noise)
    stated = Certificate(**restored(content["stated"]))
    labels, bounds, people = (content[n] for n in ("labels", "reward_range", "population"))
    run = Run.of(policy, noise, labels, bounds, people, stated)
    for entry in content["finished"]:
        phase = _plan(entry["plan"])
        released = Released(**restored({key: entry[key] for key in entry.keys() - {"plan"}}))
        run = run.next(phase)
        names = [tuple(run.labels[arm] for arm in arms) for arms in (phase.active, phase.pulled)]
        if not (
            [released.active, released.pulled] == names
            and released.phase == phase.index
            and len(released.statistic) == phase.coordinates
            and len(set(released.survivors) & set(released.active)) == phase.keep
            and len(released.survivors) == phase.keep
            and all(0 <= n <= pulls for n, pulls in zip(released.pulls, phase.pulls, strict=True))
        ):
            raise ValueError(f"what phase {phase.index} released does not fit its plan")
        run = replace(run, finished=(*run.finished, released), past=(*run.past, phase))
    withdrawn = tuple(content["withdrawn"])
    batches = {
        name: Batch(phase, dict(counts)) for name, (phase, counts) in content["batches"].items()
    }
    if not set(withdrawn) <= set(run.labels):
        raise ValueError("what was withdrawn is none of its arms")
    run = replace(run, batches=batches, withdrawn=withdrawn)
    current = content["current"]
    if current is None:
        if len(run.finished[-1].survivors) > 1:
            raise ValueError("the phase under way is missing")
        return run.next()
    return _received(run.next(_plan(current["plan"])), current)


def _received(run: Run, current: Content) -> Run:
    """Return the run with what came in; ValueError if it does not fit its plan."""
    try:
        sums, counts = tuple(map(Fraction, current["sums"])), tuple(current["counts"])
        rows = zip(counts, sums, run.plan.pulls, strict=True)
        fit = all(0 <= total <= count <= pulls for count, total, pulls in rows)
        parts = {
            name: {label: Fraction(total) for label, total in part}
            for name, part in current["batches"].items()
        }
        recorded = {name for name, batch in run.batches.items() if batch.phase == run.plan.index}
        fit = fit and parts.keys() == recorded
    except (ValueError, TypeError, ArithmeticError, AttributeError):  # which would tell the sums
        fit = False
    if not fit:
        raise ValueError("its sums and counts do not fit its plan")
    return replace(run, sums=sums, counts=counts, parts=parts)


def _noise_of(name: str, given: Mechanism | None) -> Mechanism:
    """Return the noise that a file was begun with: if none is given, one of this library's."""
    if given is None:
        sources = {source.name: source for source in (OpenDPNoise, NumpyNoise)}
        if name not in sources:
            raise ValueError(f"it was begun with noise from {name}: pass that noise")
        return sources[name]()
    if _check.kind(given, "noise", Mechanism).name != name:
        raise ValueError(f"it was begun with noise from {name}")
    return given


def _policy_of(made_for: Content, given: Policy | None) -> Policy:
    """Return the policy that a file was made for: if none is given, one of this library's classes.

    ValueError if the one given has other parameters, or there is none of that class.
    """
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
        raise ValueError(f"it was made for another policy: {', '.join(differing)} differ")
    return given


def _described(policy: Policy) -> Content:
    """Return the class and the parameters of a policy; TypeError if it is no dataclass of these."""
    if not hasattr(policy, "__dataclass_fields__"):
        raise TypeError("policy must be a dataclass, so that its parameters can be saved")
    description: Content = plain(policy)
    return description


def _fields(value: Any) -> Content:
    """Return the public parameters of a dataclass."""
    names = [field.name for field in fields(value) if field.name[0] != "_"]
    return {name: plain(getattr(value, name)) for name in names}


def _saved(phase: Phase) -> Content:
    """Return a plan for a file; TypeError if its noise is none of this library."""
    if (law := class_name(type(phase.noise))) not in _LAWS:
        raise TypeError(f"noise of the class {law} cannot be saved")
    return _fields(phase)


def _plan(saved: Content) -> Phase:
    """Return the plan that was saved; one of `_UNFIT` if it is none."""
    noise, release, decoder = dict(saved["noise"]), saved["release_matrix"], saved["decoder_matrix"]
    pulled = len(saved["pulled"])
    released = pulled if release is None else len(release)
    return Phase(
        **{
            **saved,
            "noise": _LAWS[noise.pop("class")](**noise),
            "release_matrix": _matrix(release, pulled),
            "decoder_matrix": _matrix(decoder, saved["remembered"] + released),
        }
    )


def _matrix(rows: list[list[float]] | None, columns: int) -> FloatArray | None:
    return None if rows is None else np.array(rows, np.float64).reshape(len(rows), columns)


def _lock_now(file: BinaryIO) -> bool:
    """Lock a file, unless another process has; return whether it is locked now."""
    try:
        if sys.platform == "win32":
            file.seek(_FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _BUSY:
            raise
        return False
    return True


def _sync_directory(path: Path) -> None:
    """Force the renaming to the disk as well; Windows offers no such call."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
