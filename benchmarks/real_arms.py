"""Success and loss of policies on arms whose means are real, or synthetic and not linear.

Real arms are those of `book/data/reactions.csv` and `lectures.csv` (`book/data/README.md` has the
sources); the full table is taken as the truth. Synthetic tables have linear means between 0.2 and
0.8 plus deviations with standard deviation tau, which are drawn for each table; no policy knows
tau. The policies are DPDesign with its default misfit, with other misfits including 0 and infinity,
and DP-BAI.

Prints a row for each policy and cell, as comma-separated values. `half` is half the width of the
95 % interval of the success rate. `book/data/misfit.csv` holds the rows for the reactions and for
synthetic tables, the latter without those of misfit 0.06.
"""

import argparse
import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from pathlib import Path

import numpy as np
from design_grid import correlated, one_hot, scaled, sphere

import dpbai

DATA = Path(__file__).parents[1] / "book" / "data"
# Whether each feature is a number, and the answers from the worst to the best.
REAL = {
    "reactions": ({"behaviour": False, "scene": False, "mode": False}, "no perhaps yes"),
    "lectures": ({"department": False, "service": False, "age": True}, "1 2 3 4 5"),
}
CELLS = ((500, 1), (2000, 0.1), (2000, 1), (10_000, 0.1), (10_000, 1))
POLICIES = {
    "DP-Design": dpbai.DPDesign,
    **{f"misfit {tau}": partial(dpbai.DPDesign, misfit=tau) for tau in (0, 0.04, 0.06)},
    "one-hot": partial(dpbai.DPDesign, misfit=inf),
    "DP-BAI": dpbai.DPBAI,
}


def uniform(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:
    """Draw features uniform on the cube, and a constant."""
    return scaled(rng.uniform(size=(arms, dimension - 1)), rng.normal(size=dimension - 1))


FAMILIES: dict[str, tuple[Callable[..., dpbai.Instance], int, int]] = {
    "uniform": (uniform, 30, 4),
    "sphere": (sphere, 40, 4),
    "one-hot": (one_hot, 24, 10),
    "correlated": (correlated, 60, 6),
}
HEADER = ("source", "tau", "budget", "epsilon", "policy", "success_rate", "half", "loss")


def real(name: str) -> dpbai.Instance:
    """Return the arms of a table, with dummy variables for features that are not numbers."""
    numbers, answers = REAL[name]
    with (DATA / f"{name}.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    columns = [[1.0] * len(rows)]
    for feature, number in numbers.items():
        values = [row[feature] for row in rows]
        if number:
            columns.append([float(value) for value in values])
        else:
            columns += [[float(v == word) for v in values] for word in sorted(set(values))[1:]]
    words = answers.split()
    rewards = np.linspace(0, 1, len(words))
    laws = [dpbai.Empirical(rewards, [float(row[word]) for word in words]) for row in rows]
    return dpbai.Instance(np.array(columns).T, rewards=laws)


@dataclass(frozen=True)
class Source:
    """Tables of arms; `groups` are lists of instances with the same features."""

    groups: list[list[dpbai.Instance]]

    def losses(
        self, make: Callable[..., dpbai.Policy], budget: int, epsilon: float, trials: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return success and mean loss on each table."""
        runs = []
        for group in self.groups:
            policy = make(group[0].features, budget=budget, epsilon=epsilon)
            seeds = range(len(runs), len(runs) + len(group))
            runs += [
                dpbai.simulate(policy, instance, trials=trials, seed=seed)
                for seed, instance in zip(seeds, group, strict=True)
            ]
        return tuple(np.array([(run.within(1e-9), run.regret) for run in runs]).T)


def synthetic(family: str, tau: float, groups: int, tables: int, seed: int) -> Source:
    """Return tables with means that are not linear, clipped to [0, 1]."""
    make, arms, dimension = FAMILIES[family]
    source = []
    for group in range(groups):
        features = make(arms, dimension, np.random.default_rng([seed, group])).features
        source.append([])
        for number in range(tables):
            rng = np.random.default_rng([seed, group, number])
            linear = scaled(features[:, 1:], rng.normal(size=features.shape[1] - 1))
            means = (linear.means + tau * rng.standard_normal(len(features))).clip(0, 1).tolist()
            laws = [dpbai.Bernoulli(mean) for mean in means]
            source[-1].append(dpbai.Instance(linear.features, rewards=laws, unique=False))
    return Source(source)


def compared(name: str, tau: float, source: Source, cell: tuple[int, float], trials: int) -> None:
    """Print a row for each policy."""
    for policy, make in POLICIES.items():
        success, loss = source.losses(make, *cell, trials)
        rate = success.mean()
        if len(success) > 1:
            error = success.std(ddof=1) / len(success) ** 0.5
        else:  # over the trials on one table
            error = (rate * (1 - rate) / trials) ** 0.5
        row = [name, tau, *cell, policy]
        row += [f"{number:.4f}" for number in (rate, 1.96 * error, loss.mean())]
        csv.writer(sys.stdout, lineterminator="\n").writerow(row)
    sys.stdout.flush()


def main() -> None:
    """Print the rows for real arms or for synthetic tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", choices=[*REAL, *FAMILIES])
    parser.add_argument("tau", nargs="*", type=float, default=[0, 0.02, 0.05, 0.1])
    parser.add_argument("--trials", type=int, help="per table; default: 1000, or 50 if synthetic")
    parser.add_argument("--groups", type=int, default=1, help="draws of features")
    parser.add_argument("--tables", type=int, default=10, help="tables for each draw of features")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    csv.writer(sys.stdout, lineterminator="\n").writerow(HEADER)
    for cell in CELLS:
        if given.source in REAL:
            table = Source([[real(given.source)]])
            compared(given.source, nan, table, cell, given.trials or 1000)
            continue
        for tau in given.tau:
            source = synthetic(given.source, tau, given.groups, given.tables, given.seed)
            compared(given.source, tau, source, cell, given.trials or 50)


if __name__ == "__main__":
    main()
