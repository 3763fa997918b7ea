"""The parser of the command line: all commands, their options and their help.

The modules that execute the commands are imported only when one runs, so that help appears at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dpbai
from dpbai.field.cli import arguments
from dpbai.field.cli.arguments import best, gap, option, output, reward_range, trials, whole

if TYPE_CHECKING:
    from dpbai.field.cli.answers import Answer

STEPS = ("tell", "undo", "withdraw", "end-phase")
"""The commands that change a run."""

_RUN = [*arguments.ARMS, *arguments.POLICY]
_COMPARISON = [*arguments.ARMS, *arguments.COMPARED]

# fmt: off
# The one-line help of each command, then more help, options, and lists of which one option is
# required, in any order.
_COMMANDS: dict[str, tuple[Any, ...]] = {
    "plan": (
        "show what a run would do: phases, pulls, noise and privacy",
        "A later phase depends on which arms remain, so its entries can be ranges. "
        "noise_deviation: standard deviation of the noise that is added to each released number, "
        "for rewards mapped to [0, 1]. With --gap, the command also computes how often the best "
        "arm would be found.",
        *_RUN,
        gap("compute how often the best arm is found if its mean is ahead by this much, and the "
            "other means are as close to it as linearity in the features allows"),
        best("with --gap: the best arm (default: each arm in turn)"),
        arguments.WITHIN,
        reward_range("the range of the rewards, for --gap and --within (default 0 1)"),
        trials(
            2000,
            "with --gap: simulated runs, divided among the arms that may be the best, with at "
            "least 200 for each",
        ),
        arguments.SEED,
        output("phase", "arms", "pulled", "pulls_each", "pulls", "noise", "noise_deviation"),
    ),
    "start": (
        "start a run, and create its session file",
        "During a phase the file contains sums of rewards: protect it as you protect the rewards. "
        "After the phase it contains only what was released. Keep it together with its lock file, "
        "run.json.lock, which counts the released phases: if the session file is replaced by an "
        "older copy, dpbai refuses it, because it would release the same rewards again. A copy in "
        "another place, or without the lock file, cannot be detected: never continue from one.",
        option("session", "the session file to create", metavar="run.json", type=arguments.written),
        *_RUN,
        reward_range("the smallest and the largest possible reward, for instance 1 5 (default "
                     "0 1); choose them before you see any reward"),
        option("--noise", "the source of the noise: opendp (default), which needs dpbai[opendp]; "
               "or numpy, for rehearsals only", choices=("opendp", "numpy"), default="opendp"),
        option("--population", "a public name for the people who give the rewards; `dpbai ledger` "
               "assumes that runs with different names share no people", metavar="NAME"),
    ),
    "next": (
        "show which arms to pull now and how often, as CSV",
        arguments.SESSION, output("arm", "pulls"), arguments.JSON,
    ),
    "tell": (
        "record rewards, in any order and in several parts",
        "A file is recorded as a whole or, if anything in it is wrong, not at all. A file that is "
        "recorded twice counts twice, unless --batch gives it a name. `dpbai status` shows what "
        "has been recorded.",
        arguments.SESSION,
        option("rewards", "CSV: arm,reward with a line for each pull and rewards in [0, 1] or "
               "--reward-range; or arm,total,count with sums of rewards and how many there are. "
               "Other columns are ignored. - reads standard input", metavar="rewards.csv"),
        arguments.ARM_COLUMN,
        option("--reward-column", "the column with the rewards (default: reward)", metavar="NAME"),
        option("--batch", "a public name for these rewards: another batch with this name is "
               "refused, and `dpbai undo` can remove this one", metavar="NAME"),
        option("--follow", 'with -: read rewards as lines of JSON, {"arm": "a", "reward": 1, '
               '"batch": "optional"}, save each at once and answer each with a line; the answer '
               'to a line that is refused is {"error": ...}, and the exit code stays 0',
               action="store_true"),
        arguments.NOISE_SEED,
    ),
    "undo": (
        "remove a batch that was recorded by mistake in the current phase",
        "The name of the batch can then be used again. Rewards without a name cannot be removed.",
        arguments.SESSION, option("batch", "the name of the batch", metavar="BATCH"),
    ),
    "withdraw": (
        "stop asking for rewards of an arm that can no longer be pulled",
        "Each missing reward counts as the middle of the reward range, in this phase and in later "
        "ones, so that the guarantee for all other rewards still holds. The arm can no longer be "
        "recommended. The withdrawal is public: decide on it without looking at rewards.",
        arguments.SESSION, option("arm", "the arm", metavar="ARM"), arguments.NOISE_SEED,
    ),
    "end-phase": (
        "end the current phase with the rewards recorded so far, if no more will come",
        "Each pulled arm needs at least one reward. With fewer rewards each of them has more "
        "influence, so the noise is increased in proportion, which keeps the guarantee; the "
        "number of rewards becomes public. Decide on this without looking at rewards, and only if "
        "whether a reward is missing does not depend on its value.",
        arguments.SESSION, arguments.NOISE_SEED,
    ),
    "status": (
        "show the progress of a run",
        arguments.SESSION, output("arm", "state", "estimate", "received", "missing"),
        arguments.JSON,
    ),
    "recommend": (
        "show the recommended arm, the private estimates and the guarantee",
        arguments.SESSION, output("arm", "estimate", "noise", "phase", "state"), arguments.FIGURE,
        arguments.GROUP, arguments.JSON,
    ),
    "holdout": (
        "start a holdout of a run: extra pulls of some arms, to check the features",
        "Phase 1 of a run estimates most arms from the features and the rewards of other arms. A "
        "holdout pulls some of these arms themselves. It is a session of its own: `dpbai tell` "
        "records its rewards, and `dpbai misfit` compares them with the run. As long as no person "
        "gives rewards to both, the two together are as private as the less private one.",
        option("session", "the session file of the holdout to create", metavar="holdout.json",
               type=arguments.written),
        option("run", "the session file of the run", metavar="run.json"),
        option("held_out", "the arms to pull", metavar="ARM", nargs="+"),
        option("--pulls", "how often to pull each of them, in addition to the budget of the run",
               type=whole("pulls"), required=True, metavar="N"),
        option("--epsilon", "privacy parameter (default: that of the run)",
               type=arguments.EPSILON),
        output("arm", "pulls", "limit"),
    ),
    "misfit": (
        "check whether means are linear in the features, from releases only",
        "It compares what phase 1 of a run estimated from the features with what later phases and "
        "holdouts released about the same arms. Nothing more is released about the rewards, so "
        "this costs no privacy.",
        arguments.SESSION,
        option("holdouts", "session files of finished holdouts of this run", nargs="*",
               metavar="holdout.json"),
        output("arm", "compared_with", "phase_1", "again", "difference", "limit"), arguments.JSON,
    ),
    "ledger": (
        "show the privacy loss of several runs together",
        "Losses add up for a person who takes part in several runs. Runs with the same "
        "--population (see `dpbai start`) may share people, runs with different ones do not, and "
        "a run without one may share people with any run.",
        option("sessions", "the session files", nargs="+", metavar="run.json"),
        output("run", "population", "epsilon", "delta", "released"), arguments.GROUP,
        arguments.JSON,
    ),
    "simulate": (
        "simulate a policy many times with assumed means",
        *_RUN, *arguments.ASSUMED, trials(1000), arguments.SEED,
        output("arm", "mean", "recommended"), arguments.FIGURE,
    ),
    "study": (
        "compare policies over budgets and epsilons, by simulation",
        *_COMPARISON, arguments.EPSILONS, arguments.BUDGETS, *arguments.ASSUMED,
        trials(1000, "simulated runs for each cell"), arguments.SEED,
        option("--jobs", "number of processes (default 1)", type=whole("jobs"), default=1,
               metavar="N"),
        option("--cells", "save each finished cell in this file, and continue from it",
               type=arguments.written, metavar="FILE"),
        option("--along", "horizontal axis of the figure (default budget)",
               choices=("budget", "epsilon"), default="budget"),
        output("a line for each policy, budget and epsilon"), arguments.FIGURE,
    ),
    "budget": (
        "find the least budget for a given success probability, with and without privacy",
        "There is a row for each epsilon and one without privacy, each printed as soon as it is "
        "found. odds: e^epsilon, the largest factor by which one reward changes the odds of "
        "anything that a run shows. too_small: a smaller budget that is not enough. price: the "
        "budget divided by the one without privacy. loss: how far the mean of the answer is below "
        "the best mean, on average, at that budget.",
        *_COMPARISON,
        arguments.EPSILONS, arguments.SUCCESS,
        *arguments.ASSUMED, trials(5000, "the most simulated runs for one budget"),
        arguments.SEED, output("policy", "epsilon", "odds", "budget", "too_small", "confidence",
                               "price", "loss"), arguments.FIGURE,
    ),
    "epsilon": (
        "find how private a run with a given budget can be, for a given success probability",
        "There is a row for each budget, with the least epsilon that was found to be enough (in "
        "steps of 0.1 % where probabilities are exact). too_small: a smaller epsilon that is not "
        "enough.",
        *_COMPARISON, arguments.BUDGETS, arguments.SUCCESS, *arguments.ASSUMED,
        trials(5000, "the most simulated runs for one epsilon"), arguments.SEED,
        output("policy", "budget", "epsilon", "odds", "too_small", "confidence"),
    ),
}
# fmt: on


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = arguments.Parser(
        prog="dpbai",
        description="Find the best arm within a budget of pulls, with differential privacy.",
        epilog=arguments.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.set_defaults(columns=(), output=None, figure=None, json=False, seed=None)
    top.set_defaults(law="bernoulli", means=None)  # for --gap of `plan`, which lacks these options
    top.add_argument("--version", action="version", version=f"dpbai {dpbai.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (text, *more) in _COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=text,
            description=" ".join(
                [f"{text[0].upper()}{text[1:]}.", *(part for part in more if isinstance(part, str))]
            ),
            formatter_class=arguments.Help,
            allow_abbrev=False,
        )
        sub.set_defaults(command=name)
        for part in more:
            if isinstance(part, list):
                group = sub.add_mutually_exclusive_group(required=True)
                for add in part:
                    add(group)
            elif not isinstance(part, str):
                part(sub)
    return top


def function(command: str) -> Callable[[argparse.Namespace], Answer]:
    """Return the function that executes a command."""
    if command in ("simulate", "study", "budget", "epsilon"):
        from dpbai.field.cli.experiments import COMMANDS
    elif command in STEPS:
        from dpbai.field.cli.steps import COMMANDS
    elif command in ("holdout", "misfit"):
        from dpbai.field.cli.checks import COMMANDS
    else:
        from dpbai.field.cli.run import COMMANDS
    return COMMANDS[command]
