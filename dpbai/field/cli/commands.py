"""The parser of the command line: every command, its options and its help.

The modules that execute the commands are imported only when one runs, so that help comes at once.
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
# The help, and in any order: more help, options, and lists of options of which one is needed.
_COMMANDS: dict[str, tuple[Any, ...]] = {
    "plan": (
        "show what a run would do: phases, pulls, noise and guarantee",
        "Later phases depend on the arms that survive: their entries are ranges. With --gap, also "
        "how often the best arm would be found. noise_deviation: standard deviation of the noise "
        "on what is released, which is computed from rewards mapped to [0, 1].",
        *_RUN,
        gap("compute how often the best arm is found if it leads by this much, and the other means "
            "are as close to it as linear means can be"),
        best("with --gap: if this arm is the best (default: for each arm)"),
        arguments.WITHIN,
        reward_range("the scale of --gap and --within (default 0 1)"),
        trials(
            2000,
            "with --gap: simulated runs, shared among the arms that may be the best; 200 for each "
            "at least",
        ),
        arguments.SEED,
        output("phase", "arms", "pulled", "pulls_each", "pulls", "noise", "noise_deviation"),
    ),
    "start": (
        "begin a run, in a new session file",
        "During a phase the file holds sums of rewards: protect it like the rewards themselves. "
        "After the phase it holds only what was released. Move it together with the file "
        "run.json.lock, which counts the released phases: if an older copy takes the place of the "
        "file, it is refused, as it would release the same rewards again. A copy elsewhere, or one "
        "without the lock file, is not noticed: never continue from one.",
        option("session", "the session file to make", metavar="run.json", type=arguments.written),
        *_RUN,
        reward_range("the least and the largest possible reward, for instance 1 5 (default 0 1); "
                     "decide it before you see a reward"),
        option("--noise", "opendp: for a release (default), needs dpbai[opendp]; numpy: for a "
               "rehearsal only", choices=("opendp", "numpy"), default="opendp"),
        option("--population", "a public name for the people who give the rewards, for `dpbai "
               "ledger`: runs with the same name share people, others do not", metavar="NAME"),
    ),
    "next": (
        "show, as CSV, which arms to pull now, and how often",
        arguments.SESSION, output("arm", "pulls"), arguments.JSON,
    ),
    "tell": (
        "record rewards, in any order and in parts",
        "A file is recorded as a whole or, if anything in it is wrong, not at all. The same file "
        "recorded twice counts twice, unless --batch names it: `dpbai status` shows what has been "
        "recorded.",
        arguments.SESSION,
        option("rewards", "CSV: arm,reward, a line for each pull, rewards in [0, 1] or "
               "--reward-range; or arm,total,count, sums of rewards and their numbers; - reads "
               "standard input; other columns are not read", metavar="rewards.csv"),
        arguments.ARM_COLUMN,
        option("--reward-column", "the column of rewards (default: reward)", metavar="NAME"),
        option("--batch", "a public name for these rewards: another batch of this name is refused, "
               "and `dpbai undo` can remove this one", metavar="NAME"),
        option("--follow", 'with -: read lines of JSON, {"arm": "a", "reward": 1, "batch": '
               '"optional"}, save each at once and answer each with a line; of a refused one it is '
               '{"error": ...}, and the exit code stays 0', action="store_true"),
        arguments.NOISE_SEED,
    ),
    "undo": (
        "remove a batch that was recorded by mistake in the current phase",
        "The name of the batch can be used again. Rewards recorded without a name stay.",
        arguments.SESSION, option("batch", "the name of the batch", metavar="BATCH"),
    ),
    "withdraw": (
        "stop asking for rewards of an arm that cannot be pulled any longer",
        "Each missing reward counts as the middle of the range, in this phase and in later ones, "
        "so that the guarantee for all other rewards stays. The arm cannot be recommended any "
        "more. That it was withdrawn is public: decide it without looking at rewards.",
        arguments.SESSION, option("arm", "the arm", metavar="ARM"), arguments.NOISE_SEED,
    ),
    "end-phase": (
        "end the current phase with the rewards recorded so far, if no more will come",
        "For drop-outs. Each arm needs at least one reward. With fewer rewards each has more "
        "influence, so the noise is made wider in proportion, which keeps the guarantee; the "
        "number of rewards is public. Decide this without looking at rewards, and only if whether "
        "a reward is missing does not depend on its value.",
        arguments.SESSION, arguments.NOISE_SEED,
    ),
    "status": (
        "show the progress of a run",
        arguments.SESSION, output("arm", "state", "estimate", "received", "missing"),
        arguments.JSON,
    ),
    "recommend": (
        "show the answer, the private estimates, the guarantee",
        arguments.SESSION, output("arm", "estimate", "noise", "phase", "state"), arguments.FIGURE,
        arguments.GROUP, arguments.JSON,
    ),
    "holdout": (
        "begin a holdout of a run: pull some arms beside it, to check the features",
        "Phase 1 of a run estimates most arms from the features and the rewards of others. A "
        "holdout pulls some of these arms themselves: `dpbai tell` records their rewards, and "
        "`dpbai misfit` compares. It is a session of its own. As long as no person gives rewards "
        "to both, the two together are as private as the less private one.",
        option("session", "the session file of the holdout to make", metavar="holdout.json",
               type=arguments.written),
        option("run", "the session file of the run", metavar="run.json"),
        option("held_out", "the arms to pull", metavar="ARM", nargs="+"),
        option("--pulls", "how often to pull each of them, beside the budget of the run",
               type=whole("pulls"), required=True, metavar="N"),
        option("--epsilon", "privacy parameter (default: that of the run)",
               type=arguments.EPSILON),
        output("arm", "pulls", "limit"),
    ),
    "misfit": (
        "check whether means are linear in the features, from releases only",
        "Compares what phase 1 of a run computed from the features with what later phases and "
        "holdouts released of the same arms. No further rewards are released, so this costs no "
        "privacy.",
        arguments.SESSION,
        option("holdouts", "session files of finished holdouts of this run", nargs="*",
               metavar="holdout.json"),
        output("arm", "compared_with", "phase_1", "again", "difference", "limit"), arguments.JSON,
    ),
    "ledger": (
        "show the privacy cost of several runs together",
        "Losses of runs add up for a person who is in all of them. Runs with the same --population "
        "(see `dpbai start`) may share people, runs with different ones do not, and a run without "
        "one may share people with any.",
        option("sessions", "the session files", nargs="+", metavar="run.json"),
        output("run", "population", "epsilon", "delta", "released"), arguments.GROUP,
        arguments.JSON,
    ),
    "simulate": (
        "run a policy many times on supposed means",
        *_RUN, *arguments.SUPPOSED, trials(1000), arguments.SEED,
        output("arm", "mean", "recommended"), arguments.FIGURE,
    ),
    "study": (
        "compare policies over budgets and epsilons, by simulation",
        *_COMPARISON, arguments.EPSILONS, arguments.BUDGETS, *arguments.SUPPOSED,
        trials(1000, "simulated runs in each cell"), arguments.SEED,
        option("--jobs", "processes (default 1)", type=whole("jobs"), default=1,
               metavar="N"),
        option("--cells", "save each finished cell in this file, and continue from it",
               type=arguments.written, metavar="FILE"),
        option("--along", "horizontal axis of the figure (default budget)",
               choices=("budget", "epsilon"), default="budget"),
        output("a line for each policy, budget and epsilon"), arguments.FIGURE,
    ),
    "budget": (
        "find the least budget for a wanted success, with privacy and without",
        "A row for each epsilon, and one without privacy, as soon as it is found. odds: e^epsilon, "
        "the largest factor by which one reward changes the odds of anything that a run shows. "
        "too_small: a budget that is not enough. price: relative to the budget without privacy. "
        "loss: mean loss of the answer at that budget.",
        *_COMPARISON,
        arguments.EPSILONS, arguments.SUCCESS,
        *arguments.SUPPOSED, trials(5000, "the most simulated runs for one budget"),
        arguments.SEED, output("policy", "epsilon", "odds", "budget", "too_small", "confidence",
                               "price", "loss"), arguments.FIGURE,
    ),
    "epsilon": (
        "find how private a run with a given budget can be, for a wanted success",
        "A row for each budget: the least epsilon found to be enough, in steps of 0.1 % where "
        "probabilities are exact. too_small: an epsilon that is not enough.",
        *_COMPARISON, arguments.BUDGETS, arguments.SUCCESS, *arguments.SUPPOSED,
        trials(5000, "the most simulated runs for one epsilon"), arguments.SEED,
        output("policy", "budget", "epsilon", "odds", "too_small", "confidence"),
    ),
}
# fmt: on


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = arguments.Parser(
        prog="dpbai",
        description="Find the best of several arms within a budget of pulls, privately.",
        epilog=arguments.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.set_defaults(columns=(), output=None, figure=None, json=False, seed=None)
    top.set_defaults(law="bernoulli", means=None)  # of --gap, also where it goes without these
    top.add_argument("--version", action="version", version=f"dpbai {dpbai.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (text, *more) in _COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=text,
            description=" ".join([f"{text}.", *(part for part in more if isinstance(part, str))]),
            formatter_class=arguments.Help,
            allow_abbrev=False,
        )
        sub.set_defaults(command=name)
        for given in more:
            if isinstance(given, list):
                group = sub.add_mutually_exclusive_group(required=True)
                for one in given:
                    one(group)
            elif not isinstance(given, str):
                given(sub)
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
