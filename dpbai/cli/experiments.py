"""The commands that run policies on supposed means: simulate, study, budget; and plan's --gap."""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from tqdm import tqdm

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.cli import choices, gaps, pictures, tables
from dpbai.cli.commands import BUDGET_COLUMNS
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


def show_expected(given: argparse.Namespace, policy: Policy, labels: Sequence[str]) -> None:
    """Say how often `policy` finds the best arm if it leads by the gap that the user names."""
    law = choices.REWARDS["bernoulli"]
    _check.whole(given.trials, "trials")
    arms = _candidates(labels, given.best)
    instances = gaps.every(policy.features, arms, given.gap, law)
    rows = []
    for arm in tqdm(instances, unit="arm", disable=None, leave=False):
        rate, low, high = _success(policy, instances[arm], given.trials, given.seed)
        rows.append((rate, low, high, labels[arm]))
    worst, best = min(rows), max(rows)
    print(
        f"If the best arm leads by {given.gap:g} (rewards 0 and 1, the other means as close as "
        "linear means can be),"
    )
    if len(rows) == 1:
        print(f"{worst[3]} is found with probability {_told(worst)}.")
    else:
        print(f"it is found with probability {_told(worst)} if it is {worst[3]},")
        print(f"and {_told(best)} if it is {best[3]}; others lie between.")
    _show_means(labels, instances[labels.index(worst[3])])
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
        f"The best arm, {labels[instance.best]}, was recommended in {result.successes} of "
        f"{result.trials} runs: {result.success_rate:.4g} (95% interval {low:.4g} to {high:.4g})."
    )
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
            executor=executor,
            path=given.cells,
            progress=sys.stderr.isatty(),
        )
    table = Table(list(frame.columns), list(frame.itertuples(index=False)))
    tables.show(table)
    tables.write(table, given.output)
    if given.figure:
        from dpbai.figures import success_curves

        pictures.save(success_curves(frame, along=given.along), given.figure)


def budgeted(given: argparse.Namespace) -> None:
    """Find the least budget for a wanted success, with privacy and without."""
    labels, features, _ = tables.read_arms(given)
    instance = _instance(given, labels, features)
    rows, searches = [], {}
    makers = _makers(given)
    cases = [
        (name, epsilon)
        for name, maker in makers.items()
        for epsilon in ((given.epsilon, math.inf) if takes_epsilon(maker) else (math.nan,))
    ]
    for name, epsilon in tqdm(cases, unit="search", disable=None, leave=False):
        parameters = {} if math.isnan(epsilon) else {"epsilon": epsilon}
        found = smallest_budget(
            partial(_with_budget, partial(makers[name], features, **parameters)),
            instance,
            error=1 - given.success,
            trials=given.trials,
            seed=given.seed,
        )
        rows.append((name, epsilon, found.budget, found.too_small, found.confidence))
        searches[name, epsilon] = found
    table = Table(BUDGET_COLUMNS, rows)
    print(
        f"Least budget to find {labels[instance.best]} with probability {given.success:g} "
        f"(it leads by {np.sort(instance.gaps)[1]:.4g}); `too_small` is known not to do:"
    )
    tables.show(table)
    for name in makers:
        if (name, math.inf) in searches:
            private, free = searches[name, given.epsilon], searches[name, math.inf]
            low = f"{(private.too_small + 1) / free.budget:.3g}"
            high = f"{private.budget / (free.too_small + 1):.3g}"
            ratio = low if low == high else f"{low} to {high}"
            print(f"Price of privacy for {name}: {ratio} times the budget without it.")
    budgets = {
        name: found.budget for (name, epsilon), found in searches.items() if epsilon < math.inf
    }
    if budgets:
        print(f"Cheapest at epsilon = {given.epsilon:g}: {min(budgets, key=budgets.__getitem__)}.")
    tables.write(table, given.output)


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
        return Instance(features, rewards=[law.make(mean) for mean in means])
    instances = gaps.every(features, _candidates(labels, given.best), given.gap, law)
    hardest = min(instances.values(), key=lambda instance: float(instance.gaps.sum()))
    _show_means(labels, hardest)
    return hardest


def _show_means(labels: Sequence[str], instance: Instance) -> None:
    """Print supposed means from the best down, of many arms the first ones and the last."""
    order = np.argsort(-instance.means, kind="stable").tolist()
    entries = [f"{labels[arm]} {instance.means[arm]:.3g}" for arm in order]
    if len(entries) > _MOST_TOLD:
        entries[_MOST_TOLD - 2 : -1] = ["..."]
    print(textwrap.fill(f"Means taken for --gap: {', '.join(entries)}", 80))


def _success(
    policy: Policy, instance: Instance, trials: int, seed: int
) -> tuple[float, float, float]:
    """Return the success probability and an interval of it, a point if it is exact."""
    try:
        exact = exact_success(policy, instance)
    except NotExactError:
        result = simulate(policy, instance, trials=trials, seed=seed)
        return (result.success_rate, *result.interval(_LEVEL))
    return exact, exact, exact


def _told(row: tuple[float, float, float, str]) -> str:
    rate, low, high, _ = row
    return f"{rate:.3g}" if low == high else f"{rate:.3g} (95% interval {low:.3g} to {high:.3g})"


def _draw_recommended(
    labels: Sequence[str], recommended: Sequence[int], best: int, path: str
) -> None:
    from dpbai.figures.canvas import BLUE, GREY, canvas

    with canvas() as (figure, axes):
        colors = [BLUE if arm == best else GREY for arm in range(len(labels))]
        axes.bar(labels, recommended, color=colors)
        axes.set(xlabel="arm (the best one in blue)", ylabel="runs that recommended it")
        axes.tick_params(axis="x", rotation=90 if len(labels) > 12 else 0)
        pictures.save(figure, path)
