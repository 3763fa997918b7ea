"""The command line: from a table of arms to a private recommendation, and the studies around it.

What goes wrong ends in one line on stderr and an exit code, never in a traceback: 2 where the user
can put it right (the call, a path, what a file holds, a session that is not at that step), 1 where
the machine failed on the way (a full disk, a search that found nothing).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from dpbai.cli.commands import parser

__all__ = ["main", "parser"]

FAILED, WRONG, INTERRUPTED = 1, 2, 130
_WRONG_PATH = (
    FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = parser().parse_args(argv)
    from dpbai.session import SessionError  # all that computes comes after help has been given

    module, function = given.run.split(".")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # What other packages call of each other is no matter of the user.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.showwarning = _note
        try:
            if getattr(given, "figure", None):
                import_module("dpbai.cli.pictures").prepare()
            getattr(import_module(f"dpbai.cli.{module}"), function)(given)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of our output has gone, for instance `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            return _failed("interrupted", INTERRUPTED)
        except (ValueError, TypeError, ImportError, SessionError, *_WRONG_PATH) as error:
            return _failed(error, WRONG)
        except (OSError, RuntimeError, MemoryError) as error:
            return _failed(error, FAILED)
    return 0


def _failed(reason: object, code: int) -> int:
    if isinstance(reason, OSError) and reason.filename is not None:
        reason = f"{reason.filename}: {reason.strerror}"
    print(f"dpbai: {' '.join(str(reason).split())}", file=sys.stderr)
    return code


def _note(message: Warning | str, *_: object, **__: object) -> None:
    print(f"dpbai: note: {' '.join(str(message).split())}", file=sys.stderr)
