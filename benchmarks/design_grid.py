"""DPDesign against DP-BAI on a grid of instances, the worst cells first.

There are eleven families of arms, with one to three shapes each, T from the least budget of DP-BAI
to 10^5, epsilon from 0.05 to 10, and Bernoulli rewards. Cells that a few trials do not decide get
more trials. The script prints the worst cells, the mean difference for each family, and how often
each number of phases was chosen. If the last phase may pull any arms, `survivors` is the success
rate of the policy without that candidate.
"""

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean

import numpy as np
from timing import table

import dpbai

BUDGETS, EPSILONS = (0, 300, 1500, 10**5), (0.05, 0.2, 1, 10)  # 0: the least budget of DP-BAI
FEW, MANY = 300, 6000  # trials
DECIDED = 0.05  # lead after a few trials that needs no more trials


def scaled(arms: np.ndarray, theta: np.ndarray) -> dpbai.Instance:
    """Return arms with a constant feature, means scaled to [0.2, 0.8]."""
    means = arms @ theta
    slope = 0.6 / np.ptp(means)
    features = np.column_stack([np.ones(len(arms)), arms])
    theta = np.append(0.2 - slope * means.min(), slope * theta)
    return dpbai.Instance(features, theta, rewards=dpbai.Bernoulli)


def without_structure(means: np.ndarray) -> dpbai.Instance:
    """Return arms whose features are unit vectors, so that no arm is informative on another."""
    return dpbai.Instance(np.eye(len(means)), means, rewards=dpbai.Bernoulli)


def sec5(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:  # noqa: ARG001
    """Return the instance of Sec. 5 of the paper, with Bernoulli rewards."""
    paper = dpbai.synthetic(seed=rng)
    return dpbai.Instance(paper.features, paper.theta, rewards=dpbai.Bernoulli)


def uniform(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:
    """Draw features uniform on the cube; the best mean is 0.8, the next 0.7."""
    features, theta = rng.uniform(size=(arms, dimension)), np.full(dimension, 1 / dimension)
    features *= 0.7 / (features[1:] @ theta).max()
    features[0] = 0.8
    return dpbai.Instance(features, theta, rewards=dpbai.Bernoulli)


def sphere(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:
    """Draw unit vectors and a constant."""
    vectors = rng.normal(size=(arms, dimension - 1))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled(vectors, rng.normal(size=dimension - 1))


def correlated(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:
    """Draw normal features with correlations 0.9, 0.81, ..., and a constant."""
    order = np.arange(dimension - 1)
    factor = np.linalg.cholesky(0.9 ** abs(order[:, None] - order))
    return scaled(rng.normal(size=(arms, dimension - 1)) @ factor.T, rng.normal(size=dimension - 1))


def clustered(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:
    """Draw five clusters and a constant."""
    centres = rng.normal(size=(5, dimension - 1))
    vectors = centres[rng.integers(5, size=arms)]
    vectors += rng.normal(scale=0.15, size=(arms, dimension - 1))
    return scaled(vectors, rng.normal(size=dimension - 1))


def one_hot(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:
    """Cross two one-hot factors, with a constant; the rank is the number of levels minus one."""
    first = dimension // 2
    second = arms // first
    levels = np.kron(np.eye(first), np.ones((second, 1))), np.tile(np.eye(second), (first, 1))
    return scaled(np.hstack(levels), rng.uniform(size=first + second))


def spread(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:  # noqa: ARG001
    """Return arms without structure, means from 0.7 down to 0.3."""
    return without_structure(np.linspace(0.7, 0.3, arms))


def close_second(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:  # noqa: ARG001
    """Return arms without structure, with means 0.6, 0.55 and otherwise 0.3."""
    return without_structure(np.array([0.6, 0.55, *[0.3] * (arms - 2)]))


def equal_seconds(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:  # noqa: ARG001
    """Return arms without structure, with one mean 0.6 and all others 0.5."""
    return without_structure(np.array([0.6, *[0.5] * (arms - 1)]))


def shelf(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:
    """Return arms with normal features, one mean 0.65 and all others 0.5."""
    vectors = rng.normal(size=(arms, dimension - 1))
    vectors[:, 0] = 0
    vectors[0, 0] = 1
    theta = np.array([0.5, 0.15, *[0.0] * (dimension - 2)])
    features = np.column_stack([np.ones(arms), vectors])
    return dpbai.Instance(features, theta, rewards=dpbai.Bernoulli)


def non_negative(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:
    """Draw unit vectors with non-negative entries, all means at least 0.1 below the best."""
    vectors = np.abs(rng.normal(size=(12 * arms, dimension)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    best = vectors[0]
    others = vectors[vectors @ best <= 1 - 0.1 / 0.9][: arms - 1]
    return dpbai.Instance(np.vstack([best, others]), 0.9 * best, rewards=dpbai.Bernoulli)


SHAPES: dict[Callable[..., dpbai.Instance], list[tuple[int, int]]] = {
    sec5: [(30, 2)],
    uniform: [(30, 3), (200, 6), (60, 12)],
    sphere: [(30, 3), (100, 5), (60, 9)],
    correlated: [(40, 4), (300, 8)],
    clustered: [(50, 4), (200, 8)],
    one_hot: [(12, 6), (36, 12)],
    spread: [(4, 4), (8, 8), (12, 12)],
    close_second: [(3, 3), (6, 6), (12, 12)],
    equal_seconds: [(3, 3), (6, 6), (12, 12)],
    shelf: [(30, 3), (100, 6)],
    non_negative: [(60, 2), (300, 4), (1000, 6)],
}


class Survivors(dpbai.DPDesign):
    """DPDesign whose phases pull only active arms."""

    _anywhere = 0.0


Cell = tuple[Callable[..., dpbai.Instance], int, int, int, float]


def least(features: np.ndarray) -> int:
    """Return the least budget of DP-BAI."""
    try:
        dpbai.DPBAI(features, budget=1, epsilon=1)
    except ValueError as error:
        return int(re.findall(r"at least (\d+)", str(error))[0])
    return 1


def run(cell: Cell, seed: int = 0) -> tuple[object, ...]:
    """Return success rates of the policies on one cell, and the number of phases."""
    family, arms, dimension, budget, epsilon = cell
    instance = family(arms, dimension, np.random.default_rng(seed))
    budget = max(budget, least(instance.features))
    theirs = dpbai.DPBAI(instance.features, budget=budget, epsilon=epsilon)
    ours = dpbai.DPDesign(instance.features, budget=budget, epsilon=epsilon, misfit=0)
    for trials in (FEW, MANY):
        a, b = (
            dpbai.simulate(policy, instance, trials=trials, seed=seed + trials)
            for policy in (ours, theirs)
        )
        lead = a.success_rate - b.success_rate
        if lead > DECIDED or a.interval(0.999)[0] > b.interval(0.999)[1]:
            break
    survivors = None
    if ours.timetable.anywhere:
        given = {"budget": budget, "epsilon": epsilon, "misfit": 0}
        trials, seed = MANY, seed + MANY
        a, b, c = (
            dpbai.simulate(policy, instance, trials=trials, seed=seed)
            for policy in (ours, theirs, Survivors(instance.features, **given))
        )
        lead, survivors = a.success_rate - b.success_rate, c.success_rate
    about = (family.__name__, arms, dimension, budget, epsilon)
    return lead, *about, a.success_rate, b.success_rate, survivors, len(ours.timetable.pulls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=9, help="run only every n-th cell, default 9")
    parser.add_argument("--seed", type=int, default=0, help="which draw of the instances")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--csv", help="file for all cells: `book/data/design_grid.csv`")
    arguments = parser.parse_args()
    cells = [
        (family, *shape, budget, epsilon)
        for family, shapes in SHAPES.items()
        for shape in shapes
        for budget in BUDGETS
        for epsilon in EPSILONS
    ][:: arguments.every]
    with ProcessPoolExecutor(arguments.workers) as pool:
        rows = []
        for row in pool.map(run, cells, [arguments.seed] * len(cells)):
            rows.append(row)
            print(*row, file=sys.stderr, flush=True)
    rows.sort(key=lambda row: row[0])
    header = ("lead", "family", "K", "d", "T", "epsilon")
    header += ("DP-Design", "DP-BAI", "survivors", "phases")
    if arguments.csv:
        with Path(arguments.csv).open("w", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(header)
            for lead, *cell, ours, theirs, survivors, phases in rows:
                rates = [
                    "" if rate is None else f"{rate:.4f}" for rate in (ours, theirs, survivors)
                ]
                lines.writerow([f"{lead:.4f}", *cell, *rates, phases])
    print(f"{len(rows)} cells; the worst:")
    table(header, rows[:12])
    print(f"\nworse by more than 0.01: {sum(row[0] < -0.01 for row in rows)} cells; ", end="")
    print(f"phases chosen: {dict(sorted(Counter(row[-1] for row in rows).items()))}\n")
    names = dict.fromkeys(row[1] for row in rows)
    table(("family", "mean lead"), [(n, mean(r[0] for r in rows if r[1] == n)) for n in names])


if __name__ == "__main__":
    main()
