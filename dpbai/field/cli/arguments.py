"""The options of the commands, and the policies and laws that they name.

Each value is checked before anything is computed or printed, and an error is one line.
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
    """A law of rewards in [0, 1]: a function that makes it from a mean, and the possible means."""

    make: Callable[[float], RewardLaw]
    lowest: float
    highest: float


# Functions, because `dpbai` imports a class, and NumPy, when its name is first used.
DEFAULT, BASELINE, NOT_PRIVATE, WITH_DELTA = "dp-design", "baseline", "od-linbai", "dp-bai-gauss"
POLICIES: dict[str, tuple[str, Callable[[], Maker]]] = {
    DEFAULT: ("DP-Design", lambda: dpbai.DPDesign),
    "dp-bai": ("DP-BAI", lambda: dpbai.DPBAI),
    WITH_DELTA: ("DP-BAI-Gauss", lambda: dpbai.DPBAIGauss),
    BASELINE: ("Baseline", lambda: dpbai.Baseline),
    "dp-halving": ("DP-Halving", lambda: dpbai.DPHalving),
    # With the L1 norm, which Laplace noise needs to be private.
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
terms:
  arm      one of the alternatives to compare, such as a version of a page
  pull     one use of an arm, for instance by one person
  reward   the number that a pull gives, such as 1 for a purchase and 0 for none
  feature  a known number that describes an arm, such as its price; if means are
           linear in the features, rewards of one arm inform about others
  epsilon  the privacy parameter: `dpbai budget` explains its values
  phase    a run has a few: each asks for pulls, then releases noisy statistics
           of the rewards and drops arms

a run, from two files to a recommendation:
  dpbai plan arms.csv --budget 400 --epsilon 0.5   what a run would do
  dpbai start run.json arms.csv --budget 400 --epsilon 0.5
  dpbai next run.json                              which arms to pull now
  dpbai tell run.json rewards.csv                  record their rewards
  ... repeat next and tell until the run is finished ...
  ... if no more rewards will come: dpbai end-phase run.json ...
  ... if an arm can no longer be pulled: dpbai withdraw run.json ARM ...
  dpbai recommend run.json                         the answer and its privacy

do the features predict the rewards?
  dpbai holdout check.json run.json ARM --pulls 100
  dpbai misfit run.json check.json                 when both are finished

CSV files start with a line of column names; semicolons and tabs work, too:
  arms.csv     arm,<feature>,<feature>,...  a line for each arm; with --one-hot,
                                  no features are needed
  rewards.csv  arm,reward         a line for each pull; rewards lie in [0, 1] or
                                  in the --reward-range of `dpbai start`
           or  arm,total,count    sums of rewards, and how many there are
  means.csv    arm,mean           assumed mean rewards, for simulations
For columns with other names, see --arm-column, --features and --categorical of
`dpbai plan`, and --reward-column of `dpbai tell`.

exit codes; every error is one line on stderr:
  0 done
  1 failed on the way, for instance a full disk or a search without a result
  2 the command, a file or the state of the session must be changed first
  130 interrupted
"""

Option = Callable[[Any], Any]
"""Adds an option or a positional argument to a parser, or to a group of options."""


class Parser(argparse.ArgumentParser):
    """A parser that states an error in one line."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class Help(argparse.HelpFormatter):
    """Help that does not break names such as dp-bai."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


def option(name: str, text: str, *names: str, **settings: Any) -> Option:
    """Return an option with its help and other names; `settings` are those of `argparse`."""
    return methodcaller("add_argument", name, *names, help=text, **settings)


def by_rule(kind: Callable[[str], Any], rule: Callable[[Any, Any], object]) -> Callable[[str], Any]:
    """Return a converter that checks its result by `rule(dpbai._check, result)`."""

    def read(text: str) -> Any:
        value = kind(text)
        from dpbai import _check  # imports NumPy, which help does not need

        try:
            rule(_check, value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return value

    read.__name__ = kind.__name__
    return read


def whole(name: str) -> Callable[[str], Any]:
    """Return a converter to a positive integer."""
    return by_rule(int, lambda check, value: check.whole(value, name))


def number(name: str, interval: str) -> Callable[[str], Any]:
    """Return a converter to a number in an interval, such as "(0, 1)"."""
    return by_rule(float, lambda check, value: check.number(value, name, interval))


def written(text: str) -> str:
    """Return the path of an output file, unless it is clear that it cannot be written."""
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
    """Return a function that declares the columns of a command's table, and adds --output."""
    text = f"write a CSV file: {', '.join(columns)}"

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("-o", "--output", help=text, type=written, metavar="FILE")
        parser.set_defaults(columns=columns)

    return add


ARM_COLUMN = option("--arm-column", "the column with the names of the arms (default: arm)",
                    default="arm", metavar="NAME")
ARMS = [
    option("arms", "CSV: arm,<feature>,<feature>,... with a line for each arm", metavar="arms.csv"),
    ARM_COLUMN,
    option("--features", "the columns that are features (default: all but the arm column)",
           nargs="+", default=[], metavar="NAME"),
    option("--categorical", "columns of words: each word becomes a feature that is 1 for the arms "
           "with this word and 0 for the others", nargs="+", default=[], metavar="NAME"),
    option("--one-hot", "give each arm a feature of its own, and read only its name: the means of "
           "different arms are then unrelated", action="store_true"),
    option("--intercept", "add a column of ones, unless some combination of the features is "
           "already constant", action="store_true"),
]
_DELTA = option("--delta", f"for {WITH_DELTA}: the delta of its guarantee, in (0, 1), such as "
                "1e-6", type=number("delta", "(0, 1)"))
_MISFIT = option("--misfit", f"for {DEFAULT}: how far means are expected to deviate from linear "
                 "ones, as a share of the reward range: in [0, 1], 0 if means are exactly linear "
                 "in the features; or inf to ignore the features (default 0.04 to 0.06: more where "
                 "rewards show the mean of an arm more precisely)", metavar="X",
                 type=number("misfit", "[0, inf]"))
POLICY = [
    option("--budget", "total number of pulls", type=_BUDGET, required=True, metavar="T"),
    option("--epsilon", "privacy parameter, positive; smaller is more private", type=EPSILON),
    option("--policy", f"one of {', '.join(POLICIES)} (default: {DEFAULT})", nargs=1,
           choices=POLICIES, default=[DEFAULT], dest="policies", metavar="NAME"),
    _MISFIT,
    _DELTA,
]
COMPARED = [
    option("--policies", f"one or more of {', '.join(POLICIES)} (default: {DEFAULT} dp-bai)",
           nargs="+", choices=POLICIES, default=[DEFAULT, "dp-bai"], metavar="NAME"),
    _MISFIT,
    _DELTA,
]
EPSILONS = option("--epsilons", "privacy parameters; smaller is more private", "--epsilon",
                  nargs="+", type=EPSILON, required=True, metavar="E")
BUDGETS = option("--budgets", "total numbers of pulls", "--budget", nargs="+", type=_BUDGET,
                 required=True, metavar="T")
SUCCESS = option("--success", "the probability of a right answer to reach (default 0.95)",
                 default=0.95, type=number("success", "(0, 1)"))
WITHIN = option("--within", "count an answer as right if its mean is at most X below the best "
                "(default 0)", default=0.0, metavar="X",
                type=number("within", "[0, inf]"))
SEED = option("--seed", "seed of the simulation (default 0)", type=_SEED, default=0)
NOISE_SEED = option("--seed", "seed of the noise, in a rehearsal with --noise numpy", type=_SEED)
SESSION = option("session", "the session file", metavar="run.json")
GROUP = option("--group", "the most rewards that one person gave in a run (default 1)",
               type=whole("group"), default=1, metavar="N")
JSON = option("--json", "print one line of JSON", action="store_true")
FIGURE = option("--figure", "draw a figure, in a .png or .svg file", type=_figure, metavar="FILE")
ASSUMED: list[Option | list[Option]] = [
    [
        option("--means", "CSV: arm,mean", metavar="means.csv"),
        gap("in place of --means: how far the best mean is ahead; the other means are as close to "
            "it as linearity in the features allows"),
    ],
    best("with --gap: the best arm (default: the one with the smallest sum of gaps)"),
    option("--rewards", "distribution of the rewards (default bernoulli)", choices=REWARDS,
           default="bernoulli", dest="law"),
    reward_range("the range of the rewards, for means, gaps and losses (default 0 1)"),
    WITHIN,
]
"""The options for the assumed means and laws, and for which answers are right."""
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
                found[_identity(f"{path}.lock")] = "the lock file of the session", f"{path}.lock"
                found[_identity(f"{path}.tmp")] = "used to save the session", f"{path}.tmp"
            first, other = found.setdefault(_identity(path), (what, path))
            if name in _WRITTEN and first != what:
                raise ValueError(
                    f"{what} must name a file of its own, but {path} is the same file as {other} "
                    f"({first}), which would be overwritten: give {what} another name"
                )


def _identity(path: str) -> object:
    """Return a value that is the same for two paths if they name the same file."""
    try:
        status = os.fstat(0) if path == STANDARD_INPUT else Path(path).stat()
    except (OSError, ValueError):  # a file to create, or a path that will be refused
        return os.path.realpath(path) if "\0" not in path else path
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else path


def makers(given: argparse.Namespace) -> dict[str, Maker]:
    """Return the makers of the chosen policies; ValueError if an option applies to none of them."""
    found = {name: POLICIES[name][1]() for name in given.policies}
    for option, only in (("misfit", DEFAULT), ("delta", WITH_DELTA)):
        if (value := vars(given)[option]) is None:
            continue
        if only not in found:
            raise ValueError(f"--{option} applies to {only} only")
        found[only] = partial(found[only], **{option: value})
    if WITH_DELTA in found and given.delta is None:
        raise ValueError(f"{WITH_DELTA} needs --delta, such as 1e-6")
    return found


def policy(given: argparse.Namespace, features: FloatArray) -> dpbai.Policy:
    """Return the chosen policy; ValueError if an option is missing or does not apply."""
    ((name, make),) = makers(given).items()
    if name == NOT_PRIVATE:
        if given.epsilon is not None:
            raise ValueError(f"--epsilon does not apply to {NOT_PRIVATE}, which is not private")
        return make(features, budget=given.budget)
    if given.epsilon is None:
        raise ValueError(f"{name} needs --epsilon, such as 1")
    return make(features, budget=given.budget, epsilon=given.epsilon)
