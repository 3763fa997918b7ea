"""The commands of a run: plan, start, next, tell, status, recommend."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable
from itertools import chain

import pandas as pd

from dpbai import privacy
from dpbai._check import FloatArray
from dpbai.cli import arguments, choices, experiments, tables
from dpbai.noise import NoNoise
from dpbai.policies import Policy
from dpbai.privacy.plans import reachable, representable
from dpbai.session import (
    NumpyNoise,
    OpenDPNoise,
    ReleaseNoise,
    ReleaseWarning,
    Session,
    SessionError,
)

NOISE: dict[str, Callable[[], ReleaseNoise]] = {"opendp": OpenDPNoise, "numpy": NumpyNoise}
PHASE_COLUMNS = ["phase", "arms", "pulled", "pulls_each", "pulls", "noise", "noise_deviation"]
_LIMIT = 200  # active sets looked at for the ranges of a phase


def add_commands(commands: arguments.Commands) -> None:
    """Add the commands of this module to the command line."""
    sub = arguments.command(
        commands,
        "plan",
        plan,
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
    arguments.trials(sub, 2000, "with --gap: simulated runs for each possible best arm")
    arguments.output(sub, ",".join(PHASE_COLUMNS))

    sub = arguments.command(
        commands,
        "start",
        start,
        "begin a run, in a new session file",
        "While a phase is under way the file holds sums of rewards: keep it as safe as the rewards "
        "are. After that it holds what was released, and no more.",
    )
    arguments.session(sub, "the session file to make")
    arguments.arms(sub)
    arguments.policy(sub)
    sub.add_argument(
        "--noise",
        choices=NOISE,
        default="opendp",
        help="opendp: for a release (default), needs dpbai[opendp]; numpy: for a rehearsal only",
    )

    sub = arguments.command(
        commands, "next", following, "show, as CSV, which arms to pull now, and how often"
    )
    arguments.session(sub)
    arguments.output(sub, "arm,pulls")

    sub = arguments.command(
        commands,
        "tell",
        tell,
        "take rewards, in any order and in parts",
        "A file is taken as a whole or, if anything in it is wrong, not at all. Told twice, it "
        "counts twice: `dpbai status` shows what has come in.",
    )
    arguments.session(sub)
    sub.add_argument(
        "rewards",
        metavar="rewards.csv",
        help="CSV: arm,reward, a line for each pull, rewards in [0, 1]; or arm,total,count, sums "
        "of rewards and of how many; - reads it from standard input",
    )
    sub.add_argument("--seed", type=int, help="of the noise, in a rehearsal with --noise numpy")

    sub = arguments.command(commands, "status", status, "show how far a run has come")
    arguments.session(sub)
    arguments.output(sub, "arm,state,estimate,received,missing")

    sub = arguments.command(
        commands, "recommend", recommend, "show the answer, the private estimates, the guarantee"
    )
    arguments.session(sub)
    arguments.output(sub, "arm,estimate,phase")


def plan(given: argparse.Namespace) -> None:
    """Show what a run would do."""
    labels, features = tables.read_arms(given.arms)
    policy = _policy(given, features)
    name = choices.POLICIES[given.policy][0]
    table = _phases(policy)
    arms, dimension = features.shape
    print(f"{name}: {arms} arms of dimension {dimension}, at most {policy.budget} pulls.")
    tables.show(table)
    first = policy.phase(1, range(arms))
    asked = (f"{labels[arm]} {n}" for arm, n in zip(first.pulled, first.pulls, strict=True))
    print(f"Phase 1 pulls: {', '.join(asked)}")
    certificate = privacy.certificate(policy)
    print(
        f"Guarantee for each one reward: epsilon = {certificate.epsilon:.6g}, "
        f"delta = {certificate.delta:.6g}"
    )
    if isinstance(first.noise, NoNoise):
        print("There is no noise, and so no privacy.")
    if not certificate.complete:
        print("(There are too many active sets to list; this is the largest of those looked at.)")
    tables.write(table, given.output)
    if given.gap is not None:
        experiments.show_expected(given, policy, labels)


def start(given: argparse.Namespace) -> None:
    """Begin a run."""
    labels, features = tables.read_arms(given.arms)
    policy = _policy(given, features)
    noise = NOISE[given.noise]()
    session = Session(policy, noise=noise, path=given.session, labels=labels)
    print(f"{given.session} is ready.")
    _show_missing(session)


def following(given: argparse.Namespace) -> None:
    """Show which arms to pull now."""
    session = _resumed(given.session)
    table = pd.DataFrame(list(session.requests.items()), columns=["arm", "pulls"])
    if given.output is None:
        print(table.to_csv(index=False, lineterminator="\n"), end="")
    tables.write(table, given.output)


def tell(given: argparse.Namespace) -> None:
    """Take rewards."""
    session = _resumed(given.session, seed=given.seed)
    sums = tables.read_rewards(given.rewards, [str(label) for label in session.labels])
    before = len(session.released)
    session.record_sums(sums)
    count = sum(count for _, count in sums.values())
    print(f"Took {count} reward(s) of {len(sums)} arm(s).")
    for released in session.released[before:]:
        left = ", ".join(map(str, released.survivors))
        print(
            f"Phase {released.phase} is complete and released. "
            f"{len(released.survivors)} of {len(released.active)} arms stay: {left}"
        )
    _show_missing(session)


def status(given: argparse.Namespace) -> None:
    """Show how far a run has come."""
    session = _resumed(given.session)
    requests = session.requests
    phase = session.phase
    pulls = dict(zip(phase.pulled, phase.pulls, strict=True)) if phase else {}
    gone = {
        label: f"out in phase {released.phase}"
        for released in session.released
        for label in set(released.active) - set(released.survivors)
    }
    rows = [
        (
            label,
            "recommended" if label == session.recommendation else gone.get(label, "in play"),
            session.estimates.get(label),
            pulls[arm] - requests.get(label, 0) if arm in pulls else None,
            requests.get(label, 0) if arm in pulls else None,
        )
        for arm, label in enumerate(session.labels)
    ]
    table = pd.DataFrame(rows, columns=["arm", "state", "estimate", "received", "missing"])
    table = table.astype({"received": "Int64", "missing": "Int64", "estimate": float})
    tables.show(table)
    tables.write(table, given.output)
    _show_missing(session)


def recommend(given: argparse.Namespace) -> None:
    """Show the answer, the estimates and the guarantee."""
    session = _resumed(given.session)
    if not session.finished:
        missing = sum(session.requests.values())
        raise SessionError(
            f"the run is not finished: {missing} rewards of phase {len(session.released) + 1} are "
            "missing, see `dpbai next`"
        )
    print(f"Recommended: {session.recommendation}")
    last = {label: released.phase for released in session.released for label in released.active}
    estimates = session.estimates
    rows = [(label, estimates[label], last[label]) for label in session.labels]
    table = pd.DataFrame(rows, columns=["arm", "estimate", "phase"])
    tables.show(table)
    print(session.certificate)
    tables.write(table, given.output)


def _policy(given: argparse.Namespace, features: FloatArray) -> Policy:
    return choices.policy(
        given.policy,
        features,
        budget=given.budget,
        epsilon=given.epsilon,
        delta=given.delta,
    )


def _resumed(path: str, seed: int | None = None) -> Session:
    """Go on with a session; what has to be said of its noise was said at the start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReleaseWarning)
        session = Session.resume(path)
        if seed is None:
            return session
        if not isinstance(session.noise, NumpyNoise):
            raise ValueError("--seed is for runs that were started with --noise numpy")
        return Session.resume(path, noise=NumpyNoise(seed))


def _show_missing(session: Session) -> None:
    if session.finished:
        print(f"The run is finished: see `dpbai recommend`. Recommended: {session.recommendation}")
        return
    missing = (f"{label} {n}" for label, n in session.requests.items())
    print(f"Phase {len(session.released) + 1} needs: {', '.join(missing)}")


def _phases(policy: Policy) -> pd.DataFrame:
    """Return a row for each phase, with ranges over the active sets that may survive."""
    plans, complete = reachable(policy, _LIMIT)
    if representable(policy) and not complete:
        later = (policy.representatives(index) for index in range(2, len(plans) + 1))
        plans = [plans[0], *map(list, later)]
    rows = [
        (
            index,
            len(phases[0].active),
            _range(len(phase.pulled) for phase in phases),
            _range(chain.from_iterable(phase.pulls for phase in phases)),
            _range(phase.cost for phase in phases),
            type(phases[0].noise).__name__,
            _range(phase.noise.standard_deviation for phase in phases),
        )
        for index, phases in enumerate(plans, start=1)
    ]
    return pd.DataFrame(rows, columns=PHASE_COLUMNS)


def _range(values: Iterable[float]) -> str:
    """Return the least and the largest value as text, or the one value."""
    low, *_, high = [f"{value:.4g}" for value in sorted(values)] * 2
    return low if low == high else f"{low}..{high}"
