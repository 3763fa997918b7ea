"""Grids of simulations: policies by budgets by epsilons, as one tidy table (Sec. 5).

Each cell has its own seed, spawned from that of the study, so its result does not depend on where
or in which order cells are run. Finished cells can be appended to a file, from which a study can be
resumed.
"""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dpbai import _check
from dpbai._check import Seed
from dpbai._describe import fingerprint, plain, restored
from dpbai._parallel import in_any_order
from dpbai.instance import Instance
from dpbai.phase import Policy
from dpbai.simulate import Simulation, simulate

if TYPE_CHECKING:
    import pandas as pd

_FORMAT, _VERSION = "dpbai study", 2


@dataclass(frozen=True)
class Cell:
    """One cell of a study: a named policy, its budget, and its epsilon (inf if it has none)."""

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
    within: float = 0.0,
    executor: Executor | None = None,
    path: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Simulate every policy at every budget and epsilon.

    Parameters
    ----------
    policies : mapping of str to callable
        Names, and callables that create a policy: `maker(features, budget=..., epsilon=...)`. A
        maker without the parameter `epsilon`, such as `ODLinBAI`, is run once per budget.
    instance : Instance
        Generates the rewards; its features are passed to the makers.
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
    within : float, default 0
        The largest gap of a recommended arm that column `within` counts as a success.
    executor : concurrent.futures.Executor, optional
        Runs the cells; the table is the same without it. Cells whose worker dies are run again in
        this process, with a `RuntimeWarning`.
    path : path-like, optional
        A file in which each finished cell is saved. If it holds cells of the same study, only the
        missing ones are run.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    pandas.DataFrame
        A row for each cell, in the order of policies, budgets, epsilons; columns policy, budget,
        epsilon (infinite for a policy without it), trials, successes, success_rate, low, high,
        pulls (the largest number in any trial), regret (mean gap of the recommended arm), within
        (share of recommended arms with a gap of at most `within`).

    Raises
    ------
    ValueError
        Before any run: if the grid is empty, an argument of a cell is out of range, or `path` is a
        file of another study.
    """
    _check.trials(trials)
    _check.proportion(level, "level")
    within = _check.non_negative(within, "within")
    _check.flag(progress, "progress")
    if executor is not None:
        _check.kind(executor, "executor", Executor)
    _check.kind(instance, "instance", Instance)
    _check.kind(policies, "policies", Mapping)
    if not all(map(callable, policies.values())):
        raise TypeError("policies must map names to callables that create policies")
    budgets = _check.sequence(budgets, "budgets")
    epsilons = _check.sequence(epsilons, "epsilons")
    cells = list(_cells(policies, instance, budgets, epsilons))
    if not cells:
        raise ValueError("policies, budgets and epsilons must not be empty")
    seeds = _check.seed_sequence(seed).spawn(len(cells))
    root = seeds[0].entropy, seeds[0].spawn_key
    decisive = cells, instance.features, instance.laws, instance.best, trials, root
    file = None if path is None else CellFile(path, fingerprint(decisive))
    results = file.read(len(cells), instance.arms, trials) if file else {}
    missing = [number for number in range(len(cells)) if number not in results]
    calls = [
        partial(simulate, cells[number].policy, instance, trials=trials, seed=seeds[number])
        for number in missing
    ]
    from tqdm.auto import tqdm  # slow to import, as pandas

    with tqdm(total=len(cells), initial=len(results), disable=not progress, unit="cell") as bar:
        for position, result in in_any_order(calls, executor):
            number = missing[position]
            results[number] = result
            if file:
                file.add(number, result)
            bar.update()
    rows = [_row(cell, results[number], level, within) for number, cell in enumerate(cells)]
    import pandas as pd

    return pd.DataFrame(rows)


def takes_epsilon(maker: Callable[..., Policy]) -> bool:
    """Return whether a maker of policies takes `epsilon`, as a parameter or in `**options`."""
    parameters = inspect.signature(maker).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    return "epsilon" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def _cells(
    policies: Mapping[str, Callable[..., Policy]],
    instance: Instance,
    budgets: Sequence[int],
    epsilons: Sequence[float],
) -> Iterator[Cell]:
    for (name, maker), budget in product(policies.items(), budgets):
        options = [{"epsilon": epsilon} for epsilon in epsilons] if takes_epsilon(maker) else [{}]
        for option in options:
            policy = maker(instance.features, budget=budget, **option)
            yield Cell(name, budget, float(option.get("epsilon", math.inf)), policy)


def _row(cell: Cell, result: Simulation, level: float, within: float) -> dict[str, object]:
    low, high = result.interval(level)
    return {
        "policy": cell.name,
        "budget": cell.budget,
        "epsilon": cell.epsilon,
        "trials": result.trials,
        "successes": result.successes,
        "success_rate": result.success_rate,
        "low": low,
        "high": high,
        "pulls": result.pulls,
        "regret": result.regret,
        "within": result.within(within),
    }


class CellFile:
    """A file of the finished cells of one study, one JSON line each, after a header.

    An incomplete last line is removed. A file with any other content is not changed, and raises
    `ValueError`. Processes that begin the same study at once each write a header; headers after the
    first are skipped.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path = _check.path(path, "path")
        header = {"format": _FORMAT, "version": _VERSION, "fingerprint": fingerprint}
        self._header = json.dumps(header) + "\n"
        if not self.path.exists() or not self.path.stat().st_size:
            self._append(self._header)

    def read(self, cells: int, arms: int, trials: int) -> dict[int, Simulation]:
        """Return the finished ones of the `cells`, by number."""
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        header, *lines = whole.decode(errors="replace").splitlines(keepends=True) or [""]
        if header != self._header:
            raise ValueError(
                f"path must be a new file, or a file of the same study (same policies, grid, "
                f"instance, trials and seed), but {self.path} is neither"
            )
        results = {}
        for number, line in enumerate(lines, start=2):
            try:
                parsed = json.loads(line)
                if isinstance(parsed, dict) and parsed["format"] == _FORMAT:
                    continue
                cell, described = parsed
                values = {key: restored(value) for key, value in described.items()}
                del values["class"]
                recommended = np.array(values.pop("recommended"), dtype=np.int64)
                values["gaps"] = np.array(values["gaps"], dtype=np.float64)
                result = Simulation(recommended=recommended, **values)
                fits = recommended.shape == result.gaps.shape == (arms,) and result.trials == trials
                if not fits or (recommended < 0).any() or cell not in range(cells):
                    raise ValueError
            except (ValueError, TypeError, KeyError, AttributeError):
                raise ValueError(
                    f"line {number} of {self.path} is damaged: delete this line, and its cell is "
                    "computed again"
                ) from None
            results[cell] = result
        if len(whole) < len(data):
            os.truncate(self.path, len(whole))
        return results

    def add(self, cell: int, result: Simulation) -> None:
        """Append one finished cell, and wait until it is on disk."""
        self._append(json.dumps([cell, plain(result)]) + "\n")

    def _append(self, line: str) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(line.encode())  # in one call, so that lines of two processes do not mix
            os.fsync(file.fileno())
