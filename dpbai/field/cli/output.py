"""Printing that does not fail: a step has been saved before its result is printed."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO


@contextmanager
def acknowledging() -> Iterator[None]:
    """Print the output of the block on stdout or, if that is closed or full, on stderr."""
    text = io.StringIO()
    with redirect_stdout(text):
        yield
    if text.getvalue() and not printed(text.getvalue(), sys.stdout):
        complain("note: stdout cannot be written to; the answer is:")
        printed(text.getvalue(), sys.stderr)


def complain(text: str) -> None:
    """Print one line on stderr if possible, with control characters escaped."""
    line = " ".join(text.split())
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
    printed(f"dpbai: {shown}\n", sys.stderr)


def printed(text: str, stream: TextIO | None) -> bool:
    """Print and flush text, and return whether that was possible."""
    if stream is None:  # closed before the program began
        return not text
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):  # full, or closed
        # Otherwise its buffer would be flushed, and fail, again at the end of the program.
        with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), stream.fileno())
        return False
    return True
