"""The options that commands share, and a parser that complains in one line."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from dpbai.cli.choices import DEFAULT, POLICIES, REWARDS, WITH_DELTA

Commands = Any  # what argparse's add_subparsers returns

EPILOG = """\
from two files to a recommendation:
  dpbai plan arms.csv --budget 400 --epsilon 0.5   what a run would do
  dpbai start run.json arms.csv --budget 400 --epsilon 0.5
  dpbai next run.json                              which arms to pull now
  dpbai tell run.json rewards.csv                  what the pulls gave
  ... next and tell again, until the run is finished ...
  ... if some rewards never come: dpbai end-phase run.json ...
  dpbai recommend run.json                         the answer and its privacy

CSV files start with a line of column names, and may have semicolons or tabs:
  arms.csv     arm,<feature>,<feature>,...  a line for each arm
  rewards.csv  arm,reward         a line for each pull; rewards lie in [0, 1] or
                                  in the --reward-range of `dpbai start`
           or  arm,total,count    sums of rewards, and of how many
  means.csv    arm,mean           supposed mean rewards, to simulate with

exit codes, with one line on stderr unless done:
  0 done
  2 yours to put right: the call, a file that is missing, no file, not allowed
    or not as it must be, or a session that is not at that step
  1 it failed on the way: a disk that is full, a search without an answer
  130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def command(commands: Commands, name: str, run: str, text: str, more: str = "") -> Parser:
    """Add a command that does `run`, a "module.function" here, with a line of help and more."""
    sub: Parser = commands.add_parser(
        name, help=text, description=f"{text}. {more}".strip(), allow_abbrev=False
    )
    sub.set_defaults(run=run)
    return sub


def session(sub: Parser, text: str = "the session file") -> None:
    """Add the session file."""
    sub.add_argument("session", metavar="run.json", help=text)


def arms(sub: Parser) -> None:
    """Add the table of arms."""
    sub.add_argument(
        "arms", metavar="arms.csv", help="CSV: arm,<feature>,<feature>,... ; a line for each arm"
    )
    arm_column(sub)
    sub.add_argument(
        "--features", nargs="+", default=[], metavar="NAME",
        help="the columns that are features (default: all but that of the arms)",
    )  # fmt: skip
    sub.add_argument(
        "--categorical", nargs="+", default=[], metavar="NAME",
        help="columns of words: each word becomes a feature that is 1 where it stands, else 0",
    )  # fmt: skip
    sub.add_argument(
        "--intercept", action="store_true",
        help="add a column of ones, unless the features have a constant among their combinations",
    )  # fmt: skip


def arm_column(sub: Parser) -> None:
    """Add the name of the column of arms."""
    sub.add_argument(
        "--arm-column", default="arm", metavar="NAME",
        help="the column that names the arms (default: arm)",
    )  # fmt: skip


def policy(sub: Parser) -> None:
    """Add what chooses one policy."""
    names = ", ".join(POLICIES)
    sub.add_argument("--budget", type=int, required=True, metavar="T", help="pulls in all")
    sub.add_argument(
        "--epsilon", type=float, help="privacy parameter, positive; smaller is more private"
    )
    sub.add_argument(
        "--policy", choices=POLICIES, default=DEFAULT, metavar="NAME",
        help=f"one of {names} (default: {DEFAULT})",
    )  # fmt: skip
    delta(sub)


def policies(sub: Parser) -> None:
    """Add what chooses several policies."""
    sub.add_argument(
        "--policies", nargs="+", choices=POLICIES, default=[DEFAULT, "dp-bai"], metavar="NAME",
        help=f"some of {', '.join(POLICIES)} (default: {DEFAULT} dp-bai)",
    )  # fmt: skip
    delta(sub)


def delta(sub: Parser) -> None:
    """Add delta."""
    sub.add_argument("--delta", type=float, help=f"for {WITH_DELTA}: in (0, 1), such as 1e-6")


def gap(sub: Any, text: str) -> None:
    """Add the gap."""
    sub.add_argument("--gap", type=float, help=text)


def best(sub: Parser, text: str) -> None:
    """Add the best arm."""
    sub.add_argument("--best", metavar="ARM", help=text)


def means(sub: Parser) -> None:
    """Add what makes an instance: means, or a gap; and the law of the rewards."""
    either = sub.add_mutually_exclusive_group(required=True)
    either.add_argument("--means", metavar="means.csv", help="CSV: arm,mean")
    gap(
        either,
        "in place of means: the lead of the best arm; other means follow as closely as linear "
        "ones can",
    )
    best(sub, "with --gap: the best arm (default: that with the smallest gaps in all)")
    sub.add_argument(
        "--rewards", choices=REWARDS, default="bernoulli", help="law of rewards (default bernoulli)"
    )


def trials(sub: Parser, default: int, text: str = "simulated runs") -> None:
    """Add how long to simulate, and from which seed."""
    sub.add_argument("--trials", type=int, default=default, help=f"{text} (default {default})")
    sub.add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")


def within(sub: Parser) -> None:
    """Add which answers are right."""
    sub.add_argument(
        "--within", type=float, default=0.0, metavar="X",
        help="count an answer as right if its mean is at most X below the best (default 0)",
    )  # fmt: skip


def output(sub: Parser, columns: str) -> None:
    """Add a CSV file to write."""
    told = f"write a CSV file: {columns.replace(',', ', ')}"  # commas alone are no place to wrap
    sub.add_argument("-o", "--output", metavar="FILE", help=told)


def json(sub: Parser) -> None:
    """Add output for machines."""
    sub.add_argument("--json", action="store_true", help="print one line of JSON")


def figure(sub: Parser) -> None:
    """Add a figure to draw."""
    sub.add_argument("--figure", metavar="FILE", help="draw a figure: .png or .svg")
