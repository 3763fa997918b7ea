"""The parser of the command line: every command, its options and its help, and nothing heavier.

The functions that do the commands, and with them all that computes, are imported only when a
command runs, so that help comes at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dpbai
from dpbai.field.cli import arguments
from dpbai.field.cli.arguments import best, by_rule, gap, option, output, reward_range, trials

if TYPE_CHECKING:
    from dpbai.field.cli.tables import Table

PHASE_COLUMNS = ["phase", "arms", "pulled", "pulls_each", "pulls", "noise", "noise_deviation"]
BUDGET_COLUMNS = [
    "policy", "epsilon", "odds", "budget", "too_small", "confidence", "price", "loss",
]  # fmt: skip
EPSILON_COLUMNS = ["policy", "budget", "epsilon", "odds", "too_small", "confidence"]
_RUN = [*arguments.ARMS, *arguments.POLICY]
_COMPARISON = [*arguments.ARMS, *arguments.COMPARED]

# fmt: off
# The name, the help, and in any order: more help, options, and lists of options of which one is
# needed.
COMMANDS: list[tuple[Any, ...]] = [
    (
        "plan",
        "show what a run would do: phases, pulls, noise and guarantee",
        "Later phases depend on the arms that survive: their entries are ranges. With --gap, also "
        "how often the best arm would be found. noise_deviation is that of what is released, which "
        "is computed from rewards mapped to [0, 1].",
        *_RUN,
        gap("say how often the best arm is found if it leads by this much, and the other means are "
            "as close to it as linear ones can be"),
        best("with --gap: if this arm is the best (default: for each arm)"),
        arguments.WITHIN,
        reward_range("the scale of --gap and --within (default 0 1)"),
        trials(
            2000,
            "with --gap: simulated runs, shared among the arms that may be the best; 200 for each "
            "at least",
        ),
        arguments.SEED,
        output(*PHASE_COLUMNS),
    ),
    (
        "start", "begin a run, in a new session file",
        "While a phase is under way the file holds sums of rewards: keep it as safe as the rewards "
        "are. After that it holds what was released, and no more. Move it together with the file "
        "run.json.lock, which stays beside it and knows how many phases were released: an older "
        "copy in the place of the file is refused, as it would release the same rewards again. A "
        "copy elsewhere, or one without that file, is not noticed: let none go on.",
        option("session", "the session file to make", metavar="run.json", type=arguments.written),
        *_RUN,
        reward_range("the least and the largest possible reward, for instance 1 5 (default 0 1); "
                     "decide it before you see a reward"),
        option("--noise", "opendp: for a release (default), needs dpbai[opendp]; numpy: for a "
               "rehearsal only", choices=arguments.NOISE, default="opendp"),
        option("--population", "whose rewards these are, no secret, for `dpbai ledger`: runs with "
               "the same name share people, others do not", metavar="NAME"),
    ),
    (
        "next", "show, as CSV, which arms to pull now, and how often",
        arguments.SESSION, output("arm", "pulls"), arguments.JSON,
    ),
    (
        "tell", "take rewards, in any order and in parts",
        "A file is taken as a whole or, if anything in it is wrong, not at all. Told twice, it "
        "counts twice, unless --batch gives it a name: `dpbai status` shows what has come in.",
        arguments.SESSION,
        option("rewards", "CSV: arm,reward, a line for each pull, rewards in [0, 1] or "
               "--reward-range; or arm,total,count, sums of rewards and of how many; - reads it "
               "from standard input; other columns are not read", metavar="rewards.csv"),
        arguments.ARM_COLUMN,
        option("--reward-column", "the column of rewards (default: reward)", metavar="NAME"),
        option("--batch", "a name for these rewards, no secret: a batch of this name is refused "
               "from then on, and `dpbai undo` can take it back", metavar="NAME"),
        option("--follow", 'with -: take lines of JSON, {"arm": "a", "reward": 1, "batch": '
               '"optional"}, each saved at once and answered by a line', action="store_true"),
        arguments.NOISE_SEED,
    ),
    (
        "undo", "take a batch back that was told by mistake in the phase under way",
        "All of it, by its name, which is free again. What was told without a name stays.",
        arguments.SESSION, option("batch", "the name of the batch", metavar="BATCH"),
    ),
    (
        "withdraw", "ask for no more rewards of an arm that cannot be pulled any longer",
        "Each reward of it that is missing counts as the middle of the range, in this phase and in "
        "later ones, so that every other reward is as private as planned; with none at all its "
        "part of the release is noise alone. It cannot be recommended any more. That it was "
        "withdrawn is public: decide it without a look at rewards.",
        arguments.SESSION, option("arm", "the arm", metavar="ARM"), arguments.NOISE_SEED,
    ),
    (
        "end-phase",
        "end the phase under way with the rewards that came in, when no more will",
        "For drop-outs. Each arm needs one reward at least. With fewer rewards each counts for "
        "more, so the noise is made wider in proportion, which keeps the guarantee; how many came "
        "is public. Decide this without a look at rewards. A missing reward must be missing for "
        "reasons that have nothing to do with what it would have been.",
        arguments.SESSION, arguments.NOISE_SEED,
    ),
    (
        "status", "show how far a run has come",
        arguments.SESSION, output("arm", "state", "estimate", "received", "missing"),
        arguments.JSON,
    ),
    (
        "recommend",
        "show the answer, the private estimates, the guarantee",
        arguments.SESSION, output("arm", "estimate", "noise", "phase", "state"), arguments.FIGURE,
        arguments.GROUP, arguments.JSON,
    ),
    (
        "ledger", "show what several runs cost together",
        "Losses of runs add up for who is in all of them. Runs with the same --population (see "
        "`dpbai start`) may share people, runs with different ones do not, and a run without one "
        "may share people with any.",
        option("sessions", "the session files", nargs="+", metavar="run.json"),
        output("run", "population", "epsilon", "delta", "released"), arguments.GROUP,
        arguments.JSON,
    ),
    (
        "simulate", "run a policy many times on supposed means",
        *_RUN, *arguments.SUPPOSED, trials(1000), arguments.SEED,
        output("arm", "mean", "recommended"), arguments.FIGURE,
    ),
    (
        "study",
        "compare policies over budgets and epsilons, by simulation",
        *_COMPARISON, arguments.EPSILONS, arguments.BUDGETS, *arguments.SUPPOSED,
        trials(1000, "simulated runs in each cell"), arguments.SEED,
        option("--jobs", "processes (default 1)", type=by_rule(int, "whole", "jobs"), default=1,
               metavar="N"),
        option("--cells", "save each finished cell in this file, and go on from it",
               type=arguments.written, metavar="FILE"),
        option("--along", "horizontal axis of the figure (default budget)",
               choices=("budget", "epsilon"), default="budget"),
        output("a line for each policy, budget and epsilon"), arguments.FIGURE,
    ),
    (
        "budget",
        "find the least budget for a wanted success, with privacy and without",
        "A row for each epsilon, and one without privacy, as soon as it is found. odds: e^epsilon, "
        "by which one reward can at most change the odds of anything that a run shows. too_small: "
        "known not to do. price: times the budget without privacy. loss: mean loss of the answer "
        "at that budget.",
        *_COMPARISON,
        arguments.EPSILONS, arguments.SUCCESS,
        *arguments.SUPPOSED, trials(5000, "the most simulated runs for one budget"),
        arguments.SEED, output(*BUDGET_COLUMNS), arguments.FIGURE,
    ),
    (
        "epsilon",
        "find how private a run with a given budget can be, for a wanted success",
        "A row for each budget: the least epsilon that was found to be enough, in steps of 0.1 % "
        "where probabilities are exact. too_small: known not to be enough.",
        *_COMPARISON, arguments.BUDGETS, arguments.SUCCESS, *arguments.SUPPOSED,
        trials(5000, "the most simulated runs for one epsilon"), arguments.SEED,
        output(*EPSILON_COLUMNS),
    ),
]
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
    top.add_argument("--version", action="version", version=f"dpbai {dpbai.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, text, *options in COMMANDS:
        more = [part for part in options if isinstance(part, str)]
        sub = commands.add_parser(
            name,
            help=text,
            description=" ".join([f"{text}.", *more]),
            formatter_class=arguments.Help,
            allow_abbrev=False,
        )
        sub.set_defaults(command=name, refuse=sub.error)
        for given in options:
            if isinstance(given, list):
                group = sub.add_mutually_exclusive_group(required=True)
                for one in given:
                    one(group)
            elif not isinstance(given, str):
                given(sub)
    return top


def function(command: str) -> Callable[[argparse.Namespace], Table | None]:
    """Return the function that does a command, and returns the table that it makes, if any."""
    if command in ("simulate", "study", "budget", "epsilon"):
        from dpbai.field.cli import experiments

        return {
            "simulate": experiments.simulated,
            "study": experiments.studied,
            "budget": experiments.budgeted,
            "epsilon": experiments.private,
        }[command]
    from dpbai.field.cli import run

    return {
        "plan": run.plan,
        "start": run.start,
        "next": run.following,
        "tell": run.tell,
        "undo": run.undo,
        "withdraw": run.withdraw,
        "end-phase": run.end_phase,
        "status": run.status,
        "recommend": run.recommend,
        "ledger": run.ledger,
    }[command]
