"""One JSON document in one file, replaced as a whole or not at all.

A document is written beside its file, forced to the disk, and renamed over it, so that a crash at
any moment leaves the old document or the new one. The file is in one canonical form with a checksum
over it: cut short or edited, it is refused. (The checksum is against accidents; whoever computes it
anew can forge a document.) A lock beside the file keeps processes apart while they write, and no
document is replaced but the one that the writer says it saw. Reading writes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from dpbai import _check
from dpbai.session.records import SessionError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag


KIND, VERSION = "dpbai session", 2


class Store:
    """A document in the file at `path`.

    `<path>.lock` stays beside it, `<path>.tmp` only after a crash. A file that cannot be taken for
    what it should be is a `SessionError`, and is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _check.path(path, "path").resolve()

    def load(self) -> tuple[Any, bytes]:
        """Return the document, and its bytes; FileNotFoundError if there is no file."""
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
        return content, data

    def save(self, content: Any, seen: bytes | None) -> bytes:
        """Write a document in the place of the one whose bytes were `seen`; return its bytes.

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
            return self._write(content)

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(self.path.name + ".tmp")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock; the operating system lets go of it if this process dies."""
        lock = self.path.with_name(self.path.name + ".lock")
        with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600), "rb") as file:
            _lock(file)
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


def _canonical(content: Any) -> str:
    return json.dumps(content, allow_nan=False)


def _lock(file: BinaryIO) -> None:
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX)


def _sync_directory(path: Path) -> None:
    """Force the renaming to the disk as well; Windows offers no such call."""
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
