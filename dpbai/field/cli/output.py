"""Output that cannot fail: what a step came to is told after it was saved, and must not undo it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO


def prepare() -> None:
    """Let streams escape the letters that they have no bytes for, as a terminal may lack some."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.closed:
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def acknowledging() -> Iterator[None]:
    """Print what is printed meanwhile: on stderr if stdout is closed or full, else nowhere."""
    text = io.StringIO()
    with redirect_stdout(text):
        yield
    if not _printed(text.getvalue(), sys.stdout):
        complain("note: stdout takes no output, so that the answer is here:")
        _printed(text.getvalue(), sys.stderr)


def complain(text: str) -> None:
    """Print one line on stderr, if that can be; what it quotes cannot control a terminal."""
    line = " ".join(text.split())
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
    _printed(f"dpbai: {shown}\n", sys.stderr)


def finish() -> bool:
    """Write out what was printed; False if stdout takes nothing, and never will again."""
    return _printed("", sys.stdout)


def _printed(text: str, stream: TextIO | None) -> bool:
    if stream is None:  # closed before the program began
        return not text
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):  # full, or closed
        # What is left in its buffer would fail again at the end of the program.
        with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), stream.fileno())
        return False
    return True
