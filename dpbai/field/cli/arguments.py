"""The options of the commands, and the policies and laws that they choose.

Each value is checked before anything is computed or printed, and an error takes one line.
"""

from __future__ import annotations

import argparse
import os
import stat
import textwrap
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import dpbai

if TYPE_CHECKING:
    from dpbai._check import FloatArray
    from dpbai.rewards import RewardLaw

    Maker = Callable[..., dpbai.Policy]  # of features, `budget` and, if it is private, `epsilon`


class Law(NamedTuple):
    """A law of rewards in [0, 1]: what makes it of a mean, and the range of its means."""

    make: Callable[[float], RewardLaw]
    lowest: float
    highest: float


# Functions, since `dpbai` imports a class, and NumPy, when its name is first used.
DEFAULT, BASELINE, NOT_PRIVATE, WITH_DELTA = "dp-design", "baseline", "od-linbai", "dp-bai-gauss"
POLICIES: dict[str, tuple[str, Callable[[], Maker]]] = {
    DEFAULT: ("DP-Design", lambda: dpbai.DPDesign),
    "dp-bai": ("DP-BAI", lambda: dpbai.DPBAI),
    WITH_DELTA: ("DP-BAI-Gauss", lambda: dpbai.DPBAIGauss),
    BASELINE: ("Baseline", lambda: dpbai.Baseline),
    "dp-halving": ("DP-Halving", lambda: dpbai.DPHalving),
    # With the L1 norm, which the privacy of Laplace noise needs.
    "dp-od": ("DP-OD", lambda: partial(dpbai.DPOD, norm="l1")),
    NOT_PRIVATE: ("OD-LinBAI", lambda: dpbai.ODLinBAI),
}
REWARDS = {
    "bernoulli": Law(lambda mean: dpbai.Bernoulli(mean), 0.0, 1.0),
    "uniform": Law(lambda mean: dpbai.Uniform(mean), 0.0, 0.5),
    "beta": Law(lambda mean: dpbai.Beta(mean), 0.001, 0.999),
}
STANDARD_INPUT = "-"
EPILOG = """\
from two files to a recommendation:
  dpbai plan arms.csv --budget 400 --epsilon 0.5   what a run would do
  dpbai start run.json arms.csv --budget 400 --epsilon 0.5
  dpbai next run.json                              which arms to pull now
  dpbai tell run.json rewards.csv                  record their rewards
  ... repeat next and tell until the run is finished ...
  ... if rewards will stay missing: dpbai end-phase run.json ...
  ... if an arm cannot be pulled any more: dpbai withdraw run.json ARM ...
  dpbai recommend run.json                         the answer and its privacy

do the features predict the rewards?
  dpbai holdout check.json run.json ARM --pulls 100
  dpbai misfit run.json check.json                 when both are finished

CSV files start with a line of column names, and may have semicolons or tabs:
  arms.csv     arm,<feature>,<feature>,...  a line for each arm
  rewards.csv  arm,reward         a line for each pull; rewards lie in [0, 1] or
                                  in the --reward-range of `dpbai start`
           or  arm,total,count    sums of rewards, and of how many
  means.csv    arm,mean           supposed mean rewards, to simulate with
Columns of other names: see --arm-column, --features, --categorical of `dpbai
plan`, and --reward-column of `dpbai tell`.

exit codes, with one line on stderr unless 0:
  0 done
  1 a failure on the way, such as a full disk or a search without a result
  2 the call, a file or the state of the session must be changed first
  130 interrupted
"""

Option = Callable[[Any], Any]
"""What adds an option or a place to a parser, or to a group of one."""


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class Help(argparse.HelpFormatter):
    """Help that keeps names such as dp-bai in one piece."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


def option(name: str, text: str, *names: str, **settings: Any) -> Option:
    """Return an option or a place, with its help and other names, in the words of `argparse`."""
    return methodcaller("add_argument", name, *names, help=text, **settings)


def by_rule(kind: Callable[[str], Any], rule: Callable[[Any, Any], object]) -> Callable[[str], Any]:
    """Return what reads a value and checks it by a rule, a function of `dpbai._check` and it."""

    def read(text: str) -> Any:
        value = kind(text)
        from dpbai import _check  # with NumPy, which help does without

        try:
            rule(_check, value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return value

    read.__name__ = kind.__name__
    return read


def whole(name: str) -> Callable[[str], Any]:
    """Return what reads a positive integer."""
    return by_rule(int, lambda check, value: check.whole(value, name))


def number(name: str, interval: str) -> Callable[[str], Any]:
    """Return what reads a number in an interval, such as "(0, 1)"."""
    return by_rule(float, lambda check, value: check.number(value, name, interval))


def written(text: str) -> str:
    """Return the path of a file, if nothing shows that it cannot be written."""
    path: str = by_rule(str, lambda check, value: check.path(value, "this"))(text)
    if not (folder := Path(path).parent).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: there is no folder {folder}")
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: permission denied")
    return path


def _figure(text: str) -> str:
    if not text.endswith((".png", ".svg")):
        raise argparse.ArgumentTypeError(f"must end in .png or .svg, got {text!r}")
    return written(text)


_BUDGET, EPSILON = whole("budget"), by_rule(float, lambda check, value: check.epsilon(value))
_SEED = by_rule(int, lambda check, value: check.seed_sequence(value))


# fmt: off
# Options whose help or default differs between commands.
gap = partial(option, "--gap", type=number("gap", "(0, inf)"))
best = partial(option, "--best", metavar="ARM")
reward_range = partial(option, "--reward-range", nargs=2, type=float, default=(0.0, 1.0),
                       metavar=("LOW", "HIGH"))


def trials(default: int, text: str = "simulated runs") -> Option:
    """Return the option for the number of simulated runs."""
    return option("--trials", f"{text} (default {default})", default=default,
                  type=whole("trials"))


def output(*columns: str) -> Option:
    """Return what declares the columns of a command's answer, and the option to write them."""
    text = f"write a CSV file: {', '.join(columns)}"

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("-o", "--output", help=text, type=written, metavar="FILE")
        parser.set_defaults(columns=columns)

    return add


ARM_COLUMN = option("--arm-column", "the column that names the arms (default: arm)", default="arm",
                    metavar="NAME")
ARMS = [
    option("arms", "CSV: arm,<feature>,<feature>,... ; a line for each arm", metavar="arms.csv"),
    ARM_COLUMN,
    option("--features", "the columns that are features (default: all but that of the arms)",
           nargs="+", default=[], metavar="NAME"),
    option("--categorical", "columns of words: each word becomes a feature that is 1 for the arms "
           "with this word, else 0", nargs="+", default=[], metavar="NAME"),
    option("--one-hot", "give each arm a feature of its own, and read its name only: the means of "
           "different arms are then unrelated", action="store_true"),
    option("--intercept", "add a column of ones, unless some combination of the features is "
           "constant", action="store_true"),
]
_DELTA = option("--delta", f"for {WITH_DELTA}: in (0, 1), such as 1e-6",
                type=number("delta", "(0, 1)"))
_MISFIT = option("--misfit", f"for {DEFAULT}: the expected deviation of means from linear ones, as "
                 "a share of the reward range: in [0, 1], 0 if means are exactly linear in the "
                 "features, inf to ignore the features (default 0.04 to 0.06, by how much "
                 "rewards can say of one arm)", metavar="X",
                 type=number("misfit", "[0, inf]"))
POLICY = [
    option("--budget", "pulls in all", type=_BUDGET, required=True, metavar="T"),
    option("--epsilon", "privacy parameter, positive; smaller is more private", type=EPSILON),
    option("--policy", f"one of {', '.join(POLICIES)} (default: {DEFAULT})", nargs=1,
           choices=POLICIES, default=[DEFAULT], dest="policies", metavar="NAME"),
    _MISFIT,
    _DELTA,
]
COMPARED = [
    option("--policies", f"some of {', '.join(POLICIES)} (default: {DEFAULT} dp-bai)", nargs="+",
           choices=POLICIES, default=[DEFAULT, "dp-bai"], metavar="NAME"),
    _MISFIT,
    _DELTA,
]
EPSILONS = option("--epsilons", "privacy parameters; smaller is more private", "--epsilon",
                  nargs="+", type=EPSILON, required=True, metavar="E")
BUDGETS = option("--budgets", "pulls", "--budget", nargs="+", type=_BUDGET, required=True,
                 metavar="T")
SUCCESS = option("--success", "the wanted probability of a right answer (default 0.95)",
                 default=0.95, type=number("success", "(0, 1)"))
WITHIN = option("--within", "count an answer as right if its mean is at most X below the best "
                "(default 0)", default=0.0, metavar="X",
                type=number("within", "[0, inf]"))
SEED = option("--seed", "of the simulation (default 0)", type=_SEED, default=0)
NOISE_SEED = option("--seed", "of the noise, in a rehearsal with --noise numpy", type=_SEED)
SESSION = option("session", "the session file", metavar="run.json")
GROUP = option("--group", "how many rewards one person may have given in a run (default 1)",
               type=whole("group"), default=1, metavar="N")
JSON = option("--json", "print one line of JSON", action="store_true")
FIGURE = option("--figure", "draw a figure: .png or .svg", type=_figure, metavar="FILE")
SUPPOSED: list[Option | list[Option]] = [
    [
        option("--means", "CSV: arm,mean", metavar="means.csv"),
        gap("in place of means: the lead of the best arm; the other means are as close to it as "
            "linear means can be"),
    ],
    best("with --gap: the best arm (default: that with the smallest gaps in all)"),
    option("--rewards", "law of rewards (default bernoulli)", choices=REWARDS, default="bernoulli",
           dest="law"),
    reward_range("the scale of rewards, means, gaps and losses (default 0 1)"),
    WITHIN,
]
"""What makes an instance, of which one of the first two is needed, and which answers are right."""
# fmt: on


_READ = {
    "arms": "the table of arms", "means": "the means", "rewards": "the rewards",
    "session": "the session", "run": "a session", "sessions": "a session", "holdouts": "a session",
}  # fmt: skip
_WRITTEN = {"cells": "--cells", "output": "-o/--output", "figure": "--figure"}


def refuse_to_overwrite(given: argparse.Namespace) -> None:
    """Raise ValueError if a command would overwrite a file that it reads, or write one twice.

    Links are followed, and "-" is the file that standard input reads.
    """
    found: dict[object, tuple[str, str]] = {}
    for name, what in (_READ | _WRITTEN).items():
        named = vars(given).get(name) or []
        for path in [named] if isinstance(named, str) else named:
            if name == "session":
                found[_identity(f"{path}.lock")] = "the lock of the session", f"{path}.lock"
                found[_identity(f"{path}.tmp")] = "used to save the session", f"{path}.tmp"
            first, other = found.setdefault(_identity(path), (what, path))
            if name in _WRITTEN and first != what:
                raise ValueError(
                    f"{what} must name a file of its own, but {path} is the same file as {other} "
                    f"({first}), which would be overwritten: give {what} another name"
                )


def _identity(path: str) -> object:
    """Return what two paths have in common if they name one file."""
    try:
        status = os.fstat(0) if path == STANDARD_INPUT else Path(path).stat()
    except (OSError, ValueError):  # a file to make, or a path that will be refused
        return os.path.realpath(path) if "\0" not in path else path
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else path


def makers(given: argparse.Namespace) -> dict[str, Maker]:
    """Return the makers of the chosen policies; ValueError if an option is for none of them."""
    found = {name: POLICIES[name][1]() for name in given.policies}
    for option, only in (("misfit", DEFAULT), ("delta", WITH_DELTA)):
        if (value := vars(given)[option]) is None:
            continue
        if only not in found:
            raise ValueError(f"--{option} is for {only} only")
        found[only] = partial(found[only], **{option: value})
    if WITH_DELTA in found and given.delta is None:
        raise ValueError(f"--delta is needed for {WITH_DELTA}")
    return found


def policy(given: argparse.Namespace, features: FloatArray) -> dpbai.Policy:
    """Return the policy that the options ask for; ValueError if one is missing or too much."""
    ((name, make),) = makers(given).items()
    if name == NOT_PRIVATE:
        if given.epsilon is not None:
            raise ValueError(f"--epsilon is not for {NOT_PRIVATE}, which is not private")
        return make(features, budget=given.budget)
    if given.epsilon is None:
        raise ValueError(f"--epsilon is needed for {name}")
    return make(features, budget=given.budget, epsilon=given.epsilon)
