"""The parser of the command line: every command, its options and its help, and nothing heavier.

A command names the function that does it. That function's module, and with it all that computes,
is imported only when the command runs, so that help comes at once.
"""

from __future__ import annotations

import argparse

import dpbai
from dpbai.cli import arguments, choices

PHASE_COLUMNS = ["phase", "arms", "pulled", "pulls_each", "pulls", "noise", "noise_deviation"]
BUDGET_COLUMNS = [
    "policy", "epsilon", "odds", "budget", "too_small", "confidence", "price", "loss",
]  # fmt: skip


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
    _add_run(commands)
    _add_experiments(commands)
    return top


def _add_run(commands: arguments.Commands) -> None:
    sub = arguments.command(
        commands,
        "plan",
        "run.plan",
        "show what a run would do: phases, pulls, noise and guarantee",
        "Later phases depend on the arms that survive: their entries are ranges. With --gap, also "
        "how often the best arm would be found.",
    )
    arguments.arms(sub)
    arguments.policy(sub)
    arguments.gap(
        sub,
        "say how often the best arm is found if it leads by this much, and the other means are as "
        "close to it as linear ones can be",
    )
    arguments.best(sub, "with --gap: if this arm is the best (default: for each arm)")
    arguments.within(sub)
    arguments.trials(sub, 2000, "with --gap: simulated runs for each possible best arm")
    arguments.output(sub, ",".join(PHASE_COLUMNS))

    sub = arguments.command(
        commands,
        "start",
        "run.start",
        "begin a run, in a new session file",
        "While a phase is under way the file holds sums of rewards: keep it as safe as the rewards "
        "are. After that it holds what was released, and no more. A copy of the file may take its "
        "place as long as the phase of the copy has not been released; after that, never: it would "
        "release the same rewards again.",
    )
    arguments.session(sub, "the session file to make")
    arguments.arms(sub)
    arguments.policy(sub)
    sub.add_argument(
        "--reward-range",
        nargs=2,
        type=float,
        default=[0, 1],
        metavar=("LOW", "HIGH"),
        help="the least and the largest possible reward, for instance 1 5 (default 0 1); decide it "
        "before you see a reward",
    )
    sub.add_argument(
        "--noise",
        choices=choices.NOISE,
        default="opendp",
        help="opendp: for a release (default), needs dpbai[opendp]; numpy: for a rehearsal only",
    )

    sub = arguments.command(
        commands, "next", "run.following", "show, as CSV, which arms to pull now, and how often"
    )
    arguments.session(sub)
    arguments.output(sub, "arm,pulls")
    arguments.json(sub)

    sub = arguments.command(
        commands,
        "tell",
        "run.tell",
        "take rewards, in any order and in parts",
        "A file is taken as a whole or, if anything in it is wrong, not at all. Told twice, it "
        "counts twice, unless --batch gives it a name: `dpbai status` shows what has come in.",
    )
    arguments.session(sub)
    sub.add_argument(
        "rewards",
        metavar="rewards.csv",
        help="CSV: arm,reward, a line for each pull, rewards in [0, 1] or --reward-range; or "
        "arm,total,count, sums of rewards and of how many; - reads it from standard input; other "
        "columns are not read",
    )
    arguments.arm_column(sub)
    sub.add_argument(
        "--reward-column", metavar="NAME", help="the column of rewards (default: reward)"
    )
    sub.add_argument(
        "--batch",
        metavar="NAME",
        help="a name for these rewards, no secret: a batch of this name is refused from then on",
    )
    sub.add_argument(
        "--undo",
        action="store_true",
        help="take these rewards back, told by mistake in the phase under way (all of a batch with "
        "--batch, or some lines without)",
    )
    sub.add_argument(
        "--follow",
        action="store_true",
        help='with -: take lines of JSON, {"arm": "a", "reward": 1, "batch": "optional"}, each '
        "saved at once and answered by a line",
    )
    sub.add_argument("--seed", type=int, help="of the noise, in a rehearsal with --noise numpy")

    sub = arguments.command(
        commands,
        "end-phase",
        "run.end_phase",
        "end the phase under way with the rewards that came in, when no more will",
        "For drop-outs. Each arm needs one reward at least. With fewer rewards each counts for "
        "more, so the noise is made wider in proportion, which keeps the guarantee; how many came "
        "is public. Decide this without a look at rewards. A missing reward must be missing for "
        "reasons that have nothing to do with what it would have been.",
    )
    arguments.session(sub)
    sub.add_argument("--seed", type=int, help="of the noise, in a rehearsal with --noise numpy")

    sub = arguments.command(commands, "status", "run.status", "show how far a run has come")
    arguments.session(sub)
    arguments.output(sub, "arm,state,estimate,received,missing")
    arguments.json(sub)

    sub = arguments.command(
        commands,
        "recommend",
        "run.recommend",
        "show the answer, the private estimates, the guarantee",
    )
    arguments.session(sub)
    arguments.output(sub, "arm,estimate,noise,phase,state")
    arguments.figure(sub)
    arguments.json(sub)


def _add_experiments(commands: arguments.Commands) -> None:
    sub = arguments.command(
        commands, "simulate", "experiments.simulated", "run a policy many times on supposed means"
    )
    arguments.arms(sub)
    arguments.policy(sub)
    arguments.means(sub)
    arguments.within(sub)
    arguments.trials(sub, 1000)
    arguments.output(sub, "arm,mean,recommended")
    arguments.figure(sub)

    sub = arguments.command(
        commands,
        "study",
        "experiments.studied",
        "compare policies over budgets and epsilons, by simulation",
    )
    arguments.arms(sub)
    arguments.policies(sub)
    sub.add_argument("--budgets", nargs="+", type=int, required=True, metavar="T", help="pulls")
    sub.add_argument(
        "--epsilons", nargs="+", type=float, required=True, metavar="E", help="privacy parameters"
    )
    arguments.means(sub)
    arguments.within(sub)
    arguments.trials(sub, 1000, "simulated runs in each cell")
    sub.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    sub.add_argument(
        "--cells", metavar="FILE", help="save each finished cell in this file, and go on from it"
    )
    sub.add_argument(
        "--along",
        choices=("budget", "epsilon"),
        default="budget",
        help="horizontal axis of the figure (default budget)",
    )
    arguments.output(sub, "a line for each policy, budget and epsilon")
    arguments.figure(sub)

    sub = arguments.command(
        commands,
        "budget",
        "experiments.budgeted",
        "find the least budget for a wanted success, with privacy and without",
        "A row for each epsilon, and one without privacy, as soon as it is found. odds: e^epsilon, "
        "by which one reward can at most change the odds of anything that a run shows. too_small: "
        "known not to do. price: times the budget without privacy. loss: mean loss of the answer "
        "at that budget.",
    )
    arguments.arms(sub)
    arguments.policies(sub)
    sub.add_argument(
        "--epsilons", "--epsilon", nargs="+", type=float, required=True, metavar="E",
        help="privacy parameters; smaller is more private",
    )  # fmt: skip
    sub.add_argument("--success", type=float, default=0.95, help="wanted (default 0.95)")
    arguments.means(sub)
    arguments.within(sub)
    arguments.trials(sub, 5000, "the most simulated runs for one budget")
    arguments.output(sub, ",".join(BUDGET_COLUMNS))
    arguments.figure(sub)
