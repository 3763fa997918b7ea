"""The commands that suppose means: simulate, study, budget, epsilon; and --gap of plan."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import astuple
from functools import partial
from importlib import import_module
from multiprocessing import active_children, get_context
from typing import Any

import numpy as np
from tqdm import tqdm

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.beyond import gaps
from dpbai.beyond.dp_design import MISFIT
from dpbai.beyond.planning import SearchError, smallest_budget, smallest_epsilon
from dpbai.exact import NotExactError, exact_success
from dpbai.field.cli import arguments, tables
from dpbai.field.cli.commands import BUDGET_COLUMNS, EPSILON_COLUMNS
from dpbai.field.cli.sheets import nearest, quoted
from dpbai.field.cli.tables import Table, say
from dpbai.field.session.rewards import Range
from dpbai.instance import Instance
from dpbai.phase import Policy
from dpbai.simulate import Simulation, simulate
from dpbai.study import study, takes_epsilon

_MOST_ARMS = 40
_MOST_TOLD = 12
_LOSS_TRIALS, _OFF_TRIALS = 1000, 200
_LEAST_TRIALS = 200  # for each arm that may be the best
_TABLES = 20  # of means that are off from linear ones
_MOST_PULLS = 10**9  # the default of the search
_LARGEST_EXPONENT = 700.0
_BUDGET_ROW = "{:<13}{:>8}{:>10}{:>9}{:>10}{:>11}{:>11}{:>8}"
_STUDY_SHOWN = [
    "policy", "budget", "epsilon", "trials", "success_rate", "low", "high", "regret", "within",
]  # what 80 columns hold  # fmt: skip
_MEANING = (
    "What epsilon means: two sets of rewards are neighbours if they differ in one reward of one "
    "pull. Whoever sees everything that a run releases, and knows all rewards but one, can improve "
    "the odds of a guess about that one by a factor of at most e^epsilon (for dp-bai-gauss: up to "
    "a further probability of delta). A guess that was right with probability 50 % is right with "
    "at most"
)


def leading(
    given: argparse.Namespace, labels: Sequence[str], features: FloatArray
) -> dict[int, Instance]:
    """Return instances in which an arm leads by --gap: --best, or each arm, or a spread of many."""
    if given.best is not None and given.best not in labels:
        near = nearest(given.best, labels)
        raise ValueError(f"--best must be one of the arms, got {given.best!r}{near}")
    scale = given.reward_range
    gap = given.gap / scale.width
    if gap < gaps.SMALLEST:
        raise ValueError(
            f"--gap must be at least {gaps.SMALLEST * scale.width:g}, a millionth of the reward "
            f"range, got {given.gap:g}: no budget is large enough to see a smaller one"
        )
    spread = np.linspace(0, len(labels) - 1, min(len(labels), _MOST_ARMS))
    arms = [labels.index(given.best)] if given.best is not None else [int(arm) for arm in spread]
    # Plans have no law of rewards: those of 0 and 1 are the ones that vary most.
    law = arguments.REWARDS[vars(given).get("rewards", "bernoulli")]
    limits = law.lowest, law.highest
    found = {arm: gaps.closest(features, arm, gap, *limits) for arm in arms}
    instances = {
        arm: Instance(features, rewards=[law.make(mean) for mean in means.tolist()])
        for arm, means in found.items()
        if means is not None
    }
    if not instances:
        low, high = map(scale.shown, limits)
        most = scale.width * max(gaps.largest(features, arm, *limits) for arm in arms)
        one = given.best is not None
        which = f"arm {quoted(given.best)} cannot" if one else "no arm can"
        linear = "with means that are linear in these features"
        if most < gaps.SMALLEST * scale.width:
            more = ", or another arm by --best" if one else ""
            raise ValueError(
                f"--gap needs an arm that can lead, and {linear}, {which} be ahead of all others: "
                f"choose other features{more}"
            )
        raise ValueError(
            f"--gap must be at most {most:.3g}, got {given.gap:g}: {linear} and lie in [{low:g}, "
            f"{high:g}], {which} lead by more"
        )
    return instances


def show_expected(
    given: argparse.Namespace,
    policy: Policy,
    labels: Sequence[str],
    instances: Mapping[int, Instance],
) -> None:
    """Say how often `policy` finds the best arm, in instances where it leads by --gap."""
    scale = given.reward_range
    given.trials = max(min(_LEAST_TRIALS, given.trials), given.trials // len(instances))
    rows = [
        (*_success(policy, instance, given), arm)
        for arm, instance in tqdm(instances.items(), unit="arm", disable=None, leave=False)
    ]
    (*worst, hardest), (*best, easiest) = min(rows), max(rows)
    found = "it is found"
    if given.within:
        found = f"an arm at most {given.within:g} below it is recommended"
    least, most = (
        f"with probability {_told(*rate)} if it is {quoted(labels[arm])}"
        for rate, arm in ((worst, hardest), (best, easiest))
    )
    more = f", and {most}; others lie between" if len(rows) > 1 else ""
    say(
        f"If the best arm leads by {given.gap:g} (rewards {scale.low:g} and {scale.high:g}, the "
        f"other means as close as linear means can be), {found} {least}{more}."
    )
    loss = _simulated(policy, instances[hardest], given).regret * scale.width
    print(f"The mean loss of the answer is then {loss:.3g}.")
    rate, loss = _off(policy, instances[hardest], given, given.trials)
    say(
        f"If means are off from such linear ones by about {_deviation(given) * scale.width:g}, "
        f"the best of them is found with probability {rate:.2g}, and the mean loss is "
        f"{loss * scale.width:.3g}."
    )
    _show_means(labels, instances[hardest], scale)
    if given.best is not None:
        return
    if (looked := min(len(labels), _MOST_ARMS)) < len(labels):
        print(f"(Of {len(labels)} arms, {looked} were looked at.)")
    if cannot := looked - len(instances):
        print(f"({cannot} arm(s) cannot lead by so much with linear means, and are left out.)")


def simulated(given: argparse.Namespace) -> Table:
    """Run a policy many times on supposed means."""
    labels, features, *_ = tables.read_arms(given)
    policy, instance = arguments.policy(given, features), _instance(given, labels, features)
    scale = given.reward_range
    result = _simulated(policy, instance, given)
    recommended = result.recommended.tolist()
    means = map(scale.shown, instance.means.tolist())
    rows = list(zip(labels, means, recommended, strict=True))
    draw = partial(_drawn_recommended, labels, recommended, instance.best)
    table = Table(["arm", "mean", "recommended"], rows, draw)
    low, high = result.interval()
    tables.show(table)
    say(
        f"The best arm, {_best_of(labels, instance)}, was recommended in {result.successes} of "
        f"{result.trials} runs: {result.success_rate:.4g} (simulation error: {low:.4g} to "
        f"{high:.4g})."
    )
    if given.within:
        share = result.within(given.within / scale.width)
        print(f"At most {given.within:g} below it: {share:.4g} of the runs.")
    print(f"Mean loss of the answer: {result.regret * scale.width:.4g}.")
    print(f"Pulls: at most {result.pulls} of {policy.budget}.")
    return table


def studied(given: argparse.Namespace) -> Table:
    """Compare policies over budgets and epsilons."""
    labels, features, *_ = tables.read_arms(given)
    scale = given.reward_range
    makers = arguments.makers(given)
    if given.figure and arguments.NOT_PRIVATE in given.policies and len(makers) == 1:
        raise ValueError(f"--figure needs a policy beside {given.policies[0]} that has an epsilon")
    if given.figure and given.along == "epsilon" and math.inf in given.epsilons:
        raise ValueError("--along epsilon needs finite --epsilons, to draw them on a log axis")
    with _workers(given.jobs) as executor:
        frame = study(
            {arguments.POLICIES[name][0]: maker for name, maker in makers.items()},
            _instance(given, labels, features),
            budgets=given.budgets,
            epsilons=given.epsilons,
            trials=given.trials,
            seed=given.seed,
            within=given.within / scale.width,
            executor=executor,
            path=given.cells,
            progress=sys.stderr.isatty(),
        )
    frame["regret"] *= scale.width
    tables.show(Table(_STUDY_SHOWN, frame[_STUDY_SHOWN].to_numpy(object).tolist()))
    return Table(
        list(frame.columns),
        frame.to_numpy(object).tolist(),
        lambda: import_module("dpbai.field.figures").success_curves(frame, along=given.along),
    )


@contextmanager
def _workers(jobs: int) -> Iterator[Executor | None]:
    """Open so many processes, or none for one; what interrupts this one ends them at once."""
    if jobs == 1:
        yield None
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    ours = threading.current_thread() is threading.main_thread()  # others set no handlers
    handler = signal.getsignal(signal.SIGINT)
    try:
        # Ctrl-C is for this process, which ends the others: they inherit that they ignore it.
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        for _ in range(jobs):
            pool.submit(int)
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown()
        if ours:
            signal.signal(signal.SIGINT, handler)


def budgeted(given: argparse.Namespace) -> Table:
    """Find the least budget for a wanted success, with privacy and without."""
    labels, features, *_ = tables.read_arms(given)
    makers = arguments.makers(given)
    instance, scale = _instance(given, labels, features), given.reward_range
    epsilons = sorted({*given.epsilons} - {math.inf})
    say(f"Least budget for {_right(given, labels, instance)}:")
    print(_BUDGET_ROW.format(*BUDGET_COLUMNS))
    off: list[str] = []
    rows: list[tuple[Any, ...]] = []
    for name, maker in makers.items():
        free = None
        private = takes_epsilon(maker)
        for epsilon in (math.inf, *(epsilons[::-1] if private else ())):
            options = {"epsilon": epsilon} if private else {}
            make = partial(_made, partial(maker, features, **options))
            try:
                found = smallest_budget(make, instance, **_wanted(given))
            except SearchError as error:
                at = f" at epsilon = {epsilon:g}" if options else ""
                raise SearchError(
                    f"no budget up to {_MOST_PULLS:g} is enough for {name}{at}: ask for less by "
                    "--success or --within, or for a larger epsilon"
                ) from error
            free = free or found
            result = simulate(make(found.budget), instance, trials=_LOSS_TRIALS, seed=given.seed)
            odds = _odds(epsilon)
            price, loss = found.budget / free.budget, result.regret * scale.width
            rows.append((name, epsilon, odds, *astuple(found), price, loss))
            if given.means is None and epsilon in epsilons:
                plan = make(found.budget)
                rate = _off(plan, instance, given, _OFF_TRIALS)[0]
                off.append(f"{name} {rate:.2g} at epsilon = {epsilon:g}")
            # Two searches by simulation leave a range.
            least = f"{(found.too_small + 1) / free.budget:.3g}"
            most = f"{found.budget / (free.too_small + 1):.3g}"
            shown = f"{least}-{most}" if least != most else f"{price:.3g}"
            cells = (name, f"{epsilon:g}", f"{odds:.4g}", *(f"{n:.10g}" for n in astuple(found)))
            cells = (*cells, "1" if found is free else shown, f"{loss:.2g}")
            print(_BUDGET_ROW.format(*cells), flush=True)
    cheapest = [
        f"{min(alike)[1]} at epsilon = {epsilon:g}"
        for epsilon in epsilons
        if len(alike := [(row[3], row[0]) for row in rows if row[1] == epsilon]) > 1
    ]
    if cheapest:
        say(f"Cheapest: {', '.join(cheapest)}.")
    if off:
        say(
            "These budgets are for means that are linear in the features. If means are off by "
            f"about {_deviation(given):g} of the reward range, the "
            f"best arm is found in: {', '.join(off)}."
        )
    if any(row[1] == row[1] for row in rows):
        _show_meaning(epsilons)
    return Table(BUDGET_COLUMNS, rows, partial(_drawn_budgets, rows))


def private(given: argparse.Namespace) -> Table:
    """Find the least epsilon for a wanted success, at each budget."""
    labels, features, *_ = tables.read_arms(given)
    if arguments.NOT_PRIVATE in given.policies:
        raise ValueError(f"--policies must be private, and {arguments.NOT_PRIVATE} is not")
    makers = arguments.makers(given)
    instance = _instance(given, labels, features)
    say(f"Least epsilon for {_right(given, labels, instance)}:")
    rows: list[tuple[Any, ...]] = []
    for budget in sorted(set(given.budgets)):
        for name, maker in makers.items():
            make = partial(_at_epsilon, partial(maker, features, budget=budget))
            try:
                found = smallest_epsilon(make, instance, **_wanted(given))
            except SearchError as error:
                raise SearchError(
                    f"{budget} pulls are not enough for {name} at any epsilon: give a larger "
                    "--budget, or ask for less by --success or --within"
                ) from error
            odds = _odds(found.epsilon)
            rows.append((name, budget, found.epsilon, odds, found.too_small, found.confidence))
    table = Table(EPSILON_COLUMNS, rows)
    tables.show(table)
    _show_meaning([row[2] for row in rows])
    return table


def _at_epsilon(make: Callable[..., Policy], epsilon: float) -> Policy:
    return make(epsilon=epsilon)


def _right(given: argparse.Namespace, labels: Sequence[str], instance: Instance) -> str:
    """Return what counts as a right answer, and how often it is wanted."""
    lead = given.reward_range.width * min(instance.gaps[instance.gaps > 0], default=0.0)
    right = f"{_best_of(labels, instance)} (ahead by {lead:.4g})"
    if given.within:
        right = f"at most {given.within:g} below {_best_of(labels, instance)}"
    return f"an answer that is {right} with probability {given.success:g}"


def _wanted(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a search."""
    return {
        "error": 1 - given.success,
        "within": given.within / given.reward_range.width,
        "trials": given.trials,
        "seed": given.seed,
        "progress": sys.stderr.isatty(),
    }


def _odds(epsilon: float) -> float:
    return math.inf if epsilon > _LARGEST_EXPONENT else math.exp(epsilon)


def _show_meaning(epsilons: Iterable[float]) -> None:
    """Explain epsilons."""
    print()
    say(_MEANING)
    for epsilon in sorted(set(epsilons)):
        print(f"  {100 / (1 + math.exp(-epsilon)):.3g} % at epsilon = {epsilon:.4g}")
    print("If one person gives several rewards, multiply epsilon by their number.")


def _simulated(policy: Policy, instance: Instance, given: argparse.Namespace) -> Simulation:
    return simulate(policy, instance, trials=given.trials, seed=given.seed)


def _deviation(given: argparse.Namespace) -> float:
    """Return by how much means are supposed to be off: by --misfit, or its default."""
    return given.misfit if given.misfit and given.misfit <= 1 else MISFIT


def _off(
    policy: Policy, instance: Instance, given: argparse.Namespace, trials: int
) -> tuple[float, float]:
    """Return success and mean loss if the means of `instance` are off from linear ones."""
    law, rng = (
        arguments.REWARDS[vars(given).get("rewards", "bernoulli")],
        _check.generator(given.seed),
    )
    found = []
    for seed in range(_TABLES):
        means = instance.means + _deviation(given) * rng.standard_normal(instance.arms)
        laws = [law.make(mean) for mean in means.clip(law.lowest, law.highest).tolist()]
        bent = Instance(instance.features, rewards=laws, unique=False)
        result = simulate(policy, bent, trials=max(1, trials // _TABLES), seed=seed)
        found.append((result.within(given.within / given.reward_range.width), result.regret))
    success, loss = np.mean(found, axis=0).tolist()
    return success, loss


def _best_of(labels: Sequence[str], instance: Instance) -> str:
    return " or ".join(quoted(labels[arm]) for arm in instance.ties)


def _made(make: Callable[..., Policy], budget: int) -> Policy:
    return make(budget=budget)


def _instance(given: argparse.Namespace, labels: Sequence[str], features: FloatArray) -> Instance:
    """Return the instance of --means, or of --gap: that with the smallest gaps in all."""
    scale = given.reward_range
    if given.means is None:
        instances = leading(given, labels, features).values()
        hardest = min(instances, key=lambda instance: float(instance.gaps.sum()))
        _show_means(labels, hardest, scale)
        return hardest
    if given.best is not None:
        raise ValueError("--best goes with --gap, not with --means")
    law, laws = arguments.REWARDS[given.rewards], []
    for label, mean in zip(labels, tables.read_means(given, labels), strict=True):
        inside = (mean - scale.low) / scale.width
        if not law.lowest <= inside <= law.highest:
            low, high = map(scale.shown, (law.lowest, law.highest))
            raise ValueError(
                f"mean of arm {label!r} must lie in [{low:g}, {high:g}] for {given.rewards} "
                f"rewards, got {mean:g}"
            )
        laws.append(law.make(inside))
    return Instance(features, rewards=laws, unique=False)


def _show_means(labels: Sequence[str], instance: Instance, scale: Range) -> None:
    """Print supposed means from the best down, of many arms the first ones and the last."""
    means = [scale.shown(mean) for mean in instance.means.tolist()]
    # Equal means, up to rounding of the linear programs, in the order of the table.
    order = np.argsort(-instance.means.round(6), kind="stable").tolist()
    entries = [f"{quoted(labels[arm])} {means[arm]:.3g}" for arm in order]
    if len(entries) > _MOST_TOLD:
        entries[_MOST_TOLD - 2 : -1] = ["..."]
    say(f"Means taken for --gap: {', '.join(entries)}")


def _success(
    policy: Policy, instance: Instance, given: argparse.Namespace
) -> tuple[float, float, float]:
    """Return the success probability and an interval of it, a point if it is exact."""
    if not given.within:
        with suppress(NotExactError):
            exact = exact_success(policy, instance)
            return exact, exact, exact
    result, within = _simulated(policy, instance, given), given.within / given.reward_range.width
    return (result.within(within), *result.interval(within=within))


def _told(rate: float, low: float, high: float) -> str:
    error = "" if low == high else f" (simulation error: {low:.3g} to {high:.3g})"
    return f"{rate:.3g}{error}"


def _drawn_budgets(rows: Sequence[tuple[Any, ...]]) -> Any:
    from dpbai.field.figures.canvas import canvas

    with canvas() as (figure, axes):
        for name in dict.fromkeys(row[0] for row in rows):
            (_, free), *private = [(row[1], row[3]) for row in rows if row[0] == name]
            (line,) = axes.plot(*np.reshape(private, (-1, 2)).T, marker="o", label=name)
            axes.axhline(free, color=line.get_color(), linestyle="--", linewidth=1)
        axes.set(xlabel="epsilon (smaller is more private)", xscale="log", yscale="log")
        ticks = sorted({row[1] for row in rows if row[1] < math.inf})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_ylabel("least budget (dashed: without privacy)")
        axes.legend()
    return figure


def _drawn_recommended(labels: Sequence[str], recommended: Sequence[int], best: int) -> Any:
    from dpbai.field.figures.canvas import BLUE, GREY
    from dpbai.field.figures.own_arms import MOST_ROWS, rows_of_arms

    arms = sorted(range(len(labels)), key=lambda arm: (arm != best, -recommended[arm]))
    arms = sorted(arms[:MOST_ROWS])
    with rows_of_arms([labels[arm] for arm in arms]) as (figure, (panel,)):
        colors = [BLUE if arm == best else GREY for arm in arms]
        panel.barh(range(len(arms)), [recommended[arm] for arm in arms], color=colors)
        rest = "" if len(arms) == len(labels) else "; arms recommended less are left out"
        panel.set_xlabel(f"runs that recommended the arm (the best one in blue{rest})")
    return figure
