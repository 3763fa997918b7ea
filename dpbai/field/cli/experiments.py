"""The commands that suppose means: simulate, study, budget, epsilon; and --gap of plan."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple
from functools import partial
from importlib import import_module
from multiprocessing import active_children, get_context
from typing import Any

from tqdm import tqdm

from dpbai.beyond.planning import smallest_budget, smallest_epsilon
from dpbai.field.cli import advice, arguments, tables
from dpbai.field.cli.answers import Answer, say, show
from dpbai.field.cli.supposed import MOST_ARMS, leading, supposed
from dpbai.field.cli.tables import Arms
from dpbai.phase import Policy
from dpbai.study import study, takes_epsilon

_LOSS_TRIALS = 1000
_LEAST_TRIALS = 200  # for each arm that may be the best
_MOST_PULLS = 10**9  # the default of the search
_LARGEST_EXPONENT = 700.0
_BUDGET_ROW = "{:<13}{:>8}{:>10}{:>9}{:>10}{:>11}{:>11}{:>8}"
_STUDY_SHOWN = [
    "policy", "budget", "epsilon", "trials", "success_rate", "low", "high", "regret", "within",
]  # what 80 columns hold  # fmt: skip


def expected(given: argparse.Namespace, policy: Policy, arms: Arms) -> list[str]:
    """Return how often a policy finds the best arm if it leads by --gap."""
    scale, cases = given.reward_range, leading(given, arms)
    trials = max(min(_LEAST_TRIALS, given.trials), given.trials // len(cases))
    rates = [
        case.success(policy, trials) for case in tqdm(cases, unit="arm", disable=None, leave=False)
    ]
    order = sorted(range(len(cases)), key=lambda k: rates[k])
    hardest = cases[order[0]]
    found = "it is found"
    if given.within:
        found = f"an arm at most {given.within:g} below it is recommended"
    least, most = (
        f"with probability {_rate(*rates[k])} if it is {cases[k].best}"
        for k in (order[0], order[-1])
    )
    more = f", and {most}; other arms are between these" if len(cases) > 1 else ""
    loss, off = hardest.run(policy, trials).regret * scale.width, hardest.off(policy, trials)
    size = hardest.deviation(policy) * scale.width
    texts = [
        f"If the best arm leads by {given.gap:g} (rewards {scale.low:g} and {scale.high:g}, the "
        f"other means as close as linear means can be), {found} {least}{more}.",
        f"The mean loss of the answer is then {loss:.3g}.",
        f"If means are off from such linear ones by about {size:g}, the best of them is found with "
        f"probability {off[0]:.3g}, and the mean loss is {off[1]:.3g}.",
        *hardest.note,
    ]
    count = len(arms.labels)
    looked = 1 if given.best is not None else min(count, MOST_ARMS)
    if given.best is None and looked < count:
        texts.append(f"(Of {count} arms, {looked} were tried as the best arm.)")
    if cannot := looked - len(cases):
        texts.append(f"({cannot} arm(s) cannot lead by so much with linear means.)")
    return texts


def simulated(given: argparse.Namespace) -> Answer:
    """Run a policy many times on supposed means."""
    arms = tables.read_arms(given)
    policy, case = arguments.policy(given, arms.features), supposed(given, arms)
    result, instance = case.run(policy), case.instance
    recommended = result.recommended.tolist()
    means = given.reward_range.shown(instance.means).tolist()
    low, high = result.interval()
    rate, loss = case.off(policy, given.trials)
    size = case.deviation(policy) * case.width
    within = f"At most {given.within:g} below it: {_percent(result.within(case.within))} of runs."
    return Answer(
        list(zip(arms.labels, means, recommended, strict=True)),
        above=case.note,
        below=[
            f"The best arm, {case.best}, was recommended in {result.successes} of {result.trials} "
            f"runs: {_percent(result.success_rate)} (simulation error: {_percent(low)} to "
            f"{_percent(high)}).",
            *([within] if given.within else []),
            f"Mean loss of the answer: {result.regret * case.width:.4g}.",
            f"Pulls: at most {result.pulls} of {policy.budget}.",
            advice.model(policy),
            f"If means are off from those of the table by about {size:g}, the best of them is "
            f"found in {_percent(rate)} of runs, and the mean loss is {loss:.3g}.",
        ],
        draw=lambda: _figures().recommended_counts(arms.labels, recommended, instance.best),
    )


def studied(given: argparse.Namespace) -> Answer:
    """Compare policies over budgets and epsilons."""
    arms, makers = tables.read_arms(given), arguments.makers(given)
    if given.figure and arguments.NOT_PRIVATE in given.policies and len(makers) == 1:
        raise ValueError(f"--figure needs a policy beside {given.policies[0]} that has an epsilon")
    if given.figure and given.along == "epsilon" and math.inf in given.epsilons:
        raise ValueError("--along epsilon needs finite --epsilons, to draw them on a log axis")
    case = supposed(given, arms)
    with _workers(given.jobs) as executor:
        frame = study(
            {arguments.POLICIES[name][0]: maker for name, maker in makers.items()},
            case.instance,
            budgets=given.budgets,
            epsilons=given.epsilons,
            trials=given.trials,
            seed=given.seed,
            within=case.within,
            executor=executor,
            path=given.cells,
            progress=sys.stderr.isatty(),
        )
    frame["regret"] *= case.width
    say(*case.note)
    show(_STUDY_SHOWN, frame[_STUDY_SHOWN].to_numpy(object).tolist())
    return Answer(
        frame.to_numpy(object).tolist(),
        columns=list(frame.columns),
        draw=lambda: _figures().success_curves(frame, along=given.along),
        shown=False,
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


def budgeted(given: argparse.Namespace) -> Answer:
    """Find the least budget for a wanted success, with privacy and without."""
    arms, makers = tables.read_arms(given), arguments.makers(given)
    case = supposed(given, arms)
    epsilons = sorted({*given.epsilons} - {math.inf})
    say(*case.note, f"Least budget for {case.right}:")
    print(_BUDGET_ROW.format(*given.columns))
    rows: list[tuple[Any, ...]] = []
    failed: list[str] = []
    policies: list[tuple[str, Policy, str]] = []
    for name, maker in makers.items():
        free, private = None, takes_epsilon(maker)
        for epsilon in (math.inf, *(epsilons[::-1] if private else ())):
            make = partial(maker, arms.features, **({"epsilon": epsilon} if private else {}))
            at = f"epsilon = {epsilon:g}"
            searched = case.searched(smallest_budget, "budget", make)
            if searched is None:
                less = " or less" if epsilon < math.inf and epsilon > epsilons[0] else ""
                failed.append(
                    f"no budget up to {_MOST_PULLS:g} is enough for "
                    f"{name}{f' at {at}{less}' * private}"
                )
                break
            found, policy = searched
            free = free or found
            odds, price = _odds(epsilon), found.budget / free.budget
            loss = case.run(policy, _LOSS_TRIALS).regret * case.width
            rows.append((name, epsilon, odds, *astuple(found), price, loss))
            policies.append((name, policy, at if epsilon in epsilons else ""))
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
    say(*([f"Cheapest: {', '.join(cheapest)}."] if cheapest else []))
    say(*case.closing(policies, epsilons))
    budgets = [(row[0], row[1], row[3]) for row in rows]
    return Answer(
        rows or None,
        draw=(lambda: _figures().least_budgets(budgets)) if rows else None,
        shown=False,
        failed=_failed(failed, "ask for less by --success or --within, or for a larger epsilon"),
    )


def private(given: argparse.Namespace) -> Answer:
    """Find the least epsilon for a wanted success, at each budget."""
    if arguments.NOT_PRIVATE in given.policies:
        raise ValueError(f"--policies must be private, and {arguments.NOT_PRIVATE} is not")
    arms, makers = tables.read_arms(given), arguments.makers(given)
    case = supposed(given, arms)
    rows: list[tuple[Any, ...]] = []
    failed: list[str] = []
    policies: list[tuple[str, Policy, str]] = []
    for budget in sorted(set(given.budgets)):
        for name, maker in makers.items():
            make = partial(maker, arms.features, budget=budget)
            if (searched := case.searched(smallest_epsilon, "epsilon", make)) is None:
                failed.append(f"{budget} pulls are not enough for {name} at any epsilon")
                continue
            found, policy = searched
            odds = _odds(found.epsilon)
            rows.append((name, budget, found.epsilon, odds, found.too_small, found.confidence))
            policies.append((name, policy, f"{budget} pulls"))
    return Answer(
        rows or None,
        above=[*case.note, f"Least epsilon for {case.right}:"],
        below=case.closing(policies, [row[2] for row in rows]),
        failed=_failed(failed, "give a larger --budget, or ask for less by --success or --within"),
    )


def _failed(searches: list[str], way: str) -> str:
    """Return the error for searches that found nothing, or an empty text."""
    return f"{'; '.join(searches)}: {way}" if searches else ""


def _figures() -> Any:
    return import_module("dpbai.field.figures")


def _odds(epsilon: float) -> float:
    return math.inf if epsilon > _LARGEST_EXPONENT else math.exp(epsilon)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _rate(rate: float, low: float, high: float) -> str:
    error = "" if low == high else f" (simulation error: {low:.3g} to {high:.3g})"
    return f"{rate:.3g}{error}"


COMMANDS: dict[str, Callable[[argparse.Namespace], Answer]] = {
    "simulate": simulated,
    "study": studied,
    "budget": budgeted,
    "epsilon": private,
}
