"""The command line: from a table of arms to a private recommendation, and the studies around it.

What goes wrong ends in one line on stderr and an exit code, never in a traceback: 2 where the user
can put it right (the call, a path, what a file holds, a session that is not at that step), 1 where
the machine failed on the way (a full disk, a search that found nothing).
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from dpbai.cli import experiments, run
from dpbai.cli.arguments import EPILOG, Parser
from dpbai.session import SessionError

FAILED, WRONG, INTERRUPTED = 1, 2, 130
_WRONG_PATH = (
    FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = parser().parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _note
        try:
            arguments.run(arguments)
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


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = Parser(
        prog="dpbai",
        description="Find the best of several arms within a budget of pulls, privately.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    run.add_commands(commands)
    experiments.add_commands(commands)
    return top


def _failed(reason: object, code: int) -> int:
    print(f"dpbai: {' '.join(str(reason).split())}", file=sys.stderr)
    return code


def _note(message: Warning | str, *_: object, **__: object) -> None:
    print(f"dpbai: note: {' '.join(str(message).split())}", file=sys.stderr)
