"""The file of a session: one JSON document, replaced as a whole or not at all.

A new document is written to a temporary file, flushed to the disk, and renamed over the old one, so
that a crash at any moment leaves either the old or the new document. A lock on a second file
prevents other processes from writing at the same time, and a document is replaced only if it is the
one that the writer has read. The lock file stays, and counts the released phases: a document with
fewer phases is refused.

The content is in one canonical form with a checksum, which detects accidental changes (anyone can
compute it for a forged document). It holds the fields of a `Run` and the plans of all phases. Saved
plans are executed as they are, because linear algebra differs between machines, but must keep to
the stated guarantee and to the budget.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from fractions import Fraction
from operator import index
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from dpbai import _check
from dpbai._describe import class_name, plain, restored
from dpbai.beyond import DPDesign, DPHalving, Holdout
from dpbai.certificate import Certificate
from dpbai.field.session.records import Batch, Released, SessionConflictError, SessionError
from dpbai.field.session.releases import NumpyNoise, OpenDPNoise
from dpbai.field.session.run import Run
from dpbai.noise import LAWS, Mechanism
from dpbai.phase import Phase, Policy
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, ODLinBAI

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

KIND, VERSION = "dpbai session", 3

_POLICIES: dict[str, Any] = {
    class_name(policy): policy
    for policy in (DPBAI, DPBAIGauss, Baseline, DPDesign, DPHalving, ODLinBAI, DPOD, Holdout)
}
_LAWS = {class_name(law): law for law in LAWS}
_MECHANISMS = {mechanism.name: mechanism for mechanism in (OpenDPNoise, NumpyNoise)}
_INVALID = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, SessionError)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_LOCK_HELD = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_LOCKED_BYTE = 2**20  # beyond the content, which Windows then lets other processes read
_WARN_AFTER = 1.0  # seconds of waiting for a lock


class Store:
    """The file at `path`.

    `<path>.lock` stays beside it. `<path>.tmp` is left only by a crash, until the next step. A file
    that is not valid raises a `SessionError` and is not changed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _check.path(path, "path").resolve()
        self._lock = self.path.with_name(self.path.name + ".lock")
        self._temporary = self.path.with_name(self.path.name + ".tmp")

    def load(self, policy: Policy | None, noise: Mechanism | None) -> tuple[Run, bytes]:
        """Return the run, and the bytes of the document; FileNotFoundError if there is no file."""
        if not self.path.exists():
            raise FileNotFoundError(f"{self.path} does not exist")
        count = 0
        # The lock file is read first: another process may release a phase meanwhile.
        with suppress(OSError), _opened(self._lock, os.O_RDONLY, "rb") as lock:
            count = self._released(lock)
        data = self.path.read_bytes()
        content = self._decoded(data)
        try:
            run = run_in(content, policy, noise)
        except _INVALID as error:
            fault = f"it has no entry {error}" if isinstance(error, KeyError) else error
            raise SessionError(f"{self.path} is refused: {fault}") from error
        self._check_newest(run, count)
        return run, data

    def save(self, run: Run, before: Run, data: bytes | None) -> bytes:
        """Replace the document of the run `before`, and return the bytes of the new one.

        `data` are the bytes of the old document, None if there is no file yet. FileExistsError if
        there is one nevertheless; SessionConflictError if the file has other bytes; SessionError if
        it is an older copy or has a second name.
        """
        with self._locked() as lock:
            old = self.path.read_bytes() if self.path.exists() else None
            if old is not None and data is None:
                raise FileExistsError(
                    f"{self.path} exists already and was not changed: continue that run, or use "
                    "another path"
                )
            if old != data:
                raise SessionConflictError(
                    f"{self.path} was changed since this session read or saved it: resume it again "
                    "and repeat the step"
                )
            if data is None:
                lock.truncate(0)  # the count of an earlier run whose file was removed
            count = self._released(lock)
            self._check_newest(before, count)
            if data is not None and self.path.stat().st_nlink > 1:
                raise SessionError(
                    f"{self.path} has a second name (a hard link), through which the same rewards "
                    "could be released again: remove one of the two names"
                )
            data = _encoded(content_of(run))
            self._write(data)
            if len(run.finished) > count:  # also after a crash just before this
                lock.seek(0)
                lock.write(str(len(run.finished)).encode())
                lock.flush()
                os.fsync(lock.fileno())
            return data

    def _released(self, lock: BinaryIO) -> int:
        """Return the number of released phases; SessionError if the lock file does not hold it."""
        lock.seek(0)
        count = lock.read(_LOCKED_BYTE).strip() or b"0"
        if not count.isdigit():
            raise SessionError(f"{self._lock} is not the lock file of a session: use another path")
        return int(count)

    def _check_newest(self, run: Run, count: int) -> None:
        """Raise SessionError if more phases were released than the run has."""
        if count > len(run.finished):
            raise SessionError(
                f"{self.path} is an older copy: phase {count} has been released since, "
                f"according to {self._lock.name}, so the same rewards would be released again; "
                "restore the newer file, or begin another run"
            )

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """Hold the lock, which the operating system releases if this process ends."""
        with _opened(self._lock, os.O_RDWR | os.O_CREAT, "r+b") as file:
            warning = time.monotonic() + _WARN_AFTER
            while not _lock_now(file):
                if time.monotonic() > warning:
                    warning = math.inf
                    logging.getLogger(__name__).warning(
                        "waiting for another process that holds %s", self._lock
                    )
                time.sleep(0.01)
            yield file

    def _write(self, data: bytes) -> None:
        # Only the owner may read it. A file or link of the temporary name is removed, never opened.
        mode = 0o600 & self.path.stat().st_mode if self.path.exists() else 0o600
        self._temporary.unlink(missing_ok=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with _opened(self._temporary, flags, "wb", mode) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._temporary, self.path)  # noqa: PTH105  (as all of these calls)
        except FileExistsError:
            raise SessionError(
                f"{self._temporary} was made by another process: repeat the step"
            ) from None
        except BaseException as error:
            self._temporary.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno == errno.EBUSY:
                raise SessionError(
                    f"{self.path} cannot be replaced, because it is a mount of a single file: "
                    "mount its folder instead"
                ) from None
            raise
        if sys.platform != "win32":  # which cannot flush a renaming to the disk
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _decoded(self, data: bytes) -> Any:
        """Return the content of a document."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise SessionError(f"{self.path} was cut short or is not a {KIND}") from None
        if not isinstance(document, dict) or document.get("format") != KIND:
            raise SessionError(f"{self.path} is not a {KIND}")
        if document.get("version") != VERSION:
            raise SessionError(
                f"{self.path} has version {document.get('version')!r} of the format, but this "
                f"program reads version {VERSION}: continue with the version of dpbai that began "
                "the run (0.2 for version 2 of the format)"
            )
        with suppress(KeyError, ValueError, RecursionError):
            if _encoded(document["content"]) == data:
                return document["content"]
        raise SessionError(f"{self.path} was edited or damaged: its checksum does not fit")


def _encoded(content: Any) -> bytes:
    text = json.dumps(content, allow_nan=False)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    head = json.dumps({"format": KIND, "version": VERSION, "checksum": checksum})
    return f'{head[:-1]}, "content": {text}}}\n'.encode()


def _opened(path: Path, flags: int, kind: str, mode: int = 0o600) -> BinaryIO:
    """Open a file that is no symbolic link."""
    return cast(BinaryIO, os.fdopen(os.open(path, flags | _NO_FOLLOW, mode), kind))


def _lock_now(file: BinaryIO) -> bool:
    """Lock a file if no other process has, and return whether that was possible."""
    try:
        if sys.platform == "win32":
            file.seek(_LOCKED_BYTE)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _LOCK_HELD:
            raise
        return False
    return True


def content_of(run: Run) -> Any:
    """Return the content of a document."""
    current = None
    if run.phase is not None:
        current = {
            "plan": _values(run.phase),
            "counts": [count for _, count in run.totals.values()],
            "sums": [str(total) for total, _ in run.totals.values()],
            "batches": {
                name: [[arm, str(total)] for arm, total in part.items()]
                for name, part in run.sums.items()
            },
        }
    return {
        "policy": _described(run.policy),
        "noise": run.noise.name,
        "labels": run.labels,
        "reward_range": run.reward_range,
        "population": run.population,
        "stated": _values(run.stated),
        "withdrawn": run.withdrawn,
        "batches": {
            name: [batch.phase, list(batch.counts.items())] for name, batch in run.batches.items()
        },
        # A plan comes first, and then what it released.
        "finished": [{"plan": None, **_values(released)} for released in run.finished],
        "current": current,
    }


def run_in(content: Any, policy: Policy | None, noise: Mechanism | None) -> Run:
    """Return the run that a document contains; an error of `_INVALID` if it is not consistent."""
    policy, noise = _policy_of(content["policy"], policy), _noise_of(content["noise"], noise)
    stated = Certificate(**restored(content["stated"]))
    labels, bounds, people = (content[n] for n in ("labels", "reward_range", "population"))
    run = Run.of(policy, noise, labels, bounds, people, stated)
    for entry in content["finished"]:
        run = run.next(_plan(entry["plan"]))
        released = Released(**{**restored(entry), "plan": run.plan})
        names = run.names_of(run.plan.active), run.names_of(run.plan.pulled)
        if not (
            (released.active, released.pulled) == names
            and released.phase == run.plan.index
            and len(released.statistic) == run.plan.coordinates
            and len(released.survivors) == run.plan.keep
            and set(released.survivors) <= set(released.active)
            and all(0 <= n <= m for n, m in zip(released.pulls, run.plan.pulls, strict=True))
        ):
            raise ValueError(f"the release of phase {run.plan.index} does not fit its plan")
        run = replace(run, finished=(*run.finished, released))
    if not set(content["withdrawn"]) <= set(labels):
        raise ValueError("an arm that was withdrawn is not one of its arms")
    batches = {
        name: Batch(phase, {arm: index(count) for arm, count in counts})
        for name, (phase, counts) in content["batches"].items()
    }
    run = replace(run, withdrawn=tuple(content["withdrawn"]), batches=batches)
    if (current := content["current"]) is not None:
        return _received(run.next(_plan(current["plan"])), current)
    if not run.finished or len(run.finished[-1].survivors) > 1:
        raise ValueError("the current phase is missing")
    return run.next()


def _received(run: Run, current: Any) -> Run:
    """Return the run with the sums of its current phase; ValueError if they do not fit its plan."""
    plan = run.plan
    try:
        rows = zip(run.totals, current["sums"], current["counts"], strict=True)
        totals = {arm: (Fraction(total), index(count)) for arm, total, count in rows}
        sums = {
            name: {arm: Fraction(total) for arm, total in part}
            for name, part in current["batches"].items()
        }
        run = replace(run, totals=totals, sums=sums)
        here = {n: batch.counts for n, batch in run.batches.items() if batch.phase == plan.index}
        pairs = [*run.rest(sums).values()]  # without a batch
        for name, part in sums.items():
            pairs += [(total, here[name][arm]) for arm, total in part.items()]
        fit = (
            sums.keys() == here.keys()
            and all([*part] == [*here[name]] for name, part in sums.items())
            and all(0 <= total <= count for total, count in pairs)
            and all(n <= m for (_, n), m in zip(totals.values(), plan.pulls, strict=True))
        )
    except _INVALID:  # its message may quote a sum
        fit = False
    if not fit:
        raise ValueError("its sums and counts do not fit its plan")
    return run


def _noise_of(name: str, given: Mechanism | None) -> Mechanism:
    """Return the given noise, or noise of this library, if the run was begun with such noise."""
    if given is None and name in _MECHANISMS:
        return _MECHANISMS[name]()
    if given is None or _check.kind(given, "noise", Mechanism).name != name:
        raise ValueError(f"it was begun with noise from {name}: pass that noise")
    return given


def _policy_of(made_for: Mapping[str, Any], given: Policy | None) -> Policy:
    """Return the given policy, or one of this library, if the file was made for it."""
    if given is None:
        if made_for["class"] not in _POLICIES:
            raise ValueError("its policy is not part of this library: pass that policy")
        parameters = restored(made_for)
        given = _POLICIES[parameters.pop("class")](**parameters)
    own = _described(given)
    differing = [key for key in {**made_for, **own} if made_for.get(key) != own.get(key)]
    if differing:
        raise ValueError(f"it was made for another policy: {', '.join(differing)} differ")
    return given


def _described(policy: Policy) -> Any:
    """Return the class and the parameters of a policy; TypeError if they cannot be saved."""
    if not hasattr(policy, "__dataclass_fields__"):
        raise TypeError("policy must be a dataclass, so that its parameters can be saved")
    return plain(policy)


def _values(value: Any) -> dict[str, Any]:
    """Return the public parameters of a dataclass; TypeError if they cannot be saved."""
    if isinstance(value, Phase) and (law := class_name(type(value.noise))) not in _LAWS:
        raise TypeError(f"noise of the class {law} cannot be saved")
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return {
        name: _values(entry) if isinstance(entry, Phase) else plain(entry)
        for name, entry in values.items()
        if name[0] != "_"
    }


def _plan(saved: Mapping[str, Any]) -> Phase:
    """Return the plan that was saved; an error of `_INVALID` if it is not valid."""
    plan, noise = dict(saved), dict(saved["noise"])
    if "delta" in noise:  # of Gaussian noise, before plans had one
        plan["delta"] = noise.pop("delta")
    if (law := noise.pop("class")) not in _LAWS:
        raise ValueError(
            f"a plan has noise of the class {_check.quoted(law)}, which this version of dpbai does "
            "not have: continue with the version that wrote the file, or begin another run"
        )
    plan["noise"] = _LAWS[law](**noise)
    if plan["release_matrix"] == []:  # JSON keeps no columns of a matrix without rows
        plan["release_matrix"] = np.empty((0, len(plan["pulled"])))
    return Phase(**plan)
