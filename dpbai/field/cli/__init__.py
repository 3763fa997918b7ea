"""The command line: from a table of arms to a private recommendation, and the studies around it.

What goes wrong ends in one line on stderr and an exit code, never in a traceback: 2 where the user
can put it right (the call, a path, what a file holds, a session that is not at that step), 1 where
the machine failed on the way (a full disk, a search that found nothing).
"""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread

from dpbai.field.cli.arguments import refuse_to_overwrite
from dpbai.field.cli.commands import function, parser
from dpbai.field.cli.output import complain, finish, prepare

__all__ = ["main", "parser"]

FAILED, WRONG, INTERRUPTED = 1, 2, 130
_TAKING = ("tell", "undo", "withdraw", "end-phase")
_WRONG_PATH = (
    FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    prepare()
    try:
        return _main(argv)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)


def _main(argv: Sequence[str] | None) -> int:
    given = parser().parse_args(argv)
    # All that computes comes after help has been given.
    from dpbai.beyond.planning import SearchError
    from dpbai.field.session import SessionError

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # What other packages call of each other is no matter of the user.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.showwarning = _note
        try:
            if given.command in _TAKING and current_thread() is main_thread():
                # What was saved before Ctrl-C is worth a word: see below.
                signal.signal(signal.SIGINT, signal.default_int_handler)
            _run(given)
            if sys.stdout and not sys.stdout.closed:
                sys.stdout.flush()
        except BrokenPipeError:
            pass  # the reader of our output has gone, for instance `head`
        except KeyboardInterrupt:
            hint = "; `dpbai status` shows what has come in" if given.command in _TAKING else ""
            return _failed(f"interrupted{hint}", INTERRUPTED)
        except SearchError as error:
            return _failed(error, FAILED)
        except MemoryError as error:
            return _failed(f"not enough memory: try fewer arms or trials. {error}", FAILED)
        except (ValueError, TypeError, ImportError, SessionError, *_WRONG_PATH) as error:
            return _failed(error, WRONG)
        except (OSError, RuntimeError) as error:
            return _failed(error, FAILED)
        finally:
            finish()
    return 0


def _run(given: argparse.Namespace) -> None:
    """Do what a command does, and write its table and its figure to the files that were named."""
    from dpbai.field.cli import tables
    from dpbai.field.session.rewards import checked_range

    refuse_to_overwrite(given)
    output, figure = (vars(given).get(name) for name in ("output", "figure"))
    if figure:
        import_module("dpbai.field.figures")  # which tells at once if Matplotlib is not there
        import_module("matplotlib").use("Agg")  # and opens no window
    if "reward_range" in given:
        try:
            given.reward_range = checked_range(given.reward_range)
        except ValueError as error:
            given.refuse(f"argument --reward-range: {error}")
    table = function(given.command)(given)
    if output and table:
        with Path(output).open("w", encoding="utf-8", newline="") as opened:
            tables.write(table, opened)
    if figure and table and table.draw:
        # The same bytes at each run: an SVG has no date in it, and no random names.
        dated = {"Date": None} if figure.endswith(".svg") else {}
        with import_module("matplotlib").rc_context({"svg.hashsalt": "dpbai"}):
            table.draw().savefig(figure, bbox_inches="tight", metadata=dated)


def _failed(reason: object, code: int) -> int:
    if isinstance(reason, OSError) and reason.filename is not None:
        reason = f"{reason.filename}: {reason.strerror}"
    complain(str(reason) or type(reason).__name__)
    return code


def _note(message: Warning | str, *_: object, **__: object) -> None:
    complain(f"note: {message}")
