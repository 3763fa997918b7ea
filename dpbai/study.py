"""Grids of simulations: policies by budgets by epsilons, as one tidy table (Sec. 5).

Each cell has a seed of its own, spawned from the study's, so a cell's result depends on nothing but
the grid and that seed: not on the order in which cells run, nor on where.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from dpbai import _check
from dpbai._check import Seed
from dpbai.instance import Instance
from dpbai.policies import Policy
from dpbai.simulate import Simulation, simulate

COLUMNS = (
    "policy",
    "budget",
    "epsilon",
    "trials",
    "successes",
    "success_rate",
    "low",
    "high",
    "pulls",
)


@dataclass(frozen=True)
class Cell:
    """One point of a study: a policy by name, its budget, and its epsilon (NaN if it has none)."""

    name: str
    budget: int
    epsilon: float
    policy: Policy


def study(
    policies: Mapping[str, Callable[..., Policy]],
    instance: Instance,
    *,
    budgets: Sequence[int],
    epsilons: Sequence[float],
    trials: int,
    seed: Seed = 0,
    level: float = 0.95,
    executor: Executor | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Simulate every policy at every budget and epsilon.

    Parameters
    ----------
    policies : mapping of str to callable
        Names and makers: `maker(features, budget=..., epsilon=...)`, or without `epsilon` for a
        policy that has none, such as `ODLinBAI`; that one is run once per budget.
    instance : Instance
        Where rewards come from; its features go to the makers.
    budgets : sequence of int
        Values of T.
    epsilons : sequence of float
        Values of the privacy parameter.
    trials : int
        Independent runs in each cell.
    seed : int, SeedSequence or Generator, default 0
        Root of the seeds of the cells.
    level : float, default 0.95
        Confidence of the Wilson intervals in columns `low` and `high`.
    executor : concurrent.futures.Executor, optional
        Runs the cells, in any number of workers; the table is the same without it.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    pandas.DataFrame
        A row for each cell, in the order of policies, budgets, epsilons; columns policy, budget,
        epsilon (NaN where it does not apply), trials, successes, success_rate, low, high, pulls
        (the largest number in any trial).

    Raises
    ------
    ValueError
        If the grid is empty, or any cell's arguments are out of range; before anything is run.
    """
    _check.whole(trials, "trials")
    cells = list(_cells(policies, instance, budgets, epsilons))
    if not cells:
        raise ValueError("policies, budgets and epsilons must not be empty")
    seeds = _check.seed_sequence(seed).spawn(len(cells))
    results: dict[int, Simulation] = {}
    with tqdm(total=len(cells), disable=not progress, unit="cell") as bar:
        for number, result in _results(cells, instance, trials, seeds, executor):
            results[number] = result
            bar.update()
    rows = [_row(cell, results[number], level) for number, cell in enumerate(cells)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def takes_epsilon(maker: Callable[..., Policy]) -> bool:
    """Return whether a maker of policies asks for `epsilon`, that is, whether it is private."""
    return "epsilon" in inspect.signature(maker).parameters


def _cells(
    policies: Mapping[str, Callable[..., Policy]],
    instance: Instance,
    budgets: Sequence[int],
    epsilons: Sequence[float],
) -> Iterator[Cell]:
    for name, maker in policies.items():
        for budget in budgets:
            if takes_epsilon(maker):
                for epsilon in epsilons:
                    policy = maker(instance.features, budget=budget, epsilon=epsilon)
                    yield Cell(name, budget, epsilon, policy)
            else:
                yield Cell(name, budget, float("nan"), maker(instance.features, budget=budget))


def _results(
    cells: Sequence[Cell],
    instance: Instance,
    trials: int,
    seeds: Sequence[np.random.SeedSequence],
    executor: Executor | None,
) -> Iterator[tuple[int, Simulation]]:
    """Yield the number and the result of each cell as it is finished."""
    if executor is None:
        for number, (cell, seed) in enumerate(zip(cells, seeds, strict=True)):
            yield number, simulate(cell.policy, instance, trials=trials, seed=seed)
        return
    futures: dict[Future[Simulation], int] = {
        executor.submit(simulate, cell.policy, instance, trials=trials, seed=seed): number
        for number, (cell, seed) in enumerate(zip(cells, seeds, strict=True))
    }
    for future in as_completed(futures):
        yield futures[future], future.result()


def _row(cell: Cell, result: Simulation, level: float) -> tuple[object, ...]:
    return (
        cell.name,
        cell.budget,
        cell.epsilon,
        result.trials,
        result.successes,
        result.success_rate,
        *result.interval(level),
        result.pulls,
    )
