"""The file of a session: one JSON document, replaced as a whole or not at all.

A document is written beside its file, forced to the disk, and renamed over it, so that after a
crash at any moment there is the old document or the new one. It is in one canonical form with a
checksum, which detects accidents (anyone can compute it for a forged document). A lock beside the
file keeps other processes from writing at the same time, and a document is replaced only if it is
the one that the writer has read. The lock file stays, and counts the released phases: a document
with fewer is refused.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from dpbai import _check
from dpbai.field.session.document import UNFIT, content_of, run_in
from dpbai.field.session.records import SessionConflictError, SessionError
from dpbai.field.session.run import Run
from dpbai.noise import Mechanism
from dpbai.phase import Policy

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_BUSY = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_FAR = 2**20  # the byte that is locked, behind all others, so that Windows lets these be read
_PATIENCE = 1.0  # seconds of waiting for a lock before a warning
_canonical = partial(json.dumps, allow_nan=False)

KIND, VERSION = "dpbai session", 3


class Store:
    """The file at `path`.

    `<path>.lock` stays beside it, `<path>.tmp` only after a crash. A file that is not as it should
    be is left as it is, with a `SessionError`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _check.path(path, "path").resolve()

    def load(self, policy: Policy | None, noise: Mechanism | None) -> tuple[Run, bytes]:
        """Return the run, and the bytes of the document; FileNotFoundError if there is no file."""
        if not self.path.exists():
            raise FileNotFoundError(f"{self.path} does not exist")
        data = self.path.read_bytes()
        content = self._decoded(data)
        # Remove what a crash has left, which nobody has seen; a reader without permission need not.
        with suppress(OSError):
            if os.path.lexists(self._temporary):
                with self._locked():
                    self._temporary.unlink(missing_ok=True)
        try:
            run = run_in(content, policy, noise)
        except UNFIT as error:
            raise SessionError(f"{self.path} is refused: {error}") from error
        with (
            suppress(OSError),
            os.fdopen(os.open(self._lock, os.O_RDONLY | _NO_LINK), "rb") as lock,
        ):
            self._check_newest(run, lock)
        return run, data

    def save(self, run: Run, before: Run, data: bytes | None) -> bytes:
        """Replace the run `before`, a document of these bytes or None, and return the new bytes.

        FileExistsError if there should be no file; SessionConflictError if it is another document;
        SessionError if it is an older copy, or has a second name.
        """
        with self._locked() as lock:
            old = self.path.read_bytes() if self.path.exists() else None
            if old is not None and data is None:
                raise FileExistsError(f"{self.path} exists already, and is left as it is")
            if old != data:
                raise SessionConflictError(
                    f"{self.path} was changed since it was read or saved here: load it again"
                )
            if data is None:
                lock.truncate(0)  # that of a run whose file was removed
            else:
                self._check_newest(before, lock)
                if self.path.stat().st_nlink > 1:
                    raise SessionError(
                        f"{self.path} has a second name (a hard link), through which the same "
                        "rewards could be released again: remove one of the two"
                    )
            data = self._write(content_of(run))
            if len(run.finished) > len(before.finished):
                lock.seek(0)
                lock.write(str(len(run.finished)).encode())
                lock.flush()
                os.fsync(lock.fileno())
            return data

    def _check_newest(self, run: Run, lock: BinaryIO) -> None:
        """Raise SessionError if more phases were released than those of a run."""
        lock.seek(0)
        count = lock.read(_FAR).strip()
        if count and not count.isdigit():
            raise SessionError(f"{self._lock} is no lock file of a session")
        if int(count or 0) > len(run.finished):
            raise SessionError(
                f"{self.path} is an older copy: phase {int(count)} has been released since, "
                f"according to {self._lock.name}, and the same rewards would be released again; "
                "restore the newer file, or begin another run"
            )

    @property
    def _lock(self) -> Path:
        return self.path.with_name(self.path.name + ".lock")

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(self.path.name + ".tmp")

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """Hold the lock, which the operating system releases if this process ends."""
        flags = os.O_RDWR | os.O_CREAT | _NO_LINK
        with os.fdopen(os.open(self._lock, flags, 0o600), "r+b") as file:
            started, warned = time.monotonic(), False
            while not _lock_now(file):
                if not warned and time.monotonic() - started > _PATIENCE:
                    warned = True
                    logging.getLogger(__name__).warning(
                        "waiting for another process that holds %s", self._lock
                    )
                time.sleep(0.01)
            yield file

    def _write(self, content: Any) -> bytes:
        data = self._encoded(content)
        # Readable for the owner at most. A file or link of this name is removed, never opened.
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
            raise SessionError(f"{self._temporary} was made by another process") from None
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
                f"program reads version {VERSION}: continue with the version of dpbai that began "
                "the run (0.2 for version 2 of the format)"
            )
        try:
            same = self._encoded(document["content"]) == data
        except (KeyError, ValueError, RecursionError):
            same = False
        if not same:
            raise SessionError(f"{self.path} was edited or damaged: its checksum does not fit")
        return document["content"]


def _lock_now(file: BinaryIO) -> bool:
    """Lock a file if no other process has, and return whether that was possible."""
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
    """Force the renaming to the disk, where the operating system offers that."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
