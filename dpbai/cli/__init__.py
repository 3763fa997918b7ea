"""The command line: from a table of arms to a private recommendation, and the studies around it.

A mistake of the user ends in one line on stderr and an exit code, never in a traceback.
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

FAILED, WRONG, REFUSED, INTERRUPTED = 1, 2, 3, 130
_WRONG = (ValueError, TypeError, ImportError, FileNotFoundError, FileExistsError)


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
        except SessionError as error:
            return _failed(error, REFUSED)
        except _WRONG as error:
            return _failed(error, WRONG)
        except OSError as error:
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
