"""The commands that run policies on supposed means: simulate, study, budget; and plan's --gap."""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import astuple
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from tqdm import tqdm

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.cli import choices, gaps, pictures, tables
from dpbai.cli.commands import BUDGET_COLUMNS
from dpbai.cli.sheets import quoted
from dpbai.cli.tables import Table
from dpbai.exact import NotExactError, exact_success
from dpbai.instance import Instance
from dpbai.planning import smallest_budget
from dpbai.policies import Policy
from dpbai.simulate import simulate
from dpbai.study import study, takes_epsilon

_MOST_ARMS = 40
_MOST_TOLD = 12
_LEVEL = 0.95
_LOSS_TRIALS = 1000
_LARGEST_EXPONENT = 700.0
_BUDGET_ROW = "{:<13}{:>8}{:>10}{:>9}{:>10}{:>11}{:>11}{:>8}"
_STUDY_SHOWN = (
    "policy", "budget", "epsilon", "trials", "success_rate", "low", "high", "regret", "within",
)  # fmt: skip


def show_expected(given: argparse.Namespace, policy: Policy, labels: Sequence[str]) -> None:
    """Say how often `policy` finds the best arm if it leads by the gap that the user names."""
    law = choices.REWARDS["bernoulli"]
    _check.whole(given.trials, "trials")
    arms = _candidates(labels, given.best)
    instances = gaps.every(policy.features, arms, given.gap, law)
    rows = [
        (*_success(policy, instances[arm], given), labels[arm])
        for arm in tqdm(instances, unit="arm", disable=None, leave=False)
    ]
    worst, best = min(rows), max(rows)
    if given.within:
        print(f"Found means: an arm at most {given.within:g} below the best is recommended.")
    print(
        f"If the best arm leads by {given.gap:g} (rewards 0 and 1, the other means as close as\n"
        "linear means can be),"
    )
    if len(rows) == 1:
        print(f"{worst[3]} is found with probability {_told(worst)}.")
    else:
        print(f"it is found with probability {_told(worst)} if it is {worst[3]},")
        print(f"and {_told(best)} if it is {best[3]}; others lie between.")
    hardest = instances[labels.index(worst[3])]
    loss = simulate(policy, hardest, trials=given.trials, seed=given.seed).regret
    print(f"The mean loss of the answer is then {loss:.3g}.")
    _show_means(labels, hardest)
    if len(arms) < len(labels) and given.best is None:
        print(f"(Of {len(labels)} arms, {len(arms)} were looked at.)")
    cannot = len(arms) - len(instances)
    if cannot:
        print(f"({cannot} arm(s) cannot lead by so much with linear means, and are left out.)")


def simulated(given: argparse.Namespace) -> None:
    """Run a policy many times on supposed means."""
    pictures.check(given.figure)
    labels, features, _ = tables.read_arms(given)
    instance = _instance(given, labels, features)
    policy = choices.policy(
        given.policy,
        features,
        budget=given.budget,
        epsilon=given.epsilon,
        delta=given.delta,
    )
    result = simulate(policy, instance, trials=given.trials, seed=given.seed)
    recommended = result.recommended.tolist()
    rows = list(zip(labels, instance.means.tolist(), recommended, strict=True))
    table = Table(["arm", "mean", "recommended"], rows)
    low, high = result.interval(_LEVEL)
    tables.show(table)
    print(
        f"The best arm, {_best_of(labels, instance)}, was recommended in "
        f"{result.successes} of {result.trials} runs: {result.success_rate:.4g} "
        f"(95% interval {low:.4g} to {high:.4g})."
    )
    if given.within:
        print(f"At most {given.within:g} below it: {result.within(given.within):.4g} of the runs.")
    print(f"Mean loss of the answer: {result.regret:.4g}.")
    print(f"Pulls: at most {result.pulls} of {policy.budget}.")
    tables.write(table, given.output)
    if given.figure:
        _draw_recommended(labels, recommended, instance.best, given.figure)


def studied(given: argparse.Namespace) -> None:
    """Compare policies over budgets and epsilons."""
    pictures.check(given.figure)
    labels, features, _ = tables.read_arms(given)
    if given.jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {given.jobs}")
    pool: Any = nullcontext()
    if given.jobs > 1:
        pool = ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn"))
    with pool as executor:
        frame = study(
            {choices.POLICIES[name][0]: maker for name, maker in _makers(given).items()},
            _instance(given, labels, features),
            budgets=given.budgets,
            epsilons=given.epsilons,
            trials=given.trials,
            seed=given.seed,
            within=given.within,
            executor=executor,
            path=given.cells,
            progress=sys.stderr.isatty(),
        )
    shown = frame[list(_STUDY_SHOWN)]  # what 80 columns hold
    tables.show(Table(list(_STUDY_SHOWN), list(shown.itertuples(index=False))))
    tables.write(Table(list(frame.columns), list(frame.itertuples(index=False))), given.output)
    if given.figure:
        from dpbai.figures import success_curves

        pictures.save(success_curves(frame, along=given.along), given.figure)


def budgeted(given: argparse.Namespace) -> None:
    """Find the least budget for a wanted success, with privacy and without."""
    pictures.check(given.figure)
    labels, features, _ = tables.read_arms(given)
    instance = _instance(given, labels, features)
    makers = _makers(given)
    epsilons = sorted({_check.epsilon(epsilon) for epsilon in given.epsilons} - {math.inf})
    right = _right(labels, instance, given.within)
    told = f"Least budget for an answer that is {right} with probability {given.success:g}:"
    print(textwrap.fill(told, 80))
    print(_BUDGET_ROW.format(*BUDGET_COLUMNS))
    rows: list[tuple[Any, ...]] = []
    for name, maker in makers.items():
        free = None
        for epsilon in (math.inf, *epsilons[::-1]) if takes_epsilon(maker) else (math.nan,):
            parameters = {} if math.isnan(epsilon) else {"epsilon": epsilon}
            make = partial(_with_budget, partial(maker, features, **parameters))
            found = smallest_budget(
                make, instance, error=1 - given.success, within=given.within, trials=given.trials,
                seed=given.seed, progress=sys.stderr.isatty(),
            )  # fmt: skip
            free = free or found
            loss = simulate(
                make(found.budget), instance, trials=_LOSS_TRIALS, seed=given.seed
            ).regret
            least = (found.too_small + 1) / free.budget
            most = found.budget / (free.too_small + 1)
            price = found.budget / free.budget
            odds = _odds(epsilon)
            rows.append((name, epsilon, odds, *astuple(found), price, loss))
            # Two searches by simulation leave a range.
            shown = f"{least:.3g}-{most:.3g}" if f"{least:.3g}" != f"{most:.3g}" else f"{price:.3g}"
            cells = (name, f"{epsilon:g}", f"{odds:.4g}", *(f"{n:.10g}" for n in astuple(found)))
            cells = (*cells, "1" if found is free else shown, f"{loss:.2g}")
            print(_BUDGET_ROW.format(*cells).replace("nan", "   "), flush=True)
    cheapest = {
        f"{epsilon:g}": min((row[3], row[0]) for row in rows if row[1] == epsilon)[1]
        for epsilon in epsilons
        if len({row[0] for row in rows if row[1] == epsilon}) > 1
    }
    if cheapest:
        each = ", ".join(f"{name} at epsilon = {epsilon}" for epsilon, name in cheapest.items())
        print(textwrap.fill(f"Cheapest: {each}.", 80))
    if any(row[1] == row[1] for row in rows):
        _explain(epsilons)
    tables.write(Table(BUDGET_COLUMNS, rows), given.output)
    if given.figure:
        _draw_budgets(rows, given.figure)


def _odds(epsilon: float) -> float:
    """Return e^epsilon, as far as doubles reach."""
    return math.exp(epsilon) if epsilon < _LARGEST_EXPONENT or math.isnan(epsilon) else math.inf


def _explain(epsilons: Sequence[float]) -> None:
    """Say what epsilon means."""
    print()
    print(
        textwrap.fill(
            "What epsilon means: two sets of rewards are neighbours if they differ in one reward "
            "of one pull. Whoever sees everything that a run releases, and knows all rewards but "
            "one, can improve the odds of a guess about that one by a factor of at most e^epsilon "
            "(for dp-bai-gauss: up to a further probability of delta). A guess that was right with "
            "probability 50 % is right with at most",
            80,
        )
    )
    for epsilon in epsilons:
        print(f"  {100 / (1 + math.exp(-epsilon)):.3g} % at epsilon = {epsilon:g}")
    print("If one person gives several rewards, multiply epsilon by their number.")


def _best_of(labels: Sequence[str], instance: Instance) -> str:
    return " or ".join(quoted(labels[arm]) for arm in instance.ties)


def _right(labels: Sequence[str], instance: Instance, within: float) -> str:
    """Return in words which answers are right."""
    best = _best_of(labels, instance)
    if within:
        return f"at most {within:g} below {best}"
    lead = min(instance.gaps[instance.gaps > 0], default=0.0)
    return f"{best} (ahead by {lead:.4g})"


def _with_budget(make: Any, budget: int) -> Policy:
    policy: Policy = make(budget=budget)
    return policy


def _makers(given: argparse.Namespace) -> dict[str, Any]:
    return {name: choices.maker(name, given.delta) for name in given.policies}


def _candidates(labels: Sequence[str], best: str | None) -> list[int]:
    """Return the arms to look at as the best: all, or a spread of them if there are many."""
    if best is not None:
        if best not in labels:
            raise ValueError(f"--best must be one of the arms, got {best!r}")
        return [labels.index(best)]
    spread = np.linspace(0, len(labels) - 1, min(len(labels), _MOST_ARMS))
    return [int(arm) for arm in spread]


def _instance(given: argparse.Namespace, labels: Sequence[str], features: FloatArray) -> Instance:
    """Return the instance of --means, or of --gap: that with the smallest gaps in all."""
    law = choices.REWARDS[given.rewards]
    if given.means is not None:
        if given.best is not None:
            raise ValueError("--best goes with --gap, not with --means")
        means = tables.read_means(given.means, labels)
        for label, mean in zip(labels, means, strict=True):
            if not law.lowest <= mean <= law.highest:
                raise ValueError(
                    f"mean of arm {label!r} must lie in [{law.lowest:g}, {law.highest:g}] for "
                    f"{given.rewards} rewards, got {mean:g}"
                )
        return Instance(features, rewards=[law.make(mean) for mean in means], unique=False)
    instances = gaps.every(features, _candidates(labels, given.best), given.gap, law)
    hardest = min(instances.values(), key=lambda instance: float(instance.gaps.sum()))
    _show_means(labels, hardest)
    return hardest


def _show_means(labels: Sequence[str], instance: Instance) -> None:
    """Print supposed means from the best down, of many arms the first ones and the last."""
    order = np.argsort(-instance.means, kind="stable").tolist()
    entries = [f"{quoted(labels[arm])} {instance.means[arm]:.3g}" for arm in order]
    if len(entries) > _MOST_TOLD:
        entries[_MOST_TOLD - 2 : -1] = ["..."]
    print(textwrap.fill(f"Means taken for --gap: {', '.join(entries)}", 80))


def _success(
    policy: Policy, instance: Instance, given: argparse.Namespace
) -> tuple[float, float, float]:
    """Return the success probability and an interval of it, a point if it is exact."""
    if not given.within:
        with suppress(NotExactError):
            exact = exact_success(policy, instance)
            return exact, exact, exact
    result = simulate(policy, instance, trials=given.trials, seed=given.seed)
    return (result.within(given.within), *result.interval(_LEVEL, within=given.within))


def _told(row: tuple[float, float, float, str]) -> str:
    rate, low, high, _ = row
    return f"{rate:.3g}" if low == high else f"{rate:.3g} (95% interval {low:.3g} to {high:.3g})"


def _draw_budgets(rows: Sequence[tuple[Any, ...]], path: str) -> None:
    from dpbai.figures.canvas import canvas

    with canvas() as (figure, axes):
        for name in dict.fromkeys(row[0] for row in rows):
            points = [(row[1], row[3]) for row in rows if row[0] == name]
            private = [point for point in points if point[0] < math.inf]
            (line,) = axes.plot(*np.reshape(private, (-1, 2)).T, marker="o", label=name)
            for _, budget in set(points) - set(private):
                axes.axhline(budget, color=line.get_color(), linestyle="--", linewidth=1)
        axes.set(xlabel="epsilon (smaller is more private)", xscale="log", yscale="log")
        ticks = sorted({row[1] for row in rows if row[1] < math.inf})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_ylabel("least budget (dashed: without privacy)")
        axes.legend()
        pictures.save(figure, path)


def _draw_recommended(
    labels: Sequence[str], recommended: Sequence[int], best: int, path: str
) -> None:
    from dpbai.figures.canvas import BLUE, GREY
    from dpbai.figures.own_arms import MOST_ROWS, rows_of_arms

    arms = sorted(range(len(labels)), key=lambda arm: (arm != best, -recommended[arm]))
    arms = sorted(arms[:MOST_ROWS])
    with rows_of_arms([labels[arm] for arm in arms]) as (figure, (panel,)):
        colors = [BLUE if arm == best else GREY for arm in arms]
        panel.barh(range(len(arms)), [recommended[arm] for arm in arms], color=colors)
        rest = "" if len(arms) == len(labels) else "; arms recommended less are left out"
        panel.set_xlabel(f"runs that recommended the arm (the best one in blue{rest})")
        pictures.save(figure, path)
