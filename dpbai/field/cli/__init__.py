"""The command line: from a table of arms to a private recommendation, and simulations around it.

An error is one line on stderr and an exit code, never a traceback: 2 if the user can correct it
(in the command, a file, or the state of a session), 1 for other failures, such as a full disk or a
search without a result.
"""

from __future__ import annotations

import argparse
import io
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread

from dpbai.field.cli.arguments import refuse_to_overwrite
from dpbai.field.cli.commands import STEPS, function, parser
from dpbai.field.cli.output import acknowledging, complain, printed

__all__ = ["main", "parser"]

FAILED, WRONG, INTERRUPTED = 1, 2, 130
_WRONG_PATH = (
    FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.closed:
            stream.reconfigure(errors="backslashreplace")  # for characters that its encoding lacks
    try:
        return _main(argv)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)


def _main(argv: Sequence[str] | None) -> int:
    given = parser().parse_args(argv)
    # Imported only now, so that help does not wait for them.
    from dpbai.beyond.planning import SearchError
    from dpbai.field.session import SessionError

    interrupted = "interrupted"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # Deprecations concern the authors of packages, not the user.
        warnings.simplefilter("ignore", DeprecationWarning)
        notes: list[str] = []
        warnings.showwarning = lambda message, *_, **__: notes.append(f"note: {message}")
        try:
            if given.command in STEPS and current_thread() is main_thread():
                interrupted += "; `dpbai status` shows what has been recorded"
                # An exception instead of the end of the process, so that the message is printed.
                signal.signal(signal.SIGINT, signal.default_int_handler)
            _run(given)
            for note in notes:  # not printed with an error, which is one line
                complain(note)
            if sys.stdout and not sys.stdout.closed:
                sys.stdout.flush()
        except BrokenPipeError:
            pass  # the reader of the output has ended, for instance `head`
        except KeyboardInterrupt:
            return _failed(interrupted, INTERRUPTED)
        except SearchError as error:
            return _failed(error, FAILED)
        except MemoryError as error:
            return _failed(f"not enough memory: try fewer arms or trials. {error}", FAILED)
        except (ValueError, TypeError, ImportError, SessionError, *_WRONG_PATH) as error:
            return _failed(error, WRONG)
        except (OSError, RuntimeError) as error:
            return _failed(error, FAILED)
        finally:
            printed("", sys.stdout)
    return 0


def _run(given: argparse.Namespace) -> None:
    """Execute a command, print its answer, and write its table and figure."""
    from dpbai.beyond.planning import SearchError
    from dpbai.field.cli import answers
    from dpbai.field.session.rewards import checked_range

    refuse_to_overwrite(given)
    if given.figure:
        import_module("dpbai.field.figures")  # with an error if Matplotlib is missing
        import_module("matplotlib").use("Agg")  # draws without a window
    if "reward_range" in given:
        try:
            given.reward_range = checked_range(given.reward_range)
        except ValueError as error:
            raise ValueError(f"argument --reward-range: {error}") from error
    answer = function(given.command)(given)
    columns = answer.columns or given.columns
    # What has been saved must be reported even if stdout fails.
    saved = given.command in (*STEPS, "start", "holdout")
    with acknowledging() if saved else nullcontext():
        answer.show(columns, as_json=given.json)
    if given.output and answer.rows is not None:
        with Path(given.output).open("w", encoding="utf-8", newline="") as opened:
            answers.write(columns, answer.rows, opened)
    if given.figure and answer.draw:
        # An SVG without a date and random names, so that equal figures are equal files.
        dated = {"Date": None} if given.figure.endswith(".svg") else {}
        with import_module("matplotlib").rc_context({"svg.hashsalt": "dpbai"}):
            answer.draw().savefig(given.figure, bbox_inches="tight", metadata=dated)
    if answer.failed:
        raise SearchError(f"{'; '.join(answer.failed)}: {answer.remedy}")


def _failed(reason: object, code: int) -> int:
    if isinstance(reason, OSError) and reason.filename is not None:
        reason = f"{reason.filename}: {reason.strerror}"
    complain(str(reason) or type(reason).__name__)
    return code
