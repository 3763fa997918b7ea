"""The options of the commands, what they choose, and a parser that says what is wrong in a line.

Each value is held against its rule before anything is computed or printed.
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

BASELINE = "baseline"
# Title, and name in `dpbai`, where the class is looked up only when it is used.
POLICIES = {
    "dp-design": ("DP-Design", "DPDesign"),
    "dp-bai": ("DP-BAI", "DPBAI"),
    "dp-bai-gauss": ("DP-BAI-Gauss", "DPBAIGauss"),
    BASELINE: ("Baseline", "Baseline"),
    "dp-halving": ("DP-Halving", "DPHalving"),
    "dp-od": ("DP-OD", "DPOD"),
    "od-linbai": ("OD-LinBAI", "ODLinBAI"),
}
NOISE = {"opendp": "OpenDPNoise", "numpy": "NumpyNoise"}
DEFAULT = "dp-design"
NOT_PRIVATE = "od-linbai"
WITH_DELTA = "dp-bai-gauss"
FIGURES = (".png", ".svg")
STANDARD_INPUT = "-"
EPILOG = """\
from two files to a recommendation:
  dpbai plan arms.csv --budget 400 --epsilon 0.5   what a run would do
  dpbai start run.json arms.csv --budget 400 --epsilon 0.5
  dpbai next run.json                              which arms to pull now
  dpbai tell run.json rewards.csv                  what the pulls gave
  ... next and tell again, until the run is finished ...
  ... if some rewards never come: dpbai end-phase run.json ...
  ... if an arm is gone for good: dpbai withdraw run.json ARM ...
  dpbai recommend run.json                         the answer and its privacy

CSV files start with a line of column names, and may have semicolons or tabs:
  arms.csv     arm,<feature>,<feature>,...  a line for each arm
  rewards.csv  arm,reward         a line for each pull; rewards lie in [0, 1] or
                                  in the --reward-range of `dpbai start`
           or  arm,total,count    sums of rewards, and of how many
  means.csv    arm,mean           supposed mean rewards, to simulate with
Columns of other names: see --arm-column, --features, --categorical of `dpbai
plan`, and --reward-column of `dpbai tell`.

exit codes, with one line on stderr unless done:
  0 done
  2 yours to put right: the call, a file that is missing, no file, not allowed
    or not as it must be, or a session that is not at that step
  1 it failed on the way: a disk that is full, a search without an answer
  130 interrupted
"""

Option = Callable[[Any], Any]
"""What adds an option or a place to a parser, or to a group of one."""


class Law(NamedTuple):
    """A law of rewards in [0, 1], and the means that it can have."""

    name: str
    lowest: float
    highest: float

    def make(self, mean: float) -> RewardLaw:
        """Return the law with this mean."""
        law: RewardLaw = getattr(dpbai, self.name)(mean)
        return law


REWARDS = {
    "bernoulli": Law("Bernoulli", 0.0, 1.0),
    "uniform": Law("Uniform", 0.0, 0.5),
    "beta": Law("Beta", 0.001, 0.999),
}


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


def by_rule(kind: Callable[[str], Any], rule: str, *more: str) -> Callable[[str], Any]:
    """Return what reads a value and holds it against a rule of `dpbai._check`."""

    def read(text: str) -> Any:
        value = kind(text)
        from dpbai import _check  # with NumPy, which help does without

        try:
            getattr(_check, rule)(value, *more)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return value

    read.__name__ = kind.__name__
    return read


def written(text: str) -> str:
    """Return the path of a file that can be written, as far as one can tell."""
    path: str = by_rule(str, "path", "the file")(text)
    if not (folder := Path(path).parent).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: there is no folder {folder}")
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: permission denied")
    return path


def _figure(text: str) -> str:
    if not text.endswith(FIGURES):
        raise argparse.ArgumentTypeError(f"must end in {' or '.join(FIGURES)}, got {text!r}")
    return written(text)


_BUDGET, _EPSILON = by_rule(int, "whole", "budget"), by_rule(float, "epsilon")
_SEED = by_rule(int, "seed_sequence")


# fmt: off
# Options that mean something else, or have another default, in each command: these take its words.
gap = partial(option, "--gap", type=by_rule(float, "positive", "gap"))
best = partial(option, "--best", metavar="ARM")
reward_range = partial(option, "--reward-range", nargs=2, type=float, default=(0.0, 1.0),
                       metavar=("LOW", "HIGH"))


def trials(default: int, text: str = "simulated runs") -> Option:
    """Return how long to simulate."""
    told = f"{text} (default {default})"
    return option("--trials", told, type=by_rule(int, "trials"), default=default)


def output(*columns: str) -> Option:
    """Return a CSV file to write."""
    told = f"write a CSV file: {', '.join(columns)}"
    return option("-o", told, "--output", type=written, metavar="FILE")


ARM_COLUMN = option("--arm-column", "the column that names the arms (default: arm)", default="arm",
                    metavar="NAME")
ARMS = [
    option("arms", "CSV: arm,<feature>,<feature>,... ; a line for each arm", metavar="arms.csv"),
    ARM_COLUMN,
    option("--features", "the columns that are features (default: all but that of the arms)",
           nargs="+", default=[], metavar="NAME"),
    option("--categorical", "columns of words: each word becomes a feature that is 1 where it "
           "stands, else 0", nargs="+", default=[], metavar="NAME"),
    option("--one-hot", "give each arm a feature of its own, and read its name only: nothing is "
           "known of how means are related", action="store_true"),
    option("--intercept", "add a column of ones, unless the features have a constant among their "
           "combinations", action="store_true"),
]
_DELTA = option("--delta", f"for {WITH_DELTA}: in (0, 1), such as 1e-6",
                type=by_rule(float, "proportion", "delta"))
_MISFIT = option("--misfit", f"for {DEFAULT}: by how much means may be off from means that are "
                 "linear in the features, as a share of the reward range: in [0, 1], 0 if they are "
                 "linear, inf to ignore the features (default 0.04)",
                 type=by_rule(float, "non_negative", "misfit"), metavar="X")
POLICY = [
    option("--budget", "pulls in all", type=_BUDGET, required=True, metavar="T"),
    option("--epsilon", "privacy parameter, positive; smaller is more private", type=_EPSILON),
    option("--policy", f"one of {', '.join(POLICIES)} (default: {DEFAULT})", choices=POLICIES,
           default=DEFAULT, metavar="NAME"),
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
                  nargs="+", type=_EPSILON, required=True, metavar="E")
BUDGETS = option("--budgets", "pulls", "--budget", nargs="+", type=_BUDGET, required=True,
                 metavar="T")
SUCCESS = option("--success", "wanted (default 0.95)", default=0.95,
                 type=by_rule(float, "proportion", "success"))
WITHIN = option("--within", "count an answer as right if its mean is at most X below the best "
                "(default 0)", type=by_rule(float, "non_negative", "within"), default=0.0,
                metavar="X")
SEED = option("--seed", "of the simulation (default 0)", type=_SEED, default=0)
NOISE_SEED = option("--seed", "of the noise, in a rehearsal with --noise numpy", type=_SEED)
SESSION = option("session", "the session file", metavar="run.json")
GROUP = option("--group", "how many rewards one person may have given in a run (default 1)",
               type=by_rule(int, "whole", "group"), default=1, metavar="N")
JSON = option("--json", "print one line of JSON", action="store_true")
FIGURE = option("--figure", "draw a figure: .png or .svg", type=_figure, metavar="FILE")
SUPPOSED: list[Option | list[Option]] = [
    [
        option("--means", "CSV: arm,mean", metavar="means.csv"),
        gap("in place of means: the lead of the best arm; other means follow as closely as linear "
            "ones can"),
    ],
    best("with --gap: the best arm (default: that with the smallest gaps in all)"),
    option("--rewards", "law of rewards (default bernoulli)", choices=REWARDS, default="bernoulli"),
    reward_range("the scale of rewards, means, gaps and losses (default 0 1)"),
    WITHIN,
]
"""What makes an instance: means or a gap, of which one is needed. And which answers are right."""
# fmt: on


def refuse_to_overwrite(given: argparse.Namespace) -> None:
    """Raise ValueError if a command would write over a file that it reads, or write one twice.

    Two paths name one file also by way of links, and "-" names a file that standard input reads.
    """
    named = {name: path for name, path in vars(given).items() if path and isinstance(path, str)}
    session = named.get("session")
    used = {
        "the table of arms": named.get("arms"),
        "the means": named.get("means"),
        "the rewards": named.get("rewards") if "session" in named else None,
        "the session": session,
        "the lock of the session": session and f"{session}.lock",
        "the session while it is being saved": session and f"{session}.tmp",
    }
    found = {_identity(path): (what, path) for what, path in used.items() if path}
    found |= {_identity(path): ("a session", path) for path in vars(given).get("sessions", ())}
    for name, way in (("cells", "--cells"), ("output", "-o/--output"), ("figure", "--figure")):
        if path := named.get(name):
            what, other = found.setdefault(_identity(path), (way, path))
            if what != way:
                raise ValueError(
                    f"{way} must name a file of its own, but {path} is the same file as {other} "
                    f"({what}), which would be overwritten: give {way} another name"
                )


def _identity(path: str) -> object:
    """Return what two paths have in common if they name one file."""
    try:
        status = os.fstat(0) if path == STANDARD_INPUT else Path(path).stat()
    except (OSError, ValueError):  # a file to make, or a path that will be refused
        return os.path.realpath(path) if "\0" not in path else path
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else path


def makers(given: argparse.Namespace) -> dict[str, Callable[..., dpbai.Policy]]:
    """Return the makers of --policies."""
    if given.misfit is not None and DEFAULT not in given.policies:
        raise ValueError(f"--misfit is for {DEFAULT} only")
    return {name: maker(name, given.delta, given.misfit) for name in given.policies}


def maker(
    name: str, delta: float | None = None, misfit: float | None = None
) -> Callable[..., dpbai.Policy]:
    """Return the maker of a policy, which takes features, `budget` and, if private, `epsilon`."""
    make: Callable[..., dpbai.Policy] = getattr(dpbai, POLICIES[name][1])
    if name == "dp-od":
        return partial(make, norm="l1")  # the norm that keeps what epsilon promises
    if name == DEFAULT and misfit is not None:
        return partial(make, misfit=misfit)
    if name != WITH_DELTA:
        return make
    if delta is None:
        raise ValueError(f"--delta is needed for {WITH_DELTA}")
    return partial(make, delta=delta)


def policy(given: argparse.Namespace, features: FloatArray) -> dpbai.Policy:
    """Return the policy that the options ask for; ValueError if one is missing or too much."""
    if given.delta is not None and given.policy != WITH_DELTA:
        raise ValueError(f"--delta is for {WITH_DELTA} only")
    if given.misfit is not None and given.policy != DEFAULT:
        raise ValueError(f"--misfit is for {DEFAULT} only")
    make = maker(given.policy, given.delta, given.misfit)
    if given.policy == NOT_PRIVATE:
        if given.epsilon is not None:
            raise ValueError(f"--epsilon is not for {NOT_PRIVATE}, which is not private")
        return make(features, budget=given.budget)
    if given.epsilon is None:
        raise ValueError(f"--epsilon is needed for {given.policy}")
    return make(features, budget=given.budget, epsilon=given.epsilon)
